"""Rows on disk, sorted by image id, of which those of a range of ids are read and no others; each may carry a text.

Rows are a structured NumPy array whose first field is ``id``; texts lie one after another in a file beside it. Both are
mapped to find a range, so that what is read, and what is in memory, is the range.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.data.array_files import read_array, write_array

__all__ = ["ALL_IDS", "read_ids", "read_spill", "write_spill"]

ALL_IDS = (-(1 << 63), 1 << 63)
"""The range of all ids."""

_TEXT = [("at", "<i8"), ("bytes", "<i8")]


def write_spill(stem: Path, columns: dict[str, NDArray[Any]], texts: Sequence[bytes | None] | None = None) -> None:
    """Write rows; those of one id stay in the order in which they came.

    Args:
        stem: path without ending.
        columns: name -> values (n,), first ``id``, int64.
        texts: one for each row, or None for rows without any.
    """
    order = np.argsort(columns["id"], kind="stable")
    kinds = [(name, values.dtype.str) for name, values in columns.items()]
    rows = np.empty(len(order), kinds + (_TEXT if texts is not None else []))
    for name, values in columns.items():
        rows[name] = values[order]
    if texts is not None:
        # -1 stands for no text
        lengths = np.array([-1 if text is None else len(text) for text in texts], np.int64)[order]
        rows["bytes"], rows["at"] = lengths, np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
        with stem.with_suffix(".bin").open("wb") as file:
            file.writelines(texts[row] or b"" for row in order.tolist())
    write_array(stem.with_suffix(".npy"), rows)


def read_ids(stem: Path) -> NDArray[np.int64]:
    """The ids of all rows, ascending: int64 (n,)."""
    return np.array(read_array(stem.with_suffix(".npy"), mapped=True)["id"])


def read_spill(stem: Path, low: int, high: int) -> tuple[NDArray[Any], list[bytes | None]]:
    """Rows with ``low <= id < high``, by id, and their texts (none where rows have none)."""
    mapped = read_array(stem.with_suffix(".npy"), mapped=True)
    ids = mapped["id"]
    first = bisect_left(ids, low)
    rows = np.array(mapped[first : bisect_left(ids, high, first)])
    if "at" not in (rows.dtype.names or ()) or not len(rows):
        return rows, []
    with stem.with_suffix(".bin").open("rb") as file:
        begin = int(rows["at"][0])
        file.seek(begin)
        content = file.read(int(rows["at"][-1]) + max(int(rows["bytes"][-1]), 0) - begin)
    begins = (rows["at"] - begin).tolist()
    return rows, [None if n < 0 else content[a : a + n] for a, n in zip(begins, rows["bytes"].tolist(), strict=True)]
