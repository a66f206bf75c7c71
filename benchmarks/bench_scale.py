"""Growth with size: CE cues and challenge sets of 171 tasks on datasets in parts, of 1, 10 and 80
times as many images.

    python benchmarks/bench_scale.py [--images 125000] [--factors 1,10] [--part 125000] [--processes
    2] [--json FILE]

Datasets are generated (11 classes an image on average, as in COCO-Stuff; split 70/10/20) and kept
in ``benchmarks/data``. Each find is a process of its own, start included; memory is the peak over
all its processes, looked at every 20 ms. 80 times 125,000 are 10 million images.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from measuring import Memory, machine, watch, write_json
from scipy.sparse import csr_array

import nooch
from nooch.data import Dataset, open_dataset, save_dataset
from nooch.engines import LocalEngine

HERE = Path(__file__).parent
CLASSES, SCENES = 171, 12


def part_of(number: int, images: int) -> Dataset:
    """Images of scenes that each have their own usual classes, about 11 an image."""
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
    frame = pl.DataFrame(
        {
            "image_id": np.arange(images) + number * images,
            "split": (
                pl.Series(["train", "valid", "test"]).gather(
                    random.choice(3, images, p=[0.7, 0.1, 0.2])
                )
            ),
        }
    )
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
    """What is measured, in a process of its own."""
    started = time.perf_counter()

    def progress(what: str, done: int, total: int) -> None:
        if done in {0, total}:
            print(
                f"  {time.perf_counter() - started:.1f} s: {what} {done}/{total}",
                file=sys.stderr,
                flush=True,
            )

    nooch.find(
        open_dataset(folder),
        {"ce": nooch.CE(0.05, 0.1)},
        out=out,
        map=LocalEngine(processes).map,
        progress=progress,
    )


def measured(folder: Path, processes: int) -> tuple[float, Memory, int, float]:
    """Seconds, peak memory, number of sets, and MB of the suite."""
    out = folder.with_name(f"{folder.name}-suite")
    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    memory = watch(
        [
            sys.executable,
            __file__,
            "--find",
            str(folder),
            "--out",
            str(out),
            "--processes",
            str(processes),
        ]
    )
    seconds = time.perf_counter() - started
    sets, size = (
        len(nooch.load_suite(out).keys),
        sum(file.stat().st_size for file in out.iterdir()) / 1e6,
    )
    shutil.rmtree(out)
    return seconds, memory, sets, size


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=125_000)
    parser.add_argument("--factors", default="1,10")
    parser.add_argument("--part", type=int, default=125_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--find", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.find is not None:
        find(arguments.find, arguments.out, arguments.processes)
        return
    figures = []
    for factor in map(int, arguments.factors.split(",")):
        images = arguments.images * factor
        folder = dataset(images, arguments.part)
        seconds, memory, sets, size = measured(folder, arguments.processes)
        figures.append(
            {
                "images": images,
                "seconds": seconds,
                "memory": memory.__dict__,
                "sets": sets,
                "suite_mb": size,
            }
        )
        print(
            f"{images:,} images in {open_dataset(folder).n_parts} parts: {seconds:.1f} s,"
            f" {1e6 * seconds / images:.1f} s a million; peak memory {memory.total_mb:,.0f} MB of"
            f" all processes, {memory.largest_mb:,.0f} MB of the largest; {sets} sets,"
            f" {size:,.0f} MB",
            flush=True,
        )
    write_json(arguments.json, {"machine": machine(), "growth": figures})


if __name__ == "__main__":
    main()
