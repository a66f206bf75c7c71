"""Intervals: the bootstrap, images resampled alike for every run, task and subset; Wilson's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.metrics import Weights

__all__ = ["LEVEL", "MOST_RESAMPLES", "BootstrapDraws", "intervals", "wilson"]

LEVEL = 0.95
MOST_RESAMPLES = 100_000
"""Their draws of 24,657 images fill 5 GB."""
_Z = 1.959963984540054
"""The normal distribution's quantile at (1 + LEVEL) / 2."""
_BLOCK = 64
"""Resamples at a time: their weights of 24,657 images fill 3 MB, and 13 MB as float64."""


class BootstrapDraws:
    """How often each of n images is drawn in each of many resamples of size n.

    Args:
        n: images of the split.
        resamples: how many.
        seed: of the draws; the first k resamples are the same whatever the number of resamples.
    """

    def __init__(self, n: int, resamples: int, seed: int) -> None:
        self.n, self.resamples, self._cancelled = n, resamples, False
        random = np.random.default_rng(seed)
        # an image is drawn once on average: more than 65,535 times is out of reach
        self._blocks: list[NDArray[np.uint16]] = []
        for start in range(0, resamples, _BLOCK):
            block = np.empty((min(_BLOCK, resamples - start), n), dtype=np.uint16)
            for row in block:
                row[:] = np.bincount(random.integers(0, n, n), minlength=n) if n else 0
            self._blocks.append(np.ascontiguousarray(block.T))

    def cancel(self) -> None:
        """Stop every iteration over ``weights``, in any thread, at the next block."""
        self._cancelled = True

    def weights(self, rows: NDArray[np.intp] | slice) -> Iterator[tuple[slice, Weights]]:
        """Blocks of resamples, and their counts of these images: (images, block size).

        They are uint16 where sums over all images are uint16, too, else float64. Not to be changed.
        """
        start = 0
        for block in self._blocks:
            if self._cancelled:
                raise CancelledError
            counts, end = block[rows], start + block.shape[1]
            yield slice(start, end), counts if self.n < 1 << 16 else counts.astype(np.float64)
            start = end


def intervals(
    replicates: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Percentile intervals of replicates (..., k): low, high, number of defined ones, each (...).

    NaN replicates are left out; where more than half are NaN, there is no interval (NaN).
    """
    shape, k = replicates.shape[:-1], replicates.shape[-1]
    # NaN sorts behind every number
    ordered = np.sort(replicates.reshape(-1, k), axis=1)
    defined = (~np.isnan(ordered)).sum(axis=1)
    bounds = []
    for quantile in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        # linear between neighbors, as in numpy's percentile
        at = np.maximum(defined - 1, 0) * quantile
        below = np.floor(at).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(defined - 1, 0))
        rows = np.arange(len(ordered))
        low, high = ordered[rows, below], ordered[rows, above]
        # equal ends may be infinite
        with np.errstate(invalid="ignore"):
            value = np.where(low == high, low, low + (high - low) * (at - below))
        bounds.append(np.where(2 * defined >= k, value, np.nan).reshape(shape))
    return bounds[0], bounds[1], defined.reshape(shape)


def wilson(
    shares: NDArray[np.float64], n: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's 95 % interval (1927) of shares of n images: low and high, in [0, 1], never equal.

    Args:
        shares: float64, in [0, 1]; NaN stays NaN.
        n: integers, or effective numbers; broadcast against them; NaN results where it is 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = _Z**2 / n
        middle = shares + weight / 2
        reach = np.sqrt(weight * (shares * (1 - shares) + weight / 4))
        low, high = (middle - reach) / (1 + weight), (middle + reach) / (1 + weight)
        # at 0 and at 1 the bound is the share itself, which rounding must not cross
        return np.where(shares == 0, 0.0, low), np.where(shares == 1, 1.0, high)
