"""A picture's owners as COCO annotations: the visible pixels of each object and kind of stuff."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco_mask

from nooch.data.readers.cocostuff import COCOSTUFF, COCOSTUFF_IDS
from nooch.scenes.canvas import Item
from nooch.scenes.images import Picture

Corner = tuple[int, int]


def outlines(mask: NDArray[np.bool_]) -> list[list[int]] | None:
    """The borders of a bool mask (height, width) as COCO polygons [x0, y0, ...]; None for a hole.

    Corners are between pixels, with integer coordinates, so that the enclosed area is the number of
    pixels and pycocotools makes the same mask of them. Parts that touch only at a corner are
    separate polygons.
    """
    after = _edges(mask)
    loops = []
    while after:
        loop = _loop(after)
        if _doubled_area(loop) < 0:
            return None
        loops.append([value for corner in loop for value in corner])
    return loops


# directions in the order of right-hand turns (y points down): right, down, left, up
_STEPS: tuple[Corner, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))


def _edges(mask: NDArray[np.bool_]) -> dict[Corner, list[int]]:
    """Directions of the border's unit steps by their first corner, the mask to their right."""
    inside = np.pad(mask, 1)
    core = inside[1:-1, 1:-1]
    # pixels beyond the upper, right, lower and left side, and where the step along it starts
    beyond = (inside[:-2, 1:-1], inside[1:-1, 2:], inside[2:, 1:-1], inside[1:-1, :-2])
    starts = ((0, 0), (1, 0), (1, 1), (0, 1))
    after: dict[Corner, list[int]] = {}
    for direction, (outside, (dx, dy)) in enumerate(zip(beyond, starts, strict=True)):
        rows, columns = np.nonzero(core & ~outside)
        for corner in zip((columns + dx).tolist(), (rows + dy).tolist(), strict=True):
            after.setdefault(corner, []).append(direction)
    return after


def _loop(after: dict[Corner, list[int]]) -> list[Corner]:
    """Follow one border round, removing its steps from ``after``; the corners where it turns.

    The first corner left starts the highest border at the left end of a pixel's upper side: a turn.
    """
    start = next(iter(after))
    (x, y), direction, corners = start, -1, list[Corner]()
    while not corners or (x, y) != start:
        options = after[x, y]
        step = options[0]
        if len(options) > 1 and direction >= 0:
            # where two parts touch, the sharpest turn to the right stays on this one
            step = min(options, key=lambda d: (d - direction - 1) % 4)
        if step != direction:
            corners.append((x, y))
        options.remove(step)
        if not options:
            del after[x, y]
        direction = step
        x, y = x + _STEPS[step][0], y + _STEPS[step][1]
    return corners


def _doubled_area(corners: list[Corner]) -> int:
    """Twice the enclosed area: above 0 where the mask lies within, below 0 around a hole."""
    following = corners[1:] + corners[:1]
    return sum(x * v - u * y for (x, y), (u, v) in zip(corners, following, strict=True))


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
        """Whether its class is stuff."""
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
    """COCO's records of things and of stuff.

    ``area`` is the number of pixels of the mask. Things have polygons along the borders of pixels;
    those with a hole and crowds have an uncompressed run-length encoding, stuff a compressed one.
    """
    things: list[dict[str, Any]] = []
    stuff: list[dict[str, Any]] = []
    for number, part in enumerate(seen, 1):
        (top, left), (height, width) = [s.start for s in part.box], part.mask.shape
        record = {
            "id": ID_STEP * image + number,
            "image_id": image,
            "category_id": COCOSTUFF_IDS[part.item.name],
            "segmentation": _compressed(part, size) if part.is_stuff else _segmentation(part, size),
            "area": part.pixels,
            "bbox": [left, top, width, height],
            "iscrowd": int(part.item.crowd),
        }
        (stuff if part.is_stuff else things).append(record)
    return things, stuff


def _segmentation(part: Visible, size: int) -> Any:
    polygons = None if part.item.crowd else outlines(part.mask)
    if polygons is None:
        return {"counts": _runs(_whole(part, size)), "size": [size, size]}
    rows, columns = part.box
    return [
        [v + (rows.start if i % 2 else columns.start) for i, v in enumerate(polygon)]
        for polygon in polygons
    ]


def _whole(part: Visible, size: int) -> NDArray[np.uint8]:
    whole = np.zeros((size, size), dtype=np.uint8, order="F")
    whole[part.box] = part.mask
    return whole


def _runs(mask: NDArray[np.uint8]) -> list[int]:
    """Lengths of runs of 0 and 1 in turn, down the columns; the first is of 0."""
    flat = mask.ravel(order="F")
    changes = np.flatnonzero(np.diff(flat)) + 1
    ends = [0, *changes.tolist(), len(flat)]
    runs = [after - before for before, after in pairwise(ends)]
    return [0, *runs] if flat[0] else runs


def _compressed(part: Visible, size: int) -> dict[str, Any]:
    encoded = coco_mask.encode(_whole(part, size))
    return {"counts": encoded["counts"].decode("ascii"), "size": [size, size]}
