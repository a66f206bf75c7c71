"""Gist for 171 tasks in memory: prototypes, cosines, challenge sets, against NumPy task by task.

The peer takes the mean of the positives' embeddings, one matrix-vector product and one division for
each task, in float64, as one would by hand. nooch gives supports that do not depend on the order of
images or their division into parts (sums and products are exact); they agree to 1e-12, which is
checked, as are the hard images.

    python benchmarks/bench_gist.py [--images 123287] [--dimensions 768] [--runs 3] [--json FILE]
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
from bench_criteria import dataset, timed
from measuring import Spread, machine, parser, ratios, write_json
from numpy.typing import NDArray

import nooch
from nooch.data import Dataset

TAU = 0.05


def one_after_another(data: Dataset, values: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Cosines of every task with positives for the searched images; NaN for training images."""
    train = (data.images["split"] == "train").to_numpy()
    searched = values[~train]
    lengths = np.linalg.norm(searched, axis=1)
    sums = {}
    for task in data.classes:
        positive = train & data.labels(task)
        if positive.any():
            prototype = values[positive].mean(axis=0)
            sums[task] = np.full(len(data), np.nan)
            sums[task][~train] = searched @ prototype / (lengths * np.linalg.norm(prototype))
    return sums


def check(data: Dataset, suite: nooch.Suite, peer: dict[str, NDArray[np.float64]]) -> None:
    """Stop if supports differ by more than 1e-12, or hard images farther than that from tau."""
    rows = {split: (data.images["split"] == split).to_numpy() for split in ("valid", "test")}
    for _, task, split in suite.keys:
        challenge, theirs = suite.set("gist", task, split), peer[task][rows[split]]
        assert challenge.support is not None
        hard = np.where(challenge.labels, theirs < TAU, theirs > TAU)
        wrong = (hard != (challenge.subset != 2)) & (np.abs(theirs - TAU) > 1e-12)
        if np.abs(challenge.support - theirs).max() > 1e-12 or wrong.any():
            sys.exit(f"error: the two disagree on {task}")


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=123_287, dimensions=768, runs=3).parse_args()
    data = dataset(arguments.images)
    random = np.random.default_rng(0)
    values = random.normal(size=(len(data), arguments.dimensions)) + 0.5
    data = replace(data, embeddings={"made": values})
    seconds: dict[str, list[float]] = {"nooch": [], "NumPy, one task after another": []}
    nooch.find(data, {"gist": nooch.Gist("made", TAU)}, tasks=["person"])  # warm-up
    for _ in range(arguments.runs):
        taken, suite = timed(lambda: nooch.find(data, {"gist": nooch.Gist("made", TAU)}))
        seconds["nooch"].append(taken)
        taken, peer = timed(lambda: one_after_another(data, values))
        seconds["NumPy, one task after another"].append(taken)
    check(data, suite, peer)
    for name, spread in seconds.items():
        print(f"{name}: {Spread.from_values(spread)} s")
    ratio = ratios(seconds["NumPy, one task after another"], seconds["nooch"])
    sets = f"{len(suite.keys)} sets of {arguments.dimensions} dimensions"
    print(f"{sets}, supports within 1e-12: {ratio} times as fast")
    write_json(arguments.json, {"machine": machine(), "seconds": seconds, "ratio": ratio})


if __name__ == "__main__":
    main()
