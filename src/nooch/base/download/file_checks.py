"""Whether a file is the right one: checked before it gets its name, and if it exists."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from nooch.base.download.catalogue import Remote
from nooch.base.download.zips import damage
from nooch.base.errors import InputError
from nooch.base.files import replace_file, sha256_of
from nooch.base.limits import BROKEN_JSON

__all__ = ["RECORD", "DownloadRecord", "fault"]

RECORD = "nooch_downloads.json"
"""Sizes and hashes, at the first download, of files without published ones."""


def fault(path: Path, remote: Remote) -> str | None:
    """What is wrong with a file, or None. Reads all of it.

    Without a known checksum, every member of the zip is tested instead.
    """
    if not path.is_file():
        return "is no file"
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        return f"has {size:,} bytes instead of {remote.size:,}{remote.authority}"
    if remote.checksum is None:
        return damage(path, remote.unpacked_at_most)
    algorithm, _, wanted = remote.checksum.partition(":")
    with path.open("rb") as file:
        # md5 and sha1 are what COCO's own server and others publish: against damage
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    actual = digest.hexdigest()
    if actual == wanted:
        return None
    return f"has {algorithm} {actual} instead of {wanted}{remote.authority}"


class _Entry(msgspec.Struct, frozen=True):
    size: int
    sha256: str
    source: str


class DownloadRecord:
    """The record of a folder of downloads."""

    def __init__(self, root: Path) -> None:
        self.path = root / RECORD
        self._entries: dict[str, _Entry] = {}
        if self.path.exists():
            try:
                self._entries = msgspec.json.decode(self.path.read_bytes(), type=dict[str, _Entry])
            except (*BROKEN_JSON, OSError) as error:
                raise InputError(
                    f"the record of earlier downloads cannot be read: {error}",
                    where=self.path,
                    remedy="delete it; what is there is then recorded again",
                ) from error

    def complete(self, remote: Remote) -> Remote:
        """The file with its recorded size and hash, if the catalog has none."""
        known = self._entries.get(remote.name)
        if known is None or remote.checksum is not None:
            return remote
        return msgspec.structs.replace(
            remote, size=known.size, sha256=known.sha256, recorded_in=RECORD
        )

    def add(self, remote: Remote, path: Path, source: str) -> Remote:
        """Record a file that has just been obtained, if no checksum of it is known."""
        if remote.checksum is not None:
            return remote
        self._entries[remote.name] = _Entry(path.stat().st_size, sha256_of(path), source)
        text = msgspec.json.format(msgspec.json.encode(self._entries), indent=1)
        replace_file(self.path, text + b"\n")
        return self.complete(remote)
