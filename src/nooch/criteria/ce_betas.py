"""Betas of single cues in the CE criterion: areas are scaled until each is the common one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import ParameterError

CueBetas = Mapping[str, Mapping[str, float | tuple[float, float]]]
"""Task -> cue -> its beta, or two: of positives and of negatives."""


def checked_betas(betas: CueBetas, beta: float) -> dict[str, dict[str, tuple[float, float]]]:
    """The betas as pairs."""
    pairs: dict[str, dict[str, tuple[float, float]]] = {}
    for task, of_cues in betas.items():
        for cue, given in of_cues.items():
            pair = tuple(map(float, given)) if isinstance(given, list | tuple) else (given, given)
            if len(pair) != 2 or not all(0 < bound <= 1 for bound in (*pair, beta)):
                raise ParameterError(
                    f"the beta of {cue} for {task} is {given}, and beta {beta:g}",
                    where="ce",
                    allowed="fractions of the image above 0: one, or of positives and of negatives",
                )
            pairs.setdefault(task, {})[cue] = pair
    return pairs


def scaled(
    areas: NDArray[np.float64], labels: NDArray[np.bool_], pair: tuple[float, float], beta: float
) -> NDArray[Any]:
    """Areas, float64 (n,), scaled so that a cue's own beta becomes ``beta``; with floats also, what
    was above its own beta, equal to it or below it is so to ``beta``.
    """
    # a quotient is rounded to 1 only where the two are equal, and so is its product with beta
    return areas / np.where(labels, *pair) * beta


def between_betas(
    own: NDArray[np.float64],
    other: NDArray[np.float64],
    labels: NDArray[np.bool_],
    beta: float,
) -> NDArray[np.bool_]:
    """Images with areas between the two betas of cues, which are neither hard nor easy.

    A positive is hard where all cues are below their first beta, and easy if one is not below
    its second. A negative is hard where a cue is above its second beta, and easy where none is
    above its first. ``own`` is the support, ``other`` what it were with the other label.
    """
    absent, present = (own >= beta) & (other < beta), (own <= beta) & (other > beta)
    return np.where(labels, absent, present)
