"""nooch.export: which sets, which dataset, which licences, whose export."""

import sys
from dataclasses import replace

import pytest
from refusals import fails

import nooch
from nooch.errors import ParameterError
from nooch.exports import exporter
from nooch.exports.export_contract import Content
from nooch.exports.licences import all_licences, licences_text, one_line


@pytest.mark.parametrize(
    ("choice", "words"),
    [({"criteria": ["gist"]}, "'gist' is no criterion"), ({"tasks": ["cat"]}, "'cat' is no task"), ({"splits": ["train"]}, "'train' is no split")],
)  # fmt: skip
def test_what_the_suite_does_not_have_is_refused(made, tmp_path, choice, words):
    fails(
        lambda: nooch.export(made.suite, "ids", tmp_path / "out", **choice),
        words,
        kind=ParameterError,
    )


def test_another_dataset_is_refused(made, tmp_path):
    other = made.data.select(rows=made.data.images["image_id"].to_numpy() > 3)
    fails(
        lambda: nooch.export(made.suite, "csv", tmp_path / "out", data=other),
        "fingerprints differ",
        kind=ParameterError,
    )


def test_published_sets_take_a_dataset_that_has_their_images(made, published, tmp_path):
    nooch.export(published, "csv", tmp_path / "out", data=made.data)
    assert (tmp_path / "out" / "ce" / "car.csv").is_file()
    image = published.set("ce", "car", "test").image_ids[0]
    other = made.data.select(rows=made.data.images["image_id"].to_numpy() != image)
    fails(
        lambda: nooch.export(published, "csv", tmp_path / "b", data=other),
        f"lacks images of the suite: {image}", kind=ParameterError,
    )  # fmt: skip


def test_an_unknown_format_and_ones_own(made, tmp_path, monkeypatch):
    fails(
        lambda: nooch.export(made.suite, "jsn", tmp_path / "out"),
        "'jsn' is no export format",
        kind=ParameterError,
    )
    (tmp_path / "ownexport.py").write_text(
        "def write(content, out, *, overwrite=False, tone='low'):\n    return content.keys, out,"
        " overwrite, tone\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    keys, out, overwrite, tone = nooch.export(
        made.suite, "ownexport:write", "x", tasks=["car"], tone="high"
    )
    assert {task for _, task, _ in keys} == {"car"}
    assert (out, overwrite, tone) == ("x", False, "high")
    fails(
        lambda: nooch.export(made.suite, "ownexport:write", "x", pitch=1),
        "'pitch' is no option",
        kind=ParameterError,
    )
    for name in ("ownexport:nothing", "no_such_module_of_mine:write"):
        fails(lambda name=name: exporter(name), name, "package.module:Name", kind=ParameterError)
    sys.modules.pop("ownexport", None)


def test_licences_come_from_the_suite_and_from_the_dataset(made):
    suite, keys = made.suite, tuple(made.suite.keys)
    assert suite.header.dataset.licenses == [{"name": "CC BY", "url": "https://example.org/by"}]
    other = replace(
        made.data, provenance={**made.data.provenance, "licenses": [{"name": "theirs"}]}
    )
    assert [entry["name"] for entry in Content(suite, keys, other).licences] == ["CC BY", "theirs"]
    assert [entry["name"] for entry in Content(suite, keys, made.data).licences] == ["CC BY"]


def test_suites_of_earlier_versions_have_no_licences_of_their_own(made, tmp_path):
    import json
    import shutil

    folder = shutil.copytree(made.folder / "suite", tmp_path / "suite")
    header = json.loads((folder / "suite.json").read_text())
    assert header["header"]["dataset"].pop("licenses")
    (folder / "suite.json").write_text(json.dumps(header))
    suite = nooch.load_suite(folder)
    assert Content(suite, tuple(suite.keys)).licences == []
    assert [entry["name"] for entry in Content(suite, tuple(suite.keys), made.data).licences] == [
        "CC BY"
    ]


def test_licences_are_told_once_and_never_more_than_is_known():
    recorded = [
        {"name": "A\n- B", "url": None},
        {},
        {"name": None},
        {"name": "A - B"},
        {"url": "u"},
    ]
    found = all_licences(recorded, ["A - B", "mine\x00"])
    assert found == [
        {"name": "A - B", "source": "recorded"},
        {"url": "u", "source": "recorded"},
        {"name": "A - B", "source": "stated"},
        {"name": "mine", "source": "stated"},
    ]
    text = licences_text(found)
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- A - B",
        "- u",
        "- A - B",
        "- mine",
    ]
    assert "not recorded" not in text
    assert "not recorded" in licences_text([])
    assert one_line(" a\tb\u2028c ") == "a b c"


def test_an_empty_licence_is_refused(made, tmp_path):
    fails(
        lambda: nooch.export(made.suite, "ids", tmp_path / "x", licences=[" "]),
        "licence is empty",
        kind=ParameterError,
    )
