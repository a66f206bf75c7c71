"""COCO files made up for tests, and a slow, obvious reading of them."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from PIL import Image

THINGS = {1: "person", 3: "car", 11: "fire hydrant", 90: "toothbrush"}
STUFF = {92: "banner", 100: "cardboard", 149: "road", 183: "other"}
# quarters of pixels: sums of them are exact, whatever their order
AREAS = st.integers(0, 4000).map(lambda quarters: quarters / 4)


def photo(width: int, height: int, turn: int = 1) -> bytes:
    """A JPEG, which EXIF may turn."""
    content, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = turn
    more = {} if turn == 1 else {"exif": exif}
    Image.new("RGB", (width, height)).save(content, "JPEG", **more)
    return content.getvalue()


PHOTO = photo(4, 4)
"""A JPEG of 4 x 4 pixels."""


def write(path: Path, content: Any) -> Path:
    """Write JSON, text or bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, bytes | str):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def image(number: int, width: int = 4, height: int = 4, **more: Any) -> dict[str, Any]:
    """An entry of a file's list of images."""
    size = {"width": width, "height": height}
    return {"id": number, **size, "file_name": f"{number:012d}.jpg", **more}


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
        "annotations": [{"id": i, **annotation} for i, annotation in enumerate(annotations, 1)],
        "categories": [{"id": i, "name": name, "supercategory": "x"} for i, name in named.items()],
    }


# COCO's are small; others are not
IDS = st.integers(0, 10**6) | st.integers(-9, 2**62)


@st.composite
def collections(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """One or two things files and up to two stuff files, which cover part of the images."""
    pixels = st.tuples(st.integers(4, 700), st.integers(4, 700))
    sizes = {i: draw(pixels) for i in draw(st.sets(IDS, min_size=1, max_size=8))}
    result = {}
    for role, categories in (("things", THINGS), ("stuff", STUFF)):
        mine = [i for i in sizes if draw(st.integers(0, 4))] if role == "stuff" else list(sizes)
        parts = [mine]
        if draw(st.booleans()):
            parts = [[i for i in mine if i % 2], [i for i in mine if not i % 2]]
        result[role] = []
        for part in filter(None, parts):
            lists = [st.lists(_annotation(i, categories), max_size=4) for i in part]
            annotations = [entry for entries in lists for entry in draw(entries)]
            for number, annotation in enumerate(annotations):
                # no two are alike
                annotation["bbox"][1] = number / 100
            images = [image(i, *sizes[i]) for i in part]
            result[role].append(document(images, annotations, categories))
    return result


@st.composite
def _annotation(draw: st.DrawFn, image_id: int, categories: dict[int, str]) -> dict[str, Any]:
    area = draw(AREAS)
    return {
        "image_id": image_id,
        "category_id": draw(st.sampled_from(list(categories))),
        "area": area,
        "iscrowd": draw(st.integers(0, 1)),
        "segmentation": [[0, 0, 1, 0, 1, 1]],
        "bbox": [0, 0, area, 1],
    }


# texts that look like what lies between elements, and like keys
AWKWARD = st.sampled_from(
    ["}, {", '},{"n":1', '"annotations": [', '"images": [{"id": 5}]', "}]", "]}", '\\"}, {\\"',
     '}, {"image_id": 1, "category_id": 1}, {', "{}", "[", "a, b", '"', "", "é{", "\\", "images"]
)  # fmt: skip
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
VALUES = st.recursive(
    AWKWARD | NUMBERS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AWKWARD, inner, max_size=2),
    max_leaves=8,
)
LOOKALIKES = st.lists(st.fixed_dictionaries({"n": st.just(7)}), max_size=3)
INNER = VALUES | LOOKALIKES
INNER |= st.fixed_dictionaries({"annotations": LOOKALIKES, "images": LOOKALIKES})
INNER |= st.lists(st.fixed_dictionaries({"images": VALUES, "annotations": VALUES}), max_size=3)
NAMES = st.none() | st.sampled_from(["a},{b.jpg", "s/x.jpg", "],[.png"])


def as_json(draw: st.DrawFn, value: Any) -> str:
    """JSON in some spacing."""
    spaced: dict[str, Any] = {"separators": (",", ":")}
    if draw(st.booleans()):
        spaced = {"indent": draw(st.sampled_from([None, 0, 2]))}
    return json.dumps(value, ensure_ascii=draw(st.booleans()), **spaced)


@st.composite
def sources(draw: st.DrawFn, names: bool = False) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Documents by role, and their text: members in any order, awkward values, masks for areas.

    With ``names``, some images have another file name in each of the files, or none.
    """
    contents = draw(collections())
    every = {i["id"]: i for files in contents.values() for file in files for i in file["images"]}
    for file in (file for files in contents.values() for file in files):
        for annotation in file["annotations"]:
            annotation["attributes"] = draw(INNER)
            size = [every[annotation["image_id"]][side] for side in ("height", "width")]
            if draw(st.integers(0, 3)) == 0:
                pixels = draw(st.integers(0, size[0] * size[1]))
                counts = [size[0] * size[1] - pixels, pixels]
                annotation["segmentation"] = {"counts": counts, "size": size}
                annotation["area"] = draw(st.sampled_from([None, float(pixels)]))
                annotation["pixels"] = pixels
                # a box that has the mask's area: what contradicts its box is another test's
                annotation["bbox"][2] = pixels
                if draw(st.booleans()):
                    del annotation["area"]
        for entry in file["images"]:
            if names and draw(st.integers(0, 3)) == 0:
                entry["file_name"] = draw(NAMES)
        file["more"] = draw(INNER)
    if draw(st.booleans()):
        listed = [*every.values(), image(2**62 + 1)]
        ids = st.sampled_from([entry["id"] for entry in listed])
        said = st.fixed_dictionaries({"image_id": ids, "caption": AWKWARD})
        contents["captions"] = [{"images": listed, "annotations": draw(st.lists(said, max_size=9))}]

    def text(file: dict[str, Any]) -> str:
        members = {key: file[key] for key in draw(st.permutations(sorted(file)))}
        before, after = (draw(st.sampled_from(["", blank])) for blank in (" \n", "\r\n\t "))
        return f"{before}{as_json(draw, members)}{after}"

    return contents, {role: [text(file) for file in files] for role, files in contents.items()}


def naive_areas(documents: Sequence[dict[str, Any]]) -> dict[int, dict[str, float]]:
    """Image id -> class that is present -> sum of the official area over height x width."""
    size, total = {}, defaultdict(lambda: defaultdict(float))
    for content in documents:
        names = {c["id"]: c["name"].replace(" ", "_") for c in content["categories"]}
        for entry in content["images"]:
            size[entry["id"]] = entry["width"] * entry["height"]
        for entry in content["annotations"]:
            if entry["category_id"] != 183:
                total[entry["image_id"]][names[entry["category_id"]]] += entry["area"]
    return {i: {name: area / size[i] for name, area in total[i].items()} for i in size}


def areas_of(data: Any) -> dict[int | str, dict[str, float]]:
    """The same from a Dataset: every entry of the matrix that is stored."""
    ids = data.images["image_id"].to_list()
    areas: dict[int | str, dict[str, float]] = {i: {} for i in ids}
    triples = data.areas.tocoo()
    for row, column, area in zip(triples.row, triples.col, triples.data, strict=True):
        areas[ids[row]][data.classes[column]] = float(area)
    return areas


def check_areas(data: Any, expected: dict[int, dict[str, float]], rel: float = 0.0) -> None:
    """Assert that images, their classes and areas are the expected ones, within 1e-12."""
    areas = areas_of(data)
    assert set(areas) == set(expected)
    for image_id, classes in expected.items():
        assert areas[image_id] == pytest.approx(classes, abs=1e-12, rel=rel)
