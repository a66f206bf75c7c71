"""Pixels for training: batches of a cache's images, read by a thread while the ones before are worked on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nooch.errors import ParameterError
from nooch.training.backbones import Backbone
from nooch.training.streaming import read_in_order

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Pixels", "check_pixels", "parts", "read_ahead"]


class Pixels(Protocol):
    """Images as uint8 (n_images, height, width, 3): a ``PixelCache``, or anything that reads like one."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""

    def __len__(self) -> int: ...

    def batch(self, rows: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Pixels of some images, uint8 (m, height, width, 3), written into ``out`` where that is given."""


def check_pixels(pixels: Pixels, backbone: Backbone) -> None:
    """Raise a ParameterError unless the pixels have the size of the backbone's input."""
    if tuple(pixels.size) != backbone.size:
        raise ParameterError(
            f"pixels of {pixels.size[0]} x {pixels.size[1]}",
            where=getattr(pixels, "folder", None),
            allowed=f"{backbone.size[0]} x {backbone.size[1]}, the input of {backbone.name}",
            remedy="load the backbone with the pixels' size (size=), or make pixels of its size",
        )


def parts(length: int, batch: int) -> list[slice]:
    """Consecutive batches of a number of rows. A single row at the end goes with the batch before: it has no batch statistics."""
    starts = list(range(0, length, batch))
    if len(starts) > 1 and length - starts[-1] == 1:
        starts.pop()
    return [slice(start, stop) for start, stop in zip(starts, [*starts, length][1:], strict=True)]


def read_ahead(pixels: Pixels, batches: Sequence[NDArray[np.intp]], *, pin: bool) -> Iterator[Tensor]:
    """Pixels of each batch of rows in order, uint8 tensors (m, height, width, 3) in the machine's memory.

    Args:
        pixels: where they come from.
        batches: positions of images.
        pin: put them where a GPU can fetch them while it computes; torch uses such memory again once it has been fetched.
    """
    import torch

    height, width = pixels.size

    def read(rows: NDArray[np.intp]) -> Tensor:
        made = torch.empty((len(rows), height, width, 3), dtype=torch.uint8, pin_memory=pin)
        pixels.batch(rows, out=made.numpy())
        return made

    yield from read_in_order(read, batches, 1)
