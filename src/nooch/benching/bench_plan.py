"""A grid of trainings, checked as far as can be before any of it begins: tasks, splits,
environments, what is trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.benching.bench_config import BenchConfig
from nooch.benching.epoch_costs import EpochCost, head_cost, network_cost
from nooch.caches.features import Features
from nooch.challenge import Suite
from nooch.criteria import CE, FittedCE, fitted_from_json
from nooch.data import Dataset
from nooch.errors import InputError, ParameterError, UndefinedError, check_one_of
from nooch.models.networks import backbones
from nooch.models.pixel_batches import Pixels, check_pixels
from nooch.training.environments import Environments
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import Job, ProbeSettings, recorded
from nooch.training.methods import METHODS
from nooch.training.network_jobs import NetworkJobs
from nooch.training.network_settings import TuneSettings
from nooch.training.run_records import SCALING, RunsHeader, passes_of
from nooch.training.standardization import kept_scaling, scaling_of
from nooch.training.training_data import TrainingData

__all__ = ["Plan", "Training", "identity_of", "plan_bench", "plan_finetune", "rows_of_splits"]


Training = HeadPass | NetworkJobs
"""Jobs that train together: heads on frozen features, or whole networks."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What a bench would do.

    Attributes:
        jobs: identity -> job.
        data: the dataset.
        training: inputs, labels and environments.
        header: what the folder of runs will say.
        begin: makes the training of some jobs; what they share with all others may be kept in a
            folder that all workers see, such as that of the runs.
        cost: times an epoch of all jobs on the device that the plan was made for.
        keep_weights: whether what jobs have learnt is kept.
    """

    jobs: Mapping[str, Job]
    data: Dataset
    training: TrainingData
    header: RunsHeader
    begin: Callable[..., Training]
    cost: Callable[[], EpochCost]
    keep_weights: bool = False

    @property
    def disk_bytes(self) -> int:
        """About what predictions will take: 6 bytes for each image of valid and test and job."""
        return (
            6 * sum(len(self.training.rows[split]) for split in ("valid", "test")) * len(self.jobs)
        )


class _RowsOf:
    """Features of a folder as an array of rows: what is asked for is read, nothing else."""

    def __init__(self, features: Features) -> None:
        self._features, self.shape = features, (len(features), features.n_features)

    def __getitem__(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return self._features.batch(rows)


def plan_bench(
    data: Dataset,
    suite: Suite,
    features: Any,
    config: BenchConfig,
    *,
    features_name: str = "features",
    device: str = "cpu",
) -> Plan:
    """Plan heads on frozen features.

    Args:
        data: the dataset that the suite was found in.
        suite: its tasks are trained; CE fitted in it or on train gives the environments.
        features: ``Features``, or float (n_images, d) with rows in the order of the dataset's
            images: an array or a memory map.
        config: the grid.
        features_name: identity of an array, for the record; ``Features`` have their own.
        device: where the heads are trained, ``cpu`` or ``cuda``.

    Raises:
        ParameterError: tasks that the suite lacks, another dataset, settings of another mode.
        UndefinedError: a method that needs environments, on a task without a context cue; a task
            that training images do not tell.
        InputError: an empty split, features of another shape or not finite.
    """
    settings = config.settings
    if not isinstance(settings, ProbeSettings):
        raise ParameterError(
            "the settings are those of fine-tuning", where="configuration", allowed="mode probe"
        )
    if isinstance(features, Features):
        features, features_name = _RowsOf(features), features.identity
    if len(features.shape) != 2 or features.shape[0] != len(data):
        raise InputError(
            f"features have shape {tuple(features.shape)}", allowed=f"({len(data)}, d)"
        )
    jobs, training = _checked(data, suite, config, features)
    within = _within(data, suite, config, training)
    described = _described(data, suite, config) | {"features": features_name}
    named = {job.identity(settings, described): job for job in jobs}
    # four products of two operations for each row, feature and head
    operations = 8.0 * len(training.rows["train"]) * int(features.shape[1]) * len(jobs)
    header = RunsHeader(
        "nooch-runs",
        1,
        described,
        recorded(settings),
        named,
        passes_of(named, config.heads, by_task=config.within is not None),
    )

    def begin(members: Sequence[Job], folder: Path | None = None) -> Training:
        scaling = None
        if settings.condition != "none":
            # of the whole training split, also where tasks are trained on parts of it
            scaling = kept_scaling(
                None if folder is None else folder / "passes" / SCALING,
                lambda: scaling_of(features, training.rows["train"]),
                int(features.shape[1]),
            )
        return HeadPass(within(members[0].task), members, settings, device, scaling=scaling)

    return Plan(
        named,
        data,
        training,
        header,
        begin,
        partial(head_cost, operations, device),
        config.keep_weights,
    )


def plan_finetune(
    data: Dataset,
    suite: Suite,
    pixels: Pixels,
    backbone: str | Path,
    config: BenchConfig,
    *,
    device: str = "cpu",
) -> Plan:
    """Plan the fine-tuning of whole networks.

    Args:
        data: the dataset that the suite was found in.
        suite: its tasks are trained.
        pixels: the dataset's pixel cache.
        backbone: hub id, folder, or ``config:NAME`` for random weights.
        config: the grid, read with mode ``finetune``.
        device: where it is computed.

    Raises:
        ParameterError, UndefinedError, InputError: as ``plan_bench``; no such backbone, a folder
            without weights; a method of use on frozen features only.
    """
    settings = config.settings
    if not isinstance(settings, TuneSettings):
        raise ParameterError(
            "the settings are those of heads", where="configuration", allowed="mode finetune"
        )
    if len(pixels) != len(data):
        raise InputError(
            f"pixels of {len(pixels)} images", allowed=f"{len(data)}, as the dataset has"
        )
    jobs, training = _checked(data, suite, config, pixels)
    within = _within(data, suite, config, training)
    for job in jobs:
        if job.kind.frozen:
            raise ParameterError(
                f"method {job.method} is for frozen features",
                remedy="leave it out, or give `features`",
            )
        if settings.auxiliary and job.task not in training.environments:
            raise UndefinedError(
                f"task {job.task} has no context cue that an auxiliary output could predict",
                remedy="leave the task out, or set auxiliary to 0",
            )
    made = backbones(backbone, settings.network, size=pixels.size, device=device)
    first = made(0)
    check_pixels(pixels, first)
    # what seeds change is said by the jobs
    network = {name: value for name, value in first.describe().items() if name != "versions"}
    described = _described(data, suite, config) | {
        "pixels": getattr(pixels, "identity", "array"),
        "backbone": network,
    }
    named = {job.identity(settings, described): job for job in jobs}
    header = RunsHeader(
        "nooch-runs",
        1,
        described,
        recorded(settings),
        named,
        passes_of(named, config.networks, weighted=False, by_task=config.within is not None),
    )
    # a job without a first stage, where there is one: its steps are those of the others
    typical = next((job for job in jobs if job.kind.first is None), jobs[0])

    def begin(members: Sequence[Job], folder: Path | None = None) -> Training:
        del folder
        return NetworkJobs(within(members[0].task), members, settings, made, device)

    cost = partial(network_cost, made, training, typical, settings, len(jobs))
    return Plan(named, data, training, header, begin, cost, config.keep_weights)


def _described(data: Dataset, suite: Suite, config: BenchConfig) -> dict[str, Any]:
    asked = {"environment": config.environment} | (
        {} if config.within is None else {"within": config.within}
    )
    return {"dataset": data.fingerprint, "suite": identity_of(suite), **asked}


def _checked(
    data: Dataset, suite: Suite, config: BenchConfig, inputs: Any
) -> tuple[list[Job], TrainingData]:
    """Jobs and what they are trained on, after all checks that need no network."""
    if data.fingerprint != suite.header.dataset.fingerprint:
        raise ParameterError(
            "the dataset is not the one that the suite was found in", remedy="give that one"
        )
    tasks = _tasks(suite, config)
    rows = rows_of_splits(data)
    jobs = config.jobs(tasks)
    labels = {task: _labels(data, task) for task in tasks}
    for job in jobs:
        refit = job.kind.refit
        for split in ("train", *([] if refit is None else [refit.split])):
            if len(np.unique(labels[job.task][rows[split]])) < 2:
                raise UndefinedError(
                    f"method {job.method}: all images of split {split} have the same label of task"
                    f" {job.task}",
                    allowed="images with and without it",
                    remedy="leave the task out, or split anew",
                )
    return jobs, TrainingData(inputs, rows, labels, _environments(data, suite, config, jobs))


def _labels(data: Dataset, task: str) -> NDArray[np.bool_]:
    """Labels; raises UndefinedError where one of train or valid is unknown."""
    unknown = data.select(rows=(data.images["split"] != "test").to_numpy()).unknown_labels(task)
    if unknown is not None:
        raise UndefinedError(
            f"task {task} was not annotated in {unknown.sum()} images of train and valid",
            allowed="tasks annotated in all of them",
            remedy=(
                "leave the task out, or make a dataset of the annotated images and find in it: "
                "data.select(rows=~data.unknown_labels(task))"
            ),
        )
    return data.labels(task, unknown=False)


def rows_of_splits(data: Dataset) -> dict[str, NDArray[np.intp]]:
    """Rows of the images of train, valid and test. Raises InputError where one has none."""
    rows = {
        split: np.flatnonzero((data.images["split"] == split).to_numpy())
        for split in ("train", "valid", "test")
    }
    for split, found in rows.items():
        if not len(found):
            raise InputError(
                f"the dataset has no split {split}",
                allowed="train, valid and test",
                remedy="import with `split` 70/10/20",
            )
    return rows


def _tasks(suite: Suite, config: BenchConfig) -> tuple[str, ...]:
    with_sets = {task for _, task, _ in suite.keys}
    for task in config.tasks or ():
        check_one_of("task", task, suite.tasks, owner="the suite")
        if task not in with_sets:
            reasons = [s.reason for s in suite.header.skipped if s.task == task]
            raise UndefinedError(
                f"task {task} has no challenge set: {'; '.join(reasons)}",
                allowed=", ".join(sorted(with_sets)),
            )
    return config.tasks or tuple(task for task in suite.tasks if task in with_sets)


def _within(
    data: Dataset, suite: Suite, config: BenchConfig, training: TrainingData
) -> Callable[[str], TrainingData]:
    """Task -> what it is trained on: all training images, or those that are in context."""
    criterion = config.within
    if criterion is None:
        return lambda _task: training
    if "train" not in suite.splits:
        raise ParameterError(
            "the suite says nothing of the training split",
            where=f"within: {criterion}",
            remedy="find with `splits` train,valid,test",
        )
    rows = {task: _in_context(data, suite, criterion, task, training) for task in training.labels}
    return lambda task: replace(training, rows={**training.rows, "train": rows[task]})


def _in_context(
    data: Dataset, suite: Suite, criterion: str, task: str, training: TrainingData
) -> NDArray[np.intp]:
    inside = data.images["image_id"].is_in(suite.in_context(criterion, task)).to_numpy()
    kept: NDArray[np.intp] = training.rows["train"][inside[training.rows["train"]]]
    if len(np.unique(training.labels[task][kept])) < 2:
        raise UndefinedError(
            f"task {task}: the training images that are in context all have the same label",
            where=f"within: {criterion}",
            remedy="leave the task out, or train on all images",
        )
    return kept


def _environments(
    data: Dataset, suite: Suite, config: BenchConfig, jobs: Sequence[Job]
) -> dict[str, NDArray[np.uint8]]:
    """Environments of the tasks that have them; an error where a method needs and lacks them."""
    environments = Environments(
        None if config.environment else _fitted(data, suite), config.environment
    )
    needed = {job.task: job.method for job in jobs if METHODS[job.method].needs_environments}
    found = {}
    for task in dict.fromkeys(job.task for job in jobs):
        try:
            found[task] = environments.of(data, task)
        except UndefinedError as error:
            if task in needed:
                raise UndefinedError(
                    f"method {needed[task]}: {error.problem}", remedy=error.remedy
                ) from error
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
