"""Jobs on frozen features that share an order of rows, trained as linear heads in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import Progress, no_progress
from nooch.base.errors import ParameterError
from nooch.models.saved_networks import save_head
from nooch.training.block_sgd import Gradient, HeadState, run_epoch
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.objectives import ERM, BatchTerms, Objective, indicators, losses
from nooch.training.samplers import MixedRows, Mixture, in_order, row_weights
from nooch.training.training_data import (
    Outputs,
    TrainingData,
    counts_of,
    expected_of,
    mixture_of,
    objective_of,
    refitted,
    with_last_stage,
)
from nooch.training.training_pass import Arrays, TrainingPass, array_of, tensor_of, validation_value

if TYPE_CHECKING:
    from torch import Tensor


BLOCK = 4096
"""Rows that are read, and images whose outputs are computed, at a time; sums depend on it in their
last bits, so it is fixed.
"""

_ROUNDING = 1e-6
"""A column whose deviation is below this fraction of its mean is constant up to float32."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Standardized features: (features - mean) / scale.

    Attributes:
        mean: of each column on the training split, float64 (d,).
        scale: what each column is divided by, float64 (d,), above 0.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    def apply(self, features: NDArray[Any]) -> NDArray[np.float32]:
        """Standardized features, float32 (m, d)."""
        return np.asarray((features - self.mean) / self.scale, dtype=np.float32)

    def fold(self, heads: NDArray[np.float32]) -> NDArray[np.float32]:
        """Heads for features as they are, from heads for standardized ones, float32 (n, d + 1)."""
        weights = heads[:, :-1] / self.scale
        biases = heads[:, -1] - weights @ self.mean
        return np.column_stack([weights, biases]).astype(np.float32)


class Conditioned:
    """Standardized features (n, d) as an array of rows: what is asked for is read, nothing else."""

    def __init__(self, inputs: Any, scaling: Scaling) -> None:
        self._inputs, self._scaling, self.shape = inputs, scaling, inputs.shape

    def __getitem__(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        return self._scaling.apply(np.asarray(self._inputs[rows]))


def scaling_of(inputs: Any, rows: NDArray[np.intp]) -> Scaling:
    """Mean and scale of some rows (m,) of inputs (n, d): in one pass over them, in float64."""
    d = int(inputs.shape[1])
    count, mean, squares = 0, np.zeros(d), np.zeros(d)
    for start in range(0, len(rows), BLOCK):
        block = np.asarray(inputs[rows[start : start + BLOCK]], dtype=np.float64)
        own = block.mean(axis=0)
        away = own - mean
        total = count + len(block)
        # sums of squares about the mean so far; numerically stable for large means (Chan et al.,
        # 1983)
        squares += ((block - own) ** 2).sum(axis=0) + away**2 * (count * len(block) / total)
        mean, count = mean + away * (len(block) / total), total
    sd = np.sqrt(squares / max(count, 1))
    varies = sd > _ROUNDING * np.abs(mean)
    # the mean squared norm of a row is 1 for any number of columns: so is the curvature
    scale = np.where(varies, sd, 1.0) * max(int(varies.sum()), 1) ** 0.5
    return Scaling(mean, scale)


_Weights = Callable[[Job], NDArray[np.int64] | NDArray[np.float32] | None]


@dataclass
class HeadGroup:
    """Neighboring heads with one objective and one kind of sampler."""

    heads: slice
    objective: Objective
    counts: Tensor | None = None
    """Weights of training rows in this epoch, (n_train, h), where rows are not taken once each."""
    expected: Tensor | None = None
    """Average number of draws of each validation image, (n_valid, h), if rows are not taken once
    each.
    """

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
        """Divisors of steps, (H,), so that they are on average as large as ERM's."""
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

        Jobs that differ only in their seed share their weights, unless they have a first stage.
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
            own = rows if mixture is None else mixture.rows[rows]
            index = torch.from_numpy(own).to(self.device)
            labels = self._tables["train", "labels"][index].float()
            if mixture is not None:
                share = torch.from_numpy(mixture.weights[rows]).to(self.device)[:, None]
                partners = torch.from_numpy(mixture.partners[rows]).to(self.device)
                others = self._tables["train", "labels"][partners].float()
                labels = share * labels + (1 - share) * others
            environments = self._tables["train", "environments"][index].long()
            return self._of_rows(index, labels, environments)

        return of_block

    def _of_rows(self, index: Tensor, labels: Tensor, environments: Tensor) -> Gradient:
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
                fixed.append(weights.expand(len(index), heads.stop - heads.start))
            else:
                fixed.append(group.counts[index])
        table = torch.cat(fixed, dim=1)

        def of_batch(logits: Tensor, place: slice) -> tuple[Tensor, Tensor]:
            # of all heads at once: most of the time of a step is the overhead of small operations
            part = None if inside is None else inside[:, place]
            terms = BatchTerms.from_logits(logits, labels[place], environments[place], part)
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
        """Per head, the value that decides when to stop, and the plain loss, float64 (H,), for
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
        """Only some of the heads, bool (H,), with the states of their objectives."""
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
    """Properties shared by the heads of a group: the objective, and whether rows have weights."""
    objective = job.kind.objective_class
    moving = not issubclass(objective, ERM)
    return moving, f"{objective.__module__}.{objective.__qualname__}", _weighs(job)


def _weighs(job: Job) -> bool:
    """True if its rows are not taken once each."""
    return job.kind.sampler is not None or job.kind.first is not None


_Read = Callable[[NDArray[np.intp]], Any]


class HeadPass(TrainingPass):
    """Trains jobs on frozen features that share an order of rows, see ``TrainingPass``.

    What jobs share (``Job.shares``) must be the same. A ``scaling`` of the features that is known
    is not computed again; none is used where ``settings.condition`` is ``none``.

    Raises:
        ParameterError: no job, or jobs that cannot share a pass.
    """

    def __init__(
        self,
        data: TrainingData,
        jobs: Sequence[Job],
        settings: ProbeSettings,
        device: str = "cpu",
        *,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__(len(jobs), settings)
        self.data, self.settings, self.device = data, settings, device
        self._scaling, self._inputs = None, data.inputs
        if settings.condition != "none":
            self._scaling = scaling or scaling_of(data.inputs, data.rows["train"])
            self._inputs = Conditioned(data.inputs, self._scaling)
        self.jobs = sorted(jobs, key=order_of)
        if len({job.shares for job in jobs}) != 1:
            problem = "jobs have different orders of rows, or mix them differently"
            raise ParameterError(problem, where="a pass", allowed="jobs of one Job.shares")
        d = data.inputs.shape[1]
        self.state = HeadState.initial([job.seed for job in self.jobs], d, device)
        self.best_weights = np.zeros((len(self.jobs), d + 1), dtype=np.float32)
        self._valid = tensor_of(self._read(data.rows["valid"])).to(device)
        self._first: dict[Job, Outputs] = {}
        self._heads: HeadGroups | None = None

    @property
    def heads(self) -> HeadGroups:
        """The heads that are active; first stages are trained when these are asked for first."""
        if self._heads is None:
            self._first = self._first_stages()
            self._heads = self._active_heads()
        return self._heads

    def logits(self, split: str) -> list[NDArray[np.float32]]:
        """Outputs of every job's best epoch for a split's images, float32 (m,) each.

        The heads are those that ``save`` writes; features are read once, as they are.
        """
        heads = np.stack([self.head(n) for n in range(len(self.jobs))]).astype(np.float64)
        outputs = head_outputs(heads, self.data.inputs.__getitem__, self.data.rows[split])
        return list(outputs.astype(np.float32))

    def current(self, split: str) -> NDArray[np.float32]:
        """Outputs of the active heads as they are, float32 (n_active, m)."""
        return head_outputs(self._weights(), self._read, self.data.rows[split])

    def head(self, number: int) -> NDArray[np.float32]:
        """A job's head of its best epoch for features as they are, float32 (d + 1,)."""
        head: NDArray[np.float32] = self.best_weights[number]
        return head if self._scaling is None else self._scaling.fold(head[None])[0]

    def first_outputs(self, job: Job) -> Outputs | None:
        """Outputs of a job's first stage for train and valid, if it has one."""
        return self._first.get(job)

    def save(self, number: int, folder: Path) -> None:
        """A job's head of its best epoch, for features as they are, see ``save_head``."""
        save_head(self.head(number), folder)

    def refit(self, progress: Progress = no_progress) -> None:
        """Last stages of methods that have one: new weights replace the weights of the best
        epochs.
        """
        for number in with_last_stage(self.jobs, self.best_epochs, progress):
            head = self.best_weights[number]
            job, variant = self.jobs[number], self.settings.variant
            self.best_weights[number] = refitted(self.data, job, head, self._read, variant)

    def _train(self) -> NDArray[np.float64]:
        heads, job, train = self.heads, self.jobs[0], self.data.rows["train"]
        heads.draw_rows(self.epoch)
        mixture = mixture_of(self.data, job, self.epoch, self.settings.variant)
        rows = MixedRows(self._inputs, train, mixture)
        order = in_order(len(train), job.order, self.epoch)
        gradient, sizes = heads.gradient(mixture), (self.settings.batch, self.settings.block)
        return array_of(run_epoch(self.state, rows, order, gradient, self.settings.descent, *sizes))

    def _validate(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.heads.validate(self.state.logits(self._valid))

    def _keep_best(self, better: NDArray[np.bool_]) -> None:
        self.best_weights[self.active[better]] = self._weights()[better]

    def _stop(self, stopping: NDArray[np.bool_]) -> None:
        self.state = self.state.keep(np.flatnonzero(~stopping))
        self._heads = self.heads.keep(~stopping)

    def _state(self) -> Arrays:
        first = {
            f"first_{number}_{split}": values
            for number, job in enumerate(self.jobs)
            for split, values in self._first.get(job, {}).items()
        }
        return {
            "weights": array_of(self.state.weights),
            "biases": array_of(self.state.biases),
            "best_weights": self.best_weights,
            **self.heads.state_dict(),
            **first,
        }

    def _load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        weights, biases = tensor_of(arrays["weights"]), tensor_of(arrays["biases"])
        self.state = HeadState(weights.to(self.device), biases.to(self.device))
        self.best_weights = arrays["best_weights"].copy()
        self._first = {
            job: {split: arrays[f"first_{number}_{split}"] for split in ("train", "valid")}
            for number, job in enumerate(self.jobs)
            if job.kind.first is not None
        }
        self._heads = self._active_heads()
        self._heads.load_state_dict(arrays)

    def _active_heads(self) -> HeadGroups:
        jobs = [self.jobs[number] for number in self.active]
        return HeadGroups(self.data, jobs, self.settings, self.device, self._first)

    def _first_stages(self) -> dict[Job, Outputs]:
        """Outputs of first stages: heads trained by ERM for as many epochs as each job asks."""
        stages = {job: job.kind.first for job in self.jobs}
        epochs = {job: stage.epochs(dict(job.parameters)) for job, stage in stages.items() if stage}
        if not epochs:
            return {}
        plain = {job: Job(job.task, "erm", (), job.seed, job.order) for job in epochs}
        never = replace(self.settings, epochs=1_000_000, patience=1_000_000)
        heads = list(dict.fromkeys(plain.values()))
        first = HeadPass(self.data, heads, never, self.device, scaling=self._scaling)
        first_outputs: dict[Job, Outputs] = {}
        for epoch in range(1, max(epochs.values()) + 1):
            first.step()
            if ended := [job for job in epochs if epochs[job] == epoch]:
                outputs = {split: first.current(split) for split in ("train", "valid")}
                for job in ended:
                    number = first.jobs.index(plain[job])
                    first_outputs[job] = {split: outputs[split][number] for split in outputs}
        return first_outputs

    def _read(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        return np.asarray(self._inputs[rows], dtype=np.float32)

    def _weights(self) -> NDArray[np.float32]:
        """Weights and biases of the active heads, float32 (n_active, d + 1)."""
        n = self.state.n_heads
        both = array_of(self.state.weights[:, :n]), array_of(self.state.biases[None, :n])
        return np.concatenate(both).T


def head_outputs(heads: NDArray[Any], read: _Read, rows: NDArray[np.intp]) -> NDArray[Any]:
    """Outputs (H, m) of heads (H, d + 1) for some rows of features, read a block at a time."""
    starts = range(0, len(rows), BLOCK)
    blocks = (np.asarray(read(rows[start : start + BLOCK])) for start in starts)
    return np.concatenate([heads[:, :-1] @ block.T + heads[:, -1:] for block in blocks], axis=1)
