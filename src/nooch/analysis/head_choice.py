"""Candidate heads of all tasks, trained together on train; for each task one is chosen on valid."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import UndefinedError
from nooch.base.shared_types import Progress
from nooch.data import Dataset
from nooch.evaluation import Predictions, evaluate
from nooch.models.devices import choose_device
from nooch.suites import Suite
from nooch.training.bench.config import BenchConfig
from nooch.training.bench.plan import plan_bench
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import Job
from nooch.training.setting_choice import select

__all__ = ["CANDIDATES", "CONTROL", "Heads", "choose_heads"]

CONTROL = "erm"
CANDIDATES: dict[str, dict[str, list[float]]] = {
    CONTROL: {},
    "environment-reweight": {"alpha": [0.5, 1.0]},
    "environment-undersample": {"alpha": [0.5, 1.0]},
    "dfr-train": {},
    "afr": {"gamma": [4.0, 8.0], "lambda_": [0.1]},
}
"""Method -> hyperparameter -> values that are tried."""
Heads = NDArray[np.float32]
"""Weights and bias of each task for features as they are, float32 (n_tasks, d + 1)."""


def choose_heads(
    data: Dataset,
    suite: Suite,
    features: Any,
    config: BenchConfig,
    criterion: str,
    progress: Progress,
) -> tuple[pl.DataFrame, Heads, Heads]:
    """Train all candidates on train, and choose by ``worst-hard`` on valid; test is not read.

    Args:
        data: the dataset of the suite.
        suite: has sets of the tasks on valid.
        features: as for ``plan_bench``, which raises what is wrong with them.
        config: tasks, methods with ``CONTROL`` among them, and one seed.
        criterion: whose validation sets decide.
        progress: called with what is being done.

    Returns:
        ``task, method, setting``, a row for each task that has hard images of both sides on valid,
        in the order of the suite; the heads of these tasks; and those of ``CONTROL``.

    Raises:
        UndefinedError: no task has hard images of both sides on valid.
    """
    plan = plan_bench(data, suite, features, config, device=choose_device("auto"))
    ids = data.images["image_id"].gather(plan.training.rows["valid"])
    heads: dict[tuple[str, str], tuple[Job, NDArray[np.float32]]] = {}
    outputs: dict[str, dict[str, NDArray[np.float32]]] = {}
    for names in plan.header.passes:
        trained = plan.begin([plan.jobs[name] for name in names])
        assert isinstance(trained, HeadPass)  # noqa: S101 - planned so
        while not trained.finished:
            trained.step()
            progress(f"training heads, epoch {trained.epoch}", trained.n_stopped, len(names))
        trained.refit(progress)
        logits = trained.logits("valid")
        for number in np.flatnonzero(trained.best_epochs).tolist():
            job = trained.jobs[number]
            heads[job.task, job.run] = job, trained.head(number)
            outputs.setdefault(job.run, {})[job.task] = logits[number]
    runs = [
        Predictions.of(np.array([*of.values()]).T, ids, [*of], scale="logit", run=run)
        for run, of in outputs.items()
    ]
    scores = evaluate(
        suite, runs, split="valid", criteria=[criterion], metrics=["nll"], ignore_unknown=True
    )
    # one method, so that of all settings of all methods one is chosen
    rows = [(run, task, "repair", run, job.seed, None) for (task, run), (job, _) in heads.items()]
    columns = ("run", "task", "method", "setting", "seed", "environment")
    chosen = select(scores.table, pl.DataFrame(rows, columns, orient="row"))
    control = {job.task: head for job, head in heads.values() if job.method == CONTROL}
    of_task = dict(chosen.select("task", "setting").rows())
    tasks = [task for task in suite.tasks if task in of_task and task in control]
    if not tasks:
        raise UndefinedError(
            "no task has hard positives and hard negatives on valid",
            where=f"criterion {criterion}",
            remedy="find with other thresholds, or with more validation images",
        )
    picked = [heads[task, of_task[task]] for task in tasks]
    facts = [(job.task, job.method, job.setting) for job, _ in picked]
    table = pl.DataFrame(facts, ["task", "method", "setting"], orient="row")
    return table, np.array([head for _, head in picked]), np.array([control[t] for t in tasks])
