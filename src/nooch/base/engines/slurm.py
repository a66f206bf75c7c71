"""Slurm, through submitit: jobs as arrays, in a folder that every node sees."""

from __future__ import annotations

import contextlib
import getpass
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from nooch.base.engines import job_window as base
from nooch.base.engines.job_window import (
    Jobs,
    Logged,
    check_gpus,
    lost_each_time,
    module_paths,
    ordered,
)
from nooch.base.errors import MissingExtraError, NoochError
from nooch.base.limits import environment

T = TypeVar("T")
R = TypeVar("R")

_ARRAY = 200
"""Jobs in one array at most, where the site allows it."""

_REQUEUES = 1000
"""Maximum number of times a job that ran out of time is queued again; it then resumes."""

_PAUSE = 0.5
"""Seconds between looks for a result."""

LOOK = 5.0
"""Seconds between looks at the queue."""

PATIENCE = 10.0
"""Seconds until a job that left the queue counts as lost: its result may arrive late on a share."""


class SlurmEngine:
    """Applies functions in jobs of Slurm.

    Args:
        partition: where jobs run; by default the site's.
        logs: folder that every node sees, for logs of jobs and files of submitit; by default a
            new one in the current folder.
        gpus: of each job, asked for as ``--gres=gpu:N``; Slurm lets it see only these.
        cluster: ``slurm``, or submitit's ``local`` and ``debug``, which stand in for it in tests.
        minutes: time limit of a job. It is requeued if it is preempted or runs out of time.
        cpus: of a job.
        array: jobs in one array at most; by default 200, or what the site allows.
        more: further parameters of submitit, such as ``{"slurm_account": "vision"}``.

    Raises:
        MissingExtraError: submitit is not installed.
        NoochError: Slurm is not installed here.
        ParameterError: a negative number of GPUs.
    """

    def __init__(
        self,
        partition: str | None = None,
        logs: Path | None = None,
        *,
        gpus: int = 0,
        cluster: str = "slurm",
        minutes: int = 24 * 60,
        cpus: int = 1,
        array: int | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        try:
            import submitit
        except ImportError as error:
            raise MissingExtraError("submitit", "slurm", "`engine` slurm") from error
        self.partition, self.logs, self.gpus = partition, logs, check_gpus(gpus)
        self.threads = cpus
        # the current folder is more likely shared by the nodes than /tmp
        private = Path(f".nooch-slurm-{uuid4().hex[:8]}").absolute()
        self._folder = private if logs is None else logs / "submitit"
        settings: dict[str, Any] = {} if partition is None else {"slurm_partition": partition}
        if gpus:
            # sites without the newer --gpus-per-node have this one
            settings["slurm_gres"] = f"gpu:{gpus}"
        try:
            self._executor = submitit.AutoExecutor(
                self._folder, cluster=cluster, slurm_max_num_timeout=_REQUEUES
            )
        except RuntimeError as error:
            raise NoochError(
                f"Slurm is not installed here: {error}",
                remedy="run on a login node",
                give=({"engine": "local"}, {"engine": "ray"}),
            ) from error
        self._executor.update_parameters(
            timeout_min=minutes, cpus_per_task=cpus, name="nooch", **settings, **(more or {})
        )
        self.array = array or (_most_in_array() if self._executor.cluster == "slurm" else _ARRAY)

    def gpu_count(self) -> int:
        """Most GPUs of one node in the partition, or in all; 0 if the site reports none."""
        words = [] if self.partition is None else [f"--partition={self.partition}"]
        listed = _asked(["sinfo", "--noheader", "--format=%G", *words])
        # such as gpu:a100:4(S:0-1),lustre:1
        return max(map(int, re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", listed or "")), default=0)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of items, submitted in arrays, of which two at most are active.

        An error of one item is raised in its place. A job that is killed is run again.
        """
        return ordered(_SlurmJobs(self._executor, Logged(function, self.logs), self.array), items)


@dataclass(eq=False)
class _Submitted:
    """A job in Slurm's queue, how often it was lost, and since when the queue has it no more."""

    number: int
    item: Any
    job: Any
    losses: int = 0
    missed: float | None = None

    @property
    def has_ended(self) -> bool:
        return bool(self.job.paths.result_pickle.exists())


class _SlurmJobs(Jobs):
    """Jobs of an executor of submitit: done by their result's file, lost if the queue lacks them.

    submitit itself requeues a job that is preempted or runs out of time. It gives up one that is
    killed or canceled, and learns that from the accounting, which not every site has.
    """

    remedy = "look at sacct, and at the logs of the jobs"

    def __init__(self, executor: Any, function: Logged, array: int) -> None:
        self._executor, self._call = executor, _Call(function)
        self.size, self.window = array, 2 * array
        # submitit's stand-ins for Slurm have no queue
        self._has_queue = executor.cluster == "slurm"
        self._open: list[_Submitted] = []

    def submit(self, items: Sequence[tuple[int, Any]]) -> list[_Submitted]:
        """Submit jobs. Raises NoochError if Slurm refuses them."""
        pairs = zip(items, self._jobs(items), strict=True)
        submitted = [_Submitted(*item, job) for item, job in pairs]
        self._open += submitted
        return submitted

    def _jobs(self, items: Sequence[tuple[int, Any]]) -> list[Any]:
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        try:
            # jobs get this environment
            with environment(module_paths()):
                if len(items) == 1:
                    return [self._executor.submit(self._call, items[0])]
                jobs: list[Any] = self._executor.map_array(self._call, list(items))
                return jobs
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            problem = f"Slurm rejects the jobs: {str(error).strip()}"
            remedy = "look at the site's partitions and limits (sinfo, scontrol show config)"
            raise NoochError(problem, where="sbatch", remedy=remedy) from error

    def result(self, handle: _Submitted) -> Any:
        """Wait for the result of a job; meanwhile, submit those again that were lost."""
        from submitit.core.utils import FailedJobError

        looked = time.monotonic()
        while not handle.has_ended:
            if time.monotonic() - looked >= LOOK:
                self._replace_lost(handle)
                looked = time.monotonic()
            time.sleep(_PAUSE)
        self._open.remove(handle)
        try:
            outcome = handle.job.result()
        except FailedJobError as error:
            raise NoochError(
                f"job {handle.job.job_id} failed: {error}", remedy=self.remedy
            ) from error
        # disk use must not grow with the number of jobs; logs stay
        for file in (handle.job.paths.result_pickle, handle.job.paths.submitted_pickle):
            with contextlib.suppress(OSError):
                file.unlink()
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def _replace_lost(self, first: _Submitted) -> None:
        lost = self._lost()
        if first in lost and first.losses == base.RETRIES:
            raise lost_each_time(
                first.number, f"job {first.job.job_id} ended without a result", self.remedy
            )
        # another one that was lost too often is given up when it is its turn
        lost = [entry for entry in lost if entry.losses < base.RETRIES]
        if not lost:
            return
        time.sleep(base.WAIT * 2 ** max(entry.losses for entry in lost))
        jobs = self._jobs([(entry.number, entry.item) for entry in lost])
        for entry, job in zip(lost, jobs, strict=True):
            entry.job, entry.losses, entry.missed = job, entry.losses + 1, None

    def _lost(self) -> list[_Submitted]:
        """Jobs that left the queue some time ago without a result."""
        unknown = [entry for entry in self._open if not entry.has_ended]
        if not self._has_queue:
            return [entry for entry in unknown if entry.job.done() and not entry.has_ended]
        queued, now = _queued(), time.monotonic()
        if queued is None:
            # no answer from the controller means nothing about the jobs
            return []
        for entry in unknown:
            entry.missed = None if entry.job.job_id in queued else entry.missed or now
        return [entry for entry in unknown if entry.missed and now - entry.missed >= PATIENCE]

    def close(self, handles: Sequence[_Submitted]) -> None:
        """Cancel jobs."""
        if not self._has_queue:
            for handle in handles:
                with contextlib.suppress(Exception):
                    handle.job.cancel()
        elif handles:
            _asked(["scancel", *(handle.job.job_id for handle in handles)])


@dataclass(frozen=True)
class _Raised:
    """The exception a job raised; submitit itself would give only its text."""

    error: Exception


@dataclass(frozen=True)
class _Call:
    """The function that Slurm runs."""

    function: Logged

    def __call__(self, job: tuple[int, Any]) -> Any:
        try:
            return self.function(job)
        except Exception as error:  # noqa: BLE001 - it is raised again by the driver
            return _Raised(error)

    def checkpoint(self, job: tuple[int, Any]) -> Any:
        """Queue the job again before it is preempted or out of time; jobs resume by themselves."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, job)


def _most_in_array() -> int:
    """Jobs that the site allows in one array: MaxArraySize - 1, the largest index of a job."""
    config = _asked(["scontrol", "show", "config"]) or ""
    limit = re.search(r"^MaxArraySize\s*=\s*(\d+)", config, re.MULTILINE)
    return min(_ARRAY, max(1, int(limit[1]) - 1)) if limit else _ARRAY


def _queued() -> set[str] | None:
    """The user's jobs named nooch in Slurm's queue, in any state; None if it does not answer."""
    options = ["--noheader", "--array", "--name=nooch", "--format=%i"]
    listed = _asked(["squeue", *options, f"--user={getpass.getuser()}"])
    return None if listed is None else set(listed.split())


def _asked(words: list[str]) -> str | None:
    """Output of a program of Slurm; None if it does not answer."""
    try:
        # the program is the one that the user's PATH names, as sbatch is
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
