"""The paper's 12 tasks, with its counts and gist thresholds."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources

COUNTS = ("hard_positives", "hard_negatives", "positives")


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
        counts = {name: int(row[f"test_{name}"]) for name in COUNTS}
        tasks[row["task"]] = PaperTask(row["task"], row["top_context"], **counts, tau=tau)
    return tasks


NOOCH_TASKS: tuple[str, ...] = tuple(paper_tasks())
"""Names of the paper's 12 tasks."""
