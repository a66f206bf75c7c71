"""Networks: a backbone with a linear head, and affine parameters where these are learned."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import ParameterError, check_one_of
from nooch.models.affine_blocks import with_affine
from nooch.models.backbones import Backbone, load_backbone
from nooch.models.devices import memory_limits
from nooch.models.linear_head import initial_heads
from nooch.models.model_sources import SCRATCH
from nooch.models.pixel_batches import Pixels, check_pixels, parts, read_ahead

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Linear, ParameterDict

__all__ = [
    "Backbones", "Network", "NetworkOptions", "backbones", "build_network", "read_features",
    "read_logits",
]  # fmt: skip

Backbones = Callable[[int], Backbone]
"""Seed -> a backbone of its own, which training changes."""

_USUAL_MOMENTUM = 0.1


@dataclass(frozen=True)
class NetworkOptions:
    """How a network is built on a backbone, and computes.

    Attributes:
        train: what is learned: ``all`` weights; ``head`` alone; or ``affine``, a factor and a shift
            for each channel after each block, and the head.
        batchnorm: ``train``, by each batch's statistics; or ``frozen``, by those of the weights.
        bf16: whether it computes in bfloat16 (autocast); weights stay float32.
        channels_last: whether images and weights lie in memory with the channels innermost.
        compile: whether the network is compiled by ``torch.compile``.
        normalize: whether pixels are normalized as the backbone's image processor does, or only
            scaled to 0 up to 1.
    """

    train: str = "all"
    batchnorm: str = "train"
    bf16: bool = False
    channels_last: bool = False
    compile: bool = False
    normalize: bool = True

    def __post_init__(self) -> None:
        check_one_of("train", self.train, ("all", "head", "affine"), owner="training")
        check_one_of("batchnorm", self.batchnorm, ("train", "frozen"), owner="training")


@dataclass(frozen=True, eq=False)
class Network:
    """A backbone with a head. What is learned changes in place.

    Attributes:
        backbone: the backbone; its module keeps the names that transformers gives.
        head: ``torch.nn.Linear`` with d inputs; outputs for labels, then auxiliary ones.
        n_outputs: outputs that are predictions, K; auxiliary ones follow them.
        affine: factor and shift of each channel, float32 (2, channels) by block; or empty.
        train: what is learned, ``all``, ``head`` or ``affine``.
        batchnorm: ``train`` or ``frozen``.
        runner: the backbone that computes: the same, or with a compiled module.
    """

    backbone: Backbone
    head: Linear
    n_outputs: int
    affine: ParameterDict
    train: str
    batchnorm: str
    runner: Backbone

    def features(self, batch: Tensor) -> Tensor:
        """Features of prepared input: float32 (m, 3, height, width) -> (m, d)."""
        import torch

        with torch.set_grad_enabled(torch.is_grad_enabled() and self.train != "head"):
            return self.runner.features(batch)

    def logits(self, batch: Tensor) -> Tensor:
        """All outputs for prepared input, auxiliary ones too: float32 (m, K + A)."""
        outputs: Tensor = self.head(self.features(batch))
        return outputs

    def predict(self, batch: Tensor) -> Tensor:
        """Outputs that are predictions, (m, K)."""
        return self.logits(batch)[:, : self.n_outputs]

    def training(self, on: bool) -> None:
        """Switch between training and evaluation.

        What is not learned always evaluates: its statistics stay as they are.
        """
        from torch.nn.modules.batchnorm import _BatchNorm

        module = self.backbone.module.train(on and self.train == "all")
        if self.batchnorm == "frozen":
            for part in module.modules():
                if isinstance(part, _BatchNorm):
                    part.eval()

    def moving(self) -> dict[str, Tensor]:
        """Name -> what training changes: learned weights, and the learned backbone's buffers."""
        named = {f"head.{name}": value for name, value in self.head.named_parameters()}
        named |= {f"affine.{name}": value for name, value in self.affine.items()}
        if self.train == "all":
            module = self.backbone.module
            # a buffer that is not saved is made from the configuration
            saved, buffers = module.state_dict().keys(), dict(module.named_buffers())
            named |= {f"backbone.{name}": value for name, value in module.named_parameters()}
            named |= {f"backbone.{name}": buffers[name] for name in buffers if name in saved}
        return {name: value.detach() for name, value in named.items()}


def backbones(
    source: str | Path,
    options: NetworkOptions,
    *,
    size: int | tuple[int, int] | None = None,
    device: str = "auto",
) -> Backbones:
    """Backbones to be trained: weights are read once and copied; random ones follow the seed.

    Args:
        source: as ``load_backbone`` takes it; ``config:NAME`` has random weights by the seed.
        options: precision and order in memory; whether pixels are normalized.
        size: of the input, by default the one that it was trained with.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        InputError: no such model, no weights, or a size that it does not take.
        MissingExtraError: torch or transformers is not installed.
    """

    def load(seed: int) -> Backbone:
        layout = {"channels_last": options.channels_last, "bf16": options.bf16}
        backbone = load_backbone(source, seed=seed, size=size, device=device, **layout)
        if options.normalize:
            return backbone
        return replace(backbone, preprocessing=backbone.preprocessing.unnormalized())

    if str(source).startswith(SCRATCH):
        return load
    first = load(0)
    return lambda _seed: replace(first, module=copy.deepcopy(first.module))


def build_network(
    backbone: Backbone, options: NetworkOptions, n_outputs: int, *, auxiliary: int, seed: int
) -> Network:
    """A network around a backbone of its own, which is changed; ``auxiliary`` outputs follow the K
    predictions. The head starts as ``initial_heads`` makes it from the seed. Raises InputError:
    affine parameters for a network in which no blocks are found.
    """
    import torch

    backbone.module.requires_grad_(options.train == "all")
    affine = with_affine(backbone) if options.train == "affine" else torch.nn.ParameterDict()
    _usual_momentum(backbone)
    runner, head = backbone, _head(backbone, n_outputs + auxiliary, seed)
    if options.compile:
        runner = replace(backbone, module=torch.compile(backbone.module))
    return Network(backbone, head, n_outputs, affine, options.train, options.batchnorm, runner)


def _usual_momentum(backbone: Backbone) -> None:
    """Fix momenta from TensorFlow: 0.9997 is the share kept there, in torch the share replaced."""
    from torch.nn.modules.batchnorm import _BatchNorm

    for part in backbone.module.modules():
        if isinstance(part, _BatchNorm) and part.momentum is not None and part.momentum > 0.5:
            part.momentum = _USUAL_MOMENTUM


def _head(backbone: Backbone, n_outputs: int, seed: int) -> Linear:
    import torch

    # of seeds that are far apart, so that no two networks share an output's start
    seeds = [seed + number * 1_000_003 for number in range(n_outputs)]
    start = initial_heads(seeds, backbone.n_features).to(backbone.device)
    # what torch would draw for the weights is not used
    with torch.device("meta"):
        head = torch.nn.Linear(backbone.n_features, n_outputs)
    head = head.to_empty(device=backbone.device)
    with torch.no_grad():
        head.weight.copy_(start[:-1].T)
        head.bias.copy_(start[-1])
    return head


def read_logits(
    networks: Sequence[Network], pixels: Pixels, rows: NDArray[np.intp], batch: int
) -> list[NDArray[np.float32]]:
    """Predictions of several networks that take the same input for images at ``rows``, float32 (m,
    K) each; images are read once, ``batch`` at a time.

    Raises:
        ParameterError: pixels of another size, or no rows.
        NoochError: memory ran out.
    """
    return _collected([network.predict for network in networks], networks, pixels, rows, batch)


def read_features(
    networks: Sequence[Network], pixels: Pixels, rows: NDArray[np.intp], batch: int
) -> list[NDArray[np.float32]]:
    """As ``read_logits``, of what the backbones give to the heads: float32 (m, d) each."""
    return _collected([n.features for n in networks], networks, pixels, rows, batch)


def _collected(
    functions: Sequence[Callable[[Tensor], Tensor]],
    networks: Sequence[Network],
    pixels: Pixels,
    rows: NDArray[np.intp],
    batch: int,
) -> list[NDArray[np.float32]]:
    import torch

    check_pixels(pixels, networks[0].backbone)
    if not len(rows):
        raise ParameterError("no images to evaluate", allowed="one row and more")
    outputs: list[list[Tensor]] = [[] for _ in networks]
    for network in networks:
        network.training(False)
    what, backbone = f"evaluating {len(networks)} networks", networks[0].backbone
    batches = [rows[part] for part in parts(len(rows), batch)]
    with memory_limits(batch, what, "`set` batch={}"), torch.no_grad():
        for images in read_ahead(pixels, batches, pin=backbone.device != "cpu"):
            prepared = backbone.prepare(images)
            for values, function in zip(outputs, functions, strict=True):
                values.append(function(prepared).cpu())
    return [torch.cat(values).numpy() for values in outputs]
