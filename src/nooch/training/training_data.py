"""Data of jobs: rows, labels and environments, and how a method samples, mixes and weighs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import Progress, tracked
from nooch.base.errors import InputError, UndefinedError, check_one_of
from nooch.criteria import FittedAttribute, FittedCE, FittedContext
from nooch.data import Dataset
from nooch.training.jobs import Job
from nooch.training.last_layers import Trained
from nooch.training.objectives import Objective, TrainingCounts
from nooch.training.samplers import Mixture, row_weights

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Environments:
    """Training images by label x presence of the strongest cue (section 5), or x an attribute.

    Attributes:
        fitted: CE fitted on the training split, whose strongest cue serves any criterion; where
            areas are unknown the context criterion, or the attribute criterion, whose phi is the
            cue; or None.
        attribute: a column of the dataset with two values, used instead; or None.
    """

    fitted: FittedCE | FittedContext | FittedAttribute | None = None
    attribute: str | None = None

    def undefined(self, task: str) -> str | None:
        """Why a task has no environments, or None if it has."""
        if self.attribute is not None or isinstance(self.fitted, FittedAttribute):
            return None
        if self.fitted is None:
            return "its context is unknown"
        if self.fitted.cues(task):
            return None
        return self.fitted.undefined(task) or "it has no context cue"

    def for_task(self, data: Dataset, task: str) -> NDArray[np.uint8]:
        """2 x label + presence, uint8 (n_images,), 0 to 3; unknown test labels count as absent."""
        if reason := self.undefined(task):
            remedy = "leave out methods that need them, lower alpha, or give cues or an attribute"
            raise UndefinedError(f"task {task} has no environments: {reason}", remedy=remedy)
        if self.attribute is not None:
            values = _two_values(data, self.attribute)
        elif isinstance(self.fitted, FittedAttribute):
            values = self.fitted.phi(data, task)
        else:
            assert self.fitted is not None  # noqa: S101 - else it is undefined
            cue = self.fitted.cues(task)[0]
            if isinstance(self.fitted, FittedContext):
                values, unknown = self.fitted.with_cue(data, cue)
            else:
                values, unknown = data.labels(cue, unknown=False), data.unknown_labels(cue)
            if unknown is not None and unknown[(data.images["split"] != "test").to_numpy()].any():
                reason = f"its cue {cue} was not annotated in all images of train and valid"
                remedy = "leave out methods that need them, give an attribute, or train on the rest"
                raise UndefinedError(f"task {task} has no environments: {reason}", remedy=remedy)
        return np.asarray(2 * known_labels(data, task) + values, dtype=np.uint8)


def known_labels(data: Dataset, task: str) -> NDArray[np.bool_]:
    """Labels, bool (n_images,); raises UndefinedError if one of train or valid is unknown."""
    if n := _n_unknown(data, task):
        raise UndefinedError(
            f"task {task} was not annotated in {n} images of train and valid",
            allowed="tasks annotated in all of them",
            remedy="leave the task out, or find in a dataset of the annotated images: "
            "data.select(rows=~data.unknown_labels(task))",
        )
    return data.labels(task, unknown=False)


def _n_unknown(data: Dataset, name: str) -> int:
    """Images of train and valid in which a class was not annotated."""
    unknown = data.unknown_labels(name)
    return 0 if unknown is None else int(unknown[(data.images["split"] != "test").to_numpy()].sum())


def _two_values(data: Dataset, attribute: str) -> NDArray[np.bool_]:
    check_one_of("attribute", attribute, data.attributes, owner="the dataset")
    column = data.images[attribute]
    values = column.drop_nulls().unique().sort()
    if column.null_count() or len(values) > 2:
        missing = f"is missing in {column.null_count()} images"
        problem = f"attribute {attribute} has {len(values)} values and {missing}"
        raise InputError(problem, allowed="two values, one in every image")
    return np.asarray((column == values[-1]).to_numpy(), dtype=bool) & (len(values) == 2)


Outputs = Mapping[str, NDArray[np.floating[Any]]]
"""Split -> logits of its images, float (m,)."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Inputs with labels and environments.

    Attributes:
        inputs: rows of frozen features, float (n, d), array or memory map; or of pixels.
        rows: split -> int (m,), rows of ``inputs``.
        labels: task -> bool (n,).
        environments: task -> uint8 (n,), 0 to C - 1; tasks without environments are missing.
    """

    inputs: Any
    rows: Mapping[str, NDArray[np.intp]]
    labels: Mapping[str, NDArray[np.bool_]]
    environments: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)

    @cached_property
    def n_environments(self) -> int:
        """C."""
        return max(
            (int(values.max(initial=0)) + 1 for values in self.environments.values()), default=1
        )

    def targets(
        self, task: str, rows: NDArray[np.intp]
    ) -> tuple[NDArray[np.bool_], NDArray[np.uint8] | None]:
        """Labels and environments of some rows, (m,) each; None for no environments."""
        environments = self.environments.get(task)
        return self.labels[task][rows], None if environments is None else environments[rows]

    def groups(self, task: str, by: str | None, split: str) -> NDArray[np.uint8]:
        """Labels or environments of a split's images, uint8 (m,); zeros if there are none."""
        rows = self.rows[split]
        if by is None or (by == "environments" and task not in self.environments):
            return np.zeros(len(rows), dtype=np.uint8)
        values = self.labels[task] if by == "labels" else self.environments[task]
        return np.asarray(values[rows], dtype=np.uint8)


def counts_of(
    data: TrainingData, job: Job, epoch: int, first: Outputs | None = None
) -> NDArray[np.int64] | None:
    """Number of times each training row is taken in an epoch, int64 (n_train,), or None for once
    each.

    ``first`` are the outputs of the job's first stage, where its method has one.
    """
    if job.kind.first is not None:
        return _first_counts(data, job, first, "train")
    sampler = job.kind.sampler
    if sampler is None:
        return None
    groups = data.groups(job.task, sampler.by, "train")
    return sampler.counts(groups, dict(job.parameters), job.streams(epoch))


def expected_of(
    data: TrainingData, job: Job, first: Outputs | None = None
) -> NDArray[np.float32] | None:
    """Mean counts of validation images, float32 (n_valid,), the mean training row at 1; or None."""
    if job.kind.first is not None:
        return row_weights(_first_counts(data, job, first, "valid"))
    sampler = job.kind.sampler
    if sampler is None:
        return None
    train, valid = (data.groups(job.task, sampler.by, split) for split in ("train", "valid"))
    return sampler.expected(train, dict(job.parameters), valid)


def _first_counts(
    data: TrainingData, job: Job, outputs: Outputs | None, split: str
) -> NDArray[np.int64]:
    assert outputs is not None and job.kind.first is not None  # noqa: S101, PT018 - it comes before
    labels = data.groups(job.task, "labels", split) > 0
    return job.kind.first.counts(labels, outputs[split], dict(job.parameters))


def mixture_of(data: TrainingData, job: Job, epoch: int, variant: str) -> Mixture | None:
    """Partners that training rows are mixed with in an epoch, the same for all jobs of a pass; or
    None.
    """
    mixing = job.kind.mixing
    if mixing is None:
        return None
    train = data.rows["train"]
    # what does not look at the task has one stream for all tasks
    random = np.random.default_rng([job.order, 3, epoch])
    labels, environments = data.targets(job.task, train)
    return mixing.of(variant)(labels, environments, dict(job.parameters), random)


def objective_of(
    data: TrainingData, jobs: Sequence[Job], variant: str, device: str = "cpu"
) -> Objective:
    """The objective of jobs whose methods minimize the same, a head for each."""
    import torch

    def counts(by: str, n: int) -> Tensor:
        of_task = {task: _counts(data, task, by, n) for task in {job.task for job in jobs}}
        columns = [of_task[job.task] for job in jobs]
        return torch.tensor(np.array(columns).T, dtype=torch.float32, device=device)

    kind = jobs[0].kind.objective_class
    parameters = [{**dict(job.parameters), **job.kind.fixed} for job in jobs]
    values = {
        name: torch.tensor([p[name] for p in parameters], dtype=torch.float32, device=device)
        for name in kind.ranges
        if name in parameters[0]
    }
    sizes = TrainingCounts(counts("labels", 2), counts("environments", data.n_environments))
    return kind(sizes, variant=variant, **values)


def _counts(data: TrainingData, task: str, by: str, n: int) -> NDArray[np.int64]:
    if by == "environments" and task not in data.environments:
        return np.ones(n, dtype=np.int64)
    return np.bincount(data.groups(task, by, "train"), minlength=n)


def with_last_stage(
    jobs: Sequence[Job], best_epochs: NDArray[np.int64], progress: Progress
) -> Iterator[int]:
    """Numbers of the jobs to be ``refitted``, with progress: not those that diverged."""
    numbers = [n for n, job in enumerate(jobs) if job.kind.refit is not None and best_epochs[n]]
    if numbers:
        yield from tracked(numbers, len(numbers), "last stages of jobs", progress)


def refitted(
    data: TrainingData,
    job: Job,
    head: NDArray[np.float32],
    features: Callable[[NDArray[np.intp]], NDArray[np.float32]],
    variant: str,
) -> NDArray[np.float32]:
    """The head after its method's last stage, float32 (d + 1,); as it was if there is none.

    ``features`` gives the trained network's features of some rows, float32 (m, d).
    """
    if job.kind.refit is None:
        return head
    refit = job.kind.refit.of(variant)

    def trained(rows: NDArray[np.intp]) -> Trained:
        return Trained(features(rows), *data.targets(job.task, rows), head, of_split)

    def of_split(split: str) -> Trained:
        return trained(data.rows[split])

    rows = data.rows[refit.split]
    rows = rows[refit.places(len(rows), job.streams())]
    return refit(trained(rows), dict(job.parameters), job.streams())
