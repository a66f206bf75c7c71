"""The work of reading a table in parts, a file or a range of one each."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec
import polars as pl

from nooch.data import identifiers
from nooch.files import sha256_of
from nooch.readers.reading import Job
from nooch.readers.table_ranges import Cut, Look, Schema, Span, cut, look, read_range
from nooch.readers.table_rows import Seen, is_too_long

__all__ = ["ID", "ROW", "CutJob", "DigitsJob", "HashJob", "LookJob", "RowRange", "Run", "RunJob"]

ID, ROW = "nooch:id", "nooch:row"
"""Of the rows on disk: the image, and the number in the range."""

_GROUP = 1 << 13
"""Rows on disk that are read at once where some of them are wanted."""


@dataclass(frozen=True)
class RowRange:
    """A range of a file; ``file`` is its number."""

    path: Path
    head: bytes
    span: Span
    file: int


class Run(msgspec.Struct):
    """What was found in the rows of a range.

    Attributes:
        rows: how many there are.
        no_id: how many of them have no id.
        too_long: whether an id has more than 64 bits.
        values: column -> a table of its distinct values, in Arrow's format.
        nulls: column -> rows without a value.
    """

    rows: int
    no_id: int
    too_long: bool
    values: dict[str, bytes]
    nulls: dict[str, int]


@dataclass(frozen=True)
class CutJob(Job):
    """Where a file is cut into ranges of about ``size`` bytes."""

    name: ClassVar[str] = "cut"
    result: ClassVar[type] = Cut
    path: Path
    size: int

    def make(self) -> Cut:
        """Raises InputError."""
        return cut(self.path, self.size)


@dataclass(frozen=True)
class LookJob(Job):
    """Kinds of the columns of a range of a CSV file."""

    name: ClassVar[str] = "look"
    result: ClassVar[type] = Look
    range: RowRange

    def make(self) -> Look:
        """Raises InputError."""
        return look(self.range.path, self.range.head, self.range.span)


@dataclass(frozen=True)
class DigitsJob(Job):
    """Whether all ids of a range are written in digits."""

    name: ClassVar[str] = "digits"
    result: ClassVar[type] = bool
    range: RowRange
    schema: Schema
    id: str

    def make(self) -> bool:
        """Raises InputError."""
        one = self.range
        ids = read_range(one.path, one.head, one.span, self.schema, [self.id])[self.id].drop_nulls().unique()
        return not len(ids) or identifiers(ids.to_list()).dtype == pl.Int64


@dataclass(frozen=True)
class HashJob(Job):
    """The hash of the file."""

    name: ClassVar[str] = "hash"
    result: ClassVar[type] = str
    path: Path

    def make(self) -> str:
        """SHA-256."""
        return sha256_of(self.path)


@dataclass(frozen=True)
class RunJob(Job):
    """The rows of a range, sorted by id, into a file.

    Attributes:
        range: that is read.
        schema: columns of its file.
        id: column of ids.
        used: columns that are kept.
        watched: those of them whose distinct values are wanted.
        as_number: whether ids are integers.
    """

    name: ClassVar[str] = "run"
    result: ClassVar[type] = Run
    range: RowRange
    schema: Schema
    id: str
    used: Sequence[str]
    watched: Sequence[str]
    as_number: bool

    @property
    def rows(self) -> Path:
        """The file of rows."""
        return self.kept.with_suffix(".parquet")

    def make(self) -> Run:
        """Raises InputError."""
        one = self.range
        table = read_range(one.path, one.head, one.span, self.schema, [*dict.fromkeys([self.id, *self.used])])
        ids, seen = table[self.id], Seen.of(table, self.watched)
        by_id = table.select(self.used).insert_column(0, self._images(ids)).with_row_index(ROW)
        by_id.sort(ID, maintain_order=True).write_parquet(self.rows, compression="lz4", row_group_size=_GROUP)
        values = {name: _column_bytes(column) for name, column in seen.values.items()}
        return Run(table.height, ids.null_count(), is_too_long(ids), values, seen.nulls)

    def _images(self, ids: pl.Series) -> pl.Series:
        kind = pl.Int64() if self.as_number else pl.String()
        if ids.dtype.is_integer() or ids.dtype == pl.String:
            # where an id is none the import is refused once all rows are counted
            return ids.cast(kind, strict=False).alias(ID)
        return pl.Series(ID, [None], kind).new_from_index(0, len(ids))


def _column_bytes(column: pl.Series) -> bytes:
    buffer = io.BytesIO()
    column.to_frame().write_ipc(buffer)
    return buffer.getvalue()
