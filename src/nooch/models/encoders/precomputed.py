"""Embeddings that were computed elsewhere: a file of image ids and vectors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, some_of
from nooch.data import Dataset, id_column, read_arrays, read_table

_ARRAYS = ("image_ids", "embeddings")
_ALLOWED = (
    "an .npz with arrays image_ids (n,) and embeddings (n, d), or a table with image_id "
    "and one column of lists or arrays, or numeric columns"
)


def load_embedding(path: str | Path, data: Dataset) -> NDArray[np.floating[Any]]:
    """Read the vectors of a dataset's images from a file that names the images.

    ``path``: ``.npz`` with ``image_ids`` and ``embeddings``, or a table (Parquet, CSV, TSV, JSON
    lines) with ``image_id`` and one list or array column, or numeric columns. A bare ``.npy`` is
    refused: it does not name the image of a row. Returns float32 (n_images, d), or float64 if
    the file has that; NaN for images not in the file.
    """
    file = open_embedding(path)
    rows = file.rows_of(data)
    if not (rows >= 0).any():
        raise file.stranger(data)
    return file.placed(rows, len(data))


@dataclass(frozen=True)
class EmbeddingFile:
    """A checked file of embeddings, from which the rows of a dataset or of its parts are taken.

    Attributes:
        path: the file.
        ids: images, unique.
        vectors: (n, d), finite; float64 or a type of fewer bits.
    """

    path: Path
    ids: pl.Series
    vectors: NDArray[Any]

    def rows_of(self, data: Dataset) -> NDArray[np.int64]:
        """Row in the dataset of each of the file's images, or -1, shape (n,)."""
        own = data.images.select("image_id", row=pl.int_range(pl.len()))
        requested = pl.DataFrame({"image_id": self.ids.cast(own["image_id"].dtype, strict=False)})
        joined = requested.join(own, on="image_id", how="left", maintain_order="left")
        rows = joined["row"].fill_null(-1).to_numpy()
        rows_known = rows[rows >= 0]
        if len(np.unique(rows_known)) != len(rows_known):
            # "7" and "007" are two texts and one image
            problem = "several ids mean the same image"
            raise InputError(problem, where=self.path, allowed="each image once")
        return rows

    def placed(self, rows: NDArray[np.int64], n_images: int) -> NDArray[np.floating[Any]]:
        """Vectors in a dataset's order, float32 or float64 (n_images, d); NaN where missing."""
        kind = np.float64 if self.vectors.dtype == np.float64 else np.float32
        placed = np.full((n_images, self.vectors.shape[1]), np.nan, dtype=kind)
        is_known = rows >= 0
        placed[rows[is_known]] = self.vectors[is_known]
        return placed

    def stranger(self, data: Dataset) -> InputError:
        """The error for a file that names none of a dataset's images."""
        problem = f"names none of the dataset's images, but {some_of(self.ids)}"
        allowed = f"ids such as {some_of(data.images['image_id'].head(3))}"
        return InputError(problem, where=self.path, allowed=allowed)


def open_embedding(path: str | Path) -> EmbeddingFile:
    """Read and check a file of embeddings. Raises InputError as ``load_embedding``."""
    path = Path(path)
    ids, vectors = _from_npz(path) if path.suffix == ".npz" else _from_table(path)
    is_matrix = vectors.shape == (len(ids), *vectors.shape[-1:])
    if vectors.dtype.kind not in "iuf" or not is_matrix or not vectors.size:
        problem = f"embeddings are {vectors.dtype} of shape {vectors.shape} for {len(ids)} images"
        raise InputError(problem, where=path, allowed=_ALLOWED)
    _check_values(path, ids, vectors)
    return EmbeddingFile(path, ids, vectors)


def _check_values(path: Path, ids: pl.Series, vectors: NDArray[Any]) -> None:
    twice = ids.filter(ids.is_duplicated()).unique().sort()
    if len(twice):
        problem = f"image ids occur more than once: {some_of(twice)}"
        raise InputError(problem, where=path, allowed="each image once")
    broken = ids.filter(pl.Series(~np.isfinite(vectors).all(axis=1)))
    if len(broken):
        raise InputError(
            f"{len(broken)} embeddings contain values that are not finite: images "
            f"{some_of(broken)}",
            where=path,
            allowed="finite numbers",
            remedy="leave out the rows of images that have no embedding",
        )


def _from_npz(path: Path) -> tuple[pl.Series, NDArray[Any]]:
    arrays = read_arrays(path, _ALLOWED)
    present = [name for name in _ARRAYS if name in arrays]
    if len(present) < len(_ARRAYS):
        problem = f"of the arrays needed it has {some_of(present) or 'none'}"
        raise InputError(problem, where=path, allowed=_ALLOWED)
    return id_column(arrays["image_ids"], f"{path}, image_ids"), arrays["embeddings"]


def _from_table(path: Path) -> tuple[pl.Series, NDArray[Any]]:
    if path.suffix == ".npy":
        raise InputError("does not name the image of a row", where=path, allowed=_ALLOWED)
    table = read_table(path)
    values = table.drop("image_id", strict=False)
    nested = [name for name, dtype in values.schema.items() if dtype.is_nested()]
    numbers = all(dtype.is_numeric() for dtype in values.dtypes)
    readable = values.width and (numbers or (nested and values.width == 1))
    if "image_id" not in table.columns or not readable:
        described = ", ".join(f"{name} ({dtype})" for name, dtype in table.schema.items())
        raise InputError(f"has columns {described}", where=path, allowed=_ALLOWED)
    # a null becomes NaN, which the check of the values names
    vectors = _unnested(path, values.to_series()) if nested else values.to_numpy()
    return id_column(table["image_id"], path), vectors


def _unnested(path: Path, column: pl.Series) -> NDArray[Any]:
    """A column of lists or arrays as (n, d)."""
    lists = column if column.dtype == pl.List else column.arr.to_list()
    inner = lists.dtype.inner if isinstance(lists.dtype, pl.List) else None
    lengths = lists.list.len()
    numeric = inner is not None and inner.is_numeric()
    if not numeric or lengths.null_count() or lengths.n_unique() > 1 or not len(lists):
        described = f"column {column.name} ({column.dtype})"
        problem = f"{described} contains no list of numbers of one length for each image"
        raise InputError(problem, where=path, allowed=_ALLOWED)
    return lists.explode().to_numpy().reshape(len(lists), -1)
