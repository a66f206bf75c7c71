"""Rates of yes by side and subset, pooled over tasks: does the context decide the answer?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array

from nooch.errors import InputError
from nooch.evaluation.bootstrap import BootstrapDraws, intervals, wilson
from nooch.evaluation.subsets import CELLS

__all__ = ["ContextRates", "Estimate", "context_rates", "headline"]

Floats = NDArray[np.float64]
SIDES = ("positive", "negative")


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


@dataclass(frozen=True)
class ContextRates:
    """How often a model says yes.

    Attributes:
        rates: cell (one of ``CELLS``) -> the share of yes, pooled over tasks.
        ratios: side -> rate of its hard images over that of its easy ones.
        odds_ratios: side -> Mantel-Haenszel odds ratio of yes, hard to easy, over tasks.
    """

    rates: dict[str, Estimate]
    ratios: dict[str, Estimate]
    odds_ratios: dict[str, Estimate]

    def frame(self) -> pl.DataFrame:
        """``measure, subset, value, low, high, n, reason``, a row for each estimate."""
        named = {"rate": self.rates, "ratio": self.ratios, "odds_ratio": self.odds_ratios}
        rows = [
            {"measure": measure, "subset": of, **vars(estimate)}
            for measure, estimates in named.items()
            for of, estimate in estimates.items()
        ]
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(("value", "low", "high"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides={**schema, "reason": pl.String})


def context_rates(rows: pl.DataFrame, *, bootstrap: int = 1000, seed: int = 0) -> ContextRates:
    """Rates of yes by cell, their ratios and odds ratios.

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
    cells = rows["cell"].replace_strict(list(CELLS), list(range(4)), return_dtype=pl.Int64)
    tasks = rows["task"].rank("dense").to_numpy().astype(np.int64) - 1
    images = rows["image_id"].rank("dense").to_numpy().astype(np.int64) - 1
    n_tasks, n_images = int(tasks.max()) + 1, int(images.max()) + 1
    place = tasks * 4 + cells.to_numpy()
    # sums of weights, then of weights of yes, for each task and cell
    entries = np.concatenate([weight, weight * yes])
    at = np.concatenate([place, place + 4 * n_tasks]), np.tile(images, 2)
    matrix = coo_array((entries, at), (8 * n_tasks, n_images)).tocsr()
    measures = [_measures(matrix @ np.ones((n_images, 1)), n_tasks)]
    if bootstrap:
        draws = BootstrapDraws(n_images, bootstrap, seed)
        measures += [_measures(matrix @ w, n_tasks) for _, w in draws.weights(slice(None))]
    values = np.concatenate(measures, axis=1)
    counts = np.bincount(cells.to_numpy(), minlength=4)
    low, high = np.full((2, len(values)), np.nan)
    if bootstrap:
        low, high, _ = intervals(values[:, 1:])
        usable = ~np.isnan(values[:, 0]) & (high > low)
        low, high = (np.where(usable, bound, np.nan) for bound in (low, high))
    of_cell = np.bincount(cells.to_numpy(), weights=weight, minlength=4)
    squares = np.bincount(cells.to_numpy(), weights=weight**2, minlength=4)
    effective = np.divide(of_cell**2, squares, out=np.zeros(4), where=squares > 0)
    by_share = wilson(values[:4, 0], effective)
    low[:4] = np.where(np.isnan(low[:4]), by_share[0], low[:4])
    high[:4] = np.where(np.isnan(high[:4]), by_share[1], high[:4])
    sizes = [*counts, counts[0] + counts[2], counts[1] + counts[3]]
    sizes += sizes[4:]
    reasons = ["no image"] * 4 + ["no yes on easy images, or no image"] * 4
    found = [
        Estimate(None, None, None, int(n), reason)
        if np.isnan(value)
        else Estimate(float(value), _or_none(lo), _or_none(hi), int(n))
        for value, lo, hi, n, reason in zip(values[:, 0], low, high, sizes, reasons, strict=True)
    ]
    return ContextRates(
        dict(zip(CELLS, found[:4], strict=True)),
        dict(zip(SIDES, found[4:6], strict=True)),
        dict(zip(SIDES, found[6:], strict=True)),
    )


def _measures(sums: Floats, n_tasks: int) -> Floats:
    """Rates of cells, ratios and odds ratios by side, float64 (8, k), from (8 n_tasks, k)."""
    total, yes = sums.reshape(2, n_tasks, 4, -1)
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


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def headline(rates: ContextRates, verb: str) -> str | None:
    """The line that says it: "VERB an absent object: 16.7 % [..] with its context, 5.2 % [..]
    without: 3.2 times"; None where there is no hard or no easy negative.
    """
    hard, easy = (rates.rates[f"{kind}_negative"] for kind in ("hard", "easy"))
    if hard.value is None or easy.value is None:
        return None
    ratio = rates.ratios["negative"].value
    times = "" if ratio is None else f": {ratio:.1f} times"
    return f"{verb} an absent object: {_text(hard)} with its context, {_text(easy)} without{times}"


def _text(estimate: Estimate) -> str:
    value, low, high = (100 * (v or 0.0) for v in (estimate.value, estimate.low, estimate.high))
    return f"{value:.1f} % [{low:.1f}, {high:.1f}]"
