"""Before and after on test -> what changed by side and cue, and a verdict for each task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import CELLS
from nooch.display import DisplayTable, TabularResult
from nooch.english import counted
from nooch.evaluation import AVERAGE, Scores

__all__ = ["AFTER", "BEFORE", "Repaired", "changes_of", "comparisons_note", "verdict_of"]

BEFORE, AFTER = "before", "after"
_KEYS = ["criterion", "task", "split", "subset", "cue", "metric"]
_HARD = list(CELLS[:2])


@dataclass(frozen=True, eq=False, repr=False)
class Repaired(TabularResult):
    """New heads, and what they change on test.

    Attributes:
        table: a row for each task: ``task, verdict, reason, method, setting, threshold``, and error
            on hard images, the worse side (``worst_hard_before``, ``worst_hard_after``), and AUC on
            them (``auc_hard_before``, ``auc_hard_after``). Verdicts are ``better``: fewer errors on
            hard images of a side or cue, and nowhere more; ``worse``: more errors somewhere, and on
            no hard images fewer; else ``inconclusive``. Changes within intervals do not count.
        changes: before, after and their difference, with its 95 % interval, by ``task`` (and their
            ``average``), ``subset``, ``cue`` and ``metric``; ``change`` is ``better``, ``worse`` or
            ``inconclusive`` where verdicts are made of it, else null.
        heads: weights and bias of each task for features as they are, float32 (n_tasks, d + 1).
        notes: choices that were made, and what the intervals mean.
        out: the folder that was written.
    """

    table: pl.DataFrame
    changes: pl.DataFrame
    heads: NDArray[np.float32]
    notes: list[str]
    out: Path

    @property
    def display(self) -> DisplayTable:
        """A row for each task."""
        verdicts = self.table["verdict"].value_counts(sort=True).rows()
        title = f"Repaired({', '.join(f'{n:,} {verdict}' for verdict, n in verdicts)})"
        shown = self.table.select(
            "task", "verdict", pl.concat_str("method", "setting", separator=" ").alias("head"),
            "worst_hard_before", "worst_hard_after", "auc_hard_before", "auc_hard_after", "reason",
        )  # fmt: skip
        columns = [name.replace("_", " ") for name in shown.columns]
        return DisplayTable(title, columns, shown.rows(), left=3, notes=self.notes)


def changes_of(scores: Scores, least: int) -> pl.DataFrame:
    """``Repaired.changes`` of scores of the runs ``before`` and ``after``.

    Verdicts are made of the error rates of the four sides, and of hard images of each cue alone,
    where there are ``least`` images or more.
    """
    values = scores.table.pivot("run", index=_KEYS, values="value", maintain_order=True)
    gaps = scores.differences.select(*_KEYS, "difference", "low", "high", "n", "reason")
    sides = pl.when(pl.col("cue").is_null()).then(pl.lit(list(CELLS))).otherwise(pl.lit(_HARD))
    counts = (pl.col("metric") == "error") & (pl.col("task") != AVERAGE) & (pl.col("n") >= least)
    change = pl.lit("inconclusive")
    for kind, beyond in (("worse", pl.col("low") > 0), ("better", pl.col("high") < 0)):
        change = pl.when(beyond).then(pl.lit(kind)).otherwise(change)
    return values.join(
        gaps, on=_KEYS, how="inner", nulls_equal=True, maintain_order="left"
    ).with_columns(change=pl.when(counts & pl.col("subset").is_in(sides)).then(change))


def verdict_of(changes: pl.DataFrame, task: str) -> dict[str, Any]:
    """``task, verdict, reason``, and errors and AUC on hard images, of a row of the table."""
    mine = changes.filter(task=task)
    hard = mine.filter(pl.col("cue").is_null() & pl.col("subset").is_in(_HARD), metric="error")
    auc = mine.filter(pl.col("cue").is_null(), subset="hard", metric="auc")
    parts = {}
    for kind, where in (("better", _HARD), ("worse", CELLS)):
        rows = mine.filter(pl.col("subset").is_in(where), change=kind).iter_rows(named=True)
        parts[kind] = ", ".join(_in_words(row) for row in rows)
    gained = bool(parts["better"])
    verdict = "inconclusive"
    if gained != bool(parts["worse"]):
        verdict = "better" if gained else "worse"
    reason = "; ".join(f"{kind} on {text}" for kind, text in parts.items() if text)
    values: dict[str, Any] = {}
    for when in (BEFORE, AFTER):
        values[f"worst_hard_{when}"] = None if hard[when].null_count() else hard[when].max()
        values[f"auc_hard_{when}"] = auc[when].item()
    none = "no error rate changes beyond its interval"
    return {"task": task, "verdict": verdict, "reason": reason or none, **values}


def comparisons_note(changes: pl.DataFrame, resamples: int) -> str:
    """How many comparisons were made, and what their intervals mean."""
    n = changes["change"].count()
    return (
        f"{counted(n, 'error rate')} compared, each with a 95 % interval of {resamples:,} resamples"
        f" of the test images: without any effect about {0.025 * n:.1f} would be better by chance"
        " alone, and as many worse"
    )


def _in_words(row: Mapping[str, Any]) -> str:
    where = row["subset"].replace("_", " ") + "s" + (f" of {row['cue']}" if row["cue"] else "")
    return f"{where} ({row[BEFORE]:.3f} to {row[AFTER]:.3f})"
