"""Batches of images through a network: read by threads a few batches ahead, worked on in parts that fit the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["batches_of", "forward", "read_in_order"]

T = TypeVar("T")
R = TypeVar("R")

# images that a processor works on at once: what they need stays small enough to be used again (see reuse_memory)
_CHUNK = 4
# batches that are read ahead, beyond one for each reader
_AHEAD = 3


def batches_of(rows: range, batch: int) -> list[range]:
    """Consecutive parts of some rows, all of ``batch`` rows but the last."""
    return [rows[start : start + batch] for start in range(0, len(rows), batch)]


def read_in_order(read: Callable[[T], R], items: Sequence[T], readers: int) -> Iterator[R]:
    """Results in the order of items, made by threads, a few items ahead and never more: memory stays bounded."""
    rest = iter(items)
    with ThreadPoolExecutor(readers) as pool:
        waiting: deque[Future[R]] = deque(pool.submit(read, item) for item in islice(rest, readers + _AHEAD))
        while waiting:
            yield waiting.popleft().result()
            for item in islice(rest, 1):
                waiting.append(pool.submit(read, item))


def forward(
    function: Callable[[NDArray[np.uint8]], Tensor], pixels: NDArray[np.uint8], device: str
) -> NDArray[np.floating]:
    """A function of pixels on a batch, without gradients: a few images at a time on a processor, all at once elsewhere.

    Args:
        function: pixels, uint8 (m, height, width, 3) -> tensor (m, d).
        pixels: uint8 (n, height, width, 3).
        device: where the function computes.

    Returns:
        Its values, (n, d).
    """
    import torch

    step = _CHUNK if device == "cpu" else len(pixels)
    with torch.inference_mode():
        parts = [function(pixels[i : i + step]) for i in range(0, len(pixels), step)]
        values: NDArray[np.floating] = torch.cat(parts).cpu().numpy()
    return values
