"""Networks that share an order of rows: a batch is prepared once, then each takes a step."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import NoochError, ParameterError
from nooch.models.backbones import Backbone
from nooch.models.devices import memory_limits, reuse_memory
from nooch.models.networks import Backbones, Network, read_logits
from nooch.models.pixel_batches import Pixels, check_pixels
from nooch.training.epoch_batches import BatchHooks, Epochs, on_device
from nooch.training.network_settings import TuneSettings
from nooch.training.network_state import Arrays, array_of, part_of
from nooch.training.network_trainer import NetworkTrainer
from nooch.training.targets import Target, check_rows, check_targets
from nooch.training.training_pass import TrainingPass

__all__ = ["NetworkPass", "fastest_convolutions"]


class NetworkPass(TrainingPass):
    """Trains networks that share an order of rows, see ``TrainingPass``.

    A network's result is that of training it alone, to the bit on a CPU with equal threads.

    Args:
        backbones: seed -> backbone, see ``nooch.models.networks.backbones``.
        pixels: of all images, of the backbones' size.
        rows: split -> positions of images; ``train`` and ``valid`` at least.
        targets: what each network learns.
        settings: of the training.
        hooks: where methods enter.

    Raises:
        InputError: an empty split, labels that cannot be learned from, no weights.
        ParameterError: what does not fit together; see ``check_targets``.
        NoochError: memory ran out; a smaller batch, or fewer networks at once, are suggested.
    """

    def __init__(
        self,
        backbones: Backbones,
        pixels: Pixels,
        rows: Mapping[str, NDArray[np.intp]],
        targets: Sequence[Target],
        settings: TuneSettings,
        hooks: BatchHooks = BatchHooks(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(len(targets), settings)
        check_rows(rows, len(pixels))
        check_targets(targets, rows, len(pixels), settings)
        _check_mixing(targets, hooks)
        self.pixels, self.rows, self.settings, self.hooks = pixels, rows, settings, hooks
        self.trainers: list[NetworkTrainer] = []
        for target in targets:
            with _limits(settings.batch, len(targets), "making"):
                self.trainers.append(self._trainer(target, backbones(target.seed)))
        backbone = self.trainers[0].network.backbone
        self.device = backbone.device
        self._epochs = Epochs(pixels, np.asarray(rows["train"]), backbone, settings, hooks)
        if self.device == "cpu":
            reuse_memory()

    def _trainer(self, target: Target, backbone: Backbone) -> NetworkTrainer:
        check_pixels(self.pixels, backbone)
        first = self.trainers[0].network.backbone if self.trainers else backbone
        if first.inputs != backbone.inputs:
            raise ParameterError(
                f"{backbone.name} takes other input than {first.name}",
                where=target.name,
                allowed="networks that share prepared images",
                remedy="train it in another pass",
            )
        return NetworkTrainer.start(target, backbone, self.settings)

    def logits(self, split: str) -> list[NDArray[np.float32]]:
        """Predictions of every network's best epoch for a split's images, float32 (m, K) each.

        Images are read once.

        Raises:
            ParameterError: a network has not stopped yet.
        """
        networks = [self.network(number) for number in range(len(self.trainers))]
        return read_logits(networks, self.pixels, self.rows[split], self.settings.batch)

    def network(self, number: int) -> Network:
        """A network of its best epoch. Raises ParameterError: it has not stopped yet; after the
        last epoch all have.
        """
        trainer = self.trainers[number]
        if number in self.active:
            name = trainer.target.name
            raise ParameterError(f"{name} is still in training", remedy="train until finished")
        return trainer.network

    def _train(self) -> NDArray[np.float64]:
        import torch

        trainers = self._chosen(self.active)
        for trainer in trainers:
            trainer.network.training(True)
        total = torch.zeros(len(trainers), dtype=torch.float64, device=self.device)
        rate, steps = self.settings.rate(self.epoch), 0
        with _limits(self.settings.batch, len(trainers), "training"), fastest_convolutions():
            for batch in self._epochs.batches(self.epoch):
                total += torch.stack([trainer.step(batch, rate) for trainer in trainers]).double()
                steps += 1
        return array_of(total / max(steps, 1))

    def _validate(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        trainers, valid = self._chosen(self.active), self.rows["valid"]
        networks = [trainer.network for trainer in trainers]
        outputs = read_logits(networks, self.pixels, valid, self.settings.batch)
        at = on_device(valid, self.device)
        pairs = zip(trainers, outputs, strict=True)
        both = [trainer.validate(logits, at) for trainer, logits in pairs]
        values, nll = np.array(both, dtype=np.float64).T
        return values, nll

    def _keep_best(self, better: NDArray[np.bool_]) -> None:
        for trainer in self._chosen(self.active[better]):
            trainer.keep_best()

    def _stop(self, stopping: NDArray[np.bool_]) -> None:
        for trainer in self._chosen(self.active[stopping]):
            trainer.stop()

    def _state(self) -> Arrays:
        states = enumerate(trainer.state_dict() for trainer in self.trainers)
        return {f"{n}.{name}": value for n, state in states for name, value in state.items()}

    def _load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for number, trainer in enumerate(self.trainers):
            trainer.load_state_dict(part_of(arrays, str(number)), stopped=number not in self.active)

    def _chosen(self, numbers: NDArray[np.intp]) -> list[NetworkTrainer]:
        return [self.trainers[number] for number in numbers]


def _check_mixing(targets: Sequence[Target], hooks: BatchHooks) -> None:
    weighted = [target.name for target in targets if target.row_weights is not None]
    if hooks.mix is not None and weighted:
        raise ParameterError(
            f"images are mixed, and rows of {weighted[0]} have weights",
            allowed="one of the two: a mixture has no row",
        )


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """Let a GPU find the fastest convolution for each size; no effect on a CPU."""
    from torch.backends import cudnn

    before = cudnn.benchmark
    cudnn.benchmark = True
    try:
        yield
    finally:
        cudnn.benchmark = before


@contextmanager
def _limits(batch: int, n_networks: int, what: str) -> Iterator[None]:
    """Running out of memory, with what can be done about it here."""
    try:
        with memory_limits(batch, f"{what} {n_networks} networks at once", "`set` batch={}"):
            yield
    except NoochError as error:
        if n_networks < 2 or type(error) is not NoochError:
            raise
        fewer = f"fewer networks at once, such as `set` networks={n_networks // 2}"
        raise NoochError(error.problem, remedy=f"{error.remedy}, or {fewer}") from error
