"""The tasks of a benchmark: the largest losses on hard images (paper, 3.3 and appendix B.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from nooch.base.errors import ParameterError, UndefinedError, check_one_of

__all__ = ["SIMILAR", "paper_rule", "select_tasks"]

SIMILAR = (("cow", "sheep"), ("backpack", "handbag"), ("cup", "bottle", "wine_glass"))
"""Tasks that are too similar in the paper; of each group only the first in rank is taken (B.3)."""


def paper_rule(tasks: Collection[str]) -> dict[str, Any]:
    """The paper's rule, as arguments of ``select_tasks`` (section 3.3 and appendix B.3).

    The 12 tasks of largest NLL(hard) - NLL(all) under CE, among those with at least 50 hard
    positives and 50 hard negatives, without similar ones; losses of ``nooch.base.split_plan.LOSS_SPLIT``.

    Args:
        tasks: of the losses; groups of similar tasks are cut down to them.
    """
    similar = [[task for task in group if task in tasks] for group in SIMILAR]
    return {"criterion": "ce", "n": 12, "min_hard": 50, "similar": similar}


def select_tasks(
    losses: pl.DataFrame,
    *,
    criterion: str = "ce",
    n: int = 12,
    min_hard: int = 50,
    similar: Sequence[Sequence[str]] = (),
) -> pl.DataFrame:
    """Rank tasks by NLL(hard) - NLL(all) and take the first ``n``.

    Args:
        losses: table of ``nooch.evaluation.class_losses``.
        criterion: whose hard images count.
        n: tasks to take, 1 and more.
        min_hard: least number of hard positives, and of hard negatives.
        similar: groups of tasks of which only the first in rank is taken (paper: ``SIMILAR``).

    Returns:
        A row for each task, best first: ``task, difference, hard, all, hard_positives,
        hard_negatives, chosen, reason``; ``reason`` states why a task is not chosen.

    Raises:
        ParameterError: unknown criterion or task, numbers out of range.
        UndefinedError: no task is left.
    """
    check_one_of("criterion", criterion, sorted(set(losses["criterion"])), owner="the losses")
    difference = (pl.col("hard") - pl.col("all")).alias("difference")
    ranked = (
        losses.filter(criterion=criterion)
        .select("task", difference, "hard", "all", "hard_positives", "hard_negatives")
        .sort("difference", "task", descending=[True, False], nulls_last=True, maintain_order=True)
    )
    if n < 1 or min_hard < 0:
        raise ParameterError(f"n {n}, min_hard {min_hard}", allowed="1 and more, 0 and more")
    groups = {task: number for number, group in enumerate(similar) for task in group}
    for task in groups:
        check_one_of("task", task, ranked["task"].to_list(), owner="the losses")
    taken: list[str] = []
    reasons: list[str | None] = []
    for row in ranked.iter_rows(named=True):
        reason = _unusable(row, min_hard) or _like_another(row["task"], taken, groups)
        if reason is None and len(taken) == n:
            reason = f"beyond the first {n}"
        reasons.append(reason)
        if reason is None:
            taken.append(row["task"])
    if not taken:
        raise UndefinedError(
            f"no task has {min_hard} hard positives and hard negatives",
            where=f"criterion {criterion}",
            remedy="lower min_hard, or find with other thresholds",
        )
    reason_column = pl.Series("reason", reasons, pl.String)
    return ranked.with_columns(chosen=reason_column.is_null(), reason=reason_column)


def _unusable(row: Mapping[str, object], min_hard: int) -> str | None:
    if row["difference"] is None:
        return "no hard image with a loss"
    sides = ("hard_positives", "hard_negatives")
    short = [f"{row[s]} {s.replace('_', ' ')}" for s in sides if int(str(row[s])) < min_hard]
    return ", ".join(short) or None


def _like_another(task: str, taken: Sequence[str], groups: Mapping[str, int]) -> str | None:
    """For which task that is taken this one is dropped."""
    for other in taken:
        if task in groups and groups[task] == groups.get(other):
            return f"similar to {other} (given)"
    return None
