"""Write COCO-format annotations of made-up scenes: instances, stuff, captions and a split. Images
are not drawn.

Scenes bring their stuff and things with them, so that context means something: a street has road,
pavement and cars. The same numbers of images, annotations and captions as COCO-Stuff come out for
123,287 images (about 1.1 GB).

    python tests/generate_annotations.py OUT --images 3000 --seed 0
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask

from nooch.readers.coco.cocostuff import COCOSTUFF, COCOSTUFF_IDS

SIZES = ((640, 480), (480, 640), (640, 427))
BUCKETS = np.geomspace(0.002, 0.6, 12)  # areas of segments, fractions of the image
POOL = 40
"""Shapes per size, bucket and kind; drawing one for each annotation would take an hour."""

# a scene: its words in captions, then its stuff and its things, each with probability and area
Words = dict[str, tuple[float, float]]
SCENES: dict[str, tuple[list[str], Words, Words]] = {
    "street": (
        ["a busy city street", "a road in town", "an intersection downtown"],
        {"road": (0.93, 0.3), "pavement": (0.8, 0.12), "building-other": (0.85, 0.2),
         "sky-other": (0.6, 0.12), "tree": (0.5, 0.08)},
        {"car": (0.75, 0.03), "person": (0.6, 0.02), "traffic_light": (0.3, 0.005),
         "bus": (0.15, 0.1), "truck": (0.15, 0.08),
         "bicycle": (0.12, 0.03), "motorcycle": (0.1, 0.05), "fire_hydrant": (0.12, 0.03),
         "stop_sign": (0.08, 0.03)},
    ),
    "beach": (
        ["a sandy beach", "the sea shore", "waves in the ocean"],
        {"sea": (0.95, 0.4), "sand": (0.7, 0.2), "sky-other": (0.8, 0.25), "clouds": (0.3, 0.1)},
        {"person": (0.7, 0.03), "surfboard": (0.45, 0.03), "boat": (0.2, 0.04),
         "kite": (0.15, 0.01), "umbrella": (0.1, 0.04), "dog": (0.06, 0.03)},
    ),
    "harbour": (
        ["boats in a harbour", "a pier by the water", "a quiet marina"],
        {"sea": (0.75, 0.35), "river": (0.3, 0.25), "sky-other": (0.85, 0.3),
         "building-other": (0.4, 0.08)},
        {"boat": (0.9, 0.05), "person": (0.3, 0.01), "bird": (0.2, 0.01)},
    ),
    "pasture": (
        ["a green pasture", "a field on a farm", "a grassy hill"],
        {"grass": (0.95, 0.45), "tree": (0.7, 0.15), "sky-other": (0.6, 0.2), "fence": (0.4, 0.04)},
        {"cow": (0.4, 0.06), "sheep": (0.35, 0.04), "horse": (0.3, 0.07), "bird": (0.08, 0.01),
         "person": (0.15, 0.02)},
    ),
    "airfield": (
        ["an airport runway", "planes on the tarmac", "the sky above an airfield"],
        {"sky-other": (0.93, 0.5), "pavement": (0.4, 0.15), "grass": (0.35, 0.1),
         "clouds": (0.3, 0.15)},
        {"airplane": (0.9, 0.12), "truck": (0.15, 0.02), "person": (0.15, 0.01)},
    ),
    "park": (
        ["a park on a sunny day", "an open field", "a lawn with trees"],
        {"grass": (0.9, 0.4), "tree": (0.8, 0.2), "sky-other": (0.7, 0.3)},
        {"person": (0.75, 0.03), "kite": (0.25, 0.01), "frisbee": (0.2, 0.005),
         "dog": (0.2, 0.04), "bench": (0.2, 0.04),
         "bicycle": (0.1, 0.03), "backpack": (0.1, 0.01)},
    ),
    "stadium": (
        ["a ball game", "players on a field", "a match in a stadium"],
        {"playingfield": (0.95, 0.5), "fence": (0.4, 0.08), "grass": (0.3, 0.15)},
        {"person": (0.95, 0.08), "sports_ball": (0.5, 0.002), "tennis_racket": (0.3, 0.01),
         "baseball_bat": (0.25, 0.005), "baseball_glove": (0.25, 0.005)},
    ),
    "kitchen": (
        ["a kitchen", "a cook at the stove", "a counter full of dishes"],
        {"wall-other": (0.7, 0.2), "cabinet": (0.8, 0.2), "counter": (0.6, 0.12),
         "floor-tile": (0.4, 0.1)},
        {"oven": (0.5, 0.1), "sink": (0.45, 0.04), "refrigerator": (0.4, 0.12),
         "bowl": (0.3, 0.015), "cup": (0.25, 0.008),
         "bottle": (0.35, 0.006), "microwave": (0.25, 0.03), "person": (0.3, 0.12),
         "knife": (0.15, 0.004), "spoon": (0.12, 0.003)},
    ),
    "meal": (
        ["a meal on a table", "plates of food", "breakfast at a restaurant"],
        {"food-other": (0.6, 0.15), "wall-other": (0.35, 0.15), "table": (0.2, 0.2),
         "napkin": (0.2, 0.03)},
        {"dining_table": (0.9, 0.45), "bowl": (0.5, 0.05), "cup": (0.5, 0.02),
         "fork": (0.35, 0.008), "knife": (0.3, 0.008),
         "spoon": (0.25, 0.005), "pizza": (0.25, 0.15), "cake": (0.12, 0.1),
         "wine_glass": (0.2, 0.015), "bottle": (0.3, 0.01), "person": (0.4, 0.15)},
    ),
    "office": (
        ["people in an office", "a meeting of colleagues", "a man dressed for work"],
        {"wall-other": (0.85, 0.35), "window-other": (0.4, 0.1), "ceiling-other": (0.3, 0.08)},
        {"person": (0.95, 0.3), "tie": (0.45, 0.01), "laptop": (0.35, 0.03), "chair": (0.5, 0.05),
         "cell_phone": (0.15, 0.003), "backpack": (0.1, 0.02)},
    ),
    "living_room": (
        ["a living room", "a cosy room with a sofa", "a room in a house"],
        {"wall-other": (0.9, 0.3), "carpet": (0.4, 0.15), "floor-wood": (0.35, 0.15),
         "window-other": (0.5, 0.08)},
        {"couch": (0.6, 0.15), "tv": (0.5, 0.05), "chair": (0.5, 0.06), "book": (0.35, 0.004),
         "cat": (0.2, 0.08), "dog": (0.15, 0.07), "person": (0.35, 0.1)},
    ),
    "mountain": (
        ["a snowy mountain", "a ski slope", "people in the snow"],
        {"snow": (0.95, 0.55), "sky-other": (0.6, 0.2), "tree": (0.5, 0.12),
         "mountain": (0.4, 0.1)},
        {"person": (0.9, 0.03), "skis": (0.6, 0.008), "snowboard": (0.3, 0.01),
         "backpack": (0.25, 0.008)},
    ),
}  # fmt: skip


def main() -> None:
    """Parse arguments and write the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    images = [
        {
            "license": 1,
            "file_name": f"{i:012d}.jpg",
            "height": SIZES[s][1],
            "width": SIZES[s][0],
            "id": i,
        }
        for i, s in enumerate(size.tolist(), 1)
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
        categories = [
            {
                "supercategory": kind,
                "id": COCOSTUFF_IDS[names[c]],
                "name": names[c].replace("_", " "),
            }
            for c in columns
        ]
        if kind == "stuff":
            categories.append({"supercategory": "other", "id": 183, "name": "other"})
        _write(out / file, images, categories, annotations)
    _write(out / "captions.json", images, None, _captions(scene, present, names, random))


def _world(
    names: list[str], random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probability and typical area of every class in every scene, float64 (n_scenes, n_classes)."""
    probability = np.where([COCOSTUFF[name] == "stuff" for name in names], 0.025, 0.012) * np.ones(
        (len(SCENES), 1)
    )
    area = np.tile(np.exp(random.normal(np.log(0.02), 0.7, len(names))), (len(SCENES), 1))
    told = {name for _, stuff, things in SCENES.values() for name in (*stuff, *things)}
    for column, name in enumerate(names):
        if name not in told:
            # what no scene is about turns up in two of them
            homes = random.choice(len(SCENES), size=2, replace=False)
            probability[homes, column] = 0.18 if COCOSTUFF[name] == "stuff" else 0.05
    for row, (_, stuff, things) in enumerate(SCENES.values()):
        for name, (chance, typical) in {**stuff, **things}.items():
            probability[row, names.index(name)] = chance
            area[:, names.index(name)] = np.where(
                probability[:, names.index(name)] < 0.03, typical, area[:, names.index(name)]
            )
            area[row, names.index(name)] = typical
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
    columns = zip(
        rows.tolist(),
        classes.tolist(),
        size[rows].tolist(),
        bucket.tolist(),
        choice.tolist(),
        strict=True,
    )
    for number, (row, column, s, b, c) in enumerate(columns, start):
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
    return (
        json.dumps([np.column_stack([x, y]).ravel().round(2).tolist()]),
        round(area, 5),
        json.dumps(box),
    )


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
    "",
    "large ",
    "small ",
    "old ",
    "white ",
    "red ",
    "colorful ",
    "wooden ",
    "dark ",
    "bright ",
)


def _captions(
    scene: NDArray[Any], present: NDArray[np.bool_], names: list[str], random: np.random.Generator
) -> Iterator[str]:
    words = [
        name.removesuffix("-other").removesuffix("-stuff").replace("_", " ").replace("-", " ")
        for name in names
    ]
    titles = [titles for titles, _, _ in SCENES.values()]
    number = 0
    for row, kind in enumerate(scene.tolist()):
        there = np.flatnonzero(present[row]).tolist() or [0]
        for form, a, b, title, first, second in random.integers(
            1 << 30, size=(5 + (row % 360 == 0), 6)
        ).tolist():
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
    head = {
        "info": {"description": "made-up scenes"},
        "licenses": [{"id": 1, "name": "CC0 1.0", "url": ""}],
        "images": images,
    }
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
