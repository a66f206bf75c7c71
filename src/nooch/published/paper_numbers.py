"""Numbers of the paper: Table 2's counts, strongest contexts, gist thresholds (Tables 6, 7)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources

__all__ = ["NOOCH_TASKS", "PaperTask", "paper_tasks"]


@dataclass(frozen=True)
class PaperTask:
    """What the paper says of one of its 12 tasks; counts are of the test split.

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
    file = resources.files("nooch.published").joinpath("nooch_tasks.csv")
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    return {row["task"]: _task(row) for row in rows}


def _task(row: dict[str, str]) -> PaperTask:
    tau = {
        (split, side): float(row[f"gist_tau_{side}_{split}"])
        for split in ("valid", "test")
        for side in ("positive", "negative")
    }
    counts = {n: int(row[f"test_{n}"]) for n in ("hard_positives", "hard_negatives", "positives")}
    return PaperTask(row["task"], row["top_context"], **counts, tau=tau)


NOOCH_TASKS: tuple[str, ...] = tuple(paper_tasks())
"""Names of the paper's 12 tasks."""
