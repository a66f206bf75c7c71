"""Whole processes in turn, A B A B: wall time, and peak memory of everything that a command starts."""

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

__all__ = ["Run", "Spread", "alternate", "machine", "ratio_line", "write_json"]

_TICK = 0.02


@dataclass(frozen=True)
class Run:
    """One run of a command: seconds, and the peak over time of resident memory summed over its processes (MB).

    ``largest_mb`` is the peak of the largest single process; both count pages of mapped files.
    """

    seconds: float
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
    commands: Mapping[str, Sequence[str]], runs: int, before: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[Run]]:
    """Run the commands in turn, after one uncounted round; ``before`` is run, unmeasured, ahead of a command."""
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            if before and name in before:
                subprocess.run(before[name], check=True)
            done = _measure(command)
            if number:
                found[name].append(done)
            print(f"  {name}: {done.seconds:.2f} s{'' if number else ' (warm-up)'}", file=sys.stderr, flush=True)
    return found


def _measure(command: Sequence[str]) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    total = largest = 0.0
    while process.poll() is None:
        sizes = _resident(process.pid)
        total, largest = max(total, sum(sizes)), max(largest, *sizes, 0.0)
        time.sleep(_TICK)
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {process.stderr.read().decode() if process.stderr else ''}")
    return Run(seconds, total, largest)


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


def ratio_line(name: str, slow: Sequence[Run], fast: Sequence[Run]) -> tuple[str, Spread]:
    """Slow over fast, pair by pair."""
    spread = Spread.of([a.seconds / b.seconds for a, b in zip(slow, fast, strict=True)])
    return f"{name}: {spread} times as fast", spread


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "polars", "msgspec", "pycocotools")}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processors": str(cores), "machine": platform.machine(), "python": platform.python_version(), **packages}


def write_json(path: Path | None, content: object) -> None:
    """Write the figures where asked for."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1, default=lambda o: o.__dict__) + "\n")
