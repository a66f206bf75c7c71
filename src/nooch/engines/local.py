"""Processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Self, TypeVar

from nooch.engines.base import Jobs, Logged, Lost, ordered
from nooch.errors import ParameterError
from nooch.machine import processors

__all__ = ["LocalEngine"]

_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

T = TypeVar("T")
R = TypeVar("R")


class LocalEngine:
    """Applies functions in parallel processes.

    Args:
        processes: how many at most; by default as many as this process may use processors.
        logs: folder for a log of each job, or None.

    Scripts that use it need the usual ``if __name__ == "__main__":`` guard of Python's multiprocessing.
    """

    def __init__(self, processes: int | None = None, logs: Path | None = None) -> None:
        if processes is not None and processes < 1:
            raise ParameterError(f"{processes} processes", allowed="1 and more")
        self.processes, self.logs = processes or processors(), logs

    @classmethod
    def of(cls, argument: str | None, logs: Path | None = None) -> Self:
        """``local`` or ``local:N``, N processes."""
        if argument is not None and not argument.isdecimal():
            raise ParameterError(f"--engine local:{argument}", allowed="local, or local:N for N processes")
        return cls(None if argument is None else int(argument), logs)

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

        An error of one item is raised in its place, and what has not started then never does. Items are taken as results
        are fetched, so that memory does not grow with their number. A worker that is killed loses only its job, which
        is done again.
        """
        coming = iter(items)
        first = list(islice(coming, self.processes))
        rest = chain(first, coming)
        logged = Logged(function, self.logs)
        if len(first) < 2:
            return map(logged, enumerate(rest))
        return ordered(_Processes(logged, len(first)), rest)


class _Processes(Jobs):
    """Jobs in a pool of processes, which is made anew where one of them was killed."""

    remedy = "use fewer processes (--processes 1), or a machine with more memory"

    def __init__(self, function: Logged, workers: int) -> None:
        self._function, self._workers = function, workers
        # enough that nobody waits while the first of them takes its time
        self.window = 4 * workers
        self._pool = self._begin()

    def _begin(self) -> ProcessPoolExecutor:
        # never a plain fork: polars and BLAS hold threads and locks
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        return ProcessPoolExecutor(self._workers, mp_context=context, initializer=_prepare_worker)

    def submit(self, items: Sequence[tuple[int, Any]]) -> list[Future[Any]]:
        try:
            return [self._pool.submit(self._function, item) for item in items]
        except BrokenProcessPool:
            self._pool.shutdown(wait=False)
            self._pool = self._begin()
            return [self._pool.submit(self._function, item) for item in items]

    def result(self, handle: Future[Any]) -> Any:
        try:
            return handle.result()
        except BrokenProcessPool as error:
            raise Lost("it was killed, most likely because memory ran out") from error

    def is_lost(self, handle: Future[Any]) -> bool:
        return handle.done() and isinstance(handle.exception(), BrokenProcessPool)

    def close(self, handles: Sequence[Future[Any]]) -> None:
        # what runs is let run out, what waits is dropped; where all is done, workers end now: the command line does not
        # wait for them when it ends, and what they hold of the system would be cleared away with a warning
        self._pool.shutdown(wait=not handles, cancel_futures=True)


def _prepare_worker() -> None:
    """Leave Ctrl-C to the process that made this one, and end with it: a worker waits for work for ever otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
