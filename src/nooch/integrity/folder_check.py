"""Datasets, suites, runs, features, pixels and exports, checked whole: ``nooch fsck``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from nooch.caches.array_store import IMAGES, ArrayKind
from nooch.caches.features import FEATURES
from nooch.caches.memmap import open_array
from nooch.caches.pixels import PIXELS
from nooch.challenge import load_suite
from nooch.data import is_intact, load_dataset, load_header
from nooch.data.part_files import FileRecord, open_parts
from nooch.errors import FormatError, NoochError, some_of
from nooch.exports.export_contract import MARKER as EXPORT_MARKER
from nooch.files import DATASET_MARKER, SUITE_MARKER, local_path, sha256_of
from nooch.training.run_records import RUNS_MARKER, RunsFolder

__all__ = ["Damage", "FolderCheck", "fsck"]


@dataclass(frozen=True)
class Damage:
    """A file that is missing or not as it was written, what is wrong, and how to make it again."""

    file: str
    problem: str
    remedy: str


@dataclass(frozen=True)
class FolderCheck:
    """What ``fsck`` found.

    Attributes:
        folder: that was checked.
        kind: dataset, suite, runs, features, pixels or export.
        files: number of files that were checked.
        damaged: what is wrong; empty where the folder is whole.
        notes: what harms nothing: leftovers of killed commands, files that nooch did not write,
            what could not be checked.
    """

    folder: str
    kind: str
    files: int = 0
    damaged: tuple[Damage, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damaged


def fsck(folder: str | Path) -> FolderCheck:
    """Check a folder that nooch wrote: hashes of all files, tables, counts and ids.

    A dataset is checked with its embeddings, runs with all jobs that are done. Everything is read
    once or twice. ``timings.jsonl`` of runs has no hash.

    Args:
        folder: a dataset, suite, runs, features, pixels or export.

    Raises:
        FormatError: none of these.
    """
    path = local_path(folder)
    marker = next((name for name in _KINDS if (path / name).is_file()), None)
    if marker is None:
        raise FormatError(
            f"is no folder of nooch: it has none of {', '.join(_KINDS)}",
            where=path,
            allowed="a dataset, suite, runs, features, pixels or export",
        )
    kind, check = _KINDS[marker]
    intact = is_intact((path / marker).read_bytes())
    found = _Findings(path, {marker}, is_sealed=intact is True)
    if intact is None:
        found.notes.append(f"{marker} has no checksum: an earlier version wrote it")
    if intact is False:
        found.add(marker, "was altered: its checksum is not that of its content", _AGAIN[kind])
    else:
        with found.of(marker, _AGAIN[kind]):
            check(found, _AGAIN[kind])
    found.look_around()
    return FolderCheck(
        str(folder), kind, len(found.expected), tuple(found.damaged), tuple(found.notes)
    )


@dataclass
class _Findings:
    """What was found in a folder so far; ``expected`` are the files that belong to it."""

    folder: Path
    expected: set[str]
    is_sealed: bool
    damaged: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, file: str, problem: str, remedy: str) -> None:
        """Record damage."""
        self.damaged.append(Damage(file, problem, remedy))

    @contextlib.contextmanager
    def of(self, file: str, remedy: str) -> Iterator[None]:
        """An error meanwhile is damage of a file."""
        try:
            yield
        except (NoochError, OSError) as error:
            problem = error.problem if isinstance(error, NoochError) else str(error)
            self.add(file, problem, remedy)

    def compare(self, files: Mapping[str, FileRecord], remedy: str, below: str = "") -> bool:
        """Compare files with their records; whether all are as they were written."""
        before = len(self.damaged)
        for name, record in files.items():
            file = below + name
            path = self.folder / file
            self.expected.add(file)
            if self.folder.resolve() not in path.resolve().parents:
                self.add(file, "is outside the folder", remedy)
            elif not path.is_file():
                self.add(file, "is missing", remedy)
            elif (size := path.stat().st_size) != record.bytes:
                self.add(file, f"has {size} bytes, {record.bytes} were written", remedy)
            elif sha256_of(path) != record.sha256:
                self.add(file, "was altered: its SHA-256 is not the recorded one", remedy)
        return len(self.damaged) == before

    def names(self, below: str) -> list[str]:
        """Names of the files of a folder below, without those that it has below itself."""
        return [file.name for file in (self.folder / below).glob("*") if file.is_file()]

    def look_around(self) -> None:
        """Note leftovers in the folder and next to it, and files that do not belong to it."""
        names = {
            file.relative_to(self.folder).as_posix()
            for file in self.folder.rglob("*")
            if file.is_file()
        }
        strange = sorted(names - self.expected)
        left = [name for name in strange if any(p.startswith(".") for p in Path(name).parts)]
        full = self.folder.absolute()
        prefix = f".{full.name}."
        left += [f"../{one.name}" for one in full.parent.iterdir() if one.name.startswith(prefix)]
        if left:
            self.notes.append(
                f"left by a command that runs or was killed: {some_of(left)}; the same command"
                " again resumes or removes it"
            )
        if others := [name for name in strange if name not in left]:
            self.notes.append(f"files that are not part of it: {some_of(others)}")


def _dataset(found: _Findings, again: str) -> None:
    files = open_parts(found.folder).header.files
    of_embeddings = {name: one for name, one in files.items() if name.startswith("embeddings/")}
    tables = {name: one for name, one in files.items() if name not in of_embeddings}
    embed = f"{again}, then run nooch embed {found.folder}"
    if found.compare(tables, again) & found.compare(of_embeddings, embed):
        load_dataset(found.folder)


def _suite(found: _Findings, again: str) -> None:
    found.expected.add("challenge_sets.parquet")
    with found.of("challenge_sets.parquet", again):
        suite = load_suite(found.folder)
        data = suite.found_in()
        if data is None:
            found.notes.append("its dataset is not where it was, or has changed: ids not compared")
        for key in suite.keys:
            ids = suite.set(*key).image_ids
            if data is not None and not ids.is_in(data.images["image_id"].implode()).all():
                raise FormatError(
                    f"the set {', '.join(key)} has ids that the dataset does not have"
                )


def _runs(found: _Findings, again: str) -> None:
    runs, old, waiting = RunsFolder.open(found.folder), 0, 0
    found.expected |= {"timings.jsonl", *(f"passes/{name}" for name in found.names("passes"))}
    for job in runs.header.jobs:
        if not (found.folder / "jobs" / job).is_dir():
            waiting += 1
            continue
        below = f"jobs/{job}/"
        remove = f"delete {found.folder / below}, then {again}"
        found.expected.add(f"{below}done")
        with found.of(f"{below}done", remove):
            files = runs.files_of(job)
            if not files and found.is_sealed:
                raise FormatError("is empty")
            if not files:
                old += 1
                found.expected |= {below + name for name in found.names(below)}
            if found.compare(files, remove, below) and not runs.read_job(job).diverged:
                runs.predictions(job)
    if old:
        found.notes.append(f"{old} jobs have no hashes: an earlier version wrote them")
    if waiting:
        found.notes.append(f"{waiting} of {len(runs.header.jobs)} jobs are not done: {again}")


def _array(kind: ArrayKind) -> tuple[str, Callable[[_Findings, str], None]]:
    def check(found: _Findings, again: str) -> None:
        found.expected |= {kind.array, IMAGES}
        with found.of(kind.array, again):
            open_array(found.folder, kind, verify=True)

    return kind.name, check


class _ExportFile(msgspec.Struct, frozen=True):
    files: dict[str, FileRecord]


def _export(found: _Findings, again: str) -> None:
    names = {"name": "export", "make": again, "again": again}
    record = load_header(found.folder / EXPORT_MARKER, _ExportFile, version=1, **names)
    found.compare(record.files, again)


_KINDS: dict[str, tuple[str, Callable[[_Findings, str], None]]] = {
    DATASET_MARKER: ("dataset", _dataset),
    SUITE_MARKER: ("suite", _suite),
    RUNS_MARKER: ("runs", _runs),
    FEATURES.marker: _array(FEATURES),
    PIXELS.marker: _array(PIXELS),
    EXPORT_MARKER: ("export", _export),
}
"""File that marks a kind of folder -> its name, and what checks it."""

_AGAIN = {
    "dataset": "import the dataset again with nooch import and `overwrite`",
    "suite": "find the suite again with nooch find and `overwrite`",
    "runs": "run the same nooch bench command again",
    FEATURES.name: f"{FEATURES.make} `overwrite`",
    PIXELS.name: f"{PIXELS.make} `overwrite`",
    "export": "export again with nooch export and `overwrite`",
}
"""Kind of folder -> how it is made again."""
