"""The suite folder: ``suite.json`` and ``challenge_sets.parquet``, enough to score a model with.

``challenge_sets.parquet`` has one row for each (criterion, task, split, image) and one row group
for each (criterion, task), so that one set is read without the others.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib import resources
from itertools import chain, groupby
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nooch.challenge.challenge_set import ROWS, SUBSETS, ChallengeSet
from nooch.challenge.packed_suites import unpack_suite
from nooch.challenge.suite import SetRecord, Suite, SuiteHeader
from nooch.data import ALL, SPLITS, load_header, sealed_header
from nooch.data.data_files import BROKEN_TABLE
from nooch.data.table_schema import NAMES, Column, Schema, check_columns, is_ascending
from nooch.errors import FormatError, wrong_type
from nooch.files import SUITE_MARKER, atomic_folder, sha256_of
from nooch.version import __version__

__all__ = ["FORMAT_VERSION", "SHIPPED", "as_suite", "is_shipped", "load_suite", "save_suite"]

SHIPPED = ("nooch-coco",)
"""Suites that come with the package: files of ``nooch/challenge/shipped``, with licenses."""

FORMAT_VERSION = 1
TABLE = "challenge_sets.parquet"

_AGAIN = "find the suite again"
_SETS: Schema = {
    "criterion": Column(NAMES, "the suite's criteria"),
    "task": Column(NAMES, "the suite's tasks"),
    "split": Column(NAMES, ", ".join([*SPLITS, ALL]), among=(*SPLITS, ALL)),
    "image_id": Column((pl.Int64, pl.String), "Int64 or String, never null"),
    "label": Column((pl.Int8,), "Int8, 0 or 1", wrong=lambda label: ~label.is_between(0, 1)),
    "support": Column((pl.Float64,), "Float64, null for criteria without support", nulls=True),
    "subset": Column(NAMES, ", ".join(SUBSETS), among=SUBSETS),
    # suites of earlier versions have no such column
    "by_cue": Column(
        (pl.UInt64,), "UInt64, null for criteria without cues", nulls=True, optional=True
    ),
}


class _SuiteFile(msgspec.Struct, frozen=True):
    format: str
    version: int
    nooch: str
    header: SuiteHeader
    files: dict[str, str]


def save_suite(suite: Suite, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write a suite folder atomically, and return its path.

    Raises:
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with atomic_folder(folder, overwrite=overwrite, marker=SUITE_MARKER) as partial:
        _write_table(suite, partial / TABLE)
        files = {TABLE: sha256_of(partial / TABLE)}
        file = _SuiteFile("nooch-suite", FORMAT_VERSION, __version__, suite.header, files)
        (partial / SUITE_MARKER).write_bytes(sealed_header(file))
    return Path(folder)


def load_suite(folder: str | Path) -> Suite:
    """Read a suite folder and check the hash of its table; rows are read when a set is used.

    Args:
        folder: a suite folder, or ``nooch-coco`` for the authors' 24 challenge sets with COCO's
            labels, which come with the package. A folder of that name takes precedence.

    Raises:
        FormatError: no suite, a newer version, or a table that is missing or altered.
    """
    if is_shipped(folder):
        shipped = resources.files("nooch.challenge").joinpath("shipped", f"{folder}.suite")
        return unpack_suite(shipped.read_bytes(), str(folder))
    folder = Path(folder)
    file = load_header(
        folder / SUITE_MARKER,
        _SuiteFile,
        name="suite",
        version=FORMAT_VERSION,
        make=f"make one with nooch find, or take one that comes with nooch: {', '.join(SHIPPED)}",
        again=_AGAIN,
    )
    table = folder / TABLE
    if not table.is_file():
        raise FormatError(f"{TABLE} is missing", where=folder, remedy=_AGAIN)
    if sha256_of(table) != file.files.get(TABLE):
        problem = f"{TABLE} was altered: its SHA-256 is not the one in {SUITE_MARKER}"
        raise FormatError(problem, where=folder)
    path = file.header.dataset.path
    dataset = None if path is None else os.path.normpath(folder / path)
    return Suite(file.header, _SetReader(table, file.header), dataset)


def is_shipped(folder: str | Path) -> bool:
    """Whether this names a suite of the package; a folder of that name takes precedence."""
    return str(folder) in SHIPPED and not Path(folder).is_dir()


def as_suite(suite: Suite | str | Path) -> Suite:
    """A suite as it is, or the one of a folder.

    Raises:
        WrongTypeError: neither; see also ``load_suite``.
    """
    if isinstance(suite, str | Path):
        return load_suite(suite)
    if not isinstance(suite, Suite):
        allowed = "a Suite, or the path of its folder"
        raise wrong_type("suite", suite, allowed, 'suite=nooch.load_suite("my-suite")')
    return suite


def _groups(header: SuiteHeader) -> list[tuple[tuple[str, str], list[SetRecord]]]:
    """(criterion, task) in the order of row groups, each with its sets."""
    groups = groupby(header.sets, key=lambda r: (r.criterion, r.task))
    return [(key, list(sets)) for key, sets in groups]


def _write_table(suite: Suite, path: Path) -> None:
    enums = {
        "criterion": pl.Enum(list(suite.criteria)),
        "task": pl.Enum(list(suite.tasks)),
        "split": pl.Enum([*SPLITS, ALL]),
    }
    tables = _tables(suite, enums)
    first = next(tables, None)
    if first is None:
        _frame_of([], enums, pl.Int64).write_parquet(path)
        return
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=max(1, table.num_rows))


def _tables(suite: Suite, enums: dict[str, pl.Enum]) -> Iterator[pa.Table]:
    for (criterion, task), records in _groups(suite.header):
        sets = [suite.set(criterion, task, record.split) for record in records]
        yield _frame_of(sets, enums, sets[0].image_ids.dtype).to_arrow()


def _frame_of(
    sets: list[ChallengeSet], enums: dict[str, pl.Enum], id_type: pl.DataType | type
) -> pl.DataFrame:
    frames = [pl.DataFrame(schema={**enums, "image_id": id_type, **ROWS})]
    for challenge in sets:
        names = (pl.lit(getattr(challenge, n), kind).alias(n) for n, kind in enums.items())
        frames.append(challenge.table.select(*names, "image_id", *ROWS))
    return pl.concat(frames)


class _SetReader:
    """Reads one set at a time and keeps the last row group, which holds all splits of a task."""

    def __init__(self, path: Path, header: SuiteHeader) -> None:
        self._path = path
        with _readable(path):
            self._file = pq.ParquetFile(path)
        groups = _groups(header)
        if groups and self._file.num_row_groups != len(groups):
            n_groups = self._file.num_row_groups
            problem = f"has {n_groups} row groups, {SUITE_MARKER} says {len(groups)}"
            raise FormatError(problem, where=path, remedy=_AGAIN)
        self._number = {key: number for number, (key, _) in enumerate(groups)}
        self._records = {(r.criterion, r.task, r.split): r for r in header.sets}
        self._last: tuple[int, pl.DataFrame] | None = None

    def __call__(self, criterion: str, task: str, split: str) -> ChallengeSet:
        number = self._number[criterion, task]
        if self._last is None or self._last[0] != number:
            self._last = number, self._group(number, criterion, task)
        rows = self._last[1].filter(pl.col("split") == split)
        record = self._records[criterion, task, split]
        challenge = record.of_table(rows)
        if SetRecord.of(challenge) != record or not is_ascending(rows["image_id"]):
            counts = f"{record.positives} positives and {record.negatives} negatives"
            raise FormatError(
                f"the set {criterion}, {task}, {split} is not the one that {SUITE_MARKER} counts",
                where=self._path,
                allowed=f"{counts}, sorted by image id",
                remedy=_AGAIN,
            )
        return challenge

    def _group(self, number: int, criterion: str, task: str) -> pl.DataFrame:
        """The sets of one criterion and task, their columns checked."""
        with _readable(self._path):
            table = self._file.read_row_group(number)
            table.validate(full=True)
            frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - tells the type checker that a table gives a frame
        check_columns(frame, _SETS, self._path, _AGAIN)
        for column, name in (("criterion", criterion), ("task", task)):
            if frame[column].unique().cast(pl.String).to_list() not in ([name], []):
                problem = f"column {column} of row group {number} does not hold {name} alone"
                raise FormatError(problem, where=self._path, remedy=_AGAIN)
        return frame.with_columns(
            pl.col("split").cast(pl.Enum([*SPLITS, ALL])), pl.col("subset").cast(ROWS["subset"])
        )


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise errors of pyarrow and polars while a file is read as a FormatError."""
    try:
        yield
    except (pa.ArrowException, *BROKEN_TABLE) as error:
        raise FormatError(
            f"cannot be read: {str(error).splitlines()[0]}", where=path, remedy=_AGAIN
        ) from error
