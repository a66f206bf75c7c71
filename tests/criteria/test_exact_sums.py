"""Sums and cosines that no order can change."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from refusals import fails
from scipy.sparse import csr_array

from nooch.criteria import exact_sums as exact
from nooch.criteria.exact_sums import BLOCK, LARGEST, ExactSums, cosines, group_sums

NUMBERS = st.floats(-LARGEST, LARGEST, exclude_min=True, exclude_max=True)


def _sums(values, groups):
    presence = csr_array(np.asarray(groups, float))
    return group_sums(presence, np.asarray(values, float), "values")


@given(
    st.lists(st.tuples(NUMBERS, st.booleans(), st.booleans()), min_size=1, max_size=30),
    st.randoms(),
)
def test_sums_do_not_depend_on_order_or_division_and_are_right(rows, random):
    values, groups = [[row[0]] for row in rows], [row[1:] for row in rows]
    whole = _sums(values, groups)
    order = list(range(len(rows)))
    random.shuffle(order)
    cut = random.randrange(len(rows))
    halves = [
        _sums([values[i] for i in part], [groups[i] for i in part])
        for part in (order[:cut], order[cut:])
        if part
    ]
    added = halves[0] if len(halves) == 1 else halves[1] + halves[0]
    assert np.array_equal(added.high, whole.high)
    assert np.array_equal(added.low, whole.low)
    for group in range(2):
        known = (Fraction(v[0]) for v, g in zip(values, groups, strict=True) if g[group])
        true = sum(known, Fraction(0))
        # each number is rounded to 2^-58, the sum to float64
        assert (
            abs(Fraction(float(whole.values[group, 0])) - true)
            <= len(rows) * Fraction(1, 2**59) + abs(true) / 2**51
        )


@given(st.lists(st.floats(0, 1), max_size=20))
def test_kept_sums_come_back_bit_by_bit(values):
    sums = _sums([[v] for v in values] or np.empty((0, 1)), np.ones((len(values), 1))).values
    assert np.array_equal(ExactSums.from_values(sums).values, sums)


def test_blocks_add_up():
    n = BLOCK + 7
    assert _sums(np.full((n, 1), 0.1), np.ones((n, 1))).values[0, 0] == float(Fraction(0.1) * n)
    areas = csr_array(np.full((n, 1), LARGEST - 1))
    assert group_sums(csr_array(np.ones((n, 1))), areas, "areas").values[0, 0] == (LARGEST - 1) * n


def test_a_block_of_the_largest_numbers_has_an_exact_sum():
    """An odd number of steps each, below 2^53 in all; in larger blocks float64 would round."""
    assert BLOCK * LARGEST * 2.0**25 == 2.0**53
    n, steps = 3 * BLOCK, 2**37 - 1
    sums = _sums(np.full((n, 1), steps / 2**25), np.ones((n, 1)))
    assert (int(sums.high[0, 0]), int(sums.low[0, 0])) == (n * steps, 0)


@pytest.mark.parametrize("value", [math.inf, -math.inf, LARGEST])
def test_what_cannot_be_summed_exactly_is_refused(value):
    fails(lambda: _sums([[value]], [[1]]), "values are infinite or too large")


def test_totals_that_do_not_fit_are_refused():
    half = ExactSums(np.full((1, 1), 1 << 61), np.zeros((1, 1), np.int64))
    fails(lambda: half + half, "too large to be kept exactly")


@pytest.mark.parametrize("d", [1, 3, 384, 2048])
def test_a_cosine_has_the_same_bits_in_any_company(d):
    random = np.random.default_rng(d)
    units = [
        v / np.linalg.norm(v, axis=1, keepdims=True)
        for v in (random.normal(size=(200, d)), random.normal(size=(9, d)))
    ]
    whole = cosines(*units)
    assert np.abs(whole - units[0] @ units[1].T).max() < 1e-13
    places = ([3], [8]), (range(199, 90, -1), range(1, 4)), (range(0, 200, 7), range(9))
    for rows, columns in places:
        part = cosines(units[0][list(rows)], units[1][list(columns)])
        assert np.array_equal(part, whole[np.ix_(list(rows), list(columns))])


def test_a_vector_that_is_missing_has_no_cosine():
    assert np.isnan(cosines(np.full((1, 4), np.nan), np.full((1, 4), 0.5))).all()


def test_a_vector_of_length_zero_has_no_cosine_and_lengths_do_not_matter():
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [-0.6, -0.8]], np.float32)
    result = cosines(vectors, np.array([[0.6, 0.8]]))[:, 0]
    assert np.isnan(result[1])
    assert np.allclose(result[[0, 2]], [1, -1], atol=1e-7)


def test_rows_that_are_cut_together_do_not_matter(monkeypatch):
    random = np.random.default_rng(0)
    vectors = random.normal(size=(exact.STEP * 2 + 5, 12)).astype(np.float32)
    vectors[3], vectors[700] = 0, np.nan
    prototypes = random.normal(size=(4, 12))
    prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
    presence = csr_array((random.random((len(vectors), 3)) < 0.5).astype(float))
    known = np.nan_to_num(vectors)
    whole, sums = cosines(vectors, prototypes), group_sums(presence, known, "vectors")
    assert np.isnan(whole[[3, 700]]).all()
    assert np.isnan(whole).sum() == 8
    for step in (1, 7, 13, len(vectors)):
        monkeypatch.setattr(exact, "STEP", step)
        again = group_sums(presence, known, "vectors")
        assert np.array_equal(cosines(vectors, prototypes), whole, equal_nan=True)
        assert np.array_equal(again.high, sums.high)
        assert np.array_equal(again.low, sums.low)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.integers(46, 52))
def test_pieces_of_units_are_multiples_of_their_grids(values, bits):
    units, first = np.array([values]), np.empty((1, len(values)))
    rest, fine = units.copy(), 2.0**bits
    exact.cut_units(rest, first, fine)
    assert np.array_equal(first, np.rint(units * 2.0**26) / 2.0**26)
    assert np.array_equal(rest, np.rint((units - first) * fine) / fine)
