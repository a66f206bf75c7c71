"""Tables of any size, a range at a time: where a file may be cut, what kinds of columns it has, and the rows of a range.

A range is some bytes of a CSV or JSON-lines file, cut where a row ends, or some rows of a Parquet file. Kinds of columns are
those that reading the whole file finds: of CSV in every row, of JSON lines in the first hundred.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.data.tables import table_told
from nooch.errors import InputError

__all__ = ["RANGE", "Cut", "Look", "Schema", "cut", "file_schema", "look", "read_range", "schema_bytes"]

RANGE = 1 << 25
"""Bytes that one job reads."""

Schema = dict[str, pl.DataType]
Span = tuple[int, int]


class Cut(msgspec.Struct):
    """Where a file is cut.

    Attributes:
        ranges: begin and end of each, one at least.
        head: what stands before the first row of a CSV file.
        schema: an empty table with the columns, in Arrow's format; None where every range must be looked at.
    """

    ranges: list[Span]
    head: bytes
    schema: bytes | None


class Look(msgspec.Struct):
    """What a range by itself has to say of its columns.

    Attributes:
        schema: an empty table with its columns.
        empty: columns without any value there: they say nothing.
        wide: columns of numbers with integers of more than 64 bits.
    """

    schema: bytes
    empty: list[str]
    wide: list[str]


def cut(file: Path, size: int) -> Cut:
    """Cut a file into ranges of about ``size`` bytes. Raises InputError for one that cannot be read."""
    return table_told(file, lambda: _KINDS[file.suffix.lower()].cut(file, size))


def look(file: Path, head: bytes, span: Span) -> Look:
    """Kinds of columns of a range of a CSV file. Raises InputError."""
    content = _bytes(file, head, span)
    table = table_told(file, lambda: pl.read_csv(content, infer_schema_length=None, **_csv(file)))
    empty = [c.name for c in table if c.null_count() == table.height]
    large = [c.name for c in table if c.dtype == pl.Float64 and (c.is_finite() & (c.abs() >= 2.0**63)).any()]
    wide = [c.name for c in table if c.dtype == pl.Int128]
    if large:
        text = pl.read_csv(content, infer_schema=False, **_csv(file))
        wide += [c.name for c in text.select(large) if _is_wide(c)]
    return Look(schema_bytes(table), empty, wide)


def _is_wide(cells: pl.Series) -> bool:
    integers = cells.filter(cells.str.contains("^-?[0-9]+$"))
    return integers.cast(pl.Int64, strict=False).null_count() > 0


def read_range(file: Path, head: bytes, span: Span, schema: Schema, columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of the rows of a range, of the kinds that the file has. Raises InputError."""
    read = _KINDS[file.suffix.lower()].read
    return table_told(file, lambda: read(file, head, span, schema, columns))


def file_schema(file: Path, found: Cut, looks: Sequence[Look]) -> Schema:
    """Columns of a file and their kinds, from where it was cut, or else from looking at all ranges.

    Raises:
        InputError: a CSV column of fractions and of integers of more than 64 bits, which can be numbers or text as a whole.
    """
    if found.schema is not None:
        return _schema_of(found.schema)
    kinds: dict[str, set[pl.DataType]] = {}
    for one in looks:
        for name, kind in _schema_of(one.schema).items():
            kinds.setdefault(name, set()).update([] if name in one.empty else [kind])
    for name in {name for one in looks for name in one.wide}:
        if pl.Float64 in kinds[name] and pl.String not in kinds[name]:
            raise InputError(
                f"column {name} holds fractions and integers of more than 64 bits",
                where=file,
                remedy="write the integers with a point or an exponent, or import without --part-size",
            )
    return {name: _common(some) for name, some in kinds.items()}


def schema_bytes(table: pl.DataFrame) -> bytes:
    """Columns and kinds of a table."""
    buffer = io.BytesIO()
    table.clear().write_ipc(buffer)
    return buffer.getvalue()


def _schema_of(content: bytes) -> Schema:
    return dict(pl.read_ipc(io.BytesIO(content)).schema)


_NUMBERS: tuple[pl.DataType, ...] = (pl.Int64(), pl.Int128(), pl.Float64())
"""Kinds of numbers in CSV; each takes those before with it."""


def _common(kinds: Collection[pl.DataType]) -> pl.DataType:
    """The kind that CSV is given whose ranges have these kinds: that of reading it whole."""
    if len(kinds) == 1:
        return next(iter(kinds))
    numbers = [kind for kind in _NUMBERS if kind in kinds]
    return numbers[-1] if numbers and len(numbers) == len(kinds) else pl.String()


def _bytes(file: Path, head: bytes, span: Span) -> bytes:
    with file.open("rb") as content:
        content.seek(span[0])
        return head + content.read(span[1] - span[0])


def _csv(file: Path) -> dict[str, Any]:
    return {"separator": "\t"} if file.suffix.lower() == ".tsv" else {}


# ways of cutting and reading


def _cut_csv(file: Path, size: int) -> Cut:
    head = _csv_head(file)
    return Cut(list(_row_ends(file, len(head), size, quotes=True)), head, None)


def _csv_head(file: Path) -> bytes:
    """The record that names the columns, and empty lines before it."""
    head = b""
    with file.open("rb") as content:
        while line := content.readline():
            head += line
            if head.strip() and head.count(b'"') % 2 == 0:
                break
    return head


def _row_ends(file: Path, begin: int, size: int, *, quotes: bool) -> Iterable[Span]:
    """Ranges that end where rows end: a line's end with, before it, an even number of quotes if these may enclose one."""
    yielded, rest, first = begin, b"", True
    with file.open("rb") as content:
        content.seek(begin)
        while block := content.read(size):
            rest += block
            at = _last_end(rest, quotes=quotes)
            if at:
                yield yielded, yielded + at
                yielded, rest, first = yielded + at, rest[at:], False
    if rest or first:
        yield yielded, yielded + len(rest)


def _last_end(content: bytes, *, quotes: bool) -> int:
    """Behind the last line's end that may be a row's; 0 where there is none. The content begins with a row."""
    at = content.rfind(b"\n")
    count = content.count(b'"', 0, at + 1) if quotes else 0
    while at >= 0 and count % 2:
        before = content.rfind(b"\n", 0, at)
        count -= content.count(b'"', before + 1, at)
        at = before
    return at + 1


def _read_csv(file: Path, head: bytes, span: Span, schema: Schema, columns: Sequence[str]) -> pl.DataFrame:
    return pl.read_csv(_bytes(file, head, span), schema=schema, **_csv(file)).select(columns)


def _cut_lines(file: Path, size: int) -> Cut:
    first = b""
    with file.open("rb") as content:
        # kinds are inferred from a hundred rows; lines may be empty
        rows = 0
        while rows < 100 and (line := content.readline()):
            first, rows = first + line, rows + bool(line.strip())
    return Cut(list(_row_ends(file, 0, size, quotes=False)), b"", schema_bytes(pl.read_ndjson(first)))


def _read_lines(file: Path, head: bytes, span: Span, schema: Schema, columns: Sequence[str]) -> pl.DataFrame:
    content = _bytes(file, head, span)
    table = pl.read_ndjson(content, schema=schema) if content.strip() else pl.DataFrame(schema=schema)
    return table.select(columns)


def _cut_parquet(file: Path, size: int) -> Cut:
    scan = pl.scan_parquet(file, glob=False)
    rows, first = scan.select(pl.len()).collect().item(), scan.head(1000).collect()
    step = max(1, int(size / max(1.0, first.estimated_size() / max(1, first.height))))
    spans = [(begin, min(begin + step, rows)) for begin in range(0, rows, step)] or [(0, 0)]
    return Cut(spans, b"", schema_bytes(first))


def _read_parquet(file: Path, head: bytes, span: Span, schema: Schema, columns: Sequence[str]) -> pl.DataFrame:
    del head, schema
    return pl.scan_parquet(file, glob=False).slice(span[0], span[1] - span[0]).select(columns).collect()


@dataclass(frozen=True)
class _Kind:
    cut: Callable[[Path, int], Cut]
    read: Callable[[Path, bytes, Span, Schema, Sequence[str]], pl.DataFrame]


_KINDS = {
    ".parquet": _Kind(_cut_parquet, _read_parquet),
    ".csv": _Kind(_cut_csv, _read_csv),
    ".tsv": _Kind(_cut_csv, _read_csv),
    ".jsonl": _Kind(_cut_lines, _read_lines),
}
