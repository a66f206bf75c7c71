"""Stratified differences of two rates: Mantel-Haenszel weights, Newcombe's interval, exact test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

__all__ = ["RateGap", "rate_gap"]

_MOST_EXACT = 2000
"""Errors up to which the test is exact; beyond, the chi-squared approximation is as good."""
_TIE = 1 + 1e-9
"""Probabilities that differ by rounding alone count as equal."""


@dataclass(frozen=True)
class RateGap:
    """An error rate with a condition and without it.

    Attributes:
        n_with: images with the condition; ``n_without`` those without.
        errors_with: errors among them; ``errors_without`` among the others.
        effect: weighted mean over the strata of rate with - rate without, in [-1, 1]; NaN where no
            stratum has images of both kinds.
        low: lower end of its interval; ``high`` the upper end; NaN with the effect.
        p: two-sided, of no difference in any stratum; NaN with the effect.
    """

    n_with: int
    n_without: int
    errors_with: int
    errors_without: int
    effect: float
    low: float
    high: float
    p: float

    @property
    def rate_with(self) -> float:
        """Errors per image with the condition, in [0, 1]; NaN without images."""
        return self.errors_with / self.n_with if self.n_with else np.nan

    @property
    def rate_without(self) -> float:
        """Errors per image without the condition, in [0, 1]; NaN without images."""
        return self.errors_without / self.n_without if self.n_without else np.nan


def rate_gap(
    errors: NDArray[np.bool_],
    condition: NDArray[np.bool_],
    strata: NDArray[np.integer] | None = None,
    level: float = 0.95,
) -> RateGap:
    """Compare the error rate of images with a condition to that of images without it.

    Within strata, rates are compared image for image of the same kind (say, of objects of the same
    size) and combined with the weights of Mantel and Haenszel (1959). The interval is the
    stratified score interval of Newcombe in the form of Yan and Su (2010), which does not collapse
    at rates of 0 and 1. The test is the exact conditional one (Fisher's, for one stratum) up to
    2,000 errors, the Cochran-Mantel-Haenszel test beyond.

    Args:
        errors: bool (n,).
        condition: bool (n,).
        strata: integers (n,), small and not negative; None for one stratum.
        level: of the interval, in (0, 1).
    """
    groups = np.zeros(len(errors), dtype=np.intp) if strata is None else strata.astype(np.intp)
    n_strata = int(groups.max(initial=0)) + 1
    cells = 2 * groups + condition
    n = np.bincount(cells, minlength=2 * n_strata).reshape(-1, 2).astype(np.float64)
    wrong = np.bincount(cells, errors, minlength=2 * n_strata).reshape(-1, 2).astype(np.float64)
    (n_without, n_with), (bad_without, bad_with) = n.sum(axis=0), wrong.sum(axis=0)
    totals = int(n_with), int(n_without), int(bad_with), int(bad_without)
    both = (n > 0).all(axis=1)
    if not both.any():
        return RateGap(*totals, np.nan, np.nan, np.nan, np.nan)
    n, wrong = n[both], wrong[both]
    weights = n.prod(axis=1) / n.sum(axis=1)
    effect, low, high = _interval(n, wrong, weights / weights.sum(), level)
    return RateGap(*totals, effect, low, high, _p_value(n, wrong))


def _interval(
    n: NDArray[np.float64], wrong: NDArray[np.float64], weights: NDArray[np.float64], level: float
) -> tuple[float, float, float]:
    """The difference of the weighted rates (with - without), and its interval."""
    z = float(norm.ppf((1 + level) / 2))
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
    return (
        float(effect),
        float(effect - np.hypot(with_ - low_with, high_without - without)),
        float(effect + np.hypot(high_with - with_, without - low_without)),
    )


def _p_value(n: NDArray[np.float64], wrong: NDArray[np.float64]) -> float:
    """Two-sided, given the numbers of images and of errors of each stratum."""
    total, errors, exposed = n.sum(axis=1), wrong.sum(axis=1), n[:, 1]
    if errors.sum() > _MOST_EXACT:
        expected = exposed * errors / total
        variance = expected * (total - exposed) * (total - errors)
        variance = (variance / np.maximum(total * (total - 1), 1)).sum()
        distance = (wrong[:, 1] - expected).sum() ** 2
        return float(chi2.sf(distance / variance, 1)) if variance > 0 else 1.0
    chances = reduce(np.convolve, map(_hypergeometric, total, errors, exposed))
    least = np.maximum(0, errors - (total - exposed)).sum()
    seen = chances[int(wrong[:, 1].sum() - least)]
    return float(min(1.0, chances[chances <= seen * _TIE].sum()))


def _hypergeometric(total: float, errors: float, exposed: float) -> NDArray[np.float64]:
    """Chances of the possible numbers of errors with the condition, from the least on. By ratios of
    neighbors: SciPy's, by log-gamma functions, take hundreds of times as long.
    """
    unexposed_right = total - exposed - errors
    k = np.arange(max(0, -unexposed_right), min(errors, exposed))
    ratios = (exposed - k) * (errors - k) / ((k + 1) * (unexposed_right + k + 1))
    logs = np.cumsum(np.log(np.append(1.0, ratios)))
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum())
