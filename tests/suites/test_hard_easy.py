"""Thresholds and count matching against loops, with ties and missing supports."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from oracles import naive_matching

from nooch.base.errors import ParameterError
from nooch.suites import EASY, HARD, NONE, Mark, mark_by_matching, mark_by_phi, mark_by_threshold

# few distinct values, so that ties are common
SUPPORTS = st.lists(
    st.tuples(
        st.booleans(), st.sampled_from([-0.5, 0.0, 0.1, 0.25, 0.25000000000000006, 1.0, math.nan])
    ),
    max_size=20,
)


def _arrays(rows):
    return np.array([s for _, s in rows], dtype=float), np.array([y for y, _ in rows], dtype=bool)


@given(SUPPORTS, st.integers(0, 12), st.integers(0, 12))
def test_matching_takes_the_most_unusual_ties_by_id(rows, n_positive, n_negative):
    support, labels = _arrays(rows)
    mark = mark_by_matching(support, labels, n_positive, n_negative)
    expected = naive_matching([(i, y, s) for i, (y, s) in enumerate(rows)], n_positive, n_negative)
    for i, (label, value) in enumerate(rows):
        if math.isnan(value):
            assert mark.codes[i] == NONE
        else:
            hard = "hard_positive" if label else "hard_negative"
            assert expected[i] == (hard if mark.codes[i] == HARD else "easy")


@given(SUPPORTS, st.integers(0, 12), st.integers(0, 12))
def test_recorded_thresholds_reproduce_the_ids_unless_tied(rows, n_positive, n_negative):
    support, labels = _arrays(rows)
    mark = mark_by_matching(support, labels, n_positive, n_negative)
    for side, is_side, sign in ((mark.positive, labels, 1), (mark.negative, ~labels, -1)):
        there = is_side & ~np.isnan(support)
        wanted = n_positive if sign == 1 else n_negative
        assert side.missing == max(0, wanted - there.sum())
        if not there.any():
            assert side.threshold is None
        elif not side.tied:
            by_rule = sign * support[there] < sign * side.threshold
            assert np.array_equal(by_rule, mark.codes[there] == HARD)
        else:
            tied = there & (support == side.threshold)
            assert set(mark.codes[tied]) == {HARD, EASY}


@given(SUPPORTS, st.sampled_from([0.0, 0.1, 0.25]))
def test_thresholds_are_strict_on_both_sides(rows, threshold):
    support, labels = _arrays(rows)
    mark = mark_by_threshold(support, labels, threshold, threshold)
    for code, label, value in zip(mark.codes, labels, support, strict=True):
        if math.isnan(value):
            assert code == NONE
        else:
            assert (code == HARD) == (value < threshold if label else value > threshold)


@given(SUPPORTS, st.sampled_from([-0.5, 0.0, 0.25]), st.sampled_from([-0.5, 0.0, 0.25]))
def test_a_larger_tau_adds_hard_positives_and_removes_hard_negatives(rows, a, b):
    support, labels = _arrays(rows)
    taus = sorted((a, b))
    low, high = (mark_by_threshold(support, labels, tau, tau).codes == HARD for tau in taus)
    assert not (low & ~high & labels).any()
    assert not (high & ~low & ~labels).any()


def test_midpoint_and_tie():
    labels = np.ones(4, dtype=bool)
    mark = mark_by_matching(np.array([0.1, 0.4, 0.2, 0.9]), labels, 2, 0)
    assert (mark.positive.threshold, mark.positive.tied) == (pytest.approx(0.3), False)
    mark = mark_by_matching(np.array([0.1, 0.4, 0.4, 0.9]), labels, 2, 0)
    assert (mark.positive.threshold, mark.positive.tied) == (0.4, True)
    assert mark.codes.tolist() == [HARD, HARD, EASY, EASY]


def test_many_ties_go_to_the_first_ids():
    """Of more than 16 values a sort that is not stable is another one."""
    labels, support = np.arange(400) % 2 == 0, np.tile([0.0, 0.0, 1.0, 1.0], 100)
    codes = mark_by_matching(support, labels, 30, 30).codes
    hard = np.flatnonzero(codes == HARD)
    assert hard[labels[hard]].tolist() == list(range(0, 120, 4))
    assert hard[~labels[hard]].tolist() == list(range(3, 123, 4))


@pytest.mark.parametrize("first", [1.0, np.nextafter(1, 2), -1.0, 0.0])
def test_between_neighboring_floats_the_upper_one_is_the_threshold(first):
    support, labels = np.array([first, np.nextafter(first, np.inf)]), np.ones(2, bool)
    mark = mark_by_matching(support, labels, 1, 0)
    assert (mark.positive.threshold, mark.positive.tied) == (support[1], False)
    assert mark_by_threshold(support, labels, mark.positive.threshold, 0).codes.tolist() == [
        HARD,
        EASY,
    ]


def test_negative_counts_are_refused():
    with pytest.raises(ParameterError, match="counts to match are -1 and 0"):
        mark_by_matching(np.zeros(1), np.zeros(1, dtype=bool), -1, 0)


@pytest.mark.parametrize(
    ("a", "b", "both", "either"),
    [(HARD, HARD, HARD, HARD), (HARD, EASY, EASY, HARD), (EASY, EASY, EASY, EASY),
     (HARD, NONE, NONE, HARD), (EASY, NONE, EASY, NONE), (NONE, NONE, NONE, NONE)],
)  # fmt: skip
def test_combinations_follow_three_valued_logic(a, b, both, either):
    one, other = (Mark(np.array([code], dtype=np.int8)) for code in (a, b))
    assert (one & other).codes.tolist() == (other & one).codes.tolist() == [both]
    assert (one | other).codes.tolist() == (other | one).codes.tolist() == [either]


def test_negation_swaps_hard_and_easy_only():
    mark = Mark(np.array([HARD, EASY, NONE], dtype=np.int8))
    assert (~mark).codes.tolist() == [EASY, HARD, NONE]
    assert (~~mark).codes.tolist() == mark.codes.tolist()


@given(st.lists(st.sampled_from([HARD, EASY, NONE]), min_size=1), st.data())
def test_de_morgan(codes, data):
    size = {"min_size": len(codes), "max_size": len(codes)}
    other = data.draw(st.lists(st.sampled_from([HARD, EASY, NONE]), **size))
    a, b = (Mark(np.array(c, dtype=np.int8)) for c in (codes, other))
    assert (~(a & b)).codes.tolist() == (~a | ~b).codes.tolist()


def test_phi_marks_every_image():
    assert mark_by_phi(np.array([True, False])).codes.tolist() == [HARD, EASY]
