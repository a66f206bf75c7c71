"""Worker processes of this machine, each with one job at a time: one that is killed loses that job and nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from typing import Any, NoReturn

from nooch.engines.base import Jobs, Logged, Lost
from nooch.errors import NoochError

__all__ = ["Workers"]

_READY, _LEAVE = b"ready", b""
_PATIENCE = 5.0
"""Seconds that the end of given up jobs is waited for; the end of the process waits longer."""
_WAY_OUT = 30.0
"""Seconds that a worker has to leave a job when its driver has ended."""


class _Ended(SystemExit):
    """The driver gives this job up, or somebody has asked this worker to end."""


@dataclass(eq=False)
class _Job:
    """What is sent to a worker, and what came of it: an outcome, or none where the worker was lost."""

    sent: Any
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: bytes | None = None


class _Worker:
    """A process, the environment that it has, and the job that it is at."""

    def __init__(self, place: Mapping[str, str], function: bytes) -> None:
        # never a plain fork: polars and BLAS hold threads and locks
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        self.place, self.ready, self.leaving = place, False, False
        self.job: _Job | None = None
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_work, args=(theirs, place, function))  # type: ignore[attr-defined]
        self.process.start()
        theirs.close()

    def give(self, job: _Job) -> None:
        """Send a job; a worker that is no more is seen by its end."""
        self.job = job
        self._send(job.sent)

    def leave(self) -> None:
        """End it; what it is at is interrupted."""
        if not self.leaving:
            self.leaving = True
            if self.job is not None:
                self.process.terminate()
            self._send(_LEAVE)

    def _send(self, content: Any) -> None:
        try:
            self.connection.send_bytes(content)
        except OSError:
            self.ready = False

    def received(self) -> bool:
        """Take an outcome, or the word that it is ready; False where it has ended."""
        try:
            content = self.connection.recv_bytes()
        except (EOFError, OSError):
            return False
        if self.job is None:
            self.ready = True
        else:
            job, self.job = self.job, None
            job.outcome = content
            job.ended.set()
        return True

    def buried(self) -> _Job | None:
        """Nothing of it is left; the job that it was at."""
        while self.connection.poll() and self.received():
            # an outcome that it has sent before it ended is none the worse
            pass
        self.process.join()
        self.connection.close()
        return self.job


class Workers(Jobs):
    """A thread hands the next job to whichever worker is free, and replaces those that were lost.

    Args:
        function: of all jobs; it is sent to each worker once.
        places: variables of the environment of each worker; so many there are.
    """

    remedy = "use fewer processes (--processes 1, --engine local:1), or a machine with more memory"

    def __init__(self, function: Logged, places: Sequence[Mapping[str, str]]) -> None:
        # enough that nobody waits while the first of them takes its time
        self.window = 4 * len(places)
        self._function = bytes(ForkingPickler.dumps(function))
        self._waiting: deque[_Job] = deque()
        self._vacant, self._workers = [*places], list[_Worker]()
        self._closed, self._broken = False, None
        self._bell, self._rope = multiprocessing.Pipe(duplex=False)
        self._rung = threading.Lock()
        # ahead of multiprocessing's own end, which waits for all children
        self._end = Finalize(None, self._close, exitpriority=10)
        self._hire(len(places))
        self._thread = threading.Thread(target=self._serve, name="nooch-workers", daemon=True)
        self._thread.start()

    _broken: Exception | None

    def submit(self, items: Sequence[tuple[int, Any]]) -> list[_Job]:
        """Put jobs in the queue. Raises NoochError where no process can be begun any more."""
        if self._broken is not None:
            raise NoochError(f"no process can be begun: {self._broken}", remedy=self.remedy) from self._broken
        jobs = [_Job(ForkingPickler.dumps(item)) for item in items]
        self._waiting.extend(jobs)
        self._ring()
        return jobs

    def wait(self, handle: _Job, seconds: float) -> bool:
        """Wait for a job's end, so long at most; whether it has ended."""
        return handle.ended.wait(seconds)

    def result(self, handle: _Job) -> Any:
        """The result of a job that has ended. Raises Lost, or what the job raised."""
        if handle.outcome is None:
            raise Lost("it was killed, most likely because memory ran out")
        well, value = ForkingPickler.loads(handle.outcome)
        if not well:
            raise value
        return value

    def lost(self, handles: Sequence[_Job]) -> list[bool]:
        """Which jobs were lost with their workers."""
        return [handle.ended.is_set() and handle.outcome is None for handle in handles]

    def close(self, handles: Sequence[_Job]) -> None:
        """Interrupt what runs, drop what waits, and end all workers."""
        del handles
        self._end()
        # where all is done, workers end now: the command line does not wait for them when it ends
        self._thread.join(_PATIENCE)

    def _close(self) -> None:
        self._closed = True
        self._ring()

    def _ring(self) -> None:
        # once is enough until it is heard
        if self._rung.acquire(blocking=False):
            self._rope.send_bytes(_READY)

    def _serve(self) -> None:
        try:
            while self._workers or not self._closed:
                self._hand_out()
                self._listen()
        except Exception as error:  # noqa: BLE001 - the next submit raises it
            self._broken = error
        for job in (*self._waiting, *(worker.job for worker in self._workers)):
            if job is not None:
                job.ended.set()

    def _hand_out(self) -> None:
        """Jobs to those who are free, or an end to all."""
        if self._closed:
            self._waiting.clear()
            for worker in self._workers:
                worker.leave()
            return
        for worker in self._workers:
            if self._waiting and worker.ready and worker.job is None:
                worker.give(self._waiting.popleft())
        self._hire(min(len(self._waiting), len(self._vacant)))

    def _hire(self, count: int) -> None:
        self._workers += [_Worker(self._vacant.pop(0), self._function) for _ in range(count)]

    def _listen(self) -> None:
        """Until something happens: a job was submitted, done, or lost with its worker."""
        by_source: dict[Any, _Worker] = {worker.connection: worker for worker in self._workers}
        # the connection alone is not enough: what a job has started may hold its other end
        by_source |= {worker.process.sentinel: worker for worker in self._workers}
        happened = wait([self._bell, *by_source])
        if self._bell in happened:
            self._bell.recv_bytes()
            self._rung.release()
        ended = [
            by_source[source]
            for source in happened
            if source is not self._bell and not (isinstance(source, Connection) and by_source[source].received())
        ]
        for worker in dict.fromkeys(ended):
            self._bury(worker)

    def _bury(self, worker: _Worker) -> None:
        job = worker.buried()
        self._workers.remove(worker)
        self._vacant.append(worker.place)
        if job is None and not worker.ready and self._waiting:
            # one that cannot even begin must not be replaced for ever: a job has lost its worker
            job = self._waiting.popleft()
        if job is not None:
            job.ended.set()


def _work(connection: Connection, place: Mapping[str, str], function: bytes) -> None:
    """One job after another, until there are no more or the process that made this one has ended."""
    # Ctrl-C is for that process, which tells this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()
    os.environ.update(place)
    called: list[Callable[[Any], Any]] = []
    try:
        connection.send_bytes(_READY)
        while sent := connection.recv_bytes():
            connection.send_bytes(_outcome(called, function, sent))
    except (EOFError, OSError, _Ended):
        return


def _outcome(called: list[Callable[[Any], Any]], function: bytes, sent: bytes) -> Any:
    """Whether a job went well, and its result or its error."""
    try:
        if not called:
            called.append(ForkingPickler.loads(function))
        return ForkingPickler.dumps((True, called[0](ForkingPickler.loads(sent))))
    except _Ended:
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised again by the driver
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return _failure(error)


def _failure(error: BaseException) -> Any:
    try:
        failure = ForkingPickler.dumps((False, error))
        ForkingPickler.loads(failure)
    except Exception:  # noqa: BLE001 - of whatever kind: this error cannot travel
        return ForkingPickler.dumps((False, NoochError(f"a job failed: {type(error).__name__}: {error}")))
    return failure


def _leave(_number: int, _frame: object) -> NoReturn:
    # once: a second signal must not interrupt the way out
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # as an exception, so that temporary files are removed on the way out
    raise _Ended(143)


def _watch(sentinel: int) -> None:
    """End with the process that made this one: a worker waits for work for ever otherwise."""
    wait([sentinel])
    # The job is told to end, as by the driver: it may be on its way out, removing temporary files. That happens where
    # a signal for all processes has ended the driver first, which cannot wait once its fork server is gone.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_WAY_OUT)
    os._exit(1)
