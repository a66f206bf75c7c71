"""Writes of ``files`` that survive a power loss: sync, exchange of names, locks; and folders that
nooch made for itself: each has a file ``.nooch``, and only those are removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from nooch.base.errors import OutputError

_SYNCING = 16
"""Files that are synced at once."""

# of folders, on systems and file systems that have no such call
_NO_SYNC = {errno.EINVAL, errno.EACCES, errno.EPERM, errno.EBADF, errno.ENOTSUP}
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
_HERE, _EXCHANGE = -100, 2
"""Linux: AT_FDCWD, RENAME_EXCHANGE."""


def sync(path: Path) -> None:
    """Return when the content of a file, or the names in a folder, are on the disk.

    Raises OSError if they cannot be; a file system that syncs no folders is none.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC or not path.is_dir():
            raise


def sync_tree(folder: Path) -> None:
    """Sync all files and folders below a folder, and itself."""
    sync_files((folder, *folder.rglob("*")))


def sync_files(paths: Iterable[Path]) -> None:
    """Sync files and folders."""
    # one at a time, thousands of small files would take longer to sync than to write
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_SYNCING) as pool:
        deque(pool.map(sync, paths), maxlen=0)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, if they are missing; their names are synced."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync(made.parent)


def exchange(left: Path, other: Path) -> bool:
    """Exchange the names of two files or folders in one step, on Linux.

    False, and nothing is changed, where the system or the file system cannot do that.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(left), os.fsencode(other)
    if not rename(_HERE, names[0], _HERE, names[1], _EXCHANGE):
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


@contextlib.contextmanager
def locked(
    file: Path,
    doing: str,
    where: Path,
    *,
    remedy: str = "wait for it",
    waiting: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Hold a lock file, which is removed at the end; a kill, on any machine, releases it.

    Where another process has it, ``waiting`` is called before it is waited for; without, that is an
    OutputError.
    """
    # to lock a file empties it
    if file.is_file() and file.stat().st_size:
        raise OutputError(
            "is not a lock file of nooch", where=file, remedy="rename it, or delete it"
        )
    # not needed by workers, whose start it would delay
    from filelock import FileLock, Timeout

    # a soft lock outlives a kill, and its file is not a lock file of nooch
    lock = FileLock(file, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        if waiting is None:
            raise OutputError(f"another process is {doing}", where=where, remedy=remedy) from error
        waiting()
        lock.acquire(poll_interval=1.0)
    except (OSError, NotImplementedError) as error:
        remedy = "choose a folder that can be written, or another disk"
        raise OutputError(f"cannot be locked: {error}", where=where, remedy=remedy) from error
    try:
        yield
    finally:
        # while it is locked: afterwards it may be another process's
        try:
            with contextlib.suppress(OSError):
                file.unlink()
        finally:
            lock.release()


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
