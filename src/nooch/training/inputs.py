"""Pixels -> the input of a network: scaled and normalised on its device, as its image processor would."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nooch.training.preprocessing import Preprocessing

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Inputs"]


@dataclass(frozen=True, eq=False)
class Inputs:
    """How pixels are made ready.

    Attributes:
        preprocessing: what the network expects; its ``size`` is the one asked for.
        device: ``cpu``, ``cuda`` or ``cuda:1``.
        channels_last: whether the result lies in memory with the channels innermost.
    """

    preprocessing: Preprocessing
    device: str
    channels_last: bool = False

    def prepare(self, pixels: NDArray[np.uint8] | Tensor) -> Tensor:
        """Input from pixels: uint8 (m, height, width, 3) -> float32 (m, 3, height, width) on the device, normalised."""
        import torch

        given = torch.as_tensor(pixels).to(self.device, non_blocking=True)
        if self.preprocessing.flip:
            given = given.flip(-1)
        factor, mean, std = self._scaling
        # step by step as image processors do it, so that the result is theirs to the last bits that rounding leaves
        scaled = given.float().mul_(factor).sub_(mean).div_(std).permute(0, 3, 1, 2)
        return scaled if self.channels_last else scaled.contiguous()

    @cached_property
    def _scaling(self) -> tuple[float, Tensor, Tensor]:
        import torch

        made = self.preprocessing
        mean = [value + made.offset for value in made.mean]
        return made.factor, torch.tensor(mean, device=self.device), torch.tensor(made.std, device=self.device)
