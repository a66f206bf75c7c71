"""Candidate heads of all tasks, trained together on train; for each task one is chosen on valid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.benching.bench_config import read_config
from nooch.benching.bench_plan import Plan, plan_bench
from nooch.challenge import Suite
from nooch.data import Dataset
from nooch.errors import UndefinedError, some_of
from nooch.evaluation import Predictions, evaluate
from nooch.selection import select
from nooch.shared_types import Progress
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import Job
from nooch.training.methods import METHODS

__all__ = ["CANDIDATES", "CONTROL", "ChosenHeads", "choose_heads"]

CONTROL = "erm"
CANDIDATES: dict[str, dict[str, list[float]]] = {
    CONTROL: {},
    "environment-reweight": {"alpha": [0.5, 1.0]},
    "environment-undersample": {"alpha": [0.5, 1.0]},
    "dfr-train": {},
    "afr": {"gamma": [4.0, 8.0], "lambda_": [0.0, 0.1]},
}
"""Method -> hyperparameter -> values that are tried."""


@dataclass(frozen=True, eq=False)
class ChosenHeads:
    """A head for each task.

    Attributes:
        table: a row for each task: ``task, method, setting, value``, the last one what the choice
            minimizes: the larger of the mean validation losses on hard positives and negatives.
        heads: weights and bias of each task for features as they are, float32 (n_tasks, d + 1).
        control: those of ERM, likewise.
        notes: tasks without environments, and those that have no head.
    """

    table: pl.DataFrame
    heads: NDArray[np.float32]
    control: NDArray[np.float32]
    notes: list[str]


def choose_heads(
    data: Dataset,
    suite: Suite,
    features: Any,
    *,
    criterion: str,
    methods: Sequence[str],
    seed: int,
    device: str,
    progress: Progress,
) -> ChosenHeads:
    """Train all candidates on train and choose by ``worst-hard`` on valid; test is not read.

    Args:
        data: the dataset of the suite.
        suite: all its tasks get a head; they have sets on valid.
        features: float (n_images, d), as for ``plan_bench``.
        criterion: whose validation sets decide.
        methods: out of ``CANDIDATES``; those that need environments are not tried where a task has
            none, and ERM always is.
        seed: of heads, and of the order of rows.
        device: where heads are trained.
        progress: called with what is being done.

    Raises:
        UndefinedError: no task has hard images of both sides on valid.
    """
    asked = [method for method in CANDIDATES if method in {CONTROL, *methods}]
    aware = [method for method in asked if METHODS[method].needs_environments]
    blind = [method for method in asked if method not in aware]
    trained: list[tuple[Job, NDArray[np.float32], NDArray[np.float32]]] = []
    members, notes = list(suite.tasks), []
    for group in (blind, aware):
        if group and members:
            grid = {"methods": {method: CANDIDATES[method] for method in group}}
            config = read_config({"seeds": [seed], "tasks": members, **grid})
            plan = plan_bench(data, suite, features, config, device=device)
            trained += _trained(plan, progress)
            ids = data.images["image_id"].gather(plan.training.rows["valid"])
            members = [task for task in members if task in plan.training.environments]
    if aware and len(members) < len(suite.tasks):
        without = [task for task in suite.tasks if task not in members]
        notes.append(f"no environments, so {', '.join(aware)} not tried: {some_of(without)}")
    control = {job.task: head for job, head, _ in trained if job.method == CONTROL}
    chosen = _chosen(suite, criterion, ids, trained).filter(pl.col("task").is_in([*control]))
    if lacking := [task for task in suite.tasks if task not in chosen["task"]]:
        notes.append(f"no hard images of both sides on valid, no new head: {some_of(lacking)}")
    if not chosen.height:
        raise UndefinedError(
            "no task has hard positives and hard negatives on valid",
            where=f"criterion {criterion}",
            remedy="find with other thresholds, or with more validation images",
        )
    chosen = chosen.sort(pl.col("task").cast(pl.Enum(suite.tasks)))
    jobs = {(job.task, job.run): (job, head) for job, head, _ in trained}
    picked = [jobs[key] for key in chosen.select("task", "setting").rows()]
    table = chosen.select(
        "task",
        method=pl.Series([job.method for job, _ in picked]),
        setting=pl.Series([job.setting for job, _ in picked]),
        value="value",
    )
    heads = np.array([head for _, head in picked])
    return ChosenHeads(table, heads, np.array([control[t] for t in table["task"]]), notes)


def _trained(
    plan: Plan, progress: Progress
) -> Iterator[tuple[Job, NDArray[np.float32], NDArray[np.float32]]]:
    """Each job that has not diverged, its head, and that head's logits on valid."""
    for names in plan.header.passes:
        trained = plan.begin([plan.jobs[name] for name in names])
        assert isinstance(trained, HeadPass)  # noqa: S101 - planned so
        while not trained.finished:
            trained.step()
            progress(f"training heads, epoch {trained.epoch}", trained.n_stopped, len(names))
        trained.refit()
        for number, (job, logits) in enumerate(
            zip(trained.jobs, trained.logits("valid"), strict=True)
        ):
            if trained.best_epochs[number]:
                yield job, trained.head(number), logits


def _chosen(
    suite: Suite,
    criterion: str,
    ids: pl.Series,
    trained: Sequence[tuple[Job, NDArray[np.float32], NDArray[np.float32]]],
) -> pl.DataFrame:
    """``task, setting, value`` of the best run of each task; of equals the one trained first."""
    of_run: dict[str, dict[str, NDArray[np.float32]]] = {}
    for job, _, logits in trained:
        of_run.setdefault(job.run, {})[job.task] = logits
    runs = [
        Predictions.of(np.array([*of.values()]).T, ids, [*of], scale="logit", run=run)
        for run, of in of_run.items()
    ]
    scores = evaluate(
        suite, runs, split="valid", criteria=[criterion], metrics=["nll"], ignore_unknown=True
    )
    rows = [(job.run, job.task, "repair", job.run, job.seed, None) for job, _, _ in trained]
    columns = ("run", "task", "method", "setting", "seed", "environment")
    return select(scores.table, pl.DataFrame(rows, columns, orient="row"))
