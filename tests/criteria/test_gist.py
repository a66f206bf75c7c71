"""Gist against loops over images."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from oracles import collections, dataset_of, naive_cosine
from refusals import fails, refused

from nooch.base.errors import FormatError, ParameterError, UndefinedError
from nooch.criteria import FittedGist, Gist
from nooch.suites.find import find

VECTOR = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0, 2.0]), min_size=3, max_size=3)
MISSING = [math.nan] * 3


@st.composite
def embedded(draw):
    """A random collection, its Dataset with an embedding "e", and the vectors (None: missing)."""
    images, classes, splits = draw(collections(splits=True))
    vectors = [draw(st.none() | VECTOR) for _ in images]
    array = np.array([v or MISSING for v in vectors])
    data = dataset_of(images, classes, splits).with_embedding("e", array)
    return images, classes, splits, vectors, data


def _prototype(images, splits, vectors, task):
    chosen = [
        v
        for i, s, v in zip(images, splits, vectors, strict=True)
        if s == "train" and task in i and v is not None
    ]
    return [sum(column) / len(chosen) for column in zip(*chosen, strict=True)] if chosen else None


@given(embedded())
def test_support_is_the_cosine_with_the_mean_of_training_positives(sample):
    images, classes, splits, vectors, data = sample
    if "train" not in splits:
        return
    fitted = Gist("e").fit(data.select("train"), classes)
    assert fitted.supports(data, []).shape == (len(data), 0)
    for task in classes:
        prototype = _prototype(images, splits, vectors, task)
        if prototype is None or not any(prototype):
            assert fitted.undefined(task)
            with pytest.raises(UndefinedError):
                fitted.support(data, task)
            continue
        expected = [math.nan if v is None else naive_cosine(v, prototype) for v in vectors]
        assert fitted.support(data, task) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(embedded())
def test_parts_merge_to_the_whole_and_json_brings_it_back(sample):
    _, classes, _, _, data = sample
    criterion = Gist("e", 0.4)
    halves = [data.select(rows=np.arange(start, len(data), 2)) for start in (0, 1)]
    sums = criterion.merge(criterion.partial(h, classes) for h in halves)
    merged = criterion.finish(sums, classes)
    whole = criterion.fit(data, classes)
    np.testing.assert_allclose(merged.state.sums, whole.state.sums, atol=1e-12)
    assert np.array_equal(merged.state.counts, whole.state.counts)
    again = FittedGist.from_json(json.loads(json.dumps(whole.to_json())))
    assert np.array_equal(again.state.sums, whole.state.sums)
    assert again.parameters() == {"embedding": "e", "precision": "unknown", "tau": 0.4}


def _three():
    images = [{"Y": 0.1, "A": 0.4}, {"Y": 0.1}, {"Y": 0.1, "A": 0.3}, {"A": 0.5}, {"A": 0.6}, {}]
    vectors = [[1, 0], [0, 1], [0.9, 0.1], [1, 0.1], [math.nan] * 2, [0.0, 0.0]]
    return dataset_of(images, ["Y", "A"]).with_embedding("e", np.array(vectors))


def test_images_without_gist_are_excluded_and_counted():
    data = _three()
    suite = find(data, {"gist": Gist("e", 0.5)}, tasks=["Y"])
    challenge = suite.set("gist", "Y", "all")
    # image 5 has no embedding; the embedding of image 6 points nowhere
    assert challenge.image_ids.to_list() == [1, 2, 3, 4]
    assert challenge.counts.excluded_negatives == 2
    assert suite.record("gist", "Y", "all").excluded_negatives == 2
    assert suite.record("gist", "Y", "all").excluded_positives == 0


def test_tau_is_one_threshold_for_both_sides():
    data = _three()
    fitted = Gist("e", 0.7).fit(data, ["Y"])
    support = fitted.support(data, "Y")
    challenge = find(data, {"gist": Gist("e", 0.7)}, tasks=["Y"]).set("gist", "Y", "all")
    assert challenge.ids("hard_positive") == [i + 1 for i in range(3) if support[i] < 0.7]
    assert challenge.ids("hard_negative") == [i + 1 for i in (3,) if support[i] > 0.7]


def test_the_explanation_tells_cosine_and_missing_gist():
    data = _three()
    fitted = Gist("e").fit(data, ["Y"])
    assert "cosine of its gist with the gist of Y's training images is 0." in fitted.explain(
        data.select(image_ids=[1]), "Y"
    )
    assert "no caption embedding" in fitted.explain(data.select(image_ids=[5]), "Y")


def test_wrong_use_is_refused():
    data = _three()
    refused(lambda: Gist("e", 2.0), "tau is 2")
    refused(lambda: Gist("f").fit(data, ["Y"]), "'f' is not an embedding")
    fitted = Gist("e").fit(data, ["Y"])
    refused(lambda: fitted.support(data, "A"), "'A' is not a task")
    with pytest.raises(ParameterError, match="3 dimensions, the fitted criterion 2"):
        fitted.support(data.with_embedding("e", np.zeros((6, 3))), "Y")
    bare = {"embedding": "e"}
    fails(lambda: FittedGist.from_json(bare), "not a fitted gist", kind=FormatError, helps=False)
    with pytest.raises(FormatError, match=r"not a fitted gist criterion: .*tau is 2"):
        FittedGist.from_json({**fitted.to_json(), "tau": 2.0})
    with pytest.raises(FormatError, match="2 tasks, but 1 prototypes"):
        FittedGist.from_json({**fitted.to_json(), "tasks": ["Y", "A"]})
