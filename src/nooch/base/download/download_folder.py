"""The folder of downloads: used by one process at a time, with records of what was unpacked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from nooch.base.disk import locked
from nooch.base.download.catalogue import Remote
from nooch.base.errors import OutputError
from nooch.base.files import replace_file
from nooch.base.limits import BROKEN_JSON

__all__ = ["is_unpacked", "note_unpacked", "only_process", "prepared"]

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


class _Manifest(msgspec.Struct, frozen=True):
    checksum: str | None
    into: str
    files: dict[str, int]


def note_unpacked(root: Path, remote: Remote, files: dict[str, int]) -> None:
    """Record the files that a zip was unpacked to (path in its target -> bytes); written last."""
    manifest = _Manifest(remote.checksum, str(remote.into), files)
    replace_file(_manifest_file(root, remote), msgspec.json.encode(manifest))


def is_unpacked(root: Path, remote: Remote) -> bool:
    """Whether this very zip was unpacked, and every file exists with its size."""
    if remote.into is None:
        return False
    try:
        known = msgspec.json.decode(_manifest_file(root, remote).read_bytes(), type=_Manifest)
    except (OSError, *BROKEN_JSON):
        return False
    if known.into != remote.into or remote.checksum not in {None, known.checksum}:
        return False
    target = root / remote.into
    with contextlib.suppress(OSError):
        return all((target / path).stat().st_size == size for path, size in known.files.items())
    return False


def _manifest_file(root: Path, remote: Remote) -> Path:
    return root / f".{remote.name}.unpacked.json"
