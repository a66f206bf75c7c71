"""Results next to the paper's: published numbers, and differences in standard deviations."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from nooch.evaluation import AVERAGE
from nooch.evaluation.task_averages import named_tasks
from nooch.report.results.published_results import paper_results

__all__ = ["next_to_paper"]

_CELL = ["criterion", "metric", "subset", "task", "method"]


def next_to_paper(cells: pl.DataFrame) -> pl.DataFrame:
    """Cells with the paper's number next to each.

    Args:
        cells: ``criterion, metric, subset, task, method, mean, std, n_tasks, averaged_tasks``;
            criteria called ``ce``, ``gist`` and ``attribute``.

    Returns:
        The cells with ``paper_mean``, ``paper_std``, ``deviations`` and ``comparison``.
        ``deviations`` is (mean - paper_mean) / sqrt(std^2 + paper_std^2); it is null, and
        ``comparison`` says why, where a number or a deviation is missing, or both deviations are 0.
        Where one deviation is 0 the other alone counts, and ``comparison`` says that. An average
        over some of the paper's tasks (``averaged_tasks``) is next to the paper's average over the
        same ones; one over a task that the paper lacks is next to none. Where the results and the
        paper have one task each under a criterion, as Waterbirds, these stand for each other.
    """
    paper = paper_results().drop("table").rename({"mean": "paper_mean", "std": "paper_std"})
    parts = [
        _compared(part, paper.filter(criterion=criterion))
        for (criterion,), part in cells.group_by("criterion", maintain_order=True)
    ]
    return pl.concat(parts) if parts else cells


def _compared(cells: pl.DataFrame, paper: pl.DataFrame) -> pl.DataFrame:
    own, theirs = (set(frame["task"]) - {AVERAGE} for frame in (cells, paper))
    if len(own) == len(theirs) == 1:
        paper = paper.with_columns(pl.col("task").replace(dict(zip(theirs, own, strict=True))))
        theirs = own
    of_tasks = paper.filter(pl.col("task") != AVERAGE)
    lists = cells.filter(task=AVERAGE).select("averaged_tasks", "n_tasks").drop_nulls()
    published_cells = [of_tasks.with_columns(averaged_tasks=pl.lit(None, pl.String))]
    for averaged, n in lists.unique(maintain_order=True).rows():
        tasks = named_tasks(averaged, theirs)
        if len(tasks) == n:
            # an average over all tasks is as printed
            rows = paper.filter(task=AVERAGE) if n == len(theirs) else _average(of_tasks, tasks)
            published_cells.append(rows.with_columns(averaged_tasks=pl.lit(averaged)))
    joined = cells.join(
        pl.concat(published_cells),
        on=[*_CELL, "averaged_tasks"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    strangers = [a for a, n in lists.rows() if len(named_tasks(a, theirs)) < n]
    ours, published, n_tasks = pl.col("std"), pl.col("paper_std"), pl.col("n_tasks")
    why = (
        pl.when(pl.col("averaged_tasks").is_in(strangers))
        .then(pl.lit("an average over tasks that the paper lacks"))
        .when(pl.col("paper_mean").is_null())
        .then(pl.lit("not in the paper"))
        .when(pl.col("mean").is_null())
        .then(pl.lit("no value here"))
        .when(published.is_null())
        .then(pl.lit("the paper gives no deviation"))
        .when(ours.is_null())
        .then(pl.lit("no deviation here: one seed"))
        .when((ours == 0) & (published == 0))
        .then(pl.lit("both deviations are 0"))
    )
    fewer = f"the paper's average over the same {{}} of its {len(theirs)} tasks"
    remark = (
        pl.when(published == 0)
        .then(pl.lit("the paper's deviation is 0 to three decimals"))
        .when(ours == 0)
        .then(pl.lit("the deviation here is 0"))
        .when((pl.col("task") == AVERAGE) & (n_tasks < len(theirs)))
        .then(pl.format(fewer, n_tasks))
    )
    difference = (pl.col("mean") - pl.col("paper_mean")) / (ours**2 + published**2).sqrt()
    return joined.with_columns(
        deviations=pl.when(why.is_null()).then(difference), comparison=pl.coalesce(why, remark)
    )


def _average(paper: pl.DataFrame, tasks: Collection[str]) -> pl.DataFrame:
    """The paper's averages over some of its tasks."""
    n, std = len(tasks), pl.col("paper_std")
    groups = paper.filter(pl.col("task").is_in(list(tasks))).group_by(
        [name for name in _CELL if name != "task"], maintain_order=True
    )
    averages = groups.agg(
        pl.col("paper_mean").mean(),
        # unknown deviations stay unknown
        pl.when(std.null_count() == 0).then((std**2).sum().sqrt() / n).alias("paper_std"),
        whole=pl.len() == n,
    )
    return averages.filter("whole").with_columns(task=pl.lit(AVERAGE)).select(paper.columns)
