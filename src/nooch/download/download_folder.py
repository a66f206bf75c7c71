"""The folder of downloads: can it be written, is nobody else at work in it?"""

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
    """Make the folder where it is missing; OutputError where that cannot be, or it cannot be
    written.
    """
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
    """Hold a folder of downloads; OutputError where another process does. A kill lets go of it."""
    with locked(
        root / _LOCK,
        "downloading into this folder",
        root,
        remedy="wait until it has ended, or choose another folder",
    ):
        yield
