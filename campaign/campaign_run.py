"""``make campaign``: everything that can go wrong, for an hour, and one table of what happened.

``make campaign SECONDS=60`` for less, ``SEED=7`` for other moments and inputs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))

from attacks import attack  # noqa: E402 - tests are found from here on
from chat_server import chatting  # noqa: E402
from disturbances import DISTURBANCES, Figures, Undisturbed, disturb  # noqa: E402
from fuzzing import fuzz  # noqa: E402
from worlds import COMMANDS, World  # noqa: E402

WORKERS = 2
SHARES = {
    "kills": 0.4, "killed workers": 0.04, "SIGINT": 0.06, "full disk": 0.06, "read-only": 0.03,
    "power loss": 0.1, "fuzz": 0.31,
}  # fmt: skip
"""Campaign -> its share of the time; attacks and clusters take what they take."""
HEAD = ("campaign", "runs or inputs", "disturbed", "tracebacks", "hangs", "lost", "other problems")


def disturbed(
    kind: str, seconds: float, seed: int, world: World, usual: dict[str, Undisturbed]
) -> Figures:
    """Trials of all commands in turn until the time is over, in a few threads."""
    figures, deadline, lock = Figures(kind), time.monotonic() + seconds, threading.Lock()
    numbers, names = count(), list(usual)

    def trials(_: int) -> None:
        # without rights nothing is random: each command once
        while (number := next(numbers)) < len(names) or kind != "read-only":
            if time.monotonic() > deadline:
                return
            name, own = names[number % len(names)], Figures(kind)
            disturb(own, name, world, usual[name], Random(f"{seed} {kind} {number}"))
            with lock:
                figures.add(own)

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(trials, range(WORKERS)))
    return figures


def fuzzed(seconds: float, seed: int) -> Figures:
    """Fuzz all targets, with a line for each."""
    figures = Figures("fuzz")
    for done in fuzz(seconds, seed, workers=WORKERS):
        print(f"  {done.line()}", flush=True)
        figures.runs += done.inputs
        figures.hangs += done.hangs
        figures.tracebacks += len(done.failures) - done.hangs
        figures.problems += [f"fuzz, {done.name}: {what}" for what in done.failures]
    return figures


def clusters() -> Figures:
    """Ray loses a node, Slurm requeues: their tests, where Ray and Slurm are there."""
    figures, tests = Figures("Ray, Slurm"), HERE.parent / "tests"
    files = [tests / "base" / f"test_{name}.py" for name in ("cluster_engines", "slurm_engine")]
    words = [sys.executable, "-m", "pytest", "-q", "-n0", *map(str, files)]
    done = subprocess.run(words, cwd=HERE.parent, capture_output=True, text=True, check=False)
    outcomes = re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
    counts = {what: int(number) for number, what in outcomes}
    figures.runs, figures.disturbed = counts.get("passed", 0), counts.get("passed", 0)
    for what in ("failed", "error", "skipped"):
        if counts.get(what):
            print(f"  Ray, Slurm: {counts[what]} {what}: {done.stdout.splitlines()[-1]}")
    figures.lost = counts.get("failed", 0) + counts.get("error", 0)
    return figures


def campaigns(folder: Path, seconds: float, seed: int, only: list[str]) -> Iterator[Figures]:
    """The figures of each campaign."""
    total = sum(SHARES.get(name, 0) for name in only) or 1
    time_of = {name: seconds * SHARES.get(name, 0) / total for name in only}
    if kinds := [kind for kind in DISTURBANCES if kind in only]:
        with chatting() as server:
            world = World.make(folder / "world", server.url)
            # paths from there to the inputs are the same in every trial
            work = world.folder / "usual"
            usual = {name: Undisturbed.from_run(world, name, work) for name in COMMANDS}
            for kind in kinds:
                yield disturbed(kind, time_of[kind], seed, world, usual)
    if "attacks" in only:
        yield attack(folder / "attacks")
    if "fuzz" in only:
        yield fuzzed(time_of["fuzz"], seed)
    if "clusters" in only:
        yield clusters()


def main() -> None:
    """Run all campaigns; exit code 1 where something was lost, or not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    names = [*SHARES, "attacks", "clusters"]
    parser.add_argument("--only", nargs="+", default=names, choices=names)
    given = parser.parse_args()
    started, done = time.monotonic(), []
    with tempfile.TemporaryDirectory(
        prefix="nooch-campaign-", ignore_cleanup_errors=True
    ) as folder:
        for figures in campaigns(Path(folder), given.seconds, given.seed, given.only):
            print(figures.row(), flush=True)
            for problem in figures.problems:
                print(f"    {problem}", flush=True)
            done.append(figures)
    print(f"\n| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for figures in done:
        print(figures.row())
    print(f"\nseed {given.seed}, {time.monotonic() - started:.0f} s")
    sys.exit(any(figures.problems for figures in done))


if __name__ == "__main__":
    main()
