"""One task of a split: every run on every subset of its sets, with intervals and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nooch.evaluation.bootstrap import BootstrapDraws, auc_interval, intervals, nll_interval
from nooch.evaluation.metrics import Graded, Resampler
from nooch.evaluation.predictions import Aligned
from nooch.evaluation.share_intervals import Shares, correlated, dprime_reaches
from nooch.evaluation.subsets import DividedSet, ScoreScope
from nooch.suites import ChallengeSet

INTERVALS = (None, "bootstrap", "wilson", "tango", "jeffreys")
"""Kinds of 95 % intervals, by their number in ``Block.kinds``."""

_ROUNDING = 1e-12
OF_BOTH = {"auc", "auprc", "balanced_accuracy", "precision", "f1", "dprime", "response_criterion"}
"""Metrics that are as uncertain as the rarer label has few images."""

Floats = NDArray[np.float64]
K = TypeVar("K")


@dataclass(frozen=True)
class Block:
    """Values of one run (``baseline`` None), or what it has more than the baseline run.

    Attributes:
        run: name of the run.
        scope: what they are of.
        values: float64 (n_subsets, n_metrics), NaN where undefined; ``low`` and ``high`` likewise,
            NaN without an interval.
        resamples: int64 (n_subsets, n_metrics), resamples in which the value is defined.
        kinds: int8 (n_subsets, n_metrics), positions in ``INTERVALS``.
        over: for an average, names of the tasks that define each (subset, metric), by row.
        baseline: name of the run that is subtracted.
        p: float64 (n_subsets, n_metrics), of a difference of shares, exact; NaN of others.
        shares: those of the metrics that are shares, where their counts are known.
        reaches: of d' and the response criterion, how far their intervals reach down and up, (2,
            n_subsets, n_metrics), NaN of other metrics; or None.
    """

    run: str
    scope: ScoreScope
    values: Floats
    low: Floats
    high: Floats
    resamples: NDArray[np.int64]
    kinds: NDArray[np.int8]
    over: Sequence[tuple[str, ...]] | None = None
    baseline: str | None = None
    p: Floats | None = None
    shares: Shares | None = None
    reaches: Floats | None = None


ScoredTask = tuple[Block, Floats]
"""A block, and the values of ``scope.common``, then their replicates: (n_common, n_metrics, 1 + k).
"""


def score_task(
    parts: Sequence[DividedSet],
    runs: Mapping[str, tuple[Aligned, str]],
    metrics: Sequence[str],
    draws: BootstrapDraws | None,
    baseline: str | None,
    thresholds: Mapping[str, Mapping[str, float]],
) -> list[ScoredTask]:
    """Score one task of a split."""
    scored: list[ScoredTask] = []
    models: dict[str, Graded] = {}
    before: ChallengeSet | None = None
    for part in parts:
        if before is None or not part.challenge.image_ids.equals(before.image_ids):
            # criteria with a verdict on the same images share one ranking
            models = graded(part, runs, metrics, thresholds)
        before = part.challenge
        rows = with_replicates(models, part, draws)
        seeds = {name: [model] for name, model in models.items()}
        scored += compared(part, seeds, rows, metrics, [baseline] if baseline else [])
    return scored


def compared(
    part: DividedSet,
    models: Mapping[str, Sequence[Graded]],
    rows: Mapping[str, Floats],
    metrics: Sequence[str],
    baselines: Sequence[str],
) -> list[ScoredTask]:
    """Runs of one or several seeds on a set, then what they have more than baselines, each pair
    once. ``rows``: as of ``with_replicates``.
    """
    scope, mine = part.scope, dict[str, Block]()
    # one answer a run: over several seeds an image may change in some of them
    one = {name: seeds[0] for name, seeds in models.items() if len(seeds) == 1}
    for name, values in rows.items():
        mine[name] = block_of(
            name, scope, metrics, values,
            shares=Shares.of_run(scope, metrics, values[..., 0]),
            reaches=dprime_reaches(part, metrics, one[name]) if name in one else None,
        )  # fmt: skip
    scored = [(block, rows[name][scope.common]) for name, block in mine.items()]
    here = [name for name in baselines if name in rows]
    for number, baseline in enumerate(here):
        for name in rows:
            if name == baseline or name in here[:number]:
                continue
            gap, shares = rows[name] - rows[baseline], None
            reaches, of_baseline = mine[name].reaches, mine[baseline].reaches
            if reaches is not None and of_baseline is not None:
                pair = rows[name][..., 1:], rows[baseline][..., 1:]
                reaches = correlated(reaches, of_baseline, pair)
            if name in one and baseline in one:
                shares = Shares.of_pair(part, metrics, one[name], one[baseline])
            block = block_of(
                name, scope, metrics, gap, baseline=baseline, shares=shares, reaches=reaches
            )
            scored.append((block, gap[scope.common]))
    return scored


def graded(
    part: DividedSet,
    runs: Mapping[K, tuple[Aligned, str]],
    metrics: Sequence[str],
    thresholds: Mapping[K, Mapping[str, float]] | None = None,
) -> dict[K, Graded]:
    """Run -> its outputs for the images of a set; ``thresholds`` as for ``score_task``."""
    challenge, models = part.challenge, {}
    for name, (run, scale) in runs.items():
        values = run.values(challenge.task, part.rows, challenge)
        threshold = (thresholds or {}).get(name, {}).get(challenge.task, 0.5)
        models[name] = Graded(challenge.labels, values, scale, metrics, threshold)
    return models


def with_replicates(
    models: Mapping[K, Graded], part: DividedSet, draws: BootstrapDraws | None
) -> dict[K, Floats]:
    """Run -> (n_subsets, n_metrics, 1 + k): values, then replicates."""
    rows: dict[K, Floats] = {}
    resampled = draws is not None or part.weights is not None
    resamplers = {n: Resampler(model, part.parts) for n, model in models.items() if resampled}
    for name, model in models.items():
        if part.weights is None:
            values = model.scores(part.parts)
        else:
            own = part.weights[:, None]
            values = resamplers[name](own, own, np.ones_like(own))[..., 0]
        rows[name] = np.empty((*values.shape, 1 + (0 if draws is None else draws.resamples)))
        rows[name][..., 0] = values
    for block, counts in () if draws is None else draws.weights(part.rows):
        weights, floats, drawn = counts, counts.astype(np.float64), None
        if part.weights is not None:
            weights = floats = floats * part.weights[:, None]
            drawn = counts
        for name, resampler in resamplers.items():
            rows[name][..., 1 + block.start : 1 + block.stop] = resampler(weights, floats, drawn)
    return rows


def block_of(
    run: str,
    scope: ScoreScope,
    metrics: Sequence[str],
    rows: Floats,
    *,
    baseline: str | None = None,
    over: Sequence[tuple[str, ...]] | None = None,
    shares: Shares | None = None,
    reaches: Floats | None = None,
) -> Block:
    """A run's values with 95 % intervals, from rows (n_subsets, n_metrics, 1 + n_replicates).

    The point estimate is first. Shares have score intervals, d' and the response criterion those
    of ``reaches``; the others percentiles of the replicates, of at least ``FEWEST`` images.
    Those of AUC and NLL are of a shape of their own. Differences apart, no interval has width 0.
    """
    # a view would keep all replicates for as long as the block
    point, replicates = rows[..., 0].copy(), rows[..., 1:]
    low = high = np.full(point.shape, np.nan)
    defined, p = np.zeros(point.shape, dtype=np.int64), None
    if replicates.shape[-1]:
        low, high, defined = intervals(replicates, deciding(scope, metrics))
        unusable = np.isnan(point) | np.isnan(low)
        if baseline is None:
            low, high = _shaped(scope, metrics, rows, (low, high))
            unusable |= high <= low + _ROUNDING
        low, high = (np.where(unusable, np.nan, bound) for bound in (low, high))
    kinds = np.where(np.isnan(low), 0, 1).astype(np.int8)
    closed = []
    if shares is not None:
        least, most, p = shares.bounds()
        closed.append((least, most, 2 if shares.down is None else 3))
    if reaches is not None:
        closed.append((point - reaches[0], point + reaches[1], 4))
    for least, most, kind in closed:
        has = ~np.isnan(least) & ~np.isnan(point)
        low, high = np.where(has, least, low), np.where(has, most, high)
        kinds[has] = kind
    return Block(
        run, scope, point, low, high, defined, kinds, over, baseline, p, shares, reaches
    )  # fmt: skip


def _shaped(
    scope: ScoreScope, metrics: Sequence[str], rows: Floats, bounds: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Bounds with those of AUC and NLL in place of percentiles, where they are finite."""
    n, *sizes = scope.images
    for column, metric in enumerate(metrics):
        of = rows[:, column, 0], rows[:, column, 1:]
        if metric == "auc":
            found = auc_interval(*of, np.array(sizes), scope.tasks)
        elif metric == "nll":
            found = nll_interval(*of, n)
        else:
            continue
        for bound, own in zip(bounds, found, strict=True):
            bound[:, column] = np.where(np.isfinite(own), own, bound[:, column])
    return bounds


def deciding(scope: ScoreScope, metrics: Sequence[str]) -> NDArray[np.int64]:
    """Images that decide how far a metric may be off, (n_subsets, n_metrics)."""
    rarer = np.minimum(scope.n_positive, scope.n - scope.n_positive)
    return np.stack([rarer if name in OF_BOTH else scope.n for name in metrics], axis=1)
