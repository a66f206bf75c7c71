"""A picture's owners as COCO annotations: what is visible of each object and each kind of stuff, to
the pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco_mask

from nooch.readers.coco.cocostuff import COCOSTUFF, COCOSTUFF_IDS
from nooch.scenes.canvas import Item
from nooch.scenes.mask_polygons import outlines
from nooch.scenes.scene_images import Picture

__all__ = ["ID_STEP", "Visible", "annotated", "visible"]

ID_STEP = 1000
"""Annotation ids are the image's id times this, and a number from 1: unique in all files of a
collection.
"""


@dataclass(frozen=True)
class Visible:
    """What can be seen of one item.

    Attributes:
        item: what it is.
        pixels: how many pixels show it.
        box: first and last row, first and last column, as slices.
        mask: bool, within the box.
    """

    item: Item
    pixels: int
    box: tuple[slice, slice]
    mask: NDArray[np.bool_]

    @property
    def is_stuff(self) -> bool:
        """Whether its class is stuff."""
        return COCOSTUFF[self.item.name] == "stuff"


def visible(picture: Picture) -> list[Visible]:
    """All items that at least one pixel shows, in the order in which they were laid."""
    found = []
    for number, item in enumerate(picture.items):
        mask = picture.owner == number
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            box = (
                slice(int(rows[0]), int(rows[-1]) + 1),
                slice(int(columns[0]), int(columns[-1]) + 1),
            )
            found.append(Visible(item, int(mask.sum()), box, mask[box]))
    return found


def annotated(
    seen: list[Visible], size: int, image: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """COCO's records of things and of stuff.

    ``area`` is the number of pixels of the mask. Things have polygons along the borders of pixels,
    which enclose just these; those with a hole and crowds have an uncompressed run-length encoding,
    stuff a compressed one.
    """
    things: list[dict[str, Any]] = []
    stuff: list[dict[str, Any]] = []
    for number, one in enumerate(seen, 1):
        rows, columns = one.box
        record = {
            "id": ID_STEP * image + number,
            "image_id": image,
            "category_id": COCOSTUFF_IDS[one.item.name],
            "segmentation": _compressed(one, size) if one.is_stuff else _segmentation(one, size),
            "area": one.pixels,
            "bbox": [
                columns.start,
                rows.start,
                columns.stop - columns.start,
                rows.stop - rows.start,
            ],
            "iscrowd": int(one.item.crowd),
        }
        (stuff if one.is_stuff else things).append(record)
    return things, stuff


def _segmentation(one: Visible, size: int) -> Any:
    polygons = None if one.item.crowd else outlines(one.mask)
    if polygons is None:
        return {"counts": _runs(_whole(one, size)), "size": [size, size]}
    rows, columns = one.box
    return [
        [v + (rows.start if i % 2 else columns.start) for i, v in enumerate(polygon)]
        for polygon in polygons
    ]


def _whole(one: Visible, size: int) -> NDArray[np.uint8]:
    whole = np.zeros((size, size), dtype=np.uint8, order="F")
    whole[one.box] = one.mask
    return whole


def _runs(mask: NDArray[np.uint8]) -> list[int]:
    """Lengths of runs of 0 and 1 in turn, down the columns; the first is of 0."""
    flat = mask.ravel(order="F")
    changes = np.flatnonzero(np.diff(flat)) + 1
    ends = [0, *changes.tolist(), len(flat)]
    runs = [after - before for before, after in pairwise(ends)]
    return [0, *runs] if flat[0] else runs


def _compressed(one: Visible, size: int) -> dict[str, Any]:
    encoded = coco_mask.encode(_whole(one, size))
    return {"counts": encoded["counts"].decode("ascii"), "size": [size, size]}
