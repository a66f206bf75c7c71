"""CE against loops over images and pairs of classes."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracles import collections, dataset_of, naive_A, naive_ce_subset, naive_cues
from refusals import fails, refused

from nooch.base.errors import (
    FormatError,
    ParameterError,
    UndefinedError,
    WrongTypeError,
)
from nooch.criteria import CE, FittedCE
from nooch.suites import SUBSETS
from nooch.suites.find import find

ALPHAS = st.sampled_from([0.0, 0.05, 0.1, 0.3])
BETAS = st.sampled_from([0.02, 0.05, 0.1, 0.15, 0.3])


@given(collections())
def test_A_is_the_mean_difference_of_areas_over_positives(collection):
    images, classes, _ = collection
    fitted = CE().fit(dataset_of(images, classes))
    for task in classes:
        for cue in classes:
            expected = naive_A(images, cue, task)
            assert fitted.strength(cue, task) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(collections(), ALPHAS)
def test_cues_are_all_classes_above_alpha_strongest_first(collection, alpha):
    images, classes, _ = collection
    fitted = CE(alpha).fit(dataset_of(images, classes))
    for task in classes:
        # where A is alpha up to rounding, the order of summation decides: no statement then
        near = {c for c in classes if abs(naive_A(images, c, task) - alpha) < 1e-12}
        cues = fitted.cues(task)
        assert set(cues) - near == naive_cues(images, classes, task, alpha) - near
        strengths = [fitted.strength(cue, task) for cue in cues]
        assert strengths == sorted(strengths, reverse=True)


@given(collections(splits=True), ALPHAS, BETAS)
def test_sets_equal_the_rule_applied_image_by_image(collection, alpha, beta):
    images, classes, splits = collection
    train = [image for image, split in zip(images, splits, strict=True) if split == "train"]
    found_in = [s for s in ("valid", "test") if s in splits]
    data = dataset_of(images, classes, splits)
    if not train or not found_in:
        return
    suite = find(data, {"ce": CE(alpha, beta)})
    for task in classes:
        near = any(abs(naive_A(train, c, task) - alpha) < 1e-12 for c in classes)
        cues = naive_cues(train, classes, task, alpha)
        if near:
            continue
        if not cues:
            assert [s.task for s in suite.header.skipped if s.task == task] == [task]
            continue
        for split in found_in:
            challenge = suite.set("ce", task, split)
            ids = [i for i, s in enumerate(splits, 1) if s == split]
            assert challenge.image_ids.to_list() == ids
            assert challenge.labels.tolist() == [task in images[i - 1] for i in ids]
            subsets = [SUBSETS[code] for code in challenge.subset]
            assert subsets == [naive_ce_subset(images[i - 1], cues, task, beta) for i in ids]
            largest = [max(images[i - 1].get(c, 0.0) for c in cues) for i in ids]
            assert challenge.support.tolist() == largest


@given(collections(), st.data())
def test_order_of_images_has_no_effect(collection, data):
    images, classes, _ = collection
    order = data.draw(st.permutations(range(len(images))))
    one = dataset_of(images, classes)
    other = dataset_of([images[i] for i in order], classes, ids=[i + 1 for i in order])
    assert one.fingerprint == other.fingerprint
    assert np.array_equal(CE().fit(one).A, CE().fit(other).A, equal_nan=True)


@given(collections(), st.lists(st.integers(0, 3), min_size=14, max_size=14))
def test_parts_merge_to_the_whole(collection, parts):
    images, classes, _ = collection
    data, criterion = dataset_of(images, classes), CE()
    shards = [data.select(rows=np.array(parts[: len(images)]) == part) for part in range(4)]
    merged = criterion.finish(criterion.merge(map(criterion.partial, shards)), classes)
    whole = criterion.fit(data)
    assert np.array_equal(merged.state.counts, whole.state.counts)
    np.testing.assert_allclose(merged.state.sums, whole.state.sums, atol=1e-12)


@given(collections(), ALPHAS, ALPHAS)
def test_a_larger_alpha_never_adds_a_cue(collection, a, b):
    images, classes, _ = collection
    data = dataset_of(images, classes)
    loose, strict = CE(min(a, b)).fit(data), CE(max(a, b)).fit(data)
    for task in classes:
        assert set(strict.cues(task)) <= set(loose.cues(task))


@given(collections(), BETAS, BETAS)
def test_a_larger_beta_adds_hard_positives_and_removes_hard_negatives(collection, a, b):
    images, classes, _ = collection
    data = dataset_of(images, classes)
    cues = {task: [c for c in classes if c != task] for task in classes}
    low, high = (find(data, {"ce": CE(0.05, beta, cues)}) for beta in sorted((a, b)))
    for task in classes:
        first, second = (suite.set("ce", task, "all") for suite in (low, high))
        assert set(first.ids("hard_positive")) <= set(second.ids("hard_positive"))
        assert set(first.ids("hard_negative")) >= set(second.ids("hard_negative"))


@given(collections(), ALPHAS)
def test_supports_of_many_tasks_equal_one_at_a_time(collection, alpha):
    images, classes, _ = collection
    data = dataset_of(images, classes)
    fitted = CE(alpha).fit(data)
    tasks = [task for task in classes if fitted.undefined(task) is None]
    together = fitted.supports(data, tasks)
    assert together.shape == (len(data), len(tasks))
    for column, task in enumerate(tasks):
        assert np.array_equal(together[:, column], fitted.support(data, task))


@given(collections())
def test_saved_and_read_back_gives_the_same(collection):
    images, classes, _ = collection
    data = dataset_of(images, classes)
    fitted = CE(0.1, 0.2, {"Y": ["A"]}).fit(data)
    again = FittedCE.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again.parameters() == fitted.parameters()
    assert np.array_equal(again.A, fitted.A, equal_nan=True)
    assert np.array_equal(again.support(data, "Y"), fitted.support(data, "Y"))


def test_equality_with_beta_is_neither_hard():
    images = [{"Y": 0.01, "A": 0.1}, {"A": 0.1}, {"Y": 0.01, "A": 0.0999}, {"A": 0.1001}]
    data = dataset_of(images, ["Y", "A"])
    challenge = find(data, {"ce": CE(cues={"Y": ["A"]})}, tasks=["Y"]).set("ce", "Y", "all")
    subsets = [SUBSETS[code] for code in challenge.subset]
    assert subsets == ["easy", "easy", "hard_positive", "hard_negative"]


def test_equality_with_alpha_is_no_cue():
    data = dataset_of([{"Y": 0.25, "A": 0.5, "B": 0.75}], ["Y", "A", "B"])
    assert (CE(0.25).fit(data).strength("A", "Y"), CE(0.25).fit(data).cues("Y")) == (0.25, ("B",))
    assert CE(np.nextafter(0.25, 0)).fit(data).cues("Y") == ("B", "A")


def test_equality_with_beta_is_hard_by_no_cue():
    areas = [{"A": 0.1}, {"A": np.nextafter(0.1, 0)}, {"A": np.nextafter(0.1, 1)}, {}]
    data = dataset_of([{"Y": 0.01, **a} for a in areas] + areas, ["Y", "A"])
    bits = CE(cues={"Y": ["A"]}).fit(data).hard_by_cue(data, "Y", data.labels("Y"))
    assert bits.tolist() == [0, 1, 0, 1, 0, 0, 1, 0]


def test_the_64_strongest_cues_have_bits():
    names = [f"c{k}" for k in range(65)]
    data = dataset_of([{"Y": 0.01}, {"c63": 0.5}, {"c64": 0.5}], ["Y", *names])
    fitted = CE(cues={"Y": names}).fit(data)
    assert fitted.cues("Y") == tuple(names)
    assert fitted.hard_by_cue(data, "Y", data.labels("Y")).tolist() == [2**64 - 1, 2**63, 0]
    assert fitted.support(data, "Y").tolist() == [0, 0.5, 0.5]


def test_a_class_present_with_area_zero_is_a_positive_and_a_cue_of_area_zero_is_absent_context():
    data = dataset_of([{"Y": 0.0, "A": 0.0}, {"Y": 0.0, "A": 0.9}], ["Y", "A"])
    challenge = find(data, {"ce": CE()}, tasks=["Y"]).set("ce", "Y", "all")
    assert challenge.counts.positives == 2
    assert challenge.ids("hard_positive") == [1]


def test_only_training_images_are_fitted_on():
    images = [{"Y": 0.1, "A": 0.4}, {"Y": 0.1, "B": 0.9}, {"Y": 0.1, "B": 0.9}]
    data = dataset_of(images, ["Y", "A", "B"], ["train", "test", "test"])
    record = find(data, {"ce": CE()}, tasks=["Y"]).header.criteria["ce"]
    assert record.cues["Y"] == [("A", pytest.approx(0.3))]


def test_cues_by_hand_replace_those_found_and_need_no_training_image():
    images = [{"Y": 0.1, "A": 0.4, "B": 0.01}, {"B": 0.2}]
    data = dataset_of(images, ["Y", "A", "B"], ["test", "test"])
    suite = find(data, {"ce": CE(cues={"Y": ["B"]})}, tasks=["Y"])
    assert suite.set("ce", "Y", "test").ids("hard") == [1, 2]
    assert suite.header.criteria["ce"].cues["Y"] == [("B", None)]
    fails(lambda: find(data, {"ce": CE()}, tasks=["Y"]), "the split train is empty")


def test_a_task_without_cues_is_listed_with_the_reason():
    data = dataset_of([{"Y": 0.5, "A": 0.1}, {"A": 0.2}, {}], ["Y", "A", "B"])
    suite = find(data, {"ce": CE()})
    reasons = {s.task: s.reason for s in suite.header.skipped}
    assert reasons["Y"] == "no class has A(C, Y) > 0.05; the largest is A(A, Y) = -0.4"
    assert "no training image has the class" in reasons["B"]
    words = "task Y has no ce set: no class has A"
    refused(lambda: suite.set("ce", "Y", "all"), words, helps=False)
    fails(lambda: CE().fit(data).support(data, "Y"), "lower alpha", kind=UndefinedError)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"alpha": 5}, "alpha is 5\n  allowed: a fraction.*\n.*did you mean 0.05"),
        ({"beta": 30}, "beta is 30\n.*\n.*did you mean 0.3"),
        ({"beta": 300}, "beta is 300\n[^\n]*$"),
    ],
)
def test_percentages_are_no_fractions(named, message):
    with pytest.raises(ParameterError, match=message):
        CE(**named)


def test_text_is_no_fraction():
    fails(lambda: CE(alpha="0.1"), "`alpha`: is '0.1', of type str", kind=WrongTypeError)


def test_unknown_areas_are_refused():
    data = dataset_of([{"Y": math.nan, "A": 0.2}], ["Y", "A"])
    fails(lambda: CE().fit(data), "areas are unknown")
    fitted = CE(cues={"Y": ["A"]}).fit(dataset_of([{"Y": 0.1, "A": 0.2}], ["Y", "A"]))
    words = "criteria='context'", "or predict areas: nooch annotate"
    fails(lambda: fitted.support(data, "Y"), *words)


def test_explanations_tell_area_beta_and_strength():
    data = dataset_of([{"Y": 0.1, "A": 0.41}, {"A": 0.05}], ["Y", "A"])
    fitted = CE().fit(data)
    for row, area in enumerate(("41% >", "5% <")):
        text = fitted.explain(data.select(rows=np.array([row])), "Y")
        assert text == f"A covers {area} 10% (A(A, Y) = 0.31)"


CUES = [{"Y": []}, {"Y": ["Y"]}, {"Y": ["A", "A"]}]
NUMBERS = [{"alpha": -0.1}, {"alpha": math.nan}, {"beta": math.inf}]


@pytest.mark.parametrize("arguments", [*NUMBERS, *({"cues": cues} for cues in CUES)])
def test_parameters_out_of_range_are_refused(arguments):
    refused(lambda: CE(**arguments), "ce")


def test_given_cues_that_are_no_classes_are_refused():
    with pytest.raises(ParameterError, match=r"'raod' is not a class.*\n.*\n.*did you mean road"):
        CE(cues={"Y": ["raod"]}).fit(dataset_of([{"Y": 0.1}], ["Y", "road"]))


@pytest.mark.parametrize(
    "change", [{"sums": [[1.0]]}, {"counts": [1]}, {"alpha": "x"}, {"classes": 3}, {"sums": "y"}]
)
def test_json_that_does_not_fit_is_refused(change):
    content = CE().fit(dataset_of([{"Y": 0.1}], ["Y", "A"])).to_json()
    with pytest.raises(FormatError, match="not a fitted CE criterion"):
        FittedCE.from_json({**content, **change})


@given(collections(splits=True), ALPHAS, st.sampled_from([0.0, 0.05, 0.1, 0.3]))
@settings(max_examples=20)
def test_each_bit_is_the_criterion_with_that_cue_alone(collection, alpha, beta):
    images, classes, splits = collection
    if "train" not in splits or "test" not in splits:
        return
    data = dataset_of(images, classes, splits)
    suite = find(data, {"ce": CE(alpha, beta)}, splits=["test"])
    for _, task, split in suite.keys:
        challenge = suite.set("ce", task, split)
        cues = [cue for cue, _ in suite.header.criteria["ce"].cues[task]]
        part = [image for image, of in zip(images, splits, strict=True) if of == split]
        for row, image in enumerate(part):
            bits = [bool(int(challenge.by_cue[row]) >> i & 1) for i in range(64)]
            alone = [naive_ce_subset(image, [cue], task, beta) != "easy" for cue in cues]
            assert bits == alone + [False] * (64 - len(cues))
            # all cues are missing in a hard positive, some cue is there in a hard negative
            hard = all(alone) if task in image else any(alone)
            assert hard == (SUBSETS[challenge.subset[row]] != "easy")
