"""Differences of rates: by hand, against tables of permutations, and against scipy."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import fisher_exact

from nooch.evaluation.metrics import rate_gaps
from nooch.evaluation.metrics.rate_gaps import rate_gap


def images(*tables):
    """Errors, condition and strata of tables (errors with, n with, errors without, n without)."""
    errors, condition, strata = [], [], []
    for number, (a, n_with, b, n_without) in enumerate(tables):
        errors += [1] * a + [0] * (n_with - a) + [1] * b + [0] * (n_without - b)
        condition += [1] * n_with + [0] * n_without
        strata += [number] * (n_with + n_without)
    return np.array(errors, bool), np.array(condition, bool), np.array(strata)


tables = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(
        lambda n: st.tuples(
            st.integers(0, n[0]), st.just(n[0]), st.integers(0, n[1]), st.just(n[1])
        )
    ),
    min_size=1,
    max_size=4,
)


def test_newcombe_by_hand():
    """The example of Newcombe (1998, method 10): 56 of 70 against 48 of 80."""
    gap = rate_gap(*images((56, 70, 48, 80))[:2])
    assert gap.effect == pytest.approx(0.2)
    assert (gap.low, gap.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert (gap.n_with, gap.n_without, gap.errors_with, gap.errors_without) == (70, 80, 56, 48)
    assert (gap.rate_with, gap.rate_without) == (0.8, 0.6)


def test_weights_of_mantel_and_haenszel_by_hand():
    gap = rate_gap(*images((8, 10, 10, 40), (5, 10, 0, 10)))
    weights = np.array([10 * 40 / 50, 10 * 10 / 20])
    assert gap.effect == pytest.approx((weights @ [0.55, 0.5]) / weights.sum())


def test_a_confounder_is_taken_out():
    """Small objects are missed more often and stand on no road; within a size nothing differs."""
    small, large = (45, 90, 5, 10), (1, 10, 9, 90)
    raw = rate_gap(*images(small, large)[:2])
    stratified = rate_gap(*images(small, large))
    assert raw.effect == pytest.approx(0.32)
    assert stratified.effect == pytest.approx(0, abs=1e-12)
    assert stratified.p > 0.5
    assert raw.p < 1e-5


@given(tables)
def test_the_test_is_exact(strata):
    """Against every way to place the errors of each stratum."""
    ways = []
    for a, n_with, b, n_without in strata:
        n, errors = n_with + n_without, a + b
        counts = np.zeros(n_with + 1)
        for k in range(max(0, errors - n_without), min(errors, n_with) + 1):
            counts[k] = _choose(n_with, k) * _choose(n_without, errors - k) / _choose(n, errors)
        ways.append(counts)
    chances = {}
    for choice in itertools.product(*[range(len(w)) for w in ways]):
        weight = np.prod([w[k] for w, k in zip(ways, choice, strict=True)])
        chances[sum(choice)] = chances.get(sum(choice), 0) + weight
    seen = chances[sum(t[0] for t in strata)]
    expected = sum(c for c in chances.values() if c <= seen * (1 + 1e-9))
    assert rate_gap(*images(*strata)).p == pytest.approx(min(expected, 1), rel=1e-9)


def _choose(n, k):
    return float(np.prod([(n - i) / (i + 1) for i in range(k)]))


@given(tables)
def test_one_stratum_is_fishers_test_and_newcombes_interval(strata):
    a, n_with, b, n_without = strata[0]
    gap = rate_gap(*images(strata[0])[:2])
    table = [[a, n_with - a], [b, n_without - b]]
    assert gap.p == pytest.approx(fisher_exact(table)[1], rel=1e-7)
    assert -1 <= gap.low <= gap.effect <= gap.high <= 1
    assert gap.low < gap.high


@given(tables)
def test_turned_round_the_effect_changes_its_sign(strata):
    errors, condition, groups = images(*strata)
    one, other = rate_gap(errors, condition, groups), rate_gap(errors, ~condition, groups)
    turned = -other.effect, -other.high, -other.low
    assert (one.effect, one.low, one.high) == pytest.approx(turned)
    assert one.p == pytest.approx(other.p)


@given(tables, st.booleans())
def test_equal_weights_are_none(strata, grouped):
    given = *images(*strata), None
    given = (*given[:3], np.arange(len(given[0])) // 2) if grouped else given
    plain, weighted = rate_gap(*given), rate_gap(*given, weights=np.full(len(given[0]), 2.5))
    assert weighted.p == pytest.approx(plain.p)
    for name in ("rate_with", "rate_without", "effect", "low", "high"):
        assert getattr(weighted, name) == pytest.approx(getattr(plain, name))


def test_no_stratum_with_both_kinds_has_no_effect():
    gap = rate_gap(np.array([1, 0, 1], bool), np.array([1, 1, 0], bool), np.array([0, 0, 1]))
    assert np.isnan([gap.effect, gap.low, gap.high, gap.p]).all()
    assert (gap.n_with, gap.n_without) == (2, 1)
    empty = rate_gap(np.zeros(0, bool), np.zeros(0, bool))
    assert np.isnan([empty.rate_with, empty.rate_without, empty.effect]).all()


@given(tables)
def test_one_sided_is_fishers_test_of_more(strata):
    a, n_with, b, n_without = strata[0]
    gap = rate_gap(*images(strata[0])[:2])
    table = [[a, n_with - a], [b, n_without - b]]
    assert gap.p_more == pytest.approx(fisher_exact(table, "greater")[1], rel=1e-7)
    assert gap.interval(0.95) == (gap.low, gap.high)
    assert gap.interval(0.99)[0] <= gap.low


def test_few_images_among_many_errors_are_tested_exactly():
    """The normal approximation says 7e-16 where six of ten err among 5% of 100,000."""
    gap = rate_gap(*images((6, 10, 5000, 100000))[:2])
    exact = fisher_exact([[6, 4], [5000, 95000]], "greater")[1]
    assert gap.p_more == pytest.approx(exact, rel=1e-6)
    assert gap.p_more > 1e-6


def test_many_errors_are_tested_by_chi_squared(monkeypatch):
    strata = ((700, 1000, 900, 1500), (300, 500, 500, 900))
    monkeypatch.setattr(rate_gaps, "_MOST_EXACT", 500)
    rough = rate_gap(*images(*strata))
    monkeypatch.setattr(rate_gaps, "_MOST_EXACT", 10**6)
    exact = rate_gap(*images(*strata))
    assert (rough.p, rough.p_more) == pytest.approx((exact.p, exact.p_more), rel=0.1)


@pytest.mark.parametrize("rates", [(0.3, 0.3), (0.05, 0.2)])
def test_intervals_cover(rates):
    """Of 95% intervals in 2,000 seeded samples of two strata, at least 93% hold the truth."""
    random = np.random.default_rng(3)
    sizes = ((20, 40), (30, 10))
    held = 0
    for _ in range(2000):
        drawn = []
        for n_with, n_without in sizes:
            a, b = random.binomial(n_with, rates[0]), random.binomial(n_without, rates[1])
            drawn.append((a, n_with, b, n_without))
        gap = rate_gap(*images(*drawn))
        held += gap.low <= rates[0] - rates[1] <= gap.high
    assert held >= 1860


def clustered(draw, n_images, effect, alike):
    """Objects of images: misses, condition, size and image. Smaller ones are missed more often, and
    where the condition is true they are larger; with probability ``alike`` an object of an image
    shares its fate with the others.
    """
    image = np.repeat(np.arange(n_images), 1 + draw.poisson(2, n_images))
    condition = (draw.random(n_images) < 0.2)[image]
    size = np.clip((draw.normal(size=len(image)) + condition + 2) // 1, 0, 4).astype(int)
    shared = draw.random(n_images)[image]
    fate = np.where(draw.random(len(image)) < alike, shared, draw.random(len(image)))
    chance = 0.1 + effect * condition + np.array([0.3, 0.2, 0.1, 0.05, 0])[size]
    return fate < chance, condition, size, image


@pytest.mark.slow
@pytest.mark.parametrize("alike", [0, 0.4])
@pytest.mark.parametrize("effect", [0, 0.3])
def test_intervals_of_objects_cover_the_truth(alike, effect):
    """2,000 draws: 93.5% to 97%; ignoring that objects share images covers less where they do."""
    draw = np.random.default_rng(5)
    covered, apart, claimed = 0, 0, 0
    for _ in range(2000):
        drawn = clustered(draw, 200, effect, alike)
        gap, plain = rate_gap(*drawn), rate_gap(*drawn[:3])
        covered += gap.low <= effect <= gap.high
        apart += plain.low <= effect <= plain.high
        claimed += gap.p < 0.05
    assert 0.935 <= covered / 2000 <= 0.97
    if alike:
        assert apart < covered - 60
    if not effect:
        # by size alone, no effect
        assert claimed / 2000 <= 0.06


def test_groups_of_one_image_change_little():
    """Each image its own group: the same effect, and an interval about as wide."""
    drawn = images((40, 100, 60, 300), (10, 50, 9, 200))
    alone, plain = rate_gap(*drawn, np.arange(650)), rate_gap(*drawn)
    assert alone.effect == plain.effect
    assert 1 <= (alone.high - alone.low) / (plain.high - plain.low) < 1.06
    assert plain.p <= alone.p < 0.01


def test_copies_of_an_image_count_once():
    """Ten copies of each image, grouped: nearly the interval of the images."""
    drawn = images((40, 100, 60, 300))
    copies = [np.repeat(values, 10) for values in drawn]
    grouped = rate_gap(*copies, np.repeat(np.arange(400), 10))
    single, apart = rate_gap(*drawn), rate_gap(*copies)
    assert grouped.high - grouped.low == pytest.approx(single.high - single.low, rel=0.03)
    assert grouped.high - grouped.low > 3 * (apart.high - apart.low)
    assert grouped.p > 1e-9 > apart.p


def test_one_image_proves_nothing():
    drawn = [np.repeat([True, False], 50)] * 2
    gap = rate_gap(*drawn, None, np.repeat([0, 1], 50))
    assert gap.effect == 1
    assert gap.p > 0.05
    assert gap.low < 0


def test_a_group_that_decides_whether_there_is_an_effect_leaves_it_open():
    """Without the only group that has the condition there is nothing to compare."""
    errors, condition, stratum = images((20, 20, 0, 80))
    gap = rate_gap(errors, condition, stratum, np.r_[np.zeros(20, int), np.arange(1, 81)])
    assert (gap.effect, gap.low, gap.high) == (1, -1, 1)


def test_where_rates_are_0_and_1_each_group_counts_once():
    """Eight groups of five images are eight images."""
    drawn = [np.repeat(values, 5) for values in images((4, 4, 0, 4))]
    gap, single = rate_gap(*drawn, np.repeat(np.arange(8), 5)), rate_gap(*images((4, 4, 0, 4)))
    assert (gap.effect, gap.low) == (1, pytest.approx(single.low))
    assert gap.low < rate_gap(*drawn).low
