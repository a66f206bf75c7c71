"""Waterbirds: the genuine table as a dataset, its environments, Table 5 against plain sums."""

import numpy as np
import polars as pl
import pytest
from refusals import fails

import nooch
from nooch.errors import ParameterError
from nooch.evaluation import CELLS
from nooch.training.environments import Environments
from nooch.waterbirds.waterbirds_dataset import (
    QUANTITIES,
    group_shares,
    read_waterbirds,
    score_waterbirds,
    waterbirds_table,
)

TRAIN = [3498, 184, 56, 1057]
"""Land birds on land and on water, water birds on land and on water."""


def small_table(n=400, seed=0):
    random = np.random.default_rng(seed)
    y, place = random.integers(0, 2, n), random.integers(0, 2, n)
    return pl.DataFrame(
        {
            "img_id": range(1, n + 1), "img_filename": [f"001.A/{i}.jpg" for i in range(n)], "y": y, "split": random.integers(0, 3, n),
            "place": place, "place_filename": [f"/o/ocean/{i}.jpg" for i in range(n)],
        }
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    small_table().write_csv(tmp_path / "metadata.csv")
    return tmp_path


def suite_of(data, splits=("train", "test")):
    return nooch.find(
        data, {"attribute": nooch.Attribute(nooch.preset("waterbirds"))}, splits=splits
    )


def outputs(data, seed=0, run="one"):
    """Logits that look at the bird and at the place."""
    noise = np.random.default_rng(seed).normal(size=len(data))
    values = noise + 2.0 * data.labels("waterbird") + 1.5 * data.images["place"].to_numpy() - 1.5
    return nooch.Predictions.of(values, data.image_ids, "waterbird", scale="logit", run=run), values


def by_hand(labels, place, values, shares):
    """The quantities, from loops over groups."""
    wrong, loss = {}, {}
    for bird in (0, 1):
        for water in (0, 1):
            rows = (labels == bird) & (place == water)
            wrong[bird, water] = np.mean((values[rows] > 0) != bird)
            loss[bird, water] = np.mean(
                np.logaddexp(0, np.where(bird, -values[rows], values[rows]))
            )
    hard = labels != place
    pairs = [
        (p > n) + 0.5 * (p == n)
        for p in values[hard & (labels == 1)]
        for n in values[hard & (labels == 0)]
    ]
    return {
        "worst_group_error": max(wrong[0, 1], wrong[1, 0]),
        "worst_group_nll": max(loss[0, 1], loss[1, 0]),
        "auc_hard": np.mean(pairs),
        "worst_of_four_error": max(wrong.values()),
        "worst_of_four_nll": max(loss.values()),
        "error_over_images": np.mean((values > 0) != labels),
        "error_by_training_groups": sum(shares[group] * wrong[group] for group in wrong),
        "error_mean_of_groups": np.mean(list(wrong.values())),
    }


def test_the_genuine_groups_and_environments(shared_data):
    data = read_waterbirds(shared_data / "waterbirds")
    assert (data.classes, data.splits) == (
        ("waterbird",),
        {"train": 4795, "valid": 1199, "test": 5794},
    )
    train = data.select("train")
    assert np.bincount(Environments(attribute="place").of(train, "waterbird")).tolist() == TRAIN
    shares = [group_shares(data).shares[cell] * 4795 for cell in CELLS]
    assert shares == pytest.approx([TRAIN[2], TRAIN[1], TRAIN[3], TRAIN[0]])
    record = suite_of(data).record("attribute", "waterbird", "train")
    assert (record.hard_positives, record.hard_negatives) == (56, 184)
    assert "11788 of 11788 image files" in data.provenance["notes"][0]


@pytest.mark.parametrize("splits", [("test",), ("train", "test")])
def test_table_5_and_the_averages(folder, splits):
    data = read_waterbirds(folder)
    runs = [outputs(data.select("test"), seed, f"run {seed}") for seed in (0, 1)]
    made = waterbirds_table(
        score_waterbirds(suite_of(data, splits), [run for run, _ in runs], data)
    )
    train, test = data.select("train"), data.select("test")
    shares = {
        (b, w): np.mean((train.labels("waterbird") == b) & (train.images["place"].to_numpy() == w))
        for b in (0, 1)
        for w in (0, 1)
    }
    for number, (_, values) in enumerate(runs):
        expected = by_hand(
            test.labels("waterbird").astype(int), test.images["place"].to_numpy(), values, shares
        )
        assert {name: made[name][number] for name in QUANTITIES} == pytest.approx(expected)
    # the worst of the two hard groups and of all four are not the same quantity
    assert made["worst_of_four_nll"][0] >= made["worst_group_nll"][0]


def test_the_worst_of_four_can_be_an_easy_group(folder):
    data = read_waterbirds(folder)
    test = data.select("test")
    hard = test.labels("waterbird") != (test.images["place"].to_numpy() == 1)
    values = np.where(hard == test.labels("waterbird"), 1.0, -1.0)
    run = nooch.Predictions.of(values, test.image_ids, "waterbird", scale="logit")
    made = waterbirds_table(score_waterbirds(suite_of(data), run, data))
    assert (made["worst_group_error"][0], made["worst_of_four_error"][0], made["auc_hard"][0]) == (
        0.0,
        1.0,
        1.0,
    )


def test_a_group_without_images_makes_its_quantities_null(tmp_path):
    table = small_table().filter(
        ~((pl.col("split") == 2) & (pl.col("y") == 1) & (pl.col("place") == 0))
    )
    table.write_csv(tmp_path / "metadata.csv")
    data = read_waterbirds(tmp_path)
    made = waterbirds_table(score_waterbirds(suite_of(data), outputs(data.select("test"))[0], data))
    null = {name for name in QUANTITIES if made[name][0] is None}
    assert null == set(QUANTITIES) - {"error_over_images"}


def test_what_is_refused(tmp_path, folder):
    fails(lambda: read_waterbirds(tmp_path / "no"), "no such file", "metadata.csv")
    for column, value, said in (
        ("y", 2, "y has the values"),
        ("place", 3, "place has the values"),
        ("split", 5, "split values 5"),
    ):
        changed = small_table().with_columns(
            pl.when(pl.col("img_id") == 7).then(value).otherwise(pl.col(column)).alias(column)
        )
        (tmp_path / column).mkdir()
        changed.write_csv(tmp_path / column / "metadata.csv")
        fails(lambda column=column: read_waterbirds(tmp_path / column), said)
    (tmp_path / "lacks").mkdir()
    small_table().drop("place").write_csv(tmp_path / "lacks" / "metadata.csv")
    fails(lambda: read_waterbirds(tmp_path / "lacks"), "'place' is no column", kind=ParameterError)
    data = read_waterbirds(folder)
    run = outputs(data.select("test"))[0]
    scores = nooch.evaluate(suite_of(data), run)
    fails(lambda: waterbirds_table(scores), "have no groups", kind=ParameterError)
    other = nooch.Dataset(data.images.drop("group"), data.classes, data.areas)
    fails(
        lambda: score_waterbirds(suite_of(data), run, other),
        "no task waterbird",
        kind=ParameterError,
    )
