"""Boxes, checked, and greedy matching of detections to objects, by COCO's rules.

In each image and for each class, detections are taken from the highest score down. Each gets the
free object that it overlaps most, if that is at least the threshold; objects that are ignored or
crowds only if no other one is left. What matches such an object counts neither as found nor as
false. These are the rules of pycocotools' ``COCOeval.evaluateImg`` for all areas (Lin et al. 2014).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import Give, InputError
from nooch.base.words import counted
from nooch.data.box_columns import FORMATS, NUMBERS, as_boxes
from nooch.data.objects import overlaps

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_PAIRS = 1 << 21
"""Pairs of a detection and an object whose overlap is computed at once."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of several images.

    Attributes:
        image: int64 (n,), row of the image.
        label: int64 (n,), column of the class.
        box: float64 (n, 4): left, top, width, height, in pixels or as fractions of the image.
    """

    image: Integers
    label: Integers
    box: Floats

    def __len__(self) -> int:
        return len(self.image)

    def moved(self, images: Integers, labels: Integers) -> tuple[Self, Integers]:
        """With other rows of images and columns of classes, int64 (n_before,) each, and the
        positions of the boxes that are kept; those at -1 are left out.
        """
        image, label = images[self.image], labels[self.label]
        kept = np.flatnonzero((image >= 0) & (label >= 0))
        return type(self)(image[kept], label[kept], self.box[kept]), kept


@dataclass(frozen=True, eq=False)
class Detections:
    """The boxes of one run.

    Attributes:
        boxes: rows of images and columns of classes are the run's images and tasks.
        scores: float64 (n,), in [0, 1].
        in_fractions: whether boxes are fractions of the image; else pixels.
    """

    boxes: Boxes
    scores: Floats
    in_fractions: bool = False

    def moved(self, images: Integers, labels: Integers) -> Self:
        """As ``Boxes.moved``."""
        boxes, kept = self.boxes.moved(images, labels)
        return type(self)(boxes, self.scores[kept], self.in_fractions)


@dataclass(frozen=True, eq=False)
class FoundObjects:
    """The objects of a run's tasks in its images, those that count, and which it found.

    Attributes:
        boxes: rows of images and columns of classes are the run's images and tasks.
        sizes: int64 (n,), 0 for the smallest to 5; of runs without boxes 0.
        found: bool (n,).
        false: boxes that count and found none of them, in the same units.
    """

    boxes: Boxes
    sizes: Integers
    found: Booleans
    false: Boxes

    def moved(self, images: Integers, labels: Integers) -> Self:
        """As ``Boxes.moved``."""
        boxes, kept = self.boxes.moved(images, labels)
        false, _ = self.false.moved(images, labels)
        return type(self)(boxes, self.sizes[kept], self.found[kept], false)

    def missed(self, label: int, places: Integers) -> tuple[Booleans, Integers, Integers]:
        """The objects of a class in some images: whether each was missed, the row of its image
        there, and its size, (n_objects,) each. ``places``: that row for each of the run's images,
        int64 (n_images,), -1 for none.
        """
        own = np.flatnonzero(self.boxes.label == label)
        row = places[self.boxes.image[own]]
        own, row = own[row >= 0], row[row >= 0]
        return ~self.found[own], row, self.sizes[own]

    def false_of(self, label: int, places: Integers) -> Integers:
        """The row of each false box of a class in some images, int64 (n,), as for ``missed``."""
        row = places[self.false.image[self.false.label == label]]
        return np.asarray(row[row >= 0])


@dataclass(frozen=True, eq=False)
class Matches:
    """The object that each detection matched.

    Attributes:
        matched: int64 (n_overlaps, n_detections), position of its object; -1 for none.
        is_counted: bool (n_overlaps, n_detections): its object is neither ignored nor a crowd, and
            there were not too many detections before it; the others are neither found nor false.
        overlap: float64 (n_detections,), the largest overlap with an object of its class that
            counts, in [0, 1].
    """

    matched: Integers
    is_counted: Booleans
    overlap: Floats


def match_boxes(
    found: Boxes,
    scores: Floats,
    objects: Boxes,
    crowd: Booleans,
    ignored: Booleans,
    *,
    iou: Sequence[float] = (0.5,),
    most: int = 100,
) -> Matches:
    """Match detections to objects, whose rows of images and columns of classes are the same.

    Args:
        found: the detections, in any order; of equal scores the earlier is taken first.
        scores: float64 (n_detections,).
        objects: the annotated objects.
        crowd: bool (n_objects,), objects that stand for many; any number of detections match one,
            and the overlap is the share of the detection.
        ignored: bool (n_objects,), objects that do not count; crowds never do.
        iou: least overlaps (intersection over union) of a match, in (0, 1].
        most: detections of a class that are taken of an image.
    """
    n_classes = 1 + int(max(found.label.max(initial=0), objects.label.max(initial=0)))
    key, key_of_objects = (side.image * n_classes + side.label for side in (found, objects))
    uncounted = ignored | crowd
    order = np.lexsort((-scores, key))
    object_order = np.lexsort((uncounted, key_of_objects))
    sorted_keys = key_of_objects[object_order]
    first, last = (np.searchsorted(sorted_keys, key[order], side) for side in _SIDES)
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    last = np.where(rank < most, last, first)
    limits = [min(least, 1 - 1e-10) for least in iou]
    best, matched = np.zeros(len(order)), np.full((len(limits), len(order)), -1, np.int64)
    # lists: of single elements, arrays are slow
    taken = [[False] * len(objects) for _ in limits]
    uncounted_list, crowd_list = uncounted.tolist(), crowd.tolist()
    for rows, places in _pairs(first, last):
        targets = object_order[places]
        overlap = overlaps(found.box[order[rows]], objects.box[targets], crowd[targets])
        np.maximum.at(best, rows, np.where(uncounted[targets], 0.0, overlap))
        for limit, matched_at, taken_at in zip(limits, matched, taken, strict=True):
            near = overlap >= limit
            candidates = zip(*(x[near].tolist() for x in (rows, targets, overlap)), strict=True)
            for row, near_objects in groupby(candidates, key=itemgetter(0)):
                target = _chosen(near_objects, taken_at, uncounted_list, crowd_list)
                if target >= 0:
                    matched_at[row], taken_at[target] = target, True
    back = np.argsort(order)
    # position -1, no object, is the last element
    counted = (rank < most) & ~np.append(uncounted, False)[matched]
    return Matches(matched[:, back], counted[:, back], best[back])


_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


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


_LARGEST = 1e9
"""Pixels; more is damage."""
ROUNDING = 1e-6
"""Distance from [0, 1] that a probability in float32 can have."""

Place = Callable[[int], str]
"""Number of a box, from 0 -> where it stands, for errors."""


def rounded(values: NDArray[np.floating[Any]], what: str) -> tuple[str, ...]:
    """Put values that rounding brought out of [0, 1] back in place; a note, if there are any."""
    n = int(((values < 0) | (values > 1)).sum())
    if not n:
        return ()
    np.clip(values, 0, 1, out=values)
    problem = f"{counted(n, what)} outside 0 to 1 by at most {ROUNDING:g} (rounding)"
    return (f"{problem} count as 0 or 1",)


def check_scores(scores: Floats, place: Place) -> tuple[str, ...]:
    """Raise InputError for scores that are not in [0, 1]; see ``rounded``."""
    # also true for NaN
    wrong: Booleans = ~((scores >= -ROUNDING) & (scores <= 1 + ROUNDING))
    if wrong.any():
        percent = bool(np.isfinite(scores).all() and scores.min() >= 0 and 2 < scores.max() <= 100)
        remedy = None if percent else "write each box's probability, or leave it out"
        what = (
            f"{counted(int(wrong.sum()), 'score')} outside 0 to 1, as percentages are"
            if percent
            else f"{counted(int(wrong.sum()), 'score')} not in 0 to 1"
        )
        give = [{"percent": True}] if percent else []
        _refuse(wrong, scores, what, "scores from 0 to 1", remedy, place, give)
    return rounded(scores, "score")


def checked_boxes(written: Floats, box_format: str, place: Place) -> Floats:
    """Boxes as left, top, width, height: float64 (n, 4). Raises InputError: numbers that are NaN or
    infinite, negative widths or heights.
    """
    # also true for NaN
    is_sane = (written >= -_LARGEST) & (written <= _LARGEST)
    wrong = ~np.asarray(is_sane.all(axis=1))
    if wrong.any():
        what = f"{counted(int(wrong.sum()), 'box')} with NaN, infinite or huge numbers"
        _refuse(wrong, written, what, "four numbers of pixels or fractions",
                "leave such boxes out", place)  # fmt: skip
    boxes = as_boxes(written, box_format)
    wrong = (boxes[:, 2] < 0) | (boxes[:, 3] < 0)
    if wrong.any():
        fits = [f for f in FORMATS if (as_boxes(written, f)[:, 2:] >= 0).all()]
        what = f"{counted(int(wrong.sum()), 'box')} with a negative width or height as {box_format}"
        remedy = " or ".join(f"{{}} if they are {NUMBERS[f]}" for f in fits)
        _refuse(wrong, written, what, f"{box_format}: {NUMBERS[box_format]}",
                remedy or "leave such boxes out", place,
                [{"box_format": f} for f in fits])  # fmt: skip
    return boxes


def _refuse(
    wrong: Booleans,
    values: NDArray[np.float64],
    problem: str,
    allowed: str,
    remedy: str | None,
    place: Place,
    give: Sequence[Give] = (),
) -> None:
    row = int(wrong.argmax())
    shown = ", ".join(f"{number:.6g}" for number in np.atleast_1d(values[row]))
    raise InputError(f"{problem}, such as {shown}", where=place(row), allowed=allowed,
                     remedy=remedy, give=give)  # fmt: skip
