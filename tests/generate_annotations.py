"""Write COCO-format annotations of made-up scenes: instances, stuff and captions, no images.

Scenes have their own stuff and things, so that there is context: a street has road, pavement and
cars. 123,287 images have as many annotations and captions as COCO-Stuff (about 1.1 GB).

    python tests/generate_annotations.py OUT --images 3000 --seed 0
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from pycocotools import mask

from nooch.data.readers.cocostuff import COCOSTUFF, COCOSTUFF_IDS

SIZES = ((640, 480), (480, 640), (640, 427))
BUCKETS = np.geomspace(0.002, 0.6, 12)  # areas of segments, fractions of the image
POOL = 40  # shapes for each size, bucket and kind; a shape per annotation would take an hour

SCENES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("generated_scenes.yaml").read_text(encoding="utf-8")
)
"""Scene -> ``captions``, ``stuff`` and ``things`` (class -> probability and area)."""


def main() -> None:
    """Parse arguments and write the files."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generate(arguments.out, arguments.images, arguments.seed)


def generate(out: Path, n_images: int, seed: int) -> None:
    """Write ``instances.json``, ``stuff.json`` and ``captions.json`` into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    names = list(COCOSTUFF)
    probability, area = _world(names, random)
    scene = random.integers(len(SCENES), size=n_images)
    size = random.integers(len(SIZES), size=n_images)
    present = random.random((n_images, len(names))) < probability[scene]
    sizes = [{"height": SIZES[s][1], "width": SIZES[s][0]} for s in size.tolist()]
    images = [
        {"license": 1, "file_name": f"{i:012d}.jpg", **pixels, "id": i}
        for i, pixels in enumerate(sizes, 1)
    ]
    for kind, file in (("thing", "instances.json"), ("stuff", "stuff.json")):
        columns = [c for c, name in enumerate(names) if COCOSTUFF[name] == kind]
        rows, which = np.nonzero(present[:, columns])
        classes = np.array(columns)[which]
        if kind == "thing":
            repeats = random.geometric(0.45, size=len(rows))
            rows, classes = np.repeat(rows, repeats), np.repeat(classes, repeats)
        wanted = area[scene[rows], classes] * np.exp(random.normal(0, 0.5, len(rows)))
        annotations = _annotations(kind, rows, classes, wanted, size, names, random)
        ids = {names[c]: COCOSTUFF_IDS[names[c]] for c in columns}
        categories = [
            {"supercategory": kind, "id": number, "name": name.replace("_", " ")}
            for name, number in ids.items()
        ]
        if kind == "stuff":
            categories.append({"supercategory": "other", "id": 183, "name": "other"})
        _write(out / file, images, categories, annotations)
    _write(out / "captions.json", images, None, _captions(scene, present, names, random))


def _world(
    names: list[str], random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probability and typical area of every class in every scene, float64 (n_scenes, n_classes)."""
    is_stuff = np.array([COCOSTUFF[name] == "stuff" for name in names])
    probability = np.where(is_stuff, 0.025, 0.012) * np.ones((len(SCENES), 1))
    area = np.tile(np.exp(random.normal(np.log(0.02), 0.7, len(names))), (len(SCENES), 1))
    known = {name for s in SCENES.values() for name in (*s["stuff"], *s["things"])}
    for column, name in enumerate(names):
        if name not in known:
            # a class of no scene appears in two of them
            homes = random.choice(len(SCENES), size=2, replace=False)
            probability[homes, column] = 0.18 if is_stuff[column] else 0.05
    for row, scene in enumerate(SCENES.values()):
        for name, (chance, typical) in {**scene["stuff"], **scene["things"]}.items():
            column = names.index(name)
            probability[row, column] = chance
            area[probability[:, column] < 0.03, column] = typical
            area[row, column] = typical
    return probability, area


def _annotations(
    kind: str,
    rows: NDArray[Any],
    classes: NDArray[Any],
    wanted: NDArray[np.float64],
    size: NDArray[Any],
    names: list[str],
    random: np.random.Generator,
) -> Iterator[str]:
    shapes = _polygons(random) if kind == "thing" else _masks(random)
    bucket = np.abs(np.log(wanted)[:, None] - np.log(BUCKETS)[None]).argmin(axis=1)
    choice = random.integers(POOL, size=len(rows))
    ids = [COCOSTUFF_IDS[name] for name in names]
    start = 1 if kind == "thing" else 10_000_000
    columns = (rows, classes, size[rows], bucket, choice)
    for number, entry in enumerate(zip(*(c.tolist() for c in columns), strict=True), start):
        row, column, s, b, c = entry
        segmentation, area, box = shapes[s][b][c]
        yield (
            f'{{"segmentation": {segmentation}, "area": {area}, "iscrowd": 0, "image_id":'
            f' {row + 1}, "bbox": {box}, "category_id": {ids[column]}, "id": {number}}}'
        )


def _polygons(random: np.random.Generator) -> list[list[list[tuple[str, float, str]]]]:
    """Random polygons by image size and area bucket: JSON text, area, box."""
    return [
        [[_polygon(width, height, a, random) for _ in range(POOL)] for a in BUCKETS]
        for width, height in SIZES
    ]


def _polygon(
    width: int, height: int, fraction: float, random: np.random.Generator
) -> tuple[str, float, str]:
    points = int(random.integers(8, 44))
    angles = np.sort(random.random(points)) * 2 * np.pi
    radius = np.sqrt(fraction * width * height / np.pi) * random.uniform(0.85, 1.15, points)
    x = np.clip(random.uniform(0.3, 0.7) * width + radius * np.cos(angles), 0, width).round(2)
    y = np.clip(random.uniform(0.3, 0.7) * height + radius * np.sin(angles), 0, height).round(2)
    area = abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    box = [round(float(v), 2) for v in (x.min(), y.min(), np.ptp(x), np.ptp(y))]
    points_text = json.dumps([np.column_stack([x, y]).ravel().round(2).tolist()])
    return points_text, round(area, 5), json.dumps(box)


def _masks(random: np.random.Generator) -> list[list[list[tuple[str, float, str]]]]:
    """Wavy bands of the wanted area, run-length encoded, by image size and area bucket."""
    return [
        [[_band(width, height, a, random) for _ in range(POOL)] for a in BUCKETS]
        for width, height in SIZES
    ]


def _band(
    width: int, height: int, fraction: float, random: np.random.Generator
) -> tuple[str, float, str]:
    x = np.arange(width)
    share = max(min(1.0, 1.2 * fraction), random.uniform(0.1, 0.75))
    tall = fraction / share * height
    wave = np.cumsum(random.normal(0, 1.0, width)) + 8 * np.sin(x / random.uniform(15, 60))
    top = random.uniform(0, max(1.0, height - tall)) + wave - wave.mean()
    left = random.uniform(0, 1 - share) * width
    rows = np.arange(height)[:, None]
    drawn = (rows >= top) & (rows < top + tall) & (x >= left) & (x < left + share * width)
    encoded = mask.encode(np.asfortranarray(drawn.astype(np.uint8)))
    box = [float(v) for v in mask.toBbox(encoded)]
    text = json.dumps({"counts": encoded["counts"].decode(), "size": [height, width]})
    return text, float(mask.area(encoded)), json.dumps(box)


_FORMS = (
    "{scene} with a {a} and a {b}.",
    "A {a} next to a {b} in {scene}.",
    "This picture shows {scene} with a {a}.",
    "There is a {a} and some {b} near {scene}.",
    "{scene}, where a {a} can be seen.",
    "A view of {scene} with {b} in it.",
    "A {a} in front of the {b}, {scene}.",
)
_ADJECTIVES = (
    "", "large ", "small ", "old ", "white ", "red ", "colorful ", "wooden ", "dark ", "bright ",
)  # fmt: skip

_SPACES = str.maketrans("_-", "  ")


def _captions(
    scene: NDArray[Any], present: NDArray[np.bool_], names: list[str], random: np.random.Generator
) -> Iterator[str]:
    words = [re.sub(r"(-other)?(-stuff)?$", "", name).translate(_SPACES) for name in names]
    titles = [scene["captions"] for scene in SCENES.values()]
    number = 0
    for row, kind in enumerate(scene.tolist()):
        there = np.flatnonzero(present[row]).tolist() or [0]
        lots = random.integers(1 << 30, size=(5 + (row % 360 == 0), 6)).tolist()
        for form, a, b, title, first, second in lots:
            number += 1
            text = _FORMS[form % len(_FORMS)].format(
                scene=titles[kind][title % len(titles[kind])],
                a=_ADJECTIVES[first % len(_ADJECTIVES)] + words[there[a % len(there)]],
                b=_ADJECTIVES[second % len(_ADJECTIVES)] + words[there[b % len(there)]],
            )
            yield (
                f'{{"image_id": {row + 1}, "id": {number}, "caption":'
                f" {json.dumps(text[0].upper() + text[1:])}}}"
            )


def _write(
    path: Path,
    images: list[dict[str, Any]],
    categories: list[dict[str, Any]] | None,
    annotations: Iterator[str],
) -> None:
    licenses = [{"id": 1, "name": "CC0 1.0", "url": ""}]
    head = {"info": {"description": "made-up scenes"}, "licenses": licenses, "images": images}
    if categories is not None:
        head["categories"] = categories
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "annotations": [')
        block: list[str] = []
        separator = ""
        for annotation in annotations:
            block.append(annotation)
            if len(block) == 10_000:
                file.write(separator + ", ".join(block))
                block, separator = [], ", "
        file.write((separator if block else "") + ", ".join(block) + "]}")


if __name__ == "__main__":
    main()
