"""Processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

from nooch.base.engines import job_window as base
from nooch.base.engines.job_window import Jobs, Logged, check_gpus, lost_each_time, ordered
from nooch.base.errors import NoochError, ParameterError
from nooch.base.limits import THREAD_VARIABLES, environment, usable_cpus
from nooch.base.words import counted

_LEAVE = b""
_PATIENCE = 5.0
"""Seconds to wait for the end of abandoned jobs; the end of the process waits longer."""
_WAKE = 1.0
"""Seconds after which a wait for a result looks for signals."""
_WAY_OUT = 30.0
"""Seconds that a worker has to leave a job when its driver has ended."""


class _Ended(SystemExit):
    """The driver gives this job up, or somebody has asked this worker to end."""


class _Worker:
    """A process that is given one job after another."""

    def __init__(self, environment: Mapping[str, str], function: bytes) -> None:
        # never a plain fork: polars and BLAS have threads and locks
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self.busy = False
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_work, args=(theirs, environment, function))  # type: ignore[attr-defined]
        self.process.start()
        theirs.close()

    def outcome(self, job: Any) -> Any:
        """The outcome of a job, or None if the process ended without one."""
        try:
            self.connection.send_bytes(job)
            # watching the connection is not enough: a child of the job may keep its other end open
            wait([self.connection, self.process.sentinel])
            return self.connection.recv_bytes() if self.connection.poll() else None
        except (EOFError, OSError):
            return None

    def interrupt(self) -> None:
        """Interrupt the job that it is at."""
        if self.busy:
            self.process.terminate()

    def end(self) -> None:
        """End it and wait until nothing of it is left."""
        with contextlib.suppress(OSError):
            self.connection.send_bytes(_LEAVE)
        self.process.join()
        self.connection.close()


class Workers(Jobs):
    """A thread of this process for each worker gives it jobs, and replaces it if it was lost.

    Args:
        function: of all jobs; it is sent to each worker once.
        environments: variables of the environment of each worker, one mapping per worker.
    """

    remedy = "use fewer processes (`processes` 1, `engine` local:1), or a machine with more memory"

    def __init__(self, function: Logged, environments: Sequence[Mapping[str, str]]) -> None:
        # enough that nobody waits while the first of them takes its time
        self.window = 4 * len(environments)
        self._function = _pickled(function)
        self._waiting: SimpleQueue[tuple[int, Any, Future[Any]] | None] = SimpleQueue()
        self._workers: dict[int, _Worker] = {}
        self._lock, self._closed = threading.Lock(), threading.Event()
        # ahead of multiprocessing's own end, which waits for all children
        self._end = Finalize(None, self._close, exitpriority=10)
        # concurrent.futures would make the end of this process wait for its workers
        self._threads = [
            threading.Thread(target=self._serve, args=pair, name="nooch-worker", daemon=True)
            for pair in enumerate(environments)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, items: Sequence[tuple[int, Any]]) -> list[Future[Any]]:
        """Put jobs in the queue."""
        futures: list[Future[Any]] = []
        for number, item in items:
            futures.append(Future())
            self._waiting.put((number, _pickled((number, item)), futures[-1]))
        return futures

    def result(self, handle: Future[Any]) -> Any:
        """Wait for the result of a job. Raises the job's error, or that its workers were lost."""
        while not handle.done():
            # after handlers of polars and others, Ctrl-C does not end a wait without a timeout
            with contextlib.suppress(TimeoutError):
                handle.exception(_WAKE)
        return handle.result()

    def close(self, handles: Sequence[Future[Any]]) -> None:
        """Interrupt what runs, drop what waits, and end all workers."""
        del handles
        self._end()
        # if all is done, workers end now: the command line does not wait for them when it ends
        deadline = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))

    def _close(self) -> None:
        self._closed.set()
        with self._lock:
            for worker in self._workers.values():
                worker.interrupt()
        for _ in self._threads:
            self._waiting.put(None)

    def _serve(self, place: int, environment: Mapping[str, str]) -> None:
        """One job after another for one worker."""
        while (job := self._waiting.get()) is not None and not self._closed.is_set():
            number, item, future = job
            try:
                future.set_result(self._done(place, environment, number, item))
            except BaseException as error:  # noqa: BLE001 - it is raised again by whoever fetches the result
                future.set_exception(error)
        if place in self._workers:
            self._workers[place].end()

    def _done(self, place: int, environment: Mapping[str, str], number: int, item: Any) -> Any:
        """The result of a job, which is started again where its worker is lost."""
        for lost in range(base.RETRIES + 1):
            if lost:
                self._closed.wait(base.WAIT * 2 ** (lost - 1))
            outcome = self._outcome(place, environment, item)
            if outcome is not None:
                succeeded, value = ForkingPickler.loads(outcome)
                if not succeeded:
                    raise value
                return value
            if self._closed.is_set():
                break
        raise lost_each_time(
            number, "it was killed, most likely because memory ran out", self.remedy
        )

    def _outcome(self, place: int, environment: Mapping[str, str], item: Any) -> Any:
        """A worker's report on a job, or None if the worker was lost; the next job gets a new
        one.
        """
        # one at a time: multiprocessing's list of children is not thread-safe
        with self._lock:
            if self._closed.is_set():
                return None
            worker = self._workers.get(place) or self._started(environment)
            self._workers[place], worker.busy = worker, True
        outcome = worker.outcome(item)
        with self._lock:
            worker.busy = False
            if outcome is None:
                del self._workers[place]
        if outcome is None:
            worker.end()
        return outcome

    def _started(self, environment: Mapping[str, str]) -> _Worker:
        try:
            return _Worker(environment, self._function)
        except (EOFError, OSError) as error:
            # EOFError: the process that workers are forked from has ended
            reason = str(error) or "the process that starts them was killed"
            raise NoochError(f"no process can be started: {reason}", remedy=self.remedy) from error


def _pickled(value: object) -> bytes:
    # a copy: dumps returns a view of a BytesIO without another reference, and Python 3.12 and 3.13
    # crash where that is collected before its view
    return bytes(ForkingPickler.dumps(value))


def _work(connection: Connection, place: Mapping[str, str], function: bytes) -> None:
    """One job after another, until there are no more or the driver has ended."""
    # Ctrl-C is for the driver, which stops this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()
    os.environ.update(place)
    called: list[Callable[[Any], Any]] = []
    try:
        while sent := connection.recv_bytes():
            connection.send_bytes(_outcome(called, function, sent))
    except (EOFError, OSError, _Ended):
        return


def _outcome(called: list[Callable[[Any], Any]], function: bytes, sent: bytes) -> bytes:
    """Run a job; return whether it succeeded, and its result or its error, pickled."""
    try:
        if not called:
            called.append(ForkingPickler.loads(function))
        return _pickled((True, called[0](ForkingPickler.loads(sent))))
    except _Ended:
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised again by the driver
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return _failure(error)


def _failure(error: BaseException) -> bytes:
    try:
        failure = _pickled((False, error))
        ForkingPickler.loads(failure)
    except Exception:  # noqa: BLE001 - of any kind: this error cannot be pickled
        plain = NoochError(f"a job failed: {type(error).__name__}: {error}")
        return _pickled((False, plain))
    return failure


def _leave(_number: int, _frame: object) -> NoReturn:
    # once: a second signal must not interrupt the way out
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # as an exception, so that temporary files are removed on the way out
    raise _Ended(143)


def _watch(sentinel: int) -> None:
    """End with the driver: a worker would wait for work forever."""
    wait([sentinel])
    # Stop the job as the driver does, so that it can remove temporary files: a signal for all
    # processes ends the driver first, which cannot wait without its fork server.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_WAY_OUT)
    os._exit(1)


GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus() -> list[str]:
    """GPUs as named in ``CUDA_VISIBLE_DEVICES``; all of this machine if that is not set."""
    variable = os.environ.get(GPUS_VARIABLE)
    if variable is None:
        with contextlib.suppress(ImportError):
            import torch

            return [str(number) for number in range(torch.cuda.device_count())]
        return []
    names: list[str] = []
    for name in (part.strip() for part in variable.split(",")):
        # CUDA itself stops at the first name that is none, such as -1
        if not name or name.startswith("-") or name.lower() in {"nodevfiles", "none", "void"}:
            break
        names.append(name)
    return list(dict.fromkeys(names))


T = TypeVar("T")
R = TypeVar("R")
# imported before workers are forked, if the driver has them; none of them starts threads (polars
# would) (transformers itself imports next to nothing until a model is made)
_SLOW = ("scipy.sparse", "scipy.special", "sqlglot", "torch", "transformers.modeling_utils")


class LocalEngine:
    """Applies functions in parallel processes.

    Args:
        processes: how many at most; by default as many as there are CPUs, or GPUs for.
        logs: folder for a log of each job, or None.
        gpus: per job, which sees only these, in CUDA_VISIBLE_DEVICES.

    Scripts that use it need the usual ``if __name__ == "__main__":`` guard of Python's
    multiprocessing.

    Raises:
        ParameterError: no process, or more GPUs than this process may use.
    """

    def __init__(
        self, processes: int | None = None, logs: Path | None = None, *, gpus: int = 0
    ) -> None:
        if processes is not None and processes < 1:
            raise ParameterError(f"{processes} processes", allowed="at least 1")
        self.logs, self.gpus = logs, check_gpus(gpus)
        self.places: list[dict[str, str]] = (
            _places(processes, gpus) if gpus else [{} for _ in range(processes or usable_cpus())]
        )
        self.processes = len(self.places)

    def gpu_count(self) -> int:
        """GPUs that this process may use."""
        return len(visible_gpus())

    @property
    def threads(self) -> int:
        """CPUs that each job may use when as many run as there are processes."""
        return max(1, usable_cpus() // self.processes)

    @staticmethod
    def warm(*modules: str) -> None:
        """Start the process that workers are forked from: it imports ``modules``, and the slow
        ones that this process has imported.

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
            # Ctrl-C is for this process: one that imports would print a traceback
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
        # even a single item must see only its own GPUs

        self.warm()
        return ordered(Workers(logged, self.places[: len(first)]), rest)


def _places(processes: int | None, gpus: int) -> list[dict[str, str]]:
    """The variable of each worker's environment that gives it its own GPUs."""
    visible = visible_gpus()
    most = len(visible) // gpus
    if most < (processes or 1):
        request = f"{counted(gpus, 'GPU')} a job" + (
            f" for {counted(processes, 'job')} at a time" if processes else ""
        )
        raise ParameterError(
            f"{request}, but this process may use {len(visible)}"
            + (f" ({', '.join(visible)})" if visible else ""),
            where="`engine` local",
            allowed=f"at most {most} jobs at a time" if most else None,
            remedy=f"look at nvidia-smi and {GPUS_VARIABLE}",
            give={"device": "cpu"},
        )
    starts = range(0, (processes or most) * gpus, gpus)
    return [{GPUS_VARIABLE: ",".join(visible[start : start + gpus])} for start in starts]
