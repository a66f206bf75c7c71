"""Areas of the same image and class, added up the same way whatever else is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

__all__ = ["Entries", "summed"]

Entries = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]
"""Positions of rows, of columns, and values."""


def summed(entries: Entries, shape: tuple[int, int], *, ordered: bool = False) -> csr_array:
    """Sum entries of the same place as CSR, in an order that depends on their row alone.

    Args:
        entries: to be added up.
        shape: of the array.
        ordered: the columns of every row ascend already; entries of the same place are added up in
            their order.
    """
    rows, columns, values = entries
    listed = coo_array((values, (rows, columns)), shape=shape)
    # unless asked otherwise, entries are put in order also where all are: sums must not depend on
    # what other rows hold
    listed.has_canonical_format = True
    sums = listed.tocsr()
    sums.has_sorted_indices, sums.has_canonical_format = ordered, False
    sums.sum_duplicates()
    return csr_array(sums)
