"""Batches of images for a network: read ahead by threads, computed as the device fits them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import ParameterError
from nooch.models.backbones import Backbone

if TYPE_CHECKING:
    from torch import Tensor


T = TypeVar("T")
R = TypeVar("R")

# images that a CPU computes at once: little enough memory to be reused (see reuse_memory)
_CHUNK = 4
# batches that are read ahead, beyond one for each reader
_AHEAD = 3


class Pixels(Protocol):
    """Images as uint8 (n_images, height, width, 3): a ``PixelCache``, or what reads like one."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""

    def __len__(self) -> int: ...

    def batch(self, rows: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Pixels of some images, uint8 (m, height, width, 3), written into ``out`` if given."""


def check_pixels(pixels: Pixels, backbone: Backbone) -> None:
    """Raise a ParameterError unless the pixels have the size of the backbone's input."""
    if tuple(pixels.size) != backbone.size:
        problem = f"pixels of {pixels.size[0]} x {pixels.size[1]}"
        allowed = f"{backbone.size[0]} x {backbone.size[1]}, the input of {backbone.name}"
        raise ParameterError(problem, where=getattr(pixels, "folder", None), allowed=allowed)


def parts(length: int, batch: int) -> list[slice]:
    """Consecutive batches of a number of rows.

    A single row at the end goes with the batch before: it has no batch statistics.
    """
    starts = list(range(0, length, batch))
    if len(starts) > 1 and length - starts[-1] == 1:
        starts.pop()
    return [slice(start, stop) for start, stop in zip(starts, [*starts, length][1:], strict=True)]


def read_ahead(
    pixels: Pixels, batches: Sequence[NDArray[np.intp]], *, pin: bool
) -> Iterator[Tensor]:
    """Pixels of each batch of rows in order, uint8 tensors (m, height, width, 3) in main memory:
    pinned, so that a GPU can fetch them while it computes, if asked.
    """
    import torch

    height, width = pixels.size

    def read(rows: NDArray[np.intp]) -> Tensor:
        tensor = torch.empty((len(rows), height, width, 3), dtype=torch.uint8, pin_memory=pin)
        pixels.batch(rows, out=tensor.numpy())
        return tensor

    yield from read_in_order(read, batches, 1)


def batches_of(rows: range, batch: int) -> list[range]:
    """Consecutive parts of some rows, all of ``batch`` rows but the last."""
    return [rows[start : start + batch] for start in range(0, len(rows), batch)]


def read_in_order(read: Callable[[T], R], items: Sequence[T], readers: int) -> Iterator[R]:
    """Results in the order of items, computed by threads at most a few items ahead."""
    rest = iter(items)
    with ThreadPoolExecutor(readers) as pool:
        waiting: deque[Future[R]] = deque(
            pool.submit(read, item) for item in islice(rest, readers + _AHEAD)
        )
        while waiting:
            yield waiting.popleft().result()
            for item in islice(rest, 1):
                waiting.append(pool.submit(read, item))


def chunks(pixels: NDArray[np.uint8], device: str) -> Iterator[NDArray[np.uint8]]:
    """Images that a device computes at once: all, or a few of them on a CPU."""
    step = _CHUNK if device == "cpu" else len(pixels)
    yield from (pixels[start : start + step] for start in range(0, len(pixels), step))


def forward(
    function: Callable[[NDArray[np.uint8]], Tensor], pixels: NDArray[np.uint8], device: str
) -> NDArray[np.floating]:
    """Values (n, d) of a function of pixels, uint8 (m, height, width, 3) -> tensor (m, d), without
    gradients: on a CPU a few images at a time.
    """
    import torch

    with torch.inference_mode():
        parts = [function(chunk) for chunk in chunks(pixels, device)]
        values: NDArray[np.floating] = torch.cat(parts).cpu().numpy()
    return values
