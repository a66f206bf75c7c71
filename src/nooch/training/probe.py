"""Jobs on frozen features that share an order of rows, trained in one pass: objectives, early stopping, what is kept of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from nooch.objectives import ERM, OBJECTIVES, Objective, TrainingCounts, indicators, known_of, losses
from nooch.training.heads import Gradient, HeadState, run_epoch
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.sampling import balanced_weights, drawn_counts, expected_weights

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HeadPass", "ProbeData"]

_BLOCK = 4096
"""Images whose outputs are computed at a time."""


@dataclass(frozen=True, eq=False)
class ProbeData:
    """Frozen features with what is to be learnt from them.

    Attributes:
        features: float (n, d), array or memory map.
        rows: split -> int (m,), rows of ``features``.
        labels: task -> bool (n,).
        environments: task -> uint8 (n,), 0 to C - 1; tasks without environments are missing.
    """

    features: Any
    rows: Mapping[str, NDArray[np.intp]]
    labels: Mapping[str, NDArray[np.bool_]]
    environments: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)

    @cached_property
    def n_environments(self) -> int:
        """C."""
        return max((int(values.max(initial=0)) + 1 for values in self.environments.values()), default=1)

    def groups(self, task: str, by: str, split: str) -> NDArray[np.uint8]:
        """Labels or environments of a split's images, uint8."""
        values = self.labels[task] if by == "labels" else self.environments[task]
        return np.asarray(values[self.rows[split]], dtype=np.uint8)


@dataclass
class _Group:
    """Neighbouring heads with one objective and one kind of sampler."""

    heads: slice
    objective: Objective
    sampler: str | None
    counts: Tensor | None = None
    """Weights of training rows in this epoch, (n_train, h), where there is a sampler."""
    expected: Tensor | None = None
    """How often validation images would be drawn, by the frequencies of training, (n_valid, h), where there is a sampler."""


class HeadPass:
    """Trains jobs that share an order of rows; one call of ``step`` is an epoch of all that have not stopped.

    Everything that an epoch needs is in ``state_dict``, so a pass goes on after ``load_state_dict`` as if it had never stopped.

    Args:
        data: features, labels, environments.
        jobs: in any order; they must share ``order``.
        settings: of the training.
        device: where it is computed.
    """

    def __init__(self, data: ProbeData, jobs: Sequence[Job], settings: ProbeSettings, device: str = "cpu") -> None:
        self.data, self.settings, self.device = data, settings, device
        self.jobs = sorted(jobs, key=_place)
        self.epoch = 0
        self.active = np.arange(len(self.jobs))
        self.state = HeadState.initial([job.seed for job in self.jobs], data.features.shape[1], device)
        n = len(self.jobs)
        self.best = {"value": np.full(n, np.inf), "epoch": np.zeros(n, dtype=np.int64)}
        self.best_weights = np.zeros((n, data.features.shape[1] + 1), dtype=np.float32)
        self.history: list[dict[str, NDArray[np.float64]]] = []
        self._valid = self._features("valid")
        self._adopt()

    @property
    def finished(self) -> bool:
        """Whether every head has stopped."""
        return not len(self.active) or self.epoch >= self.settings.epochs

    def step(self) -> dict[str, NDArray[np.float64]]:
        """One epoch; returns, and appends to ``history``, ``train``, ``valid`` and ``nll`` of each job, NaN where it has stopped."""
        train = self.data.rows["train"]
        order = np.random.default_rng([self.jobs[0].order, 0, self.epoch]).permutation(len(train))
        for group in self._groups:
            group.counts = self._drawn(group)
        loss = run_epoch(
            self.state,
            _Rows(self.data.features, train),
            order,
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

    def logits(self, split: str) -> NDArray[np.float32]:
        """Outputs of every job's best epoch for a split's images, float32 (n_jobs, m); features are read once."""
        rows, outputs = self.data.rows[split], []
        for start in range(0, len(rows), _BLOCK):
            block = np.asarray(self.data.features[rows[start : start + _BLOCK]], dtype=np.float32)
            outputs.append(self.best_weights[:, :-1] @ block.T + self.best_weights[:, -1:])
        return np.concatenate(outputs, axis=1)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """All that changes, as arrays."""
        arrays = {
            "epoch": np.array(self.epoch),
            "active": self.active,
            "weights": self.state.weights.cpu().numpy(),
            "biases": self.state.biases.cpu().numpy(),
            "best_weights": self.best_weights,
            **{f"best_{name}": values for name, values in self.best.items()},
        }
        for name in ("train", "valid", "nll"):
            arrays[f"history_{name}"] = np.array([record[name] for record in self.history]).reshape(-1, len(self.jobs))
        for number, group in enumerate(self._groups):
            if hasattr(group.objective, "q"):
                arrays[f"q_{number}"] = group.objective.q.cpu().numpy()
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
        self._adopt()
        for number, group in enumerate(self._groups):
            if f"q_{number}" in arrays:
                group.objective.q = torch.from_numpy(arrays[f"q_{number}"].copy()).to(self.device)  # type: ignore[attr-defined]

    def _adopt(self) -> None:
        """Objectives and tables for the heads that are active."""
        jobs = [self.jobs[number] for number in self.active]
        self._groups, start = [], 0
        for (_, sampler), members in groupby(jobs, key=lambda j: (j.kind.objective, j.kind.sampler)):
            listed = list(members)
            heads = slice(start, start + len(listed))
            expected = self._expected(listed, sampler)
            self._groups.append(_Group(heads, self._objective(listed), sampler, expected=expected))
            start = heads.stop
        self._labels = {split: self._table(jobs, split, "labels") for split in ("train", "valid")}
        self._environments = {split: self._table(jobs, split, "environments") for split in ("train", "valid")}

    def _objective(self, jobs: Sequence[Job]) -> Objective:
        import torch

        def counts(by: str, n: int) -> Tensor:
            columns = [self._counts(job, by, n) for job in jobs]
            return torch.tensor(np.array(columns).T, dtype=torch.float32, device=self.device)

        kind = OBJECTIVES[jobs[0].kind.objective]
        given = [dict(job.parameters) | dict(job.kind.fixed) for job in jobs]
        named = [name for name in kind.ranges if name in given[0]]
        values = {
            name: torch.tensor([g[name] for g in given], dtype=torch.float32, device=self.device) for name in named
        }
        sizes = TrainingCounts(counts("labels", 2), counts("environments", self.data.n_environments))
        return kind(sizes, variant=self.settings.variant, **values)

    def _counts(self, job: Job, by: str, n: int) -> NDArray[np.int64]:
        if by == "environments" and job.task not in self.data.environments:
            return np.ones(n, dtype=np.int64)
        return np.bincount(self.data.groups(job.task, by, "train"), minlength=n)

    def _table(self, jobs: Sequence[Job], split: str, by: str) -> Tensor:
        """Labels or environments by row and head, uint8 (m, H)."""
        import torch

        m = len(self.data.rows[split])
        of_task = {
            task: self.data.groups(task, by, split)
            if by == "labels" or task in self.data.environments
            else np.zeros(m, dtype=np.uint8)
            for task in {job.task for job in jobs}
        }
        columns = [of_task[job.task] for job in jobs]
        table = np.column_stack(columns) if columns else np.empty((m, 0), dtype=np.uint8)
        return torch.from_numpy(np.ascontiguousarray(table)).to(self.device)

    def _members(self, group: _Group) -> list[Job]:
        return [self.jobs[number] for number in self.active[group.heads]]

    def _drawn(self, group: _Group) -> Tensor | None:
        """Weights of training rows in this epoch."""
        sampler = group.sampler
        if sampler is None:
            return None

        def weights(job: Job) -> NDArray[np.float32]:
            groups = self.data.groups(job.task, sampler, "train")
            # draws belong to the order of rows: they differ between jobs, and not between seeds of initialisation
            name = crc32(f"{job.task} {job.method} {job.setting}".encode())
            if job.kind.balanced:
                return balanced_weights(groups, np.random.default_rng([job.order, 1, name]))
            random = np.random.default_rng([job.order, 2, name, self.epoch])
            return drawn_counts(groups, dict(job.parameters).get("alpha", 1.0), random)

        return self._columns(self._members(group), weights)

    def _columns(self, jobs: Sequence[Job], weights: Callable[[Job], NDArray[np.float32]]) -> Tensor:
        """A column for each job; jobs that differ in their seed alone have the same one, which is computed once."""
        import torch

        found = {(job.task, job.method, job.parameters): job for job in jobs}
        columns = {key: weights(job) for key, job in found.items()}
        table = np.column_stack([columns[job.task, job.method, job.parameters] for job in jobs])
        return torch.from_numpy(table).to(self.device)

    def _gradient(self, rows: NDArray[np.intp]) -> Gradient:
        """For the rows of a block: losses and derivatives of its batches, group by group."""
        import torch

        at = torch.from_numpy(rows).to(self.device)
        labels = self._labels["train"][at].float()
        environments = self._environments["train"][at].long()
        n = self.data.n_environments
        inside = (
            indicators(environments, n, labels) if any(g.objective.needs_environments for g in self._groups) else None
        )
        # heads whose rows have a fixed weight lie first, and differ in nothing else
        first = [group for group in self._groups if isinstance(group.objective, ERM)]
        others = self._groups[len(first) :]
        weights = [
            group.objective.weights(labels[:, group.heads], environments[:, group.heads])
            if group.counts is None
            else group.counts[at]
            for group in first
            if isinstance(group.objective, ERM)
        ]
        fixed = [w.expand(len(rows), g.heads.stop - g.heads.start) for w, g in zip(weights, first, strict=True)]
        table = torch.cat(fixed, dim=1) if fixed else labels[:, :0]

        def of_batch(logits: Tensor, place: slice) -> tuple[Tensor, Tensor]:
            # of all heads at once: most of the time of a step is the overhead of small operations
            known = known_of(logits, labels[place], None if inside is None else inside[:, place])
            width, times = table.shape[1], table[place]
            values = [(times * known.losses[:, :width]).mean(dim=0)]
            derivatives = [times * known.residuals[:, :width] / len(logits)]
            for group in others:
                heads = group.heads
                value, derivative = group.objective.gradient(
                    logits[:, heads], labels[place, heads], environments[place, heads], known.heads(heads)
                )
                values.append(value)
                derivatives.append(derivative)
            return torch.cat(values), torch.cat(derivatives, dim=1)

        return of_batch

    def _validate(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The method's own objective, and the plain loss, on the validation images: float64 (n_active,) each."""
        import torch

        with torch.no_grad():
            logits = self.state.logits(self._valid)
            labels = self._labels["valid"].float()
            plain = losses(logits, labels)
            nll, own = plain.mean(dim=0), []
            for group in self._groups:
                part = group.heads
                if group.expected is None:
                    environments = self._environments["valid"][:, part].long()
                    own.append(group.objective.measure(logits[:, part], labels[:, part], environments))
                else:
                    own.append((group.expected * plain[:, part]).mean(dim=0))
            value = nll if self.settings.stop_on == "nll" else torch.cat(own)
        return value.double().cpu().numpy(), nll.double().cpu().numpy()

    def _expected(self, jobs: Sequence[Job], sampler: str | None) -> Tensor | None:
        if sampler is None:
            return None

        def weights(job: Job) -> NDArray[np.float32]:
            alpha = 1.0 if job.kind.balanced else dict(job.parameters).get("alpha", 1.0)
            train, valid = (self.data.groups(job.task, sampler, split) for split in ("train", "valid"))
            return expected_weights(train, alpha, valid)

        return self._columns(jobs, weights)

    def _judge(self, record: Mapping[str, NDArray[np.float64]]) -> None:
        """Keep the weights of heads that are better than ever; let those go that have not been for too long."""
        values = record["valid"][self.active]
        better = values < self.best["value"][self.active]
        chosen = self.active[better]
        self.best["value"][chosen], self.best["epoch"][chosen] = values[better], self.epoch
        n = self.state.n_heads
        weights = np.concatenate([self.state.weights[:, :n].cpu().numpy(), self.state.biases[None, :n].cpu().numpy()])
        self.best_weights[chosen] = weights.T[better]
        going = np.flatnonzero(self.epoch - self.best["epoch"][self.active] < self.settings.patience)
        if len(going) < len(self.active):
            kept = [getattr(group.objective, "q", None) for group in self._groups]
            gone = [group.heads for group in self._groups]
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
        for group in self._groups:
            if hasattr(group.objective, "q"):
                group.objective.q = next(states)

    def _features(self, split: str) -> Tensor:
        import torch

        rows = self.data.rows[split]
        return torch.from_numpy(np.asarray(self.data.features[rows], dtype=np.float32)).to(self.device)


def _place(job: Job) -> tuple[Any, ...]:
    """Heads of one objective lie side by side, those with fixed weights of rows first."""
    kind = job.kind
    moving = not issubclass(OBJECTIVES[kind.objective], ERM)
    return moving, kind.objective, kind.sampler or "", job.method, job.task, job.parameters, job.seed


@dataclass(frozen=True)
class _Rows:
    """Some rows of an array, read when they are asked for."""

    whole: Any
    rows: NDArray[np.intp]

    def __getitem__(self, places: NDArray[np.intp]) -> Any:
        return self.whole[self.rows[places]]
