"""Averages over tasks: against loops, and over the same tasks in every resample and difference."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from oracles import naive_auc
from scipy.sparse import csr_array
from scored import TASKS, logits, small_suite

import nooch
from nooch.evaluation.averages import AVERAGE, Averages
from nooch.evaluation.subsets import ScoreScope, Subset
from nooch.evaluation.task_scores import block_of

METRICS = ["auprc", "error"]


def completed(replicates):
    """Undefined replicates as the next defined one, the first after the last."""
    if np.isnan(replicates).all():
        return replicates
    k = len(replicates)
    order = [[replicates[(at + step) % k] for step in range(k)] for at in range(k)]
    return np.array([next(v for v in values if not np.isnan(v)) for values in order])


def scope_of(task):
    subsets = [Subset("all"), Subset("hard")]
    counts = np.array([900_000, 400_000]), np.array([500_000, 200_000])
    return ScoreScope("ce", task, "test", subsets, *counts)


@given(st.integers(0, 10_000), st.sampled_from([0, 1, 2, 7]), st.booleans())
def test_each_value_is_the_mean_of_the_tasks_that_define_it(seed, resamples, strict):
    random = np.random.default_rng(seed)
    tasks, averages = ["car", "boat", "tie"], Averages(strict=strict)
    rows = random.normal(size=(2, 3, 2, 2, 1 + resamples))
    # which are undefined is a matter of the images, so of all runs
    rows[:, random.random(rows.shape[1:]) < 0.3] = np.nan
    for number, task in enumerate(tasks):
        a, b = rows[:, number]
        for run, baseline, values in (("a", None, a), ("b", None, b), ("b", "a", b - a)):
            averages.add(block_of(run, scope_of(task), METRICS, values, baseline=baseline), values)
    blocks = averages.blocks(METRICS)
    assert [(b.run, b.baseline) for b in blocks] == [("a", None), ("b", None), ("b", "a")]
    assert {block.scope.task for block in blocks} == {AVERAGE}
    for block, of in zip(blocks, (rows[0], rows[1], rows[1] - rows[0]), strict=True):
        for place in np.ndindex(2, 2):
            own = of[:, *place]
            used = own[~np.isnan(own[:, 0])]
            names = [t for t, v in zip(tasks, own[:, 0], strict=True) if not np.isnan(v)]
            assert block.over[2 * place[0] + place[1]] == tuple(names)
            if not len(used) or (strict and len(used) < 3):
                assert np.isnan(block.values[place])
                continue
            assert block.values[place] == pytest.approx(used[:, 0].mean())
            means = np.mean([completed(task[1:]) for task in used], axis=0)
            bounds = [np.nan, np.nan]
            if resamples and not np.isnan(means).any():
                bounds = np.percentile(means, [2.5, 97.5])
                assert block.resamples[place] == (~np.isnan(used[:, 1:])).sum(axis=1).min()
            if bounds[0] < bounds[1] or block.baseline:
                found = block.low[place], block.high[place]
                assert found == pytest.approx(tuple(bounds), nan_ok=True, abs=1e-3)


def test_an_interval_is_that_of_resamples_in_which_all_tasks_are_defined():
    """One cow without grass: the other resamples, a third, would be of boats alone."""
    n = 400
    random, cow, boat = np.random.default_rng(0), np.arange(n) < 41, np.zeros(n, dtype=bool)
    boat[100:180] = True
    areas = np.stack([cow * 0.1, boat * 0.1, np.zeros(n), np.zeros(n)], axis=1)
    areas[:40, 2] = areas[200:300, 2] = areas[100:140, 3] = areas[300:, 3] = 0.5
    images = pl.DataFrame({"image_id": np.arange(n), "split": ["test"] * n})
    data = nooch.Dataset.build(images, ["cow", "boat", "grass", "water"], csr_array(areas))
    criterion = nooch.CE(cues={"cow": ["grass"], "boat": ["water"]})
    suite = nooch.find(data, {"ce": criterion}, tasks=["cow", "boat"])
    outputs = np.stack([np.where(cow, 5.0, -5.0), random.normal(size=n)], axis=1)
    runs = [
        nooch.Predictions.from_arrays(values, np.arange(n), ["cow", "boat"], scale="logit", run=run)
        for run, values in (("a", outputs), ("b", outputs + areas[:, :2] * [0, 10]))
    ]
    scores = nooch.evaluate(suite, runs, metrics=["auc"], bootstrap=1000)

    sets = [suite.set("ce", task, "test").table for task in suite.tasks]
    hard = [table.filter(pl.col("subset") != "easy")["image_id"].to_numpy() for table in sets]
    labels, aucs, differences = [cow, boat], [], []
    while len(aucs) < 500:
        counts = np.bincount(random.integers(0, n, n), minlength=n)
        drawn = [of[counts[of] > 0] for of in hard]
        if any(len({*truth[rows]}) < 2 for truth, rows in zip(labels, drawn, strict=True)):
            continue
        means = [
            np.mean([
                naive_auc(truth[of], run.values[task][of], counts[of])
                for task, (truth, of) in enumerate(zip(labels, hard, strict=True))
            ])
            for run in runs
        ]  # fmt: skip
        aucs.append(means[0])
        differences.append(means[1] - means[0])
    for table, expected in ((scores.table, aucs), (scores.differences, differences)):
        row = table.filter(task=AVERAGE, subset="hard").row(0, named=True)
        bounds = np.percentile(expected, [2.5, 97.5])
        assert (row["low"], row["high"]) == pytest.approx(tuple(bounds), abs=0.02)
        assert row["reason"] == (
            "interval from 653 of 1000 resamples of a task; the others have one class or no image"
        )


def test_a_difference_is_over_the_tasks_that_both_runs_define():
    """Run a never says yes to cars: its precision is that of hydrants alone."""
    suite = small_suite()
    a, b = logits(suite, seed=1, run="a"), logits(suite, seed=2, run="b")
    never = pl.when(pl.col("task") == "car").then(pl.col("logit") - 100).otherwise("logit")
    options = {"metrics": ["precision"], "criteria": ["ce"], "bootstrap": 50}
    scores = nooch.evaluate(suite, [a.with_columns(never), b], **options)
    differences = scores.differences.filter(subset="hard")
    own, average = (differences.row(by_predicate=pl.col("task") == task, named=True)
                    for task in (TASKS[1], AVERAGE))  # fmt: skip
    for name in ("difference", "low", "high"):
        assert average[name] == pytest.approx(own[name])
    assert (average["n_tasks"], average["averaged_tasks"]) == (1, TASKS[1])
    assert average["reason"] == "the mean of 1 of 2 tasks; undefined for the others"
