"""Networks: a backbone with a linear head, and affine parameters where these are learned."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import Options
from nooch.base.errors import InputError, ParameterError
from nooch.models.backbones import Backbone, load_backbone
from nooch.models.devices import memory_limits
from nooch.models.pixel_batches import Pixels, check_pixels, parts, read_ahead
from nooch.models.sources import SCRATCH

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Linear, Module, ParameterDict


def initial_heads(seeds: Sequence[int], d: int) -> Tensor:
    """Weights and biases of a head for each seed, float32 (d + 1, n_seeds).

    Uniform in +-1 / sqrt(d), as in ``torch.nn.Linear``; a column depends only on its seed and d.
    """
    import torch

    columns = []
    for seed in seeds:
        random = torch.Generator().manual_seed(seed)
        columns.append((torch.rand(d + 1, generator=random) * 2 - 1) / d**0.5)
    return torch.stack(columns, dim=1)


def blocks_of(module: Module) -> dict[str, Module]:
    """Name -> block of a network of transformers, in its order.

    Blocks are the members of the outermost lists of modules that have parts of their own; where
    such a member is a stage, with a list of that kind right inside it, the stage's members:
    residual units of a ResNet, layers of a ViT or a ConvNeXt, convolutions of a MobileNet.
    """
    blocks: dict[str, Module] = {}
    for name, member in _outermost("", module):
        inside = {f"{name}.{part}": block for part, block in _inside(member).items()}
        blocks |= inside or {name: member}
    return blocks


def _outermost(name: str, module: Module) -> Iterator[tuple[str, Module]]:
    """Members of the outermost lists, by name."""
    for part, child in module.named_children():
        path = f"{name}.{part}" if name else part
        if _is_list(child):
            yield from ((f"{path}.{number}", member) for number, member in child.named_children())
        else:
            yield from _outermost(path, child)


def _inside(member: Module) -> dict[str, Module]:
    """The blocks of a stage, which has a list of them or is one; empty for a block."""
    if _is_list(member):
        return dict(member.named_children())
    lists = {place: listed for place, listed in member.named_children() if _is_list(listed)}
    parts = ((place, part) for place in lists for part in lists[place].named_children())
    return {f"{place}.{number}": block for place, (number, block) in parts}


def _is_list(module: Module) -> bool:
    """True if it is a list whose members all have parts."""
    from torch.nn import ModuleList, Sequential

    if not isinstance(module, ModuleList | Sequential) or not len(module):
        return False
    return all(any(member.children()) for member in module)


def with_affine(backbone: Backbone) -> ParameterDict:
    """Put a factor (at first 1) and shift (0) of each channel, float32 (2, channels), after blocks.

    The module's own names stay as they are: the returned objects have the parameters.
    """
    import torch

    blocks = blocks_of(backbone.module)
    shapes = _shapes(backbone, blocks)
    if not shapes:
        problem = "has no blocks (as in ResNet or ViT) to put affine parameters after"
        remedy = "train all weights (train: all) or only the head (train: head)"
        raise InputError(problem, where=backbone.name, remedy=remedy)
    parameters = torch.nn.ParameterDict()
    for name, (channels, n_axes) in shapes.items():
        start = torch.stack([torch.ones(channels), torch.zeros(channels)]).to(backbone.device)
        # names of parameters have no dots
        key = name.replace(".", "-")
        parameters[key] = torch.nn.Parameter(start)
        blocks[name].register_forward_hook(_Affine(parameters[key], n_axes))
    return parameters


class _Affine:
    """Output of a block, times a factor, plus a shift."""

    def __init__(self, parameter: Any, n_axes: int) -> None:
        # (channels,) for tokens, (channels, 1, 1) for maps
        self.parameter, self.shape = parameter, (2, -1, *(() if n_axes < 4 else (1, 1)))

    def __call__(self, module: Module, inputs: Any, output: Any) -> Any:
        del module, inputs
        first, rest = _first(output)
        factor, shift = self.parameter.to(first.dtype).view(self.shape)
        changed = first * factor + shift
        return changed if rest is None else (changed, *rest)


def _first(output: Any) -> tuple[Tensor, tuple[Any, ...] | None]:
    """The features that a block returns, and its other outputs."""
    return (output[0], tuple(output[1:])) if isinstance(output, tuple) else (output, None)


def _shapes(backbone: Backbone, blocks: dict[str, Module]) -> dict[str, tuple[int, int]]:
    """Channels and number of axes of what each block gives, by running one black image."""
    import torch

    shapes: dict[str, tuple[int, int]] = {}

    def note(name: str) -> Any:
        def hook(_module: Module, _given: Any, output: Any) -> None:
            features = _first(output)[0]
            if not isinstance(features, torch.Tensor) or features.ndim not in {3, 4}:
                raise InputError(
                    f"block {name} returns a {type(features).__name__}, not features with channels",
                    where=backbone.name,
                    allowed="maps (m, channels, height, width) or tokens (m, n, channels)",
                    remedy="train all weights (train: all) or only the head (train: head)",
                )
            shapes[name] = features.shape[1 if features.ndim == 4 else 2], features.ndim

        return hook

    hooks = [block.register_forward_hook(note(name)) for name, block in blocks.items()]
    try:
        with torch.inference_mode():
            backbone.features(backbone.prepare(np.zeros((1, *backbone.size, 3), np.uint8)))
    finally:
        for hook in hooks:
            hook.remove()
    return shapes


Backbones = Callable[[int], Backbone]
"""Seed -> a backbone of its own, which training changes."""

_USUAL_MOMENTUM = 0.1

Trained = Annotated[str, ("all", "head", "affine")]
BatchNorm = Annotated[str, ("train", "frozen")]


@dataclass(frozen=True)
class NetworkOptions(Options):
    """Structure and computation of a network on a backbone.

    Attributes:
        train: trained parameters: ``all`` weights; only the ``head``; or ``affine``, a factor and a
            shift for each channel after each block, and the head.
        batchnorm: ``train``, by each batch's statistics; or ``frozen``, by the stored statistics.
        bf16: whether it computes in bfloat16 (autocast); weights stay float32.
        channels_last: whether images and weights lie in memory with the channels innermost.
        compile: whether the network is compiled by ``torch.compile``.
        normalize: whether pixels are normalized as the backbone's image processor does, or only
            scaled to 0 up to 1.
    """

    train: Trained = "all"
    batchnorm: BatchNorm = "train"
    bf16: bool = False
    channels_last: bool = False
    compile: bool = False
    normalize: bool = True


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
        parameters = {f"head.{name}": value for name, value in self.head.named_parameters()}
        parameters |= {f"affine.{name}": value for name, value in self.affine.items()}
        if self.train == "all":
            module = self.backbone.module
            # a buffer that is not saved is made from the configuration
            saved, buffers = module.state_dict().keys(), dict(module.named_buffers())
            parameters |= {f"backbone.{name}": value for name, value in module.named_parameters()}
            parameters |= {f"backbone.{name}": buffers[name] for name in buffers if name in saved}
        return {name: value.detach() for name, value in parameters.items()}


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
        size: size of the input; by default the size that the network was trained with.
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


def read_outputs(
    networks: Sequence[Network],
    pixels: Pixels,
    rows: NDArray[np.intp],
    batch: int,
    output: Callable[[Network, Tensor], Tensor] = Network.predict,
) -> list[NDArray[np.float32]]:
    """Predictions of several networks that take the same input for images at ``rows``, float32 (m,
    K) each; or with ``Network.features`` what the backbones give to the heads, float32 (m, d) each.
    Images are read once, ``batch`` at a time.
    """
    import torch

    check_pixels(pixels, networks[0].backbone)
    if not len(rows):
        raise ParameterError("no images to evaluate", allowed="at least one row")
    outputs: list[list[Tensor]] = [[] for _ in networks]
    for network in networks:
        network.training(False)
    what, backbone = f"evaluating {len(networks)} networks", networks[0].backbone
    batches = [rows[part] for part in parts(len(rows), batch)]
    with memory_limits(batch, what, "`set` batch={}"), torch.no_grad():
        for images in read_ahead(pixels, batches, pin=backbone.device != "cpu"):
            prepared = backbone.prepare(images)
            for values, network in zip(outputs, networks, strict=True):
                values.append(output(network, prepared).cpu())
    return [torch.cat(values).numpy() for values in outputs]
