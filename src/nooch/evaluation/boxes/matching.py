"""Greedy matching of detections to objects, by COCO's rules.

In each image and for each class, detections are taken from the highest score down. Each gets the
free object that it overlaps most, if that is at least the threshold; objects that are ignored or
crowds only if no other one is left. What matches such an object counts neither as found nor as
false. These are the rules of pycocotools' ``COCOeval.evaluateImg`` for all areas (Lin et al. 2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_PAIRS = 1 << 21
"""Pairs of a detection and an object whose overlap is computed at once."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of several images; of the same rows of images and columns of classes on both sides.

    Attributes:
        image: int64 (n,), row of the image.
        label: int64 (n,), column of the class.
        box: float64 (n, 4): left, top, width, height, all in one unit.
    """

    image: Integers
    label: Integers
    box: Floats

    def __len__(self) -> int:
        return len(self.image)


@dataclass(frozen=True, eq=False)
class Matches:
    """The object that each detection matched.

    Attributes:
        matched: int64 (n_detections,), position of its object; -1 for none.
        is_ignored: bool (n_detections,), its object is ignored or a crowd, or there were too many
            detections before it: it counts neither as found nor as false.
        overlap: float64 (n_detections,), the largest overlap with an object of its class that
            counts, in [0, 1].
    """

    matched: Integers
    is_ignored: Booleans
    overlap: Floats


def match_boxes(
    found: Boxes,
    scores: Floats,
    objects: Boxes,
    crowd: Booleans,
    ignored: Booleans,
    *,
    least_overlap: float = 0.5,
    most: int = 100,
) -> Matches:
    """Match detections to objects.

    Args:
        found: the detections, in any order; of equal scores the earlier is taken first.
        scores: float64 (n_detections,).
        objects: the annotated objects.
        crowd: bool (n_objects,), objects that stand for many; any number of detections match one,
            and the overlap is the share of the detection.
        ignored: bool (n_objects,), objects that do not count; crowds never do.
        least_overlap: intersection over union of a match, in (0, 1].
        most: detections of a class that are taken of an image; others count as ignored.
    """
    n_classes = 1 + int(max(found.label.max(initial=0), objects.label.max(initial=0)))
    key, key_of_objects = (side.image * n_classes + side.label for side in (found, objects))
    uncounted = ignored | crowd
    order = np.lexsort((-scores, key))
    object_order = np.lexsort((uncounted, key_of_objects))
    first, last = (
        np.searchsorted(key_of_objects[object_order], key[order], side) for side in ("left", "right")
    )  # fmt: skip
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    sizes = np.diff(begins, append=len(order))
    rank = np.arange(len(order)) - np.repeat(begins, sizes)
    last = np.where(rank < most, last, first)
    limit = min(least_overlap, 1 - 1e-10)
    best, matched = np.zeros(len(order)), np.full(len(order), -1, np.int64)
    # lists: of single elements, arrays are slow
    taken, uncounted_list, crowd_list = [False] * len(objects), uncounted.tolist(), crowd.tolist()
    for rows, places in _pairs(first, last):
        targets = object_order[places]
        overlap = overlaps(found.box[order[rows]], objects.box[targets], crowd[targets])
        counted = np.where(uncounted[targets], 0.0, overlap)
        np.maximum.at(best, rows, counted)
        near = overlap >= limit
        candidates = zip(
            rows[near].tolist(), targets[near].tolist(), overlap[near].tolist(), strict=True
        )
        for row, near_objects in groupby(candidates, key=itemgetter(0)):
            target = _chosen(near_objects, taken, uncounted_list, crowd_list)
            if target >= 0:
                matched[row], taken[target] = target, True
    result = np.empty_like(matched)
    result[order] = matched
    largest, late = np.empty_like(best), np.empty(len(order), bool)
    largest[order], late[order] = best, rank >= most
    return Matches(result, late | ((result >= 0) & uncounted[result]), largest)


def _pairs(first: NDArray[np.intp], last: NDArray[np.intp]) -> Iterator[tuple[Integers, Integers]]:
    """Rows, and for each the places from its first to before its last, some at a time."""
    counts = last - first
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _PAIRS, "right")))
        here = counts[start:stop]
        rows = np.repeat(np.arange(start, stop), here)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(here) - here, here)
        yield rows, np.repeat(first[start:stop], here) + within
        start = stop


def _chosen(
    candidates: Iterable[tuple[int, int, float]],
    taken: Sequence[bool],
    uncounted: Sequence[bool],
    crowd: Sequence[bool],
) -> int:
    """The object that a detection gets, or -1; those that do not count come last."""
    chosen, largest = -1, 0.0
    for _, target, overlap in candidates:
        if taken[target] and not crowd[target]:
            continue
        if chosen >= 0 and uncounted[target] and not uncounted[chosen]:
            break
        if overlap >= largest:
            chosen, largest = target, overlap
    return chosen


def overlaps(found: Floats, objects: Floats, crowd: Booleans) -> Floats:
    """Intersection over union of each pair of boxes, or over the detection for crowds: float64
    (n,), in [0, 1]. Boxes are left, top, width, height: float64 (n, 4).
    """
    left, top, width, height = found.T
    left_of, top_of, width_of, height_of = objects.T
    wide = np.minimum(left + width, left_of + width_of) - np.maximum(left, left_of)
    tall = np.minimum(top + height, top_of + height_of) - np.maximum(top, top_of)
    shared = np.where((wide > 0) & (tall > 0), wide * tall, 0.0)
    area = width * height
    whole = np.where(crowd, area, area + width_of * height_of - shared)
    # boxes without extent overlap nothing
    return np.divide(shared, whole, out=np.zeros(len(shared)), where=whole > 0)
