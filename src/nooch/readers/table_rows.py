"""Rows of a table -> Dataset: the checks that all tables have in common, and images, splits and
image files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import ANNOTATED, CORE_COLUMNS, Dataset, check_file_names, named_splits
from nooch.errors import InputError, check_one_of
from nooch.readers.area_sums import Entries, summed
from nooch.readers.image_files import ImageIndex

__all__ = [
    "Columns",
    "Layout",
    "Rows",
    "Seen",
    "check_columns",
    "check_id_kind",
    "check_ids",
    "put_together",
    "table_provenance",
]


@dataclass(frozen=True)
class Columns:
    """Which column of a table is what.

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

    def kept(self, names: Iterable[str], taken: Sequence[str], path: Path) -> list[str]:
        """The attributes among a table's columns; ``taken`` are those that classes and areas are
        in.

        Raises:
            InputError: a name that nooch uses itself.
        """
        used = {self.id, self.split, *taken}
        kept = (
            [c for c in names if c not in used]
            if self.attributes is None
            else [*dict.fromkeys(self.attributes)]
        )
        clash = [
            c
            for c in kept
            if c in (*CORE_COLUMNS, *ANNOTATED) and not (c == self.file_name == "file_name")
        ]
        if clash := [c for c in clash if c not in ("width", "height")]:
            raise InputError(
                f"columns {', '.join(clash)} have a name that nooch uses itself",
                where=path,
                remedy=(
                    "say what they are (`id`, `file_name`, `split_column`), rename them, or leave"
                    " them out of `attributes`"
                ),
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


@dataclass(frozen=True)
class Rows:
    """All rows of some images, in the order of the whole table.

    Attributes:
        table: the columns that a dataset is made from.
        ids: image of each row, Int64 or String.
        numbers: of the rows in the whole table, from 0.
        images: the images, ascending.
    """

    table: pl.DataFrame
    ids: pl.Series
    numbers: NDArray[Any]
    images: pl.Series

    def positions(self) -> NDArray[Any]:
        """The image of each row, as its position among the images."""
        order = self.images.alias("image_id").to_frame().with_row_index("position")
        ids = self.ids.alias("image_id").to_frame()
        return ids.join(order, on="image_id", how="left", maintain_order="left")[
            "position"
        ].to_numpy()


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

    def check_repeated(self, frame: pl.DataFrame, first: NDArray[Any], path: Path) -> None:
        """Raise InputError where rows of an image may not be; ``first`` is the first row of the
        image of each row.
        """

    def classes(self, seen: Seen, path: Path) -> Any:
        """The classes of the whole table, as ``names_of`` and ``entries`` take them. Raises
        InputError.
        """

    def names_of(self, classes: Any) -> list[str]:
        """Their names, in order."""

    def entries(
        self,
        table: pl.DataFrame,
        rows: NDArray[Any],
        numbers: NDArray[Any],
        classes: Any,
        path: Path,
    ) -> Entries:
        """What is present; ``rows`` is the image of each row, ``numbers`` its number in the whole
        table. Raises InputError.
        """

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
        raise InputError(
            f"column {columns.id} holds {kind}", where=path, allowed="integers or text as image ids"
        )


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


def put_together(
    rows: Rows, columns: Columns, layout: Layout, path: Path, index: ImageIndex | None, classes: Any
) -> tuple[Dataset, dict[str, int]]:
    """Rows as a Dataset without provenance, and the counts that ``table_provenance`` tells.

    Args:
        rows: all rows of some images.
        columns: what the columns are.
        layout: what rows say.
        path: of the table, for errors.
        index: the image files, or None.
        classes: of the whole table.
    """
    positions = rows.positions()
    first = np.empty(len(rows.images), np.int64)
    # of an image's rows the first is written last
    first[positions[::-1]] = np.arange(len(positions))[::-1]
    every = _images(rows.table, rows.ids, columns, layout, path)
    layout.check_repeated(every, first[positions], path)
    frame = every[first]
    names = layout.names_of(classes)
    shape = frame.height, len(names)
    areas = summed(layout.entries(rows.table, positions, rows.numbers, classes, path), shape)
    stated = layout.unknown(rows.table, positions, classes)
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
    layout: Layout,
    counts: Mapping[str, int],
    n_images: int,
    images: object,
) -> dict[str, Any]:
    """Where a dataset comes from that was read from a table; ``images`` is the folder of image
    files.
    """
    missing = counts.get("files", 0)
    return {
        "reader": "table",
        "area": layout.area,
        "sources": [{"role": "table", "file": path.name, "sha256": sha256}],
        "notes": [f"{missing} of {n_images} image files are not below {images}"] if missing else [],
    }


def _images(
    table: pl.DataFrame, ids: pl.Series, columns: Columns, layout: Layout, path: Path
) -> pl.DataFrame:
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
