"""Score intervals and exact tests of shares: against SciPy, slow searches, their definitions."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import beta, binomtest, norm

from nooch.evaluation.metrics.proportions import (
    dprime_intervals,
    exact_mcnemar,
    paired_interval,
    ratio_interval,
    wilson,
)

Z = norm.ppf(0.975)


@st.composite
def changes(draw):
    n = draw(st.integers(1, 60))
    up = draw(st.integers(0, n))
    return up, draw(st.integers(0, n - up)), n


def _p(up, down):
    return binomtest(up, up + down).pvalue if up + down else 1.0


def _tango(up, down, n, end):
    """Tango's bound: the rates of a difference are found by maximizing the likelihood."""
    gap = (up - down) / n
    if gap == end:
        return end

    def likelihood(rate, at):
        first, second, rest = rate + at, rate, 1 - 2 * rate - at
        parts = [(up, first), (down, second), (n - up - down, rest)]
        return -sum(count * np.log(max(p, 1e-300)) for count, p in parts if count)

    def statistic(at):
        bounds = max(0.0, -at), (1 - at) / 2
        search = {"bounds": bounds, "method": "bounded", "options": {"xatol": 1e-12}}
        rate = minimize_scalar(likelihood, args=(at,), **search).x
        variance = (2 * rate + at - at**2) / n
        return (gap - at) ** 2 - Z**2 * variance

    inside, outside = gap + 1e-9 * (end - gap), end - 1e-9 * (end - gap)
    return end if statistic(outside) < 0 else brentq(statistic, inside, outside)


@given(changes())
def test_the_interval_is_tangos_and_has_0_where_the_exact_test_does_not_reject_it(counts):
    up, down, n = counts
    low, high = (x.item() for x in paired_interval(np.array(up / n), np.array(down / n), n))
    expected = [_tango(up, down, n, end) for end in (-1.0, 1.0)]
    if _p(up, down) > 0.05:
        expected = [min(expected[0], 0), max(expected[1], 0)]
    assert [low, high] == pytest.approx(expected, abs=1e-4)
    # the other way round, with the other sign
    swapped = paired_interval(np.array(down / n), np.array(up / n), n)
    assert [-swapped[1], -swapped[0]] == pytest.approx([low, high])
    assert low < high


@given(changes())
def test_p_is_that_of_the_binomial_test(counts):
    up, down, _ = counts
    assert exact_mcnemar(np.array(up), np.array(down)) == pytest.approx(min(1, _p(up, down)))


def test_four_changes_one_way_prove_nothing_and_six_do():
    """The bootstrap gave [+.037, +.333] for four changes; McNemar's p is .125."""
    n = np.array([27, 36, 36])
    low, high = paired_interval(np.array([4, 5, 6]) / n, np.zeros(3), n)
    assert low.tolist()[:2] == [0, 0]
    assert low[2] > 0.05
    p = exact_mcnemar(np.array([4, 5, 6]), np.zeros(3))
    assert p == pytest.approx([0.125, 0.0625, 0.03125])
    assert high[0] == pytest.approx(0.325, abs=1e-3)
    assert np.isnan(paired_interval(np.array(0.0), np.array(0.0), 0)).all()


@given(
    st.sampled_from([0.0, 1e-5, 0.02, 0.3, 1.0]),
    st.integers(1, 1000),
    st.floats(0.001, 1),
    st.integers(1, 1000),
)
def test_ratios_combine_the_bounds_of_rates(above, n, below, m):
    rates = np.array(above), np.array(below)
    first, second = (wilson(rate, np.array(size)) for rate, size in zip(rates, (n, m), strict=True))
    low, high = ratio_interval(rates[0], first, rates[1], second)
    assert 0 <= low <= above / below <= high < np.inf
    # each bound r solves (above - r below)^2 = (above - low)^2 + r^2 (high - below)^2 and likewise
    for bound, end, other in ((low, first[0], second[1]), (high, first[1], second[0])):
        away = np.hypot(above - end, bound * (below - other))
        assert abs(above - bound * below) == pytest.approx(away, rel=1e-6, abs=1e-9)


def test_a_ratio_to_no_event_has_no_interval():
    zero, some = np.array(0.0), np.array(0.1)
    bounds = wilson(zero, np.array(9)), wilson(some, np.array(9))
    assert np.isnan(ratio_interval(some, bounds[1], zero, bounds[0])).all()
    low, high = ratio_interval(zero, bounds[0], some, bounds[1])
    assert low == 0 < high


@given(st.integers(0, 9), st.integers(0, 30))
def test_dprime_combines_the_intervals_of_jeffreys(hits, claims):
    counts = map(np.array, (hits / 9, 9, claims / 30, 30))
    (down, up), (left, right) = dprime_intervals(*counts)
    z, low, high = (
        [norm.ppf(of(x, n)) for x, n in ((hits, 9), (claims, 30))]
        for of in (
            lambda x, n: (x + 0.5) / (n + 1),
            lambda x, n: beta.ppf(0.025, x + 0.5, n - x + 0.5),
            lambda x, n: beta.ppf(0.975, x + 0.5, n - x + 0.5),
        )
    )
    assert down == pytest.approx(np.hypot(z[0] - low[0], high[1] - z[1]))
    assert up == pytest.approx(np.hypot(high[0] - z[0], z[1] - low[1]))
    assert left == pytest.approx(np.hypot(high[0] - z[0], high[1] - z[1]) / 2)
    assert right == pytest.approx(np.hypot(z[0] - low[0], z[1] - low[1]) / 2)
    none = dprime_intervals(np.array(np.nan), np.array(0), np.array(0.5), np.array(4))
    assert np.isnan(none).all()


def test_few_events_have_poissons_lower_bound():
    """Wilson's alone covers .89 at a rate of .5% of 24 images, since one event excludes it."""
    low, high = wilson(np.array([1 / 24, 23 / 24, np.nan, 0.5]), np.array([24, 24, 24, 0]))
    assert low[0] == pytest.approx(-np.log(0.95) / 24)
    assert high[1] == pytest.approx(1 + np.log(0.95) / 24)
    assert np.isnan([low[2], low[3], high[2], high[3]]).all()
