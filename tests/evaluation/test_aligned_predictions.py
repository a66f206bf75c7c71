"""Predictions matched with a suite: nothing missing, nothing left over, ids in either spelling."""

import numpy as np
import polars as pl
import pytest
from refusals import fails
from scored import TASKS, N, logits, small_data, small_suite

import nooch
from nooch.evaluation import Predictions, evaluate, load_predictions
from nooch.evaluation.predictions import Aligned


@pytest.fixture(scope="module")
def suite():
    return small_suite()


@pytest.fixture
def long(suite):
    return logits(suite)


def _values(scores):
    return scores.table.drop("run")["value"].to_list()


def test_the_order_of_rows_and_columns_does_not_matter(suite, long):
    expected = _values(evaluate(suite, long))
    shuffled = long.sample(fraction=1, shuffle=True, seed=1).select("task", "logit", "image_id")
    assert _values(evaluate(suite, shuffled)) == expected


@pytest.mark.parametrize("as_text", [str, lambda i: f"{i:012d}"])
def test_digits_as_text_stand_for_the_number(suite, long, as_text):
    expected = _values(evaluate(suite, long))
    texts = long.with_columns(image_id=pl.Series([as_text(i) for i in long["image_id"]]))
    assert _values(evaluate(suite, texts)) == expected


def test_suites_with_ids_of_text():
    suite = small_suite(small_data([f"img_{i}" for i in range(N)]))
    expected = _values(evaluate(small_suite(), logits(small_suite())))
    # the ids sort in another way, so each image's value must find its image
    moved = logits(small_suite()).with_columns(image_id=pl.format("img_{}", pl.col("image_id") - 1))
    assert _values(evaluate(suite, moved)) == pytest.approx(expected, abs=1e-15)
    words = "24 of 24 images are not in the suite: 37, 38"
    fails(lambda: evaluate(suite, logits(small_suite())), words)


def test_values_are_those_of_each_image(suite):
    challenge = suite.set("ce", "car", "test")
    ids = challenge.image_ids
    run = Predictions.from_arrays(ids.to_numpy()[::-1] * 2.0, ids.reverse(), "car", scale="logit")
    values = Aligned(run, ids, "test").values("car", slice(None), challenge)
    assert values.tolist() == (ids * 2.0).to_list()


def test_two_spellings_of_one_image_are_refused(suite, long):
    texts = long.with_columns(pl.col("image_id").cast(pl.String))
    twice = pl.concat([texts, texts[:1].with_columns(pl.col("image_id").str.zfill(12))])
    fails(lambda: evaluate(suite, twice), "image names mean the same image: 000000000037, 37")


def test_missing_images_are_counted_and_named(suite, long):
    fewer = long.filter((pl.col("image_id") > 39) | (pl.col("task") == "fire_hydrant"))
    words = "3 of 24 images of split test have no prediction: 37, 38, 39"
    fails(lambda: evaluate(suite, fewer), "run predictions, task car", words)
    words = "16 of 16 images of split valid have no prediction"
    fails(lambda: evaluate(suite, long, split="valid"), words, "`split`")


def test_unknown_images_are_refused_or_left_out(suite, long):
    stray = pl.concat([long, long[:1].with_columns(image_id=pl.lit(99999, pl.Int64))])
    words = ("1 of 25 images are not in the suite: 99999", "`ignore_unknown`", "valid, test")
    fails(lambda: evaluate(suite, stray), *words)
    expected = evaluate(suite, long).table
    assert evaluate(suite, stray, reading={"ignore_unknown": True}).table.equals(expected)
    dog = pl.DataFrame({"image_id": ["dog"], "task": ["car"], "logit": [0.0]})
    texts = long.with_columns(pl.col("image_id").cast(pl.String)).vstack(dog)
    fails(lambda: evaluate(suite, texts), "1 of 25 images are not in the suite: dog")


def test_images_of_the_other_splits_are_known(suite, tmp_path):
    both = logits(suite, ["valid", "test"])
    assert set(evaluate(suite, both).table["split"]) == {"test"}
    assert set(evaluate(suite, both, split=["valid", "test"]).table["split"]) == {"valid", "test"}
    train = both.vstack(pl.DataFrame({"image_id": [1], "task": ["car"], "logit": [0.0]}))
    scores = evaluate(suite, train)
    assert scores.table.equals(evaluate(suite, both).table)
    # the same by its own ids, where the dataset is not at hand
    nooch.save_suite(small_suite(path="elsewhere"), tmp_path / "moved")
    moved = nooch.load_suite(tmp_path / "moved")
    fails(lambda: evaluate(moved, train), "1 of 41 images are not in the suite: 1")
    assert evaluate(moved, train, dataset=small_data()).table.equals(scores.table)


def test_labels_must_agree(suite, long):
    right = pl.concat(
        pl.DataFrame({"image_id": c.image_ids, "task": task, "label": c.labels})
        for task in TASKS
        for c in [suite.set("ce", task, "test")]
    )
    labeled = long.join(right, on=["image_id", "task"], maintain_order="left")
    expected = evaluate(suite, long).table
    for kind in (pl.Boolean, pl.Int64, pl.Float64):
        table = evaluate(suite, labeled.with_columns(pl.col("label").cast(kind))).table
        assert table.equals(expected)
    other = (pl.col("image_id") == 40) & (pl.col("task") == "car")
    wrong = labeled.with_columns(label=pl.col("label") ^ other)
    words = ("task car", "1 labels disagree with the suite's: 40", "or no column label")
    fails(lambda: evaluate(suite, wrong), *words)


def test_tasks_that_no_one_knows_are_a_note_and_missing_ones_a_warning(suite, long):
    typo = long.with_columns(pl.col("task").replace("fire_hydrant", "fire_hydrat"))
    scores = evaluate(suite, typo)
    assert scores.notes[:2] == [
        "predictions of 1 task that the suite does not have are left out: fire_hydrat",
        (
            "warning: no predictions for 2 of 3 tasks of the suite: fire_hydrant, cow;"
            " did you mean fire_hydrant by fire_hydrat?"
        ),
    ]
    expected = evaluate(suite, long, tasks=["car"])
    assert scores.table.equals(expected.table)
    assert not [note for note in expected.notes if "predictions" in note]
    wide = long.pivot("task", index="image_id", values="logit").rename({"car": "carr"})
    run = load_predictions(wide, suite, scale="logit")
    assert "did you mean car by carr?" in evaluate(suite, run).notes[1]
    ids = suite.set("ce", "car", "test").image_ids
    array = Predictions.from_arrays(np.zeros(24), ids, "zebra", scale="logit", run="r")
    words = ("no predictions for car, fire_hydrant, cow, only for zebra", "at least one task")
    fails(lambda: nooch.evaluate(suite, array), *words)
