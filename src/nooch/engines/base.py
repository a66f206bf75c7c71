"""What all engines share: results in order from a bounded window of jobs, lost workers made good, a log for each job."""

from __future__ import annotations

import contextlib
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from nooch.errors import NoochError

__all__ = ["Jobs", "Logged", "Lost", "ordered"]

T = TypeVar("T")
R = TypeVar("R")

RETRIES = 3
"""How often a job is begun again whose worker was lost."""

WAIT = 0.5
"""Seconds before it is begun again for the first time; twice as long each further time."""


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
    def result(self, handle: Any) -> Any:
        """Wait for a job's result. Raises Lost, or what the job raised."""

    @abstractmethod
    def is_lost(self, handle: Any) -> bool:
        """Whether it is known already, without waiting, that a job's worker was lost."""

    @abstractmethod
    def close(self, handles: Sequence[Any]) -> None:
        """Give up jobs whose results nobody waits for."""


@dataclass
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
    coming, begun = enumerate(items), deque[_Begun]()
    _fill(jobs, coming, begun)
    return _results(jobs, coming, begun)


def _fill(jobs: Jobs, coming: Iterator[tuple[int, Any]], begun: deque[_Begun]) -> None:
    while len(begun) + jobs.size <= max(jobs.window, jobs.size):
        batch = list(islice(coming, jobs.size))
        if not batch:
            return
        handles = jobs.submit(batch)
        begun.extend(_Begun(*pair, handle) for pair, handle in zip(batch, handles, strict=True))


def _results(jobs: Jobs, coming: Iterator[tuple[int, Any]], begun: deque[_Begun]) -> Iterator[Any]:
    try:
        while begun:
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


def _again(jobs: Jobs, begun: deque[_Begun], error: Lost) -> None:
    """Begin every job anew whose worker was lost."""
    first = begun[0]
    if first.lost == RETRIES:
        raise NoochError(
            f"the worker of job {first.number + 1} was lost {RETRIES + 1} times: {error}", remedy=jobs.remedy
        ) from error
    time.sleep(WAIT * 2**first.lost)
    lost = [one for place, one in enumerate(begun) if not place or jobs.is_lost(one.handle)]
    handles = jobs.submit([(one.number, one.item) for one in lost])
    for one, handle in zip(lost, handles, strict=True):
        # only the first is known to have had its chance: others may have been lost with it
        one.handle, one.lost = handle, one.lost + (one is first)


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
            _say(file, f"began on {socket.gethostname()}")
            try:
                with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                    result = self.function(item)
            except BaseException:
                file.write(traceback.format_exc())
                _say(file, "failed")
                raise
            _say(file, "done")
            return result


def _say(file: Any, text: str) -> None:
    file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} {text}\n")
