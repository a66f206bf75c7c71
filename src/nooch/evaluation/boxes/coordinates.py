"""Boxes as files and arrays write them: checked, and as left, top, width, height."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, unreadable
from nooch.base.words import counted
from nooch.data.arrays import float_array, in_main_memory
from nooch.evaluation.boxes.matching import Booleans, Floats

FORMATS = ("xyxy", "xywh", "cxcywh")
"""Left, top, right, bottom; left, top, width, height; center, width, height."""

_NAMED = {
    "xyxy": "left, top, right, bottom",
    "xywh": "left, top, width, height",
    "cxcywh": "x and y of the center, width, height",
}
_FRACTIONS = (-0.5, 1.5)
"""Range of fractions of an image, with what a box may leave it; pixels are beyond."""

_LARGEST = 1e9
"""Pixels; more is damage."""

LEEWAY = 0.1
"""Share of the image's side by which a box of a detector may leave it."""
_MOST_OUTSIDE = 0.01
"""Share of the boxes that may leave it further before their order of numbers is doubted."""

Place = Callable[[int], str]
"""Number of a box, from 0 -> where it stands, for errors."""


def as_boxes(written: Floats, box_format: str) -> Floats:
    """Boxes of one of ``FORMATS`` as left, top, width, height: float64 (n, 4)."""
    first, second = written[:, :2], written[:, 2:]
    if box_format == "xyxy":
        return np.hstack([first, second - first])
    return written if box_format == "xywh" else np.hstack([first - second / 2, second])


def are_fractions(written: Floats) -> bool:
    """True if all numbers of all boxes are so small that they are fractions of the image."""
    low, high = _FRACTIONS
    return bool(len(written)) and bool(low <= written.min() and written.max() <= high)


def check_scores(scores: Floats, place: Place) -> None:
    """Raise InputError for scores that are not in [0, 1]."""
    # also true for NaN
    wrong: Booleans = ~((scores >= 0) & (scores <= 1))
    if wrong.any():
        percent = bool(np.isfinite(scores).all() and scores.min() >= 0 and 2 < scores.max() <= 100)
        remedy = "give `percent`" if percent else "write each box's probability, or leave it out"
        what = (
            f"{counted(int(wrong.sum()), 'score')} outside 0 to 1, as percentages are"
            if percent
            else f"{counted(int(wrong.sum()), 'score')} not in 0 to 1"
        )
        _refuse(wrong, scores, what, "scores from 0 to 1", remedy, place)


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
        others = " or ".join(f"`box_format` {f} ({_NAMED[f]})" for f in fits)
        what = f"{counted(int(wrong.sum()), 'box')} with a negative width or height as {box_format}"
        remedy = f"give {others} if they are that" if others else "leave such boxes out"
        _refuse(wrong, written, what, f"{box_format}: {_NAMED[box_format]}", remedy, place)
    return boxes


def check_inside(written: Floats, box_format: str, extent: Floats, where: object) -> str:
    """A warning where many boxes leave their image in any order of numbers, else nothing.

    Args:
        written: float64 (n, 4), as ``box_format`` has them.
        box_format: one of ``FORMATS``.
        extent: float64 (n, 2) or (1, 2), width and height of the image in the units of the boxes;
            NaN where they are not known.
        where: the file, for errors.

    Raises:
        InputError: more than 1% of the boxes leave their image by more than ``LEEWAY`` of its side,
            and fewer would in another order of numbers.
    """
    extent = np.broadcast_to(extent, (len(written), 2))
    known = np.isfinite(extent).all(axis=1)
    if not known.any():
        return ""
    written, extent = written[known], extent[known]
    share = _outside(written, box_format, extent).mean()
    if share <= _MOST_OUTSIDE:
        return ""
    shares = {f: _outside(written, f, extent).mean() for f in FORMATS}
    best = min(FORMATS, key=lambda f: (shares[f], f != box_format))
    leave = f"{share:.1%} of the boxes leave their image by more than {LEEWAY:.0%} of its side"
    if best == box_format:
        return f"warning: {leave}: are they in pixels of the image at its full size?"
    raise InputError(
        f"{leave} when read as {box_format}, and {shares[best]:.1%} would as {best}: these look"
        f" like boxes {best} given as {box_format}",
        where=where,
        allowed=f"{box_format}: {_NAMED[box_format]}, within the image",
        remedy=f"give `box_format` {best} ({_NAMED[best]})",
    )


def arrays_of(
    boxes: Any, labels: Any, scores: Any, where: object
) -> tuple[pl.Series, Floats, Floats]:
    """Labels (Int64 or String), scores (n,) and boxes (n, 4) of one image, of arrays, tensors or
    lists. Raises InputError for other shapes.
    """
    allowed = "boxes (n, 4), labels (n,) and scores (n,)"
    with unreadable(where, allowed, (TypeError, ValueError, OverflowError)):
        written, score = (np.asarray(float_array(part)) for part in (boxes, scores))
        names = in_main_memory(labels)
        names = names.tolist() if hasattr(names, "tolist") else list(names)
    written = written.reshape(0, 4) if not written.size else written
    score = score.reshape(-1) if not score.size else score
    if written.shape != (len(names), 4) or score.shape != (len(names),):
        shapes = f"boxes {written.shape}, {len(names)} labels and scores {score.shape}"
        raise InputError(f"has {shapes}", where=where, allowed=allowed)
    if all(isinstance(name, str) for name in names):
        kind: Any = pl.String if names else pl.Int64
    elif all(type(name) is int and abs(name) < 1 << 31 for name in names):
        kind = pl.Int64
    else:
        raise InputError("has labels that are neither all numbers nor all names", where=where,
                         allowed=allowed)  # fmt: skip
    return pl.Series(names, dtype=kind), score, written


def _outside(written: Floats, box_format: str, extent: Floats) -> Booleans:
    box = as_boxes(written, box_format)
    start, end = box[:, :2], box[:, :2] + box[:, 2:]
    leaves = (start < -LEEWAY * extent) | (end > (1 + LEEWAY) * extent) | (box[:, 2:] < 0)
    return np.asarray(leaves.any(axis=1))


def _refuse(
    wrong: Booleans,
    values: NDArray[np.float64],
    problem: str,
    allowed: str,
    remedy: str,
    place: Place,
) -> None:
    row = int(wrong.argmax())
    shown = ", ".join(f"{number:.6g}" for number in np.atleast_1d(values[row]))
    raise InputError(f"{problem}, such as {shown}", where=place(row), allowed=allowed,
                     remedy=remedy)  # fmt: skip
