"""Folders that nooch made for itself: each has a file ``.nooch``, and only those are removed."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from nooch.base.errors import OutputError

MARK = ".nooch"
"""In a folder of intermediate files, or one that was replaced: nooch may remove it."""


def is_ours(folder: Path) -> bool:
    """True if a folder has the mark, or is empty."""
    try:
        whole = folder.is_dir() and not folder.is_symlink()
        return whole and ((folder / MARK).is_file() or not any(folder.iterdir()))
    except OSError:
        return False


def check_own(folder: Path) -> None:
    """Raise an OutputError if something without the mark has the name of such a folder."""
    if os.path.lexists(folder) and not is_ours(folder):
        problem = "nooch needs this name, and did not make what is there"
        raise OutputError(problem, where=folder, remedy="rename it, or delete it")


def own_folder(folder: Path) -> None:
    """Make a folder of intermediate files, or take one that nooch made. Raises as ``check_own``."""
    check_own(folder)
    folder.mkdir(exist_ok=True)
    # before anything else: so that what a kill leaves is known as ours
    (folder / MARK).touch()


def remove_ours(folder: Path) -> None:
    """Try to remove a folder that nooch made; its marker goes last."""
    if not folder.is_dir() or not is_ours(folder):
        return
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != MARK:
            with contextlib.suppress(OSError):
                entry.unlink()
    with contextlib.suppress(OSError):
        if [entry.name for entry in folder.iterdir()] == [MARK]:
            (folder / MARK).unlink()
        folder.rmdir()
