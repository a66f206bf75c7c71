"""Tables of any size -> rows on disk by image id, a range of a file by each worker; and the rows of a part as a Dataset."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl

from nooch.data import Dataset, ImageId, named_splits
from nooch.data.tables import table_files
from nooch.errors import InputError
from nooch.plans import SplitPlan
from nooch.readers.reading import Counter, ImageListing, as_given, in_range
from nooch.readers.table_jobs import ID, ROW, CutJob, DigitsJob, HashJob, LookJob, RowRange, Run, RunJob
from nooch.readers.table_ranges import RANGE, Cut, Look, Schema, file_schema
from nooch.readers.table_rows import (
    Columns,
    Layout,
    Seen,
    check_columns,
    check_id_kind,
    check_ids,
    put_together,
    table_provenance,
)
from nooch.shared_types import Map, StepProgress

__all__ = ["ScannedTable", "TableReading"]


@dataclass(frozen=True)
class TableReading:
    """The import of a table in parts.

    Attributes:
        path: a file, or a folder of part files.
        columns: what the columns are.
        layout: what a row says.
        range_size: bytes that one job reads.
    """

    path: Path
    columns: Columns
    layout: Layout
    range_size: int = RANGE

    def files(self) -> list[tuple[str, Path]]:
        """The files."""
        return [("table", file) for file in table_files(self.path)]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError where there is no table. What groups there are is known once columns are."""
        del plan
        table_files(self.path)

    def words(self) -> list[Any]:
        """What the columns are."""
        c = self.columns
        kept = None if c.attributes is None else list(c.attributes)
        what = [c.id, c.file_name, c.split, dict(c.split_values), kept]
        return [str(self.path.absolute()), type(self.layout).__name__, *what, [*self.layout.columns], self.range_size]

    def scan(self, folder: Path, map: Map, progress: StepProgress) -> ScannedTable:
        """Rows on disk, sorted by image id. Raises InputError and ParameterError as reading in one piece does."""
        with as_given((str(file.absolute()), file) for _, file in self.files()):
            return self._scan(folder, Counter(map, progress))

    def _scan(self, folder: Path, count: Counter) -> ScannedTable:
        files = [file.absolute() for _, file in self.files()]
        cuts = count.done([CutJob(folder, n, file, self.range_size) for n, file in enumerate(files)])
        ranges = [
            RowRange(file, found.head, tuple(span), number)
            for number, (file, found) in enumerate(zip(files, cuts, strict=True))
            for span in found.ranges
        ]
        unknown = [LookJob(folder, n, one) for n, one in enumerate(ranges) if cuts[one.file].schema is None]
        looks = zip((job.range.file for job in unknown), count.done(unknown), strict=True)
        schema = _one_schema(self.path, files, cuts, [*looks])
        check_columns(self.columns, list(schema), self.path)
        jobs = self._run_jobs(folder, ranges, schema, lambda digits: all(count.done(digits)))
        sums = [HashJob(folder, 0, self.path.absolute())] if self.path.is_file() else []
        runs = count.done([*jobs, *sums])
        sha256 = runs.pop() if sums else None
        classes = self.layout.classes(self._checked(schema, runs), self.path)
        firsts = accumulate((run.rows for run in runs[:-1]), initial=0)
        return ScannedTable(self, [*zip((job.rows for job in jobs), firsts, strict=True)], classes, sha256)

    def _run_jobs(
        self, folder: Path, ranges: Sequence[RowRange], schema: Schema, are: Callable[[list[DigitsJob]], bool]
    ) -> list[RunJob]:
        """What is to be read; ``are`` tells whether all ids are written in digits."""
        ids, numbered = self.columns.id, [*enumerate(ranges)]
        kind = schema[ids]
        is_text = kind == pl.String
        as_number = (
            are([DigitsJob(folder, n, one, schema, ids) for n, one in numbered]) if is_text else kind.is_integer()
        )
        used, watched = self._used(schema), self._watched(schema)
        return [RunJob(folder, n, one, schema, ids, used, watched, as_number) for n, one in numbered]

    def _used(self, schema: Schema) -> list[str]:
        """Columns that a part is put together from; those that are missing are told of after the rows are counted."""
        c = self.columns
        kept = (
            [n for n in schema if n not in {c.id, c.split, *self.layout.columns}]
            if c.attributes is None
            else c.attributes
        )
        wanted = {*kept, c.file_name, c.split, *self.layout.columns}
        return [name for name in schema if name in wanted]

    def _watched(self, schema: Schema) -> list[str]:
        """Columns of which all values must be known."""
        split = [self.columns.split] if self.columns.split else []
        return [c for c in dict.fromkeys([*split, *self.layout.named]) if c in schema]

    def _checked(self, schema: Schema, runs: Sequence[Run]) -> Seen:
        """What all rows hold. Raises where the table is none that a dataset can be made from."""
        path, columns, layout = self.path, self.columns, self.layout
        if not any(run.rows for run in runs):
            raise InputError("holds no row", where=path)
        layout.check(list(schema), path)
        check_ids(sum(run.no_id for run in runs), any(run.too_long for run in runs), columns, path)
        check_id_kind(schema[columns.id], columns, path)
        columns.kept(schema, layout.columns, path)
        seen = _joined(runs, self._watched(schema))
        if columns.split:
            named_splits(seen.values[columns.split], columns.split_values, path)
        return seen


@dataclass(frozen=True)
class ScannedTable:
    """Rows on disk.

    Attributes:
        reading: what was asked for.
        runs: files of rows, each sorted by image id, and the number of the first row of each.
        known: classes, as the layout knows them.
        sha256: of the file; None for a folder.
    """

    reading: TableReading
    runs: list[tuple[Path, int]]
    known: Any
    sha256: str | None

    @property
    def classes(self) -> list[str]:
        """Names of the classes of all rows."""
        return self.reading.layout.names_of(self.known)

    def ids(self) -> pl.Series:
        """Ids of all images, ascending."""
        found, waiting = None, 0
        some: list[pl.Series] = []
        for run, _ in self.runs:
            some.append(_each_once([pl.read_parquet(run, columns=[ID], glob=False)[ID]]))
            waiting += len(some[-1])
            # not at each: that would sort the ids of all images once for every run
            if found is None or waiting > max(len(found), 1 << 22):
                found, some, waiting = _each_once([*([] if found is None else [found]), *some]), [], 0
        return _each_once([*([] if found is None else [found]), *some]).alias("image_id")

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``."""
        table = pl.concat(_rows(run, first, low, high) for run, first in self.runs).sort(ROW)
        ids, numbers = table[ID].alias("image_id"), table[ROW].to_numpy()
        rows = table.drop(ID, ROW)
        reading = self.reading
        index = None
        if images is not None:
            index = images.index(_wanted(rows, ids, reading.columns.file_name))
        return put_together(rows, ids, reading.columns, reading.layout, reading.path, index, self.known, numbers)

    def provenance(self, counts: Mapping[str, int], n_images: int, images: object) -> dict[str, Any]:
        """As reading in one piece gives it."""
        return table_provenance(self.reading.path, self.sha256, self.reading.layout, counts, n_images, images)


def _each_once(ids: Sequence[pl.Series]) -> pl.Series:
    """Sorted; sorting takes less memory than hashing."""
    together = pl.concat(ids).sort()
    return together.filter(together.ne_missing(together.shift(1)))


def _rows(run: Path, first: int, low: ImageId | None, high: ImageId | None) -> pl.DataFrame:
    """The rows of a range of ids, with their numbers in the whole table."""
    rows = pl.scan_parquet(run, glob=False).filter(in_range(ID, low, high))
    return rows.with_columns(pl.col(ROW).cast(pl.Int64) + first).collect()


def _wanted(rows: pl.DataFrame, ids: pl.Series, file_name: str | None) -> Callable[[str], bool]:
    """Whether an image file of this name may be looked for."""
    if file_name is not None:
        names = rows[file_name].cast(pl.String).drop_nulls().unique().to_list()
        bases = {name.rsplit("/", 1)[-1] for name in names}
        return lambda name: name in bases
    stems = {text for i in ids.unique().to_list() for text in (str(i), f"{i:012d}" if isinstance(i, int) else str(i))}
    return lambda name: name.rsplit(".", 1)[0] in stems


def _joined(runs: Sequence[Run], names: Sequence[str]) -> Seen:
    values = {}
    for name in names:
        some = (pl.read_ipc(io.BytesIO(run.values[name]))[name] for run in runs)
        values[name] = _united(some)
    return Seen(values, {name: sum(run.nulls[name] for run in runs) for name in names})


def _united(some: Iterable[pl.Series]) -> pl.Series:
    first, *others = some
    for other in others:
        first = pl.concat([first, other]).unique()
    return first


def _one_schema(path: Path, files: Sequence[Path], cuts: Sequence[Cut], looks: Sequence[tuple[int, Look]]) -> Schema:
    """Columns of the table; looks are given with the number of their file. Raises InputError where its files differ."""
    looked: dict[int, list[Look]] = {}
    for file, found in looks:
        looked.setdefault(file, []).append(found)
    schemas = [
        file_schema(file, found, looked.get(number, []))
        for number, (file, found) in enumerate(zip(files, cuts, strict=True))
    ]
    try:
        pl.concat([pl.DataFrame(schema=schema) for schema in schemas])
    except pl.exceptions.PolarsError as error:
        raise InputError(f"part files differ: {error}", where=path, allowed="the same columns and types") from error
    return schemas[0]
