"""Boxes in tables and records, of labels and of detections: columns, and the order of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
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

_COLUMNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("xyxy", ("xmin", "ymin", "xmax", "ymax")),
    ("xyxy", ("x_min", "y_min", "x_max", "y_max")),
    ("xyxy", ("x1", "y1", "x2", "y2")),
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
COLUMN_NAMES = {
    "xyxy": "xmin, ymin, xmax, ymax",
    "xywh": "left, top, width, height",
    "cxcywh": "x_center, y_center, width, height",
}
"""Columns that a format is recognized by, in words."""
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

Floats = NDArray[np.float64]


def box_columns(given: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The columns of a box's numbers: four, or one of lists or structures, or none; and the order
    of the numbers, empty if the names leave it open. ``given``: lower case -> as written.
    """
    for box_format, names in _COLUMNS:
        if all(name in given for name in names):
            return tuple(given[name] for name in names), box_format
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
        return box.select(pl.all().cast(pl.Float64).fill_null(float("nan"))), box_format


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
    """True if all numbers of all boxes are so small that they are fractions of the image."""
    low, high = _FRACTIONS
    return bool(len(written)) and bool(low <= written.min() and written.max() <= high)


def check_inside(
    written: Floats,
    box_format: str,
    extent: Floats,
    where: object,
    *,
    is_declared: bool = True,
) -> str:
    """A warning where many boxes leave their image in any order of numbers, else nothing.

    Args:
        written: float64 (n, 4), as ``box_format`` has them.
        box_format: one of ``FORMATS``.
        extent: float64 (n, 2) or (1, 2), width and height of the image in the units of the boxes;
            NaN where they are not known.
        where: the file, for errors.
        is_declared: whether ``box_format`` is a setting; else the names of columns decide.

    Raises:
        InputError: more than 1% of the boxes leave their image by more than ``LEEWAY`` of its side,
            and fewer would in another order of numbers.
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
    if best == box_format:
        return f"warning: {leave}: are they in pixels of the image at its full size?"
    raise InputError(
        f"{leave} when read as {box_format}, and {shares[best]:.1%} would as {best}: these look"
        f" like boxes {best} given as {box_format}",
        where=where,
        allowed=f"{box_format}: {NUMBERS[box_format]}, within the image",
        remedy=f"{{}} ({NUMBERS[best]})"
        if is_declared
        else f"call the columns {COLUMN_NAMES[best]}",
        give={"box_format": best} if is_declared else (),
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
