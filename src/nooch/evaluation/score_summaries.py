"""Values of runs -> cells of a results table: mean and deviation over seeds, averages, the best."""

from __future__ import annotations

import polars as pl

from nooch.evaluation.task_averages import AVERAGE, comparable

__all__ = [
    "LARGER_IS_BETTER", "WORST_HARD", "over_seeds", "over_tasks", "with_best", "with_worst_hard",
]  # fmt: skip

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
    """Values of runs with those of ``worst_hard`` added, of error and NLL.

    Args:
        values: ``criterion, metric, subset, task, method, seed, value, n, n_positive, reason...``.

    Returns:
        The rows, and for each run the larger of the values on both hard sides; null if one is.
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

    Args:
        values: ``criterion, metric, subset, task, method, setting, seed, value, n, n_positive,
            reason``; one setting for each criterion, task and method.

    Returns:
        ``criterion, metric, subset, task, method, setting, n, n_positive, mean, std, n_seeds,
        reason``. ``std`` has ddof = 1, null of one seed; ``mean`` is null, with the reason, if a
        seed's value is.
    """
    known = pl.col("value").null_count() == 0
    return values.group_by([*_WHERE, "method", "setting"], maintain_order=True).agg(
        pl.col("n", "n_positive").first(),
        mean=pl.when(known).then(pl.col("value").mean()),
        std=pl.when(known).then(pl.col("value").std(ddof=1)),
        n_seeds=pl.col("seed").n_unique().cast(pl.Int64),
        reason=pl.col("reason").filter(pl.col("value").is_null()).first(),
    )


def over_tasks(cells: pl.DataFrame, *, strict: bool = False) -> pl.DataFrame:
    """Unweighted means over tasks by criterion, metric, subset and method: rows of ``average``.

    All averages of a criterion are over the same tasks: those for which every metric and subset
    that has a value for some task has one, of at least one method. Where there is no such task,
    each average is over the tasks that have its own metric and subset.

    Args:
        cells: ``criterion, metric, subset, task, method, mean, std``, a row for every task that
            there could be a value of; counts ``n, n_positive, n_seeds, seeds, n_settings,
            settings, n_worse``.
        strict: averages are over all tasks, and null where a value is undefined for one of them.

    Returns:
        The same columns, ``reason, n_tasks`` and ``averaged_tasks`` (their names). ``std`` is
        sqrt(sum of squared deviations) / number of tasks, null where one of them is. ``mean`` is
        null where the method lacks one of these tasks: ``reason`` names them. Of the counts of
        images and ``n_worse`` the sum, of the others the smallest.
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
    whole = pl.col("mean").null_count() == 0
    counts = [pl.col(name).min() for name in ("n_seeds", "seeds", "n_settings", "settings")]
    worse = pl.when(pl.col("n_worse").count() > 0).then(pl.col("n_worse").sum())
    means = rows.group_by([*_BLOCK, "method"], maintain_order=True).agg(
        pl.when(whole).then(pl.col("mean").mean()).alias("mean"),
        pl.when(whole & (pl.col("std").null_count() == 0))
        .then((pl.col("std") ** 2).sum().sqrt() / pl.len())
        .alias("std"),
        pl.col("n", "n_positive").sum(),
        *counts,
        worse,
        n_tasks=pl.len().cast(pl.Int64),
        averaged_tasks=pl.col("task").str.join(", "),
        reason=pl.when(~whole).then(pl.concat_str(pl.lit("no value for "), missing.str.join(", "))),
    )
    return means.with_columns(task=pl.lit(AVERAGE))


def _averaged(cells: pl.DataFrame) -> pl.DataFrame:
    """``criterion, metric, subset, task`` to average over; all tasks where none has a value."""
    known = cells.drop_nulls("mean").select([*_BLOCK, "task"]).unique(maintain_order=True)
    parts = []
    for part in cells.partition_by("criterion", maintain_order=True):
        own = known.filter(criterion=part["criterion"][0])
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
    return pl.concat(parts) if parts else known


def with_best(cells: pl.DataFrame, *, by: tuple[str, ...] = ()) -> pl.DataFrame:
    """Cells with a column ``best``: the deviation overlaps that of the best mean of its row.

    A row is a criterion, metric, subset and task. [mean - std, mean + std] overlaps [best - std,
    best + std] where |mean - best| <= std + std of the best, ends included (the paper's bold
    numbers). A null deviation counts as 0; of several best means, the largest deviation counts.

    Args:
        cells: with ``mean`` and ``std``.
        by: further columns within whose values the best is looked for, such as ``sees``.
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
