"""Conditions of slices: classes in the image and their areas, the target's size, attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import ALL, ANNOTATED, Dataset
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
        holds: bool (n_images,), false where it is unknown.
    """

    name: str
    text: str
    holds: NDArray[np.bool_]


def conditions_of(data: Dataset, task: str, *, size: bool) -> Iterator[SliceCondition]:
    """All conditions on the images of a dataset, for one task.

    Args:
        data: the images, in one order.
        task: a class, which is no condition itself.
        size: whether the target's area is one (for positives).
    """
    for name in data.classes:
        if name != task:
            yield from _of_class(data, name)
    if size and data.has_areas:
        yield from _of_size(data, task)
    for column in data.images.columns:
        if column not in _STRUCTURE:
            yield from _of_column(data.images[column])
    if data.images["split"].n_unique() > 1 and ALL not in data.splits:
        yield from _of_column(data.images["split"])


def _of_class(data: Dataset, name: str) -> Iterator[SliceCondition]:
    rows, areas = data.rows_of(name)
    present = np.zeros(len(data), dtype=bool)
    present[rows] = True
    unknown = data.unknown_labels(name)
    absent = ~present if unknown is None else ~present & ~unknown
    yield SliceCondition(name, f"with {with_article(name)}", present)
    yield SliceCondition(name, f"without {with_article(name)}", absent)
    much = np.zeros(len(data), dtype=bool)
    much[rows] = areas > AREA
    yield SliceCondition(name, f"with {readable(name)} on more than {AREA:.0%}", much)


def _of_size(data: Dataset, task: str) -> Iterator[SliceCondition]:
    areas = data.area(task, unknown=np.nan)
    known = areas[data.labels(task, unknown=False) & ~np.isnan(areas)]
    if not len(known):
        return
    for share, words in ((0.25, "quarter"), (0.5, "half")):
        low, high = np.quantile(known, [share, 1 - share])
        smallest = f"among the smallest {words} of {plural(task)} (below {low:.2%})"
        largest = f"among the largest {words} of {plural(task)} (above {high:.2%})"
        with np.errstate(invalid="ignore"):
            yield SliceCondition(task, smallest, areas < low)
            yield SliceCondition(task, largest, areas > high)


def _of_column(values: pl.Series) -> Iterator[SliceCondition]:
    name, known = values.name, values.drop_nulls()
    if known.n_unique() <= _MOST_VALUES:
        for value in known.unique().sort() if known.n_unique() > 1 else ():
            holds = (values == value).fill_null(value=False).to_numpy()
            yield SliceCondition(name, f"with {name} = {value}", holds)
    elif known.dtype.is_numeric():
        for share in (0.25, 0.75):
            cut = float(np.quantile(known.to_numpy(), share))
            beyond = (values <= cut) if share < 0.5 else (values >= cut)
            sign = "<=" if share < 0.5 else ">="
            holds = beyond.fill_null(value=False).to_numpy()
            yield SliceCondition(name, f"with {name} {sign} {cut:.4g}", holds)
