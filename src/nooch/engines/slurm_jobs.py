"""Jobs in Slurm's queue: submitted as arrays, found again by their results' files, missed when the queue has them no more."""

from __future__ import annotations

import contextlib
import getpass
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nooch.engines.base import Jobs, Logged, Lost
from nooch.errors import NoochError

__all__ = ["SlurmJobs"]

_PAUSE = 0.5
"""Seconds between looks for a result."""

_PATIENCE = 10.0
"""Seconds until a job that has left the queue is taken for lost: on another machine its result may be seen late."""


class SlurmJobs(Jobs):
    """Jobs of an executor of submitit.

    Args:
        executor: submitit's.
        function: of all jobs.
        array: jobs that are submitted together.
    """

    remedy = "look at sacct, and at the logs of the jobs"

    def __init__(self, executor: Any, function: Logged, array: int) -> None:
        self._executor, self._function = executor, function
        self.size, self.window = array, 2 * array
        # submitit's stand-ins for Slurm have no queue
        self._real = executor.cluster == "slurm"
        self._missed: dict[str, float] = {}

    def submit(self, items: Sequence[tuple[int, Any]]) -> list[Any]:
        """Submit jobs. Raises NoochError where Slurm refuses them."""
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        call = _Call(self._function)
        try:
            with _modules_found():
                if len(items) == 1:
                    return [self._executor.submit(call, items[0])]
                submitted: list[Any] = self._executor.map_array(call, list(items))
                return submitted
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            raise NoochError(
                f"Slurm does not take the jobs: {str(error).strip()}",
                where="sbatch",
                remedy="look at the site's partitions and limits (sinfo, scontrol show config)",
            ) from error

    def wait(self, handle: Any, seconds: float) -> bool:
        """Wait for a job's result, so long at most."""
        deadline = time.monotonic() + seconds
        while not (handle.paths.result_pickle.exists() or (not self._real and handle.done())):
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE)
        return True

    def result(self, handle: Any) -> Any:
        """The result of a job that has ended. Raises Lost, what the job raised, or NoochError where it could not be begun."""
        from submitit.core.utils import FailedJobError, UncompletedJobError

        if not handle.paths.result_pickle.exists():
            # submitit would look for it for another quarter of a minute
            raise Lost(f"job {handle.job_id} ended without a result")
        try:
            outcome = handle.result()
        except FailedJobError as error:
            raise NoochError(f"job {handle.job_id} could not be done: {error}", remedy=self.remedy) from error
        except UncompletedJobError as error:
            raise Lost(str(error).partition("\n")[0]) from error
        # the driver's disk, too, is not to grow with the number of jobs; logs stay
        self._missed.pop(handle.job_id, None)
        for file in (handle.paths.result_pickle, handle.paths.submitted_pickle):
            with contextlib.suppress(OSError):
                file.unlink()
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def lost(self, handles: Sequence[Any]) -> list[bool]:
        """Which jobs have left the queue some time ago without a result; the accounting, which not every site has, is not asked."""
        unknown = [handle for handle in handles if not handle.paths.result_pickle.exists()]
        if not self._real:
            ended = {handle.job_id for handle in unknown if handle.done() and not handle.paths.result_pickle.exists()}
            return [handle.job_id in ended for handle in handles]
        queued, now = _queued() if unknown else None, time.monotonic()
        if queued is None:
            # a controller that does not answer says nothing of the jobs
            return [False] * len(handles)
        missed = {handle.job_id for handle in unknown} - queued
        self._missed = {job: self._missed.get(job, now) for job in missed}
        return [now - self._missed.get(handle.job_id, now) >= _PATIENCE for handle in handles]

    def close(self, handles: Sequence[Any]) -> None:
        """Cancel jobs."""
        if not self._real:
            for handle in handles:
                with contextlib.suppress(Exception):
                    handle.cancel()
        elif handles:
            subprocess.run(["scancel", *(handle.job_id for handle in handles)], capture_output=True, check=False)  # noqa: S603, S607


def _queued() -> set[str] | None:
    """The user's jobs of ours that Slurm's queue has, in whatever state; None where it does not answer."""
    # the program is the one that the user's PATH names, as sbatch is
    words = ["squeue", "--noheader", "--array", "--name=nooch", f"--user={getpass.getuser()}", "--format=%i"]
    try:
        asked = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return set(asked.stdout.split()) if asked.returncode == 0 else None


@contextlib.contextmanager
def _modules_found() -> Iterator[None]:
    """Jobs get this environment: modules of the user's own are found where this process finds them."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        os.environ.update({} if before is None else {"PYTHONPATH": before})


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
