"""Datasets, suites, runs, features, pixels and exports, checked whole: ``nooch info --check``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nooch.base.errors import FormatError, NoochError, some_of
from nooch.base.files import DATASET_MARKER, SUITE_MARKER, local_path, sha256_of
from nooch.data import is_intact, load_dataset, load_header
from nooch.data.part_files import FileRecord, FileRecords, open_parts
from nooch.models.caches.array_store import IMAGES, ArrayKind, open_array
from nooch.models.caches.features import FEATURES
from nooch.models.caches.pixels import PIXELS
from nooch.report.exports.contract import MARKER as EXPORT_MARKER
from nooch.suites import load_suite
from nooch.suites.suite_folder import check_file, suite_files
from nooch.training.records import RUNS_MARKER, RunsFolder

__all__ = ["Damage", "FolderCheck", "fsck"]


@dataclass(frozen=True)
class Damage:
    """A file that is missing or not as it was written, what is wrong, and how to make it again."""

    file: str
    problem: str
    remedy: str


@dataclass
class FolderCheck:
    """The result of ``fsck``.

    Attributes:
        folder: that was checked.
        kind: dataset, suite, runs, features, pixels or export.
        files: those that belong to the folder.
        damaged: what is wrong; empty where the folder is whole.
        notes: what harms nothing: leftovers of killed commands, files that nooch did not write,
            what could not be checked.
    """

    folder: Path
    kind: str
    files: set[str]
    damaged: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """True if nothing is damaged."""
        return not self.damaged

    @contextlib.contextmanager
    def checking(self, file: str, remedy: str) -> Iterator[None]:
        """Count an error meanwhile as damage of a file."""
        try:
            yield
        except (NoochError, OSError) as error:
            problem = error.problem if isinstance(error, NoochError) else str(error)
            self.damaged.append(Damage(file, problem, remedy))

    def compare(self, files: Mapping[str, FileRecord], remedy: str, below: str = "") -> bool:
        """Compare files with their records; True if none was changed."""
        before = len(self.damaged)
        for name, record in files.items():
            file = self.folder / below / name
            self.files.add(below + name)
            with self.checking(below + name, remedy):
                if self.folder.resolve() not in file.resolve().parents:
                    raise FormatError("is outside the folder")
                if not file.is_file():
                    raise FormatError("is missing")
                if (size := file.stat().st_size) != record.bytes:
                    raise FormatError(f"has {size} bytes, {record.bytes} were written")
                if sha256_of(file) != record.sha256:
                    raise FormatError("was altered: its SHA-256 is not the recorded one")
        return len(self.damaged) == before

    def look_around(self) -> None:
        """Note leftovers in the folder and next to it, and files that do not belong to it."""
        full = self.folder.absolute()
        files = (file.relative_to(full).as_posix() for file in full.rglob("*") if file.is_file())
        strange = sorted({*files} - self.files)
        left = [name for name in strange if name.startswith(".") or "/." in name]
        others = [name for name in strange if name not in left]
        siblings = {entry.name for entry in full.parent.iterdir()}
        replaced, starts = f".{full.name}.old", f".{full.name}."
        left += [f"../{n}" for n in sorted(siblings - {replaced}) if n.startswith(starts)]
        if left:
            again = "the same command again resumes or removes it"
            self.notes.append(
                f"left by a command that runs or was killed: {some_of(left)}; {again}"
            )
        if others:
            self.notes.append(f"files that are not part of it: {some_of(others)}")


def fsck(folder: str | Path) -> FolderCheck:
    """Check a folder that nooch wrote: hashes of all files, tables, counts and ids.

    A dataset is checked with its embeddings, runs with all jobs that are done. Everything is read
    once or twice, and nothing is changed. ``timings.jsonl`` of runs has no hash.

    Args:
        folder: a dataset, suite, runs, features, pixels or export.

    Raises:
        FormatError: none of these.

    Examples:
        >>> nooch.fsck("data").damaged
        []
    """
    path = local_path(folder)
    marker = next((name for name in _KINDS if (path / name).is_file()), None)
    if marker is None:
        problem = f"is not a folder of nooch: it has none of {', '.join(_KINDS)}"
        allowed = "a dataset, suite, runs, features, pixels or export"
        raise FormatError(problem, where=path, allowed=allowed)
    kind, check, again = _KINDS[marker]
    checked = FolderCheck(path, kind, {marker})
    with checked.checking(marker, again):
        intact = is_intact((path / marker).read_bytes())
        if intact is None:
            checked.notes.append(f"{marker} has no checksum")
        elif not intact:
            raise FormatError("was altered: its checksum does not match its content")
        check(checked, again)
    checked.look_around()
    return checked


_OVER = ", over this folder: `overwrite`"
"""End of a remedy: the parameter that lets a folder be replaced."""


def _dataset(checked: FolderCheck, again: str) -> None:
    files = open_parts(checked.folder).header.files
    embeddings = {name: entry for name, entry in files.items() if name.startswith("embeddings/")}
    tables = {name: entry for name, entry in files.items() if name not in embeddings}
    embed = f"{again}, then run nooch tools embed {checked.folder}"
    if checked.compare(tables, again) & checked.compare(embeddings, embed):
        load_dataset(checked.folder)


def _suite(checked: FolderCheck, again: str) -> None:
    files = suite_files(checked.folder)
    checked.files |= files.keys()
    for name, recorded in files.items():
        with checked.checking(name, again):
            check_file(checked.folder, name, recorded)
    if not checked.is_whole:
        return
    with checked.checking(next(iter(files)), again):
        suite = load_suite(checked.folder)
        data = suite.source_dataset()
        if data is None:
            checked.notes.append("its dataset has moved or changed: ids not compared")
        for key in suite.keys:
            ids = suite.set(*key).image_ids
            if data is not None and not ids.is_in(data.images["image_id"].implode()).all():
                raise FormatError(f"set {', '.join(key)} has ids that the dataset does not have")
    with checked.checking(SUITE_MARKER, again):
        for record in load_suite(checked.folder).header.criteria.values():
            record.restored()


def _runs(checked: FolderCheck, again: str) -> None:
    runs, jobs = RunsFolder.open(checked.folder), checked.folder / "jobs"
    checked.files |= {"timings.jsonl"}
    checked.files |= {f"passes/{file.name}" for file in checked.folder.glob("passes/*")}
    started = [job for job in runs.header.jobs if (jobs / job).is_dir()]
    for job in started:
        below, remedy = f"jobs/{job}/", f"delete {jobs / job}, then {again}"
        checked.files.add(f"{below}done")
        with checked.checking(f"{below}done", remedy):
            if (
                checked.compare(runs.files_of(job), remedy, below)
                and not runs.read_job(job).diverged
            ):
                runs.predictions(job)
    if waiting := len(runs.header.jobs) - len(started):
        checked.notes.append(f"{waiting} of {len(runs.header.jobs)} jobs are not done: {again}")


def _array(kind: ArrayKind) -> tuple[str, Callable[[FolderCheck, str], None], str]:
    def check(checked: FolderCheck, again: str) -> None:
        checked.files |= {kind.array, IMAGES}
        with checked.checking(kind.array, again):
            open_array(checked.folder, kind, verify=True)

    return kind.name, check, f"make it again with nooch {kind.make.path}{_OVER}"


def _export(checked: FolderCheck, again: str) -> None:
    names = {"name": "export", "make": again, "again": again}
    record = load_header(checked.folder / EXPORT_MARKER, FileRecords, version=1, **names)
    checked.compare(record.files, again)


_KINDS: dict[str, tuple[str, Callable[[FolderCheck, str], None], str]] = {
    DATASET_MARKER: ("dataset", _dataset, f"import it again with nooch import{_OVER}"),
    SUITE_MARKER: ("suite", _suite, f"find it again with nooch find{_OVER}"),
    RUNS_MARKER: ("runs", _runs, "run the same nooch train bench command again"),
    FEATURES.marker: _array(FEATURES),
    PIXELS.marker: _array(PIXELS),
    EXPORT_MARKER: ("export", _export, f"export it again with nooch export{_OVER}"),
}
"""File that marks a kind of folder -> its name, what checks it, and how it is made again."""
