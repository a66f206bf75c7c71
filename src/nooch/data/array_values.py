"""Numbers that a user gives, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError

__all__ = ["float_array", "in_main_memory"]


def in_main_memory(values: Any) -> Any:
    """A tensor detached and copied to main memory; anything else as it is."""
    for step in ("detach", "cpu"):
        values = getattr(values, step, lambda same=values: same)()
    return values


def float_array(values: Any) -> NDArray[np.float64]:
    """Float64 from anything array-like. Raises InputError where it holds no numbers."""
    values = in_main_memory(values)
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":
        # NumPy has no such type
        values = values.float()
    try:
        array = np.asarray(values)
        # NumPy would read text as numbers and drop imaginary parts
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
        problem: object = f"they are {array.dtype}"
    except (TypeError, ValueError) as error:
        problem = error
    raise InputError(f"values are no numbers: {problem}", allowed="an array (n_images, n_tasks)")
