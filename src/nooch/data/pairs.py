"""Areas and exceptions, sparse (n_images, n_classes), as tables with a row for each (image, class) pair, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data.coverage import KNOWN, UNKNOWN
from nooch.errors import FormatError
from nooch.files import DATASET_MARKER, Place

__all__ = ["areas_matrix", "areas_table", "exceptions_matrix", "exceptions_table"]


def areas_table(areas: csr_array, ids: pl.Series, classes: Sequence[str]) -> pl.DataFrame:
    """Areas as a table ``image_id, class, area``, a row for each stored entry."""
    return _entries(areas, ids, classes, "area", areas.data)


def areas_matrix(table: pl.DataFrame, images: pl.DataFrame, classes: list[str], folder: Place) -> csr_array:
    """Areas as CSR (n_images, n_classes), from such a table. Raises FormatError where it names other images or classes."""
    return _matrix(table, images, classes, folder, "areas", table["area"].cast(pl.Float64).to_numpy())


def exceptions_table(exceptions: csr_array, ids: pl.Series, classes: Sequence[str]) -> pl.DataFrame:
    """Exceptions as a table ``image_id, class, known``, a row for each pair."""
    return _entries(exceptions, ids, classes, "known", exceptions.data == KNOWN)


def exceptions_matrix(table: pl.DataFrame, images: pl.DataFrame, classes: list[str], folder: Place) -> csr_array:
    """Exceptions as CSR int8 (n_images, n_classes), from such a table. Raises FormatError as ``areas_matrix``."""
    values = np.where(table["known"].to_numpy(), KNOWN, UNKNOWN).astype(np.int8)
    return _matrix(table, images, classes, folder, "exceptions", values)


def _entries(pairs: csr_array, ids: pl.Series, classes: Sequence[str], name: str, values: NDArray[Any]) -> pl.DataFrame:
    """Stored entries of a matrix (n_images, n_classes) as rows."""
    per_row = np.diff(pairs.indptr)
    return pl.DataFrame(
        {
            "image_id": ids.gather(np.repeat(np.arange(len(ids)), per_row)),
            "class": pl.Series(classes, dtype=pl.Enum(list(classes))).gather(pairs.indices),
            name: values,
        }
    )


def _matrix(
    table: pl.DataFrame, images: pl.DataFrame, classes: list[str], folder: Place, name: str, values: NDArray[Any]
) -> csr_array:
    if set(table["class"].cast(pl.String).unique()) - set(classes) or len(set(classes)) != len(classes):
        raise FormatError(
            f"{DATASET_MARKER} and {name}.parquet name other classes", where=folder, remedy="import the dataset again"
        )
    rows = images.select("image_id", row=pl.int_range(pl.len()))
    joined = table.join(rows, on="image_id", how="left", maintain_order="left")
    columns = joined["class"].cast(pl.Enum(classes)).to_physical().to_numpy()
    return csr_array((values, (joined["row"].to_numpy(), columns)), shape=(images.height, len(classes)))
