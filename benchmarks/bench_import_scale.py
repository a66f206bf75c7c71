"""Growth of import with size: COCO files of things, stuff and captions of 1, 10, 80 times the size.

    python benchmarks/bench_import_scale.py [--images 40000] [--factors 1,10] [--part 20000]
    [--processes 2] [--keep] [--json FILE]

Several parts (``--part-size``) against one part, as typed in a shell, start included; and against
reading the bytes once. Files are made from one generated set: every copy has the ids ``factor * id
+ copy``, so that the images of any part are spread over a file. Memory is the peak over all
processes, sampled every 20 ms. Files are removed after use (10 times 40,000 images are 3.7 GB).
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from measuring import machine, measured, nooch_command, parser, write_json

from nooch.data.part_files import read_header

HERE = Path(__file__).parent
# the generator of annotations is with the tests
sys.path.append(str(HERE.parent / "tests"))
from generate_annotations import generate  # noqa: E402

ROLES = {"things": "instances", "stuff": "stuff", "captions": "captions"}
READ = (
    "import sys\nfor name in sys.argv[1:]:\n    with open(name, 'rb', 0) as f:\n        while"
    " f.read(1 << 20): pass"
)
_IMAGE, _ANNOTATED = re.compile(rb'("id": )(\d+)(\})'), re.compile(rb'("image_id": )(\d+)()')


def annotation_files(images: int, factor: int) -> Path:
    """The files of ``factor`` times as many images, made once."""
    base = HERE / "data" / f"annotations-{images}"
    if not (base / "captions.json").is_file():
        generate(base, images, seed=0)
    folder = HERE / "data" / f"import-scale-{images}-{factor}"
    folder.mkdir(exist_ok=True)
    for name in ROLES.values():
        if not (folder / f"{name}.json").is_file():
            _repeat(base / f"{name}.json", folder / f"{name}.json", factor)
    return folder


def _repeat(source: Path, out: Path, factor: int) -> None:
    """The images, then the annotations, ``factor`` times, each time with other ids."""
    content = source.read_bytes()
    listed, annotated = content.index(b'"images": [') + 11, content.index(b'"annotations": [') + 16
    close = content.index(b"]", listed)
    parts = (
        (_IMAGE, content[listed:close], content[close:annotated]),
        (_ANNOTATED, content[annotated:-2], b"]}"),
    )
    partial = out.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(content[:listed])
        for pattern, text, then in parts:
            for copy in range(factor):
                file.write((b", " if copy else b"") + _renumbered(pattern, text, factor, copy))
            file.write(then)
    partial.rename(out)


def _renumbered(pattern: re.Pattern[bytes], text: bytes, factor: int, copy: int) -> bytes:
    def other(match: re.Match[bytes]) -> bytes:
        return b"%s%d%s" % (match[1], int(match[2]) * factor + copy, match[3])

    return pattern.sub(other, text)


def annotations_of(images: int) -> int:
    """Annotations and captions in the generated files of one copy."""
    base = HERE / "data" / f"annotations-{images}"
    files = [base / f"{name}.json" for name in ROLES.values()]
    return sum(file.read_bytes().count(b'"image_id": ') for file in files)


def figures_of(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and memory of each way of importing, and of reading."""
    files = {role: str(folder / f"{name}.json") for role, name in ROLES.items()}
    out = HERE / "data" / "import-scale-out"
    words = nooch_command("import coco --split 70/10/20 --overwrite", out)
    words += ["--engine", f"local:{options.processes}"]
    words += [word for role, file in files.items() for word in (f"--{role}", file)]
    figures: dict[str, Any] = {}
    figures["gigabytes"] = sum(Path(file).stat().st_size for file in files.values()) / 1e9
    ways = {"several parts": ["--part-size", str(options.part)], "one part": []}
    for way in options.ways.split(","):
        seconds, memory = measured([*words, *ways[way]])
        figures[way] = {"seconds": seconds, "memory": memory}
        figures[way]["fingerprint"] = read_header(out).fingerprint
        figures["images"] = read_header(out).n_images
        shutil.rmtree(out)
    shutil.rmtree(out.with_name(f"{out.name}-logs"), ignore_errors=True)
    figures["reading"] = measured([sys.executable, "-c", READ, *files.values()])[0]
    return figures


def main() -> None:
    """Run and print."""
    choices = {"factors": "1,10", "ways": "several parts,one part"}
    command = parser(__doc__, images=40_000, part=20_000, processes=2, **choices)
    command.add_argument("--keep", action="store_true")
    arguments = command.parse_args()
    figures = []
    for factor in map(int, arguments.factors.split(",")):
        folder = annotation_files(arguments.images, factor)
        facts = figures_of(folder, arguments)
        facts["annotations"] = annotations_of(arguments.images) * factor
        figures.append(facts)
        print(
            f"{facts['images']:,} images, {facts['annotations'] / 1e6:.1f} million annotations,"
            f" {facts['gigabytes']:.2f} GB; reading the bytes {facts['reading']:.2f} s"
        )
        for way in arguments.ways.split(","):
            seconds, memory = facts[way]["seconds"], facts[way]["memory"]
            rate = f"{1e6 * seconds / facts['annotations']:.2f} s per million annotations"
            times = f"{seconds / facts['reading']:.0f} times reading"
            print(f"  {way}: {seconds:.1f} s, {rate}, {times}; peak memory {memory}", flush=True)
        if len({facts[way]["fingerprint"] for way in arguments.ways.split(",")}) > 1:
            sys.exit("error: the ways give different datasets")
        if not arguments.keep:
            shutil.rmtree(folder)
    write_json(arguments.json, {"machine": machine(), "growth": figures})


if __name__ == "__main__":
    main()
