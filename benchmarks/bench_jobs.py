"""A bench folder of 50,000 jobs: trained, interrupted, resumed, then read by every command.

12 tasks x 417 settings of nine methods x 10 seeds, heads on 16 made-up features of 1,000 images.
The bench is interrupted after each ``--chunk`` seconds and resumed until it ends; ``resume`` is the
same command when all jobs are done. Each command is a process of its own.

    python benchmarks/bench_jobs.py [--settings 417] [--seeds 10] [--folder FOLDER] [--only NAMES]
    [--json FILE]

With ``--folder`` the runs are kept there, and a finished bench is not trained again; ``--only``
status,results,... measures only these commands.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from measuring import Memory, cpu_seconds, machine, measured, nooch_command, parser, write_json
from scipy.sparse import csr_array

import nooch
from nooch.data import Dataset, save_dataset

METHODS = {
    "gdro": ("K", 1.0), "label-reweight": ("alpha", 0.01), "environment-reweight": ("alpha", 0.02),
    "irm": ("lambda_", 0.1), "cvar": ("p", 0.005), "focal": ("gamma", 0.02), "vrex": ("beta", 0.1),
    "online-gdro": ("eta", 0.001),
}  # fmt: skip
"""Method -> its hyperparameter and the smallest value; the others are multiples of it."""
TASKS = [f"task{number}" for number in range(12)]
READ = {
    "resume": "",
    "status": "train status {runs}",
    "collect": "train score {runs} {suite} --out {folder}/scores --overwrite",
    "results": "paper tables {runs} --suite {suite}",
    "report": "report {suite} --runs {runs} --out {folder}/report --overwrite",
    "info --check": "info {runs} --check",
}


def made_up(folder: Path, images: int, settings: int, seeds: int) -> str:
    """A dataset, a suite and a configuration; returns the command of the bench."""
    random = np.random.default_rng(0)
    things = random.random((images, len(TASKS))) < 0.4
    places = random.random((images, len(TASKS))) < np.where(things, 0.8, 0.2)
    areas = random.random((images, 2 * len(TASKS))) * np.repeat([0.1, 0.5], len(TASKS))
    present = np.hstack([things, places])
    splits = random.choice(["train", "valid", "test"], images, p=[0.6, 0.2, 0.2])
    table = {
        "image_id": np.arange(images), "file_name": [f"{n}.jpg" for n in range(images)],
        "width": np.full(images, 100), "height": np.full(images, 100), "split": splits,
    }  # fmt: skip
    classes = [*TASKS, *(f"place{number}" for number in range(len(TASKS)))]
    mixed = present @ random.normal(size=(len(classes), 16))
    made = (mixed + random.normal(size=(images, 16))).astype(np.float32)
    data = Dataset(
        pl.DataFrame(table), tuple(classes), csr_array(areas * present), embeddings={"m": made}
    )
    save_dataset(data, folder / "dataset", overwrite=True)
    suite = nooch.find(data, {"ce": nooch.CE(0.1)}, tasks=TASKS)
    nooch.save_suite(suite, folder / "suite", overwrite=True)
    each = (settings - 1) // len(METHODS)
    grid = {
        method: {name: [round(step * n, 6) for n in range(1, each + 1)]}
        for method, (name, step) in METHODS.items()
    }
    config = {"seeds": list(range(seeds)), "methods": {"erm": None, **grid}, "epochs": 4}
    (folder / "bench.yaml").write_text(json.dumps(config))
    inputs = f"{folder}/dataset {folder}/suite --embedding m --config {folder}/bench.yaml"
    return f"train bench {inputs} --out {folder}/runs"


def trained(command: str, chunk: float) -> tuple[float, int]:
    """Train until the bench ends, interrupted again and again; seconds, and interruptions."""
    started, interruptions = time.perf_counter(), 0
    while True:
        process = subprocess.Popen(nooch_command(command), stderr=subprocess.DEVNULL)
        try:
            if code := process.wait(chunk):
                raise subprocess.CalledProcessError(code, command)
            return time.perf_counter() - started, interruptions
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
            interruptions += 1


def main() -> None:
    """Run and print."""
    given = parser(
        __doc__, images=1000, settings=417, seeds=10, chunk=300, folder="", only=""
    ).parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        bench = made_up(folder, given.images, given.settings, given.seeds)
        seconds, interruptions = trained(bench, given.chunk)
        jobs = len(list((folder / "runs" / "jobs").iterdir()))
        print(f"{jobs:,} jobs trained: {seconds:.1f} s, interrupted {interruptions} times")
        figures: dict[str, tuple[float, float, Memory]] = {}
        places = {"runs": folder / "runs", "suite": folder / "suite", "folder": folder}
        for name, words in READ.items():
            if given.only and name not in given.only.split(","):
                continue
            before = cpu_seconds()
            taken, memory = measured(nooch_command(words.format(**places) or bench))
            figures[name] = (taken, cpu_seconds() - before, memory)
            said = f"{taken:6.1f} s, {figures[name][1]:6.1f} s of CPU"
            print(f"{name:10} {said}, peak {memory.total_mb:,.0f} MB", flush=True)
        write_json(given.json, {"machine": machine(), "jobs": jobs, "read": figures})


if __name__ == "__main__":
    main()
