"""Thresholds of answers against a search over all of them, and in the scores of a suite."""

import hypothesis.strategies as st
import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from oracles import naive_metric
from refusals import fails
from scipy.special import expit, logit
from scored import TASKS, logits, small_suite

from nooch.base.errors import InputError, ParameterError
from nooch.evaluation import evaluate
from nooch.evaluation.metrics import ALL_METRICS, ANSWER_METRICS
from nooch.evaluation.thresholds import best_threshold
from nooch.suites import Suite

VALUES = st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 50.0, 60.0]) | st.floats(-5, 5)


@given(st.data(), st.integers(2, 20), st.sampled_from(["logit", "probability"]))
def test_the_best_threshold_is_that_of_a_search(data, n, scale):
    labels = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    labels[0], labels[1] = True, False
    z = np.array(data.draw(st.lists(VALUES, min_size=n, max_size=n)))
    values = expit(z) if scale == "probability" else z
    known = np.unique(np.append(expit(z), [0.0, 1.0]))
    candidates = sorted({0.5, *((known[1:] + known[:-1]) / 2)})

    def balanced(threshold):
        if scale == "logit":
            return naive_metric("balanced_accuracy", labels, values, threshold=threshold)
        return ((values > threshold)[labels].mean() + (values <= threshold)[~labels].mean()) / 2

    chosen = best_threshold(labels, values, scale)
    most = max(map(balanced, candidates))
    assert balanced(chosen) == pytest.approx(most, abs=1e-12)
    tied = [t for t in candidates if balanced(t) == pytest.approx(most, abs=1e-12)]
    assert abs(chosen - 0.5) <= min(abs(t - 0.5) for t in tied) + 1e-12
    # where 0.5 is as good as any other, it stays
    assert (chosen == 0.5) == (0.5 in tied)


@given(st.data(), st.integers(2, 20))
def test_the_threshold_of_the_worst_side_is_that_of_a_search(data, n):
    cells = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    z = np.array(data.draw(st.lists(VALUES, min_size=n, max_size=n)))
    labels, known = cells % 2 == 0, np.unique(np.append(expit(z), [0.0, 1.0]))

    def worst(threshold):
        wrong = (z > logit(threshold)) != labels
        return max(wrong[cells == cell].mean() for cell in set(cells))

    chosen = best_threshold(labels, z, "logit", [cells == cell for cell in set(cells)])
    least = min(worst(t) for t in [0.5, 1.0, *((known[1:] + known[:-1]) / 2)])
    assert worst(chosen) == pytest.approx(least, abs=1e-12)


def test_of_one_class_the_threshold_is_one_half():
    assert best_threshold(np.array([True, True]), np.array([-1.0, 2.0]), "logit") == 0.5


@pytest.fixture(scope="module")
def suite():
    return small_suite()


@pytest.fixture(scope="module")
def outputs(suite):
    return logits(suite, ["valid", "test"])


def values_of(suite, outputs, task, split):
    """Labels and logits of a set's images."""
    challenge = suite.set("ce", task, split)
    known = dict(outputs.filter(task=task).select("image_id", "logit").rows())
    return challenge.labels, np.array([known[image] for image in challenge.image_ids])


def test_each_task_and_run_has_its_threshold_chosen_on_valid(suite, outputs):
    """Both scales choose alike; what is recorded gives the same scores when it is given."""
    other = outputs.with_columns(logit=0.5 - pl.col("logit"))
    probable = outputs.select("image_id", "task", probability=1 / (1 + (-pl.col("logit")).exp()))
    runs = {"a": outputs, "b": other, "p": probable}
    scores = evaluate(suite, runs, metrics=ALL_METRICS, threshold="valid")
    chosen = scores.settings["thresholds"]
    assert list(chosen) == ["a", "b", "p"]
    decided = ("error", "accuracy", "balanced_accuracy", "precision", "recall", "fpr", "f1")
    for task in TASKS:
        best = best_threshold(*values_of(suite, outputs, task, "valid"), "logit")
        assert chosen["a"][task] == best
        assert chosen["p"][task] == pytest.approx(best, abs=1e-12)
        assert chosen["b"][task] != best
        labels, z = values_of(suite, outputs, task, "test")
        where = {"task": task, "criterion": "ce"}
        for metric in decided:
            expected = pytest.approx(naive_metric(metric, labels, z, threshold=best), abs=1e-12)
            assert scores.value(metric, "all", run="a", **where) == expected
            assert scores.value(metric, "all", run="p", **where) == expected
    assert any("of b are positive above" in note and "valid" in note for note in scores.notes)
    again = evaluate(suite, {"a": outputs}, metrics=ALL_METRICS, threshold=chosen["a"])
    assert again.table.equals(scores.table.filter(run="a"))


def test_a_threshold_changes_answers_alone(suite, outputs):
    plain, other = (evaluate(suite, outputs, metrics=ALL_METRICS, threshold=t) for t in (0.5, 0.9))
    keys = ["metric", "criterion", "task", "subset", "cue", "value"]
    left = set(plain.table.select(keys).rows()) ^ set(other.table.select(keys).rows())
    moved = {row[0] for row in left}
    assert {"error", "accuracy", "recall"} <= moved <= set(ANSWER_METRICS)
    assert "thresholds" not in plain.settings
    assert not any("positive above" in note for note in plain.notes)
    assert "answers are positive above the probability 0.9" in other.notes


@pytest.mark.parametrize("ending", ["json", "csv", "tsv", "parquet"])
def test_files_of_thresholds(suite, outputs, tmp_path, ending):
    file, given = tmp_path / f"t.{ending}", {"car": 0.25, "fire hydrant": 1}
    table = pl.DataFrame({"task": list(given), "threshold": [0.25, 1.0], "more": ["x", "y"]})
    {
        "json": lambda: table.write_json(file),
        "csv": lambda: table.write_csv(file),
        "tsv": lambda: table.write_csv(file, separator="\t"),
        "parquet": lambda: table.write_parquet(file),
    }[ending]()
    scores = evaluate(suite, outputs, threshold=file)
    expected = {"car": 0.25, "fire_hydrant": 1.0}
    assert scores.settings["thresholds"] == {"predictions": expected}
    assert scores.table.equals(evaluate(suite, outputs, threshold=expected).table)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.json", '{"car": "high"}', ["t.json"]),
        ("t.csv", "task,threshold\ncar,5\nfire_hydrant,1\n", ["t.csv: the threshold of car is 5"]),
        ("t.csv", "task,value\ncar,0.5\n", ["lacks the columns threshold"]),
        ("t.csv", "task,threshold\ncar,0.5\ncar,0.4\n", ["more than one row for car"]),
        ("t.csv", "task,threshold\ncar,\nfire_hydrant,1\n", ["an empty or NaN cell for car"]),
        ("t.csv", "task,threshold\n,0.5\n", ["an empty or NaN cell"]),
        ("t.csv", "task,threshold\ncar,high\n", ["column threshold contains String"]),
        ("t.csv", "task,threshold\ncar,0.5\n", ["there is no threshold for fire_hydrant"]),
        ("t.csv", "task,threshold\ncra,0.5\n", ["'cra' is not a task", "did you mean car"]),
        ("t.txt", "0.5", ["'.txt'"]),
        (None, "vlaid", ["vlaid", "0 to 1", "valid"]),
        (None, float("nan"), ["the threshold is nan"]),
        (None, 5, ["the threshold is 5", "0 to 1"]),
        (None, "-0.1", ["the threshold is -0.1"]),
        (None, {"car": 2}, ["the threshold of car is 2"]),
        (None, {"car": True}, ["the threshold of car is True"]),
        (None, {}, ["there is no threshold for car, fire_hydrant"]),
    ],
)
def test_what_is_no_threshold(suite, outputs, tmp_path, name, content, words):
    if name is not None:
        (tmp_path / name).write_text(content)
        content = tmp_path / name
    kinds = (InputError, ParameterError)
    fails(lambda: evaluate(suite, outputs, threshold=content), *words, kind=kinds)


def test_valid_is_needed_to_choose(suite, outputs):
    lacking = logits(suite, "test")
    words = "no threshold can be chosen on valid: 16 of 16 images", "threshold=0.5"
    fails(lambda: evaluate(suite, lacking, threshold="valid"), *words)
    sets = [record for record in suite.header.sets if record.split == "test"]
    header = msgspec.structs.replace(suite.header, sets=sets, splits=["test"])
    words = "chosen on valid needs this split", "threshold=0.5"
    less = Suite(header, suite.set)
    fails(lambda: evaluate(less, lacking, threshold="valid"), *words, kind=ParameterError)
