"""Pixels of one COCO segmentation: polygons, or run lengths in either encoding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def mask_area(segmentation: Any, height: int, width: int) -> float:
    """Pixels of polygons or of a run-length encoding, compressed or not."""
    if isinstance(segmentation, list):
        from pycocotools import mask

        if segmentation and all(isinstance(x, int | float) for x in segmentation):
            # one polygon, not in a list
            segmentation = [segmentation]
        if not segmentation or not all(
            isinstance(p, list) and len(p) >= 6 and len(p) % 2 == 0 for p in segmentation
        ):
            raise ValueError("a polygon needs at least three points")
        # coordinates far outside would make pycocotools use all memory
        far = 1000 + 10 * (height + width)
        if not all(
            isinstance(x, int | float) and abs(x) <= far
            for polygon in segmentation
            for x in polygon
        ):
            raise ValueError("a coordinate is not a number, or far outside the image")
        return float(mask.area(mask.merge(mask.frPyObjects(segmentation, height, width))))
    if not isinstance(segmentation, dict):
        raise TypeError("it is missing")
    if list(segmentation["size"]) != [height, width]:
        raise ValueError(f"size {segmentation['size']} is not the image's {[height, width]}")
    counts = segmentation["counts"]
    runs = run_lengths(counts) if isinstance(counts, str) else list(counts)
    if not all(isinstance(run, int) and run >= 0 for run in runs) or sum(runs) != height * width:
        raise ValueError("run lengths do not add up to the image")
    return float(sum(runs[1::2]))


def extent(segmentation: Any) -> NDArray[np.float64]:
    """Box around polygons, float64 (1, 4): left, top, width, height; NaN of anything else."""
    flat = segmentation if isinstance(segmentation, list) else []
    flat = [x for part in flat for x in (part if isinstance(part, list) else [part])]
    if len(flat) < 2 or len(flat) % 2 or not all(isinstance(x, int | float) for x in flat):
        return np.full((1, 4), np.nan)
    points = np.array(flat, np.float64).reshape(-1, 2)
    least = points.min(axis=0)
    return np.concatenate([least, points.max(axis=0) - least])[None]


def run_lengths(counts: str) -> list[int]:
    """Run lengths of COCO's compressed encoding, background first.

    Five bits of a number in each character, lowest first; 32 means that more follow, 16 in the last
    that the number is negative. From the fourth run on, the number is the difference to the run
    before the last.
    """
    runs: list[int] = []
    number = shift = 0
    for character in counts.encode("ascii"):
        code = character - 48
        if not 0 <= code < 64:
            raise ValueError(f"{chr(character)!r} does not occur in run lengths")
        number |= (code & 31) << shift
        shift += 5
        if not code & 32:
            number -= 1 << shift if code & 16 else 0
            runs.append(number + (runs[-2] if len(runs) > 2 else 0))
            number = shift = 0
    if shift:
        raise ValueError("run lengths end in the middle of one")
    return runs
