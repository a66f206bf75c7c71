"""The folder of downloads: writable, and used by one process at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nooch.errors import OutputError
from nooch.work_folder import locked

__all__ = ["only_process", "prepared"]

_LOCK = ".nooch-download.lock"


def prepared(root: Path) -> Path:
    """Make the folder if it is missing; OutputError if it cannot be made or written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot make the folder: {error.strerror}", where=root, remedy="choose another"
        ) from error
    if not os.access(root, os.W_OK | os.X_OK):
        raise OutputError("no permission to write here", where=root, remedy="choose another folder")
    return root


@contextlib.contextmanager
def only_process(root: Path) -> Iterator[None]:
    """Lock a folder of downloads; OutputError if another process has it. A kill unlocks it."""
    remedy = "wait until it has ended, or choose another folder"
    with locked(root / _LOCK, "downloading into this folder", root, remedy=remedy):
        yield
