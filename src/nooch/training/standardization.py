"""Standardization of frozen features, so that one learning rate suits features of any scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONDITIONS = ("standardize", "none")
"""What is done to frozen features, and to steps, before heads are trained."""

BLOCK = 4096
"""Rows that are read at a time; sums depend on it in their last bits, so it is fixed."""

_ROUNDING = 1e-6
"""A column whose deviation is below this fraction of its mean is constant up to float32."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Standardized features: (features - mean) / scale.

    Attributes:
        mean: of each column on the training split, float64 (d,).
        scale: what each column is divided by, float64 (d,), above 0.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    def apply(self, features: NDArray[Any]) -> NDArray[np.float32]:
        """Standardized features, float32 (m, d)."""
        return np.asarray((features - self.mean) / self.scale, dtype=np.float32)

    def fold(self, heads: NDArray[np.float32]) -> NDArray[np.float32]:
        """Heads for features as they are, from heads for standardized ones, float32 (n, d + 1)."""
        weights = heads[:, :-1] / self.scale
        biases = heads[:, -1] - weights @ self.mean
        return np.column_stack([weights, biases]).astype(np.float32)


class Conditioned:
    """Standardized features (n, d) as an array of rows: what is asked for is read, nothing else."""

    def __init__(self, inputs: Any, scaling: Scaling) -> None:
        self._inputs, self._scaling, self.shape = inputs, scaling, inputs.shape

    def __getitem__(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        return self._scaling.apply(np.asarray(self._inputs[rows]))


def scaling_of(inputs: Any, rows: NDArray[np.intp]) -> Scaling:
    """Mean and scale of some rows (m,) of inputs (n, d): in one pass over them, in float64."""
    d = int(inputs.shape[1])
    count, mean, squares = 0, np.zeros(d), np.zeros(d)
    for start in range(0, len(rows), BLOCK):
        block = np.asarray(inputs[rows[start : start + BLOCK]], dtype=np.float64)
        own = block.mean(axis=0)
        away = own - mean
        total = count + len(block)
        # sums of squares about the mean so far; large means cost no digits (Chan et al., 1983)
        squares += ((block - own) ** 2).sum(axis=0) + away**2 * (count * len(block) / total)
        mean, count = mean + away * (len(block) / total), total
    sd = np.sqrt(squares / max(count, 1))
    varies = sd > _ROUNDING * np.abs(mean)
    # the mean squared norm of a row is 1, whatever the number of columns: so is the curvature
    scale = np.where(varies, sd, 1.0) * max(int(varies.sum()), 1) ** 0.5
    return Scaling(mean, scale)
