"""Slices: planted ones are found and confirmed, noise is not, counts are those of a plain loop."""

import datetime as dt
import itertools

import numpy as np
import polars as pl
import pytest
from planted import planted_data, planted_predictions
from refusals import fails
from scipy.sparse import csr_array

import nooch
from nooch.challenge import ChallengeSet
from nooch.checking.cue_findings import size_strata
from nooch.checking.slice_conditions import SliceConditions
from nooch.checking.slice_search import _row, _Tested, find_slices
from nooch.criteria import Attribute
from nooch.data import Dataset
from nooch.errors import ParameterError
from nooch.metrics.rate_gaps import rate_gap


@pytest.fixture(scope="module")
def data():
    return planted_data()


def conditions_on(part, whole=None):
    return SliceConditions(part, np.arange(len(part)) % 2 == 0, part if whole is None else whole)


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
    assert text.endswith(" points among objects of the same size; confirmed)")


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


def test_one_error_in_one_image_is_no_confirmation():
    """The interval of so few images may exclude 0 where the exact test does not reject."""
    inside, ids = np.arange(51) == 0, pl.Series(np.arange(51))
    everywhere = np.ones(51, bool)
    one = _Tested("m", "car", "positive", (), inside, inside, ~inside, everywhere, ids, None)
    row = _row(one, "test", 111)
    assert row["low"] > 0
    assert row["p_adjusted"] == 1
    assert not row["confirmed"]
    assert _row(one, "test", 1)["confirmed"]


def test_every_slice_keeps_the_limits_and_counts_of_a_plain_loop(data):
    answers = planted_predictions(data)
    found = find_slices(data, answers, min_support=20, min_drop=0.05, most=30)
    part = data.select("test")
    said = part.images.join(answers, on="image_id", how="left")["logit"].to_numpy() > 0
    car = part.labels("car")
    assert len(found) > 3
    conditions = conditions_on(part)
    for row in found.table.iter_rows(named=True):
        of_side = car if row["side"] == "positive" else ~car
        texts = {c.text: c.holds for c in conditions.of_task("car", size=row["side"] == "positive")}
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


@pytest.mark.parametrize("split", ["train", "test"])
def test_phi_marks_the_images_of_the_condition(split):
    """Odd names and values; what is unknown anywhere in the dataset is false."""
    random = np.random.default_rng(4)
    n, classes = 240, ("car", "sky-other", 'a"b', "place")
    areas = np.where(random.random((n, 4)) < 0.5, random.random((n, 4)), 0)
    areas[random.random((n, 4)) < 0.05] = np.nan
    values = {
        "place": random.choice(["it's", "b", ""], n),
        "half full": random.choice([0.1, 2, np.nan], n),
        "speed": random.normal(size=n), "year": random.integers(1990, 2030, n),
        "night": random.random(n) < 0.3, "day": [dt.date(2020, 1, 1 + i % 3) for i in range(n)],
        "when": [dt.datetime(2020, 1, 1, i % 3, tzinfo=dt.UTC) for i in range(n)],
        "list": [[1]] * n,
    }  # fmt: skip
    known = pl.int_range(n) % 7 > 0
    holes = [pl.when(known).then(name).alias(name) for name in values if name != "when"]
    images = pl.DataFrame({
        "image_id": range(n), "split": ["train", "test"] * (n // 2), **values,
    }).with_columns(pl.col("when").dt.convert_time_zone("Asia/Tokyo"), *holes)  # fmt: skip
    partly = random.random((n, 4)) < 0.1
    for unknown, shares in ((partly, areas), (None, areas), (None, np.nan_to_num(areas))):
        data = Dataset.build(images, classes, csr_array(shares), unknown=unknown)
        part = data.select(split)
        conditions = conditions_on(part, data).of_task("car", size=True)
        assert {c.name for c in conditions} >= {*classes[1:], *values} - {"list"}
        assert any(c.name == "car" for c in conditions) == data.has_areas
        for condition in conditions:
            marks = Attribute(condition.phi).fit(data).phi(data, "sky-other")
            known = data.unknown_labels("sky-other")
            rows = (images["split"] == split).to_numpy()
            known = np.ones(n, bool) if known is None else ~known
            assert marks[rows & known].tolist() == condition.holds[known[rows]].tolist()


@pytest.mark.parametrize("side", ["positive", "negative"])
def test_a_slice_is_the_hard_images_of_its_phi(data, side):
    found = find_slices(data, planted_predictions(data), min_drop=0.05)
    row = found.table.filter(side=side).row(0, named=True)
    suite = nooch.find(data, {"slice": Attribute(row["phi"])}, tasks=["car"], splits=["test"])
    record = suite.record("slice", "car", "test")
    hard = {"positive": record.hard_positives, "negative": record.hard_negatives}
    assert hard.pop(side) == row["n"]
    assert [*hard.values()] == [0]
    run = nooch.evaluate(suite, planted_predictions(data), ignore_unknown=True)
    assert run.value("error", f"hard_{side}") == pytest.approx(row["rate"])


def test_misses_are_tested_among_objects_of_the_same_size(data):
    """Small cars are missed; trees stand by small cars. Only the slice of size is confirmed."""
    area, cars = data.area("car"), data.select("test").area("car")
    small = (area > 0) & (area < np.quantile(cars[cars > 0], 0.25))
    tree = np.random.default_rng(0).random(len(data)) < np.where(small, 0.8, 0.1)
    areas = data.areas.toarray()
    areas[:, 2] = np.where(tree, 0.2, 0)
    beside = Dataset.build(data.images, data.classes, csr_array(areas))
    answers = answers_that_miss(beside, small)
    table = find_slices(beside, answers).table
    of_tree = table.filter(pl.col("conditions") == ["with a tree"]).row(0, named=True)
    of_size = table.filter(pl.col("conditions").list.first().str.contains("smallest quarter"))
    assert of_size["confirmed"].to_list() == [True]
    assert of_size["by_size"].to_list() == [False]
    assert of_tree["by_size"]
    assert not of_tree["confirmed"]
    assert of_tree["effect"] < 0.4 < of_tree["rate"] - of_tree["rate_rest"]
    part = beside.select("test")
    car, half = part.labels("car"), np.random.default_rng(0).permutation(len(part)) % 2 == 1
    everything = ChallengeSet(
        "any", "car", "test", part.images["image_id"], car, np.full(len(part), 2, np.uint8)
    )
    sizes, used = size_strata(part, everything), car & half
    said = part.images.join(answers, on="image_id", how="left")["logit"].to_numpy() > 0
    level = 1 - 0.05 / len(table)
    gap = rate_gap(~said[used], part.labels("tree")[used], sizes[used], level)
    for name in ("effect", "low", "high", "p"):
        assert of_tree[name] == pytest.approx(getattr(gap, name))


def test_images_of_a_group_are_in_one_half(data):
    """A wrong half would confirm what one scene, photographed often, shows."""
    scene = np.array([f"scene {i // 40}" for i in range(len(data))])
    images = data.images.with_columns(
        scene=pl.when(pl.int_range(len(data)) % 5 > 0).then(pl.Series(scene))
    )
    grouped = Dataset.build(images, data.classes, data.areas)
    answers = answers_that_miss(data, data.labels("tree"))
    found = find_slices(grouped, answers, group="scene")
    part = grouped.select("test")
    test = found.table.filter(pl.col("conditions") == ["with a tree"])["n_test"][0]
    names = part.images["scene"].to_list()
    groups = {name: n for n, name in enumerate(sorted({*names} - {None}))}
    missing = -1 - np.arange(len(part))
    codes = [missing[i] if name is None else groups[name] for i, name in enumerate(names)]
    different, place = np.unique(codes, return_inverse=True)
    half = (np.random.default_rng(0).permutation(len(different)) % 2 == 1)[place]
    assert test == (half & part.labels("tree") & part.labels("car")).sum()
    fails(lambda: find_slices(data, answers, group="scene"), "'scene' is no attribute",
          kind=ParameterError)  # fmt: skip


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
    texts = [c.text for c in conditions_on(data.select("test")).of_task("car", size=True)]
    assert len(set(texts)) == len(texts)
    expected = ["with a road", "without a tree", "with road on more than 10%", "with place = north"]
    assert set(expected) <= set(texts)
    assert sum("smallest" in text for text in texts) == 2
    assert not any("car" in text for text in texts if "cars" not in text)
    pairs = itertools.combinations(conditions_on(data).of_task("car", size=False), 2)
    assert all(a.holds.shape == b.holds.shape == (len(data),) for a, b in pairs)
