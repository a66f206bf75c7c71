"""Folders and files on disk: written whole or not at all, and hashed. Nothing here needs more than Python."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from nooch.errors import OutputError

__all__ = ["DATASET_MARKER", "SUITE_MARKER", "atomic_folder", "check_output", "replace_file", "sha256_of"]

DATASET_MARKER = "dataset.json"
SUITE_MARKER = "suite.json"
"""The files that tell a folder as nooch's own; each is written last."""

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
        folder: where to write.
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
