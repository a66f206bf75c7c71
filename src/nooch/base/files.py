"""Folders and files: written atomically, hashed, and read from an address.

Needs only Python, but for addresses, which need fsspec.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nooch.base.disk import (
    MARK,
    check_own,
    exchange,
    is_ours,
    locked,
    make_folder,
    own_folder,
    remove_ours,
    sync,
    sync_tree,
)
from nooch.base.errors import (
    InputError,
    MissingExtraError,
    NoochError,
    OutputError,
    ParameterError,
    reason_of,
)

DATASET_MARKER = "dataset.json"
SUITE_MARKER = "suite.json"
SWEEP_MARKER = "sweep.json"
"""The files that mark folders of nooch; each is written last."""

_PAUSES = (0.5, 1.0)
"""Seconds before a transfer that failed is tried again."""

_ADDRESSES = "a path, or an address such as s3://bucket/data, gs://bucket/data or https://host/data"
# as a text, and as what is left of it when it was taken for a path; one letter would be a drive
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")
_SQUASHED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(/|:)")


def place(text: str | Path) -> str | Path:
    """Location of a dataset: a local path, or the text of an address of fsspec such as
    ``s3://bucket/data``.
    """
    if not is_address(text):
        return Path(text)
    # protocols are lowercased
    text = re.sub(r"[A-Za-z][A-Za-z0-9+.-]*(?=://|::)", lambda name: name[0].lower(), str(text))
    *links, last = text.split("::")
    if links and "://" not in last:
        # of an archive: a path, which workers in other folders must find too
        text = "::".join([*links, f"file://{Path(last).absolute()}"])
    protocols = [link.partition("://")[0] for link in text.split("::")]
    if len(protocols) == 1 and protocols[0] in ("file", "local"):
        return Path(text.partition("://")[2])
    for protocol in protocols:
        _check_protocol(protocol, text)
    return text


def is_address(text: object) -> bool:
    """True if this is an address of fsspec, not a path of this machine."""
    return isinstance(text, str) and "://" in text and _ADDRESS.match(text) is not None


def absolute(location: str | Path) -> str | Path:
    """A location that processes in other folders find too."""
    location = place(location)
    return location.absolute() if isinstance(location, Path) else location


def inside(folder: str | Path, name: str) -> str | Path:
    """Location of a file of a folder."""
    if isinstance(folder, Path):
        return folder / name
    first, *links = folder.split("::")
    return "::".join([first + ("" if first.endswith("/") else "/") + name, *links])


def _check_protocol(name: str, text: str) -> None:
    try:
        from fsspec import get_filesystem_class  # type: ignore[import-untyped]
        from fsspec.registry import known_implementations  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("fsspec", "remote", f"an address ({name}://)") from error
    if re.search(r"://[^/]*:[^/]*@", text):
        problem = f"an address of {name}:// has a password in it, and addresses are written down"
        remedy = "give it in fsspec's configuration or the environment"
        raise ParameterError(problem, remedy=remedy)
    try:
        get_filesystem_class(name)
    except ValueError as error:
        raise ParameterError(
            f"{name}:// is not a kind of address that fsspec knows", where=text, allowed=_ADDRESSES
        ) from error
    except ImportError as error:
        module = known_implementations[name]["class"].partition(".")[0]
        # what fsspec itself implements needs packages that it names as its extras
        package = (
            f"'fsspec[{'http' if name == 'https' else name}]'" if module == "fsspec" else module
        )
        problem = f"an address of {name}:// needs a package that is not installed"
        raise ParameterError(problem, where=text, remedy=f"pip install {package}") from error


def local_path(path: str | Path) -> Path:
    """The path. Raises ParameterError for an address: only datasets are read from one."""
    if _SQUASHED.match(str(path)) and not Path(str(path).partition(":")[0] + ":").exists():
        allowed = "a path of this machine: only datasets are read from one"
        raise ParameterError("is an address", where=path, allowed=allowed)
    return Path(path)


def read_bytes(file: str | Path) -> bytes:
    """Content of a file. What lies at an address comes in one transfer, which is tried three
    times.
    """
    if isinstance(file, Path):
        return file.read_bytes()
    for pause in (*_PAUSES, None):
        try:
            return _fetch(file)
        except FileNotFoundError:
            raise
        except Exception as error:
            # each protocol has errors of its own package; all mean that nothing came
            if pause is None or isinstance(error, PermissionError | ImportError):
                problem = f"cannot be fetched: {type(error).__name__}: {reason_of(error)}"
                remedy = "look at connection and permissions, then run the same command again"
                raise InputError(problem, where=file, remedy=remedy) from error
            time.sleep(pause)
    raise AssertionError


def _fetch(file: str) -> bytes:
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    system, path = url_to_fs(file)
    return bytes(system.cat_file(path))


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; the file is read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_once(path: Path) -> str:
    """SHA-256 of a file, once per process unless device, inode, size or times change."""
    status = path.stat()
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key not in _HASHES:
        _HASHES[key] = sha256_of(path)
    return _HASHES[key]


_HASHES: dict[tuple[int, ...], str] = {}


def check_output(folder: str | Path, *, overwrite: bool = False, marker: str | None = None) -> Path:
    """The absolute path to write to, or an OutputError before any work is done."""
    path = local_path(folder).absolute()
    with contextlib.suppress(OSError):
        if is_ours(_temporary(path)):
            with _held(path):
                _clear_leftovers(path)
    _check_free(path, overwrite, marker)
    check_own(_temporary(path))
    if overwrite and path.is_dir():
        check_own(_replaced(path))
    return path


def check_output_file(path: str | Path, *, overwrite: bool = False) -> Path:
    """The path of a file to write. Raises OutputError if it exists or cannot be written."""
    path = local_path(path)
    if path.is_dir():
        raise OutputError("is a folder", where=path, remedy="name a file")
    _check_free(path.absolute(), overwrite, path.name, ours=path.is_file())
    return path


_ELSEWHERE = "choose another path"
NO_ROOM = "make room there, or choose another path"


def _check_free(path: Path, overwrite: bool, marker: str | None, *, ours: bool = False) -> None:
    try:
        exists = path.is_symlink() or path.exists()
        ours = ours or (
            path.is_dir()
            and (not any(path.iterdir()) or (marker is not None and (path / marker).is_file()))
        )
        parent = next(p for p in path.parents if p.exists())
    except OSError as error:
        raise OutputError(
            f"cannot be written: {error.strerror}", where=path, remedy=_ELSEWHERE
        ) from error
    if exists and not overwrite:
        raise OutputError(
            "exists already", where=path, remedy="choose another path", give={"overwrite": True}
        )
    if exists and not ours:
        raise OutputError(
            f"exists and contains no {marker}, so it is not replaced", where=path, remedy=_ELSEWHERE
        )
    if not parent.is_dir():
        raise OutputError(
            f"cannot make the folder: {parent} is a file", where=path.parent, remedy=_ELSEWHERE
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError("no permission to write here", where=parent, remedy=_ELSEWHERE)


@contextlib.contextmanager
def write_folder(
    folder: str | Path, *, overwrite: bool = False, marker: str | None = None
) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``folder`` at the end, and vanishes on errors.

    It is in ``.NAME.partial`` next to the final one, and a lock is held on the name: the next
    process that gets the lock, on whichever machine, removes what a killed one left, but nothing
    that nooch did not make. All content is on the disk before the folder gets its name. With
    ``overwrite``, a folder that contains ``marker`` is replaced, and kept whole as ``.NAME.old``,
    in place of an earlier one; that is logged. Both change names in one step; where the system has
    none for that, there is no ``NAME`` for a moment, and the next process with the lock gives the
    old one its name back.
    """
    path = check_output(folder, overwrite=overwrite, marker=marker)
    work = _temporary(path)
    with writing(path):
        make_folder(path.parent)
    with _held(path):
        _clear_leftovers(path)
        try:
            with writing(path):
                own_folder(work)
                (work / _NEW).mkdir()
                yield work / _NEW
                # a process without the lock may have written there meanwhile
                _check_free(path, overwrite, marker)
                _install(work, path)
        finally:
            # what cannot be cleared now is cleared by the next process
            with contextlib.suppress(OSError):
                _clear_leftovers(path)


RESUME = "fix that and give the same command again: it resumes, and finished work is kept"
"""Remedy if resumable work could not be written."""


@contextlib.contextmanager
def writing(where: Path, remedy: str = NO_ROOM) -> Iterator[None]:
    """Raise an OSError, or a library's error that quotes one, as an OutputError for ``where``."""
    try:
        yield
    except NoochError:
        raise
    except Exception as error:
        quoted = _OS_ERROR.search(str(error))
        if quoted is not None:
            reason = os.strerror(int(quoted[1] or quoted[2]))
        elif isinstance(error, OSError):
            reason = error.strerror or str(error)
        else:
            raise
        place_of_error = getattr(error, "filename", None) or where
        raise OutputError(f"cannot write: {reason}", where=place_of_error, remedy=remedy) from error


# as polars and as pyarrow write it
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\[errno (\d+)\]")


def _install(work: Path, path: Path) -> None:
    """Give the finished folder its name; one that was there is kept as ``.NAME.old``."""
    sync_tree(work / _NEW)
    if not os.path.lexists(path):
        (work / _NEW).rename(path)
    else:
        check_own(_replaced(path))
        done = (work / _NEW).rename(work / _DONE)
        is_link = path.is_symlink()
        if not is_link:
            # from here on, the mark shows which of the two is the old one
            (path / MARK).touch()
            sync(path)
        if exchange(done, path):
            # a link is removed with work, and what it leads to stays
            if not is_link:
                _keep_replaced(done, path)
        else:
            path.unlink() if is_link else _keep_replaced(path, path)
            done.rename(path)
    sync(path.parent)


def _keep_replaced(old: Path, path: Path) -> None:
    """Give a replaced folder, which has the mark, the name ``.NAME.old``; an empty one goes."""
    if [entry.name for entry in old.iterdir()] == [MARK]:
        remove_ours(old)
        return
    remove_ours(_replaced(path))
    old.rename(_replaced(path))
    sync(path.parent)
    what = "the replaced folder is kept as %s, until the next replacement"
    logging.getLogger(__name__).info(what, _replaced(path))


_NEW, _DONE = "new", "done"
"""In ``.NAME.partial``: a folder that is written; the one that exchanges names with ``NAME``."""


def _temporary(path: Path) -> Path:
    """Folder in which a folder is written."""
    return path.with_name(f".{path.name}.partial")


def _replaced(path: Path) -> Path:
    """Path of the folder that another one replaced."""
    return path.with_name(f".{path.name}.old")


def _held(path: Path) -> contextlib.AbstractContextManager[None]:
    """Lock the name of a folder. Raises OutputError if another process does."""
    return locked(path.with_name(f".{path.name}.lock"), "writing there", path)


def _clear_leftovers(path: Path) -> None:
    """Remove what a killed process left; a folder that was being replaced gets its name back, or
    is kept as ``.NAME.old``. The name stays locked.
    """
    work, old = _temporary(path), _replaced(path)
    if is_ours(work) and (work / _DONE).exists():
        if (work / _DONE / MARK).is_file():
            _keep_replaced(work / _DONE, path)
        else:
            if is_ours(old) and not os.path.lexists(path):
                old.rename(path)
            (path / MARK).unlink(missing_ok=True)
    remove_ours(work)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the temporary name of a file, which gets its own name when the block ends.

    The content is on the disk before that, and the name afterwards.
    """
    # no other process of any machine has the name
    partial = path.with_name(f".{path.name}.partial-{os.urandom(8).hex()}")
    try:
        yield partial
        sync(partial)
        partial.replace(path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it. Raises OutputError if that fails."""
    try:
        with replacing(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", where=path, remedy=NO_ROOM) from error


def link(file: Path, new: Path) -> None:
    """Give a file a second name, in place of what has it; a copy where files have one name."""
    new.unlink(missing_ok=True)
    try:
        os.link(file, new)
    except OSError:
        shutil.copyfile(file, new)


def write_array(path: Path, values: Any) -> None:
    """Write an array to a ``.npy`` file of this very name."""
    import numpy as np

    with path.open("wb") as file:
        # not the file itself: with C's stdio a full disk at the last bytes goes unnoticed
        writer: Any = SimpleNamespace(write=file.write)
        np.save(writer, values, allow_pickle=False)
