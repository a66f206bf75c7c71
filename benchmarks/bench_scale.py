"""Growth of a find with size: CE of 171 tasks on datasets with 1, 10 and 80 times the images.

    python benchmarks/bench_scale.py [--images 125000] [--factors 1,10] [--part 125000] [--processes
    2] [--json FILE]

Datasets are generated (11 classes per image on average, as in COCO-Stuff; split 70/10/20) in
``benchmarks/data``. Each find is a separate process, start included; memory is the peak over all
its processes, sampled every 20 ms. 80 times 125,000 are 10 million images.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import machine, measured, parser, write_json
from scipy.sparse import csr_array

import nooch
from nooch.base.engines import LocalEngine
from nooch.data import Dataset, open_dataset, save_dataset

HERE = Path(__file__).parent
CLASSES, SCENES = 171, 12


def part_of(number: int, images: int) -> Dataset:
    """Images of scenes that each have their own usual classes, about 11 per image."""
    world, random = np.random.default_rng(0), np.random.default_rng([1, number])
    chance = np.full((SCENES, CLASSES), 0.022, np.float32)
    for row in chance:
        row[world.choice(CLASSES, 14, replace=False)] = world.uniform(0.2, 0.9, 14)
    typical = np.exp(world.normal(np.log(0.06), 1, CLASSES))
    scene = random.integers(SCENES, size=images)
    present = random.random((images, CLASSES), dtype=np.float32) < chance[scene]
    ends = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    columns = np.nonzero(present)[1]
    areas = np.minimum(typical[columns] * np.exp(random.normal(0, 0.5, len(columns))), 1)
    splits = pl.Series(["train", "valid", "test"])
    drawn = splits.gather(random.choice(3, images, p=[0.7, 0.1, 0.2]))
    frame = pl.DataFrame({"image_id": np.arange(images) + number * images, "split": drawn})
    names = [f"class_{column}" for column in range(CLASSES)]
    return Dataset.build(frame, names, csr_array((areas, columns, ends), shape=present.shape))


def dataset(images: int, part: int) -> Path:
    """The generated folder, made once."""
    folder = HERE / "data" / f"scale-{images}"
    if not (folder / "dataset.json").is_file():
        save_dataset(_parts(images, part), folder)
    return folder


def _parts(images: int, part: int) -> Iterator[Dataset]:
    for number in range(-(-images // part)):
        yield part_of(number, part)


def find(folder: Path, out: Path, processes: int) -> None:
    """The measured work, in a separate process."""
    workers = LocalEngine(processes).map
    nooch.find(open_dataset(folder), {"ce": nooch.CE(0.05, 0.1)}, out=out, map=workers)


def figures_of(folder: Path, processes: int) -> dict[str, Any]:
    """Seconds, peak memory, number of sets, and MB of the suite."""
    out = folder.with_name(f"{folder.name}-suite")
    shutil.rmtree(out, ignore_errors=True)
    words = [sys.executable, __file__, "--find", str(folder), "--out", str(out)]
    seconds, memory = measured([*words, "--processes", str(processes)])
    sets = len(nooch.load_suite(out).keys)
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    shutil.rmtree(out)
    return {"seconds": seconds, "memory": memory, "sets": sets, "suite_mb": size}


def main() -> None:
    """Run and print."""
    command = parser(__doc__, images=125_000, factors="1,10", part=125_000, processes=2)
    command.add_argument("--find", type=Path, help=argparse.SUPPRESS)
    command.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = command.parse_args()
    if arguments.find is not None:
        find(arguments.find, arguments.out, arguments.processes)
        return
    figures = []
    for factor in map(int, arguments.factors.split(",")):
        images = arguments.images * factor
        folder = dataset(images, arguments.part)
        facts = {"images": images, **figures_of(folder, arguments.processes)}
        figures.append(facts)
        parts, seconds = open_dataset(folder).n_parts, facts["seconds"]
        per_million = f"{1e6 * seconds / images:.1f} s per million"
        suite = f"{facts['sets']} sets, {facts['suite_mb']:,.0f} MB"
        print(f"{images:,} images in {parts} parts: {seconds:.1f} s, {per_million};", end=" ")
        print(f"peak memory {facts['memory']}; {suite}", flush=True)
    write_json(arguments.json, {"machine": machine(), "growth": figures})


if __name__ == "__main__":
    main()
