"""Tiny jobs through each engine: what one costs beyond its work, and whether the driver's memory
grows with their number.

    python benchmarks/bench_engines.py [--jobs 200,2000] [--rounds 3] [--engines local,ray] [--json
    FILE]

A job gives its item back. The time of a job is the difference between the larger and the smaller
number of jobs, divided by the difference of the numbers: begin and end of the machinery cancel out.
Local jobs are ten times as many, they take so little. Peers do the same without nooch: ``map`` of a
ProcessPoolExecutor of two processes, ``ray.get`` of plain tasks on a cluster of two processors, and
a job array of sbatch that starts Python for each job. Peak memory is that of the driver's process,
each measured in a new one. Slurm is measured where ``--engines slurm`` asks for it (a Slurm for
tests: tests/slurm.sh start FOLDER).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from measuring import Spread, machine, ratios, write_json

from nooch.engines import engine


def same(item: int) -> int:
    return item


def local_peer(jobs: int) -> Iterable[int]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as pool:
        return list(pool.map(same, range(jobs)))


def ray_peer(jobs: int) -> Iterable[int]:
    import ray

    plain = ray.remote(same)
    return ray.get([plain.remote(item) for item in range(jobs)])


def slurm_peer(jobs: int) -> Iterable[int]:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        command = f"srun {shlex.quote(sys.executable)} -c pass"
        words = [
            "sbatch",
            "--parsable",
            f"--output={folder}/%a.txt",
            "--cpus-per-task=1",
            f"--wrap={command}",
        ]
        for start in range(0, jobs, 200):
            array = f"--array=0-{min(200, jobs - start) - 1}"
            made = subprocess.run(
                [*words, array], check=True, capture_output=True, text=True
            ).stdout.strip()
            while subprocess.run(
                ["squeue", "--noheader", f"--jobs={made}"], check=False, capture_output=True
            ).stdout.strip():
                time.sleep(0.2)
    return range(jobs)


def by_engine(text: str) -> Callable[[int], Iterable[int]]:
    def run(jobs: int) -> Iterable[int]:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            # as they come: nothing is kept
            for number, result in enumerate(
                engine(text, folder if text == "slurm" else None).map(same, range(jobs))
            ):
                assert result == number
        return range(jobs)

    return run


PEERS: dict[str, tuple[str, Callable[[int], Iterable[int]], str]] = {
    "local": ("local:2", local_peer, "ProcessPoolExecutor.map"),
    "ray": ("ray", ray_peer, "ray.get of plain tasks"),
    "slurm": ("slurm", slurm_peer, "sbatch --array of srun python"),
}


def one(name: str, who: str, jobs: int) -> None:
    """What a new process measures: seconds, and the peak of its memory (MB)."""
    text, peer, _ = PEERS[name]
    run = by_engine(text) if who == "nooch" else peer
    if name == "ray":
        import ray

        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=40,
        )
    seconds = []
    # the quickest of several tells most, where several take no time
    for _ in range(1 if name == "slurm" else 5):
        started = time.perf_counter()
        assert list(run(jobs)) == list(range(jobs))
        seconds.append(time.perf_counter() - started)
    # in kilobytes, except on a Mac
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )
    print(json.dumps({"seconds": min(seconds), "peak_mb": peak}))


def measured(name: str, who: str, jobs: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--one", name, who, str(jobs)]
    done = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"  {name}, {who}, {jobs} jobs: {found}", file=sys.stderr, flush=True)
    return found


def compare(name: str, sizes: tuple[int, int], rounds: int) -> dict[str, Any]:
    """An engine against its peer, in turn."""
    few, many = sizes = sizes if name != "local" else (10 * sizes[0], 10 * sizes[1])
    each: dict[str, list[float]] = {"nooch": [], "peer": []}
    peaks: dict[int, list[float]] = {few: [], many: []}
    for _ in range(rounds):
        for who, listed in each.items():
            found = {jobs: measured(name, who, jobs) for jobs in sizes}
            listed.append((found[many]["seconds"] - found[few]["seconds"]) / (many - few) * 1e3)
            if who == "nooch":
                for jobs in sizes:
                    peaks[jobs].append(found[jobs]["peak_mb"])
    return {
        "ms a job": {who: Spread.of(listed) for who, listed in each.items()},
        "ratio": ratios(each["nooch"], each["peer"]),
        "peak_mb": {jobs: Spread.of(listed) for jobs, listed in peaks.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", default="200,2000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default="local,ray")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, who, jobs = arguments.one
        one(name, who, int(jobs))
        return
    few, many = (int(number) for number in arguments.jobs.split(","))
    facts = {
        name: compare(name, (few, many), arguments.rounds) for name in arguments.engines.split(",")
    }
    for name, found in facts.items():
        times, peaks = found["ms a job"], found["peak_mb"]
        print(
            f"{name}: {times['nooch']} ms a job; {PEERS[name][2]}: {times['peer']} ms; ratio"
            f" {found['ratio']}"
        )
        print(
            "  peak memory of the driver: "
            + ", ".join(f"{peak} MB for {jobs:,} jobs" for jobs, peak in peaks.items())
        )
    write_json(arguments.json, {"machine": machine(), **facts})


if __name__ == "__main__":
    main()
