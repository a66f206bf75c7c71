"""Slurm, through submitit: jobs as arrays, in a folder that every node sees."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

from nooch.engines.base import Jobs, Logged, Lost, ordered
from nooch.errors import MissingExtraError, NoochError

__all__ = ["SlurmEngine"]

T = TypeVar("T")
R = TypeVar("R")

_ARRAY = 200
"""Jobs in one array: below every site's limit (Slurm's own is 1,001)."""


class SlurmEngine:
    """Applies functions in jobs of Slurm.

    Args:
        partition: where jobs run; by default the site's.
        logs: folder that every node sees, for a log of each job and for what submitit keeps; by default
            a new one where the command was given.
        cluster: ``slurm``, or submitit's ``local`` and ``debug``, which stand in for it in tests.
        minutes: time limit of a job. One that is preempted, or runs out of time, is put back into the queue.
        processors: of a job.
        array: jobs in one array.

    Raises:
        MissingExtraError: submitit is not installed.
        NoochError: there is no Slurm here.
    """

    def __init__(
        self,
        partition: str | None = None,
        logs: Path | None = None,
        *,
        cluster: str = "slurm",
        minutes: int = 24 * 60,
        processors: int = 1,
        array: int = _ARRAY,
    ) -> None:
        try:
            import submitit
        except ImportError as error:
            raise MissingExtraError("submitit", "slurm", "--engine slurm") from error
        self.logs, self.array, self._submitit = logs, array, submitit
        # in the folder where the command was given: it is more likely shared by the nodes than /tmp
        self._folder = logs / "submitit" if logs is not None else Path(f".nooch-slurm-{uuid4().hex[:8]}").absolute()
        more = {"slurm_partition": partition} if partition is not None and cluster == "slurm" else {}
        try:
            self._executor = submitit.AutoExecutor(self._folder, cluster=cluster)
        except RuntimeError as error:
            raise NoochError(
                f"there is no Slurm here: {error}", remedy="run on a login node, or use --engine local or ray"
            ) from error
        self._executor.update_parameters(timeout_min=minutes, cpus_per_task=processors, name="nooch", **more)

    @classmethod
    def of(cls, argument: str | None, logs: Path | None = None) -> Self:
        """``slurm`` or ``slurm:PARTITION``."""
        return cls(argument, logs)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of items, which are submitted in arrays; two arrays at most are under way.

        An error of one item is raised in its place. A job that is killed is done again, the others go on.
        """
        return ordered(_SlurmJobs(self._submitit, self._executor, Logged(function, self.logs), self.array), items)


class _SlurmJobs(Jobs):
    remedy = "look at sacct, and at the logs of the jobs"

    def __init__(self, submitit: Any, executor: Any, function: Logged, array: int) -> None:
        self._submitit, self._executor, self._function = submitit, executor, function
        self.size, self.window = array, 2 * array
        # submitit's stand-ins for Slurm have no queue
        self._real = executor.cluster == "slurm"

    def submit(self, items: Sequence[tuple[int, Any]]) -> list[Any]:
        call, before = _Call(self._function), os.environ.get("PYTHONPATH")
        # jobs get this environment: modules of the user's own are found where this process finds them
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        try:
            if len(items) == 1:
                return [self._executor.submit(call, items[0])]
            submitted: list[Any] = self._executor.map_array(call, list(items))
            return submitted
        finally:
            del os.environ["PYTHONPATH"]
            os.environ.update({} if before is None else {"PYTHONPATH": before})

    def result(self, handle: Any) -> Any:
        core = self._submitit.core.utils
        self._wait(handle)
        try:
            outcome = handle.result()
        except core.FailedJobError as error:
            raise NoochError(f"job {handle.job_id} could not be done: {error}", remedy=self.remedy) from error
        except core.UncompletedJobError as error:
            raise Lost(str(error).partition("\n")[0]) from error
        # the driver's disk, too, is not to grow with the number of jobs; logs stay
        for file in (handle.paths.result_pickle, handle.paths.submitted_pickle):
            with contextlib.suppress(OSError):
                file.unlink()
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def is_lost(self, handle: Any) -> bool:
        if handle.paths.result_pickle.exists():
            return False
        return not _queued(handle) if self._real else bool(handle.done())

    def _wait(self, handle: Any) -> None:
        """Until there is a result, asking the queue: submitit asks the accounting, which not every site has."""
        patience = _PATIENCE
        while self._real and not handle.paths.result_pickle.exists():
            time.sleep(_PAUSE)
            if _queued(handle):
                continue
            # a file may be seen late on another machine
            patience -= 1
            if not patience:
                raise Lost(f"job {handle.job_id} left the queue without a result")

    def close(self, handles: Sequence[Any]) -> None:
        for handle in handles:
            with contextlib.suppress(Exception):
                handle.cancel()


_PAUSE, _PATIENCE = 1.0, 10
"""Seconds between looks at the queue, and looks until a job that left it is taken for lost."""


def _queued(handle: Any) -> bool:
    """Whether Slurm's queue still has a job."""
    # the program is the one that the user's PATH names, as sbatch is
    asked = subprocess.run(  # noqa: S603
        ["squeue", "--noheader", "--format=%T", f"--jobs={handle.job_id}"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    # a job that was forgotten already is an invalid one; a controller that does not answer says nothing of the job
    return bool(asked.stdout.strip()) if asked.returncode == 0 else "Invalid job id" not in asked.stderr


@dataclass(frozen=True)
class _Raised:
    """What a job raised: submitit itself would give its text alone."""

    error: Exception


@dataclass(frozen=True)
class _Call:
    """What Slurm runs."""

    function: Logged

    def __call__(self, job: tuple[int, Any]) -> Any:
        try:
            return self.function(job)
        except Exception as error:  # noqa: BLE001 - it is raised again by the driver
            return _Raised(error)

    def checkpoint(self, job: tuple[int, Any]) -> Any:
        """Before time runs out or a job is preempted: queue it again. Jobs go on from what they kept themselves."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, job)
