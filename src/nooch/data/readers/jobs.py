"""Jobs that are done once, their results kept in files. Light: workers import this first."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any, ClassVar

from nooch.base.calls import Map, StepProgress
from nooch.base.work_folder import Steps


@dataclass(frozen=True)
class NumberedJob(ABC):
    """Work of a kind (``name``) that is done once; its result is kept in ``folder``."""

    name: ClassVar[str]
    result_type: ClassVar[Any]
    folder: Path
    number: int

    @property
    def result_name(self) -> str:
        """The file of the result, which exists once the work is done."""
        return f"{self.name}-{self.number:07d}.msgpack"

    @abstractmethod
    def make(self) -> Any:
        """Do the work."""

    def result(self) -> Any:
        """The result; the work is done first if it was not before."""
        return Steps(self.folder).get(self.result_name, self.make, self.result_type)


def results_of(jobs: Sequence[NumberedJob], map: Map, progress: StepProgress) -> list[Any]:
    """The results of jobs, in their order; those that were not done before are done by ``map``."""
    waiting = [job for job in jobs if not Steps(job.folder).has(job.result_name)]
    before = len(jobs) - len(waiting)
    progress(before, len(jobs))
    for done, _ in enumerate(map(methodcaller("result"), waiting), before + 1):
        progress(done, len(jobs))
    return [job.result() for job in jobs]


def map_for(files: Iterable[Path], most: int, map: Map) -> Map:
    """``map``, or the builtin for files of at most so many bytes: workers take time to start."""
    return builtins.map if sum(file.stat().st_size for file in files) <= most else map
