"""Generated scenes per second, by processes, and whether memory grows with their number.

    python benchmarks/bench_scenes.py [--images 4000] [--runs 3] [--json FILE]

Whole processes, start included, in turns: ``nooch tools scenes`` at 128 pixels with one and with
two workers (the peer of two is one), and with a quarter of the images, to compare the first round's
peak of memory. Files are in memory if there is a folder for that, so that the disk is not measured.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench_pixels import memory_folder
from measuring import Spread, alternate, machine, nooch_command, parser, ratios, write_json


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=4000, size=128, runs=3).parse_args()
    many, side = arguments.images, arguments.size
    cases = {"1 process": (many, 1), "2 processes": (many, 2)}
    cases["2 processes, a quarter"] = (many // 4, 2)
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        commands = {}
        for number, (name, (images, workers)) in enumerate(cases.items()):
            options = f"--size {side} --images {images} --processes {workers} --overwrite"
            commands[name] = nooch_command(f"scenes {options}", Path(folder) / str(number))
        seconds, memory = alternate(commands, arguments.runs)
    ratio = ratios(seconds["1 process"], seconds["2 processes"])
    for name, taken in seconds.items():
        images, peak = cases[name][0], f"{memory[name].total_mb:.0f} MB"
        speed = Spread.from_values([images / s for s in taken])
        print(f"{name}, {images:,} images of {side} x {side}: {speed} images/s, peak {peak}")
    growth = memory["2 processes"].total_mb - memory["2 processes, a quarter"].total_mb
    print(f"two processes against one: {ratio} times as fast")
    print(f"four times as many images: {growth:+.0f} MB at the peak, all processes together")
    figures = {"seconds": seconds, "memory": memory, "ratio": ratio}
    write_json(arguments.json, {"machine": machine(), **figures})


if __name__ == "__main__":
    main()
