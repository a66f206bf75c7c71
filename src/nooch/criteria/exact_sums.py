"""Sums and cosines that do not depend on the order of images or their division into shards.

Floating-point addition depends on its order: with other shards, sums would differ in their last
bits, and a support equal to a threshold could be on either side of it. Here numbers are cut into
two pieces on fixed grids. Sums of pieces are exact in float64 (in a block) and in int64 (in all),
in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.errors import InputError
from nooch.base.limits import limited_threads, usable_cpus

BLOCK = 1 << 16
"""Images summed at once: 2^16 numbers below 2^12 in steps of 2^-25 add up to below 2^53 steps."""

LARGEST = 4096.0
"""Numbers must be smaller than this."""

STEP = 512
"""Rows of dense arrays that are cut at once: few enough to stay in the CPU's cache."""

_HIGH, _LOW = 2.0**25, 2.0**58
_MOST = 1 << 62
_COARSE = 2.0**26

_Pieces = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Sums or numbers in coarse steps, and in fine ones."""


@dataclass(frozen=True)
class ExactSums:
    """Sums in steps, int64 arrays of one shape: ``high`` in steps of 2^-25, ``low`` of 2^-58.

    A number is rounded to a multiple of 2^-58 (3.5e-18) before it is summed; sums are exact.
    """

    high: NDArray[np.int64]
    low: NDArray[np.int64]

    @classmethod
    def from_values(cls, values: NDArray[np.float64]) -> Self:
        """The sums whose ``values`` these are, float64."""
        high = np.rint(values * _HIGH)
        return cls(high.astype(np.int64), np.rint((values - high / _HIGH) * _LOW).astype(np.int64))

    @property
    def values(self) -> NDArray[np.float64]:
        """The sums as float64."""
        return self.high / _HIGH + self.low / _LOW

    def __add__(self, other: ExactSums) -> ExactSums:
        total = ExactSums(self.high + other.high, self.low + other.low)
        if max(np.abs(part).max(initial=0) for part in (total.high, total.low)) >= _MOST:
            problem = "sums over images are too large to be kept exactly"
            raise InputError(problem, allowed="fractions of the image")
        return total


def presence_of(areas: csr_array) -> csr_array:
    """1 where an entry is stored, CSR float64 of the same shape."""
    ones = np.ones(len(areas.data))
    return csr_array((ones, areas.indices, areas.indptr), shape=areas.shape)


def group_sums(
    presence: csr_array, values: csr_array | NDArray[np.floating[Any]], what: str
) -> ExactSums:
    """``presence.T @ values``, exact: CSR (n_images, n_groups), 1 where an image is in a group, and
    (n_images, n), dense or CSR. Raises InputError for values that are infinite or not below
    ``LARGEST`` in size; ``what`` they are is for the error.
    """
    total = ExactSums.from_values(np.zeros((presence.shape[1], values.shape[1])))
    sums: Callable[..., _Pieces] = _sparse_sums if isinstance(values, csr_array) else _dense_sums
    for start in range(0, presence.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        high, low = sums(presence[rows], values[rows], what)
        total += ExactSums(high.astype(np.int64), low.astype(np.int64))
    return total


def _sparse_sums(presence: csr_array, values: csr_array, what: str) -> _Pieces:
    # transposed once: the products with the two pieces share it
    groups = presence.T.tocsr()

    def summed(piece: NDArray[np.float64]) -> NDArray[np.float64]:
        numbers = csr_array((piece, values.indices, values.indptr), shape=values.shape)
        sums: NDArray[np.float64] = (groups @ numbers).toarray()
        return sums

    with ThreadPoolExecutor(2) as pool:
        high, low = pool.map(summed, _cut(values.data, what))
    return high, low


def _dense_sums(presence: csr_array, values: NDArray[np.floating[Any]], what: str) -> _Pieces:
    shape = (presence.shape[1], values.shape[1])
    high, low = np.zeros(shape), np.zeros(shape)
    for start in range(0, presence.shape[0], STEP):
        rows = slice(start, start + STEP)
        groups = presence[rows].T
        coarse, fine = _cut(values[rows], what)
        high += groups @ coarse
        low += groups @ fine
    return high, low


def _cut(values: NDArray[np.floating[Any]], what: str) -> _Pieces:
    """Numbers as whole numbers of coarse steps, and of fine ones for the rest."""
    numbers = values.astype(np.float64)
    if not (numbers.max(initial=0.0) < LARGEST and numbers.min(initial=0.0) > -LARGEST):
        raise InputError(f"{what} are infinite or too large", allowed=f"numbers below {LARGEST:g}")
    high = numbers * _HIGH
    np.rint(high, out=high)
    numbers -= high / _HIGH
    numbers *= _LOW
    return high, np.rint(numbers, out=numbers)


def cosines(
    vectors: NDArray[np.floating[Any]], prototypes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Cosines of vectors with prototypes, float64 (n, m): each with the same bits in any batch.

    Within 1e-12 of the true product up to 4,096 dimensions.

    A matrix product adds in an order that depends on its shape. Unit vectors are cut into a piece
    on a grid of 2^-26 and a rest on a finer one, so fine that sums of products still fit into 53
    bits: then no order can matter.

    ``vectors``: (n, d); a row of zeros points nowhere, and like one with NaN it has cosines of NaN;
    ``prototypes``: float64 (m, d), of length 1.
    """
    d, m = vectors.shape[1], len(prototypes)
    # by Cauchy and Schwarz the mixed products sum to < sqrt(d) 2^-25; their grid is 2^-26 x this
    fine = 2.0 ** (52 - math.ceil(math.log2(max(1, d)) / 2))
    coarse, rest = np.empty_like(prototypes), prototypes.copy()
    cut_units(rest, coarse, fine)
    # the first pieces meet both pieces of the prototypes in one product
    both = np.vstack([coarse, rest])
    by_prototype = np.empty((m, len(vectors)))

    def fill(start: int) -> None:
        block = vectors[start : start + STEP]
        first, second = np.empty(block.shape), block / _lengths(block)
        cut_units(second, first, fine)
        product = both @ first.T
        # the sum of both mixed products is exact too; rest x rest is below d 2^-54 and left out
        mixed = product[m:] + coarse @ second.T
        np.add(product[:m], mixed, out=by_prototype[:, start : start + STEP])

    # small products: a thread for each is faster than several for one
    limit = limited_threads(1 if len(vectors) > STEP else None)
    with limit, ThreadPoolExecutor(usable_cpus()) as pool:
        list(pool.map(fill, range(0, len(vectors), STEP)))
    return by_prototype.T


def _lengths(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Lengths of vectors, float64 (n, 1); NaN for vectors of zeros."""
    lengths: NDArray[np.float64] = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    lengths[lengths == 0] = np.nan
    return lengths


def cut_units(units: NDArray[np.float64], first: NDArray[np.float64], fine: float) -> None:
    """Fill ``first`` with units on the coarse grid; leave the rest, on the fine grid, in place."""
    _round(units, _COARSE, first)
    units -= first
    _round(units, fine, units)


def _round(numbers: NDArray[np.float64], grid: float, out: NDArray[np.float64]) -> None:
    """Numbers as multiples of 1 / grid, half to even: add 1.5 x 2^52 steps, then subtract them."""
    steps = 1.5 * 2.0**52 / grid
    np.add(numbers, steps, out=out)
    out -= steps
