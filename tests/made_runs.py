"""Folders of runs as nooch train bench writes them, with random predictions: nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.suites import Suite
from nooch.training.bench.plan import identity_of
from nooch.training.jobs import Job
from nooch.training.records import JobRecord, RunsFolder, RunsHeader

SETTINGS: Mapping[str, Sequence[tuple[tuple[str, float], ...]]] = {
    "erm": [()],
    "gdro": [(("K", 5.0),), (("K", 30.0),)],
    "label-reweight": [(("alpha", 0.5),)],
}


@dataclass(frozen=True)
class MadeUp:
    """What the runs are.

    Attributes:
        lost: whether a job is not done; ``diverged`` whether it has no predictions.
        losses: a job's own validation value and that of the best constant, as recorded.
        training: settings of the folder.
    """

    settings: Mapping[str, Sequence[tuple[tuple[str, float], ...]]] = field(
        default_factory=lambda: SETTINGS
    )
    seeds: Sequence[int] = (0, 1, 2)
    tasks: Sequence[str] = ("car", "fire_hydrant")
    criterion: str = "ce"
    lost: Callable[[Job], bool] = lambda job: False
    diverged: Callable[[Job], bool] = lambda job: False
    losses: Callable[[Job], tuple[float, float]] = lambda job: (0.5, 0.6)
    training: Mapping[str, object] = field(default_factory=dict)


def made_runs(path: Path, suite: Suite, **named: Any) -> RunsFolder:
    """A folder of runs of every task, method, setting and seed; ``named``: fields of ``MadeUp``."""
    plan = MadeUp(**named)
    choices = [(name, values) for name, listed in plan.settings.items() for values in listed]
    jobs: dict[str, Job] = {}
    for task, (method, parameters), seed in product(plan.tasks, choices, plan.seeds):
        jobs[f"job{len(jobs):04d}"] = Job(task, method, parameters, seed, seed)
    data = {"dataset": suite.header.dataset.fingerprint, "suite": identity_of(suite)}
    data["features"] = "made up"
    header = RunsHeader("nooch-runs", 1, data, dict(plan.training), jobs, [list(jobs)])
    runs = RunsFolder.begin(path, header)
    for number, (name, job) in enumerate(jobs.items()):
        if plan.lost(job):
            continue
        frames = []
        random = np.random.default_rng(number)
        for split in ("valid", "test"):
            challenge = suite.set(plan.criterion, job.task, split)
            values = (random.normal(size=len(challenge)) + challenge.labels).astype(np.float32)
            frame = pl.DataFrame({"image_id": challenge.image_ids, "logit": values})
            frames.append(frame.with_columns(split=pl.lit(split)))
        gone, sees = plan.diverged(job), list(job.kind.sees)
        best = 0 if gone else 1
        losses = None, None, *plan.losses(job)
        record = JobRecord(name, job, {}, data, sees, best, 1, gone, [], *losses)
        runs.write_job(record, [], None if gone else pl.concat(frames))
    return runs
