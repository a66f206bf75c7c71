"""The authors' 96 files, Table 2, and verify."""

import numpy as np
import pytest
from oracles import dataset_of
from refusals import fails

from nooch.analysis.verify import verify
from nooch.base.errors import InputError
from nooch.criteria import CE
from nooch.suites.find import find
from nooch.suites.published import read_published
from nooch.suites.published_counts import NOOCH_TASKS, paper_tasks


@pytest.fixture
def published(shared_data):
    return read_published(shared_data / "nooch-published")


def test_all_96_files_are_read_and_their_counts_are_table_2(published):
    assert len(published.sets) == 96
    assert {p.task for p in published.sets} == set(NOOCH_TASKS)
    counts = {(p.criterion, p.task, p.split, p.side): len(p.ids) for p in published.sets}
    for task in paper_tasks().values():
        for criterion in ("ce", "gist"):
            assert counts[criterion, task.task, "test", "positive"] == task.hard_positives
            assert counts[criterion, task.task, "test", "negative"] == task.hard_negatives
        for side in ("positive", "negative"):
            ce, gist = (counts[c, task.task, "valid", side] for c in ("ce", "gist"))
            assert ce == gist


def test_published_ids_lie_in_their_split(published):
    sizes = {name: len(ids) for name, ids in published.splits.items()}
    assert sizes == {"train": 86302, "valid": 12328, "test": 24657}
    for one in published.sets:
        assert np.isin(one.ids, published.splits[one.split]).all()


def test_every_hard_positive_is_a_positive_by_the_derived_labels(published, shared_data):
    with np.load(shared_data / "coco-stats" / "derived_coco_thing_labels_123287x80.npz") as arrays:
        ids, labels = arrays["image_ids"], arrays["labels"]
        names = [str(name).replace(" ", "_") for name in arrays["category_names"]]
    order = np.argsort(ids)
    for one in published.sets:
        rows = order[np.searchsorted(ids, one.ids, sorter=order)]
        assert (ids[rows] == one.ids).all()
        assert (labels[rows, names.index(one.task)] == (one.side == "positive")).all()
    test = np.isin(ids, published.splits["test"])
    for task in paper_tasks().values():
        assert labels[test, names.index(task.task)].sum() == task.positives


def _folder(path, sets, splits=None):
    for name, ids in sets.items():
        np.save(path / f"nooch_ids_{name}.npy", np.array(ids, dtype=np.int64))
    if splits:
        arrays = {f"{name}_ids": np.array(ids) for name, ids in splits.items()}
        np.savez(path / "cocostuff_split_image_ids.npz", **arrays)
    return read_published(path)


def _suite(images, ids=None):
    data = dataset_of(images, ["tie", "person"], ids=ids)
    return find(data, {"ce": CE(cues={"tie": ["person"]})}, tasks="tie")


def test_verify_restricts_to_what_both_have(tmp_path):
    sets = {
        "CE_tie_hard_positive_test": [2, 3, 90],
        "CE_tie_hard_negative_test": [4],
        "CE_kite_hard_positive_test": [1],
    }
    splits = {"test": [1, 2, 3, 4, 5, 90, 91], "valid": [6], "train": [7]}
    published = _folder(tmp_path, sets, splits)
    ties = [{"tie": 0.1, "person": 0.4}, {"tie": 0.1}, {"tie": 0.1, "person": 0.3}]
    suite = _suite([*ties, {"person": 0.5}, {"person": 0.6}, {"tie": 0.1}])
    table = verify(suite, published, bootstrap=0).filter(task="tie", metric="jaccard")
    counts = ["images", "first", "second", "both", "only_first", "only_second"]
    found = {row["set"]: row for row in table.to_dicts()}
    positive, negative = found["hard_positive"], found["hard_negative"]
    # image 6 is a hard positive, but belongs to the published validation split; 90 is not there
    assert [positive[name] for name in counts] == [5, 1, 2, 1, 1, 1]
    assert [negative[name] for name in counts] == [5, 2, 1, 1, 1, 1]
    assert positive["value"] == negative["value"] == 0.5


def test_an_image_of_the_other_label_is_in_another_set(tmp_path):
    published = _folder(tmp_path, {"CE_tie_hard_positive_test": [1, 2]})
    table = verify(_suite([{"tie": 0.1}, {"person": 0.4}]), published, bootstrap=0)
    row = table.filter(task="tie", metric="jaccard", set="hard_positive").row(0, named=True)
    assert (row["first"], row["second"], row["both"]) == (1, 2, 1)


def test_bad_folders_are_refused(tmp_path):
    fails(lambda: read_published(tmp_path / "nowhere"), "no such folder", helps=False)
    fails(lambda: read_published(tmp_path), "contains no published set")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([1.5]), "integer image ids"),
        (np.array([1, 1]), "more than once: 1"),
        (np.array([{}], dtype=object), "cannot be read"),
    ],
)
def test_bad_files_are_refused(tmp_path, ids, message):
    np.save(tmp_path / "nooch_ids_CE_tie_hard_positive_test.npy", ids, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        read_published(tmp_path)


def test_suites_that_cannot_be_compared_are_refused(tmp_path):
    published = _folder(tmp_path, {"CE_tie_hard_positive_test": [1]})
    cats = dataset_of([{"cat": 0.5, "sofa": 0.6}], ["cat", "sofa"])
    with pytest.raises(InputError, match="share no criterion, task and image"):
        verify(find(cats, {"ce": CE()}, tasks="cat"), published)
    named = _suite([{"tie": 0.1, "person": 0.5}], ids=["a"])
    fails(lambda: verify(named, published), "text", helps=False)
