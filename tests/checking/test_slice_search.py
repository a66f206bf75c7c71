"""Slices: planted ones are found and confirmed, noise is not, counts are those of a plain loop."""

import itertools

import numpy as np
import polars as pl
import pytest
from planted import planted_data, planted_predictions
from refusals import fails

from nooch.checking.slice_conditions import conditions_of
from nooch.checking.slice_search import find_slices
from nooch.errors import ParameterError


@pytest.fixture(scope="module")
def data():
    return planted_data()


def answers_that_miss(data, where, *, often=0.9, else_often=0.05, seed=1):
    """Cars are missed ``often`` in the images ``where``, and ``else_often`` in the others."""
    random = np.random.default_rng(seed)
    wrong = random.random(len(data)) < np.where(where, often, else_often)
    car = data.labels("car")
    said = np.where(car, ~wrong, False)
    return pl.DataFrame(
        {"image_id": data.images["image_id"], "task": "car", "logit": np.where(said, 1.0, -1.0)}
    )


def test_a_planted_slice_of_two_conditions_is_found_first_and_confirmed(data):
    where = ~data.labels("tree") & (data.images["place"] == "south").to_numpy()
    found = find_slices(data, answers_that_miss(data, where))
    row = found.table.row(0, named=True)
    assert row["conditions"] == ["without a tree", "with place = south"]
    assert row["confirmed"]
    inside = where & data.labels("car") & (data.images["split"] == "test").to_numpy()
    assert row["n"] == inside.sum()
    assert row["errors"] / row["n"] == row["rate"] > 0.8
    assert row["rate_rest"] < 0.2
    text = found.sentences(1)[0]
    assert text.startswith(
        f"Cars without a tree and with place = south: {row['errors']} of {row['n']} missed,"
    )
    assert text.endswith("on the half that tests; confirmed)")


def test_a_slice_of_one_condition_is_not_split_further(data):
    found = find_slices(data, answers_that_miss(data, data.labels("tree")))
    assert found.table["conditions"].to_list()[0] == ["with a tree"]
    confirmed = found.table.filter("confirmed")["conditions"].to_list()
    assert all(len(conditions) == 1 for conditions in confirmed)


def test_claims_are_searched_among_negatives(data):
    found = find_slices(data, planted_predictions(data, missed=0, claimed=0.8, usual=0))
    row = found.table.row(0, named=True)
    assert (row["side"], row["conditions"], row["confirmed"]) == ("negative", ["with a road"], True)
    assert found.sentences(1)[0].startswith("Images with a road but no car: cars claimed in")


def test_noise_is_rarely_confirmed(data):
    """Of 40 runs of noise alone, corrected intervals confirm something in two at most."""
    noisy = {
        str(seed): answers_that_miss(data, np.zeros(len(data), bool), else_often=0.3, seed=seed)
        for seed in range(40)
    }
    found = [find_slices(data, answers, min_drop=0.02) for answers in noisy.values()]
    assert sum(len(slices) for slices in found) > 40
    assert sum(slices.table["confirmed"].any() for slices in found) <= 2


def test_every_slice_keeps_the_limits_and_counts_of_a_plain_loop(data):
    answers = planted_predictions(data)
    found = find_slices(data, answers, min_support=20, min_drop=0.05, most=30)
    part = data.select("test")
    said = part.images.join(answers, on="image_id", how="left")["logit"].to_numpy() > 0
    car = part.labels("car")
    assert len(found) > 3
    for row in found.table.iter_rows(named=True):
        of_side = car if row["side"] == "positive" else ~car
        texts = {
            c.text: c.holds for c in conditions_of(part, "car", size=row["side"] == "positive")
        }
        inside = of_side.copy()
        for text in row["conditions"]:
            inside &= texts[text]
        assert row["n"] == inside.sum() >= 20
        assert row["errors"] == (said != car)[inside].sum()
        assert row["rate_rest"] == pytest.approx((said != car)[of_side & ~inside].mean())
    images = [frozenset(row) for row in found.table.filter(side="positive")["conditions"]]
    assert len(set(images)) == len(images)


def test_against_the_parent_compares_with_the_images_of_one_condition(data):
    where = data.labels("tree") & data.labels("road")
    slices = find_slices(data, answers_that_miss(data, where), against="parent")
    row = slices.table.filter(pl.col("conditions").list.len() == 2).row(0, named=True)
    assert sorted(row["conditions"]) == ["with a road", "with a tree"]
    assert row["confirmed"]


def test_halves_and_results_depend_on_the_seed_alone(data):
    answers = planted_predictions(data)
    one, again = (find_slices(data, answers, seed=3).table for _ in range(2))
    assert one.equals(again)
    assert not one.equals(find_slices(data, answers, seed=4).table)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".json"])
def test_files(data, ending):
    slices = find_slices(data, planted_predictions(data))
    content = slices.as_bytes(ending)
    read = {
        ".parquet": lambda: pl.read_parquet(content).height,
        ".csv": lambda: pl.read_csv(content).height,
        ".json": lambda: len(pl.read_json(content)["slices"][0]),
    }[ending]
    assert read() == len(slices)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"against": "all"}, "'all' is no comparison"),
        ({"min_support": 1}, "min_support is 1"),
        ({"min_drop": 1.0}, "min_drop is 1.0"),
        ({"most": 0}, "most 0"),
        ({"least": 3}, "'least' is no option of SliceOptions"),
        ({"tasks": ["cat"]}, "'cat' is no class"),
        ({"split": "valid"}, "'valid' is no split"),
    ],
)
def test_options_are_checked(data, options, text):
    fails(
        lambda: find_slices(data, planted_predictions(data), **options), text, kind=ParameterError
    )


def test_conditions_of_columns_and_sizes(data):
    texts = [c.text for c in conditions_of(data.select("test"), "car", size=True)]
    assert len(set(texts)) == len(texts)
    expected = ["with a road", "without a tree", "with road on more than 10%", "with place = north"]
    assert set(expected) <= set(texts)
    assert sum("smallest" in text for text in texts) == 2
    assert not any("car" in text for text in texts if "cars" not in text)
    pairs = itertools.combinations(conditions_of(data, "car", size=False), 2)
    assert all(a.holds.shape == b.holds.shape == (len(data),) for a, b in pairs)
