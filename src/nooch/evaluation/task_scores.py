"""One task of a split: every run on every subset of every criterion's set, with intervals and
paired differences.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet
from nooch.evaluation.aligned_predictions import Aligned
from nooch.evaluation.bootstrap import Draws, intervals, wilson
from nooch.evaluation.subsets import SCORED, Subset
from nooch.metrics import Graded, Parts

__all__ = [
    "AVERAGE",
    "Averages",
    "Block",
    "Part",
    "Place",
    "block_of",
    "score_task",
    "with_replicates",
]

AVERAGE = "average"
"""The task that stands for the unweighted mean over tasks."""

INTERVALS = (None, "bootstrap", "wilson")
"""Kinds of 95 % intervals, by their number in ``Block.kinds``."""

_ROUNDING = 1e-12

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """What a block of scores is of.

    Attributes:
        criterion: its name; ``task`` and ``split`` likewise (task ``average``: the mean over
            tasks).
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
class Part:
    """A criterion's set of the task, divided.

    Attributes:
        challenge: the set.
        rows: where its images are among the split's: positions, or a slice of all.
        place: names and sizes of its subsets.
        parts: how they are made up.
    """

    challenge: ChallengeSet
    rows: NDArray[np.intp] | slice
    place: Place
    parts: Parts


@dataclass(frozen=True)
class Block:
    """Values of one run (``baseline`` None), or what it has more than the baseline run.

    Attributes:
        run: name of the run.
        place: what they are of.
        values: float64 (n_subsets, n_metrics), NaN where undefined; ``low`` and ``high`` likewise,
            NaN without an interval.
        resamples: int64 (n_subsets, n_metrics), resamples in which the value is defined.
        kinds: int8 (n_subsets, n_metrics), positions in ``INTERVALS``.
        over: for an average, the tasks in which each value is defined: names of each (subset,
            metric), row by row.
        baseline: name of the run that is subtracted.
    """

    run: str
    place: Place
    values: Floats
    low: Floats
    high: Floats
    resamples: NDArray[np.int64]
    kinds: NDArray[np.int8]
    over: Sequence[tuple[str, ...]] | None = None
    baseline: str | None = None


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
    sums: dict[tuple[str, str], Floats] = field(default_factory=dict)
    counts: dict[tuple[str, str], Floats] = field(default_factory=dict)
    places: dict[tuple[str, str], list[Place]] = field(default_factory=dict)
    known: dict[tuple[str, str], list[NDArray[np.bool_]]] = field(default_factory=dict)
    scored: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, run: str, part: Part, rows: Floats) -> None:
        """Add a task's (n_subsets, n_metrics, 1 + k): its values, then its replicates."""
        key, rows = (run, part.place.criterion), rows[part.place.common]
        self.scored[key] = self.scored.get(key, 0) + 1
        if part.place.task not in self.over.get(key[1], {part.place.task}):
            return
        known = ~np.isnan(rows) & ~np.isnan(rows[..., :1])
        sums, counts = np.where(known, rows, 0.0), known.astype(np.float64)
        self.sums[key] = self.sums[key] + sums if key in self.sums else sums
        self.counts[key] = self.counts[key] + counts if key in self.counts else counts
        self.places.setdefault(key, []).append(part.place)
        self.known.setdefault(key, []).append(known[..., 0])

    def blocks(self, metrics: Sequence[str], baseline: str) -> list[Block]:
        """Means of every run with at least two tasks, and their differences from the baseline over
        the same tasks.
        """
        blocks: list[Block] = []
        for criterion in dict.fromkeys(criterion for _, criterion in self.sums):
            keys = [key for key in self.sums if key[1] == criterion and self.scored[key] > 1]
            rows = {run: self._means((run, criterion)) for run, _ in keys}
            for run, _ in keys:
                place, over = self._place((run, criterion)), self._over((run, criterion))
                blocks.append(block_of(run, place, metrics, rows[run], over=over))
            for run, _ in keys:
                if (
                    run != baseline
                    and baseline in rows
                    and self._same_tasks((run, criterion), (baseline, criterion))
                ):
                    place, over = self._place((run, criterion)), self._over((run, criterion))
                    gap = rows[run] - rows[baseline]
                    blocks.append(block_of(run, place, metrics, gap, baseline=baseline, over=over))
        return blocks

    def _means(self, key: tuple[str, str]) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.asarray(self.sums[key] / self.counts[key])
        if self.strict:
            means[self.counts[key][..., 0] < len(self.places[key])] = np.nan
        return means

    def _over(self, key: tuple[str, str]) -> list[tuple[str, ...]]:
        """Names of the tasks in which each value is defined, for each (subset, metric)."""
        tasks = [place.task for place in self.places[key]]
        masks = np.array(self.known[key]).reshape(len(tasks), -1).T
        # most values share few lists
        seen: dict[bytes, tuple[str, ...]] = {}
        return [
            seen.setdefault(
                mask.tobytes(), tuple(t for t, known in zip(tasks, mask, strict=True) if known)
            )
            for mask in masks
        ]

    def _same_tasks(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        return [p.task for p in self.places[one]] == [p.task for p in self.places[other]]

    def _place(self, key: tuple[str, str]) -> Place:
        places = self.places[key]
        n, n_positive = (
            np.sum([getattr(place, size)[place.common] for place in places], axis=0)
            for size in ("n", "n_positive")
        )
        subsets = [places[0].subsets[row] for row in places[0].common]
        return Place(key[1], AVERAGE, places[0].split, subsets, n, n_positive, len(places))


def score_task(
    parts: Sequence[Part],
    runs: Mapping[str, tuple[Aligned, str]],
    metrics: Sequence[str],
    draws: Draws | None,
    baseline: str,
) -> tuple[list[Block], list[tuple[str, Part, Floats]]]:
    """Score one task of a split.

    Args:
        parts: one for each criterion.
        runs: name -> (values in the order of the split's images, scale).
        metrics: names.
        draws: resamples of the split's images, or None.
        baseline: the run from which differences are taken, if it is among these.

    Returns:
        Blocks by criterion, first all runs, then the differences; and (run, part, values) for
        ``Averages``.
    """
    blocks: list[Block] = []
    found: list[tuple[str, Part, Floats]] = []
    graded: dict[str, Graded] = {}
    before: ChallengeSet | None = None
    for part in parts:
        challenge, place = part.challenge, part.place
        if before is None or not challenge.image_ids.equals(before.image_ids):
            # criteria with a verdict on the same images share one ranking
            graded = {
                name: Graded(
                    challenge.labels,
                    run.values(challenge.task, part.rows, challenge),
                    scale,
                    metrics,
                )
                for name, (run, scale) in runs.items()
            }
        before = challenge
        rows = with_replicates(graded, part, draws)
        for name, values in rows.items():
            found.append((name, part, values))
            blocks.append(block_of(name, place, metrics, values))
        if baseline in rows:
            gaps = {
                name: values - rows[baseline] for name, values in rows.items() if name != baseline
            }
            blocks += [
                block_of(name, place, metrics, gap, baseline=baseline) for name, gap in gaps.items()
            ]
    return blocks, found


def with_replicates(
    graded: Mapping[str, Graded], part: Part, draws: Draws | None
) -> dict[str, Floats]:
    """Run -> (n_subsets, n_metrics, 1 + k): values, then replicates."""
    points = {name: one.scores(part.parts)[..., None] for name, one in graded.items()}
    if draws is None:
        return points
    rows = {
        name: np.empty((*values.shape[:2], 1 + draws.resamples)) for name, values in points.items()
    }
    for name, values in points.items():
        rows[name][..., :1] = values
    for block, weights in draws.weights(part.rows):
        for name, one in graded.items():
            rows[name][..., 1 + block.start : 1 + block.stop] = one.resampled(part.parts, weights)
    return rows


def block_of(
    run: str,
    place: Place,
    metrics: Sequence[str],
    rows: Floats,
    *,
    baseline: str | None = None,
    over: Sequence[tuple[str, ...]] | None = None,
) -> Block:
    """Values of a run from rows (n_subsets, n_metrics, 1 + n_replicates), the point estimate first,
    with 95 % intervals.

    Percentiles of the replicates. The error on a subset is a share of its images: without
    replicates, and where these all agree or most of them are undefined, it has Wilson's interval.
    No other value has an interval of width 0; differences are as they come.
    """
    point, replicates = rows[..., 0], rows[..., 1:]
    low = high = np.full(point.shape, np.nan)
    defined = np.zeros(point.shape, dtype=np.int64)
    if replicates.shape[-1]:
        low, high, defined = intervals(replicates)
        unusable = (
            np.isnan(point) if baseline is not None else np.isnan(point) | (high - low <= _ROUNDING)
        )
        low, high = (np.where(unusable, np.nan, bound) for bound in (low, high))
    kinds = np.where(np.isnan(low), 0, 1).astype(np.int8)
    if baseline is None and over is None:
        share = np.array(
            [[m == "error" and s.name in SCORED for m in metrics] for s in place.subsets],
            dtype=bool,
        )
        share &= np.isnan(low) & ~np.isnan(point)
        bounds = wilson(point, place.n[:, None])
        low, high = (
            np.where(share, bound, known) for bound, known in zip(bounds, (low, high), strict=True)
        )
        kinds[share] = 2
    return Block(run, place, point, low, high, defined, kinds, over, baseline)
