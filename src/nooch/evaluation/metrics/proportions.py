"""95% score intervals of shares, of paired differences and ratios of shares, and of d'.

They need only counts, no resamples. ``n`` may be an effective number of images (Kish 1965), and
counts need not be whole then. docs/intervals.md has how often they cover.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, gammaincinv, ndtri, stdtrit

LEVEL = 0.95
SIGNIFICANT = 1 - LEVEL
"""Exact p-values up to which a difference is not chance."""

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]
_Z = float(ndtri((1 + LEVEL) / 2))
_FEW = 3
"""Events up to which Wilson's bound is too near: it covers .84 where 0.2 events are expected."""
_HALVINGS = 50


def wilson(shares: Floats, n: NDArray[Any]) -> Bounds:
    """Wilson's 95% interval (1927) of shares of n images: low and high, in [0, 1], never equal.

    Of up to three events the lower bound is Poisson's, if it is lower, and of up to three images
    without the event so is the upper one (Brown, Cai and DasGupta 2001, section 4.1.1).

    ``shares``: float64, in [0, 1]; NaN stays NaN.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = _Z**2 / n
        middle = shares + weight / 2
        reach = np.sqrt(weight * (shares * (1 - shares) + weight / 4))
        low, high = (middle - reach) / (1 + weight), (middle + reach) / (1 + weight)
        # at 0 and at 1 the bound is the share itself, which rounding must not cross
        low = np.minimum(np.where(shares == 0, 0.0, low), _few(shares, n))
        return low, np.maximum(np.where(shares == 1, 1.0, high), 1 - _few(1 - shares, n))


def _few(shares: Floats, n: NDArray[Any]) -> Floats:
    """Poisson's lower bound, at 5% of one side, of few events; else infinite, or NaN.

    Part of an event, where images weigh less than others, has that part of one event's bound.
    """
    events = np.asarray(shares * n)
    bound = gammaincinv(np.maximum(events, 1.0), SIGNIFICANT) * np.minimum(events, 1.0) / n
    # 3 of 10 as (1 - 0.7) * 10 are a little more than 3
    return np.where(events > _FEW + 1e-9, np.inf, np.where(n > 0, bound, np.nan))


def wilson_of_groups(
    events: NDArray[np.bool_], groups: NDArray[Any] | None, weights: Floats | None = None
) -> tuple[float, float]:
    """Wilson's interval of the share of outcomes with an event, of which groups are alike, such as
    the objects of one image, for their ``effective_number``.

    ``events``: bool (n,); ``groups``: integers (n,), None where each outcome is one; ``weights``:
    float64 (n,), None where they are equal.
    """
    share = np.average(events, weights=weights) if len(events) else np.nan
    n = effective_number(events, groups, weights)
    low, high = wilson(np.array(share), np.array(n))
    return float(low), float(high)


def effective_number(
    values: NDArray[Any], groups: NDArray[Any] | None, weights: Floats | None = None
) -> float:
    """The number of independent values whose mean has as wide an interval, by the normal quantile,
    as the mean of these.

    It is Kish's number (1965) over the design effect: the variance of the mean, by the jackknife
    that leaves out a group at a time, over the one of values that each are a group. Student's
    quantile has (sum k)^2 / sum k^2 - 1 degrees of freedom, k being the values of a group.

    ``values``: (n,), in [-1, 1]; ``groups``: integers (n,), values that are alike; None where each
    is a group; ``weights``: float64 (n,), at least 0.
    """
    weight = np.ones(len(values)) if weights is None else weights
    groups = None if groups is None else np.unique(groups[weight > 0], return_inverse=True)[1]
    values, weight = values[weight > 0], weight[weight > 0]
    if not len(values):
        return 0.0
    kish = float(weight.sum() ** 2 / (weight**2).sum())
    if groups is None or len(groups) == groups.max() + 1:
        return kish
    away, size = values - weight @ values / weight.sum(), np.bincount(groups, weight)
    alone = float(((weight * away) ** 2).sum()) / weight.sum() ** 2
    if not alone:
        # rates of 0 and 1 do not show how alike values of a group are: a group counts once
        return float(size.sum() ** 2 / (size**2).sum())
    if len(size) == 1:
        return (_Z / student(size)) ** 2
    # means without each of the groups, less the mean of all
    means = -np.bincount(groups, weight * away) / (size.sum() - size)
    together = (len(size) - 1) * float(means.var())
    return float(kish / max(1.0, together / alone) * (_Z / student(size)) ** 2)


def student(sizes: NDArray[Any], level: float = LEVEL) -> float:
    """Student's quantile for groups of these sizes, of one degree of freedom at least."""
    freedom = sizes.sum() ** 2 / (sizes**2).sum() - 1
    return float(-stdtrit(max(freedom, 1.0), (1 - level) / 2))


def paired_interval(up: Floats, down: Floats, n: NDArray[Any]) -> Bounds:
    """The 95% interval of the difference of two shares of the same images, in [-1, 1].

    Tango's score interval (1998), stretched to 0 where McNemar's exact test does not reject no
    difference: it excludes 0 only where both do.

    ``up``: float64, share of the images that have the event only in the first.
    """
    up, down, n = np.broadcast_arrays(up, down, np.asarray(n, dtype=np.float64))
    gap = up - down

    def inside(gap_at: Floats) -> NDArray[np.bool_]:
        """True if a difference is not rejected; the variance is taken at its likeliest rates."""
        half = (2 - gap) * gap_at - (up + down)
        root = np.sqrt(np.maximum(half**2 + 8 * down * gap_at * (1 - gap_at), 0.0))
        rate = np.maximum((root - half) / 4, 0.0)
        variance = np.maximum(2 * rate + gap_at * (1 - gap_at), 0.0) / n
        return np.asarray((gap - gap_at) ** 2 <= _Z**2 * variance)

    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = (_last(inside, gap, end) for end in (-1.0, 1.0))
    chance = exact_mcnemar(up * n, down * n) > SIGNIFICANT
    low, high = (
        np.where(chance, np.minimum(low, 0), low),
        np.where(chance, np.maximum(high, 0), high),
    )
    is_defined = (n > 0) & ~np.isnan(gap)
    return np.where(is_defined, low, np.nan), np.where(is_defined, high, np.nan)


def _last(inside: Callable[[Floats], NDArray[np.bool_]], start: Floats, end: float) -> Floats:
    """The last value from ``start`` to ``end`` that is inside, by halving."""
    first, last = start, np.full_like(start, end)
    for _ in range(_HALVINGS):
        middle = (first + last) / 2
        is_inside = inside(middle)
        first, last = np.where(is_inside, middle, first), np.where(is_inside, last, middle)
    return first


def exact_mcnemar(up: Floats, down: Floats) -> Floats:
    """McNemar's exact two-sided p: whether changes go one way by chance; 1 without any."""
    most, least = np.maximum(up, down), np.minimum(up, down)
    # the tail of the binomial distribution, as an incomplete beta function
    return np.where(most > 0, np.minimum(1.0, 2 * betainc(most, least + 1, 0.5)), 1.0)


def holm(p: Floats) -> Floats:
    """p-values corrected step by step for their number (Holm 1979), float64 (n,), at most 1."""
    order, n = np.argsort(p, kind="stable"), len(p)
    adjusted = np.empty(n)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, p[order] * np.arange(n, 0, -1)))
    return adjusted


def ratio_interval(
    above: Floats, of_above: Sequence[Floats], below: Floats, of_below: Sequence[Floats]
) -> Bounds:
    """The 95% interval of above / below, two independent shares with intervals; it is at least 0.

    By the method of variance estimates recovery (Donner and Zou 2012). NaN where ``below`` is 0.
    """
    (low, high), (least, most), product = of_above, of_below, above * below
    with np.errstate(invalid="ignore", divide="ignore"):
        below_it, over_it = low * (2 * above - low), high * (2 * above - high)
        farthest, nearest = most * (2 * below - most), least * (2 * below - least)
        first = below_it / (product + np.sqrt(np.maximum(product**2 - below_it * farthest, 0.0)))
        last = (product + np.sqrt(np.maximum(product**2 - over_it * nearest, 0.0))) / nearest
        # nothing above has no ratio below 0 / 0
        first = np.where(low > 0, first, 0.0)
    is_defined = below > 0
    return np.where(is_defined, first, np.nan), np.where(is_defined, last, np.nan)


def dprime_intervals(
    hits: Floats, n_positive: NDArray[Any], claims: Floats, n_negative: NDArray[Any]
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Half-widths of the 95% intervals of d' and of the response criterion: (down, up) each.

    The normal quantiles of both rates have the intervals of Jeffreys, of whose posterior the
    log-linear rate is the mean; they are combined as independent (Zou and Donner 2008). A bootstrap
    of the log-linear counts, parametric or not, never gets beyond the largest d' of n images, and
    covers 0 where the true one is.

    ``hits``: float64, recall; ``claims``: float64, the false positive rate.
    """
    reaches = []
    for rate, images in ((hits, n_positive), (claims, n_negative)):
        n = np.where(images > 0, images, np.nan)
        yes, no = rate * n + 0.5, np.maximum((1 - rate) * n, 0.0) + 0.5
        center = ndtri(yes / (n + 1))
        ends = (betaincinv(yes, no, tail) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        reaches.append([np.abs(ndtri(end) - center) for end in ends])
    (hit_down, hit_up), (claim_down, claim_up) = reaches
    return (
        (np.hypot(hit_down, claim_up), np.hypot(hit_up, claim_down)),
        (np.hypot(hit_up, claim_up) / 2, np.hypot(hit_down, claim_down) / 2),
    )
