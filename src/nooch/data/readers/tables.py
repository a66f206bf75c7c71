"""Tables -> Dataset: a row for each image with labels, or for each (image, class, area).

CSV has no types: as ``polars.read_csv(infer_schema_length=None)`` does, every cell counts. Polars
reads the whole file for that, so the cells are classified here, in a streaming pass.
"""

from __future__ import annotations

import glob
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Map, StepProgress
from nooch.base.disk import sync, sync_tree
from nooch.base.errors import InputError, some_of
from nooch.base.files import RESUME, sha256_of, writing
from nooch.base.split_plan import SplitPlan
from nooch.base.text_encoding import transcoded
from nooch.base.work_folder import Steps
from nooch.data.dataset import ImageId
from nooch.data.json_records import is_json_array
from nooch.data.objects import NOTES
from nooch.data.readers.box_formats import LEFT_OUT, bad_line
from nooch.data.readers.contract import in_range, part_edges
from nooch.data.readers.image_rows import ScannedRows, summed, with_sizes
from nooch.data.readers.nested_tables import SPLIT, class_labels, of_split, read_flat_table
from nooch.data.readers.table_layouts import (
    ROW,
    SIZE,
    SLICE,
    Columns,
    DistinctValues,
    LongTable,
    TableLayout,
    has_image,
)
from nooch.data.splits import named_splits
from nooch.data.table_files import (
    alike,
    check_named_once,
    checked_read,
    parquet_bytes,
    plain_csv,
    plain_types,
    separator_of,
    table_files,
)
from nooch.data.table_schema import identifiers

_ID = "nooch:id"
"""Column of rows: the image."""

_VALUES = "split_values"
"""Name among hints of the meaning of a column of splits."""

_GROUP = 1 << 13
"""Rows of a part that are kept in memory until they are written."""


@dataclass(frozen=True)
class TableReading:
    """The reading of a table: CSV, TSV, Parquet or JSON lines; a file, or a folder of parts."""

    path: Path
    columns: Columns
    layout: TableLayout
    splits: Mapping[Path, str] = field(default_factory=dict)
    """The only files that are read below the folder, if any, and the split of each."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    def files(self) -> list[tuple[str, Path]]:
        """The files."""
        return [("table", file) for file in [*self.splits] or table_files(self.path)]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError if there is no table."""
        del plan  # whether it fits is known once columns are
        self.files()

    def dependencies(self) -> list[Any]:
        """Layout of the columns."""
        about = [str(self.path.absolute()), repr(self.columns), repr(self.layout)]
        return [*about, *map(str, self.splits.items())]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedTable:
        """Summary of all rows; with ``part_size``, rows on disk by part.

        Raises:
            ParameterError: columns that the table does not have.
            InputError: files, ids, labels or splits that are missing or of the wrong kind.
        """
        del map  # Polars has threads of its own
        given = [file for _, file in self.files()]
        files = [_plain_file(file.absolute(), folder, n) for n, file in enumerate(given)]
        table = TableFiles.from_files(files, given, self.path, self.splits)
        self.columns.check(table.schema, self.path)
        self.layout.check([*table.schema], self.path)
        self.columns.attribute_names(table.schema, self.layout.columns, self.path)
        progress(0, 3)
        seen, unread = self._look(table)
        ids = _images(seen[self.columns.id].values(), self.columns.id, self.path)
        folder.mkdir(parents=True, exist_ok=True)
        _ids_file(folder).write_bytes(parquet_bytes(ids.to_frame(), row_group_size=SLICE))
        sync(_ids_file(folder))
        names = self.layout.classes(seen, self.path)
        progress(1, 3)
        sha256 = sha256_of(self.path) if self.path.is_file() else None
        progress(2, 3)
        rows = TableRows(self, folder, table, ids.dtype)
        if part_size is not None and len(ids) > part_size:
            rows = rows.divided(ids, part_size)
        progress(3, 3)
        about = {
            "reader": "table",
            "area": self.layout.area,
            "sources": [{"role": "table", "file": self.path.name, "sha256": sha256}],
            "notes": [],
        }
        return ScannedTable(rows, names, about, self.path, _notes, is_located=False, unread=unread)

    def _look(self, table: TableFiles) -> tuple[dict[str, DistinctValues], list[str]]:
        """Look at all rows: the ids, splits and names of classes, and lines of ``bad_lines`` for
        rows without an id. Raises InputError if no dataset can be made from them.
        """
        key, split = self.columns.id, self.columns.split
        long = self.layout if isinstance(self.layout, LongTable) else None
        stating = [] if long is None else long.may_state(table.schema)
        watched = dict.fromkeys([key, *([split] if split else []), *self.layout.named, *stating])
        seen = {name: DistinctValues() for name in watched}
        known = has_image(key, table.schema[key])
        table.read(lambda rows: _look(seen, rows.filter(known).select(*seen)))
        blank = pl.col(ROW).filter(~known.fill_null(value=False))
        numbers = table.read(lambda rows: rows.with_row_index(ROW).select(blank).collect())[ROW]
        if not seen[key].rows:
            problem = f"no row has a {key}" if len(numbers) else "contains no row"
            raise InputError(problem, where=self.path, allowed="an image in every row")
        if split:
            named_splits(seen[split].values(), self.columns.values, self.path, _VALUES)
        if long is not None:
            long.check_stated(seen, self.path)
        file, problem = self.path.name, f"no {key}"
        return seen, [bad_line(file, f"row {n + 1}", problem, LEFT_OUT) for n in numbers]


def _notes(counts: Mapping[str, int], n_images: int, images: object) -> list[str]:
    missing, notes = counts["missing"], []
    if missing:
        notes = [f"{missing} of {n_images} image files are not below {images}"]
    return [*notes, *(text.format(n=counts[n]) for n, text in NOTES.items() if counts.get(n))]


@dataclass(frozen=True)
class TableRows:
    """Rows of a table: in its files, or, with ``lows``, on disk by part: the first id of each part
    but the first.

    ``folder`` is for intermediate files; ``kind``: the type of ids, integers also where all are
    written as text.
    """

    reading: TableReading
    folder: Path
    table: TableFiles
    kind: pl.DataType
    lows: Sequence[ImageId] = ()

    def ids(self, low: ImageId | None = None, high: ImageId | None = None) -> pl.Series:
        """Ids of the images with ``low <= id < high``, ascending."""
        ids = pl.scan_parquet(_ids_file(self.folder), glob=False)
        return ids.filter(in_range("image_id", low, high)).collect()["image_id"]

    def read(self, low: ImageId | None, high: ImageId | None) -> pl.DataFrame:
        """The rows of a range of ids, in the order of the whole table."""
        condition = in_range(_ID, low, high)
        if not self.lows:
            return self.table.read(lambda rows: self._numbered(rows).filter(condition).collect())
        first = 0 if low is None else bisect_right(self.lows, low)
        last = len(self.lows) if high is None else bisect_left(self.lows, high)
        folders = [_part_folder(self.folder, n) for n in range(first, last + 1)]
        files = [file for folder in folders for file in folder.iterdir()]
        rows = pl.scan_parquet(files, glob=False, hive_partitioning=False)
        return rows.filter(condition).collect().sort(ROW)

    def _numbered(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Columns that a dataset is made from, the image of each row, and its number."""
        c, taken = self.reading.columns, self.reading.layout.columns
        attributes = c.attribute_names(self.table.schema, taken, self.reading.path)
        kept = {*taken, c.file_name, c.split, *attributes}
        used = [name for name in self.table.schema if name in kept]
        rows = rows.with_row_index(ROW).filter(has_image(c.id, self.table.schema[c.id]))
        return rows.select(ROW, pl.col(c.id).cast(self.kind).alias(_ID), *used)

    def divided(self, ids: pl.Series, part_size: int) -> TableRows:
        """The rows on disk by part, each of at most so many images."""
        lows = ids.gather(part_edges(len(ids), part_size)[1:-1])
        Steps(self.folder).get("divide.msgpack", lambda: self._divide(lows), bool)
        return replace(self, lows=lows.to_list())

    def _divide(self, lows: pl.Series) -> bool:
        """Write all rows, each part into its own folder."""
        folder = _part_folder(self.folder, 0).parent
        # a job that was interrupted leaves rows
        shutil.rmtree(folder, ignore_errors=True)
        part = pl.col(_ID).map_batches(
            lambda ids: lows.search_sorted(ids, side="right").cast(pl.UInt32),
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

        self.table.read(lambda rows: write(self._numbered(rows)))
        sync_tree(folder)
        return True


@dataclass(frozen=True)
class ScannedTable(ScannedRows):
    """A table, with the facts that depend on all its rows."""

    rows: TableRows

    def images(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The images of rows, by id, each with what its first row has."""
        reading, table = self.rows.reading, rows
        columns, layout, path = reading.columns, reading.layout, reading.path
        every = table.select(pl.col(_ID).alias("image_id"))
        if columns.file_name:
            every = every.with_columns(table[columns.file_name].cast(pl.String).alias("file_name"))
        if split := columns.split:
            every = every.with_columns(named_splits(table[split], columns.values, path, _VALUES))
        if isinstance(layout, LongTable) and layout.size:
            sizes = zip(("width", "height"), layout.size, strict=True)
            every = every.with_columns(table[of].cast(pl.Int64).alias(name) for name, of in sizes)
        attributes = columns.attribute_names(table.columns[2:], layout.columns, path)
        every = every.with_columns(table[name] for name in attributes)
        if isinstance(layout, LongTable) and layout.present:
            every = every.with_columns(annotated_things=False)
        ids, positions = self._positions(every["image_id"])
        first = np.empty(len(ids), np.int64)
        # of an image's rows the first is written last
        first[positions[::-1]] = np.arange(len(positions))[::-1]
        layout.check_repeated(every, first[positions], path)
        return every[first]

    def sized(self, frame: pl.DataFrame, root: str | Path | None) -> pl.DataFrame:
        """The images, with the sizes of their files where boxes in pixels need these."""
        if not self.rows.reading.layout.by_size:
            return frame
        if "width" not in frame.columns:
            none = pl.lit(None, pl.Int64)
            frame = frame.with_columns(width=none, height=none)
        return with_sizes(frame, root)

    def content(self, rows: pl.DataFrame, images: pl.DataFrame) -> dict[str, Any]:
        """Areas, objects, and the pairs that are stated as unknown."""
        layout, path, table = self.rows.reading.layout, self.rows.reading.path, rows
        ids, positions = self._positions(table[_ID])
        shape, content = (len(ids), len(self.classes)), dict[str, Any]()
        boxes = None
        if isinstance(layout, LongTable) and layout.placed:
            if layout.by_size:
                sides = images.select("width", "height")[positions]
                table = table.with_columns(
                    sides.rename(dict(zip(sides.columns, SIZE, strict=True)))
                )
                layout = replace(layout, size=SIZE)
            boxes = layout.boxes(table, table[_ID], path)
            content["counts"] = boxes.counts
            content["objects"] = layout.objects(table, (ids, positions), self.names, boxes)
        given = () if boxes is None else (boxes,)
        for name, (entry_rows, entry_columns, values) in layout.entries(
            table, self.names, path, *given
        ).items():
            content[name] = summed((positions[entry_rows], entry_columns, values), shape)
        if "verified" in content:
            self._check_stated_once(content, ids)
            content["kinds"] = dict.fromkeys(self.classes, "thing")
        return content

    def _positions(self, ids: pl.Series) -> tuple[pl.Series, NDArray[np.int64]]:
        """The images, ascending, and the position among them of each row's."""
        images = ids.unique().sort().alias("image_id")
        order = images.to_frame().with_row_index("position")
        named = ids.alias("image_id").to_frame()
        joined = named.join(order, on="image_id", how="left", maintain_order="left")
        return images, joined["position"].to_numpy()

    def _check_stated_once(self, content: Mapping[str, Any], images: pl.Series) -> None:
        """Raise InputError for a pair that has a row of present and one of absent."""
        present = content["areas"].copy()
        present.data = np.ones_like(present.data)
        if len(rows := np.unique((present * content["verified"]).nonzero()[0])):
            problem = f"a class is both present and absent in images {some_of(images.gather(rows))}"
            allowed = "the same in all rows of an image and a class"
            raise InputError(problem, where=self.rows.reading.path, allowed=allowed)


def _plain_file(file: Path, folder: Path, number: int) -> Path:
    """The file, or if it is a workbook, JSON, or text in another encoding or form, a copy in the
    usual one. Raises InputError.
    """
    ending = file.suffix.lower()
    if ending in {".xlsx", ".json"} or is_json_array(file) or _is_nested(file):
        content: bytes | None = parquet_bytes(read_flat_table(file))
        ending = ".parquet"
    elif ending == ".parquet":
        return file
    else:
        read = plain_csv if _is_csv(file) else transcoded
        content = checked_read(file, lambda: read(file))
    if content is None:
        return file
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder.absolute() / f"plain-{number}{ending}"
    copy.write_bytes(content)
    return copy


def _is_nested(file: Path) -> bool:
    """True if records have objects or lists of lists in them, which become columns and rows, or
    numbers of classes that have names.
    """
    if _is_csv(file):
        return bool(class_labels(file))
    is_json = file.suffix.lower() == ".jsonl"
    content = checked_read(file, lambda: transcoded(file)) if is_json else None
    rows = _scan(file, None) if content is None else pl.scan_ndjson(content)
    kinds = checked_read(file, rows.collect_schema).values()
    inner = [kind.inner if isinstance(kind, pl.List) else None for kind in kinds]
    nested = any(kind.is_nested() for kind in inner if kind is not None)
    return nested or (pl.Struct in kinds and is_json) or bool(class_labels(file))


def _look(seen: Mapping[str, DistinctValues], rows: pl.LazyFrame) -> None:
    batches = rows.collect_batches(chunk_size=SLICE // 16, maintain_order=False, engine="streaming")
    # an empty table has no batch
    for batch in chain([pl.DataFrame(schema=rows.collect_schema())], batches):
        for column in batch:
            seen[column.name].add(column)


def _images(distinct: pl.Series, name: str, path: Path) -> pl.Series:
    """Ids of the images, ascending: integers also where all are written in digits. Raises
    InputError for integers of more than 64 bits.
    """
    slices = (some.to_series().to_list() for some in distinct.to_frame().iter_slices(SLICE))
    if distinct.dtype.is_integer() or all(identifiers(s).dtype == pl.Int64 for s in slices):
        distinct = distinct.cast(pl.Int64, strict=False).unique()
    if distinct.null_count():
        problem = f"column {name} contains numbers of more than 64 bits"
        remedy = "write the ids with a letter in front, so that they are text"
        raise InputError(problem, where=path, remedy=remedy)
    return distinct.sort().alias("image_id")


def _ids_file(folder: Path) -> Path:
    return folder / "ids.parquet"


def _part_folder(folder: Path, number: int) -> Path:
    """The folder of a part's rows; Polars chooses the name."""
    return folder / "rows" / f"part={number}"


Schema = dict[str, pl.DataType]

T = TypeVar("T")


@dataclass(frozen=True)
class TableFiles:
    """Files of the same columns, which make up one table; absolute, since workers may run in other
    folders, and ``names`` as errors call them; ``splits`` of these, which become a column.
    """

    files: Sequence[Path]
    names: Sequence[Path]
    schema: Schema
    splits: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def from_files(
        cls, files: Sequence[Path], names: Sequence[Path], where: object, splits: Mapping[Path, str]
    ) -> Self:
        """Files with their columns and types. Raises InputError: unreadable ones, other columns."""
        schemas = [
            checked_read(name, partial(file_schema, file))
            for file, name in zip(files, names, strict=True)
        ]
        with alike(where):
            pl.concat([pl.DataFrame(schema=schema) for schema in schemas])
        if splits and SPLIT in schemas[0]:
            problem = f"has splits both in its column {SPLIT} and in the names of its tables"
            raise InputError(problem, where=where, remedy="{}", give={"split_column": SPLIT})
        about = schemas[0] | ({SPLIT: pl.String()} if splits else {})
        return cls(files, names, about, splits)

    def read(self, act: Callable[[pl.LazyFrame], T]) -> T:
        """Apply ``act`` to the rows. Raises InputError, which names the file that is unreadable."""
        own = {n: kind for n, kind in self.schema.items() if not (self.splits and n == SPLIT)}
        scans = {
            name: of_split(_scan(file, own), own, name, self.splits)
            for file, name in zip(self.files, self.names, strict=True)
        }
        # relaxed: a file may have a column without any value, and so without a type
        try:
            return checked_read(
                self.names[0], lambda: act(pl.concat(scans.values(), how="vertical_relaxed"))
            )
        except InputError:
            if len(scans) > 1:
                for name, rows in scans.items():
                    checked_read(name, partial(act, rows))
            raise


def file_schema(file: Path) -> Schema:
    """Columns and types of a file."""
    return _csv_schema(file) if _is_csv(file) else dict(_scan(file, None).collect_schema())


def _is_csv(file: Path) -> bool:
    return file.suffix.lower() in (".csv", ".tsv")


def _scan(file: Path, schema: Schema | None) -> pl.LazyFrame:
    # a name with [ or * is a name, not a pattern
    if _is_csv(file):
        return _scan_csv(file, schema=schema)
    if file.suffix.lower() == ".jsonl":
        # of the first rows only, lists that are empty at first would stay so
        return pl.scan_ndjson(glob.escape(str(file)), schema=schema, infer_schema_length=None)
    return plain_types(pl.scan_parquet(file, glob=False))


def _scan_csv(file: Path, **options: Any) -> pl.LazyFrame:
    return pl.scan_csv(file, glob=False, separator=separator_of(file), **options)


# types of the columns of CSV

_INTEGER, _LONG, _FLOAT, _BOOLEAN, _TEXT = (1 << bit for bit in range(5))
"""Kinds of cells; integers of more than 64 bits are long."""

_TYPES: dict[int, pl.DataType] = {
    _BOOLEAN: pl.Boolean(),
    _INTEGER: pl.Int64(),
    _LONG: pl.Int128(),
    _INTEGER | _LONG: pl.Int128(),
    _FLOAT: pl.Float64(),
    _INTEGER | _FLOAT: pl.Float64(),
    _LONG | _FLOAT: pl.Float64(),
}
"""Kinds of the cells of a column -> its type; with any other kinds it is text."""

_FIRST = 1000
"""Number of rows that are read first: a column that has text there is text."""


def _csv_schema(file: Path) -> Schema:
    rows = _scan_csv(file, infer_schema=False)
    names = rows.collect_schema().names()
    check_named_once(names, file)
    kinds = _kinds_of_cells(rows.head(_FIRST), names, [])
    text_columns = [name for name in names if kinds[name] & _TEXT]
    # these are read as well: every row must have as many cells as there are columns
    kinds |= _kinds_of_cells(
        rows, [name for name in names if name not in text_columns], text_columns
    )
    return {name: _TYPES.get(kinds[name], pl.String()) for name in names}


def _kinds_of_cells(
    rows: pl.LazyFrame, names: Sequence[str], texts: Sequence[str]
) -> dict[str, int]:
    """Column -> kinds of its cells that are not empty; ``texts`` are columns that are only read."""
    kinds = {f"{number}": _kind(pl.col(name)).bitwise_or() for number, name in enumerate(names)}
    read = {f"null {number}": pl.col(name).null_count() for number, name in enumerate(texts)}
    row = rows.select(**kinds, **read).collect(engine="streaming").row(0)
    return {name: kind or 0 for name, kind in zip(names, row, strict=False)}


def _kind(cell: pl.Expr) -> pl.Expr:
    """The kind of a cell's text, with the rules by which Polars infers types."""
    is_int64 = cell.cast(pl.Int64, strict=False).is_not_null()
    has_float = cell.str.contains("[.eE]") & cell.cast(pl.Float64, strict=False).is_not_null()
    return (
        pl.when(cell.is_null())
        .then(0)
        .when(cell.str.contains(r"^-?\d+$"))
        .then(pl.when(is_int64).then(_INTEGER).otherwise(_LONG))
        .when(has_float | cell.is_in(["inf", "+inf", "-inf", "NaN", "+NaN", "-NaN"]))
        .then(_FLOAT)
        .when(cell.str.contains("(?i)^(true|false)$"))
        .then(_BOOLEAN)
        .otherwise(_TEXT)
    )
