"""Three expected calibration errors over equal-width bins (paper, section 5; Guo et al., 2017)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nooch.metrics.pointwise import probabilities, said_positive, total_weight

__all__ = ["N_BINS", "bins_of", "ece", "ece_paper", "ece_top", "top_gaps"]

Floats = NDArray[np.float64]

N_BINS = 15


def ece(
    labels: NDArray[np.bool_],
    values: Floats,
    weights: Floats | None = None,
    *,
    scale: str = "logit",
    n_bins: int = N_BINS,
) -> float:
    """Expected calibration error of the probability of being positive.

    The sum over bins of |share of positives - mean probability| x the bin's share of images.

    Args:
        labels: bool (n,).
        values: float64 (n,), logits, or probabilities of being positive.
        weights: float64 (n,), 0 and more; each image counts once by default.
        scale: ``logit`` or ``probability``.
        n_bins: bins of equal width over [0, 1]; each contains its lower bound, and the last one 1.

    Raises:
        UndefinedError: no image.
    """
    p = probabilities(values, scale)
    return _binned(p, np.asarray(labels - p), weights, n_bins)


def ece_top(
    labels: NDArray[np.bool_],
    values: Floats,
    weights: Floats | None = None,
    *,
    scale: str = "logit",
    n_bins: int = N_BINS,
) -> float:
    """Expected calibration error of the answer: confidence max(p, 1 - p) against its accuracy.

    Arguments and errors are those of ``ece``; bins cover [0, 1]: those below 0.5 are empty.
    """
    p = probabilities(values, scale)
    confidence, difference = top_gaps(labels, p, said_positive(values, scale))
    return _binned(confidence, difference, weights, n_bins)


def ece_paper(
    labels: NDArray[np.bool_],
    values: Floats,
    weights: Floats | None = None,
    *,
    images: float,
    scale: str = "logit",
    n_bins: int = N_BINS,
) -> float:
    """``ece_top`` of a subset times its share of all images: the paper's Tables 17 and 18.

    The paper says only "ECE". Its numbers fit this quantity and no other (docs/results.md). It
    grows with the size of the subset: compare methods on one subset with it, never subsets.

    Arguments and errors are those of ``ece``, and:
        images: number, or total weight, of all images of the set (criterion, task, split).
    """
    top = ece_top(labels, values, weights, scale=scale, n_bins=n_bins)
    return top * total_weight(len(labels), weights) / images


def top_gaps(
    labels: NDArray[np.bool_], p: Floats, positive: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Confidence of each answer, and correctness (0, 1) minus that; float64 (n,) each."""
    confidence = np.maximum(p, 1 - p)
    return confidence, np.asarray((positive == labels) - confidence)


def bins_of(p: Floats, n_bins: int = N_BINS) -> NDArray[np.int64]:
    """Bin of each probability, int64 (n,), with bounds ``linspace(0, 1, n_bins + 1)``."""
    bounds = np.linspace(0, 1, n_bins + 1)
    guess = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    # the product may be rounded over a bound
    guess -= p < bounds[guess]
    return np.asarray(np.minimum(guess + (p >= bounds[guess + 1]), n_bins - 1))


def _binned(p: Floats, difference: Floats, weights: Floats | None, n_bins: int) -> float:
    weighted = difference if weights is None else difference * weights
    sums = np.bincount(bins_of(p, n_bins), weights=weighted, minlength=n_bins)
    return float(np.abs(sums).sum() / total_weight(len(p), weights))
