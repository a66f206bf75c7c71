"""``nooch status`` of an import, an embedding or a find with an engine."""

import json
import os
import subprocess
import sys

import pytest
from small_world import small_dataset

from nooch.cli.progress_log import logs_of, read_status, watched
from nooch.data import divide, save_dataset


@pytest.fixture
def parts(tmp_path):
    return save_dataset(divide(small_dataset(60), 3), tmp_path / "parts")


FIND = "find parts --tasks car,bowl --alpha 0.001 --engine local:1 --out suite"


def test_a_find_that_is_done(run_cli, parts, tmp_path):
    run_cli(FIND).ok()
    status = run_cli("status suite --format json").json
    assert status["state"] == "done"
    assert status["pid"] == os.getpid()
    steps = {"summing parts": [3, 3], "measuring parts": [3, 3], "marking tasks": [2, 2]}
    assert status["steps"] == {**steps, "writing": [1, 1]}
    assert status["command"].startswith("nooch find ")
    text = run_cli("status suite").out
    assert text.startswith("done on ")
    assert "measuring parts      3    3" in text


def test_a_find_that_was_stopped(run_cli, parts, tmp_path, monkeypatch):
    from nooch.finding.measure_files import MeasureFiles

    def full(*_):
        raise MemoryError("no more")

    monkeypatch.setattr(MeasureFiles, "mark", full)
    run_cli(FIND).refused()
    status = run_cli("status suite")
    assert status.out.startswith("stopped on ")
    assert "the same command resumes" in status.out
    assert "no more" in status.err
    assert "marking tasks" in status.out


def test_work_that_is_under_way_or_was_killed(run_cli, tmp_path):
    logs = logs_of(tmp_path / "out")
    with watched(logs) as update:
        update("reading", 0, 7)
        update("reading", 3, 7)
        status = run_cli("status out --format json").json
        assert status["state"] == "running"
        # written at most once a second
        assert status["steps"] == {"reading": [0, 7]}
    assert read_status(logs).steps == {"reading": (3, 7)}
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    content = json.loads((logs / "status.json").read_text())
    content |= {"state": "running", "pid": child.pid}
    (logs / "status.json").write_text(json.dumps(content))
    assert run_cli("status out").out.startswith("killed on ")
    # of another machine, nothing more is known
    (logs / "status.json").write_text(json.dumps(content | {"host": "elsewhere"}))
    assert run_cli("status out").out.startswith("running on elsewhere")


def test_an_embedding_and_an_import_tell_too(run_cli, tmp_path):
    coco = {
        "images": [{"id": i, "width": 4, "height": 4} for i in range(6)],
        "categories": [{"id": 1, "name": "car"}],
        "annotations": [{"image_id": i, "category_id": 1, "area": 2} for i in range(6)],
    }
    captions = {**coco, "annotations": [{"image_id": i, "caption": f"car {i}"} for i in range(6)]}
    (tmp_path / "things.json").write_text(json.dumps(coco))
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    files = "--things things.json --captions captions.json"
    run_cli(f"import coco data {files} --part-size 2 --engine local:1").ok()
    assert run_cli("status data --format json").json["state"] == "done"
    run_cli("embed data --encoder lexical --engine local:1").ok()
    status = run_cli("status data --format json").json
    assert (status["state"], list(status["steps"])) == ("done", ["embedding captions"])


def test_what_tells_nothing_is_refused(run_cli, tmp_path):
    run_cli("status nothing").refused("runs.json")
    logs_of(tmp_path / "out").mkdir()
    (logs_of(tmp_path / "out") / "status.json").write_text("{")
    run_cli("status out").refused("status.json: cannot be read")
