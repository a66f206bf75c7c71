"""Processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import TypeVar

from nooch.errors import ParameterError

__all__ = ["LocalEngine"]

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
        self.processes = processes or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of items. An error of one item is raised here, and the rest is not started."""
        listed = list(items)
        workers = min(self.processes, len(listed))
        if workers < 2:
            yield from map(function, listed)
            return
        # never a plain fork: polars and BLAS hold threads and locks
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        executor = ProcessPoolExecutor(
            workers, mp_context=multiprocessing.get_context(method), initializer=_die_with_parent
        )
        try:
            yield from executor.map(function, listed)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def _die_with_parent() -> None:
    """End this worker when the process that made it is killed; otherwise it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
