"""Arrays as ``.npy`` files: written whole or not at all, and read with one error for all that can
be wrong.
"""

from __future__ import annotations

import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nooch.errors import InputError

__all__ = ["read_array", "write_array"]

# what numpy raises for files that are empty, cut off or no arrays, and for headers that were
# damaged
_BROKEN = (
    ValueError,
    OSError,
    EOFError,
    TypeError,
    SyntaxError,
    tokenize.TokenError,
    MemoryError,
    OverflowError,
)


def write_array(path: Path, values: NDArray[Any]) -> None:
    """Write an array to a file of this very name.

    Raises:
        OSError: it cannot be written; the file is then removed.
    """
    done = False
    try:
        with path.open("wb") as file:
            # Not the file itself: numpy would write to it with C's stdio, and a disk that is full
            # at the last few bytes would go unnoticed.
            np.save(_Writer(file.write), values, allow_pickle=False)
        done = True
    finally:
        if not done:
            path.unlink(missing_ok=True)


class _Writer:
    """The only method of a file that numpy needs."""

    def __init__(self, write: Callable[[bytes], int]) -> None:
        self.write = write


def read_array(source: Path | BinaryIO, *, mapped: bool = False) -> NDArray[Any]:
    """The array of a ``.npy`` file.

    Args:
        source: the file, or its content.
        mapped: map the file (read-only) instead of reading it.

    Raises:
        InputError: the file cannot be read, is empty or damaged, or holds Python objects.
    """
    try:
        if not isinstance(source, Path):
            values: NDArray[Any] = np.lib.format.read_array(source, allow_pickle=False)
        elif mapped:
            values = np.lib.format.open_memmap(source, mode="r")
        else:
            with source.open("rb") as file:
                values = np.lib.format.read_array(file, allow_pickle=False)
    except _BROKEN as error:
        where = source if isinstance(source, Path) else None
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"cannot be read as an array: {reason}",
            where=where,
            allowed="a .npy file of numbers or text",
        ) from error
    return values
