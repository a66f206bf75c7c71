"""The paired bootstrap of methods with several seeds, against loops over resamples."""

import numpy as np
import polars as pl
import pytest
from refusals import fails
from scored import TASKS, logits, small_suite
from sklearn.metrics import roc_auc_score

from nooch.errors import InputError, ParameterError
from nooch.evaluation import Predictions, evaluate
from nooch.evaluation.bootstrap import BootstrapDraws
from nooch.evaluation.method_differences import paired

RESAMPLES = 40


def predictions(frame, name, seed=0, tasks=TASKS):
    wide = frame.filter(pl.col("task").is_in(list(tasks))).pivot(
        on="task", index="image_id", values="logit"
    )
    return Predictions.of(
        wide.select(tasks).to_numpy(),
        wide["image_id"],
        list(tasks),
        scale="logit",
        run=f"{name}/{seed}",
        method=name,
        seed=seed,
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
                own = pl.DataFrame(
                    {"image_id": run.image_ids, "z": run.values[run.tasks.index(task)]}
                )
                z = pl.DataFrame({"image_id": challenge.image_ids}).join(
                    own, on="image_id", maintain_order="left"
                )["z"]
                z = z.to_numpy()[member]
                weights = [np.ones(len(y)), *(c[member] for c in counts)]
                with np.errstate(invalid="ignore"):
                    per_seed.append([METRICS[what](y, z, w, sides) for w in weights])
            replicates[name].append(np.mean(per_seed, axis=0))
    for task_number, task in enumerate(TASKS):
        for method, baseline in (("gdro", "erm"), ("irm", "gdro")):
            gap = replicates[method][task_number] - replicates[baseline][task_number]
            (row,) = scores.differences.filter(
                run=method, baseline=baseline, task=task, metric=metric, subset=subset
            ).to_dicts()
            assert row["difference"] == pytest.approx(gap[0], abs=1e-12)
            defined = gap[1:][~np.isnan(gap[1:])]
            if 2 * len(defined) >= RESAMPLES:
                assert [row["low"], row["high"]] == pytest.approx(
                    np.percentile(defined, [2.5, 97.5]), abs=1e-12
                )
    average = np.nanmean(
        [g - e for g, e in zip(replicates["gdro"], replicates["erm"], strict=True)], axis=0
    )
    (row,) = scores.differences.filter(
        run="gdro", baseline="erm", task="average", metric=metric, subset=subset
    ).to_dicts()
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
    found = paired(suite, "ce", first, baselines=["erm"], bootstrap=RESAMPLES, seed=3)
    known = evaluate(
        suite, [runs[0] for runs in first.values()], criteria=["ce"], bootstrap=RESAMPLES, seed=3
    )
    plain = known.differences.filter(pl.col("cue").is_null()).with_columns(
        pl.col("run").str.strip_suffix("/0")
    )
    keys = ["run", "task", "subset", "metric"]
    joined = plain.join(found.differences, on=keys, validate="1:1")
    assert joined.height == plain.height
    for column in ("difference", "low", "high"):
        left, right = (
            joined[name].fill_null(-9.0).to_numpy() for name in (column, f"{column}_right")
        )
        np.testing.assert_allclose(left, right, atol=1e-12)


def test_a_method_is_equal_to_itself(world):
    suite, methods = world
    same = {"one": methods["erm"], "other": methods["erm"][::-1]}
    found = paired(suite, "ce", same, baselines=["one"], bootstrap=RESAMPLES).differences
    for column in ("difference", "low", "high"):
        assert found[column].drop_nulls().abs().max() < 1e-12


def test_what_is_refused(world):
    suite, methods = world
    fails(
        lambda: paired(suite, "ce", methods, baselines=["vrex"]),
        "'vrex' is no method",
        kind=ParameterError,
    )
    fails(
        lambda: paired(suite, "ce", methods, baselines=["erm"], bootstrap=0),
        "0 resamples",
        kind=ParameterError,
    )
    fails(
        lambda: paired(suite, "ce", methods, baselines=["erm"], metrics=["f1"]),
        "'f1' is no metric",
        kind=ParameterError,
    )
    alone = {"erm": methods["erm"]}
    fails(
        lambda: paired(suite, "ce", alone, baselines=["erm"]),
        "one method alone",
        kind=ParameterError,
    )
    other = [*methods["gdro"][:1], predictions(logits(suite), "gdro", 1, tasks=("car",))]
    mixed = {"erm": methods["erm"], "gdro": other}
    fails(
        lambda: paired(suite, "ce", mixed, baselines=["erm"]),
        "method gdro",
        "different tasks",
        kind=InputError,
    )
