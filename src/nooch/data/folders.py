"""Folders and tables on disk: written whole or not at all, hashed, one file or a folder of parts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from nooch.errors import InputError, OutputError

__all__ = ["atomic_folder", "check_output", "read_table", "replace_file", "sha256_of"]

_CHUNK = 1 << 22


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; reads 4 MiB at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def check_output(folder: str | Path, *, overwrite: bool = False, marker: str | None = None) -> Path:
    """The absolute path to write to, or an OutputError before any work is done.

    Args:
        overwrite: allow an existing folder, but only an empty one or one that holds ``marker``, so that a
            mistyped path never deletes somebody's files.
        marker: file name that tells a folder written by nooch, such as ``dataset.json``.
    """
    path = Path(folder).absolute()
    if path.exists() or path.is_symlink():
        if not overwrite:
            raise OutputError("exists already", where=path, remedy="choose another path, or give --overwrite")
        ours = path.is_dir() and (not any(path.iterdir()) or (marker is not None and (path / marker).is_file()))
        if not ours:
            raise OutputError(f"exists and holds no {marker}, so it is not replaced", where=path)
    parent = path.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder: {error.strerror}", where=parent) from error
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError("no permission to write here", where=parent)
    return path


@contextlib.contextmanager
def atomic_folder(folder: str | Path, *, overwrite: bool = False, marker: str | None = None) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``folder`` when the block ends, and vanishes when it fails.

    The temporary folder lies beside the final one and carries the process id, so that what a killed process
    left behind is recognised and removed by the next one.
    """
    path = check_output(folder, overwrite=overwrite, marker=marker)
    prefix = f".{path.name}.partial-{socket.gethostname()}-"
    _remove_orphans(path.parent, prefix)
    partial = path.with_name(f"{prefix}{os.getpid()}")
    try:
        partial.mkdir()
        yield partial
        _install(partial, path)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"cannot write: {error.strerror or error}", where=error.filename or path) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _install(partial: Path, path: Path) -> None:
    """Give the finished folder its name; a folder that was there is kept until that has worked."""
    for file in partial.rglob("*"):
        if file.is_file():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
    old = path.with_name(partial.name + "-old")
    if path.exists():
        path.rename(old)
    try:
        partial.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _remove_orphans(parent: Path, prefix: str) -> None:
    for entry in parent.glob(f"{prefix}*"):
        pid = entry.name.removeprefix(prefix).removesuffix("-old")
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(entry, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def replace_file(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", where=path) from error
    finally:
        partial.unlink(missing_ok=True)


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


_READ = {
    ".parquet": lambda path, _: pl.read_parquet(path),
    ".csv": lambda path, options: pl.read_csv(path, infer_schema_length=None, **options),
    ".tsv": lambda path, options: pl.read_csv(path, infer_schema_length=None, separator="\t", **options),
    ".jsonl": lambda path, _: pl.read_ndjson(path),
}


def _read_part(path: Path, csv_options: dict[str, Any]) -> pl.DataFrame:
    read = _READ.get(path.suffix.lower())
    if read is None:
        raise InputError(f"ending {path.suffix!r} is not a table's", where=path, allowed=", ".join(_READ))
    try:
        return read(path, csv_options)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {str(error).splitlines()[0]}", where=path) from error
