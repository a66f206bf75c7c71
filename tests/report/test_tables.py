"""ids, npy and csv: what they hold, held to a slow reading of the suite."""

import csv
import json
import string
from dataclasses import replace
from functools import partial
from itertools import product
from urllib.parse import unquote

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from oracles import suite_rows
from refusals import fails, refused

from nooch.base.errors import OutputError
from nooch.criteria import CE
from nooch.report.exports.contract import Names, safe_name
from nooch.report.exports.export import export
from nooch.suites.find import find
from nooch.suites.published import published_suite, read_labels, read_published

SIDES = ("hard_positive", "hard_negative")


def true_name(safe):
    """What ``safe_name`` made safe."""
    return unquote(safe.replace("+", "%"))


def test_ids_hold_the_suite(made, tmp_path):
    export(made.suite, "ids", tmp_path / "below" / "ids.json")
    found = json.loads((tmp_path / "below" / "ids.json").read_text())
    assert (found["format"], found["version"]) == ("nooch-ids", 1)
    assert [(s["criterion"], s["task"], s["split"]) for s in found["sets"]] == list(made.suite.keys)
    assert any(s["hard_positive"] for s in found["sets"])
    for one in found["sets"]:
        key = one["criterion"], one["task"], one["split"]
        assert {side: one.pop(side) for side in SIDES} == {
            side: made.suite.set(*key).ids(side) for side in SIDES
        }
        assert one == msgspec.to_builtins(made.suite.record(*key))
    assert [cue for cue, _ in found["criteria"]["ce"]["cues"]["car"]] == ["road"]
    assert found["criteria"]["~ce"]["expression"] == "~ce"
    assert "fitted" not in found["criteria"]["ce"]
    assert found["dataset"]["fingerprint"] == made.data.fingerprint


def test_no_place_on_a_machine_gets_into_an_export(made, tmp_path):
    for name in ("ids", "npy", "csv", "hf"):
        export(made.suite, name, tmp_path / name, data=made.data)
    written = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    for place in (b"../dataset", str(made.folder).encode(), str(tmp_path).encode()):
        assert not any(place in content for content in written)


def test_the_fingerprint_is_the_suites_wherever_it_lies(made, tmp_path, make_suite):
    def fingerprint(suite):
        export(suite, "ids", tmp_path / "ids.json", overwrite=True)
        return json.loads((tmp_path / "ids.json").read_text())["suite"]["fingerprint"]

    first = make_suite({"ce": ["car"]}, [1, 2, 3, 4], path="here")
    moved = make_suite({"ce": ["car"]}, [1, 2, 3, 4], path="there")
    assert fingerprint(first) == fingerprint(moved)
    assert fingerprint(first) != fingerprint(make_suite({"ce": ["car"]}, [1, 2, 3, 5], path="here"))


def test_tasks_without_a_set_are_listed_with_the_reason(made, tmp_path):
    criteria = {"ce": CE(alpha=0.99), "hand": CE(cues={"car": ("road",)})}
    suite = find(made.data, criteria, tasks=["car"])
    export(suite, "ids", tmp_path / "ids.json", criteria=["hand"])
    skipped = json.loads((tmp_path / "ids.json").read_text())["skipped"]
    assert [(s["criterion"], s["task"]) for s in skipped] == [("ce", "car")]
    assert "no class has A(C, car) > 0.99" in skipped[0]["reason"]
    refused(lambda: export(suite, "ids", tmp_path / "none", criteria=["ce"]), "ce car", "A(C, car)")


def test_ids_go_only_where_they_may(made, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for out, words, overwrite in (
        (tmp_path / "file" / "ids.json", "is a file", False),
        (tmp_path, "not replaced", True),
        (tmp_path / "link", "exists already", True),
    ):
        write = partial(export, made.suite, "ids", out, overwrite=overwrite)
        fails(write, words, kind=OutputError)


def test_npy_reads_back_as_the_published_sets_do(made, tmp_path):
    done = export(made.suite, "npy", tmp_path / "out", data=made.data, criteria=["ce"])
    found = read_published(tmp_path / "out")
    assert len(found.sets) == 2 * 2 * 2
    for one in found.sets:
        expected = made.suite.set("ce", one.task, one.split).ids(f"hard_{one.side}")
        assert one.ids.tolist() == expected
        assert one.criterion == "ce"
    ids = made.data.images.select("split", "image_id").rows()
    assert {s: i.tolist() for s, i in found.splits.items()} == {
        split: [i for s, i in ids if s == split] for split in ("train", "valid", "test")
    }
    assert "nooch_ids_CE_fire_hydrant_hard_negative_valid.npy" in done.files
    stored = np.load(tmp_path / "out/nooch_ids_CE_car_hard_positive_test.npy", allow_pickle=False)
    assert stored.dtype == np.int64


def test_the_authors_files_go_in_and_come_out(shared_data, tmp_path):
    folder = shared_data / "nooch-published"
    labels = read_labels(shared_data / "coco-stats" / "derived_coco_thing_labels_123287x80.npz")
    suite = published_suite(read_published(folder), labels)
    done = export(suite, "npy", tmp_path / "out")
    originals = sorted(folder.glob("nooch_ids_*.npy"))
    written = [name for name in done.files if name.startswith("nooch_ids_")]
    assert written == [p.name for p in originals]
    assert len(originals) == 96
    for path in originals:
        ids = np.load(tmp_path / "out" / path.name, allow_pickle=False)
        assert ids.tolist() == sorted(np.load(path, allow_pickle=False).tolist())
    export(suite, "hf", tmp_path / "hf", criteria=["gist"], tasks=["cup"])
    export(suite, "ids", tmp_path / "ids")


def test_npy_without_the_dataset_has_the_ids_of_its_sets(made, tmp_path):
    done = export(made.suite, "npy", tmp_path / "out")
    assert any("no verdict" in text for text in done.notes)
    splits = read_published(tmp_path / "out").splits
    assert set(splits) == {"valid", "test"}
    assert splits["test"].tolist() == made.suite.set("ce", "car", "test").image_ids.to_list()


def test_npy_of_a_split_that_the_authors_do_not_have_says_so(make_suite, tmp_path):
    done = export(make_suite({"ce": ["car"]}, [1, 2, 3, 4], split="all"), "npy", tmp_path / "out")
    assert any("all" in text and "valid and test" in text for text in done.notes)
    assert "nooch_ids_CE_car_hard_positive_all.npy" in done.files


def test_npy_refuses_ids_that_are_text(make_suite, tmp_path):
    suite = make_suite({"ce": ["car"]}, ["a", "b", "c", "d"])
    fails(lambda: export(suite, "npy", tmp_path / "out"), "text")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "task", ["a/b", "..", "../../x", "C:\\x", "a\nb", ".hidden", "x" * 70 + "é", "*?[a]", "a+2Fb"]
)
def test_names_of_tasks_never_lead_elsewhere(make_suite, tmp_path, task):
    suite = make_suite({"ce": [task]}, [1, 2, 3, 4])
    export(suite, "npy", tmp_path / "out")
    found = read_published(tmp_path / "out").sets
    assert {true_name(one.task) for one in found} == {task}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert all(p.parent == tmp_path / "out" for p in (tmp_path / "out").rglob("*"))


@given(st.text(min_size=1))
def test_safe_names_are_safe_and_can_be_undone(name):
    safe = safe_name(name.encode(errors="replace").decode())
    assert true_name(safe) == name.encode(errors="replace").decode()
    assert not set(safe) - set(f"{string.ascii_letters}{string.digits}_.=-+")
    assert not safe.startswith(".")


def test_two_things_never_share_a_file(make_suite, tmp_path):
    same = ({"my_a": ["b"], "my": ["a_b"]}, {"ce": ["Car", "car"]}, {"ce": ["x"], "CE": ["x"]})
    for names in same:
        write = partial(export, make_suite(names, [1, 2, 3, 4]), "npy", tmp_path / "out")
        refused(write, "would both be written")
        assert list(tmp_path.iterdir()) == []
    names = Names()
    assert names.take("a", "one") == names.take("a", "one") == "a"


def rows_of(folder, name):
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_csv_says_what_context_suggests(made, tmp_path):
    export(made.suite, "csv", tmp_path / "out", data=made.data)
    expected = {}
    for image_id, criterion, task, split, y, subset, _ in suite_rows(made.suite):
        # hard: context suggests the other label
        suggested = y if subset == "easy" else 1 - y
        row = (split, f"{image_id:012d}.jpg", y, suggested, image_id, subset)
        expected.setdefault((criterion, task), []).append(tuple(map(str, row)))
    assert set(expected) == set(product(("ce", "~ce"), ("car", "fire_hydrant")))
    for (criterion, task), listed in expected.items():
        folder = {"ce": "ce", "~ce": "+7Ece"}[criterion]
        rows = rows_of(tmp_path / "out", f"{folder}/{task}.csv")
        assert list(rows[0])[:4] == ["split", "filename", "y", "a"]
        columns = ("split", "filename", "y", "a", "image_id", "subset")
        assert [tuple(row[column] for column in columns) for row in rows] == listed
        assert len({(row["y"], row["a"]) for row in rows}) == 4
    supports = [row["support"] for row in rows_of(tmp_path / "out", "ce/car.csv")]
    pairs = [made.suite.set("ce", "car", split).support for split in ("valid", "test")]
    assert [float(text) for text in supports] == np.concatenate(pairs).tolist()
    assert {row["support"] for row in rows_of(tmp_path / "out", "+7Ece/car.csv")} == {""}


def _renamed(made, names):
    """The dataset with other names of its first files, and a suite found in it."""
    names = [*names, *made.data.images["file_name"][len(names) :]]
    series = pl.Series("file_name", names, dtype=pl.String)
    data = replace(made.data, images=made.data.images.with_columns(series))
    splits = ["train", "valid", "test"]
    return data, find(data, {"ce": CE(cues={"car": ("road",)})}, tasks=["car"], splits=splits)


def test_csv_keeps_every_file_name(made, tmp_path):
    data, suite = _renamed(made, ['a,"b".jpg', "line\nbreak.jpg", " space.jpg", "é.jpg"])
    export(suite, "csv", tmp_path / "out", data=data)
    listed = {row["filename"] for row in rows_of(tmp_path / "out", "ce/car.csv")}
    assert listed == set(data.images["file_name"])


def test_csv_needs_a_file_name_for_each_image(made, tmp_path):
    data, suite = _renamed(made, [None])
    write = partial(export, suite, "csv", tmp_path / "out", data=data)
    fails(write, "1 images", "no file name")
    assert list(tmp_path.iterdir()) == []
