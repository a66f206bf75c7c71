"""Rates of yes by side and subset, pooled over tasks: does the context decide the answer?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array

from nooch.errors import InputError
from nooch.evaluation.bootstrap import BootstrapDraws, intervals, wilson
from nooch.evaluation.predictions import positions
from nooch.evaluation.subsets import CELLS

__all__ = ["POOLED", "ContextRates", "Estimate", "context_rates", "headline", "task_rates"]

POOLED = "pooled"
"""The task that stands for all tasks together."""

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
    """A value with its 95 % interval; None where it is undefined.

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


@dataclass(frozen=True, eq=False)
class ContextRates:
    """How often a model says yes.

    Attributes:
        estimates: (measure, subset) -> estimate: ``rate``, the share of yes, pooled over tasks, by
            cell (one of ``CELLS``); by side ``ratio``, the rate of its hard images over that of its
            easy ones, and ``odds_ratio``, Mantel-Haenszel's of yes, hard to easy, over tasks.
        replicates: float64 (8, k), of the estimates, in resamples of the images.
    """

    estimates: Mapping[tuple[str, str], Estimate]
    replicates: Floats

    def frame(self) -> pl.DataFrame:
        """``measure, subset, value, low, high, n, reason``, a row for each estimate."""
        rows = [
            {"measure": measure, "subset": of, **vars(estimate)}
            for (measure, of), estimate in self.estimates.items()
        ]
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(("value", "low", "high"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides={**schema, "reason": pl.String})

    def minus(self, baseline: ContextRates) -> pl.DataFrame:
        """``measure, subset, difference, low, high, n, reason``: the estimates less those of a
        baseline, whose images, tasks and resamples are the same.
        """
        low = high = np.full(len(_PLACES), np.nan)
        if self.replicates.shape[1]:
            low, high, _ = intervals(self.replicates - baseline.replicates)
        known, defined = baseline.frame(), pl.col("value").is_not_null()
        pairs = self.frame().with_columns(
            pl.col("value") - known["value"],
            pl.coalesce("reason", known["reason"]),
            low=pl.Series(low).fill_nan(None),
            high=pl.Series(high).fill_nan(None),
        )
        bounds = pl.when(defined).then(pl.col("low", "high"))
        return pairs.with_columns(bounds).rename({"value": "difference"})


def context_rates(rows: pl.DataFrame, *, bootstrap: int = 1000, seed: int = 0) -> ContextRates:
    """Rates of yes by cell, their ratios and odds ratios, pooled over tasks; see ``task_rates``."""
    return task_rates(rows, bootstrap=bootstrap, seed=seed)[POOLED]


def task_rates(
    rows: pl.DataFrame, *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, ContextRates]:
    """Rates of yes by cell, their ratios and odds ratios: of ``POOLED``, all tasks together, and of
    each task, in the same resamples.

    Args:
        rows: ``image_id, task, cell`` (one of ``CELLS``), ``yes`` (Boolean or a share in [0, 1]),
            and ``weight`` (Float64, the images that a row stands for; 1 where the column is not
            there). Each image and task once.
        bootstrap: resamples of the images, all rows of an image together, for percentile intervals;
            0 gives the rates Wilson's intervals and the others none.
        seed: of the resamples.

    Raises:
        InputError: no rows.
    """
    if not rows.height:
        raise InputError("there are no answers about images of the challenge sets")
    weight = rows["weight"].to_numpy() if "weight" in rows.columns else np.ones(rows.height)
    yes = rows["yes"].cast(pl.Float64).to_numpy()
    cell = rows["cell"].replace_strict(list(CELLS), range(4), return_dtype=pl.Int64).to_numpy()
    names = rows["task"].unique(maintain_order=True)
    task, (images, image) = (
        positions(rows["task"], names),
        np.unique(rows["image_id"], return_inverse=True),
    )
    place, n_tasks, n_images = task * 4 + cell, len(names), len(images)
    # sums of weights, then of weights of yes, for each task and cell
    entries = np.concatenate([weight, weight * yes])
    at = np.concatenate([place, place + 4 * n_tasks]), np.tile(image, 2)
    matrix = coo_array((entries, at), (8 * n_tasks, n_images)).tocsr()
    draws = BootstrapDraws(n_images, bootstrap, seed)
    weights = np.ones((n_images, 1)), *(block for _, block in draws.weights(slice(None)))
    sums = np.concatenate([matrix @ w for w in weights], axis=1).reshape(2, n_tasks, 4, -1)
    rates = {POOLED: _rates(sums, cell, weight)}
    for number, name in enumerate(names):
        own = task == number
        rates[name] = _rates(sums[:, [number]], cell[own], weight[own])
    return rates


def _rates(sums: Floats, cell: NDArray[np.int64], weight: Floats) -> ContextRates:
    """Rates from sums (2, n_tasks, 4, 1 + resamples), and the cells and weights of their rows."""
    measures = _measures(sums)
    point, replicates = measures[:, 0], measures[:, 1:]
    bounds = np.full((2, 8), np.nan)
    if replicates.shape[1]:
        low, high, _ = intervals(replicates)
        bounds = np.where(~np.isnan(point) & (high > low), [low, high], np.nan)
    n, total, squares = (np.bincount(cell, w, minlength=4) for w in (None, weight, weight**2))
    effective = np.divide(total**2, squares, out=np.zeros(4), where=squares > 0)
    of_rates = bounds[:, :4]
    bounds[:, :4] = np.where(np.isnan(of_rates), wilson(point[:4], effective), of_rates)
    sizes = [*n, *(2 * [n[0] + n[2], n[1] + n[3]])]
    estimates = []
    for *numbers, size, reason in zip(point, *bounds, sizes, _REASONS, strict=True):
        value, least, most = (None if np.isnan(number) else float(number) for number in numbers)
        why = reason if value is None else None
        estimates.append(Estimate(value, least, most, int(size), why))
    return ContextRates(dict(zip(_PLACES, estimates, strict=True)), replicates)


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
    """The line that says it: "VERB an absent object: 16.7 % [..] with its context, 5.2 % [..]
    without: 3.2 times"; None where there is no hard or no easy negative.
    """
    hard, easy = (rates.estimates["rate", f"{kind}_negative"] for kind in ("hard", "easy"))
    if hard.value is None or easy.value is None:
        return None
    ratio = rates.estimates["ratio", "negative"].value
    times = "" if ratio is None else f": {ratio:.1f} times"
    return f"{verb} an absent object: {_text(hard)} with its context, {_text(easy)} without{times}"


def _text(estimate: Estimate) -> str:
    value, low, high = (100 * (v or 0.0) for v in (estimate.value, estimate.low, estimate.high))
    return f"{value:.1f} % [{low:.1f}, {high:.1f}]"
