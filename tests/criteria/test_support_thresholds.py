"""Thresholds by task and side: read, checked, saved with a suite, carried to another split."""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of
from refusals import fails
from same_datasets import found_in_parts

import nooch
from nooch.base.errors import ParameterError
from nooch.criteria import CE, FITTED, FittedGist, Gist, read_thresholds
from nooch.criteria.scores import ContextScores
from nooch.suites import load_suite, save_suite, suite_thresholds
from nooch.suites.find import find

CLASSES = ["car", "cup", "road", "rare"]
CUES = {"car": ["road"], "cup": ["road"]}
PAIRS = {"car": (0.6, -0.2), "cup": (-0.1, 0.3)}

_no_parameter = partial(fails, kind=ParameterError)


@pytest.fixture(scope="module")
def data():
    """Cars on roads, an embedding, scores for each class; an image in twenty has neither."""
    random, n = np.random.default_rng(5), 900
    present = random.random((n, 3)) < [0.4, 0.3, 0.5]
    areas = random.uniform(0, 0.4, (n, 3))
    images = [
        {name: float(a) for name, there, a in zip(CLASSES, *rows, strict=False) if there}
        for rows in zip(present, areas, strict=True)
    ]
    data = dataset_of(images, CLASSES, random.choice(["train", "valid", "test"], n).tolist())
    values = present @ random.normal(size=(3, 6)) + random.normal(size=(n, 6))
    values[::20] = np.nan
    missing, named = np.isnan(values[:, 0]), enumerate(CLASSES)
    columns = {f"context_{c}": np.where(missing, np.nan, values[:, i]) for i, c in named}
    return replace(data, images=data.images.with_columns(**columns), embeddings={"e": values})


CRITERIA = {"gist": partial(Gist, "e"), "scores": partial(ContextScores, "context_{task}")}


@pytest.mark.parametrize("kind", CRITERIA)
def test_hard_images_are_those_of_a_loop(data, kind):
    suite = find(data, {kind: CRITERIA[kind](PAIRS)}, tasks=["car", "cup"])
    fitted = FITTED[kind].from_json(json.loads(json.dumps(suite.header.criteria[kind].fitted)))
    for task, (positive, negative) in PAIRS.items():
        for split in ("valid", "test"):
            part = data.select(split)
            supports = fitted.support(part, task)
            rows = list(zip(part.image_ids, part.labels(task), supports, strict=True))
            challenge = suite.set(kind, task, split)
            assert challenge.ids("hard_positive") == [i for i, y, s in rows if y and s < positive]
            claimed = [i for i, y, s in rows if not y and s > negative]
            assert challenge.ids("hard_negative") == claimed
            record = suite.record(kind, task, split)
            assert (record.threshold_positive, record.threshold_negative) == (positive, negative)
            assert 0 < record.hard_positives < record.positives
            assert 0 < record.hard_negatives < record.negatives
            assert sum(challenge.excluded) == sum(math.isnan(s) for _, _, s in rows) > 0


def test_a_suite_keeps_them_and_its_fitted_criterion_gives_the_same_sets(data, tmp_path):
    first = find(data, {"gist": Gist("e", PAIRS)}, tasks=["car", "cup"])
    save_suite(first, tmp_path / "suite")
    record = load_suite(tmp_path / "suite").header.criteria["gist"]
    tau = {"car": [0.6, -0.2], "cup": [-0.1, 0.3]}
    assert record.parameters == {"embedding": "e", "precision": "unknown", "tau": tau}
    fitted = FittedGist.from_json(record.fitted)
    assert fitted.criterion == Gist("e", PAIRS)
    again, key = find(data, {"gist": fitted}, tasks=["cup"]), ("gist", "cup", "test")
    assert again.set(*key).ids("hard") == first.set(*key).ids("hard")
    other = find(data, {"gist": fitted.with_tau(0.25)}, tasks=["cup"]).record("gist", "cup", "test")
    assert (other.threshold_positive, other.threshold_negative) == (0.25, 0.25)


def test_parts_give_the_bytes_of_one_part(data, tmp_path):
    tau = {**PAIRS, "road": None}
    criteria = {kind: make(tau) for kind, make in CRITERIA.items()} | {"like": Gist("e")}
    tasks = ["car", "cup", "road"]
    suite = found_in_parts(tmp_path, data, criteria, 5, tasks=tasks, match="scores")
    reasons = {s.criterion: s.reason for s in suite.header.skipped if s.task == "road"}
    assert reasons["gist"] == reasons["scores"] == "the given thresholds have none for it"
    assert "its counts come from scores" in reasons["like"]


def test_a_threshold_of_valid_is_carried_to_test(data):
    matched = find(data, {"ce": CE(cues=CUES), "gist": Gist("e")}, match="ce")
    assert "car" not in {s.task for s in matched.header.skipped}
    recorded = suite_thresholds(matched)
    assert recorded.support == {"embedding": "e", "precision": "unknown"}
    assert set(recorded.tau) == set(CLASSES)
    assert recorded.tau["rare"] is None
    assert recorded.notes == ("no threshold on valid, so no gist set: road, rare",)
    carried = find(data, {"gist": Gist("e", recorded.tau)})
    for task in ("car", "cup"):
        # no ties here: on valid the recorded threshold gives the matched images
        again, first = (suite.set("gist", task, "valid") for suite in (carried, matched))
        assert again.ids("hard") == first.ids("hard")
        record, source = carried.record("gist", task, "test"), matched.record("gist", task, "valid")
        assert record.threshold_positive == source.threshold_positive
        assert record.threshold_negative == source.threshold_negative
    of_test = suite_thresholds(matched, split="test").tau
    assert of_test["car"] != recorded.tau["car"]
    assert [s.task for s in carried.header.skipped] == ["road", "rare"]


def test_ties_are_noted():
    # all four positives have the same support; of two that must be hard, ids decide
    vectors = [[1.0, 0.0]] * 4 + [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]
    data = dataset_of([{"car": 0.1}] * 4 + [{"road": 0.5}] * 3, ["car", "road"])
    data = data.with_embedding("e", np.array(vectors)).with_embedding("other", np.array(vectors))
    scores = data.images.with_columns(s=pl.Series([0.0, 0, 1, 1, 1, 0, 0]))
    criteria = {"own": ContextScores("s", 0.5), "gist": Gist("e")}
    suite = find(replace(data, images=scores), criteria, tasks=["car"], match="own")
    recorded = suite_thresholds(suite)
    assert recorded.tau["car"][0] == pytest.approx(1)
    assert recorded.notes[0].endswith("count as easy: car (positives)")
    assert suite.record("gist", "car", "all").hard_positives == 2
    carried = find(data, {"gist": Gist("e", recorded.tau)}, tasks=["car"])
    again = carried.record("gist", "car", "all")
    assert (again.hard_positives, again.hard_negatives) == (0, 1)


def test_what_a_suite_cannot_give_is_refused(data):
    suite = find(data, {"ce": CE(cues=CUES), "mine": Gist("e", 0.5)}, tasks=["car"])
    assert suite_thresholds(suite).tau == {"car": (0.5, 0.5)}
    assert suite_thresholds(suite, "ce", "test").tau == {"car": (0.1, 0.1)}
    _no_parameter(lambda: suite_thresholds(suite, "scores"), "no criteria of kind scores")
    _no_parameter(lambda: suite_thresholds(suite, split="train"), "'train' is not a split")
    two = find(data, {"a": Gist("e", 0.5), "b": Gist("e", 0.4)}, tasks=["car"])
    _no_parameter(lambda: suite_thresholds(two), "2 criteria of kind gist")
    splits = find(data, {"gist": Gist("e", 0.5)}, tasks=["car"], splits=["train", "test"])
    _no_parameter(lambda: suite_thresholds(splits), "several splits")
    rare = find(data, {"gist": Gist("e", 0.5)}, tasks=["rare"])
    _no_parameter(lambda: suite_thresholds(rare), "no thresholds on split valid")


def test_tasks_must_be_known_and_all_there(data):
    def gist_suite(tau, tasks):
        return find(data, {"gist": Gist("e", tau)}, tasks=tasks)

    unknown = {"caar": (0, 0), "car": (0, 0)}
    _no_parameter(lambda: gist_suite(unknown, ["car"]), "did you mean car")
    _no_parameter(lambda: gist_suite(PAIRS, ["car", "road", "rare"]), "no threshold for road, rare")
    assert gist_suite(PAIRS, ["car"]).tasks == ("car",)


def test_values_out_of_range_are_refused():
    _no_parameter(lambda: Gist("e", {"car": (0.1, math.nan)}), "negatives of car is nan")
    _no_parameter(lambda: Gist("e", {"car": (1.1, 0)}), "positives of car is 1.1")
    _no_parameter(lambda: Gist("e", {"car": (1.0,)}), "car has 1 numbers")
    _no_parameter(lambda: Gist("e", {}), "no task")
    _no_parameter(lambda: ContextScores("c", {"car": (0, math.inf)}), "negatives of car is inf")
    # of different images: either may be the larger one, as in the paper's Table 6
    pairs = {"boat": (0.73, 0.43), "car": (0.47, 0.5)}
    assert Gist("e", pairs).tau == pairs


def test_tables_are_read(tmp_path):
    columns = {"task": ["car", "1"], "positive": [0.48, 1], "negative": [0.5, -1.0]}
    frame = pl.DataFrame({"table": "table6", **columns})
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_json(tmp_path / "a.json")
    frame.write_ndjson(tmp_path / "a.jsonl")
    for ending in ("csv", "parquet", "json", "jsonl"):
        found = nooch.io.read_thresholds(tmp_path / f"a.{ending}")
        assert found == {"car": (0.48, 0.5), "1": (1, -1)}


WRONG = {
    "no table": (None, "no such file"),
    "no column": ("task,positive\ncar,1\n", "lacks the columns negative"),
    "no number": ("task,positive,negative\ncar,1,high\n", "column negative contains String"),
    "no row": ("task,positive,negative\n", "column positive contains String"),
    "twice": ("task,positive,negative\ncar,1,1\ncar,0,0\n", "more than one row for car"),
    "an empty cell": ("task,positive,negative\ncar,1,\ncup,0,0\n", "empty or NaN cell for car"),
    "NaN": ("task,positive,negative\ncar,1,0\ncup,NaN,0\n", "empty or NaN cell for cup"),
}


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG)
def test_tables_that_are_none_are_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "t.csv").write_text(content)
    fails(lambda: read_thresholds(tmp_path / "t.csv"), message, helps=content is not None)


def test_json_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "t.json").write_text('[{"task": "car"')
    fails(lambda: read_thresholds(tmp_path / "t.json"), "cannot be read", helps=False)
    schema = {"task": pl.String, "positive": pl.Float64, "negative": pl.Float64}
    pl.DataFrame(schema=schema).write_parquet(tmp_path / "none.parquet")
    fails(lambda: read_thresholds(tmp_path / "none.parquet"), "contains no row")


def test_suites_of_earlier_versions_are_read_and_long_tables_shown_short(data):
    old = {"embedding": "e", "tau": 0.4, "tasks": ["car"], "sums": [[1.0, 0.0]], "counts": [1]}
    assert FittedGist.from_json(old).thresholds_for("car").positive == 0.4
    suite = find(data, {"gist": Gist("e", dict.fromkeys(CLASSES, (0.1, 0.2)))})
    assert "tau by task, of 4" in suite._repr_html_()
