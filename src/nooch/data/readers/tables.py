"""Tables -> Dataset: a row for each image with labels, or for each (image, class, area)."""

from __future__ import annotations

import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import polars as pl

from nooch.base.calls import Map, StepProgress
from nooch.base.disk import sync, sync_tree
from nooch.base.errors import InputError
from nooch.base.files import RESUME, sha256_of, writing
from nooch.base.split_plan import SplitPlan
from nooch.base.text_encoding import transcoded
from nooch.data.dataset import Dataset, ImageId
from nooch.data.readers.contract import (
    ImageListing,
    NumberedJob,
    as_given,
    in_range,
    part_edges,
    read,
)
from nooch.data.readers.jobs import JobRunner, map_for
from nooch.data.readers.table_layouts import (
    Columns,
    LongTable,
    Seen,
    TableLayout,
    TableOfImages,
    TableRows,
    put_together,
    table_provenance,
)
from nooch.data.readers.table_scan import Schema, TableFiles, common_schema, file_schema
from nooch.data.splits import named_splits
from nooch.data.table_files import checked_read, table_files
from nooch.data.table_schema import identifiers

_ID, _ROW = "nooch:id", "nooch:row"
"""Columns of rows: the image, and the number in the whole table."""

_GROUP = 1 << 13
"""Rows of a part that are held until they are written."""

_SLICE = 1 << 20
"""Number of ids that are processed at once."""


@dataclass(frozen=True)
class TableReading:
    """The reading of a table: CSV, TSV, Parquet or JSON lines; a file, or a folder of parts.

    Files of at most ``small`` bytes are scanned in this process.
    """

    path: Path
    columns: Columns
    layout: TableLayout
    small: int = 1 << 27

    def files(self) -> list[tuple[str, Path]]:
        """The files."""
        return [("table", file) for file in table_files(self.path)]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError where there is no table."""
        del plan  # whether it fits is known once columns are
        table_files(self.path)

    def dependencies(self) -> list[Any]:
        """What the columns are."""
        c = self.columns
        attributes = None if c.attributes is None else list(c.attributes)
        what = [c.id, c.file_name, c.split, dict(c.split_values), attributes]
        kind, columns = type(self.layout).__name__, [*self.layout.columns]
        positive = getattr(self.layout, "positive", None)
        return [
            str(self.path.absolute()),
            kind,
            *what,
            columns,
            *([dict(positive)] if positive else []),
        ]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedTable:
        """What all rows hold together; with ``part_size``, rows on disk by part.

        Raises:
            ParameterError: columns that the table does not have.
            InputError: files, ids, labels or splits that are missing or of the wrong kind.
        """
        names = [file for _, file in self.files()]
        runner = JobRunner(map_for(names, self.small, map), progress)
        files = [_utf8_file(file.absolute(), folder, n) for n, file in enumerate(names)]
        with as_given((str(file), name) for file, name in zip(files, names, strict=True)):
            schemas = runner.results([_SchemaJob(folder, n, file) for n, file in enumerate(files)])
        schema = common_schema([dict(pl.read_ipc(some).schema) for some in schemas], self.path)
        self._check_columns(schema)
        table, split = TableFiles(files, names, schema), self.columns.split
        watched = dict.fromkeys([*([split] if split else []), *self.layout.named])
        look = _LookJob(folder, 0, table, self.columns.id, [*watched])
        sums = [_HashJob(folder, 0, self.path.absolute())] if self.path.is_file() else []
        facts, *sha256 = runner.results([look, *sums])
        classes = self.layout.classes(self._checked(facts), self.path)
        scanned = ScannedTable(
            self, folder, table, facts.has_number_ids, classes, sha256[0] if sums else None
        )
        if part_size is None or len(ids := scanned.ids()) <= part_size:
            return scanned
        return scanned.divided(ids, part_size, runner)

    def _check_columns(self, schema: Schema) -> None:
        """Raise where columns are missing, or of the wrong kind."""
        names = list(schema)
        self.columns.check(schema, self.path)
        self.layout.check(names, self.path)
        self.columns.attribute_names(names, self.layout.columns, self.path)

    def _checked(self, facts: _TableFacts) -> Seen:
        """Values of all rows. Raises InputError where no dataset can be made from them."""
        if not facts.rows:
            raise InputError("holds no row", where=self.path)
        if nulls := facts.nulls[self.columns.id]:
            raise InputError(f"{nulls} rows have no {self.columns.id}", where=self.path)
        if facts.has_long_ids:
            raise InputError(
                f"column {self.columns.id} holds numbers of more than 64 bits",
                where=self.path,
                remedy="write the ids with a letter in front, so that they are text",
            )
        values = {name: pl.read_ipc(content)[name] for name, content in facts.values.items()}
        if split := self.columns.split:
            named_splits(values[split], self.columns.split_values, self.path)
        return Seen(values, facts.nulls)

    def used(self, names: Sequence[str]) -> list[str]:
        """Columns that a dataset is made from, but for the ids."""
        c, taken = self.columns, self.layout.columns
        used = {*taken, c.file_name, c.split, *c.attribute_names(names, taken, self.path)}
        return [name for name in names if name in used]


@dataclass(frozen=True)
class ScannedTable:
    """A table, with the facts that depend on all its rows.

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

    def ids(self, low: ImageId | None = None, high: ImageId | None = None) -> pl.Series:
        """Ids of the images with ``low <= id < high``, ascending."""
        ids = pl.scan_parquet(_ids_file(self.folder), glob=False)
        return ids.filter(in_range("image_id", low, high)).collect()["image_id"]

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``. Raises InputError for rows that are refused."""
        reading = self.reading
        table = self._rows(low, high)
        ids, numbers = table[_ID].alias("image_id"), table[_ROW].to_numpy()
        rows = TableRows(table.drop(_ID, _ROW), ids, numbers, self.ids(low, high))
        index = None if images is None else images.index(_wanted(rows, reading.columns.file_name))
        return put_together(rows, reading.columns, reading.layout, reading.path, index, self.known)

    def _rows(self, low: ImageId | None, high: ImageId | None) -> pl.DataFrame:
        """The rows of a range of ids, in the order of the whole table."""
        if not self.lows:
            wanted = in_range(_ID, low, high)
            return self.table.read(lambda rows: self.numbered(rows).filter(wanted).collect())
        first = 0 if low is None else bisect_right(self.lows, low)
        last = len(self.lows) if high is None else bisect_left(self.lows, high)
        folders = [_part_folder(self.folder, n) for n in range(first, last + 1)]
        files = [file for folder in folders for file in folder.iterdir()]
        rows = pl.scan_parquet(files, glob=False, hive_partitioning=False)
        return rows.filter(in_range(_ID, low, high)).collect().sort(_ROW)

    def numbered(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Columns that a dataset is made from, the image of each row, and its number."""
        kind = pl.Int64() if self.has_number_ids else pl.String()
        image = pl.col(self.reading.columns.id).cast(kind).alias(_ID)
        used = self.reading.used(list(self.table.schema))
        return rows.with_row_index(_ROW).select(_ROW, image, *used)

    def divided(self, ids: pl.Series, part_size: int, runner: JobRunner) -> ScannedTable:
        """The table with its rows on disk by part, each of at most so many images."""
        lows = ids.gather(part_edges(len(ids), part_size)[1:-1])
        runner.results([_DivideJob(self.folder, 0, self, lows)])
        return replace(self, lows=lows.to_list())

    def provenance(
        self, counts: Mapping[str, int], n_images: int, images: object
    ) -> dict[str, Any]:
        """Where the dataset comes from."""
        path, layout = self.reading.path, self.reading.layout
        return table_provenance(path, self.sha256, layout, counts, n_images, images)


def _utf8_file(file: Path, folder: Path, number: int) -> Path:
    """The file, or where it is text in another encoding, a copy in UTF-8. Raises InputError."""
    if file.suffix.lower() == ".parquet":
        return file
    content = checked_read(file, lambda: transcoded(file))
    if content is None:
        return file
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder.absolute() / f"utf8-{number}{file.suffix}"
    copy.write_bytes(content)
    return copy


def _wanted(rows: TableRows, file_name: str | None) -> Callable[[str], bool]:
    """Whether an image file of this name may be looked for."""
    if file_name is not None:
        names = rows.table[file_name].cast(pl.String).drop_nulls().unique().to_list()
        bases = {name.rsplit("/", 1)[-1] for name in names}
        return lambda name: name in bases
    ids = rows.images.to_list()
    stems = {*map(str, ids), *(f"{i:012d}" for i in ids if isinstance(i, int))}
    return lambda name: name.rsplit(".", 1)[0] in stems


# jobs


class _TableFacts(msgspec.Struct):
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
class _SchemaJob(NumberedJob):
    """Columns and types of a file: an empty table in Arrow's format."""

    name: ClassVar[str] = "schema"
    result_type: ClassVar[type] = bytes
    file: Path

    def make(self) -> bytes:
        """Raises InputError."""
        return pl.DataFrame(schema=file_schema(self.file)).write_ipc(None).getvalue()


@dataclass(frozen=True)
class _HashJob(NumberedJob):
    """The hash of the file."""

    name: ClassVar[str] = "hash"
    result_type: ClassVar[type] = str
    file: Path

    def make(self) -> str:
        """SHA-256."""
        return sha256_of(self.file)


@dataclass(frozen=True)
class _LookJob(NumberedJob):
    """Look at all rows once, and write the ids of the images, ascending; ``watched`` are columns
    whose distinct values are wanted.
    """

    name: ClassVar[str] = "look"
    result_type: ClassVar[type] = _TableFacts
    table: TableFiles
    id: str
    watched: Sequence[str]

    def make(self) -> _TableFacts:
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
        sync(_ids_file(self.folder))
        nulls = {name: column.nulls for name, column in seen.items()}
        tables = {name: seen[name].values().to_frame() for name in self.watched}
        values = {name: table.write_ipc(None).getvalue() for name, table in tables.items()}
        return _TableFacts(seen[self.id].rows, nulls, values, has_long, numbers is not None)


class _Distinct:
    """The distinct values of a column, by batches: Polars would hold several times as much."""

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
    if ids.dtype.is_integer():
        return True
    slices = (some.to_series().to_list() for some in ids.to_frame().iter_slices(_SLICE))
    return all(identifiers(some).dtype == pl.Int64 for some in slices)


@dataclass(frozen=True)
class _DivideJob(NumberedJob):
    """Write all rows, those of each part into a folder; ``lows``: first ids of the parts but the
    first.
    """

    name: ClassVar[str] = "divide"
    result_type: ClassVar[type] = bool
    scanned: ScannedTable
    lows: pl.Series

    def make(self) -> bool:
        """Raises InputError."""
        folder = _part_folder(self.folder, 0).parent
        # a job that was interrupted leaves rows
        shutil.rmtree(folder, ignore_errors=True)
        part = pl.col(_ID).map_batches(
            lambda ids: self.lows.search_sorted(ids, side="right").cast(pl.UInt32),
            return_dtype=pl.UInt32(),
            is_elementwise=True,
        )
        target = pl.PartitionBy(
            folder, key=part.alias("part"), include_key=False, approximate_bytes_per_file=None
        )

        def write(rows: pl.LazyFrame) -> None:
            options: dict[str, Any] = {"row_group_size": _GROUP, "engine": "streaming"}
            with writing(folder, RESUME):
                rows.sink_parquet(target, compression="lz4", mkdir=True, **options)

        self.scanned.table.read(lambda rows: write(self.scanned.numbered(rows)))
        sync_tree(folder)
        return True


def _ids_file(folder: Path) -> Path:
    return folder / "ids.parquet"


def _part_folder(folder: Path, number: int) -> Path:
    """The folder of a part's rows; Polars chooses the name."""
    return folder / "rows" / f"part={number}"


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
