"""Zips: all that a hostile one could do is refused before any file has its final name."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nooch.base.calls import StepProgress, no_progress
from nooch.base.errors import InputError, OutputError, unreadable
from nooch.base.files import writing
from nooch.base.limits import MOST_RATIO
from nooch.base.work_folder import check_space

MOST_MEMBERS = 1_000_000

_ODD = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')
# what the zip module raises for archives that are cut off, encrypted or made up
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OverflowError)


def unpack(
    path: Path, target: Path, at_most: int, *, tell: StepProgress = no_progress
) -> dict[str, int]:
    """Unpack a zip into a folder; returns the relative paths of its files and their sizes in bytes.

    If all members are in one folder, that folder becomes the target. Existing files with the same
    contents stay as they are. Everything is unpacked into a hidden folder first, then renamed.
    """
    with _opened(path) as archive:
        members = listed(archive, at_most, path)
        # on the target's own disk, wherever a link leads
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = (target if target.is_dir() else target.parent) / f".{path.name}.unpacking"
        shutil.rmtree(partial, ignore_errors=True)
        done, total = 0, sum(member.file_size for member in members)
        check_space(partial.parent, total, "unpacking")
        try:
            for member in members:
                written = Path(archive.extract(member, partial)).stat().st_size
                if written != member.file_size:
                    declared = f"the {member.file_size:,} bytes that it declares"
                    raise zipfile.BadZipFile(f"{member.filename!r} does not have {declared}")
                done += written
                tell(done, total)
            return _install(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def listed(archive: zipfile.ZipFile, at_most: int, where: object) -> list[zipfile.ZipInfo]:
    """The files of a zip whose directory passed all checks; InputError for what is refused."""
    infos = [info for info in archive.infolist() if not info.filename.startswith("__MACOSX/")]
    # of a member without a name, is_dir fails before Python 3.12
    files = [info for info in infos if not info.filename.endswith("/")]
    if not 0 < len(files) <= MOST_MEMBERS:
        allowed = f"at least one, at most {MOST_MEMBERS:,}"
        raise InputError(f"contains {len(files):,} files", where=where, allowed=allowed)
    total = sum(info.file_size for info in archive.infolist())
    if total > at_most:
        allowed = f"at most {at_most:,}"
        raise InputError(f"would unpack to {total:,} bytes", where=where, allowed=allowed)
    taken: set[str] = set()
    folders: set[str] = set()
    for info in files:
        # some disks ignore case
        name = unicodedata.normalize("NFC", info.filename).casefold()
        parents = {str(parent) for parent in PurePosixPath(name).parents}
        _check_member(info, name in taken | folders or bool(parents & taken), where)
        taken.add(name)
        folders |= parents
    return files


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    problem, again = "is not a zip, or a damaged one", "delete it and download it again"
    with (
        writing(path, "make room, or choose another folder"),
        unreadable(path, errors=_BROKEN, problem=problem, remedy=again),
    ):
        try:
            with zipfile.ZipFile(path) as archive:
                yield archive
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise zipfile.BadZipFile("an offset is before its first byte") from error
            raise


def _check_member(info: zipfile.ZipInfo, is_double: bool, where: object) -> None:
    is_plain = stat.S_IFMT(info.external_attr >> 16) in {0, stat.S_IFREG}
    is_known = info.compress_type in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    is_bomb = info.file_size > max(1 << 20, MOST_RATIO * info.compress_size)
    for refused, reason in (
        (is_unsafe(info), "has an unsafe name"),
        (is_double, "has the name of another member, or of its folder"),
        (not is_plain, "is a link or a device"),
        (not is_known, "has an unknown compression"),
        (is_bomb, f"would unpack {info.compress_size:,} bytes to {info.file_size:,}"),
    ):
        if refused:
            problem = f"member {info.orig_filename[:200]!r} {reason}"
            allowed = f"plain files, each once, of at most {MOST_RATIO} times their packed size"
            raise InputError(problem, where=where, allowed=allowed)


def is_unsafe(info: zipfile.ZipInfo) -> bool:
    """True if a member may not be written under ``info.filename``, the only name in use.

    That name must be the one in the directory: the zip module cuts it at a NUL, turns backslashes
    on Windows and, from Python 3.12, replaces it by the one in the Unicode path field (0x7075).
    """
    name = info.filename
    return (
        name != info.orig_filename
        or bool(_ODD.search(name))
        or any(p in {"", ".", ".."} or p[-1] in ". " for p in name.split("/"))
    )


def _install(partial: Path, target: Path) -> dict[str, int]:
    """Give everything its name: the folder at once if there is none, else file by file."""
    if hasattr(os, "sync"):
        # one call for all: a hundred thousand images are not synced one by one
        os.sync()
    top = list(partial.iterdir())
    # all in one folder: that folder is the target
    made = top[0] if len(top) == 1 and top[0].is_dir() else partial
    paths = [path for path in made.rglob("*") if path.is_file()]
    sizes = {path.relative_to(made).as_posix(): path.stat().st_size for path in paths}
    if not target.exists():
        made.replace(target)
        return sizes
    there = {name for name in sizes if (target / name).exists()}
    for name in sorted(there):
        if not filecmp.cmp(made / name, target / name, shallow=False):
            problem = "is there already, with other contents than in the zip"
            remedy = "move it away, or choose another folder"
            raise OutputError(problem, where=target / name, remedy=remedy)
    for name in (name for name in sizes if name not in there):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).replace(target / name)
    return sizes
