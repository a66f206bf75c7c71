"""Inputs of phi from a dataset: labels, attribute columns, presences and areas of its images."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import polars as pl

from nooch.base.errors import Command, InputError, ParameterError, some_of
from nooch.base.words import padded_words
from nooch.criteria.phi import LABELS, Phi, identifier, json_values
from nooch.data import Dataset
from nooch.data.objects import largest_boxes, needed_objects
from nooch.data.table_schema import PROPERTIES

HIDDEN = ("file_name", "split")
"""Columns that phi may not use: they are not about an image's context."""


@dataclass(frozen=True)
class AttributeState:
    """A part's contribution to ``unseen``: column -> its values, ascending; and its images."""

    seen: Mapping[str, Sequence[Any]]
    images: int


def united(a: AttributeState, b: AttributeState) -> AttributeState:
    """The values of two parts."""
    # ISO texts of dates and times ascend as these do
    seen = {name: sorted({*values, *b.seen[name]}) for name, values in a.seen.items()}
    return AttributeState(seen, a.images + b.images)


def phi_values(data: Dataset, task: str, language: Phi) -> dict[str, pl.Series]:
    """A value for each image, of each name and call in phi."""
    data.column(task)  # raises for an unknown task, even if phi does not use its label
    terms = {name: _named(data, task, name) for name in language.names}
    for text, (function, name) in language.calls.items():
        terms[text] = CALLS[function](data, name)
    return terms


def _has_word(data: Dataset, text: str) -> pl.Series:
    """True where a caption has these words in this order; null for images without captions."""
    words = padded_words(text)
    if data.captions is None or not words.strip():
        if words.strip():
            raise ParameterError(
                f"word({identifier(text)}) reads captions, and the dataset has none",
                where="phi",
                give=Command("tools add-attributes", captions=...),
            )
        raise ParameterError(f"{text!r} has no word", where="phi", allowed="words of captions")
    has = pl.col("words").str.contains(words, literal=True).any()
    rows = data.caption_words.group_by("row").agg(has=has)
    places = pl.DataFrame({"row": np.arange(len(data))})
    return places.join(rows, on="row", how="left", maintain_order="left")["has"]


EDGE, OFF_CENTER = 0.01, 0.2
"""Distances from the nearest edge, as fractions of the width or height: a box that is ``at_edge``
has this one at most, and a center that is ``off_center`` less than this one.
"""


def _gap(*edges: pl.Expr) -> pl.Expr:
    # rounded, so that left and right edges agree
    return pl.min_horizontal(*edges).round(9)


_LEFT, _TOP, _RIGHT, _BOTTOM = map(pl.col, ("left", "top", "right", "bottom"))
_X, _Y = (
    (low.clip(0, 1) + high.clip(0, 1)) / 2 for low, high in ((_LEFT, _RIGHT), (_TOP, _BOTTOM))
)
_AT_EDGE = _gap(_LEFT, _TOP, 1 - _RIGHT, 1 - _BOTTOM) <= EDGE
"""The box comes within 1% of the frame or leaves it: the object may be truncated. Annotators round,
and how much of an object is cut off (KITTI's ``truncated``) no box shows.
"""
_OFF_CENTER = _gap(_X, _Y, 1 - _X, 1 - _Y) < OFF_CENTER
"""The center of the box, cut at the frame, lies in the outer two of the five rings of
Zone Evaluation (Zheng et al., TPAMI 2024).
"""


def _of_largest(test: pl.Expr, data: Dataset, name: str) -> pl.Series:
    """A test of the box of the class's largest object: false in images without the class, null
    where the class or its box is unknown.
    """
    present = _present(data, name).cast(pl.Boolean)
    boxes = largest_boxes(needed_objects(data.objects), data.images, name)
    return present & boxes.select(test).to_series()


CALLS: Mapping[str, Callable[[Dataset, str], pl.Series]] = {
    "area": lambda data, name: pl.Series(data.area(name, unknown=np.nan)),
    "present": lambda data, name: _present(data, name).cast(pl.Boolean),
    "at_edge": partial(_of_largest, _AT_EDGE),
    "off_center": partial(_of_largest, _OFF_CENTER),
    "word": _has_word,
}
"""Functions of phi -> their value for each image."""


def _named(data: Dataset, task: str, name: str) -> pl.Series:
    """Values of a name in phi: the task's label, else an attribute, else a class's presence."""
    if name in (*LABELS, task):
        return _label(data, task, name)
    if name in _columns(data):
        return data.images[name]
    if name in data.classes:
        return _present(data, name)
    if name in PROPERTIES:
        raise ParameterError(
            f"{name} is a property of image files, and the dataset's images are not measured",
            where="phi",
            give=Command("tools add-attributes", image_properties=True),
        )
    columns = _columns(data)
    near = difflib.get_close_matches(name, [*columns, *data.classes, *LABELS], n=3)
    meant = f"did you mean {' or '.join(map(identifier, near))}? " if near else ""
    raise ParameterError(
        f"knows no {name!r}",
        where="phi",
        allowed=f"columns: {some_of(columns, 12)}; classes: {some_of(data.classes)}; y or label",
        remedy=f"{meant}text has single quotes: '{name}'",
    )


def _columns(data: Dataset) -> list[str]:
    return [name for name in data.images.columns if name not in HIDDEN]


def _label(data: Dataset, task: str, name: str) -> pl.Series:
    label = _present(data, task)
    clash = "a class" if name in data.classes and name != task else ""
    if name in data.images.columns:
        values = data.images[name]
        equal = values.dtype.is_numeric() or values.dtype == pl.Boolean
        if equal:
            same = (values.cast(pl.Float64) == label).filter(label.is_not_null())
            equal = same.fill_null(value=False).all()
        if not equal:
            clash = "a column of the images with other values"
    if clash:
        raise ParameterError(
            f"the name {name} is ambiguous: it is the label of {task} and {clash}",
            where="phi",
            remedy=f"rename the column or class {name}",
        )
    return label


def _present(data: Dataset, name: str) -> pl.Series:
    """1 where a class is present, 0 if it is not, null where that is unknown."""
    unknown = data.unknown_labels(name)
    labels = pl.Series(data.labels(name, unknown=False).astype(np.int64))
    return labels if unknown is None else labels.set(pl.Series(unknown), value=None)


def values_seen(train: Dataset, name: str) -> list[Any]:
    """Values that ``unseen(name)`` compares with."""
    if name not in _columns(train):
        allowed = some_of(_columns(train), 12)
        raise ParameterError(
            f"unseen({name}) takes a column, and {name} is none", where="phi", allowed=allowed
        )
    values = json_values(train.images[name])
    if infinite := [value for value in values if type(value) is float and np.isinf(value)]:
        problem = f"unseen({name}) compares with infinite values: {some_of(infinite)}"
        remedy = f"leave infinite values of {name} empty, or give numbers"
        raise InputError(problem, where="phi", allowed="finite numbers", remedy=remedy)
    # the two zeros are one value, whichever comes first
    return [value + 0.0 if type(value) is float else value for value in values]


def no_value(
    language: Phi, values: Mapping[str, pl.Series], missing: pl.Series, ids: pl.Series
) -> InputError:
    """Images for which phi is undefined, and why: a missing attribute, or undefined arithmetic."""
    reason = "0/0, x % 0 or ln of a negative number"
    remedy = "guard it, as in x > 0 AND ln(x) > 1"
    absent = {
        n: missing & (s.is_null() | s.is_nan() if s.dtype.is_float() else s.is_null())
        for n, s in values.items()
    }
    holes = [name for name, gap in absent.items() if gap.any()]
    if holes:
        missing = reduce(operator.or_, (absent[name] for name in holes))
        reason = f"{', '.join(holes)} is null or NaN"
        words = [name if name in language.calls else identifier(name) for name in holes]
        guard = " AND ".join(f"{word} IS NOT NULL" for word in words)
        remedy = f"fill the table, or count them as in context: {guard} AND ({language.text})"
    examples = some_of(ids.filter(missing))
    problem = f"has no value for {missing.sum()} of {len(ids)} images, such as {examples}: {reason}"
    return InputError(problem, where="phi", remedy=remedy)


def shown(value: Any) -> str:
    """A value as phi has it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).upper()
    return f"'{value}'" if isinstance(value, str) else str(value)
