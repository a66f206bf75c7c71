"""Samplers as row weights: how often each training row is drawn in an epoch, for heads that share one order of rows.

Drawing rows anew for each head would give each its own batches. In a pass of many heads a row keeps its place, and its loss is
multiplied by the number of times that it would have been drawn: the expected step is the same, the batch is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["balanced_weights", "drawn_counts", "expected_weights"]


def probabilities(groups: NDArray[np.integer], alpha: float) -> NDArray[np.float64]:
    """Chance of each group at each draw: a row's is proportional to (1 / w)^alpha, w the frequency of its group (Eq. 3)."""
    counts = np.bincount(groups).astype(np.float64)
    with np.errstate(divide="ignore"):
        mass = np.where(counts > 0, counts * (len(groups) / np.maximum(counts, 1)) ** alpha, 0.0)
    return np.asarray(mass / mass.sum())


def expected_weights(groups: NDArray[np.integer], alpha: float, of: NDArray[np.integer]) -> NDArray[np.float32]:
    """How often a row of each group of training is drawn on average, for rows of groups ``of``: float32 (len(of),)."""
    counts = np.bincount(groups, minlength=int(of.max(initial=0)) + 1)
    chance = np.zeros(len(counts))
    found = probabilities(groups, alpha)
    chance[: len(found)] = found
    weights = chance * len(groups) / np.maximum(counts, 1)
    return np.asarray(weights[of], dtype=np.float32)


def drawn_counts(groups: NDArray[np.integer], alpha: float, random: np.random.Generator) -> NDArray[np.float32]:
    """How often each of n rows is drawn in n draws with replacement: float32 (n,), summing to n."""
    drawn = random.multinomial(len(groups), probabilities(groups, alpha))
    counts = np.zeros(len(groups), dtype=np.float32)
    for group, number in enumerate(drawn):
        rows = np.flatnonzero(groups == group)
        if number:
            counts[rows] = np.bincount(random.integers(0, len(rows), number), minlength=len(rows))
    return counts


def balanced_weights(groups: NDArray[np.integer], random: np.random.Generator) -> NDArray[np.float32]:
    """Weights that keep as many rows of each group as the rarest one has, and no other: float32 (n,), with mean 1."""
    present = np.unique(groups)
    least = min(int((groups == group).sum()) for group in present)
    kept = np.concatenate([random.permutation(np.flatnonzero(groups == group))[:least] for group in present])
    weights = np.zeros(len(groups), dtype=np.float32)
    weights[kept] = len(groups) / len(kept)
    return weights
