"""Areas and exceptions, sparse (n_images, n_classes), as tables with a row per pair, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data.coverage import KNOWN
from nooch.data.table_schema import dataset_error
from nooch.errors import some_of
from nooch.files import DATASET_MARKER, Place

__all__ = ["areas_table", "exceptions_table", "pairs_matrix", "rows_of"]


def areas_table(areas: csr_array, ids: pl.Series, classes: Sequence[str]) -> pl.DataFrame:
    """Areas as a table ``image_id, class, area``, a row for each stored entry."""
    return _entries(areas, ids, classes, "area", areas.data)


def exceptions_table(exceptions: csr_array, ids: pl.Series, classes: Sequence[str]) -> pl.DataFrame:
    """Exceptions as a table ``image_id, class, known``, a row for each pair."""
    return _entries(exceptions, ids, classes, "known", exceptions.data == KNOWN)


def _entries(
    pairs: csr_array, ids: pl.Series, classes: Sequence[str], name: str, values: NDArray[Any]
) -> pl.DataFrame:
    """Stored entries of a matrix (n_images, n_classes) as rows."""
    per_row = np.diff(pairs.indptr)
    return pl.DataFrame(
        {
            "image_id": ids.gather(np.repeat(np.arange(len(ids)), per_row)),
            "class": pl.Series(classes, dtype=pl.Enum(list(classes))).gather(pairs.indices),
            name: values,
        }
    )


def pairs_matrix(
    table: pl.DataFrame, values: NDArray[Any], ids: pl.Series, classes: Sequence[str], where: Place
) -> csr_array:
    """Values of pairs as CSR (n_images, n_classes), from a table with a row for each pair.

    Args:
        table: with the columns ``image_id`` and ``class``.
        values: one for each row.
        ids: of the images, ascending.
        classes: names in the order of the columns.
        where: the file, for errors.

    Raises:
        FormatError: other images or classes, a pair twice, or rows that are not sorted by image and
            class.
    """
    named = set(table["class"].unique().cast(pl.String))
    if named - set(classes) or len(set(classes)) != len(classes):
        raise dataset_error(f"{DATASET_MARKER} and {where.name} name other classes", where.parent)
    rows = rows_of(table["image_id"], ids, where)
    columns = table["class"].cast(pl.Enum(classes)).to_physical().to_numpy()
    if (np.diff(rows * max(1, len(classes)) + columns) <= 0).any():
        problem = "columns image_id and class are not in order"
        raise dataset_error(problem, where, "sorted by image, then class, each pair once")
    ends = np.cumsum(np.bincount(rows, minlength=len(ids)))
    return csr_array((values, columns, np.concatenate([[0], ends])), shape=(len(ids), len(classes)))


def rows_of(column: pl.Series, ids: pl.Series, where: Place) -> NDArray[np.int64]:
    """Rows of images by their ids, int64 (n,). Raises FormatError where there is no such image."""
    if column.dtype != ids.dtype:
        allowed = f"{ids.dtype}, as of the images"
        raise dataset_error(f"column image_id is {column.dtype}", where, allowed)
    # one look-up per image, not per row: rows of an image follow each other
    rows = ids.alias("value").to_frame().with_row_index("row")
    runs = column.rle().struct.unnest().join(rows, on="value", how="left", maintain_order="left")
    stray = runs["value"].filter(runs["row"].is_null())
    if len(stray):
        problem = "column image_id names images that the dataset does not hold here"
        raise dataset_error(
            f"{problem}: {some_of(stray.unique().sort())}", where, "ids of the images"
        )
    return np.repeat(runs["row"].cast(pl.Int64).to_numpy(), runs["len"].to_numpy())
