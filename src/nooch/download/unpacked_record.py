"""What was unpacked from which zip, recorded when all of it was in place."""

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
    """Record the files that a zip was unpacked to (path in its target -> bytes); written last."""
    manifest = _Manifest(remote.checksum, str(remote.into), files)
    replace_file(_manifest_file(root, remote), msgspec.json.encode(manifest))


def is_unpacked(root: Path, remote: Remote) -> bool:
    """Whether this very zip was unpacked, and every file exists with its size."""
    if remote.into is None:
        return False
    try:
        known = msgspec.json.decode(_manifest_file(root, remote).read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    if known.into != remote.into or remote.checksum not in {None, known.checksum}:
        return False
    target = root / remote.into
    with contextlib.suppress(OSError):
        return all((target / path).stat().st_size == size for path, size in known.files.items())
    return False


def _manifest_file(root: Path, remote: Remote) -> Path:
    return root / f".{remote.name}.unpacked.json"
