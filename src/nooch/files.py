"""Folders and files on disk: written whole or not at all, and hashed. Nothing here needs more than Python."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
import socket
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nooch.errors import OutputError

__all__ = [
    "DATASET_MARKER",
    "SUITE_MARKER",
    "SWEEP_MARKER",
    "atomic_folder",
    "check_output",
    "check_output_file",
    "replace_file",
    "sha256_of",
]

DATASET_MARKER = "dataset.json"
SUITE_MARKER = "suite.json"
SWEEP_MARKER = "sweep.json"
"""The files that tell a folder as nooch's own; each is written last."""

_CHUNK = 1 << 22
_SYNCING = 16
"""Files that are waited for at once."""


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
    with contextlib.suppress(OSError):
        _clear_orphans(path)
    _check_free(path, overwrite, marker)
    return path


def check_output_file(path: str | Path, *, overwrite: bool = False) -> Path:
    """The path of a file to write, or an OutputError before any work is done: it exists, or its folder cannot be written."""
    path = Path(path)
    if path.is_dir():
        raise OutputError("is a folder", where=path, remedy="name a file")
    _check_free(path.absolute(), overwrite, path.name, ours=path.is_file())
    return path


_ELSEWHERE = "choose another path"


def _check_free(path: Path, overwrite: bool, marker: str | None, *, ours: bool = False) -> None:
    try:
        exists = path.is_symlink() or path.exists()
        ours = ours or (
            path.is_dir() and (not any(path.iterdir()) or (marker is not None and (path / marker).is_file()))
        )
        parent = next(p for p in path.parents if p.exists())
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=path, remedy=_ELSEWHERE) from error
    if exists and not overwrite:
        raise OutputError("exists already", where=path, remedy="choose another path, or give --overwrite")
    if exists and not ours:
        raise OutputError(f"exists and holds no {marker}, so it is not replaced", where=path, remedy=_ELSEWHERE)
    if not parent.is_dir():
        raise OutputError(f"cannot make the folder: {parent} is a file", where=path.parent, remedy=_ELSEWHERE)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError("no permission to write here", where=parent, remedy=_ELSEWHERE)


@contextlib.contextmanager
def atomic_folder(folder: str | Path, *, overwrite: bool = False, marker: str | None = None) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``folder`` when the block ends, and vanishes when it fails.

    The temporary folder lies beside the final one and carries the process id, so that what a killed process
    left behind is recognised and removed by the next one.
    """
    path = check_output(folder, overwrite=overwrite, marker=marker)
    partial = path.with_name(f"{_prefix(path)}{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        # another process may have written there meanwhile
        _check_free(path, overwrite, marker)
        _install(partial, path)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"cannot write: {error.strerror or error}", where=error.filename or path) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _install(partial: Path, path: Path) -> None:
    """Give the finished folder its name; a folder that was there is kept until that has worked."""
    # one at a time, thousands of small files would take longer to sync than to write
    with ThreadPoolExecutor(_SYNCING) as pool:
        deque(pool.map(_sync, (file for file in partial.rglob("*") if file.is_file())), maxlen=0)
    old = path.with_name(partial.name + "-old")
    try:
        if path.exists():
            path.rename(old)
        partial.rename(path)
    except BaseException:
        # a signal, too, may come between the two
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    _remove(old)


def _sync(file: Path) -> None:
    with file.open("rb") as handle:
        os.fsync(handle.fileno())


def _prefix(path: Path) -> str:
    """What the names of the temporary folders of ``path`` begin with; the process id follows."""
    return f".{path.name}.partial-{socket.gethostname()}-"


def _clear_orphans(path: Path) -> None:
    """Remove what killed processes left beside ``path``; a folder they were just replacing gets its name back."""
    prefix = _prefix(path)
    for entry in path.parent.glob(f"{glob.escape(prefix)}*"):
        pid = entry.name.removeprefix(prefix).removesuffix("-old")
        if not pid.isdigit() or _alive(int(pid)):
            continue
        if entry.name.endswith("-old") and not path.exists():
            entry.rename(path)
        else:
            _remove(entry)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        # in containers every run may have the same id: what carries ours was left by an earlier one
        return False
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
