"""Predictions for all classes -> losses by class, and the suite of the most misleading tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import InputError, check_one_of, some_of
from nooch.base.split_plan import LOSS_SPLIT
from nooch.evaluation import Predictions, class_losses, load_predictions
from nooch.report.results.collect import runs_predictions
from nooch.suites import Suite
from nooch.training.records import RUNS_MARKER, RunsFolder
from nooch.training.selection import select_tasks


def losses_by_class(
    suite: Suite,
    source: Any,
    *,
    split: str = LOSS_SPLIT,
    method: str = "erm",
    scale: str | None = None,
) -> pl.DataFrame:
    """``nooch.evaluation.class_losses`` of predictions, or of a folder of runs.

    Args:
        suite: the suite.
        source: predictions, or a folder of runs.
        split: whose images.
        method: of a folder of runs, the method whose jobs count, over all seeds.
        scale: of predictions, as for ``nooch.load_predictions``.
    """
    if isinstance(source, str | Path) and (Path(source) / RUNS_MARKER).is_file():
        runs = _of_method(RunsFolder.open(source), method)
    else:
        runs = load_predictions(source, suite, scale=scale)
    return class_losses(suite, runs, split=split)


def uneven_runs(losses: pl.DataFrame) -> list[str]:
    """A note where some classes have means over fewer runs than others."""
    most = max(losses["runs"])
    fewer = losses.filter(pl.col("runs") < most)["task"].unique(maintain_order=True)
    if fewer.is_empty():
        return []
    what = f"losses are means over {most} runs, but over fewer for {some_of(fewer.to_list())}"
    return [f"{what}: these compare with the others only if the runs are alike"]


def _of_method(runs: RunsFolder, method: str) -> list[Predictions]:
    methods = sorted({job.method for job in runs.header.jobs.values()})
    check_one_of("method", method, methods, owner=str(runs.path))
    mine = {name: job for name, job in runs.header.jobs.items() if job.method == method}
    settings = sorted({job.setting for job in mine.values()})
    if len(settings) > 1:
        problem = f"method {method} has {len(settings)} settings: {', '.join(settings)}"
        raise InputError(problem, where=runs.path, allowed="one setting")
    missing = [name for name in mine if not runs.is_done(name)]
    if missing:
        problem = f"{len(missing)} of {len(mine)} jobs of {method} are not done"
        raise InputError(problem, where=runs.path, remedy="run nooch train bench again; it resumes")
    records = [runs.read_job(name) for name in mine]
    return runs_predictions(runs, [record for record in records if not record.diverged])


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
