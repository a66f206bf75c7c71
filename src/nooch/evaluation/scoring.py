"""One task of a split: every run on every subset of every criterion's set, with intervals and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet
from nooch.evaluation.aligning import Aligned
from nooch.evaluation.resampling import Draws, intervals
from nooch.evaluation.subsets import Subset
from nooch.metrics import Graded, Parts

__all__ = ["AVERAGE", "Averages", "Block", "Part", "Place", "block_of", "score_task", "with_replicates"]

AVERAGE = "average"
"""The task that stands for the unweighted mean over tasks."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """What a block of scores is of.

    Attributes:
        criterion: its name; ``task`` and ``split`` likewise (task ``average``: the mean over tasks).
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
        values: float64 (n_subsets, n_metrics), NaN where undefined; ``low`` and ``high`` likewise, NaN without an interval.
        resamples: int64 (n_subsets, n_metrics), resamples in which the value is defined.
        tasks: int64 (n_subsets, n_metrics), tasks in which it is defined.
        baseline: name of the run that is subtracted.
    """

    run: str
    place: Place
    values: Floats
    low: Floats
    high: Floats
    resamples: NDArray[np.int64]
    tasks: NDArray[np.int64]
    baseline: str | None = None


@dataclass
class Averages:
    """Means over the tasks of (run, criterion), with replicates of their own.

    A value that is undefined for a task is left out, in every resample.
    """

    sums: dict[tuple[str, str], Floats] = field(default_factory=dict)
    counts: dict[tuple[str, str], Floats] = field(default_factory=dict)
    places: dict[tuple[str, str], list[Place]] = field(default_factory=dict)

    def add(self, run: str, part: Part, rows: Floats) -> None:
        """Add a task's (n_subsets, n_metrics, 1 + k): its values, then its replicates."""
        key, rows = (run, part.place.criterion), rows[part.place.common]
        known = ~np.isnan(rows) & ~np.isnan(rows[..., :1])
        self._add(key, np.where(known, rows, 0.0), known.astype(np.float64), [part.place])

    def merge(self, other: Averages) -> None:
        """Add what another one holds."""
        for key, sums in other.sums.items():
            self._add(key, sums, other.counts[key], other.places[key])

    def _add(self, key: tuple[str, str], sums: Floats, counts: Floats, places: list[Place]) -> None:
        self.sums[key] = self.sums[key] + sums if key in self.sums else sums
        self.counts[key] = self.counts[key] + counts if key in self.counts else counts
        self.places[key] = self.places.get(key, []) + places

    def blocks(self, baseline: str) -> list[Block]:
        """Means of every run with at least two tasks, and their differences from the baseline over the same tasks."""
        blocks: list[Block] = []
        for criterion in dict.fromkeys(criterion for _, criterion in self.sums):
            keys = [key for key in self.sums if key[1] == criterion and len(self.places[key]) > 1]
            rows = {run: self._means((run, criterion)) for run, _ in keys}
            for run, _ in keys:
                blocks.append(block_of(run, self._place((run, criterion)), rows[run], self._tasks((run, criterion))))
            for run, _ in keys:
                if run != baseline and baseline in rows and self._same_tasks((run, criterion), (baseline, criterion)):
                    key = run, criterion
                    blocks.append(
                        block_of(run, self._place(key), rows[run] - rows[baseline], self._tasks(key), baseline)
                    )
        return blocks

    def _means(self, key: tuple[str, str]) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.sums[key] / self.counts[key])

    def _tasks(self, key: tuple[str, str]) -> NDArray[np.int64]:
        return self.counts[key][..., 0].astype(np.int64)

    def _same_tasks(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        return [p.task for p in self.places[one]] == [p.task for p in self.places[other]]

    def _place(self, key: tuple[str, str]) -> Place:
        places = self.places[key]
        n, n_positive = (
            np.sum([getattr(place, size)[place.common] for place in places], axis=0) for size in ("n", "n_positive")
        )
        subsets = [places[0].subsets[row] for row in places[0].common]
        return Place(key[1], AVERAGE, places[0].split, subsets, n, n_positive, len(places))


def score_task(
    parts: Sequence[Part],
    runs: Mapping[str, tuple[Aligned, str]],
    metrics: Sequence[str],
    draws: Draws | None,
    baseline: str,
) -> tuple[list[Block], Averages]:
    """Score one task of a split.

    Args:
        parts: one for each criterion.
        runs: name -> (values in the order of the split's images, scale).
        metrics: names.
        draws: resamples of the split's images, or None.
        baseline: the run from which differences are taken, if it is among these.

    Returns:
        Blocks by criterion, first all runs, then the differences; and what averages over tasks need.
    """
    blocks: list[Block] = []
    averages = Averages()
    graded: dict[str, Graded] = {}
    before: ChallengeSet | None = None
    for part in parts:
        challenge, place = part.challenge, part.place
        if before is None or not challenge.image_ids.equals(before.image_ids):
            # criteria with a verdict on the same images share one ranking
            graded = {
                name: Graded(challenge.labels, run.values(challenge.task, part.rows, challenge), scale, metrics)
                for name, (run, scale) in runs.items()
            }
        before = challenge
        rows = with_replicates(graded, part, draws)
        for name, values in rows.items():
            averages.add(name, part, values)
            blocks.append(block_of(name, place, values))
        if baseline in rows:
            blocks += [block_of(n, place, v - rows[baseline], None, baseline) for n, v in rows.items() if n != baseline]
    return blocks, averages


def with_replicates(graded: Mapping[str, Graded], part: Part, draws: Draws | None) -> dict[str, Floats]:
    """Run -> (n_subsets, n_metrics, 1 + k): values, then replicates."""
    points = {name: one.scores(part.parts)[..., None] for name, one in graded.items()}
    if draws is None:
        return points
    rows = {name: np.empty((*values.shape[:2], 1 + draws.resamples)) for name, values in points.items()}
    for name, values in points.items():
        rows[name][..., :1] = values
    for block, weights in draws.weights(part.rows):
        for name, one in graded.items():
            rows[name][..., 1 + block.start : 1 + block.stop] = one.resampled(part.parts, weights)
    return rows


def block_of(
    run: str, place: Place, rows: Floats, tasks: NDArray[np.int64] | None = None, baseline: str | None = None
) -> Block:
    """Values of a run from rows (..., 1 + n_replicates), the point estimate first, with 95 % percentile intervals of the others."""
    point, replicates = rows[..., 0], rows[..., 1:]
    undefined = np.isnan(point)
    tasks = (~undefined).astype(np.int64) if tasks is None else tasks
    if not replicates.shape[-1]:
        nothing = np.full(point.shape, np.nan)
        return Block(run, place, point, nothing, nothing, np.zeros(point.shape, dtype=np.int64), tasks, baseline)
    low, high, defined = intervals(replicates)
    low, high = (np.where(undefined, np.nan, bound) for bound in (low, high))
    return Block(run, place, point, low, high, defined, tasks, baseline)
