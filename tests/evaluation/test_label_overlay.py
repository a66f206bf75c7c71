"""Corrected labels: RePOPE's files and verdicts of reviewers, and what they change."""

import json

import numpy as np
import polars as pl
import pytest
from refusals import fails
from scipy.sparse import csr_array

from nooch.base.files import sha256_of
from nooch.data import Dataset
from nooch.suites import load_suite
from nooch.suites.label_overlay import read_label_overlay

TASKS = ["tie", "sports_ball"]
DATA = Dataset.build(pl.DataFrame({"image_id": [1, 22, 333]}), TASKS, csr_array((3, 2)))


@pytest.fixture
def read(tmp_path):
    """Reads records, each list a file."""

    def read(*files):
        paths = [tmp_path / f"{number}.json" for number in range(len(files))]
        for path, records in zip(paths, files, strict=True):
            path.write_text(json.dumps(records))
        return read_label_overlay(paths, DATA)

    return read


def _said(verdict, reviewer=None, time=None, image=22):
    row = {"image_id": image, "task": "tie", "verdict": verdict}
    return row | {k: v for k, v in (("reviewer", reviewer), ("time", time)) if v is not None}


def test_a_table_and_repopes_files_say_the_same(tmp_path):
    suite = load_suite("nooch-coco").only(TASKS)
    ids = suite.set("ce", "tie", "test").ids("hard")[:2]
    rows = [(ids[0], "tie", "yes"), (ids[1], "sports ball", "No"), (ids[1], "zebra", "no")]
    table = pl.DataFrame(rows, schema=["image_id", "task", "verdict"], orient="row")
    table.write_csv(tmp_path / "v.csv")
    records = [
        {
            "image": f"COCO_val2014_{image:012d}.jpg",
            "text": f"Is there a {task} in the image?",
            "label": label.lower(),
        }
        for image, task, label in [*rows, (7, "tie", "no")]
    ]
    (tmp_path / "r.json").write_text("\n".join(map(json.dumps, records)))
    expected = [(ids[0], "tie", True), (ids[1], "sports_ball", False)]
    for name in ("v.csv", "r.json"):
        overlay = read_label_overlay(tmp_path / name, suite)
        assert overlay.frame.rows() == expected
        assert overlay.record.files == [sha256_of(tmp_path / name)]
        outside = "1 record" if name == "v.csv" else "2 records"
        assert overlay.record.notes[0].endswith(
            f"known here; {outside} on other images or tasks left out"
        )


@pytest.mark.parametrize(
    ("records", "verdict", "differ"),
    [
        ([_said("ambiguous")], None, False),
        ([_said("yes"), _said("yes")], True, False),
        # one reviewer: the latest, wherever it stands
        ([_said("no", "a", "2026-02-02"), _said("yes", "a", "2026-01-01")], False, False),
        ([_said("no", "a"), _said("yes", "a", "2026-01-01")], True, False),
        # several: the majority, else ambiguous
        ([_said("no", "a"), _said("yes", "b"), _said("no", "c")], False, True),
        ([_said("no", "a"), _said("yes", "b")], None, True),
        ([_said("no", "a", "1"), _said("yes", "a", "2"), _said("yes", "b", "1")], True, False),
    ],
)
def test_reviewers(read, records, verdict, differ):
    for files in ([records], [[record] for record in records]):
        overlay = read(*files)
        assert overlay.frame.rows() == [(22, "tie", verdict)]
        notes = ["corrected labels: 1 verdict on images and tasks known here"]
        notes += ["reviewers differ on 1 verdict: 22 (tie)"] if differ else []
        assert overlay.record.notes == notes


@pytest.mark.parametrize(
    ("records", "part"),
    [
        ([_said("maybe")], "record 1 is not a verdict"),
        ([_said("yes"), _said("no")], "record 2 contradicts an earlier verdict on image 22, tie"),
        ([_said("yes", "a", "1"), _said("no", "a", "1")], "record 2 contradicts"),
        ([{"image": "7.jpg", "text": "x"}], "record 1 is not a verdict"),
        ([{"task": "tie", "verdict": "yes"}], "record 1 is not a verdict"),
    ],
)
def test_refused_verdicts(read, records, part):
    fails(lambda: read(records), part, "0.json")


def test_verdicts_take_the_place_of_labels(read):
    overlay = read([_said("yes", image=1), _said("ambiguous", image=333), _said("no", image=22)])
    ids, before = pl.Series([1, 5, 22, 333]), np.array([False, True, True, True])
    labels, judged, ambiguous = overlay.applied("tie", ids, before)
    assert labels.tolist() == [True, True, False, True]
    assert judged.tolist() == [True, False, True, False]
    assert ambiguous.tolist() == [False, False, False, True]
    assert before.tolist() == [False, True, True, True]
    labels, judged, _ = overlay.applied("sports_ball", ids, before)
    assert labels.tolist() == before.tolist()
    assert not judged.any()
