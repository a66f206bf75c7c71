"""Conditions of slices: classes in the image and their areas, the target's size, attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.criteria.phi import identifier, literal_text
from nooch.criteria.phi_types import KINDS
from nooch.data import ANNOTATED, Dataset
from nooch.english import plural, readable, with_article

__all__ = ["AREA", "SliceCondition", "conditions_of"]

AREA = 0.1
"""Fraction of the image beyond which a class counts as covering much of it, as beta does."""
_MOST_VALUES = 20
"""Different values up to which each value of a column is a condition; beyond, quartiles are."""
_STRUCTURE = {"image_id", "file_name", "width", "height", "split", *ANNOTATED}


@dataclass(frozen=True, eq=False)
class SliceCondition:
    """One condition on images.

    Attributes:
        name: of what it is about; conditions of one name are not combined.
        text: in words, "with a road".
        phi: as phi says it, ``present(road)``; see ``nooch.Attribute``.
        holds: bool (n_images,), false where it is unknown.
    """

    name: str
    text: str
    phi: str
    holds: NDArray[np.bool_]


def conditions_of(
    data: Dataset, task: str, *, size: bool, whole: Dataset | None = None
) -> Iterator[SliceCondition]:
    """All conditions on the images of a dataset, for one task.

    Args:
        data: the images, in one order.
        task: a class, which is no condition itself.
        size: whether the target's area is one (for positives).
        whole: all images that phi has to have a value for; by default ``data``.
    """
    whole = data if whole is None else whole
    for name in data.classes:
        if name != task:
            yield from _of_class(data, name, whole)
    if size and data.has_areas:
        yield from _of_size(data, task, whole)
    for column in data.images.columns:
        if column not in _STRUCTURE:
            yield from _of_column(data.images[column], whole.images[column])


def _guarded(value: str, test: str, *, holes: bool) -> str:
    """A test that is false where its value is unknown."""
    return f"{value} IS NOT NULL AND {test}" if holes else test


def _area(name: str, test: str, whole: Dataset) -> str:
    area = f"area({identifier(name)})"
    return _guarded(area, f"{area} {test}", holes=whole.gaps is not None or not whole.has_areas)


def _of_class(data: Dataset, name: str, whole: Dataset) -> Iterator[SliceCondition]:
    present = data.labels(name, unknown=False)
    absent = ~data.labels(name, unknown=True)
    shown, holes = f"present({identifier(name)})", whole.gaps is not None
    with_, without = (_guarded(shown, test, holes=holes) for test in (shown, f"NOT {shown}"))
    yield SliceCondition(name, f"with {with_article(name)}", with_, present)
    yield SliceCondition(name, f"without {with_article(name)}", without, absent)
    with np.errstate(invalid="ignore"):
        much = data.area(name, unknown=np.nan) > AREA
    text = f"with {readable(name)} on more than {AREA:.0%}"
    yield SliceCondition(name, text, _area(name, f"> {AREA}", whole), much)


def _of_size(data: Dataset, task: str, whole: Dataset) -> Iterator[SliceCondition]:
    areas = data.area(task, unknown=np.nan)
    known = areas[data.labels(task, unknown=False) & ~np.isnan(areas)]
    if not len(known):
        return
    for share, words in ((0.25, "quarter"), (0.5, "half")):
        low, high = np.quantile(known, [share, 1 - share]).tolist()
        smallest = f"among the smallest {words} of {plural(task)} (below {low:.2%})"
        largest = f"among the largest {words} of {plural(task)} (above {high:.2%})"
        with np.errstate(invalid="ignore"):
            yield SliceCondition(task, smallest, _area(task, f"< {low!r}", whole), areas < low)
            yield SliceCondition(task, largest, _area(task, f"> {high!r}", whole), areas > high)


def _of_column(values: pl.Series, whole: pl.Series) -> Iterator[SliceCondition]:
    if values.dtype.base_type() not in KINDS:
        return
    if values.dtype.is_float() or values.dtype.is_decimal():
        values, whole = (s.cast(pl.Float64).fill_nan(None) for s in (values, whole))
    name, known, holes = values.name, values.drop_nulls(), whole.null_count() > 0
    word = identifier(name)
    if known.n_unique() <= _MOST_VALUES:
        for value in known.unique().sort() if known.n_unique() > 1 else ():
            holds = (values == value).fill_null(value=False).to_numpy()
            phi = _guarded(word, f"{word} = {literal_text(value)}", holes=holes)
            yield SliceCondition(name, f"with {name} = {value}", phi, holds)
    elif known.dtype.is_numeric():
        for share in (0.25, 0.75):
            cut = float(np.quantile(known.to_numpy(), share))
            beyond = (values <= cut) if share < 0.5 else (values >= cut)
            sign = "<=" if share < 0.5 else ">="
            inside = beyond.fill_null(value=False).to_numpy()
            phi = _guarded(word, f"{word} {sign} {cut!r}", holes=holes)
            yield SliceCondition(name, f"with {name} {sign} {cut:.4g}", phi, inside)
