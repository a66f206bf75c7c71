"""The authors' 96 files, Table 2, and verify."""

import csv

import numpy as np
import pytest
from oracles import dataset_of

from nooch.criteria import CE
from nooch.errors import InputError
from nooch.finding.suite_builder import find
from nooch.published import NOOCH_TASKS, paper_tasks, read_published, verify


@pytest.fixture
def published(shared_data):
    return read_published(shared_data / "nooch-published")


def test_table_2_is_carried_as_it_is(shared_data):
    with (shared_data.parent / "paper" / "nooch_tasks.csv").open() as file:
        rows = {row["task"]: row for row in csv.DictReader(file)}
    assert tuple(rows) == NOOCH_TASKS
    for name, task in paper_tasks().items():
        row = rows[name]
        assert task.hard_positives == int(row["test_hard_positives"])
        assert task.hard_negatives == int(row["test_hard_negatives"])
        assert task.positives == int(row["test_positives"])
        assert task.tau["valid", "negative"] == float(row["gist_tau_negative_valid"])


def test_all_96_files_are_read_and_their_counts_are_table_2(published):
    assert len(published.sets) == 96
    assert {p.task for p in published.sets} == set(NOOCH_TASKS)
    counts = {(p.criterion, p.task, p.split, p.side): len(p.ids) for p in published.sets}
    for task in paper_tasks().values():
        for criterion in ("ce", "gist"):
            assert counts[criterion, task.task, "test", "positive"] == task.hard_positives
            assert counts[criterion, task.task, "test", "negative"] == task.hard_negatives
        for side in ("positive", "negative"):
            assert (
                counts["ce", task.task, "valid", side] == counts["gist", task.task, "valid", side]
            )


def test_published_ids_lie_in_their_split(published):
    assert {name: len(ids) for name, ids in published.splits.items()} == {
        "train": 86302,
        "valid": 12328,
        "test": 24657,
    }
    for one in published.sets:
        assert np.isin(one.ids, published.splits[one.split]).all()


def test_every_hard_positive_is_a_positive_by_the_derived_labels(published, shared_data):
    with np.load(shared_data / "coco-stats" / "derived_coco_thing_labels_123287x80.npz") as arrays:
        ids, labels = arrays["image_ids"], arrays["labels"]
        names = [str(name).replace(" ", "_") for name in arrays["category_names"]]
    order = np.argsort(ids)
    positives = dict.fromkeys(NOOCH_TASKS, 0)
    for one in published.sets:
        rows = order[np.searchsorted(ids, one.ids, sorter=order)]
        assert (ids[rows] == one.ids).all()
        assert (labels[rows, names.index(one.task)] == (one.side == "positive")).all()
    test = np.isin(ids, published.splits["test"])
    for task in paper_tasks().values():
        positives[task.task] = int(labels[test, names.index(task.task)].sum())
    assert positives == {task.task: task.positives for task in paper_tasks().values()}


def _folder(tmp_path, files, splits=None):
    for name, ids in files.items():
        np.save(tmp_path / f"nooch_ids_{name}.npy", np.array(ids, dtype=np.int64))
    if splits:
        np.savez(
            tmp_path / "cocostuff_split_image_ids.npz",
            **{f"{k}_ids": np.array(v) for k, v in splits.items()},
        )
    return read_published(tmp_path)


def test_verify_restricts_to_what_both_have(tmp_path):
    published = _folder(
        tmp_path,
        {
            "CE_tie_hard_positive_test": [2, 3, 90],
            "CE_tie_hard_negative_test": [4],
            "CE_kite_hard_positive_test": [1],
        },
        {"test": [1, 2, 3, 4, 5, 90, 91], "valid": [6], "train": [7]},
    )
    images = [
        {"tie": 0.1, "person": 0.4},
        {"tie": 0.1},
        {"tie": 0.1, "person": 0.3},
        {"person": 0.5},
        {"person": 0.6},
        {"tie": 0.1},
    ]
    suite = find(
        dataset_of(images, ["tie", "person"]), {"ce": CE(cues={"tie": ["person"]})}, tasks="tie"
    )
    negative, positive = verify(suite, published)
    assert (positive.published, positive.covered, positive.found, positive.both) == (3, 2, 1, 1)
    # image 6 is a hard positive, but belongs to the published validation split
    assert (positive.only_published, positive.only_found, positive.jaccard, positive.images) == (
        [3],
        [],
        0.5,
        5,
    )
    assert (negative.covered, negative.found, negative.only_found, negative.jaccard) == (
        1,
        2,
        [5],
        0.5,
    )
    assert positive.mislabelled == negative.mislabelled == 0


def test_verify_counts_ids_that_have_the_other_label(tmp_path):
    published = _folder(tmp_path, {"CE_tie_hard_positive_test": [1, 2]})
    suite = find(
        dataset_of([{"tie": 0.1}, {"person": 0.4}], ["tie", "person"]),
        {"ce": CE(cues={"tie": ["person"]})},
        tasks="tie",
    )
    (verdict,) = verify(suite, published)
    assert verdict.mislabelled == 1


def test_a_task_without_a_set_is_told_with_the_reason(tmp_path):
    published = _folder(tmp_path, {"CE_tie_hard_positive_test": [1]})
    suite = find(dataset_of([{"tie": 0.5}], ["tie", "person"]), {"ce": CE()}, tasks="tie")
    (verdict,) = verify(suite, published)
    assert verdict.reason.startswith("no class has A(C, tie)")
    assert verdict.jaccard is None


def test_bad_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        read_published(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no published set"):
        read_published(tmp_path)
    np.save(tmp_path / "nooch_ids_CE_tie_hard_positive_test.npy", np.array([1.5]))
    with pytest.raises(InputError, match="integer image ids"):
        read_published(tmp_path)
    np.save(tmp_path / "nooch_ids_CE_tie_hard_positive_test.npy", np.array([1, 1]))
    with pytest.raises(InputError, match="more than once: 1"):
        read_published(tmp_path)
    np.save(
        tmp_path / "nooch_ids_CE_tie_hard_positive_test.npy",
        np.array([{}], dtype=object),
        allow_pickle=True,
    )
    with pytest.raises(InputError, match="cannot be read"):
        read_published(tmp_path)


def test_suites_that_cannot_be_compared_are_refused(tmp_path):
    published = _folder(tmp_path, {"CE_tie_hard_positive_test": [1]})
    suite = find(
        dataset_of([{"cat": 0.5, "sofa": 0.6}], ["cat", "sofa"]), {"ce": CE()}, tasks="cat"
    )
    with pytest.raises(InputError, match="shares no criterion and task"):
        verify(suite, published)
    text = find(
        dataset_of([{"tie": 0.1, "person": 0.5}], ["tie", "person"], ids=["a"]),
        {"ce": CE()},
        tasks="tie",
    )
    with pytest.raises(InputError, match="text"):
        verify(text, published)
