"""Small annotations in every format, by integer arithmetic: the same bytes everywhere."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from coco_files import STUFF, document, image, write
from PIL import Image

IMAGES = 240


def make(folder: Path) -> None:
    """Write COCO files, tables, label maps and boxes below a folder."""
    _coco(folder / "coco")
    _tables(folder)
    _maps(folder / "maps")
    _boxes(folder / "boxes")


def _coco(folder: Path) -> None:
    images = [image(7 * i + 3, 40, 30) for i in range(IMAGES)]
    things, stuff, captions = [], [], []
    for i, one in enumerate(images):
        for step, category in enumerate((1, 3, 11)):
            if (i * (step + 2)) % 5 < 2:
                area = (i * 37 + step * 101) % 400 / 4
                things.append({"image_id": one["id"], "category_id": category, "area": area})
        if i % 9 == 4:
            # no area: the mask is counted
            square = [[2, 2, 12, 2, 12, 12, 2, 12]]
            things.append({"image_id": one["id"], "category_id": 90, "segmentation": square})
        if (i * 2) % 5 < 3:
            stuff.append({"image_id": one["id"], "category_id": 149, "area": float(i * 53 % 900)})
        if i % 4 == 1:
            stuff.append({"image_id": one["id"], "category_id": 92, "area": float(i * 29 % 700)})
        captions += [
            {"image_id": one["id"], "caption": f"view {i % 11} of place {i % k}"} for k in (3, 5)
        ]
    write(folder / "instances.json", document(images, things))
    write(folder / "stuff.json", document(images, stuff, STUFF))
    write(folder / "captions.json", {"images": images, "annotations": captions})


def _tables(folder: Path) -> None:
    classes = (("boat", 1024), ("bird", 512), ("sand", 64))
    pairs = [(i, k) for i in range(IMAGES) for k in range(3) if (i + k) % 4]
    areas = [(i * 31 + k * 17) % 64 / classes[k][1] for i, k in pairs]
    rows = [
        [f"im{i:04d}", classes[k][0], area, "sea" if i % 3 else "land"]
        for (i, k), area in zip(pairs, areas, strict=True)
    ]
    _csv(folder / "long.csv", ["id", "class", "area", "place"], rows)
    labels = [[i * 5, i % 2, ("a", "b", "c")[i % 3], i * 19 % 23] for i in range(IMAGES)]
    _csv(folder / "labels.csv", ["id", "boat", "kind", "hour"], labels)


def _csv(path: Path, columns: list[str], rows: list[list[Any]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    path.write_text(text.getvalue(), encoding="utf-8")


def _maps(folder: Path) -> None:
    folder.mkdir()
    across, down = np.meshgrid(np.arange(16), np.arange(12))
    for i in range(30):
        values = ((across * (i + 1) + down * 3) // 7 % 4).astype(np.uint8)
        Image.fromarray(values).save(folder / f"{i * 3:05d}.png")
    write(folder.parent / "map-classes.txt", "sky\nsea\nsand\nboat\n")


def _boxes(folder: Path) -> None:
    for i in range(30):
        lines = [f"{(i + k) % 3} 0.5 0.5 0.{1 + (i * k) % 8}25 0.25" for k in range(i % 4)]
        write(folder / f"{i:05d}.txt", "".join(f"{line}\n" for line in lines))
    write(folder.parent / "box-classes.txt", "boat\nbird\nsand\n")
