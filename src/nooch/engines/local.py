"""Processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TypeVar

from nooch.errors import NoochError, ParameterError
from nooch.machine import processors

__all__ = ["LocalEngine"]

_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

T = TypeVar("T")
R = TypeVar("R")


class LocalEngine:
    """Applies functions in parallel processes.

    Args:
        processes: how many at most; by default as many as this process may use processors.

    Scripts that use it need the usual ``if __name__ == "__main__":`` guard of Python's multiprocessing.
    """

    def __init__(self, processes: int | None = None) -> None:
        if processes is not None and processes < 1:
            raise ParameterError(f"{processes} processes", allowed="1 and more")
        self.processes = processes or processors()

    @staticmethod
    def warm(*modules: str) -> None:
        """Start the process that workers are forked from, so that it imports ``modules`` while this one goes on.

        It is of no effect where it runs already, or where there is no such process (Windows).
        """
        if "forkserver" not in multiprocessing.get_all_start_methods():
            return
        from multiprocessing import forkserver

        # BLAS must not start threads there: a process with threads is not safely forked
        before = {name: os.environ.get(name) for name in _BLAS_THREADS}
        os.environ.update(dict.fromkeys(_BLAS_THREADS, "1"))
        try:
            multiprocessing.set_forkserver_preload([*modules])
            forkserver.ensure_running()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of items. Work starts at once, not when the first result is asked for.

        An error of one item is raised in its place, and what has not started then never does.
        """
        listed = list(items)
        workers = min(self.processes, len(listed))
        if workers < 2:
            return map(function, listed)
        # never a plain fork: polars and BLAS hold threads and locks
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare_worker)
        return _results(executor, executor.map(function, listed))


def _results(executor: ProcessPoolExecutor, results: Iterator[R]) -> Iterator[R]:
    try:
        yield from results
    except BrokenProcessPool as error:
        raise NoochError(
            "a worker process was killed, most likely because memory ran out",
            remedy="use fewer processes (--processes 1), or a machine with more memory",
        ) from error
    finally:
        # what runs is let run out, what waits is dropped
        executor.shutdown(wait=False, cancel_futures=True)


def _prepare_worker() -> None:
    """Leave Ctrl-C to the process that made this one, and end with it: a worker waits for work for ever otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
