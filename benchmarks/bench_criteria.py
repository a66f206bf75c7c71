"""CE for all 171 tasks with its challenge sets, in memory, against dense loops over pairs of classes.

The peer holds areas as a dense array (n_images, n_classes), as one would with NumPy alone, and gives the same cues and the
same hard images; that is checked. Writing the suite is timed apart.

    python benchmarks/bench_criteria.py [--images 123287] [--runs 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_import import HERE, annotation_files
from measuring import Spread, machine, ratios, write_json
from numpy.typing import NDArray

import nooch
from nooch.data import Dataset

Hard = dict[tuple[str, str], set[int]]


def dense_loops(
    data: Dataset, dense: NDArray[np.float64], present: NDArray[np.bool_], alpha: float, beta: float
) -> Hard:
    """Cues and hard images by loops over tasks and classes."""
    split = data.images["split"].to_numpy()
    train, ids, hard = split == "train", data.image_ids, {}
    areas, there = dense[train], present[train]
    for y, task in enumerate(data.classes):
        positive = there[:, y]
        strength = [
            (areas[positive, c] - areas[positive, y]).mean() if c != y and positive.any() else -np.inf
            for c in range(areas.shape[1])
        ]
        cues = [c for c, value in enumerate(strength) if value > alpha]
        if not cues:
            continue
        for name in ("valid", "test"):
            rows = split == name
            all_below, some_above = np.ones(rows.sum(), dtype=bool), np.zeros(rows.sum(), dtype=bool)
            for c in cues:
                all_below &= dense[rows, c] < beta
                some_above |= dense[rows, c] > beta
            labels = present[rows, y]
            hard[task, name] = set(ids[rows][(labels & all_below) | (~labels & some_above)].tolist())
    return hard


def dataset(images: int) -> Dataset:
    """The generated annotations as a dataset, split 70/10/20."""
    source = annotation_files(images)
    data = nooch.read_coco([source / "instances.json"], [source / "stuff.json"])
    return nooch.with_split(data, nooch.SplitPlan("70/10/20"))


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=123_287)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    data = dataset(arguments.images)
    dense = data.areas.toarray()
    present = np.zeros(dense.shape, dtype=bool)
    present[data.areas.nonzero()] = True
    seconds: dict[str, list[float]] = {"nooch": [], "dense loops": []}
    nooch.find(data, {"ce": nooch.CE(0.05, 0.1)})  # warm-up
    for _ in range(arguments.runs):
        taken, suite = timed(lambda: nooch.find(data, {"ce": nooch.CE(0.05, 0.1)}))
        seconds["nooch"].append(taken)
        taken, hard = timed(lambda: dense_loops(data, dense, present, 0.05, 0.1))
        seconds["dense loops"].append(taken)
    same = {(task, split): set(suite.set(c, task, split).ids("hard")) for c, task, split in suite.keys}
    if same != hard:
        sys.exit("error: the two disagree")
    ratio = ratios(seconds["dense loops"], seconds["nooch"])
    out = HERE / "data" / "suite"
    shutil.rmtree(out, ignore_errors=True)
    written, _ = timed(lambda: nooch.save_suite(suite, out))
    size = sum(f.stat().st_size for f in out.iterdir()) / 1e6
    for name, values in seconds.items():
        print(f"{name}: {Spread.of(values)} s")
    print(f"nooch against dense loops, the same hard images of {len(same)} sets: {ratio} times as fast")
    print(f"writing the suite: {written:.2f} s, {size:.1f} MB")
    figures = {"machine": machine(), "seconds": seconds, "ratio": ratio, "writing_seconds": written, "suite_mb": size}
    write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
