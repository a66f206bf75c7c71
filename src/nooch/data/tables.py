"""Tables on disk: one file, or a folder of part files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from nooch.errors import InputError

__all__ = ["read_table"]


def read_table(path: str | Path, **csv_options: Any) -> pl.DataFrame:
    """A CSV, TSV, Parquet or JSON-lines table: one file, or a folder of part files of one kind.

    Raises:
        InputError: no such file, an ending that is not known, or contents that do not parse.
    """
    path = Path(path)
    if not path.exists():
        raise InputError("no such file or folder", where=path)
    parts = sorted(p for p in path.iterdir() if p.suffix in _READ) if path.is_dir() else [path]
    if not parts:
        raise InputError("the folder holds no table", where=path, allowed=", ".join(_READ))
    frames = [_read_part(part, csv_options) for part in parts]
    try:
        return frames[0] if len(frames) == 1 else pl.concat(frames)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"part files differ: {error}", where=path, allowed="the same columns and types") from error


# a name with [ or * is a name, not a pattern
_READ: dict[str, Callable[[Path, dict[str, Any]], pl.DataFrame]] = {
    ".parquet": lambda path, _: pl.read_parquet(path, glob=False),
    ".csv": lambda path, options: pl.read_csv(path, infer_schema_length=None, glob=False, **options),
    ".tsv": lambda path, options: pl.read_csv(path, infer_schema_length=None, glob=False, separator="\t", **options),
    ".jsonl": lambda path, _: pl.read_ndjson(path.read_bytes()),
}


def _read_part(path: Path, csv_options: dict[str, Any]) -> pl.DataFrame:
    read = _READ.get(path.suffix.lower())
    if read is None:
        raise InputError(f"ending {path.suffix!r} is not a table's", where=path, allowed=", ".join(_READ))
    try:
        return read(path, csv_options)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {str(error).splitlines()[0]}", where=path) from error
