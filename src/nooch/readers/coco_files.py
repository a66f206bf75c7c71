"""COCO annotation files of any size -> rows on disk by image id, a range of bytes by each worker.

Workers begin where an element seems to begin (see ``nooch.readers.json_ranges``). A range whose worker did not begin where
the range before ended is read again from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from nooch.errors import InputError
from nooch.readers.coco_json import opened
from nooch.readers.coco_scan import HERE, SLICE, HashJob, Piece, RangeJob, Scan
from nooch.readers.coco_structure import Captions, Instances, categories_of, decode, no_image
from nooch.readers.json_ranges import BEGIN, State
from nooch.shared_types import Map, StepProgress, no_progress

__all__ = ["RANGE", "Annotated", "ScannedFile", "scan_files"]

RANGE = 1 << 26
"""Bytes of a file that one job reads."""


@dataclass(frozen=True)
class Annotated:
    """Rows of annotations on disk; the first is number ``first`` in the file; ``masks`` are of those without area."""

    stem: str
    first: int
    masks: str


@dataclass(frozen=True)
class ScannedFile:
    """A file's rows on disk, and what else it says.

    Attributes:
        role: things, stuff or captions.
        path: as it was given.
        folder: where rows lie.
        images: stems of spills of images.
        annotations: spills of annotations, in the order of the file.
        categories: id -> name as the file spells it.
        licenses: what the file says of them.
        source: its name, size and hash.
    """

    role: str
    path: Path
    folder: Path
    images: list[str]
    annotations: list[Annotated]
    categories: dict[int, str]
    licenses: list[dict[str, Any]]
    source: dict[str, Any]

    @property
    def name(self) -> str:
        """Of the file, for messages."""
        return self.path.name


def scan_files(
    files: Iterable[tuple[str, Path]],
    folder: Path,
    *,
    map: Map,
    range_size: int = RANGE,
    slice_size: int = SLICE,
    progress: StepProgress = no_progress,
) -> list[ScannedFile]:
    """Scan files, each given with its role; what a folder holds of an earlier scan is not done again.

    Raises:
        InputError: a file that cannot be read, is truncated or of another structure, or lists no image.
    """
    chains = [
        _Chain(RangeJob(role, path.absolute(), number, folder, 0, 0, slice=slice_size), path, range_size)
        for number, (role, path) in enumerate(files)
    ]
    jobs: list[_Job] = [HashJob(chain.job.path, chain.job.number, folder) for chain in chains]
    jobs += [job for chain in chains for job in chain.ranges]
    done = 0
    while jobs:
        total = done + len(jobs)
        progress(done, total)
        for job, found in _results(jobs, map):
            chains[job.number].take(job, found)
            done += 1
            progress(done, total)
        # ranges that were begun in the wrong place: one of each file at a time, since each says where the next begins
        jobs = [again for chain in chains if (again := chain.advance()) is not None]
    return [chain.file() for chain in chains]


_Job = RangeJob | HashJob


def _do(job: _Job) -> Any:
    return job.do()


def _results(jobs: list[_Job], map: Map) -> Iterator[tuple[_Job, Any]]:
    """Jobs and what came of them: those done before, then the others, in order."""
    done = [job.kept.is_file() for job in jobs]
    yield from ((job, job.do()) for job, before in zip(jobs, done, strict=True) if before)
    waiting = [job for job, before in zip(jobs, done, strict=True) if not before]
    yield from zip(waiting, map(_do, waiting), strict=True)


class _Chain:
    """The ranges of a file, and how far they fit together from its beginning."""

    def __init__(self, job: RangeJob, path: Path, size: int) -> None:
        with opened(path) as content:
            length = len(content)
        begins = range(0, length, size)
        # behind the last byte: there the document must be at its end
        stops = [min(begin + size, length) if begin + size < length else length + 1 for begin in begins]
        self.job, self.ranges = job, [replace(job, begin=b, stop=s) for b, s in zip(begins, stops, strict=True)]
        self.ranges[0] = replace(self.ranges[0], state=BEGIN)
        self._path, self._state, self._next = path, BEGIN, 0
        self._found: dict[tuple[int, State | None], Scan] = {}
        self._pieces: list[Piece] = []
        self._source: dict[str, Any] = {}

    def take(self, job: _Job, found: Any) -> None:
        if isinstance(job, HashJob):
            self._source = found
        elif found.start is not None:
            self._found[job.begin, found.start] = found

    def advance(self) -> RangeJob | None:
        """The range that is to be read from another place than was guessed; None where all fit. Raises InputError."""
        while self._state.place != "end":
            job = self.ranges[self._next]
            if self._state.position < job.stop:
                found = self._found.pop((job.begin, self._state), None)
                if found is None:
                    return replace(job, state=self._state)
                self._accept(found)
            self._next += 1
        return None

    def _accept(self, found: Scan) -> None:
        self._pieces += found.pieces
        if problem := found.problem:
            text = problem.text
            if problem.number is not None:
                # the last piece is the one that is broken
                whole = _members(self._pieces)[self._pieces[-1].key]
                text = text.replace(HERE, str(sum(piece.rows for piece in whole[:-1]) + problem.number))
            raise InputError(text, where=self._path, allowed=problem.allowed, remedy=problem.remedy)
        self._state = found.end or self._state

    def file(self) -> ScannedFile:
        """The whole file, once all ranges fit together. Raises InputError."""
        members = _members(self._pieces)
        # also of members that are given again: what is read in one piece is checked whole
        texts = [(msgspec.json.encode(piece.key), piece.text or b"[]") for piece in self._pieces if piece.begins]
        kind = Captions if self.job.role == "captions" else Instances
        # what was read as rows is left out: this is what else the file says, and that it says all it must
        rest: Any = decode(b"{%s}" % b",".join(b"%s:%s" % pair for pair in texts), kind, self._path)
        images = [piece.stem for piece in members["images"] if piece.rows]
        if not images:
            raise no_image(self._path)
        annotated, first = [], 0
        for piece in members["annotations"]:
            annotated += [Annotated(piece.stem, first, piece.masks)] if piece.rows else []
            first += piece.rows
        said = isinstance(rest, Instances)
        return ScannedFile(
            self.job.role,
            self._path,
            self.job.folder,
            images,
            annotated,
            categories_of(rest.categories, self._path) if said else {},
            (rest.licenses or []) if said else [],
            {"role": self.job.role, **self._source},
        )


def _members(pieces: Sequence[Piece]) -> dict[str, list[Piece]]:
    """Key -> its pieces, those of the last member where there are several, as JSON is read."""
    found: dict[str, list[Piece]] = {}
    for piece in pieces:
        if piece.begins:
            found[piece.key] = [piece]
        else:
            found[piece.key].append(piece)
    return found
