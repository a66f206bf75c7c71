"""Agreement of two sets of images, from counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["AGREEMENT", "agreement"]

AGREEMENT = ("jaccard", "precision", "recall", "kappa")


def agreement(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    both: NDArray[np.float64],
    images: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The measures of ``AGREEMENT``, float64 (4, ...); NaN where one is undefined.

    Precision is the share of the first set that the second has, too; recall that of the second set
    that the first has. Kappa is Cohen's (1960) of the two sets as marks on all images.

    Args:
        first: number of images in the first set, float64 (...).
        second: in the second set.
        both: in the two sets.
        images: of which the sets are subsets.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = (images - first - second + 2 * both) / images
        chance = (first * second + (images - first) * (images - second)) / images**2
        kappa = np.where(chance < 1, (observed - chance) / (1 - chance), np.nan)
        return np.stack([both / (first + second - both), both / first, both / second, kappa])
