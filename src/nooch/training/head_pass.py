"""Jobs on frozen features that share an order of rows, trained as linear heads in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import ParameterError
from nooch.base.shared_types import Progress, no_progress
from nooch.models.linear_head import save_head
from nooch.training.block_sgd import HeadState, run_epoch
from nooch.training.head_groups import HeadGroups, order_of
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.network_state import Arrays, array_of, tensor_of
from nooch.training.samplers import MixedRows, in_order
from nooch.training.standardization import Conditioned, Scaling, scaling_of
from nooch.training.training_data import (
    Outputs,
    TrainingData,
    mixture_of,
    refitted,
    with_last_stage,
)
from nooch.training.training_pass import TrainingPass

__all__ = ["HeadPass", "head_outputs"]

_Read = Callable[[NDArray[np.intp]], Any]

_BLOCK = 4096
"""Images whose outputs are computed at a time."""


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
            problem = "jobs with several orders of rows, or ways of mixing them"
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
        """Outputs of a job's first stage for train and valid, where it has one."""
        return self._first.get(job)

    def save(self, number: int, folder: Path) -> None:
        """A job's head of its best epoch, for features as they are, see ``save_head``."""
        save_head(self.head(number), folder)

    def refit(self, progress: Progress = no_progress) -> None:
        """Last stages of methods that have one: new weights replace those of the best epochs."""
        for number in with_last_stage(self.jobs, self.best_epochs, progress):
            head = self.best_weights[number]
            self.best_weights[number] = refitted(self.data, self.jobs[number], head, self._read)

    def _train(self) -> NDArray[np.float64]:
        heads, job, train = self.heads, self.jobs[0], self.data.rows["train"]
        heads.draw_rows(self.epoch)
        mixture = mixture_of(self.data, job, self.epoch)
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
    starts = range(0, len(rows), _BLOCK)
    blocks = (np.asarray(read(rows[start : start + _BLOCK])) for start in starts)
    return np.concatenate([heads[:, :-1] @ block.T + heads[:, -1:] for block in blocks], axis=1)
