"""Mean losses of hard images for many thresholds at once (paper, Figs. 13 and 14)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["LossSweep", "hard_sums"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LossSweep:
    """Mean losses of hard images over thresholds.

    Attributes:
        grid: ``task, split, alpha, beta, hard_positives, hard_negatives, loss_positive,
            loss_negative``: how many images are hard by CE with these thresholds, and their mean
            NLL (natural logarithm), null where there is none. The task ``all tasks`` pools all hard
            pairs of image and task.
        tau: ``task, split, tau``, then the same columns, for the gist criterion.
    """

    grid: pl.DataFrame
    tau: pl.DataFrame

    def __repr__(self) -> str:
        return f"LossSweep({self.grid.height} points, {self.tau.height} of tau)"


def hard_sums(
    support: Floats, labels: NDArray[np.bool_], losses: Floats, thresholds: Floats
) -> Floats:
    """For each threshold the number of hard positives and negatives and the sums of their losses.

    Args:
        support: float64 (n,); images where it is NaN have no verdict.
        labels: bool (n,).
        losses: float64 (n,).
        thresholds: float64 (t,): hard positives lie strictly below, hard negatives strictly above.

    Returns:
        float64 (t, 4): hard positives, hard negatives, and the sums of the losses of either.
    """
    known = ~np.isnan(support)
    n_low, below = _below(support[labels & known], losses[labels & known], thresholds)
    n_high, above = _below(-support[~labels & known], losses[~labels & known], -thresholds)
    return np.stack([n_low, n_high, below, above], axis=1).astype(np.float64)


def _below(values: Floats, losses: Floats, thresholds: Floats) -> tuple[NDArray[np.intp], Floats]:
    """How many values lie strictly below each threshold, and the sums of their losses."""
    order = np.argsort(values, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(losses[order])])
    n = np.searchsorted(values[order], thresholds, "left")
    return n, sums[n]
