"""Rates of yes by side and subset, pooled over tasks: does the context decide the answer?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array

from nooch.base.errors import InputError
from nooch.evaluation.bootstrap import BootstrapDraws, intervals
from nooch.evaluation.metrics.proportions import ratio_interval, wilson
from nooch.evaluation.predictions import positions
from nooch.suites import CELLS

MOST_UNKNOWN = 0.05
"""Share of answers that are neither yes nor no above which a rate has bounds and no value."""

Floats = NDArray[np.float64]
_SIDES = ("positive", "negative")
_PLACES = [
    *(("rate", cell) for cell in CELLS),
    *(("ratio", side) for side in _SIDES),
    *(("odds_ratio", side) for side in _SIDES),
]
_REASONS = ["no image"] * 4 + ["no yes on easy images, or no image"] * 4


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% interval; None if it is undefined.

    Attributes:
        value: of the data; ``low`` and ``high`` its interval.
        n: images and tasks that it is about.
        reason: why there is no value.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None = None


@dataclass(frozen=True)
class UnknownAnswers:
    """Answers of a cell that are neither yes nor no.

    Attributes:
        share: of all answers, by weight.
        least: the rate of yes if all of them were no; ``most`` if all were yes.
    """

    share: float
    least: Estimate
    most: Estimate


@dataclass(frozen=True, eq=False)
class _Answers:
    """The answers that rates are of: ``yes`` and ``weight`` float64 (n,), ``cell`` an index into
    ``CELLS``, and the number of the ``image``.
    """

    yes: Floats
    weight: Floats
    cell: NDArray[np.int64]
    image: NDArray[np.int64]

    def _sums(self, values: Floats) -> Floats:
        return np.bincount(self.cell, values, minlength=4).astype(np.float64)

    def means(self, values: Floats) -> Floats:
        """Weighted means by cell, float64 (4,); NaN without a row."""
        total, weight = self._sums(self.weight), self._sums(self.weight * values)
        return np.asarray(np.divide(weight, total, out=np.full(4, np.nan), where=total > 0))

    def effective(self, values: Floats) -> Floats:
        """Images that would tell as much about the mean of values without weights, float64 (4,):
        Kish's number, divided by what answers about the same image have in common.
        """
        total, squares = (
            np.bincount(self.cell, w, minlength=4) for w in (self.weight, self.weight**2)
        )
        away = self.weight * (values - self.means(values)[self.cell])
        places, of_image = np.unique(4 * self.image + self.cell, return_inverse=True)
        together = np.bincount(places % 4, np.bincount(of_image, away) ** 2, minlength=4)
        apart = self._sums(away**2)
        effect = np.divide(together, apart, out=np.ones(4), where=apart > 0)
        kish = np.divide(total**2, squares, out=np.zeros(4), where=squares > 0)
        return kish / np.maximum(effect, 1.0)


@dataclass(frozen=True, eq=False)
class ContextRates:
    """Rates of yes of a model.

    Attributes:
        estimates: (measure, subset) -> estimate: ``rate``, the share of yes, pooled over tasks, by
            cell (one of ``CELLS``); by side ``ratio``, the rate of its hard images over the rate of
            its easy ones, and ``odds_ratio``, Mantel-Haenszel's of yes, hard to easy, over tasks.
        unknown: cell -> its unknown answers; empty if there are no answers, but mentions.
        there: share of the drawn images whose files were there to ask about.
    """

    estimates: Mapping[tuple[str, str], Estimate]
    unknown: Mapping[str, UnknownAnswers] = field(default_factory=dict)
    there: float = 1.0

    def frame(self) -> pl.DataFrame:
        """``measure, subset, value, low, high, n, reason``, a row for each estimate; a rate is None
        between its bounds where more than ``MOST_UNKNOWN`` of the answers are unknown.
        """
        rows = [
            {"measure": measure, "subset": subset, **vars(estimate)}
            for (measure, subset), estimate in self.estimates.items()
        ]
        for row in rows:
            unknown = self.unknown.get(row["subset"]) if row["measure"] == "rate" else None
            if unknown is not None and unknown.share > MOST_UNKNOWN:
                row |= {"value": None, "low": unknown.least.value, "high": unknown.most.value}
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(("value", "low", "high"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides={**schema, "reason": pl.String})

    @property
    def has_bounds_alone(self) -> bool:
        """True if more than ``MOST_UNKNOWN`` of the answers of a cell count, and are unknown."""
        return any(unknown.share > MOST_UNKNOWN for unknown in self.unknown.values())

    def bounded(self) -> list[dict[str, Any]]:
        """For each cell ``subset, rate, low, high, n, unknown_share, bound_low, bound_high``: the
        bounds are the rate if all unknown answers meant no, and if all meant yes; ``rate`` is
        None where more than ``MOST_UNKNOWN`` are unknown.
        """
        rows = []
        for cell, unknown in self.unknown.items():
            row: dict[str, Any] = {"subset": cell, "rate": None, "low": None, "high": None}
            rate, bounds = self.estimates["rate", cell], (unknown.least.value, unknown.most.value)
            if unknown.share <= MOST_UNKNOWN:
                row |= {"rate": rate.value, "low": rate.low, "high": rate.high}
            row |= {"n": unknown.most.n, "unknown_share": unknown.share}
            rows.append(row | dict(zip(("bound_low", "bound_high"), bounds, strict=True)))
        return rows


def answer_rates(rows: pl.DataFrame, *, bootstrap: int = 1000, seed: int = 0) -> ContextRates:
    """Rates of yes by cell, with the share of unknown answers and what they leave open.

    ``rows``: as of ``context_rates``, and ``unknown`` and ``skipped`` (Boolean): skipped ones are
        only in the bounds.
    """
    counted = rows.filter(~pl.col("skipped"))
    draws = {"bootstrap": bootstrap, "seed": seed}
    rates = least = most = context_rates(counted if counted.height else rows, **draws)
    unknown = pl.col("unknown")
    if rows["unknown"].any():
        least = context_rates(rows.with_columns(pl.col("yes") & ~unknown), **draws)
        most = context_rates(rows.with_columns(pl.col("yes") | unknown), **draws)
    weight = pl.col("weight")
    shares = rows.group_by("cell").agg((unknown * weight).sum() / weight.sum())
    estimates = {
        cell: UnknownAnswers(share, *(r.estimates["rate", cell] for r in (least, most)))
        for cell, share in sorted(shares.rows())
    }
    shares_there = rows["images_there"].drop_nulls().to_list() if "images_there" in rows else []
    return replace(rates, unknown=estimates, there=min(shares_there, default=1.0))


def context_rates(rows: pl.DataFrame, *, bootstrap: int = 1000, seed: int = 0) -> ContextRates:
    """Rates of yes by cell, their ratios and odds ratios, pooled over tasks.

    ``rows``: ``image_id, task, cell`` (one of ``CELLS``), ``yes`` (Boolean or a share in [0, 1]),
    and ``weight`` (Float64, the images that a row stands for; 1 where the column is not there).
    Each image and task once.
    """
    if not rows.height:
        raise InputError("there are no answers about images of the challenge sets")
    weight = rows["weight"].to_numpy() if "weight" in rows.columns else np.ones(rows.height)
    yes = rows["yes"].cast(pl.Float64).to_numpy()
    cell = rows["cell"].replace_strict(list(CELLS), range(4), return_dtype=pl.Int64).to_numpy()
    names = rows["task"].unique(maintain_order=True)
    images, image = np.unique(rows["image_id"], return_inverse=True)
    place, n_tasks, n_images = positions(rows["task"], names) * 4 + cell, len(names), len(images)
    # sums of weights, then of weights of yes, for each task and cell
    entries = np.concatenate([weight, weight * yes])
    places = np.concatenate([place, place + 4 * n_tasks]), np.tile(image, 2)
    matrix = coo_array((entries, places), (8 * n_tasks, n_images)).tocsr()
    draws = BootstrapDraws(n_images, bootstrap, seed)
    weights = np.ones((n_images, 1)), *(block for _, block in draws.weights(slice(None)))
    sums = np.concatenate([matrix @ w for w in weights], axis=1).reshape(2, n_tasks, 4, -1)
    answers, measures = _Answers(yes, weight, cell, image), _measures(sums)
    point, replicates = measures[:, 0], measures[:, 1:]
    bounds = np.full((2, 8), np.nan)
    if replicates.shape[1]:
        low, high, _ = intervals(replicates[6:])
        bounds[:, 6:] = np.where(~np.isnan(point[6:]) & (high > low), [low, high], np.nan)
    bounds[:, :4] = wilson(point[:4], answers.effective(answers.yes))
    of_hard, of_easy = bounds[:, :2], bounds[:, 2:4]
    bounds[:, 4:6] = ratio_interval(point[:2], [*of_hard], point[2:4], [*of_easy])
    n = np.bincount(cell, minlength=4)
    sizes = [*n, *(2 * [n[0] + n[2], n[1] + n[3]])]
    estimates = []
    for *numbers, size, reason in zip(point, *bounds, sizes, _REASONS, strict=True):
        value, least, most = (None if np.isnan(number) else float(number) for number in numbers)
        why = reason if value is None else None
        estimates.append(Estimate(value, least, most, int(size), why))
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


def headline(rates: ContextRates, verb: str) -> str | None:
    """Summary line: "VERB an absent object: 16.7% [..] with its context, 5.2% [..] without: 3.2
    times; 0.0% unknown"; None if there is no hard or no easy negative. Where more than
    ``MOST_UNKNOWN`` of the answers are unknown, it has bounds in place of rates.
    """
    cells = [f"{kind}_negative" for kind in ("hard", "easy")]
    hard, easy = (rates.estimates["rate", cell] for cell in cells)
    unknown = [rates.unknown[cell] for cell in cells if cell in rates.unknown]
    if any(answers.share > MOST_UNKNOWN for answers in unknown):
        if len(unknown) < len(cells):
            return None
        texts, times = [_bounds(answers) for answers in unknown], ""
    elif hard.value is None or easy.value is None:
        return None
    else:
        ratio = rates.estimates["ratio", "negative"].value
        texts, times = (
            list(map(_text, (hard, easy))),
            "" if ratio is None else f": {ratio:.1f} times",
        )
    line = f"{verb} an absent object: {texts[0]} with its context, {texts[1]} without{times}"
    if rates.there < 1:
        line += f"; of {_percent(rates.there)}% of the drawn images, those that are there"
    if not unknown:
        return line
    shares = " and ".join(dict.fromkeys(_percent(answers.share) for answers in unknown))
    if times and any(answers.share for answers in unknown):
        shares += f"% unknown, which leaves {' and '.join(map(_between, unknown))}"
        return f"{line}; {shares}"
    return f"{line}; {shares}% unknown"


def _percent(share: float) -> str:
    """In percent, never 0.0 of more than nothing."""
    return "<0.1" if 0 < share < 0.0005 else f"{100 * share:.1f}"


def _between(unknown: UnknownAnswers) -> str:
    low, high = (100 * (estimate.value or 0.0) for estimate in (unknown.least, unknown.most))
    return f"{low:.1f} to {high:.1f}%"


def _bounds(unknown: UnknownAnswers) -> str:
    low, high = 100 * (unknown.least.low or 0.0), 100 * (unknown.most.high or 0.0)
    return f"{_between(unknown)} [{low:.1f}, {high:.1f}]"


def _text(estimate: Estimate) -> str:
    value, low, high = (100 * (v or 0.0) for v in (estimate.value, estimate.low, estimate.high))
    return f"{value:.1f}% [{low:.1f}, {high:.1f}]"
