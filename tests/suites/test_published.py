"""The authors' 96 files, and Table 2."""

import numpy as np
import pytest
from refusals import fails

from nooch.base.errors import InputError
from nooch.paper.published_sets import read_published
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
