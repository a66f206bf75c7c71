"""The reading of a table of any size: what its rows hold together, and the rows of a range of
images as a Dataset.
"""

from __future__ import annotations

import io
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import polars as pl

from nooch.data import Dataset, ImageId, identifiers, named_splits
from nooch.data.disk_tables import table_files
from nooch.errors import InputError
from nooch.files import sha256_of
from nooch.plans import SplitPlan
from nooch.readers.reader_contract import Counter, ImageListing, Job, as_given, in_range, part_edges
from nooch.readers.table_files import Schema, TableFiles, common_schema, file_schema
from nooch.readers.table_rows import (
    Columns,
    Layout,
    Rows,
    Seen,
    check_columns,
    check_id_kind,
    check_ids,
    put_together,
    table_provenance,
)
from nooch.shared_types import Map, StepProgress

__all__ = ["ScannedTable", "TableReading"]

_ID, _ROW = "nooch:id", "nooch:row"
"""Columns of rows: the image, and the number in the whole table."""

_GROUP = 1 << 13
"""Rows of a part that are held until they are written."""

_SLICE = 1 << 20
"""Ids that are looked at at once."""


@dataclass(frozen=True)
class TableReading:
    """The reading of a table.

    Attributes:
        path: CSV, TSV, Parquet or JSON lines; a file, or a folder of part files.
        columns: what the columns are.
        layout: what a row says.
    """

    path: Path
    columns: Columns
    layout: Layout

    def files(self) -> list[tuple[str, Path]]:
        """The files."""
        return [("table", file) for file in table_files(self.path)]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError where there is no table. Whether a plan fits is known once columns are."""
        del plan
        table_files(self.path)

    def words(self) -> list[Any]:
        """What the columns are."""
        c = self.columns
        kept = None if c.attributes is None else list(c.attributes)
        what = [c.id, c.file_name, c.split, dict(c.split_values), kept]
        return [
            str(self.path.absolute()),
            type(self.layout).__name__,
            *what,
            [*self.layout.columns],
        ]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedTable:
        """What all rows hold together; with ``part_size``, rows on disk by part.

        Raises:
            ParameterError: columns that the table does not have.
            InputError: files, ids, labels or splits that are missing or of the wrong kind.
        """
        count = Counter(map, progress)
        given = [file for _, file in self.files()]
        files = [file.absolute() for file in given]
        with as_given((str(file), name) for file, name in zip(files, given, strict=True)):
            schemas = count.done(
                [_SchemaJob(folder, number, file) for number, file in enumerate(files)]
            )
        table = TableFiles(
            files, given, common_schema([_schema_of(content) for content in schemas], self.path)
        )
        self._check_columns(table.schema)
        look = _LookJob(folder, 0, table, self.columns.id, self._watched())
        sums = [_HashJob(folder, 0, self.path.absolute())] if self.path.is_file() else []
        found, *sha256 = count.done([look, *sums])
        classes = self.layout.classes(self._checked(found), self.path)
        scanned = ScannedTable(
            self, folder, table, found.has_number_ids, classes, sha256[0] if sums else None
        )
        if part_size is None or len(ids := scanned.ids()) <= part_size:
            return scanned
        return scanned.divided(ids, part_size, count)

    def _check_columns(self, schema: Schema) -> None:
        """Raise where columns are missing, or cannot be what they are said to be."""
        names = list(schema)
        check_columns(self.columns, names, self.path)
        self.layout.check(names, self.path)
        check_id_kind(schema[self.columns.id], self.columns, self.path)
        self.columns.kept(names, self.layout.columns, self.path)

    def _watched(self) -> list[str]:
        """Columns of which all values must be known."""
        split = [self.columns.split] if self.columns.split else []
        return list(dict.fromkeys([*split, *self.layout.named]))

    def _checked(self, found: _Found) -> Seen:
        """What all rows hold. Raises InputError where no dataset can be made from it."""
        if not found.rows:
            raise InputError("holds no row", where=self.path)
        check_ids(found.nulls[self.columns.id], found.has_long_ids, self.columns, self.path)
        values = {
            name: pl.read_ipc(io.BytesIO(content))[name] for name, content in found.values.items()
        }
        if split := self.columns.split:
            named_splits(values[split], self.columns.split_values, self.path)
        return Seen(values, found.nulls)

    def used(self, names: Sequence[str]) -> list[str]:
        """Columns that a dataset is made from, but for the ids."""
        c = self.columns
        taken = [
            *self.layout.columns,
            *([c.file_name] if c.file_name else []),
            *([c.split] if c.split else []),
        ]
        kept = c.kept(names, self.layout.columns, self.path)
        return [name for name in names if name in {*taken, *kept}]


@dataclass(frozen=True)
class ScannedTable:
    """A table of which all is known that no part of it tells.

    Attributes:
        reading: what was asked for.
        folder: of intermediate files.
        table: the files.
        has_number_ids: whether ids are integers, also where they are written as text.
        known: classes, as the layout knows them.
        sha256: of the file; None for a folder.
        lows: rows are on disk by part: the first id of each part but the first.
    """

    reading: TableReading
    folder: Path
    table: TableFiles
    has_number_ids: bool
    known: Any
    sha256: str | None
    lows: Sequence[ImageId] = ()

    @property
    def classes(self) -> list[str]:
        """Names of the classes of all rows."""
        return self.reading.layout.names_of(self.known)

    def ids(self) -> pl.Series:
        """Ids of all images, ascending."""
        return self._ids(None, None)

    def _ids(self, low: ImageId | None, high: ImageId | None) -> pl.Series:
        kept = pl.scan_parquet(_ids_file(self.folder), glob=False)
        return kept.filter(in_range("image_id", low, high)).collect()["image_id"]

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``. Raises InputError for rows that are refused."""
        reading = self.reading
        table = self._rows(low, high)
        rows = Rows(
            table.drop(_ID, _ROW),
            table[_ID].alias("image_id"),
            table[_ROW].to_numpy(),
            self._ids(low, high),
        )
        index = None if images is None else images.index(_wanted(rows, reading.columns.file_name))
        return put_together(rows, reading.columns, reading.layout, reading.path, index, self.known)

    def _rows(self, low: ImageId | None, high: ImageId | None) -> pl.DataFrame:
        """The rows of a range of ids, in the order of the whole table."""
        if not self.lows:
            return self.table.read(
                lambda rows: self.numbered(rows).filter(in_range(_ID, low, high)).collect()
            )
        first = 0 if low is None else bisect_right(self.lows, low)
        last = len(self.lows) if high is None else bisect_left(self.lows, high)
        files = [
            file for n in range(first, last + 1) for file in _part_folder(self.folder, n).iterdir()
        ]
        rows = pl.scan_parquet(files, glob=False, hive_partitioning=False)
        return rows.filter(in_range(_ID, low, high)).collect().sort(_ROW)

    def numbered(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Columns that a dataset is made from, the image of each row, and its number."""
        kind = pl.Int64() if self.has_number_ids else pl.String()
        image = pl.col(self.reading.columns.id).cast(kind).alias(_ID)
        return rows.with_row_index(_ROW).select(
            _ROW, image, *self.reading.used(list(self.table.schema))
        )

    def divided(self, ids: pl.Series, part_size: int, count: Counter) -> ScannedTable:
        """The table with its rows on disk, in parts of at most so many images."""
        lows = ids.gather(part_edges(len(ids), part_size)[1:-1])
        count.done([_DivideJob(self.folder, 0, self, lows)])
        return replace(self, lows=lows.to_list())

    def provenance(
        self, counts: Mapping[str, int], n_images: int, images: object
    ) -> dict[str, Any]:
        """Where the dataset comes from."""
        return table_provenance(
            self.reading.path, self.sha256, self.reading.layout, counts, n_images, images
        )


def _wanted(rows: Rows, file_name: str | None) -> Callable[[str], bool]:
    """Whether an image file of this name may be looked for."""
    if file_name is not None:
        names = rows.table[file_name].cast(pl.String).drop_nulls().unique().to_list()
        bases = {name.rsplit("/", 1)[-1] for name in names}
        return lambda name: name in bases
    ids = rows.images.to_list()
    stems = {text for i in ids for text in (str(i), f"{i:012d}" if isinstance(i, int) else str(i))}
    return lambda name: name.rsplit(".", 1)[0] in stems


# jobs


class _Found(msgspec.Struct):
    """What all rows of a table hold.

    Attributes:
        rows: how many there are.
        nulls: column -> rows without a value.
        values: column -> a table of its distinct values, in Arrow's format.
        has_long_ids: whether an id has more than 64 bits.
        has_number_ids: whether all ids are integers, or text written in digits.
    """

    rows: int
    nulls: dict[str, int]
    values: dict[str, bytes]
    has_long_ids: bool
    has_number_ids: bool


@dataclass(frozen=True)
class _SchemaJob(Job):
    """Columns and types of a file: an empty table in Arrow's format."""

    name: ClassVar[str] = "schema"
    result: ClassVar[type] = bytes
    file: Path

    def make(self) -> bytes:
        """Raises InputError."""
        return _arrow_bytes(pl.DataFrame(schema=file_schema(self.file)))


@dataclass(frozen=True)
class _HashJob(Job):
    """The hash of the file."""

    name: ClassVar[str] = "hash"
    result: ClassVar[type] = str
    file: Path

    def make(self) -> str:
        """SHA-256."""
        return sha256_of(self.file)


@dataclass(frozen=True)
class _LookJob(Job):
    """Look at all rows once, and write the ids of the images, ascending.

    Attributes:
        table: the files.
        id: column of ids.
        watched: columns whose distinct values are wanted.
    """

    name: ClassVar[str] = "look"
    result: ClassVar[type] = _Found
    table: TableFiles
    id: str
    watched: Sequence[str]

    def make(self) -> _Found:
        """Raises InputError."""
        seen = {name: _Distinct() for name in dict.fromkeys([self.id, *self.watched])}
        self.table.read(lambda rows: _look(seen, rows.select(*seen)))
        distinct = seen[self.id].values().drop_nulls()
        numbers = distinct.cast(pl.Int64, strict=False) if _are_numbers(distinct) else None
        has_long = numbers is not None and numbers.null_count() > 0
        images = distinct if numbers is None else numbers.unique()
        images.sort().alias("image_id").to_frame().write_parquet(
            _ids_file(self.folder), row_group_size=_SLICE
        )
        nulls = {name: column.nulls for name, column in seen.items()}
        values = {name: _arrow_bytes(seen[name].values().to_frame()) for name in self.watched}
        return _Found(seen[self.id].rows, nulls, values, has_long, numbers is not None)


class _Distinct:
    """What a column holds, a batch of rows after another: polars would hold several times the
    distinct values.
    """

    def __init__(self) -> None:
        self.rows = self.nulls = 0
        self._found: list[pl.Series] = []
        self._most = _SLICE

    def add(self, column: pl.Series) -> None:
        """Take in a batch."""
        self.rows += len(column)
        self.nulls += column.null_count()
        self._found.append(column.unique())
        if sum(map(len, self._found)) > self._most:
            self._most = 2 * len(self.values()) + _SLICE

    def values(self) -> pl.Series:
        """The distinct values, null among them, in any order."""
        self._found = [pl.concat(self._found).unique()]
        return self._found[0]


def _look(seen: Mapping[str, _Distinct], rows: pl.LazyFrame) -> None:
    batches = rows.collect_batches(
        chunk_size=_SLICE // 16, maintain_order=False, engine="streaming"
    )
    # an empty table has no batch
    for batch in chain([pl.DataFrame(schema=rows.collect_schema())], batches):
        for column in batch:
            seen[column.name].add(column)


def _are_numbers(ids: pl.Series) -> bool:
    """Whether ids are integers, or text that is written in digits throughout."""
    slices = ids.to_frame().iter_slices(_SLICE)
    return ids.dtype.is_integer() or all(
        identifiers(some.to_series().to_list()).dtype == pl.Int64 for some in slices
    )


@dataclass(frozen=True)
class _DivideJob(Job):
    """Write all rows, those of each part into a folder.

    Attributes:
        scanned: the table.
        lows: first id of each part but the first.
    """

    name: ClassVar[str] = "divide"
    result: ClassVar[type] = bool
    scanned: ScannedTable
    lows: pl.Series

    def make(self) -> bool:
        """Raises InputError."""
        folder = _part_folder(self.folder, 0).parent
        # a job that was interrupted leaves rows
        shutil.rmtree(folder, ignore_errors=True)
        part = (
            pl.col(_ID)
            .map_batches(self._part, return_dtype=pl.UInt32(), is_elementwise=True)
            .alias("part")
        )
        target = pl.PartitionBy(
            folder, key=part, include_key=False, approximate_bytes_per_file=None
        )
        self.scanned.table.read(
            lambda rows: self.scanned.numbered(rows).sink_parquet(
                target, compression="lz4", row_group_size=_GROUP, mkdir=True, engine="streaming"
            )
        )
        return True

    def _part(self, ids: pl.Series) -> pl.Series:
        return self.lows.search_sorted(ids, side="right").cast(pl.UInt32)


def _ids_file(folder: Path) -> Path:
    return folder / "ids.parquet"


def _part_folder(folder: Path, number: int) -> Path:
    """Where the rows of a part are; the name is the one that Polars gives it."""
    return folder / "rows" / f"part={number}"


def _arrow_bytes(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_ipc(buffer)
    return buffer.getvalue()


def _schema_of(content: bytes) -> Schema:
    return dict(pl.read_ipc(io.BytesIO(content)).schema)
