"""Import of things and stuff of COCO-Stuff's size against other readers, whole processes in turn.

pycocotools and faster-coco-eval load both files with their ``COCO`` and sum areas by image and
category. "The bytes" reads both files into memory and does nothing with them. nooch also hashes the
sources, checks ids and areas, and writes the dataset folder.

    python benchmarks/bench_import.py [--images 123287] [--runs 3] [--json FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

from measuring import Spread, alternate, machine, nooch_command, parser, ratios, write_json

HERE = Path(__file__).parent
# the generator of annotations is with the tests
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


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=123_287, runs=5).parse_args()
    source = annotation_files(arguments.images)
    out = HERE / "data" / "dataset"
    python = [sys.executable, "-c"]
    files = [f"{source}/instances.json", "--stuff", f"{source}/stuff.json"]
    commands = {"nooch": nooch_command("import coco --split 70/10/20 --things", *files, out)}
    for peer, module in (("pycocotools", "pycocotools.coco"), ("faster-coco-eval",) * 2):
        program = PEER.replace("MODULE", module.replace("-", "_"))
        commands[peer] = [*python, program, str(source), "on"]
        commands[f"{peer}, garbage collector off"] = [*python, program, str(source), "off"]
    commands["the bytes"] = [*python, BYTES, str(source)]
    times, memory = alternate(commands, arguments.runs, before={"nooch": ["rm", "-rf", str(out)]})
    size = sum((source / f"{name}.json").stat().st_size for name in ("instances", "stuff")) / 1e9
    print(f"Import of {arguments.images:,} images, {size:.2f} GB")
    figures: dict[str, object] = {"machine": machine(), "gigabytes": size}
    figures |= {"seconds": times, "memory": memory}
    for name, seconds in times.items():
        print(f"{name}: {Spread.from_values(seconds)} s; peak {memory[name]}")
    for name in list(commands)[1:]:
        ratio = ratios(times[name], times["nooch"])
        # nothing is faster than reading the bytes: there the ratio is how much longer it takes
        if name == "the bytes":
            ratio = ratios(times["nooch"], times[name])
        print(f"nooch against {name}: {ratio} times as {'long' if name == 'the bytes' else 'fast'}")
        figures[f"ratio to {name}"] = ratio
    write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
