"""Commands as they are typed, for fixtures and for processes that are killed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from waiting import until

from nooch.cli.main import app

__all__ = ["argv", "completed", "kill_three_times"]


def argv(command: str) -> list[str]:
    """Program and arguments of ``nooch COMMAND``."""
    return [sys.executable, "-m", "nooch", *shlex.split(command)]


def completed(*commands: str) -> None:
    """Run commands in this process, one after the other; each must succeed."""
    for command in commands:
        assert not app(shlex.split(command), standalone_mode=False)


def kill_three_times(command: str, ready: Callable[[], object], within: float) -> None:
    """Kill a command up to ``within`` seconds after it is ready, three times; then run it."""
    random = np.random.default_rng(5)
    for _ in range(3):
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(argv(command), stdout=quiet, stderr=quiet)
        until(ready, while_=lambda p=process: p.poll() is None)
        time.sleep(float(random.uniform(0, within)))
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    completed(command)
