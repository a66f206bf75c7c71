"""nooch.export: which sets, which dataset, which licenses, whose export."""

import json
import shutil
import sys
from dataclasses import replace
from functools import partial

import pytest
from altered_files import write_header
from refusals import refused
from scored import small_suite

import nooch
from nooch.report.exports import exporter
from nooch.report.exports.contract import (
    Content,
    all_licenses,
    check_subsets,
    licenses_text,
    one_line,
)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"criteria": ["gist"]}, "'gist' is not a criterion"),
        ({"tasks": ["cat"]}, "'cat' is not a task"),
        ({"splits": ["train"]}, "'train' is not a split"),
        ({"licenses": [" "]}, "license is empty"),
    ],
)
def test_a_selection_that_cannot_be_made_is_refused(made, tmp_path, choice, words):
    refused(lambda: nooch.export(made.suite, "ids", tmp_path / "out", **choice), words)


def test_another_dataset_is_refused(made, tmp_path):
    other = made.data.select(rows=made.data.images["image_id"].to_numpy() > 3)
    act = partial(nooch.export, made.suite, "csv", tmp_path / "out", data=other)
    refused(act, "fingerprints differ")


def test_published_sets_take_a_dataset_that_has_their_images(made, published, tmp_path):
    nooch.export(published, "csv", tmp_path / "out", data=made.data)
    assert (tmp_path / "out" / "ce" / "car.csv").is_file()
    image = published.set("ce", "car", "test").image_ids[0]
    other = made.data.select(rows=made.data.images["image_id"].to_numpy() != image)
    act = partial(nooch.export, published, "csv", tmp_path / "b", data=other)
    refused(act, f"lacks images of the suite: {image}")


def test_an_unknown_format_and_ones_own(made, tmp_path, monkeypatch):
    refused(
        lambda: nooch.export(made.suite, "jsn", tmp_path / "out"), "'jsn' is not an export format"
    )
    (tmp_path / "ownexport.py").write_text(
        "def write(content, out, *, overwrite=False, tone='low'):\n    return content.keys, out,"
        " overwrite, tone\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    keys, out, overwrite, tone = nooch.export(
        made.suite, "ownexport:write", "x", tasks=["car"], settings={"tone": "high"}
    )
    assert {task for _, task, _ in keys} == {"car"}
    assert (out, overwrite, tone) == ("x", False, "high")
    act = partial(nooch.export, made.suite, "ownexport:write", "x", settings={"pitch": 1})
    refused(act, "'pitch' is not an option")
    for name in ("ownexport:nothing", "no_such_module_of_mine:write"):
        refused(lambda name=name: exporter(name), name, "package.module:Name")
    sys.modules.pop("ownexport", None)


def test_licenses_come_from_the_suite_and_from_the_dataset(made):
    suite, keys = made.suite, tuple(made.suite.keys)
    assert suite.header.dataset.licenses == [{"name": "CC BY", "url": "https://example.org/by"}]
    known = {**made.data.provenance, "licenses": [{"name": "theirs"}]}
    other = replace(made.data, provenance=known)
    assert [entry["name"] for entry in Content(suite, keys, other).licenses] == ["CC BY", "theirs"]
    assert [entry["name"] for entry in Content(suite, keys, made.data).licenses] == ["CC BY"]


def test_suites_of_earlier_versions_have_no_licenses_of_their_own(made, tmp_path):
    folder = shutil.copytree(made.folder / "suite", tmp_path / "suite")
    header = json.loads((folder / "suite.json").read_text())
    assert header["header"]["dataset"].pop("licenses")
    write_header(folder / "suite.json", header)
    suite = nooch.load_suite(folder)
    assert Content(suite, tuple(suite.keys)).licenses == []
    licenses = Content(suite, tuple(suite.keys), made.data).licenses
    assert [entry["name"] for entry in licenses] == ["CC BY"]


def test_licenses_are_told_once_and_never_more_than_is_known():
    recorded = [{"name": "A\n- B", "url": None}, {}, {"name": None}, {"name": "A - B"}]
    recorded += [{"url": "u"}]
    found = all_licenses(recorded, ["A - B", "mine\x00"])
    assert found == [
        {"name": "A - B", "source": "recorded"},
        {"url": "u", "source": "recorded"},
        {"name": "A - B", "source": "stated"},
        {"name": "mine", "source": "stated"},
    ]
    text = licenses_text(found)
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert lines == ["- A - B", "- u", "- A - B", "- mine"]
    assert "not recorded" not in text
    assert "not recorded" in licenses_text([])
    assert one_line(" a\tb\u2028c ") == "a b c"


def test_easy_images_are_their_two_sides():
    challenge = small_suite().set("ce", "car", "test")
    label = dict(zip(challenge.image_ids.to_list(), challenge.labels.tolist(), strict=True))
    easy = challenge.ids("easy")
    assert challenge.ids("easy_positive") == [i for i in easy if label[i]] != []
    assert challenge.ids("easy_negative") == [i for i in easy if not label[i]] != []
    sides = ["easy_positive", "hard_positive"]
    assert check_subsets([*sides, "easy_positive"]) == tuple(sides)
    refused(lambda: check_subsets(["easy", "easy_negative"]), "easy contains its own sides")
    refused(lambda: check_subsets(["easy_sides"]), "'easy_sides' is not a subset")
    refused(lambda: check_subsets([]), "no subset is named")
