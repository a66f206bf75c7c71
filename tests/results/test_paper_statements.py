"""Statements: their verdicts on the paper's own tables, planted results that turn each of them, and
the checks they are made of.
"""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import fails
from scipy.stats import spearmanr

from nooch.errors import ParameterError
from nooch.results.paper_statements import STATEMENTS, finding_tables, judge_statements
from nooch.results.result_cells import with_averages
from nooch.results.run_results import Results, paper_cells
from nooch.results.statement_checks import ENVIRONMENT, OTHERS, PAPER
from nooch.results.three_valued import (
    VERDICTS,
    Check,
    Number,
    above,
    concluded,
    mean_of,
    nearer,
    rank_correlation,
)

HOLDS, FAILS, OPEN = VERDICTS

# what the paper's own numbers bear out, by these tests: two of its conclusions are within the
# deviations under gist
ON_THE_PAPER = {
    "environments-lead-ce": HOLDS,
    "environments-lead-gist": HOLDS,
    "gist-is-harder": HOLDS,
    "lead-shrinks-under-gist": HOLDS,
    "reweighting-comes-near": HOLDS,
    "sides-trade-off": HOLDS,
    "erm-best-on-easy": HOLDS,
    "focal-between": HOLDS,
    "erm-and-undersampling-calibrated": OPEN,
    "cvar-worst-calibrated": OPEN,
    "waterbirds-lead-larger": HOLDS,
}


@pytest.fixture(scope="module")
def paper():
    return {finding.statement.name: finding for finding in judge_statements(paper_cells())}


def test_verdicts_on_the_papers_tables(paper):
    assert {name: finding.verdict for name, finding in paper.items()} == ON_THE_PAPER
    assert all(finding.scope == "" for finding in paper.values())
    assert list(paper) == list(STATEMENTS)


def test_what_the_paper_does_not_bear_out_is_under_gist_alone(paper):
    for name in ("erm-and-undersampling-calibrated", "cvar-worst-calibrated"):
        undecided = [check.what for check in paper[name].checks if check.verdict != HOLDS]
        assert len(undecided) == 1
        assert undecided[0].startswith("gist: ")
        assert [c.verdict for c in paper[name].checks if c.what.startswith("ce: ")].count(
            HOLDS
        ) >= 1


def test_numbers_behind_the_papers_verdicts(paper):
    def of(name, place=0):
        return paper[name].checks[place].numbers

    assert of("environments-lead-ce").startswith("gdro 0.911 (0.003); cvar 0.873 (0.002): +0.038")
    assert of("environments-lead-ce", 1) == "on 12 of 12 tasks, the other way on 0, equal on 0"
    assert of("environments-lead-gist", 1) == "on 8 of 12 tasks, the other way on 3, equal on 1"
    assert of("lead-shrinks-under-gist").startswith(
        "lead under ce 0.036 (0.002); lead under gist 0.021"
    )
    assert of("cvar-worst-calibrated", 1).startswith("cvar 0.118 (0.004); focal 0.116 (0.001)")
    assert of("waterbirds-lead-larger") == "+0.119 and +0.036"
    assert (
        paper["gist-is-harder"].checks[-1].numbers
        == "on 10 of 12 tasks, the other way on 2, equal on 0"
    )


def changed(where, value):
    """The paper's results with other means where an expression is true."""
    cells = paper_cells().cells
    return Results(
        cells.with_columns(mean=pl.when(where).then(value).otherwise("mean")), [], "changed"
    )


def at(**where):
    return pl.all_horizontal(
        [pl.col(k).is_in(v if isinstance(v, list | tuple) else [v]) for k, v in where.items()]
    )


AUC_HARD = {"metric": "auc", "subset": "hard"}
PLANTED = {
    "environments-lead-ce": (at(**AUC_HARD, criterion="ce", method="erm"), 0.99),
    "environments-lead-gist": (at(**AUC_HARD, criterion="gist", method=list(ENVIRONMENT)), 0.5),
    "gist-is-harder": (at(**AUC_HARD, criterion="gist", method="focal"), 0.95),
    "lead-shrinks-under-gist": (at(**AUC_HARD, criterion="gist", method=list(ENVIRONMENT)), 0.99),
    "reweighting-comes-near": (
        at(**AUC_HARD, criterion="gist", method="environment-reweight"),
        0.8,
    ),
    "sides-trade-off": (at(metric="nll", criterion="ce", subset="hard_negative"), pl.col("std")),
    "erm-best-on-easy": (at(metric="error", subset="easy", method="erm"), 0.5),
    "focal-between": (at(metric="nll", subset="hard_positive", method="focal"), 1.9),
    "erm-and-undersampling-calibrated": (
        at(metric="ece_paper", subset="easy", method="label-undersample"),
        0.5,
    ),
    "cvar-worst-calibrated": (at(metric="ece_paper", subset="easy", method="cvar"), 0.0),
    "waterbirds-lead-larger": (
        at(**AUC_HARD, criterion="attribute", method=list(ENVIRONMENT)),
        0.7,
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_that_is_false_does_not_hold(name):
    where, value = PLANTED[name]
    if name == "sides-trade-off":
        # hard negatives as good as hard positives
        sides = paper_cells().cells.filter(metric="nll", criterion="ce", subset="hard_positive")
        cells = pl.concat(
            [paper_cells().cells.filter(~where), sides.with_columns(subset=pl.lit("hard_negative"))]
        )
        results = Results(cells, [], "changed")
    else:
        results = changed(where, value)
    (finding,) = judge_statements(results, [name])
    assert finding.verdict == FAILS, finding.checks


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_missing_method_is_a_reason_and_no_verdict(name):
    cells = paper_cells().cells.filter(pl.col("method") != "erm")
    if name == "sides-trade-off":
        cells = cells.filter(pl.col("method").is_in(["irm", "gdro", "cvar", "focal"]))
    (finding,) = judge_statements(Results(cells, [], "less"), [name])
    assert finding.verdict == OPEN
    assert all(
        "erm" in c.numbers or "methods have both" in c.numbers
        for c in finding.checks
        if c.verdict == OPEN
    )


@pytest.mark.parametrize("name", STATEMENTS)
def test_without_results_nothing_can_be_said(name):
    (finding,) = judge_statements(Results(paper_cells().cells.clear(), [], "nothing"), [name])
    assert finding.verdict == OPEN
    assert "no results under" in finding.checks[0].numbers


def test_one_criterion_alone_is_judged_and_said():
    only = Results(paper_cells().cells.filter(criterion="ce"), [], "ce")
    found = {f.statement.name: f for f in judge_statements(only)}
    assert (found["cvar-worst-calibrated"].verdict, found["cvar-worst-calibrated"].scope) == (
        HOLDS,
        "ce alone",
    )
    assert found["erm-and-undersampling-calibrated"].verdict == HOLDS
    assert found["gist-is-harder"].verdict == OPEN
    tables = finding_tables(list(found.values()), judge_statements(paper_cells()), "mine")
    assert ["CVaR is worst calibrated on easy images.", "holds (ce alone)", OPEN] in tables[0].rows


def test_criteria_are_compared_over_the_tasks_that_both_have():
    cells = paper_cells().cells
    part = cells.filter(pl.col("task") != "average")
    less = with_averages(
        part.filter(~((pl.col("criterion") == "gist") & (pl.col("task") == "kite")))
    )
    for name, place in (("gist-is-harder", 0), ("lead-shrinks-under-gist", 0)):
        (finding,) = judge_statements(Results(less, [], "less"), [name])
        same = with_averages(part.filter(pl.col("task") != "kite"))
        (wanted,) = judge_statements(Results(same, [], "same"), [name])
        assert finding.verdict == wanted.verdict
        assert finding.checks[place].numbers == wanted.checks[place].numbers
        assert "(over car, " in finding.checks[place].what
        assert "kite" not in finding.checks[place].what
    (whole,) = judge_statements(paper_cells(), ["lead-shrinks-under-gist"])
    assert whole.checks[0].what.endswith("is larger under ce than under gist")


def test_a_task_without_hard_positives_leaves_verdicts_on_the_others():
    cells = paper_cells().cells.filter(pl.col("task") != "average")
    lost = (pl.col("task") == "kite") & pl.col("subset").is_in(["hard", "hard_positive"])
    holed = cells.with_columns(
        pl.when(~lost).then(pl.col(name)).alias(name) for name in ("mean", "std")
    )
    found = judge_statements(Results(with_averages(holed), [], "holed"))
    same = judge_statements(
        Results(with_averages(cells.filter(pl.col("task") != "kite")), [], "same")
    )
    assert [
        (f.verdict, [c.numbers for c in f.checks if "tasks" not in c.numbers]) for f in found
    ] == [(f.verdict, [c.numbers for c in f.checks if "tasks" not in c.numbers]) for f in same]
    strict = judge_statements(
        Results(with_averages(holed, strict=True), [], "strict"), ["environments-lead-ce"]
    )
    assert strict[0].verdict == OPEN
    assert "no average of" in strict[0].checks[0].numbers


def test_calibration_is_judged_by_a_named_ece():
    names = ["erm-and-undersampling-calibrated", "cvar-worst-calibrated"]
    for metric, text in (
        ("ece_paper", "the paper's ECE (ece_paper)"),
        ("ece", "ECE of the positive probability (ece)"),
    ):
        cells = paper_cells().cells.with_columns(pl.col("metric").replace({"ece_paper": metric}))
        for finding in judge_statements(Results(cells, [], metric), names):
            assert finding.verdict == OPEN
            assert all(check.what.endswith(text) for check in finding.checks)


def test_one_seed_says_nothing():
    cells = paper_cells().cells.with_columns(std=pl.lit(None, pl.Float64))
    found = judge_statements(
        Results(cells, [], "one seed"), ["erm-best-on-easy", "lead-shrinks-under-gist"]
    )
    assert [f.verdict for f in found] == [OPEN, OPEN]
    assert all("a deviation is unknown" in c.numbers for f in found for c in f.checks)


def test_an_unknown_statement_is_refused():
    fails(
        lambda: judge_statements(paper_cells(), ["gist-is-easier"]),
        "did you mean gist-is-harder",
        kind=ParameterError,
    )


def test_the_nine_methods():
    assert set(PAPER) == {*ENVIRONMENT, *OTHERS}
    assert len(PAPER) == 9


NUMBER = st.tuples(st.floats(0, 1), st.floats(0, 0.2))


@given(NUMBER, NUMBER)
def test_above(one, other):
    check = above(Number("a", *one), Number("b", *other), "a above b")
    apart = abs(one[0] - other[0]) - (one[1] + other[1])
    if abs(apart) < 1e-6:
        return
    expected = OPEN if apart < 0 else HOLDS if one[0] > other[0] else FAILS
    assert check.verdict == expected
    assert (
        above(Number("b", *other), Number("a", *one), "b above a").verdict
        == {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}[expected]
    )


@given(NUMBER, NUMBER, NUMBER)
def test_nearer_is_the_opposite_the_other_way_round(number, near, far):
    n, a, b = Number("n", *number), Number("a", *near), Number("b", *far)
    one, other = nearer(n, a, b, "").verdict, nearer(n, b, a, "").verdict
    assert {one, other} in ({HOLDS, FAILS}, {OPEN})
    if one == HOLDS:
        assert abs(number[0] - near[0]) < abs(number[0] - far[0])


def test_deviations_of_means_and_differences():
    numbers = [Number("a", 0.5, 0.03), Number("b", 0.7, 0.04)]
    assert mean_of(numbers, "m").mean == pytest.approx(0.6)
    assert mean_of(numbers, "m").std == pytest.approx(0.05 / 2)
    assert numbers[0].minus(numbers[1], "d").std == pytest.approx(0.05)
    assert mean_of([*numbers, Number("c", 0.1, None)], "m").std is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=9))
def test_rank_correlation_is_spearmans(pairs):
    first, second = zip(*pairs, strict=True)
    found = rank_correlation(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


def test_conclusions():
    def checks(*verdicts):
        return [Check("", verdict, "") for verdict in verdicts]

    assert concluded(checks(HOLDS, HOLDS)) == HOLDS
    assert concluded(checks(HOLDS, OPEN, FAILS)) == FAILS
    assert concluded(checks(HOLDS, OPEN)) == OPEN
    assert concluded([]) == OPEN
