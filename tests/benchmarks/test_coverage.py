"""Intervals hold the truth as often as docs/intervals.md says, by some draws.

NOOCH_TEST_DRAWS=200, as every week, finds smaller differences.
"""

import os
import sys
from pathlib import Path

import pytest
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import coverage

DRAWS = int(os.environ.get("NOOCH_TEST_DRAWS", "50"))


def holds(row, least=0.93, most=0.98):
    """The bounds, with the chance that so few draws leave: 1 in 100,000 for a row at a bound."""
    low, high = row.coverage
    assert low >= binom.ppf(1e-5, row.draws, least) / row.draws, row
    if row.events >= 5:
        assert high <= binom.ppf(1 - 1e-5, row.draws, most) / row.draws, row


@pytest.mark.parametrize(("per_set", "rate"), [(12, 0.005), (50, 0.015), (12, 0.05)])
def test_weighted_question_samples(per_set, rate):
    """With resamples a task's interval held a rate of 1.16% in .37 to .89 of draws."""
    rows = list(coverage.question_samples(DRAWS, per_set, rate, 1.0))
    assert [row.what.split(",")[0] for row in rows][-1] == "ratio"
    for row in rows:
        # a ratio has an interval where a yes without the context is there to divide by
        if row.draws > DRAWS / 2:
            holds(row)


@pytest.mark.parametrize("n", [10, 36])
@pytest.mark.parametrize(("up", "down"), [(0.05, 0.0), (0.15, 0.05)])
def test_paired_differences(n, up, down):
    """The bootstrap's held .71 of 10 images, and .73 of 36."""
    holds(coverage.paired_errors(DRAWS, n, up, down))


@pytest.mark.parametrize("sizes", [[20] * 6, [34, 12, 5]])
def test_averages_over_tasks(sizes):
    for row in coverage.average_errors(DRAWS, sizes, [0.1] * len(sizes)):
        holds(row, most=1.0)


@pytest.mark.parametrize(("n", "recall", "fpr"), [(3, 0.8, 0.3), (20, 0.95, 0.05)])
def test_sensitivity(n, recall, fpr):
    """The bootstrap's held .73 to .87, and never a d' beyond the largest of n images."""
    for row in coverage.sensitivity(DRAWS, n, recall, fpr):
        holds(row, most=1.0)


@pytest.mark.parametrize("case", coverage.SCENES, ids=lambda case: case[2])
def test_boxes_of_scenes(case):
    """Missed by .1 + .3 out of context and claimed by support; or by size only: no effect."""
    rows = list(coverage.boxes_of_scenes(DRAWS, 800, *case))
    assert [row.what for row, _ in rows] == ["effect, boxes missed", "effect, boxes claimed"]
    for row, is_claimed in rows:
        holds(row, least=0.935, most=0.97)
        if case[2] == "by size only":
            assert is_claimed * DRAWS <= binom.ppf(1 - 1e-5, DRAWS, 0.06)
        else:
            assert is_claimed > 0.9


@pytest.mark.parametrize("sd", [1, 2])
def test_images_and_groups_that_err_alike(sd):
    """As if they were independent, objects of 16 to 40 images held .76 to .88, and images in groups
    of six .72 to .90.
    """
    rows = [coverage.object_rates(4 * DRAWS, images, 0.3, sd) for images in (16, 40)]
    rows += [row for groups in (16, 40) for row in coverage.grouped_errors(DRAWS, groups, sd)]
    rows += [row for row, _ in coverage.boxes_of_scenes(DRAWS, 800, *coverage.SCENES[0], sd)]
    for row in rows:
        holds(row, least=0.935)


def test_areas_and_losses():
    rows = list(coverage.scores(DRAWS, 20, 1.5))
    assert {row.what for row in rows} == {"AUC", "NLL", "difference of AUC", "difference of NLL"}
    for row in rows:
        holds(row, least=0.9)
    # nearest to 1 percentiles held .88
    for negatives in (20, 200):
        for row in coverage.scores(2 * DRAWS, 20, 2.5, negatives):
            holds(row, least=0.95 if row.what == "AUC" else 0.87)
    # fewer than 20 images of a label: no interval is better than a false one
    few = [row.what for row in coverage.scores(DRAWS // 4, 10, 1.5)]
    assert few == ["NLL", "difference of NLL"]
