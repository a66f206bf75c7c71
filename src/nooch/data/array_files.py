"""Arrays as ``.npy`` files: written atomically, and read with one error for any fault."""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nooch.errors import InputError

__all__ = ["read_array", "write_array"]

# what numpy raises for files that are empty, cut off or no arrays, and for damaged headers
_BROKEN = (
    ValueError,
    OSError,
    EOFError,
    TypeError,
    SyntaxError,
    TokenError,
    MemoryError,
    OverflowError,
)


def write_array(path: Path, values: NDArray[Any]) -> None:
    """Write an array to a file of this very name.

    Raises:
        OSError: it cannot be written; the file is then removed.
    """
    try:
        with path.open("wb") as file:
            # not the file itself: with C's stdio a full disk at the last bytes goes unnoticed
            writer: Any = SimpleNamespace(write=file.write)
            np.save(writer, values, allow_pickle=False)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


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
        problem = f"cannot be read as an array: {reason}"
        raise InputError(problem, where=where, allowed="a .npy file of numbers or text") from error
    return values
