"""Sweeps against finding at every point."""

import math

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from oracles import collections, dataset_of, naive_A
from refusals import fails

from nooch.base.errors import ParameterError
from nooch.criteria import CE, Context, Gist
from nooch.suites.find import find
from nooch.suites.sweep import POOLED, hard_sums, sweep_thresholds

# areas themselves are among the betas, so that strict and not strict differ; 0 is a beta below
# which nothing lies
BETAS = [0.0, 0.02, 0.05, 0.1, 0.15, 0.3]
ALPHAS = [0.0, 0.03, 0.1, 0.3]
SIDES = ("hard_positives", "hard_negatives", "positives", "negatives")


@given(
    collections(splits=True),
    st.lists(st.sampled_from(ALPHAS), min_size=1),
    st.lists(st.sampled_from(BETAS), min_size=1),
)
@settings(max_examples=20)
def test_every_point_equals_finding_there(collection, alphas, betas):
    images, classes, splits = collection
    searched = [s for s in ("valid", "test") if s in splits]
    if "train" not in splits or not searched:
        return
    data = dataset_of(images, classes, splits)
    sweep = sweep_thresholds(data, alpha=alphas, beta=betas)
    points = len(set(alphas)) * len(set(betas))
    assert sweep.grid.height == (len(classes) + 1) * len(searched) * points
    for alpha in set(alphas):
        for beta in set(betas):
            suite = find(data, {"ce": CE(alpha, beta)})
            rows = sweep.grid.filter(alpha=alpha, beta=beta)
            for split in searched:
                pooled = np.zeros(4, dtype=int)
                for task in classes:
                    row = rows.filter(task=task, split=split).row(0, named=True)
                    counts = [row[side] for side in SIDES]
                    if ("ce", task, split) in suite.keys:
                        record = suite.record("ce", task, split)
                        assert counts == [getattr(record, side) for side in SIDES]
                    else:
                        assert counts[:2] == [0, 0]
                    assert row["share_positive"] == (counts[0] / counts[2] if counts[2] else None)
                    assert row["share_negative"] == (counts[1] / counts[3] if counts[3] else None)
                    pooled += counts
                row = rows.filter(task=POOLED, split=split).row(0, named=True)
                assert [row[side] for side in SIDES] == pooled.tolist()
    train = [image for image, split in zip(images, splits, strict=True) if split == "train"]
    for task, alpha, n_cues in sweep.cues.rows():
        strengths = [naive_A(train, cue, task) for cue in classes if cue != task]
        if not any(abs(s - alpha) < 1e-12 for s in strengths):
            assert n_cues == sum(s > alpha for s in strengths)


@given(collections(splits=True))
@settings(max_examples=15)
def test_the_most_equal_point_is_the_one_that_looking_through_all_gives(collection):
    images, classes, splits = collection
    if "train" not in splits or "test" not in splits:
        return
    data = dataset_of(images, classes, splits)
    sweep = sweep_thresholds(data, alpha=ALPHAS, beta=BETAS, splits=["test"])
    found = {task: row for task, *row in sweep.equal.drop("split").rows()}
    for task in (*classes, POOLED):
        points = sweep.grid.filter(task=task).rows(named=True)
        pairs = [(r["share_positive"], r["share_negative"]) for r in points]
        balances = [abs(p - q) / (p + q) for p, q in pairs if p and q]
        assert (task in found) == bool(balances)
        if balances:
            alpha, beta, p, q, imbalance = found[task]
            assert imbalance == pytest.approx(min(balances), abs=1e-12)
            best = [min(a, b) for a, b in pairs if a and b and abs(a - b) / (a + b) <= imbalance]
            assert min(p, q) == max(best)
            (row,) = [r for r in points if (r["alpha"], r["beta"]) == (alpha, beta)]
            assert (row["share_positive"], row["share_negative"]) == (p, q)


def _with_gist(n=90):
    random = np.random.default_rng(0)
    images = [{c: 0.2 for c in "YAB" if random.random() < 0.5} for _ in range(n)]
    vectors = random.normal(size=(n, 5)).round(1)
    vectors[::9] = np.nan
    splits = [["train", "valid", "test"][i % 3] for i in range(n)]
    data = dataset_of(images, ["Y", "A", "B", "never"], splits)
    return data.with_embedding("e", vectors)


def test_tau_equals_finding_at_each_value():
    data = _with_gist()
    taus = [-0.5, 0.0, 0.25, 0.9]
    sweep = sweep_thresholds(data, tau=taus, embedding="e")
    for tau in taus:
        suite = find(data, {"gist": Gist("e", tau)})
        for record in suite.header.sets:
            row = sweep.tau.filter(task=record.task, split=record.split, tau=tau).row(0, named=True)
            assert [row[side] for side in SIDES] == [getattr(record, side) for side in SIDES]
    # a class that no training image has is in no set, and not in the table
    assert set(sweep.tau["task"]) == {"Y", "A", "B", POOLED}
    # more positives and fewer negatives are hard as tau grows
    for part in sweep.tau.sort("tau").partition_by(["task", "split"]):
        assert part["hard_positives"].is_sorted()
        assert part["hard_negatives"].is_sorted(descending=True)
    assert sweep.grid.height == 0 == sweep.cues.height == sweep.equal.height


@pytest.mark.parametrize("splits", [None, ["train", "test"]])
def test_lift_equals_finding_at_each_value(splits):
    lifts, data = [0.5, 1.0, 1.3, 3.0], _with_gist()
    sweep = sweep_thresholds(data, lift=lifts, splits=splits)
    for lift in lifts:
        suite = find(data, {"context": Context(lift)}, splits=splits)
        assert {one.task for one in suite.header.sets} == {"Y", "A", "B"}
        for record in suite.header.sets:
            place = {"task": record.task, "split": record.split, "lift": lift}
            row = sweep.lift.filter(**place).row(0, named=True)
            assert [row[side] for side in SIDES] == [getattr(record, side) for side in SIDES]
    assert set(sweep.lift["task"]) == {"Y", "A", "B", POOLED}
    assert not sweep.tau.height


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["nothing to sweep"]),
        ({"lift": [0.0, 2.0]}, ["lift", "positive"]),
        ({"alpha": [0.1]}, ["nothing to sweep"]),
        ({"beta": [0.1]}, ["nothing to sweep"]),
        ({"alpha": [-0.1], "beta": [0.1]}, ["alpha", "-0.1"]),
        ({"alpha": [0.1], "beta": [float("nan")]}, ["beta"]),
        ({"tau": [1.5], "embedding": "e"}, ["tau", "cosine"]),
        ({"tau": [0.5]}, ["embedding"]),
        ({"tau": [0.5], "embedding": "f"}, ["'f'"]),
        ({"alpha": [0.1], "beta": [0.1], "splits": ["all"]}, ["all"]),
        ({"alphas": [0.1], "beta": [0.1]}, ["'alphas' is not a keyword", "did you mean alpha?"]),
    ],
)
def test_what_cannot_be_swept(options, words):
    fails(lambda: sweep_thresholds(_with_gist(), **options), *words, kind=ParameterError)


def test_unknown_areas_cannot_be_swept():
    unknown = dataset_of([{"Y": float("nan")}], ["Y", "A"])
    sweep = {"alpha": [0.1], "beta": [0.1]}
    fails(lambda: sweep_thresholds(unknown, **sweep), "areas are unknown", "`alpha`", "`lift`")


def test_progress_and_many_thresholds():
    data, seen = _with_gist(), []
    betas = np.linspace(0, 1, 301)
    sweep = sweep_thresholds(data, alpha=[0.0], beta=betas, progress=lambda *x: seen.append(x))
    assert seen[-1] == ("counting on test", 4, 4)
    suite = find(data, {"ce": CE(0.0, float(betas[60]))})
    for record in suite.header.sets:
        at = sweep.grid.filter(pl.col("beta") == betas[60])
        row = at.filter(task=record.task, split=record.split).row(0, named=True)
        assert row["hard_negatives"] == record.hard_negatives


NUMBERS = st.sampled_from([0.0, 0.1, 0.25, 0.5, math.nan]) | st.floats(0, 1)


@given(
    st.lists(st.tuples(NUMBERS, st.booleans(), st.floats(0, 9))),
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]), min_size=1),
)
def test_sums_over_thresholds_are_those_of_loops(rows, thresholds):
    """Also where images have no support."""
    support, labels, losses = (
        np.array([row[i] for row in rows], kind) for i, kind in enumerate((float, bool, float))
    )
    thresholds = np.sort(np.array(thresholds, float))
    sums = hard_sums(support, np.stack([labels, ~labels]), thresholds, thresholds, losses)
    for t, one in zip(thresholds, sums, strict=True):
        for side, present, sign in ((0, True, 1), (1, False, -1)):
            of_side = [(s, loss) for s, y, loss in rows if y == present and not math.isnan(s)]
            hard = [loss for s, loss in of_side if sign * s < sign * t]
            assert one[side].tolist() == pytest.approx([len(hard), len(of_side), sum(hard)])
