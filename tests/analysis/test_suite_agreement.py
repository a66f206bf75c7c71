"""Two suites compared: every count and measure against plain sets, and intervals against loops."""

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from oracles import dataset_of
from refusals import fails

import nooch
from nooch.base.errors import InputError, ParameterError
from nooch.evaluation.bootstrap import BootstrapDraws
from nooch.suites import CELLS

CLASSES = ["car", "road", "boat", "water"]
CUES = {"car": ["road"], "boat": ["water"]}
MEASURES = {
    "jaccard": lambda a, b, n: len(a & b) / len(a | b) if a | b else None,
    "precision": lambda a, b, n: len(a & b) / len(a) if a else None,
    "recall": lambda a, b, n: len(a & b) / len(b) if b else None,
    "kappa": lambda a, b, n: kappa([i in a for i in range(n)], [i in b for i in range(n)]),
}


def kappa(a, b):
    n = len(a)
    observed = sum(x == y for x, y in zip(a, b, strict=True)) / n
    chance = (sum(a) * sum(b) + (n - sum(a)) * (n - sum(b))) / n**2
    return None if chance == 1 else (observed - chance) / (1 - chance)


def suite_of(images, ids, beta=0.1, splits=None, tasks=("car", "boat")):
    data = dataset_of(images, CLASSES, splits, ids=list(ids))
    found = sorted(set(splits or ["all"]))
    return nooch.find(data, {"ce": nooch.CE(beta=beta, cues=CUES)}, tasks=tasks, splits=found)


def sets_of(suite, task):
    """Cell -> ids, and all ids, over all splits."""
    ids = {cell: set() for cell in CELLS}
    for key in suite.keys:
        for cell in CELLS if key[1] == task else ():
            ids[cell] |= set(suite.set(*key).ids(cell))
    return ids


IMAGES = st.dictionaries(st.sampled_from(CLASSES), st.sampled_from([0.05, 0.1, 0.12, 0.4]))


@given(
    st.lists(st.tuples(IMAGES, IMAGES, st.sampled_from("ab2")), min_size=3, max_size=14).filter(
        lambda rows: any(where == "2" for *_, where in rows)
    ),
    st.integers(0, 3),
)
def test_every_measure_is_that_of_plain_sets(rows, n_train):
    first = [(i, image) for i, (image, _, where) in enumerate(rows) if where != "b"]
    second = [(i, image) for i, (_, image, where) in enumerate(rows) if where != "a"]
    # the split of an image in one suite is not the one in the other
    splits = ["train" if i < n_train else "test" for i in range(len(first))]
    a = suite_of([image for _, image in first], [i for i, _ in first], splits=splits)
    b = suite_of([image for _, image in second], [i for i, _ in second])
    found = nooch.verify(a, b, bootstrap=20)
    both = {i for i, _ in first} & {i for i, _ in second}
    assert found["low"].is_null().equals(found["high"].is_null())
    assert found.filter(pl.col("low") > pl.col("high")).is_empty()
    place = {image: number for number, image in enumerate(sorted(both))}
    sets = {
        (task, cell): [{place[i] for i in sets_of(suite, task)[cell] & both} for suite in (a, b)]
        for task in CUES
        for cell in CELLS
    }
    draws = BootstrapDraws(len(both), 20, 0)
    weights = np.concatenate([w for _, w in draws.weights(slice(None))], axis=1)
    drawn = [np.repeat(np.arange(len(both)), w.astype(int)) for w in weights.T]
    for cell in CELLS:
        for metric, measure in MEASURES.items():
            of_tasks = [measure(*sets[task, cell], len(both)) for task in CUES]
            pooled = [{(t, i) for t in CUES for i in sets[t, cell][side]} for side in (0, 1)]
            pairs = ((t, i) for t in CUES for i in range(len(both)))
            names = {pair: n for n, pair in enumerate(pairs)}
            pooled = measure(*({names[i] for i in side} for side in pooled), 2 * len(both))
            known = [value for value in of_tasks if value is not None]
            average = sum(known) / len(known) if known else None
            expected = [pooled, average, *of_tasks]
            of = found.filter(set=cell, metric=metric)
            assert of["task"].to_list() == ["all tasks", "average", *CUES]
            assert of["value"].to_list() == [v if v is None else pytest.approx(v) for v in expected]
            for task in CUES:
                row = of.row(by_predicate=pl.col("task") == task, named=True)
                here, there = sets[task, cell]
                counted = (len(both), len(here), len(there), len(here & there))
                assert tuple(row[n] for n in ("images", "first", "second", "both")) == counted
                assert (row["only_first"], row["only_second"]) == (
                    len(first) - len(both), len(second) - len(both),
                )  # fmt: skip
                replicates = []
                for images in drawn:
                    marks = [[i in side for i in images] for side in (here, there)]
                    at = [{n for n, mark in enumerate(side) if mark} for side in marks]
                    replicates.append(measure(*at, len(images)))
                defined = [v for v in replicates if v is not None]
                if 2 * len(defined) >= 20 and np.ptp(np.percentile(defined, [2.5, 97.5])) > 1e-12:
                    bounds = np.percentile(defined, [2.5, 97.5])
                    assert [row["low"], row["high"]] == pytest.approx(bounds.tolist())


def test_a_suite_agrees_with_itself_and_intervals_have_width():
    suite = suite_of([{"road": 0.4}, {"car": 0.1}, {"car": 0.1, "road": 0.3}, {}], range(4))
    found = nooch.verify(suite, suite)
    rows = found.filter(task="car", set="hard_negative").rows_by_key("metric", named=True)
    assert {metric: row[0]["value"] for metric, row in rows.items()} == dict.fromkeys(MEASURES, 1.0)
    assert rows["precision"][0]["high"] == 1
    assert 0 < rows["precision"][0]["low"] < 0.3
    assert rows["kappa"][0]["low"] is None
    plain = nooch.verify(suite, suite, bootstrap=0)
    assert plain.filter(metric="recall", task="car").drop_nulls("value")["low"].null_count() == 0


def test_one_criterion_of_each_suite_is_compared_whatever_its_name():
    data = dataset_of([{"car": 0.1}, {"road": 0.3}], CLASSES)
    names = [{"ce": nooch.CE(cues=CUES)}, {"mine": nooch.CE(cues=CUES)}]
    a, b = (nooch.find(data, named, tasks=["car"]) for named in names)
    assert nooch.verify(a, b)["criterion"].unique().to_list() == ["ce"]
    both = nooch.find(data, {**names[0], "other": nooch.CE(cues=CUES, beta=0.5)}, tasks=["car"])
    assert nooch.verify(both, a)["criterion"].unique().to_list() == ["ce"]
    fails(lambda: nooch.verify(both, b), "share no criterion", kind=InputError)


def test_what_cannot_be_compared_is_refused():
    suite = suite_of([{"car": 0.2}, {"road": 0.2}], [1, 2])
    text = suite_of([{"car": 0.2}, {"road": 0.2}], ["a", "b"])
    other = suite_of([{"car": 0.2}, {"road": 0.2}], [8, 9])
    boats = suite_of([{"car": 0.2}, {"road": 0.2}], [1, 2], tasks=("boat",))
    cars = suite_of([{"car": 0.2}, {"road": 0.2}], [1, 2], tasks=("car",))
    fails(lambda: nooch.verify(suite, text), "are text", kind=InputError)
    fails(lambda: nooch.verify(suite, other), "share no criterion, task and image", kind=InputError)
    fails(lambda: nooch.verify(boats, cars), "share no criterion, task and image", kind=InputError)
    fails(lambda: nooch.verify(suite, suite, bootstrap=-1), "`bootstrap`", kind=ParameterError)


def test_the_command_compares_suites_and_says_what_it_compared(run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = [{"car": 0.2}, {"road": 0.2}, {"road": 0.12}, {"car": 0.1, "road": 0.4}]
    nooch.save_dataset(dataset_of(images, CLASSES), tmp_path / "data")
    for name, beta in (("a", 0.1), ("b", 0.15)):
        run_cli(f"find data --cues car=road --tasks car --beta {beta} --out {name}").ok()
    shown = run_cli("tools verify a b --bootstrap 50").ok()
    assert "all tasks" in shown.out
    assert "precision: the share of the first set" in shown.err
    answer = run_cli("tools verify a b --bootstrap 0 --format json").json
    (row,) = [
        row
        for row in answer
        if (row["task"], row["set"], row["metric"]) == ("car", "hard_negative", "precision")
    ]
    assert (row["value"], row["first"], row["second"], row["both"]) == (0.5, 2, 1, 1)
    run_cli("tools verify a data").refused("contains no published set")
