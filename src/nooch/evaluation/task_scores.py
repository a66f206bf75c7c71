"""One task of a split: every run on every subset of its sets, with intervals and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet
from nooch.evaluation.bootstrap import BootstrapDraws, intervals, wilson
from nooch.evaluation.predictions import Aligned
from nooch.evaluation.subsets import SCORED, DividedSet, ScoreScope
from nooch.metrics import Graded, Resampler

__all__ = [
    "INTERVALS", "Block", "ScoredTask", "block_of", "graded", "score_task", "with_replicates"
]  # fmt: skip

INTERVALS = (None, "bootstrap", "wilson")
"""Kinds of 95 % intervals, by their number in ``Block.kinds``."""

_ROUNDING = 1e-12

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


ScoredTask = tuple[str, str | None, ScoreScope, Floats]
"""A run, the baseline that is subtracted, what of, and (n_common, n_metrics, 1 + k): values, then
replicates."""


def score_task(
    parts: Sequence[DividedSet],
    runs: Mapping[str, tuple[Aligned, str]],
    metrics: Sequence[str],
    draws: BootstrapDraws | None,
    baseline: str | None,
    thresholds: Mapping[str, Mapping[str, float]],
) -> tuple[list[Block], list[ScoredTask]]:
    """Score one task of a split.

    Args:
        parts: one for each criterion.
        runs: name -> (values in the order of the split's images, scale).
        metrics: names.
        draws: resamples of the split's images, or None.
        baseline: the run from which differences are taken, if it is among these; or None.
        thresholds: run -> task -> probability above which the answer is positive; 0.5 by default.

    Returns:
        Blocks by criterion: all runs, then differences; what ``Averages`` adds.
    """
    blocks: list[Block] = []
    scored: list[ScoredTask] = []
    models: dict[str, Graded] = {}
    before: ChallengeSet | None = None
    for part in parts:
        scope = part.scope
        if before is None or not part.challenge.image_ids.equals(before.image_ids):
            # criteria with a verdict on the same images share one ranking
            models = graded(part, runs, metrics, thresholds)
        before = part.challenge
        rows = with_replicates(models, part, draws)
        for name, values in rows.items():
            scored.append((name, None, scope, values[scope.common]))
            blocks.append(block_of(name, scope, metrics, values))
        for name in rows:
            if baseline in rows and name != baseline:
                gap = rows[name] - rows[baseline]
                scored.append((name, baseline, scope, gap[scope.common]))
                blocks.append(block_of(name, scope, metrics, gap, baseline=baseline))
    return blocks, scored


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
) -> Block:
    """A run's values with 95 % intervals, from rows (n_subsets, n_metrics, 1 + n_replicates).

    The point estimate is first; intervals are percentiles of the replicates. Error, accuracy,
    recall, FPR and the rate of yes on a subset are shares of its images: without replicates, and
    where these all agree or most of them are undefined, they have Wilson's interval. Differences
    apart, no interval has width 0.
    """
    # a view would keep all replicates for as long as the block
    point, replicates = rows[..., 0].copy(), rows[..., 1:]
    low = high = np.full(point.shape, np.nan)
    defined = np.zeros(point.shape, dtype=np.int64)
    if replicates.shape[-1]:
        low, high, defined = intervals(replicates)
        unusable = np.isnan(point)
        if baseline is None:
            unusable |= high <= low + _ROUNDING
        low, high = (np.where(unusable, np.nan, bound) for bound in (low, high))
    kinds = np.where(np.isnan(low), 0, 1).astype(np.int8)
    if baseline is None and over is None:
        trials = _trials(scope, metrics)
        share = (trials > 0) & np.isnan(low) & ~np.isnan(point)
        least, most = wilson(point, trials)
        low, high = np.where(share, least, low), np.where(share, most, high)
        kinds[share] = 2
    return Block(run, scope, point, low, high, defined, kinds, over, baseline)


def _trials(scope: ScoreScope, metrics: Sequence[str]) -> NDArray[np.float64]:
    """Images that a metric is a share of, (n_subsets, n_metrics); 0 where it is no share."""
    plain = np.array([subset.name in SCORED for subset in scope.subsets])
    sizes = np.array([scope.n, scope.n_positive, scope.n - scope.n_positive])
    if scope.effective is not None:
        sizes = scope.effective
    n, n_positive, n_negative = sizes * plain
    of = {"error": n, "accuracy": n, "yes_rate": n, "recall": n_positive, "fpr": n_negative}
    return np.stack([of.get(metric, np.zeros_like(n)) for metric in metrics], axis=1)
