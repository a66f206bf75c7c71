"""Waiting for what must happen, however slow the machine is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

__all__ = ["HANGS", "has_ended", "until"]

HANGS = 300.0
"""Seconds after which a test gives up; no measure of speed."""


def until(
    happened: Callable[[], object], while_: Callable[[], object] = lambda: True, every: float = 0.01
) -> None:
    """Wait until something has happened, or ``while_`` no longer holds; fails after HANGS."""
    deadline = time.monotonic() + HANGS
    while not happened() and while_():
        assert time.monotonic() < deadline, "this never happened"
        time.sleep(every)


def has_ended(process: int) -> bool:
    """Whether there is no such process any more, or only its exit code."""
    try:
        os.kill(process, 0)
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True
