"""Jobs on frozen features that share an order of rows, trained in one pass: objectives, early stopping, what is kept of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.errors import ParameterError
from nooch.models.linear_head import save_head
from nooch.objectives import losses
from nooch.training.block_sgd import Gradient, HeadState, run_epoch
from nooch.training.early_stopping import validation_value
from nooch.training.head_groups import HeadGroup, alike, batch_gradient, weighs
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.mixtures import MixedRows, Mixture
from nooch.training.samplers import in_order, row_weights
from nooch.training.standardization import Conditioned, Scaling, scaling_of
from nooch.training.training_data import (
    Outputs,
    TrainingData,
    counts_of,
    expected_of,
    mixture_of,
    objective_of,
    refitted,
)

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HeadPass"]

_BLOCK = 4096
"""Images whose outputs are computed at a time."""


class HeadPass:
    """Trains jobs that share an order of rows; one call of ``step`` is an epoch of all that have not stopped.

    Everything that an epoch needs is in ``state_dict``, so a pass goes on after ``load_state_dict`` as if it had never stopped.

    Args:
        data: its inputs are frozen features, as they are.
        jobs: in any order; what they share (``Job.shares``) must be the same.
        settings: of the training.
        device: where it is computed.
        scaling: of the features, where it has been computed before; else that of the training rows.
            Not used where ``settings.condition`` is ``none``.

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
        self.data, self.settings, self.device = data, settings, device
        self._scaling, self._inputs = None, data.inputs
        if settings.condition != "none":
            self._scaling = scaling or scaling_of(data.inputs, data.rows["train"])
            self._inputs = Conditioned(data.inputs, self._scaling)
        self.jobs = sorted(jobs, key=_place)
        if len({job.shares for job in jobs}) != 1:
            raise ParameterError(
                "jobs with several orders of rows, or ways of mixing them",
                where="a pass",
                allowed="jobs of one Job.shares",
            )
        self.epoch = 0
        self.active = np.arange(len(self.jobs))
        self.state = HeadState.initial([job.seed for job in self.jobs], data.inputs.shape[1], device)
        n = len(self.jobs)
        self.best = {"value": np.full(n, np.inf), "epoch": np.zeros(n, dtype=np.int64)}
        self.best_weights = np.zeros((n, data.inputs.shape[1] + 1), dtype=np.float32)
        self.history: list[dict[str, NDArray[np.float64]]] = []
        self._valid = self._features("valid")
        self._mixture: Mixture | None = None
        self._first: dict[Job, Outputs] = {}
        self._groups: list[HeadGroup] | None = None

    @property
    def finished(self) -> bool:
        """Whether every head has stopped."""
        return not len(self.active) or self.epoch >= self.settings.epochs

    @property
    def n_stopped(self) -> int:
        """Jobs whose training has ended."""
        return len(self.jobs) - len(self.active)

    @property
    def best_epochs(self) -> NDArray[np.int64]:
        """Of each job, from 1; 0 where no epoch had a finite validation value."""
        return self.best["epoch"]

    @property
    def groups(self) -> list[HeadGroup]:
        """Of the heads that are active."""
        assert self._groups is not None  # noqa: S101 - made by the first step, or by loading
        return self._groups

    def _first_stage(self) -> dict[Job, Outputs]:
        """Outputs of the jobs' first stages: heads trained by ERM for as many epochs as each asks."""
        asking = [job for job in self.jobs if job.kind.first is not None]
        found: dict[Job, Outputs] = {}
        if not asking:
            return found
        epochs = {job: job.kind.first.epochs(dict(job.parameters)) for job in asking if job.kind.first is not None}
        plain = {job: Job(job.task, "erm", (), job.seed, job.order) for job in asking}
        heads, settings = list(dict.fromkeys(plain.values())), _without_stopping(self.settings)
        first = HeadPass(self.data, heads, settings, self.device, scaling=self._scaling)
        for epoch in range(1, max(epochs.values()) + 1):
            first.step()
            asked = [job for job in asking if epochs[job] == epoch]
            if asked:
                outputs = {split: first.current(split) for split in ("train", "valid")}
                place = {job: number for number, job in enumerate(first.jobs)}
                found |= {job: {s: values[place[plain[job]]] for s, values in outputs.items()} for job in asked}
        return found

    def step(self) -> dict[str, NDArray[np.float64]]:
        """One epoch; returns, and appends to ``history``, ``train``, ``valid`` and ``nll`` of each job, NaN where it has stopped."""
        if self._groups is None:
            self._first = self._first_stage()
            self._adopt()
        train = self.data.rows["train"]
        self._mixture = mixture_of(self.data, self.jobs[0], self.epoch)
        for group in self.groups:
            group.counts = self._columns(self._members(group), self._taken)
        loss = run_epoch(
            self.state,
            MixedRows(self._inputs, train, self._mixture),
            in_order(len(train), self.jobs[0].order, self.epoch),
            self._gradient,
            self.settings.descent,
            batch=self.settings.batch,
            block=self.settings.block,
        )
        self.epoch += 1
        record = {name: np.full(len(self.jobs), np.nan) for name in ("train", "valid", "nll")}
        record["train"][self.active] = loss.cpu().numpy()
        record["valid"][self.active], record["nll"][self.active] = self._validate()
        self.history.append(record)
        self._judge(record)
        return record

    def logits(self, split: str) -> list[NDArray[np.float32]]:
        """Outputs of every job's best epoch for a split's images, float32 (m,) each; features are read once.

        They are those of the heads that ``save`` writes, on features as they are.
        """
        rows = self.data.rows[split]
        heads = np.stack([self._head(number) for number in range(len(self.jobs))]).astype(np.float64)
        blocks = (self.data.inputs[rows[start : start + _BLOCK]] for start in range(0, len(rows), _BLOCK))
        found = np.concatenate([heads[:, :-1] @ np.asarray(block).T + heads[:, -1:] for block in blocks], axis=1)
        return list(found.astype(np.float32))

    def _head(self, number: int) -> NDArray[np.float32]:
        """A job's head of its best epoch for features as they are, float32 (d + 1,)."""
        head: NDArray[np.float32] = self.best_weights[number]
        return head if self._scaling is None else self._scaling.fold(head[None])[0]

    def save(self, number: int, folder: Path) -> None:
        """A job's head of its best epoch, for features as they are, see ``save_head``."""
        save_head(self._head(number), folder)

    def current(self, split: str) -> NDArray[np.float32]:
        """Outputs of the heads as they are, float32 (n_active, m)."""
        return self._outputs(self._weights(), split)

    def refit(self) -> None:
        """The last stages of the jobs whose methods have one, after the last step: new weights in the place of their best ones."""
        for number, job in enumerate(self.jobs):
            if self.best["epoch"][number]:
                self.best_weights[number] = refitted(self.data, job, self.best_weights[number], self._read)

    def _read(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        return np.asarray(self._inputs[rows], dtype=np.float32)

    def _outputs(self, weights: NDArray[np.float32], split: str) -> NDArray[np.float32]:
        rows = self.data.rows[split]
        blocks = (self._read(rows[start : start + _BLOCK]) for start in range(0, len(rows), _BLOCK))
        return np.concatenate([weights[:, :-1] @ block.T + weights[:, -1:] for block in blocks], axis=1)

    def _weights(self) -> NDArray[np.float32]:
        """Weights and biases of the active heads, float32 (n_active, d + 1)."""
        n = self.state.n_heads
        both = [self.state.weights[:, :n].cpu().numpy(), self.state.biases[None, :n].cpu().numpy()]
        return np.concatenate(both).T

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """All that changes, as arrays."""
        arrays = {
            "epoch": np.array(self.epoch),
            "stopped": np.array(self.n_stopped),
            "active": self.active,
            "weights": self.state.weights.cpu().numpy(),
            "biases": self.state.biases.cpu().numpy(),
            "best_weights": self.best_weights,
            **{f"best_{name}": values for name, values in self.best.items()},
        }
        for name in ("train", "valid", "nll"):
            arrays[f"history_{name}"] = np.array([record[name] for record in self.history]).reshape(-1, len(self.jobs))
        for number, group in enumerate(self.groups):
            if hasattr(group.objective, "q"):
                arrays[f"q_{number}"] = group.objective.q.cpu().numpy()
        for number, job in enumerate(self.jobs):
            arrays |= {f"first_{number}_{split}": values for split, values in self._first.get(job, {}).items()}
        return arrays

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what ``state_dict`` gave for the same jobs."""
        import torch

        self.epoch, self.active = int(arrays["epoch"]), arrays["active"]
        self.state = HeadState(
            *(torch.from_numpy(arrays[name].copy()).to(self.device) for name in ("weights", "biases"))
        )
        self.best_weights = arrays["best_weights"].copy()
        self.best = {name: arrays[f"best_{name}"].copy() for name in self.best}
        names = ("train", "valid", "nll")
        self.history = [{name: arrays[f"history_{name}"][epoch] for name in names} for epoch in range(self.epoch)]
        self._first = {
            job: {split: arrays[f"first_{number}_{split}"] for split in ("train", "valid")}
            for number, job in enumerate(self.jobs)
            if job.kind.first is not None
        }
        self._adopt()
        for number, group in enumerate(self.groups):
            if f"q_{number}" in arrays:
                group.objective.q = torch.from_numpy(arrays[f"q_{number}"].copy()).to(self.device)  # type: ignore[attr-defined]

    def _adopt(self) -> None:
        """Objectives and tables for the heads that are active."""
        import torch

        jobs = [self.jobs[number] for number in self.active]
        groups: list[HeadGroup] = []
        start = 0
        for _, members in groupby(jobs, key=alike):
            listed = list(members)
            heads = slice(start, start + len(listed))
            objective = objective_of(self.data, listed, self.settings.variant, self.device)
            groups.append(HeadGroup(heads, objective, expected=self._columns(listed, self._expected)))
            start = heads.stop
        self._groups = groups
        # a step on average as large as ERM's; the objective's value stays what it is
        scaled = bool(groups) and self._scaling is not None
        self._sizes = torch.cat([group.sizes for group in groups]) if scaled else None
        self._labels = {split: self._table(jobs, split, "labels") for split in ("train", "valid")}
        self._environments = {split: self._table(jobs, split, "environments") for split in ("train", "valid")}

    def _table(self, jobs: Sequence[Job], split: str, by: str) -> Tensor:
        """Labels or environments by row and head, uint8 (m, H)."""
        import torch

        m = len(self.data.rows[split])
        of_task = {task: self.data.groups(task, by, split) for task in {job.task for job in jobs}}
        columns = [of_task[job.task] for job in jobs]
        table = np.column_stack(columns) if columns else np.empty((m, 0), dtype=np.uint8)
        return torch.from_numpy(np.ascontiguousarray(table)).to(self.device)

    def _members(self, group: HeadGroup) -> list[Job]:
        return [self.jobs[number] for number in self.active[group.heads]]

    def _taken(self, job: Job) -> NDArray[np.float32] | None:
        """Weights of training rows in this epoch, (n_train,)."""
        counts = counts_of(self.data, job, self.epoch, self._first.get(job))
        return None if counts is None else row_weights(counts)

    def _expected(self, job: Job) -> NDArray[np.float32] | None:
        return expected_of(self.data, job, self._first.get(job))

    def _columns(self, jobs: Sequence[Job], weights: Callable[[Job], NDArray[np.float32] | None]) -> Tensor | None:
        """A column for each job; or None where rows are taken once each, which is so for all of them or none.

        Jobs that differ in their seed alone have the same weights, which are computed once; but not after a first stage.
        """
        import torch

        if not weighs(jobs[0]):
            return None
        names = [(job.task, job.method, job.parameters, job.seed if job.kind.first else 0) for job in jobs]
        columns = {name: weights(job) for name, job in dict(zip(names, jobs, strict=True)).items()}
        listed = [column for name in names if (column := columns[name]) is not None]
        return torch.from_numpy(np.column_stack(listed)).to(self.device)

    def _gradient(self, rows: NDArray[np.intp]) -> Gradient:
        """For the rows of a block: losses and derivatives of its batches, group by group."""
        import torch

        at = torch.from_numpy(rows).to(self.device)
        labels = self._labels["train"][at].float()
        if self._mixture is not None:
            share = torch.from_numpy(self._mixture.weights[rows]).to(self.device)[:, None]
            partners = torch.from_numpy(self._mixture.partners[rows]).to(self.device)
            labels = share * labels + (1 - share) * self._labels["train"][partners].float()
        environments = self._environments["train"][at].long()
        return batch_gradient(self.groups, at, (labels, environments), self.data.n_environments, self._sizes)

    def _validate(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The method's own objective, and the plain loss, on the validation images: float64 (n_active,) each."""
        import torch

        with torch.no_grad():
            logits = self.state.logits(self._valid)
            labels = self._labels["valid"].float()
            plain = losses(logits, labels)
            environments = self._environments["valid"].long()
            rule, batch = str(self.settings.stop_on), self.settings.batch
            nll, own = plain.mean(dim=0), []
            for group in self.groups:
                mine = group.heads
                outputs = (logits[:, mine], labels[:, mine], environments[:, mine])
                own.append(validation_value(rule, group.objective, outputs, group.expected, batch))
            value = torch.cat(own)
        return value.double().cpu().numpy(), nll.double().cpu().numpy()

    def _judge(self, record: Mapping[str, NDArray[np.float64]]) -> None:
        """Keep the weights of heads that are better than ever; let those go that have not been for too long."""
        values = record["valid"][self.active]
        better = values < self.best["value"][self.active]
        chosen = self.active[better]
        self.best["value"][chosen], self.best["epoch"][chosen] = values[better], self.epoch
        self.best_weights[chosen] = self._weights()[better]
        going = np.flatnonzero(self.epoch - self.best["epoch"][self.active] < self.settings.patience)
        if len(going) < len(self.active):
            kept = [getattr(group.objective, "q", None) for group in self.groups]
            gone = [group.heads for group in self.groups]
            self.active, self.state = self.active[going], self.state.keep(going)
            self._adopt()
            self._carry(kept, gone, going)

    def _carry(self, kept: Sequence[Tensor | None], before: Sequence[slice], going: NDArray[np.intp]) -> None:
        """States of objectives, for the heads that are left."""
        left = [
            q[:, [int(head) - heads.start for head in going if heads.start <= head < heads.stop]]
            for q, heads in zip(kept, before, strict=True)
            if q is not None
        ]
        states = iter([q for q in left if q.shape[1]])
        for group in self.groups:
            if hasattr(group.objective, "q"):
                group.objective.q = next(states)

    def _features(self, split: str) -> Tensor:
        import torch

        return torch.from_numpy(self._read(self.data.rows[split])).to(self.device)


def _without_stopping(settings: ProbeSettings) -> ProbeSettings:
    """A first stage has a fixed number of epochs."""
    return replace(settings, epochs=1_000_000, patience=1_000_000)


def _place(job: Job) -> tuple[Any, ...]:
    return *alike(job), job.method, job.task, job.parameters, job.seed
