"""The state of long work with an engine, in a small file next to its logs, for ``nooch status``."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from nooch.cli.terminal_output import progress
from nooch.errors import FormatError
from nooch.files import replace_file
from nooch.limits import BROKEN_JSON
from nooch.resources import is_alive
from nooch.shared_types import Progress

__all__ = ["Status", "logs_of", "read_status", "watched"]

_FILE = "status.json"
_EVERY = 1.0
"""Seconds between writings: other machines may read the file through a network."""


class Status(msgspec.Struct):
    """How far a command is.

    Attributes:
        command: as it was typed.
        host: where it runs, and ``pid``, its process there.
        began: and ``updated``, seconds since 1970.
        state: running, done or stopped.
        steps: what -> how much of how much is done.
        error: what it was stopped by.
    """

    command: str
    host: str
    pid: int
    began: float
    updated: float
    state: str
    steps: dict[str, tuple[int, int]]
    error: str | None = None

    def now(self) -> str:
        """Its state now: a process of this machine that is gone without a word was killed."""
        if self.state == "running" and self.host == socket.gethostname() and not is_alive(self.pid):
            return "killed"
        return self.state


def logs_of(out: Path) -> Path:
    """The folder of logs of the work on a folder, next to it."""
    folder = out.absolute()
    return folder.with_name(f"{folder.name}-logs")


@contextlib.contextmanager
def watched(logs: Path | None) -> Iterator[Progress]:
    """``progress``, also recorded in a folder of logs if there is one."""
    with progress() as update:
        if logs is None:
            yield update
            return
        now = time.time()
        command = " ".join(["nooch", *sys.argv[1:]])
        status = Status(command, socket.gethostname(), os.getpid(), now, now, "running", {})
        written = 0.0

        def both(what: str, done: int, total: int) -> None:
            nonlocal written
            update(what, done, total)
            status.steps[what] = (done, total)
            if time.monotonic() - written >= _EVERY:
                written = time.monotonic()
                _write(logs, status)

        _write(logs, status)
        try:
            yield both
        except BaseException as error:
            status.state, status.error = "stopped", str(error) or type(error).__name__
            raise
        else:
            status.state = "done"
        finally:
            _write(logs, status)


def read_status(logs: Path) -> Status | None:
    """The last state, or None if there is none. Raises FormatError if it cannot be read."""
    path = logs / _FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Status)
    except FileNotFoundError:
        return None
    except (*BROKEN_JSON, OSError) as error:
        raise FormatError(f"cannot be read: {error}", where=path, remedy="remove it") from error


def _write(logs: Path, status: Status) -> None:
    status.updated = time.time()
    # work does not fail because its state cannot be written
    with contextlib.suppress(Exception):
        logs.mkdir(parents=True, exist_ok=True)
        replace_file(logs / _FILE, msgspec.json.encode(status))
