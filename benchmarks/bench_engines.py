"""Tiny jobs through each engine: overhead of a job, and growth of the driver's memory.

    python benchmarks/bench_engines.py [--jobs 200,2000] [--rounds 3] [--engines local,ray] [--json
    FILE]

A job returns its item. The time of a job is the difference between the larger and the smaller
number of jobs, divided by the difference of the numbers: start and end of the engine cancel out.
There are ten times as many local jobs, which are quick. Peers do the same without nooch: ``map`` of
a ProcessPoolExecutor of two processes, ``ray.get`` of plain tasks on a cluster of two CPUs, and a
job array of sbatch that starts Python for each job. Peak memory is of the driver, a new process
each time. Slurm is measured with ``--engines slurm`` (a test Slurm: tests/slurm.sh start FOLDER).
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
from typing import Any

from measuring import Spread, machine, parser, ratios, write_json

from nooch.base.engines import engine


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
        command = f"--wrap=srun {shlex.quote(sys.executable)} -c pass"
        words = ["sbatch", "--parsable", f"--output={folder}/%a.txt", "--cpus-per-task=1", command]
        for start in range(0, jobs, 200):
            array = [*words, f"--array=0-{min(200, jobs - start) - 1}"]
            done = subprocess.run(array, check=True, capture_output=True, text=True)
            queue = ["squeue", "--noheader", f"--jobs={done.stdout.strip()}"]
            while subprocess.run(queue, check=False, capture_output=True).stdout.strip():
                time.sleep(0.2)
    return range(jobs)


def by_engine(text: str) -> Callable[[int], Iterable[int]]:
    def run(jobs: int) -> Iterable[int]:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            # one by one, to hold no results
            results = engine(text, folder if text == "slurm" else None).map(same, range(jobs))
            for number, result in enumerate(results):
                assert result == number
        return range(jobs)

    return run


PEERS: dict[str, tuple[str, Callable[[int], Iterable[int]], str]] = {
    "local": ("local:2", local_peer, "ProcessPoolExecutor.map"),
    "ray": ("ray", ray_peer, "ray.get of plain tasks"),
    "slurm": ("slurm", slurm_peer, "sbatch --array of srun python"),
}


def one(name: str, who: str, jobs: int) -> None:
    """Measure in a new process: seconds, and the peak of its memory (MB)."""
    text, peer, _ = PEERS[name]
    run = by_engine(text) if who == "nooch" else peer
    if name == "ray":
        import ray

        quiet: dict[str, Any] = {
            "include_dashboard": False,
            "log_to_driver": False,
            "logging_level": 40,
        }
        ray.init(address="local", num_cpus=2, **quiet)
    seconds = []
    # the fastest of several, if they take little time
    for _ in range(1 if name == "slurm" else 5):
        started = time.perf_counter()
        assert list(run(jobs)) == list(range(jobs))
        seconds.append(time.perf_counter() - started)
    # in kilobytes, except on a Mac
    unit = 1e6 if sys.platform == "darwin" else 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    print(json.dumps({"seconds": min(seconds), "peak_mb": peak}))


def measured(name: str, who: str, jobs: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--one", name, who, str(jobs)]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    done = subprocess.run(words, check=True, text=True, **streams)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"  {name}, {who}, {jobs} jobs: {figures}", file=sys.stderr, flush=True)
    return figures


def compare(name: str, sizes: tuple[int, int], rounds: int) -> dict[str, Any]:
    """An engine against its peer, in turn."""
    few, many = sizes = sizes if name != "local" else (10 * sizes[0], 10 * sizes[1])
    each: dict[str, list[float]] = {"nooch": [], "peer": []}
    peaks: dict[int, list[float]] = {few: [], many: []}
    for _ in range(rounds):
        for who, listed in each.items():
            spreads = {jobs: measured(name, who, jobs) for jobs in sizes}
            listed.append((spreads[many]["seconds"] - spreads[few]["seconds"]) / (many - few) * 1e3)
            if who == "nooch":
                for jobs in sizes:
                    peaks[jobs].append(spreads[jobs]["peak_mb"])
    return {
        "ms per job": {who: Spread.from_values(listed) for who, listed in each.items()},
        "ratio": ratios(each["nooch"], each["peer"]),
        "peak_mb": {jobs: Spread.from_values(listed) for jobs, listed in peaks.items()},
    }


def main() -> None:
    command = parser(__doc__, jobs="200,2000", rounds=3, engines="local,ray")
    command.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = command.parse_args()
    if arguments.one:
        name, who, jobs = arguments.one
        one(name, who, int(jobs))
        return
    few, many = (int(number) for number in arguments.jobs.split(","))
    names = arguments.engines.split(",")
    facts = {name: compare(name, (few, many), arguments.rounds) for name in names}
    for name, fact in facts.items():
        times, peaks = fact["ms per job"], fact["peak_mb"]
        peer = f"{PEERS[name][2]}: {times['peer']} ms"
        print(f"{name}: {times['nooch']} ms per job; {peer}; ratio {fact['ratio']}")
        listed = ", ".join(f"{peak} MB for {jobs:,} jobs" for jobs, peak in peaks.items())
        print(f"  peak memory of the driver: {listed}")
    write_json(arguments.json, {"machine": machine(), **facts})


if __name__ == "__main__":
    main()
