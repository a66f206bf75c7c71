"""Results beside the paper's: the published number of each cell, and the difference in standard deviations."""

from __future__ import annotations

import polars as pl

from nooch.evaluation import AVERAGE
from nooch.published.results import ALTERED, paper_results

__all__ = ["beside_paper"]

_CELL = ["criterion", "metric", "subset", "task", "method"]


def beside_paper(cells: pl.DataFrame) -> pl.DataFrame:
    """Cells with the paper's number beside each.

    Args:
        cells: ``criterion, metric, subset, task, method, mean, std``; criteria called ``ce``, ``gist`` and ``attribute``.

    Returns:
        The cells with ``paper_mean``, ``paper_std``, ``deviations`` and ``comparison``. ``deviations`` is (mean - paper_mean) / sqrt(std^2 + paper_std^2); it
        is null, and ``comparison`` says why, where a number or a deviation is missing, both deviations are 0, the average is over other tasks than
        the paper's, or the metric is another one. Where one deviation is 0 the other alone counts, and ``comparison`` says that. Where the
        results and the paper have one task each under a criterion, as Waterbirds, these stand for each other.
    """
    paper = paper_results().drop("table").rename({"mean": "paper_mean", "std": "paper_std"})
    parts = [
        _beside(part, paper.filter(criterion=criterion))
        for (criterion,), part in cells.partition_by(["criterion"], as_dict=True, maintain_order=True).items()
    ]
    return pl.concat(parts) if parts else cells


def _beside(cells: pl.DataFrame, paper: pl.DataFrame) -> pl.DataFrame:
    own, theirs = (set(frame["task"]) - {AVERAGE} for frame in (cells, paper))
    if len(own) == len(theirs) == 1:
        paper = paper.with_columns(pl.col("task").replace(dict(zip(theirs, own, strict=True))))
        theirs = own
    joined = cells.join(paper, on=_CELL, how="left", maintain_order="left")
    ours, published = pl.col("std"), pl.col("paper_std")
    why = (
        pl.when(pl.col("paper_mean").is_null())
        .then(pl.lit("not in the paper"))
        .when(pl.col("mean").is_null())
        .then(pl.lit("no value here"))
        .when((pl.col("task") == AVERAGE) & pl.lit(own != theirs))
        .then(pl.lit("the paper's average is over other tasks"))
        .when(pl.col("metric").is_in(list(ALTERED)))
        .then(pl.col("metric").replace_strict(ALTERED, default=None, return_dtype=pl.String))
        .when(published.is_null())
        .then(pl.lit("the paper gives no deviation"))
        .when(ours.is_null())
        .then(pl.lit("no deviation here: one seed"))
        .when((ours == 0) & (published == 0))
        .then(pl.lit("both deviations are 0"))
    )
    one = (
        pl.when(published == 0)
        .then(pl.lit("the paper's deviation is 0 to three decimals"))
        .when(ours == 0)
        .then(pl.lit("the deviation here is 0"))
    )
    difference = (pl.col("mean") - pl.col("paper_mean")) / (ours**2 + published**2).sqrt()
    return joined.with_columns(deviations=pl.when(why.is_null()).then(difference), comparison=pl.coalesce(why, one))
