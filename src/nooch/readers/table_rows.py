"""Rows of a table -> Dataset: what reading a table in one piece and in parts have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import ANNOTATED, CORE_COLUMNS, Dataset, check_file_names, identifiers, named_splits
from nooch.errors import InputError, check_one_of
from nooch.readers.image_files import ImageIndex
from nooch.readers.sums import Entries, summed

__all__ = [
    "Columns",
    "Layout",
    "Seen",
    "check_columns",
    "check_id_kind",
    "check_ids",
    "is_too_long",
    "put_together",
    "table_ids",
    "table_provenance",
]


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

    def kept(self, names: Iterable[str], taken: Sequence[str], path: Path) -> list[str]:
        """The attributes among a table's columns; ``taken`` are those that classes and areas are in.

        Raises:
            InputError: a name that nooch uses itself.
        """
        used = {self.id, self.split, *taken}
        kept = [c for c in names if c not in used] if self.attributes is None else [*dict.fromkeys(self.attributes)]
        clash = [c for c in kept if c in (*CORE_COLUMNS, *ANNOTATED) and not (c == self.file_name == "file_name")]
        if clash := [c for c in clash if c not in ("width", "height")]:
            raise InputError(
                f"columns {', '.join(clash)} have a name that nooch uses itself",
                where=path,
                remedy="say what they are (--id, --file-name, --split-column), rename them, or leave them out of --attributes",
            )
        return [c for c in kept if c != "file_name"]


@dataclass(frozen=True)
class Seen:
    """What is known of all rows before any is put together.

    Attributes:
        values: column -> its distinct values, in any order.
        nulls: column -> how many rows have no value.
    """

    values: dict[str, pl.Series]
    nulls: dict[str, int]

    @classmethod
    def of(cls, table: pl.DataFrame, columns: Sequence[str]) -> Seen:
        """What some columns of a table hold."""
        return cls({c: table[c].unique() for c in columns}, {c: table[c].null_count() for c in columns})


class Layout(Protocol):
    """How rows say what is in an image: one row for each image, or one for each (image, class)."""

    @property
    def area(self) -> str:
        """What areas are, for the provenance."""

    @property
    def columns(self) -> Sequence[str]:
        """Columns that classes and areas are in."""

    @property
    def named(self) -> Sequence[str]:
        """Those of them whose values name classes."""

    def check(self, names: Sequence[str], path: Path) -> None:
        """Raise where a column is missing."""

    def one_each(self, frame: pl.DataFrame, path: Path) -> pl.DataFrame:
        """What rows say of images, one row for each. Raises InputError where two rows say different things."""

    def classes(self, seen: Seen, path: Path) -> Any:
        """The classes of the whole table, as ``names_of`` and ``entries`` take them. Raises InputError."""

    def names_of(self, classes: Any) -> list[str]:
        """Their names, in order."""

    def entries(
        self, table: pl.DataFrame, rows: NDArray[Any], numbers: NDArray[Any], classes: Any, path: Path
    ) -> Entries:
        """What is present; ``rows`` is the image of each row, ``numbers`` its number in the whole table. Raises InputError."""

    def unknown(self, table: pl.DataFrame, rows: NDArray[Any], classes: Any) -> Entries | None:
        """Pairs that are stated as unknown, each with a 1; None where the table cannot state any."""


def check_columns(columns: Columns, names: Sequence[str], path: Path) -> None:
    """Raise a ParameterError where a column is named that a table does not have."""
    for name in (columns.id, columns.file_name, columns.split, *(columns.attributes or ())):
        if name is not None:
            check_one_of("column", name, names, owner=str(path))


def check_id_kind(kind: pl.DataType, columns: Columns, path: Path) -> None:
    """Raise an InputError where a column of this kind cannot hold ids."""
    if not kind.is_integer() and kind != pl.String:
        raise InputError(f"column {columns.id} holds {kind}", where=path, allowed="integers or text as image ids")


def check_ids(nulls: int, too_long: bool, columns: Columns, path: Path) -> None:
    """Raise an InputError where rows have no id, or numbers of more than 64 bits."""
    if nulls:
        raise InputError(f"{nulls} rows have no {columns.id}", where=path)
    if too_long:
        raise InputError(
            f"column {columns.id} holds numbers of more than 64 bits",
            where=path,
            remedy="write the ids with a letter in front, so that they are text",
        )


def is_too_long(ids: pl.Series) -> bool:
    """Whether some ids are integers of more than 64 bits."""
    return ids.dtype.is_integer() and not ids.drop_nulls().is_between(-(2**63), 2**63 - 1).all()


def table_ids(table: pl.DataFrame, columns: Columns, path: Path) -> pl.Series:
    """The image of each row: Int64 or String. Raises InputError for ids that are none."""
    ids = table[columns.id]
    check_ids(ids.null_count(), is_too_long(ids), columns, path)
    check_id_kind(ids.dtype, columns, path)
    return ids.cast(pl.Int64).alias("image_id") if ids.dtype.is_integer() else identifiers(ids.to_list())


def put_together(
    table: pl.DataFrame,
    ids: pl.Series,
    columns: Columns,
    layout: Layout,
    path: Path,
    index: ImageIndex | None,
    classes: Any = None,
    numbers: NDArray[Any] | None = None,
) -> tuple[Dataset, dict[str, int]]:
    """Rows, all of some images, as a Dataset without provenance, and the counts that ``table_provenance`` tells.

    Args:
        table: the rows, in the order of the whole table.
        ids: image of each row.
        columns: what the columns are.
        layout: what rows say.
        path: of the table, for errors.
        index: the image files, or None.
        classes: of the whole table; None where the rows are all of it.
        numbers: of the rows in the whole table, from 0; None where they are all of it.
    """
    frame = layout.one_each(_images(table, ids, columns, layout, path), path)
    if classes is None:
        classes = layout.classes(Seen.of(table, layout.named), path)
    order = pl.DataFrame({"image_id": frame["image_id"]}).with_row_index("row")
    rows = ids.to_frame().join(order, on="image_id", how="left", maintain_order="left")["row"].to_numpy()
    numbers = np.arange(table.height) if numbers is None else numbers
    names = layout.names_of(classes)
    shape = frame.height, len(names)
    areas, stated = (
        summed(layout.entries(table, rows, numbers, classes, path), shape),
        layout.unknown(table, rows, classes),
    )
    unknown = None if stated is None else summed(stated, shape)
    counts: dict[str, int] = {}
    if index is not None:
        files, counts["files"] = _located(frame, index)
        frame = frame.with_columns(files)
    root = None if index is None else str(index.root.resolve())
    try:
        return Dataset.build(frame, names, areas, image_root=root, unknown=unknown), counts
    except InputError as error:
        raise InputError(error.problem, where=path, allowed=error.allowed, remedy=error.remedy) from error


def table_provenance(
    path: Path, sha256: str | None, layout: Layout, counts: Mapping[str, int], n_images: int, images: object
) -> dict[str, Any]:
    """Where a dataset comes from that was read from a table; ``images`` is the folder of image files."""
    missing = counts.get("files", 0)
    return {
        "reader": "table",
        "area": layout.area,
        "sources": [{"role": "table", "file": path.name, "sha256": sha256}],
        "notes": [f"{missing} of {n_images} image files are not below {images}"] if missing else [],
    }


def _images(table: pl.DataFrame, ids: pl.Series, columns: Columns, layout: Layout, path: Path) -> pl.DataFrame:
    """What each row says of its image."""
    kept = columns.kept(table.columns, layout.columns, path)
    frame = pl.DataFrame([ids])
    if columns.file_name:
        names = table[columns.file_name].cast(pl.String).alias("file_name")
        check_file_names(names, path)
        frame = frame.with_columns(names)
    if columns.split:
        frame = frame.with_columns(named_splits(table[columns.split], columns.split_values, path))
    return frame.with_columns(table[c] for c in kept)


def _located(frame: pl.DataFrame, index: ImageIndex) -> tuple[pl.Series, int]:
    """Where the image files are, and how many are missing."""
    if "file_name" in frame.columns:
        names = frame["file_name"].to_list()
        found = [None if n is None else index.by_file_name(n) for n in names]
        listed = [f or n for f, n in zip(found, names, strict=True)]
    else:
        found = listed = [index.by_id(image_id) for image_id in frame["image_id"].to_list()]
    return pl.Series("file_name", listed, pl.String), sum(f is None for f in found)
