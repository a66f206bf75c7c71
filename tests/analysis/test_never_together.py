"""Pairs of classes that only test images show together: a slow count, errors, notes, no pairs."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from oracles import collections, dataset_of

import nooch
from nooch.analysis.check import check, never_together
from nooch.data import save_dataset
from nooch.evaluation import Predictions
from nooch.evaluation.judged import judge_runs
from nooch.suites.find import unseen_note, unseen_pairs

NAMES = ["car", "boat", "road"]


def _slow(images, classes, splits, expected=3):
    train = [image for image, split in zip(images, splits, strict=True) if split == "train"]
    test = [image for image, split in zip(images, splits, strict=True) if split == "test"]
    found = {}
    for a, b in permutations(classes, 2):
        n = sum(a in image and b in image for image in test)
        together = sum(a in image and b in image for image in train)
        alone = [sum(name in image for image in train) for name in (a, b)]
        by_chance = alone[0] * alone[1] / max(len(train), 1)
        if n and not together and by_chance >= expected:
            found[a, b] = n, by_chance
    return found


@given(collections(max_images=14, splits=True), st.integers(1, 12))
def test_pairs_are_those_of_a_slow_count(collection, times):
    """Images are repeated, so that chance would give some together."""
    images, classes, splits = collection
    images, splits = images * times, splits * times
    data = dataset_of(images, classes, splits)
    pairs = unseen_pairs(data, "test") if "test" in splits else None
    if pairs is not None:
        rows = {row[:2]: (row[2], pytest.approx(row[3])) for row in pairs.rows()}
        assert rows == _slow(images, classes, splits)
        assert pairs["n_test"].is_sorted(descending=True)


@pytest.fixture
def data():
    """Cars or boats in training, never both; in test sometimes."""
    random, images = np.random.default_rng(0), []
    for i in range(600):
        kinds = [["car"], ["boat"], ["car", "boat"], []][random.integers(4)]
        kinds = ["car"] if i < 300 and len(kinds) == 2 else kinds
        images.append(dict.fromkeys([*kinds, *(["road"] if random.random() < 0.5 else [])], 0.2))
    return dataset_of(images, NAMES, ["train"] * 300 + ["test"] * 300)


def test_find_has_a_line(data, tmp_path, run_cli):
    save_dataset(data, tmp_path / "data")
    asked = f"find {tmp_path}/data --criterion context --tasks car --out"
    both = (data.select("test").labels("car") & data.select("test").labels("boat")).sum()
    line = f"never together in training, though expected by chance: boat and car ({both} images"
    assert line in run_cli(f"{asked} {tmp_path}/suite").ok().err
    save_dataset(data.select("train"), tmp_path / "train")
    other = run_cli(f"find {tmp_path}/train --criterion context --tasks car --out {tmp_path}/other")
    assert "never together" not in other.err


def test_errors_are_those_of_these_images(data, tmp_path):
    test = data.select("test")
    both = test.labels("car") & test.labels("boat")
    wrong = both & (np.arange(300) % 3 > 0)
    values = np.where(test.labels("car") ^ wrong, 1.0, -1.0)
    run = Predictions.from_arrays(values, test.image_ids, "car", scale="logit", run="m")
    table = never_together(judge_runs([run], data, "test"), ["car"])
    (row,) = table.to_dicts()
    assert (row["run"], row["task"], row["other"]) == ("m", "car", "boat")
    assert (row["n_test"], row["n"], row["missed"]) == (both.sum(), both.sum(), wrong.sum())
    assert (row["rate"], row["rate_elsewhere"]) == (pytest.approx(wrong.sum() / both.sum()), 0.0)
    assert row["n_elsewhere"] == (test.labels("car") & ~both).sum()
    (note,) = unseen_note(table)
    rate = f"{100 * row['rate']:.0f}%"
    assert note.endswith(f"car and boat ({both.sum()} images; cars missed: {rate}, elsewhere 0%)")
    frame = pl.DataFrame({"image_id": test.image_ids, "task": "car", "logit": values})
    checked = check(data, {"m": frame}, tmp_path / "out", bootstrap=0, slices=False)
    assert checked.never_together.equals(table)
    assert note in checked.notes
    assert checked.comparison_json == {"never_together": table.to_dicts()}


def test_rates_of_a_sample_count_each_image_by_its_weight(data):
    test = data.select("test")
    car, both = test.labels("car"), test.labels("car") & test.labels("boat")
    wrong, weight = np.arange(300) % 2 > 0, np.where(np.arange(300) % 2 > 0, 3.0, 1.0)
    values = np.where(car ^ wrong, 1.0, -1.0)
    run = Predictions.from_arrays(values, test.image_ids, "car", scale="logit", run="m")
    judged = judge_runs([replace(run, weights=weight[None])], data, "test")
    (row,) = never_together(judged, ["car"]).to_dicts()
    rates = [np.average(wrong[of], weights=weight[of]) for of in (both, car & ~both)]
    assert [row["rate"], row["rate_elsewhere"]] == pytest.approx(rates)
    assert row["missed"] == wrong[both].sum()


def test_there_is_no_line_without_a_training_split_or_a_pair(data):
    test = data.select("test")
    every = nooch.Dataset.build(test.images.with_columns(split=pl.lit("all")), NAMES, test.areas)
    assert unseen_pairs(every, "all").is_empty()
    assert unseen_pairs(data, "train").is_empty()
    assert unseen_note(unseen_pairs(every, "all")) == []
