"""One task of a split: every run on every subset of its sets, with intervals and differences; and
the averages over tasks, over the same tasks where averages are next to each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet, Suite
from nooch.errors import ParameterError, some_of
from nooch.evaluation.bootstrap import BootstrapDraws, intervals, wilson
from nooch.evaluation.predictions import Aligned
from nooch.evaluation.subsets import CELLS, SCORED, DividedSet, ScoreScope
from nooch.metrics import Graded, Resampler

__all__ = [
    "AVERAGE", "INTERVALS", "Averages", "Block", "averaged_tasks", "block_of", "comparable",
    "graded", "left_out", "named_tasks", "score_task", "with_replicates",
]  # fmt: skip

AVERAGE = "average"
"""The task that stands for the unweighted mean over tasks."""

INTERVALS = (None, "bootstrap", "wilson")
"""Kinds of 95 % intervals, by their number in ``Block.kinds``."""

_ROUNDING = 1e-12

Floats = NDArray[np.float64]
K = TypeVar("K")
T = TypeVar("T", bound=Hashable)
_MOST = 12
"""Tasks that a note names."""


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


def score_task(
    parts: Sequence[DividedSet],
    runs: Mapping[str, tuple[Aligned, str]],
    metrics: Sequence[str],
    draws: BootstrapDraws | None,
    baseline: str | None,
    thresholds: Mapping[str, Mapping[str, float]],
) -> tuple[list[Block], list[tuple[str, ScoreScope, Floats]]]:
    """Score one task of a split.

    Args:
        parts: one for each criterion.
        runs: name -> (values in the order of the split's images, scale).
        metrics: names.
        draws: resamples of the split's images, or None.
        baseline: the run from which differences are taken, if it is among these; or None.
        thresholds: run -> task -> probability above which the answer is positive; 0.5 by default.

    Returns:
        Blocks by criterion: all runs, then differences; (run, scope, values) for ``Averages``.
    """
    blocks: list[Block] = []
    scored: list[tuple[str, ScoreScope, Floats]] = []
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
            scored.append((name, scope, values[scope.common]))
            blocks.append(block_of(name, scope, metrics, values))
        for name in rows:
            if baseline in rows and name != baseline:
                gap = rows[name] - rows[baseline]
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
            values = resamplers[name](part.weights[:, None], part.weights[:, None])[..., 0]
        rows[name] = np.empty((*values.shape, 1 + (0 if draws is None else draws.resamples)))
        rows[name][..., 0] = values
    for block, counts in () if draws is None else draws.weights(part.rows):
        weights, floats = counts, counts.astype(np.float64)
        if part.weights is not None:
            weights = floats = floats * part.weights[:, None]
        for name, resampler in resamplers.items():
            rows[name][..., 1 + block.start : 1 + block.stop] = resampler(weights, floats)
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


def comparable(defined: Mapping[str, AbstractSet[T]]) -> list[str]:
    """Tasks that have everything that any task has; all tasks where no task has.

    Args:
        defined: task -> cells that have images, or (metric, subset) pairs that have a value.
    """
    needed: set[T] = set().union(*defined.values())
    return [task for task, has in defined.items() if has >= needed] or list(defined)


def averaged_tasks(
    suite: Suite,
    keys: Sequence[tuple[str, str, str]],
    predicted: Sequence[Collection[str]],
    min_hard: int = 0,
) -> dict[str, list[str]]:
    """The tasks that averages are over: those with images in each cell that any task has images in.

    A task without hard positives, say, would count in the AUC on easy images but not on hard ones.

    Args:
        suite: the suite.
        keys: (criterion, task, split) of the sets that are scored, of one split.
        predicted: tasks of each run; averages are over their common tasks, if two or more.
        min_hard: hard images that a task needs on either side.

    Returns:
        Criterion -> tasks.

    Raises:
        ParameterError: no task has ``min_hard`` hard images on either side.
    """
    over = {}
    for criterion in dict.fromkeys(key[0] for key in keys):
        enough = [key for key in keys if key[0] == criterion and _hard(suite, key) >= min_hard]
        if not enough:
            raise ParameterError(
                f"no task has {min_hard} hard images on either side under {criterion}",
                remedy="give a lower `min_hard`",
            )
        cells = {key[1]: _cells(suite, key) for key in enough}
        common = {task: has for task, has in cells.items() if all(task in p for p in predicted)}
        over[criterion] = comparable(common if len(common) > 1 else cells)
    return over


def named_tasks(averaged: str, tasks: Iterable[str]) -> list[str]:
    """Those of the tasks that a value of the column ``averaged_tasks`` names."""
    # a task's name may have a comma in it
    return [task for task in tasks if f", {task}, " in f", {averaged}, "]


def left_out(
    suite: Suite,
    keys: Sequence[tuple[str, str, str]],
    over: Mapping[str, Collection[str]],
    min_hard: int = 0,
) -> list[str]:
    """A note for each criterion whose averages leave out tasks: which ones, and why."""
    notes = []
    for criterion, averaged in over.items():
        cells = {key: _cells(suite, key) for key in keys if key[0] == criterion}
        lacking = {key: set(CELLS) - has for key, has in cells.items() if key[1] not in averaged}
        if not lacking:
            continue
        why = []
        for key, empty in lacking.items():
            names = [cell.replace("_", " ") for cell in CELLS if cell in empty]
            reason = f"no {' and no '.join(names)}" if empty else "not predicted by every run"
            if not empty and _hard(suite, key) < min_hard:
                reason = f"fewer than {min_hard} hard images of a side"
            why.append(f"{key[1]} ({reason})")
        (split,) = {key[2] for key in cells}
        notes.append(
            f"averages on {criterion} ({split}) are over {len(averaged)} of {len(cells)} tasks:"
            f" {some_of(averaged, _MOST)}; left out: {some_of(why, _MOST)}"
        )
    return notes


def _hard(suite: Suite, key: tuple[str, str, str]) -> int:
    record = suite.record(*key)
    return min(record.hard_positives, record.hard_negatives)


def _cells(suite: Suite, key: tuple[str, str, str]) -> set[str]:
    """Cells of a set that have images."""
    return {cell for cell, count in zip(CELLS, suite.record(*key).cells, strict=True) if count}


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
        # a view would keep those of all replicates
        self.known.append(known[..., 0].copy())

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
            effective=None,
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

    def add(self, run: str, scope: ScoreScope, rows: Floats) -> None:
        """Add a task's (n_common, n_metrics, 1 + k): its values, then its replicates."""
        key = run, scope.criterion
        self._scored[key] += 1
        if scope.task in self.over.get(scope.criterion, [scope.task]):
            self._means.setdefault(key, _Mean()).add(scope, rows)

    def blocks(self, metrics: Sequence[str], baseline: str | None) -> list[Block]:
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
