"""Conditions of slices: classes in the image and their areas, the target's size, attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.words import plural, readable, with_article
from nooch.criteria.phi import KINDS, identifier, literal_text
from nooch.data import ANNOTATED, Dataset

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]

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
    holds: Booleans


@dataclass(frozen=True, eq=False)
class SliceConditions:
    """All conditions on images whose labels are known; most are those of every task.

    Attributes:
        data: the images, in one order.
        half: bool (n_images,), one of the two halves.
        whole: all images that phi has to have a value for.
        columns_alone: classes are no conditions: labels exclude each other.
    """

    data: Dataset
    half: Booleans
    whole: Dataset
    columns_alone: bool = False

    @cached_property
    def _of_classes(self) -> dict[str, list[SliceCondition]]:
        names = [] if self.columns_alone else self.data.classes
        return {name: [*_of_class(self.data, name, self.whole)] for name in names}

    @cached_property
    def _of_columns(self) -> list[SliceCondition]:
        images, whole = self.data.images, self.whole.images
        columns = [column for column in images.columns if column not in _STRUCTURE]
        return [one for column in columns for one in _of_column(images[column], whole[column])]

    @cached_property
    def _counts(self) -> tuple[dict[SliceCondition, int], list[Floats]]:
        """The place of each condition that tasks share, and in how many images of either half two
        of them hold.
        """
        shared = [*chain(*self._of_classes.values()), *self._of_columns]
        counts = [pair_counts(shared, half) for half in self.halves]
        return {one: at for at, one in enumerate(shared)}, counts

    @property
    def halves(self) -> tuple[Booleans, Booleans]:
        """The images of either half, bool (n_images,)."""
        return self.half, ~self.half

    def of_task(self, task: str, *, size: bool) -> list[SliceCondition]:
        """Those of other classes and of columns; with ``size`` also of the target's area."""
        others = [one for name, of in self._of_classes.items() if name != task for one in of]
        sizes = _of_size(self.data, task, self.whole) if size and self.data.has_areas else ()
        return [*others, *sizes, *self._of_columns]

    def counts(self, conditions: Sequence[SliceCondition], side: Booleans) -> list[Floats]:
        """In how many images of a side, of either half, two conditions hold, float64 (k, k)."""
        if 2 * side.sum() > len(side) and self._counts[0].keys() >= set(conditions):
            # the other side is smaller
            at = [self._counts[0][one] for one in conditions]
            return [
                counts[np.ix_(at, at)] - pair_counts(conditions, half & ~side)
                for counts, half in zip(self._counts[1], self.halves, strict=True)
            ]
        return [pair_counts(conditions, half & side) for half in self.halves]


def pair_counts(conditions: Sequence[SliceCondition], images: Booleans) -> Floats:
    """In how many of the images any two conditions hold, float64 (k, k)."""
    rows = np.flatnonzero(images)
    # counts below 2**24 are exact
    holds = np.stack([one.holds[rows] for one in conditions]).astype(np.float32)
    return (holds @ holds.T).astype(np.float64)


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
