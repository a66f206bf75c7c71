"""From pixels to a network's input: size, scale and normalization, from
``preprocessor_config.json``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError
from nooch.base.limits import BROKEN_JSON

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "IMAGENET", "PREPROCESSOR", "Inputs", "Preprocessing", "check_preprocessing",
    "read_preprocessing",
]  # fmt: skip

PREPROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True)
class Preprocessing:
    """A backbone's input from pixels: ``((flipped) pixel * factor - offset - mean) / std``.

    Attributes:
        size: height and width in pixels that it was trained with.
        factor: what pixels (0 to 255) are multiplied with.
        offset: subtracted before the mean: 1 with ``rescale_offset`` (EfficientNet), else 0.
        mean: of each channel, taken off.
        std: of each channel, divided by.
        flip: whether the channels are in the order blue, green, red.
    """

    size: tuple[int, int] = (224, 224)
    factor: float = 1 / 255
    offset: float = 0.0
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    flip: bool = False

    def unnormalized(self) -> Preprocessing:
        """The same input scaled to 0 up to 1 only, as in the paper's released code."""
        return replace(self, factor=1 / 255, offset=0.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


IMAGENET = Preprocessing()
"""ImageNet's usual scaling, for backbones that are made from a configuration alone."""


@dataclass(frozen=True)
class Inputs:
    """How pixels are made ready for a network on a device (``cpu``, ``cuda`` or ``cuda:1``), with
    the channels innermost in memory or not; the ``size`` of ``preprocessing`` is the one asked
    for.
    """

    preprocessing: Preprocessing
    device: str
    channels_last: bool = False

    def prepare(self, pixels: NDArray[np.uint8] | Tensor) -> Tensor:
        """Input from pixels: uint8 (m, height, width, 3) -> float32 (m, 3, height, width)."""
        import torch

        tensor = torch.as_tensor(pixels).to(self.device, non_blocking=True)
        if self.preprocessing.flip:
            tensor = tensor.flip(-1)
        factor, mean, std = self._scaling
        # step by step as image processors do it: equal to the last bits
        scaled = tensor.float().mul_(factor).sub_(mean).div_(std).permute(0, 3, 1, 2)
        return scaled if self.channels_last else scaled.contiguous()

    @cached_property
    def _scaling(self) -> tuple[float, Tensor, Tensor]:
        import torch

        own = self.preprocessing
        mean = torch.tensor([value + own.offset for value in own.mean], device=self.device)
        return own.factor, mean, torch.tensor(own.std, device=self.device)


class _Config(msgspec.Struct):
    """The parts of ``preprocessor_config.json`` that are used."""

    size: int | dict[str, Any] | None = None
    crop_size: int | dict[str, Any] | None = None
    do_center_crop: bool = False
    do_rescale: bool = True
    rescale_factor: float = 1 / 255
    # EfficientNet's: scale to -1 up to 1
    rescale_offset: bool = False
    do_normalize: bool = True
    image_mean: Sequence[float] | None = None
    image_std: Sequence[float] | None = None
    do_flip_channel_order: bool = False


def read_preprocessing(folder: Path) -> Preprocessing | None:
    """Read ``preprocessor_config.json`` of a folder; None where there is no such file. Raises
    InputError: the file cannot be read, or its numbers cannot be used.
    """
    file = folder / PREPROCESSOR
    if not file.is_file():
        return None
    try:
        config = msgspec.json.decode(file.read_bytes(), type=_Config)
    except (*BROKEN_JSON, OSError) as error:
        allowed = "the file of an image processor"
        raise InputError(f"cannot be read: {error}", where=file, allowed=allowed) from error
    crop = _size(config.crop_size) if config.do_center_crop else None
    size = crop or _size(config.size) or IMAGENET.size
    mean, std = config.image_mean or IMAGENET.mean, config.image_std or IMAGENET.std
    preprocessing = Preprocessing(
        size,
        config.rescale_factor if config.do_rescale else 1.0,
        float(config.do_rescale and config.rescale_offset),
        tuple(mean) if config.do_normalize else (0.0, 0.0, 0.0),
        tuple(std) if config.do_normalize else (1.0, 1.0, 1.0),
        config.do_flip_channel_order,
    )
    check_preprocessing(preprocessing, file)
    return preprocessing


def _size(size: int | dict[str, Any] | None) -> tuple[int, int] | None:
    """Height and width from one of the ways in which image processors write a size."""
    if isinstance(size, int):
        return size, size
    edge = (size or {}).get("shortest_edge")
    height, width = (size or {}).get("height", edge), (size or {}).get("width", edge)
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def check_preprocessing(loaded: Preprocessing, where: object) -> None:
    """Raise an InputError, at ``where``, for numbers that cannot be used."""
    numbers = (loaded.factor, *loaded.mean, *loaded.std)
    usable = len(loaded.mean) == len(loaded.std) == 3 and all(map(math.isfinite, numbers))
    if not usable or min(loaded.std) <= 0 or min(loaded.size) < 1:
        raise InputError(
            f"size {loaded.size}, mean {loaded.mean}, standard deviation {loaded.std}",
            where=where,
            allowed="a size in pixels, three means, three standard deviations above 0",
        )
