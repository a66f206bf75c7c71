"""The context criterion: regressions as scikit-learn's, what is no context, unknown labels."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings, strategies as st
from oracles import naive_regression
from refusals import fails, refused
from same_datasets import found_in_parts
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from nooch import Predictions, audit, check
from nooch.base.errors import FormatError, InputError, ParameterError, UndefinedError
from nooch.criteria import CE, Combination, Context, FittedContext, context_fit, row_regressions
from nooch.criteria.presences import Presences, fold_numbers, image_hashes
from nooch.data import Dataset, save_dataset
from nooch.evaluation import context_run
from nooch.suites import load_suite, save_suite
from nooch.suites.find import find


def dataset(present, classes=None, split="train", **rest):
    """A dataset without areas: presence (n_images, n_classes)."""
    present = np.asarray(present, dtype=float)
    areas = csr_array(np.where(present > 0, np.nan, 0.0))
    columns = rest.pop("columns", {})
    splits = [split] * len(present) if isinstance(split, str) else split
    images = pl.DataFrame({"image_id": range(len(present)), "split": splits, **columns})
    classes = classes or [f"c{k}" for k in range(present.shape[1])]
    return Dataset.build(images, classes, areas, **rest)


def drawn(n=400, k=6, seed=0):
    """Labels that depend on each other, none in an all-or-nothing way."""
    random = np.random.default_rng(seed)
    scene = random.normal(size=(n, 2)) @ random.normal(size=(2, k))
    return random.random((n, k)) < 1 / (1 + np.exp(0.5 - scene))


def expected(train, images, column):
    """Log odds by scikit-learn, from all other columns."""
    others = [k for k in range(train.shape[1]) if k != column]
    model = LogisticRegression(C=1, tol=1e-10, max_iter=10_000, solver="newton-cholesky")
    return model.fit(train[:, others], train[:, column]).decision_function(images[:, others])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 8))
def test_support_is_the_log_odds_of_scikit_learn(seed, k):
    train, images = drawn(300, k, seed), drawn(50, k, seed + 1)
    fitted = Context().fit(dataset(train))
    for column, task in enumerate(fitted.regressions):
        one = fitted.regressions[task]
        if one.problem or one.left_out:
            continue
        assert one.rate == pytest.approx(train[:, column].mean())
        found = fitted.support(dataset(images), task)
        assert found == pytest.approx(expected(train, images, column), abs=1e-4)


@settings(deadline=None)
@given(st.data())
def test_weights_are_those_of_each_image_alone_in_all_folds_and_for_any_other_tasks(data):
    k, folds = data.draw(st.integers(2, 7)), data.draw(st.sampled_from([0, 2, 5]))
    rare = st.sampled_from([0.01, 0.2, 0.5])
    usual = data.draw(st.lists(rare, min_size=k, max_size=k))
    random = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    kinds = random.random((data.draw(st.integers(2, 40)), k)) < usual
    # few kinds of rows, some of them very often; a copy of a column, and its opposite
    often = np.sort(random.integers(0, len(kinds), (data.draw(st.integers(20, 3000)), 3)))[:, 0]
    present = kinds[often]
    present = np.concatenate([present, present[:, :1], ~present[:, :1]], axis=1)
    assume((present.sum(axis=1) > 1).mean() > 0.05)
    unknown = (random.random(present.shape) < data.draw(st.sampled_from([0, 0.02]))) & ~present
    images = dataset(present, unknown=unknown)
    criterion = Context(folds=folds, include=images.classes)
    with pytest.MonkeyPatch.context() as patch:
        # conjugate gradients, and several chunks, blocks and threads
        patch.setattr(row_regressions, "_WIDE", data.draw(st.sampled_from([0, math.inf])))
        patch.setattr(row_regressions, "_CHUNK", data.draw(st.sampled_from([3, 4096])))
        fitted = criterion.fit(images).regressions
        patch.setattr(context_fit, "_MOST_TASKS", 1)
        for task, one in criterion.fit(images, images.classes[-2:]).regressions.items():
            assert one == fitted[task]
    fold = image_hashes(images.images["image_id"]) % max(1, folds)
    for column, one in enumerate(fitted.values()):
        if one.problem:
            continue
        context = [images.classes.index(name) for name in one.context]
        left = ~unknown[:, [column, *context]].any(axis=1)
        assert one.images == left.sum()
        for part, weights in enumerate(one.weights):
            rows = left & ((fold != part - 1) | (part == 0))
            x, y = present[rows][:, context], present[rows, column]
            assert (weights is None) == (y.all() or not y.any())
            if weights is not None:
                assert weights == pytest.approx(naive_regression(x, y), abs=1e-10)


def test_thresholds_are_the_base_rate_and_its_lift():
    train = drawn()
    fitted, rate = Context(lift=2).fit(dataset(train)), train[:, 0].mean()
    limits = fitted.thresholds_for("c0")
    assert limits.positive == pytest.approx(math.log(rate / (1 - rate)))
    assert limits.negative == pytest.approx(limits.positive + math.log(2))
    assert Context(tau=0.5).fit(dataset(train)).thresholds_for("c0").negative == 0.5
    assert Context(lift=None).fit(dataset(train)).thresholds is None


def test_images_that_are_fitted_and_searched_have_support_from_the_others():
    present = drawn(300)
    data = dataset(present, split="all")
    suite = find(data, {"context": Context()}, tasks=["c1"])
    found = suite.set("context", "c1", "all").support
    folds = fold_numbers(data.images["image_id"], 5)
    assert len(np.unique(folds)) == 5
    for fold in range(5):
        own = folds == fold
        wanted = expected(present[~own], present[own], 1)
        assert found[own] == pytest.approx(wanted, abs=1e-4)
    # another dataset's images were not fitted, whatever their split
    other = dataset(present, split="test")
    fitted = suite.header.criteria["context"].restored()
    assert fitted.support(other, "c1") == pytest.approx(expected(present, present, 1), abs=1e-4)


@pytest.mark.parametrize("kind", [pl.Int64, pl.String])
def test_folds_are_even_and_depend_on_ids_alone(kind):
    ids = pl.Series(range(5000)).cast(kind)
    counts = np.bincount(fold_numbers(ids, 5))
    assert np.abs(counts - 1000).max() < 150
    some = ids.gather([17, 4000, 3])
    assert image_hashes(some).tolist() == image_hashes(ids)[[17, 4000, 3]].tolist()


def test_permuted_labels_have_no_context():
    random, present = np.random.default_rng(2), drawn(4000, 8)
    present = np.stack([random.permutation(column) for column in present.T], axis=1)
    support = Context(folds=5).fit(data := dataset(present)).support(data, "c0")
    y = present[:, 0]
    above = (support[y][:, None] > support[~y]) + 0.5 * (support[y][:, None] == support[~y])
    assert above.mean() == pytest.approx(0.5, abs=0.03)


def test_parts_give_the_same_bytes_also_with_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr("nooch.criteria.context.MOST_IMAGES", 150)
    random = np.random.default_rng(0)
    splits = random.choice(["train", "valid", "test"], 400, p=[0.7, 0.1, 0.2]).tolist()
    unknown = random.random((400, 6)) < 0.02
    hours = pl.Series(random.choice(["7", "12", None], 400), dtype=pl.String)
    data = dataset(drawn(), split=splits, unknown=unknown, columns={"hour": hours})
    criteria = {"labels": Context(), "columns": Context(columns=["all"])}
    criteria["both"] = Combination("labels & ~columns")
    found_in_parts(tmp_path, data, criteria, 5)
    fitted = find(data, criteria).header.criteria["labels"].restored()
    one = fitted.regressions["c0"]
    assert one.images + one.unannotated == 150


def naive_unknown(data, name):
    missing = data.unknown_labels(name)
    return np.zeros(len(data), bool) if missing is None else missing


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_what_is_unknown_is_counted_as_by_asking_each_class(seed):
    random = np.random.default_rng(seed)
    present = drawn(40, 4, seed)
    unknown = random.random(present.shape) < 0.1
    verified = (random.random(present.shape) < 0.1) & ~unknown
    columns = {"annotated_things": random.random(40) < 0.7}
    kinds = {"c0": "thing", "c1": "thing", "c2": "stuff"}
    data = dataset(present, columns=columns, kinds=kinds, unknown=unknown, verified=verified)
    table = Presences.from_dataset(data)
    wanted = np.stack([naive_unknown(data, name) for name in data.classes], axis=1)
    assert table.unknown_images().tolist() == wanted.sum(axis=0).tolist()
    chosen = np.flatnonzero(random.random(4) < 0.6)
    assert table.unknowns(chosen).tolist() == wanted[:, chosen].sum(axis=1).tolist()
    kept = table.rows(np.arange(3, 30)).with_names(["c2", "c0"])
    assert kept.unknowns(np.array([1])).tolist() == wanted[3:30, 0].tolist()
    assert (kept.matrix.toarray() > 0).tolist() == present[3:30][:, [2, 0]].tolist()


def test_images_of_unknown_context_are_left_out_and_classes_that_are_mostly_unknown():
    random, present = np.random.default_rng(5), drawn()
    unknown = np.zeros(present.shape, bool)
    unknown[:10, 2] = ~present[:10, 2]
    unknown[:, 5] = (random.random(len(present)) < 0.9) & ~present[:, 5]
    present[:, 5] = False
    unknown[:, 5] |= random.random(len(present)) < 0.6
    fitted = Context().fit(data := dataset(present, unknown=unknown))
    assert fitted.unknown == ["c5"]
    one, gone = fitted.regressions["c0"], int(unknown[:, 2].sum())
    assert one.context == ["c1", "c2", "c3", "c4"]
    assert (one.images, one.unannotated) == (len(present) - gone, gone)
    assert np.isnan(fitted.support(data, "c0")).sum() == gone
    # a task's own unknown label is none of its context
    assert not np.isnan(fitted.support(data, "c2")).any()
    row = data.select(rows=np.flatnonzero(unknown[:, 2])[:1])
    assert "not annotated" in fitted.explain(row, "c0")


def test_what_implies_a_class_or_its_absence_is_no_context_and_can_be_put_back():
    present = drawn(500, 3)
    car, twice, absent = present[:, 0], present[:, 0].copy(), ~present[:, 0]
    child = car & (np.arange(500) % 2 == 0)
    parent = car | (np.random.default_rng(1).random(500) < 0.05)
    never, always = np.zeros(500, bool), np.ones(500, bool)
    columns = [car, present[:, 1], twice, absent, child, parent, never, always]
    names = ["car", "road", "auto", "no_car", "taxi", "vehicle", "kite", "picture"]
    data = dataset(np.stack(columns, axis=1), names)
    one = Context().fit(data, ["car"]).regressions["car"]
    reasons = {"auto": "implies car", "no_car": "implies that car is absent", "taxi": "implies car"}
    assert one.left_out == reasons
    assert one.context == ["road", "vehicle"]
    one = Context(exclude=["vehicle"], include={"car": ["taxi"]}).fit(data, ["car"])
    assert one.regressions["car"].context == ["road", "taxi"]
    assert one.regressions["car"].left_out["vehicle"] == "excluded"
    for given_names in ("exclude", "include"):
        refused(lambda n=given_names: Context(**{n: ["vehicel"]}).fit(data, ["car"]), "vehicel")


def test_a_class_in_nearly_all_images_of_the_task_stays_and_is_named():
    random = np.random.default_rng(3)
    cow = random.random(600) < 0.2
    grass = (cow & (random.random(600) < 0.98)) | (random.random(600) < 0.2)
    other = random.random(600) < 0.5
    data = dataset(np.stack([cow, grass, other], axis=1), ["cow", "grass", "other"])
    one = Context().fit(data, ["cow"]).regressions["cow"]
    assert (one.parents, one.context) == (["grass"], ["grass", "other"])


@pytest.mark.parametrize(
    ("n_cows", "with_grass", "n_grass", "parents"),
    [(20, 19, 100, ["grass"]), (20, 18, 100, []), (19, 19, 100, []), (20, 19, 119, ["grass"]),
     (20, 19, 120, [])],
)  # fmt: skip
def test_a_parent_is_in_95_percent_of_20_images_and_in_less_than_half_of_all(
    n_cows, with_grass, n_grass, parents
):
    cow, grass = np.arange(240) < n_cows, np.zeros(240, bool)
    grass[:with_grass] = grass[n_cows : n_cows + n_grass - with_grass] = True
    data = dataset(np.stack([cow, grass, np.arange(240) % 2 == 0], axis=1), ["cow", "grass", "o"])
    assert Context().fit(data, ["cow"]).regressions["cow"].parents == parents


def test_labels_that_exclude_each_other_are_refused():
    one_each = np.eye(4)[np.arange(100) % 4]
    fails(lambda: Context().fit(dataset(one_each)), "exclude each other", "annotate")
    fails(lambda: Context().fit(dataset(np.ones((5, 1)))), "only class", "columns")
    fails(lambda: find(dataset(one_each, split="all"), "context"), "exclude each other")


def test_a_class_without_context_or_in_all_or_no_images_has_no_set():
    present = drawn()
    present[:, 0], present[:, 1] = True, False
    fitted = Context().fit(data := dataset(present))
    assert fitted.undefined("c0") == "all training images have the class"
    assert fitted.undefined("c1") == "no training images have the class"
    with pytest.raises(UndefinedError):
        fitted.support(data, "c0")
    pair = np.stack([np.arange(60) % 2 == 0, np.arange(60) % 2 == 0], axis=1)
    pair = np.concatenate([pair, pair])
    fitted = Context().fit(dataset(pair))
    assert "implies c0" in fitted.undefined("c0")


def test_attribute_columns_are_context_where_labels_are_not():
    random = np.random.default_rng(0)
    y = random.random(800) < 0.3
    hospital = np.where(random.random(800) < 0.8, np.where(y, "A", "B"), "C")
    column = pl.Series([None, *hospital[1:]], dtype=pl.String)
    data = dataset(np.stack([y, ~y], axis=1), ["ill", "well"], columns={"hospital": column})
    fitted = Context(columns=["all"]).fit(data, ["ill"])
    support = fitted.support(data, "ill")
    assert np.isnan(support[0])
    assert not np.isnan(support[1:]).any()
    by_hospital = {name: support[1:][hospital[1:] == name].mean() for name in "ABC"}
    assert by_hospital["A"] > by_hospital["C"] > by_hospital["B"]
    row = np.flatnonzero(hospital == "A")[1:2]
    assert ": with hospital = A (+" in fitted.explain(data.select(rows=row), "ill")
    row = np.flatnonzero(hospital == "B")[1:2]
    assert "without hospital = A (-" in fitted.explain(data.select(rows=row), "ill")
    refused(lambda: Context(columns=["all"]).fit(dataset(drawn())), "no attribute column")


def test_the_columns_of_a_fit_are_read_of_any_images(tmp_path):
    """In few images, or a part of them, a column's values would be taken for ids."""
    random = np.random.default_rng(0)
    place = random.integers(0, 30, 900)
    y = random.random(900) < np.where(place < 10, 0.8, 0.2)
    columns = {"place": [f"p{k:02}" for k in place], "hour": random.integers(0, 3, 900)}
    splits = np.where(np.arange(900) % 10, "train", "test")
    data = dataset(np.stack([y, ~y], axis=1), ["ill", "well"], splits, columns=columns)
    test = data.select("test")
    assert data.context_columns == ("place", "hour")
    assert test.context_columns == ("hour",)
    fitted = Context(columns=["all"]).fit(data.select("train"), ["ill"])
    assert (fitted.support(test, "ill") == fitted.support(data, "ill")[splits == "test"]).all()
    few = test.images.drop("place")
    refused(lambda: fitted.support(replace(test, images=few), "ill"), "'place' is not a column")
    whole = find(data, Context(columns=["all"]), splits=["test"])
    assert whole.header.criteria["context"].parameters["columns"] == ("place", "hour")
    named = find(data, Context(columns=["hour"]), splits=["test"])
    restored = named.header.criteria["context"].restored()
    assert restored.criterion.columns == ("hour",)
    assert restored.regressions["ill"].context == ["hour=", "hour=0", "hour=1", "hour=2"]
    refused(lambda: find(data, Context(columns=["hours"])), "did you mean hour")
    found_in_parts(tmp_path, data, {"columns": Context(columns=["all"])}, 9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([pl.Int64, pl.Float32, pl.Float64]))
def test_support_of_columns_is_that_of_scikit_learn_on_their_conditions(seed, kind):
    random, n = np.random.default_rng(seed), 400
    age = random.integers(20, random.integers(45, 95), n)
    site, hour = random.choice(["A", "B", "C"], n), random.integers(0, 3, n)
    y = random.random(n) < 1 / (1 + np.exp(3 - age / 20 - (site == "A")))
    missing = random.random(n) < 0.05
    splits = np.where(random.random(n) < 0.7, "train", "test")
    split, fitted = pl.Series(splits), (splits == "train") & ~missing
    ages = pl.Series(age, dtype=kind).set(pl.Series(missing), None)
    columns = {"age": ages, "site": site, "hour": hour}
    data = dataset(np.stack([y, ~y], axis=1), ["ill", "well"], split, columns=columns)
    low, high = np.quantile(age[fitted], [0.25, 0.75])
    x = np.stack([age <= low, age >= high, *(site == s for s in "ABC"),
                  *(hour == h for h in range(3))], axis=1)  # fmt: skip
    model = LogisticRegression(C=1, tol=1e-10, max_iter=10_000, solver="newton-cholesky")
    wanted = np.where(missing, np.nan, model.fit(x[fitted], y[fitted]).decision_function(x))
    suite = find(data, Context(columns=["all"]), tasks=["ill"], splits=["test"])
    found = suite.header.criteria["context"].restored()
    # read from few images and from all: the quartiles of the fit, not of what is read
    for rows in (np.arange(n), np.flatnonzero(splits == "test")[:9]):
        support = found.support(data.select(rows=rows).with_context(()), "ill")
        test = splits[rows] == "test"
        assert support[test] == pytest.approx(wanted[rows][test], abs=1e-4, nan_ok=True)


def test_an_older_suite_of_columns_is_read():
    """With the field ``source``, and a context of each of many whole numbers."""
    age = np.arange(300) % 30
    y = np.random.default_rng(0).random(300) < age / 30
    columns = {"age": age, "site": [("A", "B")[k % 2] for k in range(300)]}
    data = dataset(np.stack([y, ~y], axis=1), ["ill", "well"], columns=columns)
    names = [f"age={k}" for k in range(30)]
    weights = [[-1.0, *np.linspace(-2, 2, 30).tolist(), 0.0]]
    one = {"rate": 0.5, "images": 300, "context": [*names, "age="], "weights": weights,
           "means": [1 / 31] * 31}  # fmt: skip
    old = {"lift": 3.0, "tau": None, "source": "columns", "unknown": [],
           "regressions": {"ill": one}}  # fmt: skip
    fitted = FittedContext.from_json(old)
    assert fitted.criterion.columns == ("all",)
    assert fitted.support(data, "ill") == pytest.approx(np.linspace(-3, 1, 30)[age])
    assert "with age = 29 (+" in fitted.explain(data.select(rows=np.array([29])), "ill")
    named = FittedContext.from_json({**old, "columns": ["age"]})
    assert (named.support(data, "ill") == fitted.support(data, "ill")).all()
    again = FittedContext.from_json(json.loads(json.dumps(named.to_json())))
    assert "source" not in again.to_json()
    assert (again.support(data, "ill") == fitted.support(data, "ill")).all()
    labels = {**old, "source": "labels"}
    refused(lambda: FittedContext.from_json(labels).support(data, "ill"), "not a class")


def test_conditions_on_numbers_are_worded():
    age = np.arange(200) % 40 + 20
    y = age > 45
    data = dataset(np.stack([y, ~y], axis=1), ["ill", "well"], columns={"age": age})
    fitted = Context(columns=["age"]).fit(data, ["ill"])
    assert fitted.regressions["ill"].context == ["age<=29.75", "age=", "age>=49.25"]
    texts = {
        at: fitted.explain(data.select(rows=np.flatnonzero(age == at)[:1]), "ill")
        for at in (22, 40, 59)
    }
    assert "with age at most 29.75 (-" in texts[22]
    assert "with age less than 49.25 (-" in texts[22]
    assert "with age more than 29.75 (+" in texts[40] + texts[59]
    assert "with age at least 49.25 (+" in texts[59]


def test_columns_alone_are_a_baseline_and_evidence_of_an_audit(tmp_path):
    """Of labels that exclude each other too, whose context are columns."""
    random, n = np.random.default_rng(0), 600
    y, splits = random.random(n) < 0.4, np.where(np.arange(n) % 2, "train", "test")
    columns = {"site": np.where(random.random(n) < 0.2 + 0.6 * y, "A", "B"),
               "age": random.integers(20, 90, n)}  # fmt: skip
    data = dataset(np.stack([y, ~y], axis=1), ["ill", "well"], splits, columns=columns)
    logits = np.where(y, 1.0, -1.0)[:, None] + random.normal(size=(n, 1))
    run = Predictions.from_arrays(logits, data.images["image_id"], ["ill"], scale="logit")
    checked = check(data, run, tmp_path / "out", bootstrap=0, slices=False, min_hard=5)
    test = data.select("test")
    fitted = checked.suite.header.criteria["context"].restored()
    assert fitted.criterion.columns == ("site", "age")
    support, ill = fitted.support(test, "ill"), test.labels("ill")
    scores = checked.scores.table.filter(run="baseline: context only", metric="auc", subset="all")
    assert scores["value"].item() == pytest.approx(roc_auc_score(ill, support))
    only = context_run(data.with_context(["site"]), ["ill"], ["test"])
    own = Context(columns=["site"]).fit(data.select("train"), ["ill"]).support(test, "ill")
    assert only.values[0] == pytest.approx(own, abs=1e-6)
    assert "context" in audit(checked.suite, run, data=data).table.columns


def test_names_of_conditions_are_of_one_column_each():
    y, n = np.arange(90) % 3 == 0, 90
    two = [("x", "y")[k % 2] for k in range(n)]
    both = {"a": [f"b={value}" for value in two], "a=b": two}
    data = dataset(np.stack([y, ~y], axis=1), ["ill", "well"], columns=both)
    fails(lambda: Context(columns=["all"]).fit(data), "a=b=x", "rename")
    named = dataset(np.stack([y, ~y], axis=1), ["ill", "a=x"], columns={"a": two})
    fails(lambda: Context(columns=["a"]).fit(named), "a=x", "rename")
    blank = dataset(np.stack([y, ~y], axis=1), ["ill", "well"],
                    columns={"a": pl.Series(["", "x", None] * 30)})  # fmt: skip
    fitted = Context(columns=["a"]).fit(blank, ["ill"])
    assert np.isnan(fitted.support(blank, "ill")).tolist() == [False, False, True] * 30
    parts = [dataset(np.stack([y, ~y], axis=1), ["ill", "well"], columns={"a": values})
             for values in (two, np.arange(n) % 30)]  # fmt: skip
    one = Context(columns=["a"])
    fails(lambda: one.merge([one.partial(part) for part in parts]), "completed(data)")


def test_all_is_every_column_unless_one_is_called_so(tmp_path, run_cli):
    y, n = np.arange(300) % 3 == 0, 300
    columns = {"all": [("x", "y")[k % 2] for k in range(n)],
               "site": [("A", "B", "C")[k % 7 % 3] for k in range(n)]}  # fmt: skip
    data = dataset(np.stack([y, ~y], axis=1), ["ill", "well"], "all", columns=columns)
    save_dataset(data, tmp_path / "data")
    find_ = f"find {tmp_path / 'data'} --criterion context --tasks ill --out {tmp_path}"
    text = run_cli(f"{find_}/asked --context all").refused("all is a column", "all,site", "all,all")
    assert "--context" in text
    for number, (given_, chosen) in enumerate({
        "all,site": ["all", "site"], "all,all": ["all"], "site": ["site"]
    }.items()):  # fmt: skip
        run_cli(f"{find_}/{number} --context {given_}").ok()
        suite = load_suite(tmp_path / str(number))
        assert suite.header.criteria["context"].parameters["columns"] == chosen
        assert suite.source_dataset().context_columns == tuple(chosen)
        row = suite.set("context", "ill", "all").image_ids[0]
        run_cli(f"explain {tmp_path / str(number)} --image {row} --task ill").ok()
    only = replace(data, images=data.images.drop("site"))
    assert only.with_context(["all"]).context == ("all",)
    one = replace(data, images=data.images.with_columns(all=pl.lit("x")))
    assert one.with_context(["all"]).context == ("site",)


@pytest.mark.parametrize("source", ["labels", "columns"])
def test_what_never_comes_with_a_rare_class_is_no_cue_of_it(source):
    random = np.random.default_rng(0)
    presence = random.random((400, 4)) < 0.3
    presence[:, 0] = np.arange(400) < 2
    presence[:2] = [[1, 1, 0, 0]] * 2
    presence[3:, 3] = False
    place = pl.Series(np.where(np.arange(400) < 2, "sea", random.choice(["land", "sky"], 400)))
    data = dataset(presence, columns={"place": place})
    cues = Context(columns=["all"] if source == "columns" else []).fit(data, ["c0"]).cues("c0")
    assert cues == (("c1",) if source == "labels" else ("place=sea",))


def test_contributions_add_up_and_are_worded():
    train = drawn()
    fitted = Context().fit(data := dataset(train))
    one = fitted.regressions["c0"]
    average = one.weights[0][0] + np.dot(one.weights[0][1:], one.means)
    for row in range(5):
        image = data.select(rows=np.array([row]))
        parts = fitted.contributions(image, "c0")
        total = average + sum(value for *_, value in parts)
        assert total == pytest.approx(fitted.support(image, "c0")[0])
        present = {f"c{k}" for k in range(1, 6) if train[row, k]}
        assert {name for name, there, _ in parts if there} == present
    support = fitted.support(data, "c0")
    text = fitted.explain(data.select(rows=np.array([support.argmax()])), "c0")
    assert text.startswith("c0 is expected: P = .")
    assert "times the base rate: c" in text
    text = fitted.explain(data.select(rows=np.array([support.argmin()])), "c0")
    assert text.startswith("c0 is not expected: P = .")


def test_json_gives_it_back():
    data = dataset(drawn(), split="all")
    for criterion in (Context(folds=2, exclude={"c1": ["c2"]}), Context(tau={"c0": (0, 1)})):
        fitted = criterion.fit(data, ["c0"])
        again = FittedContext.from_json(json.loads(json.dumps(fitted.to_json())))
        assert again.to_json() == fitted.to_json()
        assert (again.support(data, "c0") == fitted.support(data, "c0")).all()
    content = Context(folds=2).fit(data, ["c0"]).to_json()
    for key, value in (("lift", -1), ("source", "sea"), ("tau", {}), ("folds", 3)):
        with pytest.raises(FormatError):
            FittedContext.from_json({**content, key: value})


def test_counts_of_another_suite_can_be_matched(tmp_path):
    random = np.random.default_rng(0)
    splits = random.choice(["train", "test"], 400).tolist()
    data = dataset(drawn(), split=splits)
    first = find(data, {"context": Context(lift=2)}, tasks=["c0", "c1"])
    save_suite(first, tmp_path / "first")
    for place in (tmp_path / "first", f"{tmp_path / 'first'}:context"):
        criteria = {"other": Context(lift=None, exclude=["c5"])}
        suite = find(data, criteria, tasks=["c0", "c2"], match=f"from:{place}")
        a, b = first.record("context", "c0", "test"), suite.record("other", "c0", "test")
        assert (a.hard_positives, a.hard_negatives) == (b.hard_positives, b.hard_negatives)
        assert [one.task for one in suite.header.skipped] == ["c2"]
    with pytest.raises(ParameterError, match="ce"):
        find(data, {"x": Context(lift=None)}, match=f"from:{tmp_path / 'first'}:ce")


def test_ce_and_context_are_combined():
    random = np.random.default_rng(0)
    present = drawn()
    areas = csr_array(present * random.random(present.shape) / 3)
    images = pl.DataFrame({"image_id": range(400), "split": random.choice(["train", "test"], 400)})
    data = Dataset.build(images, [f"c{k}" for k in range(6)], areas)
    suite = find(data, {"ce": CE(0.01), "context": Context(), "both": Combination("ce & context")})
    for task in suite.tasks:
        if ("both", task, "test") in suite.keys:
            parts = [suite.set(name, task, "test") for name in ("ce", "context", "both")]
            hard = [set(one.ids("hard_negative")) for one in parts]
            assert hard[2] == hard[0] & hard[1]


@pytest.mark.parametrize("bad", [{"lift": 0}, {"lift": math.inf}, {"tau": 1e9}])
def test_parameters_are_checked(bad):
    with pytest.raises(ParameterError):
        Context(**bad)


def test_more_classes_than_an_exact_solver_takes(monkeypatch):
    random = np.random.default_rng(0)
    present = csr_array(random.random((60, 2500)) < 0.01)
    areas = csr_array(present.astype(float))
    images = pl.DataFrame({"image_id": range(60), "split": ["train"] * 60})
    data = Dataset.build(images, [f"c{k}" for k in range(2500)], areas)
    tasks = [name for name in data.classes if data.labels(name).sum() > 2][:2]
    assert np.isfinite(Context().fit(data, tasks).supports(data, tasks)).all()


def test_an_unknown_split_is_an_error():
    with pytest.raises(InputError):
        find(dataset(drawn(), split="valid"), "context")
