"""Settings of fine-tuning, with the tables of optimizers and schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from nooch.base.calls import Count, Options, Share
from nooch.models.networks import BatchNorm, NetworkOptions, Trained
from nooch.training.block_sgd import Descent
from nooch.training.objectives import VARIANTS

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer


AUGMENTATIONS = ("affine", "crop", "flip")
"""Random changes of training images (paper, Appendix A)."""

STOP_ON = ("objective", "batches", "nll")
"""Rules of early stopping, see ``nooch.training.training_pass.validation_value``."""


@dataclass(frozen=True)
class TuneSettings(Options):
    """Training settings of a network; the defaults are the paper's (section C.2).

    Attributes:
        optimiser: ``sgd`` or ``adam``.
        lr: learning rate, above 0.
        momentum: 0 up to 1, without 1; of ``adam`` the first beta.
        weight_decay: added to the gradient times the weight, at least 0.
        batch: images in a step.
        epochs: at most.
        patience: epochs without a lower validation value before a network stops.
        stop_on: which validation value, out of ``STOP_ON``; see ``stop_rule`` for the default.
        variant: of the objectives, ``paper`` or ``released``.
        schedule: ``constant``; ``step``, times ``decay`` after every ``decay_epochs``; ``cosine``,
            down to ``decay`` times the rate in ``decay_epochs``, and constant from there.
        decay: what the learning rate is multiplied with, 0 to 1.
        decay_epochs: see ``schedule``.
        augment: out of ``affine``, ``crop`` and ``flip``.
        rotation: of ``affine``, degrees to either side at most, 0 to 180.
        shift: of ``affine``, fraction of height and width to either side at most, 0 to 1.
        zoom: of ``affine``, size times 1 - zoom to 1 + zoom, 0 to below 1.
        crop: of ``crop``, least fraction of the area that is kept, above 0 up to 1.
        train: ``all`` weights; only the ``head``; or ``affine``, a factor and a shift for each
            channel after each block, and the head.
        batchnorm: ``train``, by each batch's statistics; or ``frozen``, by the weights' own.
        auxiliary: weight of the auxiliary outputs' mean loss, at least 0; 0 for networks without.
        precision: ``fp32``, or ``bf16`` (autocast; weights stay float32).
        channels_last: whether images and weights lie in memory with the channels innermost.
        compile: whether the network is compiled by ``torch.compile``.
        clip: largest norm of the gradient, above 0; or None.
        normalize: whether pixels are normalized as the backbone's image processor does, or only
            scaled to 0 up to 1, as the released code has them; by default the former under
            ``variant="paper"``, the latter under ``variant="released"``.
    """

    optimiser: Annotated[str, OPTIMISERS] = "sgd"
    lr: Annotated[float, Meta(gt=0)] = 1e-4
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Meta(ge=0)] = 1e-4
    batch: Count = 32
    epochs: Count = 100
    patience: Count = 3
    stop_on: Annotated[str, STOP_ON] | None = None
    variant: Annotated[str, VARIANTS] = "paper"
    schedule: Annotated[str, SCHEDULES] = "constant"
    decay: Share = 0.1
    decay_epochs: Count = 10
    augment: Sequence[Annotated[str, AUGMENTATIONS]] = ()
    rotation: Annotated[float, Meta(ge=0, le=180)] = 10.0
    shift: Share = 0.1
    zoom: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    crop: Annotated[float, Meta(gt=0, le=1)] = 0.5
    train: Trained = "all"
    batchnorm: BatchNorm = "train"
    auxiliary: Annotated[float, Meta(ge=0)] = 0.0
    precision: Annotated[str, ("fp32", "bf16")] = "fp32"
    channels_last: bool = False
    compile: bool = False
    clip: Annotated[float, Meta(gt=0)] | None = None
    normalize: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        # their order has no effect: one way to write it
        augment = tuple(name for name in AUGMENTATIONS if name in self.augment)
        object.__setattr__(self, "augment", augment)
        object.__setattr__(self, "stop_on", stop_rule(self.stop_on, self.variant))

    @property
    def descent(self) -> Descent:
        """Learning rate, momentum and weight decay."""
        return Descent(self.lr, self.momentum, self.weight_decay)

    @property
    def network(self) -> NetworkOptions:
        """Structure and computation of networks; ``normalize`` is resolved by the variant."""
        return NetworkOptions(
            train=self.train,
            batchnorm=self.batchnorm,
            bf16=self.precision == "bf16",
            channels_last=self.channels_last,
            compile=self.compile,
            normalize=self.variant != "released" if self.normalize is None else self.normalize,
        )

    def rate(self, epoch: int) -> float:
        """Learning rate in an epoch, counted from 0."""
        return self.lr * SCHEDULES[self.schedule](self, epoch)


def stop_rule(stop_on: str | None, variant: str) -> str:
    """The rule that is asked for; by default ``batches`` for ``released``, else ``objective``."""
    return stop_on or ("batches" if variant == "released" else "objective")


def _step(settings: TuneSettings, epoch: int) -> float:
    return float(settings.decay ** (epoch // settings.decay_epochs))


def _cosine(settings: TuneSettings, epoch: int) -> float:
    done = min(epoch / settings.decay_epochs, 1.0)
    return settings.decay + (1 - settings.decay) * (1 + math.cos(math.pi * done)) / 2


SCHEDULES: dict[str, Callable[[TuneSettings, int], float]] = {
    "constant": lambda _settings, _epoch: 1.0,
    "step": _step,
    "cosine": _cosine,
}
"""Name -> (settings, epoch from 0) -> factor on the learning rate (paper, Appendix A)."""


def _sgd(parameters: Iterable[Parameter], settings: TuneSettings, *, fused: bool) -> Optimizer:
    from torch.optim import SGD

    lr, momentum, decay = settings.lr, settings.momentum, settings.weight_decay
    return SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay, fused=fused)


def _adam(parameters: Iterable[Parameter], settings: TuneSettings, *, fused: bool) -> Optimizer:
    from torch.optim import Adam

    lr, betas, decay = settings.lr, (settings.momentum, 0.999), settings.weight_decay
    return Adam(parameters, lr=lr, betas=betas, weight_decay=decay, fused=fused)


OPTIMISERS: dict[str, Callable[..., Optimizer]] = {"sgd": _sgd, "adam": _adam}
"""Name -> (parameters, settings, fused=) -> optimiser."""
