"""Work that only one process at a time may do in a folder."""

from __future__ import annotations

import contextlib
import glob
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from nooch.errors import OutputError

__all__ = ["held", "remove_folder", "remove_leftovers"]


@contextlib.contextmanager
def held(folder: Path, doing: str) -> Iterator[None]:
    """The folder, made where it is missing, and held so that two processes never do the same work.

    Args:
        folder: for intermediate files.
        doing: for the error, such as ``finding this suite``.

    Raises:
        OutputError: another process holds it, or it cannot be made.
    """
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise OutputError(f"another process is {doing}", where=folder, remedy="wait for it") from error
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", where=folder.parent) from error
    try:
        folder.mkdir(exist_ok=True)
        yield
    finally:
        # one that nothing came into is of no use
        with contextlib.suppress(OSError):
            folder.rmdir()
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def remove_leftovers(target: Path, what: str, doing: str) -> None:
    """Remove intermediate folders beside a target that is written, but those that other processes hold.

    Args:
        target: what they were for.
        what: in their names, ``.TARGET.WHAT-KEY``.
        doing: as for ``held``.
    """
    for left in target.parent.glob(f"{glob.escape(f'.{target.name}.{what}-')}*"):
        if left.is_dir():
            with contextlib.suppress(OutputError), held(left, doing):
                remove_folder(left)


def remove_folder(folder: Path) -> None:
    """Remove intermediate files; workers that are just ending may write one more."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
