"""Stratified differences of two rates: Mantel-Haenszel weights, Newcombe's interval, exact test."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, ndtri

from nooch.evaluation.metrics.proportions import LEVEL, SIGNIFICANT, student

Floats = NDArray[np.float64]

_MOST_EXACT = 2000
"""Possible errors with the condition up to which the test is exact. Beyond, the normal
approximation is as good; of few images among many it is not, however many errors there are.
"""
_TAIL = 6
"""Standard deviations beyond which chances are too small to matter."""
_TIE = 1 + 1e-9
"""Probabilities that differ only by rounding count as equal."""


@dataclass(frozen=True)
class RateGap:
    """An error rate with a condition and without it.

    Attributes:
        n_with: images with the condition; ``n_without`` those without.
        errors_with: errors among them; ``errors_without`` among the others.
        rate_with: share of errors with the condition, in [0, 1], by weight; ``rate_without``
            without it; NaN without images.
        effect: weighted mean over the strata of rate with - rate without, in [-1, 1]; NaN where no
            stratum has images of both kinds.
        low: lower end of its interval; ``high`` the upper end; NaN with the effect.
        p: two-sided, of no difference in any stratum; NaN with the effect.
        p_more: one-sided, of no more errors with the condition in any stratum; NaN with the effect.
        strata: images and errors of each stratum, without and with the condition: float64
            (2, n_strata, 2).
        spread: standard error of the effect from groups of images, infinite if a single group
            decides; NaN without groups.
        sizes: images of each group, (n_groups,).
    """

    n_with: int
    n_without: int
    errors_with: int
    errors_without: int
    rate_with: float
    rate_without: float
    effect: float
    low: float
    high: float
    p: float
    p_more: float
    strata: Floats = field(repr=False, compare=False)
    spread: float = field(default=np.nan, repr=False, compare=False)
    sizes: NDArray[Any] = field(default_factory=lambda: np.ones(1), repr=False, compare=False)

    def interval(self, level: float) -> tuple[float, float]:
        """The interval of the effect at another level, in (0, 1)."""
        if not self.strata.size:
            return np.nan, np.nan
        n, wrong = self.strata
        return _interval(n, wrong, level, self.spread, self.sizes)[1:]


def rate_gap(
    errors: NDArray[np.bool_],
    condition: NDArray[np.bool_],
    strata: NDArray[np.integer] | None = None,
    groups: NDArray[np.integer] | None = None,
    level: float = 0.95,
    weights: Floats | None = None,
) -> RateGap:
    """Compare the error rates of images, or objects, with and without a condition.

    Within strata, rates are compared image for image of the same kind (for example, with objects of
    the same size) and combined with the weights of Mantel and Haenszel (1959). The interval is the
    stratified score interval of Newcombe in the form of Yan and Su (2010), which does not collapse
    at rates of 0 and 1. The test is the exact conditional one (Fisher's, for one stratum) where up
    to 2,000 images with the condition can be errors, the Cochran-Mantel-Haenszel test beyond.

    With groups of images that are alike, or of objects of one image, the interval is at least as
    wide as the one of the jackknife that leaves out a group at a time, with Student's quantile,
    which also holds with few images in a stratum, and contains 0 where p is above .05; and p-values
    are at least those in which each group has one vote: the sum of (error - error rate of the
    stratum) * (condition - its share of the stratum). The sum of the votes over the root of the sum
    of their squares is compared with a normal distribution.

    With weights, a stratum with or without the condition counts as Kish's number of images (1965),
    which the exact test rounds.

    ``errors``: bool (n,); ``condition``: bool (n,); ``strata``: integers (n,), small and not
    negative; None for one stratum; ``groups``: integers (n,); None: each image is one; ``level``:
    of the interval, in (0, 1); ``weights``: float64 (n,), above 0; None: all are equal.
    """
    stratum = np.zeros(len(errors), dtype=np.intp) if strata is None else strata.astype(np.intp)
    n_strata = int(stratum.max(initial=0)) + 1
    cells = 2 * stratum + condition
    weight, size = np.ones(len(errors)), 2 * n_strata
    if weights is not None:
        total, squares = (np.bincount(cells, of)[cells] for of in (weights, weights**2))
        weight = weights * total / squares
    n = np.bincount(cells, weight, size).reshape(-1, 2).astype(np.float64)
    wrong = np.bincount(cells, errors * weight, size).reshape(-1, 2).astype(np.float64)
    of_image = np.ones(len(errors)) if weights is None else weights
    (n_with, bad_with, rate_with), (n_without, bad_without, rate_without) = (
        (int(side.sum()), int((errors & side).sum()), _mean(errors[side], of_image[side]))
        for side in (condition, ~condition)
    )
    totals = n_with, n_without, bad_with, bad_without
    rates = rate_with, rate_without
    both = (n > 0).all(axis=1)
    if not both.any():
        nothing = np.nan, np.nan, np.nan, np.nan, np.nan
        return RateGap(*totals, *rates, *nothing, np.empty((2, 0, 2)))
    table, p = (n[both], wrong[both]), _p_values(n[both], wrong[both])
    spread, sizes = np.nan, np.ones(1, np.int64)
    if groups is not None:
        used = np.asarray(both)[stratum]
        # numbers from 0, and strata that are compared without gaps
        stratum, group = (np.unique(x[used], return_inverse=True)[1] for x in (stratum, groups))
        spread = _jackknife(errors[used], condition[used], stratum, group, weight[used], *table)
        if spread == 0:
            # rates of 0 and 1 do not show how alike images of a group are: a group counts once
            share = (group.max() + 1) / len(group)
            table = table[0] * share, table[1] * share
        votes = _p_of_votes(errors[used], condition[used], stratum, group, weight[used])
        p, sizes = (max(p[0], votes[0]), max(p[1], votes[1])), np.bincount(group)
    effect, low, high = _interval(*table, level, spread, sizes)
    if groups is not None and level == LEVEL and p[0] > SIGNIFICANT:
        low, high = min(low, 0.0), max(high, 0.0)
    return RateGap(*totals, *rates, effect, low, high, *p, np.stack(table), spread, sizes)


def _mean(errors: NDArray[np.bool_], weights: Floats) -> float:
    return float(np.average(errors, weights=weights)) if len(errors) else np.nan


def _interval(
    n: Floats, wrong: Floats, level: float, spread: float, sizes: NDArray[Any]
) -> tuple[float, float, float]:
    """The difference of the weighted rates (with - without), and its interval."""
    weights = n.prod(axis=1) / n.sum(axis=1)
    weights /= weights.sum()
    z = float(-ndtri((1 - level) / 2))
    rates = weights @ (wrong / n)
    # one quantile for every stratum, so that the weighted ends belong to the weighted rate
    share = z * np.sqrt(weights**2 @ (1 / n)) / (weights @ (1 / np.sqrt(n)))
    middle = (wrong + share**2 / 2) / (n + share**2)
    reach = share * np.sqrt(wrong * (n - wrong) / n + share**2 / 4) / (n + share**2)
    (low_without, low_with), (high_without, high_with) = (
        weights @ np.clip(middle - reach, 0, 1),
        weights @ np.clip(middle + reach, 0, 1),
    )
    without, with_ = rates
    effect = with_ - without
    down = np.hypot(with_ - low_with, high_without - without)
    up = np.hypot(high_with - with_, without - low_without)
    # NaN is left out
    reach = student(sizes, level) * spread
    down, up = (float(np.fmax(distance, reach)) for distance in (down, up))
    return float(effect), float(max(effect - down, -1.0)), float(min(effect + up, 1.0))


def _p_values(n: Floats, wrong: Floats) -> tuple[float, float]:
    """Two-sided, and of more errors; given the numbers of images and of errors of each stratum."""
    total, errors, exposed = n.sum(axis=1), wrong.sum(axis=1), n[:, 1]
    if np.minimum(errors, exposed).sum() > _MOST_EXACT:
        expected = exposed * errors / total
        variance = expected * (total - exposed) * (total - errors)
        variance = (variance / np.maximum(total * (total - 1), 1)).sum()
        distance = (wrong[:, 1] - expected).sum()
        z = distance / np.sqrt(variance) if variance > 0 else 0.0
        return float(2 * ndtr(-abs(z))), float(ndtr(-z))
    n, wrong = np.rint(n), np.rint(wrong)
    total, errors, exposed = n.sum(axis=1), wrong.sum(axis=1), n[:, 1]
    chances = reduce(np.convolve, map(_hypergeometric, total, errors, exposed))
    least = np.maximum(0, errors - (total - exposed)).sum()
    position = int(wrong[:, 1].sum() - least)
    two = chances[chances <= chances[position] * _TIE].sum()
    return float(min(1.0, two)), float(min(1.0, chances[position:].sum()))


def exact_p(x: NDArray[Any], k: NDArray[Any], n_with: int, n_without: int) -> Floats:
    """The two-sided p of ``rate_gap`` of many tables of one stratum, float64 (n,).

    ``x``: errors of the ``n_with`` images with the condition, integers (n,); ``k``: without it.
    """
    total, errors = n_with + n_without, x + k
    middle = errors * n_with / total
    spread = np.sqrt(middle * n_without / total * (total - errors) / max(total - 1, 1))
    p = np.asarray(2 * ndtr(-np.abs(x - middle) / np.where(spread > 0, spread, np.inf)))
    if not (exact := np.minimum(errors, n_with) <= _MOST_EXACT).any():
        return p
    x, k, errors = (of[exact, None] for of in (x, k, errors))
    reach = int(_TAIL * spread[exact].max()) + 2
    at = middle[exact, None].astype(np.int64) + np.arange(-reach, reach + 1)
    inside = (at >= errors - n_without) & (at >= 0) & (at <= np.minimum(errors, n_with))
    at = np.where(inside, at, x)
    table = _log_factorials(int(total).bit_length())
    ways = table[total] - table[errors] - table[total - errors]

    def logs(at: NDArray[Any], other: NDArray[Any]) -> Floats:
        of_with = table[n_with] - table[at] - table[n_with - at]
        of_without = table[n_without] - table[other] - table[n_without - other]
        return np.asarray(of_with + of_without - ways)

    chances = logs(at, errors - at)
    likelier = inside & (chances > logs(x, k) + np.log(_TIE))
    p[exact] = 1 - np.where(likelier, np.exp(chances), 0.0).sum(axis=1)
    return p


@lru_cache(maxsize=4)
def _log_factorials(bits: int) -> Floats:
    """Logarithms of the factorials of all numbers below 2 to the power of ``bits``."""
    return np.asarray(gammaln(np.arange(1 << bits) + 1.0))


def _jackknife(
    errors: NDArray[np.bool_],
    condition: NDArray[np.bool_],
    stratum: NDArray[np.intp],
    group: NDArray[np.intp],
    weight: Floats,
    n: Floats,
    wrong: Floats,
) -> float:
    """Standard error of the effect, from the effects without each of the groups; infinite if one of
    them decides whether there is an effect.
    """
    cells, cell = np.unique(group * len(n) + stratum, return_inverse=True)
    own_group, own_stratum = cells // len(n), cells % len(n)
    own_n, own_wrong = (
        np.stack([np.bincount(cell, of * (condition == side)) for side in range(2)], axis=1)
        for of in (weight, errors * weight)
    )
    before = _summands(n[own_stratum], wrong[own_stratum])
    after = _summands(n[own_stratum] - own_n, wrong[own_stratum] - own_wrong)
    above, below = _summands(n, wrong).sum(axis=1)
    change = [np.bincount(own_group, of) for of in after - before]
    rest = below + change[1]
    effects = np.divide(above + change[0], rest, out=np.full(len(rest), np.nan), where=rest > 0)
    if np.isnan(effects).any():
        return np.inf
    return float(np.sqrt((len(effects) - 1) * effects.var()))


def _summands(n: Floats, wrong: Floats) -> Floats:
    """Weight x difference, and weight, of strata with these images and errors: (2, n_strata)."""
    total = np.maximum(n.sum(axis=1), 1)
    gap = wrong[:, 1] * n[:, 0] - wrong[:, 0] * n[:, 1]
    return np.stack([gap / total, n.prod(axis=1) / total])


def _p_of_votes(
    errors: NDArray[np.bool_],
    condition: NDArray[np.bool_],
    stratum: NDArray[np.intp],
    group: NDArray[np.intp],
    weight: Floats,
) -> tuple[float, float]:
    """Two-sided, and of more errors; of a single group they are large, so that no condition is
    beyond chance for the images of one group.
    """
    n = np.bincount(stratum, weight)
    rates, shares = (np.bincount(stratum, of * weight) / n for of in (errors, condition))
    each = weight * (errors - rates[stratum]) * (condition - shares[stratum])
    votes = np.bincount(group, each)
    spread = np.sqrt((votes**2).sum())
    z = votes.sum() / spread if spread > 0 else 0.0
    return float(2 * ndtr(-abs(z))), float(ndtr(-z)) if spread > 0 else 1.0


def _hypergeometric(total: float, errors: float, exposed: float) -> Floats:
    """Chances of the possible numbers of errors with the condition, from the least on. By ratios of
    neighbors: SciPy's, by log-gamma functions, take hundreds of times as long.
    """
    unexposed_right = total - exposed - errors
    k = np.arange(max(0, -unexposed_right), min(errors, exposed))
    ratios = (exposed - k) * (errors - k) / ((k + 1) * (unexposed_right + k + 1))
    logs = np.cumsum(np.log(np.append(1.0, ratios)))
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum())
