"""Arrays as ``.npy`` files, embeddings of a dataset folder among them; one error for any fault."""

from __future__ import annotations

import io
import re
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.disk import make_folder
from nooch.base.errors import FormatError, InputError, ParameterError, unreadable
from nooch.base.files import replacing, write_array
from nooch.base.limits import MOST_RATIO, MOST_UNPACKED

_AGAIN = "write the dataset again"

UNREADABLE_ARRAY = (
    ValueError,
    OSError,
    EOFError,
    TypeError,
    SyntaxError,
    TokenError,
    MemoryError,
    OverflowError,
    RecursionError,
)
"""Exceptions of numpy for files that are empty, truncated or not arrays, and for bad headers."""


def read_array(source: Path | BinaryIO, *, mapped: bool = False) -> NDArray[Any]:
    """The array of a ``.npy`` file."""
    where, allowed = source if isinstance(source, Path) else None, "a .npy file of numbers or text"
    with unreadable(where, allowed, UNREADABLE_ARRAY, problem="cannot be read as an array"):
        if not isinstance(source, Path):
            values: NDArray[Any] = np.lib.format.read_array(source, allow_pickle=False)
        elif mapped:
            values = np.lib.format.open_memmap(source, mode="r")
        else:
            with source.open("rb") as file:
                values = np.lib.format.read_array(file, allow_pickle=False)
    return values


def check_embedding_name(name: str) -> str:
    """The name; ParameterError if it would be none of a file in the folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ParameterError(
            f"{name!r} cannot name an embedding", allowed="letters, digits, '.', '_' and '-'"
        )
    return name


def save_embedding(
    folder: Path, name: str, values: NDArray[np.floating[Any]], part: str = ""
) -> Path:
    """Write an embedding, or a part of one; return its file. Raises OSError if that fails."""
    check_embedding_name(name)
    path = folder / "embeddings" / (f"{name}/{part}.npy" if part else f"{name}.npy")
    make_folder(path.parent)
    with replacing(path) as partial:
        write_array(partial, values)
    return path


def load_embedding(
    folder: str | Path, name: str, n_images: int | None = None, content: bytes | None = None
) -> NDArray[Any]:
    """An embedding, mapped: float (n, d)."""
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


def embedding_precision(name: str) -> str:
    """``float32`` or ``bf16``, in which an embedding was computed, as its name ends; ``unknown``
    for other embeddings.

    Encoders of sentence-transformers name their embeddings ``...-fp32`` or ``...-bf16``, as earlier
    versions did.
    """
    return {"fp32": "float32", "bf16": "bf16"}.get(name.rpartition("-")[2], "unknown")


def in_main_memory(values: Any) -> Any:
    """A tensor detached and copied to main memory; anything else as it is."""
    for step in ("detach", "cpu"):
        values = getattr(values, step, lambda same=values: same)()
    return values


def float_array(values: Any) -> NDArray[np.float64]:
    """Float64 from anything array-like. Raises InputError if it contains no numbers."""
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
    raise InputError(f"values are not numbers: {problem}", allowed="an array (n_images, n_tasks)")


def box_arrays(
    boxes: Any, labels: Any, scores: Any, where: object
) -> tuple[pl.Series, NDArray[np.float64], NDArray[np.float64]]:
    """Labels (Int64 or String), scores (n,) and boxes (n, 4) of one image, of arrays, tensors or
    lists. Raises InputError for other shapes.
    """
    allowed = "boxes (n, 4), labels (n,) and scores (n,)"
    with unreadable(where, allowed, (TypeError, ValueError, OverflowError)):
        written, score = (np.asarray(float_array(part)) for part in (boxes, scores))
        names = in_main_memory(labels)
        names = names.tolist() if hasattr(names, "tolist") else list(names)
        names = [int(name) if isinstance(name, float) and name.is_integer() else name
                 for name in names]  # fmt: skip
    written = written.reshape(0, 4) if not written.size else written
    score = score.reshape(-1) if not score.size else score
    if written.shape != (len(names), 4) or score.shape != (len(names),):
        shapes = f"boxes {written.shape}, {len(names)} labels and scores {score.shape}"
        raise InputError(f"has {shapes}", where=where, allowed=allowed)
    if all(isinstance(name, str) for name in names):
        kind: Any = pl.String if names else pl.Int64
    elif all(type(name) is int and abs(name) < 1 << 31 for name in names):
        kind = pl.Int64
    else:
        raise InputError("has labels that are neither all numbers nor all names", where=where,
                         allowed=allowed)  # fmt: skip
    return pl.Series(names, dtype=kind), score, written


def read_arrays(path: str | Path, allowed: str) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` by name, or of an ``.npy``, whose name is empty.

    ``allowed`` describes, for errors, the expected content.
    """
    broken = (*UNREADABLE_ARRAY, RuntimeError, BadZipFile, zlib.error)
    # opened here: numpy leaves a file that is not an archive open
    with unreadable(path, allowed, broken), Path(path).open("rb") as file:
        arrays = np.load(file, allow_pickle=False)
        for member in arrays.zip.infolist() if hasattr(arrays, "zip") else ():
            size = member.file_size
            if size > max(MOST_UNPACKED, MOST_RATIO * member.compress_size):
                raise ValueError(f"{member.filename} would unpack to {size:,} bytes")
        members = {name: arrays[name] for name in getattr(arrays, "files", ())} or {"": arrays}
    # members of an archive that are not arrays come as bytes
    return {name: array for name, array in members.items() if isinstance(array, np.ndarray)}
