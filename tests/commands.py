"""Commands as they are typed, for fixtures and for processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from waiting import until

from nooch.base.engines import LocalEngine
from nooch.cli.main import app

__all__ = ["argv", "completed", "forked", "kill_three_times", "kill_when"]


def argv(command: str) -> list[str]:
    """Program and arguments of ``nooch COMMAND``."""
    return [sys.executable, "-m", "nooch", *shlex.split(command)]


def completed(*commands: str) -> None:
    """Run commands in this process, one after the other; each must succeed."""
    for command in commands:
        words = shlex.split(command)
        with mock.patch.object(sys, "argv", ["nooch", *words]):
            assert not app(words, standalone_mode=False)


def forked(function: Callable[..., None], *arguments: object) -> Any:
    """A process that calls a function, soon: torch and transformers are imported already."""
    LocalEngine.warm()
    process = multiprocessing.get_context("forkserver").Process(target=function, args=arguments)
    process.start()
    return process


def _quietly(command: str) -> None:
    with open(os.devnull, "w") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    completed(command)


def kill_when(command: str, ready: Callable[[], object], within: float = 0) -> bool:
    """Kill a command that long after it is ready; False if it had ended before."""
    process = forked(_quietly, command)
    until(ready, while_=process.is_alive)
    time.sleep(within)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def kill_three_times(command: str, ready: Callable[[], object], within: float) -> None:
    """Kill a command up to ``within`` seconds after it is ready, three times; then run it."""
    random = np.random.default_rng(5)
    for _ in range(3):
        if not kill_when(command, ready, float(random.uniform(0, within))):
            break
    completed(command)
