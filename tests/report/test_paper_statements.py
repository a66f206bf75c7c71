"""Statements: verdicts on the paper's tables and on planted results, and their checks."""

import math

import polars as pl
import pytest
from hypothesis import given, strategies as st
from refusals import refused
from scipy.stats import spearmanr

from nooch.report.results.cells import with_averages
from nooch.report.results.run_results import Results, paper_cells
from nooch.report.results.statements import (
    ENVIRONMENT,
    OTHERS,
    PAPER,
    STATEMENTS,
    VERDICTS,
    Check,
    Number,
    above,
    concluded,
    finding_tables,
    judge_statements,
    mean_of,
    nearer,
    rank_correlation,
)

HOLDS, FAILS, OPEN = VERDICTS

# under gist, two conclusions of the paper are within its own deviations
UNDECIDED = ("erm-and-undersampling-calibrated", "cvar-worst-calibrated")


@pytest.fixture(scope="module")
def paper():
    return {finding.statement.name: finding for finding in judge_statements(paper_cells())}


def test_verdicts_on_the_papers_tables(paper):
    verdicts = {name: OPEN if name in UNDECIDED else HOLDS for name in STATEMENTS}
    assert {name: finding.verdict for name, finding in paper.items()} == verdicts
    assert list(paper) == list(STATEMENTS)
    assert len(paper) == 11
    assert all(finding.scope == "" for finding in paper.values())


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_the_paper_does_not_bear_out_is_under_gist_alone(paper, name):
    (undecided,) = (check.what for check in paper[name].checks if check.verdict != HOLDS)
    assert undecided.startswith("gist: ")
    assert HOLDS in [c.verdict for c in paper[name].checks if c.what.startswith("ce: ")]


def test_numbers_behind_the_papers_verdicts(paper):
    def of(name, place=0):
        return paper[name].checks[place].numbers

    assert of("environments-lead-ce").startswith("gdro 0.911 (0.003); cvar 0.873 (0.002): +0.038")
    assert of("environments-lead-ce", 1) == "on 12 of 12 tasks, the other way on 0, equal on 0"
    assert of("environments-lead-gist", 1) == "on 8 of 12 tasks, the other way on 3, equal on 1"
    leads = "lead 0.036 (0.002); lead 0.021"
    assert of("lead-shrinks-under-gist").startswith(leads)
    assert of("cvar-worst-calibrated", 1).startswith("cvar 0.118 (0.004); focal 0.116 (0.001)")
    assert of("waterbirds-lead-larger") == "+0.119 and +0.036"
    assert of("gist-is-harder", -1) == "on 10 of 12 tasks, the other way on 2, equal on 0"


CELLS = paper_cells().cells
OF_TASKS = CELLS.filter(pl.col("task") != "average")


def judged(cells, *names):
    return judge_statements(Results(cells, [], "planted"), names or None)


def at(**where):
    listed = {key: value if isinstance(value, tuple) else [value] for key, value in where.items()}
    return pl.all_horizontal(pl.col(key).is_in(values) for key, values in listed.items())


def hard(criterion, method):
    return at(metric="auc", subset="hard", criterion=criterion, method=method)


ECE_EASY = {"metric": "ece_paper", "subset": "easy"}
UNDERSAMPLE = "label-undersample"
PLANTED = {
    "environments-lead-ce": (hard("ce", "erm"), 0.99),
    "environments-lead-gist": (hard("gist", ENVIRONMENT), 0.5),
    "gist-is-harder": (hard("gist", "focal"), 0.95),
    "lead-shrinks-under-gist": (hard("gist", ENVIRONMENT), 0.99),
    "reweighting-comes-near": (hard("gist", "environment-reweight"), 0.8),
    "erm-best-on-easy": (at(metric="error", subset="easy", method="erm"), 0.5),
    "focal-between": (at(metric="nll", subset="hard_positive", method="focal"), 1.9),
    "erm-and-undersampling-calibrated": (at(**ECE_EASY, method=UNDERSAMPLE), 0.5),
    "cvar-worst-calibrated": (at(**ECE_EASY, method="cvar"), 0.0),
    "waterbirds-lead-larger": (hard("attribute", ENVIRONMENT), 0.7),
}


def test_every_statement_is_turned():
    assert {*PLANTED, "sides-trade-off"} == set(STATEMENTS)


@pytest.mark.parametrize("name", PLANTED)
def test_a_statement_that_is_false_does_not_hold(name):
    where, value = PLANTED[name]
    planted = pl.when(where).then(value).otherwise("mean")
    (finding,) = judged(CELLS.with_columns(mean=planted), name)
    assert finding.verdict == FAILS, finding.checks


def test_sides_do_not_trade_off_where_they_agree():
    place = {"metric": "nll", "criterion": "ce"}
    # hard negatives as good as hard positives
    positives = CELLS.filter(subset="hard_positive", **place)
    rest = CELLS.filter(~at(subset="hard_negative", **place))
    planted = pl.concat([rest, positives.with_columns(subset=pl.lit("hard_negative"))])
    (finding,) = judged(planted, "sides-trade-off")
    assert finding.verdict == FAILS, finding.checks


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_missing_method_is_a_reason_and_no_verdict(name):
    cells = CELLS.filter(pl.col("method") != "erm")
    if name == "sides-trade-off":
        cells = cells.filter(pl.col("method").is_in(["irm", "gdro", "cvar", "focal"]))
    (finding,) = judged(cells, name)
    assert finding.verdict == OPEN
    undecided = [check.numbers for check in finding.checks if check.verdict == OPEN]
    assert all("erm" in text or "methods have both" in text for text in undecided)


@pytest.mark.parametrize("name", STATEMENTS)
def test_without_results_a_statement_is_inconclusive(name):
    (finding,) = judged(CELLS.clear(), name)
    assert finding.verdict == OPEN
    assert "no results under" in finding.checks[0].numbers


def test_one_criterion_alone_is_judged_and_named():
    findings = judged(CELLS.filter(criterion="ce"))
    named = {finding.statement.name: finding for finding in findings}
    calibrated = named["cvar-worst-calibrated"]
    assert (calibrated.verdict, calibrated.scope) == (HOLDS, "only ce")
    assert named["erm-and-undersampling-calibrated"].verdict == HOLDS
    assert named["gist-is-harder"].verdict == OPEN
    tables = finding_tables(findings, judge_statements(paper_cells()), "mine")
    assert ["CVaR is worst calibrated on easy images.", "holds (only ce)", OPEN] in tables[0].rows


@pytest.mark.parametrize("name", ["gist-is-harder", "lead-shrinks-under-gist"])
def test_criteria_are_compared_over_the_tasks_that_both_have(name):
    less = OF_TASKS.filter(~at(criterion="gist", task="kite"))
    (finding,) = judged(with_averages(less), name)
    (wanted,) = judged(with_averages(OF_TASKS.filter(~at(task="kite"))), name)
    assert finding.verdict == wanted.verdict
    assert finding.checks[0].numbers == wanted.checks[0].numbers
    assert "(over car, " in finding.checks[0].what
    assert "kite" not in finding.checks[0].what
    (whole,) = judge_statements(paper_cells(), [name])
    assert whole.checks[0].what.endswith("under ce is above that under gist, auc on hard")


def test_a_task_without_hard_positives_leaves_verdicts_on_the_others():
    def outcomes(findings):
        numbers = [[c.numbers for c in f.checks if "tasks" not in c.numbers] for f in findings]
        return [f.verdict for f in findings], numbers

    lost = at(task="kite", subset=("hard", "hard_positive"))
    holed = OF_TASKS.with_columns(pl.when(~lost).then(name).alias(name) for name in ("mean", "std"))
    same = with_averages(OF_TASKS.filter(~at(task="kite")))
    assert outcomes(judged(with_averages(holed))) == outcomes(judged(same))
    (strict,) = judged(with_averages(holed, strict=True), "environments-lead-ce")
    assert strict.verdict == OPEN
    assert "no average of" in strict.checks[0].numbers


def test_calibration_is_judged_by_the_papers_ece_alone():
    cells = CELLS.with_columns(pl.col("metric").replace({"ece_paper": "ece"}))
    for finding in judged(cells, *UNDECIDED):
        assert finding.verdict == OPEN
        assert all("(ece_paper on " in check.numbers for check in finding.checks)


def test_rules_name_each_comparison_once():
    rule = STATEMENTS["focal-between"].rule
    assert rule.split("; ") == [
        f"focal is nearer to {near}, {where}"
        for near, where in [
            ("erm than to the mean of the environment methods", "auc on hard"),
            ("erm than to the mean of the environment methods", "auc on easy"),
            ("the mean of the environment methods than to erm", "nll on hard positive"),
        ]
    ]


def test_one_seed_is_inconclusive():
    cells = CELLS.with_columns(std=pl.lit(None, pl.Float64))
    findings = judged(cells, "erm-best-on-easy", "lead-shrinks-under-gist")
    assert [finding.verdict for finding in findings] == [OPEN, OPEN]
    assert all("a deviation is unknown" in c.numbers for f in findings for c in f.checks)


def test_an_unknown_statement_is_refused():
    words = "did you mean gist-is-harder"
    refused(lambda: judge_statements(paper_cells(), ["gist-is-easier"]), words)


def test_the_nine_methods():
    assert set(PAPER) == {*ENVIRONMENT, *OTHERS}
    assert len(PAPER) == 9


NUMBER = st.tuples(st.floats(0, 1), st.floats(0, 0.2))


@given(NUMBER, NUMBER)
def test_above(one, other):
    high, low = Number("a", *one), Number("b", *other)
    apart = abs(one[0] - other[0]) - (one[1] + other[1])
    if abs(apart) < 1e-6:
        return
    expected = OPEN if apart < 0 else HOLDS if one[0] > other[0] else FAILS
    assert above(high, low, "a above b").verdict == expected
    reverse = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}[expected]
    assert above(low, high, "b above a").verdict == reverse


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
    correlation = rank_correlation(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert math.isnan(correlation)
    else:
        assert correlation == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("verdicts", "conclusion"),
    [([HOLDS, HOLDS], HOLDS), ([HOLDS, OPEN, FAILS], FAILS), ([HOLDS, OPEN], OPEN), ([], OPEN)],
)
def test_conclusions(verdicts, conclusion):
    assert concluded([Check("", verdict, "") for verdict in verdicts]) == conclusion
