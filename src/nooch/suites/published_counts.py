"""The paper's tables of its challenge sets: counts (2), gist thresholds on test (6), valid (7).

Numbered as in the text with appendices. The text without them has none of the three, and calls
Table 2 its Table 5.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from typing import Any

import polars as pl

_COUNTS = {
    name: name.replace("_", " ") for name in ("hard_positives", "hard_negatives", "positives")
}


@dataclass(frozen=True)
class PaperTask:
    """The paper's numbers of one of its 12 tasks; counts are of the test split.

    ``tau`` maps (split, side) to the gist threshold, sides being positive and negative.
    """

    task: str
    top_context: str
    hard_positives: int
    hard_negatives: int
    positives: int
    tau: dict[tuple[str, str], float]


def paper_tasks() -> dict[str, PaperTask]:
    """The 12 tasks in the paper's order."""
    file = resources.files("nooch.suites").joinpath("nooch_tasks.csv")
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    tasks = {}
    for row in rows:
        tau = {
            (split, side): float(row[f"gist_tau_{side}_{split}"])
            for split in ("valid", "test")
            for side in ("positive", "negative")
        }
        counts = {name: int(row[f"test_{name}"]) for name in _COUNTS}
        tasks[row["task"]] = PaperTask(row["task"], row["top_context"], **counts, tau=tau)
    return tasks


NOOCH_TASKS: tuple[str, ...] = tuple(paper_tasks())
"""Names of the paper's 12 tasks."""


@dataclass(frozen=True)
class SetTable:
    """A table of challenge sets.

    Attributes:
        number: as in the text with appendices.
        shows: what it shows, in words.
        criteria: kinds of criteria that the paper's numbers are of; gist has CE's counts in the
            paper.
        split: whose sets in the paper.
        columns: names of its numbers -> column titles.
    """

    number: int
    shows: str
    criteria: tuple[str, ...]
    split: str
    columns: dict[str, str]

    @property
    def name(self) -> str:
        """The name by which ``nooch paper tables`` knows it."""
        return f"table{self.number}"

    @property
    def of_thresholds(self) -> bool:
        """True if it shows thresholds on support, and not counts of images."""
        return "positive" in self.columns


_LIMITS = {"positive": "hard positives below", "negative": "hard negatives above"}
_COUNTED = "Counts of hard positives, hard negatives and positives"
_LISTED = (
    SetTable(2, _COUNTED, ("ce", "gist"), "test", _COUNTS),
    SetTable(6, "Thresholds on support", ("gist",), "test", _LIMITS),
    SetTable(7, "Thresholds on support", ("gist",), "valid", _LIMITS),
)
SET_TABLES: dict[str, SetTable] = {table.name: table for table in _LISTED}
"""Name -> table, in the paper's order."""


def paper_rows(name: str) -> pl.DataFrame:
    """The paper's numbers of one of ``SET_TABLES``.

    Returns ``task`` and the table's columns, in the paper's order: counts of images (Int64), or
    cosines to two decimals (Float64).
    """
    table = SET_TABLES[name]
    tasks = list(paper_tasks().values())
    columns: dict[str, list[Any]] = {"task": [task.task for task in tasks]}
    for column in table.columns:
        place = table.split, column
        values = [t.tau[place] if table.of_thresholds else getattr(t, column) for t in tasks]
        columns[column] = values
    return pl.DataFrame(columns)
