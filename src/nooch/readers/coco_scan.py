"""A range of bytes of a COCO annotation file -> rows on disk by image id: what one worker does with a large file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.errors import InputError
from nooch.files import replace_file
from nooch.readers.coco_json import opened, source_of
from nooch.readers.coco_structure import (
    STRUCTURE,
    TOO_DEEP,
    Annotation,
    Caption,
    Image,
    annotation_columns,
    caption_columns,
    image_columns,
)
from nooch.readers.json_ranges import Begun, Broken, Elements, State, Value, Walk, guess
from nooch.readers.spills import write_spill

__all__ = ["HERE", "SLICE", "HashJob", "Piece", "Problem", "RangeJob", "Scan"]

SLICE = 1 << 20
"""Bytes that are decoded at once."""

_VALUES = ("categories", "licenses")
HERE = "\0"


class Piece(msgspec.Struct):
    """Rows of an array, or the text of another member; ``begins`` where it is not the rest of the piece before."""

    key: str
    begins: bool
    rows: int = 0
    stem: str = ""
    masks: str = ""
    text: bytes | None = None


class Problem(msgspec.Struct):
    """What is wrong; ``HERE`` in the text stands for the number of an element, counted from the piece's first."""

    text: str
    allowed: str | None
    remedy: str | None
    number: int | None = None


class Scan(msgspec.Struct):
    """What was found between two states; ``start`` is None where no element seemed to begin."""

    start: State | None = None
    end: State | None = None
    pieces: list[Piece] = []
    problem: Problem | None = None


@dataclass(frozen=True)
class RangeJob:
    """A range of a file to scan.

    Attributes:
        role: things, stuff or captions.
        path: of the file, absolute.
        number: of the file, to name what is written by.
        folder: where to write.
        begin, stop: the range; what begins before ``stop`` is read to its end.
        state: where to begin, if it is known.
        slice: bytes that are decoded at once.
    """

    role: str
    path: Path
    number: int
    folder: Path
    begin: int
    stop: int
    state: State | None = None
    slice: int = SLICE

    @property
    def kept(self) -> Path:
        """The file of what was found."""
        state = self.state
        known = "" if state is None else blake3(msgspec.json.encode(state)).hexdigest(8)
        return self.folder / f"scan-{self.number}-{self.begin:012x}-{known or 'guess'}.msgpack"

    @property
    def arrays(self) -> dict[str, type]:
        """The arrays that are wanted. An element is first taken for an annotation: images need only an id."""
        return {"annotations": Caption if self.role == "captions" else Annotation, "images": Image}

    def do(self) -> Scan:
        """Scan the range, unless that was done before."""
        if self.kept.is_file():
            return msgspec.msgpack.decode(self.kept.read_bytes(), type=Scan)
        with opened(self.path) as content:
            state = self.state or guess(content, self.begin, self.arrays)
            found = Scan() if state is None else _scanned(self, content, state)
        replace_file(self.kept, msgspec.msgpack.encode(found))
        return found


@dataclass(frozen=True)
class HashJob:
    """Name, size and hash of a file, for the provenance. The attributes are those of a ``RangeJob``."""

    path: Path
    number: int
    folder: Path

    @property
    def kept(self) -> Path:
        """The file of what was found."""
        return self.folder / f"source-{self.number}.msgpack"

    def do(self) -> dict[str, Any]:
        """Read the whole file, unless that was done before."""
        if self.kept.is_file():
            known: dict[str, Any] = msgspec.msgpack.decode(self.kept.read_bytes())
            return known
        found = source_of(self.path)
        replace_file(self.kept, msgspec.msgpack.encode(found))
        return found


def _scanned(job: RangeJob, content: Any, state: State) -> Scan:
    walk = Walk(content, state, job.arrays, _VALUES, job.slice)
    pieces, problem = _Pieces(job), None
    if state.place == "element" and state.key in job.arrays:
        pieces.open(state.key, begins=False)
    try:
        for found in walk.until(job.stop):
            pieces.add(found)
    except Broken as error:
        problem = _told(error, pieces.n_rows)
    except InputError as error:
        problem = Problem(error.problem, error.allowed, error.remedy)
    except RecursionError:
        problem = Problem(TOO_DEEP, STRUCTURE, None)
    pieces.close()
    return Scan(state, walk.state, pieces.done, problem)


def _told(error: Broken, before: int) -> Problem:
    if error.is_json:
        remedy = "fetch or export the file again; JSON has no NaN or Infinity"
        return Problem(f"is no valid JSON: {error.text}", None, remedy)
    text, number = error.text, None
    if error.element is not None:
        text = text.replace(f"`$[{error.element}]", f"`$.{error.key}[{HERE}]")
        number = before + error.element
    return Problem(f"is not COCO's structure: {text}", STRUCTURE, None, number)


class _Pieces:
    """The pieces of a range, the last of them in memory."""

    def __init__(self, job: RangeJob) -> None:
        self.done: list[Piece] = []
        self.n_rows = 0
        self._job, self._open, self._texts_only = job, "", job.role == "captions"
        self._begins = False
        self._columns: list[tuple[NDArray[Any], ...]] = []
        self._texts: list[bytes | None] = []
        self._masks: list[tuple[int, int, bytes]] = []

    def open(self, key: str, *, begins: bool) -> None:
        self.close()
        self._open, self._begins = key, begins

    def close(self) -> None:
        if self._open:
            self.done.append(self._written())
        self._open, self._columns, self._texts, self._masks, self.n_rows = "", [], [], [], 0

    def add(self, found: Begun | Elements | Value) -> None:
        if isinstance(found, Begun):
            self.open(found.key, begins=True)
        elif isinstance(found, Value):
            self.close()
            self.done.append(Piece(found.key, begins=True, text=found.text))
        else:
            take = self._images if found.key == "images" else self._captions if self._texts_only else self._annotations
            take(found)
            self.n_rows += len(found.records)

    def _images(self, found: Elements) -> None:
        ids, widths, heights, names = image_columns(found.records, self._job.path)
        self._columns.append((ids, widths, heights))
        self._texts += [None if name is None else name.encode() for name in names]

    def _captions(self, found: Elements) -> None:
        ids, texts = caption_columns(found.records, self._job.path)
        self._columns.append((ids, self._numbers(len(ids))))
        self._texts += [text.encode() for text in texts]

    def _annotations(self, found: Elements) -> None:
        ids, categories, areas = annotation_columns(found.records, self._job.path)
        numbers = self._numbers(len(ids))
        self._columns.append((ids, numbers, categories, areas))
        if len(bare := np.flatnonzero(np.isnan(areas))):
            masks = msgspec.json.decode(found.text, type=list[_RawMask])
            self._masks += [(int(ids[row]), int(numbers[row]), bytes(masks[row].segmentation)) for row in bare.tolist()]

    def _numbers(self, n: int) -> NDArray[np.int32]:
        return np.arange(self.n_rows, self.n_rows + n, dtype=np.int32)

    def _written(self) -> Piece:
        piece = Piece(self._open, self._begins, self.n_rows)
        if not self.n_rows:
            return piece
        piece.stem = f"{self._job.kept.stem}-{len(self.done)}"
        names = _IMAGES if self._open == "images" else _CAPTIONS if self._texts_only else _ANNOTATIONS
        columns: dict[str, NDArray[Any]] = {}
        for name, parts in zip(names, zip(*self._columns, strict=True), strict=True):
            columns[name] = np.concatenate(parts)
        has_texts = self._open == "images" or self._texts_only
        write_spill(self._job.folder / piece.stem, columns, self._texts if has_texts else None)
        if self._masks:
            piece.masks = f"{piece.stem}-masks"
            ids, numbers, texts = zip(*self._masks, strict=True)
            found: dict[str, NDArray[Any]] = {"id": np.array(ids, np.int64), "number": np.array(numbers, np.int32)}
            write_spill(self._job.folder / piece.masks, found, texts)
        return piece


class _RawMask(msgspec.Struct, gc=False):
    segmentation: msgspec.Raw = msgspec.Raw(b"null")


_IMAGES = ("id", "width", "height")
_ANNOTATIONS = ("id", "number", "category", "area")
_CAPTIONS = ("id", "number")
