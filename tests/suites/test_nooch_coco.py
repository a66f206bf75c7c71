"""The suite nooch-coco of the package: the paper's counts, and the published files row for row."""

import importlib.util
import re
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
from nooch.paper.published_sets import published_suite, read_labels, read_published
from nooch.suites import load_suite, suite_folder
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


def test_it_is_the_published_sets_row_for_row(suite, shared_data):
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
    fails(lambda: load_suite("no-such-suite"), "nooch-coco", "nooch find", kind=FormatError)


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
    report = run_cli(f"report {NAME} --out site", cwd=tmp_path)
    assert report.code == 0, report.err
    assert (tmp_path / "site" / "index.html").is_file()
    (tmp_path / NAME).mkdir()
    assert "is not a suite" in run_cli(f"show {NAME}", cwd=tmp_path).err


def test_without_labels_the_suite_holds_hard_images_alone(
    suite, shared_data, run_cli, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    whole, suite = suite, published_suite(read_published(shared_data / "nooch-published"))
    nooch.save_suite(suite, tmp_path / "hard")
    assert run_cli("show hard --format json").json["hard_only"] is True
    ids, random = whole.set("ce", "car", "test").image_ids, np.random.default_rng(0)
    columns = {task: random.normal(size=len(ids)) for task in suite.tasks}
    pl.DataFrame({"image_id": ids, **columns}).write_parquet(tmp_path / "run.parquet")
    # predictions of easy images are left out, not refused
    options = "run.parquet --scale logit"
    done = run_cli(f"evaluate hard {options} --out hard.parquet --bootstrap 20").ok()
    assert "only hard images" in done.err
    run_cli(f"evaluate nooch-coco {options} --out all.parquet").ok()
    keys = ["criterion", "task", "subset", "metric"]
    here, there = (
        pl.read_parquet(tmp_path / f"{name}.parquet").sort(keys) for name in ("hard", "all")
    )
    assert here.select(keys).equals(there.select(keys))
    # the share of all images that ece_paper takes is not known
    hard = pl.col("subset").is_in(["hard", "hard_positive", "hard_negative"]) & (
        pl.col("metric") != "ece_paper"
    )
    assert here.filter(hard)["value"].equals(there.filter(hard)["value"])
    assert here.filter(hard, metric="auc", subset="hard")["value"].null_count() == 0
    rest = here.filter(~hard)
    assert rest.height > 0
    assert rest["value"].null_count() == rest.height
    reason = "the suite contains only hard images: which images are easy is not known"
    assert set(rest["reason"]) == {reason}
    # what is not known is said nowhere else
    shown = run_cli("show hard")
    assert "2,585" not in shown.out
    assert "1,539" in shown.out
    easy = whole.set("ce", "car", "test").ids("easy")[0]
    assert run_cli(f"explain hard --task car --image {easy}").code == 2
    only = np.setdiff1d(
        suite.set("ce", "car", "test").ids("hard"), suite.set("gist", "car", "test").ids("hard")
    )
    told = run_cli(f"explain hard --task car --image {only[0]}")
    assert (
        "gist: no verdict: the image is not hard, and the suite contains only hard images"
        in told.out
    )
    run_cli("report hard --out site").ok()
    page = (tmp_path / "site" / "index.html").read_text()
    assert "The suite contains only hard images" in page
    # 1,539 hard positives under CE and under gist, and not a third time as all positives
    assert page.count(">1,539<") == 2
    tabled = run_cli("paper tables hard --like table2 --compare paper --out t.csv").ok()
    assert "so the number of positives is unknown" in " ".join(tabled.err.split())
    counts = pl.read_csv(tmp_path / "t.csv")
    assert counts.height == 24
    for column in ("positives", "difference_positives"):
        assert counts[column].null_count() == 24
    assert counts["difference_hard_positives"].to_list() == [0] * 24
    run_cli(f"evaluate hard {options} --average test").refused("needs the easy images")
    run_cli(f"paper select-tasks hard {options} --out no").refused("needs the easy images")


@pytest.mark.parametrize("page", ["reproduce", "only-images"])
def test_pages_compare_suites(page, suite, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("suite", "BY_PREDICTED", "BY_TRUTH"):
        nooch.save_suite(suite.only(["car"]), tmp_path / name)
    code = re.search(r"^```python\n(import nooch\n\n\w+, .*?)```", text, re.DOTALL | re.MULTILINE)[
        1
    ]
    exec(code.replace("published.keys", "found.keys"), {})
    lines = capsys.readouterr().out.splitlines()
    n = len(suite.set("ce", "car", "test").ids("hard_positive"))
    if page == "reproduce":
        assert lines[1] == "ce car test 1.000"
    else:
        assert lines[2] == f"ce car test hard_positive precision {n} of {n}, recall {n} of {n}"
    assert len(lines) == (4 if page == "reproduce" else 8)
