"""Results of predictions alone, the pair of methods that is compared, and what a report without
runs says.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import polars as pl
import pytest
from made_runs import made_runs
from refusals import refused
from sites import PAGES, page_text, read_script, tables_of_page

from nooch.evaluation import CELLS, Predictions, evaluate
from nooch.report import tables_of
from nooch.report.site.results_page import FIGURES, score_predictions


def _predictions(data, name, seed=0, *, split="test", n=None):
    part = data.select(split)
    ids = part.image_ids[:n]
    values = np.random.default_rng(seed).normal(size=(len(ids), 2))
    return Predictions.from_arrays(values, ids, ["car", "cow"], scale="logit", run=name)


def test_predictions_alone_have_the_tables_of_evaluate(bare, report):
    data, suite = bare
    runs = [_predictions(data, "mine"), _predictions(data, "<b>yours</b>", 1)]
    done = report(runs, bootstrap=30)
    scores = evaluate(suite, runs, split="test", bootstrap=30, metrics=list(FIGURES))
    found = tables_of_page(done.path / "results.html")
    for table in tables_of(scores, list(FIGURES)):
        assert found[table.title][0] == list(table.columns)
        shown = [[row[0].replace("_", " "), *row[1:]] for row in table.rows]
        assert found[table.title][1:] == shown
    titles = " ".join(found)
    assert "Scores on ce challenge sets (test)" in titles
    assert "By context cue: ce (test)" in titles
    assert "Differences from mine" in titles
    assert "[." in str(found["Scores on ce challenge sets (test)"])
    assert "<b>yours</b>" not in page_text(done, "results")
    assert "Compared with the paper" not in page_text(done, "results")


def test_progress_is_shown_before_the_first_task_is_scored(bare):
    data, suite = bare
    steps = []
    runs = [_predictions(data, "mine"), _predictions(data, "some", n=20)]
    options = {"split": "test", "bootstrap": 0, "progress": lambda *step: steps.append(step)}
    (scores,) = score_predictions(suite, runs, **options).scores
    assert scores.table["run"].unique().to_list() == ["mine"]
    checks = [("checking predictions", done, 2) for done in (1, 2)]
    assert steps == [*checks, *(("scoring tasks", done, 2) for done in (0, 1, 2))]


def test_more_metrics_and_a_threshold(bare, report):
    runs = [_predictions(bare[0], "mine")]
    page = page_text(report(runs, metrics=["f1", "recall"], threshold=0.25), "results")
    for text in ("F1 hard", "recall easy pos", "answers are positive above the probability 0.25"):
        assert text in page


def test_charts_of_predictions_set_a_hard_side_next_to_the_easy_images_of_its_side(bare, report):
    data, suite = bare
    runs = [_predictions(data, "mine")]
    done = report(runs, bootstrap=30)
    points = pl.DataFrame(read_script(done.path / "data/results.js")[1])
    own = points.filter(criterion="ce", task="car", metric="error")
    assert set(own["subset"]) == set(CELLS)
    one, values = suite.set("ce", "car", "test"), runs[0]
    logit = dict(zip(values.image_ids.to_list(), values.values[0], strict=True))
    wrong = np.array([logit[i] > 0 for i in one.image_ids.to_list()]) != one.labels
    for row in own.iter_rows(named=True):
        side, label = row["subset"].split("_")
        inside = (one.labels == (label == "positive")) & ((one.subset < 2) == (side == "hard"))
        assert row["mean"] == pytest.approx(wrong[inside].mean())
        assert row["low"] <= row["mean"] <= row["high"]


def test_predictions_that_cannot_be_scored_say_why(bare, report):
    part = _predictions(bare[0], "some", n=20)
    done = report([part])
    text = page_text(done, "results")
    assert "some is not scored" in text
    assert re.search(r"\d+ of \d+ images of split test have no prediction", text)
    assert any("some is not scored" in note for note in done.notes)
    both = report([part, _predictions(bare[0], "mine")], "both")
    assert "some is not scored" in page_text(both, "results")
    assert "Scores on ce challenge sets (test)" in tables_of_page(both.path / "results.html")


def test_a_page_without_content_has_no_tab(bare, report):
    data = bare[0]
    for done, left_out in (
        (report([_predictions(data, "mine")], "all"), set()),
        (report(name="data"), {"results"}),
        (report(data=None, name="none"), {"results", "criteria"}),
    ):
        shown = [page for page in PAGES if page not in left_out]
        assert sorted(file.stem for file in done.path.glob("*.html")) == sorted(shown)
        for page in shown:
            text = page_text(done, page)
            linked = re.findall(r'<a href="(\w+)\.html"', text.split("</nav>")[0])
            assert linked == shown
            assert not re.search(r"\bFigs?\. ?\d|the paper", text)
        assert "What is missing" in page_text(done)
    assert "No runs were given (`runs`)" in page_text(done)


def test_the_pair_of_methods_that_is_compared(bare, report, tmp_path):
    runs = made_runs(tmp_path / "runs", bare[1], tasks=("car", "cow"), seeds=(0,))
    compare = partial(report, name="no", runs=[runs.path])
    text = page_text(report(runs=[runs.path], methods=["gdro", "erm"]), "examples")
    assert "Hard positives with the highest loss (gdro)" in text
    assert "Hard positives where erm is furthest ahead of gdro" in text
    assert "label-reweight is furthest" not in text
    for names in (["erm"], ["erm", "erm"], []):
        refused(partial(compare, methods=names), "two different")
    refused(lambda: compare(methods=["erm", "gdr"]), "gdro")
    assert not (tmp_path / "no").exists()
