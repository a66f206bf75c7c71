"""Scores of whole suites against loops over subsets, tasks and resamples."""

import sys
import tracemalloc
from dataclasses import replace
from functools import cache

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from oracles import dataset_of, naive_ce_subset, naive_metric
from refusals import fails
from scipy.stats import binomtest, chi2, norm, t

from nooch.base.errors import ParameterError
from nooch.criteria import CE, Gist
from nooch.evaluation import (
    AVERAGE,
    CELLS,
    Distribution,
    Predictions,
    bootstrap,
    evaluate,
    parse_distribution,
    scores as evaluation_scores,
)
from nooch.evaluation.metrics import ALL_METRICS, METRICS, auc
from nooch.evaluation.metrics.proportions import wilson
from nooch.suites.find import find

ANY = {"ignore_unknown": True}
EVALUATE = sys.modules[evaluate.__module__]
CLASSES = ["Y", "Z", "A", "B"]
CUES = {"Y": ["A", "B"], "Z": ["A"]}
AREAS = st.sampled_from([0.0, 0.05, 0.1, 0.2])
LOGITS = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0]) | st.floats(-4, 4)


@st.composite
def worlds(draw, n_runs=1):
    """Images with classes Y, Z (tasks) and A, B (cues), a suite of CE, and random predictions."""
    n = draw(st.integers(1, 16))
    images = [draw(st.dictionaries(st.sampled_from(CLASSES), AREAS)) for _ in range(n)]
    # without any label there is no CE
    assume(any(images))
    data = dataset_of(images, CLASSES, ["test"] * n)
    suite = find(data, {"ce": CE(beta=0.1, cues=CUES)}, tasks=["Y", "Z"])
    values = [
        np.array(draw(st.lists(LOGITS, min_size=2 * n, max_size=2 * n))).reshape(n, 2)
        for _ in range(n_runs)
    ]
    ids = data.images["image_id"]
    runs = [
        Predictions.from_arrays(v, ids, ["Y", "Z"], scale="logit", run=f"run {i}")
        for i, v in enumerate(values)
    ]
    return images, suite, values, runs


def value_or_none(*args, **options):
    """A metric, None where it is undefined."""
    value = naive_metric(*args, **options)
    return None if np.isnan(value) else value


SUBSETS = {
    "all": lambda names, _: names != "",
    "hard": lambda names, _: names != "easy",
    "easy": lambda names, _: names == "easy",
    "hard_positive": lambda names, _: names == "hard_positive",
    "hard_negative": lambda names, _: names == "hard_negative",
    "easy_positive": lambda names, labels: (names == "easy") & labels,
    "easy_negative": lambda names, labels: (names == "easy") & ~labels,
}


def inside(subset, names, labels):
    """Rows of a subset, from each image's subset in the suite and its label."""
    return SUBSETS[subset](np.array(names), labels)


@given(worlds())
@settings(max_examples=20)
def test_every_value_equals_the_metric_of_its_subset(world):
    images, suite, (values,), runs = world
    table = evaluate(suite, runs, metrics=ALL_METRICS).table
    seen = set()
    for row in table.filter(pl.col("task") != AVERAGE).iter_rows(named=True):
        task = row["task"]
        cues = CUES[task] if row["cue"] is None else [row["cue"]]
        labels = np.array([task in image for image in images])
        names = [naive_ce_subset(image, cues, task, 0.1) for image in images]
        rows = inside(row["subset"], names, labels)
        z = values[rows, ["Y", "Z"].index(task)]
        expected = value_or_none(row["metric"], labels[rows], z, images=len(images))
        assert row["value"] == (None if expected is None else pytest.approx(expected, abs=1e-12))
        assert (row["n"], row["n_positive"]) == (rows.sum(), labels[rows].sum())
        # a null says why, a value needs no excuse
        assert (row["reason"] is None) == (row["value"] is not None)
        reasons = {None, "no image", "no positive", "no negative"}
        if row["metric"] == "precision":
            reasons.add("no positive answer")
        assert row["reason"] in reasons
        one_label = row["n_positive"] in {0, row["n"]}
        assert one_label or (row["reason"] == "no positive answer") == (expected is None)
        if row["metric"] in {"error", "accuracy", "recall", "fpr"} and row["n"]:
            # a share of images has Wilson's interval
            assert (row["interval"] == "wilson") == (row["value"] is not None)
        assert (row["n"] == 0) == (row["reason"] == "no image")
        seen.add((task, row["subset"], row["cue"], row["metric"]))
    subsets = list(SUBSETS)
    # only the task of several cues has scores by cue
    expected = {(t, s, None, m) for t in ("Y", "Z") for s in subsets for m in ALL_METRICS}
    expected |= {("Y", s, cue, m) for s in subsets[1:] for cue in ("A", "B") for m in ALL_METRICS}
    assert seen == expected


@given(worlds(n_runs=2))
@settings(max_examples=15)
def test_averages_and_differences_follow_from_the_rows(world):
    _, suite, _, runs = world
    scores = evaluate(suite, runs, averages=["uniform"])
    alone = evaluate(suite, runs, averages=["uniform"], differences=False)
    assert alone.table.equals(scores.table)
    assert (alone.differences.height, alone.differences.schema) == (0, scores.differences.schema)
    keys = ["task", "split", "subset", "cue", "metric", "n", "n_positive"]
    one, other = (scores.table.filter(run=f"run {i}").select(*keys, "value").rows() for i in (0, 1))
    difference = scores.differences.select(*keys, "difference", "run", "baseline").rows()
    # of the average there is a difference too: the order alone differs
    difference.sort(key=lambda row: [r[:7] for r in one].index(row[:7]))
    assert [d[:7] for d in difference] == [a[:7] for a in one] == [b[:7] for b in other]
    for a, b, d in zip(one, other, difference, strict=True):
        assert d[7] == (None if a[7] is None else pytest.approx(b[7] - a[7], abs=1e-12))
        assert d[8:] == ("run 1", "run 0")
    plain = scores.table.filter(pl.col("cue").is_null() & (pl.col("task") != AVERAGE), run="run 0")
    sizes = {(r["task"], r["subset"]): r["n"] for r in plain.iter_rows(named=True)}
    # averages next to each other are over the same tasks: those with images of every kind that any
    # task has images of
    needed = [cell for cell in CELLS if any(sizes[task, cell] for task in ("Y", "Z"))]
    over = [task for task in ("Y", "Z") if all(sizes[task, cell] for cell in needed)] or ["Y", "Z"]
    assert len([note for note in scores.notes if "left out" in note]) == (len(over) == 1)
    for row in scores.table.filter(task=AVERAGE, run="run 0").iter_rows(named=True):
        assert row["cue"] is None
        tasks = plain.filter(pl.col("task").is_in(over), subset=row["subset"], metric=row["metric"])
        defined = tasks.drop_nulls("value")
        mean = pytest.approx(defined["value"].mean(), abs=1e-12) if len(defined) else None
        assert row["value"] == mean
        assert (row["n"], row["n_positive"]) == (tasks["n"].sum(), tasks["n_positive"].sum())
        assert row["n_tasks"] == len(defined)
        assert row["averaged_tasks"] == (", ".join(defined["task"]) or None)
        if not len(defined):
            assert row["reason"] == "undefined for every task"
        elif len(defined) < len(over):
            assert row["reason"] == "the mean of 1 of 2 tasks; undefined for the others"
        else:
            assert row["reason"] is None


@given(worlds(n_runs=2), st.integers(0, 3))
@settings(max_examples=5)
def test_intervals_are_percentiles_over_the_same_resamples(world, seed):
    images, suite, values, runs = world
    k, n = 15, len(images)
    options = {"bootstrap": k, "seed": seed, "averages": ["uniform"], "metrics": ALL_METRICS}
    with pytest.MonkeyPatch.context() as patch:
        for module in (bootstrap, evaluation_scores):
            patch.setattr(module, "FEWEST", FEWEST)
        scores = evaluate(suite, runs, **options)
    random = np.random.default_rng(seed)
    draws = [random.integers(0, n, n) for _ in range(k)]
    replicates = {}
    for task in ("Y", "Z"):
        labels = np.array([task in image for image in images])
        names = [naive_ce_subset(image, CUES[task], task, 0.1) for image in images]
        for subset in SUBSETS:
            rows = inside(subset, names, labels)
            for metric in ALL_METRICS:
                for run in (0, 1):
                    z = values[run][:, ["Y", "Z"].index(task)]
                    replicates[task, subset, metric, run] = [
                        value_or_none(metric, labels[d][rows[d]], z[d][rows[d]], images=n)
                        for d in draws
                    ]
    plain = (
        pl.col("cue").is_null()
        & (pl.col("task") != AVERAGE)
        & ~pl.col("subset").str.contains("avg")
    )
    for row in scores.table.filter(plain).iter_rows(named=True):
        key = row["task"], row["subset"], row["metric"]
        check_interval(row, row["value"], replicates[*key, int(row["run"][-1])], k)
    for row in scores.differences.filter(plain).iter_rows(named=True):
        key = row["task"], row["subset"], row["metric"]
        pairs = zip(*(replicates[*key, run] for run in (0, 1)), strict=True)
        gaps = [None if None in pair else pair[1] - pair[0] for pair in pairs]
        check_interval(row, row["difference"], gaps, k)


FEWEST = 3
"""Images below which there is no interval, for these small worlds."""
BOTH = {"auc", "auprc", "balanced_accuracy", "precision", "f1"}


def auc_bounds(value, spread, z, sizes):
    """Wilson's score interval, solved for shares of as many images as have the AUC's variance."""
    more = sum((value - 0.5) ** 2 / (m + 1) ** 2 for m in sizes)
    smooth = np.mean([(m * value + 0.5) / (m + 1) for m in sizes])
    if not spread**2 + more:
        return 0, 0
    n = smooth * (1 - smooth) / (spread**2 + more) * (norm.ppf(0.975) / z) ** 2
    return tuple(float(bound) for bound in wilson(np.array(value), np.array(n)))


def check_interval(row, value, replicates, k):
    """Wilson's, Tango's and Jeffreys' where there are counts; else percentiles, further out by
    Student's quantile and by n / (n - 1); of AUC and NLL the spread of the replicates.
    """
    defined = [r for r in replicates if r is not None]
    n, positive = row["n"], row["n_positive"]
    trials = {**dict.fromkeys(("error", "accuracy", "yes_rate"), n), "recall": positive}
    trials["fpr"] = n - positive
    difference = "baseline" in row
    if value is not None and row["metric"] in {*trials, "dprime", "response_criterion"}:
        kind = "tango" if difference else "wilson"
        assert row["interval"] == (kind if row["metric"] in trials else "jeffreys")
        assert row["low"] <= value <= row["high"]
        assert row["low"] < row["high"]
        assert not difference or (row["p"] is None) == (row["metric"] not in trials)
        if row["interval"] == "wilson":
            of = trials[row["metric"]]
            bounds = proportion_confint(round(value * of), of)
            assert (row["low"], row["high"]) == tuple(map(pytest.approx, bounds))
        return
    deciding = min(positive, n - positive) if row["metric"] in BOTH else n
    low = high = 0
    if 2 * len(defined) >= k and deciding >= FEWEST:
        tail = norm.cdf(np.sqrt(deciding / (deciding - 1)) * t.ppf(0.025, deciding - 1))
        low, high = np.percentile(defined, [100 * tail, 100 - 100 * tail])
        if value is not None and not difference:
            spread, z = np.std(defined), t.ppf(0.975, deciding - 1)
            if row["metric"] == "nll" and np.isfinite(spread):
                reach = z * spread * np.sqrt(n / (n - 1)) / value
                low, high = value * np.exp([-reach, reach])
            if row["metric"] == "auc":
                low, high = auc_bounds(value, spread, z, (positive, n - positive))
    alike = 2 * len(defined) < k or (not difference and high - low <= 1e-12)
    if value is None or alike or deciding < FEWEST:
        assert (row["low"], row["high"], row["interval"]) == (None, None, None)
        assert row["reason"]
        assert value is None or (deciding < FEWEST) == ("fewer than" in row["reason"])
        return
    assert row["interval"] == "bootstrap"
    assert [row["low"], row["high"]] == pytest.approx([low, high], abs=1e-9)
    lacking = "positive answer" if row["metric"] == "precision" else "image"
    part = f"interval from {len(defined)} of {k} resamples; the others have one class or no"
    part += f" {lacking}"
    assert row["reason"] == (None if len(defined) == k else part)


@given(worlds(), st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=4, max_size=4).filter(any))
@settings(max_examples=20)
def test_an_average_gives_each_part_its_share(world, parts):
    images, suite, (values,), runs = world
    shares = {cell: part / sum(parts) for cell, part in zip(CELLS, parts, strict=True)}
    text = "mine:" + ",".join(f"{cell}={share!r}" for cell, share in shares.items())
    table = evaluate(suite, runs, averages=[text]).table
    for task in ("Y", "Z"):
        labels = np.array([task in image for image in images])
        names = [naive_ce_subset(image, CUES[task], task, 0.1) for image in images]
        sides = np.where(labels, "easy_positive", "easy_negative")
        cells = np.where(np.array(names) == "easy", sides, names)
        counts = {cell: int((cells == cell).sum()) for cell in CELLS}
        possible = all(counts[cell] for cell in CELLS if shares[cell])
        weights = np.array([shares[c] / counts[c] for c in cells]) if possible else None
        for metric in METRICS:
            row = table.filter(task=task, subset="avg:mine", metric=metric).row(0, named=True)
            z = values[:, ["Y", "Z"].index(task)]
            expected = value_or_none(metric, labels, z, weights, images=1.0) if possible else None
            assert row["value"] == (None if expected is None else pytest.approx(expected, abs=1e-9))
            assert row["n"] == len(images)
            if metric == "error" and possible:
                # the mean over parts of their error, each with its share
                wrong = (z > 0) != labels
                mean = sum(shares[c] * wrong[cells == c].mean() for c in CELLS if shares[c])
                assert row["value"] == pytest.approx(mean, abs=1e-12)


def proportion_confint(hits, n):
    """Wilson's interval, as scipy gives it, of few events with Poisson's bound."""
    interval = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    few = [chi2.ppf(0.05, 2 * k) / 2 / n if 0 < k <= 3 else 1 for k in (hits, n - hits)]
    return min(interval.low, few[0]), max(interval.high, 1 - few[1])


def row_of(table, metric, subset, task):
    """The only row of a metric, subset and task, of no cue."""
    return table.filter(pl.col("cue").is_null(), metric=metric, subset=subset, task=task).row(
        0, named=True
    )


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_wilsons_interval_is_scipys_but_for_few_events_and_never_of_width_0(n, part):
    hits = round(part * n)
    low, high = wilson(np.array([hits / n]), np.array([n]))
    assert (low[0], high[0]) == pytest.approx(proportion_confint(hits, n), abs=1e-9)
    assert 0 <= low[0] < high[0] <= 1


def test_wilsons_interval_of_all_small_counts():
    """Also where rounding puts 1 - 0.7 of ten images above three."""
    for n in range(1, 41):
        hits = np.arange(n + 1)
        low, high = wilson(hits / n, np.full(n + 1, n))
        expected = np.array([proportion_confint(int(one), n) for one in hits])
        np.testing.assert_allclose(np.column_stack([low, high]), expected, atol=1e-9)


def test_no_error_among_48_images_is_not_certain():
    """0/48 has an upper bound of .074, with a bootstrap and without."""
    images = [{"Y": 0.05}] * 48 + [{"Y": 0.05, "A": 0.2}, {}, {"A": 0.2}]
    data, criteria = dataset_of(images, CLASSES, ["test"] * 51), {"ce": CE(cues={"Y": ["A"]})}
    suite = find(data, criteria, tasks=["Y"])
    ids = suite.set("ce", "Y", "test").image_ids
    right = Predictions.from_arrays(np.full((51, 1), 3.0), ids, ["Y"], scale="logit")
    for resamples in (0, 50):
        table = evaluate(suite, right, bootstrap=resamples).table
        row = row_of(table, "error", "hard_positive", "Y")
        assert (row["value"], row["low"], row["interval"], row["n"]) == (0, 0, "wilson", 48)
        assert row["high"] == pytest.approx(0.0741, abs=5e-5)
        known = table.drop_nulls("low")
        assert known.filter(pl.col("low") >= pl.col("high")).is_empty()
        # what is no proportion has no such interval, and says why where one was asked for
        loss = row_of(table, "nll", "easy_positive", "Y")
        assert (loss["low"], loss["interval"]) == (None, None)
        assert loss["reason"] == ("no interval: fewer than 20 images" if resamples else None)


def test_one_task_without_hard_positives_leaves_the_averages_of_the_others():
    """Averages next to each other are over the same tasks; strict: null with the reason."""
    random = np.random.default_rng(0)
    images = _images(random, 80, [0.05, 0.2], ("Y", "Z", "A"))
    # every B has its cue
    images = [{**image, "B": 0.05} if "A" in image else image for image in images]
    images = [{**image, "A": 0.3} if "B" in image else image for image in images]
    data, tasks = dataset_of(images, CLASSES, ["test"] * 80), ["Y", "Z", "B"]
    suite = find(data, {"ce": CE(cues={task: ["A"] for task in tasks})}, tasks=tasks)
    values, ids = random.normal(size=(80, 3)), data.images["image_id"]
    runs = [Predictions.from_arrays(values, ids, tasks, scale="logit")]
    assert suite.record("ce", "B", "test").hard_positives == 0
    scores = evaluate(suite, runs, bootstrap=20)
    (note,) = [text for text in scores.notes if "left out" in text]
    text = "ce (test): averaged over 2 of 3 tasks (Y, Z); left out: B (no hard positive"
    assert text in note
    averages = scores.table.filter(pl.col("metric").is_in(["auc", "error"]), task=AVERAGE)
    rows = averages.drop_nulls("value")
    assert {"hard", "easy", "all"} <= set(rows["subset"])
    assert rows.select("n_tasks", "averaged_tasks").unique().rows() == [(2, "Y, Z")]
    strict = evaluate(suite, runs, strict=True)
    assert not [text for text in strict.notes if "left out" in text]
    hard, everything = (row_of(strict.table, "auc", s, AVERAGE) for s in ("hard", "all"))
    assert (hard["value"], hard["reason"]) == (None, "only defined for 2 of 3 tasks: Y, Z")
    assert everything["averaged_tasks"] == "Y, Z, B"
    # tasks with few hard images are left out where asked
    counts = {t: suite.record("ce", t, "test") for t in ("Y", "Z")}
    least = {t: min(r.hard_positives, r.hard_negatives) for t, r in counts.items()}
    small, large = sorted(least, key=least.get)
    assert least[small] < least[large]
    enough = evaluate(suite, runs, min_hard=least[large])
    assert set(enough.table.filter(task=AVERAGE)["averaged_tasks"].drop_nulls()) == {large}
    (note,) = [text for text in enough.notes if "left out" in text]
    assert f"{small} (fewer than {least[large]} hard images on a side)" in note
    fails(lambda: evaluate(suite, runs, min_hard=81), "no task has 81 hard images", "min_hard",
          kind=ParameterError)  # fmt: skip
    # two runs are averaged over the tasks that both have
    part = Predictions.from_arrays(values[:, [0, 2]], ids, ["Y", "B"], scale="logit", run="part")
    table = evaluate(suite, [*runs, part]).table
    both = table.filter(task=AVERAGE, metric="error", subset="easy_negative")
    assert both["averaged_tasks"].to_list() == ["Y", "Y"]


def _images(random, n, areas, classes):
    """Images with random classes and areas."""
    return [
        {c: float(random.choice(areas)) for c in classes if random.random() < 0.5} for _ in range(n)
    ]


@cache
def _suite(n=330):
    """A suite of CE and the gist, and its dataset: three cities, embeddings of most images."""
    random = np.random.default_rng(0)
    images = _images(random, n, [0.02, 0.2], CLASSES)
    splits = ["train", "valid", "test"]
    data = dataset_of(images, CLASSES, [splits[i % 3] for i in range(n)])
    vectors = random.normal(size=(n, 4))
    vectors[::7] = np.nan
    data = data.with_embedding("e", vectors)
    cities = pl.Series([["Rome", "Oslo", None][i % 5 % 3] for i in range(n)])
    data = replace(data, images=data.images.with_columns(city=cities))
    criteria = {"ce": CE(beta=0.1, cues=CUES), "gist": Gist("e")}
    return find(data, criteria, match="ce", tasks=["Y", "Z"]), data


def _runs(data, names=("a",)):
    random, ids = np.random.default_rng(1), data.images["image_id"]
    values = [random.normal(size=(len(data), 2)) for _ in names]
    return [
        Predictions.from_arrays(v, ids, ["Y", "Z"], scale="logit", run=n)
        for v, n in zip(values, names, strict=True)
    ]


def test_criteria_without_a_verdict_on_some_images_are_scored_on_the_others():
    suite, data = _suite()
    (run,) = _runs(data)
    table = evaluate(suite, run, reading=ANY, bootstrap=5).table
    gist = suite.set("gist", "Y", "test")
    assert gist.excluded != (0, 0)
    row = table.filter(criterion="gist", task="Y", subset="all", metric="auc").row(0, named=True)
    rows = data.images["image_id"].is_in(gist.image_ids.implode()).to_numpy()
    assert row["n"] == len(gist) < 110
    assert row["value"] == pytest.approx(auc(gist.labels, run.values[0][rows]), abs=1e-12)


def test_the_same_draws_for_every_criterion_and_run():
    suite, data = _suite()
    (a,) = _runs(data)
    scores = evaluate(suite, [a, replace(a, run="b")], reading=ANY, bootstrap=20)
    both = scores.differences.drop_nulls("difference")
    assert both.height
    alike = both.filter(pl.col("interval").is_null() | (pl.col("interval") == "bootstrap"))
    largest = pl.max_horizontal(pl.col("difference", "low", "high").abs())
    assert alike.select(largest.max()).item() == 0
    # no changed image among n is no proof of no change
    shares = both.filter(interval="tango", task="Y").select("n", "low", "high", "p")
    assert (shares["low"] < 0).all()
    assert (shares["high"] == -shares["low"]).all()
    assert set(shares["p"]) == {1.0}


def test_groups_are_the_subsets_of_each_value():
    suite, data = _suite()
    (run,) = _runs(data)
    options = {"by": ["city"], "attributes": data.images, "criteria": ["ce"]}
    scores = evaluate(suite, run, reading=ANY, **options)
    groups = scores.table["group"].unique().to_list()
    assert set(groups) == {None, "city=Oslo", "city=Rome", "city=None"}
    challenge = suite.set("ce", "Y", "test")
    place = data.images.filter(pl.col("split") == "test")
    z = run.values[0][(data.images["split"] == "test").to_numpy()]
    for city in ("Oslo", "Rome", None):
        own, easy = place["city"].eq_missing(city).to_numpy(), challenge.subset == 2
        for subset, rows in {"all": own, "hard": own & ~easy, "easy": own & easy}.items():
            expected = pytest.approx(auc(challenge.labels[rows], z[rows]), abs=1e-12)
            assert scores.value("auc", subset, task="Y", group=f"city={city}") == expected
    row = scores.by_group("auc", "hard", task="Y").row(0, named=True)
    values = {g["group"]: g["value"] for g in row["groups"]}
    assert values == {g: scores.value("auc", "hard", task="Y", group=g) for g in groups if g}
    assert row["overall"] == scores.value("auc", "hard", task="Y")
    assert row["difference"] == max(values.values()) - min(values.values())
    assert row["ratio"] == min(values.values()) / max(values.values())


def test_several_splits_and_criteria_by_name():
    suite, data = _suite()
    (run,) = _runs(data)
    options = {"criteria": ["gist"], "tasks": ["Z"], "metrics": ["nll"], "reading": ANY}
    table = evaluate(suite, run, **options, split=["valid", "test"]).table
    keys = table.select("criterion", "task", "split", "metric").unique().sort("split").rows()
    assert keys == [("gist", "Z", split, "nll") for split in ("test", "valid")]


def test_threads_and_order_of_rows_do_not_matter(monkeypatch):
    suite, data = _suite()
    (run,) = _runs(data)
    mixed = np.random.default_rng(3).permutation(len(data))
    other = Predictions(
        "a", run.image_ids[mixed], ("Z", "Y"), run.values[::-1, mixed].copy(), "logit"
    )
    options = {"reading": ANY, "bootstrap": 150}
    tables = []
    for r, threads in ((run, 1), (run, 3), (other, 2)):
        monkeypatch.setattr(EVALUATE, "usable_cpus", lambda n=threads: n)
        tables.append(evaluate(suite, r, **options).table)
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


def test_shares_of_a_split_and_uniform():
    suite, data = _suite()
    (run,) = _runs(data)
    table = evaluate(suite, run, averages=["valid", "test", "uniform"], reading=ANY).table
    own = table.filter(subset="avg:test", criterion="ce").sort("task", "metric")
    everything = table.filter(pl.col("cue").is_null(), subset="all", criterion="ce")
    everything = everything.sort("task", "metric")
    # a split's own shares give what the split gives
    assert own["value"].to_list() == pytest.approx(everything["value"].to_list(), abs=1e-12)
    record = suite.record("ce", "Y", "valid")
    shares = parse_distribution("valid", suite).cell_shares(suite, suite.set("ce", "Y", "test"))
    n = record.positives + record.negatives
    assert shares[0] == record.hard_positives / n
    assert shares[3] == (record.negatives - record.hard_negatives) / n
    assert shares.sum() == pytest.approx(1)
    assert parse_distribution("uniform", suite).shares == dict.fromkeys(CELLS, 0.25)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bootstrap": -1}, ["-1", "at most 100,000"]),
        ({"metrics": ["acc"]}, ["acc", "auc"]),
        ({"criteria": ["CE"]}, ["CE", "ce"]),
        ({"tasks": ["car"]}, ["car"]),
        ({"split": "train"}, ["train", "test"]),
        ({"baseline": "b"}, ["b", "a"]),
        ({"averages": ["equal"]}, ["equal", "uniform"]),
        ({"averages": ["m:hard=1"]}, ["hard"]),
        ({"averages": ["m:hard_positive=0.5"]}, ["0.5"]),
        ({"averages": ["m:x"]}, ["cell"]),
        ({"averages": ["m:hard_positive=2,hard_negative=-1"]}, ["not a share"]),
        ({"averages": ["m:hard_positive=1e"]}, ["not a share"]),
        ({"averages": ["m:hard_positive=0,hard_positive=1"]}, ["not a share"]),
        ({"averages": ["uniform", "uniform"]}, ["two averages have one name"]),
        ({"by": ["city"]}, ["attributes"]),
        ({"by": ["town"], "attributes": True}, ["town", "city"]),
        ({"by": ["n"], "attributes": True}, ["values"]),
        (
            {"bootstraps": 3},
            ["'bootstraps' is not a keyword of evaluate", "did you mean bootstrap?"],
        ),
    ],
)
def test_what_is_asked_wrongly_is_refused(options, words):
    suite, data = _suite()
    (run,) = _runs(data)
    if "attributes" in options:
        options = {**options, "attributes": data.images.with_columns(n=pl.int_range(pl.len()))}
    fails(lambda: evaluate(suite, run, reading=ANY, **options), *words, kind=ParameterError)


def test_no_predictions_are_refused():
    suite, _ = _suite()
    fails(lambda: evaluate(suite, []), "no predictions", kind=ParameterError)


def test_one_value_at_a_time():
    suite, data = _suite()
    scores = evaluate(suite, _runs(data, ("a", "b")), reading=ANY)
    assert scores.value("auc", "hard", run="a", task="Y", criterion="ce") is not None
    assert scores.value("auc", "hard_positive", run="a", task="Y", criterion="ce") is None
    fails(lambda: scores.value("auc", "hard", task="Y"), "run", "criterion", kind=ParameterError)
    fails(lambda: scores.value("accuracy", "hard"), "accuracy", kind=ParameterError)
    fails(lambda: scores.by_group("auc"), "no groups", kind=ParameterError)
    named = Distribution("mine", dict.fromkeys(CELLS, 0.25))
    table = evaluate(suite, _runs(data), reading=ANY, averages=[named]).table
    assert "avg:mine" in table["subset"].to_list()


def test_runs_of_different_tasks_are_compared_where_both_have_one():
    suite, data = _suite()
    a, b = _runs(data, ("a", "b"))
    part = Predictions("b", b.image_ids, ("Z",), b.values[1:], "logit")
    scores = evaluate(suite, [a, part], reading=ANY, criteria=["ce"])
    assert scores.differences["task"].unique().to_list() == ["Z"]
    assert any("run b has no predictions for Y" in note for note in scores.notes)
    # an average needs at least two tasks
    assert scores.table.filter(task=AVERAGE)["run"].unique().to_list() == ["a"]


def test_tasks_that_the_suite_does_not_have_are_left_out():
    data = dataset_of([{"Y": 0.1}, {"A": 0.5}, {"Z": 0.1, "A": 0.5}, {}], CLASSES, ["test"] * 4)
    suite = find(data, {"ce": CE(beta=0.1, cues=CUES)}, tasks=["Y", "Z"])
    values, ids = np.arange(12.0).reshape(4, 3), data.images["image_id"]
    more = Predictions.from_arrays(values, ids, ["Y", "Z", "unicorn"], scale="logit", run="a")
    assert evaluate(suite, more).notes[0].endswith("does not have are left out: unicorn")
    plain = evaluate(
        suite, Predictions.from_arrays(values[:, :2], ids, ["Y", "Z"], scale="logit", run="a")
    )
    assert evaluate(suite, more, reading=ANY).table.equals(plain.table)


def test_memory_does_not_grow_with_the_replicates_of_all_tasks(monkeypatch):
    monkeypatch.setattr(EVALUATE, "usable_cpus", lambda: 1)
    tasks = [f"t{number}" for number in range(16)]
    random = np.random.default_rng(0)
    images = [{name: 0.2 for name in [*tasks, "A"] if random.random() < 0.5} for _ in range(40)]
    data = dataset_of(images, [*tasks, "A"], ["test"] * 40)
    suite = find(data, {"ce": CE(beta=0.1, cues={task: ["A"] for task in tasks})}, tasks=tasks)
    run = Predictions.from_arrays(
        random.normal(size=(40, 16)), data.images["image_id"], tasks, scale="logit"
    )

    def peak(n):
        tracemalloc.start()
        evaluate(suite, run, tasks=tasks[:n], bootstrap=2000)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(2)
    assert peak(16) < 2 * peak(4)
