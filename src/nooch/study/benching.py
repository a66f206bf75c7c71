"""Dataset, suite and frozen features -> trained heads for a whole grid, their predictions, scores and the chosen settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import Suite
from nooch.criteria import CE, FittedCE, fitted_from_json
from nooch.data import Dataset
from nooch.errors import InputError, ParameterError, UndefinedError, check_one_of
from nooch.metrics import nll
from nooch.training.config import BenchConfig
from nooch.training.environments import Environments
from nooch.training.features import Features
from nooch.training.jobs import Job
from nooch.training.methods import METHODS
from nooch.training.probe import HeadPass
from nooch.training.records import JobRecord, RunsFolder, RunsHeader, passes_of
from nooch.training.tasks import TrainingData

__all__ = ["Plan", "bench", "identity_of", "plan_bench", "status"]

Progress = Callable[[str, int, int], None]


class _RowsOf:
    """Features of a folder as an array of rows: what is asked for is read, nothing else."""

    def __init__(self, features: Features) -> None:
        self._features, self.shape = features, (len(features), features.n_features)

    def __getitem__(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return self._features.batch(rows)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a bench would do.

    Attributes:
        jobs: identity -> job.
        data: what is trained on.
        probe: features, labels and environments.
        image_ids: ids of all images, in the order of the features' rows.
        header: what the folder of runs will say.
    """

    jobs: Mapping[str, Job]
    data: Dataset
    probe: TrainingData
    header: RunsHeader

    @property
    def disk_bytes(self) -> int:
        """About what predictions will take: 6 bytes for each image of valid and test and job."""
        return 6 * sum(len(self.probe.rows[split]) for split in ("valid", "test")) * len(self.jobs)

    @property
    def operations_per_epoch(self) -> float:
        """Multiplications and additions of an epoch of all jobs."""
        d = self.probe.inputs.shape[1]
        # four products of two operations for each row, feature and head
        return 8.0 * len(self.probe.rows["train"]) * int(d) * len(self.jobs)


def plan_bench(
    data: Dataset, suite: Suite, features: Any, config: BenchConfig, *, features_name: str = "features"
) -> Plan:
    """Check everything that can be checked before training, and list the jobs.

    Args:
        data: the dataset that the suite was found in.
        suite: its tasks are trained; CE fitted in it (or on the training split) gives the environments.
        features: ``Features``, or float (n_images, d) with rows in the order of the dataset's images: an array or a memory map.
        config: the grid.
        features_name: identity of an array, for the record; ``Features`` have their own.

    Raises:
        ParameterError: tasks that the suite lacks, another dataset than the suite's.
        UndefinedError: a method that needs environments, on a task without a context cue.
        InputError: an empty split, features of another shape or not finite.
    """
    if isinstance(features, Features):
        features, features_name = _RowsOf(features), features.identity
    if data.fingerprint != suite.header.dataset.fingerprint:
        raise ParameterError("the dataset is not the one that the suite was found in", remedy="give that one")
    tasks = _tasks(suite, config)
    rows = {split: np.flatnonzero((data.images["split"] == split).to_numpy()) for split in ("train", "valid", "test")}
    for split, found in rows.items():
        if not len(found):
            raise InputError(
                f"the dataset has no split {split}",
                allowed="train, valid and test",
                remedy="import with --split 70/10/20",
            )
    if len(features.shape) != 2 or features.shape[0] != len(data):
        raise InputError(f"features have shape {tuple(features.shape)}", allowed=f"({len(data)}, d)")
    jobs = config.jobs(tasks)
    environments = _environments(data, suite, config, jobs)
    probe = TrainingData(features, rows, {task: data.labels(task) for task in tasks}, environments)
    described = {
        "dataset": data.fingerprint,
        "suite": identity_of(suite),
        "features": features_name,
        "environment": config.environment,
    }
    named = {job.identity(config.settings, described): job for job in jobs}
    settings: dict[str, Any] = msgspec.to_builtins(config.settings)
    header = RunsHeader("nooch-runs", 1, described, settings, named, passes_of(named, config.heads))
    return Plan(named, data, probe, header)


def bench(
    plan: Plan,
    config: BenchConfig,
    out: str | Path,
    *,
    device: str = "cpu",
    progress: Progress = lambda _w, _d, _t: None,
) -> RunsFolder:
    """Train all jobs of a plan that are not done, and keep their predictions.

    A pass is saved after every epoch: a bench that was interrupted or killed goes on there and ends with the same bytes.

    Raises:
        OutputError: the folder holds something else, or runs of another configuration.
    """
    runs = RunsFolder.begin(out, plan.header)
    for number, names in enumerate(runs.header.passes):
        if not all(runs.is_done(name) for name in names):
            _train(plan, config, runs, number, names, device, progress)
        runs.drop_checkpoint(number)
    progress("jobs", len(plan.jobs), len(plan.jobs))
    return runs


def _train(
    plan: Plan,
    config: BenchConfig,
    runs: RunsFolder,
    number: int,
    names: Sequence[str],
    device: str,
    progress: Progress,
) -> None:
    jobs = {runs.header.jobs[name]: name for name in names}
    trained = HeadPass(plan.probe, list(jobs), config.settings, device)
    saved = runs.checkpoint(number)
    if saved is not None:
        trained.load_state_dict(saved)
    while not trained.finished:
        started = time.perf_counter()
        trained.step()
        runs.save_checkpoint(number, trained.state_dict())
        runs.note_time(
            "epoch", time.perf_counter() - started, of_pass=number, epoch=trained.epoch, heads=len(trained.active)
        )
        progress(
            f"pass {number + 1} of {len(runs.header.passes)}, heads that have stopped",
            len(jobs) - len(trained.active),
            len(jobs),
        )
    trained.refit()
    outputs = {split: trained.logits(split) for split in ("valid", "test")}
    for place, job in enumerate(trained.jobs):
        if not runs.is_done(jobs[job]):
            mine = {split: values[place] for split, values in outputs.items()}
            _write(plan, runs, trained, place, jobs[job], mine)


def _write(
    plan: Plan, runs: RunsFolder, trained: HeadPass, place: int, name: str, outputs: Mapping[str, NDArray[np.float32]]
) -> None:
    job, best = trained.jobs[place], int(trained.best["epoch"][place])
    history = [
        {"epoch": epoch, **{key: float(values[place]) for key, values in record.items()}}
        for epoch, record in enumerate(trained.history, 1)
        if np.isfinite(record["valid"][place]) or np.isfinite(record["train"][place])
    ]
    predictions, environments = None, []
    if best:
        frames = []
        environments = _by_environment(plan.probe, job.task, outputs["valid"])
        for split, logits in outputs.items():
            ids = plan.data.images["image_id"].gather(plan.probe.rows[split])
            frames.append(pl.DataFrame({"image_id": ids, "logit": logits}).with_columns(split=pl.lit(split)))
        predictions = pl.concat(frames).with_columns(
            task=pl.lit(job.task), run=pl.lit(job.run), method=pl.lit(job.method), seed=pl.lit(job.seed)
        )
    record = JobRecord(
        name,
        job,
        runs.header.settings,
        runs.header.data,
        list(job.kind.sees),
        best,
        len(history),
        not best,
        environments,
    )
    # JSON has no NaN
    lines = [{key: value if np.isfinite(value) else None for key, value in line.items()} for line in history]
    runs.write_job(record, lines, predictions)


def _by_environment(probe: TrainingData, task: str, logits: NDArray[np.float32]) -> list[float | None]:
    """Mean loss of the validation images of each environment."""
    if task not in probe.environments:
        return []
    groups, labels = probe.environments[task][probe.rows["valid"]], probe.labels[task][probe.rows["valid"]]
    values = logits.astype(np.float64)
    present = [groups == number for number in range(probe.n_environments)]
    return [nll(labels[rows], values[rows]) if rows.any() else None for rows in present]


def status(runs: RunsFolder) -> dict[str, Any]:
    """How far a bench is: jobs done and all, by method, and passes with their epochs."""
    done = set(runs.done())
    methods: dict[str, list[int]] = {}
    for name, job in runs.header.jobs.items():
        count = methods.setdefault(job.method, [0, 0])
        count[0] += name in done
        count[1] += 1
    passes = []
    for number, names in enumerate(runs.header.passes):
        saved = runs.checkpoint(number)
        finished = sum(name in done for name in names)
        epochs = None if saved is None else int(saved["epoch"])
        stopped = (
            len(names) if saved is None and finished else 0 if saved is None else len(names) - len(saved["active"])
        )
        passes.append({"jobs": len(names), "done": finished, "epochs": epochs, "stopped": stopped})
    return {
        "done": len(done),
        "jobs": len(runs.header.jobs),
        "methods": {m: {"done": d, "jobs": n} for m, (d, n) in methods.items()},
        "passes": passes,
    }


def _tasks(suite: Suite, config: BenchConfig) -> tuple[str, ...]:
    with_sets = {task for _, task, _ in suite.keys}
    for task in config.tasks or ():
        check_one_of("task", task, suite.tasks, owner="the suite")
        if task not in with_sets:
            reasons = [s.reason for s in suite.header.skipped if s.task == task]
            raise UndefinedError(
                f"task {task} has no challenge set: {'; '.join(reasons)}", allowed=", ".join(sorted(with_sets))
            )
    return config.tasks or tuple(task for task in suite.tasks if task in with_sets)


def _environments(
    data: Dataset, suite: Suite, config: BenchConfig, jobs: Sequence[Job]
) -> dict[str, NDArray[np.uint8]]:
    """Environments of the tasks that have them; an error for a task that some method needs them for."""
    environments = Environments(None if config.environment else _fitted(data, suite), config.environment)
    needed = {job.task: job.method for job in jobs if METHODS[job.method].needs_environments}
    found = {}
    for task in dict.fromkeys(job.task for job in jobs):
        try:
            found[task] = environments.of(data, task)
        except UndefinedError as error:
            if task in needed:
                raise UndefinedError(f"method {needed[task]}: {error.problem}", remedy=error.remedy) from error
    return found


def _fitted(data: Dataset, suite: Suite) -> FittedCE | None:
    """CE of the suite, whatever its name; else fitted on the training split, where areas are known."""
    for record in suite.header.criteria.values():
        if record.kind == "ce" and record.fitted is not None:
            fitted = fitted_from_json(record.kind, record.fitted)
            assert isinstance(fitted, FittedCE)  # noqa: S101 - that is its kind
            return fitted
    return CE().fit(data.select("train")) if data.has_areas else None


def identity_of(suite: Suite) -> str:
    """Identity of a suite: its header, which has counts and thresholds of all sets."""
    return sha256(msgspec.json.encode(suite.header, order="sorted")).hexdigest()[:32]
