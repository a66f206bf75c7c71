"""The 171 classes of COCO-Stuff, and the values of its two kinds of pixel maps."""

from __future__ import annotations

import csv
from importlib import resources

from nooch.base.errors import check_one_of

OTHER = 183
"""Category ``other`` of the stuff files, which stands for things. It is not a class."""


def _rows() -> list[dict[str, str]]:
    text = (
        resources.files("nooch.data.readers")
        .joinpath("cocostuff_classes.csv")
        .read_text(encoding="utf-8")
    )
    return list(csv.DictReader(text.splitlines()))


COCOSTUFF: dict[str, str] = {row["name"]: row["kind"] for row in _rows()}
"""Class name -> ``thing`` or ``stuff``, in the order of COCO ids."""

COCOSTUFF_IDS: dict[str, int] = {row["name"]: int(row["id"]) for row in _rows()}
"""Class name -> COCO category id (1 to 182, with gaps)."""

THINGS = tuple(name for name, kind in COCOSTUFF.items() if kind == "thing")
"""The 80 classes of things, in the order of COCO ids: the labels of most detectors."""

COCO_THINGS = {COCOSTUFF_IDS[name]: name for name in THINGS}
"""COCO's ids of these, 1 to 90 with gaps -> name."""

MAP_VALUES = {
    # the maps of things and stuff: value = id - 1, 255 = unlabeled
    "cocostuff": {number - 1: name for name, number in COCOSTUFF_IDS.items()},
    # the maps of only stuff: value = id, 183 = other, 0 = unlabeled
    "pixelmaps": {
        number: name for name, number in COCOSTUFF_IDS.items() if COCOSTUFF[name] == "stuff"
    },
}


def map_values(preset: str) -> dict[int, str]:
    """Pixel value -> class name of a preset. Raises ParameterError for an unknown one."""
    return MAP_VALUES[check_one_of("kind of pixel map", preset, MAP_VALUES)]
