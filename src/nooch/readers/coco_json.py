"""One COCO annotation file as arrays: only ids, sizes, categories and areas are decoded; polygons are skipped.

Runs in a worker process for each file, so it returns plain arrays and raises errors that pickle.
"""

from __future__ import annotations

import mmap
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.errors import InputError, some_of
from nooch.readers.coco_masks import mask_area
from nooch.readers.json_slices import NotSliced, Slices, skeleton

__all__ = ["ParsedFile", "do_job", "parse_captions", "parse_instances"]

T = TypeVar("T")


class _Image(msgspec.Struct, gc=False):
    id: int
    width: int | None = None
    height: int | None = None
    file_name: str | None = None
    coco_url: str | None = None


class _Category(msgspec.Struct, gc=False):
    id: int
    name: str


class _Annotation(msgspec.Struct, gc=False):
    image_id: int
    category_id: int
    area: float | None = None


class _Instances(msgspec.Struct, gc=False):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category]
    licenses: list[dict[str, Any]] | None = None


class _Masked(msgspec.Struct, gc=False):
    segmentation: Any = None


class _Masks(msgspec.Struct, gc=False):
    annotations: list[_Masked]


class _Caption(msgspec.Struct, gc=False):
    image_id: int
    caption: str


class _Captions(msgspec.Struct, gc=False):
    images: list[_Image]
    annotations: list[_Caption]


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
        return _source(path)
    return parse_captions(path) if role == "captions" else parse_instances(path)


def parse_instances(path: Path) -> ParsedFile:
    """Read an ``instances_*.json`` or ``stuff_*.json``.

    Raises:
        InputError: a file that is truncated, of another structure, or holds ids or areas that are not allowed.
    """
    found = _read(path, _Instances, _Annotation, _annotation_columns)
    image_ids, category_ids, areas = (np.concatenate(part) for part in zip(*found.annotations, strict=True))
    categories = _categories(found.rest.categories, path)
    index = _index(image_ids, found.images["image_ids"], "image", path)
    category_index = _index(category_ids, _integers(categories, len(categories), path), "category", path)
    if len(bad := np.flatnonzero(~(areas >= 0) | np.isinf(areas))):
        raise InputError(
            f"annotation {bad[0]} (counted from 0) has area {areas[bad[0]]}"
            + (f", and {len(bad) - 1} more are not allowed either" if len(bad) > 1 else ""),
            where=path,
            allowed="square pixels, 0 and more, or no area but a segmentation",
        )
    return ParsedFile(
        path.name,
        **found.images,
        categories=categories,
        image_index=index,
        category_index=category_index,
        areas=areas,
        captions=[],
        licenses=found.rest.licenses or [],
    )


_RETIRED: list[Any] = []


def _retire(records: Any) -> None:
    """Keep a worker's last records until it ends, which frees them at once: one by one would hold the result up."""
    if multiprocessing.parent_process() is not None:
        _RETIRED[:] = [records]


def parse_captions(path: Path) -> ParsedFile:
    """Read a ``captions_*.json``. Raises InputError as ``parse_instances`` does."""
    found = _read(path, _Captions, _Caption, _caption_columns)
    index = _index(np.concatenate([ids for ids, _ in found.annotations]), found.images["image_ids"], "image", path)
    none = np.empty(0, np.int32)
    return ParsedFile(
        path.name,
        **found.images,
        categories={},
        image_index=index,
        category_index=none,
        areas=none.astype(np.float64),
        captions=[text for _, texts in found.annotations for text in texts],
        licenses=[],
    )


@dataclass(frozen=True)
class _Found:
    """Columns of the images, columns of the annotations part by part, and the document with what else it holds."""

    images: dict[str, Any]
    annotations: list[Any]
    rest: Any


def _read(path: Path, kind: type[Any], element: type[Any], columns: Callable[..., Any]) -> _Found:
    """A file's columns, in slices where it is large: what is not a column is then in memory for a slice alone."""
    with _opened(path) as content:
        found = _in_slices(content, kind, element, columns, path) if len(content) >= _LARGE else None
        if found is not None:
            return found
        document = _decode(content, kind, path)
        images = _images([_image_columns(document.images, path)], path)
        annotations = [
            columns(document.annotations, lambda: _decode(content, _Masks, path).annotations, images, 0, path)
        ]
    _retire(document)
    return _Found(images, annotations, document)


_LARGE, _SLICE = 1 << 31, 1 << 20
"""Bytes from which on a file is read in slices, and of a slice."""


def _in_slices(
    content: Any, kind: type[Any], element: type[Any], columns: Callable[..., Any], path: Path
) -> _Found | None:
    """As ``_read``; None where slices do not work out, or something is wrong: reading the whole then says what it is."""
    try:
        listed = Slices(content, "images", _Image, _SLICE)
        annotated = Slices(content, "annotations", element, _SLICE)
        images = _images([_image_columns(records, path) for records in listed], path)
        parts: list[Any] = [columns([], list, images, 0, path)]
        first = 0
        for records in annotated:
            masks = partial(msgspec.json.decode, annotated.slice, type=list[_Masked])
            parts.append(columns(records, masks, images, first, path))
            first += len(records)
        rest = _decode(skeleton(content, [listed, annotated]), kind, path)
    except (NotSliced, InputError):
        return None
    return None if rest.images or rest.annotations else _Found(images, parts, rest)


def _annotation_columns(
    records: list[_Annotation], masks: Callable[[], list[_Masked]], images: dict[str, Any], first: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    n = len(records)
    image_ids, category_ids = (_integers(map(attrgetter(k), records), n, path) for k in ("image_id", "category_id"))
    # numpy takes None for NaN: no area
    areas = np.fromiter(map(attrgetter("area"), records), np.float64, n)
    if np.isnan(areas).any():
        areas = _fill_areas(masks(), areas, _look_up(image_ids, images["image_ids"]), images, path, first)
    return image_ids, category_ids, areas


def _caption_columns(records: list[_Caption], *rest: Any) -> tuple[NDArray[np.int64], list[str]]:
    ids = (caption.image_id for caption in records)
    return _integers(ids, len(records), rest[-1]), [caption.caption for caption in records]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file's bytes, mapped and not copied."""
    try:
        if not path.stat().st_size:
            raise InputError("is empty", where=path)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error


def _source(path: Path) -> dict[str, Any]:
    # BLAKE3, because SHA-256 of a gigabyte would be a quarter of an import's work
    with _opened(path) as content:
        return {"file": path.name, "bytes": len(content), "blake3": blake3(content).hexdigest()}


def _decode(content: Any, kind: type[T], path: Path) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(f"is not COCO's structure: {error}", where=path, allowed=_STRUCTURE) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"is no valid JSON: {error}",
            where=path,
            remedy="fetch or export the file again; JSON has no NaN or Infinity",
        ) from error


_STRUCTURE = (
    "an object with images [{id, width, height, file_name}], categories [{id, name}] and annotations "
    "[{image_id, category_id, area or segmentation}], or [{image_id, caption}] for captions; ids are integers"
)


_Sizes = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], list[str | None]]


def _image_columns(images: list[_Image], path: Path) -> _Sizes:
    n = len(images)
    ids = _integers(map(attrgetter("id"), images), n, path)
    # numpy takes None for NaN, and float64 holds every size that fits into memory
    width, height = (np.fromiter(map(attrgetter(side), images), np.float64, n) for side in ("width", "height"))
    names = [image.file_name for image in images]
    return ids, width, height, [_file_name(image) for image in images] if None in names else names


def _images(parts: list[_Sizes], path: Path) -> dict[str, Any]:
    if not sum(len(part[0]) for part in parts):
        raise InputError("lists no image", where=path, allowed=_STRUCTURE)
    ids, width, height = (np.concatenate(column) for column in list(zip(*parts, strict=True))[:3])
    if len(set(ids.tolist())) != len(ids):
        values, counts = np.unique(ids, return_counts=True)
        raise InputError(f"image ids occur more than once: {some_of(values[counts > 1])}", where=path)
    if len(flat := np.flatnonzero(~((width >= 1) & (height >= 1) & (width < _WIDEST) & (height < _WIDEST)))):
        raise InputError(
            f"images without extent: ids {some_of(ids[flat])}",
            where=path,
            allowed=f"width and height of 1 pixel and more, below {_WIDEST}",
        )
    sizes = {"widths": width.astype(np.int64), "heights": height.astype(np.int64)}
    return {"image_ids": ids, **sizes, "file_names": [name for part in parts for name in part[3]]}


_WIDEST = 1 << 31


def _integers(values: Iterable[int], n: int, path: Path) -> NDArray[np.int64]:
    try:
        return np.fromiter(values, np.int64, n)
    except OverflowError as error:
        raise InputError("an id does not fit into 64 bits", where=path, allowed="integers of 64 bits") from error


def _file_name(image: _Image) -> str | None:
    # LVIS gives an address instead of a name; its last part is COCO's file name
    if image.file_name is None and image.coco_url:
        return image.coco_url.rsplit("/", 1)[-1]
    return image.file_name


def _categories(categories: list[_Category], path: Path) -> dict[int, str]:
    names = {c.id: c.name for c in categories}
    if len(names) != len(categories):
        ids = [c.id for c in categories]
        raise InputError(
            f"category ids occur more than once: {some_of(sorted({i for i in ids if ids.count(i) > 1}))}", where=path
        )
    return names


def _index(used: NDArray[np.int64], known: NDArray[np.int64], what: str, path: Path) -> NDArray[np.int32]:
    """Position of each used id among the file's listed ones. Raises InputError for ids that are not listed."""
    place = _look_up(used, known)
    if len(missing := np.flatnonzero(place < 0)):
        raise InputError(
            f"{what} ids of annotations are not listed: {some_of(np.unique(used[missing]))}; "
            f"the first is annotation {missing[0]} (counted from 0)",
            where=path,
            allowed=f"ids that the file's own list of {'images' if what == 'image' else 'categories'} holds",
        )
    return place


def _look_up(used: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int32]:
    """Position of each used id in ``known``, or -1. int32 is half the bytes on the way from a worker process."""
    positions = np.arange(len(known), dtype=np.int32)
    if not len(used) or not len(known):
        return np.full(len(used), -1, dtype=np.int32)
    if min(used.min(), known.min()) >= 0 and max(used.max(), known.max()) < _TABLE:
        table = np.full(max(used.max(), known.max()) + 1, -1, dtype=np.int32)
        table[known] = positions
        return table[used]
    order = np.argsort(known, kind="stable")
    ordered = known[order]
    nearest = np.minimum(np.searchsorted(ordered, used), len(known) - 1)
    return np.where(ordered[nearest] == used, positions[order][nearest], np.int32(-1))


_TABLE = 1 << 22
"""Ids below this are looked up in a table of 16 MiB at most; COCO's go up to 581,929."""


def _fill_areas(
    masks: list[_Masked],
    areas: NDArray[np.float64],
    index: NDArray[np.int32],
    images: dict[str, Any],
    path: Path,
    first: int,
) -> NDArray[np.float64]:
    """Count the pixels of the masks of those annotations that have no area; ``first`` is the number of the first one."""
    filled = areas.copy()
    # an image that is not listed has no size; that is told later
    for position in np.flatnonzero(np.isnan(areas) & (index >= 0)):
        height, width = (int(images[k][index[position]]) for k in ("heights", "widths"))
        try:
            filled[position] = mask_area(masks[position].segmentation, height, width)
        except (TypeError, ValueError, KeyError, IndexError, NotImplementedError) as error:
            raise InputError(
                f"annotation {first + position} (counted from 0) has no area and its segmentation cannot be decoded: {error}",
                where=path,
                allowed="polygons, or a run-length encoding {counts, size}",
            ) from error
    return filled
