"""What every reader in parts has in common: what it is asked, jobs that are done once, and a listing of image files."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec
import polars as pl

from nooch.data import Dataset, ImageId
from nooch.errors import InputError
from nooch.files import replace_file
from nooch.plans import SplitPlan
from nooch.readers.image_files import ImageIndex, list_images
from nooch.shared_types import Map, StepProgress

__all__ = ["Counter", "Job", "Reading", "Scanned", "as_given", "in_range", "listed_index", "write_listing"]

_BLOCK = 1 << 22


class Scanned(Protocol):
    """Sources that were read into rows on disk; it travels to workers."""

    @property
    def classes(self) -> Sequence[str]:
        """Names of all classes."""

    def ids(self) -> pl.Series:
        """Ids of all images, each once, ascending: Int64 or String."""

    def read(
        self, low: ImageId | None, high: ImageId | None, images: Path | None, listing: Path | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high`` as a Dataset without provenance, and counts that add up over parts.

        Args:
            low: of the range; None: no id lies below.
            high: behind the range; None: no id lies above.
            images: folder below which the image files lie.
            listing: the file of their paths, as ``write_listing`` makes it.
        """

    def provenance(self, counts: Mapping[str, int], n_images: int, images: object) -> dict[str, Any]:
        """Where the dataset comes from, with notes of what was counted in all parts."""


class Reading(Protocol):
    """An import in parts: which files are read, and how."""

    def files(self) -> Sequence[tuple[str, Path]]:
        """The files, each with its role."""

    def check(self, plan: SplitPlan | None) -> None:
        """Raise, before anything is read, what can be told by then: of the files, and of how images are divided."""

    def words(self) -> list[Any]:
        """What else rows depend on, JSON-like: intermediate files of another import are never taken for its own.

        Asked once more when all is read.
        """

    def scan(self, folder: Path, map: Map, progress: StepProgress) -> Scanned:
        """Read the sources into rows below a folder; what it holds of an earlier scan is not done again."""


@dataclass(frozen=True)
class Job(ABC):
    """Work that is done once: its result lies in a file of a folder.

    Attributes:
        name: of its kind, in the names of files.
        result: the type of what comes of it.
        folder: where the file lies.
        number: among its kind.
    """

    name: ClassVar[str]
    result: ClassVar[type]
    folder: Path
    number: int

    @property
    def kept(self) -> Path:
        """The file, there once the work is done."""
        return self.folder / f"{self.name}-{self.number:07d}.msgpack"

    @abstractmethod
    def make(self) -> Any:
        """Do the work."""

    def do(self) -> Any:
        """What came of the work, which is done if it was not before."""
        if self.kept.is_file():
            return msgspec.msgpack.decode(self.kept.read_bytes(), type=self.result)
        made = self.make()
        replace_file(self.kept, msgspec.msgpack.encode(made))
        return made


def _do(job: Job) -> Any:
    return job.do()


class Counter:
    """Jobs done once, step by step, with the progress over all steps; what a step is comes of the one before.

    Args:
        map: where jobs are done.
        progress: called with how many are done, and of how many.
    """

    def __init__(self, map: Map, progress: StepProgress) -> None:
        self._map, self._progress, self._done, self._total = map, progress, 0, 0

    def done(self, jobs: Sequence[Job]) -> list[Any]:
        """What came of jobs, in their order: those done before are not done again."""
        waiting = [job for job in jobs if not job.kept.is_file()]
        self._total += len(jobs)
        self._tick(len(jobs) - len(waiting))
        for _ in self._map(_do, waiting):
            self._tick(1)
        return [job.do() for job in jobs]

    def _tick(self, more: int) -> None:
        self._done += more
        self._progress(self._done, self._total)


@contextlib.contextmanager
def as_given(files: Iterable[tuple[str, object]]) -> Iterator[None]:
    """Errors about files name them as they were given, not as workers read them: pairs of a path that is read, and that."""
    try:
        yield
    except InputError as error:
        given = dict(files).get(str(error.where))
        if given is None:
            raise
        raise InputError(error.problem, where=given, allowed=error.allowed, remedy=error.remedy) from error


def in_range(column: str, low: ImageId | None, high: ImageId | None) -> pl.Expr:
    """Rows with ``low <= column < high``, where None is no end. Groups of rows on disk outside it are passed over."""
    wanted = pl.lit(value=True) if low is None else pl.col(column) >= pl.lit(low)
    return wanted if high is None else wanted & (pl.col(column) < pl.lit(high))


def write_listing(images: Path, file: Path) -> None:
    """Write the paths of the image files below a folder, so that workers look for those of a part without holding all."""
    with file.open("wb") as listing:
        # no path holds a zero byte
        listing.writelines(os.fsencode(path) + b"\0" for path in list_images(images))


def listed_index(images: Path, listing: Path, is_wanted: Callable[[str], bool]) -> ImageIndex:
    """The listed files that may be asked for: ``is_wanted`` tells by the name, without folders."""
    return ImageIndex(images, (path for path in _listed(listing) if is_wanted(path.rsplit("/", 1)[-1])))


def _listed(file: Path) -> Iterator[str]:
    with file.open("rb") as listing:
        rest = b""
        while block := listing.read(_BLOCK):
            *paths, rest = (rest + block).split(b"\0")
            yield from map(os.fsdecode, paths)
