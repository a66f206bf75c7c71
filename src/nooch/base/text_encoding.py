"""Text files in UTF-8, or UTF-16 with a byte order mark; others only in an encoding that is named.

A wrong guess gives other class names and no error, so nothing is guessed.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from nooch.base.errors import InputError, ParameterError, unreadable

_ENCODING: ContextVar[str | None] = ContextVar("encoding of text files", default=None)
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CHUNK = 1 << 22


@contextlib.contextmanager
def reading_as(encoding: str | None) -> Iterator[None]:
    """Read text files without a mark in this encoding, such as ``cp1252``, meanwhile.

    Raises ParameterError for one that Python does not know.
    """
    token = _ENCODING.set(check_encoding(encoding))
    try:
        yield
    finally:
        _ENCODING.reset(token)


def check_encoding(encoding: str | None) -> str | None:
    """The encoding. Raises ParameterError if it is none of text."""
    try:
        if encoding is not None:
            "".encode(encoding)
    except LookupError as error:
        allowed = "a name that Python knows, such as cp1252, latin-1, utf-16-le, shift_jis"
        raise ParameterError(
            f"{encoding!r} is not an encoding", where="`encoding`", allowed=allowed
        ) from error
    return encoding


def decoded(content: bytes, where: object) -> str:
    """The text of a file. Raises InputError if that is not known for sure."""
    return utf8_bytes(content, where).decode()


def text_lines(path: Path, where: object = None, allowed: str | None = None) -> list[str]:
    """The lines of a text file, which errors call ``where``. Raises InputError: it cannot be read,
    or is not ``decoded``; ``allowed`` describes the expected content.
    """
    with unreadable(where or path, allowed):
        content = path.read_bytes()
    return decoded(content, where or path).splitlines()


def utf8_bytes(content: bytes, where: object) -> bytes:
    """The content of a text file as UTF-8 without a mark. Raises InputError as ``decoded``."""
    encoding = "utf-16" if content.startswith(_UTF_16) else _ENCODING.get()
    if content.startswith(codecs.BOM_UTF8):
        content, encoding = content[len(codecs.BOM_UTF8) :], None
    try:
        if encoding is not None:
            return content.decode(encoding).removeprefix("\ufeff").encode()
        if not content.isascii():
            content.decode()
    except UnicodeError as error:
        raise _refused(content, getattr(error, "start", 0), encoding, where) from error
    if b"\0" in content:
        raise _refused(content, content.index(b"\0"), None, where)
    return content


def transcoded(path: Path) -> bytes | None:
    """The content of a text file as UTF-8 if it is in another encoding; None if it can be
    read as it is. At most a few megabytes of such a file are in memory. Raises OSError and, as
    ``decoded``, InputError.
    """
    with path.open("rb") as file:
        chunk = file.read(_CHUNK)
        if _ENCODING.get() is not None or chunk.startswith(_UTF_16):
            if chunk.startswith(codecs.BOM_UTF8):
                return None
            return utf8_bytes(chunk + file.read(), path)
        decoder, before = codecs.getincrementaldecoder("utf-8")(), 0
        more = True
        while more:
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                raise _refused(error.object, error.start, None, path, before) from error
            if b"\0" in chunk:
                raise _refused(chunk, chunk.index(b"\0"), None, path, before)
            before += chunk.count(b"\n")
            more, chunk = bool(chunk), file.read(_CHUNK)
    return None


def _refused(
    content: bytes, start: int, encoding: str | None, where: object, before: int = 0
) -> InputError:
    """The error for a byte that is none of the encoding; None is UTF-8."""
    number = before + content.count(b"\n", 0, start) + 1
    line = content[content.rfind(b"\n", 0, start) + 1 :].partition(b"\n")[0]
    words = re.split(rb"[,;\t]", line)
    ends = [sum(len(word) + 1 for word in words[: n + 1]) for n in range(len(words))]
    column = start - (content.rfind(b"\n", 0, start) + 1)
    word = next((w for w, end in zip(words, ends, strict=True) if column < end), line).strip()
    if encoding is not None:
        problem = f"line {number} is not text in {encoding}"
        return InputError(problem, where=where, remedy="save it as UTF-8", give={"encoding": ...})
    if b"\0" in word:
        problem = f"line {number} contains zero bytes, as UTF-16 without a mark does"
        encodings = ["utf-16-le", "utf-16-be"]
    else:
        shown = word.decode("cp1252", "replace")[:60]
        problem = f"line {number} is not UTF-8; cp1252 would read {shown!r}"
        encodings = ["cp1252"]
    ways, allowed = [{"encoding": name} for name in encodings], "UTF-8, or UTF-16 with a mark"
    remedy = "save it as UTF-8"
    return InputError(problem, where=where, allowed=allowed, remedy=remedy, give=ways)
