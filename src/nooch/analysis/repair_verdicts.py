"""Before and after on test -> what changed by side and cue, and a verdict for each task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nooch.analysis.head_choice import Heads
from nooch.base.display import DisplayTable, TabularResult
from nooch.evaluation import AVERAGE, Scores
from nooch.evaluation.metrics.proportions import SIGNIFICANT
from nooch.suites import CELLS

__all__ = ["AFTER", "BEFORE", "Repaired", "changes_of", "verdict_of"]

BEFORE, AFTER = "before", "after"
_FEWEST = 20
"""Images of a side or cue below which nothing is concluded."""
_KEYS = ["criterion", "task", "split", "subset", "cue", "metric"]
_HARD = list(CELLS[:2])


@dataclass(frozen=True, eq=False, repr=False)
class Repaired(TabularResult):
    """New heads, and what they change on test.

    Attributes:
        table: ``task, verdict, reason, worst_hard_before, worst_hard_after`` (error on hard
            positives or negatives, the larger one), ``auc_hard_before, auc_hard_after, method,
            setting, threshold``. Verdicts are ``better``: fewer errors on hard images of a side or
            cue, and nowhere more; ``worse``: more errors somewhere, and on no hard images fewer;
            ``traded``: both; else ``inconclusive``. Changes within their intervals do not count.
        changes: before, after, and the difference with its 95 % interval and exact ``p``, by
            ``task`` (and their ``average``), ``subset``, ``cue`` and ``metric``; ``change`` is
            ``better``, ``worse`` or ``inconclusive`` where verdicts are made of it, else null.
        heads: weights and bias of each task for features as they are, float32 (n_tasks, d + 1).
        notes: the choices that were made, and what the intervals mean.
        out: the folder that was written.
    """

    table: pl.DataFrame
    changes: pl.DataFrame
    heads: Heads
    notes: list[str]
    out: Path

    @property
    def display(self) -> DisplayTable:
        """A row for each task."""
        verdicts = self.table["verdict"].value_counts(sort=True).rows()
        title = f"Repaired({', '.join(f'{n:,} {verdict}' for verdict, n in verdicts)})"
        names = [name for name in self.table.columns if name not in {"reason", "threshold"}]
        rows = self.table.select(*names, "reason").rows()
        return DisplayTable(title, [*names, "reason"], rows, left=2, notes=self.notes)


def changes_of(scores: Scores) -> pl.DataFrame:
    """``Repaired.changes`` of scores of the runs ``before`` and ``after``.

    Verdicts are made of the error rates of the four sides, and of hard images of each cue alone,
    where both the interval excludes 0 and McNemar's exact p is at most .05.
    """
    values = scores.table.pivot("run", index=_KEYS, values="value", maintain_order=True)
    gaps = scores.differences.select(*_KEYS, "difference", "low", "high", "p", "n", "reason")
    sides = pl.when(pl.col("cue").is_null()).then(pl.lit(list(CELLS))).otherwise(pl.lit(_HARD))
    counts = (pl.col("metric") == "error") & (pl.col("task") != AVERAGE) & (pl.col("n") >= _FEWEST)
    change, sure = pl.lit("inconclusive"), pl.col("p") <= SIGNIFICANT
    for kind, beyond in (("worse", pl.col("low") > 0), ("better", pl.col("high") < 0)):
        change = pl.when(beyond & sure).then(pl.lit(kind)).otherwise(change)
    table = values.join(gaps, on=_KEYS, nulls_equal=True, maintain_order="left")
    return table.with_columns(change=pl.when(counts & pl.col("subset").is_in(sides)).then(change))


def verdict_of(changes: pl.DataFrame, task: str) -> dict[str, Any]:
    """``task, verdict, reason``, and errors and AUC on hard images: a row of ``Repaired.table``."""
    mine = changes.filter(task=task)
    parts = {}
    for kind, where in (("better", _HARD), ("worse", CELLS)):
        rows = mine.filter(pl.col("subset").is_in(where), change=kind).with_columns(
            at=pl.col("subset").str.replace("_", " ") + pl.format("s of {}", "cue").fill_null("s")
        )
        changed = rows.select("at", BEFORE, AFTER).rows()
        parts[kind] = ", ".join(f"{at} ({old:.3f} to {new:.3f})" for at, old, new in changed)
    shown = [kind for kind, text in parts.items() if text]
    verdict = "traded" if len(shown) > 1 else "".join(shown) or "inconclusive"
    reason = "; ".join(f"{kind} on {parts[kind]}" for kind in shown)
    whole = mine.filter(pl.col("cue").is_null())
    hard = whole.filter(pl.col("subset").is_in(_HARD), metric="error").drop_nulls(BEFORE)
    auc, both = whole.filter(subset="hard", metric="auc"), len(hard) == len(_HARD)
    worst = {f"worst_hard_{when}": hard[when].max() if both else None for when in (BEFORE, AFTER)}
    aucs = {f"auc_hard_{when}": auc[when].item() for when in (BEFORE, AFTER)}
    none = "no error rate changes beyond its interval"
    return {"task": task, "verdict": verdict, "reason": reason or none, **worst, **aucs}
