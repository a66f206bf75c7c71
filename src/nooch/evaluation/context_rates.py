"""Rates of yes by side and subset, pooled over tasks: does the context decide the answer?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array

from nooch.base.errors import InputError
from nooch.evaluation.bootstrap import RESAMPLES, BootstrapDraws, intervals
from nooch.evaluation.metrics.proportions import effective_number, ratio_interval, wilson
from nooch.evaluation.predictions import positions
from nooch.suites import CELLS

MOST_UNKNOWN = 0.05
"""Share of unknown answers above which a rate has bounds and no value."""

Floats = NDArray[np.float64]
_SIDES = ("positive", "negative")
_OF_YES = ("rate", "macro_recall")
"""Measures that are larger the more answers are yes."""
_PLACES = [
    *(("rate", cell) for cell in CELLS),
    *(("ratio", side) for side in _SIDES),
    *(("odds_ratio", side) for side in _SIDES),
    ("macro_recall", "positive"),
]
_REASONS = ["no image"] * 4 + ["no yes on easy images, or no image"] * 4 + ["no image"]


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% interval; None if it is undefined.

    Attributes:
        value: of the data, with unknown answers counted as wrong; ``low`` and ``high`` its
            interval for any meaning of these.
        n: images and tasks that it is about.
        reason: why there is no value.
        least: the least value that unknown answers could have meant; ``most`` the largest.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, eq=False)
class _Answers:
    """The answers that rates are of: ``yes`` and ``weight`` float64 (n,), ``cell`` an index into
    ``CELLS``, and the number of the ``unit``: of the image, or its group.
    """

    yes: Floats
    weight: Floats
    cell: NDArray[np.int64]
    unit: NDArray[np.int64]

    def of_positives(self, task: NDArray[np.intp], n_tasks: int) -> _Answers:
        """The answers about positives as one cell, with weights that sum to 1 for each task."""
        weight = np.where(self.cell % 2 == 0, self.weight, 0.0)
        of_task = np.bincount(task, weight, minlength=n_tasks)[task]
        weight = np.divide(weight, of_task, out=np.zeros(len(weight)), where=of_task > 0)
        return replace(self, weight=weight, cell=np.zeros_like(self.cell))

    def _sums(self, values: Floats) -> Floats:
        return np.bincount(self.cell, values, minlength=4).astype(np.float64)

    def means(self, values: Floats) -> Floats:
        """Weighted means by cell, float64 (4,); NaN without a row."""
        total, weight = self._sums(self.weight), self._sums(self.weight * values)
        return np.asarray(np.divide(weight, total, out=np.full(4, np.nan), where=total > 0))

    def effective(self, values: Floats) -> Floats:
        """Answers that would tell as much about the mean of values without weights, about as many
        images, float64 (4,); see ``effective_number``.
        """
        numbers = np.zeros(4)
        for cell in range(4):
            own = self.cell == cell
            numbers[cell] = effective_number(values[own], self.unit[own], self.weight[own])
        return numbers


@dataclass(frozen=True, eq=False)
class ContextRates:
    """Rates of yes of a model.

    Attributes:
        estimates: (measure, subset) -> estimate: ``rate``, the share of yes, pooled over tasks, by
            cell (one of ``CELLS``); by side ``ratio``, the rate of its hard images over the rate of
            its easy ones, and ``odds_ratio``, Mantel-Haenszel's of yes, hard to easy, over tasks;
            and ``macro_recall``, the mean over tasks of the share of yes on positives.
        unknown: cell -> share of what was asked, by weight, that is unknown: neither yes nor no, or
            without an answer.
        there: share of the drawn images whose files were there to ask about.
        of_tenths: hard are the tenths of each object's images that contradict the label most.
        states_recall: whether the macro recall is also stated.
        recognized: further lines: figures by which a known benchmark is recognized.
    """

    estimates: Mapping[tuple[str, str], Estimate]
    unknown: Mapping[str, float] = field(default_factory=dict)
    there: float = 1.0
    of_tenths: bool = False
    states_recall: bool = False
    recognized: Sequence[str] = ()

    def frame(self) -> pl.DataFrame:
        """``measure, subset, value, low, high, n, reason``, a row for each estimate; a rate or
        recall is None between its bounds where more than ``MOST_UNKNOWN`` of the answers are
        unknown.
        """
        rows = []
        for (measure, subset), estimate in self.estimates.items():
            row = {"measure": measure, "subset": subset, **vars(estimate)}
            least, most = row.pop("least"), row.pop("most")
            shares = [s for cell, s in self.unknown.items() if cell.endswith(subset)]
            if measure in _OF_YES and max(shares, default=0) > MOST_UNKNOWN:
                row |= {"value": None, "low": least, "high": most}
            rows.append(row)
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(("value", "low", "high"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides={**schema, "reason": pl.String})

    @property
    def has_bounds_alone(self) -> bool:
        """True if more than ``MOST_UNKNOWN`` of what was asked in a cell is unknown."""
        return any(share > MOST_UNKNOWN for share in self.unknown.values())

    def bounded(self) -> list[dict[str, Any]]:
        """For each cell ``subset, rate, low, high, n, unknown_share, bound_low, bound_high``: the
        bounds are the rate if all unknown answers meant no, and if all meant yes; ``rate`` is
        None where more than ``MOST_UNKNOWN`` are unknown.
        """
        rows = []
        for cell, share in self.unknown.items():
            row: dict[str, Any] = {"subset": cell, "rate": None, "low": None, "high": None}
            rate = self.estimates["rate", cell]
            if share <= MOST_UNKNOWN:
                row |= {"rate": rate.value, "low": rate.low, "high": rate.high}
            row |= {"n": rate.n, "unknown_share": share}
            rows.append(row | {"bound_low": rate.least, "bound_high": rate.most})
        return rows


def answer_rates(rows: pl.DataFrame, *, bootstrap: int = RESAMPLES, seed: int = 0) -> ContextRates:
    """Rates of yes by cell, with the share of unknown answers and what they leave open.

    An unknown answer counts as wrong: as a yes about an absent object, as a no about a present one;
    in the ratio of hard to easy images, as what makes the context matter most.

    ``rows``: as of ``context_rates``, and ``unknown`` and ``skipped`` (Boolean): skipped ones are
        only in the bounds.
    """
    counted = rows.filter(~pl.col("skipped"))
    counted = counted if counted.height else rows
    weight, hard = pl.col("weight"), pl.col("cell").str.starts_with("hard")

    def read(of: pl.DataFrame, on_hard: float, on_easy: float) -> Mapping[Any, Estimate]:
        meant = pl.when(hard).then(on_hard).otherwise(on_easy)
        yes = pl.when("unknown").then(meant).otherwise(pl.col("yes").cast(pl.Float64))
        read_so = of.with_columns(yes=yes)
        return context_rates(read_so, bootstrap=bootstrap, seed=seed).estimates

    plain = read(counted, 0, 0)
    no = yes = away = towards = plain
    if rows["unknown"].any():
        meant = (0, 0), (1, 1), (0, 1), (1, 0)
        no, yes, away, towards = (read(rows, *ends) for ends in meant)
    estimates = {}
    for place, estimate in plain.items():
        pair = (no, yes) if place[0] in _OF_YES else (away, towards)
        least, most = (of[place] for of in pair)
        worst = most if place[1].endswith("negative") else least
        worst = worst if len(counted) == len(rows) else estimate
        estimates[place] = replace(
            worst, low=least.low, high=most.high, n=most.n, least=least.value, most=most.value
        )
    shares = rows.group_by("cell").agg((pl.col("unknown") * weight).sum() / weight.sum())
    drawn = rows["available_share"].drop_nulls().to_list() if "available_share" in rows else []
    return ContextRates(estimates, dict(sorted(shares.rows())), min(drawn, default=1.0))


def context_rates(rows: pl.DataFrame, *, bootstrap: int = RESAMPLES, seed: int = 0) -> ContextRates:
    """Rates of yes by cell, their ratios and odds ratios, pooled over tasks.

    ``rows``: ``image_id, task, cell`` (one of ``CELLS``), ``yes`` (Boolean or a share in [0, 1]),
    and ``weight`` (Float64, the images that a row stands for; 1 where the column is not there).
    Each image and task once. With a column ``unit``, the number of the image's group, groups are
    resampled, else images.
    """
    if not rows.height:
        raise InputError("there are no answers about images of the challenge sets")
    weight = rows["weight"].to_numpy() if "weight" in rows.columns else np.ones(rows.height)
    yes = rows["yes"].cast(pl.Float64).to_numpy()
    cell = rows["cell"].replace_strict(list(CELLS), range(4), return_dtype=pl.Int64).to_numpy()
    names = rows["task"].unique(maintain_order=True)
    units, unit = np.unique(
        rows["unit" if "unit" in rows.columns else "image_id"], return_inverse=True
    )
    place, n_tasks, n_units = positions(rows["task"], names) * 4 + cell, len(names), len(units)
    # sums of weights, then of weights of yes, for each task and cell
    entries = np.concatenate([weight, weight * yes])
    places = np.concatenate([place, place + 4 * n_tasks]), np.tile(unit, 2)
    matrix = coo_array((entries, places), (8 * n_tasks, n_units)).tocsr()
    draws = BootstrapDraws(n_units, bootstrap, seed)
    weights = np.ones((n_units, 1)), *(block for _, block in draws.weights(slice(None)))
    sums = np.concatenate([matrix @ w for w in weights], axis=1).reshape(2, n_tasks, 4, -1)
    answers, measures = _Answers(yes, weight, cell, unit), _measures(sums)
    point, replicates = measures[:, 0], measures[:, 1:]
    bounds = np.full((2, 8), np.nan)
    if replicates.shape[1]:
        low, high, _ = intervals(replicates[6:])
        bounds[:, 6:] = np.where(~np.isnan(point[6:]) & (high > low), [low, high], np.nan)
    bounds[:, :4] = wilson(point[:4], answers.effective(answers.yes))
    of_hard, of_easy = bounds[:, :2], bounds[:, 2:4]
    bounds[:, 4:6] = ratio_interval(point[:2], [*of_hard], point[2:4], [*of_easy])
    # the mean over tasks is one of answers: each task has as much weight
    answers = answers.of_positives(place // 4, n_tasks)
    macro, effective = answers.means(yes)[:1], answers.effective(yes)[:1]
    bounds = np.concatenate([bounds, wilson(macro, effective)], axis=1)
    n = np.bincount(cell, minlength=4)
    sizes = [*n, *(2 * [n[0] + n[2], n[1] + n[3]]), n[0] + n[2]]
    estimates = []
    for *numbers, size, reason in zip([*point, *macro], *bounds, sizes, _REASONS, strict=True):
        value, least, most = (None if np.isnan(number) else float(number) for number in numbers)
        why = reason if value is None else None
        estimates.append(Estimate(value, least, most, int(size), why, value, value))
    return ContextRates(dict(zip(_PLACES, estimates, strict=True)))


def _measures(sums: Floats) -> Floats:
    """Rates of cells, ratios and odds ratios by side, float64 (8, k), from (2, n_tasks, 4, k)."""
    total, yes = sums
    no = total - yes
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = yes.sum(axis=0) / total.sum(axis=0)
        # cells are hard positive, hard negative, easy positive, easy negative
        ratios = rates[:2] / rates[2:]
        both = total[:, :2] + total[:, 2:]
        share = np.where(both > 0, 1 / both, 0.0)
        above = (yes[:, :2] * no[:, 2:] * share).sum(axis=0)
        odds = above / (no[:, :2] * yes[:, 2:] * share).sum(axis=0)
    result = np.concatenate([rates, ratios, odds])
    return np.where(np.isfinite(result), result, np.nan)


def headlines(contexts: Mapping[tuple[str, str], ContextRates], verb: str) -> list[str]:
    """For each run and criterion its ``headline``, the macro recall where it is stated, and what
    it is recognized by.
    """
    lines = []
    for key, rates in contexts.items():
        recall = rates.estimates["macro_recall", "positive"]
        macro = f"macro recall, the mean over classes: {_text(recall)}"
        has_macro = rates.states_recall and recall.most is not None
        found = headline(rates, verb), macro if has_macro else None, *rates.recognized
        lines += [f"{', '.join(key)}: {line}" for line in found if line]
    return lines


def headline(rates: ContextRates, verb: str) -> str | None:
    """Summary line: "VERB an absent object: 16.7% [..] with its context, 5.2% [..] without: 3.2
    times; 0.0% unknown"; None if there is no hard or no easy negative. Where any answer is unknown,
    each number is the least and the most that it could be, with an interval around both.
    """
    cells = [f"{kind}_negative" for kind in ("hard", "easy")]
    of_cells = [rates.estimates["rate", cell] for cell in cells]
    if any(estimate.most is None for estimate in of_cells):
        return None
    hard, easy = (_text(estimate) for estimate in of_cells)
    ratio = rates.estimates["ratio", "negative"]
    times = _range(ratio, 1, " times")
    where = "with its context", "without"
    if rates.of_tenths:
        where = "in the fifth of the images that contradict most", "in the others"
    line = f"{verb} an absent object: {hard} {where[0]}, {easy} {where[1]}"
    line += f": {times}" if times else ""
    if rates.there < 1:
        line += f"; of {_percent(rates.there)}% of the drawn images, those that are there"
    if not rates.unknown:
        return line
    shares = dict.fromkeys(_percent(rates.unknown[cell]) for cell in cells)
    return f"{line}; {' and '.join(shares)}% unknown"


def _percent(share: float) -> str:
    """In percent, never 0.0 of more than nothing."""
    return "<0.1" if 0 < share < 0.0005 else f"{100 * share:.1f}"


def _range(estimate: Estimate, scale: float, unit: str) -> str:
    """The value, or the least and the most that it could be; "" if neither is defined."""
    ends = [estimate.least, estimate.most]
    texts = [None if end is None else f"{scale * end:.1f}" for end in ends]
    least, most = texts
    if least is None or most is None:
        return "" if least is None else f"at least {least}{unit}"
    return f"{least}{unit}" if ends[0] == ends[1] else f"{least} to {most}{unit}"


def _text(estimate: Estimate) -> str:
    low, high = (100 * (end or 0.0) for end in (estimate.low, estimate.high))
    return f"{_range(estimate, 100, '%')} [{low:.1f}, {high:.1f}]"
