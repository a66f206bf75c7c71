"""Scores of answers about a sample of images: weights, words, and answers that are neither."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from refusals import fails, refused
from scipy.stats import norm

from nooch.base.files import sha256_of
from nooch.evaluation import context_rates, evaluate
from nooch.evaluation.answer_sample import answers_as_predictions
from nooch.evaluation.answers import Answers
from nooch.evaluation.metrics import ANSWER_METRICS, Graded, Parts, Resampler
from nooch.evaluation.predictions import Predictions
from nooch.report import tables_of
from nooch.suites import ChallengeSet, CriterionRecord, DatasetRecord, Mark, Suite

TASKS = ("car", "tie")


def _suite(ids, labels, hard):
    """A suite of two tasks on the split test; ``labels`` and ``hard`` are (n_images, 2)."""
    sets = {}
    for column, task in enumerate(TASKS):
        key = ("ce", task, "test")
        mark = Mark(hard[:, column].astype(np.int8))
        rows = pl.Series("image_id", ids)
        sets[key] = ChallengeSet.from_mark(*key, mark, rows, labels[:, column])
    return Suite.from_sets(
        sets,
        dataset=DatasetRecord("x", len(ids), {"test": len(ids)}),
        criteria={"ce": CriterionRecord("attribute", {})},
        skipped=[],
        tasks=list(TASKS),
        splits=["test"],
    )


def _said(ids, values, weights=None, run="model", tasks=TASKS):
    """Answers: ``values`` (n_images, n_tasks), NaN for neither."""
    frame = pl.DataFrame(
        {
            "image_id": np.repeat(ids, len(tasks)),
            "task": list(tasks) * len(ids),
            "answer": "x",
            "yes": pl.Series(values.ravel()).fill_nan(None),
            "probability": pl.Series([None] * values.size, dtype=pl.Float64),
            "weight": np.ones(values.size) if weights is None else weights.ravel(),
        }
    ).filter(pl.col("weight") > 0)
    return Answers(run, frame, "word")


@pytest.fixture(autouse=True, scope="module")
def points():
    """Values, however many answers are unknown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context_rates, "MOST_UNKNOWN", 1.0)
        yield


@st.composite
def worlds(draw):
    n = draw(st.integers(1, 30))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    ids = np.arange(n) * 2 + 1
    labels, hard = random.random((2, n, 2)) < draw(st.sampled_from([0.2, 0.5]))
    values = random.choice([0.0, 1.0, np.nan], (n, 2), p=[0.45, 0.45, 0.1])
    return ids, labels, hard, values, random.integers(0, 4, (n, 2)).astype(float)


def _values(scores, run=None):
    columns = ["task", "subset", "metric", "value"]
    return {
        row[:3]: row[3]
        for row in scores.table.filter(task=TASKS[0], run=run or scores.table["run"][0])
        .select(columns)
        .iter_rows()
    }


@given(worlds())
@settings(max_examples=20)
def test_weights_count_images_several_times(world):
    ids, labels, hard, values, weights = world
    weights[0] = 1
    some = answers_as_predictions(_said(ids, values, weights))
    weighted = evaluate(_suite(ids, labels, hard), some, tasks=["car"])
    # each image as often as it weighs
    of = np.repeat(np.arange(len(ids)), weights[:, 0].astype(int))
    copies = np.arange(len(of)) + 1
    whole = answers_as_predictions(_said(copies, values[of]))
    copied = evaluate(_suite(copies, labels[of], hard[of]), whole, tasks=["car"])
    expected = _values(copied)
    for key, value in _values(weighted).items():
        if key[2] not in {"dprime", "response_criterion"}:
            assert value == pytest.approx(expected[key]), key


@given(worlds())
@settings(max_examples=20)
def test_metrics_are_counted_from_answers(world):
    ids, labels, hard, values, _ = world
    scores = evaluate(_suite(ids, labels, hard), answers_as_predictions(_said(ids, values)))
    masks = {"all": slice(None), "hard": hard[:, 0], "easy": ~hard[:, 0]}
    masks["hard_negative"] = hard[:, 0] & ~labels[:, 0]
    got = _values(scores)
    assert {metric for _, _, metric in got} == set(ANSWER_METRICS)
    for subset, mask in masks.items():
        y, said = labels[mask, 0], values[mask, 0]
        # what is neither yes nor no is the wrong answer
        said = np.where(np.isnan(said), ~y, said)
        p, n = y.sum(), (~y).sum()
        tp, fp = ((said == 1) & y).sum(), ((said == 1) & ~y).sum()
        right = tp + ((said == 0) & ~y).sum()
        expected = {
            "yes_rate": (tp + fp) / len(y) if len(y) else None,
            "accuracy": right / len(y) if len(y) else None,
            "recall": tp / p if p else None,
            "fpr": fp / n if n else None,
            "precision": tp / (tp + fp) if p and n and tp + fp else None,
        }
        if p and n:
            hits, claims = norm.ppf((tp + 0.5) / (p + 1)), norm.ppf((fp + 0.5) / (n + 1))
            expected |= {"dprime": hits - claims, "response_criterion": -(hits + claims) / 2}
        for metric, value in expected.items():
            assert got["car", subset, metric] == (None if value is None else pytest.approx(value))


@given(worlds(), st.integers(0, 100), st.booleans())
@settings(max_examples=20)
def test_bounds_hold_what_unknown_answers_could_mean(world, seed, resampled):
    """And its interval, of shares of a task."""
    ids, labels, hard, values, weights = world
    suite, weights = _suite(ids, labels, hard), np.maximum(weights, 0.01)
    unknown = np.isnan(values)
    meant = np.where(unknown, np.random.default_rng(seed).random(values.shape) < 0.5, values)
    both = [_said(ids, values, weights), _said(ids, meant, weights, run="meant")]
    runs = [answers_as_predictions(said) for said in both]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context_rates, "MOST_UNKNOWN", 0.05)
        scores = evaluate(suite, runs, bootstrap=3 * resampled)
    first, second = (scores.table.filter(run=name) for name in ("model", "meant"))
    assert second["value"].equals(evaluate(suite, runs[1:]).table["value"], null_equal=True)
    cells = [kind & side for kind in (hard, ~hard) for side in (labels, ~labels)]
    parts = [weights * cell for cell in cells if cell.any()]
    share = max((part * unknown).sum() / part.sum() for part in parts)
    assert (first["interval"] == "unknown").all() == (share > 0.05)
    if share > 0.05:
        assert first["value"].null_count() == first.height
        assert scores.differences["difference"].null_count() == scores.differences.height
    for row, known in zip(first.to_dicts(), second.to_dicts(), strict=True):
        if row["interval"] != "unknown" or known["value"] is None or row["low"] is None:
            continue
        # the interval of an average depends on what tasks have in common in resamples
        shares = known["interval"] == "wilson" and row["task"] != "average"
        low, high = (known["low"], known["high"]) if shares else 2 * (known["value"],)
        assert row["low"] <= low + 1e-9, row
        assert row["high"] >= high - 1e-9, row


@given(worlds(), st.booleans())
@settings(max_examples=20)
def test_dprime_is_corrected_for_the_images_that_were_asked_about(world, resampled):
    """Whatever they weigh."""
    ids, labels, hard, values, weights = world
    weights = np.maximum(weights, 0.01)
    some = answers_as_predictions(_said(ids, values, weights))
    got = _values(evaluate(_suite(ids, labels, hard), some, bootstrap=3 * resampled))
    masks = {"all": np.full(len(ids), True), "hard": hard[:, 0], "easy": ~hard[:, 0]}
    for subset, mask in masks.items():
        y, weight = labels[mask, 0], weights[mask, 0]
        yes = np.where(np.isnan(values[mask, 0]), ~y, values[mask, 0] == 1)
        expected = [None, None]
        if 0 < y.sum() < len(y):
            z = []
            for side in (y, ~y):
                n, rate = side.sum(), weight[side & yes].sum() / weight[side].sum()
                z.append(norm.ppf((rate * n + 0.5) / (n + 1)))
            expected = [z[0] - z[1], -(z[0] + z[1]) / 2]
        for metric, value in zip(("dprime", "response_criterion"), expected, strict=True):
            assert got["car", subset, metric] == (None if value is None else pytest.approx(value))


@given(worlds())
@settings(max_examples=10)
def test_dprime_of_a_resample_is_that_of_its_images(world):
    """Each as often as it was drawn, at its weight."""
    ids, labels, hard, values, weights = world
    drawn = np.random.default_rng(len(ids)).integers(0, 3, len(ids))
    weight, outputs = np.maximum(weights[:, 0], 0.01), np.nan_to_num(values[:, 0])
    copies, got = np.repeat(np.arange(len(ids)), drawn), []
    for rows, times in ((np.arange(len(ids)), drawn), (copies, np.ones(len(copies)))):
        y, atoms = labels[rows, 0], hard[rows, 0].astype(np.intp)
        parts = Parts(y, atoms, np.array([[True, True], [False, True]]), np.arange(2), np.eye(2))
        resampler = Resampler(Graded(y, outputs[rows], "probability", ("dprime",)), parts)
        weighted = (weight[rows] * times)[:, None]
        got.append(resampler(weighted, weighted, times[:, None].astype(float)))
    assert got[0] == pytest.approx(got[1], nan_ok=True)


def test_the_headline_has_the_threshold_of_the_answers():
    ids, labels = np.arange(200), np.zeros((200, 2), dtype=bool)
    hard = np.repeat([[True, True], [False, False]], 100, axis=0)
    chances = np.random.default_rng(0).random((200, 2))
    frame = _said(ids, chances).frame.with_columns(probability=pl.Series(chances.ravel()))
    some = answers_as_predictions(Answers("model", frame, "word"))
    for threshold in (0.5, 0.2):
        scores = evaluate(_suite(ids, labels, hard), some, threshold=threshold)
        rates = scores.contexts["model", "ce"].estimates
        for subset, rows in (("hard_negative", slice(0, 100)), ("easy_negative", slice(100, 200))):
            assert rates["rate", subset].value == pytest.approx((chances[rows] > threshold).mean())
        shown = f"absent object: {100 * rates['rate', 'hard_negative'].value:.1f}%"
        assert shown in scores.headlines[0]
        assert scores.headlines[0].endswith("; 0.0% unknown")


def test_a_sample_of_everything_is_everything():
    random = np.random.default_rng(1)
    ids = np.arange(40)
    labels, hard = random.random((2, 40, 2)) < 0.5
    values = random.choice([0.0, 1.0], (40, 2))
    suite = _suite(ids, labels, hard)
    metrics = ["accuracy", "recall", "fpr", "f1"]
    plain = Predictions.from_arrays(values, ids, TASKS, scale="probability", run="model")
    asked = answers_as_predictions(_said(ids, values))
    first, second = (evaluate(suite, run, metrics=metrics, bootstrap=50) for run in (plain, asked))
    assert first.table.equals(second.table)
    assert "asked about all 80 images and tasks; only these are scored" in second.notes
    # what tables show without being asked
    assert "d' hard" in tables_of(evaluate(suite, asked))[0].columns


def test_intervals_of_weighted_shares_use_the_effective_number():
    ids = np.arange(8)
    labels, hard = np.zeros((8, 2), bool), np.zeros((8, 2), bool)
    values = np.array([[1.0, 0], [0, 0]] * 4)
    alike, unlike = np.full((8, 2), 5.0), np.array([[9.0, 1], [1, 1]] * 4)
    rows = []
    for weights in (alike, unlike):
        run = answers_as_predictions(_said(ids, values, weights))
        table = evaluate(_suite(ids, labels, hard), run, metrics=["fpr"]).table
        rows.append(table.filter(task="car", subset="all").row(0, named=True))
    assert [row["value"] for row in rows] == [pytest.approx(0.5), pytest.approx(0.9)]
    low = [row["value"] - row["low"] for row in rows]
    # 40 ^ 2 / (4 * 81 + 4) = 4.9 images
    assert low[0] == pytest.approx(0.5 - 0.21521, abs=1e-4)
    assert low[1] > 0.3


def test_a_heavy_stratum_without_a_yes_is_not_certain():
    """Of a rate of 1.16% resamples gave .0011 [.0000, .0032], none of them heavy."""
    ids, labels = np.arange(100), np.zeros((100, 2), bool)
    hard = np.repeat([[True, True], [False, False]], 50, axis=0)
    # of the images that say yes each stands for five, of the others for 400
    values, weights = np.zeros((100, 2)), np.where(hard, 5.0, 400.0)
    values[:3] = 1
    run = answers_as_predictions(_said(ids, values, weights))
    bounds = []
    for bootstrap in (0, 200):
        scores = evaluate(_suite(ids, labels, ~hard), run, metrics=["fpr"], bootstrap=bootstrap)
        row = scores.table.filter(task="car", subset="all").row(0, named=True)
        assert row["interval"] == "wilson"
        assert row["value"] == pytest.approx(15 / 20250)
        bounds.append((row["low"], row["high"]))
    assert bounds[0] == bounds[1]
    # 50 heavy images without a yes bound the rate at .071
    assert 0.06 < bounds[0][1] < 0.08


def test_skipped_answers_are_not_asked_about():
    ids, labels = np.arange(4), np.zeros((4, 2), bool)
    values = np.array([[np.nan, 0], [1, 0], [0, np.nan], [0, 0]])
    suite, said = _suite(ids, labels, labels), _said(ids, values)
    error = {}
    for unknown in ("wrong", "skip"):
        scores = evaluate(suite, answers_as_predictions(said, unknown), metrics=["error"])
        row = scores.table.filter(task="car", subset="all").row(0, named=True)
        error[unknown] = row["value"], row["n"]
    note = "asked about a sample of 6 of 8 images and tasks; only these are scored"
    assert note in scores.notes
    assert error == {"wrong": (0.5, 4), "skip": (pytest.approx(1 / 3), 3)}


def test_corrected_labels_leave_images_out_of_their_sets(tmp_path):
    random = np.random.default_rng(2)
    ids = np.arange(30)
    labels, hard = random.random((2, 30, 2)) < 0.5
    values = random.random((30, 2))
    verdicts = {0: not labels[0, 0], 1: bool(labels[1, 0]), 2: None}
    words = {True: "yes", False: "no", None: "ambiguous"}
    rows = [(image, "car", words[verdict]) for image, verdict in verdicts.items()]
    file = tmp_path / "verdicts.csv"
    pl.DataFrame(rows, schema=["image_id", "task", "verdict"], orient="row").write_csv(file)
    run = Predictions.from_arrays(values, ids, TASKS, scale="probability")
    scores = evaluate(_suite(ids, labels, hard), run, overlay=file)
    right = np.array([image not in (0, 2) for image in ids])
    kept = Predictions.from_arrays(values[right], ids[right], TASKS, scale="probability")
    expected = evaluate(_suite(ids[right], labels[right], hard[right]), kept)
    assert _values(scores, "predictions, corrected") == _values(expected)
    before = evaluate(_suite(ids, labels, hard), run)
    assert _values(scores) == _values(before)
    other = scores.table.filter(task="tie", subset="all", metric="auc")["n"].to_list()
    assert other == [30, 30]
    assert any("0 labels corrected, 2 images left out" in note for note in scores.notes)
    assert scores.settings["overlay"] == [sha256_of(file)]


def test_what_is_refused():
    ids, labels = np.arange(4), np.zeros((4, 2), bool)
    suite, said = _suite(ids, labels, labels), _said(ids, np.zeros((4, 2)))
    run = answers_as_predictions(said)
    refused(lambda: evaluate(suite, run, metrics=["auc"]), "auc needs probabilities", "accuracy")
    refused(lambda: evaluate(suite, run, fail_if=["auc@hard<0.5"]), "auc needs probabilities")
    refused(lambda: answers_as_predictions(said, "right"), "wrong")
    nothing = _said(ids, np.full((4, 2), np.nan))
    refused(lambda: answers_as_predictions(nothing, "skip"), "no answer is yes or no")
    weights = np.ones((4, 2))
    weights[2] = 2
    other = answers_as_predictions(_said(ids, np.zeros((4, 2)), weights, "other"))
    fails(lambda: evaluate(suite, [run, other]), "asked about different images", "model and other")
    far = answers_as_predictions(_said(ids + 100, np.zeros((4, 2))))
    fails(lambda: evaluate(suite, far), "none of the questions")
