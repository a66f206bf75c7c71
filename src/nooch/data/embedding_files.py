"""Files of embeddings in a dataset folder: written whole, mapped when they are read."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.data.array_files import read_array, write_array
from nooch.errors import FormatError, InputError, ParameterError
from nooch.files import Place

__all__ = ["check_embedding_name", "load_embedding", "save_embedding"]

_AGAIN = "write the dataset again"


def check_embedding_name(name: str) -> str:
    """The name; ParameterError where it would be none of a file in the folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ParameterError(
            f"{name!r} cannot name an embedding", allowed="letters, digits, '.', '_' and '-'"
        )
    return name


def save_embedding(
    folder: Path, name: str, values: NDArray[np.floating[Any]], part: str = ""
) -> Path:
    """Write an embedding, or a part of one; return its file. Raises OSError where that fails."""
    check_embedding_name(name)
    path = folder / "embeddings" / (f"{name}/{part}.npy" if part else f"{name}.npy")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    write_array(partial, values)
    partial.replace(path)
    return path


def load_embedding(
    folder: Place, name: str, n_images: int | None = None, content: bytes | None = None
) -> NDArray[Any]:
    """An embedding, mapped: float (n, d).

    Args:
        folder: the dataset folder.
        name: of the file.
        n_images: the number of rows that it must have.
        content: of the file, where it was fetched already.

    Raises:
        FormatError: it cannot be read, or has another number of rows.
    """
    try:
        values = (
            read_array(folder / name, mapped=True)
            if content is None and isinstance(folder, Path)
            else read_array(io.BytesIO(content or b""))
        )
    except InputError as error:
        raise FormatError(f"{name} {error.problem}", where=folder, remedy=_AGAIN) from error
    if values.dtype.kind != "f" or values.ndim != 2 or n_images not in (None, len(values)):
        raise FormatError(
            f"{name} has shape {values.shape} {values.dtype}, expected ({n_images}, d) of floats",
            where=folder,
            remedy=_AGAIN,
        )
    return values
