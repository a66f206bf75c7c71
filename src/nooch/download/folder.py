"""The folder of downloads: can it be written, is there room, is nobody else at work in it?"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import filelock

from nooch.errors import OutputError

__all__ = ["check_space", "in_words", "only_process", "prepared"]

_LOCK = ".nooch-download.lock"
_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def prepared(root: Path) -> Path:
    """Make the folder where it is missing; OutputError where that cannot be, or it cannot be written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder: {error.strerror}", where=root, remedy="choose another") from error
    if not os.access(root, os.W_OK | os.X_OK):
        raise OutputError("no permission to write here", where=root, remedy="choose another folder")
    return root


def check_space(folder: Path, needed: int, what: str) -> None:
    """OutputError where a folder's disk has less than ``needed`` bytes free."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(
            f"{what} needs {in_words(needed)}, and {in_words(free)} are free",
            where=folder,
            remedy="make room, or choose a folder on another disk",
        )


def in_words(size: int) -> str:
    """Bytes as people say them, such as 19.3 GB."""
    for unit, scale in _UNITS:
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


@contextlib.contextmanager
def only_process(root: Path) -> Iterator[None]:
    """Hold a folder of downloads; OutputError where another process does. A kill lets go of it."""
    lock = filelock.FileLock(root / _LOCK, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise OutputError(
            "another process is downloading into this folder",
            where=root,
            remedy="wait until it has ended, or choose another folder",
        ) from error
    except (OSError, NotImplementedError) as error:
        raise OutputError(f"cannot be locked: {error}", where=root, remedy="choose a folder on another disk") from error
    try:
        yield
    finally:
        lock.release()
