"""COCO's structure, columns of its records, and the checks that they pass."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.base.errors import Command, InputError, some_of
from nooch.base.limits import BROKEN_JSON, MOST_AREA

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)


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


class Instances(msgspec.Struct, gc=False):
    """An instances or stuff file."""

    images: list[Image]
    annotations: list[Annotation]
    categories: list[Category]
    licenses: Any = None


class Caption(msgspec.Struct, gc=False):
    """An entry of a caption file's ``annotations``."""

    image_id: int
    caption: str


class Captions(msgspec.Struct, gc=False):
    """A caption file."""

    images: list[Image]
    annotations: list[Caption]


class LooseImage(Image, gc=False):
    """An ``Image`` as other programs write it: numbers may be text, ids any text."""

    id: int | str  # type: ignore[assignment]
    width: float | None = None  # type: ignore[assignment]
    height: float | None = None  # type: ignore[assignment]


class LooseCategory(Category, gc=False):
    """A ``Category`` whose id may be text."""

    id: int | str  # type: ignore[assignment]


class LooseAnnotation(Annotation, gc=False):
    """An ``Annotation`` whose ids may be text."""

    image_id: int | str  # type: ignore[assignment]
    category_id: int | str  # type: ignore[assignment]


class LooseThing(Thing, gc=False):
    """A ``Thing`` whose ids may be text, and whose ``bbox`` may be anything."""

    image_id: int | str  # type: ignore[assignment]
    category_id: int | str  # type: ignore[assignment]
    bbox: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class LooseCaption(Caption, gc=False):
    """A ``Caption`` whose image id may be text."""

    image_id: int | str  # type: ignore[assignment]


class LooseInstances(Instances, gc=False):
    """An instances or stuff file of another program."""

    images: list[LooseImage]  # type: ignore[assignment]
    annotations: list[LooseAnnotation]  # type: ignore[assignment]
    categories: list[LooseCategory]  # type: ignore[assignment]


class LooseCaptions(Captions, gc=False):
    """A caption file of another program."""

    images: list[LooseImage]  # type: ignore[assignment]
    annotations: list[LooseCaption]  # type: ignore[assignment]


LOOSE: dict[type, type] = {
    Instances: LooseInstances,
    Captions: LooseCaptions,
    Image: LooseImage,
    Annotation: LooseAnnotation,
    Thing: LooseThing,
    Caption: LooseCaption,
}
"""COCO's structure -> the one of files that are not COCO's to the letter."""


def is_strict(kind: type) -> bool:
    """False for a structure in which numbers may be text."""
    return kind not in LOOSE.values()


def records_of(text: bytes, kind: type[R]) -> list[R]:
    """Records; of a loose structure with their ids as numbers. Raises the decoder's errors."""
    records = msgspec.json.decode(text, type=list[kind], strict=is_strict(kind))  # type: ignore[valid-type]
    if not is_strict(kind):
        ids = [name for name in kind.__struct_fields__ if name in {"id", "image_id", "category_id"}]
        for record in records:
            for name in ids:
                setattr(record, name, id_number(getattr(record, name)))
    return records


def id_number(value: int | str) -> int:
    """An id as a number: a text that is written as one is this number, and others have one of their
    own, 63 bits of a hash.
    """
    if isinstance(value, int):
        return value
    if _WHOLE.fullmatch(value):
        return int(value)
    return int.from_bytes(blake3(value.encode()).digest(8), "big") >> 1


_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")


def id_texts(text: bytes) -> list[str] | None:
    """The ids of images as they are written, None where all are numbers."""
    ids = [image.id for image in msgspec.json.decode(text, type=list[LooseImage], strict=False)]
    is_text = any(isinstance(i, str) and not _WHOLE.fullmatch(i) for i in ids)
    return [str(i) for i in ids] if is_text else None


def without_nan(content: Any) -> tuple[Any, int]:
    """A JSON document with null for NaN and Infinity, which Python writes; and how often."""
    if content.find(b"NaN") < 0 and content.find(b"Infinity") < 0:
        return content, 0
    count = 0

    def replaced(match: re.Match[bytes]) -> bytes:
        nonlocal count
        count += match[1] is None
        return match[1] or b"null"

    return _NAN.sub(replaced, content), count


_NAN = re.compile(rb'("(?:[^"\\]|\\.)*+")|-?(?:NaN|Infinity)\b', re.DOTALL)


def decode(content: Any, kind: type[T], path: Path) -> T:
    """A document of a structure. Raises InputError."""
    try:
        return msgspec.json.decode(content, type=kind, strict=is_strict(kind))
    except BROKEN_JSON as error:
        raise refused(error, str(error), path) from error


def refused(error: Exception, text: str, path: Path) -> InputError:
    """The problem of a file: a decoder's error, and its text."""
    if isinstance(error, RecursionError):
        return InputError("contains values nested too deeply", where=path, allowed=STRUCTURE)
    if isinstance(error, msgspec.ValidationError):
        return InputError(f"is not COCO's structure: {text}", where=path, allowed=STRUCTURE)
    remedy = "fetch or export the file again; JSON has no NaN or Infinity"
    return InputError(f"is not valid JSON: {text}", where=path, remedy=remedy)


STRUCTURE = (
    "an object with images [{id, width, height, file_name}], categories [{id, name}] and"
    " annotations [{image_id, category_id, area or segmentation}], or [{image_id, caption}] for"
    " captions; ids are integers or text"
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
        counts: of what ``NOTES`` names, in this part.
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
    counts: dict[str, int] = field(default_factory=dict)


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
            "a width or height is out of range", where=path, allowed=f"pixels, below {_WIDEST}"
        ) from error
    names = [image.file_name for image in images]
    return ids, width, height, [_file_name(image) for image in images] if None in names else names


def checked_images(
    ids: NDArray[np.int64],
    widths: NDArray[np.float64],
    heights: NDArray[np.float64],
    names: list[str | None],
    path: Path,
    located: bool = False,
    texts: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Images by id as fields of a ``ParsedFile``; ``located``: sizes that are missing were looked
    for in the image files; ids are positions in ``texts``, if there are any. Raises InputError:
    repeated ids, no extent.
    """

    def some(of: NDArray[np.int64]) -> str:
        return some_of(of if texts is None else [texts[i] for i in of.tolist()])

    if len(twice := np.unique(ids[1:][ids[1:] == ids[:-1]])):
        remedy = "give each image a unique id, also in its annotations"
        raise InputError(
            f"image ids occur more than once: {some(twice)}", where=path, remedy=remedy
        )
    least, most = np.minimum(widths, heights), np.maximum(widths, heights)
    if len(flat := np.flatnonzero(~((least >= 1) & (most < _WIDEST)))):
        problem = f"images without a valid size: ids {some(ids[flat])}"
        allowed = f"width and height of at least 1 pixel, below {_WIDEST}; or the image files"
        if located or not names:
            raise InputError(problem, where=path, allowed=allowed)
        raise InputError(problem, where=path, allowed=allowed, give={"images": ...})
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
        records: list[Any] = records_of(text, Thing)
        listed = [record.bbox or _NO_BOX for record in records]
    except BROKEN_JSON:
        # slower: among the boxes are some of another form, or ids are text
        records = records_of(text, LooseThing)
        listed = [_box_of(record.bbox) for record in records]
    n, boxes = len(records), np.empty((len(records), 4))
    for number, name in enumerate(Box.__struct_fields__):
        boxes[:, number] = np.fromiter(map(attrgetter(name), listed), np.float64, n)
    boxes[(boxes[:, 2] < 0) | (boxes[:, 3] < 0)] = np.nan
    crowd, ignore = (_flags([*map(attrgetter(name), records)]) for name in ("iscrowd", "ignore"))
    return records, boxes, CROWD * crowd | IGNORE * ignore


def _flags(values: list[Any]) -> NDArray[np.uint8]:
    try:
        unset = map(_UNSET.__contains__, values)
        return 1 - np.fromiter(unset, np.uint8, len(values))
    except TypeError:
        # lists and objects
        return np.array([bool(value) and str(value) not in _UNSET for value in values], np.uint8)


_UNSET = {None, 0, "", "0", "0.0", "false", "False", "FALSE", "no", "none", "None", "null"}
_NO_BOX = Box(*4 * [np.nan])


def _box_of(text: msgspec.Raw) -> Box:
    try:
        return msgspec.json.decode(text, type=Box, strict=False)
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
    integers((id_number(c.id) for c in categories), len(categories), path)
    names = {id_number(c.id): c.name for c in categories}
    if len(names) != len(categories):
        ids = [c.id for c in categories]
        repeated = some_of(sorted({i for i in ids if ids.count(i) > 1}))
        remedy = "give each category a unique id, also in the annotations"
        raise InputError(
            f"category ids occur more than once: {repeated}", where=path, remedy=remedy
        )
    return names


def twins_of(categories: Mapping[int, str], used: Collection[int] = ()) -> list[int]:
    """Ids of categories whose name, as classes are spelled, another one has: a used one, else an
    earlier one.
    """
    first: dict[str, int] = {}
    names = {i: "_".join(name.split()) for i, name in categories.items()}
    for i in sorted(names, key=lambda i: i not in used):
        first.setdefault(names[i], i)
    return [i for i, name in names.items() if first[name] != i]


def licenses_of(document: Any) -> list[dict[str, str]]:
    """Names and addresses of licenses, in whichever form they are written."""
    given = getattr(document, "licenses", None) or []
    entries = [
        entry if isinstance(entry, dict) else {"name": entry}
        for entry in (given if isinstance(given, list) else [given])
    ]
    # as text: a number may be larger than any that can be stored
    return [{k: str(entry[k]) for k in ("name", "url") if k in entry} for entry in entries]


def contradictions(
    areas: NDArray[np.float64], boxes: NDArray[np.float64]
) -> tuple[int, dict[str, int]]:
    """Number of boxes that can be objects, and counts of what contradicts each other."""
    wide, tall = boxes[:, 2], boxes[:, 3]
    flat = is_flat(areas, boxes)
    compared = (areas >= 0) & (wide > 0) & (tall > 0)
    # pixels of a mask reach up to one beyond its box
    larger = compared & (areas > _BEYOND * (wide + 1) * (tall + 1))
    zero, unboxed = compared & (areas == 0), np.isnan(wide) & (areas > 0)
    counts = {"compared": compared, "larger": larger, "zero": zero, "flat": flat}
    return int(np.count_nonzero(~np.isnan(wide) & ~flat)), {
        name: int(np.count_nonzero(mask)) for name, mask in (counts | {"unboxed": unboxed}).items()
    }


def is_flat(areas: NDArray[np.float64], boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Annotations of a positive area whose box has none, bool (n,)."""
    has_none: NDArray[np.bool_] = (boxes[:, 2] == 0) | (boxes[:, 3] == 0)
    return has_none & (areas > 0)


_BEYOND = 1.01


def is_outside(boxes: NDArray[np.float64], sizes: NDArray[Any]) -> NDArray[np.bool_]:
    """Boxes (n, 4) of left, top, width, height without a point in their image (n, 2): bool (n,)."""
    begin, end = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    return np.asarray(((end < 0) | (begin > sizes)).any(axis=1))


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
        written = some_of(_as_written(np.unique(used[missing]).tolist(), f"{what}_id", path))
        raise InputError(
            f"{what} ids of annotations are not listed: {written}; "
            f"the first is annotation {numbers[missing].min()} (counted from 0)",
            where=path,
            allowed=f"ids in the file's own list of {lists}",
        )
    return place


def _as_written(ids: list[int], key: str, path: Path) -> list[object]:
    """Ids as a file has them: only its texts tell the ones that are numbers of a hash."""
    with contextlib.suppress(OSError):
        written = re.findall(rb'"%b"\s*:\s*("(?:[^"\\]|\\.)*")' % key.encode(), path.read_bytes())
        texts = {id_number(text): text for text in map(msgspec.json.decode, {*written})}
        return [texts.get(i, i) for i in ids]
    return [*ids]


def listed_twice(role: str, files: Iterable[str], names: str) -> InputError:
    """The error of images that more than one of the files of a role lists."""
    return InputError(
        f"images are listed in more than one of the {role} files: {names}",
        where=", ".join(files),
        allowed="each image in one of them",
        remedy="name one file for each image: {}",
        give=Command("import coco", **{role: ...}),
    )


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

    ``areas``: float64 (n_annotations,) in square pixels, NaN where they are unknown.
    """
    most = MOST_AREA * images["widths"].astype(np.float64) * images["heights"]
    bad = np.flatnonzero((areas < 0) | (areas > most[index]))
    if not len(bad):
        return
    first = bad[numbers[bad].argmin()]
    more = f", and {len(bad) - 1} more are invalid" if len(bad) > 1 else ""
    most_text = f"square pixels, from 0 to {MOST_AREA:.0f} times the image"
    problem = f"annotation {numbers[first]} (counted from 0) has area {areas[first]}{more}"
    raise InputError(problem, where=path, allowed=f"{most_text}, or no area but a segmentation")
