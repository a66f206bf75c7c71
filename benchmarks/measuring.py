"""Whole processes in turn, A B A B: wall time, and peak memory of all that a command starts."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

__all__ = [
    "Memory", "Spread", "alternate", "cpu_seconds", "machine", "measured", "nooch_command",
    "parser", "ratios", "watch", "write_json",
]  # fmt: skip

_TICK = 0.02
_NONE = subprocess.DEVNULL


@dataclass(frozen=True)
class Memory:
    """Peak resident MB of a command, with mapped files: sum over processes, and the largest."""

    total_mb: float
    largest_mb: float

    def __str__(self) -> str:
        largest = f"{self.largest_mb:,.0f} MB of the largest"
        return f"{self.total_mb:,.0f} MB of all processes, {largest}"


@dataclass(frozen=True)
class Spread:
    """Minimum, median and maximum."""

    low: float
    median: float
    high: float

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Spread:
        """The spread of some values."""
        return cls(min(values), statistics.median(values), max(values))

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def alternate(
    commands: Mapping[str, Sequence[str]],
    runs: int,
    before: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, list[float]], dict[str, Memory]]:
    """Run the commands in turn; ``before`` is run, unmeasured, ahead of a command.

    The first round warms up and samples the memory of all processes every 20 ms; only the rounds
    after it, without sampling, are timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    memory: dict[str, Memory] = {}
    for number in range(runs + 1):
        for name, command in commands.items():
            if before and name in before:
                subprocess.run(before[name], check=True)
            started = time.perf_counter()
            if number:
                subprocess.run(command, check=True, stdout=_NONE, stderr=_NONE)
                seconds[name].append(time.perf_counter() - started)
            else:
                memory[name] = watch(command)
            taken, note = time.perf_counter() - started, "" if number else " (warm-up)"
            print(f"  {name}: {taken:.2f} s{note}", file=sys.stderr, flush=True)
    return seconds, memory


def measured(command: Sequence[str]) -> tuple[float, Memory]:
    """Seconds and peak memory of a command. Raises CalledProcessError if it fails."""
    started = time.perf_counter()
    memory = watch(command)
    return time.perf_counter() - started, memory


def watch(command: Sequence[str]) -> Memory:
    """Run a command and return its peak memory. Raises CalledProcessError if it fails."""
    process = subprocess.Popen(command, stdout=_NONE, stderr=_NONE, start_new_session=True)
    total = largest = 0.0
    while process.poll() is None:
        sizes = _resident(process.pid)
        total, largest = max(total, sum(sizes)), max(largest, *sizes, 0.0)
        time.sleep(_TICK)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Memory(total, largest)


def _resident(session: int) -> list[float]:
    """Resident memory (MB) of every process of a session; empty without /proc."""
    sizes = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                sizes.append(int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        except (OSError, IndexError, ValueError):
            continue
    return sizes


def cpu_seconds() -> float:
    """CPU time of all child processes that have ended, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ratios(slow: Sequence[float], fast: Sequence[float]) -> Spread:
    """Slow over fast, pair by pair."""
    return Spread.from_values([a / b for a, b in zip(slow, fast, strict=True)])


def machine() -> dict[str, str]:
    """CPUs, architecture and versions behind the figures."""
    names = ("numpy", "scipy", "polars", "msgspec", "pycocotools")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = {"machine": platform.machine(), "python": platform.python_version()}
    return {"CPUs": str(cores), **python, **{name: version(name) for name in names}}


def parser(description: str | None, **defaults: int | str) -> argparse.ArgumentParser:
    """A parser with ``--json FILE`` and an option for each default, of the default's type."""
    plain = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=description, formatter_class=plain)
    for name, value in defaults.items():
        options.add_argument(f"--{name}", type=type(value), default=value)
    options.add_argument("--json", type=Path)
    return options


def nooch_command(words: str, *more: object) -> list[str]:
    """``python -m nooch`` with these words."""
    return [sys.executable, "-m", "nooch", *words.split(), *map(str, more)]


def write_json(path: Path | None, content: object) -> None:
    """Write the figures if a file is given."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1, default=lambda o: o.__dict__) + "\n")
