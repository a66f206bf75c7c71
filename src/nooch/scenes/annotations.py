"""A picture's owners as COCO annotations: the visible pixels of each object and kind of stuff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco_mask

from nooch.data.readers.cocostuff import COCOSTUFF, COCOSTUFF_IDS
from nooch.scenes.images import Item, Picture

ID_STEP = 1000
"""Annotation ids are the image's id times this plus a number from 1: unique in a collection."""


@dataclass(frozen=True)
class Visible:
    """The visible part of one item: how many pixels show it, their first and last row and column as
    slices, and its mask within that box, bool.
    """

    item: Item
    pixels: int
    box: tuple[slice, slice]
    mask: NDArray[np.bool_]

    @property
    def is_stuff(self) -> bool:
        """True if its class is stuff."""
        return COCOSTUFF[self.item.name] == "stuff"


def visible(picture: Picture) -> list[Visible]:
    """All items that at least one pixel shows, in the order in which they were laid."""
    parts = []
    for number, item in enumerate(picture.items):
        mask = picture.owner == number
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            box = _span(rows), _span(columns)
            parts.append(Visible(item, int(mask.sum()), box, mask[box]))
    return parts


def _span(positions: NDArray[np.intp]) -> slice:
    return slice(int(positions[0]), int(positions[-1]) + 1)


def annotated(
    seen: list[Visible], size: int, image: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """COCO's records of things and of stuff: compressed run lengths, ``area`` in pixels."""
    things: list[dict[str, Any]] = []
    stuff: list[dict[str, Any]] = []
    for number, part in enumerate(seen, 1):
        (top, left), (height, width) = [s.start for s in part.box], part.mask.shape
        record = {
            "id": ID_STEP * image + number,
            "image_id": image,
            "category_id": COCOSTUFF_IDS[part.item.name],
            "segmentation": _run_lengths(part, size),
            "area": part.pixels,
            "bbox": [left, top, width, height],
            "iscrowd": int(part.item.crowd),
        }
        (stuff if part.is_stuff else things).append(record)
    return things, stuff


def _run_lengths(part: Visible, size: int) -> dict[str, Any]:
    whole = np.zeros((size, size), dtype=np.uint8, order="F")
    whole[part.box] = part.mask
    return {"counts": coco_mask.encode(whole)["counts"].decode("ascii"), "size": [size, size]}
