"""The bootstrap: images resampled alike for every run, task and subset, and its intervals."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from nooch.evaluation.metrics import Weights
from nooch.evaluation.metrics.proportions import LEVEL, wilson

FEWEST = 20
"""Number of images below which percentiles cover far less than 95%: .72 to .92 of AUC and NLL."""
RESAMPLES = 1000
"""By default."""
MOST_RESAMPLES = 100_000
"""Their draws of 24,657 images fill 5 GB."""
_BLOCK = 64
"""Resamples at a time: their weights of 24,657 images fill 3 MB, and 13 MB as float64."""


class BootstrapDraws:
    """Seeded draws of many resamples: how often each of n images is drawn, or its group.

    Args:
        n: images of the split.
        resamples: how many.
        seed: seed of the draws; the first k resamples are the same for any number of resamples.
        units: integers (n,), the group of each image, which is drawn whole; None: each is one.
    """

    def __init__(
        self, n: int, resamples: int, seed: int, units: NDArray[np.int64] | None = None
    ) -> None:
        self.n, self.resamples, self._cancelled, self._most = n, resamples, False, n
        random, m, unit = np.random.default_rng(seed), n, np.arange(n)
        if units is not None and n:
            unit = np.unique(units, return_inverse=True)[1]
            m = int(unit.max()) + 1
        # an image is drawn once on average: more than 65,535 times is out of reach
        self._blocks: list[NDArray[np.uint16]] = []
        for start in range(0, resamples, _BLOCK):
            block = np.empty((min(_BLOCK, resamples - start), n), dtype=np.uint16)
            for row in block:
                row[:] = np.bincount(random.integers(0, m, m), minlength=m)[unit] if n else 0
                self._most = max(self._most, int(row.sum(dtype=np.int64)))
            self._blocks.append(np.ascontiguousarray(block.T))

    def cancel(self) -> None:
        """Stop every iteration over ``weights``, in any thread, at the next block."""
        self._cancelled = True

    def weights(self, rows: NDArray[np.intp] | slice) -> Iterator[tuple[slice, Weights]]:
        """Blocks of resamples, and their counts of these images: (images, block size).

        They are uint16 if sums over all images also are, else float64. Not to be changed.
        """
        start = 0
        for block in self._blocks:
            if self._cancelled:
                raise CancelledError
            counts, end = block[rows], start + block.shape[1]
            yield slice(start, end), counts if self._most < 1 << 16 else counts.astype(np.float64)
            start = end


def intervals(
    replicates: NDArray[np.float64], n: NDArray[Any] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Percentile intervals of replicates (..., k): low, high, number of defined ones, each (...).

    NaN replicates are left out; where more than half are NaN, there is no interval (NaN). Resamples
    of n images vary too little, by n / (n - 1), and Student's quantile is the wider one: with ``n``
    the percentiles are further out by both (Hesterberg 2015, section 5.2).

    ``replicates``: float64 (..., k).
    """
    shape, k = replicates.shape[:-1], replicates.shape[-1]
    tail: Any = (1 - LEVEL) / 2
    if n is not None:
        freedom = np.maximum(np.broadcast_to(n, shape).reshape(-1), FEWEST) - 1.0
        tail = ndtr(np.sqrt(1 + 1 / freedom) * stdtrit(freedom, tail))
    # NaN sorts behind every number
    ordered = np.sort(replicates.reshape(-1, k), axis=1)
    defined = (~np.isnan(ordered)).sum(axis=1)
    bounds = []
    for quantile in (tail, 1 - tail):
        # linear between neighbors, as in numpy's percentile
        positions = np.maximum(defined - 1, 0) * quantile
        below = np.floor(positions).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(defined - 1, 0))
        rows = np.arange(len(ordered))
        low, high = ordered[rows, below], ordered[rows, above]
        # equal ends may be infinite
        with np.errstate(invalid="ignore"):
            value = np.where(low == high, low, low + (high - low) * (positions - below))
        bounds.append(np.where(2 * defined >= k, value, np.nan).reshape(shape))
        if n is not None:
            bounds[-1][np.broadcast_to(n, shape) < FEWEST] = np.nan
    return bounds[0], bounds[1], defined.reshape(shape)


Floats = NDArray[np.float64]


def auc_interval(
    auc: Floats, replicates: Floats, sizes: NDArray[Any], tasks: int = 1
) -> tuple[Floats, Floats]:
    """Wilson's interval of AUCs (n,), of the number of images whose share has their variance.

    The variance is the replicates' variance, plus the one of one more image of each label that
    outscores half of the others: of an AUC of 1 it is not 0. The quantile is Student's.

    ``auc``: float64 (n,); of an average over tasks their mean; ``replicates``: float64 (n, k);
    ``sizes``: (2, n), positives and negatives, for an average, of all tasks.
    """
    variance = _spread(replicates) ** 2
    variance += tasks * (auc - 0.5) ** 2 * (1 / (sizes + tasks) ** 2).sum(axis=0)
    smooth = ((sizes * auc + tasks / 2) / (sizes + tasks)).mean(axis=0)
    wider = _student(sizes.min(axis=0)) / ndtri((1 - LEVEL) / 2)
    # of scores that are all the same there is no variance
    with np.errstate(divide="ignore"):
        return wilson(auc, smooth * (1 - smooth) / variance / wider**2)


def nll_interval(nll: Floats, replicates: Floats, n: NDArray[Any]) -> tuple[Floats, Floats]:
    """The interval of means of losses (n,) on the scale of their logarithm, with Student's
    quantile; NaN where a loss is infinite, or all are 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        reach = -_student(n) * np.sqrt(n / (n - 1)) * _spread(replicates) / nll
        return nll * np.exp(-reach), nll * np.exp(reach)


def _student(n: NDArray[Any]) -> Floats:
    return np.asarray(stdtrit(np.maximum(n, 2) - 1.0, (1 - LEVEL) / 2))


def _spread(replicates: Floats) -> Floats:
    """Standard deviation of the defined replicates (n, k)."""
    defined = ~np.isnan(replicates)
    count = np.maximum(defined.sum(axis=-1), 1)
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, replicates, 0.0).sum(axis=-1) / count
        away = np.where(defined, replicates - mean[:, None], 0.0)
        return np.asarray(np.sqrt((away**2).sum(axis=-1) / count))
