"""Jobs that fine-tune whole networks on the same rows, as ``HeadPass`` trains heads on frozen
features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.errors import ParameterError
from nooch.models.networks import Backbones, read_features, read_logits
from nooch.models.saved_networks import save_network
from nooch.training.epoch_batches import BatchHooks, Mixture
from nooch.training.jobs import Job
from nooch.training.network_pass import NetworkPass
from nooch.training.network_settings import TuneSettings
from nooch.training.network_state import part_of
from nooch.training.samplers import in_order
from nooch.training.targets import Target
from nooch.training.training_data import (
    Outputs,
    TrainingData,
    counts_of,
    expected_of,
    mixture_of,
    objective_of,
    refitted,
)

__all__ = ["NetworkJobs"]

_SPLITS = ("train", "valid")


class NetworkJobs:
    """Trains jobs together on the same batches; ``step`` is an epoch of all that have not stopped.

    Args:
        data: its inputs are pixels (``PixelCache``).
        jobs: what they take (``Job.takes``) must be the same.
        settings: of the training.
        backbones: seed -> a backbone of its own.
        device: where these are.

    Raises:
        ParameterError: no job, jobs that do not take the same rows, or what ``NetworkPass``
            refuses.
        InputError: as ``NetworkPass``.
    """

    def __init__(
        self, data: TrainingData, jobs: Sequence[Job], settings: TuneSettings, backbones: Backbones, device: str = "cpu"
    ) -> None:
        if len({job.takes for job in jobs}) != 1:
            raise ParameterError("jobs that take other rows", where="a pass", allowed="jobs of one Job.takes")
        self.data, self.jobs, self.settings = data, list(jobs), settings
        self.backbones, self.device = backbones, device
        self._outputs: Outputs | None = None
        self._first = self._first_stage()
        self._main = None if self._first is not None else self._main_stage()

    @property
    def epoch(self) -> int:
        """Epochs of the main training that are done."""
        return 0 if self._main is None else self._main.epoch

    @property
    def n_stopped(self) -> int:
        """Jobs whose training has ended."""
        return 0 if self._main is None else len(self.jobs) - len(self._main.active)

    @property
    def finished(self) -> bool:
        """Whether all have stopped."""
        return self._main is not None and self._main.finished

    @property
    def main(self) -> NetworkPass:
        """The main training, which starts when the first stage has ended."""
        assert self._main is not None  # noqa: S101 - asked for after the first step that counts
        return self._main

    @property
    def best_epochs(self) -> NDArray[np.int64]:
        """Of each job, from 1; 0 where no epoch had a finite validation value."""
        found: NDArray[np.int64] = self.main.best["epoch"]
        return found

    @property
    def history(self) -> list[dict[str, NDArray[np.float64]]]:
        """``train``, ``valid`` and ``nll`` of each job, by epoch."""
        return self.main.history

    def step(self) -> None:
        """An epoch, of the first stage or of the main training."""
        if self._main is not None:
            self._main.step()
            return
        assert self._first is not None  # noqa: S101 - else there is a main training
        self._first.step()
        if self._first.epoch == self._first.settings.epochs - 1:
            networks = [trainer.network for trainer in self._first.trainers]
            rows = {split: self.data.rows[split] for split in _SPLITS}
            batch = self.settings.batch
            self._outputs = {s: read_logits(networks, self.data.inputs, r, batch)[0][:, 0] for s, r in rows.items()}
            self._first, self._main = None, self._main_stage()

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """All that changes, as arrays."""
        stages = {"first": self._first, "main": self._main}
        arrays = {
            f"{name}.{key}": value
            for name, stage in stages.items()
            if stage is not None
            for key, value in stage.state_dict().items()
        }
        arrays |= {f"outputs.{split}": np.asarray(values) for split, values in (self._outputs or {}).items()}
        return {"epoch": np.array(self.epoch), "stopped": np.array(self.n_stopped), **arrays}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Resume from what ``state_dict`` gave for the same jobs."""
        outputs, main = part_of(arrays, "outputs"), part_of(arrays, "main")
        if not main:
            assert self._first is not None  # noqa: S101 - the state has one
            self._first.load_state_dict(part_of(arrays, "first"))
            return
        self._outputs = outputs or None
        self._first, self._main = None, self._main_stage()
        self._main.load_state_dict(main)

    def refit(self) -> None:
        """Last stages of methods that have one: a new last layer replaces the trained one."""
        import torch

        for number, job in enumerate(self.jobs):
            if job.kind.refit is None or not self.best_epochs[number]:
                continue
            network = self.main.network(number)

            def features(rows: NDArray[np.intp], network: Any = network) -> NDArray[np.float32]:
                return read_features([network], self.data.inputs, rows, self.settings.batch)[0]

            head = torch.cat([network.head.weight[:1], network.head.bias[:1, None]], dim=1).detach().cpu().numpy()[0]
            found = torch.from_numpy(refitted(self.data, job, head, features)).to(network.head.weight.device)
            with torch.no_grad():
                network.head.weight[0], network.head.bias[0] = found[:-1], found[-1]

    def logits(self, split: str) -> list[NDArray[np.float32]]:
        """Outputs of every job's best epoch for a split's images, float32 (m,) each, once all have
        stopped; images are read once.
        """
        networks = [self.main.network(number) for number in range(len(self.jobs))]
        found = read_logits(networks, self.data.inputs, self.data.rows[split], self.settings.batch)
        return [values[:, 0] for values in found]

    def save(self, number: int, folder: Path) -> None:
        """A job's network, to be loaded again by ``load_network``."""
        job = self.jobs[number]
        about = {"task": job.task, "run": job.run, "order": job.order}
        save_network(self.main.network(number), folder, [job.task], about=about)

    def _first_stage(self) -> NetworkPass | None:
        """ERM for as many epochs as the method asks, if it asks for any.

        Such a job shares its pass with no other.
        """
        job = self.jobs[0]
        if job.kind.first is None:
            return None
        plain = replace(job, method="erm", parameters=())
        # one epoch more than is taken: at its last epoch a network goes back to its best one
        epochs = job.kind.first.epochs(dict(job.parameters)) + 1
        return self._pass([plain], replace(self.settings, epochs=epochs, patience=epochs))

    def _main_stage(self) -> NetworkPass:
        return self._pass(self.jobs, self.settings)

    def _pass(self, jobs: Sequence[Job], settings: TuneSettings) -> NetworkPass:
        train, job = self.data.rows["train"], jobs[0]
        targets = [self._target(each) for each in jobs]
        hooks = BatchHooks(job.order, lambda epoch: train[self._places(job, epoch)], self._mix(job))
        return NetworkPass(self.backbones, self.data.inputs, self.data.rows, targets, settings, hooks)

    def _target(self, job: Job) -> Target:
        data, environments = self.data, self.data.environments.get(job.task)
        auxiliary = None
        if self.settings.auxiliary:
            assert environments is not None  # noqa: S101 - checked when the grid was planned
            # an environment is 2 x label + presence of the strongest cue
            auxiliary = (environments % 2).astype(np.float32)[:, None]
        return Target(
            f"{job.task} {job.run}",
            data.labels[job.task].astype(np.float32)[:, None],
            objective_of(data, [job], self.settings.variant, self.device),
            job.seed,
            None if environments is None else environments[:, None],
            auxiliary=auxiliary,
            valid_weights=expected_of(data, job, self._outputs),
        )

    def _places(self, job: Job, epoch: int) -> NDArray[np.intp]:
        """Which training images are taken in an epoch, in their order, as positions among them."""
        counts = counts_of(self.data, job, epoch, self._outputs)
        return in_order(len(self.data.rows["train"]) if counts is None else counts, job.order, epoch)

    def _mix(self, job: Job) -> Callable[[int], Mixture] | None:
        train = self.data.rows["train"]
        if job.kind.mixing is None:
            return None

        def mix(epoch: int) -> Mixture:
            mixture, places = mixture_of(self.data, job, epoch), self._places(job, epoch)
            assert mixture is not None  # noqa: S101 - it has a mixing
            return train[mixture.partners[places]], mixture.weights[places]

        return mix
