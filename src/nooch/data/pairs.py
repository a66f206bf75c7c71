"""Areas and exceptions, sparse (n_images, n_classes), as tables with a row for each (image, class) pair, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data.coverage import KNOWN, UNKNOWN, no_exceptions
from nooch.data.dataset import Dataset
from nooch.errors import FormatError
from nooch.files import DATASET_MARKER, Place

__all__ = ["areas_matrix", "areas_table", "exceptions_matrix", "exceptions_table"]


def areas_table(data: Dataset) -> pl.DataFrame:
    """Areas as a table ``image_id, class, area``, a row for each stored entry."""
    return _entries(data, data.areas, "area", data.areas.data)


def areas_matrix(table: pl.DataFrame, images: pl.DataFrame, classes: list[str], folder: Place) -> csr_array:
    """Areas as CSR (n_images, n_classes), from such a table. Raises FormatError where it names other images or classes."""
    return _matrix(table, images, classes, folder, "areas", table["area"].cast(pl.Float64).to_numpy())


def exceptions_table(data: Dataset) -> pl.DataFrame:
    """Exceptions as a table ``image_id, class, known``, a row for each pair; without any where there are none."""
    pairs = no_exceptions(data.areas.shape) if data.exceptions is None else data.exceptions
    return _entries(data, pairs, "known", pairs.data == KNOWN)


def exceptions_matrix(table: pl.DataFrame, images: pl.DataFrame, classes: list[str], folder: Place) -> csr_array:
    """Exceptions as CSR int8 (n_images, n_classes), from such a table. Raises FormatError as ``areas_matrix``."""
    values = np.where(table["known"].to_numpy(), KNOWN, UNKNOWN).astype(np.int8)
    return _matrix(table, images, classes, folder, "exceptions", values)


def _entries(data: Dataset, pairs: csr_array, name: str, values: NDArray[Any]) -> pl.DataFrame:
    """Stored entries of a matrix (n_images, n_classes) as rows."""
    per_row = np.diff(pairs.indptr)
    return pl.DataFrame(
        {
            "image_id": data.images["image_id"].gather(np.repeat(np.arange(len(data)), per_row)),
            "class": pl.Series(data.classes, dtype=pl.Enum(list(data.classes))).gather(pairs.indices),
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
