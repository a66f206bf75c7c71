"""Results beside the paper's: the published number of each cell, and the difference in standard
deviations.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from nooch.evaluation import AVERAGE
from nooch.published.published_results import paper_results

__all__ = ["beside_paper"]

_CELL = ["criterion", "metric", "subset", "task", "method"]


def beside_paper(cells: pl.DataFrame) -> pl.DataFrame:
    """Cells with the paper's number beside each.

    Args:
        cells: ``criterion, metric, subset, task, method, mean, std, averaged_tasks``; criteria
            called ``ce``, ``gist`` and ``attribute``.

    Returns:
        The cells with ``paper_mean``, ``paper_std``, ``deviations`` and ``comparison``.
        ``deviations`` is (mean - paper_mean) / sqrt(std^2 + paper_std^2); it is null, and
        ``comparison`` says why, where a number or a deviation is missing, or both deviations are 0.
        Where one deviation is 0 the other alone counts, and ``comparison`` says that. An average
        over some of the paper's tasks (``averaged_tasks``) is beside the paper's average over the
        same ones; one over a task that the paper lacks is beside none. Where the results and the
        paper have one task each under a criterion, as Waterbirds, these stand for each other.
    """
    paper = paper_results().drop("table").rename({"mean": "paper_mean", "std": "paper_std"})
    parts = [
        _beside(part, paper.filter(criterion=criterion))
        for (criterion,), part in cells.partition_by(
            ["criterion"], as_dict=True, maintain_order=True
        ).items()
    ]
    return pl.concat(parts) if parts else cells


def _beside(cells: pl.DataFrame, paper: pl.DataFrame) -> pl.DataFrame:
    own, theirs = (set(frame["task"]) - {AVERAGE} for frame in (cells, paper))
    if len(own) == len(theirs) == 1:
        paper = paper.with_columns(pl.col("task").replace(dict(zip(theirs, own, strict=True))))
        theirs = own
    averages = [
        _over(paper, over, theirs)
        for over in (
            cells.filter(task=AVERAGE)["averaged_tasks"].unique(maintain_order=True).drop_nulls()
        )
    ]
    of_tasks = paper.filter(pl.col("task") != AVERAGE).with_columns(
        averaged_tasks=pl.lit(None, pl.String)
    )
    published_cells = pl.concat([of_tasks, *averages], how="vertical")
    joined = cells.join(
        published_cells,
        on=[*_CELL, "averaged_tasks"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    ours, published, average = pl.col("std"), pl.col("paper_std"), pl.col("task") == AVERAGE
    over = pl.col("averaged_tasks").str.split(", ").list
    why = (
        pl.when(average & (over.set_difference(pl.lit(sorted(theirs))).list.len() > 0))
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
    fewer = pl.format(
        "the paper's average over the same {} of its {} tasks", over.len(), pl.lit(len(theirs))
    )
    one = (
        pl.when(published == 0)
        .then(pl.lit("the paper's deviation is 0 to three decimals"))
        .when(ours == 0)
        .then(pl.lit("the deviation here is 0"))
        .when(average & (over.len() < len(theirs)))
        .then(fewer)
    )
    difference = (pl.col("mean") - pl.col("paper_mean")) / (ours**2 + published**2).sqrt()
    return joined.with_columns(
        deviations=pl.when(why.is_null()).then(difference), comparison=pl.coalesce(why, one)
    )


def _over(paper: pl.DataFrame, over: str, tasks: Collection[str]) -> pl.DataFrame:
    """The paper's averages over some of its tasks, by ``averaged_tasks``; over all, as they are
    printed; over others, none.
    """
    wanted = over.split(", ")
    if set(wanted) == set(tasks):
        found = paper.filter(task=AVERAGE)
    else:
        n = len(wanted)
        rows = paper.filter(pl.col("task").is_in(wanted))
        found = rows.group_by([name for name in _CELL if name != "task"], maintain_order=True).agg(
            pl.col("paper_mean").mean(),
            # unknown deviations stay unknown
            pl.when(pl.col("paper_std").null_count() == 0).then((pl.col("paper_std") ** 2).sum().sqrt() / n).alias("paper_std"),
            whole=pl.len() == n,
        ).filter("whole").with_columns(task=pl.lit(AVERAGE)).select(paper.columns)  # fmt: skip
    return found.with_columns(averaged_tasks=pl.lit(over))
