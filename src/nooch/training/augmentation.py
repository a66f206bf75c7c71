"""Random changes of training images, drawn for a whole epoch ahead (paper, Appendix A).

What is drawn belongs to the order of rows, so that networks which share batches see the same
images, and a network sees the same ones alone. Nothing is drawn from torch: a GPU gets the same
numbers as a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import matmul
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from nooch.training.network_settings import TuneSettings

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ImageChanges", "augmented", "draw"]

_Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ImageChanges:
    """What happens to m images.

    Attributes:
        matrices: float32 (m, 2, 3), from places in the new image to places in the old one, both
            from -1 to 1, x before y; None where no image is moved.
        flips: bool (m,), whether left and right change places, before all else; None for no image.
    """

    matrices: NDArray[np.float32] | None
    flips: NDArray[np.bool_] | None


def draw(
    settings: TuneSettings, count: int, aspect: float, random: Generator
) -> ImageChanges | None:
    """Changes of ``count`` images by ``settings.augment``; None where it is empty.

    Args:
        settings: kinds and how far they go.
        count: images.
        aspect: width over height.
        random: a stream for this alone.
    """
    if not settings.augment:
        return None
    flips = random.random(count) < 0.5 if "flip" in settings.augment else None
    names = [name for name in settings.augment if name in _MOVES]
    if not names:
        return ImageChanges(None, flips)
    whole = reduce(matmul, (_MOVES[name](settings, count, aspect, random) for name in names))
    return ImageChanges(np.ascontiguousarray(whole[:, :2], dtype=np.float32), flips)


def _affine(settings: TuneSettings, count: int, aspect: float, random: Generator) -> _Matrix:
    """Rotated about the middle, zoomed and shifted."""
    angle = np.deg2rad(random.uniform(-settings.rotation, settings.rotation, count))
    inverse = 1 / random.uniform(1 - settings.zoom, 1 + settings.zoom, count)
    # half a width is 1
    across, down = random.uniform(-2 * settings.shift, 2 * settings.shift, (2, count))
    cosine, sine = np.cos(angle) * inverse, np.sin(angle) * inverse
    return _matrices(count, [[cosine, -sine / aspect, across], [sine * aspect, cosine, down]])


def _crop(settings: TuneSettings, count: int, aspect: float, random: Generator) -> _Matrix:
    """A part of the image, of its shape, enlarged to its size."""
    del aspect
    side = np.sqrt(random.uniform(settings.crop, 1, count))
    across, down = (1 - side) * random.uniform(-1, 1, (2, count))
    nothing = np.zeros(count)
    return _matrices(count, [[side, nothing, across], [nothing, side, down]])


def _matrices(count: int, rows: list[list[NDArray[np.float64]]]) -> _Matrix:
    whole = np.tile(np.eye(3), (count, 1, 1))
    whole[:, :2] = np.array(rows).transpose(2, 0, 1)
    return whole


_MOVES = {"affine": _affine, "crop": _crop}


def augmented(batch: Tensor, matrices: Tensor | None, flips: Tensor | None) -> Tensor:
    """Changed images, in the order in memory of those given.

    Args:
        batch: float (m, 3, height, width), prepared: what comes from outside the old image is 0,
            the mean color, or black where pixels are not normalized.
        matrices: float (m, 2, 3), see ``ImageChanges``; bilinear.
        flips: bool (m,), see ``ImageChanges``; exact.
    """
    import torch
    from torch.nn.functional import affine_grid, grid_sample

    if flips is not None:
        batch = torch.where(flips[:, None, None, None], batch.flip(-1), batch)
    if matrices is None:
        return batch
    places = affine_grid(matrices, list(batch.shape), align_corners=False)
    moved = grid_sample(batch, places, align_corners=False)
    last = batch.is_contiguous(memory_format=torch.channels_last)
    return moved.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
