"""Embeddings that were computed elsewhere: a file of image ids and vectors."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, lacking, some_of
from nooch.base.words import counted
from nooch.data import Dataset, ImageNames, id_column, read_arrays, read_table
from nooch.data.image_names import IMAGE_COLUMNS
from nooch.data.table_files import listed_ids
from nooch.data.table_schema import folded

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
        columns: names of the columns of numbers that a table has them in.
    """

    path: Path
    ids: pl.Series
    vectors: NDArray[Any]
    columns: tuple[str, ...] = ()

    @property
    def read(self) -> str:
        """Summary such as "6 features: f0 to f5"."""
        names = self.columns
        shown = f": {names[0]} to {names[-1]}" if len(names) > 3 else f": {', '.join(names)}"
        return f"{counted(self.vectors.shape[1], 'feature')}{shown if names else ''}"

    def rows_of(self, data: Dataset) -> NDArray[np.int64]:
        """Row in the dataset of each of the file's images, or -1, shape (n,)."""
        own = data.images.select("image_id", row=pl.int_range(pl.len()))
        ids = self.ids.cast(own["image_id"].dtype, strict=False)
        if self.ids.dtype == pl.String and not ids.is_in(own["image_id"].implode()).any():
            ids = ImageNames.from_images(data.images).match(self.ids, self.path).ids
        requested = pl.DataFrame({"image_id": ids})
        joined = requested.join(own, on="image_id", how="left", maintain_order="left")
        rows = joined["row"].fill_null(-1).to_numpy()
        matched = rows[rows >= 0]
        if len(np.unique(matched)) != len(matched):
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
        problem = f"names no image of the dataset; its ids are {some_of(self.ids)}"
        allowed = f"ids such as {some_of(data.images['image_id'].head(3))}"
        return InputError(problem, where=self.path, allowed=allowed)


def open_embedding(path: str | Path, ids: Any = None) -> EmbeddingFile:
    """Read and check a file of embeddings. Raises InputError as ``load_embedding``.

    ``ids``: of the rows of an array that does not name them, or a file with one per line.
    """
    path = Path(path)
    listed, columns = listed_ids(ids), tuple[str, ...]()
    if listed is not None and path.suffix in {".npy", ".npz"}:
        ids, vectors = listed, _the_array(path)
    elif path.suffix == ".npz":
        ids, vectors = _from_npz(path)
    else:
        ids, vectors, columns = _from_table(path)
    is_matrix = vectors.shape == (len(ids), *vectors.shape[-1:])
    if vectors.dtype.kind not in "iuf" or not is_matrix or not vectors.size:
        problem = f"embeddings are {vectors.dtype} of shape {vectors.shape} for {len(ids)} images"
        raise InputError(problem, where=path, allowed=_ALLOWED)
    _check_values(path, ids, vectors)
    return EmbeddingFile(path, ids, vectors, columns)


_NO_FEATURES = {
    "label", "labels", "target", "targets", "y", "y_true", "gt", "class", "index", "idx", "row",
    "split", "fold", "group", "place", "env", "environment", "epoch", "seed", "",
}  # fmt: skip
"""Names of columns of numbers that are about images, and are not features."""


def check_features(file: EmbeddingFile, data: Dataset) -> None:
    """Raise InputError for columns that are not features: with names of classes, labels, splits and
    the like, unlike most of the others, or with the labels of a class as values.
    """
    stems = [re.sub(r"\d+$", "", name) for name in file.columns]
    usual, often = Counter(stems).most_common(1)[0] if stems else ("", 0)
    rows, wrong = file.rows_of(data), list[str]()
    known = rows >= 0
    labels = {name: data.labels(name, unknown=False)[rows[known]] for name in data.classes}
    names = {folded(name) for name in data.classes}
    for number, (name, stem) in enumerate(zip(file.columns, stems, strict=True)):
        same = list[str]()
        if len(np.unique(file.vectors[:1000, number])) == 2:
            high = file.vectors[known, number] > file.vectors[known, number].min()
            same = [of for of, y in labels.items() if np.array_equal(high, y)]
        if same:
            wrong.append(f"{name} (equals the labels of {same[0]})")
        elif folded(name) in _NO_FEATURES | names or name.lower().startswith("unnamed:"):
            wrong.append(name)
        elif stem != usual and 2 * often > len(stems) and often > 2:
            wrong.append(f"{name} (unlike {usual}0)")
    if wrong:
        problem = f"columns that are not features: {some_of(wrong)}"
        raise InputError(problem, where=file.path, allowed="image_id and features",
                         remedy="remove these columns from the file")  # fmt: skip


def _the_array(path: Path) -> NDArray[Any]:
    """The one array of numbers of a file."""
    arrays = read_arrays(path, "an array (n, d)")
    of_numbers = [a for a in arrays.values() if a.ndim == 2 and a.dtype.kind in "iuf"]
    if len(of_numbers) != 1:
        listed = some_of(f"{name or 'an array'} {a.dtype}{a.shape}" for name, a in arrays.items())
        problem = f"contains {len(of_numbers)} arrays (n, d) of numbers: {listed}"
        raise InputError(problem, where=path, allowed="one array (n, d)")
    return of_numbers[0]


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
    if missing := [name for name in _ARRAYS if name not in arrays]:
        raise lacking("array", missing, arrays, path, _ALLOWED)
    return id_column(arrays["image_ids"], f"{path}, image_ids"), arrays["embeddings"]


def _from_table(path: Path) -> tuple[pl.Series, NDArray[Any], tuple[str, ...]]:
    if path.suffix == ".npy":
        raise InputError("does not name the image of each row", where=path, allowed=_ALLOWED)
    table = read_table(path, names=IMAGE_COLUMNS)
    images = [name for name in table.columns if folded(name) in IMAGE_COLUMNS]
    if len(images) > 1:
        problem = f"columns {' and '.join(images)} could each name the images"
        raise InputError(problem, where=path, allowed=_ALLOWED, remedy="remove one of them")
    values = table.drop(images)
    nested = [name for name, dtype in values.schema.items() if dtype.is_nested()]
    numbers = all(dtype.is_numeric() for dtype in values.dtypes)
    readable = values.width and (numbers or (nested and values.width == 1))
    if not images or not readable:
        described = some_of((f"{name} ({dtype})" for name, dtype in table.schema.items()), 12)
        raise InputError(f"has columns {described}", where=path, allowed=_ALLOWED)
    # a null becomes NaN, which the check of the values names
    vectors = _unnested(path, values.to_series()) if nested else values.to_numpy()
    columns = () if nested else tuple(values.columns)
    return id_column(table[images[0]], path), vectors, columns


def _unnested(path: Path, column: pl.Series) -> NDArray[Any]:
    """A column of lists or arrays as (n, d)."""
    lists = column if column.dtype == pl.List else column.arr.to_list()
    inner = lists.dtype.inner if isinstance(lists.dtype, pl.List) else None
    lengths = lists.list.len()
    numeric = inner is not None and inner.is_numeric()
    if not numeric or lengths.null_count() or lengths.n_unique() > 1 or not len(lists):
        described = f"column {column.name} ({column.dtype})"
        problem = f"{described} needs lists of numbers, all of the same length"
        raise InputError(problem, where=path, allowed=_ALLOWED)
    return lists.explode().to_numpy().reshape(len(lists), -1)
