"""Processes of this machine."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, TypeVar

from nooch.base.engines.job_window import Logged, check_gpus, ordered
from nooch.base.engines.visible_gpus import GPUS_VARIABLE, visible_gpus
from nooch.base.errors import ParameterError
from nooch.base.resources import THREAD_VARIABLES, environment, usable_cpus
from nooch.base.words import counted

__all__ = ["LocalEngine"]

T = TypeVar("T")
R = TypeVar("R")
# imported before workers are forked, if the driver has them; none starts threads, as polars does
# (transformers itself imports next to nothing until a model is made)
_SLOW = ("scipy.sparse", "scipy.special", "sqlglot", "torch", "transformers.modeling_utils")


class LocalEngine:
    """Applies functions in parallel processes.

    Args:
        processes: how many at most; by default as many as there are CPUs, or GPUs for.
        logs: folder for a log of each job, or None.
        gpus: of each job; it sees them alone, in CUDA_VISIBLE_DEVICES.

    Scripts that use it need the usual ``if __name__ == "__main__":`` guard of Python's
    multiprocessing.

    Raises:
        ParameterError: no process, or more GPUs than this process may use.
    """

    def __init__(
        self, processes: int | None = None, logs: Path | None = None, *, gpus: int = 0
    ) -> None:
        if processes is not None and processes < 1:
            raise ParameterError(f"{processes} processes", allowed="1 and more")
        self.logs, self.gpus = logs, check_gpus(gpus)
        self.places: list[dict[str, str]] = (
            _places(processes, gpus) if gpus else [{} for _ in range(processes or usable_cpus())]
        )
        self.processes = len(self.places)

    @classmethod
    def of(cls, argument: str | None, logs: Path | None = None, *, gpus: int = 0) -> Self:
        """``local`` or ``local:N``, N processes."""
        if argument is not None and not argument.isdecimal():
            raise ParameterError(
                f"`engine` local:{argument}", allowed="local, or local:N for N processes"
            )
        return cls(None if argument is None else int(argument), logs, gpus=gpus)

    def gpus_there(self) -> int:
        """GPUs that this process may use."""
        return len(visible_gpus())

    @property
    def threads(self) -> int:
        """CPUs that each job may use when as many run as there are processes."""
        return max(1, usable_cpus() // self.processes)

    @staticmethod
    def warm(*modules: str) -> None:
        """Start the process that workers are forked from: it imports ``modules`` meanwhile, and
        what is slow and this process has imported.

        No effect if it is running already, or if there is no such process (Windows).
        """
        if "forkserver" not in multiprocessing.get_all_start_methods():
            return
        from multiprocessing import forkserver, resource_tracker

        # it would unblock the signal
        resource_tracker.ensure_running()
        # BLAS must not start threads there: a process with threads is not safely forked
        with environment(dict.fromkeys(THREAD_VARIABLES, "1")):
            slow = [name for name in _SLOW if name.partition(".")[0] in sys.modules]
            multiprocessing.set_forkserver_preload([*modules, *slow])
            # Ctrl-C is for this process: one that imports would print where it was
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                forkserver.ensure_running()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of items. Work starts at once, before a result is asked for.

        An error of one item is raised in its place; running jobs are interrupted, others never
        start. Items are taken as results are fetched, so that memory does not grow with their
        number. A worker that is killed loses only its job, which is run again.
        """
        coming = iter(items)
        first = list(islice(coming, self.processes))
        rest: Iterator[Any] = chain(first, coming)
        logged = Logged(function, self.logs)
        if not first or (len(first) == 1 and not self.gpus):
            return map(logged, enumerate(rest))
        # a single item, too, must see its own GPUs alone
        from nooch.base.engines.worker_processes import Workers

        self.warm()
        return ordered(Workers(logged, self.places[: len(first)]), rest)


def _places(processes: int | None, gpus: int) -> list[dict[str, str]]:
    """The variable of each worker's environment that gives it its own GPUs."""
    visible = visible_gpus()
    most = len(visible) // gpus
    if most < (processes or 1):
        wanted = f"{counted(gpus, 'GPU')} a job" + (
            f" for {counted(processes, 'job')} at a time" if processes else ""
        )
        raise ParameterError(
            f"{wanted}, but this process may use {len(visible)}"
            + (f" ({', '.join(visible)})" if visible else ""),
            where="`engine` local",
            allowed=f"at most {most} jobs at a time" if most else None,
            remedy=f"look at nvidia-smi and {GPUS_VARIABLE}, or use `device` cpu",
        )
    starts = range(0, (processes or most) * gpus, gpus)
    return [{GPUS_VARIABLE: ",".join(visible[start : start + gpus])} for start in starts]
