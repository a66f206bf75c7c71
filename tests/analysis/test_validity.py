"""Validity of challenge sets: against loops, on planted models, and its refusals."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from planted import planted_data
from refusals import fails
from scipy.stats import norm

from nooch.analysis.validity import LEAST_MODELS, Validity, validity
from nooch.criteria import CE, Context
from nooch.data import save_dataset
from nooch.evaluation import Predictions
from nooch.suites import save_suite
from nooch.suites.find import find


@pytest.fixture(scope="module")
def world():
    """A suite of two criteria, and models whose errors on hard images grow."""
    data = planted_data()
    suite = find(data, {"ce": CE(), "context": Context(lift=1)}, tasks=["car"], splits=["test"])
    hard = suite.set("ce", "car", "test").subset < 2
    test, random = data.select("test"), np.random.default_rng(0)
    runs, car = [], test.labels("car")
    for number in range(LEAST_MODELS):
        wrong = random.random(len(test)) < np.where(hard, 0.1 + 0.12 * number, 0.08)
        outputs = np.where(car ^ wrong, 1.0, -1.0)
        runs.append(
            Predictions.from_arrays(outputs, test.image_ids, "car", scale="logit", run=f"m{number}")
        )
    return data, suite, runs


def test_numbers_are_those_of_loops(world):
    data, suite, runs = world
    table = validity(suite, runs, data=data).table
    challenge = suite.set("ce", "car", "test")
    wrong = {run.run: (run.values[0] > 0) != challenge.labels for run in runs}
    hard = challenge.subset < 2
    for side in ("positive", "negative"):
        of_side = challenge.labels == (side == "positive")
        for name, own in wrong.items():
            (row,) = table.filter(criterion="ce", quality="failure", side=side, of=name).to_dicts()
            assert row["n"] == (hard & of_side).sum()
            if side == "negative":
                rates = own[hard & of_side].mean() - own[~hard & of_side].mean()
                assert row["value"] == pytest.approx(rates)
            assert row["low"] < row["value"] < row["high"]
    for a, b in combinations(wrong, 2):
        (row,) = table.filter(criterion="ce", quality="discrimination", of=f"{a} - {b}").to_dicts()
        sides = [hard & (challenge.labels == there) for there in (True, False)]
        apart = [wrong[a][side].astype(float) - wrong[b][side] for side in sides]
        value = np.mean([one.mean() for one in apart])
        # one task, each image once: the sides are independent
        error = np.sqrt(sum(one.var() / len(one) for one in apart)) / 2
        assert row["value"] == pytest.approx(value)
        assert row["high"] - row["low"] == pytest.approx(2 * 1.959964 * error, rel=1e-6)


def test_planted_models_fail_are_told_apart_and_ordered_alike(world):
    data, suite, runs = world
    found = validity(suite, runs, data=data)
    apart = found.table.filter(criterion="ce", quality="discrimination")
    assert (apart["low"] > 0).sum() + (apart["high"] < 0).sum() >= 13
    row = found.table.filter(criterion="ce", quality="convergence").row(0, named=True)
    assert (row["of"], row["n"]) == ("context", LEAST_MODELS)
    assert row["value"] > 0.8
    assert row["low"] <= row["value"] <= row["high"]
    sentences = found.sentences()
    assert sentences[0].startswith(f"ce: 4 of {LEAST_MODELS} models miss more hard positives (+")
    few = validity(suite, runs[:3], data=data)
    assert "too few models" in few.sentences()[-1]
    assert few.table.filter(quality="convergence")["low"].null_count() == 2


def test_models_that_answer_alike_are_not_told_apart(world):
    data, suite, runs = world
    values, ids = runs[0].values[0], runs[0].image_ids
    twin = Predictions.from_arrays(values, ids, "car", scale="logit", run="twin")
    table = validity(suite, [runs[0], twin], data=data).table
    row = table.filter(criterion="ce", quality="discrimination").row(0, named=True)
    assert (row["value"], row["low"], row["high"]) == (0, None, None)


def test_images_that_one_model_lacks_count_as_wrong(world):
    data, suite, runs = world
    values, ids = runs[1].values[0, :300], runs[1].image_ids[:300]
    part = Predictions.from_arrays(values, ids, "car", scale="logit", run="part")
    table = validity(suite, [runs[0], part], data=data).table
    challenge = suite.set("ce", "car", "test")
    hard, labels = challenge.subset < 2, challenge.labels
    lacks = ~challenge.image_ids.is_in(part.image_ids.to_list()).to_numpy()
    first = (runs[0].values[0] > 0) != labels
    least = most = (runs[1].values[0] > 0) != labels
    least, most = least & ~lacks, most | lacks
    row = table.filter(criterion="ce", quality="discrimination").row(0, named=True)
    assert row["n"] == hard.sum()
    sides = [hard & (labels == there) for there in (True, False)]
    ends = [np.mean([(first[side] - 1.0 * other[side]).mean() for side in sides])
            for other in (most, least)]  # fmt: skip
    assert row["value"] == pytest.approx(ends[0])
    assert row["low"] < ends[0] < ends[1] < row["high"]
    # by what is missing alone the models could be told apart, but not by what is there
    assert ends[0] < -0.2
    assert row["p"] > 0.05
    (row,) = table.filter(
        criterion="ce", quality="failure", side="negative", of="part"
    ).to_dicts()  # fmt: skip
    of_side = ~labels
    effects = [h[hard & of_side].mean() - e[~hard & of_side].mean()
               for h, e in ((least, most), (most, least), (most, most))]  # fmt: skip
    assert row["low"] < effects[0] < effects[1] < row["high"]
    assert row["value"] == pytest.approx(effects[2])
    tenths = table.filter(pl.col("quality").str.starts_with("tenth"), of="part")
    assert set(tenths.group_by("criterion").agg(pl.col("n").sum())["n"]) == {len(labels)}


def test_pairs_of_models_are_told_apart_with_correction(world):
    """Of models that differ by chance alone; the p-values are Holm's, of each criterion's pairs."""
    data, suite, _ = world
    test = data.select("test")
    random, many = np.random.default_rng(3), []
    for number in range(8):
        outputs = np.where(test.labels("car") ^ (random.random(len(test)) < 0.3), 1.0, -1.0)
        many.append(
            Predictions.from_arrays(outputs, test.image_ids, "car", scale="logit", run=f"r{number}")
        )
    found = validity(suite, many, data=data)
    rows = found.table.filter(criterion="ce", quality="discrimination")
    z = 1.959964 * (rows["low"] + rows["high"]).abs() / (rows["high"] - rows["low"])
    ordered = sorted(2 * norm.sf(z.to_numpy()))
    expected = np.maximum.accumulate([min(1, p * (28 - k)) for k, p in enumerate(ordered)])
    assert sorted(rows["p"]) == pytest.approx(list(expected), rel=1e-4)
    by_intervals = rows.filter((pl.col("low") > 0) | (pl.col("high") < 0)).height
    apart = rows.filter(pl.col("p") <= 0.05).height
    assert apart <= by_intervals
    assert f"ce: tells {apart} of 28 pairs of models apart" in " ".join(found.sentences())


def test_refusals(world):
    data, suite, runs = world
    fails(lambda: validity(suite, runs[:1], data=data), "at least two models")
    halves = [
        Predictions.from_arrays(
            runs[0].values[0, part], runs[0].image_ids[part], "car", scale="logit", run=name
        )
        for name, part in (("first", slice(300)), ("last", slice(300, None)))
    ]
    fails(lambda: validity(suite, halves, data=data), "no image has predictions", helps=False)


def test_the_command_writes_sentences_and_numbers(world, run_cli, tmp_path):
    data, _, runs = world
    save_dataset(data, tmp_path / "data")
    save_suite(find(tmp_path / "data", CE(), tasks=["car"], splits=["test"]), tmp_path / "suite")
    for run in runs[:2]:
        frame = pl.DataFrame({"image_id": run.image_ids, "task": "car", "logit": run.values[0]})
        frame.write_csv(tmp_path / f"{run.run}.csv")
    files = f"{tmp_path / 'm0.csv'} {tmp_path / 'm1.csv'}"
    done = run_cli(f"validity {tmp_path / 'suite'} {files} --out {tmp_path / 'v.csv'}").ok()
    assert "ce: tells " in done.out
    assert pl.read_csv(tmp_path / "v.csv").height == 5 + 2 * 2 * 10
    assert run_cli(f"validity {tmp_path / 'suite'} {files} --format json").json["sentences"]


def test_errors_by_tenths_of_support_are_those_of_a_loop(world):
    data, suite, runs = world
    result = validity(suite, runs, data=data)
    one = suite.set("context", "car", "test")
    for side, own in (("positive", one.labels), ("negative", ~one.labels)):
        rows = result.table.filter(criterion="context", side=side, of="m5")
        rows = rows.filter(pl.col("quality").str.starts_with("tenth"))
        assert rows["quality"].to_list() == [f"tenth {k}" for k in range(1, 11)]
        support, wrong = one.support[own], ((runs[5].values[0] > 0) != one.labels)[own]
        assert rows["n"].sum() == own.sum()
        assert (rows["n"] * rows["value"].fill_null(0)).sum() == pytest.approx(wrong.sum())
        below = np.array([(support < s).mean() + (support == s).mean() / 2 for s in support])
        for tenth, n in enumerate(rows["n"]):
            assert n == ((below >= tenth / 10 - 1e-9) & (below < (tenth + 1) / 10 - 1e-9)).sum()
    texts = [text for text in result.sentences() if text.startswith("context: claims rise")]
    assert len(texts) == len(runs)
    assert all("monotone" in text or "of" in text for text in texts)


@pytest.mark.parametrize(
    ("side", "rates", "words"),
    [
        ("positive", [0.9, 0.5, 0.5], "misses fall with support, 90.0% to 50.0% (m, tenths of"),
        ("positive", [0.5, 0.4, 0.9], "misses rise with support, 50.0% to 90.0% (m, tenths of"),
        ("negative", [0.2, 0.4, 0.1], "claims fall with support, 20.0% to 10.0% (m, tenths of"),
        ("negative", [0.2, 0.4, 0.2], "claims stay with support, 20.0% to 20.0% (m, tenths of"),
    ],
)
def test_a_curve_is_said_to_go_where_it_goes(side, rates, words):
    table = pl.DataFrame(
        {
            "criterion": "context",
            "quality": [f"tenth {k}" for k in (1, 2, 3)],
            "side": side,
            "of": "m",
            "value": rates,
            **{name: [0.0] * 3 for name in ("low", "high")},
            "n": 9,
        }
    )
    (text,) = Validity(table).sentences()
    assert text.startswith(f"context: {words}")
    known = "monotone" if rates[0] == 0.9 else f"{'fall' if side == 'positive' else 'rise'} in 1 of"
    assert known in text
