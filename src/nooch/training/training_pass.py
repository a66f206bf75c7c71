"""A pass: models that train together, with best epochs, early stopping, history and state; the
state of a network as arrays and back, without loss, and its own random numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.training.jobs import Settings
from nooch.training.objectives import Objective, losses

if TYPE_CHECKING:
    from torch import Tensor


Arrays = dict[str, NDArray[Any]]


@dataclass
class OwnRandom:
    """Inside ``with``, torch draws from this stream; outside, as if nothing had been drawn.

    Attributes:
        device: where the network is.
        states: of the CPU's generator and, for a network on a GPU, of the GPU's; bytes.
    """

    device: str
    states: list[Tensor]
    _before: list[Tensor] = field(default_factory=list)

    @classmethod
    def start(cls, seed: int, device: str) -> OwnRandom:
        """The stream of a seed."""
        import torch

        # apart from the one that the head starts with
        own = int(np.random.SeedSequence([seed, 5]).generate_state(1)[0])
        kinds = ["cpu"] if device == "cpu" else ["cpu", device]
        return cls(device, [torch.Generator(kind).manual_seed(own).get_state() for kind in kinds])

    def __enter__(self) -> None:
        self._before = self._now()
        self._set(self.states)

    def __exit__(self, *_: object) -> None:
        self.states = self._now()
        self._set(self._before)

    def _now(self) -> list[Tensor]:
        import torch

        gpu = [] if self.device == "cpu" else [torch.cuda.get_rng_state(self.device)]
        return [torch.get_rng_state(), *gpu]

    def _set(self, states: list[Tensor]) -> None:
        import torch

        torch.set_rng_state(states[0])
        for state in states[1:]:
            torch.cuda.set_rng_state(state, self.device)


def array_of(value: Tensor) -> NDArray[Any]:
    """A copy; numpy has no bfloat16, and float32 represents all of its values."""
    import torch

    kind = torch.float32 if value.dtype == torch.bfloat16 else value.dtype
    return np.array(value.detach().to("cpu", kind).numpy())


def tensor_of(value: NDArray[Any]) -> Tensor:
    """A tensor of its own."""
    import torch

    return torch.from_numpy(np.array(value))


def restore(tensors: Mapping[str, Tensor], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put arrays into tensors of the same names; nothing happens if there are no arrays."""
    if arrays:
        for name, value in tensors.items():
            value.copy_(tensor_of(arrays[name]))


def part_of(arrays: Mapping[str, NDArray[Any]], kind: str) -> Arrays:
    """The arrays whose names start with ``kind.``, without that."""
    start = f"{kind}."
    return {name[len(start) :]: arrays[name] for name in arrays if name.startswith(start)}


_MEASURES = ("train", "valid", "nll")


class TrainingPass(ABC):
    """Models that train together; one call of ``step`` is an epoch of all that have not stopped.

    A model stops after ``settings.patience`` epochs without a lower validation value, or after
    ``settings.epochs`` epochs. Its result is taken at its best epoch. ``state_dict`` contains all
    that changes: after ``load_state_dict`` a pass resumes as if it had never stopped.

    Args:
        count: models.
        settings: of the training.

    Attributes:
        epoch: epochs that are done.
        active: the models that still train, int (n_active,).
        best: ``value`` and ``epoch`` of each model's best epoch; infinity and 0 if it diverged.
        history: for each epoch ``train``, ``valid`` and ``nll`` of each model, float64 (count,),
            NaN if it has stopped. ``train`` is the mean over steps of its objective, ``valid``
            the value that decides when to stop, ``nll`` the plain validation loss.
    """

    def __init__(self, count: int, settings: Settings) -> None:
        self._count, self._limits = count, settings
        self.epoch = 0
        self.active: NDArray[np.intp] = np.arange(count)
        self.best = {"value": np.full(count, np.inf), "epoch": np.zeros(count, dtype=np.int64)}
        self.history: list[dict[str, NDArray[np.float64]]] = []

    @property
    def finished(self) -> bool:
        """True if every model has stopped."""
        return not len(self.active) or self.epoch >= self._limits.epochs

    @property
    def n_stopped(self) -> int:
        """Models that have stopped."""
        return self._count - len(self.active)

    @property
    def best_epochs(self) -> NDArray[np.int64]:
        """Best epoch of each model, from 1; 0 if it diverged: no epoch had a finite validation
        value.
        """
        return self.best["epoch"]

    def step(self) -> dict[str, NDArray[np.float64]]:
        """Train an epoch; returns what it appends to ``history``."""
        record = {name: np.full(self._count, np.nan) for name in _MEASURES}
        record["train"][self.active] = self._train()
        self.epoch += 1
        record["valid"][self.active], record["nll"][self.active] = self._validate()
        self.history.append(record)
        self._judge(record["valid"][self.active])
        return record

    def _judge(self, values: NDArray[np.float64]) -> None:
        """Keep the models that are better than ever; stop those that have not been for too long."""
        # NaN is not lower
        better = values < self.best["value"][self.active]
        models = self.active[better]
        self.best["value"][models], self.best["epoch"][models] = values[better], self.epoch
        self._keep_best(better)
        waited = self.epoch - self.best["epoch"][self.active]
        stopping = (waited >= self._limits.patience) | (self.epoch >= self._limits.epochs)
        if stopping.any():
            self._stop(stopping)
            self.active = self.active[~stopping]

    def state_dict(self) -> Arrays:
        """All that changes, as arrays."""
        history = {name: [record[name] for record in self.history] for name in _MEASURES}
        return {
            "epoch": np.array(self.epoch),
            "stopped": np.array(self.n_stopped),
            "active": self.active,
            **{f"best_{name}": values.copy() for name, values in self.best.items()},
            **{f"history_{n}": np.array(v).reshape(-1, self._count) for n, v in history.items()},
            **self._state(),
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Resume from what ``state_dict`` gave for the same models. Raises FormatError: it is the
        state of other networks.
        """
        self.epoch, self.active = int(arrays["epoch"]), arrays["active"].copy()
        self.best = {name: arrays[f"best_{name}"].copy() for name in self.best}
        history = {name: arrays[f"history_{name}"] for name in _MEASURES}
        self.history = [{n: history[n][epoch] for n in history} for epoch in range(self.epoch)]
        self._load_state(arrays)

    @abstractmethod
    def _train(self) -> NDArray[np.float64]:
        """Train the active models for an epoch; their mean losses, (n_active,)."""

    @abstractmethod
    def _validate(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For the active models: the value that decides when to stop, the plain loss."""

    @abstractmethod
    def _keep_best(self, better: NDArray[np.bool_]) -> None:
        """Keep the weights of those active models that are better than ever, bool (n_active,)."""

    @abstractmethod
    def _stop(self, stopping: NDArray[np.bool_]) -> None:
        """Release what only training needs of active models, bool (n_active,)."""

    @abstractmethod
    def _state(self) -> Arrays:
        """State in addition to the attributes of every pass."""

    @abstractmethod
    def _load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what ``_state`` gave; the attributes of every pass are restored."""


def validation_value(
    rule: str,
    objective: Objective,
    outputs: tuple[Tensor, Tensor, Tensor],
    expected: Tensor | None,
    batch: int,
) -> Tensor:
    """The validation value of each head, (H,); training stops when it no longer falls.

    - ``objective``: the method's objective on all images at once; for a method that draws rows, the
      mean loss with each image weighted by how often it would be drawn.
    - ``batches``: the authors' released code: the objective on minibatches of ``batch`` images in
      their order, averaged by the number of images; the plain mean loss for a method that draws
      rows, whose sampler is for training only.
    - ``nll``: the plain mean loss.

    ``outputs``: logits, labels and environments of the m images, (m, H) each; ``expected``: float
    (m, H) or (m, 1), how often rows would be drawn, for a method that draws.
    """
    logits, labels, environments = outputs
    if rule == "nll" or (rule == "batches" and expected is not None):
        return losses(logits, labels).mean(dim=0)
    if expected is not None:
        return (expected * losses(logits, labels)).mean(dim=0)
    if rule == "objective":
        return objective.measure(logits, labels, environments)
    total = logits.new_zeros(logits.shape[1])
    for start in range(0, len(logits), batch):
        part = slice(start, start + batch)
        value = objective.measure(logits[part], labels[part], environments[part])
        total += value * len(logits[part])
    return total / len(logits)
