"""Files that describe one image each -> a table of images, parsed in batches and kept on disk.

``summed`` adds up areas of the same image and class the same way whatever else is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from nooch.base.disk import sync
from nooch.base.errors import InputError, some_of, unreadable
from nooch.data.dataset import ImageId
from nooch.data.readers.contract import NumberedJob, in_range
from nooch.data.readers.image_files import FolderWalk
from nooch.data.readers.jobs import JobRunner

Parse = Callable[[Path, str], dict[str, Any]]
"""Parses one file: its path, and how errors name it -> values of columns. It is pickled to workers.
"""


@dataclass(frozen=True)
class ImageRows:
    """A table on disk, a file in ``folder`` for each batch of rows."""

    folder: Path
    batches: int

    def ids(self) -> pl.Series:
        """Ids of all images, ascending."""
        return pl.concat(frame["image_id"] for frame in self.columns("image_id")).sort()

    def read(self, low: ImageId | None, high: ImageId | None) -> pl.DataFrame:
        """The rows with ``low <= image_id < high``, sorted by id."""
        wanted = in_range("image_id", low, high)
        rows = pl.scan_parquet([*self._files()], glob=False).filter(wanted)
        return rows.collect().sort("image_id", maintain_order=True)

    def columns(self, *names: str) -> Iterator[pl.DataFrame]:
        """Some columns of all rows, in order, in batches of any size."""
        rows = pl.scan_parquet([*self._files()], glob=False).select(names)
        return rows.collect_batches(maintain_order=True, engine="streaming")

    def _files(self) -> Iterator[Path]:
        return (batch_file(self.folder, number) for number in range(self.batches))


def files_below(folder: Path, is_wanted: Callable[[str], bool]) -> list[str]:
    """Sorted paths of the files below a folder with wanted names; links are followed.

    Raises InputError: a link that leads nowhere or to where the folder is, a pipe or device, a name
    that is not UTF-8: nothing is left out silently.
    """
    walk, real = FolderWalk(wanted=is_wanted), folder.resolve()
    found = sorted(f"{folder}/{path}" for path in walk.below(real, "", [real]))
    if walk.left_out:
        problem = f"{len(walk.left_out)} entries cannot be read: {some_of(sorted(walk.left_out))}"
        raise InputError(problem, where=folder, remedy="repair, rename or remove them")
    return found


def parse_files(
    listed: pl.DataFrame, parse: Parse, schema: Mapping[str, Any], folder: Path, runner: JobRunner
) -> ImageRows:
    """Parse files into a table whose rows keep the order of ``listed``: ``image_id``, ``file``
    (null: the image has none, and its lists are empty), and other columns.
    """
    here = Path.cwd()
    jobs = [
        _ParseJob(folder, number, batch, parse, schema, here)
        for number, batch in enumerate(_batches(listed))
    ]
    runner.run(jobs)
    return ImageRows(folder, len(jobs))


def write_rows(rows: pl.DataFrame, folder: Path) -> int:
    """Write a table that has a column ``image_id``; returns the number of batches."""
    batches = [*_batches(rows)]
    for number, batch in enumerate(batches):
        write_batch(batch, folder, number)
    return len(batches)


def _batches(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    # few enough jobs for a cluster, small enough ones for a progress bar
    return rows.iter_slices(max(128, min(2048, rows.height // 256)))


@dataclass(frozen=True)
class _ParseJob(NumberedJob):
    """A batch of files, relative to ``here``; the result is the number of rows."""

    name: ClassVar[str] = "rows"
    result_type: ClassVar[type] = int
    listed: pl.DataFrame
    parse: Parse
    schema: Mapping[str, Any]
    here: Path

    def make(self) -> int:
        """Parse the files."""
        lists = [name for name, kind in self.schema.items() if isinstance(kind, pl.List)]
        empty: dict[str, Any] = {name: [] for name in lists}
        rows = [
            empty if file is None else self.parse(self.here / file, file)
            for file in self.listed["file"]
        ]
        table = self.listed.hstack(pl.DataFrame(rows, schema=dict(self.schema)))
        write_batch(table, self.folder, self.number)
        return table.height


def write_batch(rows: pl.DataFrame, folder: Path, number: int) -> None:
    """Write a batch of rows, and sync it."""
    rows.write_parquet(batch_file(folder, number))
    sync(batch_file(folder, number))


def batch_file(folder: Path, number: int) -> Path:
    """The file of a batch of rows."""
    return folder / f"rows-{number:07d}.parquet"


def listed_digest(listed: pl.DataFrame) -> str:
    """A digest of listed files, sizes and times. Raises InputError for an unreadable file."""
    digest = blake3()
    for row in listed.iter_rows(named=True):
        with unreadable(row["file"]):
            stat = None if row["file"] is None else os.stat(row["file"])  # noqa: PTH116 - a Path for each is slow
        about = None if stat is None else (stat.st_size, stat.st_mtime_ns)
        digest.update(f"{[*row.values()]}\0{about}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def row_ends(lists: pl.Series) -> NDArray[np.int64]:
    """Offsets of each row's entries among the values of all rows: int64 (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lists.list.len().to_numpy(), dtype=np.int64)])


Entries = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]
"""Positions of rows, of columns, and values."""


def summed(entries: Entries, shape: tuple[int, int], *, ordered: bool = False) -> csr_array:
    """Sum entries of the same place as CSR, in an order that depends on their row alone;
    ``ordered``: in their own order, since the columns of every row ascend already.
    """
    rows, columns, values = entries
    listed = coo_array((values, (rows, columns)), shape=shape)
    # unless asked otherwise, entries are put in order also where all are: sums must not depend on
    # what other rows hold
    listed.has_canonical_format = True
    sums = listed.tocsr()
    sums.has_sorted_indices, sums.has_canonical_format = ordered, False
    sums.sum_duplicates()
    return csr_array(sums)
