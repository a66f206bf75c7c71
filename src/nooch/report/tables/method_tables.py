"""Results tables, task x method: for the terminal, Markdown and LaTeX, and as long tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.base.display import DisplayTable
from nooch.data.table_files import TABLE_FILES, result_contents, result_files, write_files
from nooch.evaluation import AVERAGE
from nooch.evaluation.averages import WORST_HARD, with_best
from nooch.report.results.cells import in_order
from nooch.report.results.run_results import Results
from nooch.report.tables.score_tables import SetsShown, average_label, latex, markdown, mean_sd

_MARKS = "\ue000", "\ue001"
"""Around bold cells while LaTeX is escaped; a name that has them loses them."""

WORSE = "†"
"""Follows a cell of runs that are worse than a constant answer on the validation images."""

Mark = Callable[[str], str]


@dataclass(frozen=True, eq=False)
class ResultTable:
    """A table of results.

    Attributes:
        name: such as ``table9``.
        title: what it shows.
        label: name of the column that names blocks, or None if there is one block.
        rows: ``block`` (text), ``criterion, metric, subset, task, method, sees, n, n_positive,
            mean, std, n_seeds, seeds, n_settings, settings, n_worse, best, n_tasks, averaged_tasks,
            reason``; and, next to the paper, ``paper_mean, paper_std, deviations, comparison``. In
            order: blocks, tasks, methods.
        by_sight: whether methods are grouped by the information that they use.
    """

    name: str
    title: str
    label: str | None
    rows: pl.DataFrame
    by_sight: bool = False

    @property
    def methods(self) -> list[str]:
        """Columns: methods in order; if they are grouped, those that use least first."""
        seen = self.rows.select("method", "sees").unique(maintain_order=True)
        if self.by_sight:
            texts = seen["sees"].unique(maintain_order=True)
            groups = sorted(texts, key=lambda sees: (sees != "nothing", len(sees)))
            return [method for group in groups for method in seen.filter(sees=group)["method"]]
        return seen["method"].to_list()


def _starred(text: str) -> str:
    return f"{text} *"


def shown(table: ResultTable, mark: Mark = _starred) -> DisplayTable:
    """A table for people: a line for each block and task; next to the paper, three."""
    methods, paper = table.methods, "paper_mean" in table.rows.columns
    counts = ["n", "n_positive"] if table.rows["n"].null_count() < table.rows.height else []
    left = 1 + (table.label is not None) + paper
    lines: list[list[str]] = []
    if table.by_sight:
        sees = dict(table.rows.select("method", "sees").unique().rows())
        blank = [""] * (left - 1 + len(counts))
        short = (_plain(sees[m]).replace(", environments in ", ", ") for m in methods)
        lines.append(["sees", *blank, *short])
    for (block, task), group in table.rows.group_by("block", "task", maintain_order=True):
        of_method = {row["method"]: row for row in group.iter_rows(named=True)}
        cells = [of_method.get(method, _NO_CELL) for method in methods]
        first = str(task)
        if task == AVERAGE:
            tasks = table.rows.filter(pl.col("task") != AVERAGE, block=block)["task"].n_unique()
            first = average_label(group["n_tasks"].drop_nulls().to_list(), tasks)
        names = [_plain(str(name)) for name in ((first, block) if table.label else (first,))]
        # the same for all methods that have results
        columns = [group[column].drop_nulls() for column in counts]
        n = [f"{values.item(0):,}" if len(values) else "–" for values in columns]
        here = ["here"] if paper else []
        lines.append([*names, *here, *n, *(_cell(cell, mark) for cell in cells)])
        if paper:
            blank = [""] * len(counts)
            theirs = (mean_sd(cell["paper_mean"], cell["paper_std"]) for cell in cells)
            lines.append([*names, "paper", *blank, *theirs])
            gaps = ("–" if (d := cell["deviations"]) is None else f"{d:+.1f}" for cell in cells)
            lines.append([*names, "difference / sd", *blank, *gaps])
    label, heading = [table.label] if table.label else [], ["of"] if paper else []
    head = ["task", *label, *heading, *(_COUNTS[c] for c in counts), *map(_plain, methods)]
    return DisplayTable(_plain(table.title), head, lines, left)


_COUNTS = {"n": "images", "n_positive": "positive"}
_NO_CELL = dict.fromkeys(("mean", "paper_mean", "paper_std", "deviations"))


def _plain(text: str) -> str:
    return "".join(c for c in text if c not in _MARKS)


def _cell(row: dict[str, Any], mark: Mark) -> str:
    """Mean and deviation, and what the cell lacks: seeds, or settings to choose from."""
    if row["mean"] is None:
        return "–"
    text = mean_sd(row["mean"], row["std"])
    marked = (mark(text) if row["best"] else text) + (f" {WORSE}" if row.get("n_worse") else "")
    for have, planned in (("n_seeds", "seeds"), ("n_settings", "settings")):
        if row[have] is not None and row[planned] is not None and row[have] < row[planned]:
            return f"{marked} [{row[have]}/{row[planned]} {planned}]"
    return marked


def _notes(notes: Sequence[str]) -> list[DisplayTable]:
    return [DisplayTable("Notes", ["note"], [[_plain(text)] for text in notes], 1)] if notes else []


@dataclass(frozen=True, eq=False)
class ResultSheet:
    """Content of a file of results.

    Attributes:
        tables: the tables.
        notes: what a reader should know.
        differences: paired differences between methods, as ``Scores`` have them, if any were taken.
        more: further tables for people, such as tables of the differences.
        sets: tables of challenge sets, which come first.
    """

    tables: Sequence[ResultTable]
    notes: Sequence[str] = ()
    differences: pl.DataFrame | None = None
    more: Sequence[DisplayTable] = ()
    sets: Sequence[SetsShown] = ()

    def shown(self, mark: Mark = _starred) -> list[DisplayTable]:
        """All tables for people."""
        of_results = [shown(table, mark) for table in self.tables]
        return [*(table.shown for table in self.sets), *of_results, *self.more]

    @property
    def cells(self) -> pl.DataFrame:
        """All cells as one table with a column ``table``.

        Columns of tables of another kind are null.
        """
        frames = [(table.name, table.rows) for table in self.sets]
        frames += [(table.name, table.rows.drop("block")) for table in self.tables]
        labeled = [frame.select(pl.lit(name).alias("table"), pl.all()) for name, frame in frames]
        return pl.concat(labeled, how="diagonal" if self.sets else "vertical")

    @property
    def json(self) -> dict[str, Any]:
        """Everything as JSON-like values."""
        differences = [] if self.differences is None else self.differences.to_dicts()
        sets = [{"table": t.name, **row} for t in self.sets for row in t.rows.to_dicts()]
        cells = replace(self, sets=()).cells.to_dicts() if self.tables else []
        return {"notes": list(self.notes), "sets": sets, "cells": cells, "differences": differences}


def result_markdown(sheet: ResultSheet) -> str:
    """Tables as GitHub-flavored Markdown, best cells bold, notes below."""
    return markdown([*sheet.shown(lambda text: f"**{text}**"), *_notes(sheet.notes)])


def result_latex(sheet: ResultSheet) -> str:
    """Tables as LaTeX with the package booktabs, best cells bold, notes below."""
    opening, closing = _MARKS
    tables = sheet.shown(lambda text: f"{opening}{text}{closing}")
    text = latex([*tables, *_notes(sheet.notes)])
    return text.replace(opening, r"\textbf{").replace(closing, "}")


_WHOLE: dict[str, Callable[[ResultSheet], bytes]] = {
    ".md": lambda sheet: result_markdown(sheet).encode(),
    ".tex": lambda sheet: result_latex(sheet).encode(),
    ".json": lambda sheet: msgspec.json.encode(sheet.json) + b"\n",
}
RESULT_FILES = (*_WHOLE, *TABLE_FILES)
"""Endings that results can be written with."""


def check_result_files(
    paths: Sequence[str | Path], *, overwrite: bool = False, differences: bool = False
) -> list[Path]:
    """Files that will be written, checked before any work is done."""
    more = ["differences"] if differences else []
    for path in paths:
        result_files(path, "results file", _WHOLE, more, overwrite=overwrite)
    return [Path(path) for path in paths]


def save_results(
    sheet: ResultSheet, paths: Sequence[str | Path], *, overwrite: bool = False
) -> list[Path]:
    """Write results to files whose endings name the format; return the files that were written."""
    as_table = any(Path(path).suffix in TABLE_FILES for path in paths)
    tables = {"": sheet.cells if as_table else pl.DataFrame()}
    if sheet.differences is not None:
        tables["differences"] = sheet.differences
    whole = {ending: partial(form, sheet) for ending, form in _WHOLE.items()}
    contents: dict[Path, bytes] = {}
    for path in paths:
        contents |= result_contents(path, "results file", tables, whole, overwrite=overwrite)
    write_files(contents)
    return list(contents)


_METRICS = {"auc": "AUC", "error": "error", "nll": "NLL", "ece_paper": "the paper's ECE"}
_SUBSETS = {
    "hard": "on hard",
    "easy": "on easy",
    "hard_positive": "on hard positives",
    "hard_negative": "on hard negatives",
    WORST_HARD: "of the worst group",
}


def block_of(cells: pl.DataFrame, criterion: str, metric: str, subset: str) -> pl.DataFrame:
    """Cells of a criterion, metric and subset: methods in order, the average last."""
    rows = cells.filter(criterion=criterion, metric=metric, subset=subset)
    tasks = rows.filter(pl.col("task") != AVERAGE)["task"].unique(maintain_order=True)
    if len(tasks) == 1:
        # the average of one task adds nothing
        rows = rows.filter(pl.col("task") != AVERAGE)
    text = f"{_METRICS[metric]} {_SUBSETS[subset]}"
    return rows.with_columns(block=pl.lit(text)).sort(
        pl.col("task").cast(pl.Enum([*tasks, AVERAGE])),
        pl.col("method").cast(pl.Enum(in_order(rows["method"]))),
    )


def auc_tables(results: Results) -> list[ResultTable]:
    """AUC on hard and on easy images under each criterion."""
    cells, tables = with_best(results.cells), []
    for criterion in cells["criterion"].unique(maintain_order=True):
        for subset in ("hard", "easy"):
            rows = block_of(cells, criterion, "auc", subset)
            title = f"AUC on {subset} images, {criterion} ({results.about})"
            tables.append(ResultTable(f"auc_{subset}", title, None, rows))
    return [table for table in tables if table.rows.height]


def legend(*, by_sight: bool) -> str:
    """Meaning of the marks in tables."""
    among = "its row among methods that see the same" if by_sight else "its row"
    return (
        f"mean (sd over seeds, ddof = 1); best: the deviation overlaps the best mean's in {among};"
        " average of k of n: the mean over the k tasks in which no metric or subset lacks a value"
        " that others have; its sd = sqrt(sum of sd^2) / k"
    )
