"""Boxes in tables and records, of labels and of detections: columns, and the order of numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from nooch.base.errors import InputError, unreadable
from nooch.base.limits import BROKEN_JSON

FORMATS = ("xyxy", "xywh", "cxcywh")
"""Left, top, right, bottom; left, top, width, height; center, width, height."""

NUMBERS = {
    "xyxy": "left, top, right, bottom",
    "xywh": "left, top, width, height",
    "cxcywh": "x and y of the center, width, height",
}
"""The formats in words."""

HEADERLESS = ("box_1", "box_2", "box_3", "box_4")
"""Names of the columns of a table without a header."""
_COLUMNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("xyxy", ("xmin", "ymin", "xmax", "ymax")),
    ("xyxy", ("x_min", "y_min", "x_max", "y_max")),
    ("xyxy", ("x1", "y1", "x2", "y2")),
    ("xyxy", ("xtl", "ytl", "xbr", "ybr")),
    ("xyxy", HEADERLESS),
    ("xyxy", ("left", "top", "right", "bottom")),
    *(
        (form, (x, y, *sides))
        # next to w and h, width and height are of the image
        for sides in (("w", "h"), ("width", "height"))
        for form, x, y in (
            ("xywh", "left", "top"),
            ("xywh", "xmin", "ymin"),
            ("xywh", "x_min", "y_min"),
            ("cxcywh", "x_center", "y_center"),
            ("cxcywh", "xcenter", "ycenter"),
            ("cxcywh", "cx", "cy"),
            # corners or centers
            ("", "x", "y"),
        )
    ),
)
"""Order of a box's numbers, and names of its columns, in lower case."""
_LISTS = {"bbox": "xywh", "box": "xyxy"}
"""Columns of four numbers in a list, and their order unless it is named: COCO's order, and the
corners of torchvision and Hugging Face.
"""
_FRACTIONS = (-0.5, 1.5)
"""Range of fractions of an image, with what a box may leave it; pixels are beyond."""

LEEWAY = 0.1
"""Share of the image's side by which a box of a detector may leave it."""
MOST_OUTSIDE = 0.01
"""Share of the boxes that may leave it further before their order of numbers is doubted."""

_FEW = 3
"""Boxes that are more likely wrong than in another order of numbers, unless most are."""

Floats = NDArray[np.float64]


def box_columns(given: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The columns of a box's numbers: four, or one of lists or structures, or none; and the order
    of the numbers, empty if the names leave it open. ``given``: lower case -> as written.
    """
    plain = {re.sub(r"^(b?box|roi)[._](?=\D)", "", name): given[name] for name in given}
    for box_format, names in _COLUMNS:
        if all(name in plain for name in names):
            return tuple(plain[name] for name in names), box_format
    for name, box_format in _LISTS.items():
        if name in given:
            return (given[name],), box_format
    return (), ""


def box_numbers(
    frame: pl.DataFrame, columns: Sequence[str], box_format: str, where: object
) -> tuple[pl.DataFrame, str]:
    """Four columns of numbers, Float64 with NaN for what is missing, and their order. ``columns``
    and ``box_format`` as of ``box_columns``. Raises InputError for what is not boxes.
    """
    box = frame.select(columns)
    if len(columns) == 1:
        box, box_format = _opened(frame[columns[0]], box_format, where)
    errors = (pl.exceptions.PolarsError,)
    with unreadable(where, "numbers", errors, problem="boxes are not numbers"):
        # text may have decimal commas
        texts = cs.string().str.strip_chars().str.replace(",", ".", literal=True)
        texts = texts.str.replace("(?i)^(n/?a|none|null|-|)$", "nan")
        numbers = box.with_columns(texts).select(pl.all().cast(pl.Float64))
        return numbers.fill_null(float("nan")), box_format


def _opened(column: pl.Series, box_format: str, where: object) -> tuple[pl.DataFrame, str]:
    """Four columns of one of lists, structures, or either as text, and the order of numbers."""
    allowed = "[x, y, x, y] or {x1, y1, x2, y2} in every row"
    errors = (pl.exceptions.PolarsError,)
    with unreadable(where, allowed, errors, problem=f"column {column.name} contains no boxes"):
        if column.dtype == pl.String:
            column = _parsed(column)
        if isinstance(column.dtype, pl.Array):
            column = column.arr.to_list()
        if isinstance(column.dtype, pl.List):
            wrong = column.list.len().ne(4).fill_null(value=False)
            if not wrong.any():
                return column.list.to_struct(
                    fields=["1", "2", "3", "4"]
                ).struct.unnest(), box_format
            row = int(wrong.arg_max() or 0)
            raise InputError(f"column {column.name} has a box that is not four numbers",
                             where=f"{where}, row {row + 1}", allowed=allowed)  # fmt: skip
        if isinstance(column.dtype, pl.Struct):
            frame = column.struct.unnest()
            names, of_names = box_columns({name.lower(): name for name in frame.columns})
            if len(names) == 4:
                return frame.select(names), of_names
    raise InputError(f"column {column.name} contains {column.dtype}", where=where, allowed=allowed)


def _parsed(column: pl.Series) -> pl.Series:
    """Lists or structures that are written as JSON, or as Python writes them."""
    text = column.str.replace_many(["'", "(", ")"], ['"', "[", "]"])
    first = text.drop_nulls().first()
    kind: Any = pl.List(pl.Float64)
    if isinstance(first, str) and first.lstrip().startswith("{"):
        try:
            members = [*msgspec.json.decode(first, type=dict[str, Any])]
        except BROKEN_JSON:
            members = []
        kind = pl.Struct(dict.fromkeys(members, pl.Float64))
    return text.str.json_decode(kind)


def as_boxes(written: Floats, box_format: str) -> Floats:
    """Boxes of one of ``FORMATS`` as left, top, width, height: float64 (n, 4)."""
    first, second = written[:, :2], written[:, 2:]
    if box_format == "xyxy":
        return np.hstack([first, second - first])
    return written if box_format == "xywh" else np.hstack([first - second / 2, second])


def are_fractions(written: Floats) -> bool:
    """True if the numbers of most boxes are so small that they are fractions of the image."""
    low, high = _FRACTIONS
    return bool(len(written)) and bool(
        ((low <= written) & (written <= high)).all(axis=1).mean() > 0.5
    )


def check_inside(written: Floats, box_format: str, extent: Floats, where: object) -> str:
    """A warning where many boxes leave their image in any order of numbers, else nothing.

    Args:
        written: float64 (n, 4), as ``box_format`` has them.
        box_format: one of ``FORMATS``.
        extent: float64 (n, 2) or (1, 2), width and height of the image in the units of the boxes;
            NaN where they are not known.
        where: the file, for errors.

    Raises:
        InputError: more than 1% of the boxes leave their image by more than ``LEEWAY`` of its side,
            not only a few, and fewer would in another order of numbers.
    """
    extent = np.broadcast_to(extent, (len(written), 2))
    known = np.isfinite(extent).all(axis=1)
    if not known.any():
        return ""
    written, extent = written[known], extent[known]
    share = share_outside(written, box_format, extent)
    if share <= MOST_OUTSIDE:
        return ""
    shares = {f: share_outside(written, f, extent) for f in FORMATS}
    best = min(FORMATS, key=lambda f: (shares[f], f != box_format))
    leave = f"{share:.1%} of the boxes leave their image by more than {LEEWAY:.0%} of its side"
    is_few = share * len(written) <= _FEW and share <= 0.5
    if best == box_format or is_few:
        return f"warning: {leave}: are they in pixels of the image at its full size?"
    raise InputError(
        f"{leave} when read as {box_format}, and {shares[best]:.1%} would as {best}: these look"
        f" like boxes {best} given as {box_format}",
        where=where,
        allowed=f"{box_format}: {NUMBERS[box_format]}, within the image",
        remedy=f"{{}} ({NUMBERS[best]})",
        give={"box_format": best},
    )


def share_outside(
    written: Floats, box_format: str, extent: Floats, leeway: float = LEEWAY
) -> float:
    """The share of the boxes that leave their image by more than ``leeway`` of its side, or are
    turned; ``written`` and ``extent`` as of ``check_inside``, all known.
    """
    box = as_boxes(written, box_format)
    start, end = box[:, :2], box[:, :2] + box[:, 2:]
    leaves = (start < -leeway * extent) | (end > (1 + leeway) * extent) | (box[:, 2:] < 0)
    return float(leaves.any(axis=1).mean())


_BOXES = ("bbox", "bboxes", "box", "boxes", "box2d", "bounding_box")
OBJECT_CLASSES = (
    "class", "class_name", "category", "categories", "label", "labels", "classes", "category_id",
    "class_id", "name",
)  # fmt: skip
"""Fields of the class of an object, the likeliest first."""
_OTHERS = ("area", "iscrowd", "is_crowd", "crowd", "ignore", "difficult")


def object_rows(table: pl.DataFrame, where: object) -> pl.DataFrame:
    """A row for each object of a table whose images have lists of objects with boxes, as Hugging
    Face, BDD and detectron2 write them: an image without objects has one with blanks. Their columns
    are ``bbox``, ``class`` and, if they have it, ``area`` and flags; another table stays as it is.

    Raises InputError for lists of an image that differ in length.
    """
    for name, kind in table.schema.items():
        inner = kind.inner if isinstance(kind, pl.List) else None
        fields = getattr(inner or kind, "fields", ())
        given = {field.name: field.dtype for field in fields}
        if name in _BOXES and isinstance(inner, pl.List | pl.Array):
            # lists next to each other
            given = {n: of for n, of in table.schema.items() if isinstance(of, pl.List)}
            found = {n: pl.col(n) for n in given if n in (name, *OBJECT_CLASSES, *_OTHERS)}
        elif isinstance(inner, pl.Struct):
            found = {n: pl.col(name).list.eval(pl.element().struct.field(n)) for n in given}
        else:
            found = {n: pl.col(name).struct.field(n) for n in given}
        box = next((n for n in _BOXES if n in found), None)
        if box is None or (inner is None and not isinstance(given[box], pl.List)):
            continue
        label = next((n for n in OBJECT_CLASSES if n in found), None)
        roles = {"bbox": box, "class": label} | {n: n for n in _OTHERS if n in found}
        objects = table.select(found[of].alias(role) for role, of in roles.items() if of)
        lengths = objects.select(pl.all().list.len().fill_null(0))
        differ = lengths.select(pl.any_horizontal(pl.all() != pl.col("bbox"))).to_series()
        if differ.any():
            problem = f"{name}: another number of {box} than of other fields of objects"
            place = f"{where}, row {int(differ.arg_max() or 0) + 1}"
            raise InputError(problem, where=place, allowed="one of each for a box")
        rest = table.drop(found if name in found else name)
        taken = {n: f"image_{n}" for n in objects.columns if n in rest.columns}
        empty = objects.with_columns(
            pl.when(pl.col(n).list.len() > 0).then(pl.col(n)) for n in objects.columns
        )
        return rest.rename(taken).hstack(empty).explode(objects.columns)
    return table
