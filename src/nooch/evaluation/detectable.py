"""Number of images that a comparison needs: the smallest difference that a test detects.

A difference is detected if the power of the test that is printed (``check``: hard against easy
images; ``evaluate``: two models, and ratios of rates) is at least 80%. Power is the sum of exact
binomial chances over the outcomes that the test calls a difference, not a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray
from scipy.special import bdtrc, gammaln, ndtr, ndtri

from nooch.base.calls import checked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import ParameterError
from nooch.evaluation.findings import SIDES, SMALLEST
from nooch.evaluation.metrics.proportions import (
    LEVEL,
    SIGNIFICANT,
    exact_mcnemar,
    ratio_interval,
    student,
    wilson,
)
from nooch.evaluation.metrics.rate_gaps import exact_p
from nooch.suites import CELLS, Suite, as_suite

KINDS = ("shares", "paired", "ratio")
POWER = 0.8
RATE = 0.1
"""The error rate that is assumed where none is known."""
POINTS = 20
"""Points of the difference in ``too_few``."""
_STEPS = 1000
"""Differences are whole tenths of a point."""
_HOLES = 3
"""Numbers of errors that are also tested next to the least one that is called larger."""
_GUESSES = 8
_Z = float(ndtri((1 + LEVEL) / 2))
_REACH = 5.0
"""Standard deviations within which outcomes are summed; others count as not detected."""

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Comparison:
    """A test of a difference of two error rates, at one of them.

    Attributes:
        kind: ``shares``, the errors of a model on hard and on easy images; ``paired``, of two
            models on the same images, whose errors are independent of each other; ``ratio``, the
            ratio of a model's rates of yes on hard and on easy images.
        rate: error rate on easy images, or of the first model, in (0, 1).
        side: ``positive`` or ``negative``: of ratios, the rates are recall or of false yes.
        grouped: numbers are of groups of images.
    """

    kind: str = KINDS[0]
    rate: float = RATE
    side: str = SIDES[1]
    grouped: bool = False

    def power(self, hard: int, easy: int, difference: float) -> float:
        """Chance that a rate that is larger by ``difference``, of 1 at most, is called larger.

        ``hard``: independent images, or of two models those that both answer; ``easy``: the images
        that they are compared with; two models need none.
        """
        rate = min(1.0, self.rate + difference)
        if self.kind == KINDS[1]:
            return _power_of_pairs(hard, self.rate, rate)
        chances, least = _outcomes(self, hard, easy)
        return float(chances @ _at_least(least, hard, rate))

    def smallest(self, hard: int, easy: int) -> float | None:
        """The smallest difference, in whole tenths of a point of 100, with enough power; None if an
        error rate of 1 has not.
        """
        return _smallest(self, hard, 0 if self.kind == KINDS[1] else easy)

    def needed(self, hard: int, easy: int, difference: float) -> int:
        """Images needed on the smaller side, and then on both, to detect a difference: a number
        with enough power, while one image less has not.
        """
        return _needed(self, hard, 0 if self.kind == KINDS[1] else easy, difference)

    def calls_larger(self, x: Ints, k: Ints, hard: int, easy: int) -> Mask:
        """True where ``x`` errors of ``hard`` images are called more than ``k`` of ``easy``."""
        more = x * easy > k * hard
        if self.kind == KINDS[0]:
            p = exact_p(x, k, hard, easy)
            return more & (np.maximum(p, _vote_p(x, k, hard, easy) if self.grouped else p)
                           <= SIGNIFICANT)  # fmt: skip
        is_recall = self.side == SIDES[0]
        above, below = (abs(is_recall - errors / n) for errors, n in ((x, hard), (k, easy)))
        ends = [wilson(*pair) for pair in ((above, np.array(hard)), (below, np.array(easy)))]
        low, high = ratio_interval(above, ends[0], below, ends[1])
        return more & np.asarray(high < 1 if is_recall else low > 1)


def _vote_p(x: Ints, k: Ints, hard: int, easy: int) -> Floats:
    """Two-sided p of groups with one vote each, as of ``rate_gap``."""
    rate, share = (x + k) / (hard + easy), hard / (hard + easy)
    of_hard = x * (1 - rate) ** 2 + (hard - x) * rate**2
    of_easy = k * (1 - rate) ** 2 + (easy - k) * rate**2
    squares = of_hard * (1 - share) ** 2 + of_easy * share**2
    votes = np.abs(x - rate * hard)
    return np.asarray(2 * ndtr(-votes / np.sqrt(np.maximum(squares, np.finfo(float).tiny))))


def _first(holds: Callable[[Ints], Mask], low: Ints, high: Ints) -> Ints:
    """The first integers above ``low`` from which on something holds, by halving; ``high`` if it
    does not hold below.
    """
    while (is_open := high - low > 1).any():
        middle = (low + high) // 2
        is_held = holds(np.maximum(middle, 0))
        low, high = (
            np.where(is_open & ~is_held, middle, low), np.where(is_open & is_held, middle, high)
        )  # fmt: skip
    return high


def _likely(n: int, rate: float, least: int = 0) -> tuple[Ints, Floats]:
    """The numbers of n events, ``least`` or more, that are likely, and their chances."""
    reach = _REACH * np.sqrt(n * rate * (1 - rate)) + 3
    k = np.arange(max(least, int(n * rate - reach)), min(n, int(n * rate + reach) + 1) + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return k, np.exp(ways + k * np.log(rate) + (n - k) * np.log1p(-rate))


def _at_least(least: Ints, n: int | Ints, rate: float) -> Floats:
    """The chance of so many of n events; 0 of more than n."""
    chance = bdtrc(np.clip(least - 1, 0, n), n, rate) if rate < 1 else np.ones(least.shape)
    return np.where(least > n, 0.0, np.where(least < 1, 1.0, chance))


@lru_cache(maxsize=256)
def _outcomes(test: Comparison, hard: int, easy: int) -> tuple[Floats, Ints]:
    """Chances of the errors on easy images, and the least number of errors on hard images that is
    called larger then, ``hard`` + 1 where none is.
    """
    # a ratio to nothing is undefined
    k, chances = _likely(easy, test.rate, int(test.kind == KINDS[2] and test.side == SIDES[1]))
    if not (len(k) and hard and easy):
        return np.zeros(1), np.ones(1, np.int64)
    ends = k[[0, -1]]
    low, high = _first(
        lambda x: test.calls_larger(x, ends, hard, easy), np.full(2, -1), np.full(2, hard + 1)
    )
    if high - low < len(k):
        # more than one number of easy errors has the same least number
        x = np.arange(low, high)
        called = _first(
            lambda at: ~test.calls_larger(x, k[np.minimum(at, len(k) - 1)], hard, easy),
            np.full(len(x), -1), np.full(len(x), len(k)),
        )  # fmt: skip
        least = low + np.searchsorted(np.sort(called), np.arange(len(k)), side="right")
    else:
        start = np.full(len(k), low - 1), np.full(len(k), high)
        least = _first(lambda x: test.calls_larger(x, k, hard, easy), *start)
    if test.kind == KINDS[0]:
        # there is a hole in a few exact tests: one error more than is called larger is not
        offsets = np.arange(-_HOLES, _HOLES + 2)
        least, of_row = np.broadcast_arrays(least[:, None] + offsets, k[:, None])
        looked, is_called = (least <= hard) & (offsets <= _HOLES), np.ones(least.shape)
        x = np.maximum(least[looked], 0)
        is_called[looked] = test.calls_larger(x, of_row[looked], hard, easy)
        chances = (chances[:, None] * np.diff(is_called, prepend=0.0, axis=1)).ravel()
    least, place = np.unique(least.ravel(), return_inverse=True)
    return np.bincount(place, chances).astype(np.float64), least.astype(np.int64)


def _power_of_pairs(n: int, first: float, second: float) -> float:
    """Power of McNemar's exact test, beyond which Tango's interval excludes 0, of two models with
    these error rates on n images.
    """
    up, down = (1 - first) * second, first * (1 - second)
    changed, chances = _likely(n, up + down, 1)
    # near the normal bound
    half = np.sqrt(changed) / 2
    low, high = ((changed / 2 + z * half).astype(np.int64) for z in (1.6, 2.3))
    least = _first(
        lambda up: exact_mcnemar(up.astype(float), (changed - up).astype(float)) <= SIGNIFICANT,
        np.maximum(low - 1, changed // 2), np.minimum(high + 3, changed + 1),
    )  # fmt: skip
    return float(chances @ _at_least(least, changed, up / (up + down)))


@lru_cache(maxsize=4096)
def _smallest(test: Comparison, hard: int, easy: int) -> float | None:
    top = int(np.ceil(_STEPS * (1 - test.rate)))
    powerful = _first(
        lambda i: np.array([test.power(hard, easy, float(i[0]) / _STEPS) >= POWER]),
        np.zeros(1, np.int64), np.array([top + 1]),
    )  # fmt: skip
    return None if powerful[0] > top else float(powerful[0]) * 100 / _STEPS


@lru_cache(maxsize=4096)
def _needed(test: Comparison, hard: int, easy: int, difference: float) -> int:
    rate = min(1.0, test.rate + difference)
    spread = (rate + test.rate) * (2 - rate - test.rate) / 4
    low, high, number = 0, None, 1 + int((_Z + ndtri(POWER)) ** 2 * spread / difference**2)
    for tries in count():
        power = test.power(max(hard, number), max(easy, number), difference)
        low, high = (low, number) if power >= POWER else (number, high)
        if high is not None and high - low == 1:
            return high
        # the root of the number is nearly linear in the normal quantile of the power
        z = float(ndtri(np.clip(power, 0.03, 1 - 1e-9)))
        number = round(number * ((_Z + ndtri(POWER)) / (_Z + z)) ** 2)
        if high is not None and tries > _GUESSES:
            number = (low + high) // 2
        number = (
            max(low + 1 + tries**2, number)
            if high is None
            else (min(max(low + 1, number), high - 1))
        )
    raise AssertionError


def too_few(suite: Suite, task: str | None = None) -> str:
    """Number of images, or groups, of the set with the most hard ones, and the number that the test
    of ``check`` needs: "13 images; 41 are needed to see 20 points", at the rate ``RATE`` elsewhere.

    ``task``: of this task's sets, by default of all.
    """
    cells = [_cells(suite, key) for key in suite.keys if task in (None, key[1])]
    sides = [of_set[side::2] for of_set in cells for side in range(2)]
    hard, easy = max(sides, key=lambda pair: pair[0].n, default=[_Cell(0, 0, 0, 0)] * 2)
    test = Comparison(grouped=bool(suite.header.group))
    needed = max(SMALLEST, _needed_units(test, [hard, easy], POINTS))
    n = hard.n if hard.n < needed else min(hard.n, easy.n)
    more = f"; {needed:,} are needed to see {POINTS} points" if n < needed else ""
    return f"{n:,} {suite.unit_name}{more}"


_COLUMNS: dict[str, Any] = {
    "criterion": pl.String, "task": pl.String, "split": pl.String, "side": pl.String,
    "kind": pl.String, "n_hard": pl.Int64, "n_easy": pl.Int64, "smallest": pl.Float64,
    "ratio": pl.Float64, "missing_hard": pl.Int64, "missing_easy": pl.Int64, "reason": pl.String,
}  # fmt: skip


_TITLE = "Smallest difference of error rates, in points, that a test detects with a power of 80%"
_NOTE = (
    "By the tests of check (hard - easy: two-sided, before the correction for several sets) and of"
    " evaluate (two models on the hard images, and the ratio of a model's rates), at 5%. Error rate"
    " on easy images, and of the first model: {rate} (`rate`). This assumes that errors of two"
    " models are independent, and that images of a group have the same errors."
)


@dataclass(frozen=True, eq=False, repr=False)
class Detectable(TabularResult):
    """The smallest difference that each set detects.

    Attributes:
        table: a row for each criterion, task, split, side and ``kind`` (see ``Comparison``):
            ``n_hard`` and ``n_easy``, its images, or groups of them; ``smallest``, the difference
            in points of 100; ``ratio``, for this kind the rates' ratio at that difference;
            ``missing_hard`` and ``missing_easy``, the images, or groups, that are missing to detect
            the difference that was asked for, 0 where it is detected; ``reason``, why there is no
            number.
        settings: ``detect``, ``rate``, ``power`` and the ``unit`` that is counted.
    """

    table: pl.DataFrame
    settings: dict[str, Any]

    @property
    def content(self) -> tuple[str, dict[str, Any]]:
        """Its name in JSON, ``detect``, and the settings, with the rows as ``sets``."""
        return "detect", {**self.settings, "sets": self.table.to_dicts()}

    @property
    def display(self) -> DisplayTable:
        """A row for each side of a set."""
        rows = []
        for same in self.table.partition_by("criterion", "task", "split", "side"):
            kinds = same.to_dicts()
            row = [*list(kinds[0].values())[:4], kinds[0]["n_hard"], kinds[0]["n_easy"]]
            for kind in kinds:
                value = kind["ratio" if kind["kind"] == KINDS[2] else "smallest"]
                sides = ("hard", kind["missing_hard"]), ("easy", kind["missing_easy"])
                missing = " + ".join(f"{n:,} {side}" for side, n in sides if n)
                shown = None if kind["missing_hard"] is None else "none"
                row += [shown if value is None else f"{value:.3g}", missing or None]
            rows.append(row)
        of, unit = self.settings, self.settings["unit"]
        missing = f"missing for {of['detect']:g}"
        columns = ["criterion", "task", "split", "side", f"hard {unit}", "easy",
                   "hard - easy", missing, "two models", missing, "ratio", missing]  # fmt: skip
        return DisplayTable(_TITLE, columns, rows, 4, [_NOTE.format(rate=f"{100 * of['rate']:g}%")])


@checked
def detectable(
    suite: Suite | str | Path,
    *,
    detect: Annotated[float, Meta(gt=0, le=100)] = 10.0,
    rate: Annotated[float, Meta(gt=0, lt=1)] = RATE,
    group: str | None = None,
) -> Detectable:
    """The smallest difference that each set of a suite detects, and how many images are missing.

    For each set and side: the smallest difference, in steps of a tenth of a point, that is found
    with a power of 80%, by the test that ``check`` prints of the errors on hard and on easy images,
    and that ``evaluate`` prints of two models on the hard images and of the ratio of a model's
    rates. Where images are missing, they are so first on the side that has fewer.

    Args:
        suite: with easy images, or without for two models only.
        detect: difference of two error rates in percentage points: counts the images still missing
            to detect it.
        rate: assumed error rate of easy images and of the first of two models, in (0, 1). Rates
            near 50% need the most images.
        group: column, or pattern of file names, of images that count as one, such as ``scene``; by
            default the suite's.

    Returns:
        A row for each set, side and kind of comparison.

    Raises:
        ParameterError: no rate is larger by so many points.

    Examples:
        >>> nooch.detectable("nooch-coco", detect=20).table.columns[:4]
        ['criterion', 'task', 'split', 'side']
    """
    suite = as_suite(suite).grouped(group)
    if rate + detect / 100 > 1:
        problem = f"no rate is {detect:g} points above a rate of {rate:g}"
        raise ParameterError(problem, where="`detect`", allowed=f"at most {100 * (1 - rate):g}")
    rows = []
    for key in suite.keys:
        cells = _cells(suite, key)
        for side, of_side in zip(SIDES, (cells[::2], cells[1::2]), strict=True):
            about: dict[str, Any] = dict(zip(_COLUMNS, (*key, side), strict=False))
            about |= {"n_hard": of_side[0].n, "n_easy": of_side[1].n}
            if suite.header.hard_only:
                about["n_easy"] = None
            for kind in KINDS:
                test = Comparison(kind, rate, side, bool(suite.header.group))
                found = {"reason": "no easy images"}
                if about["n_easy"] is not None or kind == KINDS[1]:
                    found = _detected(test, of_side, detect)
                rows.append({**about, "kind": kind, **found})
    settings = {"detect": detect, "rate": rate, "power": POWER, "unit": suite.unit_name}
    return Detectable(pl.DataFrame(rows, schema=_COLUMNS), settings)


@dataclass(frozen=True)
class _Cell:
    """Images of a cell.

    Attributes:
        n: images, or groups of them; ``even`` the groups of equal size that say as much.
        alike: independent images that say as much; ``weighed`` of images by their weights.
    """

    n: int
    even: float
    alike: int
    weighed: int

    @classmethod
    def of(cls, weights: Floats, groups: Ints | None) -> Self:
        """``weights``: float64 (n,), of the images; ``groups``: integers (n,) or None."""
        ones = np.ones(len(weights))
        n = len(weights) if groups is None else len(np.unique(groups))
        even = n if groups is None else _kish(np.bincount(groups, ones))
        return cls(n, even, *(int(independent(of, groups)) for of in (ones, weights)))


def _kish(weights: NDArray[Any]) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def independent(weights: Floats, groups: Ints | None) -> float:
    """The number of independent images that say as much as images that err alike in a group, by the
    normal quantile: the ``effective_number`` to be expected.

    ``weights``: float64 (n,), at least 0; ``groups``: integers (n,); None: each image is one.
    """
    if groups is None or not weights.any():
        return _kish(weights)
    sizes = np.bincount(np.unique(groups, return_inverse=True)[1], weights)
    # the jackknife divides by one group less
    return (_kish(sizes) - 1) * (_Z / student(sizes)) ** 2


def units_of_cells(suite: Suite, key: tuple[str, str, str]) -> list[int]:
    """Images of a set, or groups of them, by cell in the order of ``CELLS``."""
    return [cell.n for cell in _cells(suite, key)]


def _cells(suite: Suite, key: tuple[str, str, str]) -> list[_Cell]:
    """The cells of a set, in the order of ``CELLS``."""
    sample = suite.sample_weights
    if not suite.header.group and sample is None:
        return [_Cell(n, n, n, n) for n in suite.record(*key).cells]
    challenge = suite.set(*key)
    units, weights = suite.units(challenge.image_ids), np.ones(len(challenge))
    if sample is not None:
        ids = pl.DataFrame({"image_id": challenge.image_ids, "task": challenge.task})
        joined = ids.join(sample, on=["image_id", "task"], how="left", maintain_order="left")
        weights = joined["weight"].fill_null(0.0).to_numpy()
    of_cells = [challenge.cells == cell for cell in range(len(CELLS))]
    return [_Cell.of(weights[own], None if units is None else units[own]) for own in of_cells]


def _detected(test: Comparison, cells: Sequence[_Cell], points: float) -> dict[str, Any]:
    """Numbers of a row."""
    sides = cells[:1] if test.kind == KINDS[1] else cells
    numbers = _numbers(test, cells)
    row: dict[str, Any] = dict.fromkeys(("smallest", "ratio", "reason"))
    least = SMALLEST if test.kind == KINDS[0] or test.grouped else 0
    if min(cell.even for cell in sides) < least:
        row["reason"] = f"fewer than {least}{' groups of equal size' if test.grouped else ''}"
    elif (smallest := test.smallest(*numbers)) is None:
        row["reason"] = "an error rate of 100% is not detected"
    else:
        row["smallest"] = smallest
        if test.kind == KINDS[2]:
            rates = np.array([test.rate + smallest / 100, test.rate])
            row["ratio"] = float(np.divide(*abs((test.side == SIDES[0]) - rates)))
    missing = [0, 0]
    if row["reason"] or test.power(*numbers, points / 100) < POWER:
        units = max(least, _needed_units(test, cells, points))
        # groups of these sizes
        missing = [max(0, int(np.ceil(units * cell.n / (cell.even or 1))) - cell.n)
                   for cell in sides]  # fmt: skip
    return {**row, "missing_hard": missing[0], "missing_easy": sum(missing[1:])}


def _numbers(test: Comparison, cells: Sequence[_Cell]) -> tuple[int, int]:
    hard, easy = (cell.alike if test.kind == KINDS[0] else cell.weighed for cell in cells)
    return hard, easy


def _needed_units(test: Comparison, cells: Sequence[_Cell], points: float) -> int:
    """Images, or groups of equal size, that ``needed`` is of."""
    needed = test.needed(*_numbers(test, cells), points / 100)
    if not test.grouped:
        return needed
    return int(np.ceil(1 + needed * (student(np.ones(needed + 1)) / _Z) ** 2))
