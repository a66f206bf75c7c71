"""COCO files made up for tests, and a slow, obvious reading of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st

THINGS = {1: "person", 3: "car", 11: "fire hydrant", 90: "toothbrush"}
STUFF = {92: "banner", 100: "cardboard", 149: "road", 183: "other"}
# quarters of pixels: sums of them are exact, whatever their order
AREAS = st.integers(0, 4000).map(lambda quarters: quarters / 4)


def write(path: Path, content: Any) -> Path:
    """Write JSON, text or bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(
            content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
        )
    return path


def image(number: int, width: int = 4, height: int = 4, **more: Any) -> dict[str, Any]:
    """An entry of a file's list of images."""
    return {
        "id": number,
        "width": width,
        "height": height,
        "file_name": f"{number:012d}.jpg",
        **more,
    }


def document(
    images: Sequence[dict[str, Any]],
    annotations: Sequence[dict[str, Any]] = (),
    categories: dict[int, str] | None = None,
) -> dict[str, Any]:
    """An instances or stuff file."""
    named = THINGS if categories is None else categories
    return {
        "info": {"description": "made up"},
        "licenses": [{"id": 1, "name": "CC BY", "url": "https://example.org/by"}],
        "images": list(images),
        "annotations": [
            {"id": number, **annotation} for number, annotation in enumerate(annotations, 1)
        ],
        "categories": [{"id": i, "name": name, "supercategory": "x"} for i, name in named.items()],
    }


# COCO's are small; others are not
IDS = st.integers(0, 10**6) | st.integers(-9, 2**62)


@st.composite
def collections(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """One or two things files and up to two stuff files, of some of the images and others."""
    sizes = {
        i: (draw(st.integers(4, 700)), draw(st.integers(4, 700)))
        for i in draw(st.sets(IDS, min_size=1, max_size=8))
    }
    result = {}
    for role, categories in (("things", THINGS), ("stuff", STUFF)):
        mine = [i for i in sizes if draw(st.integers(0, 4))] if role == "stuff" else list(sizes)
        parts = (
            [[i for i in mine if i % 2], [i for i in mine if not i % 2]]
            if draw(st.booleans())
            else [mine]
        )
        result[role] = [
            document(
                [image(i, *sizes[i]) for i in part],
                [
                    draw(_annotation(i, categories))
                    for i in part
                    for _ in range(draw(st.integers(0, 4)))
                ],
                categories,
            )
            for part in parts
            if part
        ]
    return result


@st.composite
def _annotation(draw: st.DrawFn, image_id: int, categories: dict[int, str]) -> dict[str, Any]:
    return {
        "image_id": image_id,
        "category_id": draw(st.sampled_from(list(categories))),
        "area": draw(AREAS),
        "iscrowd": draw(st.integers(0, 1)),
        "segmentation": [[0, 0, 1, 0, 1, 1]],
        "bbox": [0, 0, 1, 1],
    }


def naive_areas(documents: Sequence[dict[str, Any]]) -> dict[int, dict[str, float]]:
    """Image id -> class that is present -> sum of the official area over height x width."""
    size, total = {}, defaultdict(lambda: defaultdict(float))
    for content in documents:
        names = {c["id"]: c["name"].replace(" ", "_") for c in content["categories"]}
        for entry in content["images"]:
            size[entry["id"]] = entry["width"] * entry["height"]
        for annotation in content["annotations"]:
            if annotation["category_id"] != 183:
                total[annotation["image_id"]][names[annotation["category_id"]]] += annotation[
                    "area"
                ]
    return {i: {name: area / size[i] for name, area in total[i].items()} for i in size}


def areas_of(data: Any) -> dict[int | str, dict[str, float]]:
    """The same from a Dataset: every entry of the matrix that is stored."""
    found: dict[int | str, dict[str, float]] = {i: {} for i in data.images["image_id"]}
    triples = data.areas.tocoo()
    ids = data.images["image_id"].to_list()
    for row, column, area in zip(triples.row, triples.col, triples.data, strict=True):
        found[ids[row]][data.classes[column]] = float(area)
    return found
