"""Tables -> Dataset: a row for each image with labels and attributes, or a row for each (image, class, area)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data import CORE_COLUMNS, Dataset, check_file_names, class_name, identifiers, named_splits, read_table
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.files import sha256_of
from nooch.readers.image_files import ImageIndex

__all__ = ["Columns", "read_long_table", "read_table_of_images"]


@dataclass(frozen=True)
class Columns:
    """Which column of a table is what.

    Attributes:
        id: image ids (integers or text).
        file_name: paths of the images, or None.
        split: split names, or None; ``split_values`` says what they mean where they are not the usual names.
        attributes: columns to keep as attributes; None keeps all that have no other part.
    """

    id: str
    file_name: str | None = None
    split: str | None = None
    split_values: Mapping[str, str] = field(default_factory=dict)
    attributes: Sequence[str] | None = None


def read_table_of_images(
    path: str | Path, columns: Columns, labels: Sequence[str], *, images: str | Path | None = None
) -> Dataset:
    """A table with one row for each image.

    A label column of 0/1 or true/false is one class, called after the column. Any other label column is one class for
    each of its values, called ``column=value``. Areas are unknown (NaN): CE refuses such a dataset with a clear error.

    Args:
        path: CSV, TSV, Parquet or JSON lines; a file or a folder of parts.
        columns: what the columns are.
        labels: label columns, at least one.
        images: folder below which the images lie.

    Raises:
        InputError: columns, ids, labels or splits that are missing, repeated or of the wrong kind.
    """
    path = Path(path)
    table = _read(path, columns)
    if not labels:
        raise ParameterError("no label column was given", allowed=", ".join(table.columns), remedy="give --label")
    frame = _images(table, columns, path, exclude=labels)
    if frame["image_id"].n_unique() != frame.height:
        twice = frame.filter(pl.col("image_id").is_duplicated())["image_id"].unique().sort()
        raise InputError(
            f"image ids occur more than once: {some_of(twice)}",
            where=path,
            remedy="for a row of each (image, class), name the class column with --class",
        )
    names, present = _presence(table, labels, path)
    areas = csr_array((np.full(len(present[0]), np.nan), present), shape=(frame.height, len(names)))
    return _dataset(frame, names, areas, path, images, area="unknown")


def read_long_table(
    path: str | Path,
    columns: Columns,
    class_column: str,
    area_column: str | None = None,
    *,
    images: str | Path | None = None,
) -> Dataset:
    """A table with one row for each (image, class): areas of the same pair add up.

    An image without any class has a row whose class is empty. Attributes must be the same in all rows of an image.

    Args:
        path: as for ``read_table_of_images``.
        columns: what the columns are.
        class_column: names of classes.
        area_column: areas as fractions of the image; without it areas are unknown.
        images: folder below which the images lie.

    Raises:
        InputError: negative or infinite areas; an image with two values of an attribute; and as for the other tables.
    """
    path = Path(path)
    table = _read(path, columns)
    for name in (class_column, *([area_column] if area_column else [])):
        check_one_of("column", name, table.columns, owner=str(path))
    frame = _images(table, columns, path, exclude=[c for c in (class_column, area_column) if c]).unique(
        maintain_order=True
    )
    if len(twice := frame.filter(pl.col("image_id").is_duplicated())["image_id"].unique().sort()):
        raise InputError(
            f"images have different attributes in different rows: {some_of(twice)}",
            where=path,
            allowed="the same attributes in every row of an image",
            remedy="keep the columns that belong to images with --attributes",
        )
    text = table[class_column].cast(pl.String).str.strip_chars()
    has_class = (text.is_not_null() & (text != "")).fill_null(value=False).to_numpy()
    names = sorted({class_name(t, path) for t in text.filter(pl.Series(has_class)).unique().to_list()})
    column = {name: i for i, name in enumerate(names)}
    columns_of = [column[class_name(t)] for t in text.filter(pl.Series(has_class)).to_list()]
    values = _areas(table, area_column, path)[has_class]
    row = pl.DataFrame({"image_id": frame["image_id"]}).with_row_index("row")
    joined = _ids(table, columns, path).to_frame().join(row, on="image_id", how="left", maintain_order="left")
    rows = joined["row"].to_numpy()[has_class]
    areas = csr_array((values, (rows, np.array(columns_of, dtype=np.int64))), shape=(frame.height, len(names)))
    return _dataset(frame, names, areas, path, images, area="given" if area_column else "unknown")


def _read(path: Path, columns: Columns) -> pl.DataFrame:
    table = read_table(path)
    wanted = [columns.id, columns.file_name, columns.split, *(columns.attributes or ())]
    for name in wanted:
        if name is not None:
            check_one_of("column", name, table.columns, owner=str(path))
    if not table.height:
        raise InputError("holds no row", where=path)
    return table


def _ids(table: pl.DataFrame, columns: Columns, path: Path) -> pl.Series:
    ids = table[columns.id]
    if ids.null_count():
        raise InputError(f"{ids.null_count()} rows have no {columns.id}", where=path)
    if ids.dtype.is_integer():
        if not ids.is_between(-(2**63), 2**63 - 1).all():
            raise InputError(f"column {columns.id} holds numbers of more than 64 bits", where=path, remedy=_AS_TEXT)
        return ids.cast(pl.Int64).alias("image_id")
    if ids.dtype != pl.String:
        raise InputError(f"column {columns.id} holds {ids.dtype}", where=path, allowed="integers or text as image ids")
    return identifiers(ids.to_list())


_AS_TEXT = "write the ids with a letter in front, so that they are text"


def _images(table: pl.DataFrame, columns: Columns, path: Path, exclude: Sequence[str]) -> pl.DataFrame:
    taken = {columns.id, columns.split, *exclude}
    kept = (
        [c for c in table.columns if c not in taken]
        if columns.attributes is None
        else [*dict.fromkeys(columns.attributes)]
    )
    clash = [c for c in kept if c in CORE_COLUMNS and not (c == columns.file_name == "file_name")]
    if clash := [c for c in clash if c not in ("width", "height")]:
        raise InputError(
            f"columns {', '.join(clash)} have a name that nooch uses itself",
            where=path,
            remedy="say what they are (--id, --file-name, --split-column), rename them, or leave them out of --attributes",
        )
    frame = pl.DataFrame([_ids(table, columns, path)])
    if columns.file_name:
        names = table[columns.file_name].cast(pl.String).alias("file_name")
        check_file_names(names, path)
        frame = frame.with_columns(names)
    if columns.split:
        frame = frame.with_columns(named_splits(table[columns.split], columns.split_values, path))
    return frame.with_columns(table[c] for c in kept if c != "file_name")


def _presence(
    table: pl.DataFrame, labels: Sequence[str], path: Path
) -> tuple[list[str], tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Class names, and (rows, columns) of what is present."""
    names: list[str] = []
    rows, columns = [], []
    for label in labels:
        check_one_of("column", label, table.columns, owner=str(path))
        values = table[label]
        if values.null_count():
            raise InputError(f"{values.null_count()} rows have no {label}", where=path, allowed="a label in every row")
        for name, present in _classes_of(label, values, path):
            rows.append(np.flatnonzero(present))
            columns.append(np.full(len(rows[-1]), len(names)))
            names.append(name)
    return names, (np.concatenate(rows), np.concatenate(columns))


def _classes_of(label: str, values: pl.Series, path: Path) -> list[tuple[str, NDArray[np.bool_]]]:
    if values.dtype.is_nested():
        raise InputError(
            f"label {label} holds lists or records",
            where=path,
            allowed="one value in each row",
            remedy="give a long table with a row for each (image, class), and --class",
        )
    if values.dtype.is_float():
        if not (values.is_finite() & (values == values.round())).all():
            raise InputError(
                f"label {label} holds fractions, NaN or infinity",
                where=path,
                allowed="0/1, or one value for each class",
            )
        values = values.cast(pl.Int64)
    distinct = values.unique().sort()
    text = {str(v).lower() for v in distinct.to_list()}
    for negative, positive in (("0", "1"), ("false", "true"), ("-1", "1")):
        if text <= {negative, positive}:
            return [(class_name(label, path), (values.cast(pl.String).str.to_lowercase() == positive).to_numpy())]
    return [(class_name(f"{label}={value}", path), (values == value).to_numpy()) for value in distinct.to_list()]


def _areas(table: pl.DataFrame, column: str | None, path: Path) -> NDArray[np.float64]:
    if column is None:
        return np.full(table.height, np.nan)
    try:
        values = table[column].cast(pl.Float64).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise InputError(f"column {column} holds {table[column].dtype}", where=path, allowed="numbers") from error
    wrong = np.flatnonzero((values < 0) | np.isinf(values))
    if len(wrong):
        raise InputError(
            f"row {wrong[0] + 1} has area {values[wrong[0]]}",
            where=path,
            allowed="fractions of the image, 0 and more; empty where unknown",
        )
    return values


def _dataset(
    frame: pl.DataFrame, names: Sequence[str], areas: csr_array, path: Path, images: str | Path | None, area: str
) -> Dataset:
    provenance: dict[str, Any] = {
        "reader": "table",
        "area": area,
        "sources": [{"role": "table", "file": path.name, "sha256": sha256_of(path) if path.is_file() else None}],
        "notes": [],
    }
    root = None
    if images is not None:
        index = ImageIndex(images)
        root = str(index.root.resolve())
        if "file_name" in frame.columns:
            found = [None if n is None else index.by_file_name(n) for n in frame["file_name"].to_list()]
            missing = sum(f is None for f in found)
            named = [f or n for f, n in zip(found, frame["file_name"].to_list(), strict=True)]
        else:
            named = [index.by_id(image_id) for image_id in frame["image_id"].to_list()]
            missing = sum(n is None for n in named)
        frame = frame.with_columns(pl.Series("file_name", named, pl.String))
        provenance["notes"] += [f"{missing} of {len(named)} image files are not below {images}"] if missing else []
    try:
        return Dataset.build(frame, names, areas, image_root=root, provenance=provenance)
    except InputError as error:
        raise InputError(error.problem, where=path, allowed=error.allowed, remedy=error.remedy) from error
