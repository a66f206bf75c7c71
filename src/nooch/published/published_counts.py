"""The paper's tables of its challenge sets: counts (Table 2), gist thresholds on test (Table 6) and
valid (Table 7).

Numbered as in the text with appendices. The text without them has none of the three, and calls
Table 2 its Table 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from nooch.published.paper_numbers import paper_tasks

__all__ = ["SET_TABLES", "SetTable", "paper_rows"]


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
        """As ``--like`` takes it."""
        return f"table{self.number}"

    @property
    def of_thresholds(self) -> bool:
        """Whether it shows thresholds on support, and not counts of images."""
        return "positive" in self.columns


_COUNTS = {
    name: name.replace("_", " ") for name in ("hard_positives", "hard_negatives", "positives")
}
_LIMITS = {"positive": "hard positives below", "negative": "hard negatives above"}
_LISTED = (
    SetTable(
        2, "Counts of hard positives, hard negatives and positives", ("ce", "gist"), "test", _COUNTS
    ),
    SetTable(6, "Thresholds on support", ("gist",), "test", _LIMITS),
    SetTable(7, "Thresholds on support", ("gist",), "valid", _LIMITS),
)
SET_TABLES: dict[str, SetTable] = {table.name: table for table in _LISTED}
"""Name -> table, in the paper's order."""


def paper_rows(name: str) -> pl.DataFrame:
    """The paper's numbers of one of ``SET_TABLES``.

    Returns:
        ``task`` and the table's columns, in the paper's order: counts of images (Int64), or cosines
        to two decimals (Float64).
    """
    table = SET_TABLES[name]
    tasks = list(paper_tasks().values())
    values: dict[str, list[int] | list[float]] = {}
    for column in table.columns:
        if table.of_thresholds:
            values[column] = [task.tau[table.split, column] for task in tasks]
        else:
            values[column] = [getattr(task, column) for task in tasks]
    return pl.DataFrame({"task": [task.task for task in tasks], **values})
