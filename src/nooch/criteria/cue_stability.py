"""Stability of context cues: A(C, Y) under resampling of the training images."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import factorial

from nooch.base.errors import ParameterError
from nooch.criteria.ce import FittedCE
from nooch.data import Dataset

_LEVEL = 0.95
_RARE = 0.05
_DRAWS = np.cumsum(math.exp(-1) / factorial(np.arange(16), exact=True))
"""The distribution of how often an image is drawn; more than 16 times is out of reach."""
_WORDS = 4
"""Numbers of a block of the counter-based generator: each image starts a new block."""


@dataclass(frozen=True)
class CueStability:
    """Evidence that C is a context cue of Y.

    Attributes:
        cue: C, a class.
        strength: A(C, Y).
        low: lower end of its 95% percentile interval; ``high`` the upper end. All three are None
            for a cue given by hand, where no training image has Y.
        share: of the resamples in which A(C, Y) > alpha, in [0, 1].
    """

    cue: str
    strength: float | None
    low: float | None
    high: float | None
    share: float

    @property
    def near_alpha(self) -> bool:
        """True if some resamples make it a cue and others do not: more than 5% either way."""
        return _RARE < self.share < 1 - _RARE


def cue_stability(
    fitted: FittedCE,
    parts: Iterable[Dataset],
    tasks: Sequence[str],
    *,
    resamples: int = 200,
    seed: int = 0,
) -> dict[str, list[CueStability]]:
    """Resample the training images, each drawn Poisson(1) times, and count how often C is a cue.

    An image's draws depend on the seed and only on its place among the training images, so the
    division into parts does not matter, and all tasks share the same draws.
    """
    if resamples < 20:
        raise ParameterError(f"resamples is {resamples}", allowed="at least 20")
    n_classes = len(fitted.classes)
    columns = [fitted.classes.index(task) for task in tasks]
    sums = np.zeros((len(tasks), resamples, n_classes))
    counts = np.zeros((len(tasks), resamples, n_classes))
    start = 0
    for part in parts:
        draws = _draws(start, len(part), resamples, seed)
        start += len(part)
        for number, (task, column) in enumerate(zip(tasks, columns, strict=True)):
            _add(part, task, column, draws, sums[number], counts[number])
    with np.errstate(invalid="ignore", divide="ignore"):
        strengths = sums / counts
    return {task: _stable(fitted, task, strengths[number]) for number, task in enumerate(tasks)}


def _draws(start: int, n: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """Number of times each of n images from ``start`` on is drawn, float64 (n, resamples)."""
    blocks = -(-resamples // _WORDS)
    generator = np.random.Philox(key=seed).advance(start * blocks)
    uniform = np.random.Generator(generator).random((n, blocks * _WORDS))[:, :resamples]
    return np.searchsorted(_DRAWS, uniform, side="right").astype(np.float64)


def _add(
    part: Dataset,
    task: str,
    column: int,
    draws: NDArray[np.float64],
    sums: NDArray[np.float64],
    counts: NDArray[np.float64],
) -> None:
    """Add a part's positives: sums of area(C) - area(Y), and of draws, where both are known."""
    labels = part.labels(task, unknown=False)
    if part.gaps is not None:
        gone = part.unknown(task)
        labels &= True if gone is None else ~gone
    rows = np.flatnonzero(labels)
    drawn, areas = draws[rows].T, part.areas[rows]
    if part.gaps is None:
        sums += drawn @ areas - (drawn @ areas[:, [column]].toarray())
        counts += drawn.sum(axis=1)[:, None]
        return
    n_classes = len(part.classes)
    every = np.repeat(rows, n_classes), np.tile(np.arange(n_classes), len(rows))
    is_known = ~part.gaps.at(*every).reshape(len(rows), n_classes)
    own = areas[:, [column]].toarray()
    sums += drawn @ (np.where(is_known, areas.toarray(), 0.0) - is_known * own)
    counts += drawn @ is_known


def _stable(fitted: FittedCE, task: str, strengths: NDArray[np.float64]) -> list[CueStability]:
    alpha, cues = fitted.criterion.alpha, set(fitted.cues(task))
    shares = np.nan_to_num(strengths > alpha).mean(axis=0)
    shares[fitted.classes.index(task)] = 0
    tails = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
    listed = []
    for column in np.argsort(-shares, kind="stable"):
        name = fitted.classes[column]
        if shares[column] > 0 or name in cues:
            drawn = strengths[~np.isnan(strengths[:, column]), column]
            low, high = np.quantile(drawn, tails).tolist() if len(drawn) else (None, None)
            strength = fitted.strength(name, task) if len(drawn) else None
            listed.append(CueStability(name, strength, low, high, float(shares[column])))
    return listed
