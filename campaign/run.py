"""``make campaign``: everything that can go wrong, for an hour, and one table of what happened.

``SECONDS=60 make campaign`` for less, ``SEED=7`` for other moments and inputs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))

from attacks import attack  # noqa: E402 - tests are found from here on
from chat_server import chatting  # noqa: E402
from disturbances import DISTURBANCES, Figures, Undisturbed, disturb  # noqa: E402
from engine_losses import lose_workers  # noqa: E402
from fuzzing import fuzz  # noqa: E402
from power_losses import lose_power  # noqa: E402
from worlds import COMMANDS, World  # noqa: E402

WORKERS = 2
SHARES = {
    "kills": 0.4, "SIGINT": 0.06, "full disk": 0.06, "read-only": 0.03, "engines": 0.05,
    "power": 0.1, "fuzz": 0.3,
}  # fmt: skip
"""Campaign -> its share of the time; attacks take what they take."""
HEAD = ("campaign", "runs or inputs", "disturbed", "tracebacks", "hangs", "lost", "other problems")


def disturbed(
    kind: str, seconds: float, seed: int, world: World, usual: dict[str, Undisturbed]
) -> Figures:
    """Trials of all commands in turn until the time is over, in a few threads."""
    figures, deadline, lock = Figures(kind), time.monotonic() + seconds, threading.Lock()
    numbers, names = count(), list(COMMANDS)

    def go_on(_: int) -> None:
        while time.monotonic() < deadline:
            with lock:
                number = next(numbers)
            if kind == "read-only" and number >= len(names):
                # nothing is random here
                return
            name = names[number % len(names)]
            own, random = Figures(kind), Random(f"{seed} {kind} {number}")
            disturb(own, name, world, world.folder / f"{kind}-{number}", usual[name], random)
            with lock:
                figures.add(own)

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(go_on, range(WORKERS)))
    return figures


def fuzzed(seconds: float, seed: int) -> Figures:
    """Fuzz all targets, with a line for each."""
    figures = Figures("fuzz")
    for done in fuzz(seconds, seed, workers=WORKERS):
        print(
            f"  {done.name:22} {done.inputs:>10,} inputs: {', '.join(done.failures) or 'nothing'}"
        )
        figures.runs += done.inputs
        figures.hangs += done.hangs
        figures.tracebacks += len(done.failures) - done.hangs
        figures.problems += [f"fuzz, {done.name}: {what}" for what in done.failures]
    return figures


def campaigns(folder: Path, seconds: float, seed: int, only: list[str]) -> Iterator[Figures]:
    """The figures of each campaign."""
    share = sum(SHARES.get(name, 0) for name in only) or 1
    time_of = {name: seconds * SHARES.get(name, 0) / share for name in only}
    if {*only} - {"fuzz", "attacks", "power"}:
        with chatting() as server:
            world = World.make(folder / "world", server.url)
            names = COMMANDS if {*only} & {*DISTURBANCES} else {}
            usual = {name: Undisturbed.of(world, name, folder / "usual") for name in names}
            for kind in DISTURBANCES:
                if kind in only:
                    yield disturbed(kind, time_of[kind], seed, world, usual)
            if "engines" in only:
                yield lose_workers(world, time_of["engines"], seed)
    others: dict[str, Callable[[], Figures]] = {
        "power": lambda: lose_power(folder, time_of["power"], seed),
        "attacks": lambda: attack(folder / "attacks"),
        "fuzz": lambda: fuzzed(time_of["fuzz"], seed),
    }
    for name, run in others.items():
        if name in only:
            yield run()


def main() -> None:
    """Run all campaigns; exit code 1 where something was lost, or not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SECONDS") or 3600))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 0))
    names = [*SHARES, "attacks"]
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
    print(
        f"\nseed {given.seed}, {time.monotonic() - started:.0f} s; failing inputs: campaign/failures"
    )
    sys.exit(any(figures.problems for figures in done))


if __name__ == "__main__":
    main()
