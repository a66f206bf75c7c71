"""Jobs that fine-tune whole networks on the same rows, as ``HeadPass`` trains heads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import Progress, no_progress
from nooch.base.errors import ParameterError
from nooch.models.networks import Backbones, Network, read_outputs
from nooch.models.saved_networks import save_network
from nooch.training.epoch_batches import BatchHooks, RowMixture
from nooch.training.jobs import Job
from nooch.training.network_pass import NetworkPass, Target
from nooch.training.network_settings import TuneSettings
from nooch.training.samplers import Mixture, in_order
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
from nooch.training.training_pass import Arrays, TrainingPass, array_of, part_of, tensor_of


class NetworkJobs(NetworkPass):
    """Trains jobs on whole networks, on the same batches; see ``TrainingPass``.

    ``data`` has pixels for inputs. What the jobs take (``Job.takes``) must be the same. Where the
    method has a first stage, the first steps are epochs of that and are not counted.

    Raises:
        ParameterError: no job, jobs that take other rows, or what ``NetworkPass`` refuses.
        InputError: as ``NetworkPass``.
    """

    def __init__(
        self,
        data: TrainingData,
        jobs: Sequence[Job],
        settings: TuneSettings,
        backbones: Backbones,
        device: str = "cpu",
    ) -> None:
        TrainingPass.__init__(self, len(jobs), settings)
        if len({job.takes for job in jobs}) != 1:
            allowed = "jobs of one Job.takes"
            raise ParameterError("jobs take different rows", where="a pass", allowed=allowed)
        self.data, self.jobs, self.settings = data, list(jobs), settings
        self.backbones, self.device = backbones, device
        self._outputs: Outputs | None = None
        self._first = self._first_stage()
        if self._first is None:
            self._build_main()

    def step(self) -> dict[str, NDArray[np.float64]]:
        """An epoch, of the first stage or of the main training; returns its measures."""
        if self._first is None:
            return super().step()
        record = self._first.step()
        if self._first.epoch == self._first.settings.epochs - 1:
            network, batch = self._first.trainers[0].network, self.settings.batch
            rows = {split: self.data.rows[split] for split in ("train", "valid")}
            outputs = {s: read_outputs([network], self.data.inputs, rows[s], batch) for s in rows}
            self._outputs = {split: values[0][:, 0] for split, values in outputs.items()}
            self._build_main()
        return record

    def state_dict(self) -> Arrays:
        """All that changes, as arrays."""
        stages: dict[str, Mapping[str, Any]] = {"outputs": self._outputs or {}}
        if self._first is None:
            stages["main"] = super().state_dict()
        else:
            stages["first"] = self._first.state_dict()
        arrays = {f"{name}.{key}": a for name, stage in stages.items() for key, a in stage.items()}
        return {"epoch": np.array(self.epoch), "stopped": np.array(self.n_stopped), **arrays}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Resume from what ``state_dict`` gave for the same jobs."""
        main = part_of(arrays, "main")
        if self._first is not None and not main:
            self._first.load_state_dict(part_of(arrays, "first"))
            return
        if self._first is not None:
            self._outputs = part_of(arrays, "outputs")
            self._build_main()
        super().load_state_dict(main)

    def refit(self, progress: Progress = no_progress) -> None:
        """Last stages of methods that have one: a new last layer replaces the trained one."""
        import torch

        for number in with_last_stage(self.jobs, self.best_epochs, progress):
            job, network = self.jobs[number], self.network(number)

            def features(rows: NDArray[np.intp], network: Any = network) -> NDArray[np.float32]:
                batch = self.settings.batch
                return read_outputs([network], self.pixels, rows, batch, Network.features)[0]

            weight, bias = network.head.weight, network.head.bias
            head = array_of(torch.cat([weight[:1], bias[:1, None]], dim=1))[0]
            last = refitted(self.data, job, head, features, self.settings.variant)
            with torch.no_grad():
                weight[0], bias[0] = tensor_of(last[:-1]), float(last[-1])

    def logits(self, split: str) -> list[NDArray[np.float32]]:
        """Outputs of every job's best epoch for a split's images, float32 (m,) each."""
        return [values[:, 0] for values in super().logits(split)]

    def first_outputs(self, job: Job) -> Outputs | None:
        """Outputs of a job's first stage for train and valid, if it has one."""
        return None if job.kind.first is None else self._outputs

    def save(self, number: int, folder: Path) -> None:
        """A job's network, to be loaded again by ``load_network``."""
        job = self.jobs[number]
        about = {"task": job.task, "run": job.run, "order": job.order}
        save_network(self.network(number), folder, [job.task], about=about)

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
        settings = replace(self.settings, epochs=epochs, patience=epochs)
        inputs, rows, targets = self.data.inputs, self.data.rows, [self._target(plain)]
        return NetworkPass(self.backbones, inputs, rows, targets, settings, self._hooks(plain))

    def _build_main(self) -> None:
        """Build the networks of the main training, which needs the outputs of the first stage."""
        # before they are built: the memory of its network
        self._first = None
        targets, hooks = [self._target(job) for job in self.jobs], self._hooks(self.jobs[0])
        inputs, rows = self.data.inputs, self.data.rows
        super().__init__(self.backbones, inputs, rows, targets, self.settings, hooks)

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

    def _hooks(self, job: Job) -> BatchHooks:
        """The order of rows and the mixtures that jobs like this one take."""
        train = self.data.rows["train"]

        def taken(epoch: int) -> tuple[NDArray[np.intp], Mixture | None]:
            counts = counts_of(self.data, job, epoch, self._outputs)
            places = in_order(len(train) if counts is None else counts, job.order, epoch)
            return places, mixture_of(self.data, job, epoch, self.settings.variant)

        def rows(epoch: int) -> NDArray[np.intp]:
            places, mixture = taken(epoch)
            return train[places if mixture is None else mixture.rows[places]]

        def mix(epoch: int) -> RowMixture:
            places, mixture = taken(epoch)
            assert mixture is not None  # noqa: S101 - it has a mixing
            return train[mixture.partners[places]], mixture.weights[places]

        return BatchHooks(job.order, rows, None if job.kind.mixing is None else mix)
