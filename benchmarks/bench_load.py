"""``nooch evaluate --bootstrap 1000`` on 100 runs of 171 tasks and 24,657 images: time and memory.

33 methods with 3 seeds, and one more run: long Parquet files of float32 logits in a temporary
folder, read and scored by the real command, a process of its own. ``--tasks 6`` scores six of the
tasks; all predictions are read all the same.

    python benchmarks/bench_load.py [--runs 100] [--resamples 1000] [--tasks 171] [--images 123287]
    [--json FILE]
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from bench_criteria import dataset
from bench_metrics import suite_of_all_tasks
from measuring import machine, measured, nooch_command, parser, write_json

import nooch


def write_runs(suite: nooch.Suite, runs: int, folder: Path) -> list[Path]:
    """Predictions of methods with three seeds each: label, context, and a noise of their own."""
    random, files = np.random.default_rng(0), []
    sets = [suite.set("ce", task, "test") for task in suite.tasks]
    predictions = pl.concat(
        pl.DataFrame(
            {"image_id": challenge.image_ids, "label": challenge.labels, "subset": challenge.subset}
        ).with_columns(task=pl.lit(task, pl.Categorical))
        for task, challenge in zip(suite.tasks, sets, strict=True)
    )
    # hard positives lack their context, hard negatives have it
    effect = (
        predictions["label"].to_numpy() * 2.0
        + np.array([-1.0, 1.0, 0.0])[predictions["subset"]]
        - 2
    )
    ids = predictions.select("image_id", "task")
    for number in range(runs):
        method, seed = divmod(number, 3)
        logit = effect + random.normal(scale=1 + method / 33, size=len(effect))
        of_run = ids.with_columns(
            logit=pl.Series(logit, dtype=pl.Float32), method=pl.lit(f"m{method}"), seed=pl.lit(seed)
        )
        files.append(folder / f"run{number}.parquet")
        of_run.write_parquet(files[-1])
    return files


def main() -> None:
    """Run and print."""
    options = parser(__doc__, runs=100, resamples=1000, tasks=171, images=123_287)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = suite_of_all_tasks(dataset(arguments.images))
        nooch.save_suite(suite, folder / "suite")
        files = write_runs(suite, arguments.runs, folder)
        tasks = ",".join(suite.tasks[:: -(-len(suite.tasks) // arguments.tasks)])
        command = nooch_command("evaluate", folder / "suite", *files, "--tasks", tasks)
        command += ["--bootstrap", str(arguments.resamples), "--out", str(folder / "scores.csv")]
        seconds, memory = measured(command)
    scored = len(tasks.split(","))
    n = suite.record("ce", suite.tasks[0], "test").positives
    n += suite.record("ce", suite.tasks[0], "test").negatives
    print(f"{arguments.runs} runs, {scored} of {len(suite.tasks)} tasks, {n:,} images,", end=" ")
    print(f"{arguments.resamples:,} resamples: {seconds:.0f} s, {memory}")
    figures = {"machine": machine(), "seconds": seconds, "memory": memory}
    write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
