"""The context criterion fitted, against scikit-learn's regression of each task on sparse rows.

Made-up presences of 171 classes whose scenes make them depend on each other, about eight in an
image. Both fit the same tasks (``--tasks``), the peer in one process to the same tolerance of 1e-10
(lbfgs, the solver for sparse rows); coefficients are compared. CPU seconds are of all threads.

    python benchmarks/bench_context.py [--images 86302] [--tasks 6] [--runs 3] [--json FILE]
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import polars as pl
from measuring import Spread, machine, parser, ratios, write_json
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

import nooch

CLASSES = 171


def dataset(n: int) -> nooch.Dataset:
    """Presences by logistic models of eight scene variables; some classes are rare."""
    random = np.random.default_rng(0)
    usual = np.log(np.geomspace(0.11, 0.003, CLASSES))
    scene = random.normal(size=(n, 8))
    odds = scene @ random.normal(scale=0.45, size=(8, CLASSES)) + usual
    present = random.random((n, CLASSES)) < 1 / (1 + np.exp(-odds))
    images = pl.DataFrame({"image_id": range(n), "split": ["train"] * n})
    return nooch.Dataset.build(images, [f"c{k}" for k in range(CLASSES)], csr_array(present * 0.1))


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=86_302, tasks=6, runs=3).parse_args()
    data = dataset(arguments.images)
    present = csr_array((data.areas > 0).astype(float))
    classes = np.linspace(0, CLASSES - 1, arguments.tasks).astype(int).tolist()
    seconds: dict[str, list[float]] = {"nooch": [], "scikit-learn": []}
    cpu: dict[str, list[float]] = {"nooch": [], "scikit-learn": []}
    for _ in range(arguments.runs):
        started, used = time.perf_counter(), time.process_time()
        fitted = nooch.Context().fit(data, [f"c{column}" for column in classes])
        seconds["nooch"].append(time.perf_counter() - started)
        cpu["nooch"].append(time.process_time() - used)
        started, used, apart = time.perf_counter(), time.process_time(), 0.0
        for column in classes:
            others = [k for k in range(CLASSES) if k != column]
            model = LogisticRegression(C=1, tol=1e-10, max_iter=10_000)
            model.fit(present[:, others], data.labels(f"c{column}"))
            own = fitted.regressions[f"c{column}"].table()[0, 1:]
            apart = max(apart, float(np.abs(model.coef_[0] - own).max()))
        seconds["scikit-learn"].append(time.perf_counter() - started)
        cpu["scikit-learn"].append(time.process_time() - used)
    if apart > 1e-3:
        sys.exit(f"error: coefficients differ by {apart:.2g}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    faster = ratios(seconds["scikit-learn"], seconds["nooch"])
    print(f"{arguments.images:,} images, {present.nnz / present.shape[0]:.1f} classes in each")
    for name, values in seconds.items():
        print(
            f"{name}, {len(classes)} tasks: {Spread.from_values(values)} s;"
            f" CPU {Spread.from_values(cpu[name])} s"
        )
    print(f"nooch against scikit-learn, weights equal to {apart:.1g}: {faster} times as fast")
    print(f"peak memory of the process: {peak:,.0f} MB")
    write_json(arguments.json, {"machine": machine(), "seconds": seconds, "ratio": faster})


if __name__ == "__main__":
    main()
