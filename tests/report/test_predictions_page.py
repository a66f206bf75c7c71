"""Results of predictions alone, the pair of methods that is compared, and what a report without
runs says.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from made_runs import made_runs
from refusals import refused
from sites import read_script, report_of, site_data, site_suite, tables_of_page

from nooch.evaluation import CELLS, Predictions, evaluate
from nooch.report import tables_of
from nooch.report.site.results_page import FIGURES, score_predictions


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(data, suite) without pictures."""
    data = site_data(tmp_path_factory.mktemp("world"), pictures=False)
    return data, site_suite(data)


def _predictions(data, name, seed=0, *, split="test", n=None):
    part = data.select(split)
    ids = part.image_ids[:n]
    values = np.random.default_rng(seed).normal(size=(len(ids), 2))
    return Predictions.of(values, ids, ["car", "cow"], scale="logit", run=name)


def _text(site, page="results"):
    return (site / f"{page}.html").read_text(encoding="utf-8")


def test_predictions_alone_have_the_tables_of_evaluate(world, tmp_path):
    data, suite = world
    runs = [_predictions(data, "mine"), _predictions(data, "<b>yours</b>", 1)]
    done = report_of(suite, tmp_path / "site", data=data, predictions=runs, bootstrap=30)
    scores = evaluate(suite, runs, split="test", bootstrap=30, metrics=list(FIGURES))
    found = tables_of_page(done.path / "results.html")
    for table in tables_of(scores, list(FIGURES)):
        assert found[table.title][0] == list(table.columns)
        shown = [
            [cell.replace("_", " ") if k == 0 else cell for k, cell in enumerate(row)]
            for row in table.rows
        ]
        assert found[table.title][1:] == shown
    titles = " ".join(found)
    assert "Scores on ce challenge sets (test)" in titles
    assert "By context cue: ce (test)" in titles
    assert "Differences from mine" in titles
    assert "[." in str(found["Scores on ce challenge sets (test)"])
    assert "<b>yours</b>" not in _text(done.path)
    assert "No runs were given (`runs`): the paper&#39;s tables" in _text(done.path)


def test_progress_is_shown_before_the_first_task_is_scored(world):
    data, suite = world
    steps = []
    runs = [_predictions(data, "mine"), _predictions(data, "some", n=20)]
    scored = score_predictions(
        suite, runs, split="test", bootstrap=0, progress=lambda *step: steps.append(step)
    )
    (scores,) = scored.scores
    assert scores.table["run"].unique().to_list() == ["mine"]
    checks = [("checking predictions", done, 2) for done in (1, 2)]
    assert steps == [*checks, *(("scoring tasks", done, 2) for done in (0, 1, 2))]


def test_more_metrics_and_a_threshold(world, tmp_path):
    data, suite = world
    runs = [_predictions(data, "mine")]
    options = {"metrics": ["f1", "recall"], "threshold": 0.25, "bootstrap": 0}
    done = report_of(suite, tmp_path / "site", data=data, predictions=runs, **options)
    page = _text(done.path)
    for text in ("F1 hard", "recall easy pos", "answers are positive above the probability 0.25"):
        assert text in page


def test_charts_of_predictions_set_a_hard_side_next_to_the_easy_images_of_its_side(world, tmp_path):
    data, suite = world
    runs = [_predictions(data, "mine")]
    done = report_of(suite, tmp_path / "site", data=data, predictions=runs, bootstrap=30)
    points = pl.DataFrame(read_script(done.path / "data/results.js")[1])
    own = points.filter(criterion="ce", task="car", metric="error")
    assert set(own["subset"]) == set(CELLS)
    one, values = suite.set("ce", "car", "test"), runs[0]
    logit = dict(zip(values.image_ids.to_list(), values.values[0], strict=True))
    wrong = np.array(
        [(logit[i] > 0) != y for i, y in zip(one.image_ids.to_list(), one.labels, strict=True)]
    )
    for row in own.iter_rows(named=True):
        side, label = row["subset"].split("_")
        inside = (one.labels == (label == "positive")) & ((one.subset < 2) == (side == "hard"))
        assert row["mean"] == pytest.approx(wrong[inside].mean())
        assert row["low"] <= row["mean"] <= row["high"]


def test_predictions_that_cannot_be_scored_say_why(world, tmp_path):
    data, suite = world
    part = _predictions(data, "some", n=20)
    done = report_of(suite, tmp_path / "site", data=data, predictions=[part], bootstrap=0)
    text = _text(done.path)
    assert "some is not scored" in text
    assert re.search(r"\d+ of \d+ images of split test have no prediction", text)
    assert any("some is not scored" in note for note in done.notes)
    runs = [part, _predictions(data, "mine")]
    both = report_of(suite, tmp_path / "both", data=data, predictions=runs, bootstrap=0)
    assert "some is not scored" in _text(both.path)
    assert "Scores on ce challenge sets (test)" in tables_of_page(both.path / "results.html")


def test_a_report_of_a_suite_alone_says_on_each_page_what_is_missing(tmp_path):
    data = site_data(tmp_path, pictures=False)
    done = report_of(site_suite(data), tmp_path / "site")
    assert "No runs were given (`runs`)" in _text(done.path)
    for page in ("criteria", "examples", "index"):
        assert "What is not here" in _text(done.path, page)
    ce = site_suite(data).only(["car"])
    other = data.with_embedding("other", data.embeddings["words"])
    one = report_of(ce, tmp_path / "one", data=other)
    assert "Figs. 11 and 14" not in _text(one.path, "criteria")
    single = [_predictions(data, "mine")]
    alone = report_of(ce, tmp_path / "alone", data=data, predictions=single, bootstrap=0)
    assert "One method alone has losses" in _text(alone.path, "examples")


def test_the_pair_of_methods_that_is_compared(world, tmp_path):
    data, suite = world
    runs = made_runs(tmp_path / "runs", suite, tasks=("car", "cow"), seeds=(0,))
    options = {"data": data, "runs": [runs.path], "bootstrap": 0}
    done = report_of(suite, tmp_path / "site", methods=["gdro", "erm"], **options)
    text = _text(done.path, "examples")
    assert "Hard positives with the highest loss (gdro)" in text
    assert "Hard positives where erm is furthest ahead of gdro" in text
    assert "label-reweight is furthest" not in text
    for names in (["erm"], ["erm", "erm"], []):
        refused(
            lambda names=names: report_of(suite, tmp_path / "no", methods=names, **options),
            "two different",
        )
    refused(lambda: report_of(suite, tmp_path / "no", methods=["erm", "gdr"], **options), "gdro")
    assert not (tmp_path / "no").exists()
