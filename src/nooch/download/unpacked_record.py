"""What was unpacked from which zip, noted when all of it was in place."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from nooch.download.catalogue import Remote
from nooch.files import replace_file

__all__ = ["is_unpacked", "note_unpacked"]


class _Manifest(msgspec.Struct, frozen=True):
    checksum: str | None
    into: str
    files: dict[str, int]


def note_unpacked(root: Path, remote: Remote, files: dict[str, int]) -> None:
    """Keep that this zip was unpacked to these files (path below its target -> bytes); written
    last.
    """
    replace_file(
        _place(root, remote),
        msgspec.json.encode(_Manifest(remote.checksum, str(remote.into), files)),
    )


def is_unpacked(root: Path, remote: Remote) -> bool:
    """Whether this very zip was unpacked, and every file is there with its size."""
    if remote.into is None:
        return False
    try:
        known = msgspec.json.decode(_place(root, remote).read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    if known.into != remote.into or remote.checksum not in {None, known.checksum}:
        return False
    target = root / remote.into
    with contextlib.suppress(OSError):
        return all((target / path).stat().st_size == size for path, size in known.files.items())
    return False


def _place(root: Path, remote: Remote) -> Path:
    return root / f".{remote.name}.unpacked.json"
