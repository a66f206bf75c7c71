"""The paired bootstrap of methods with several seeds, against loops over resamples."""

import numpy as np
import polars as pl
import pytest
from refusals import fails
from scipy.stats import norm, t
from scored import TASKS, logits, small_suite, wide
from sklearn.metrics import roc_auc_score

from nooch.base.errors import InputError, ParameterError
from nooch.evaluation import Predictions, evaluate
from nooch.evaluation.bootstrap import FEWEST, BootstrapDraws
from nooch.evaluation.differences import paired

RESAMPLES = 40


def predictions(frame, name, seed=0, tasks=TASKS):
    own = frame.filter(pl.col("task").is_in(list(tasks)))
    table = wide(own)
    values, about = table.select(tasks).to_numpy(), {"method": name, "seed": seed}
    run = f"{name}/{seed}"
    return Predictions.from_arrays(
        values, table["image_id"], list(tasks), scale="logit", run=run, **about
    )


@pytest.fixture(scope="module")
def world():
    suite = small_suite()
    methods = {
        name: [predictions(logits(suite, seed=10 * number + seed), name, seed) for seed in range(3)]
        for number, name in enumerate(("erm", "gdro", "irm"))
    }
    return suite, methods


@pytest.fixture(scope="module")
def scores(world):
    suite, methods = world
    return paired(suite, "ce", methods, baselines=list(methods), bootstrap=RESAMPLES, seed=3)


def losses(y, z):
    return np.logaddexp(0, z) - y * z


METRICS = {
    ("auc", "hard"): lambda y, z, w, _: (
        roc_auc_score(y, z, sample_weight=w) if len(set(y[w > 0])) == 2 else np.nan
    ),
    ("nll", "hard_positive"): lambda y, z, w, _: (
        np.average(losses(y, z), weights=w) if w.sum() else np.nan
    ),
    ("error", "worst_hard"): lambda y, z, w, sides: max(
        np.average((z > 0) != y, weights=w * side) if (w * side).sum() else np.nan for side in sides
    ),
}


@pytest.mark.parametrize("what", METRICS)
def test_intervals_are_those_of_loops(world, scores, what):
    suite, methods = world
    metric, subset = what
    ids = suite.set("ce", "car", "test").image_ids
    draws = BootstrapDraws(len(ids), RESAMPLES, 3)
    counts = np.concatenate([w.T for _, w in draws.weights(slice(None))])
    replicates: dict[str, list[np.ndarray]] = {name: [] for name in methods}
    for task in TASKS:
        challenge = suite.set("ce", task, "test")
        member = {
            "hard": challenge.subset != 2,
            "hard_positive": (challenge.subset != 2) & challenge.labels,
            "worst_hard": challenge.subset != 2,
        }[subset]
        y = challenge.labels[member].astype(float)
        sides = [y == 1, y == 0]
        for name, runs in methods.items():
            per_seed = []
            for run in runs:
                by_image = dict(zip(run.image_ids, run.values[run.tasks.index(task)], strict=True))
                z = np.array([by_image[i] for i in challenge.image_ids])[member]
                weights = [np.ones(len(y)), *(c[member] for c in counts)]
                with np.errstate(invalid="ignore"):
                    per_seed.append([METRICS[what](y, z, w, sides) for w in weights])
            replicates[name].append(np.mean(per_seed, axis=0))
    of_subset = scores.differences.filter(metric=metric, subset=subset)
    for task_number, task in enumerate(TASKS):
        for method, baseline in (("gdro", "erm"), ("irm", "gdro")):
            gap = replicates[method][task_number] - replicates[baseline][task_number]
            (row,) = of_subset.filter(run=method, baseline=baseline, task=task).to_dicts()
            assert row["difference"] == pytest.approx(gap[0], abs=1e-12)
            defined = gap[1:][~np.isnan(gap[1:])]
            if 2 * len(defined) >= RESAMPLES:
                sides_of = row["n_positive"], row["n"] - row["n_positive"]
                n = min(sides_of) if metric == "auc" else row["n"]
                bounds = [None, None]
                if n >= FEWEST:
                    tail = norm.cdf(np.sqrt(n / (n - 1)) * t.ppf(0.025, n - 1))
                    bounds = pytest.approx(np.quantile(defined, [tail, 1 - tail]), abs=1e-12)
                assert [row["low"], row["high"]] == bounds
    gaps = [g - e for g, e in zip(replicates["gdro"], replicates["erm"], strict=True)]
    average = np.nanmean(gaps, axis=0)
    (row,) = of_subset.filter(run="gdro", baseline="erm", task="average").to_dicts()
    assert row["difference"] == pytest.approx(average[0], abs=1e-12)


def test_each_pair_is_given_once(scores):
    pairs = set(scores.differences.select("run", "baseline").unique().rows())
    assert pairs == {("gdro", "erm"), ("irm", "erm"), ("irm", "gdro")}
    keys = ["run", "task", "subset", "metric"]
    assert not scores.table.select(keys).is_duplicated().any()
    assert not scores.differences.select("baseline", *keys).is_duplicated().any()
    assert set(scores.table["run"]) == {"erm", "gdro", "irm"}
    assert set(scores.table.filter(subset="worst_hard")["metric"]) == {"error", "nll"}


def test_one_seed_is_what_evaluate_gives(world):
    suite, methods = world
    first = {name: runs[:1] for name, runs in methods.items()}
    options = {"bootstrap": RESAMPLES, "seed": 3}
    differences = paired(suite, "ce", first, baselines=["erm"], **options).differences
    known = evaluate(suite, [runs[0] for runs in first.values()], criteria=["ce"], **options)
    plain = known.differences.filter(pl.col("cue").is_null())
    plain = plain.with_columns(pl.col("run").str.strip_suffix("/0"))
    joined = plain.join(differences, on=["run", "task", "subset", "metric"], validate="1:1")
    assert joined.height == plain.height
    for column in ("difference", "low", "high"):
        pair = joined.select(column, f"{column}_right").fill_null(-9.0).to_numpy()
        np.testing.assert_allclose(pair[:, 0], pair[:, 1], atol=1e-12)


def test_a_method_is_equal_to_itself(world):
    suite, methods = world
    same = {"one": methods["erm"], "other": methods["erm"][::-1]}
    found = paired(suite, "ce", same, baselines=["one"], bootstrap=RESAMPLES).differences
    for column in ("difference", "low", "high"):
        assert found[column].drop_nulls().abs().max() < 1e-12


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"baselines": ["vrex"]}, "'vrex' is not a method"),
        ({"bootstrap": 0}, "`bootstrap`: is 0"),
        ({"metrics": ["f2"]}, "'f2' is not a value of `metrics`"),
        ({"methods": ["erm"]}, "one method"),
        ({"draws": 3}, "'draws' is not a keyword of paired"),
    ],
)
def test_what_is_refused(world, options, words):
    suite, methods = world
    methods = {name: methods[name] for name in options.get("methods", methods)}
    asked = {"baselines": ["erm"], **options}
    asked.pop("methods", None)
    fails(lambda: paired(suite, "ce", methods, **asked), words, kind=ParameterError)


def test_seeds_of_different_tasks_are_refused(world):
    suite, methods = world
    other = [*methods["gdro"][:1], predictions(logits(suite), "gdro", 1, tasks=("car",))]
    mixed, words = {"erm": methods["erm"], "gdro": other}, ("method gdro", "different tasks")
    fails(lambda: paired(suite, "ce", mixed, baselines=["erm"]), *words, kind=InputError)
