"""One task of a split: every run on every subset of its sets, with intervals and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet
from nooch.evaluation.aligned_predictions import Aligned
from nooch.evaluation.bootstrap import BootstrapDraws, intervals, wilson
from nooch.evaluation.subsets import SCORED, Subset
from nooch.metrics import Graded, Parts

__all__ = [
    "AVERAGE",
    "Averages",
    "Block",
    "DividedSet",
    "ScoreScope",
    "block_of",
    "graded",
    "score_task",
    "with_replicates",
]

AVERAGE = "average"
"""The task that stands for the unweighted mean over tasks."""

INTERVALS = (None, "bootstrap", "wilson")
"""Kinds of 95 % intervals, by their number in ``Block.kinds``."""

_ROUNDING = 1e-12

Floats = NDArray[np.float64]
K = TypeVar("K")


@dataclass(frozen=True)
class ScoreScope:
    """The criterion, task, split and subsets of a block of scores.

    Attributes:
        criterion: its name; ``task`` (``average``: the mean over tasks) and ``split`` likewise.
        subsets: the subsets, in the order of the rows of scores.
        n: int64 (n_subsets,), images; ``n_positive`` those that are positive.
        tasks: how many tasks an average is over, else 1.
    """

    criterion: str
    task: str
    split: str
    subsets: Sequence[Subset]
    n: NDArray[np.int64]
    n_positive: NDArray[np.int64]
    tasks: int = 1

    @property
    def common(self) -> list[int]:
        """Rows of the subsets that every task has: those that do not depend on its cues."""
        return [row for row, subset in enumerate(self.subsets) if subset.cue is None]


@dataclass(frozen=True)
class DividedSet:
    """A criterion's set of the task, divided.

    Attributes:
        challenge: the set.
        rows: where its images are among the split's: positions, or a slice of all.
        scope: names and sizes of its subsets.
        parts: how they are made up.
    """

    challenge: ChallengeSet
    rows: NDArray[np.intp] | slice
    scope: ScoreScope
    parts: Parts


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


@dataclass
class _Mean:
    """The mean over tasks of one run and criterion, with replicates of its own."""

    scopes: list[ScoreScope] = field(default_factory=list)
    known: list[NDArray[np.bool_]] = field(default_factory=list)
    sums: Floats = field(default_factory=lambda: np.zeros(()))
    counts: Floats = field(default_factory=lambda: np.zeros(()))

    def add(self, scope: ScoreScope, rows: Floats) -> None:
        """Add a task's values and replicates, as for ``Averages.add``."""
        known = ~np.isnan(rows) & ~np.isnan(rows[..., :1])
        self.sums = self.sums + np.where(known, rows, 0.0)
        self.counts = self.counts + known
        self.scopes.append(scope)
        self.known.append(known[..., 0])

    def values(self, strict: bool) -> Floats:
        """Means of the defined values; ``strict``: NaN where a task's value is undefined."""
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.asarray(self.sums / self.counts)
        if strict:
            means[self.counts[..., 0] < len(self.scopes)] = np.nan
        return means

    @property
    def tasks(self) -> list[str]:
        return [scope.task for scope in self.scopes]

    @property
    def over(self) -> list[tuple[str, ...]]:
        """Names of the tasks in which each value is defined, for each (subset, metric)."""
        masks = np.array(self.known).reshape(len(self.known), -1).T
        # most values share few lists
        seen: dict[bytes, tuple[str, ...]] = {}
        return [
            seen.setdefault(mask.tobytes(), tuple(compress(self.tasks, mask))) for mask in masks
        ]

    @property
    def scope(self) -> ScoreScope:
        """The subsets that all tasks have, with the sums of their sizes."""
        first = self.scopes[0]
        n, n_positive = (
            np.sum([getattr(scope, size)[scope.common] for scope in self.scopes], axis=0)
            for size in ("n", "n_positive")
        )
        return replace(
            first,
            task=AVERAGE,
            subsets=[first.subsets[row] for row in first.common],
            n=n,
            n_positive=n_positive,
            tasks=len(self.scopes),
        )


@dataclass
class Averages:
    """Means over the tasks of (run, criterion), with replicates of their own.

    Attributes:
        over: criterion -> the tasks that its averages are over; of another criterion, all.
        strict: whether a value that is undefined for one of these tasks has no average. Else the
            task is left out of that average.
    """

    over: Mapping[str, Collection[str]] = field(default_factory=dict)
    strict: bool = False
    _means: dict[tuple[str, str], _Mean] = field(default_factory=dict)
    _scored: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, run: str, part: DividedSet, rows: Floats) -> None:
        """Add a task's (n_subsets, n_metrics, 1 + k): its values, then its replicates."""
        scope = part.scope
        key = run, scope.criterion
        self._scored[key] += 1
        if scope.task in self.over.get(scope.criterion, [scope.task]):
            self._means.setdefault(key, _Mean()).add(scope, rows[scope.common])

    def blocks(self, metrics: Sequence[str], baseline: str) -> list[Block]:
        """Means of each run with two or more tasks, and differences over the baseline's tasks."""
        blocks: list[Block] = []
        for criterion in dict.fromkeys(criterion for _, criterion in self._means):
            means = {
                key[0]: mean
                for key, mean in self._means.items()
                if key[1] == criterion and self._scored[key] > 1
            }
            rows = {run: mean.values(self.strict) for run, mean in means.items()}
            for run, mean in means.items():
                blocks.append(block_of(run, mean.scope, metrics, rows[run], over=mean.over))
            for run, mean in means.items():
                if run != baseline and baseline in rows and mean.tasks == means[baseline].tasks:
                    gap = rows[run] - rows[baseline]
                    blocks.append(
                        block_of(run, mean.scope, metrics, gap, baseline=baseline, over=mean.over)
                    )
        return blocks


def score_task(
    parts: Sequence[DividedSet],
    runs: Mapping[str, tuple[Aligned, str]],
    metrics: Sequence[str],
    draws: BootstrapDraws | None,
    baseline: str,
) -> tuple[list[Block], list[tuple[str, DividedSet, Floats]]]:
    """Score one task of a split.

    Args:
        parts: one for each criterion.
        runs: name -> (values in the order of the split's images, scale).
        metrics: names.
        draws: resamples of the split's images, or None.
        baseline: the run from which differences are taken, if it is among these.

    Returns:
        Blocks by criterion: all runs, then differences; (run, part, values) for ``Averages``.
    """
    blocks: list[Block] = []
    scored: list[tuple[str, DividedSet, Floats]] = []
    models: dict[str, Graded] = {}
    before: ChallengeSet | None = None
    for part in parts:
        scope = part.scope
        if before is None or not part.challenge.image_ids.equals(before.image_ids):
            # criteria with a verdict on the same images share one ranking
            models = graded(part, runs, metrics)
        before = part.challenge
        rows = with_replicates(models, part, draws)
        for name, values in rows.items():
            scored.append((name, part, values))
            blocks.append(block_of(name, scope, metrics, values))
        for name in rows if baseline in rows else ():
            if name != baseline:
                gap = rows[name] - rows[baseline]
                blocks.append(block_of(name, scope, metrics, gap, baseline=baseline))
    return blocks, scored


def graded(
    part: DividedSet, runs: Mapping[K, tuple[Aligned, str]], metrics: Sequence[str]
) -> dict[K, Graded]:
    """Run -> its outputs for the images of a set."""
    challenge, models = part.challenge, {}
    for name, (run, scale) in runs.items():
        values = run.values(challenge.task, part.rows, challenge)
        models[name] = Graded(challenge.labels, values, scale, metrics)
    return models


def with_replicates(
    models: Mapping[K, Graded], part: DividedSet, draws: BootstrapDraws | None
) -> dict[K, Floats]:
    """Run -> (n_subsets, n_metrics, 1 + k): values, then replicates."""
    rows = {}
    for name, model in models.items():
        values = model.scores(part.parts)
        rows[name] = np.empty((*values.shape, 1 + (0 if draws is None else draws.resamples)))
        rows[name][..., 0] = values
    for block, weights in () if draws is None else draws.weights(part.rows):
        for name, model in models.items():
            rows[name][..., 1 + block.start : 1 + block.stop] = model.resampled(part.parts, weights)
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

    The point estimate is first; intervals are percentiles of the replicates. The error on a subset
    is a share of its images: without replicates, and where these all agree or most of them are
    undefined, it has Wilson's interval. Differences apart, no interval has width 0.
    """
    point, replicates = rows[..., 0], rows[..., 1:]
    low = high = np.full(point.shape, np.nan)
    defined = np.zeros(point.shape, dtype=np.int64)
    if replicates.shape[-1]:
        low, high, defined = intervals(replicates)
        unusable = np.isnan(point)
        if baseline is None:
            unusable |= high - low <= _ROUNDING
        low, high = (np.where(unusable, np.nan, bound) for bound in (low, high))
    kinds = np.where(np.isnan(low), 0, 1).astype(np.int8)
    if baseline is None and over is None:
        plain = np.array([subset.name in SCORED for subset in scope.subsets], dtype=bool)
        share = plain[:, None] & np.array([metric == "error" for metric in metrics], dtype=bool)
        share &= np.isnan(low) & ~np.isnan(point)
        least, most = wilson(point, scope.n[:, None])
        low, high = np.where(share, least, low), np.where(share, most, high)
        kinds[share] = 2
    return Block(run, scope, point, low, high, defined, kinds, over, baseline)
