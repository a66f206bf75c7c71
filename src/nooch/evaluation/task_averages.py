"""Averages over tasks, over the same tasks where they are next to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import ParameterError, some_of
from nooch.evaluation.share_intervals import Shares
from nooch.evaluation.subsets import CELLS, ScoreScope
from nooch.evaluation.task_scores import Block, block_of
from nooch.suites import Suite

__all__ = [
    "AVERAGE", "Averages", "averaged_tasks", "comparable", "left_out", "named_tasks"
]  # fmt: skip

AVERAGE = "average"
"""The task that stands for the unweighted mean over tasks."""

Floats = NDArray[np.float64]
T = TypeVar("T", bound=Hashable)
_MOST = 12
"""Tasks that a note names."""


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
    """The mean over tasks of one run and criterion, or of its differences from a baseline, with
    replicates of its own.
    """

    scopes: list[ScoreScope] = field(default_factory=list)
    known: list[NDArray[np.bool_]] = field(default_factory=list)
    shares: list[Shares | None] = field(default_factory=list)
    reaches: list[Floats | None] = field(default_factory=list)
    sums: Floats = field(default_factory=lambda: np.zeros(()))
    spread: Floats = field(default_factory=lambda: np.zeros(()))
    defined: NDArray[np.int64] = field(default_factory=lambda: np.array(np.iinfo(np.int64).max))

    def add(self, block: Block, rows: Floats) -> None:
        """Add a task's values and replicates (n_common, n_metrics, 1 + k)."""
        scope, rows_of = block.scope, block.scope.common
        self.shares.append(None if block.shares is None else block.shares.rows(rows_of))
        self.reaches.append(None if block.reaches is None else block.reaches[:, rows_of])
        known = ~np.isnan(rows[..., 0])
        defined = (~np.isnan(rows[..., 1:])).sum(axis=-1)
        if (defined < rows.shape[-1] - 1).any():
            rows = np.concatenate([rows[..., :1], _completed(rows[..., 1:])], axis=-1)
        rows = np.where(known[..., None], rows, 0.0)
        self.sums = self.sums + rows
        if rows.shape[-1] > 1:
            # of an infinite loss there is none
            with np.errstate(invalid="ignore"):
                self.spread = self.spread + rows[..., 1:].var(axis=-1)
        self.defined = np.where(known, np.minimum(self.defined, defined), self.defined)
        self.scopes.append(scope)
        self.known.append(known)

    def values(self, strict: bool) -> Floats:
        """Means of the defined values; ``strict``: NaN where a task's value is undefined."""
        counts = np.sum(self.known, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.asarray(self.sums / counts[..., None])
        if strict:
            means[counts < len(self.scopes)] = np.nan
        return means

    @property
    def inflation(self) -> Floats:
        """How much larger the variance of the mean is than that of independent tasks: images are
        in several. (n_common, n_metrics), 1 to the number of tasks.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = self.sums[..., 1:].var(axis=-1) / self.spread
        return np.asarray(np.clip(np.nan_to_num(ratio, nan=1.0), 1.0, len(self.scopes)))

    def closed(self) -> dict[str, Any]:
        """``shares`` and ``reaches`` of the mean, where replicates say how tasks go together."""
        if self.sums.shape[-1] == 1:
            return {}
        shares = [one for one in self.shares if one is not None]
        reaches = [one for one in self.reaches if one is not None]
        found: dict[str, Any] = {}
        if len(shares) == len(self.scopes):
            found["shares"] = Shares.mean(shares, self.inflation)
        if len(reaches) == len(self.scopes):
            squares = np.where(np.array(self.known)[:, None], np.stack(reaches) ** 2, 0.0).sum(
                axis=0
            )
            count = np.maximum(np.sum(self.known, axis=0), 1)
            known = ~np.isnan(squares) & (squares > 0)
            reach = np.sqrt(squares * self.inflation) / count
            found["reaches"] = np.where(known, reach, np.nan)
        return found

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


def _completed(replicates: Floats) -> Floats:
    """Replicates (..., k) of a task, undefined ones as the next that is defined, the first after
    the last: each task has the distribution that its own interval is of, and a mean over tasks is
    over the same ones in every resample. NaN where none is defined.
    """
    k = replicates.shape[-1]
    defined = np.where(np.isnan(replicates), k, np.arange(k))
    following = np.minimum.accumulate(defined[..., ::-1], axis=-1)[..., ::-1]
    following = np.where(following == k, following[..., :1], following)
    return np.take_along_axis(replicates, np.minimum(following, k - 1), axis=-1)


@dataclass
class Averages:
    """Means over the tasks of a criterion, of runs and of their differences from a baseline.

    Attributes:
        over: criterion -> the tasks that its averages are over; of another criterion, all.
        strict: whether a value that is undefined for one of these tasks has no average. Else the
            task is left out of that average.
    """

    over: Mapping[str, Collection[str]] = field(default_factory=dict)
    strict: bool = False
    _means: dict[tuple[str, str, str | None], _Mean] = field(default_factory=dict)
    _scored: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, block: Block, rows: Floats) -> None:
        """Add a task: a ``ScoredTask``."""
        scope, key = block.scope, (block.scope.criterion, block.run, block.baseline)
        if block.baseline is None:
            self._scored[key[:2]] += 1
        if scope.task in self.over.get(scope.criterion, [scope.task]):
            self._means.setdefault(key, _Mean()).add(block, rows)

    def blocks(self, metrics: Sequence[str]) -> list[Block]:
        """By criterion, means of each run with two or more tasks, then of its differences from
        baselines of the same tasks.
        """
        blocks: list[Block] = []
        for criterion in dict.fromkeys(of for of, _, _ in self._means):
            means = {key[1:]: mean for key, mean in self._means.items() if key[0] == criterion}
            for run, baseline in sorted(means, key=lambda pair: pair[1] is not None):
                mean = means[run, baseline]
                alike = baseline is None or means[run, None].tasks == means[baseline, None].tasks
                if self._scored[criterion, run] > 1 and alike:
                    values, scope = mean.values(self.strict), mean.scope
                    of = {"baseline": baseline, "over": mean.over, **mean.closed()}
                    block = block_of(run, scope, metrics, values, **of)
                    defined = np.minimum(block.resamples, mean.defined)
                    blocks.append(replace(block, resamples=defined))
        return blocks
