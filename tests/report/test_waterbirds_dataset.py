"""Waterbirds: the genuine table as a dataset, its environments, Table 5 against plain sums."""

from itertools import product

import numpy as np
import polars as pl
import pytest
from refusals import fails, refused

import nooch
from nooch.data.readers.waterbirds import read_waterbirds
from nooch.evaluation import CELLS
from nooch.paper.waterbirds import (
    QUANTITIES,
    group_shares,
    score_waterbirds,
    waterbirds_table,
)
from nooch.training.training_data import Environments

GROUPS = list(product((0, 1), (0, 1)))
TRAIN = [3498, 184, 56, 1057]
"""Land birds on land and on water, water birds on land and on water."""


def small_table(n=400, seed=0):
    random = np.random.default_rng(seed)
    y, place = random.integers(0, 2, n), random.integers(0, 2, n)
    birds, places = ([f"{name}/{i}.jpg" for i in range(n)] for name in ("001.A", "/o/ocean"))
    table = pl.DataFrame({"img_id": range(1, n + 1), "img_filename": birds, "y": y})
    more = {"split": random.integers(0, 3, n), "place": place}
    return table.with_columns(**more, place_filename=pl.Series(places))


@pytest.fixture
def folder(tmp_path):
    small_table().write_csv(tmp_path / "metadata.csv")
    return tmp_path


@pytest.fixture
def data(folder):
    return read_waterbirds(folder)


def suite_of(data, splits=("train", "test")):
    criterion = nooch.Attribute(nooch.io.phi_preset("waterbirds"))
    return nooch.find(data, {"attribute": criterion}, splits=splits)


def outputs(data, seed=0, run="one"):
    """Logits that depend on the bird and the place."""
    noise = np.random.default_rng(seed).normal(size=len(data))
    values = noise + 2.0 * data.labels("waterbird") + 1.5 * data.images["place"].to_numpy() - 1.5
    return nooch.Predictions.from_arrays(
        values, data.image_ids, "waterbird", scale="logit", run=run
    ), values


def labels_and_places(data):
    return data.labels("waterbird").astype(int), data.images["place"].to_numpy()


def by_hand(labels, place, values, shares):
    """The quantities, from loops over groups."""
    wrong, loss = {}, {}
    for bird, water in GROUPS:
        own = values[(labels == bird) & (place == water)]
        wrong[bird, water] = np.mean((own > 0) != bird)
        loss[bird, water] = np.mean(np.logaddexp(0, np.where(bird, -own, own)))
    hard = labels != place
    pairs = product(values[hard & (labels == 1)], values[hard & (labels == 0)])
    return {
        "worst_group_error": max(wrong[0, 1], wrong[1, 0]),
        "worst_group_nll": max(loss[0, 1], loss[1, 0]),
        "auc_hard": np.mean([(p > n) + 0.5 * (p == n) for p, n in pairs]),
        "worst_of_four_error": max(wrong.values()),
        "worst_of_four_nll": max(loss.values()),
        "error_over_images": np.mean((values > 0) != labels),
        "error_by_training_groups": sum(shares[group] * wrong[group] for group in wrong),
        "error_mean_of_groups": np.mean(list(wrong.values())),
    }


def test_the_genuine_groups_and_environments(shared_data):
    data = read_waterbirds(shared_data / "waterbirds")
    assert data.classes == ("waterbird",)
    assert data.splits == {"train": 4795, "valid": 1199, "test": 5794}
    train = data.select("train")
    assert (
        np.bincount(Environments(attribute="place").for_task(train, "waterbird")).tolist() == TRAIN
    )
    shares = [group_shares(data).shares[cell] * 4795 for cell in CELLS]
    assert shares == pytest.approx([TRAIN[2], TRAIN[1], TRAIN[3], TRAIN[0]])
    record = suite_of(data).record("attribute", "waterbird", "train")
    assert (record.hard_positives, record.hard_negatives) == (56, 184)
    assert "11788 of 11788 image files" in data.provenance["notes"][0]


@pytest.mark.parametrize("splits", [("test",), ("train", "test")])
def test_table_5_and_the_averages(data, splits):
    runs = [outputs(data.select("test"), seed, f"run {seed}") for seed in (0, 1)]
    scores = score_waterbirds(suite_of(data, splits), [run for run, _ in runs], data)
    table = waterbirds_table(scores)
    (y, place), test = (labels_and_places(data.select(name)) for name in ("train", "test"))
    shares = {(b, w): np.mean((y == b) & (place == w)) for b, w in GROUPS}
    for number, (_, values) in enumerate(runs):
        expected = by_hand(*test, values, shares)
        assert {name: table[name][number] for name in QUANTITIES} == pytest.approx(expected)
    # the worst of the two hard groups and of all four are not the same quantity
    assert table["worst_of_four_nll"][0] >= table["worst_group_nll"][0]


def test_the_worst_of_four_can_be_an_easy_group(data):
    test = data.select("test")
    labels, places = labels_and_places(test)
    values = np.where((labels != places) == labels, 1.0, -1.0)
    run = nooch.Predictions.from_arrays(values, test.image_ids, "waterbird", scale="logit")
    table = waterbirds_table(score_waterbirds(suite_of(data), run, data))
    names = ("worst_group_error", "worst_of_four_error", "auc_hard")
    assert [table[name][0] for name in names] == [0.0, 1.0, 1.0]


def test_a_group_without_images_makes_its_quantities_null(tmp_path):
    group = (pl.col("split") == 2) & (pl.col("y") == 1) & (pl.col("place") == 0)
    small_table().filter(~group).write_csv(tmp_path / "metadata.csv")
    data = read_waterbirds(tmp_path)
    run, _ = outputs(data.select("test"))
    table = waterbirds_table(score_waterbirds(suite_of(data), run, data))
    null = {name for name in QUANTITIES if table[name][0] is None}
    assert null == set(QUANTITIES) - {"error_over_images"}


def test_what_is_refused(tmp_path, data):
    fails(lambda: read_waterbirds(tmp_path / "no"), "no such file", "metadata.csv")
    values = {"y": "y has the values", "place": "place has the values", "split": "split values 9"}
    for column, message in values.items():
        changed = pl.when(pl.col("img_id") == 7).then(9).otherwise(pl.col(column))
        small_table().with_columns(changed.alias(column)).write_csv(tmp_path / "metadata.csv")
        fails(lambda: read_waterbirds(tmp_path), message)
    small_table().drop("place").write_csv(tmp_path / "metadata.csv")
    refused(lambda: read_waterbirds(tmp_path), "'place' is not a column")
    run = outputs(data.select("test"))[0]
    scores = nooch.evaluate(suite_of(data), run)
    refused(lambda: waterbirds_table(scores), "have no groups")
    other = nooch.Dataset(data.images.drop("group"), data.classes, data.areas)
    suite = suite_of(data)
    refused(lambda: score_waterbirds(suite, run, other), "no task waterbird")
