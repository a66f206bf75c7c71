"""Heads of a pass by objective: one loss and gradient for a batch, and validation values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.training.block_sgd import Gradient
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.network_state import Arrays, array_of, tensor_of
from nooch.training.objectives import ERM, BatchTerms, Objective, indicators, losses
from nooch.training.samplers import Mixture, row_weights
from nooch.training.training_data import Outputs, TrainingData, counts_of, expected_of, objective_of
from nooch.training.training_pass import validation_value

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HeadGroup", "HeadGroups", "order_of"]

_Weights = Callable[[Job], NDArray[np.int64] | NDArray[np.float32] | None]


@dataclass
class HeadGroup:
    """Neighboring heads with one objective and one kind of sampler."""

    heads: slice
    objective: Objective
    counts: Tensor | None = None
    """Weights of training rows in this epoch, (n_train, h), where rows are not taken once each."""
    expected: Tensor | None = None
    """How often validation images would be taken on average, (n_valid, h), likewise."""

    @property
    def sizes(self) -> Tensor:
        """About how many times ERM's gradient each head's is, (h,)."""
        return self.objective.step_size().expand(self.heads.stop - self.heads.start)


@dataclass(eq=False)
class HeadGroups:
    """The heads that still train in a pass, a job for each, in the order of ``order_of``: their
    objectives, labels and environments. ``first`` has the outputs of first stages.
    """

    data: TrainingData
    jobs: Sequence[Job]
    settings: ProbeSettings
    device: str
    first: Mapping[Job, Outputs] = field(default_factory=dict)

    @cached_property
    def groups(self) -> list[HeadGroup]:
        """In the order of the heads."""
        groups: list[HeadGroup] = []
        for _, members in groupby(self.jobs, key=_alike):
            listed, start = list(members), groups[-1].heads.stop if groups else 0
            objective = objective_of(self.data, listed, self.settings.variant, self.device)
            heads = slice(start, start + len(listed))
            groups.append(
                HeadGroup(heads, objective, expected=self._columns(listed, self._expected))
            )
        return groups

    @cached_property
    def _sizes(self) -> Tensor | None:
        """What steps are divided by, (H,), so that they are on average as large as ERM's."""
        import torch

        if self.settings.condition == "none" or not self.groups:
            return None
        return torch.cat([group.sizes for group in self.groups])

    @cached_property
    def _tables(self) -> dict[tuple[str, str], Tensor]:
        """(split, ``labels`` or ``environments``) -> of each row and head, uint8 (m, H)."""
        keys = product(("train", "valid"), ("labels", "environments"))
        return {(split, by): self._table(split, by) for split, by in keys}

    def _table(self, split: str, by: str) -> Tensor:
        import torch

        tasks = {job.task for job in self.jobs}
        of_task = {task: self.data.groups(task, by, split) for task in tasks}
        table = np.column_stack([of_task[job.task] for job in self.jobs])
        return torch.from_numpy(np.ascontiguousarray(table)).to(self.device)

    def draw_rows(self, epoch: int) -> None:
        """Draw how often each training row is taken in an epoch, from 0."""

        def weights(job: Job) -> NDArray[np.float32] | None:
            counts = counts_of(self.data, job, epoch, self.first.get(job))
            return None if counts is None else row_weights(counts)

        for group in self.groups:
            group.counts = self._columns(self.jobs[group.heads], weights)

    def _expected(self, job: Job) -> NDArray[np.float32] | None:
        return expected_of(self.data, job, self.first.get(job))

    def _columns(self, jobs: Sequence[Job], weights: _Weights) -> Tensor | None:
        """A column for each job of a group; or None where their rows are taken once each.

        Jobs that differ in their seed alone share their weights, unless they have a first stage.
        """
        import torch

        if not _weighs(jobs[0]):
            return None
        seeds = [job.seed if job.kind.first else 0 for job in jobs]
        pairs = zip(jobs, seeds, strict=True)
        names = [(job.task, job.method, job.parameters, seed) for job, seed in pairs]
        columns = {name: weights(job) for name, job in dict(zip(names, jobs, strict=True)).items()}
        listed = [column for name in names if (column := columns[name]) is not None]
        return torch.from_numpy(np.column_stack(listed)).to(self.device)

    def gradient(self, mixture: Mixture | None) -> Callable[[NDArray[np.intp]], Gradient]:
        """For an epoch: the rows of a block -> losses and derivatives of its batches."""
        import torch

        def of_block(rows: NDArray[np.intp]) -> Gradient:
            at = torch.from_numpy(rows).to(self.device)
            labels = self._tables["train", "labels"][at].float()
            if mixture is not None:
                share = torch.from_numpy(mixture.weights[rows]).to(self.device)[:, None]
                partners = torch.from_numpy(mixture.partners[rows]).to(self.device)
                others = self._tables["train", "labels"][partners].float()
                labels = share * labels + (1 - share) * others
            environments = self._tables["train", "environments"][at].long()
            return self._of_rows(at, labels, environments)

        return of_block

    def _of_rows(self, at: Tensor, labels: Tensor, environments: Tensor) -> Gradient:
        """For the rows of a block, positions int64 (b,): losses and derivatives of its batches.

        Labels are float (b, H), environments int64 (b, H).
        """
        import torch

        needed = any(group.objective.needs_environments for group in self.groups)
        inside = indicators(environments, self.data.n_environments, labels) if needed else None
        # heads whose rows have a fixed weight lie first, and differ in nothing else
        fixed, others = [labels[:, :0]], []
        for group in self.groups:
            heads, objective = group.heads, group.objective
            if not isinstance(objective, ERM):
                others.append(group)
            elif group.counts is None:
                weights = objective.weights(labels[:, heads], environments[:, heads])
                fixed.append(weights.expand(len(at), heads.stop - heads.start))
            else:
                fixed.append(group.counts[at])
        table = torch.cat(fixed, dim=1)

        def of_batch(logits: Tensor, place: slice) -> tuple[Tensor, Tensor]:
            # of all heads at once: most of the time of a step is the overhead of small operations
            part = None if inside is None else inside[:, place]
            terms = BatchTerms.of(logits, labels[place], environments[place], part)
            width, times = table.shape[1], table[place]
            values = [(times * terms.losses[:, :width]).mean(dim=0)]
            derivatives = [times * terms.residuals[:, :width] / len(logits)]
            for group in others:
                value, derivative = group.objective.derivative(terms.heads(group.heads))
                values.append(value)
                derivatives.append(derivative)
            steps = torch.cat(derivatives, dim=1)
            return torch.cat(values), steps if self._sizes is None else steps.div_(self._sizes)

        return of_batch

    def validate(self, logits: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each head the value that decides when to stop, and the plain loss, float64 (H,), for
        outputs (n_valid, H).
        """
        import torch

        with torch.no_grad():
            labels = self._tables["valid", "labels"].float()
            environments = self._tables["valid", "environments"].long()
            rule, batch = str(self.settings.stop_on), self.settings.batch
            values = []
            for group in self.groups:
                own = group.heads
                outputs = logits[:, own], labels[:, own], environments[:, own]
                value = validation_value(rule, group.objective, outputs, group.expected, batch)
                values.append(value)
            nll = losses(logits, labels).mean(dim=0)
        return torch.cat(values).double().cpu().numpy(), nll.double().cpu().numpy()

    def keep(self, staying: NDArray[np.bool_]) -> HeadGroups:
        """Some of the heads alone, bool (H,), with the states of their objectives."""
        jobs = [job for job, stays in zip(self.jobs, staying, strict=True) if stays]
        left = HeadGroups(self.data, jobs, self.settings, self.device, self.first)
        states = {_alike(self.jobs[group.heads.start]): group for group in self._with_state()}
        for group in left._with_state():
            before = states[_alike(jobs[group.heads.start])]
            columns = np.flatnonzero(staying[before.heads]).tolist()
            group.objective.q = before.objective.q[:, columns]  # type: ignore[attr-defined]
        return left

    def _with_state(self) -> list[HeadGroup]:
        """Groups whose objective learns weights of environments, ``q``, as it goes."""
        return [group for group in self.groups if hasattr(group.objective, "q")]

    def state_dict(self) -> Arrays:
        """States of the objectives, as arrays."""
        numbered = enumerate(self.groups)
        return {f"q_{n}": array_of(g.objective.q) for n, g in numbered if hasattr(g.objective, "q")}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what ``state_dict`` gave."""
        for number, group in enumerate(self.groups):
            if f"q_{number}" in arrays:
                weights = tensor_of(arrays[f"q_{number}"])
                group.objective.q = weights.to(self.device)  # type: ignore[attr-defined]


def order_of(job: Job) -> tuple[Any, ...]:
    """Key that sorts the jobs of a pass: groups are adjacent, fixed weights of rows come first."""
    return *_alike(job), job.method, job.task, job.parameters, job.seed


def _alike(job: Job) -> tuple[Any, ...]:
    """What the heads of a group have in common: the objective, and whether rows have weights."""
    objective = job.kind.objective_class
    moving = not issubclass(objective, ERM)
    return moving, f"{objective.__module__}.{objective.__qualname__}", _weighs(job)


def _weighs(job: Job) -> bool:
    """Whether its rows are not taken once each."""
    return job.kind.sampler is not None or job.kind.first is not None
