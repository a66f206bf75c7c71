"""Zips: all that a hostile one could do is refused before any file has its final name."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nooch.base.calls import StepProgress, no_progress
from nooch.base.errors import InputError, OutputError
from nooch.base.limits import MOST_RATIO
from nooch.base.work_folder import check_space

MOST_MEMBERS = 1_000_000

_ENCRYPTED = 0x1 | 0x20 | 0x40
_BLOCK = 1 << 20
_ODD = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')
# what the zip module raises for archives that are cut off or made up
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OverflowError)


@dataclass(frozen=True)
class Member:
    """A file in a zip and its path below the target, with ``/``."""

    info: zipfile.ZipInfo
    path: str


def unpack(
    path: Path, target: Path, at_most: int, *, tell: StepProgress = no_progress
) -> dict[str, int]:
    """Unpack a zip into a folder; returns the relative paths of its files and their sizes in bytes.

    If all members are in one folder, that folder becomes the target. Existing files with the same
    contents stay as they are. Everything is unpacked into a hidden folder first, then renamed.
    """
    with _opened(path) as archive:
        members = listed(archive, at_most, path)
        missing = [member for member in members if not _is_there(member, target)]
        if missing:
            _unpack_missing(archive, missing, target, f".{path.name}.unpacking", tell)
    return {member.path: member.info.file_size for member in members}


def listed(archive: zipfile.ZipFile, at_most: int, where: object) -> list[Member]:
    """The files of a zip whose directory passed all checks; InputError for what is refused."""
    infos = [info for info in archive.infolist() if not info.filename.startswith("__MACOSX/")]
    _check_sizes(infos, at_most, where)
    for info in infos:
        _check_member(info, where)
    files = [info for info in infos if not info.is_dir()]
    if not files:
        raise InputError("holds no file", where=where, allowed="a zip of at least one file")
    _check_distinct(infos, where)
    top = {info.filename.partition("/")[0] for info in infos}
    # all in one folder: that folder is the target
    cut = len(top.pop()) + 1 if len(top) == 1 and all("/" in info.filename for info in files) else 0
    return [Member(info, info.filename[cut:]) for info in files]


def damage(path: Path, at_most: int) -> str | None:
    """What is wrong with a zip, or None: all contents are compared with their CRC-32."""
    try:
        with _opened(path) as archive:
            for member in listed(archive, at_most, path):
                for _ in _blocks(archive, member):
                    pass
    except InputError as error:
        return error.problem
    return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (InputError, OutputError):
        raise
    except _BROKEN as error:
        raise _damaged(path, error) from error
    except OSError as error:
        if error.errno == errno.EINVAL:
            # an offset before the file's first byte
            raise _damaged(path, error) from error
        raise OutputError(
            f"cannot be unpacked: {error.strerror or error}",
            where=error.filename or path,
            remedy="make room, or choose another folder",
        ) from error


def _damaged(path: Path, error: Exception) -> InputError:
    # some messages quote the archive at length
    words = str(error)[:200] or "it ends too early"
    problem = f"is no zip, or a damaged one: {words}"
    return InputError(problem, where=path, remedy="delete it and download it again")


def _check_sizes(infos: list[zipfile.ZipInfo], at_most: int, where: object) -> None:
    total = sum(info.file_size for info in infos)
    packed = sum(info.compress_size for info in infos)
    if len(infos) > MOST_MEMBERS:
        allowed = f"at most {MOST_MEMBERS:,}"
        raise InputError(f"holds {len(infos):,} members", where=where, allowed=allowed)
    if total > at_most:
        allowed = f"at most {at_most:,}"
        raise InputError(f"would unpack to {total:,} bytes", where=where, allowed=allowed)
    if isinstance(where, Path) and packed > where.stat().st_size:
        problem = "members overlap: together they are larger than the file"
        raise InputError(problem, where=where, allowed="each its own")


def _check_member(info: zipfile.ZipInfo, where: object) -> None:
    unknown = info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    is_bomb = info.file_size > max(1 << 20, MOST_RATIO * info.compress_size)
    for refused, reason in (
        (is_unsafe(info), "has an unsafe name"),
        (_is_special(info), "is a link or a device"),
        (info.flag_bits & _ENCRYPTED, "is encrypted"),
        (unknown, "has an unknown compression"),
        (is_bomb, f"would unpack {info.compress_size:,} bytes to {info.file_size:,}"),
    ):
        if refused:
            raise InputError(
                f"member {info.orig_filename[:200]!r} {reason}",
                where=where,
                allowed=(
                    "plain files with relative names, stored or deflated, not encrypted, "
                    f"of at most {MOST_RATIO} times their packed size"
                ),
            )


def is_unsafe(info: zipfile.ZipInfo) -> bool:
    """Whether a member may not be written under ``info.filename``, the only name in use.

    That name must be the one in the directory: the zip module cuts it at a NUL, turns backslashes
    on Windows and, from Python 3.12, replaces it by that of the Unicode path field (0x7075).
    """
    name = info.filename
    parts = name.removesuffix("/").split("/")
    return (
        name != info.orig_filename
        or bool(_ODD.search(name))
        or any(p in {"", ".", ".."} or p[-1] in ". " for p in parts)
    )


def _is_special(info: zipfile.ZipInfo) -> bool:
    kind = stat.S_IFMT(info.external_attr >> 16)
    # of a member without a name, is_dir fails before Python 3.12
    is_folder = info.filename.endswith("/")
    return kind not in {0, stat.S_IFREG, stat.S_IFDIR} or (kind == stat.S_IFDIR and not is_folder)


def _check_distinct(infos: list[zipfile.ZipInfo], where: object) -> None:
    """Refuse names that are equal if case is ignored, and names of both a file and a folder."""
    files, folders = set(), set()
    for info in infos:
        name = unicodedata.normalize("NFC", info.filename.removesuffix("/")).casefold()
        parents = name.split("/")
        folders |= {"/".join(parents[:n]) for n in range(1, len(parents) + info.is_dir())}
        if info.is_dir():
            continue
        if name in files:
            problem = f"member {info.filename!r} is there twice"
            raise InputError(problem, where=where, allowed="each name once")
        files.add(name)
    if both := files & folders:
        problem = f"member {min(both)!r} is a file and a folder"
        raise InputError(problem, where=where, allowed="one of them")


def _is_there(member: Member, target: Path) -> bool:
    """Whether the target has this file already; OutputError if it has another of that name."""
    there = target / member.path
    if not there.exists():
        return False
    same_size = there.is_file() and there.stat().st_size == member.info.file_size
    if same_size and _crc_of(there) == member.info.CRC:
        return True
    raise OutputError(
        "is there already, with other contents than in the zip",
        where=there,
        remedy="move it away, or choose another folder",
    )


def _crc_of(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc


def _unpack_missing(
    archive: zipfile.ZipFile,
    members: list[Member],
    target: Path,
    temporary: str,
    tell: StepProgress,
) -> None:
    # on the target's own disk, wherever a link leads
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = (target if target.is_dir() else target.parent) / temporary
    shutil.rmtree(partial, ignore_errors=True)
    total = sum(member.info.file_size for member in members)
    check_space(partial.parent, total, "unpacking")
    partial.mkdir()
    try:
        done = 0
        for member in members:
            for size in _write(archive, member, partial):
                done += size
                tell(done, total)
        _install(partial, members, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(archive: zipfile.ZipFile, member: Member, folder: Path) -> Iterator[int]:
    """Write one member; yields the bytes of each block."""
    path = (folder / member.path).resolve()
    if not path.is_relative_to(folder.resolve()):
        # names were checked before; this is the path itself
        problem = f"member {member.path[:200]!r} leads out of the folder"
        raise InputError(problem, where=archive.filename, allowed="names within it")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        for block in _blocks(archive, member):
            file.write(block)
            yield len(block)


def _blocks(archive: zipfile.ZipFile, member: Member) -> Iterator[bytes]:
    """The contents, never more than declared; the zip module compares the CRC-32 at their end."""
    size = 0
    with archive.open(member.info) as file:
        while block := file.read(_BLOCK):
            size += len(block)
            if size > member.info.file_size:
                break
            yield block
    if size != member.info.file_size:
        declared = f"the {member.info.file_size:,} bytes that it declares"
        raise zipfile.BadZipFile(f"{member.path!r} does not have {declared}")


def _install(partial: Path, members: list[Member], target: Path) -> None:
    """Give everything its name: the folder at once if there is none, else file by file."""
    if hasattr(os, "sync"):
        # one call for all: a hundred thousand images are not synced one by one
        os.sync()
    if not target.exists():
        partial.replace(target)
        return
    for member in members:
        (target / member.path).parent.mkdir(parents=True, exist_ok=True)
        (partial / member.path).replace(target / member.path)
