"""AUC and average precision: one ranking of all images, then every subset of them from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from nooch.base.errors import UndefinedError

Floats = NDArray[np.float64]
Weights = NDArray[np.float64] | NDArray[np.uint16]


def auc(labels: NDArray[np.bool_], scores: Floats) -> float:
    """Area under the ROC curve: the chance that a positive outscores a negative, ties 1/2.

    ``labels``: bool (n,); ``scores``: float64 (n,), finite; larger means more likely positive. Only
    their order matters.
    """
    area = Ranking.of(labels, scores).areas(None)[0]
    if np.isnan(area):
        raise UndefinedError(
            "a ranking of one class has no area", allowed="at least one positive and one negative"
        )
    return area


def stable_order(values: Floats) -> NDArray[np.intp]:
    """``np.argsort(values, kind="stable")`` of float64 (n,) without NaN, 2 to 4 times as fast.

    A radix sort over 16-bit digits of the floats' bits: float32 outputs of models need two.
    """
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    # adding 0 makes -0.0 the 0.0 that it is equal to
    if np.array_equal(narrow, values):
        key = _ascending((narrow + np.float32(0)).view(np.int32), np.uint32(1 << 31))
    else:
        key = _ascending((values + 0.0).view(np.int64), np.uint64(1 << 63))
    # numpy sorts 16-bit integers by counting; a cast keeps the lowest 16 bits
    order = key.astype(np.uint16).argsort(kind="stable")
    for digit in range(1, key.itemsize // 2):
        part = (key >> key.dtype.type(16 * digit)).astype(np.uint16)
        order = order[part[order].argsort(kind="stable")]
    return order


def _ascending(bits: NDArray[Any], sign: Any) -> NDArray[Any]:
    """Unsigned integers in the order of the floats with these bits: negative ones inverted."""
    negative = (bits >> (8 * bits.itemsize - 1)).view(sign.dtype)
    return np.asarray(bits.view(sign.dtype) ^ (negative | sign))


@dataclass(frozen=True)
class Ranking:
    """Images of a task in ascending order of their scores.

    Attributes:
        order: intp (n,), rows in ascending order of score.
        labels: bool (n,), in that order.
        groups: int64 (n,), in that order: rows of one score share a number; None where no two do.
    """

    order: NDArray[np.intp]
    labels: NDArray[np.bool_]
    groups: NDArray[np.int64] | None

    @classmethod
    def of(cls, labels: NDArray[np.bool_], scores: Floats) -> Self:
        """Rank scores, float64 (n,) without NaN."""
        order = stable_order(scores)
        ranked = scores[order]
        rises = ranked[1:] != ranked[:-1]
        groups = None
        if not rises.all():
            groups = np.zeros(len(scores), dtype=np.int64)
            rises.cumsum(out=groups[1:])
        return cls(order, labels[order], groups)

    def areas(self, mask: NDArray[np.bool_] | None) -> tuple[float, float]:
        """AUC and average precision of the rows in ``mask``, or of all (None); NaN for one class.

        ``mask`` is bool (n,), ascending by score. Counts are integers until the last division.
        """
        labels, groups = self.labels, self.groups
        if mask is not None:
            positions = mask.nonzero()[0]
            labels, groups = labels[positions], None if groups is None else groups[positions]
        n, where = len(labels), labels.nonzero()[0]
        n_positive = len(where)
        if n_positive in {0, n}:
            return np.nan, np.nan
        # each positive's group of equal scores starts at ``start`` and ends before ``end``;
        # ``before`` and ``until`` count the positives up to there
        start, before = where, np.arange(n_positive)
        below_twice = 2 * int(where.sum()) - n_positive * (n_positive - 1)
        tied = _tied(groups, where)
        if groups is not None and len(tied):
            start, mine = where.copy(), groups[where[tied]]
            start[tied], end = groups.searchsorted(mine, "left"), groups.searchsorted(mine, "right")
            below_twice -= 2 * int((where[tied] - before[tied]).sum())
            before[tied], until = where.searchsorted(start[tied]), where.searchsorted(end)
            below_twice += int((start[tied] - before[tied] + end - until).sum())
        area = below_twice / (2 * n_positive * (n - n_positive))
        return area, float(((n_positive - before) / (n - start)).sum()) / n_positive

    def cells(self, positions: NDArray[np.intp]) -> tuple[NDArray[np.intp], int, NDArray[np.bool_]]:
        """The m scores of positives among the rows at ``positions``, and what lies between them."""
        groups = positions if self.groups is None else self.groups[positions]
        labels = self.labels[positions]
        has = np.zeros(len(self.order), dtype=bool)
        has[groups[labels]] = True
        number = has.cumsum()[groups]
        n_scores = int(has.sum())
        return np.where(labels, number - 1, n_scores + number), n_scores, has[groups] & ~labels


def _tied(groups: NDArray[np.int64] | None, where: NDArray[np.intp]) -> NDArray[np.intp]:
    """Which of the rows ``where`` share their group with another row."""
    if groups is None:
        return np.empty(0, dtype=np.intp)
    same = groups[1:] == groups[:-1]
    either = np.zeros(len(groups), dtype=bool)
    either[1:] = same
    either[:-1] |= same
    return np.asarray(either[where].nonzero()[0])


class SubsetAreas:
    """AUC and average precision of subsets of ranked images, under many weightings at once.

    One sparse product sums the weights of all subsets: of each positive score, of the negatives
    between two of them, and of the negatives that tie with one.

    Args:
        ranking: of all images.
        masks: subsets, each as for ``Ranking.areas``.
    """

    def __init__(self, ranking: Ranking, masks: Sequence[NDArray[np.bool_] | None]) -> None:
        self._sizes: list[tuple[int, NDArray[np.intp]]] = []
        rows, columns, start = [np.empty(0, np.intp)], [np.empty(0, np.intp)], 0
        n = len(ranking.order)
        for mask in masks:
            positions = np.arange(n) if mask is None else mask.nonzero()[0]
            cells, n_scores, tied = ranking.cells(positions)
            which, numbers = np.unique(cells[tied] - n_scores - 1, return_inverse=True)
            rows += [start + cells, start + 2 * n_scores + 1 + numbers]
            columns += [ranking.order[positions], ranking.order[positions[tied]]]
            self._sizes.append((n_scores, which))
            start += 2 * n_scores + 1 + len(which)
        places = np.concatenate(rows), np.concatenate(columns)
        self._sums = coo_array((np.ones(len(places[0]), np.uint8), places), (start, n)).tocsc()

    def __call__(self, weights: Weights) -> Floats:
        """AUC and average precision, float64 (2, n_masks, k); NaN where one class has no weight.

        ``weights``: (n, k), in the order of the scores that were ranked; a column is a weighting.
        Float64, 0 and more, or uint16, whose columns' sums are below 65,536.
        """
        sums, k = np.asarray(self._sums @ weights), weights.shape[1]
        areas, start = np.empty((2, len(self._sizes), k)), 0
        # fresh memory for each subset would take most of the time
        space = np.empty((max((n_scores for n_scores, _ in self._sizes), default=0), k))
        for row, (n_scores, which) in enumerate(self._sizes):
            bounds = np.cumsum([start, n_scores, n_scores + 1, len(which)])
            positive, negative, tied = (sums[a:b] for a, b in pairwise(bounds))
            areas[:, row] = _areas(positive, negative, tied, which, space[:n_scores])
            start = bounds[-1]
        return areas


def _areas(
    positive: Weights, negative: Weights, tied: Weights, which: NDArray[np.intp], space: Floats
) -> Floats:
    """AUC and average precision, (2, k), from weights by score.

    ``positive``: (m, k), of the positives of each score, ascending; ``space``: (m, k), overwritten.
    """
    kind = positive.dtype
    caught = positive[::-1].cumsum(axis=0, dtype=kind)[::-1]
    below = negative.cumsum(axis=0, dtype=kind)
    above = caught + (below[-1] - below[:-1])
    # at and above a score without weight there may be none: then it adds nothing
    least = 1 if kind == np.uint16 else np.finfo(np.float64).tiny
    precision = np.divide(caught, np.maximum(above, least, out=above), out=space)
    area, average, half = (
        np.einsum("mk,mk->k", *pair, dtype=np.float64)
        for pair in ((positive, below[:-1]), (positive, precision), (positive[which], tied / 2))
    )
    all_positive, all_negative = positive.sum(axis=0, dtype=np.float64), below[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        both = np.array([(area + half) / (all_positive * all_negative), average / all_positive])
    both[:, (all_positive == 0) | (all_negative == 0)] = np.nan
    return both
