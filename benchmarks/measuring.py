"""Whole processes in turn, A B A B: wall time, and peak memory of all that a command starts."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

__all__ = ["Memory", "Spread", "alternate", "machine", "ratios", "watch", "write_json"]

_TICK = 0.02


@dataclass(frozen=True)
class Memory:
    """Peak resident MB of a command, with mapped files: sum over processes, and the largest."""

    total_mb: float
    largest_mb: float


@dataclass(frozen=True)
class Spread:
    """Minimum, median and maximum."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
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

    The first round warms up and measures memory, by looking at all processes every 20 ms; only the
    rounds after it, in which nobody looks, are timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    memory: dict[str, Memory] = {}
    for number in range(runs + 1):
        for name, command in commands.items():
            if before and name in before:
                subprocess.run(before[name], check=True)
            started = time.perf_counter()
            if number:
                subprocess.run(
                    command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                seconds[name].append(time.perf_counter() - started)
            else:
                memory[name] = watch(command)
            taken = time.perf_counter() - started
            print(
                f"  {name}: {taken:.2f} s{'' if number else ' (warm-up)'}",
                file=sys.stderr,
                flush=True,
            )
    return seconds, memory


def watch(command: Sequence[str]) -> Memory:
    """Run a command and give its peak memory. Raises CalledProcessError where it fails."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    total = largest = 0.0
    while process.poll() is None:
        sizes = _resident(process.pid)
        total, largest = max(total, sum(sizes)), max(largest, *sizes, 0.0)
        time.sleep(_TICK)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Memory(total, largest)


def _resident(session: int) -> list[float]:
    """Resident memory (MB) of every process of a session; empty where there is no /proc."""
    sizes = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                sizes.append(int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        except (OSError, IndexError, ValueError):
            continue
    return sizes


def ratios(slow: Sequence[float], fast: Sequence[float]) -> Spread:
    """Slow over fast, pair by pair."""
    return Spread.of([a / b for a, b in zip(slow, fast, strict=True)])


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    packages = {
        name: version(name) for name in ("numpy", "scipy", "polars", "msgspec", "pycocotools")
    }
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processors": str(cores),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **packages,
    }


def write_json(path: Path | None, content: object) -> None:
    """Write the figures where asked for."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1, default=lambda o: o.__dict__) + "\n")
