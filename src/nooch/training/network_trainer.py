"""One network in training: steps, validation value, best epoch, and its state as arrays."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import FormatError
from nooch.models.backbones import Backbone
from nooch.models.networks import Network, build_network
from nooch.training.epoch_batches import Batch
from nooch.training.network_settings import OPTIMISERS, TuneSettings
from nooch.training.network_state import Arrays, OwnRandom, array_of, part_of, restore, tensor_of
from nooch.training.objectives import ERM, Objective, losses
from nooch.training.targets import Target
from nooch.training.training_pass import validation_value

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

__all__ = ["NetworkTrainer"]


@dataclass
class NetworkTrainer:
    """A network in training.

    Attributes:
        target, network, settings: what it learns, what learns it, and how.
        objective: its own copy.
        optimiser: None once it has stopped.
        random: the stream of what it draws itself, such as dropout.
        best: what its moving tensors were at the best epoch; empty before there is one.
        labels: float32 (n_images, K + A) on the device; ``environments``: uint8 (n_images, K).
    """

    target: Target
    network: Network
    settings: TuneSettings
    objective: Objective
    optimiser: Optimizer | None
    random: OwnRandom
    labels: Tensor
    environments: Tensor
    row_weights: Tensor | None
    valid_weights: Tensor | None
    output_weights: Tensor
    best: Arrays = field(default_factory=dict)

    @classmethod
    def start(cls, target: Target, backbone: Backbone, settings: TuneSettings) -> NetworkTrainer:
        """A network before its first step."""
        import torch

        device, options, n_auxiliary = backbone.device, settings.network, target.n_auxiliary
        network = build_network(
            backbone, options, target.n_outputs, auxiliary=n_auxiliary, seed=target.seed
        )

        def table(values: NDArray[Any] | None) -> Tensor | None:
            if values is None:
                return None
            return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(device)[:, None]

        labels = [part for part in (target.labels, target.auxiliary) if part is not None]
        environments = target.environments
        if environments is None:
            environments = np.zeros(target.labels.shape, np.uint8)
        # made last: everything above may draw
        return cls(
            target,
            network,
            settings,
            copy.deepcopy(target.objective),
            cls._optimiser(network, settings),
            OwnRandom.start(target.seed, device),
            torch.from_numpy(np.concatenate(labels, axis=1).astype(np.float32)).to(device),
            torch.from_numpy(np.ascontiguousarray(environments)).to(device),
            table(target.row_weights),
            table(target.valid_weights),
            torch.tensor(target.output_weights, device=device),
        )

    @staticmethod
    def _optimiser(network: Network, settings: TuneSettings) -> Optimizer:
        body, head = network.backbone.module.parameters(), network.head.parameters()
        every = [*body, *network.affine.values(), *head]
        moving = [parameter for parameter in every if parameter.requires_grad]
        make = OPTIMISERS[settings.optimiser]
        return make(moving, settings, fused=network.backbone.device != "cpu")

    def step(self, batch: Batch, lr: float) -> Tensor:
        """One step of the optimiser; the loss of the main outputs, a number on the device."""
        import torch

        assert self.optimiser is not None  # noqa: S101 - it has not stopped
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        with self.random:
            logits = self.network.logits(batch.inputs)
            own, total = self._losses(logits, batch)
            self.optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(total)
            if self.settings.clip is not None:
                torch.nn.utils.clip_grad_norm_(_learned(self.optimiser), self.settings.clip)
            self.optimiser.step()
        return own.detach()

    def _losses(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The main outputs' loss, and that with the auxiliary outputs'."""
        labels, k = batch.mixed(self.labels), self.network.n_outputs
        environments = self.environments[batch.rows].long()
        if self.row_weights is None:
            values = self.objective(logits[:, :k], labels[:, :k], environments)
        else:
            assert isinstance(self.objective, ERM)  # noqa: S101 - checked before
            weights = self.objective.weights(labels[:, :k], environments)
            weights = weights * self.row_weights[batch.rows]
            values = (weights * losses(logits[:, :k], labels[:, :k])).mean(dim=0)
        own = (self.output_weights * values).sum()
        if logits.shape[1] == k:
            return own, own
        return own, own + self.settings.auxiliary * losses(logits[:, k:], labels[:, k:]).mean()

    def validate(self, logits: NDArray[np.float32], rows: Tensor) -> tuple[float, float]:
        """The value that decides when to stop, and the plain loss, of outputs (n_valid, K)."""
        import torch

        with torch.no_grad():
            outputs = torch.from_numpy(logits).to(rows.device)
            labels = self.labels[rows, : self.network.n_outputs]
            plain = losses(outputs, labels)
            rule, batch = str(self.settings.stop_on), self.settings.batch
            known = outputs, labels, self.environments[rows].long()
            values = validation_value(rule, self.objective, known, self.valid_weights, batch)
            total, nll = ((self.output_weights * v).sum() for v in (values, plain.mean(dim=0)))
        return float(total), float(nll)

    def keep_best(self) -> None:
        """Remember the weights as they are."""
        self.best = {name: array_of(value) for name, value in self.network.moving().items()}

    def stop(self) -> None:
        """Go back to the best epoch, and let go of what only training needs."""
        self.optimiser = None
        for parameter in self.network.backbone.module.parameters():
            parameter.grad = None
        restore(self.network.moving(), self.best)

    def state_dict(self) -> Arrays:
        """All that changes, as arrays."""
        arrays = {f"best.{name}": value for name, value in self.best.items()}
        if self.optimiser is None:
            return arrays
        arrays |= {f"now.{name}": array_of(value) for name, value in self.network.moving().items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            values = {name: value for name, value in state.items() if value is not None}
            arrays |= {f"optimiser.{number}.{name}": array_of(values[name]) for name in values}
        arrays |= {f"random.{n}": array_of(state) for n, state in enumerate(self.random.states)}
        if hasattr(self.objective, "q"):
            arrays["q"] = array_of(self.objective.q)
        return arrays

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], *, stopped: bool) -> None:
        """Resume from what ``state_dict`` gave.

        Raises FormatError where that is another network's.
        """
        parts = {kind: part_of(arrays, kind) for kind in ("best", "now", "optimiser", "random")}
        names = set(self.network.moving())
        fits = not parts["best"] or set(parts["best"]) == names
        if not fits or not (stopped or set(parts["now"]) == names):
            problem = "the saved state is that of another network"
            remedy = "delete it and start again"
            raise FormatError(problem, where=self.target.name, remedy=remedy)
        self.best = dict(parts["best"])
        if stopped:
            self.stop()
            return
        restore(self.network.moving(), parts["now"])
        self._load_optimiser(parts["optimiser"])
        states = range(len(self.random.states))
        self.random.states = [tensor_of(parts["random"][str(number)]) for number in states]
        if "q" in arrays:
            self.objective.q = tensor_of(arrays["q"]).to(self.labels.device)  # type: ignore[attr-defined]

    def _load_optimiser(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        import torch

        assert self.optimiser is not None  # noqa: S101 - it has not stopped
        learned = _learned(self.optimiser)
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in arrays.items():
            number, _, name = key.partition(".")
            saved, like = tensor_of(value), learned[int(number)]
            # a fused optimizer walks weights and momenta together: both need one order in memory
            if saved.shape == like.shape:
                saved = torch.empty_like(like, dtype=saved.dtype).copy_(saved)
            state.setdefault(int(number), {})[name] = saved
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})


def _learned(optimiser: Optimizer) -> list[Tensor]:
    """The parameters that an optimizer changes, in its order."""
    return [value for group in optimiser.param_groups for value in group["params"]]
