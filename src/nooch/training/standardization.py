"""Standardization of frozen features, so that one learning rate suits features of any scale."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from nooch.base.errors import InputError
from nooch.base.files import replace_file
from nooch.data import read_arrays
from nooch.training.network_state import arrays_as_bytes

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


def shared_scaling(file: Path | None, make: Callable[[], Scaling], d: int) -> Scaling:
    """A scaling of d columns that the first process that asks makes and keeps in a file, an
    ``.npz`` which all workers can read; None makes it here. A file of another number of columns,
    or one that cannot be read, is replaced.
    """
    if file is None:
        return make()
    with FileLock(file.with_suffix(".lock")):
        try:
            arrays = read_arrays(file, "mean and scale of features")
            scaling = Scaling(arrays["mean"], arrays["scale"])
            if scaling.mean.shape == scaling.scale.shape == (d,):
                return scaling
        except (InputError, KeyError):
            pass
        scaling = make()
        replace_file(file, arrays_as_bytes({"mean": scaling.mean, "scale": scaling.scale}))
        return scaling
