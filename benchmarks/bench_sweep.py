"""A grid of 20 x 20 values of alpha and beta for 171 tasks against finding at each point.

The peer is nooch's own ``find``, which is itself much faster than loops (see the benchmark of
criteria), at some of the points; the time of all 400 is their mean times 400. The counts are
compared at these points.

    python benchmarks/bench_sweep.py [--images 123287] [--runs 5] [--points 8] [--json FILE]
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import polars as pl
from bench_criteria import dataset, timed
from measuring import Spread, machine, parser, ratios, write_json

import nooch


def agree(sweep: nooch.suites.sweep.Sweep, suite: nooch.Suite, alpha: float, beta: float) -> bool:
    """True if every set's counts match the grid."""
    rows = sweep.grid.filter(pl.col("alpha") == alpha, pl.col("beta") == beta)
    counts = {
        (t, s): (p, n)
        for t, s, p, n in rows.select("task", "split", "hard_positives", "hard_negatives").rows()
    }
    return all(
        counts[r.task, r.split] == (r.hard_positives, r.hard_negatives) for r in suite.header.sets
    )


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=123_287, runs=5, points=8).parse_args()
    data = dataset(arguments.images)
    alphas, betas = np.linspace(0, 0.2, 20).tolist(), np.linspace(0.01, 0.5, 20).tolist()
    random = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {"sweep": [], "one point after another": []}
    sweep = nooch.sweep_thresholds(data, alpha=alphas, beta=betas)  # warm-up
    for _ in range(arguments.runs):
        taken, sweep = timed(lambda: nooch.sweep_thresholds(data, alpha=alphas, beta=betas))
        seconds["sweep"].append(taken)
        each = []
        for _ in range(arguments.points):
            alpha, beta = float(random.choice(alphas)), float(random.choice(betas))
            taken, suite = timed(partial(nooch.find, data, {"ce": nooch.CE(alpha, beta)}))
            each.append(taken)
            if not agree(sweep, suite, alpha, beta):
                sys.exit(f"error: the two disagree at alpha {alpha}, beta {beta}")
        seconds["one point after another"].append(float(np.mean(each)) * len(alphas) * len(betas))
    ratio = ratios(seconds["one point after another"], seconds["sweep"])
    for name, values in seconds.items():
        print(f"{name}: {Spread.from_values(values)} s")
    grid = f"the grid of 400 points for {len(data.classes)} tasks"
    print(f"{grid} against finding at each: {ratio} times as fast")
    write_json(arguments.json, {"machine": machine(), "seconds": seconds, "ratio": ratio})


if __name__ == "__main__":
    main()
