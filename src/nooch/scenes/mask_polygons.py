"""Masks as polygons along the borders of pixels: drawn again, they give exactly the mask."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["outlines"]

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
