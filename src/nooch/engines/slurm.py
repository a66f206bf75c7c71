"""Slurm, through submitit: jobs as arrays, in a folder that every node sees."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

from nooch.engines.base import Logged, check_gpus, ordered
from nooch.errors import MissingExtraError, NoochError

__all__ = ["SlurmEngine"]

T = TypeVar("T")
R = TypeVar("R")

_ARRAY = 200
"""Jobs in one array at most, where the site allows it."""

_REQUEUES = 1000
"""How often a job may run out of time and be queued again: each time it goes on where it was."""


class SlurmEngine:
    """Applies functions in jobs of Slurm.

    Args:
        partition: where jobs run; by default the site's.
        logs: folder that every node sees, for a log of each job and for what submitit keeps; by default
            a new one where the command was given.
        gpus: of each job, asked for as ``--gres=gpu:N``; Slurm lets it see them alone.
        cluster: ``slurm``, or submitit's ``local`` and ``debug``, which stand in for it in tests.
        minutes: time limit of a job. One that is preempted, or runs out of time, is put back into the queue.
        processors: of a job.
        array: jobs in one array at most; by default 200, or what the site allows.
        more: further parameters of submitit, such as ``{"slurm_account": "vision"}``.

    Raises:
        MissingExtraError: submitit is not installed.
        NoochError: there is no Slurm here.
        ParameterError: GPUs fewer than none.
    """

    def __init__(
        self,
        partition: str | None = None,
        logs: Path | None = None,
        *,
        gpus: int = 0,
        cluster: str = "slurm",
        minutes: int = 24 * 60,
        processors: int = 1,
        array: int | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        try:
            import submitit
        except ImportError as error:
            raise MissingExtraError("submitit", "slurm", "--engine slurm") from error
        self.partition, self.logs, self.gpus = partition, logs, check_gpus(gpus)
        self.threads = processors
        # in the folder where the command was given: it is more likely shared by the nodes than /tmp
        self._folder = logs / "submitit" if logs is not None else Path(f".nooch-slurm-{uuid4().hex[:8]}").absolute()
        asked: dict[str, Any] = {} if partition is None else {"slurm_partition": partition}
        if gpus:
            # sites without the newer --gpus-per-node know this one
            asked["slurm_gres"] = f"gpu:{gpus}"
        try:
            self._executor = submitit.AutoExecutor(self._folder, cluster=cluster, slurm_max_num_timeout=_REQUEUES)
        except RuntimeError as error:
            raise NoochError(
                f"there is no Slurm here: {error}", remedy="run on a login node, or use --engine local or ray"
            ) from error
        self._executor.update_parameters(
            timeout_min=minutes, cpus_per_task=processors, name="nooch", **asked, **(more or {})
        )
        self.array = array or min(_ARRAY, _most_in_array() if self._executor.cluster == "slurm" else _ARRAY)

    @classmethod
    def of(cls, argument: str | None, logs: Path | None = None, *, gpus: int = 0) -> Self:
        """``slurm`` or ``slurm:PARTITION``."""
        return cls(argument, logs, gpus=gpus)

    def gpus_there(self) -> int:
        """GPUs of the node that has most, in the partition or in all; 0 where the site has none or does not tell."""
        words = [] if self.partition is None else [f"--partition={self.partition}"]
        listed = _asked(["sinfo", "--noheader", "--format=%G", *words])
        # such as gpu:a100:4(S:0-1),lustre:1
        return max((int(n) for n in re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", listed)), default=0)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of items, which are submitted in arrays; two arrays at most are under way.

        An error of one item is raised in its place. A job that is killed is done again, the others go on.

        Raises:
            NoochError: Slurm does not take the jobs.
        """
        from nooch.engines.slurm_jobs import SlurmJobs

        return ordered(SlurmJobs(self._executor, Logged(function, self.logs), self.array), items)


def _most_in_array() -> int:
    """Jobs that the site allows in one array: one less than MaxArraySize, which is above the largest number of a job."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _asked(["scontrol", "show", "config"]), re.MULTILINE)
    return max(1, int(found[1]) - 1) if found else _ARRAY


def _asked(words: list[str]) -> str:
    """What a program of Slurm says; nothing where it does not answer."""
    try:
        # the program is the one that the user's PATH names, as sbatch is
        asked = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout if asked.returncode == 0 else ""
