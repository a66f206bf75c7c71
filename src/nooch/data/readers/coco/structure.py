"""COCO's structure, columns of its records, and the checks that they pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError, some_of
from nooch.base.limits import BROKEN_JSON, MOST_AREA

T = TypeVar("T")


class Image(msgspec.Struct, gc=False):
    """An entry of ``images``."""

    id: int
    width: int | None = None
    height: int | None = None
    file_name: str | None = None
    coco_url: str | None = None
    neg_category_ids: list[int] | None = None
    not_exhaustive_category_ids: list[int] | None = None


class Category(msgspec.Struct, gc=False):
    """An entry of ``categories``."""

    id: int
    name: str


class Annotation(msgspec.Struct, gc=False):
    """An entry of ``annotations``, without its polygons."""

    image_id: int
    category_id: int
    area: float | None = None


class Box(msgspec.Struct, gc=False, eq=False, array_like=True, forbid_unknown_fields=True):
    """A ``bbox``: pixels."""

    left: float
    top: float
    width: float
    height: float


class Thing(Annotation, gc=False):
    """An entry of an instances file's ``annotations``, with what its object is."""

    bbox: Box | None = None
    iscrowd: Any = None
    ignore: Any = None


class LooseThing(Thing, gc=False):
    """A ``Thing`` whose ``bbox`` may be anything."""

    bbox: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class Instances(msgspec.Struct, gc=False):
    """An instances or stuff file."""

    images: list[Image]
    annotations: list[Annotation]
    categories: list[Category]
    licenses: list[dict[str, Any]] | None = None


class Caption(msgspec.Struct, gc=False):
    """An entry of a caption file's ``annotations``."""

    image_id: int
    caption: str


class Captions(msgspec.Struct, gc=False):
    """A caption file."""

    images: list[Image]
    annotations: list[Caption]


def decode(content: Any, kind: type[T], path: Path) -> T:
    """A document of a structure. Raises InputError."""
    try:
        return msgspec.json.decode(content, type=kind)
    except BROKEN_JSON as error:
        raise refused(error, str(error), path) from error


def refused(error: Exception, text: str, path: Path) -> InputError:
    """The problem of a file: a decoder's error, and its text."""
    if isinstance(error, RecursionError):
        return InputError(
            "contains values within values, too many to be read", where=path, allowed=STRUCTURE
        )
    if isinstance(error, msgspec.ValidationError):
        return InputError(f"is not COCO's structure: {text}", where=path, allowed=STRUCTURE)
    remedy = "fetch or export the file again; JSON has no NaN or Infinity"
    return InputError(f"is not valid JSON: {text}", where=path, remedy=remedy)


STRUCTURE = (
    "an object with images [{id, width, height, file_name}], categories [{id, name}] and"
    " annotations [{image_id, category_id, area or segmentation}], or [{image_id, caption}] for"
    " captions; ids are integers"
)


@dataclass(frozen=True)
class ParsedFile:
    """The content of one annotation file.

    Attributes:
        name: of the file, for messages.
        image_ids: int64 (n_images,), with ``widths`` and ``heights`` (int64 pixels) and
            ``file_names`` (none for captions).
        categories: id -> name as the file spells it, in the file's order.
        image_index: int32 (n_annotations,), position in ``image_ids``.
        category_index: int32 (n_annotations,), position in ``categories``; empty for captions.
        areas: float64 (n_annotations,) in square pixels.
        captions: the texts, for a caption file.
        boxes: float64 (n_annotations, 4): left, top, width and height in pixels, NaN where an
            annotation has no usable box; or None if no annotation of the whole file has one.
        flags: uint8 (n_annotations,): ``CROWD``, ``IGNORE``, or both; or None as ``boxes``.
        lists: what LVIS' images list, int64 (n, 3): position in ``image_ids``, position in
            ``categories`` and ``ABSENT`` or ``PARTIAL``; and (position, -1, ``LISTED``) for each
            image that has lists; or None if no image of the whole file has one.
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
    captions: list[str] = field(default_factory=list)
    boxes: NDArray[np.float64] | None = None
    flags: NDArray[np.uint8] | None = None
    lists: NDArray[np.int64] | None = None


CROWD, IGNORE = 1, 2
"""Flags of an object."""

LISTED, ABSENT, PARTIAL = 0, 1, 2
"""An image has lists; a category that is not in it; one of which not all objects are annotated."""


def listed_columns(images: list[Image], path: Path) -> list[NDArray[np.int64]]:
    """Image ids, category ids and kinds of what images list, int64 (n,) each."""
    rows: list[tuple[int, int, int]] = []
    for image in images:
        absent, partial = image.neg_category_ids, image.not_exhaustive_category_ids
        if absent is not None or partial is not None:
            rows.append((image.id, -1, LISTED))
            rows += [(image.id, category, ABSENT) for category in absent or ()]
            rows += [(image.id, category, PARTIAL) for category in partial or ()]
    return [integers((row[k] for row in rows), len(rows), path) for k in range(3)]


def image_columns(
    images: list[Image], path: Path
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], list[str | None]]:
    """Ids, widths and heights (NaN if there is none) and file names."""
    ids = integers(map(attrgetter("id"), images), len(images), path)
    # numpy takes None for NaN, and float64 represents every size that fits into memory
    try:
        width, height = (
            np.fromiter(map(attrgetter(side), images), np.float64, len(images))
            for side in ("width", "height")
        )
    except OverflowError as error:
        raise InputError(
            "a width or height is not a size", where=path, allowed=f"pixels, below {_WIDEST}"
        ) from error
    names = [image.file_name for image in images]
    return ids, width, height, [_file_name(image) for image in images] if None in names else names


def checked_images(
    ids: NDArray[np.int64],
    widths: NDArray[np.float64],
    heights: NDArray[np.float64],
    names: list[str | None],
    path: Path,
) -> dict[str, Any]:
    """Images by id as fields of a ``ParsedFile``. Raises InputError: repeated ids, no extent."""
    if len(twice := np.unique(ids[1:][ids[1:] == ids[:-1]])):
        raise InputError(f"image ids occur more than once: {some_of(twice)}", where=path)
    least, most = np.minimum(widths, heights), np.maximum(widths, heights)
    if len(flat := np.flatnonzero(~((least >= 1) & (most < _WIDEST)))):
        problem = f"images without extent: ids {some_of(ids[flat])}"
        allowed = f"width and height of at least 1 pixel, below {_WIDEST}"
        raise InputError(problem, where=path, allowed=allowed)
    sizes = {"widths": widths.astype(np.int64), "heights": heights.astype(np.int64)}
    return {"image_ids": ids, **sizes, "file_names": names}


_WIDEST = 1 << 31


def annotation_columns(
    records: list[Annotation], path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Image ids, category ids and areas (NaN if there is none)."""
    n = len(records)
    image_ids, category_ids = (
        integers(map(attrgetter(k), records), n, path) for k in ("image_id", "category_id")
    )
    # numpy takes None for NaN: no area
    return image_ids, category_ids, np.fromiter(map(attrgetter("area"), records), np.float64, n)


def object_columns(text: bytes) -> tuple[list[Any], NDArray[np.float64], NDArray[np.uint8]]:
    """The annotations of an instances file, their boxes (NaN without a usable one) and flags.

    Raises the decoder's errors for annotations that are not COCO's; any value may be a box.
    """
    try:
        records: list[Any] = msgspec.json.decode(text, type=list[Thing])
        listed = [record.bbox or _NO_BOX for record in records]
    except BROKEN_JSON:
        # slower: among the boxes are some of another form
        records = msgspec.json.decode(text, type=list[LooseThing])
        listed = [_box_of(record.bbox) for record in records]
    n, boxes = len(records), np.empty((len(records), 4))
    for number, name in enumerate(Box.__struct_fields__):
        boxes[:, number] = np.fromiter(map(attrgetter(name), listed), np.float64, n)
    boxes[(boxes[:, 2] < 0) | (boxes[:, 3] < 0)] = np.nan
    crowd, ignore = (
        np.fromiter(map(bool, map(attrgetter(name), records)), np.uint8, n)
        for name in ("iscrowd", "ignore")
    )
    return records, boxes, CROWD * crowd | IGNORE * ignore


_NO_BOX = Box(*4 * [np.nan])


def _box_of(text: msgspec.Raw) -> Box:
    try:
        return msgspec.json.decode(text, type=Box)
    except BROKEN_JSON:
        return _NO_BOX


def caption_columns(records: list[Caption], path: Path) -> tuple[NDArray[np.int64], list[str]]:
    """Image ids and texts."""
    ids = (caption.image_id for caption in records)
    return integers(ids, len(records), path), [caption.caption for caption in records]


def integers(values: Iterable[int], n: int, path: Path) -> NDArray[np.int64]:
    """Ids as an array. Raises InputError for ids of more than 64 bits."""
    try:
        return np.fromiter(values, np.int64, n)
    except OverflowError as error:
        raise InputError(
            "an id does not fit into 64 bits", where=path, allowed="integers of 64 bits"
        ) from error


def _file_name(image: Image) -> str | None:
    # LVIS gives an address instead of a name; its last part is COCO's file name
    if image.file_name is None and image.coco_url:
        return image.coco_url.rsplit("/", 1)[-1]
    return image.file_name


def categories_of(categories: list[Category], path: Path) -> dict[int, str]:
    """Id -> name. Raises InputError for ids that are repeated, or of more than 64 bits."""
    integers((c.id for c in categories), len(categories), path)
    names = {c.id: c.name for c in categories}
    if len(names) != len(categories):
        ids = [c.id for c in categories]
        repeated = some_of(sorted({i for i in ids if ids.count(i) > 1}))
        raise InputError(f"category ids occur more than once: {repeated}", where=path)
    return names


def index_of(
    used: NDArray[np.int64],
    ids: NDArray[np.int64],
    what: str,
    path: Path,
    numbers: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Position of each used id among the known ones. Raises InputError for other ids.

    ``numbers`` count the annotations in the file.
    """
    place = look_up(used, ids)
    if len(missing := np.flatnonzero(place < 0)):
        lists = "images" if what == "image" else "categories"
        raise InputError(
            f"{what} ids of annotations are not listed: {some_of(np.unique(used[missing]))}; "
            f"the first is annotation {numbers[missing].min()} (counted from 0)",
            where=path,
            allowed=f"ids in the file's own list of {lists}",
        )
    return place


def look_up(used: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """Position of each used id in ``ids``, or -1; int32, which is cheaper to send to workers."""
    positions = np.arange(len(ids), dtype=np.int32)
    if not len(used) or not len(ids):
        return np.full(len(used), -1, dtype=np.int32)
    if min(used.min(), ids.min()) >= 0 and max(used.max(), ids.max()) < _TABLE:
        table = np.full(max(used.max(), ids.max()) + 1, -1, dtype=np.int32)
        table[ids] = positions
        return table[used]
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    nearest = np.minimum(np.searchsorted(ordered, used), len(ids) - 1)
    return np.where(ordered[nearest] == used, positions[order][nearest], np.int32(-1))


_TABLE = 1 << 22
"""Ids below this are looked up in a table of 16 MiB at most; COCO's go up to 581,929."""


def check_areas(
    areas: NDArray[np.float64],
    index: NDArray[np.int32],
    images: Mapping[str, Any],
    path: Path,
    numbers: NDArray[np.int64],
) -> None:
    """Raise InputError for areas that are negative or more than ``MOST_AREA`` times the image.

    ``areas``: float64 (n_annotations,) in square pixels.
    """
    most = MOST_AREA * images["widths"].astype(np.float64) * images["heights"]
    bad = np.flatnonzero(~((areas >= 0) & (areas <= most[index])))
    if not len(bad):
        return
    first = bad[numbers[bad].argmin()]
    more = f", and {len(bad) - 1} more are not allowed either" if len(bad) > 1 else ""
    most_text = f"square pixels, from 0 to {MOST_AREA:.0f} times the image"
    problem = f"annotation {numbers[first]} (counted from 0) has area {areas[first]}{more}"
    raise InputError(problem, where=path, allowed=f"{most_text}, or no area but a segmentation")
