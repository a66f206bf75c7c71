"""Tables -> Dataset: a row for each image with labels, or for each (image, class, area)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nooch.data import Dataset
from nooch.data.readers.contract import read
from nooch.data.readers.table_layouts import LongTable, TableOfImages
from nooch.data.readers.table_reading import TableReading
from nooch.data.readers.table_rows import Columns

__all__ = ["Columns", "read_long_table", "read_table_of_images"]


def read_table_of_images(
    path: str | Path,
    columns: Columns,
    labels: Sequence[str],
    *,
    positive: Mapping[str, str] | None = None,
    images: str | Path | None = None,
) -> Dataset:
    """A table with one row for each image.

    A label column of 0/1 or true/false is one class, called after the column. Any other label
    column is one class for each of its values, called ``column=value``; with two texts, such as yes
    and no, only where ``positive`` says so. Areas are unknown (NaN): CE refuses such a dataset with
    a clear error.

    Args:
        path: CSV, TSV, Parquet or JSON lines; a file or a folder of parts.
        columns: what the columns are.
        labels: label columns, at least one.
        positive: label column -> the value that means present, or ``*``: each value is a class.
        images: folder below which the images lie.

    Raises:
        InputError: columns, ids, labels or splits that are missing, repeated or of the wrong kind.
    """
    return read(
        TableReading(Path(path), columns, TableOfImages(labels, positive or {})), images=images
    )


def read_long_table(
    path: str | Path,
    columns: Columns,
    class_column: str,
    area_column: str | None = None,
    *,
    images: str | Path | None = None,
) -> Dataset:
    """A table with one row for each (image, class): areas of the same pair add up.

    An image without any class has a row whose class is empty. Attributes must be the same in all
    rows of an image.

    Args:
        path: as for ``read_table_of_images``.
        columns: what the columns are.
        class_column: names of classes.
        area_column: areas as fractions of the image; without it areas are unknown. The word
            ``unknown`` as an area states that the class was not (completely) annotated in the
            image: it is neither present nor absent there.
        images: folder below which the images lie.

    Raises:
        InputError: negative or infinite areas; an image with two values of an attribute; and as for
            the other tables.
    """
    return read(
        TableReading(Path(path), columns, LongTable(class_column, area_column)), images=images
    )
