"""A grid of trainings, checked before it starts if possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import Command, InputError, ParameterError, UndefinedError, check_one_of
from nooch.base.work_folder import key_of
from nooch.criteria import CE, FittedAttribute, FittedCE, FittedContext
from nooch.data import Dataset
from nooch.models.caches.features import Features
from nooch.models.networks import backbones
from nooch.models.pixel_batches import Pixels, check_pixels
from nooch.suites import Suite
from nooch.training.bench.config import BenchConfig
from nooch.training.head_pass import HeadPass, Scaling, scaling_of
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.methods import METHODS
from nooch.training.network_jobs import NetworkJobs
from nooch.training.network_settings import TuneSettings
from nooch.training.records import RunsHeader, passes_of
from nooch.training.training_data import Environments, TrainingData, known_labels

Training = HeadPass | NetworkJobs
"""Jobs that train together: heads on frozen features, or whole networks."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan of a bench.

    Attributes:
        data: the dataset.
        training: inputs, labels and environments.
        header: header of the folder of runs.
        begin: makes the training of some jobs.
        keep_weights: whether what jobs have learned is kept.
    """

    data: Dataset
    training: TrainingData
    header: RunsHeader
    begin: Callable[[Sequence[Job]], Training]
    keep_weights: bool = False

    @property
    def jobs(self) -> Mapping[str, Job]:
        """Identity -> job."""
        return self.header.jobs

    @property
    def disk_bytes(self) -> int:
        """About what predictions will take: 6 bytes for each image of valid and test and job."""
        images = sum(len(self.training.rows[split]) for split in ("valid", "test"))
        return 6 * images * len(self.jobs)


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
            whose training images all have the same label.
        InputError: an empty split, features of another shape or not finite.
    """
    settings = config.settings
    if not isinstance(settings, ProbeSettings):
        problem = "the settings are for fine-tuning"
        raise ParameterError(problem, where="configuration", allowed="mode probe")
    if isinstance(features, Features):
        features_name = features.identity
    if len(features.shape) != 2 or features.shape[0] != len(data):
        problem = f"features have shape {tuple(features.shape)}"
        raise InputError(problem, allowed=f"({len(data)}, d)")
    jobs, training = _checked(data, suite, config, features)
    environments_within = _within(data, suite, config, training)

    @cache
    def scaling() -> Scaling | None:
        # of the whole training split, also where tasks are trained on parts of it
        conditioned = settings.condition != "none"
        return scaling_of(features, training.rows["train"]) if conditioned else None

    def begin(members: Sequence[Job]) -> Training:
        return HeadPass(
            environments_within(members[0].task), members, settings, device, scaling=scaling()
        )

    described = _described(data, suite, config) | {"features": features_name}
    return Plan(data, training, _header(config, jobs, described), begin, config.keep_weights)


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
        backbone: as ``load_backbone`` takes it.
        config: the grid, read with mode ``finetune``.
        device: device to compute on.

    Raises:
        ParameterError, UndefinedError, InputError: as ``plan_bench``; no such backbone, a folder
            without weights; a method of use on frozen features only.
    """
    settings = config.settings
    if not isinstance(settings, TuneSettings):
        problem = "the settings are for heads"
        raise ParameterError(problem, where="configuration", allowed="mode finetune")
    if len(pixels) != len(data):
        allowed = f"{len(data)}, as in the dataset"
        raise InputError(f"pixels of {len(pixels)} images", allowed=allowed)
    jobs, training = _checked(data, suite, config, pixels)
    environments_within = _within(data, suite, config, training)
    for job in jobs:
        if job.kind.frozen:
            problem = f"method {job.method} is for frozen features"
            raise ParameterError(problem, remedy="leave it out", give={"features": ...})
        if settings.auxiliary and job.task not in training.environments:
            problem = f"task {job.task} has no context cue that an auxiliary output could predict"
            raise UndefinedError(problem, remedy="leave the task out, or set auxiliary to 0")
    source = backbones(backbone, settings.network, size=pixels.size, device=device)
    first = source(0)
    check_pixels(pixels, first)

    def begin(members: Sequence[Job]) -> Training:
        return NetworkJobs(environments_within(members[0].task), members, settings, source, device)

    # what seeds change is recorded by the jobs
    network = {name: value for name, value in first.describe().items() if name != "versions"}
    identity = getattr(pixels, "identity", "array")
    described = _described(data, suite, config) | {"pixels": identity, "backbone": network}
    return Plan(data, training, _header(config, jobs, described), begin, config.keep_weights)


def _header(config: BenchConfig, jobs: Sequence[Job], described: dict[str, Any]) -> RunsHeader:
    settings = config.settings
    by_identity = {job.identity(settings, described): job for job in jobs}
    heads = isinstance(settings, ProbeSettings)
    most, by_task = config.heads if heads else config.networks, config.within is not None
    passes = passes_of(by_identity, most, weighted=heads, by_task=by_task)
    return RunsHeader(
        "nooch-runs", 1, described, msgspec.to_builtins(settings), by_identity, passes
    )


def _described(data: Dataset, suite: Suite, config: BenchConfig) -> dict[str, Any]:
    setting = {} if config.within is None else {"within": config.within}
    plain = {"dataset": data.fingerprint, "suite": identity_of(suite)}
    return {**plain, "environment": config.environment, **setting}


def _checked(
    data: Dataset, suite: Suite, config: BenchConfig, inputs: Any
) -> tuple[list[Job], TrainingData]:
    """Jobs and what they are trained on, after all checks that need no network."""
    suite.require_dataset(data)
    tasks = _tasks(suite, config)
    rows = rows_of_splits(data)
    jobs = config.jobs(tasks)
    labels = {task: known_labels(data, task) for task in tasks}
    alike = {(t, s) for t in tasks for s in rows if len(np.unique(labels[t][rows[s]])) < 2}
    for job in jobs:
        refit = job.kind.refit
        for split in ("train",) if refit is None else ("train", refit.split):
            if (job.task, split) in alike:
                alike_in = f"all images of split {split} have the same label of task {job.task}"
                remedy = "leave the task out, or split again"
                raise UndefinedError(f"method {job.method}: {alike_in}", remedy=remedy)
    return jobs, TrainingData(inputs, rows, labels, _environments(data, suite, config, jobs))


def rows_of_splits(data: Dataset) -> dict[str, NDArray[np.intp]]:
    """Rows of the images of train, valid and test. Raises InputError if one has none."""
    rows = {}
    for split in ("train", "valid", "test"):
        rows[split] = np.flatnonzero((data.images["split"] == split).to_numpy())
        if not len(rows[split]):
            give = Command("import auto", split="70/10/20")
            problem = f"the dataset has no split {split}"
            raise InputError(problem, allowed="train, valid and test", give=give)
    return rows


def _tasks(suite: Suite, config: BenchConfig) -> tuple[str, ...]:
    with_sets = {task for _, task, _ in suite.keys}
    for task in config.tasks or ():
        check_one_of("task", task, suite.tasks, owner="the suite")
        if task not in with_sets:
            reasons = [s.reason for s in suite.header.skipped if s.task == task]
            problem = f"task {task} has no challenge set: {'; '.join(reasons)}"
            raise UndefinedError(problem, allowed=", ".join(sorted(with_sets)))
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
            "the suite has no sets of the training split",
            where=f"within: {criterion}",
            give=Command("find", splits=("train", "valid", "test")),
        )
    rows = {task: _in_context(data, suite, criterion, task, training) for task in training.labels}
    return lambda task: replace(training, rows={**training.rows, "train": rows[task]})


def _in_context(
    data: Dataset, suite: Suite, criterion: str, task: str, training: TrainingData
) -> NDArray[np.intp]:
    inside = data.images["image_id"].is_in(suite.in_context(criterion, task)).to_numpy()
    train = training.rows["train"]
    rows: NDArray[np.intp] = train[inside[train]]
    if len(np.unique(training.labels[task][rows])) < 2:
        raise UndefinedError(
            f"task {task}: all training images in context have the same label",
            where=f"within: {criterion}",
            remedy="leave the task out, or train on all images",
        )
    return rows


def _environments(
    data: Dataset, suite: Suite, config: BenchConfig, jobs: Sequence[Job]
) -> dict[str, NDArray[np.uint8]]:
    """Environments of the tasks that have them; an error where a method needs and lacks them."""
    fitted = None if config.environment else _fitted(data, suite)
    environments = Environments(fitted, config.environment)
    needed = {job.task: job.method for job in jobs if METHODS[job.method].needs_environments}
    of_tasks = {}
    for task in dict.fromkeys(job.task for job in jobs):
        try:
            of_tasks[task] = environments.for_task(data, task)
        except UndefinedError as error:
            if task in needed:
                problem = f"method {needed[task]}: {error.problem}"
                raise error.changed(problem=problem) from error
    return of_tasks


def _fitted(data: Dataset, suite: Suite) -> FittedCE | FittedContext | FittedAttribute | None:
    """CE of the suite, under any name; else fitted on train, where areas are known; else the
    suite's first criterion of labels, columns or phi.
    """
    known = [record.restored() for record in suite.header.criteria.values()]
    for fitted in known:
        if isinstance(fitted, FittedCE):
            return fitted
    if data.has_areas:
        return CE().fit(data.select("train"))
    return next((one for one in known if isinstance(one, FittedContext | FittedAttribute)), None)


def identity_of(suite: Suite) -> str:
    """Identity of a suite: its header, which has counts and thresholds of all sets."""
    # how names of images are matched changes no set
    header = msgspec.structs.replace(suite.header, image_names="")
    return key_of(header, 32, order="sorted", hashed=sha256)
