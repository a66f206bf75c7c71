"""Conditions on scores: their texts, what they concern, when they fire."""

import polars as pl
import pytest
from refusals import fails
from scored import logits, small_suite

from nooch.base.errors import ParameterError
from nooch.evaluation import evaluate, judge, parse_condition


@pytest.fixture(scope="module")
def suite():
    return small_suite()


@pytest.fixture(scope="module")
def scores(suite):
    runs = {name: logits(suite, seed=seed) for seed, name in enumerate("pq")}
    return evaluate(suite, runs, averages=["uniform"])


def _judged(scores, suite, *texts):
    return judge(scores.table, [parse_condition(text, suite) for text in texts], suite)


def _refused(action, *words):
    fails(action, *words, kind=ParameterError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auc@hard<0.85", ("auc", "hard", None, None, "<", 0.85)),
        ("auc@hard[ce]<0.85", ("auc", "hard", "ce", None, "<", 0.85)),
        ("auc@hard[ce,car]<0.85", ("auc", "hard", "ce", "car", "<", 0.85)),
        ("nll@hard_positive[*,car]>=2", ("nll", "hard_positive", None, "car", ">=", 2.0)),
        ("auc@hard[ce,average]<=.5", ("auc", "hard", "ce", "average", "<=", 0.5)),
        ("auc@hard[ce & ~gist,*]>1e-3", ("auc", "hard", "ce & ~gist", None, ">", 0.001)),
        (" ece_top @ easy [ ce , car ] > -1 ", ("ece_top", "easy", "ce", "car", ">", -1.0)),
        ("error@easy_positive[ce,car]>0.2", ("error", "easy_positive", "ce", "car", ">", 0.2)),
        ("ece_paper@easy<1", ("ece_paper", "easy", None, None, "<", 1.0)),
        ("auc@avg:uniform[]<1", ("auc", "avg:uniform", None, None, "<", 1.0)),
    ],
)
def test_forms(text, expected):
    c = parse_condition(text)
    assert (c.metric, c.subset, c.criterion, c.task, c.sign, c.bound) == expected
    assert c.text == text.strip()


OTHER_FORMS = """|auc|auc@hard|auc<0.5|@hard<0.5|auc@<0.5|auc@hard<|auc@hard==0.5|auc@hard=0.5
|auc@hard!=1|auc@hard[ce,car,x]<1|auc@hard[ce<1|auc@hard ce]<1|auc@hard<nan|0.5<auc@hard
|auc@hard=<0.5|auc@hard><1|new auc@hard|old<new auc@hard|auc@hard[ce]>"""


@pytest.mark.parametrize("text", OTHER_FORMS.replace("\n", "").split("|"))
def test_other_forms_are_refused_with_an_example(text):
    _refused(lambda: parse_condition(text), "`fail_if`", "auc@hard[ce,car]<0.85")


def test_metrics_are_looked_at_at_once():
    _refused(lambda: parse_condition("acu@hard<1"), "'acu' is not a metric", "did you mean auc")


@pytest.mark.parametrize(
    ("text", "n"),
    [("auc@all<2", 8), ("auc@all[ce]<2", 4), ("auc@all[ce,car]<2", 2), ("auc@all[*,car]<2", 4),
     ("auc@all[,car]<2", 4), ("auc@all[ce,average]<2", 2), ("auc@all[*,average]<2", 4),
     ("nll@avg:uniform[ce,car]<9", 2)],
)  # fmt: skip
def test_brackets_narrow(scores, suite, text, n):
    verdicts = _judged(scores, suite, text)
    assert len(verdicts) == len({(v.run, v.criterion, v.task, v.split) for v in verdicts}) == n
    assert all(verdict.fired for verdict in verdicts)
    wanted = text.partition("[")[2].partition("]")[0].split(",")
    for verdict in verdicts:
        assert wanted[0] in {"", "*", verdict.criterion}
        assert verdict.task == wanted[1] if len(wanted) > 1 else verdict.task != "average"


@pytest.mark.parametrize(
    ("sign", "fires"), [("<", False), ("<=", True), (">", False), (">=", True)]
)
def test_signs_at_the_very_value(scores, suite, sign, fires):
    value = scores.value("auc", "all", run="p", criterion="ce", task="car")
    verdict, _ = _judged(scores, suite, f"auc@all[ce,car]{sign}{value!r}")
    assert (verdict.run, verdict.value, verdict.fired) == ("p", value, fires)
    assert ("which is" in verdict.reason) == fires
    assert ("not " in verdict.reason) != fires


def test_it_fires_exactly_where_a_value_breaks_it(scores, suite):
    for verdict in _judged(scores, suite, "auc@all<0.8", "nll@hard>0.7"):
        place = {"run": verdict.run, "criterion": verdict.criterion, "task": verdict.task}
        subset = verdict.condition.subset
        assert verdict.value == scores.value(verdict.condition.metric, subset, **place)
        assert verdict.fired == (verdict.value < 0.8 if subset == "all" else verdict.value > 0.7)


def test_an_undefined_value_fires_with_the_reason(suite):
    # on one side alone there is no ranking
    scores = evaluate(suite, logits(suite))
    for verdict in _judged(scores, suite, "auc@hard_positive<0", "auc@hard_positive>2"):
        assert verdict.fired
        assert verdict.value is None
        assert verdict.reason == "auc is undefined: no negative"


def test_a_task_without_predictions_fires_where_it_is_meant(suite):
    scores = evaluate(suite, logits(suite, tasks=["car"]))
    assert not any(v.fired for v in _judged(scores, suite, "auc@all<0"))
    for verdict in _judged(scores, suite, "auc@all[*,fire_hydrant]<0"):
        assert verdict.fired
        assert "not scored" in verdict.reason
    (average,) = _judged(scores, suite, "auc@all[ce,average]<0")
    assert average.fired
    assert "two tasks" in average.reason
    # one run has it, the other has not
    mixed = evaluate(suite, {"a": logits(suite), "b": logits(suite, tasks=["car"])})
    fired = {(v.run, v.task) for v in _judged(mixed, suite, "auc@all[ce]<0") if v.fired}
    assert fired == {("b", "fire_hydrant")}


def test_criteria_that_were_left_out_do_not_fire(suite):
    scores = evaluate(suite, logits(suite), criteria=["ce"])
    verdicts = _judged(scores, suite, "auc@all<0")
    assert {verdict.criterion for verdict in verdicts} == {"ce"}
    assert not any(verdict.fired for verdict in verdicts)
    # unless they are meant
    for verdict in _judged(scores, suite, "auc@all[~ce]<0"):
        assert verdict.fired
        assert "not scored" in verdict.reason


def test_a_task_without_a_set(scores, suite):
    named, words = "auc@hard[ce,cow]<1", ("task cow has no ce set", "no class has A(C, cow)")
    fails(lambda: _judged(scores, suite, named), *words, kind=ParameterError, helps=False)
    _refused(lambda: _judged(scores, suite, "auc@hard[*,cow]<1"), "concerns no value")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("auc@hrad<1", ["'hrad' is not a subset of the scores", "did you mean hard"]),
        ("auc@avg:valid<1", ["'avg:valid' is not a subset of the scores", "avg:uniform"]),
        ("auc@hard[gist]<1", ["'gist' is not a criterion of the suite", "ce, ~ce"]),
        ("auc@hard[ce,cra]<1", ["'cra' is not a task of the suite", "did you mean car"]),
        ("auc@hard[car]<1", ["'car' is not a criterion of the suite"]),
    ],
)
def test_names_that_are_not_there(scores, suite, text, parts):
    _refused(lambda: _judged(scores, suite, text), *parts)


def test_metrics_that_were_not_taken(suite):
    scores = evaluate(suite, logits(suite), metrics=["auc"])
    _refused(lambda: _judged(scores, suite, "nll@hard<1"), "'nll' is not a metric of the scores")


def test_cues_and_groups_are_not_judged(suite):
    groups = pl.DataFrame({"image_id": range(1, 61), "half": [i % 2 for i in range(60)]})
    scores = evaluate(suite, logits(suite), by=["half"], attributes=groups)
    assert scores.table["group"].n_unique() > 1
    assert len(_judged(scores, suite, "auc@all<0")) == 4


def test_easy_sides_are_judged(suite, scores):
    texts = ("error@easy_positive[ce,car]>=0", "error@easy_negative[ce,car]<0")
    verdicts = _judged(scores, suite, *texts)
    assert [v.fired for v in verdicts] == [True, True, False, False]
    for verdict in verdicts[:2]:
        place = {"criterion": "ce", "task": "car", "run": verdict.run}
        assert verdict.value == scores.value("error", "easy_positive", **place)
