"""Adaptive affine parameters: a factor and shift per channel after each block (Appendix A)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nooch.base.errors import InputError
from nooch.models.backbones import Backbone

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, ParameterDict

__all__ = ["blocks_of", "with_affine"]


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
    """Whether it is a list whose members all have parts."""
    from torch.nn import ModuleList, Sequential

    if not isinstance(module, ModuleList | Sequential) or not len(module):
        return False
    return all(any(member.children()) for member in module)


def with_affine(backbone: Backbone) -> ParameterDict:
    """Put a factor (at first 1) and shift (0) of each channel, float32 (2, channels), after blocks.

    The module's own names stay as they are: the parameters are held by what is returned.

    Raises:
        InputError: no blocks are found, or they give no features with channels.
    """
    import torch

    blocks = blocks_of(backbone.module)
    shapes = _shapes(backbone, blocks)
    if not shapes:
        raise InputError(
            "no blocks were found in it, so there is no place for affine parameters",
            where=backbone.name,
            allowed="networks with a list of blocks, such as ResNet, MobileNet, ViT, ConvNeXt",
            remedy="train all weights (train: all) or the head alone (train: head)",
        )
    parameters = torch.nn.ParameterDict()
    for name, (channels, n_axes) in shapes.items():
        start = torch.stack([torch.ones(channels), torch.zeros(channels)]).to(backbone.device)
        # names of parameters have no dots
        key = name.replace(".", "-")
        parameters[key] = torch.nn.Parameter(start)
        blocks[name].register_forward_hook(_Affine(parameters[key], n_axes))
    return parameters


class _Affine:
    """What a block gives, times a factor, plus a shift."""

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
                    f"block {name} gives a {type(features).__name__}, no features with channels",
                    where=backbone.name,
                    allowed="maps (m, channels, height, width) or tokens (m, n, channels)",
                    remedy="train all weights (train: all) or the head alone (train: head)",
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
