"""Shared by all engines: ordered results from a bounded window of jobs, logs, and retries."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from nooch.base.errors import NoochError, ParameterError
from nooch.base.files import RESUME, writing
from nooch.base.words import printable

RETRIES = 3
"""Maximum number of restarts of a job whose worker was lost."""

WAIT = 0.5
"""Seconds before it is started again for the first time; twice as long each further time."""


class Jobs(ABC):
    """Jobs of one engine. A job whose worker is lost is started again, up to ``RETRIES`` times."""

    size: int = 1
    """Jobs that are submitted together."""

    window: int = 1
    """Maximum number of jobs submitted and not yet fetched, which bounds the driver's memory."""

    @abstractmethod
    def submit(self, items: Sequence[tuple[int, Any]]) -> list[Any]:
        """Start jobs, each a number and an item, and return their handles."""

    @abstractmethod
    def result(self, handle: Any) -> Any:
        """Wait for a result. Raises the job's error, or NoochError where its workers were lost."""

    @abstractmethod
    def close(self, handles: Sequence[Any]) -> None:
        """Give up jobs whose results nobody waits for."""


def ordered(jobs: Jobs, items: Iterable[Any]) -> Iterator[Any]:
    """Results in the order of items. The first jobs start at once, others as results are taken."""
    results = _results(jobs, enumerate(items))
    # started, so that its end gives up the jobs even if no result was ever asked for
    next(results)
    return results


def _results(jobs: Jobs, coming: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    handles: deque[Any] = deque()
    try:
        _fill(jobs, coming, handles)
        yield
        while handles:
            result = jobs.result(handles[0])
            handles.popleft()
            _fill(jobs, coming, handles)
            yield result
    finally:
        jobs.close([*handles])


def _fill(jobs: Jobs, coming: Iterator[tuple[int, Any]], handles: deque[Any]) -> None:
    while len(handles) + jobs.size <= max(jobs.window, jobs.size):
        batch = list(islice(coming, jobs.size))
        if not batch:
            return
        handles += jobs.submit(batch)


def lost_each_time(number: int, reason: object, remedy: str) -> NoochError:
    """The error about a job whose worker was lost at every start; ``number`` counts from 0."""
    return NoochError(
        f"the worker of job {number + 1} was lost {RETRIES + 1} times: {reason}", remedy=remedy
    )


@dataclass(frozen=True)
class Logged:
    """A function of (number, item) that logs a job's output, times, machine and outcome.

    Attributes:
        function: of one item.
        folder: where ``job-0000000.log`` and so on are written, or None for no logs.
    """

    function: Callable[[Any], Any]
    folder: Path | None = None

    def __call__(self, job: tuple[int, Any]) -> Any:
        """The function's result; its errors are logged and raised."""
        number, item = job
        if self.folder is None:
            return self.function(item)
        log = self.folder / f"job-{number:07d}.log"
        with _LogFile(log) as file:
            _say(file, f"began on {socket.gethostname()}, process {os.getpid()}")
            try:
                with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                    result = self.function(item)
            except (SystemExit, KeyboardInterrupt):
                # asked to end: preempted, out of time, or given up by the driver
                _say(file, "interrupted")
                raise
            except BaseException:
                file.write(traceback.format_exc())
                _say(file, "failed")
                raise
            _say(file, "done")
            return result


class _LogFile(io.TextIOWrapper):
    """A log to append to: each write reaches the file, with control characters spelled out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with writing(path, RESUME):
            unbuffered = path.open("ab", buffering=0)
        super().__init__(unbuffered, "utf-8", errors="backslashreplace", write_through=True)

    def write(self, text: str) -> int:
        """Write text. Raises OutputError if the disk is full."""
        with writing(self._path, RESUME):
            return super().write(printable(text, "\n\r\t"))


def _say(file: Any, text: str) -> None:
    file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} {text}\n")


def module_paths() -> dict[str, str]:
    """Environment with which workers import the user's own modules from where this process does."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def check_gpus(gpus: int) -> int:
    """GPUs of a job. Raises ParameterError for a negative number."""
    if gpus < 0:
        raise ParameterError(f"{gpus} GPUs a job", allowed="at least 0")
    return gpus
