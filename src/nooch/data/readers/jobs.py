"""Jobs that are done once, their results kept in files. Light: workers import this first."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, ClassVar

from nooch.base.calls import Map, StepProgress
from nooch.base.work_folder import Steps


class ResumableJob(ABC):
    """Work that is done once; ``result_type`` is the type of its result."""

    result_type: ClassVar[Any]

    @property
    @abstractmethod
    def result_file(self) -> Path:
        """The file of the result, which exists once the work is done."""

    @abstractmethod
    def make(self) -> Any:
        """Do the work."""

    def result(self) -> Any:
        """The result; the work is done first if it was not before."""
        file = self.result_file
        return Steps(file.parent).get(file.name, self.make, self.result_type)


class JobRunner:
    """Runs jobs step by step, with progress over all steps; their number is not known before."""

    def __init__(self, map: Map, progress: StepProgress) -> None:
        self._map, self._progress = map, progress
        self._done = self._total = self._unlisted = 0

    def run(self, *batches: Iterable[ResumableJob]) -> None:
        """Do the jobs that were not done before; a batch is listed while those before it run."""
        self._unlisted = len(batches)
        for _ in self._map(methodcaller("result"), self._waiting(batches)):
            self._tick(1)

    def _waiting(self, batches: Iterable[Iterable[ResumableJob]]) -> Iterator[ResumableJob]:
        for jobs in map(list, batches):
            waiting = [job for job in jobs if not job.result_file.is_file()]
            self._total += len(jobs)
            self._unlisted -= 1
            self._tick(len(jobs) - len(waiting))
            yield from waiting

    def results(self, jobs: Sequence[ResumableJob]) -> list[Any]:
        """The results of jobs, in their order."""
        self.run(jobs)
        return [job.result() for job in jobs]

    def _tick(self, more: int) -> None:
        self._done += more
        # until all batches are listed, the total is too small
        if not self._unlisted:
            self._progress(self._done, self._total)


def map_for(files: Iterable[Path], most: int, map: Map) -> Map:
    """``map``, or the builtin for files of at most so many bytes: workers take time to start."""
    return builtins.map if sum(file.stat().st_size for file in files) <= most else map
