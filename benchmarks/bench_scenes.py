"""How many generated scenes a second, by processes, and whether memory grows with their number.

    python benchmarks/bench_scenes.py [--images 4000] [--runs 3] [--json FILE]

Whole processes, start included, in turns: ``nooch scenes`` at 128 pixels with one and with two
workers (the peer of two is one), and with a quarter of the images, where the first round's peak of
memory is compared. Files lie in memory where there is a folder for that, so that the disk is not
what is measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench_pixels import memory_folder
from measuring import Spread, alternate, machine, ratios, write_json


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    few = arguments.images // 4
    cases = {
        "1 process": (arguments.images, 1),
        "2 processes": (arguments.images, 2),
        "2 processes, a quarter": (few, 2),
    }
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        options = ["--size", str(arguments.size), "--overwrite"]
        commands = {
            name: [
                *[sys.executable, "-m", "nooch", "scenes", str(Path(folder) / str(number))],
                *["--images", str(images), "--workers", str(workers), *options],
            ]
            for number, (name, (images, workers)) in enumerate(cases.items())
        }
        seconds, memory = alternate(commands, arguments.runs)
    speed = {
        name: Spread.of([cases[name][0] / s for s in taken]) for name, taken in seconds.items()
    }
    ratio = ratios(seconds["1 process"], seconds["2 processes"])
    side = arguments.size
    for name, value in speed.items():
        print(
            f"{name}, {cases[name][0]:,} images of {side} x {side}: {value} images/s, peak"
            f" {memory[name].total_mb:.0f} MB"
        )
    growth = memory["2 processes"].total_mb - memory["2 processes, a quarter"].total_mb
    print(f"two processes against one: {ratio} times as fast")
    print(f"four times as many images: {growth:+.0f} MB at the peak, all processes together")
    write_json(
        arguments.json, {"machine": machine(), "seconds": seconds, "memory": memory, "ratio": ratio}
    )


if __name__ == "__main__":
    main()
