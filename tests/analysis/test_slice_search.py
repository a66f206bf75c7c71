"""Slices: planted ones are found and confirmed, noise is not, counts are those of a plain loop."""

import datetime as dt
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from blake3 import blake3
from planted import planted_data, planted_predictions
from refusals import fails, refused
from scipy.sparse import csr_array
from scipy.stats import binom, fisher_exact

import nooch
from nooch.analysis import slices as slice_tests
from nooch.analysis.slices import (
    SliceFamily,
    SliceSide,
    _half,
    find_slices,
    slice_families,
)
from nooch.base.errors import ParameterError
from nooch.criteria import Attribute
from nooch.criteria.conditions import ImageCondition, ImageConditions
from nooch.criteria.phi import identifier
from nooch.data import Dataset
from nooch.evaluation.findings import Outcomes, size_strata
from nooch.evaluation.metrics.rate_gaps import rate_gap
from nooch.evaluation.rate_words import condition_words, percent, phi_words
from nooch.suites import ChallengeSet


@pytest.fixture(scope="module")
def data():
    return planted_data()


def conditions_on(part, whole=None, **words):
    return ImageConditions(part, part if whole is None else whole, **words)


def hash_half(names):
    """The half that a hash of each name decides."""
    return np.array([blake3(str(name).encode()).digest()[0] % 2 == 0 for name in names])


def answers_that_miss(data, where, *, often=0.9, else_often=0.05, seed=1):
    """Cars are missed ``often`` in the images ``where``, and ``else_often`` in the others."""
    random = np.random.default_rng(seed)
    wrong = random.random(len(data)) < np.where(where, often, else_often)
    car = data.labels("car")
    said = np.where(car, ~wrong, False)
    ids, logit = data.images["image_id"], np.where(said, 1.0, -1.0)
    return pl.DataFrame({"image_id": ids, "task": "car", "logit": logit})


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
    missed = f"{row['errors']} of {row['n']} missed,"
    assert text.startswith(f"Cars without a tree and with place = south: {missed}")
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


@pytest.fixture
def many_listed(monkeypatch):
    """Far more slices are tested and listed than by default."""
    monkeypatch.setattr(slice_tests, "LEAST_DROP", 0.02)


def test_noise_is_rarely_confirmed(data, many_listed):
    """Of 40 runs of noise alone, corrected intervals confirm something in two at most."""
    noisy = {
        str(seed): answers_that_miss(data, np.zeros(len(data), bool), else_often=0.3, seed=seed)
        for seed in range(40)
    }
    found = [find_slices(data, answers) for answers in noisy.values()]
    assert sum(len(slices) for slices in found) > 40
    assert sum(slices.table["confirmed"].any() for slices in found) <= 2


def outcomes_side(task, conditions, wrong, groups=None):
    everywhere, outcomes = (
        np.ones(len(wrong), bool),
        Outcomes(wrong, ~wrong & wrong, np.arange(len(wrong)), None, groups),
    )
    return SliceSide(task, conditions, everywhere, outcomes, (everywhere,) * 2, ())


def family_with(inside, wrong, *, tested, conditions=1, groups=None):
    """A family of many tests, one of which has a row."""
    n = len(inside)
    held = tuple(ImageCondition(f"c{i}", "", "", inside) for i in range(conditions))
    side = outcomes_side("car", held, wrong, groups)
    family = SliceFamily("conditions", 0.025, tested)
    found = side._found(family, held)
    family.found.append((found, {}))
    assert found.inside.sum() + found.other.sum() == n
    return next(family.judged())


def test_one_error_in_one_image_is_no_confirmation():
    """The interval of so few images may exclude 0 where the exact test does not reject."""
    one = np.arange(51) == 0
    assert family_with(one, one, tested=1, conditions=2)["confirmed"]
    row = family_with(one, one, tested=111)
    assert row["p_adjusted"] == 1
    assert not row["confirmed"]


def test_holms_steps_share_an_error_by_weights():
    """Against a plain loop; tests without a row count, and a big slice has the smaller share."""
    inside = [np.arange(400) < n for n in (30, 100, 100, 300)]
    wrong = [np.arange(400) % step == 0 for step in (2, 3, 9, 5)]
    wrong = [w | (i & (np.arange(400) % 3 == 0)) for w, i in zip(wrong, inside, strict=True)]
    family = SliceFamily("conditions", 0.025, 50)
    for held, bad in zip(inside, wrong, strict=True):
        conditions = (ImageCondition("c", "", "", held),)
        side = outcomes_side("car", conditions, bad)
        family.found.append((side._found(family, conditions), {}))
    weights = np.array([0.6, 0.6, 0.6, 0.4])
    tables = [[[(w & h).sum(), (~w & h).sum()], [(w & ~h).sum(), (~w & ~h).sum()]]
              for h, w in zip(inside, wrong, strict=True)]  # fmt: skip
    p = np.array([fisher_exact(table, "greater").pvalue for table in tables])
    expected, left, worst = [], 50.0, 0.0
    for at in np.argsort(p / weights):
        worst = max(worst, min(1.0, 2 * p[at] / weights[at] * left))
        left -= weights[at]
        expected.append((p[at], worst))
    rows = [*family.judged()]
    found = [(row["p"], row["p_adjusted"]) for row in rows]
    assert found == [pytest.approx(pair) for pair in expected]
    assert any(row["p_adjusted"] < 1 for row in rows)


def test_a_condition_and_its_opposite_are_one_test(data):
    part = data.select("test")
    found = find_slices(data, planted_predictions(data))
    tested = found.settings["tested"]
    sides = 0
    for size, of in ((True, part.labels("car")), (False, ~part.labels("car"))):
        rows = [one.holds[of] for one in conditions_on(part).of_task("car", target=size)]
        rows = [row for row in rows if 10 <= row.sum() < of.sum()]
        sides += len({min(row.tobytes(), (~row).tobytes()) for row in rows})
    assert tested["conditions"] == sides
    assert [*tested] == [family.name for family in slice_families()]
    assert found.counts.startswith(f"{sum(tested.values())} tested, {len(found)} listed, ")


def small_world(seed, planted=0.0, share=0.09, n=600):
    """Images with misses of .2, and ``planted`` more in the share of images that have an "a"."""
    random = np.random.default_rng([7, seed])
    areas = np.where(random.random((n, 6)) < [1, share, 0.2, 0.3, 0.4, 0.5], 0.3, 0)
    images = pl.DataFrame({"image_id": range(n), "split": "test"})
    wrong = random.random(n) < 0.2 + planted * (areas[:, 1] > 0)
    logit = np.where(wrong, -1.0, 1.0)
    answers = pl.DataFrame({"image_id": range(n), "task": "car", "logit": logit})
    return Dataset.build(images, ["car", *"abcde"], csr_array(areas)), wrong, answers


def test_families_of_null_datasets_keep_their_error(many_listed):
    """Of 150 null datasets, at most as many are confirmed as 6% leave in 1 of 100 cases."""
    hits = 0
    for seed in range(150):
        data, _, answers = small_world(seed)
        hits += find_slices(data, answers).table["confirmed"].any()
    assert hits <= binom.ppf(0.99, 150, 0.06)


@pytest.mark.parametrize(("share", "planted"), [(0.09, 0.22), (0.7, 0.13)])
def test_power_is_that_of_fishers_test_with_bonferroni(share, planted):
    """On all images; of 100 planted datasets, within chance of the difference of .03."""
    ours = theirs = 0
    for seed in range(100):
        data, wrong, answers = small_world(seed, planted, share)
        found = find_slices(data, answers).table.filter("confirmed")["conditions"].to_list()
        ours += ["with an a"] in found
        holds = {one.text: one.holds for one in conditions_on(data).of_task("car", target=True)}
        kept = {text: h for text, h in holds.items() if 10 <= h.sum() < len(h)}
        inside = holds["with an a"]
        table = [[(w & h).sum() for w in (wrong, ~wrong)] for h in (inside, ~inside)]
        theirs += fisher_exact(table).pvalue * len(kept) <= 0.05
    assert 30 < theirs < 70
    assert ours >= theirs - 3 - 4


def test_groups_have_one_vote(data):
    """Forty photographs of one scene, with forty errors, are one observation."""
    n = 400
    inside = np.arange(n) < 40
    wrong = inside | (np.arange(n) % 7 == 0)
    scenes = np.arange(n) // 40
    assert family_with(inside, wrong, tested=5)["confirmed"]
    assert family_with(inside, wrong, tested=5, groups=scenes)["p"] > 0.1
    spread = np.random.default_rng(0).permutation(n) // 4
    assert family_with(inside, wrong, tested=5, groups=spread)["confirmed"]


def test_every_slice_keeps_the_limits_and_counts_of_a_plain_loop(data, many_listed):
    answers = planted_predictions(data)
    found = find_slices(data, answers, min_support=20)
    part = data.select("test")
    said = part.images.join(answers, on="image_id", how="left")["logit"].to_numpy() > 0
    car = part.labels("car")
    assert len(found) > 3
    conditions = conditions_on(part)
    for row in found.table.iter_rows(named=True):
        of_side = car if row["side"] == "positive" else ~car
        texts = {
            c.text: c.holds for c in conditions.of_task("car", target=row["side"] == "positive")
        }
        inside = of_side.copy()
        for text in row["conditions"]:
            inside &= texts[text]
        assert row["n"] == inside.sum() >= 20
        assert row["errors"] == (said != car)[inside].sum()
        assert row["rate_rest"] == pytest.approx((said != car)[of_side & ~inside].mean())
    images = [frozenset(row) for row in found.table.filter(side="positive")["conditions"]]
    assert len(set(images)) == len(images)


def test_rates_of_a_sample_count_each_image_by_its_weight(data, many_listed, tmp_path):
    """Every image without a road is asked about, of the others every third, which counts three."""
    (run,) = nooch.load_predictions(planted_predictions(data), data=data)
    rows = np.searchsorted(data.image_ids, run.image_ids.to_numpy())
    road = data.labels("road")[rows]
    weight = np.where(~road, 1.0, np.where(np.arange(len(rows)) % 3 == 0, 3.0, 0.0))
    sample = replace(run, weights=weight[None])
    found = find_slices(data, sample)
    of_image = np.zeros(len(data))
    of_image[rows] = weight
    asked = (of_image > 0) & (data.images["split"] == "test").to_numpy()
    part, of_image = data.select(rows=asked), of_image[asked]
    wrong = np.zeros(len(data), bool)
    wrong[rows] = (run.values[0] > 0) != data.labels("car")[rows]
    wrong, car = wrong[asked], part.labels("car")
    assert len(found) > 3
    unequal = 0
    for row, text in zip(found.table.to_dicts(), found.sentences(99), strict=True):
        of_side = car if row["side"] == "positive" else ~car
        inside = of_side & Attribute(row["phi"]).fit(part).phi(part, "car")
        rates = [np.average(wrong[of], weights=of_image[of]) for of in (inside, of_side & ~inside)]
        assert [row["rate"], row["rate_rest"]] == pytest.approx(rates)
        assert (row["n"], row["errors"]) == (inside.sum(), wrong[inside].sum())
        by_weight = row["rate"] != pytest.approx(row["errors"] / row["n"])
        assert by_weight == ("by weight" in text)
        unequal += by_weight
        if row["side"] == "negative" and len(row["conditions"]) == 1:
            gap = rate_gap(wrong[of_side], inside[of_side], weights=of_image[of_side])
            assert [row["effect"], row["p"]] == pytest.approx([gap.effect, gap.p_more])
    assert unequal
    checked = nooch.check(data, sample, tmp_path / "out", bootstrap=0, slices=False)
    rates = [np.average(wrong[of], weights=of_image[of]) for of in (car, ~car)]
    ((_, _, *texts),) = checked.errors.rows
    counts = [f"{wrong[of].sum():,} of {of.sum():,}" for of in (car, ~car)]
    assert texts == [f"{n} ({percent(rate)} by weight)"
                     for n, rate in zip(counts, rates, strict=True)]  # fmt: skip


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
        "list": [[k % 2] for k in range(n)],
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
        conditions = conditions_on(part, data).of_task("car", target=True)
        assert {c.name for c in conditions} >= {*classes[1:], *values} - {"list"}
        assert any(c.name == "car" for c in conditions) == data.has_areas
        for condition in conditions:
            # when and half of what a size is of, phi does not tell
            told = condition.name not in ("car", "when")
            assert not told or phi_words(condition.phi) == condition.text
            marks = Attribute(condition.phi).fit(data).phi(data, "sky-other")
            known = data.unknown_labels("sky-other")
            rows = (images["split"] == split).to_numpy()
            known = np.ones(n, bool) if known is None else ~known
            assert marks[rows & known].tolist() == condition.holds[known[rows]].tolist()


@pytest.mark.parametrize("side", ["positive", "negative"])
def test_a_slice_is_the_hard_images_of_its_phi(data, side):
    found = find_slices(data, planted_predictions(data))
    row = found.table.filter(side=side).row(0, named=True)
    suite = nooch.find(data, {"slice": Attribute(row["phi"])}, tasks=["car"], splits=["test"])
    record = suite.record("slice", "car", "test")
    hard = {"positive": record.hard_positives, "negative": record.hard_negatives}
    assert hard.pop(side) == row["n"]
    assert [*hard.values()] == [0]
    run = nooch.evaluate(suite, planted_predictions(data), reading={"ignore_unknown": True})
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
    car = part.labels("car")
    ids, easy = part.images["image_id"], np.full(len(part), 2, np.uint8)
    everything = ChallengeSet("any", "car", "test", ids, car, easy)
    sizes, used = size_strata(part, everything), car
    said = part.images.join(answers, on="image_id", how="left")["logit"].to_numpy() > 0
    gap = rate_gap(~said[used], part.labels("tree")[used], sizes[used])
    assert of_tree["effect"] == pytest.approx(gap.effect)
    assert of_tree["p"] == pytest.approx(gap.p_more)
    assert of_tree["low"] < gap.low < gap.high < of_tree["high"]
    # a pair with a size is compared within sizes, too: the tree adds nothing to being small
    pairs = table.filter(pl.col("conditions").list.len() == 2)
    assert pairs["by_size"].all()
    assert not pairs["confirmed"].any()


def test_halves_are_a_hash_of_the_image_or_group(data):
    """They stay whatever other images there are; an image without a group is one of its own."""
    scene = [f"scene {i // 40}" if i % 5 else None for i in range(len(data))]
    images = data.images.with_columns(pl.Series("scene", scene))
    grouped = Dataset.build(images, data.classes, data.areas)
    ids = data.images["image_id"].to_list()
    pairs = zip(ids, scene, strict=True)
    named = [i if name is None else name for i, name in pairs]
    for part, names in ((data, ids), (grouped.grouped("scene"), named)):
        half = hash_half(names)
        assert 0.35 < half.mean() < 0.65
        assert (_half(part) == half).all()
        assert (_half(part.select(rows=np.arange(300))) == half[:300]).all()
    answers = answers_that_miss(data, data.labels("tree"))
    assert find_slices(grouped, answers, group="scene").table.row(0, named=True)["confirmed"]
    fails(lambda: find_slices(data, answers, group="scene"), "'scene' is not a column",
          kind=ParameterError)  # fmt: skip


def test_a_pair_is_tested_on_the_half_that_did_not_find_it(data):
    where = ~data.labels("tree") & (data.images["place"] == "south").to_numpy()
    row = find_slices(data, answers_that_miss(data, where)).table.row(0, named=True)
    part = data.select("test")
    inside = where & data.labels("car") & (data.images["split"] == "test").to_numpy()
    half = hash_half(data.images["image_id"].to_list())
    assert row["n_test"] in {(inside & half).sum(), (inside & ~half).sum()}
    answers = answers_that_miss(data, data.labels("tree"))
    single = find_slices(data, answers).table.row(0, named=True)
    assert single["n_test"] == single["n"] == (part.labels("car") & part.labels("tree")).sum()


def test_results_need_no_seed(data):
    answers = planted_predictions(data)
    one, again = (find_slices(data, answers).table for _ in range(2))
    assert one.equals(again)
    refused(lambda: find_slices(data, answers, seed=3), "seed")


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".json"])
def test_files(data, ending, tmp_path):
    slices, content = find_slices(data, planted_predictions(data)), tmp_path / f"slices{ending}"
    slices.save(content)
    read = {
        ".parquet": lambda: pl.read_parquet(content).height,
        ".csv": lambda: pl.read_csv(content).height,
        ".json": lambda: len(pl.read_json(content)["slices"][0]),
    }[ending]
    assert read() == len(slices)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"min_support": 1}, "`min_support`: is 1"),
        ({"tasks": ["cat"]}, "'cat' is not a class"),
        ({"split": "valid"}, "'valid' is not a split"),
    ],
)
def test_options_are_checked(data, options, text):
    answers = planted_predictions(data)
    fails(lambda: find_slices(data, answers, **options), text, kind=ParameterError)


def test_conditions_of_columns_and_sizes(data):
    texts = [c.text for c in conditions_on(data.select("test")).of_task("car", target=True)]
    assert len(set(texts)) == len(texts)
    expected = ["with a road", "without a tree", "with road on more than 10%", "with place = north"]
    assert set(expected) <= set(texts)
    assert sum("smallest" in text for text in texts) == 2
    assert not any("car" in text for text in texts if "cars" not in text)
    pairs = itertools.combinations(conditions_on(data).of_task("car", target=False), 2)
    assert all(a.holds.shape == b.holds.shape == (len(data),) for a, b in pairs)


def test_labels_that_exclude_each_other_are_no_conditions():
    random, n = np.random.default_rng(0), 900
    label, camera = random.integers(0, 3, n), random.choice(["A", "B", "C"], n)
    columns = {"image_id": range(n), "split": ["train", "test", "test"] * (n // 3)}
    areas = csr_array(np.where(np.eye(3)[label] > 0, np.nan, 0.0))
    wrong = random.random(n) < np.where(camera == "A", 0.4, 0.05)
    said = np.eye(3)[np.where(wrong, (label + 1) % 3, label)]
    for images in (pl.DataFrame({**columns, "camera": camera}), pl.DataFrame(columns)):
        data = Dataset.build(images, ["a", "b", "c"], areas)
        run = nooch.Predictions.from_arrays(
            4 * said - 2, data.image_ids, data.classes, scale="logit"
        )
        found = find_slices(data, [run])
        if "camera" in images.columns:
            assert found.table.filter("confirmed").height
            assert all("camera" in one[0] for one in found.table["conditions"])
            assert "slices come from attribute columns" in found.counts
        else:
            assert not found.settings["tested"]["conditions"]
            assert "`add-attributes`" in found.counts


def with_captions(planted, *, seed=0, n=500):
    """Boats, of which .2 are missed, and .5 where ``planted`` and the caption has a trailer."""
    random = np.random.default_rng([3, seed])
    words = np.array(["boat", "boats", "the", "a", *(f"word{i}" for i in range(400))])
    often = 1 / np.arange(1, len(words) + 1)
    has = random.permutation(n) < 100
    captions = [
        " ".join(random.choice(words, 9, p=often / often.sum())) + (" On a Trailer." if it else "")
        for it in has
    ]
    wrong = random.random(n) < np.where(has & planted, 0.5, 0.2)
    images = pl.DataFrame({"image_id": range(n), "split": "test"})
    areas = csr_array(np.where(random.random((n, 2)) < [1, 0.4], 0.2, 0))
    table = pl.DataFrame({"image_id": range(n), "caption": captions})
    answers = pl.DataFrame({"image_id": range(n), "task": "boat", "logit": 1.0 - 2 * wrong})
    return Dataset.build(images, ["boat", "dock"], areas, table), answers, has


def test_bins_of_sizes_take_the_place_of_quantiles(data):
    area = data.area("car")
    answers = answers_that_miss(data, (area >= 0.1) & (area < 0.2))
    row = find_slices(data, answers, sizes=(0.1, 0.2)).table.row(0, named=True)
    assert row["conditions"] == ["among cars on at least 10.00% and less than 20.00% of the image"]
    assert (row["confirmed"], row["by_size"]) == (True, False)
    assert row["phi"] == "present(car) AND area(car) >= 0.1 AND area(car) < 0.2"
    found = ImageConditions(data, data, sizes=(0.1, 0.2)).of_task("car", target=True)
    bins = [one for one in found if one.name == "car"]
    assert sum(one.holds.astype(int) for one in bins).tolist() == [1] * len(data)
    for one in bins:
        marks = Attribute(one.phi).fit(data).phi(data, "car")
        assert marks.tolist() == one.holds.tolist()
    for sizes in ((0.2, 0.1), (0.1, 0.1), (0.0,), (1.0,)):
        fails(
            lambda sizes=sizes: find_slices(data, answers, sizes=sizes),
            "ascending fractions",
            kind=ParameterError,
        )


def at_places(*, at_edge=0.2, off_center=0.2, seed=0, n=500):
    """Boats, 100 of 500 of them at the edge and another 100 off the center; the share missed."""
    random = np.random.default_rng([4, seed])
    places = random.permutation(np.repeat([0, 1, 2, 2, 2], n // 5))
    side = random.integers(5, 15, n)
    left = np.choose(places, [0, 3, random.integers(30, 45, n)])
    objects = pl.DataFrame({
        "image_id": range(n), "class": "boat", "left": left * 1.0, "top": 40.0,
        "width": side * 1.0, "height": side * 1.0, "area": side * side * 1.0, "crowd": False,
        "ignore": False,
    })  # fmt: skip
    images = pl.DataFrame({"image_id": range(n), "split": "test", "width": 100, "height": 100})
    shares = np.stack([side**2 / 1e4, 0.2 * (random.random(n) < 0.4)], axis=1)
    data = Dataset.build(images, ["boat", "dock"], csr_array(shares), objects=objects)
    wrong = random.random(n) < np.choose(places, [at_edge, off_center, 0.2])
    return data, pl.DataFrame({"image_id": range(n), "task": "boat", "logit": 1.0 - 2 * wrong})


def test_positions_of_objects_are_conditions():
    """At the edge and off the center are two slices, tested among objects of the same size."""
    data, answers = at_places(at_edge=0.5)
    found = find_slices(data, answers)
    row = found.table.row(0, named=True)
    assert row["conditions"] == ["with the largest boat at the edge of the image"]
    assert (row["phi"], row["n"]) == ("present(boat) AND at_edge(boat)", 100)
    assert (row["confirmed"], row["by_size"], row["about"]) == (True, True, ["position of boat"])
    sentence = "Boats with the largest boat at the edge of the image: "
    assert found.sentences(1)[0].startswith(sentence)
    row = find_slices(*at_places(at_edge=0.6, off_center=0.6)).table.row(0, named=True)
    assert row["phi"] == "present(boat) AND off_center(boat)"
    bare = Dataset.build(data.images, data.classes, data.areas)
    fewer = find_slices(bare, answers).settings["tested"]["conditions"]
    assert found.settings["tested"]["conditions"] == fewer + 2
    assert not any("position" in name for row in find_slices(bare, answers).table["about"]
                   for name in row)  # fmt: skip
    # a box that is not known leaves the position unknown, not false
    some = data.objects.with_columns(crowd=pl.col("image_id") % 9 == 0)
    holes = Dataset.build(data.images, data.classes, data.areas, objects=some)
    found = [c for c in conditions_on(holes.select(rows=np.arange(250)), holes).of_task(
        "boat", target=True) if c.name == "position of boat"]  # fmt: skip
    assert [c.phi for c in found][:2] == [
        "at_edge(boat) IS NOT NULL AND at_edge(boat)",
        "at_edge(boat) IS NOT NULL AND NOT at_edge(boat)",
    ]
    for one in found:
        marks = Attribute(one.phi).fit(holes).phi(holes, "boat")
        assert marks[:250].tolist() == one.holds.tolist()
        assert not one.holds[::9].any()


def test_noise_at_places_is_rarely_confirmed():
    found = [find_slices(*at_places(seed=seed)) for seed in range(40)]
    assert sum(slices.table["confirmed"].any() for slices in found) <= 3


def test_settings_without_effect_are_refused(data):
    answers = planted_predictions(data)
    unknown = Dataset.build(data.images, data.classes, csr_array(data.areas * np.nan))
    for given, settings, words in (
        (data, {"images": "folder"}, "`images` has no effect without `image_properties`"),
        (unknown, {"sizes": (0.1,)}, "`sizes` has no effect"),
    ):
        call = lambda given=given, settings=settings: find_slices(given, answers, **settings)  # noqa: E731
        fails(call, words, kind=ParameterError)


def test_words_of_captions_are_conditions():
    data, answers, has = with_captions(planted=True)
    found = find_slices(data, answers)
    row = found.table.row(0, named=True)
    assert (row["conditions"], row["confirmed"]) == (["with 'trailer' in the caption"], True)
    assert row["phi"] == "present(boat) AND word(trailer)"
    assert found.sentences(1)[0].startswith("Boats with 'trailer' in the caption: ")
    assert Attribute(row["phi"]).fit(data).phi(data, "boat").tolist() == has.tolist()
    assert [*found.settings["tested"]] == [f.name for f in slice_families(words=True)]
    words = conditions_on(data, stop_words={"the"})._of_words
    texts = [set(text.lower().replace(".", "").split()) for text in data.captions["caption"]]
    counted = {word: sum(word in text for text in texts) for word in set.union(*texts)}
    frequent = {w for w, k in counted.items() if k >= 20 and len(w) > 1 and w != "the"}
    assert {one.name for one in words} == frequent >= {"boat", "boats", "word0", "on"}
    assert all(one.holds.tolist() == [one.name in text for text in texts] for one in words)
    others = conditions_on(data, stop_words=()).of_task("boat", target=False, own_words={"boat"})
    assert {"dock", "boats"} <= {one.name for one in others}
    assert "boat" not in {one.name for one in others}
    about = {name for row in found.table["about"] for name in row}
    assert not about & {"boat", "boats", "the", "on", "a"}


@pytest.mark.parametrize(
    ("texts", "word"),
    [(("一艘船停在岸边。", "湖上的船"), "拖车"), (("ボートがある", "海のボート"), "トレーラー"),
     (("हिन्दी नाव", "निव"), "ट्रेलर"), (("İki tekne", "IKI"), "römork"), (("קָרָוָן", "סירה"), "גרור"),
     (("a boat 🚤\n", ""), "trailer")],
)  # fmt: skip
def test_words_of_other_scripts(texts, word):
    """Chinese and Japanese by pairs of characters; a vowel is part of its word."""
    data, answers, has = with_captions(planted=True)
    said = [f"{texts[i % 2]} {word}" if it else texts[i % 2] for i, it in enumerate(has)]
    captions = pl.DataFrame({"image_id": data.image_ids, "caption": said})
    data = Dataset.build(data.images, data.classes, data.areas, captions)
    row = find_slices(data, answers).table.row(0, named=True)
    assert (row["confirmed"], row["n"], row["errors"] > 30) == (True, 100, True)
    assert row["about"][0] in word
    for one in conditions_on(data, stop_words=())._of_words:
        assert Attribute(one.phi).fit(data).phi(data, "boat").tolist() == one.holds.tolist()
    marks = Attribute(f"word({identifier(word)})").fit(data).phi(data, "boat")
    assert marks.tolist() == has.tolist()


def test_two_words_share_their_caption():
    pairs = {
        ("with 'a' in the caption", "with 'b' in the caption"): "with 'a' and 'b' in the caption",
        ("with a road", "with 'b' in the caption"): "with a road and 'b' in the caption",
        ("with 'b' in the caption",): "with 'b' in the caption",
        ("with 'b' in the caption", "without a road"): "with 'b' in the caption and without a road",
    }
    assert {conditions: condition_words(conditions) for conditions in pairs} == pairs


def test_noise_in_words_is_rarely_confirmed():
    found = [find_slices(*with_captions(planted=False, seed=seed)[:2]) for seed in range(40)]
    assert sum(slices.settings["tested"]["words"] for slices in found) > 400
    assert sum(slices.table["confirmed"].any() for slices in found) <= 3


def test_captions_of_files_and_columns_are_those_of_the_dataset(tmp_path, monkeypatch):
    """Also of images that have none, where phi guards the word."""
    data, answers, _ = with_captions(planted=True)
    first = pl.col("image_id") < 450
    some = Dataset.build(data.images, data.classes, data.areas, data.captions.filter(first))
    expected = find_slices(some, answers).table
    assert expected["phi"][0] == ("present(boat) AND word(trailer) IS NOT NULL AND word(trailer)")
    plain = Dataset.build(data.images, data.classes, data.areas)
    assert "words" not in find_slices(plain, answers).settings["tested"]
    some.captions.write_csv(tmp_path / "said.csv")
    coco = {"annotations": [{"id": 7 + i, **row} for i, row in enumerate(some.captions.to_dicts())]}
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    for name in ("said.csv", "coco.json"):
        assert find_slices(plain, answers, captions=[tmp_path / name]).table.equals(expected)
    column = plain.images.join(some.captions.rename({"caption": "note"}), on="image_id", how="left")
    noted = Dataset.build(column.sort("image_id"), data.classes, data.areas)
    assert find_slices(noted, answers, captions=["note"]).table.equals(expected)
    monkeypatch.chdir(tmp_path)
    number = noted.images.with_columns(number=1)
    numbered = Dataset.build(number, data.classes, data.areas)
    Path("note").touch()
    for name, text in (("number", "nor a column of text"), ("note", "is a column of the dataset")):
        with pytest.raises(ParameterError, match=text):
            find_slices(numbered, answers, captions=[name])
