"""Records of runs: a folder for each job, written whole, and checkpoints of what still trains.

``RUNS/jobs/ID`` has ``config.json``, ``metrics.jsonl`` (a line for each epoch),
``predictions.parquet`` (valid and test) and ``done``, which has their hashes. Times are in
``RUNS/timings.jsonl``, apart from what is the same in every run.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.disk import locked, make_folder, remove_ours
from nooch.base.errors import Command, FormatError, InputError, OutputError
from nooch.base.files import local_path, replace_file, write_folder, writing
from nooch.base.limits import BROKEN_JSON
from nooch.base.work_folder import Steps, key_of
from nooch.data import encode_header, is_intact, load_header, read_table, sealed_header
from nooch.data.part_files import FileRecord, FileRecords, file_record
from nooch.data.table_files import checked_read, parquet_bytes, parquet_rows
from nooch.data.table_schema import NAMES, Column, Schema, check_columns
from nooch.training.jobs import Job

RUNS_MARKER = "runs.json"
"""In ``passes``, while jobs are trained: how features are standardized."""
VERSION = 1
_AGAIN = "delete the job's folder; it is made again"

_PREDICTIONS: Schema = {
    "image_id": Column((pl.Int64, pl.String), "Int64 or String, never null"),
    "split": Column(NAMES, "names of splits"),
    "logit": Column((pl.Float64, pl.Float32), "numbers"),
}


class RunsHeader(msgspec.Struct, frozen=True):
    """Header of a folder of runs.

    ``data`` names and hashes what is trained on; ``passes`` lists jobs that train together.
    """

    format: str
    version: int
    data: dict[str, Any]
    settings: dict[str, Any]
    jobs: dict[str, Job]
    passes: list[list[str]]


class JobRecord(msgspec.Struct, frozen=True):
    """``config.json`` of a job: what was trained, its best epoch and what it stopped with.

    ``environments`` are the mean losses of the validation images of each environment at the best
    epoch (null if there are none); ``diverged`` means that no epoch had a finite validation value:
    there are no predictions then. ``nll`` is the plain loss of the predictions on the validation
    images, ``constant_nll`` the loss of the best constant answer there, the entropy of the labels.
    ``own`` and ``constant_own`` are the method's own objective of the two, see ``own_values``. All
    are null where a job has diverged.
    """

    id: str
    job: Job
    settings: dict[str, Any]
    data: dict[str, Any]
    sees: list[str]
    best_epoch: int
    epochs: int
    diverged: bool
    environments: list[float | None]
    nll: float | None
    constant_nll: float | None
    own: float | None
    constant_own: float | None

    @property
    def worse_than_constant(self) -> bool | None:
        """True if a constant answer would do better by what the method minimizes, on the validation
        images; None where the job has diverged.
        """
        if self.own is None or self.constant_own is None:
            return None
        # a head that answers a constant is not worse by rounding
        return self.own > self.constant_own * (1 + 1e-4)


def _differing(*headers: RunsHeader) -> Iterator[str]:
    """Differences in words; what one of the two lacks is ``none``."""
    for values in ([h.data for h in headers], [h.settings for h in headers]):
        recorded, here = map(_flat, values)
        for name in sorted({*recorded, *here}):
            if recorded.get(name) != here.get(name):
                old, new = recorded.get(name, "none"), here.get(name, "none")
                yield f"{name} is {old} in the folder, {new} here"


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    # a backbone is described at length: its hash is enough to distinguish two
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    return {**plain, **values.get("descent", {})}


class RunsFolder:
    """A runs folder and its header."""

    def __init__(self, path: Path, header: RunsHeader) -> None:
        self.path, self.header = path, header

    @classmethod
    def open(cls, path: str | Path) -> RunsFolder:
        """An existing folder.

        Raises FormatError if there is none, or it is of a newer version.
        """
        path = Path(path)
        file, make = path / RUNS_MARKER, Command("train bench")
        again = "start again"
        header = load_header(file, RunsHeader, name="runs", version=VERSION, make=make, again=again)
        if not {"dataset", "suite"} <= header.data.keys():
            problem = "does not record the dataset and suite of its runs"
            raise FormatError(problem, where=file, remedy=again)
        if bad := [job for job in header.jobs if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}", job)]:
            raise FormatError(f"names the job {bad[0]!r:.60}", where=file, remedy=again)
        return cls(path, header)

    @classmethod
    def begin(cls, path: str | Path, header: RunsHeader) -> RunsFolder:
        """A new folder, or the one that was started with the same configuration. Raises
        OutputError: the folder contains something else, or runs of another configuration.
        """
        path = local_path(path)
        # as it will be read: JSON knows no tuples
        header = msgspec.json.decode(encode_header(header), type=RunsHeader)
        if (path / RUNS_MARKER).is_file():
            runs = cls.open(path)
            kinds = [(h.data, h.settings, set(h.jobs)) for h in (runs.header, header)]
            if kinds[0] != kinds[1]:
                problem = "contains runs of another configuration, dataset, suite or features"
                differences = "; ".join(_differing(runs.header, header))
                problem += f": {differences}" if differences else ""
                remedy = "choose another folder, or resume with its original configuration"
                raise OutputError(problem, where=path, remedy=remedy)
        else:
            runs = cls._new(path, header)
        with writing(path):
            make_folder(path / "jobs")
            make_folder(path / "passes")
        return runs

    @classmethod
    def _new(cls, path: Path, header: RunsHeader) -> RunsFolder:
        unfinished = f".{RUNS_MARKER}.partial-"
        with writing(path):
            if path.exists() and any(not p.name.startswith(unfinished) for p in path.iterdir()):
                problem = f"exists and contains no {RUNS_MARKER}"
                raise OutputError(problem, where=path, remedy="choose another folder")
            make_folder(path)
        # decided once: a head's last bits depend on the other heads of its pass
        replace_file(path / RUNS_MARKER, sealed_header(header))
        return cls(path, header)

    def is_done(self, job: str) -> bool:
        """True if a job's folder exists; it is written atomically."""
        return (self.path / "jobs" / job / "done").is_file()

    def done(self) -> list[str]:
        """Jobs that are done, in the order of the header."""
        return [job for job in self.header.jobs if self.is_done(job)]

    def write_job(
        self,
        record: JobRecord,
        history: Iterable[Mapping[str, float | None]],
        predictions: pl.DataFrame | None,
        weights: Callable[[Path], None] = lambda _folder: None,
    ) -> None:
        """Write a job's folder, whole; ``weights`` writes what was learned into its argument."""
        folder = self.path / "jobs" / record.id
        with write_folder(folder, overwrite=True, marker="config.json") as partial:
            (partial / "config.json").write_bytes(encode_header(record))
            lines = [json.dumps(line, separators=(",", ":")) + "\n" for line in history]
            (partial / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
            if predictions is not None:
                (partial / "predictions.parquet").write_bytes(parquet_bytes(predictions))
            weights(partial / "weights")
            files = {
                file.relative_to(partial).as_posix(): file_record(file)
                for file in sorted(partial.rglob("*"))
                if file.is_file()
            }
            (partial / "done").write_bytes(sealed_header(FileRecords(files)))

    def read_job(self, job: str) -> JobRecord:
        """A job's record. Raises FormatError if it cannot be read, or is of other data."""
        file = self.path / "jobs" / job / "config.json"
        try:
            record = msgspec.json.decode(file.read_bytes(), type=JobRecord)
        except (OSError, *BROKEN_JSON, ValueError) as error:
            raise FormatError(f"cannot be read: {error}", where=file, remedy=_AGAIN) from error
        if (record.id, record.data) != (job, self.header.data):
            problem = "belongs to another job or other data"
            raise FormatError(problem, where=file.parent, remedy=_AGAIN)
        return record

    def files_of(self, job: str) -> dict[str, FileRecord]:
        """Files of a job that is done, with their hashes.

        Raises FormatError if they cannot be read, or were altered.
        """
        file = self.path / "jobs" / job / "done"
        if not file.is_file():
            raise FormatError("is missing", where=file, remedy=_AGAIN)
        content = file.read_bytes()
        if not is_intact(content):
            raise FormatError("was altered", where=file, remedy=_AGAIN)
        return msgspec.json.decode(content, type=FileRecords).files

    def predictions(self, job: str) -> pl.DataFrame:
        """``image_id, split, logit`` of a job. Raises InputError if they cannot be read."""
        file = self.path / "jobs" / job / "predictions.parquet"
        frame = check_columns(read_table(file), _PREDICTIONS, file, _AGAIN)
        return frame.select(list(_PREDICTIONS))

    def outputs(self, jobs: Sequence[str]) -> tuple[pl.Series, NDArray[np.float64]]:
        """Ids of the images of valid and test, and logits of jobs (n_jobs, n_images).

        Raises InputError if they cannot be read, or jobs have different images.
        """
        files = [self.path / "jobs" / job / "predictions.parquet" for job in jobs]
        columns = list(_PREDICTIONS)
        try:
            # one by one, thousands of small files take eight times as long
            read = partial(parquet_rows, files, self.path, columns)
            table = check_columns(checked_read(self.path, read), _PREDICTIONS, self.path, _AGAIN)
        except InputError:
            # of different types, or broken: its error names the job
            frames = [self.predictions(job).drop("split") for job in jobs]
            table = pl.concat(frames, how="vertical_relaxed")
        ids = table["image_id"].head(len(table) // len(jobs))
        if not pl.concat([ids] * len(jobs)).equals(table["image_id"]):
            first = self.predictions(jobs[0])["image_id"]
            other = next(job for job in jobs if not self.predictions(job)["image_id"].equals(first))
            where = self.path / "jobs" / other
            raise InputError("its images differ from the other jobs' images", where=where)
        return ids, table["logit"].to_numpy().astype(np.float64).reshape(len(jobs), -1)

    def checkpoint(self, names: Sequence[str]) -> dict[str, NDArray[Any]] | None:
        """State of the pass of some jobs, or None if it has none that is whole."""
        state = self._state(names)
        kept: dict[str, NDArray[Any]] | None = Steps(state.parent).kept(state.name)
        return kept

    def progress_of(self, names: Sequence[str]) -> tuple[int, int] | None:
        """Epochs and stopped jobs of a pass, or None without a state; nothing else is read."""
        try:
            with np.load(self._state(names), allow_pickle=False) as arrays:
                return int(arrays["epoch"]), int(arrays["stopped"])
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def save_checkpoint(self, names: Sequence[str], arrays: Mapping[str, NDArray[Any]]) -> None:
        """State of the pass of some jobs, replacing the one before."""
        state = self._state(names)
        Steps(state.parent).put(state.name, arrays)

    def drop_checkpoint(self, names: Sequence[str]) -> None:
        """Remove the state of a pass whose jobs are all done, and leftovers of killed processes."""
        state = self._state(names)
        for file in (state, *state.parent.glob(f".{state.name}.partial-*")):
            file.unlink(missing_ok=True)

    def held(self) -> AbstractContextManager[None]:
        """Taken by the one process that has passes trained, however many workers it has. Raises
        OutputError: another process has it, or it cannot be written.
        """
        lock = self.path / "passes" / "held.lock"
        return locked(
            lock, "training these runs", self.path, remedy="wait for it; see nooch train status"
        )

    def training(
        self, names: Sequence[str], tell: Callable[[str], None]
    ) -> AbstractContextManager[None]:
        """Taken by the process that trains a pass; others wait, then find its checkpoint or end.

        ``tell`` is called with a message if this process waits.
        """
        lock = self._state(names).with_suffix(".lock")
        told = "another process trains this pass: waiting for it"
        return locked(lock, "training this pass", self.path, waiting=partial(tell, told))

    def tidy(self) -> None:
        """Remove what was needed for training: all jobs are done."""
        for names in self.header.passes:
            self.drop_checkpoint(names)
        # also files of processes that were killed
        for left in (
            "jobs/.*.lock",
            "passes/*.lock",
            "passes/.*.partial-*",
            f".{RUNS_MARKER}.partial-*",
        ):
            for file in self.path.glob(left):
                file.unlink(missing_ok=True)
        for folder in self.path.glob("jobs/.*.partial"):
            remove_ours(folder)

    def _state(self, names: Sequence[str]) -> Path:
        # by its jobs: another division into passes does not pick up another run's state
        return self.path / "passes" / f"{key_of(names)}.npz"

    def note_time(self, what: str, seconds: float, **more: Any) -> None:
        """A line in ``timings.jsonl``."""
        line = {"what": what, "seconds": round(seconds, 3), "at": round(time.time()), **more}
        with (self.path / "timings.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def passes_of(
    jobs: Mapping[str, Job], most: int, *, weighted: bool = True, by_task: bool = False
) -> list[list[str]]:
    """Jobs (by name) that can train together, in passes of at most ``most``."""
    shared: dict[Any, list[str]] = {}
    for name, job in jobs.items():
        alike = job.shares if weighted else job.takes
        shared.setdefault((alike, job.task if by_task else None), []).append(name)
    starts = [(names, start) for names in shared.values() for start in range(0, len(names), most)]
    return [names[start : start + most] for names, start in starts]
