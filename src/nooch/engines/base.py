"""What all engines share: results in order from a bounded window of jobs, lost workers made good, a log for each job."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from nooch.errors import NoochError, ParameterError

__all__ = ["Jobs", "Logged", "Lost", "check_gpus", "ordered"]

RETRIES = 3
"""How often a job is begun again whose worker was lost."""

WAIT = 0.5
"""Seconds before it is begun again for the first time; twice as long each further time."""

LOOK = 5.0
"""Seconds between looks at which jobs were lost while the first of them is waited for."""


class Lost(Exception):  # noqa: N818 - it never leaves the engines
    """The worker of a job ended without a result: killed, preempted, or its machine went away."""


class Jobs(ABC):
    """Jobs on one kind of machinery: submitted some at a time, each with its handle."""

    size: int = 1
    """Jobs that are submitted together."""

    window: int = 1
    """Jobs that are submitted and whose results were not fetched yet, at most: what the driver holds in memory."""

    remedy: str = "look at the logs of the workers"
    """What to do where a worker is lost again and again."""

    @abstractmethod
    def submit(self, items: Sequence[tuple[int, Any]]) -> list[Any]:
        """Begin jobs, each a number and an item, and return their handles."""

    @abstractmethod
    def wait(self, handle: Any, seconds: float) -> bool:
        """Wait for a job's end, so long at most; whether it has ended."""

    @abstractmethod
    def result(self, handle: Any) -> Any:
        """The result of a job that has ended. Raises Lost, or what the job raised."""

    @abstractmethod
    def lost(self, handles: Sequence[Any]) -> Sequence[bool]:
        """Which jobs are known by now, without waiting, to have lost their worker."""

    @abstractmethod
    def close(self, handles: Sequence[Any]) -> None:
        """Give up jobs whose results nobody waits for."""


@dataclass(eq=False)
class _Begun:
    number: int
    item: Any
    handle: Any
    lost: int = 0


def ordered(jobs: Jobs, items: Iterable[Any]) -> Iterator[Any]:
    """Results in the order of items. The first jobs are submitted at once, further ones as results are fetched.

    A job whose worker was lost is begun again, ``RETRIES`` times at most, with growing pauses; the others go on.

    Raises:
        NoochError: a job's worker was lost each time.
    """
    results = _results(jobs, enumerate(items))
    # begun, so that its end gives up the jobs even if no result was ever asked for
    next(results)
    return results


def _results(jobs: Jobs, coming: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    begun: deque[_Begun] = deque()
    try:
        _fill(jobs, coming, begun)
        yield
        while begun:
            while not jobs.wait(begun[0].handle, LOOK):
                _again(jobs, begun)
            try:
                result = jobs.result(begun[0].handle)
            except Lost as error:
                _again(jobs, begun, error)
                continue
            begun.popleft()
            _fill(jobs, coming, begun)
            yield result
    finally:
        jobs.close([one.handle for one in begun])


def _fill(jobs: Jobs, coming: Iterator[tuple[int, Any]], begun: deque[_Begun]) -> None:
    while len(begun) + jobs.size <= max(jobs.window, jobs.size):
        batch = list(islice(coming, jobs.size))
        if not batch:
            return
        handles = jobs.submit(batch)
        begun.extend(_Begun(*pair, handle) for pair, handle in zip(batch, handles, strict=True))


def _again(jobs: Jobs, begun: deque[_Begun], error: Lost | None = None) -> None:
    """Begin every job anew whose worker was lost: the first if there is an error, and all others of which it is known."""
    first, known = begun[0], jobs.lost([one.handle for one in begun])
    gone = [one for one, lost in zip(begun, known, strict=True) if lost or (one is first and error is not None)]
    if first in gone and first.lost == RETRIES:
        reason = error or "it ended without a result"
        raise NoochError(
            f"the worker of job {first.number + 1} was lost {RETRIES + 1} times: {reason}", remedy=jobs.remedy
        ) from error
    # another one that was lost too often is given up when it is its turn
    gone = [one for one in gone if one.lost < RETRIES]
    if not gone:
        return
    time.sleep(WAIT * 2 ** max(one.lost for one in gone))
    handles = jobs.submit([(one.number, one.item) for one in gone])
    for one, handle in zip(gone, handles, strict=True):
        one.handle, one.lost = handle, one.lost + 1


@dataclass(frozen=True)
class Logged:
    """A function that takes (number, item), and writes what a job prints, when, where and how it ended, into its own file.

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
        with (self.folder / f"job-{number:07d}.log").open("a", buffering=1, encoding="utf-8") as file:
            _say(file, f"began on {socket.gethostname()}, process {os.getpid()}")
            try:
                with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                    result = self.function(item)
            except (SystemExit, KeyboardInterrupt):
                # told to end: preempted, out of time, or given up by the driver
                _say(file, "interrupted")
                raise
            except BaseException:
                file.write(traceback.format_exc())
                _say(file, "failed")
                raise
            _say(file, "done")
            return result


def _say(file: Any, text: str) -> None:
    file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} {text}\n")


def check_gpus(gpus: int) -> int:
    """GPUs of a job. Raises ParameterError where they are fewer than none."""
    if gpus < 0:
        raise ParameterError(f"{gpus} GPUs a job", allowed="0 and more")
    return gpus
