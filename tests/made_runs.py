"""Folders of runs as nooch bench leaves them, with made-up predictions: nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from nooch.challenge import Suite
from nooch.results.run_results import identity_of
from nooch.training.jobs import Job
from nooch.training.run_records import JobRecord, RunsFolder, RunsHeader

SETTINGS: Mapping[str, Sequence[tuple[tuple[str, float], ...]]] = {
    "erm": [()],
    "gdro": [(("K", 5.0),), (("K", 30.0),)],
    "label-reweight": [(("alpha", 0.5),)],
}


def made_runs(
    path: Path,
    suite: Suite,
    *,
    settings: Mapping[str, Sequence[tuple[tuple[str, float], ...]]] = SETTINGS,
    seeds: Sequence[int] = (0, 1, 2),
    tasks: Sequence[str] = ("car", "fire_hydrant"),
    criterion: str = "ce",
    lost: Callable[[Job], bool] = lambda job: False,
    diverged: Callable[[Job], bool] = lambda job: False,
    losses: Callable[[Job], tuple[float | None, float | None]] = lambda job: (None, None),
    training: Mapping[str, object] | None = None,
) -> RunsFolder:
    """A folder of runs of every task, method, setting and seed.

    Args:
        lost: whether a job is not done; ``diverged`` whether it has no predictions.
        losses: a job's validation loss and that of the best constant, as recorded.
        training: settings of the folder.
    """
    listed = [
        Job(task, method, parameters, seed, seed)
        for task in tasks
        for method, choices in settings.items()
        for parameters in choices
        for seed in seeds
    ]
    jobs = {f"job{number:04d}": job for number, job in enumerate(listed)}
    data = {
        "dataset": suite.header.dataset.fingerprint,
        "suite": identity_of(suite),
        "features": "made up",
    }
    runs = RunsFolder.begin(
        path, RunsHeader("nooch-runs", 1, data, dict(training or {}), jobs, [list(jobs)])
    )
    for number, (name, job) in enumerate(jobs.items()):
        if lost(job):
            continue
        frames = []
        random = np.random.default_rng(number)
        for split in ("valid", "test"):
            challenge = suite.set(criterion, job.task, split)
            values = (random.normal(size=len(challenge)) + challenge.labels).astype(np.float32)
            frame = pl.DataFrame({"image_id": challenge.image_ids, "logit": values})
            frames.append(frame.with_columns(split=pl.lit(split)))
        gone = diverged(job)
        record = JobRecord(
            name, job, {}, data, list(job.kind.sees), 0 if gone else 1, 1, gone, [], *losses(job)
        )
        runs.write_job(record, [], None if gone else pl.concat(frames))
    return runs
