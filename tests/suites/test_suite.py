"""The suite and its folder."""

import json
import math
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from altered_files import write_header
from hypothesis import given
from oracles import collections, dataset_of
from refusals import fails, refused
from same_datasets import same_suite

from nooch.base.errors import FormatError, OutputError, ParameterError
from nooch.criteria import CE, Combination, Context, Gist
from nooch.evaluation.explain import explain
from nooch.suites import SUBSETS, load_suite, save_suite
from nooch.suites.find import find
from nooch.suites.search import resolve_tasks
from nooch.suites.summary import overlaps, summary


def _suite(ids=None):
    images = [
        {"Y": 0.1, "A": 0.4},
        {"Y": 0.1},
        {"Y": 0.1, "A": 0.05},
        {"A": 0.5},
        {"A": 0.6},
        {},
        {"Y": 0.2, "A": 0.5},
        {"A": 0.02},
    ]
    splits = ["train", "train", "valid", "valid", "test", "test", "test", "test"]
    vectors = [[1, 0], [0, 1], [0.9, 0.1], [1, 0.1], [math.nan] * 2, [0.5, 0.5], [0.2, 1], [1, 1]]
    data = dataset_of(images, ["Y", "A", "B"], splits, ids).with_embedding("e", np.array(vectors))
    criteria = {"ce": CE(), "gist": Gist("e"), "ce & ~gist": Combination("ce & ~gist")}
    return find(data, criteria, match="ce"), data


def test_matched_counts_and_thresholds():
    suite, _ = _suite()
    for split in ("valid", "test"):
        ce, gist = (suite.set(c, "Y", split) for c in ("ce", "gist"))
        assert ce.counts.hard_positives == gist.counts.hard_positives
        record = suite.record("gist", "Y", split)
        short = record.missing_negatives
        assert ce.counts.hard_negatives == gist.counts.hard_negatives + short
    assert suite.header.criteria["gist"].match == "ce"
    reasons = {s.task: s.reason for s in suite.header.skipped if s.criterion == "gist"}
    assert reasons["B"].startswith("no training image")
    assert reasons["A"].startswith("its counts come from ce: no class has A(C, A)")


@pytest.mark.parametrize("ids", [None, list("abcdefgh")])
def test_the_folder_gives_back_every_set(tmp_path, ids):
    suite, _ = _suite(ids)
    again = load_suite(save_suite(suite, tmp_path / "suite"))
    assert again.header == msgspec.convert(msgspec.to_builtins(suite.header), type(suite.header))
    for key in suite.keys:
        one, other = suite.set(*key), again.set(*key)
        for name in ("counts", "positive", "negative", "excluded"):
            assert getattr(one, name) == getattr(other, name)
        assert one.image_ids.to_list() == other.image_ids.to_list()
        assert np.array_equal(one.subset, other.subset)
        assert np.array_equal(one.labels, other.labels)
        assert (one.support is None) == (other.support is None)
        if one.support is not None:
            assert np.array_equal(one.support, other.support)
        assert (one.by_cue is None) == (other.by_cue is None) == (key[0] != "ce")
        if one.by_cue is not None:
            assert one.by_cue.dtype == other.by_cue.dtype == np.uint64
            assert np.array_equal(one.by_cue, other.by_cue)


def test_the_first_sets_are_kept_and_the_others_read_again(tmp_path, monkeypatch):
    suite, _ = _suite()
    again = load_suite(save_suite(suite, tmp_path / "suite"))
    first = next(iter(suite.keys))
    monkeypatch.setattr("nooch.suites.suite_folder._MOST_ROWS", len(suite.set(*first)))
    for key in suite.keys:
        one, other = again.set(*key), again.set(*key)
        assert (one is other) == (key == first)
        assert one.table.equals(other.table)
        assert one.table.equals(suite.set(*key).table)


def test_the_table_is_the_one_of_the_design(tmp_path):
    suite, _ = _suite()
    path = save_suite(suite, tmp_path / "suite") / "challenge_sets.parquet"
    table = pl.read_parquet(path)
    names = "criterion task split image_id label support subset by_cue"
    assert table.columns == names.split()
    assert table["subset"].dtype == pl.Enum(SUBSETS)
    assert table.select("criterion", "task", "split", "image_id").is_unique().all()
    groups = table.select("criterion", "task").unique().height
    file = pq.ParquetFile(path)
    assert file.num_row_groups == groups
    for number in range(groups):
        part = pl.from_arrow(file.read_row_group(number))
        assert part.select("criterion", "task").unique().height == 1
    assert table.filter(criterion="ce & ~gist")["support"].is_null().all()


def test_same_input_same_bytes(tmp_path):
    one, other = (save_suite(_suite()[0], tmp_path / name) for name in ("a", "b"))
    same_suite(one, other)


def test_a_suite_without_any_set_is_kept_with_its_reasons(tmp_path):
    suite = find(dataset_of([{"Y": 0.5}], ["Y", "A"]), {"ce": CE()})
    again = load_suite(save_suite(suite, tmp_path / "suite"))
    assert again.keys == suite.keys == {}.keys()
    assert len(again.header.skipped) == 2


def test_tampering_and_foreign_versions_are_refused(tmp_path):
    folder = save_suite(_suite()[0], tmp_path / "suite")
    header = (folder / "suite.json").read_text()
    own_betas = json.loads(header)["header"]
    own_betas["criteria"]["ce"]["parameters"]["betas"] = {"Y": {"A": [0.1, 0.2]}}
    for change, message in (
        ({"version": 99}, "version 99.*\n.*up to version 2\n.*newer nooch"),
        ({"format": "other"}, "contains other"),
        ({"header": 3}, "cannot be read"),
        (
            {"header": own_betas},
            "ce has a separate beta per cue.*\n.*one `beta`.*\n.*find the suite",
        ),
    ):
        write_header(folder / "suite.json", {**json.loads(header), **change})
        with pytest.raises(FormatError, match=message):
            load_suite(folder)
    (folder / "suite.json").write_bytes(header.encode().replace(b"nooch-suite", b"nooch-\xff"))
    fails(lambda: load_suite(folder), "cannot be read", kind=FormatError)
    (folder / "suite.json").write_text(header)
    table = folder / "challenge_sets.parquet"
    content = table.read_bytes()
    table.write_bytes(content[:-1] + b"?")
    fails(lambda: load_suite(folder), "was altered", kind=FormatError)
    table.unlink()
    fails(lambda: load_suite(folder), "is missing", kind=FormatError)
    fails(lambda: load_suite(folder.parent / "none"), "is not a suite", kind=FormatError)


def test_existing_output_is_not_touched(tmp_path):
    suite, _ = _suite()
    folder = save_suite(suite, tmp_path / "suite")
    before = (folder / "suite.json").stat().st_mtime_ns
    fails(lambda: save_suite(suite, folder), "exists already", kind=OutputError)
    assert (folder / "suite.json").stat().st_mtime_ns == before
    save_suite(suite, folder, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(OutputError, match=r"contains no suite\.json"):
        save_suite(suite, tmp_path / "mine", overwrite=True)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == [".suite.old"]
    assert (tmp_path / ".suite.old" / "suite.json").stat().st_mtime_ns == before


@given(collections(splits=True))
def test_every_image_with_a_verdict_is_in_one_subset(collection):
    images, classes, splits = collection
    if not {"train", "test"} <= set(splits):
        return
    data = dataset_of(images, classes, splits)
    suite = find(data, {"ce": CE()}, splits=["test"])
    for key in suite.keys:
        challenge = suite.set(*key)
        parts = [challenge.ids(subset) for subset in SUBSETS]
        ids = data.select("test").images["image_id"].to_list()
        assert sorted(i for part in parts for i in part) == ids
        assert sorted(parts[0] + parts[1]) == challenge.ids("hard")


def test_training_images_in_context_are_those_with_phi_0():
    images = [{"Y": 0.1, "A": 0.4}, {"Y": 0.1}, {"A": 0.5}, {}, {"Y": 0.1}]
    data = dataset_of(images, ["Y", "A"], ["train"] * 4 + ["test"])
    suite = find(data, {"ce": CE()}, tasks="Y", splits=["train", "test"])
    assert suite.in_context("ce", "Y") == [1, 4]
    with pytest.raises(ParameterError, match="'train' is not a split of the suite"):
        find(data, {"ce": CE()}, tasks="Y").in_context("ce", "Y")


def test_wrong_requests_are_refused():
    suite, data = _suite()
    for arguments, message in (
        (("cee", "Y", "test"), "did you mean ce"),
        (("ce", "Z", "test"), "'Z' is not a task"),
        (("ce", "Y", "train"), "'train' is not a split"),
    ):
        with pytest.raises(ParameterError, match=message):
            suite.set(*arguments)
    combined = {"ce": CE(), "c": Combination("ce & gist")}
    for criteria, options, message in (
        ({"gist": Gist("e")}, {}, "gist has no thresholds"),
        ({"gist": Gist("e")}, {"match": "ce"}, "'ce' is not a criterion of `match`"),
        (combined, {}, "'gist' is not a criterion of the combination"),
        ({"ce": CE()}, {"tasks": "Y,Y"}, "named twice"),
    ):
        with pytest.raises(ParameterError, match=message):
            find(data, criteria, **options)
    refused(lambda: resolve_tasks(data.classes, "nooch"), "'car' is not a class")


def test_summary_and_overlap_agree_with_the_sets():
    suite, _ = _suite()
    facts = summary(suite)
    assert [s["criterion"] for s in facts["sets"]] == [key[0] for key in suite.keys]
    assert facts["criteria"]["ce"]["cues"]["Y"] == [{"cue": "A", "A": pytest.approx(0.1)}]
    for row in overlaps(suite):
        sets = (suite.set(c, row["task"], row["split"]) for c in row["criteria"])
        first, second = (set(one.ids(row["side"])) for one in sets)
        assert row["both"] == len(first & second)
        assert row["only"] == [len(first - second), len(second - first)]
        union = first | second
        jaccard = pytest.approx(len(first & second) / len(union)) if union else None
        assert row["jaccard"] == jaccard


def test_an_image_without_a_value_of_the_context_has_no_verdict():
    """A condition on columns, such as ``scanner=GE``, is no class."""
    images = [{"car": 0.2} if k % 3 else {"cow": 0.1} for k in range(60)]
    data = dataset_of(images, ["car", "cow"])
    scanner = [None, *(("GE", "Siemens")[k % 3 > 0 or k % 2] for k in range(1, 60))]
    data = replace(data, images=data.images.with_columns(scanner=pl.Series(scanner)))
    suite = find(data, {"columns": Context(columns=["scanner"])}, tasks=["car"])
    (verdict,) = explain(suite, "car", 1, data)["verdicts"]
    assert verdict["text"] == "no verdict: the criterion cannot judge this image's context"
    assert " from " in explain(suite, "car", 2, data)["verdicts"][0]["text"]


def test_explanations_with_and_without_the_dataset():
    suite, data = _suite()
    facts = explain(suite, "Y", 3, data)
    assert (facts["split"], facts["label"]) == ("valid", True)
    text = {v["criterion"]: v["text"] for v in facts["verdicts"]}
    assert text["ce"].startswith("hard positive: context support 0.05 < 0.1")
    assert "A covers 5% < 10%" in text["ce"]
    assert "cosine of its gist" in text["gist"]
    bare = explain(suite, "Y", "3")
    assert bare["image_id"] == 3
    assert "covers" not in bare["verdicts"][0]["text"]
    assert explain(suite, "Y", 5, data)["verdicts"][1]["subset"] is None
    refused(lambda: explain(suite, "Y", 99), "image 99 is in none")
    with pytest.raises(ParameterError, match="the suite was found in another dataset"):
        explain(suite, "Y", 3, data.select("test"))
