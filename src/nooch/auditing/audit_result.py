"""What is audited, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nooch.captions import COCO
from nooch.display import DisplayTable, TabularResult
from nooch.english import counted
from nooch.errors import ParameterError
from nooch.evaluation import PredictionFormat

__all__ = ["COLUMNS", "Audit", "AuditOptions"]

COLUMNS = ("image_id", "task", "label", "score")
"""Columns of the table of ``Audit`` that are no source."""
_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class AuditOptions(PredictionFormat):
    """Which labels are audited, and what the page shows; also the fields of ``PredictionFormat``.

    Attributes:
        split: one or several; by default ``test``, or the only one.
        tasks: names; all of the suite's by default.
        synonyms: how captions mention tasks: ``coco``, or a YAML file.
        most: labels on the page at most.
        images: folder of images; by default the one that the dataset records, where it exists.
        seed: of the division of the images into fifths.
    """

    split: str | Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    synonyms: str | Path = COCO
    most: int = 200
    images: str | Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most < 1:
            raise ParameterError(f"most is {self.most}", allowed="1 and more")


@dataclass(frozen=True, eq=False, repr=False)
class Audit(TabularResult):
    """Labels, those first that are most likely wrong.

    Attributes:
        table: ``image_id, task, label, score``, and a column for each source. All numbers are
            natural log odds against the label: above 0, they contradict it. A source is null where
            it says nothing; ``score`` is of all together.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    notes: Sequence[str] = ()

    @property
    def sources(self) -> list[str]:
        """Names of the sources."""
        return [name for name in self.table.columns if name not in COLUMNS]

    @property
    def display(self) -> DisplayTable:
        """The labels that are contradicted most."""
        title = f"Audit({counted(len(self.table), 'label')}; {', '.join(self.sources)})"
        rows = self.table.head(_SHOWN).rows()
        return DisplayTable(title, self.table.columns, rows, left=2, notes=self.notes)
