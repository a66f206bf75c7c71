"""Tables of challenge sets for people: counts and thresholds by task, next to the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from nooch.base.display import DisplayTable
from nooch.base.words import printable

__all__ = ["SetsShown"]


@dataclass(frozen=True, eq=False)
class SetsShown:
    """A table of counts or thresholds.

    Attributes:
        name: such as ``table2``.
        title: what it shows.
        columns: names of its numbers -> column titles.
        rows: ``source, criterion, split, task``, the numbers, and ``reason`` where there is no set;
            of thresholds ``tied_positive`` and ``tied_negative`` too. Next to the paper's numbers
            ``paper_COLUMN`` and ``difference_COLUMN`` (here - paper) for each.
        decimals: of a number; 0 for counts.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    rows: pl.DataFrame
    decimals: int

    @property
    def shown(self) -> DisplayTable:
        """A line for each task; next to the paper, three."""
        compared = any(name.startswith("paper_") for name in self.rows.columns)
        lines: list[list[str]] = []
        for row in self.rows.iter_rows(named=True):
            task = printable(row["task"])
            tied = {c: " (tied)" if row.get(f"tied_{c}") else "" for c in self.columns}
            own = [_number(row[c], self.decimals) + tied[c] for c in self.columns]
            lines.append([task, *(["here"] if compared else []), *own])
            if compared:
                decimals = min(self.decimals, 2)
                theirs = (_number(row[f"paper_{c}"], decimals) for c in self.columns)
                gaps = (_number(row[f"difference_{c}"], self.decimals, "+") for c in self.columns)
                lines += [[task, "paper", *theirs], [task, "difference", *gaps]]
        head = ["task", *(["of"] if compared else []), *self.columns.values()]
        return DisplayTable(printable(self.title), head, lines, 1 + compared)


def _number(value: float | None, decimals: int, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign},.{decimals}f}"
