"""Folders of intermediate files, so that interrupted work resumes.

A work folder is next to the target, and its name has a key of everything that its files depend on.
One process at a time holds it, ``Steps`` keeps the result of each finished step there, and it is
removed once the target is written.
"""

from __future__ import annotations

import contextlib
import glob
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_origin
from zipfile import BadZipFile

import msgspec
from blake3 import blake3

from nooch.base.disk import is_ours, locked, make_folder, own_folder, remove_ours
from nooch.base.errors import (
    InputError,
    NoochError,
    OutputError,
    ParameterError,
    UndefinedError,
    reason_of,
)
from nooch.base.files import RESUME, check_output, replacing, write_array, write_folder, writing

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))

_REMOVED = ".removed"


def key_of(
    content: Any,
    digits: int | None = 16,
    *,
    order: Literal["sorted", "deterministic"] | None = None,
    hashed: Callable[[bytes], Any] = blake3,
) -> str:
    """A key of JSON-like content in hexadecimal digits, all where ``digits`` is None.

    The order of a mapping counts unless ``order`` is false.
    """
    return str(hashed(msgspec.json.encode(content, order=order)).hexdigest()[:digits])


def work_folder(target: Path, what: str, content: Any) -> Path:
    """The folder of intermediate files for a target: ``.TARGET.WHAT-KEY`` next to it."""
    return target.with_name(f".{target.name}.{what}-{key_of(content)}")


@contextlib.contextmanager
def held(folder: Path, doing: str, *, clear_if_refused: bool = False) -> Iterator[None]:
    """Make a work folder if it is missing, and hold it: two processes never do the same work.

    At the end it is removed if it is empty, and so are the folders above it that were made for it.
    """
    made = [parent for parent in folder.parents if not parent.exists()]
    lock = folder.with_name(f"{folder.name}.lock")
    with writing(folder.parent):
        make_folder(folder.parent)
    try:
        with locked(lock, doing, folder):
            try:
                own_folder(folder)
                resumed = len([*folder.iterdir()]) > 1
                with _resuming(folder) if resumed else contextlib.nullcontext():
                    yield
            except (InputError, ParameterError, UndefinedError):
                if clear_if_refused:
                    remove_folder(folder)
                raise
            finally:
                _remove_unused(folder)
    finally:
        _remove_empty(*made)


@contextlib.contextmanager
def resumable_folder(
    out: str | Path, what: str, content: Any, doing: str, *, marker: str, overwrite: bool = False
) -> Iterator[tuple[Path, Callable[[], contextlib.AbstractContextManager[Path]]]]:
    """Yield a folder of intermediate files for an output folder, held, and what then writes that
    output, as ``write_folder``. At the end, intermediate files of this output from other inputs are
    removed. Raises as ``check_output``.
    """
    target = check_output(out, overwrite=overwrite, marker=marker)
    folder = work_folder(target, what, content)
    with held(folder, doing, clear_if_refused=True), writing(folder, RESUME):
        yield folder, partial(write_folder, target, overwrite=overwrite, marker=marker)
    remove_leftovers(target, what, doing)


@contextlib.contextmanager
def _resuming(folder: Path) -> Iterator[None]:
    """Turn an unexpected error into one with a remedy, since kept work may be damaged."""
    try:
        yield
    except (NoochError, OSError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # polars' panics are not Exceptions
        problem = f"cannot resume from the files here: {type(error).__name__}"
        remedy = "delete this folder of intermediate files, and give the same command again"
        raise OutputError(f"{problem}: {reason_of(error)}", where=folder, remedy=remedy) from error


def _remove_unused(folder: Path) -> None:
    """Remove a folder in which nothing was kept: its mark, and empty folders."""
    with contextlib.suppress(OSError):
        if not any(path.is_file() and path.parent != folder for path in folder.rglob("*")) and (
            len([path for path in folder.iterdir() if not path.is_dir()]) <= 1
        ):
            remove_ours(folder)


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_leftovers(target: Path, what: str, doing: str) -> None:
    """Remove work folders of a target that is written, except those that other processes hold or
    that nooch did not make.
    """
    for left in target.parent.glob(f"{glob.escape(f'.{target.name}.{what}-')}*"):
        if is_ours(left):
            with contextlib.suppress(OutputError), held(left, doing):
                remove_folder(left)


def remove_folder(folder: Path) -> None:
    """Remove intermediate files of nooch; workers that are just ending may write one more."""
    # under another name first: work that is resumed must not find some of its files and miss others
    removed = folder.with_name(f"{folder.name.removesuffix(_REMOVED)}{_REMOVED}")
    if folder != removed and is_ours(folder):
        remove_ours(removed)
        with contextlib.suppress(OSError):
            folder.rename(removed)
    for _ in range(50):
        for left in (removed, folder):
            remove_ours(left)
        if not is_ours(removed) and not is_ours(folder):
            return
        time.sleep(0.1)


@dataclass(frozen=True)
class Steps:
    """Steps of a work that are done once: each result has a file in ``folder``.

    The ending of a step's name is the type of its result: ``.msgpack`` a value of the type
    ``kind``, ``.npy`` an array, which is mapped, ``.npz`` arrays by name, ``.arrow`` an iterable of
    frames, read as ``Batches``.
    """

    folder: Path

    def has(self, name: str) -> bool:
        """True if a step is done: files are written whole."""
        return (self.folder / name).is_file()

    def read(self, name: str, kind: Any = None) -> Any:
        """The result of a step that is done."""
        file = self.folder / name
        return _FORMATS[file.suffix][0](file, kind)

    def kept(self, name: str, kind: Any = None) -> Any:
        """The result of a step; None if it is not done, or a crash of the disk damaged it."""
        if self.has(name):
            with contextlib.suppress(*_DAMAGED):
                return self.read(name, kind)
        return None

    def get(self, name: str, make: Callable[[], Any], kind: Any = None) -> Any:
        """The result of a step, which is done first if it was not before."""
        if (kept := self.kept(name, kind)) is not None:
            return kept
        made = make()
        self.put(name, made)
        return made if name.endswith(".msgpack") else self.read(name, kind)

    def put(self, name: str, made: Any) -> None:
        """Keep the result of a step, in place of an earlier one."""
        file = self.folder / name
        with writing(file, RESUME), replacing(file) as partial:
            _FORMATS[file.suffix][1](partial, made)


@dataclass(frozen=True)
class Journal:
    """Results of a ``kind`` that come one by one, a line of JSON each in ``file``."""

    file: Path
    kind: Any

    def entries(self) -> Iterator[Any]:
        """The lines added, also by earlier processes; a line that a kill cut off is left out."""
        for line in self.file.read_bytes().split(b"\n") if self.file.exists() else []:
            with contextlib.suppress(ValueError):
                yield msgspec.json.decode(line, type=self.kind)

    def add(self, entry: Any) -> None:
        """Keep a result."""
        with self.file.open("ab", buffering=0) as file:
            file.write(b"\n" + msgspec.json.encode(entry))


def _read_value(file: Path, kind: Any) -> Any:
    return msgspec.msgpack.decode(file.read_bytes(), type=kind, dec_hook=_array)


def _write_value(file: Path, value: Any) -> None:
    file.write_bytes(msgspec.msgpack.encode(value, enc_hook=_plain))


def _plain(value: Any) -> Any:
    import numpy as np

    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.dtype.str, value.shape, value.tobytes()
    raise NotImplementedError(f"a result contains {type(value)}")


def _array(kind: Any, value: Any) -> Any:
    import numpy as np

    if (get_origin(kind) or kind) is np.ndarray:
        dtype, shape, content = value
        return np.frombuffer(content, np.dtype(dtype)).reshape(shape)
    raise NotImplementedError(f"a result contains {kind}")


def _read_array(file: Path, _kind: None) -> Any:
    import numpy as np

    return np.lib.format.open_memmap(file, mode="r")


def _read_arrays(file: Path, _kind: None) -> dict[str, Any]:
    import numpy as np

    # opened here: numpy leaves a file that is not an archive open
    with file.open("rb") as stream:
        return dict(np.load(stream, allow_pickle=False))


def _write_arrays(file: Path, arrays: Mapping[str, Any]) -> None:
    import numpy as np

    with file.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


class Batches:
    """The frames of a file, each of which is mapped when it is asked for."""

    def __init__(self, file: Path, _kind: None = None) -> None:
        import pyarrow as pa

        self._reader: pa.ipc.RecordBatchFileReader = pa.ipc.open_file(pa.memory_map(str(file)))

    def __getitem__(self, number: int) -> pl.DataFrame:
        import polars as pl

        frame = pl.from_arrow(self._reader.get_batch(number))
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - for the type checker
        return frame


def _write_frames(file: Path, frames: Iterable[pl.DataFrame]) -> None:
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with contextlib.ExitStack() as stack:
        sink, writer = stack.enter_context(pa.OSFile(str(file), "wb")), None
        for frame in frames:
            table = frame.rechunk().to_arrow()
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_file(sink, table.schema, options=options))
            # an empty table has no batch: a row of nulls, cut off, has the same categories
            whole = table if table.num_rows else frame.clear(1).to_arrow()
            writer.write_batch(whole.to_batches()[0].slice(0, table.num_rows))


_DAMAGED = (msgspec.MsgspecError, ValueError, TypeError, EOFError, BadZipFile)
_FORMATS: dict[str, tuple[Callable[[Path, Any], Any], Callable[[Path, Any], None]]] = {
    ".msgpack": (_read_value, _write_value),
    ".npy": (_read_array, write_array),
    ".npz": (_read_arrays, _write_arrays),
    ".arrow": (Batches, _write_frames),
}
"""Ending of a step's file -> how it is read and written."""


def check_space(folder: Path, needed: int, what: str) -> None:
    """Raise an OutputError if a folder's disk has less than ``needed`` bytes free for ``what``."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        problem = f"{what} needs {size_in_words(needed)}, and {size_in_words(free)} are free"
        raise OutputError(problem, where=folder, remedy="make room, or choose another disk")


def size_in_words(size: int) -> str:
    """Bytes for a reader, such as 19.3 GB."""
    for unit, scale in _UNITS:
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
