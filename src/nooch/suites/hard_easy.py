"""From support or phi to a mark for each image: hard, easy, or none; the same for all criteria."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import ParameterError

NONE, EASY, HARD = -1, 0, 1


@dataclass(frozen=True)
class Side:
    """The threshold of one side (positives or negatives) and how it came about.

    Attributes:
        threshold: hard positives are below it, hard negatives above it; None: none to state.
        tied: images on both sides of a matched cut have the same support, so that ids decided.
        missing: number of images short of the matched count.
    """

    threshold: float | None = None
    tied: bool = False
    missing: int = 0


UNKNOWN = Side()
"""A side without a threshold to state."""


@dataclass(frozen=True)
class Mark:
    """The verdict of a criterion on the images of a split.

    Attributes:
        codes: int8 (n_images,): HARD, EASY, or NONE if there is no notion of context.
        support: float64 (n_images,), or None for criteria without support.
        positive: the positives' threshold; ``negative`` the negatives'.
        by_cue: uint64 (n_images,), or None without cues; bit i: hard by the i-th cue.
    """

    codes: NDArray[np.int8]
    support: NDArray[np.float64] | None = None
    positive: Side = UNKNOWN
    negative: Side = UNKNOWN
    by_cue: NDArray[np.uint64] | None = None

    def __invert__(self) -> Mark:
        """Hard and easy swapped among the images that have a verdict."""
        return Mark(np.where(self.codes == NONE, NONE, 1 - self.codes).astype(np.int8))

    def __and__(self, other: Mark) -> Mark:
        """Hard where both are hard, easy where either is easy, else none (Kleene's logic)."""
        # NONE < EASY would let an unknown win over easy: rank easy lowest
        return Mark(_unrank(np.minimum(_rank(self.codes), _rank(other.codes))))

    def __or__(self, other: Mark) -> Mark:
        """Hard where either is hard; easy where both are easy; none where that leaves it open."""
        return Mark(_unrank(np.maximum(_rank(self.codes), _rank(other.codes))))


def mark_by_threshold(
    support: NDArray[np.float64],
    labels: NDArray[np.bool_],
    positive: float,
    negative: float,
    by_cue: NDArray[np.uint64] | None = None,
) -> Mark:
    """Hard positives: s < ``positive``; hard negatives: s > ``negative``; NaN has no verdict.

    ``support``: float64 (n_images,); ``labels``: bool (n_images,).
    """
    codes = np.where(labels, support < positive, support > negative).astype(np.int8)
    codes[np.isnan(support)] = NONE
    return Mark(codes, support, Side(positive), Side(negative), by_cue)


def mark_by_matching(
    support: NDArray[np.float64], labels: NDArray[np.bool_], n_positive: int, n_negative: int
) -> Mark:
    """Hard are the ``n_positive`` positives of lowest, ``n_negative`` negatives of highest support.

    Ties go to the earlier row, and rows are in the order of image ids. Each side's threshold is
    recorded as the midpoint between the last hard image and the next one.

    ``support``: float64 (n_images,), rows in the order of image ids; ``labels``: bool (n_images,).
    """
    if min(n_positive, n_negative) < 0:
        problem = f"counts to match are {n_positive} and {n_negative}"
        raise ParameterError(problem, allowed="at least 0")
    has_support = ~np.isnan(support)
    codes = np.where(has_support, EASY, NONE).astype(np.int8)
    low, positive = _lowest(support, np.flatnonzero(labels & has_support), n_positive)
    high, negative = _lowest(-support, np.flatnonzero(~labels & has_support), n_negative)
    codes[low] = HARD
    codes[high] = HARD
    if negative.threshold is not None:
        negative = replace(negative, threshold=-negative.threshold)
    return Mark(codes, support, positive, negative)


def mark_by_phi(phi: NDArray[np.bool_], unknown: NDArray[np.bool_] | None = None) -> Mark:
    """Marks of a criterion that marks images as out of context (paper, section 2).

    ``phi``: bool (n_images,); ``unknown``: images of unknown label, which have no verdict, bool
    (n_images,); or None.
    """
    codes = phi.astype(np.int8)
    return Mark(codes if unknown is None else np.where(unknown, NONE, codes).astype(np.int8))


def _lowest(
    values: NDArray[np.float64], rows: NDArray[np.intp], n: int
) -> tuple[NDArray[np.intp], Side]:
    order = rows[np.argsort(values[rows], kind="stable")]
    lowest, rest = order[:n], order[n:]
    missing = n - len(lowest)
    if not len(order):
        return lowest, Side(missing=missing)
    if not len(lowest):
        # nothing is below the lowest value: the strict rule then selects nothing, as wanted
        return lowest, Side(float(values[rest[0]]))
    last = float(values[lowest[-1]])
    following = float(values[rest[0]]) if len(rest) else None
    threshold = threshold_between(last, following)
    return lowest, Side(threshold, missing=missing, tied=last == following)


def threshold_between(last: float, following: float | None) -> float:
    """A threshold that ``last`` is below, and ``following``, the next larger value if any, is not:
    their midpoint.
    """
    if following is None:
        return float(np.nextafter(last, np.inf))
    middle = last + (following - last) / 2
    # between neighboring floats there is no middle: the upper one keeps the strict rule true
    return middle if middle > last else following


def _rank(codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """EASY 0, NONE 1, HARD 2."""
    return np.where(codes == NONE, 1, 2 * codes).astype(np.int8)


def _unrank(ranks: NDArray[np.int8]) -> NDArray[np.int8]:
    return np.choose(ranks, [EASY, NONE, HARD]).astype(np.int8)
