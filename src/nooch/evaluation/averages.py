"""Averages over tasks, over the same tasks if they are next to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import ParameterError, some_of
from nooch.evaluation.subsets import ScoreScope
from nooch.evaluation.task_scores import Block, Shares, block_of
from nooch.suites import CELLS, Suite

AVERAGE = "average"
"""The task that stands for the unweighted mean over tasks."""

Floats = NDArray[np.float64]
T = TypeVar("T", bound=Hashable)
_MOST = 12
"""Tasks that a note names."""


def comparable(defined: Mapping[str, AbstractSet[T]]) -> list[str]:
    """Tasks that have everything that any task has; all tasks where no task has.

    ``defined``: task -> cells that have images, or (metric, subset) pairs that have a value.
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

    For example, a task without hard positives would count in the AUC on easy images but not on hard
    ones.
    """
    over = {}
    for criterion in dict.fromkeys(key[0] for key in keys):
        enough = [key for key in keys if key[0] == criterion and _hard(suite, key) >= min_hard]
        if not enough:
            most = max((_hard(suite, key) for key in keys if key[0] == criterion), default=0)
            raise ParameterError(
                f"no task has {min_hard} hard images on either side under {criterion}",
                give={"min_hard": most} if most else (),
            )
        cells = {key[1]: _cells(suite, key) for key in enough}
        common = {task: has for task, has in cells.items() if all(task in p for p in predicted)}
        over[criterion] = comparable(common if len(common) > 1 else cells)
    return over


def named_tasks(averaged: str, tasks: Iterable[str]) -> list[str]:
    """Rows of the tasks that a value of the column ``averaged_tasks`` names."""
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
                reason = f"fewer than {min_hard} hard images on a side"
            why.append(f"{key[1]} ({reason})")
        (split,) = {key[2] for key in cells}
        notes.append(
            f"{criterion} ({split}): averaged over {len(averaged)} of {len(cells)} tasks"
            f" ({some_of(averaged, _MOST)}); left out: {some_of(why, _MOST)}"
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
        is_known = ~np.isnan(rows[..., 0])
        defined = (~np.isnan(rows[..., 1:])).sum(axis=-1)
        if (defined < rows.shape[-1] - 1).any():
            rows = np.concatenate([rows[..., :1], _completed(rows[..., 1:])], axis=-1)
        rows = np.where(is_known[..., None], rows, 0.0)
        self.sums = self.sums + rows
        if rows.shape[-1] > 1:
            # of an infinite loss there is none
            with np.errstate(invalid="ignore"):
                self.spread = self.spread + rows[..., 1:].var(axis=-1)
        self.defined = np.where(is_known, np.minimum(self.defined, defined), self.defined)
        self.scopes.append(scope)
        self.known.append(is_known)

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
        """Ratio of the variance of the mean to its variance if tasks were independent: they share
        images. (n_common, n_metrics), 1 to the number of tasks.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = self.sums[..., 1:].var(axis=-1) / self.spread
        return np.asarray(np.clip(np.nan_to_num(ratio, nan=1.0), 1.0, len(self.scopes)))

    def closed(self) -> dict[str, Any]:
        """``shares`` and ``reaches`` of the mean, where replicates give the dependence of tasks."""
        if self.sums.shape[-1] == 1:
            return {}
        shares = [share for share in self.shares if share is not None]
        reaches = [share for share in self.reaches if share is not None]
        parts: dict[str, Any] = {}
        if len(shares) == len(self.scopes):
            parts["shares"] = Shares.mean(shares, self.inflation)
        if len(reaches) == len(self.scopes):
            squares = np.where(np.array(self.known)[:, None], np.stack(reaches) ** 2, 0.0).sum(
                axis=0
            )
            count = np.maximum(np.sum(self.known, axis=0), 1)
            is_known = ~np.isnan(squares) & (squares > 0)
            reach = np.sqrt(squares * self.inflation) / count
            parts["reaches"] = np.where(is_known, reach, np.nan)
        return parts

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
        sizes: dict[str, Any] = {"effective": None}
        if first.groups is not None:
            sizes = {
                size: np.sum(
                    [getattr(scope, size)[:, scope.common] for scope in self.scopes], axis=0
                )
                for size in ("effective", "groups")
            }
        return replace(
            first,
            task=AVERAGE,
            subsets=[first.subsets[row] for row in first.common],
            n=n,
            n_positive=n_positive,
            tasks=len(self.scopes),
            **sizes,
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
        """By criterion, means of each run with at least two tasks, then of its differences from
        baselines of the same tasks.
        """
        blocks: list[Block] = []
        for criterion in dict.fromkeys(name for name, _, _ in self._means):
            means = {key[1:]: mean for key, mean in self._means.items() if key[0] == criterion}
            for run, baseline in sorted(means, key=lambda pair: pair[1] is not None):
                mean = means[run, baseline]
                alike = baseline is None or means[run, None].tasks == means[baseline, None].tasks
                if self._scored[criterion, run] > 1 and alike:
                    values, scope = mean.values(self.strict), mean.scope
                    parts = {"baseline": baseline, "over": mean.over, **mean.closed()}
                    block = block_of(run, scope, metrics, values, **parts)
                    defined = np.minimum(block.resamples, mean.defined)
                    blocks.append(replace(block, resamples=defined))
        return blocks


WORST_HARD = "worst_hard"
"""The worse of hard positives and hard negatives: Table 5's worst group."""

LARGER_IS_BETTER = frozenset(
    {"auc", "auprc", "accuracy", "balanced_accuracy", "precision", "recall", "f1", "dprime"}
)
"""Metrics of which more is better; of the others, less."""

_BLOCK = ["criterion", "metric", "subset"]
_WHERE = [*_BLOCK, "task"]
_ROUNDING = 1e-9


def with_worst_hard(values: pl.DataFrame) -> pl.DataFrame:
    """Values of runs with ``worst_hard`` added, of error and NLL.

    ``values``: ``criterion, metric, subset, task, method, seed, value, n, n_positive, reason...``.
    """
    sides = values.filter(
        pl.col("metric").is_in(["error", "nll"])
        & pl.col("subset").is_in(["hard_positive", "hard_negative"])
    )
    changed = {"subset", "value", "n", "n_positive", "reason"}
    keys = [name for name in values.columns if name not in changed]
    worst = sides.group_by(keys, maintain_order=True).agg(
        pl.when((pl.col("value").null_count() == 0) & (pl.len() == 2))
        .then(pl.col("value").max())
        .alias("value"),
        pl.col("n", "n_positive").sum(),
        pl.col("reason").filter(pl.col("value").is_null()).first(),
    )
    return pl.concat([values, worst.with_columns(subset=pl.lit(WORST_HARD)).select(values.columns)])


def over_seeds(values: pl.DataFrame) -> pl.DataFrame:
    """Mean and deviation of each method over its seeds.

    ``values``: ``criterion, metric, subset, task, method, setting, seed, value, n, n_positive,
    reason``; one setting for each criterion, task and method. Returns ``criterion, metric, subset,
    task, method, setting, n, n_positive, mean, std, n_seeds, reason``. ``std`` has ddof = 1, null
    of one seed; ``mean`` is null, with the reason, if a seed's value is.
    """
    complete = pl.col("value").null_count() == 0
    return values.group_by([*_WHERE, "method", "setting"], maintain_order=True).agg(
        pl.col("n", "n_positive").first(),
        mean=pl.when(complete).then(pl.col("value").mean()),
        std=pl.when(complete).then(pl.col("value").std(ddof=1)),
        n_seeds=pl.col("seed").n_unique().cast(pl.Int64),
        reason=pl.col("reason").filter(pl.col("value").is_null()).first(),
    )


def over_tasks(cells: pl.DataFrame, *, strict: bool = False) -> pl.DataFrame:
    """Unweighted means over tasks by criterion, metric, subset and method: rows of ``average``.

    All averages of a criterion are over the same tasks: those for which every metric and subset
    that has a value for some task has one, of at least one method. If there is no such task,
    each average is over the tasks that have its own metric and subset.

    ``cells``: ``criterion, metric, subset, task, method, mean, std``, a row for every task that
    there could be a value of; counts ``n, n_positive, n_seeds, seeds, n_settings, settings,
    n_worse``. Returns the same columns, ``reason, n_tasks`` and ``averaged_tasks`` (their names).
    ``std`` is sqrt(sum of squared deviations) / number of tasks, null if one of them is.
    ``mean`` is null where the method lacks one of these tasks: ``reason`` names them. Of the counts
    of images and ``n_worse`` the sum, of the others the smallest.
    """
    # a task that a method has no row of is missing as well
    methods = cells.select("criterion", "method").unique(maintain_order=True)
    keys = [*_BLOCK, "task"]
    places = cells.select(keys).unique(maintain_order=True)
    if not strict:
        places = places.join(_averaged(cells), on=keys, how="semi", maintain_order="left")
    full = places.join(methods, on="criterion", maintain_order="left")
    rows = full.join(cells, on=[*keys, "method"], how="left", maintain_order="left")
    missing = pl.col("task").filter(pl.col("mean").is_null())
    means = rows.group_by([*_BLOCK, "method"], maintain_order=True).agg(
        *mean_and_std("mean", "std"),
        pl.col("n", "n_positive").sum(),
        pl.col("n_seeds", "seeds", "n_settings", "settings").min(),
        pl.when(pl.col("n_worse").count() > 0).then(pl.col("n_worse").sum()),
        n_tasks=pl.len().cast(pl.Int64),
        averaged_tasks=pl.col("task").str.join(", "),
        reason=pl.when(missing.len() > 0).then(
            pl.concat_str(pl.lit("no value for "), missing.str.join(", "))
        ),
    )
    return means.with_columns(task=pl.lit(AVERAGE))


def mean_and_std(mean: str, std: str) -> tuple[pl.Expr, pl.Expr]:
    """The mean over tasks, and its deviation: sqrt(sum of squares) / tasks; null of a null."""
    complete, deviations = pl.col(mean).null_count() == 0, pl.col(std)
    both = complete & (deviations.null_count() == 0)
    return (
        pl.when(complete).then(pl.col(mean).mean()).alias(mean),
        pl.when(both).then((deviations**2).sum().sqrt() / pl.len()).alias(std),
    )


def _averaged(cells: pl.DataFrame) -> pl.DataFrame:
    """``criterion, metric, subset, task`` to average over; all tasks where none has a value."""
    known_cells = cells.drop_nulls("mean").select([*_BLOCK, "task"]).unique(maintain_order=True)
    parts = []
    for part in cells.partition_by("criterion", maintain_order=True):
        own = known_cells.filter(criterion=part["criterion"][0])
        defined = {
            t: set(own.filter(task=t).select("metric", "subset").rows())
            for t in part["task"].unique(maintain_order=True)
        }
        tasks = comparable(defined)
        everything = part.select([*_BLOCK, "task"]).unique(maintain_order=True)
        has = everything.join(own, on=_BLOCK, how="semi", maintain_order="left")
        without = everything.join(own, on=_BLOCK, how="anti", maintain_order="left")
        own_tasks = has.join(own, on=[*_BLOCK, "task"], how="semi", maintain_order="left")
        # where tasks have everything in common, these have every known metric and subset
        parts += [own_tasks.filter(pl.col("task").is_in(tasks)), without]
    return pl.concat(parts) if parts else known_cells


def with_best(cells: pl.DataFrame, *, by: tuple[str, ...] = ()) -> pl.DataFrame:
    """Cells with a column ``best``: the deviation overlaps the one of the best mean of its row.

    A row is a criterion, metric, subset and task. [mean - std, mean + std] overlaps [best - std,
    best + std] where |mean - best| <= std + std of the best, ends included (the paper's bold
    numbers). A null deviation counts as 0; of several best means, the largest deviation counts.

    ``by``: further columns within whose values the best is looked for, such as ``sees``.
    """
    keys = [*_WHERE, *by]
    sign = pl.when(pl.col("metric").is_in(list(LARGER_IS_BETTER))).then(1.0).otherwise(-1.0)
    marked = cells.with_columns(_good=sign * pl.col("mean"), _sd=pl.col("std").fill_null(0.0))
    marked = marked.with_columns(_top=pl.col("_good").max().over(keys))
    at_top = pl.when(pl.col("_good") == pl.col("_top")).then(pl.col("_sd"))
    reach = pl.col("_sd") + at_top.max().over(keys)
    # deviations of three decimals that touch must not fall apart by rounding
    best = (pl.col("_top") - pl.col("_good") <= reach + _ROUNDING).fill_null(value=False)
    return marked.with_columns(best=best).drop("_good", "_sd", "_top")
