"""The context criterion fitted, against scikit-learn's regression of each task on sparse rows.

``made-up``: presences of 171 classes whose scenes make them depend on each other, about eight in an
image, so that rows do not repeat. ``things``: the labels of COCO's 80 things in 123,287 images.
``columns``: the 16 factors of ImageNet-X in 48,868 images, and its classes 0 to 99. The last two
are read from ``../shared/data``, or the folder that NOOCH_TEST_DATA names.

Both fit the same tasks (``--tasks``) in turn, the peer to a tolerance of 1e-13 by Newton's method,
of its solvers for sparse rows the fastest; coefficients are compared. CPU seconds are of all
threads; libraries have one.

    python benchmarks/bench_context.py [--data made-up] [--tasks 171] [--runs 3] [--json FILE]
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
from measuring import Spread, machine, parser, ratios, write_json
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

import nooch
from nooch.base.limits import limited_threads

CLASSES = 171
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def made_up(n: int) -> nooch.Dataset:
    """Presences by logistic models of eight scene variables; some classes are rare."""
    random = np.random.default_rng(0)
    usual = np.log(np.geomspace(0.11, 0.003, CLASSES))
    scene = random.normal(size=(n, 8))
    odds = scene @ random.normal(scale=0.45, size=(8, CLASSES)) + usual
    present = random.random((n, CLASSES)) < 1 / (1 + np.exp(-odds))
    images = pl.DataFrame({"image_id": range(n), "split": ["train"] * n})
    return nooch.Dataset.build(images, [f"c{k}" for k in range(CLASSES)], csr_array(present * 0.1))


def things(folder: Path) -> nooch.Dataset:
    """COCO's things; presence has no area."""
    with np.load(folder / "coco-stats" / "derived_coco_thing_labels_123287x80.npz") as read:
        images = pl.DataFrame({"image_id": read["image_ids"], "split": "train"})
        areas = csr_array(read["labels"] * 0.1)
        return nooch.Dataset.build(images, read["category_names"].tolist(), areas)


def columns(folder: Path) -> nooch.Dataset:
    """ImageNet-X's factors as columns, and the classes 0 to 99."""
    table = pl.read_parquet(folder / "answers" / "imagenet-x" / "val_factors.parquet")
    factors = table.drop("file_name", "class").cast(pl.Boolean)
    images = factors.with_columns(image_id=pl.Series(range(len(table))), split=pl.lit("train"))
    own = table["class"].to_numpy()[:, None] == np.arange(100)
    return nooch.Dataset.build(images, [f"c{k}" for k in range(100)], csr_array(own * 0.1))


def main() -> None:
    """Run and print."""
    options = parser(__doc__, data="made-up", images=86_302, tasks=1000, runs=3)
    arguments = options.parse_args()
    folder = Path(os.environ.get("NOOCH_TEST_DATA", SHARED))
    if arguments.data == "made-up":
        data = made_up(arguments.images)
    else:
        data = {"things": things, "columns": columns}[arguments.data](folder)
    criterion = nooch.Context(columns=["all"] if arguments.data == "columns" else [])
    n = len(data.classes)
    tasks = [
        data.classes[column]
        for column in np.unique(np.linspace(0, n - 1, min(n, arguments.tasks)).astype(int))
    ]
    seconds: dict[str, list[float]] = {"nooch": [], "scikit-learn": []}
    cpu: dict[str, list[float]] = {"nooch": [], "scikit-learn": []}
    apart = 0.0
    for _ in range(arguments.runs):
        started, used = time.perf_counter(), time.process_time()
        fitted = criterion.fit(data, tasks)
        seconds["nooch"].append(time.perf_counter() - started)
        cpu["nooch"].append(time.process_time() - used)
        table = fitted.presences(data)
        rows, place = csr_array(table.matrix), {name: k for k, name in enumerate(table.names)}
        inputs = [
            (rows[:, [place[name] for name in fitted.regressions[task].context]], data.labels(task))
            for task in tasks
        ]
        models = [LogisticRegression(C=1, tol=1e-13, solver="newton-cholesky") for _ in tasks]
        started, used = time.perf_counter(), time.process_time()
        # more threads would only wait for each other
        with limited_threads(1):
            for model, (x, y) in zip(models, inputs, strict=True):
                model.fit(x, y)
        seconds["scikit-learn"].append(time.perf_counter() - started)
        cpu["scikit-learn"].append(time.process_time() - used)
        for model, task in zip(models, tasks, strict=True):
            own = fitted.regressions[task].table()[0, 1:]
            apart = max(apart, float(np.abs(model.coef_[0] - own).max()))
    if apart > 1e-8:
        sys.exit(f"error: coefficients differ by {apart:.2g}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    faster, of_cpu = (ratios(of["scikit-learn"], of["nooch"]) for of in (seconds, cpu))
    print(
        f"{arguments.data}: {len(data):,} images, {len(tasks)} tasks, weights equal to {apart:.1g}"
    )
    for name, values in seconds.items():
        print(f"  {name}: {Spread.from_values(values)} s; CPU {Spread.from_values(cpu[name])} s")
    print(f"  nooch against scikit-learn: {faster} times as fast; CPU {of_cpu} times less")
    print(f"  peak memory of the process: {peak:,.0f} MB")
    write_json(arguments.json, {"machine": machine(), "seconds": seconds, "cpu": cpu})


if __name__ == "__main__":
    main()
