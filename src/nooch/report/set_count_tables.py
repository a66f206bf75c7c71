"""Tables of challenge sets, counts and thresholds by task, for people: here, in the paper, and the
difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from nooch.report.score_tables import Shown, printable

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
    def shown(self) -> Shown:
        """A line for each task; next to the paper, three."""
        compared = any(name.startswith("paper_") for name in self.rows.columns)
        lines: list[list[str]] = []
        for row in self.rows.iter_rows(named=True):
            task = printable(row["task"])
            own = [self._own(row, column) for column in self.columns]
            lines.append([task, *(["here"] if compared else []), *own])
            if compared:
                lines.append(
                    [
                        task,
                        "paper",
                        *(_number(row[f"paper_{c}"], min(self.decimals, 2)) for c in self.columns),
                    ]
                )
                differences = (
                    _number(row[f"difference_{c}"], self.decimals, "+") for c in self.columns
                )
                lines.append([task, "difference", *differences])
        head = ["task", *(["of"] if compared else []), *self.columns.values()]
        return Shown(printable(self.title), head, lines, 1 + compared)

    def _own(self, row: Mapping[str, Any], column: str) -> str:
        return _number(row[column], self.decimals) + (
            " (tied)" if row.get(f"tied_{column}") else ""
        )


def _number(value: float | None, decimals: int, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign},.{decimals}f}"
