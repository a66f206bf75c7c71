"""Predictions for all classes -> losses by class, and the suite of the most misleading tasks."""

from __future__ import annotations

from typing import Any

import polars as pl

from nooch.base.errors import check_one_of, some_of
from nooch.suites import Suite
from nooch.training.selection import select_tasks


def uneven_runs(losses: pl.DataFrame) -> list[str]:
    """A note where some classes have means over fewer runs than others."""
    most = max(losses["runs"])
    fewer = losses.filter(pl.col("runs") < most)["task"].unique(maintain_order=True)
    if fewer.is_empty():
        return []
    what = f"losses are means over {most} runs, but fewer for {some_of(fewer.to_list())}"
    return [f"{what}: compare these with the others only if the runs are alike"]


def chosen_suite(
    suite: Suite, losses: pl.DataFrame, *, criterion: str = "ce", **rule: Any
) -> tuple[Suite, pl.DataFrame]:
    """The suite of the chosen tasks, and the ranking with reasons.

    Args and errors as for ``nooch.training.selection.select_tasks``, except that ``criterion`` is
    one of the suite; ``**paper_rule(losses["task"])`` chooses by the paper's rule.
    """
    name = check_one_of("criterion", criterion, suite.criteria)
    ranking = select_tasks(losses, criterion=name, **rule)
    return suite.only(ranking.filter("chosen")["task"].to_list()), ranking
