"""Files that make up one table -> column types, and rows as a lazy frame, in bounded memory.

CSV has no types: as ``polars.read_csv(infer_schema_length=None)`` does, every cell counts. Polars
holds the whole file for that, so the cells are classified here, in a streaming pass. JSON lines
have the types of their first hundred rows.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import polars as pl

from nooch.base.errors import InputError
from nooch.data.table_files import alike, checked_read

Schema = dict[str, pl.DataType]

T = TypeVar("T")


@dataclass(frozen=True)
class TableFiles:
    """Files of the same columns, which make up one table; absolute, since workers may run in other
    folders, and ``names`` as errors call them.
    """

    files: Sequence[Path]
    names: Sequence[Path]
    schema: Schema

    @classmethod
    def of(cls, files: Sequence[Path], names: Sequence[Path], where: object) -> Self:
        """Files with their columns and types. Raises InputError: unreadable ones, other columns."""
        schemas = [
            checked_read(name, partial(file_schema, file))
            for file, name in zip(files, names, strict=True)
        ]
        with alike(where):
            pl.concat([pl.DataFrame(schema=schema) for schema in schemas])
        return cls(files, names, schemas[0])

    def read(self, act: Callable[[pl.LazyFrame], T]) -> T:
        """Apply ``act`` to the rows. Raises InputError, which names the file that is unreadable."""
        scans = {
            name: _scan(file, self.schema)
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
        return pl.scan_ndjson(glob.escape(str(file)), schema=schema)
    return pl.scan_parquet(file, glob=False)


def _scan_csv(file: Path, **options: Any) -> pl.LazyFrame:
    return pl.scan_csv(
        file, glob=False, separator="\t" if file.suffix.lower() == ".tsv" else ",", **options
    )


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
    kinds = _kinds_of_cells(rows.head(_FIRST), names, [])
    known = [name for name in names if kinds[name] & _TEXT]
    # these are read as well: every row must have as many cells as there are columns
    kinds |= _kinds_of_cells(rows, [name for name in names if name not in known], known)
    return {name: _TYPES.get(kinds[name], pl.String()) for name in names}


def _kinds_of_cells(
    rows: pl.LazyFrame, names: Sequence[str], known: Sequence[str]
) -> dict[str, int]:
    """Column -> kinds of its cells that are not empty; ``known`` are columns that are only read."""
    kinds = {f"{number}": _kind(pl.col(name)).bitwise_or() for number, name in enumerate(names)}
    read = {f"null {number}": pl.col(name).null_count() for number, name in enumerate(known)}
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
