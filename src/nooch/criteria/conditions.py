"""Conditions: named yes/no statements about images, each an expression of phi.

Classes that are present, absent or cover much, the size and position of the target, attribute
columns by value or quartile, and words of captions. Slices search them, and phi takes any of them.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.words import (
    CAPTIONED,
    POSITIONS,
    character_pairs,
    plural,
    position_words,
    readable,
    value_words,
    with_article,
)
from nooch.criteria.attribute_values import CALLS
from nooch.criteria.phi import KINDS, identifier, literal_text
from nooch.data import Dataset
from nooch.data.splits import unit_numbers

Booleans = NDArray[np.bool_]

AREA = 0.1
"""Fraction of the image beyond which a class counts as covering much of it, as beta does."""
MOST_VALUES = 20
"""Different values up to which each value of a column is a condition; beyond, quartiles are."""
BEYOND = {"<=": operator.le, ">=": operator.ge}
"""Signs of conditions on the quartiles of a column."""
MOST_WORDS, LEAST_IMAGES = 2_000, 20
"""Maximum number of words that are conditions, the most frequent ones, and the images (or groups)
whose captions have a word.
"""


@dataclass(frozen=True, eq=False)
class ImageCondition:
    """One condition on images.

    Attributes:
        name: of what it is about, such as a class or a word; conditions of one name are not
            combined.
        text: in words, "with a road".
        phi: as an expression of phi, ``present(road)``; see ``nooch.Attribute``.
        holds: bool (n_images,), false if it is unknown.
        of_word: whether it is about a word of the captions.
    """

    name: str
    text: str
    phi: str
    holds: Booleans
    of_word: bool = False


@dataclass(frozen=True, eq=False)
class ImageConditions:
    """All conditions on images whose labels are known; most are shared by every task.

    Attributes:
        data: the images, in one order.
        whole: all images that phi has to have a value for.
        columns_alone: classes are not conditions: labels exclude each other.
        stop_words: words that are not conditions; None: none is.
        sizes: areas between which the target's is a condition, ascending fractions of the image;
            by default its quarters and halves.
    """

    data: Dataset
    whole: Dataset
    columns_alone: bool = False
    stop_words: Collection[str] | None = None
    sizes: Sequence[float] = ()

    @cached_property
    def _of_classes(self) -> dict[str, list[ImageCondition]]:
        names = [] if self.columns_alone else self.data.classes
        return {name: [*_of_class(self.data, name, self.whole)] for name in names}

    @cached_property
    def _of_columns(self) -> list[ImageCondition]:
        images, whole = self.data.images, self.whole.images
        return [
            condition
            for column in self.whole.context_columns
            for condition in _of_column(images[column], whole[column])
        ]

    @cached_property
    def _of_words(self) -> list[ImageCondition]:
        if self.stop_words is None:
            return []
        return [*_of_words(self.data, self.whole, frozenset(self.stop_words))]

    @cached_property
    def shared(self) -> list[ImageCondition]:
        """Those that do not depend on a task."""
        return [*chain(*self._of_classes.values()), *self._of_columns, *self._of_words]

    def of_task(
        self, task: str, *, target: bool, own_words: Collection[str] = ()
    ) -> list[ImageCondition]:
        """Conditions on other classes, on columns and on words but the task's own; with ``target``
        also on the area and position of the task's own objects.
        """
        others = [c for name, some in self._of_classes.items() if name != task for c in some]
        own: Iterable[ImageCondition] = _of_position(self.data, task, self.whole) if target else ()
        if target and self.data.has_areas:
            sizes = _of_size(self.data, task, self.whole)
            sizes = _of_bins(self.data, task, self.whole, self.sizes) if self.sizes else sizes
            own = chain(sizes, own)
        words = [condition for condition in self._of_words if condition.name not in own_words]
        return [*others, *own, *self._of_columns, *words]


def _guarded(value: str, test: str, *, holes: bool) -> str:
    """A test that is false where its value is unknown."""
    return f"{value} IS NOT NULL AND {test}" if holes else test


def _area(name: str, test: str, whole: Dataset) -> str:
    area = f"area({identifier(name)})"
    return _guarded(area, f"{area} {test}", holes=whole.gaps is not None or not whole.has_areas)


def _of_class(data: Dataset, name: str, whole: Dataset) -> Iterator[ImageCondition]:
    present = data.labels(name, unknown=False)
    absent = ~data.labels(name, unknown=True)
    shown, holes = f"present({identifier(name)})", whole.gaps is not None
    with_, without = (_guarded(shown, test, holes=holes) for test in (shown, f"NOT {shown}"))
    yield ImageCondition(name, f"with {with_article(name)}", with_, present)
    yield ImageCondition(name, f"without {with_article(name)}", without, absent)
    with np.errstate(invalid="ignore"):
        much = data.area(name, unknown=np.nan) > AREA
    text = f"with {readable(name)} on more than {AREA:.0%}"
    yield ImageCondition(name, text, _area(name, f"> {AREA}", whole), much)


def _of_size(data: Dataset, task: str, whole: Dataset) -> Iterator[ImageCondition]:
    areas = data.area(task, unknown=np.nan)
    of_positives = areas[data.labels(task, unknown=False) & ~np.isnan(areas)]
    if not len(of_positives):
        return
    for share, words in ((0.25, "quarter"), (0.5, "half")):
        low, high = np.quantile(of_positives, [share, 1 - share]).tolist()
        smallest = f"among the smallest {words} of {plural(task)} (below {low:.2%})"
        largest = f"among the largest {words} of {plural(task)} (above {high:.2%})"
        with np.errstate(invalid="ignore"):
            yield ImageCondition(task, smallest, _area(task, f"< {low!r}", whole), areas < low)
            yield ImageCondition(task, largest, _area(task, f"> {high!r}", whole), areas > high)


def _of_bins(
    data: Dataset, task: str, whole: Dataset, sizes: Sequence[float]
) -> Iterator[ImageCondition]:
    areas = data.area(task, unknown=np.nan)
    area = f"area({identifier(task)})"
    for low, high in pairwise((None, *sizes, None)):
        words = [] if low is None else [f"at least {low:.2%}"]
        tests = [] if low is None else [f"{area} >= {low!r}"]
        words += [] if high is None else [f"less than {high:.2%}"]
        tests += [] if high is None else [f"{area} < {high!r}"]
        with np.errstate(invalid="ignore"):
            holds = (areas >= (low or 0)) & (areas < (np.inf if high is None else high))
        text = f"among {plural(task)} on {' and '.join(words)} of the image"
        known = [f"{area} IS NOT NULL"] if whole.gaps is not None or not whole.has_areas else []
        yield ImageCondition(task, text, " AND ".join([*known, *tests]), holds)


def quartiles(values: pl.Series) -> list[tuple[str, float]]:
    """Sign and number of the conditions on numbers: up to the first quartile, from the third on."""
    numbers = values.cast(pl.Float64).fill_nan(None).drop_nulls().to_numpy()
    return [*zip(BEYOND, np.quantile(numbers, [0.25, 0.75]).tolist(), strict=True)]


def _of_position(data: Dataset, task: str, whole: Dataset) -> Iterator[ImageCondition]:
    """The functions of phi on the position of the task's largest object, and their opposites."""
    if data.objects is None:
        return
    for function in POSITIONS:
        call, holes = f"{function}({identifier(task)})", CALLS[function](whole, task).has_nulls()
        values = CALLS[function](data, task)
        for test, true in ((call, values), (f"NOT {call}", ~values)):
            text = position_words(task, function, holds=test == call)
            phi, holds = _guarded(call, test, holes=holes), true.fill_null(value=False).to_numpy()
            yield ImageCondition(position_of(task), text, phi, holds)


def position_of(task: str) -> str:
    """The name of conditions on the position of a task's objects."""
    return f"position of {task}"


def _of_column(values: pl.Series, whole: pl.Series) -> Iterator[ImageCondition]:
    if values.dtype.base_type() not in KINDS:
        return
    if values.dtype.is_float() or values.dtype.is_decimal():
        values, whole = (s.cast(pl.Float64).fill_nan(None) for s in (values, whole))
    name, non_null, holes = values.name, values.drop_nulls(), whole.null_count() > 0
    word = identifier(name)
    tests: list[tuple[str, Any]] = []
    if non_null.n_unique() <= MOST_VALUES:
        tests = [("=", v) for v in non_null.unique().sort() if non_null.n_unique() > 1]
    elif non_null.dtype.is_numeric():
        tests = [*quartiles(non_null)]
    for sign, value in tests:
        holds = BEYOND.get(sign, operator.eq)(values, value).fill_null(value=False).to_numpy()
        phi = _guarded(word, f"{word} {sign} {literal_text(value)}", holes=holes)
        yield ImageCondition(name, value_words(name, value, sign), phi, holds)


def _of_words(
    data: Dataset, whole: Dataset, stop_words: Collection[str]
) -> Iterator[ImageCondition]:
    """Words of enough images' captions, the most frequent ones first."""
    if data.captions is None:
        return
    texts = data.caption_words.select("row", pl.col("words").str.strip_chars().str.split(" "))
    pairs = pl.Series([*map(character_pairs, texts["words"].to_list())], dtype=pl.List(pl.String))
    units = np.arange(len(data)) if data.groups is None else unit_numbers(data.groups)
    rows = texts.select("row", word=pl.col("words").list.concat(pairs))
    rows = rows.explode("word").filter(pl.col("word").str.len_chars() > 1).unique()
    rows = rows.with_columns(unit=pl.Series(units)[rows["row"]])
    counts = rows.group_by("word").agg(n=pl.col("unit").n_unique()).filter(
        pl.col("n") >= LEAST_IMAGES, ~pl.col("word").is_in([*stop_words])
    ).sort("n", "word", descending=[True, False]).head(MOST_WORDS)  # fmt: skip
    of_word = rows.group_by("word").agg("row")
    holds = np.zeros((counts.height, len(data)), bool)
    holes = whole.captions is None or whole.caption_words["row"].n_unique() < len(whole)
    placed = counts.join(of_word, on="word", how="left", maintain_order="left")
    for inside, (word, places) in zip(holds, placed.select("word", "row").rows(), strict=True):
        inside[places] = True
        call = f"word({identifier(word)})"
        phi = _guarded(call, call, holes=holes)
        yield ImageCondition(word, f"with '{word}'{CAPTIONED}", phi, inside, of_word=True)
