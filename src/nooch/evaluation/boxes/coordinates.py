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
from nooch.data.box_columns import FORMATS, NUMBERS, as_boxes
from nooch.evaluation.boxes.matching import Booleans, Floats

_LARGEST = 1e9
"""Pixels; more is damage."""

Place = Callable[[int], str]
"""Number of a box, from 0 -> where it stands, for errors."""


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
        others = " or ".join(f"`box_format` {f} ({NUMBERS[f]})" for f in fits)
        what = f"{counted(int(wrong.sum()), 'box')} with a negative width or height as {box_format}"
        remedy = f"give {others} if they are that" if others else "leave such boxes out"
        _refuse(wrong, written, what, f"{box_format}: {NUMBERS[box_format]}", remedy, place)
    return boxes


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
