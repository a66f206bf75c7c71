"""The arrays of a large JSON file in slices, each decoded by itself: memory does not grow with the file.

A slice begins where an element begins and ends where one may end. Only if it decodes as whole elements does it end there:
a text or an inner object that is cut leaves something open. So nothing is taken for a boundary that is none.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from typing import Any

import msgspec

__all__ = ["NotSliced", "Slices", "skeleton"]

_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_LAST = re.compile(rb"\}\s*\]")
_EMPTY = re.compile(rb"\s*\]")
_TRIES = 16


class NotSliced(Exception):  # noqa: N818 - no error: the file is then decoded as a whole, which says what is wrong, if anything
    """The file cannot be read in slices."""


class Slices:
    """The elements of the array under a key, some at a time; ``begin`` and ``end`` say where they lie once all are read.

    Args:
        content: the file, mapped.
        key: of the first array so named. Whether that is the document's own, ``skeleton`` tells afterwards.
        kind: the structure of one element.
        size: bytes that a slice has at least, unless it is the last.
    """

    def __init__(self, content: Any, key: str, kind: type, size: int) -> None:
        found = re.compile(rb'"' + key.encode() + rb'"\s*:\s*\[').search(content)
        if found is None:
            raise NotSliced
        self._content, self._size = content, size
        self._decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self.begin = self.end = found.end()
        self.slice = b""

    def __iter__(self) -> Iterator[list[Any]]:
        """Elements in order, as lists. ``slice`` is meanwhile the text of the last list. Raises NotSliced."""
        if empty := _EMPTY.match(self._content, self.begin):
            self.end = empty.end() - 1
            return
        position, more = self.begin, True
        while more:
            records, after, more = self._next(position)
            yield records
            _drop(self._content, position, after)
            position = after
        self.end = position
        self.slice = b""

    def _next(self, position: int) -> tuple[list[Any], int, bool]:
        """Elements from a position on, where the next one begins or the array ends, and whether there are more."""
        wanted = position + self._size
        for tried, found in enumerate(_BETWEEN.finditer(self._content, min(wanted, len(self._content)))):
            records = self._decode(position, found.start() + 1)
            if records is not None:
                return records, found.end() - 1, True
            # what was cut is an element, or the array ends before
            if last := self._last(position, found.end()):
                return last
            if tried == _TRIES:
                raise NotSliced
        if last := self._last(position, len(self._content)):
            return last
        raise NotSliced

    def _last(self, position: int, limit: int) -> tuple[list[Any], int, bool] | None:
        for tried, found in enumerate(_LAST.finditer(self._content, position, limit)):
            records = self._decode(position, found.start() + 1)
            if records is not None:
                return records, found.end() - 1, False
            if tried == _TRIES:
                raise NotSliced
        return None

    def _decode(self, start: int, end: int) -> list[Any] | None:
        self.slice = b"[" + self._content[start:end] + b"]"
        try:
            return self._decoder.decode(self.slice)
        except msgspec.ValidationError as error:
            raise NotSliced from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


def skeleton(content: Any, arrays: list[Slices]) -> bytes:
    """The document with these arrays emptied. Raises NotSliced where one lies in another."""
    ordered = sorted(arrays, key=lambda array: array.begin)
    pieces, position = [], 0
    for array in ordered:
        if array.begin < position:
            raise NotSliced
        pieces.append(content[position : array.begin])
        position = array.end
    return b"".join([*pieces, content[position:]])


def _drop(content: Any, start: int, end: int) -> None:
    """Give pages that were read back to the system, as far as it can be told so."""
    page = mmap.ALLOCATIONGRANULARITY
    first, last = -(-start // page) * page, end // page * page
    if last > first and hasattr(content, "madvise"):
        content.madvise(mmap.MADV_DONTNEED, first, last - first)
