"""Logistic regressions of many labels on the same distinct rows of presences, with their counts.

Each minimizes over b and w, with z = b + w . x for a row x that n images have, k of them positive,

    sum over rows of (n log(1 + exp(z)) - k z) + |w|^2 / 2

by Newton's method. The Hessians of all regressions are one sparse product: pairs of columns x rows
times rows x regressions; one serves again while steps shrink tenfold. If the table is so wide that
products with vectors are cheaper, conjugate gradients solve for the steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, hstack

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_CHUNK = 4096
"""Rows at a time, so that what is computed of them stays in the CPU's cache."""
_WIDE = 30
"""Products with the presences that conjugate gradients take for a step, at most."""
_MOST_STEPS, _STEP, _SHRINKS, _RESIDUAL = 200, 1e-10, 0.1, 1e-3


def distinct_rows(x: csr_array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """One row of each kind, in an order that does not depend on theirs, and each row's kind."""
    x.sort_indices()
    entries, ends = x.indices.tobytes(), (x.indptr * x.indices.itemsize).tolist()
    keys = [entries[start:end] for start, end in pairwise(ends)]
    first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    kinds = {key: kind for kind, key in enumerate(sorted(first))}
    rows = np.array([first[key] for key in kinds], np.intp)
    return rows, np.array([kinds[key] for key in keys], np.intp)


class DistinctRows:
    """Distinct rows of presences, CSR float64 (n_rows, n_columns), to regress labels on."""

    def __init__(self, x: csr_array) -> None:
        x = csr_array(hstack([csr_array(np.ones((x.shape[0], 1))), x]))
        x.sort_indices()
        self.size = x.shape[1]
        self._penalty = np.append(0.0, np.ones(self.size - 1))[:, None]
        present = np.diff(x.indptr)
        explicit = (present * (present + 1.0) / 2).sum() + self.size**3 / 10
        self._is_wide = explicit > _WIDE * x.nnz
        starts = range(0, x.shape[0], _CHUNK)
        self._chunks = [
            (slice(start, start + _CHUNK), x[start : start + _CHUNK]) for start in starts
        ]
        self._pairs = [] if self._is_wide else [_pairs(part) for _, part in self._chunks]

    def fit(self, n: Floats, k: Floats, free: Mask, start: Floats | None = None) -> Floats:
        """Intercept b and weights w of each regression, float64 (1 + n_columns, n_regressions).

        Args:
            n: images that have each row, float64 (n_rows, n_regressions).
            k: number of positive images among these, in the same form; neither none nor all.
            free: columns that each regression uses, bool (n_columns, n_regressions).
            start: b and w of similar regressions; by default those without context.
        """
        free = np.concatenate([np.ones((1, n.shape[1]), bool), free])
        if start is None:
            start = np.zeros(free.shape)
            start[0] = np.log(k.sum(axis=0) / (n - k).sum(axis=0))
        found, live, w = start.copy(), np.arange(n.shape[1]), start
        gradient = self._gradient(w, n, k, free)
        inverse = np.empty((len(live), *(() if self._is_wide else (self.size, self.size))))
        stale, last = np.ones(len(live), bool), np.full(len(live), np.inf)
        for _ in range(_MOST_STEPS):
            if self._is_wide:
                step = self._solved(w, n, free, gradient)
            else:
                if stale.any():
                    inverse[stale] = np.linalg.inv(self._hessian(*_some(stale, w, n, free)))
                # alike for any number of regressions, so that they do not depend on each other
                columns = np.ascontiguousarray(gradient.T)[:, :, None]
                step = np.ascontiguousarray((inverse @ columns)[:, :, 0].T)
            w, gradient, halved = self._stepped(w, step, gradient, n, k, free)
            size = np.abs(step).max(axis=0)
            found[:, live], stale = w, halved | (size > _SHRINKS * last)
            left = size > _STEP
            if not left.any():
                break
            if not left.all():
                w, gradient, n, k, free = _some(left, w, gradient, n, k, free)
                live, stale, size, inverse = (a[left] for a in (live, stale, size, inverse))
            last = size
        return found

    def _stepped(
        self, w: Floats, step: Floats, gradient: Floats, n: Floats, k: Floats, free: Mask
    ) -> tuple[Floats, Floats, Mask]:
        """Weights after the step and their gradient, and which steps were halved since the
        function rises again at their end; they are changed.
        """
        slope, halved = _dots(step, gradient), np.zeros(w.shape[1], bool)
        new = self._gradient(w - step, n, k, free)
        while True:
            far = _dots(step, new) < -_SHRINKS * np.abs(slope)
            far &= (np.abs(step) > _STEP).any(axis=0)
            if not far.any():
                return w - step, new, halved
            halved |= far
            step[:, far] /= 2
            new[:, far] = self._gradient(*_some(far, w - step, n, k, free))

    def _gradient(self, w: Floats, n: Floats, k: Floats, free: Mask) -> Floats:
        total = self._penalty * w
        for rows, x in self._chunks:
            total += x.T @ (n[rows] * _probability(x @ w) - k[rows])
        total *= free
        return total

    def _variances(self, w: Floats, n: Floats) -> Iterator[Floats]:
        """The factors n p (1 - p) of each chunk."""
        for rows, x in self._chunks:
            p = _probability(x @ w)
            yield n[rows] * p * (1 - p)

    def _hessian(self, w: Floats, n: Floats, free: Mask) -> Floats:
        """The Hessians, (n_regressions, size, size); the identity in columns that are not used."""
        parts = zip(self._pairs, self._variances(w, n), strict=True)
        upper: Any = sum(pairs @ variance for pairs, variance in parts)
        half: Floats = upper.T.reshape(-1, self.size, self.size)
        diagonal = np.arange(self.size)
        own = half[:, diagonal, diagonal] + self._penalty.T
        full: Floats = (half + half.transpose(0, 2, 1)) * (free.T[:, :, None] & free.T[:, None, :])
        full[:, diagonal, diagonal] = np.where(free.T, own, 1)
        return full

    def _solved(self, w: Floats, n: Floats, free: Mask, gradient: Floats) -> Floats:
        """The Hessians' inverses times the gradients, by conjugate gradients."""
        variances = list(self._variances(w, n))
        parts = [(x, variance) for (_, x), variance in zip(self._chunks, variances, strict=True)]
        diagonal = self._penalty + sum(x.T @ variance for x, variance in parts)
        step, rest = np.zeros_like(gradient), gradient
        direction = rest / diagonal
        square = first = _dots(rest, direction)
        while (open_ := square > _RESIDUAL**2 * first).any():
            product = self._penalty * direction
            for x, variance in parts:
                product += x.T @ (variance * (x @ direction))
            product *= free
            along = np.divide(
                square, _dots(direction, product), out=np.zeros_like(square), where=open_
            )
            step, rest = step + along * direction, rest - along * product
            scaled = rest / diagonal
            before, square = square, _dots(rest, scaled)
            direction = (
                scaled
                + np.divide(square, before, out=np.zeros_like(square), where=open_) * direction
            )
        return step


def _pairs(x: csr_array) -> csc_array:
    """Pairs of columns that rows have, each pair once, float64 (n_columns ** 2, n_rows)."""
    entries = np.arange(x.nnz)
    after = x.indptr[1:].repeat(np.diff(x.indptr)) - entries
    starts = np.append(0, np.cumsum(after))
    first = entries.repeat(after)
    second = first + np.arange(len(first)) - starts[first]
    pairs = x.indices[first].astype(np.int64) * x.shape[1] + x.indices[second]
    shape = (x.shape[1] ** 2, x.shape[0])
    return csc_array((np.ones(len(pairs)), pairs, starts[x.indptr]), shape=shape)


def _some(columns: Mask, *arrays: Any) -> list[Any]:
    """These columns of each array."""
    return [np.compress(columns, array, axis=1) for array in arrays]


def _probability(z: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-z))


def _dots(a: Floats, b: Floats) -> Floats:
    """Products of columns, float64 (n_columns,), each summed alike for any number of them."""
    products: Floats = np.ascontiguousarray((a * b).T).sum(axis=1)
    return products
