"""One COCO annotation file as arrays: only ids, sizes, categories and areas are decoded; polygons are skipped.

Runs in a worker process for each file, so it returns plain arrays and raises errors that pickle.
"""

from __future__ import annotations

import mmap
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.errors import InputError
from nooch.readers.coco_structure import (
    Annotation,
    Caption,
    Captions,
    Image,
    ImageColumns,
    Instances,
    Masked,
    Masks,
    annotation_columns,
    caption_columns,
    categories_of,
    check_areas,
    checked_images,
    decode,
    fill_areas,
    image_columns,
    index_of,
    integers,
    look_up,
    no_image,
)
from nooch.readers.json_ranges import BEGIN, Begun, Broken, Elements, Walk, drop

__all__ = [
    "ParsedFile",
    "captions_of",
    "do_job",
    "instances_of",
    "opened",
    "parse_captions",
    "parse_instances",
    "source_of",
]


@dataclass(frozen=True)
class ParsedFile:
    """What one annotation file says.

    Attributes:
        name: of the file, for messages.
        image_ids: int64 (n_images,), with ``widths`` and ``heights`` (int64 pixels) and ``file_names``.
        categories: id -> name as the file spells it, in the file's order.
        image_index: int32 (n_annotations,), position in ``image_ids``.
        category_index: int32 (n_annotations,), position in ``categories``; empty for captions.
        areas: float64 (n_annotations,) in square pixels.
        captions: the texts, for a caption file.
        licenses: what the file says of them.
    """

    name: str
    image_ids: NDArray[np.int64]
    widths: NDArray[np.int64]
    heights: NDArray[np.int64]
    file_names: list[str | None]
    categories: dict[int, str]
    image_index: NDArray[np.int32]
    category_index: NDArray[np.int32]
    areas: NDArray[np.float64]
    captions: list[str]
    licenses: list[dict[str, Any]]


def do_job(job: tuple[str, Path]) -> ParsedFile | dict[str, Any]:
    """What a worker process is sent: (role, file), the role being ``things``, ``stuff``, ``captions`` or ``source``.

    ``source`` gives name, size and hash of the file: apart, so that parsing the largest file does not wait for it.
    """
    role, path = job
    if role == "source":
        return source_of(path)
    return parse_captions(path) if role == "captions" else parse_instances(path)


def parse_instances(path: Path) -> ParsedFile:
    """Read an ``instances_*.json`` or ``stuff_*.json``.

    Raises:
        InputError: a file that is truncated, of another structure, or holds ids or areas that are not allowed.
    """
    found = _read(path, Instances, Annotation, _with_areas)
    image_ids, category_ids, areas = (np.concatenate(part) for part in zip(*found.annotations, strict=True))
    categories = categories_of(found.rest.categories, path)
    return instances_of(path, found.images, image_ids, category_ids, areas, categories, found.rest.licenses or [])


def instances_of(
    path: Path,
    images: Mapping[str, Any],
    image_ids: NDArray[np.int64],
    category_ids: NDArray[np.int64],
    areas: NDArray[np.float64],
    categories: dict[int, str],
    licenses: list[dict[str, Any]],
    numbers: NDArray[np.int64] | None = None,
) -> ParsedFile:
    """A file's columns as a ParsedFile; ``numbers`` are those of its annotations, where these are not all in order.

    Raises:
        InputError: ids that the file does not list, or areas that are not allowed.
    """
    index = index_of(image_ids, images["image_ids"], "image", path, numbers)
    known = integers(categories, len(categories), path)
    category_index = index_of(category_ids, known, "category", path, numbers)
    check_areas(areas, index, images, path, numbers)
    return ParsedFile(
        path.name,
        **images,
        categories=categories,
        image_index=index,
        category_index=category_index,
        areas=areas,
        captions=[],
        licenses=licenses,
    )


_RETIRED: list[Any] = []


def _retire(records: Any) -> None:
    """Keep a worker's last records until it ends, which frees them at once: one by one would hold the result up."""
    if multiprocessing.parent_process() is not None:
        _RETIRED[:] = [records]


def parse_captions(path: Path) -> ParsedFile:
    """Read a ``captions_*.json``. Raises InputError as ``parse_instances`` does."""
    found = _read(path, Captions, Caption, lambda records, *_: caption_columns(records, path))
    ids = np.concatenate([ids for ids, _ in found.annotations])
    return captions_of(path, found.images, ids, [text for _, texts in found.annotations for text in texts])


def captions_of(
    path: Path,
    images: Mapping[str, Any],
    image_ids: NDArray[np.int64],
    texts: list[str],
    numbers: NDArray[np.int64] | None = None,
) -> ParsedFile:
    """As ``instances_of``, of captions."""
    none = np.empty(0, np.int32)
    return ParsedFile(
        path.name,
        **images,
        categories={},
        image_index=index_of(image_ids, images["image_ids"], "image", path, numbers),
        category_index=none,
        areas=none.astype(np.float64),
        captions=texts,
        licenses=[],
    )


@dataclass(frozen=True)
class _Found:
    """Columns of the images, columns of the annotations part by part, and the document with what else it holds."""

    images: dict[str, Any]
    annotations: list[Any]
    rest: Any


_Columns = Callable[[list[Any], Callable[[], list[Masked]], Mapping[str, Any], int, Path], Any]


def _read(path: Path, kind: type[Any], element: type[Any], columns: _Columns) -> _Found:
    """A file's columns, in slices where it is large: what is not a column is then in memory for a slice alone."""
    with opened(path) as content:
        found = _in_slices(content, kind, element, columns, path) if len(content) >= _LARGE else None
        if found is not None:
            return found
        document = decode(content, kind, path)
        if not document.images:
            raise no_image(path)
        images = checked_images([image_columns(document.images, path)], path)
        annotations = [columns(document.annotations, lambda: decode(content, Masks, path).annotations, images, 0, path)]
    _retire(document)
    return _Found(images, annotations, document)


_LARGE, _SLICE = 1 << 31, 1 << 20
"""Bytes from which on a file is read in slices, and of a slice."""


def _in_slices(content: Any, kind: type[Any], element: type[Any], columns: _Columns, path: Path) -> _Found | None:
    """As ``_read``; None where something is wrong, or a key occurs twice: reading the whole then says what it is."""
    try:
        # masks are counted with the sizes of images, which may follow the annotations
        images = checked_images(list(_sliced_images(content, path)), path)
        walk = Walk(content, BEGIN, {"images": Image, "annotations": element}, ("categories", "licenses"), _SLICE)
        parts: list[Any] = [columns([], list, images, 0, path)]
        first, members = 0, list[tuple[str, bytes]]()
        for found in walk.until(len(content) + 1):
            if isinstance(found, Elements):
                if found.key == "annotations":
                    parts.append(columns(found.records, _Masks(found.text), images, first, path))
                    first += len(found.records)
            else:
                members.append((found.key, b"[]" if isinstance(found, Begun) else found.text))
        keys = [key for key, _ in members]
        if len(set(keys)) < len(keys) or not {"images", "annotations"} <= set(keys):
            return None
        rest = decode(b"{%s}" % b",".join(b'"%s":%s' % (k.encode(), text) for k, text in members), kind, path)
    except (Broken, InputError, RecursionError):
        return None
    return _Found(images, parts, rest)


@dataclass(frozen=True)
class _Masks:
    """The segmentations of a slice, decoded when they are asked for."""

    text: bytes

    def __call__(self) -> list[Masked]:
        return msgspec.json.decode(self.text, type=list[Masked])


def _sliced_images(content: Any, path: Path) -> Iterator[ImageColumns]:
    walk, key = Walk(content, BEGIN, {"images": Image}, (), _SLICE), ""
    for found in walk.until(len(content) + 1):
        if isinstance(found, Elements):
            yield image_columns(found.records, path)
            key = found.key
        if key and walk.state.place == "after":
            return
    if not key:
        raise no_image(path)


def _with_areas(
    records: list[Annotation], masks: Callable[[], list[Masked]], images: Mapping[str, Any], first: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    image_ids, category_ids, areas = annotation_columns(records, path)
    if np.isnan(areas).any():
        found, index = masks(), look_up(image_ids, images["image_ids"])
        areas = fill_areas(lambda row: found[row].segmentation, areas, index, images, path, lambda row: first + row)
    return image_ids, category_ids, areas


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A file's bytes, mapped and not copied. Raises InputError for a file that is empty or packed, or cannot be read."""
    try:
        if not path.stat().st_size:
            raise InputError("is empty", where=path)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
    # errors of what is done with the content are not errors of this file
    with mapped as content:
        for begin, what, remedy in _NO_JSON:
            if content[: len(begin)] == begin:
                raise InputError(f"is no JSON, but {what}", where=path, allowed="JSON in UTF-8", remedy=remedy)
        yield content


_NO_JSON = (
    (b"\x1f\x8b", "packed with gzip", "unpack it first: gunzip FILE"),
    (b"PK\3\4", "a zip archive", "unpack it first: unzip FILE"),
    (b"\xef\xbb\xbf", "text after a byte-order mark", "save it without one: tail -c +4 FILE > NEW"),
    (b"\xff\xfe", "text in UTF-16", "save it in UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"),
    (b"\xfe\xff", "text in UTF-16", "save it in UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"),
)
"""How files begin that are often given instead, what they are, and what to do."""


def source_of(path: Path) -> dict[str, Any]:
    """Name, size and hash of a file, for the provenance."""
    # BLAKE3, because SHA-256 of a gigabyte would be a quarter of an import's work
    digest = blake3()
    with opened(path) as content:
        size = len(content)
        # in pieces: a file that is mapped whole counts as memory
        for start in range(0, size, _HASHED):
            digest.update(content[start : start + _HASHED])
            drop(content, start, start + _HASHED)
        return {"file": path.name, "bytes": size, "blake3": digest.hexdigest()}


_HASHED = 1 << 22
