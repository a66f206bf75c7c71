"""Scores as tables for people: one for each criterion and split, a row for each task and run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from nooch.evaluation import AVERAGE, Scores

__all__ = ["Shown", "average_label", "is_average", "latex", "markdown", "printable", "tables_of"]

_COLUMNS = {
    # AUC where both classes are; the loss on each side, hard against easy of the same label
    "auc": ("hard", "easy", "all"),
    "auprc": ("hard", "easy", "all"),
    "nll": ("hard_positive", "easy_positive", "hard_negative", "easy_negative"),
    "error": ("hard_positive", "easy_positive", "hard_negative", "easy_negative"),
    "ece": ("hard", "easy"),
    "ece_top": ("hard", "easy"),
    "ece_paper": ("hard", "easy"),
}
_NAMES = {
    "auc": "AUC", "auprc": "AUPRC", "nll": "NLL", "error": "error", "ece": "ECE", "ece_top": "ECE top", "ece_paper": "paper's ECE",
}  # fmt: skip
_COUNTED = ("hard_positive", "hard_negative")
_SHORT = {
    "hard_positive": "hard pos",
    "easy_positive": "easy pos",
    "hard_negative": "hard neg",
    "easy_negative": "easy neg",
}
_AVERAGE = re.compile(rf"{AVERAGE} of \d+( to \d+)?( of \d+)?")

# what moves a terminal's cursor, ends a line, or turns the direction of text
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


Row = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """A table for people.

    Attributes:
        title: what it shows.
        columns: names; the first ``left`` are text.
        rows: texts.
        left: number of text columns.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int


def printable(text: str) -> str:
    """The text on one line: control characters, which a name from a file may hold, are spelled out."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def tables_of(scores: Scores, metrics: Sequence[str] = ("auc", "nll")) -> list[Shown]:
    """Tables of scores by criterion and split, of scores by cue and by group, and of differences,
    as far as there are any.

    Args:
        scores: the scores.
        metrics: which to show.
    """
    shown = [m for m in metrics if m in scores.table["metric"].unique().to_list()]
    found: list[Shown] = []
    for (criterion, split), part in scores.table.partition_by(
        ["criterion", "split"], as_dict=True, maintain_order=True
    ).items():
        title = f"Scores on {criterion} challenge sets ({split})"
        found += _main(title, part, shown)
        found += _detailed(f"By context cue: {criterion} ({split})", part, "cue", shown)
        found += _detailed(f"By group: {criterion} ({split})", part, "group", shown)
    return [_printable(table) for table in found + _differences(scores, shown)]


def _printable(table: Shown) -> Shown:
    rows = [[printable(cell) for cell in row] for row in table.rows]
    return Shown(
        printable(table.title), [printable(column) for column in table.columns], rows, table.left
    )


def _main(title: str, part: pl.DataFrame, metrics: Sequence[str]) -> list[Shown]:
    rows = part.filter(pl.col("cue").is_null() & pl.col("group").is_null())
    extra = [s for s in rows["subset"].unique(maintain_order=True) if s.startswith("avg:")]
    wanted = [(m, s) for m in metrics for s in (*_COLUMNS[m], *extra)]
    keys = ["task", "run"] if rows["run"].n_unique() > 1 else ["task"]
    return _table(title, rows, keys, wanted)


def _detailed(title: str, part: pl.DataFrame, by: str, metrics: Sequence[str]) -> list[Shown]:
    wanted = [(m, s) for m in metrics for s in _COLUMNS[m] if s != "all" or by == "group"]
    return _table(title, part.filter(pl.col(by).is_not_null()), ["task", "run", by], wanted)


def _differences(scores: Scores, metrics: Sequence[str]) -> list[Shown]:
    rows = scores.differences.filter(pl.col("cue").is_null() & pl.col("group").is_null())
    wanted = [(m, s) for m in metrics for s in _COLUMNS[m]]
    found = []
    for (criterion, split, baseline), part in (
        rows.rename({"difference": "value"})
        .partition_by(["criterion", "split", "baseline"], as_dict=True, maintain_order=True)
        .items()
    ):
        title = f"Differences from {baseline} on {criterion} challenge sets ({split})"
        found += _table(title, part, ["task", "run"], wanted, differences=True)
    return found


def _table(
    title: str,
    rows: pl.DataFrame,
    keys: list[str],
    wanted: Sequence[tuple[str, str]],
    *,
    differences: bool = False,
) -> list[Shown]:
    """A line for each value of the keys: the counts of hard images, unless these are differences,
    and the values wanted.
    """
    listed = []
    tasks = rows.filter(pl.col("task") != AVERAGE)["task"].n_unique()
    for names, group in rows.partition_by(keys, as_dict=True, maintain_order=True).items():
        cells = {(r["metric"], r["subset"]): r for r in group.iter_rows(named=True)}
        first, *others = map(str, names)
        average = first == AVERAGE
        if average:
            like = [pl.col(key) == value for key, value in zip(keys[1:], names[1:], strict=True)]
            cells, counted = _alike(cells, wanted, rows.filter(pl.col("task") != AVERAGE, *like))
            first = average_label(counted, tasks)
        n = {subset: row["n"] for (_, subset), row in cells.items()}
        counts = [] if differences else [f"{n[side]:,}" for side in _COUNTED]
        values = [_cell(cells.get(key), signed=differences) for key in wanted]
        listed.append((average, [first, *others, *counts, *values]))
    # all runs of a task together, the average last
    listed.sort(key=lambda row: row[0])
    columns = [
        *keys,
        *([] if differences else [_SHORT[side] for side in _COUNTED]),
        *(_head(m, s) for m, s in wanted),
    ]
    return [Shown(title, columns, [row for _, row in listed], len(keys))] if listed else []


def _alike(
    cells: dict[tuple[str, str], Row], wanted: Sequence[tuple[str, str]], of_tasks: pl.DataFrame
) -> tuple[dict[tuple[str, str], Row], list[int]]:
    """Averages that stand in one line, over the same tasks, and how many these are.

    Where they are over others, their values and counts are taken over the tasks that all of them
    have, without intervals. An average that is null, as a strict one is, stays so.
    """
    known = [cells[key] for key in wanted if key in cells and cells[key]["value"] is not None]
    lists = {row["averaged_tasks"]: set(row["averaged_tasks"].split(", ")) for row in known}
    if len(lists) < 2:
        return cells, [row["n_tasks"] for row in known]
    common = set.intersection(*lists.values())
    means = of_tasks.filter(pl.col("task").is_in(common)).group_by("metric", "subset")
    taken = {
        (metric, subset): {"value": value, "n": n, "low": None}
        for metric, subset, value, n in means.agg(pl.col("value").mean(), pl.col("n").sum()).rows()
    }
    lacking = {"value": None, "n": 0, "low": None}
    return {key: {**row, **taken.get(key, lacking)} for key, row in cells.items()}, [len(common)]


def average_label(counts: Sequence[int], tasks: int) -> str:
    """``average of 7``, ``average of 6 of 7``, or ``average of 3 to 6 of 7`` where numbers of a
    line are over other tasks.
    """
    few, many = (choose(counts, default=tasks) for choose in (min, max))
    over = f"{few}" if few == many else f"{few} to {many}"
    return f"{AVERAGE} of {over}" + (f" of {tasks}" if few < tasks else "")


def is_average(cell: str) -> bool:
    """Whether the first cell of a line is that of an average."""
    return _AVERAGE.fullmatch(cell) is not None


def _head(metric: str, subset: str) -> str:
    return f"{_NAMES[metric]} {_SHORT.get(subset, subset)}"


def _cell(row: Row | None, *, signed: bool = False) -> str:
    """The value with three decimals and its interval, or a dash."""
    if row is None or row["value"] is None:
        return "–"
    sign = "+" if signed else ""
    text = f"{row['value']:{sign}.3f}"
    if row["low"] is None:
        return text
    low, high = (
        re.sub(r"^([+-]?)0\.", r"\1.", f"{row[bound]:{sign}.3f}") for bound in ("low", "high")
    )
    return f"{text} [{low}, {high}]"


def markdown(tables: Sequence[Shown]) -> str:
    """Tables as GitHub-flavoured Markdown."""
    return "\n".join(_markdown(table) for table in tables)


_MARKDOWN = re.compile(r"[\\`*\[\]<>&|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def _markdown(table: Shown) -> str:
    def escaped(name: str) -> str:
        return _MARKDOWN.sub(r"\\\g<0>", name)

    def line(cells: Sequence[str], names: int) -> str:
        # numbers with their intervals need nothing
        return "| " + " | ".join([*map(escaped, cells[:names]), *cells[names:]]) + " |"

    n = len(table.columns)
    rule = ["---" if column < table.left else "---:" for column in range(len(table.columns))]
    body = [line(row, table.left) for row in table.rows]
    return "\n".join(
        [f"**{escaped(table.title)}**", "", line(table.columns, n), line(rule, 0), *body, ""]
    )


_TEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
}


def latex(tables: Sequence[Shown]) -> str:
    """Tables as LaTeX with the package booktabs."""
    return "\n".join(_latex(table) for table in tables)


def _latex(table: Shown) -> str:
    def escaped(text: str) -> str:
        return "".join(_TEX.get(c, c) for c in text)

    def line(cells: Sequence[str]) -> str:
        text = " & ".join(escaped(cell) for cell in cells) + r" \\"
        # after the end of a row or a rule, a bracket or star would be an argument of it
        return f"{{}}{text}" if text[0] in "[*" else text

    spec = "l" * table.left + "r" * (len(table.columns) - table.left)
    body = [line(row) for row in table.rows]
    at = next((i for i, row in enumerate(table.rows) if is_average(row[0])), 0)
    body[at:at] = [r"\midrule"] if at else []
    head = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(table.title)}}}",
        rf"\begin{{tabular}}{{{spec}}}",
    ]
    tail = [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([*head, r"\toprule", line(table.columns), r"\midrule", *body, *tail])
