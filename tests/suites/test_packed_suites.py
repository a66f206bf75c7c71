"""Suites in one small file: read back unchanged, checked, refused where content would go."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of

from nooch.base.errors import FormatError, InputError
from nooch.criteria import CE
from nooch.suites import (
    SHIPPED,
    ChallengeSet,
    CriterionRecord,
    DatasetRecord,
    Suite,
    load_suite,
    pack_suite,
)
from nooch.suites.find import find
from nooch.suites.suite_folder import unpack_suite
from nooch.training.bench.config import BenchConfig
from nooch.training.bench.run import PlanSource


def _suite(change=None, **more):
    """Sets of two criteria, two tasks and two splits with random ids, labels and hard images."""
    random, sets = np.random.default_rng(0), {}
    test = np.sort(random.choice(600_000, 1001, replace=False))
    ids = {"valid": np.array([0, 7, 2**31 - 1]), "test": test}
    labels = {(task, s): random.random(len(ids[s])) < 0.3 for task in ("a", "b") for s in ids}
    for criterion, task, split in product(("ce", "gist"), ("b", "a"), ids):
        y, easy = labels[task, split], random.random(len(ids[split])) < 0.5
        subset = np.where(easy, 2, np.where(y, 0, 1)).astype(np.uint8)
        one = ChallengeSet(criterion, task, split, pl.Series("image_id", ids[split]), y, subset)
        sets[criterion, task, split] = one if change is None else change(one)
    criteria = {name: CriterionRecord(name, {"source": "test"}) for name in ("ce", "gist")}
    record = DatasetRecord("made", 1004, {"valid": 3, "test": 1001})
    more |= {"dataset": record, "criteria": criteria, "tasks": ["b", "a"], "splits": list(ids)}
    return Suite.of(sets, skipped=[], **more)


@pytest.mark.parametrize("hard_only", [False, True])
def test_a_suite_is_read_back_as_it_was(hard_only):
    suite = _suite(hard_only=hard_only)
    again = unpack_suite(pack_suite(suite), "s")
    assert again.header == suite.header
    for key in suite.keys:
        one, other = suite.set(*key), again.set(*key)
        assert other.image_ids.equals(one.image_ids, check_names=True)
        for name in ("labels", "subset"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name), strict=True)
        assert other.support is other.by_cue is None
        assert repr(other) == repr(one)


@pytest.mark.parametrize("where", [0, 25, 60, -1])
def test_bytes_that_were_altered_are_refused(where):
    content = bytearray(pack_suite(_suite()))
    content[where] ^= 1
    with pytest.raises(FormatError, match="was altered" if where else "no packed suite"):
        unpack_suite(bytes(content), "s")
    with pytest.raises(FormatError, match="was altered"):
        unpack_suite(pack_suite(_suite())[:-3], "s")


def _changed(**change):
    def changed(one):
        if (one.criterion, one.task, one.split) != ("gist", "a", "test"):
            return one
        return replace(one, **{name: value_of(one) for name, value_of in change.items()})

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"support": lambda one: np.zeros(len(one))}, "has support"),
        ({"excluded": lambda one: (1, 0)}, "without a verdict"),
        ({"labels": lambda one: ~one.labels}, "other images or labels"),
        ({"image_ids": lambda one: one.image_ids + 1}, "other images or labels"),
        ({"image_ids": lambda one: one.image_ids.cast(pl.String)}, "no integers"),
        ({"image_ids": lambda one: one.image_ids + 2**31}, "no integers of 32 bits"),
    ],
)
def test_what_would_be_lost_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        pack_suite(_suite(_changed(**change)))


def test_a_suite_with_supports_is_refused():
    data = dataset_of([{"tie": 0.1, "person": 0.5}], ["tie", "person"])
    suite = find(data, {"ce": CE()}, tasks="tie")
    with pytest.raises(InputError, match="has support"):
        pack_suite(suite)


def test_a_folder_of_the_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (name,) = SHIPPED
    assert len(load_suite(name).keys) == 48
    # workers of a bench in other folders find both
    source = PlanSource(tmp_path, Path(name), BenchConfig())
    assert source.absolute().suite == Path(name)
    (tmp_path / name).mkdir()
    with pytest.raises(FormatError, match="is no suite"):
        load_suite(name)
    assert source.absolute().suite == tmp_path / name
    with pytest.raises(FormatError, match="nooch-coco"):
        load_suite("no-such-suite")
