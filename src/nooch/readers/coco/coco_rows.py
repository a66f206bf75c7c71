"""COCO annotation files of any size -> rows on disk by image id, a slice of an array by each
worker; and back, for a range of ids.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.errors import InputError
from nooch.readers.coco.coco_decoder import SLICE, Cut, Document, Nothing, drop, opened, slice_text
from nooch.readers.coco.coco_structure import (
    DECODE_ERRORS,
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
    no_image,
)
from nooch.readers.sorted_rows import read_ids, read_rows, write_rows
from nooch.shared_types import Map, StepProgress, no_progress
from nooch.work_folder import kept

__all__ = ["ScannedFile", "scan_files", "source_of"]

_IMAGE = np.dtype([("id", "<i8"), ("width", "<f8"), ("height", "<f8")])
_CAPTION = np.dtype([("id", "<i8"), ("number", "<i4")])
_ANNOTATION = np.dtype([("id", "<i8"), ("number", "<i4"), ("category", "<i8"), ("area", "<f8")])
"""Texts are names of images, captions, and the segmentations of annotations without area."""


class _Mask(msgspec.Struct, gc=False):
    segmentation: msgspec.Raw = msgspec.Raw(b"null")


class Rows(msgspec.Struct):
    """What came of a slice: its number of rows; or that a value in it is refused."""

    n: int
    refused: bool = False

    def __len__(self) -> int:
        return self.n


@dataclass(frozen=True)
class Slice:
    """A slice of the images or annotations of a file, to be decoded and written as rows.

    Attributes:
        role: things, stuff or captions.
        path: of the file, absolute.
        stem: path of what is written, without ending.
        key: of the array.
        start: byte of its first element.
        stop: byte behind its last element.
    """

    role: str
    path: Path
    stem: Path
    key: str
    start: int
    stop: int

    @property
    def kept(self) -> Path:
        """The file that says what came of it."""
        return self.stem.with_suffix(".msgpack")

    def do(self) -> Rows | None:
        """Write the rows, unless that was done before; None where the slice does not decode as an
        array.
        """
        return kept(self.kept, Rows | None, self._tried)

    def _tried(self) -> Rows | None:
        try:
            return self.make()
        except DECODE_ERRORS:
            return None
        except InputError:
            return Rows(0, refused=True)

    def make(self) -> Rows:
        """Write the rows. Raises what a decoder raises, and InputError for values that are not
        allowed.
        """
        with opened(self.path) as content:
            text = slice_text(content, self.start, self.stop)
        make = (
            self._images
            if self.key == "images"
            else self._captions
            if self.role == "captions"
            else self._annotations
        )
        return make(text)

    def _images(self, text: bytes) -> Rows:
        *columns, names = image_columns(msgspec.json.decode(text, type=list[Image]), self.path)
        write_rows(self.stem, _IMAGE, columns, names)
        return Rows(len(names))

    def _captions(self, text: bytes) -> Rows:
        ids, captions = caption_columns(msgspec.json.decode(text, type=list[Caption]), self.path)
        write_rows(self.stem, _CAPTION, (ids, _numbers(ids)), captions)
        return Rows(len(ids))

    def _annotations(self, text: bytes) -> Rows:
        ids, categories, areas = annotation_columns(
            msgspec.json.decode(text, type=list[Annotation]), self.path
        )
        masks = None
        if (bare := np.isnan(areas)).any():
            found = msgspec.json.decode(text, type=list[_Mask])
            masks = [
                bytes(mask.segmentation).decode() if b else None
                for mask, b in zip(found, bare, strict=True)
            ]
        write_rows(self.stem, _ANNOTATION, (ids, _numbers(ids), categories, areas), masks)
        return Rows(len(ids))


def _numbers(ids: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.arange(len(ids), dtype=np.int32)


@dataclass(frozen=True)
class Source:
    """A file to be described for the provenance; the attributes are those of a ``Slice``."""

    path: Path
    stem: Path

    @property
    def kept(self) -> Path:
        """The file of what was found."""
        return self.stem.with_suffix(".msgpack")

    def do(self) -> dict[str, Any]:
        """Name, size and hash, unless that was done before."""
        return kept(self.kept, dict[str, Any], partial(source_of, self.path))


def source_of(path: Path) -> dict[str, Any]:
    """Name, size and hash of a file, for the provenance."""
    # BLAKE3, because SHA-256 of a gigabyte would be a quarter of an import's work
    digest = blake3()
    with opened(path) as content:
        size = len(content)
        for start in range(0, size, _HASHED):
            digest.update(content[start : start + _HASHED])
            drop(content, start, start + _HASHED)
        return {"file": path.name, "bytes": size, "blake3": digest.hexdigest()}


_HASHED = 1 << 22


def _do(job: Slice | Source) -> None:
    job.do()


@dataclass(frozen=True)
class _Part:
    """Rows of one slice; the first is number ``first`` of the array."""

    stem: Path
    first: int


@dataclass(frozen=True)
class ScannedFile:
    """A file's rows on disk, and what else it says.

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
    images: list[_Part]
    annotations: list[_Part]
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
        """What the file says of the images with ``low <= id < high``. Raises InputError for ids,
        sizes and areas.
        """
        images = self._images(low, high)
        found = [self._annotations(part, images, low, high) for part in self.annotations]
        columns = [
            np.concatenate(column)
            for column in zip(*(columns for columns, _ in found), strict=True)
        ]
        if self.role == "captions":
            ids, numbers = columns or (_NO_IDS, _NO_IDS)
            return captions_of(
                self.path, images, ids, [text for _, texts in found for text in texts], numbers
            )
        ids, numbers, categories, areas = columns or (
            _NO_IDS,
            _NO_IDS,
            _NO_IDS,
            _NO_IDS.astype(np.float64),
        )
        return instances_of(
            self.path, images, ids, categories, areas, self.categories, self.licenses, numbers
        )

    def _images(self, low: int | None, high: int | None) -> dict[str, Any]:
        parts = [read_rows(part.stem, _IMAGE, low, high) for part in self.images]
        rows = np.concatenate([rows for rows, _ in parts])
        names = [name for _, texts in parts for name in texts]
        order = np.argsort(rows["id"], kind="stable")
        ordered = rows[order]
        columns = (
            ordered["id"].copy(),
            ordered["width"],
            ordered["height"],
            [names[row] for row in order.tolist()],
        )
        return checked_images([columns], self.path)

    def _annotations(
        self, part: _Part, images: dict[str, Any], low: int | None, high: int | None
    ) -> tuple[list[NDArray[Any]], list[Any]]:
        """Columns of one slice, those of an image in the order of the file; and the texts of
        captions.
        """
        is_caption = self.role == "captions"
        rows, texts = read_rows(part.stem, _CAPTION if is_caption else _ANNOTATION, low, high)
        ids, numbers = rows["id"].copy(), rows["number"].astype(np.int64) + part.first
        if is_caption:
            return [ids, numbers], texts
        areas = rows["area"].copy()
        if texts:
            areas = fill_areas(
                lambda row: msgspec.json.decode(texts[row] or "null"),
                areas,
                look_up(ids, images["image_ids"]),
                images,
                self.path,
                lambda row: int(numbers[row]),
            )
        return [ids, numbers, rows["category"].copy(), areas], []


_NO_IDS = np.empty(0, np.int64)


def scan_files(
    files: Sequence[tuple[str, Path]],
    folder: Path,
    *,
    map: Map,
    slice_size: int = SLICE,
    progress: StepProgress = no_progress,
) -> list[ScannedFile]:
    """Scan files, each given with its role; what a folder holds of an earlier scan is not done
    again.

    Raises:
        InputError: a file that cannot be read, is truncated or of another structure, or lists no
            image.
    """
    scans = [
        _Scan(role, path, folder / f"file-{number}", slice_size)
        for number, (role, path) in enumerate(files)
    ]
    walks = [scan.walk() for scan in scans]
    jobs = [*(scan.source for scan in scans), *_next(walks)]
    # starting processes would take longer
    small = sum(path.stat().st_size for _, path in files) <= slice_size
    done = 0
    while jobs:
        waiting = [job for job in jobs if not job.kept.is_file()]
        total, done = done + len(jobs), done + len(jobs) - len(waiting)
        progress(done, total)
        results = (builtins.map if small else map)(_do, waiting)
        # what rows are merged with takes as long to import as workers need for a small file
        import nooch.readers.coco.coco_merge  # noqa: F401

        for _ in results:
            done += 1
            progress(done, total)
        jobs = [*_next(walks)]
    return [scan.file() for scan in scans]


def _next(walks: Sequence[Iterator[list[Slice]]]) -> Iterator[Slice | Source]:
    return (job for walk in walks for job in next(walk, []))


class _Scan:
    """The scan of one file.

    Args:
        role: things, stuff or captions.
        path: of the file, as it was given.
        stem: how the paths of what is written begin.
        size: bytes of a slice.
    """

    def __init__(self, role: str, path: Path, stem: Path, size: int) -> None:
        self.source = Source(path.absolute(), stem)
        self._role, self._path, self._stem, self._size = role, path, stem, size
        self._kind: type[Instances | Captions] = Captions if role == "captions" else Instances
        self._slices: dict[str, list[tuple[Slice, Rows]]] = {}
        self._waiting: list[tuple[str, Document[Any], list[Cut]]] = []

    def walk(self) -> Iterator[list[Slice]]:
        """Walk through the file; slices that are yielded are to be done before it goes on. Raises
        InputError.
        """
        with opened(self._path) as content:
            document = Document(content, self._path, self._kind, self._size)
            for key in document.arrays():
                cuts = document.cuts(key)
                if key == "images":
                    # that annotations are found, and read with them by workers, its end is looked
                    # for here
                    self._waiting.append((key, copy(document), cuts))
                    skipped = document.elements(
                        key, cuts, partial(document.decoded, Nothing), Nothing
                    )
                    self._waiting[-1][2][:] = [cut for _, cut, _ in skipped]
                else:
                    self._waiting.append((key, document, cuts))
                    yield from self._read()
            yield from self._read()
            self._rest = document.rest()

    def _read(self) -> Iterator[list[Slice]]:
        """Have arrays read by workers, and check what came of it."""
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

    def _slice(self, key: str, start: int, stop: int) -> Slice:
        # images may lie where annotations were looked for in vain
        stem = self._stem.with_name(f"{self._stem.name}-{key}-{start:x}-{stop:x}")
        return Slice(self._role, self.source.path, stem, key, start, stop)

    def _attempt(self, key: str, start: int, stop: int) -> Rows | None:
        job = self._slice(key, start, stop)
        rows = job.do()
        if rows is not None and rows.refused:
            # a worker cannot know whether its slice starts at an element
            job.make()
        return rows

    def file(self) -> ScannedFile:
        """The whole file, once it was walked through. Raises InputError."""
        if not self._slices.get("images"):
            raise no_image(self._path)
        parts: dict[str, list[_Part]] = {}
        for key, slices in self._slices.items():
            parts[key], first = [], 0
            for job, rows in slices:
                parts[key].append(_Part(job.stem, first))
                first += len(rows)
        return ScannedFile(
            self._role,
            self._path,
            parts["images"],
            parts["annotations"],
            categories_of(getattr(self._rest, "categories", []), self._path),
            getattr(self._rest, "licenses", None) or [],
            {"role": self._role, **self.source.do()},
        )
