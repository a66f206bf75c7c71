"""Means over seeds, averages over tasks and the best of each row, against plain loops."""

import math
from statistics import mean, stdev

import polars as pl
import pytest
from hypothesis import given, strategies as st

from nooch.evaluation.averages import (
    LARGER_IS_BETTER,
    WORST_HARD,
    over_seeds,
    over_tasks,
    with_best,
    with_worst_hard,
)

VALUE = st.one_of(st.none(), st.floats(0, 1))
METHODS, TASKS = ("erm", "gdro", "irm"), ("car", "tie", "bowl")
SCHEMA = {"value": pl.Float64, "mean": pl.Float64, "std": pl.Float64, "reason": pl.String}


def value_row(metric, subset, task, method, seed, value):
    keys = {"criterion": "ce", "metric": metric, "subset": subset, "task": task, "method": method}
    reason = None if value is not None else "no positive"
    counts = {"n": 5, "n_positive": 2, "reason": reason}
    return {**keys, "setting": "", "seed": seed, "value": value, **counts}


@given(st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=4))
def test_over_seeds(values):
    rows = [
        value_row("nll", side, "car", "erm", seed, value)
        for seed, pair in enumerate(values)
        for side, value in zip(("hard_positive", "hard_negative"), pair, strict=True)
    ]
    frame = with_worst_hard(pl.DataFrame(rows, schema_overrides=SCHEMA))
    found = {row["subset"]: row for row in over_seeds(frame).to_dicts()}
    assert set(found) == {"hard_positive", "hard_negative", WORST_HARD}
    expected = {
        "hard_positive": [a for a, _ in values],
        "hard_negative": [b for _, b in values],
        WORST_HARD: [None if None in pair else max(pair) for pair in values],
    }
    for subset, listed in expected.items():
        row = found[subset]
        assert row["n_seeds"] == len(values)
        assert row["n"] == (10 if subset == WORST_HARD else 5)
        if None in listed:
            assert (row["mean"], row["std"], row["reason"]) == (None, None, "no positive")
            continue
        assert row["reason"] is None
        assert row["mean"] == pytest.approx(mean(listed), abs=1e-12)
        assert row["std"] == (None if len(listed) == 1 else pytest.approx(stdev(listed), abs=1e-12))


def test_worst_hard_is_of_error_and_nll_alone():
    rows = [
        value_row(m, s, "car", "erm", 0, 0.5)
        for m in ("auc", "error", "ece")
        for s in ("hard_positive", "hard_negative")
    ]
    frame = with_worst_hard(pl.DataFrame(rows, schema_overrides=SCHEMA))
    assert frame.filter(subset=WORST_HARD)["metric"].to_list() == ["error"]
    # one side alone has no worse one
    one = with_worst_hard(pl.DataFrame(rows[2:3], schema_overrides=SCHEMA))
    assert one.filter(subset=WORST_HARD)["value"].to_list() == [None]


def cells_of(table):
    """(task, method) -> (mean, std) as cells."""
    keys = {"criterion": "ce", "metric": "auc", "subset": "hard"}
    counts = {"n": 4, "n_positive": 1, "n_seeds": 3, "seeds": 3, "n_settings": 2, "settings": 4}
    counts["n_worse"] = 0
    rows = [
        {**keys, "task": task, "method": method, "mean": mean_, "std": std, **counts}
        for (task, method), (mean_, std) in table.items()
    ]
    return pl.DataFrame(rows, schema_overrides=SCHEMA)


CELLS = st.fixed_dictionaries({(t, m): st.tuples(VALUE, VALUE) for t in TASKS for m in METHODS})


@given(
    CELLS,
    st.sets(st.sampled_from([(t, m) for t in TASKS for m in METHODS]), max_size=3),
    st.booleans(),
)
def test_over_tasks(table, dropped, strict):
    kept = {key: value for key, value in table.items() if key not in dropped}
    found = {row["method"]: row for row in over_tasks(cells_of(kept), strict=strict).to_dicts()}
    listed = list(dict.fromkeys(t for t, _ in kept))
    # a task that no method has a value of is left out, unless there would be nothing to average
    defined = [t for t in listed if any(kept.get((t, m), (None,))[0] is not None for m in METHODS)]
    tasks = listed if strict or not defined else defined
    for method in {m for _, m in kept}:
        means = {t: kept[t, method][0] if (t, method) in kept else None for t in tasks}
        row = found[method]
        assert row["task"] == "average"
        assert (row["n_tasks"], row["averaged_tasks"]) == (len(tasks), ", ".join(tasks))
        if None in means.values():
            assert (row["mean"], row["std"]) == (None, None)
            missing = {t for t in tasks if means[t] is None}
            assert set(row["reason"].removeprefix("no value for ").split(", ")) == missing
            continue
        stds = [kept[t, method][1] for t in tasks]
        assert row["reason"] is None
        assert row["mean"] == pytest.approx(sum(means.values()) / len(tasks), abs=1e-12)
        root = None if None in stds else math.sqrt(sum(s * s for s in stds)) / len(tasks)
        assert row["std"] == (None if root is None else pytest.approx(root, abs=1e-12))
        assert (row["n"], row["n_settings"], row["settings"]) == (4 * len(tasks), 2, 4)


def block(table, subset):
    return cells_of(table).with_columns(subset=pl.lit(subset))


def rows_of(averages):
    """(subset, method) -> row."""
    return {(row["subset"], row["method"]): row for row in averages.to_dicts()}


def test_averages_next_to_each_other_are_over_the_same_tasks():
    """One task has no value on hard: the average on easy leaves it out too, and both say so."""
    whole = {(t, m): (0.25 * i, 0.1) for i, t in enumerate(TASKS) for m in METHODS}
    holed = {key: (None, None) if key[0] == "tie" else value for key, value in whole.items()}
    nothing = dict.fromkeys(whole, (None, None))
    cells = pl.concat([block(holed, "hard"), block(whole, "easy"), block(nothing, "none")])
    rows = rows_of(over_tasks(cells))
    for method in METHODS:
        for subset in ("hard", "easy"):
            row = rows[subset, method]
            assert row["mean"] == pytest.approx(0.25)
            assert (row["n_tasks"], row["averaged_tasks"]) == (2, "car, bowl")
        # what no task has does not narrow the others
        assert (rows["none", method]["mean"], rows["none", method]["n_tasks"]) == (None, 3)
    strict = rows_of(over_tasks(cells, strict=True))
    hard = strict["hard", "erm"]
    assert (hard["mean"], hard["reason"]) == (None, "no value for tie")
    assert strict["easy", "erm"]["n_tasks"] == 3
    # without a task that has both, each is over its own
    other = {key: value if key[0] == "tie" else (None, None) for key, value in whole.items()}
    apart = rows_of(over_tasks(pl.concat([block(holed, "hard"), block(other, "easy")])))
    assert apart["hard", "irm"]["averaged_tasks"] == "car, bowl"
    assert apart["easy", "irm"]["averaged_tasks"] == "tie"


THOUSANDTH = st.one_of(st.none(), st.integers(0, 40).map(lambda n: n / 1000))


@given(
    st.fixed_dictionaries(
        {(t, m): st.tuples(THOUSANDTH, THOUSANDTH) for t in TASKS for m in METHODS}
    ),
    st.sampled_from(["auc", "nll"]),
)
def test_best_by_overlapping_deviations(table, metric):
    cells = cells_of(table).with_columns(metric=pl.lit(metric))
    found = {(row["task"], row["method"]): row["best"] for row in with_best(cells).to_dicts()}
    for task in TASKS:
        # in thousandths, so that ends that touch do
        row = {m: table[task, m] for m in METHODS if table[task, m][0] is not None}
        whole = {m: (round(1000 * a), round(1000 * (s or 0))) for m, (a, s) in row.items()}
        choose = max if metric in LARGER_IS_BETTER else min
        top = choose((mean_ for mean_, _ in whole.values()), default=None)
        for method in METHODS:
            if method not in whole:
                assert not found[task, method]
                continue
            low, high = whole[method][0] - whole[method][1], whole[method][0] + whole[method][1]
            overlaps = [low <= m + s and m - s <= high for m, s in whole.values() if m == top]
            assert found[task, method] == any(overlaps)


def test_best_within_groups():
    table = {("car", "erm"): (0.7, 0.0), ("car", "gdro"): (0.9, 0.0), ("car", "irm"): (0.8, 0.0)}
    sees = pl.Series(["nothing", "environments", "environments"])
    cells = cells_of(table).with_columns(sees=sees)
    assert with_best(cells)["best"].to_list() == [False, True, False]
    assert with_best(cells, by=("sees",))["best"].to_list() == [True, True, False]
