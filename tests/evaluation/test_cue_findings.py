"""Findings of cues: rates by hand, planted effects, and no verdict where nothing was planted."""

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from planted import planted_data, planted_predictions
from refusals import fails
from scipy.stats import false_discovery_control

import nooch
from nooch.base.errors import ParameterError
from nooch.evaluation.findings import (
    COLUMNS,
    VERDICTS,
    Findings,
    adjusted_p,
    cue_findings,
    sentence,
)
from nooch.evaluation.predictions import positions


@pytest.fixture(scope="module")
def data():
    return planted_data()


@pytest.fixture(scope="module")
def suite(data):
    return nooch.find(data, {"ce": nooch.CE()}, tasks=["car"], splits=["test"])


def test_rates_are_those_counted_by_hand(data, suite):
    answers = planted_predictions(data)
    found = cue_findings(suite, answers, data=data)
    assert dict(found.table.schema) == COLUMNS
    part = data.images.with_columns(
        car=data.labels("car"), road=data.area("road"), said=answers["logit"] > 0
    ).filter(split="test")
    for side, label in (("positive", True), ("negative", False)):
        row = found.table.row(by_predicate=pl.col("side") == side, named=True)
        of_side = part.filter(car=label).with_columns(wrong=pl.col("said") != label)
        misleading = pl.col("road") < 0.1 if label else pl.col("road") > 0.1
        inside, outside = of_side.filter(misleading), of_side.filter(~misleading)
        assert (row["n_misleading"], row["n_usual"]) == (inside.height, outside.height)
        assert row["rate_misleading"] == pytest.approx(inside["wrong"].mean())
        assert row["rate_usual"] == pytest.approx(outside["wrong"].mean())
        assert row["by_size"] is label
        assert (row["task"], row["cue"], row["split"]) == ("car", "road", "test")


def test_planted_effects_are_worse_and_none_is_where_none_was_planted(data, suite):
    found = cue_findings(suite, planted_predictions(data), data=data)
    assert found.table["verdict"].to_list() == ["worse", "worse"]
    assert found.table["low"].to_list() == sorted(found.table["low"], reverse=True)
    even = planted_predictions(data, missed=0.2, claimed=0.2, usual=0.2)
    assert set(cue_findings(suite, even, data=data).table["verdict"]) == {"no difference shown"}
    better = planted_predictions(data, missed=0.05, claimed=0.05, usual=0.5)
    assert set(cue_findings(suite, better, data=data).table["verdict"]) == {"better"}


@pytest.mark.parametrize("seed", range(6))
def test_leaving_answers_out_never_makes_an_effect_smaller(data, suite, seed):
    """A model that errs alike everywhere, or worse out of context, and its twins with answers that
    cannot be read; against the largest effect that these could mean.
    """
    draw = np.random.default_rng(seed)
    usual = 0.2 if seed % 2 else 0.1
    (run,) = nooch.load_predictions(planted_predictions(data, usual=usual), suite)
    unread = draw.random(run.values.shape) < draw.random()
    asked = np.ones(run.values.shape)
    twin = replace(run, values=np.where(unread, np.nan, run.values), weights=asked)
    found = {}
    for name, each in (("run", run), ("twin", twin)):
        table = cue_findings(suite, [each], data=data).table.sort("side")
        found[name] = table.select("effect", "p", "verdict")
    known = data.select("test")
    road, car = known.area("road") > 0.1, known.labels("car")
    at = positions(known.images["image_id"], run.image_ids)
    values = np.where(unread[:, at], np.where(car == road, car, ~car) * 2.0 - 1, run.values[:, at])
    worst = replace(run, image_ids=known.images["image_id"], values=values)
    largest = cue_findings(suite, [worst], data=data).table.sort("side")
    assert found["twin"].equals(largest.select("effect", "p", "verdict"))
    assert (found["twin"]["effect"] >= found["run"]["effect"]).all()


def test_a_size_that_explains_the_misses_leaves_no_effect(data, suite):
    """Effects of positives are by size, unless the dataset is not given."""
    area = data.area("car")
    roads = data.areas[:, [1]].toarray()[:, 0] > 0
    random = np.random.default_rng(5)
    small = np.where(roads, area < 0.1, area < 0.35)
    often = np.where(area < 0.25, 0.6, 0.1)
    wrong = data.labels("car") & (random.random(len(data)) < often) & small
    answers = planted_predictions(data, missed=0, claimed=0, usual=0).with_columns(
        logit=pl.when(pl.Series(wrong)).then(-2.0).otherwise(pl.col("logit"))
    )
    positive = pl.col("side") == "positive"
    row = cue_findings(suite, answers, data=data).table.row(by_predicate=positive, named=True)
    plain = cue_findings(suite, answers).table.row(by_predicate=positive, named=True)
    assert row["by_size"]
    assert not plain["by_size"]
    assert plain["effect"] == pytest.approx(row["rate_misleading"] - row["rate_usual"])


def test_few_images_allow_no_conclusion(data, suite):
    few = planted_data(60)
    criteria = {"ce": nooch.CE(cues={"car": ["road"]})}
    small = nooch.find(few, criteria, tasks=["car"], splits=["test"])
    found = cue_findings(small, planted_predictions(few, missed=1, usual=0), data=few)
    assert set(found.table["verdict"]) == {"too few images to tell"}
    assert found.table["p_adjusted"].null_count() == len(found)
    assert found.sentences() == []


def test_of_criteria_without_cues_hard_images_are_compared(data):
    criteria = {"north": nooch.Attribute("place = 'north'")}
    north = nooch.find(data, criteria, tasks=["car"], splits=["test"])
    found = cue_findings(north, planted_predictions(data))
    assert found.table["cue"].to_list() == [None, None]
    n = data.images.filter(split="test", place="north").height
    assert found.table["n_misleading"].sum() == n


def row_of(**values):
    given = {
        "run": "a", "criterion": "ce", "task": "car", "cue": "road", "side": "positive",
        "split": "test", "n_misleading": 312, "n_usual": 500, "rate_misleading": 0.54,
        "rate_low": 0.47, "rate_high": 0.61, "rate_usual": 0.17, "effect": 0.35, "low": 0.3,
        "high": 0.4, "p": 1e-9, "by_size": False, "of_boxes": False, "one_label": False,
    }  # fmt: skip
    return {**given, **values}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "The model misses cars without a road 3.2 times as often (54% against 17%)"),
        ({"run": "MobileNet", "rate_usual": 0.6, "rate_misleading": 1.0},
         "MobileNet misses cars without a road 1.7 times as often (100% against 60%)"),
        ({"side": "negative", "task": "boat", "cue": "water-other", "rate_usual": 0.0},
         ("The model claims boats in images with water but no boat 54% of the time"
         " (otherwise 0%)")),
        # ratios above 20 are no ratios
        ({"rate_misleading": 0.56, "rate_usual": 0.003},
         "The model misses cars without a road 56% of the time (otherwise 0.3%)"),
        ({"rate_misleading": 0.56, "rate_usual": 0.028},
         "The model misses cars without a road 20.0 times as often (56% against 2.8%)"),
        ({"cue": None, "by_size": True},
         ("The model misses cars outside their usual context 3.2 times as often"
         " (54% against 17%)")),
        ({"cue": None, "criterion": "context"},
         ("The model misses cars outside their usual context 3.2 times as often"
         " (54% against 17%)")),
        ({"cue": None, "criterion": "context", "task": "malignant", "one_label": True},
         ("The model misses malignant images outside their usual context 3.2 times as often"
         " (54% against 17%)")),
        ({"cue": None, "criterion": "context", "task": "ill", "one_label": True,
          "side": "negative"},
         ("The model claims ill in images with its usual context that are not ill 3.2 times as"
          " often (54% against 17%)")),
        ({"cue": None, "criterion": "gist", "side": "negative"},
         ("The model claims cars in images whose captions suggest it but no car 3.2 times as"
          " often (54% against 17%)")),
        ({"cue": None, "criterion": "own", "side": "negative"},
         ("The model claims cars in images in the context own expects but no car 3.2 times as"
          " often (54% against 17%)")),
        # sizes differ so much that the rates of all sizes show the opposite, or nothing
        ({"by_size": True, "rate_usual": 0.7},
         ("The model misses cars without a road 35 points more often among cars of the same size"
         " (of all sizes 54% against 70%)")),
        ({"by_size": True, "rate_usual": 0.53},
         ("The model misses cars without a road 35 points more often among cars of the same size"
         " (of all sizes 54% against 53%)")),
        ({"side": "negative", "task": "boat", "cue": "water", "of_boxes": True,
          "rate_misleading": 0.031, "rate_usual": 0.002},
         ("The model claims boats in images with water but no boat 15.5 times as often (31.0"
          " against 2.0 per 1,000 images)")),
        ({"by_size": True, "effect": -0.2},
         ("The model misses cars without a road 20 points less often among cars of the same size"
         " (of all sizes 54% against 17%)")),
    ],
)  # fmt: skip
def test_sentences(values, expected):
    assert sentence(row_of(**{"run": "model"} | values)) == expected


def test_p_values_are_adjusted_over_rows_with_enough_images():
    rows = [row_of(p=p, n_usual=n) for p, n in ((0.01, 500), (0.04, 500), (0.001, 19), (0.5, 20))]
    table = Findings.from_rows(rows, {}).table.sort("p")
    assert table["p_adjusted"].to_list() == [None, pytest.approx(0.03), pytest.approx(0.06), 0.5]
    assert table["verdict"].to_list() == [VERDICTS[3], VERDICTS[0], VERDICTS[2], VERDICTS[2]]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_are_those_of_scipy(p):
    assert adjusted_p(np.array(p)).tolist() == false_discovery_control(p).tolist()


def test_several_runs_are_named_and_shown(data, suite):
    runs = {"a": planted_predictions(data), "<b>": planted_predictions(data, seed=2)}
    found = cue_findings(suite, runs, data=data)
    assert len(found) == 4
    assert {text.partition(" ")[0] for text in found.sentences()} == {"a", "<b>"}
    # named where only one of them errs, too
    runs["a"] = planted_predictions(data, missed=0.2, claimed=0.2, usual=0.2)
    of_one = cue_findings(suite, runs, data=data).sentences()
    assert [text.partition(" ")[0] for text in of_one] == ["<b>", "<b>"]
    assert repr(found).startswith("Findings(4 worse, 0 better, 0 no difference shown")
    assert "&lt;b&gt;" in found._repr_html_()


def test_what_does_not_fit_is_refused(data, suite):
    answers = planted_predictions(data)
    other = planted_data(seed=3)
    fails(lambda: cue_findings(suite, answers, data=other), "the fingerprints differ",
          kind=ParameterError)  # fmt: skip
    fails(lambda: cue_findings(suite, answers, split="valid"), "'valid' is not a split",
          kind=ParameterError)  # fmt: skip
    fails(lambda: cue_findings(suite, answers, tasks=["cat"]), "'cat' is not a task",
          kind=ParameterError)  # fmt: skip
