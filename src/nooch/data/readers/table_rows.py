"""Rows of a table -> Dataset: the checks that all tables share; images, splits, image files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, check_one_of
from nooch.data import ANNOTATED, CORE_COLUMNS, Dataset, check_file_names, named_splits
from nooch.data.readers.image_files import ImageIndex
from nooch.data.readers.image_rows import Entries, summed

__all__ = [
    "Columns", "Seen", "TableLayout", "TableRows", "put_together", "table_provenance",
]  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns.

    Attributes:
        id: image ids (integers or text).
        file_name: paths of the images, or None.
        split: split names, or None; ``split_values`` says what they mean where they are not the
            usual names.
        attributes: columns to keep as attributes; None keeps all that have no other part.
    """

    id: str
    file_name: str | None = None
    split: str | None = None
    split_values: Mapping[str, str] = field(default_factory=dict)
    attributes: Sequence[str] | None = None

    def attribute_names(self, names: Iterable[str], taken: Sequence[str], path: Path) -> list[str]:
        """The attributes among a table's columns; ``taken`` hold classes and areas.

        Raises:
            InputError: a name that nooch uses itself.
        """
        used = {self.id, self.split, *taken}
        unused = [name for name in names if name not in used]
        columns = unused if self.attributes is None else [*dict.fromkeys(self.attributes)]
        reserved = {*CORE_COLUMNS, *ANNOTATED} - {"width", "height"}
        reserved -= {"file_name"} if self.file_name == "file_name" else set()
        if clash := [name for name in columns if name in reserved]:
            raise InputError(
                f"columns {', '.join(clash)} have a name that nooch uses itself",
                where=path,
                remedy="say what they are (`id`, `file_name`, `split_column`), rename them, or"
                " leave them out of `attributes`",
            )
        return [name for name in columns if name != "file_name"]

    def check(self, schema: Mapping[str, pl.DataType], path: Path) -> None:
        """Raise ParameterError for a missing column, InputError for one that cannot hold ids."""
        for sign, words in ((";", "semicolons"), ("\t", "tabs")):
            if len(schema) == 1 and sign in next(iter(schema)):
                raise InputError(
                    f"its columns are separated by {words}",
                    where=path,
                    allowed="commas in .csv, tabs in .tsv",
                    remedy="write it with commas, or call it .tsv if it has tabs",
                )
        for name in (self.id, self.file_name, self.split, *(self.attributes or ())):
            if name is not None:
                check_one_of("column", name, schema, owner=str(path))
        kind = schema[self.id]
        if not kind.is_integer() and kind != pl.String:
            allowed = "integers or text as image ids"
            raise InputError(f"column {self.id} holds {kind}", where=path, allowed=allowed)


@dataclass(frozen=True)
class Seen:
    """What is known of all rows before any is put together: the distinct values of columns, in any
    order, and how many rows have none.
    """

    values: dict[str, pl.Series]
    nulls: dict[str, int]


@dataclass(frozen=True)
class TableRows:
    """All rows of some images, in the order of the whole table, in which they have the ``numbers``
    from 0: ``ids`` are Int64 or String by row, ``images`` ascending.
    """

    table: pl.DataFrame
    ids: pl.Series
    numbers: NDArray[Any]
    images: pl.Series

    @cached_property
    def positions(self) -> NDArray[Any]:
        """The image of each row, as its position among the images."""
        order = self.images.alias("image_id").to_frame().with_row_index("position")
        ids = self.ids.alias("image_id").to_frame()
        joined = ids.join(order, on="image_id", how="left", maintain_order="left")
        return joined["position"].to_numpy()


class TableLayout(ABC):
    """How rows say what is in an image: one row for each image, or one for each (image, class)."""

    @property
    def area(self) -> str:
        """What areas are, for the provenance."""
        return "unknown"

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Columns that classes and areas are in."""

    @property
    def named(self) -> Sequence[str]:
        """Those of them whose values name classes."""
        return self.columns

    def check(self, names: Sequence[str], path: Path) -> None:
        """Raise ParameterError where a column is missing."""
        for name in self.columns:
            check_one_of("column", name, names, owner=str(path))

    @abstractmethod
    def check_repeated(self, frame: pl.DataFrame, first: NDArray[Any], path: Path) -> None:
        """Raise InputError for repeated rows; ``first`` is the first row of each row's image."""

    @abstractmethod
    def classes(self, seen: Seen, path: Path) -> Any:
        """The classes of the whole table, for ``names_of`` and ``entries``. Raises InputError."""

    @abstractmethod
    def names_of(self, classes: Any) -> list[str]:
        """Their names, in order."""

    @abstractmethod
    def entries(self, rows: TableRows, classes: Any, path: Path) -> Entries:
        """Positions of images and classes that are present, and areas. Raises InputError."""

    def unknown(self, rows: TableRows, classes: Any) -> Entries | None:
        """Pairs stated as unknown, each with a 1; None where the table cannot state any."""
        del rows, classes
        return None


def put_together(
    rows: TableRows,
    columns: Columns,
    layout: TableLayout,
    path: Path,
    index: ImageIndex | None,
    classes: Any,
) -> tuple[Dataset, dict[str, int]]:
    """All rows of some images as a Dataset without provenance, and counts for ``table_provenance``;
    ``path`` is for errors, ``classes`` are those of the whole table.
    """
    positions = rows.positions
    first = np.empty(len(rows.images), np.int64)
    # of an image's rows the first is written last
    first[positions[::-1]] = np.arange(len(positions))[::-1]
    every = _images(rows.table, rows.ids, columns, layout, path)
    layout.check_repeated(every, first[positions], path)
    frame = every[first]
    names = layout.names_of(classes)
    shape = frame.height, len(names)
    areas = summed(layout.entries(rows, classes, path), shape)
    stated = layout.unknown(rows, classes)
    unknown = None if stated is None else summed(stated, shape)
    counts: dict[str, int] = {}
    if index is not None:
        files, counts["files"] = _located(frame, index)
        frame = frame.with_columns(files)
    root = None if index is None else str(index.root.resolve())
    try:
        return Dataset.build(frame, names, areas, image_root=root, unknown=unknown), counts
    except InputError as error:
        raise InputError(
            error.problem, where=path, allowed=error.allowed, remedy=error.remedy
        ) from error


def table_provenance(
    path: Path,
    sha256: str | None,
    layout: TableLayout,
    counts: Mapping[str, int],
    n_images: int,
    images: object,
) -> dict[str, Any]:
    """Provenance of a dataset read from a table; ``images`` is the folder of image files."""
    missing = counts.get("files", 0)
    return {
        "reader": "table",
        "area": layout.area,
        "sources": [{"role": "table", "file": path.name, "sha256": sha256}],
        "notes": [f"{missing} of {n_images} image files are not below {images}"] if missing else [],
    }


def _images(
    table: pl.DataFrame, ids: pl.Series, columns: Columns, layout: TableLayout, path: Path
) -> pl.DataFrame:
    """What each row says of its image."""
    attributes = columns.attribute_names(table.columns, layout.columns, path)
    frame = pl.DataFrame([ids])
    if columns.file_name:
        names = table[columns.file_name].cast(pl.String).alias("file_name")
        check_file_names(names, path)
        frame = frame.with_columns(names)
    if columns.split:
        frame = frame.with_columns(named_splits(table[columns.split], columns.split_values, path))
    return frame.with_columns(table[c] for c in attributes)


def _located(frame: pl.DataFrame, index: ImageIndex) -> tuple[pl.Series, int]:
    """Where the image files are, and how many are missing."""
    if "file_name" in frame.columns:
        names = frame["file_name"].to_list()
        paths = index.by_file_names(names)
        listed = [path or name for path, name in zip(paths, names, strict=True)]
    else:
        paths = listed = [index.by_id(image_id) for image_id in frame["image_id"].to_list()]
    return pl.Series("file_name", listed, pl.String), paths.count(None)
