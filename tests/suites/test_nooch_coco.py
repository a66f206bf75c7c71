"""The suite nooch-coco of the package: the paper's counts, and the published files row for row."""

import importlib.util
import sys
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from refusals import fails

import nooch
from nooch.base.errors import FormatError
from nooch.suites import load_suite, suite_folder
from nooch.suites.published import published_suite, read_labels, read_published
from nooch.suites.published_counts import NOOCH_TASKS, paper_tasks
from nooch.training.bench.config import BenchConfig
from nooch.training.bench.run import PlanSource

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "nooch" / "suites" / "shipped"
NAME = "nooch-coco"


@pytest.fixture(scope="module")
def suite():
    return nooch.load_suite(NAME)


def test_its_counts_are_table_2(suite):
    assert suite.tasks == NOOCH_TASKS
    assert len(suite.keys) == 2 * 12 * 2
    assert suite.header.dataset.splits == {"train": 86302, "valid": 12328, "test": 24657}
    for task in paper_tasks().values():
        for criterion in ("ce", "gist"):
            counts = suite.set(criterion, task.task, "test").counts
            hard = (counts.hard_positives, counts.hard_negatives)
            assert hard == (task.hard_positives, task.hard_negatives)
            sides = (counts.positives, counts.negatives)
            assert sides == (task.positives, 24657 - task.positives)
            assert len(suite.set(criterion, task.task, "valid")) == 12328


def test_it_is_what_import_suite_gives_row_for_row(suite, shared_data):
    archive = shared_data / "coco-stats" / "derived_coco_thing_labels_123287x80.npz"
    with np.load(archive) as arrays:
        # all 12 are things: the 80 classes decide every label
        names = {str(name).replace(" ", "_") for name in arrays["category_names"]}
    assert names >= set(NOOCH_TASKS)
    published = read_published(shared_data / "nooch-published")
    expected = published_suite(published, read_labels(archive))
    licenses = expected.header.dataset.licenses
    dataset = msgspec.structs.replace(suite.header.dataset, licenses=licenses)
    assert msgspec.structs.replace(suite.header, dataset=dataset) == expected.header
    for key in expected.keys:
        one, other = suite.set(*key), expected.set(*key)
        assert one.image_ids.equals(other.image_ids), key
        np.testing.assert_array_equal(one.labels, other.labels, strict=True)
        np.testing.assert_array_equal(one.subset, other.subset, strict=True)
        assert one.support is None


def test_the_script_makes_it(shared_data, tmp_path, monkeypatch):
    script = ROOT / "scripts" / "make_nooch_coco.py"
    spec = importlib.util.spec_from_file_location("make_nooch_coco", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    monkeypatch.setattr(sys, "argv", [script.name, str(shared_data), "--out", str(tmp_path)])
    made.main()
    notices = [(folder / f"{NAME}.NOTICE.txt").read_bytes() for folder in (tmp_path, FOLDER)]
    assert notices[0] == notices[1]
    # pyarrow may write other bytes elsewhere: what the file says is compared
    new, old = (pq.ParquetFile(folder / f"{NAME}.parquet") for folder in (tmp_path, FOLDER))
    assert new.read().equals(old.read())
    assert new.metadata.metadata == old.metadata.metadata


def test_it_is_small_and_has_its_licenses(suite):
    assert (FOLDER / f"{NAME}.parquet").stat().st_size < 135_000
    notice = (FOLDER / f"{NAME}.NOTICE.txt").read_text(encoding="utf-8")
    texts = ("BSD 3-Clause License", "Copyright (c) 2021, dmadras", "THIS SOFTWARE IS PROVIDED")
    for text in (*texts, "Attribution 4.0"):
        assert text in " ".join(notice.split())
    names = [record["name"].split()[0] for record in suite.header.dataset.licenses]
    assert names == ["BSD-3-Clause", "CC"]


def test_a_file_that_was_altered_is_refused(monkeypatch):
    monkeypatch.setitem(suite_folder.SHIPPED, NAME, "0" * 64)
    fails(lambda: nooch.load_suite(NAME), "was altered", kind=FormatError)


def test_a_folder_of_the_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = NAME
    assert len(load_suite(name).keys) == 48
    # workers of a bench in other folders find both
    source = PlanSource(tmp_path, Path(name), BenchConfig())
    assert source.absolute().suite == Path(name)
    (tmp_path / name).mkdir()
    fails(lambda: load_suite(name), "is not a suite", kind=FormatError)
    assert source.absolute().suite == tmp_path / name
    fails(lambda: load_suite("no-such-suite"), "nooch-coco", kind=FormatError)


def test_commands_take_its_name(suite, run_cli, tmp_path):
    """In a folder without anything of that name."""
    ids, random = suite.set("ce", "car", "test").image_ids, np.random.default_rng(0)
    truth = np.array([suite.set("ce", task, "test").labels for task in suite.tasks])
    noise = random.normal(size=truth.shape)
    columns = dict(zip(suite.tasks, truth + noise, strict=True))
    pl.DataFrame({"image_id": ids, **columns}).write_csv(tmp_path / "predictions.csv")
    options = "--scale logit --out scores.parquet"
    scored = run_cli(f"evaluate {NAME} predictions.csv {options}", cwd=tmp_path)
    assert scored.code == 0, scored.err
    scores = pl.read_parquet(tmp_path / "scores.parquet")
    scores = scores.filter(metric="auc", task="average", subset="hard")
    # two normals one apart: AUC is Phi(1 / sqrt(2)) = 0.760
    assert scores["value"].to_list() == pytest.approx([0.760, 0.760], abs=0.01)
    shown = run_cli(f"show {NAME} --format json", cwd=tmp_path)
    assert len(shown.json["sets"]) == 48
    hard = suite.set("ce", "car", "test").ids("hard_positive")[0]
    explained = run_cli(f"explain {NAME} --task car --image {hard}", cwd=tmp_path)
    assert explained.code == 0, explained.err
    assert "car is present" in explained.out
    assert "ce: hard positive" in explained.out
    assert "not named by the suite" in explained.err
    assert run_cli(f"export {NAME} --to npy out", cwd=tmp_path).code == 0
    assert len(nooch.paper.read_published(tmp_path / "out").sets) == 96
    report = run_cli(f"report {NAME} --out site", cwd=tmp_path)
    assert report.code == 0, report.err
    assert (tmp_path / "site" / "index.html").is_file()
    (tmp_path / NAME).mkdir()
    assert "is not a suite" in run_cli(f"show {NAME}", cwd=tmp_path).err
