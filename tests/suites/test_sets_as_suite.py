"""The published sets as a suite: labels from anywhere, in part, and those that contradict."""

import numpy as np
import polars as pl
import pytest
from refusals import fails

from nooch.evaluation import Predictions, evaluate
from nooch.evaluation.scores import without_easy
from nooch.paper.published_sets import published_suite, read_labels, read_published

IDS = list(range(1, 13))
TEST, VALID = [1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12]
TIE = [1, 2, 3, 9, 10]
SETS = {
    "CE_tie_hard_positive_test": [2, 3],
    "CE_tie_hard_negative_test": [4],
    "CE_tie_hard_positive_valid": [9],
    "CE_tie_hard_negative_valid": [11, 12],
    "gist_fire_hydrant_hard_positive_test": [5, 6],
    "gist_fire_hydrant_hard_negative_test": [7],
}
HYDRANT = [5, 6, 8]


def _published(folder, sets=SETS, splits=None):
    folder.mkdir(exist_ok=True)
    for name, ids in sets.items():
        np.save(folder / f"nooch_ids_{name}.npy", np.array(ids, dtype=np.int64))
    splits = {"train": [99], "valid": VALID, "test": TEST} if splits is None else splits
    if splits:
        arrays = {f"{name}_ids": np.array(ids) for name, ids in splits.items()}
        np.savez(folder / "cocostuff_split_image_ids.npz", **arrays)
    return read_published(folder)


def _arrays(ids=IDS):
    labels = np.array([[i in TIE, i in HYDRANT] for i in ids], dtype=np.uint8)
    names = np.array(["tie", "fire hydrant"])
    return {"image_ids": np.array(ids), "labels": labels, "category_names": names}


def _labels(tmp_path, **change):
    np.savez(tmp_path / "labels.npz", **{**_arrays(), **change})
    return read_labels(tmp_path / "labels.npz")


def _ids(challenge):
    return [challenge.ids(subset) for subset in ("hard_positive", "hard_negative", "easy")]


def _agrees(suite, published):
    sets = [(suite.set(p.criterion, p.task, p.split), p) for p in published.sets]
    return all(one.ids(f"hard_{p.side}") == p.ids.tolist() for one, p in sets)


def test_the_sets_are_the_files_and_easy_is_the_rest(tmp_path):
    published = _published(tmp_path / "p")
    suite = published_suite(published, _labels(tmp_path))
    ties = [("ce", "tie", "valid"), ("ce", "tie", "test")]
    assert list(suite.keys) == [*ties, ("gist", "fire_hydrant", "test")]
    tie = suite.set("ce", "tie", "test")
    assert tie.image_ids.to_list() == TEST
    assert tie.labels.tolist() == [i in TIE for i in TEST]
    assert _ids(tie) == [[2, 3], [4], [1, 5, 6, 7, 8]]
    assert tie.support is None
    assert suite.header.dataset.splits == {"train": 0, "valid": 4, "test": 8}
    assert (suite.tasks, suite.splits) == (("fire_hydrant", "tie"), ("valid", "test"))
    assert suite.header.dataset.licenses
    assert _agrees(suite, published)


@pytest.mark.parametrize("kind", ["bool", "float", "shuffled", "text ids"])
def test_labels_from_anywhere_give_the_same_suite(tmp_path, kind):
    published = _published(tmp_path / "p")
    expected = published_suite(published, _labels(tmp_path)).header
    order = np.random.default_rng(0).permutation(len(IDS))
    arrays = _arrays()
    changes = {
        "bool": {"labels": arrays["labels"].astype(bool)},
        "float": {"labels": arrays["labels"].astype(float)},
        "shuffled": {name: arrays[name][order] for name in ("image_ids", "labels")},
        "text ids": {"image_ids": np.array([f"{i:012d}" for i in IDS])},
    }
    labels = _labels(tmp_path, **changes[kind])
    assert published_suite(published, labels).header == expected


@pytest.mark.parametrize("splits", [None, {}])
def test_without_labels_hard_images_alone(tmp_path, splits):
    """Their label is their side's; a file of splits is checked, but not needed."""
    suite = published_suite(_published(tmp_path / "p", splits=splits))
    assert suite.header.hard_only
    tie = suite.set("ce", "tie", "test")
    assert (tie.image_ids.to_list(), tie.labels.tolist()) == ([2, 3, 4], [True, True, False])
    assert _ids(tie) == [[2, 3], [4], []]
    expected = {"valid": 3, "test": 6} | ({"train": 0} if splits is None else {})
    assert suite.header.dataset.splits == expected
    assert _agrees(suite, _published(tmp_path / "p"))
    fails(lambda: suite.in_context("ce", "tie", "test"), "needs the easy images")
    assert suite.only(["tie"]).header.hard_only
    assert not published_suite(_published(tmp_path / "q"), _labels(tmp_path)).header.hard_only


def test_what_weighs_by_a_share_of_all_images_is_null_without_them():
    """The paper's ECE of a subset is weighted by its share of all images."""
    rows = [("hard", "ece_top", 0.5), ("hard", "ece_paper", 0.5)]
    rows += [("easy", "ece_top", None), ("hard", "auc", None)]
    table = pl.DataFrame(rows, schema=["subset", "metric", "value"], orient="row").with_columns(
        pl.col("value").cast(pl.Float64), low=0.1, high=0.9, reason=pl.lit("before")
    )
    for value in ("value", "difference"):
        rest = without_easy(table.rename({"value": value}))
        assert rest[value].to_list() == [0.5, None, None, None]
        assert rest["low"].to_list() == [0.1, None, None, 0.1]
        assert [reason == "before" for reason in rest["reason"]] == [True, False, False, True]


def test_without_labels_the_files_are_checked_still(tmp_path):
    short = _published(tmp_path / "p", splits={"test": TEST[3:], "valid": VALID})
    fails(lambda: published_suite(short), "not in the split: 2, 3")
    both = _published(tmp_path / "q", {**SETS, "CE_tie_hard_negative_test": [3, 4]})
    fails(lambda: published_suite(both), "on both sides: 3")


def test_labels_of_a_part_keep_the_hard_images(tmp_path):
    published = _published(tmp_path / "p")
    part = [1, 2, 4, 9]
    labels = _labels(tmp_path, **_arrays(part))
    suite = published_suite(published, labels)
    tie = suite.set("ce", "tie", "test")
    assert tie.image_ids.to_list() == [1, 2, 3, 4]
    assert tie.labels.tolist() == [True, True, True, False]
    assert tie.ids("easy") == [1]
    assert suite.set("ce", "tie", "valid").image_ids.to_list() == [9, 11, 12]
    # 1 to 4, and 5 to 7, which are hard for the other task
    assert suite.header.dataset.splits == {"train": 0, "valid": 3, "test": 7}
    assert _agrees(suite, published)


@pytest.mark.parametrize("part", [[1, 2, 3, 4], [1, 5, 6, 7], [8], [1, 2, 3, 4, 5]])
def test_sets_of_different_images_are_scored_each_on_its_own(tmp_path, part):
    """A task's set may be as large as the labeled part and hold other images."""
    suite = published_suite(_published(tmp_path / "p"), _labels(tmp_path, **_arrays(part)))
    values = np.where([[i in TIE, i in HYDRANT] for i in TEST], 1.0, -1.0)
    run = Predictions.from_arrays(values, TEST, ["tie", "fire_hydrant"], scale="logit")
    scores = evaluate(suite, run, reading={"ignore_unknown": True})
    for criterion, task in (("ce", "tie"), ("gist", "fire_hydrant")):
        assert scores.value("error", "all", criterion=criterion, task=task) == 0
        assert scores.value("auc", "hard", criterion=criterion, task=task) == 1
        row = scores.table.filter(criterion=criterion, task=task, subset="all", metric="auc")
        assert row["n"].item() == len(suite.set(criterion, task, "test"))


@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        ([2], ["ce, tie, test", "1 hard positives have the other label: 2", "COCO 2017"]),
        ([4], ["ce, tie, test", "1 hard negatives have the other label: 4"]),
        ([11, 12], ["ce, tie, valid", "2 hard negatives have the other label: 11, 12"]),
    ],
)
def test_labels_that_contradict(tmp_path, ids, parts):
    arrays = _arrays()
    arrays["labels"][np.isin(IDS, ids), 0] ^= 1
    labels = _labels(tmp_path, **arrays)
    fails(lambda: published_suite(_published(tmp_path / "p"), labels), *parts)


def _without(name):
    return {key: ids for key, ids in SETS.items() if key != name}


COW = {"CE_cow_hard_positive_test": [1], "CE_cow_hard_negative_test": [2]}
SHORT = {"test": TEST[3:], "valid": VALID}
BOTH = {**SETS, "CE_tie_hard_negative_test": [3, 4]}


@pytest.mark.parametrize(
    ("sets", "splits", "parts"),
    [
        (_without("CE_tie_hard_negative_test"), None, ["tie, test", "has only the positive side"]),
        (_without("CE_tie_hard_positive_valid"), None, ["tie, valid", "only the negative side"]),
        (SETS, {"valid": VALID}, ["has no test_ids", "valid_ids"]),
        (SETS, SHORT, ["ce, tie, test", "hard positives are not in the split: 2, 3"]),
        (SETS | COW, None, ["no labels of cow", "tie"]),
        (BOTH, None, ["hard negatives have the other label: 3"]),
    ],
)
def test_folders_that_are_not_whole(tmp_path, sets, splits, parts):
    published = _published(tmp_path / "p", sets, splits)
    labels = _labels(tmp_path)
    fails(lambda: published_suite(published, labels), *parts)


def test_images_of_other_splits_do_no_harm(tmp_path):
    splits = {"test": TEST[:-1], "valid": VALID, "train": [3]}
    assert published_suite(_published(tmp_path / "p", splits=splits), _labels(tmp_path))


def test_an_image_on_both_sides(tmp_path):
    published = _published(tmp_path / "p", BOTH)
    labels = _labels(tmp_path, **_arrays([1, 2, 4]))
    fails(lambda: published_suite(published, labels), "ce, tie, test", "on both sides: 3")


def test_without_the_file_of_splits(tmp_path):
    published, labels = _published(tmp_path / "p", splits={}), _labels(tmp_path)
    words = "cocostuff_split_image_ids.npz"
    fails(lambda: published_suite(published, labels), words, helps=False)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"labels": np.full((12, 2), 2)}, ["more than 0 and 1"]),
        ({"labels": np.full((12, 2), np.nan)}, ["more than 0 and 1"]),
        ({"labels": np.full((12, 2), "1")}, ["more than 0 and 1"]),
        ({"labels": np.zeros((12, 3))}, ["shape (12, 3) for 12 images and 2 classes"]),
        ({"labels": np.zeros(12)}, ["shape (12,)"]),
        ({"labels": np.zeros((11, 2))}, ["shape (11, 2)"]),
        ({"image_ids": np.array([1, 1, *IDS[2:]])}, ["more than once: 1", "each image once"]),
        ({"image_ids": np.array([f"img_{i}" for i in IDS])}, ["are text: img_1", "integers"]),
        ({"image_ids": np.array(IDS) + 0.5}, ["image ids that are not whole numbers", "1.5"]),
        ({"image_ids": np.array([{}] * 12, dtype=object)}, ["cannot be read"]),
        ({"category_names": np.array(["tie", "tie"])}, ["classes occur more than once: tie"]),
        (
            {"category_names": np.array(["fire hydrant", "fire_hydrant"])},
            ["more than once: fire_hydrant"],
        ),
        ({"category_names": np.array("tie")}, ["for 12 images and 1 classes"]),
        ({"category_names": np.array(["tie", " "])}, ["empty name"]),
    ],
)
def test_labels_that_are_refused(tmp_path, change, parts):
    helps = "empty name" not in parts
    fails(lambda: _labels(tmp_path, **change), *parts, "labels.npz", helps=helps)


def test_what_is_no_labels(tmp_path):
    fails(lambda: read_labels(tmp_path), "cannot be read", "image_ids")
    fails(lambda: read_labels(tmp_path / "none.npz"), "cannot be read", "image_ids")
    np.savez(tmp_path / "part.npz", image_ids=IDS)
    fails(lambda: read_labels(tmp_path / "part.npz"), "has no array labels, category_names")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    fails(lambda: read_labels(tmp_path / "broken.npz"), "cannot be read")


def test_the_fingerprint_is_of_the_sets(tmp_path):
    labels = _labels(tmp_path)
    other = {**SETS, "CE_tie_hard_negative_test": [4, 5]}
    one, same, changed = (
        published_suite(_published(tmp_path / name, sets), labels).header.dataset.fingerprint
        for name, sets in (("p", SETS), ("q", SETS), ("r", other))
    )
    assert one == same != changed
    assert one.startswith("published-")
