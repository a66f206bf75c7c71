"""Boxes as files and arrays write them: checked, and as left, top, width, height."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import Give, InputError
from nooch.base.words import counted
from nooch.data.box_columns import FORMATS, NUMBERS, as_boxes
from nooch.evaluation.boxes.matching import Booleans, Floats

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
