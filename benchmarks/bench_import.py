"""Import of things and stuff of COCO-Stuff's size against other readers and against reading the
bytes, whole processes in turn.

pycocotools and faster-coco-eval load both files with their ``COCO`` and sum areas by image and
category. "The bytes" reads both files into memory and does nothing with them. nooch also hashes the
sources, checks ids and areas, and writes the dataset folder.

    python benchmarks/bench_import.py [--images 123287] [--runs 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from measuring import Spread, alternate, machine, ratios, write_json

HERE = Path(__file__).parent
# the generator of annotations lies with the tests
sys.path.append(str(HERE.parent / "tests"))
from generate_annotations import generate  # noqa: E402

PEER = """
import gc, sys
if sys.argv[2] == "off":
    gc.disable()
from collections import Counter
from MODULE import COCO
areas = Counter()
for name in ("instances", "stuff"):
    coco = COCO(f"{sys.argv[1]}/{name}.json")
    size = {i: image["height"] * image["width"] for i, image in coco.imgs.items()}
    for a in coco.anns.values():
        areas[a["image_id"], a["category_id"]] += a["area"] / size[a["image_id"]]
print(len(areas))
"""


BYTES = """
import sys
print(sum(len(open(f"{sys.argv[1]}/{name}.json", "rb").read()) for name in ("instances", "stuff")))
"""


def annotation_files(images: int) -> Path:
    """The generated files, made once."""
    folder = HERE / "data" / f"annotations-{images}"
    if not (folder / "captions.json").is_file():
        generate(folder, images, seed=0)
    return folder


def loading(module: str) -> str:
    """The program of a peer that has a ``COCO``."""
    return PEER.replace("MODULE", module)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=123_287)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    source = annotation_files(arguments.images)
    out = HERE / "data" / "dataset"
    python = sys.executable
    nooch = [
        python,
        "-m",
        "nooch",
        "import",
        "coco",
        "--things",
        f"{source}/instances.json",
        "--stuff",
        f"{source}/stuff.json",
    ]
    commands = {
        "nooch": [*nooch, "--split", "70/10/20", str(out)],
        "pycocotools": [python, "-c", loading("pycocotools.coco"), str(source), "on"],
        "pycocotools, garbage collector off": [
            python,
            "-c",
            loading("pycocotools.coco"),
            str(source),
            "off",
        ],
        "faster-coco-eval": [python, "-c", loading("faster_coco_eval"), str(source), "on"],
        "faster-coco-eval, garbage collector off": [
            python,
            "-c",
            loading("faster_coco_eval"),
            str(source),
            "off",
        ],
        "the bytes": [python, "-c", BYTES, str(source)],
    }
    found, memory = alternate(commands, arguments.runs, before={"nooch": ["rm", "-rf", str(out)]})
    size = sum((source / f"{name}.json").stat().st_size for name in ("instances", "stuff")) / 1e9
    print(f"Import of {arguments.images:,} images, {size:.2f} GB")
    figures: dict[str, object] = {
        "machine": machine(),
        "gigabytes": size,
        "seconds": found,
        "memory": memory,
    }
    for name, seconds in found.items():
        peak = memory[name]
        print(
            f"{name}: {Spread.of(seconds)} s; peak {peak.total_mb:,.0f} MB in all processes,"
            f" {peak.largest_mb:,.0f} MB in one"
        )
    for name in list(commands)[1:]:
        ratio = ratios(found[name], found["nooch"])
        # of reading the bytes, nobody can be faster: there it is how much longer the whole import
        # takes
        if name == "the bytes":
            ratio = ratios(found["nooch"], found[name])
        print(f"nooch against {name}: {ratio} times as {'long' if name == 'the bytes' else 'fast'}")
        figures[f"ratio to {name}"] = ratio
    write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
