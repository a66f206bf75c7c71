"""Answers and captions that are left out or cannot be read never help, in any verb that takes them:
a model against its twin that answers.
"""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from planted import planted_data

import nooch
from nooch.analysis.slices import find_slices
from nooch.analysis.validity import validity
from nooch.evaluation import context_rates, evaluate
from nooch.evaluation.answer_sample import answers_as_predictions, fill_unanswered
from nooch.evaluation.answers import Answers, read_answers
from nooch.evaluation.captions import score_captions
from nooch.evaluation.findings import cue_findings
from nooch.evaluation.metrics import ANSWER_METRICS

DATA = planted_data()
SUITE = nooch.find(DATA, nooch.CE(), tasks=["car"], splits=["test"])
SET = SUITE.set("ce", "car", "test")
N = len(SET)
BETTER_IF_LARGER = {"error": -1, "fpr": -1, "yes_rate": 0, "response_criterion": 0}


@pytest.fixture(autouse=True, scope="module")
def points():
    """Values, however many answers are unknown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context_rates, "MOST_UNKNOWN", 1.0)
        yield


def run_of(name, yes, *, left_out=None, unread=None):
    """Predictions of answers, bool (n,), some of which are missing or cannot be read."""
    said = pl.Series(yes.astype(float)).scatter(np.flatnonzero(unread), None) if (
        unread is not None) else pl.Series(yes.astype(float))  # fmt: skip
    frame = pl.DataFrame({
        "image_id": SET.image_ids, "task": "car", "answer": "x", "yes": said,
        "probability": pl.Series([None] * N, dtype=pl.Float64), "weight": 1.0,
    })  # fmt: skip
    if left_out is not None:
        frame = frame.filter(~pl.Series(left_out))
    return answers_as_predictions(Answers(name, frame, "word"))


@st.composite
def cheats(draw):
    """A model's answers, and those that it leaves out or that cannot be read."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    yes = SET.labels ^ (random.random(N) < draw(st.sampled_from([0.1, 0.4])))
    wrong = yes != SET.labels
    some = random.random(N) < draw(st.sampled_from([0.02, 0.3]))
    among = draw(st.sampled_from([np.full(N, fill_value=True), wrong, wrong & (SET.subset < 2)]))
    left = some & among if draw(st.booleans()) else among & wrong
    left &= np.arange(N) > 0
    return yes, left, bool((left & ~wrong).any())


@given(cheats())
@settings(max_examples=15)
def test_no_value_of_a_score_is_better(cheat):
    yes, left, also_right = cheat
    twin = run_of("twin", yes)
    for run in (run_of("cheat", yes, left_out=left), run_of("cheat", yes, unread=left)):
        scores = evaluate(SUITE, [twin, run])
        first, second = (scores.table.filter(run=name) for name in ("twin", "cheat"))
        metrics = first["metric"].replace_strict(
            {name: BETTER_IF_LARGER.get(name, 1) for name in ANSWER_METRICS},
            return_dtype=pl.Int64)  # fmt: skip
        gain = (second["value"] - first["value"]) * metrics
        assert (gain.drop_nulls() <= 1e-9).all()
        if not also_right:
            assert second["value"].equals(first["value"], null_equal=True)
        honest, other = (scores.contexts[name, "ce"].estimates for name in ("twin", "cheat"))
        for place, estimate in honest.items():
            bound = other[place]
            if estimate.value is not None and None not in (bound.least, bound.most):
                assert bound.least - 1e-9 <= estimate.value <= bound.most + 1e-9
            if place[0] == "rate":
                worse = 1 if place[1].endswith("negative") else -1
                assert worse * bound.value >= worse * estimate.value - 1e-9
                assert bound.low <= estimate.low + 1e-9
                assert bound.high >= estimate.high - 1e-9


@given(cheats())
@settings(max_examples=5)
def test_findings_slices_and_validity_count_it_as_an_error(cheat):
    yes, left, _ = cheat
    twin = run_of("twin", np.where(left, ~SET.labels, yes))
    for run in (run_of("cheat", yes, left_out=left), run_of("cheat", yes, unread=left)):
        runs = fill_unanswered([twin, run])
        found = cue_findings(SUITE, runs, data=DATA).table.sort("cue", "side")
        first, second = (found.filter(run=name) for name in ("twin", "cheat"))
        # wrong where the context misleads, right in the usual one: no finding is smaller
        columns = ["rate_misleading", "n_misleading", "n_usual"]
        assert first.select(columns).equals(second.select(columns))
        assert (second["rate_usual"] <= first["rate_usual"]).all()
        assert (second["effect"] >= first["effect"] - 1e-9).all()
        slices = find_slices(DATA, runs).table
        first, second = (slices.filter(run=name).sort("phi", "p") for name in ("twin", "cheat"))
        columns = ["phi", "n", "errors", "rate_rest"]
        assert first.select(columns).equals(second.select(columns))
        rows = validity(SUITE, runs, data=DATA).table.filter(pl.col("side").is_not_null())
        first, second = (rows.filter(of=name) for name in ("twin", "cheat"))
        assert first["value"].equals(second["value"], null_equal=True)
        assert (second["low"] <= first["low"] + 1e-9).all()
        assert (second["high"] >= first["high"] - 1e-9).all()


def test_the_questions_of_a_file_are_what_was_asked(tmp_path):
    """Also where answers name their images; a file of others next to them is not."""
    yes = SET.labels ^ (np.arange(N) % 3 == 0)
    rows = pl.DataFrame({
        "image_id": SET.image_ids, "task": "car",
        "answer": ["yes" if said else "no" for said in yes],
    })  # fmt: skip
    asked = pl.DataFrame({
        "question_id": range(N), "image": SET.image_ids.cast(pl.String),
        "text": "Is there a car in the image?",
    })  # fmt: skip
    asked.write_ndjson(tmp_path / "asked.json")
    wrong = pl.Series(yes != SET.labels)
    rows.filter(~wrong).write_ndjson(tmp_path / "a.jsonl")
    by_id = asked.select("question_id", question="text").hstack(rows.select("answer"))
    by_id.filter(~wrong).write_ndjson(tmp_path / "b.jsonl")
    for name in ("a", "b"):
        file = tmp_path / f"{name}.jsonl"
        read = read_answers(file, SUITE, questions=tmp_path / "asked.json")
        assert read.listed
        assert read.frame.height == N
        assert read.frame["missing"].sum() == wrong.sum()
        assert f"{wrong.sum():,} of {N:,} questions have no answer" in " ".join(read.notes)
        scores = evaluate(SUITE, file, reading={"questions": tmp_path / "asked.json"})
        assert scores.value("error", "all", task="car") == pytest.approx(wrong.mean())
    alone = evaluate(SUITE, tmp_path / "a.jsonl")
    assert alone.value("error", "all", task="car") == 0
    assert any("asked about a sample" in note for note in alone.notes)


def test_runs_of_other_questions_are_not_asked_those_of_each_other():
    yes = SET.labels.copy()
    halves = [run_of(name, yes, left_out=rows) for name, rows in (
        ("first", np.arange(N) < N // 2), ("last", np.arange(N) >= N // 2))]  # fmt: skip
    assert [len(run.said) for run in fill_unanswered(halves)] == [len(run.said) for run in halves]


@pytest.mark.parametrize("text", [None, "", "<think>Is that a car?"])
def test_a_caption_that_is_left_out_or_empty_does_not_help(tmp_path, text):
    suite = nooch.suites.load_suite("nooch-coco").only(["car"])
    one = suite.set("ce", "car", "test")
    ids = [*one.ids("hard_negative")[:30], *one.ids("easy_negative")[:30]]
    said = {image: "a car" if n % 3 == 0 else "a road" for n, image in enumerate(ids)}
    cheat = {image: text if caption == "a car" else caption for image, caption in said.items()}
    for name, captions in (("twin", said), ("cheat", cheat)):
        records = [{"image_id": i, "caption": c} for i, c in captions.items() if c is not None]
        (tmp_path / f"{name}.json").write_text(json.dumps(records))
    files = [tmp_path / "twin.json", tmp_path / "cheat.json"]
    scores = score_captions(suite, files, criteria=["ce"], bootstrap=0)
    rows = scores.table.filter(pl.col("metric").is_in(["fpr", "chair_i", "chair_s", "rate"]))
    first, second = (rows.filter(run=name) for name in ("twin", "cheat"))
    assert first["value"].equals(second["value"], null_equal=True)
    headline = [line for line in scores.headlines if line.startswith("cheat, ce")]
    assert "0.0 to 33.3% [" in headline[0]
    assert headline[0].endswith("33.3% unknown")
    every = len(one)
    note = f"60 of {every:,} images of the sets have a caption: scores are of these"
    assert note in scores.notes
