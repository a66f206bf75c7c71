"""Results -> the paper's tables: which cells, in what order, which are best, and notes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nooch.base.errors import ParameterError, UndefinedError, check_one_of, some_of
from nooch.evaluation import AVERAGE
from nooch.evaluation.score_summaries import WORST_HARD, with_best
from nooch.report.results.cells import in_order
from nooch.report.results.compare_paper import next_to_paper
from nooch.report.results.published_results import PAPER_TABLES, PaperPanel
from nooch.report.results.run_results import Results
from nooch.report.tables.method_tables import WORSE, ResultTable
from nooch.suites.published_counts import SET_TABLES

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
    once. Raises ParameterError: a table that the paper does not have, or that has neither results
    nor sets.
    """
    names: list[str] = []
    known = [*SET_TABLES, *PAPER_TABLES]
    for part in filter(None, (piece.strip() for text in texts for piece in text.split(","))):
        name = f"table{part}" if part.isdigit() else part
        names += PAPER_TABLES if part == "all" else [check_one_of("table of results", name, known)]
    if not names:
        allowed = f"all, or some of {', '.join(known)}"
        raise ParameterError("no table is named", where="`like`", allowed=allowed)
    return list(dict.fromkeys(names))


def like(
    results: Results, names: Sequence[str], *, compare: bool = False, by_sight: bool = False
) -> tuple[list[ResultTable], list[str]]:
    """Tables of results as the paper's.

    Args:
        results: the results.
        names: out of ``PAPER_TABLES``.
        compare: put the paper's numbers next to each.
        by_sight: group methods by the information that they use, and look for the best within each
            group.

    Returns:
        The tables, one for each block of a table (Table 9 has CE's and gist's), and notes: blocks
        without results, cells without a value.

    Raises:
        UndefinedError: there are results for none of them.
    """
    cells = with_best(results.cells, by=("sees",) if by_sight else ())
    cells = next_to_paper(cells) if compare else cells
    tables: list[ResultTable] = []
    notes, absent = [*results.notes, *results.averages], []
    for name in names:
        spec = PAPER_TABLES[name]
        blocks = [(panel, _block(cells, panel)) for panel in spec.panels]
        without = [(p.criterion, p.metric) for p, rows in blocks if rows.is_empty()]
        absent += [f"{name}: {_absent(results, *place)}" for place in dict.fromkeys(without)]
        blocks = [(panel, rows) for panel, rows in blocks if rows.height]
        for group in [blocks] if spec.stacked and blocks else [[block] for block in blocks]:
            criteria = ", ".join(dict.fromkeys(panel.criterion for panel, _ in group))
            title = f"Table {spec.number}: {spec.shows}, {criteria} ({results.about})"
            rows = pl.concat([rows for _, rows in group])
            label = "metric" if spec.stacked else None
            tables.append(ResultTable(name, title, label, rows, by_sight))
    absent = list(dict.fromkeys(absent))
    if not tables:
        known = ", ".join(results.cells["criterion"].unique(maintain_order=True))
        problem = f"no table can be made: {'; '.join(absent)}"
        raise UndefinedError(problem, where=results.about, allowed=f"tables of {known}")
    if any((table.rows["n_worse"] > 0).any() for table in tables):
        absent.append(
            f"{WORSE}: by the method's own objective, a constant answer does better on the"
            " validation images than a run, of one seed at least"
        )
    return tables, notes + absent + _gaps(tables)


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
    again = "these scores were collected without it; run nooch collect again"
    return f"no {metric} under {criterion}: {again}"


def _block(cells: pl.DataFrame, panel: PaperPanel) -> pl.DataFrame:
    """A panel's cells, methods in the paper's order, the average last."""
    rows = cells.filter(criterion=panel.criterion, metric=panel.metric, subset=panel.subset)
    tasks = rows.filter(pl.col("task") != AVERAGE)["task"].unique(maintain_order=True)
    if len(tasks) == 1:
        # the average of one task says nothing new
        rows = rows.filter(pl.col("task") != AVERAGE)
    text = f"{_METRICS[panel.metric]} {_SUBSETS[panel.subset]}"
    return rows.with_columns(block=pl.lit(text)).sort(
        pl.col("task").cast(pl.Enum([*tasks, AVERAGE])),
        pl.col("method").cast(pl.Enum(in_order(rows["method"]))),
    )


def _gaps(tables: Sequence[ResultTable]) -> list[str]:
    """Why cells have no value: a note for each table and reason."""
    notes = []
    key = ["criterion", "metric", "subset", "method"]
    for table in tables:
        empty = table.rows.filter(pl.col("mean").is_null())
        unaveraged = empty.filter(task=AVERAGE).select(key)
        groups = empty.filter(pl.col("task") != AVERAGE).group_by(
            "criterion", "reason", maintain_order=True
        )
        for (criterion, reason), rows in groups:
            of_tasks = rows.group_by("task", maintain_order=True).agg("method").rows()
            places = some_of(f"{task} ({', '.join(methods)})" for task, methods in of_tasks)
            text = "averages leave these tasks out"
            if rows.join(unaveraged, on=key, how="semi").height:
                text = "no average over tasks there"
            notes.append(f"{table.name}, {criterion}: no value for {places}: {reason}; {text}")
    return list(dict.fromkeys(notes))
