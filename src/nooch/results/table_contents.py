"""Results -> the paper's tables: which cells, in what order, which are best, and what stands beside
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nooch.errors import ParameterError, UndefinedError, check_one_of, some_of
from nooch.evaluation import AVERAGE
from nooch.evaluation.score_summaries import WORST_HARD, with_best
from nooch.published.compare_paper import beside_paper
from nooch.published.published_counts import SET_TABLES
from nooch.published.published_results import PAPER_TABLES, Panel, PaperTable
from nooch.report.paper_tables import WORSE, ResultTable
from nooch.results.result_cells import in_order
from nooch.results.run_results import Results

__all__ = ["legend", "like", "table_names"]

_METRICS = {"auc": "AUC", "error": "error", "nll": "NLL", "ece_paper": "the paper's ECE"}
_SUBSETS = {
    "hard": "on hard",
    "easy": "on easy",
    "hard_positive": "on hard positives",
    "hard_negative": "on hard negatives",
    WORST_HARD: "of the worst group",
}


def table_names(texts: Sequence[str]) -> list[str]:
    """``table3``, ``3``, ``table3,table9`` or ``all`` (those of results) as names of tables, each
    once.

    Raises:
        ParameterError: a table that the paper does not have, or that has neither results nor sets.
    """
    names: list[str] = []
    known = [*SET_TABLES, *PAPER_TABLES]
    for text in texts:
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name = f"table{part}" if part.isdigit() else part
            names += (
                PAPER_TABLES if part == "all" else [check_one_of("table of results", name, known)]
            )
    if not names:
        raise ParameterError(
            "no table is named", where="`like`", allowed=f"all, or some of {', '.join(known)}"
        )
    return list(dict.fromkeys(names))


def like(
    results: Results, names: Sequence[str], *, compare: bool = False, by_sight: bool = False
) -> tuple[list[ResultTable], list[str]]:
    """Tables of results as the paper's.

    Args:
        results: the results.
        names: out of ``PAPER_TABLES``.
        compare: put the paper's numbers beside each.
        by_sight: group methods by what they may see, and look for the best within each group.

    Returns:
        The tables, one for each block of a table (Table 9 has CE's and gist's), and notes: blocks
        without results, cells without a value.

    Raises:
        UndefinedError: there are results for none of them.
    """
    cells = with_best(results.cells, by=("sees",) if by_sight else ())
    cells = beside_paper(cells) if compare else cells
    tables: list[ResultTable] = []
    notes = [*results.notes, *results.averages]
    for name in names:
        spec = PAPER_TABLES[name]
        blocks = [(panel, _block(cells, panel)) for panel in spec.panels]
        without = dict.fromkeys(
            (panel.criterion, panel.metric) for panel, rows in blocks if not rows.height
        )
        notes += dict.fromkeys(f"{name}: {_absent(results, *of)}" for of in without)
        blocks = [(panel, rows) for panel, rows in blocks if rows.height]
        groups = [blocks] if spec.stacked else [[block] for block in blocks]
        tables += [_table(results, spec, group, by_sight) for group in groups if group]
    if not tables:
        known = ", ".join(results.cells["criterion"].unique(maintain_order=True))
        why = "; ".join(notes[len(results.notes) + len(results.averages) :])
        raise UndefinedError(
            f"no table can be made: {why}", where=results.about, allowed=f"tables of {known}"
        )
    return tables, notes + _worse(tables) + _gaps(tables)


def legend(*, by_sight: bool) -> str:
    """What the marks in tables mean."""
    among = "its row among methods that see the same" if by_sight else "its row"
    return (
        "mean (sd over seeds, ddof = 1); best: the deviation overlaps that of the best mean of"
        f" {among}; average of k of n: the mean over the k tasks in which no metric or subset lacks"
        " a value that others have; its sd = sqrt(sum of sd^2) / k"
    )


def _absent(results: Results, criterion: str, metric: str) -> str:
    """Why a block has no row."""
    known = results.cells.filter(criterion=criterion)["metric"].unique()
    if known.is_empty() or metric in known:
        return f"no results under {criterion}"
    return (
        f"no {metric} under {criterion}: these scores were collected without it; run nooch collect"
        " again"
    )


def _block(cells: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """A panel's cells, methods in the paper's order, the average last."""
    rows = cells.filter(criterion=panel.criterion, metric=panel.metric, subset=panel.subset)
    order = {method: place for place, method in enumerate(in_order(rows["method"]))}
    tasks = {
        task: place
        for place, task in enumerate(rows["task"].unique(maintain_order=True))
        if task != AVERAGE
    }
    text = f"{_METRICS[panel.metric]} {_SUBSETS[panel.subset]}"
    if len(tasks) == 1:
        # the average of one task says nothing new
        rows = rows.filter(pl.col("task") != AVERAGE)
    return rows.with_columns(pl.lit(text).alias("block")).sort(
        pl.col("task").replace_strict(tasks, default=len(tasks), return_dtype=pl.Int64),
        (
            pl.col("method").replace_strict(order, return_dtype=pl.Int64)
            if order
            else pl.col("method")
        ),
    )


def _table(
    results: Results, spec: PaperTable, blocks: Sequence[tuple[Panel, pl.DataFrame]], by_sight: bool
) -> ResultTable:
    criteria = ", ".join(dict.fromkeys(panel.criterion for panel, _ in blocks))
    title = f"Table {spec.number}: {spec.shows}, {criteria} ({results.about})"
    return ResultTable(
        spec.name,
        title,
        "metric" if spec.stacked else None,
        pl.concat([rows for _, rows in blocks]),
        by_sight,
    )


def _worse(tables: Sequence[ResultTable]) -> list[str]:
    """What the mark of runs that are worse than a constant means, where a table has it."""
    if not any((table.rows["n_worse"] > 0).any() for table in tables):
        return []
    return [
        (
            f"{WORSE}: the validation NLL of a run, of one seed at least, is above that of the best"
            " constant answer"
        )
    ]


def _gaps(tables: Sequence[ResultTable]) -> list[str]:
    """Why cells have no value: a note for each table and reason."""
    notes = []
    key = ["criterion", "metric", "subset", "method"]
    for table in tables:
        unaveraged = table.rows.filter(pl.col("mean").is_null(), task=AVERAGE).select(key)
        empty = table.rows.filter(pl.col("mean").is_null() & (pl.col("task") != AVERAGE))
        for (criterion, reason), rows in empty.partition_by(
            ["criterion", "reason"], as_dict=True, maintain_order=True
        ).items():
            lost = rows.join(unaveraged, on=key, how="semi").height
            places = [
                f"{task} ({', '.join(methods)})"
                for task, methods in rows.group_by("task", maintain_order=True).agg("method").rows()
            ]
            notes.append(
                f"{table.name}, {criterion}: no value for {some_of(places)}: {reason}; "
                + ("no average over tasks there" if lost else "averages leave these tasks out")
            )
    return list(dict.fromkeys(notes))
