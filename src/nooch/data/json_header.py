"""The JSON file that identifies a folder of nooch: its format and version are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from nooch.errors import FormatError
from nooch.files import Place, local_path, read_bytes

__all__ = ["encode_header", "load_header"]

T = TypeVar("T")


class _BaseHeader(msgspec.Struct):
    """What every version has."""

    format: str
    version: int


def load_header(path: Place, kind: type[T], *, name: str, version: int, make: str, again: str) -> T:
    """Contents of a folder's header file.

    Args:
        path: the header file.
        kind: the structure to decode into.
        name: kind of folder, such as ``dataset``; the file's format is ``nooch-dataset``.
        version: newest known version.
        make: remedy where the file is missing.
        again: remedy where the file is broken.

    Raises:
        FormatError: the file is missing, broken, of another format or of a newer version.
        InputError: an address that cannot be fetched.
        ParameterError: an address that was taken for a path.
    """
    try:
        content = read_bytes(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if isinstance(path, Path):
            local_path(path)
        raise FormatError(
            f"is no {name}: it has no {path.name}", where=path.parent, remedy=make
        ) from error
    except OSError as error:
        raise FormatError(f"cannot be read: {error}", where=path, remedy=again) from error
    try:
        # first what every version has, so that a newer version is reported as such
        base = msgspec.json.decode(content, type=_BaseHeader)
        if base.format != f"nooch-{name}" or base.version > version:
            raise FormatError(
                f"holds {base.format} version {base.version}",
                where=path,
                allowed=f"nooch-{name} up to version {version}",
                remedy="install a newer nooch",
            )
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError(f"cannot be read: {error}", where=path, remedy=again) from error


def encode_header(header: Any) -> bytes:
    """A header as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(header), indent=1) + b"\n"
