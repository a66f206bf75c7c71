"""The suite folder: ``suite.json`` and ``challenge_sets.parquet``, enough to score a model with.

``challenge_sets.parquet`` has one row for each (criterion, task, split, image) and one row group
for each (criterion, task), so that one set is read without the others. Where no
rule leads from file names to ids, ``image_names.parquet`` has the names of the dataset's images,
and where these are in groups, ``groups.parquet`` has each one's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import partial
from importlib import resources
from itertools import chain, groupby, product
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nooch.base.errors import Command, FormatError, unreadable, wrong_type
from nooch.base.files import SUITE_MARKER, sha256_of, write_folder
from nooch.base.version import __version__
from nooch.criteria.context import Context, thresholds_by_lift
from nooch.data import ALL, SPLITS, Dataset, load_header, sealed_header
from nooch.data.table_files import BROKEN_TABLE, parquet_bytes, parquet_rows
from nooch.data.table_schema import NAMES, Column, Schema, check_columns, is_ascending
from nooch.suites.challenge_set import ROWS, SUBSETS, ChallengeSet, subset_codes
from nooch.suites.hard_easy import mark_by_threshold
from nooch.suites.suite import SetRecord, Suite, SuiteHeader

SHIPPED = {
    "nooch-amber": "0f89515af613ae6acc01b386b42afe40ffb61759646f087c8c25fe24349c3cfe",
    "nooch-coco": "d1b19ee86fcc337678378e04d531df449352427bb4bb65c8539d12e4c46b8517",
    "nooch-opera": "90d64c8b5ed83773a79171bafc10072030c348e43f27a6ac5c84cdac24d32ed5",
    "nooch-pope": "f7f414582d75848a1dca391365c6608f5b08eeca821d0e3bb33eab32c64965ba",
    "nooch-words": "f98c772d1d2522832adfabe141910a51e63ea0215ea61944db6bb22a97a463b3",
}
"""Suites that come with the package, and the SHA-256 of their files in ``nooch/suites/shipped``,
which ``scripts/make_nooch_coco.py``, ``make_nooch_words.py`` and ``make_nooch_pope.py`` write, as
their licenses.
"""
SUSPECTS = {"nooch-coco": "d7c4b4270e92aa3a7a6100e51f45784071219c0a86d406715b05aa10eefc3978"}
"""The same of their files of suspect labels."""

FORMAT_VERSION = 2
"""Version 2 has groups of images; without them version 1 is written."""
_WITHOUT_GROUPS = 1
TABLE = "challenge_sets.parquet"
IMAGE_NAMES = "image_names.parquet"
GROUPS = "groups.parquet"

_AGAIN = "find the suite again"
_SETS: Schema = {
    "criterion": Column(NAMES, "the suite's criteria"),
    "task": Column(NAMES, "the suite's tasks"),
    "split": Column(NAMES, ", ".join([*SPLITS, ALL]), among=(*SPLITS, ALL)),
    "image_id": Column((pl.Int64, pl.String), "Int64 or String, never null"),
    "label": Column((pl.Int8,), "Int8, 0 or 1", wrong=lambda label: ~label.is_between(0, 1)),
    "support": Column((pl.Float64,), "Float64, null for criteria without support", nulls=True),
    "subset": Column(NAMES, ", ".join(SUBSETS), among=SUBSETS),
    "by_cue": Column((pl.UInt64,), "UInt64, null for criteria without cues", nulls=True),
}
_NAMES: Schema = {
    "image_id": _SETS["image_id"],
    "file_name": Column((pl.String,), "String, null where unknown", nulls=True),
}
_GROUPS: Schema = {
    "image_id": _SETS["image_id"],
    "group": Column((pl.String,), "String, null where an image is one", nulls=True),
}


_readable = partial(
    unreadable, errors=(pa.ArrowException, *BROKEN_TABLE), kind=FormatError, remedy=_AGAIN
)
"""Errors of pyarrow and polars while a file is read become a FormatError."""


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

    Examples:
        >>> suite = nooch.find("data", {"strict": nooch.CE(alpha=0.1)}, tasks=["car"])
        >>> nooch.save_suite(suite, "strict").name
        'strict'
    """
    with write_folder(folder, overwrite=overwrite, marker=SUITE_MARKER) as target:
        _write_table(suite, target / TABLE)
        if suite.header.image_names == "table" and suite.named_images is not None:
            (target / IMAGE_NAMES).write_bytes(parquet_bytes(suite.named_images()))
        if suite.header.group and suite.grouped_images is not None:
            (target / GROUPS).write_bytes(parquet_bytes(suite.grouped_images()))
        files = {file.name: sha256_of(file) for file in sorted(target.glob("*.parquet"))}
        version = FORMAT_VERSION if suite.header.group else _WITHOUT_GROUPS
        file = _SuiteFile("nooch-suite", version, __version__, suite.header, files)
        (target / SUITE_MARKER).write_bytes(sealed_header(file))
    return Path(folder)


def with_suite(folder: str | Path) -> Path:
    """A folder, or of a check's folder the one of its suite."""
    own = Path(folder) / "suite"
    is_checked = not (own.parent / SUITE_MARKER).exists() and (own / SUITE_MARKER).is_file()
    return own if is_checked else own.parent


def load_suite(folder: str | Path) -> Suite:
    """Read a suite folder and check the hash of its table; rows are read when a set is used.

    Args:
        folder: a suite folder, the folder of a check, or a suite of the package: ``nooch-coco``,
            the authors' 24 challenge sets with COCO's labels; ``nooch-words``, a sample of images
            for 80 of COCO's things; ``nooch-pope``, POPE's 500 images; ``nooch-amber``, AMBER's
            1,004; or ``nooch-opera``, the 499 of OPERA's captions. A folder of that name takes
            precedence.

    Raises:
        FormatError: no suite, a newer version, or a table that is missing or altered.

    Examples:
        >>> suite = nooch.load_suite("nooch-coco")
        >>> suite.criteria, len(suite.tasks)
        (('ce', 'gist'), 12)
        >>> suite.record("ce", "car", "test").hard_positives
        1539
    """
    if is_shipped(folder):
        return _load_shipped(str(folder))
    folder = with_suite(folder)
    file = _load_file(folder)
    for name in _tables_of(file):
        check_file(folder, name, file.files.get(name))
    path = file.header.dataset.path
    dataset = None if path is None else os.path.normpath(folder / path)
    reader = _SetReader(folder / TABLE, file.header)
    names = partial(_read_table, folder / IMAGE_NAMES, _NAMES)
    groups = partial(_read_table, folder / GROUPS, _GROUPS)
    suite = Suite(file.header, reader, dataset, names, groups=groups)
    suite.folder = folder
    return suite


def _load_shipped(name: str) -> Suite:
    """A suite of one table: ``image_id, split``, and Booleans ``label/TASK, hard/CRITERION/TASK``;
    or of pairs, ``image_id, task, label`` and for each criterion Boolean ``hard/CRITERION`` or
    ``support/CRITERION``, log odds less the usual ones; or ``tenth`` of a sample, of which the
    fifth whose support contradicts the label most is hard. Its metadata have the rest of the
    header.
    """
    table = _shipped_table(name, SHIPPED[name])
    h = msgspec.json.decode(table.schema.metadata[b"nooch"], type=SuiteHeader)
    frame, sets = pl.DataFrame(table), {}
    if is_pairs := "task" in frame.columns:
        pairs = frame
        if "tenth" in frame.columns:
            tenth = pl.when("label").then(9 - pl.col("tenth").cast(pl.Int8)).otherwise("tenth")
            frame = frame.with_columns((tenth >= _HARD_FROM).alias("hard/context"))
    else:
        suspects = _shipped_table(f"{name}.suspects", SUSPECTS[name])
        pairs = pl.DataFrame(suspects).with_columns(suspect=True)
    parts = frame.partition_by("task" if is_pairs else "split", as_dict=True)
    for criterion, task, split in product(h.criteria, h.tasks, h.splits):
        rows = parts[task if is_pairs else split,]
        key = criterion, task, split
        ids, labels = rows["image_id"], rows["label" if is_pairs else f"label/{task}"].to_numpy()
        if f"support/{criterion}" in rows.columns:
            support = rows[f"support/{criterion}"].cast(pl.Float64).to_numpy()
            of = thresholds_by_lift(0.5, Context.lift or 1)
            mark = mark_by_threshold(support, labels, of.positive, of.negative)
            sets[key] = ChallengeSet.from_mark(*key, mark, ids, labels)
        else:
            hard = rows[f"hard/{criterion}" + ("" if is_pairs else f"/{task}")].to_numpy()
            sets[key] = ChallengeSet(*key, ids, labels, subset_codes(labels, hard))
    suite = Suite.from_sets(
        sets, dataset=h.dataset, criteria=h.criteria, skipped=[], tasks=h.tasks, splits=h.splits
    )
    header = msgspec.structs.replace(suite.header, image_names=h.image_names)
    suite = suite.with_header(header)
    suite.pairs = pairs
    return suite


_HARD_FROM = 8
"""The tenth from which the context contradicts the label most."""


def _shipped_table(name: str, sha256: str) -> pa.Table:
    content = resources.files("nooch.suites").joinpath("shipped", f"{name}.parquet").read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        problem = "was altered: its SHA-256 is not the one that nooch knows"
        raise FormatError(problem, where=name, remedy="install nooch again")
    return pq.ParquetFile(pa.BufferReader(content)).read()


def suite_files(folder: Path) -> dict[str, str | None]:
    """The tables of a suite folder and their recorded SHA-256. Raises as ``load_suite``."""
    file = _load_file(folder)
    return {name: file.files.get(name) for name in _tables_of(file)}


def check_file(folder: Path, name: str, recorded: str | None) -> None:
    """Raise FormatError for a table that is missing or has another SHA-256."""
    if not (folder / name).is_file():
        raise FormatError(f"{name} is missing", where=folder, remedy=_AGAIN)
    if sha256_of(folder / name) != recorded:
        problem = f"{name} was altered: its SHA-256 is not the one in {SUITE_MARKER}"
        raise FormatError(problem, where=folder, remedy=_AGAIN)


def _load_file(folder: Path) -> _SuiteFile:
    file = load_header(
        folder / SUITE_MARKER,
        _SuiteFile,
        name="suite",
        version=FORMAT_VERSION,
        make=Command("find"),
        allowed=f"a folder that nooch find or nooch check wrote; {', '.join(SHIPPED)}",
        again=_AGAIN,
    )
    for name, record in file.header.criteria.items():
        if record.kind == "ce" and record.parameters.get("betas"):
            raise FormatError(
                f"{name} has a separate beta per cue",
                where=folder,
                allowed="one `beta` for all cues",
                remedy=_AGAIN,
            )
    return file


def _tables_of(file: _SuiteFile) -> list[str]:
    header, names = file.header, {IMAGE_NAMES: file.header.image_names == "table"}
    return [TABLE, *(name for name, there in {**names, GROUPS: header.group}.items() if there)]


def _read_table(path: Path, schema: Schema) -> pl.DataFrame:
    with _readable(path):
        frame = parquet_rows([path], path)
    check_columns(frame, schema, path, _AGAIN)
    return frame


def is_shipped(folder: str | Path) -> bool:
    """True if this names a suite of the package; a folder of that name takes precedence."""
    return str(folder) in SHIPPED and not Path(folder).is_dir()


def as_suite(
    suite: Suite | str | Path, group: str | None = None, data: Dataset | str | Path | None = None
) -> Suite:
    """A suite as it is, or the one of a folder; with ``group`` as of ``Suite.grouped``."""
    if isinstance(suite, str | Path):
        suite = load_suite(suite)
    if not isinstance(suite, Suite):
        allowed = "a Suite, or the path of its folder"
        raise wrong_type("suite", suite, allowed, 'suite=nooch.load_suite("my-suite")')
    return suite.grouped(group, data)


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
        path.write_bytes(parquet_bytes(_frame_of([], enums, pl.Int64)))
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


_MOST_ROWS = 4_000_000
"""Rows of sets that are kept, some 100 MB."""


class _SetReader:
    """Reads one set at a time, and keeps the last row group, which contains all splits of a task,
    and the first sets.
    """

    def __init__(self, path: Path, header: SuiteHeader) -> None:
        self._path = path
        with _readable(path):
            self._file = pq.ParquetFile(path)
        groups = _groups(header)
        if groups and self._file.num_row_groups != len(groups):
            n_groups = self._file.num_row_groups
            problem = f"has {n_groups} row groups, {SUITE_MARKER} records {len(groups)}"
            raise FormatError(problem, where=path, remedy=_AGAIN)
        self._number = {key: number for number, (key, _) in enumerate(groups)}
        self._records = {(r.criterion, r.task, r.split): r for r in header.sets}
        self._last: tuple[int, pl.DataFrame] | None = None
        self._kept: dict[tuple[str, str, str], ChallengeSet] = {}
        self._n_kept = 0

    def __call__(self, criterion: str, task: str, split: str) -> ChallengeSet:
        if (criterion, task, split) in self._kept:
            return self._kept[criterion, task, split]
        number = self._number[criterion, task]
        if self._last is None or self._last[0] != number:
            self._last = number, self._group(number, criterion, task)
        rows = self._last[1].filter(pl.col("split") == split)
        record = self._records[criterion, task, split]
        challenge = record.of_table(rows)
        if SetRecord.from_set(challenge) != record or not is_ascending(rows["image_id"]):
            counts = f"{record.positives} positives and {record.negatives} negatives"
            raise FormatError(
                f"the set {criterion}, {task}, {split} is not the one that {SUITE_MARKER} counts",
                where=self._path,
                allowed=f"{counts}, sorted by image id",
                remedy=_AGAIN,
            )
        if self._n_kept + len(challenge) <= _MOST_ROWS:
            self._kept[criterion, task, split] = challenge
            self._n_kept += len(challenge)
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
                problem = f"column {column} of row group {number} does not contain only {name}"
                raise FormatError(problem, where=self._path, remedy=_AGAIN)
        return frame.with_columns(
            pl.col("split").cast(pl.Enum([*SPLITS, ALL])), pl.col("subset").cast(ROWS["subset"])
        )
