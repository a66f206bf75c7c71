"""COCO files of any size -> rows on disk by image id, a slice per job; and back, by id range."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.base.calls import Map, StepProgress
from nooch.base.disk import sync
from nooch.base.errors import InputError
from nooch.base.limits import BROKEN_JSON
from nooch.data.readers.coco.decoder import Cut, Document, opened, slice_text
from nooch.data.readers.coco.structure import (
    STRUCTURE,
    Annotation,
    Caption,
    Captions,
    Image,
    Instances,
    ParsedFile,
    annotation_columns,
    caption_columns,
    captions_of,
    categories_of,
    checked_images,
    fill_areas,
    image_columns,
    instances_of,
    look_up,
)
from nooch.data.readers.jobs import JobRunner, ResumableJob, map_for

_BLOCK = 1024
"""Texts that are decoded at once."""

_TEXTS = msgspec.msgpack.Decoder(list[str | None])


def write_rows(
    stem: Path,
    kind: np.dtype[Any],
    columns: Sequence[NDArray[Any]],
    texts: Sequence[str | None] | None = None,
) -> None:
    """Write rows of columns (n,), first ``id``, as ``stem`` with endings, and sync them; rows with
    the same id keep their order. Texts are one for each row, or None; without any there are none.
    """
    order = np.argsort(columns[0], kind="stable")
    rows = np.empty(len(order), kind)
    for name, values in zip(kind.names or (), columns, strict=True):
        rows[name] = values[order]
    stem.with_suffix(".rows").write_bytes(rows.data)
    sync(stem.with_suffix(".rows"))
    if texts is not None:
        ordered = [texts[row] for row in order.tolist()]
        blocks = [
            msgspec.msgpack.encode(ordered[k : k + _BLOCK]) for k in range(0, len(ordered), _BLOCK)
        ]
        ends = np.cumsum([0, *map(len, blocks)])
        stem.with_suffix(".texts").write_bytes(b"".join((ends.tobytes(), *blocks)))
        sync(stem.with_suffix(".texts"))


def read_ids(stem: Path, kind: np.dtype[Any]) -> NDArray[np.int64]:
    """The ids of all rows, ascending: int64 (n,)."""
    return np.array(np.memmap(stem.with_suffix(".rows"), kind, mode="r")["id"])


def read_rows(
    stem: Path, kind: np.dtype[Any], low: int | None, high: int | None
) -> tuple[NDArray[Any], list[str | None]]:
    """Rows with ``low <= id < high`` (None: no end), by id; and their texts, if any."""
    mapped = np.memmap(stem.with_suffix(".rows"), kind, mode="r")
    ids = mapped["id"]
    first = 0 if low is None else bisect_left(ids, low)
    rows = np.array(mapped[first : len(ids) if high is None else bisect_left(ids, high, first)])
    texts = stem.with_suffix(".texts")
    return rows, _texts(texts, len(ids), first, len(rows)) if len(rows) and texts.is_file() else []


def _texts(file: Path, n_rows: int, first: int, count: int) -> list[str | None]:
    block, last = first // _BLOCK, (first + count - 1) // _BLOCK + 1
    ends = np.memmap(file, np.int64, mode="r", shape=(-(-n_rows // _BLOCK) + 1,))
    begins = (ends[block : last + 1] + ends.nbytes).tolist()
    with file.open("rb") as content:
        content.seek(begins[0])
        sizes = (end - begin for begin, end in pairwise(begins))
        decoded = [*chain.from_iterable(_TEXTS.decode(content.read(size)) for size in sizes)]
    skipped = first - block * _BLOCK
    return decoded[skipped : skipped + count]


_IMAGE = np.dtype([("id", "<i8"), ("width", "<f8"), ("height", "<f8")])
_CAPTION = np.dtype([("id", "<i8"), ("number", "<i8")])
_ANNOTATION = np.dtype([("id", "<i8"), ("number", "<i8"), ("category", "<i8"), ("area", "<f8")])
"""Texts are names of images, captions, and the segmentations of annotations without area."""


class _Mask(msgspec.Struct, gc=False):
    segmentation: msgspec.Raw = msgspec.Raw(b"null")


class SliceResult(msgspec.Struct):
    """What came of a slice: its number of rows; or that a value in it is refused."""

    n: int
    refused: bool = False

    def __len__(self) -> int:
        return self.n


@dataclass(frozen=True)
class SliceJob(ResumableJob):
    """Decode a slice of the images or annotations of a file, and write it as rows.

    Attributes:
        role: things, stuff or captions.
        path: of the file, absolute.
        stem: path of what is written, without ending.
        key: of the array.
        start: byte of its first element.
        stop: byte behind its last element.
    """

    result_type: ClassVar[Any] = SliceResult | None
    role: str
    path: Path
    stem: Path
    key: str
    start: int
    stop: int

    @property
    def result_file(self) -> Path:
        """Next to the rows."""
        return self.stem.with_suffix(".msgpack")

    def make(self) -> SliceResult | None:
        """Write the rows; None where the slice does not decode as an array."""
        try:
            return self.write()
        except BROKEN_JSON:
            return None
        except InputError:
            return SliceResult(0, refused=True)

    def write(self) -> SliceResult:
        """Write the rows. Raises a decoder's errors, and InputError for refused values."""
        with opened(self.path) as content:
            text = slice_text(content, self.start, self.stop)
        if self.key == "images":
            *columns, names = image_columns(msgspec.json.decode(text, type=list[Image]), self.path)
            # names of images that only captions list are not used
            return self._written(_IMAGE, columns, None if self.role == "captions" else names)
        if self.role == "captions":
            records = msgspec.json.decode(text, type=list[Caption])
            ids, captions = caption_columns(records, self.path)
            return self._written(_CAPTION, (ids, np.arange(len(ids))), captions)
        ids, categories, areas = annotation_columns(
            msgspec.json.decode(text, type=list[Annotation]), self.path
        )
        masks = None
        if (bare := np.isnan(areas)).any():
            segmentations = msgspec.json.decode(text, type=list[_Mask])
            masks = [
                bytes(mask.segmentation).decode() if b else None
                for mask, b in zip(segmentations, bare, strict=True)
            ]
        return self._written(_ANNOTATION, (ids, np.arange(len(ids)), categories, areas), masks)

    def _written(
        self,
        kind: np.dtype[Any],
        columns: Sequence[NDArray[Any]],
        texts: Sequence[str | None] | None,
    ) -> SliceResult:
        write_rows(self.stem, kind, columns, texts)
        return SliceResult(len(columns[0]))


@dataclass(frozen=True)
class SourceJob(ResumableJob):
    """Describe a file for the provenance; the attributes are those of a ``SliceJob``."""

    result_type: ClassVar[Any] = dict[str, Any]
    path: Path
    stem: Path

    @property
    def result_file(self) -> Path:
        """The description."""
        return self.stem.with_suffix(".msgpack")

    def make(self) -> dict[str, Any]:
        """Name, size and hash."""
        return source_of(self.path)


def source_of(path: Path) -> dict[str, Any]:
    """Name, size and hash of a file, for the provenance."""
    # BLAKE3, because SHA-256 of a gigabyte would be a quarter of an import's work
    with opened(path) as content, path.open("rb") as file:
        digest = hashlib.file_digest(file, blake3)  # type: ignore[arg-type]
        return {"file": path.name, "bytes": len(content), "blake3": digest.hexdigest()}


@dataclass(frozen=True)
class SliceRows:
    """Rows of one slice on disk; the first is number ``first`` of the array."""

    stem: Path
    first: int


@dataclass(frozen=True)
class ScannedFile:
    """A file's rows on disk, and its other content.

    Attributes:
        role: things, stuff or captions.
        path: as it was given.
        images: rows of images.
        annotations: rows of annotations, in the order of the file.
        categories: id -> name as the file spells it.
        licenses: what the file says of them.
        source: its name, size and hash.
    """

    role: str
    path: Path
    images: list[SliceRows]
    annotations: list[SliceRows]
    categories: dict[int, str]
    licenses: list[dict[str, Any]]
    source: dict[str, Any]

    @property
    def name(self) -> str:
        """Of the file, for messages."""
        return self.path.name

    def ids(self) -> NDArray[np.int64]:
        """Ids of all images: int64 (n_images,)."""
        return np.concatenate([read_ids(part.stem, _IMAGE) for part in self.images])

    def read(self, low: int | None, high: int | None) -> ParsedFile:
        """The content for images with ``low <= id < high``. Raises InputError for bad values."""
        images = self._images(low, high)
        slices = [self._annotations(part, images, low, high) for part in self.annotations]
        rows = [np.empty(0, self._kind), *(rows for rows, _ in slices)]
        columns = {k: np.concatenate([some[k] for some in rows]) for k in self._kind.names or ()}
        ids, numbers = columns["id"], columns["number"]
        if self.role == "captions":
            texts = [*chain.from_iterable(texts for _, texts in slices)]
            return captions_of(self.path, images, ids, texts, numbers)
        categories, areas = columns["category"], columns["area"]
        return instances_of(
            self.path, images, ids, categories, areas, self.categories, self.licenses, numbers
        )

    @property
    def _kind(self) -> np.dtype[Any]:
        return _CAPTION if self.role == "captions" else _ANNOTATION

    def _images(self, low: int | None, high: int | None) -> dict[str, Any]:
        parts = [read_rows(part.stem, _IMAGE, low, high) for part in self.images]
        rows = np.concatenate([rows for rows, _ in parts])
        names = [*chain.from_iterable(texts for _, texts in parts)]
        order = np.argsort(rows["id"], kind="stable")
        ids, widths, heights = (rows[name][order] for name in ("id", "width", "height"))
        ordered = [names[k] for k in order.tolist()] if names else []
        return checked_images(ids, widths, heights, ordered, self.path)

    def _annotations(
        self, part: SliceRows, images: dict[str, Any], low: int | None, high: int | None
    ) -> tuple[NDArray[Any], list[Any]]:
        """Rows of one slice, an image's in the order of the file; and the captions."""
        rows, texts = read_rows(part.stem, self._kind, low, high)
        rows["number"] += part.first
        if texts and self.role != "captions":
            rows["area"] = fill_areas(
                lambda row: msgspec.json.decode(texts[row] or "null"),
                rows["area"],
                look_up(rows["id"], images["image_ids"]),
                images,
                self.path,
                lambda row: int(rows["number"][row]),
            )
        return rows, texts


def scan_files(
    files: Sequence[tuple[str, Path]],
    folder: Path,
    slice_size: int,
    map: Map,
    progress: StepProgress,
) -> list[ScannedFile]:
    """Scan files, each given with its role; finished jobs in ``folder`` are not repeated. Raises
    InputError: a file that cannot be read, is truncated or of another structure, or lists no image.
    """
    scans = [
        _Scan(role, path, folder / f"file-{number}", slice_size)
        for number, (role, path) in enumerate(files)
    ]
    walks = [scan.walk() for scan in scans]
    runner = JobRunner(map_for([path for _, path in files], slice_size, _importing(map)), progress)
    # files are hashed while they are cut
    runner.run((scan.source for scan in scans), _next(walks))
    while jobs := [*_next(walks)]:
        runner.run(jobs)
    return [scan.file() for scan in scans]


def _next(walks: Sequence[Iterator[list[SliceJob]]]) -> Iterator[SliceJob]:
    return (job for walk in walks for job in next(walk, []))


def _importing(map: Map) -> Map:
    """A map that imports the module that merges rows, which takes a while, as its workers start."""

    def apply(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        results = map(function, items)
        import nooch.data.readers.coco.merge  # noqa: F401

        return results

    return apply


class _Scan:
    """The scan of one file; ``stem``: how the paths of what is written begin."""

    def __init__(self, role: str, path: Path, stem: Path, size: int) -> None:
        with opened(path):
            # a file that is no JSON is refused before jobs start
            self.source = SourceJob(path.absolute(), stem)
        self._role, self._path, self._stem, self._size = role, path, stem, size
        self._kind: type[Instances | Captions] = Captions if role == "captions" else Instances
        self._slices: dict[str, list[tuple[SliceJob, SliceResult]]] = {}
        self._waiting: list[tuple[str, Document[Any], list[Cut]]] = []

    def walk(self) -> Iterator[list[SliceJob]]:
        """Walk through the file; yields slices to be done before it continues."""
        with opened(self._path) as content:
            document = Document(content, self._path, self._kind, self._size)
            for key in document.arrays():
                here = copy(document)
                # find the end of images, so that workers read images and annotations together
                end = document.passed(key) if key == "images" else None
                self._waiting.append((key, document if end is None else here, here.cuts(end)))
                if end is None:
                    yield from self._read()
            yield from self._read()
            self._rest = document.rest()

    def _read(self) -> Iterator[list[SliceJob]]:
        """Have workers read the arrays, and check the results."""
        jobs = [
            self._slice(key, *ends)
            for key, document, cuts in self._waiting
            for ends in document.slices(cuts)
        ]
        if jobs:
            yield jobs
        for key, document, cuts in self._waiting:
            self._slices[key] = []
            for start, (stop, _), rows in document.elements(key, cuts, partial(self._attempt, key)):
                self._slices[key].append((self._slice(key, start, stop), rows))
        self._waiting.clear()

    def _slice(self, key: str, start: int, stop: int) -> SliceJob:
        # the same bytes may be tried as images and as annotations
        stem = self._stem.with_name(f"{self._stem.name}-{key}-{start:x}-{stop:x}")
        return SliceJob(self._role, self.source.path, stem, key, start, stop)

    def _attempt(self, key: str, start: int, stop: int) -> SliceResult | None:
        job = self._slice(key, start, stop)
        rows: SliceResult | None = job.result()
        if rows is not None and rows.refused:
            # a worker cannot know whether its slice starts at an element
            job.write()
        return rows

    def file(self) -> ScannedFile:
        """The whole file, once it was walked through. Raises InputError."""
        if not self._slices.get("images"):
            raise InputError("lists no image", where=self._path, allowed=STRUCTURE)
        parts: dict[str, list[SliceRows]] = {}
        for key, slices in self._slices.items():
            parts[key], first = [], 0
            for job, rows in slices:
                parts[key].append(SliceRows(job.stem, first))
                first += len(rows)
        return ScannedFile(
            self._role,
            self._path,
            parts["images"],
            parts["annotations"],
            categories_of(getattr(self._rest, "categories", []), self._path),
            getattr(self._rest, "licenses", None) or [],
            {"role": self._role, **self.source.result()},
        )
