"""Sums and cosines that do not depend on the order of images, nor on how they are divided into shards.

Floating-point addition depends on its order, so that two ways of sharding would give sums that differ in their last bits,
and a support that equals a threshold could fall on either side. Here numbers are cut into two pieces on fixed grids. Sums
of pieces are exact in float64 (in a block) and in int64 (in all), whatever the order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.errors import InputError

__all__ = ["BLOCK", "LARGEST", "ExactSums", "cosines", "group_sums"]

BLOCK = 1 << 16
"""Images that are summed at once: 2^16 numbers below 2^12 on a grid of 2^-25 have a sum below 2^53 steps."""

LARGEST = 4096.0
"""Numbers must be smaller than this."""

_HIGH, _LOW = 2.0**25, 2.0**58
_MOST = 1 << 62
_COARSE = 2.0**26


@dataclass(frozen=True)
class ExactSums:
    """Sums as whole numbers of steps: ``high`` of 2^-25 and ``low`` of 2^-58, int64 arrays of one shape.

    A number is rounded to a multiple of 2^-58 (3.5e-18) before it is summed, always in the same way; sums are exact.
    """

    high: NDArray[np.int64]
    low: NDArray[np.int64]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Self:
        """The sums that ``values`` gave: sums that were kept as float64, or zeros."""
        high = np.rint(values * _HIGH)
        return cls(high.astype(np.int64), np.rint((values - high / _HIGH) * _LOW).astype(np.int64))

    @property
    def values(self) -> NDArray[np.float64]:
        """The sums as float64."""
        return self.high / _HIGH + self.low / _LOW

    def __add__(self, other: ExactSums) -> ExactSums:
        total = ExactSums(self.high + other.high, self.low + other.low)
        if max(np.abs(part).max(initial=0) for part in (total.high, total.low)) >= _MOST:
            raise InputError("sums over images are too large to be kept exactly", allowed="fractions of the image")
        return total


def group_sums(presence: csr_array, values: csr_array | NDArray[np.floating[Any]], what: str) -> ExactSums:
    """``presence.T @ values``, exact.

    Args:
        presence: 1 where an image is in a group, CSR (n_images, n_groups).
        values: (n_images, n), dense or CSR, finite, below ``LARGEST`` in size.
        what: what the values are, for the error.

    Raises:
        InputError: values that are infinite or too large.
    """
    shape = (presence.shape[1], values.shape[1])
    total = ExactSums(np.zeros(shape, np.int64), np.zeros(shape, np.int64))
    for start in range(0, presence.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        # transposed once: the products with the two pieces share it
        groups, block = presence[rows].T.tocsr(), values[rows]
        numbers = np.asarray(block.data if isinstance(block, csr_array) else block, dtype=np.float64)
        if not np.all(np.abs(numbers) < LARGEST):
            raise InputError(f"{what} are infinite or too large", allowed=f"numbers below {LARGEST:g}")
        high = np.rint(numbers * _HIGH)
        low = np.rint((numbers - high / _HIGH) * _LOW)
        total += ExactSums(_product(groups, block, high), _product(groups, block, low))
    return total


def _product(groups: csr_array, block: Any, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    if isinstance(block, csr_array):
        product = groups @ csr_array((numbers, block.indices, block.indptr), shape=block.shape)
        return np.asarray(product.toarray()).astype(np.int64)
    return np.asarray(groups @ numbers).astype(np.int64)


def cosines(vectors: NDArray[np.float64], prototypes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Products of unit vectors, float64 (n, m): the same bits for a row whatever rows come with it.

    Within 1e-12 of the true product up to 4,096 dimensions.

    A matrix product adds in an order that depends on its shape. Unit vectors are cut into a piece on a grid of 2^-26 and
    a rest on a finer one, so fine that sums of products still fit into 53 bits: then no order can matter.

    Args:
        vectors: float64 (n, d), of length 1, or NaN.
        prototypes: float64 (m, d), of length 1.
    """
    # by Cauchy and Schwarz the mixed products below sum to less than sqrt(d) 2^-25; their grid is 2^-26 times this one
    fine = 2.0 ** (52 - math.ceil(math.log2(max(1, vectors.shape[1])) / 2))
    first, second = _pieces(vectors, fine)
    coarse, rest = _pieces(prototypes, fine)
    result: NDArray[np.float64] = first @ coarse.T
    # both mixed products in one: their sum is exact too; rest x rest is below d 2^-54 and left out
    result += np.hstack([first, second]) @ np.hstack([rest, coarse]).T
    return result


def _pieces(units: NDArray[np.float64], fine: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = np.rint(units * _COARSE) / _COARSE
    return first, np.rint((units - first) * fine) / fine
