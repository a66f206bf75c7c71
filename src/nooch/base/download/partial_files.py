"""The downloaded part of a file and what the server said of it, under hidden names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from nooch.base.files import replace_file
from nooch.base.limits import BROKEN_JSON

__all__ = ["Origin", "PartialFile"]


class Origin(msgspec.Struct, frozen=True):
    """Where the bytes come from (as asked for, before redirects), and what shows that the file
    there is still the same: a strong ETag or a Last-Modified date, or null; ``total`` may be
    null, too.
    """

    url: str
    validator: str | None = None
    total: int | None = None


class PartialFile:
    """``.NAME.partial`` with ``.NAME.partial.json``.

    If ``distrusted``, existing bytes do not count, but stay until a server really sends the file.
    """

    def __init__(self, final: Path) -> None:
        self.final = final
        self.distrusted = False
        self.path = final.with_name(f".{final.name}.partial")
        self._sidecar = final.with_name(f".{final.name}.partial.json")

    @property
    def size(self) -> int:
        """Bytes that exist and count."""
        return self.path.stat().st_size if self.path.is_file() and not self.distrusted else 0

    @property
    def origin(self) -> Origin | None:
        """The recorded origin, or None if there is none that can be read."""
        try:
            return msgspec.json.decode(self._sidecar.read_bytes(), type=Origin)
        except (FileNotFoundError, *BROKEN_JSON):
            return None

    def note(self, origin: Origin) -> None:
        """Record where the bytes come from, before any of them is written."""
        replace_file(self._sidecar, msgspec.json.encode(origin))

    def open(self) -> BinaryIO:
        """The file to append to; unbuffered, so that a kill loses nothing."""
        return self.path.open("ab", buffering=0)

    def clear(self) -> None:
        """Delete the bytes and their origin."""
        self.distrusted = False
        # the bytes first: without their origin they would be resumed from any server
        self.path.unlink(missing_ok=True)
        self._sidecar.unlink(missing_ok=True)

    def install(self) -> None:
        """Give the checked file its final name."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        self.path.replace(self.final)
        self._sidecar.unlink(missing_ok=True)
