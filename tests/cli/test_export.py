"""nooch export as a user types it, and what it refuses."""

import json
import shutil

import pytest
from coco_files import document, image, write

from nooch.suites import load_suite


@pytest.fixture
def suite(scenes, tmp_path):
    """A suite folder beside its dataset."""
    return shutil.copytree(scenes, tmp_path, dirs_exist_ok=True) / "suite"


def test_the_exact_forms(suite, annotations, run_cli, tmp_path):
    for name in ("ids", "csv", "hf"):
        done = run_cli(f"export suite --to {name} {name}").ok()
        assert f"as {name}" in done.out
        assert "licenses: CC0 1.0" in done.out
        assert ("no eval.yaml" in done.err) == (name == "hf")
    run_cli(
        f"export suite --to coco --annotations {annotations / 'instances.json'} --annotations"
        f" {annotations / 'stuff.json'} coco"
    ).ok()
    run_cli("export suite --to coco other").refused("instances.json, stuff.json")
    # an export of another kind may be replaced
    run_cli("export suite --to csv hf --overwrite").ok()
    hard = load_suite(suite).set("ce", "car", "test").ids("hard_positive")
    ids = json.loads((tmp_path / "ids").read_text())["sets"]
    (car,) = (s for s in ids if (s["task"], s["split"]) == ("car", "test"))
    assert car["hard_positive"] == hard
    images = json.loads((tmp_path / "coco" / "test.json").read_text())["images"]
    assert [i["id"] for i in images if i["nooch"]["ce"].get("car") == "hard_positive"] == hard


def test_a_selection_and_json(suite, run_cli, tmp_path):
    done = run_cli(
        "export suite out --to csv --criterion ce --tasks 'car, cow' --split"
        " test --license Mine --license https://example.org --format json"
    ).ok()
    assert done.json["sets"] == 2
    assert done.json["to"] == "csv"
    names = [entry["name"] for entry in done.json["licenses"]]
    assert names == ["CC0 1.0", "Mine", "https://example.org"]
    files = {path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {tmp_path / "out" / name for name in done.json["files"]} == files
    tables = [file for file in done.json["files"] if file.endswith(".csv")]
    assert tables == ["ce/car.csv", "ce/cow.csv"]


def test_the_dataset_may_have_moved(suite, run_cli, tmp_path):
    moved = shutil.move(tmp_path / "dataset", tmp_path / "moved")
    run_cli("export suite --to csv out").refused("--dataset")
    assert not (tmp_path / "out").exists()
    run_cli(f"export suite --to csv --dataset {moved} out").ok()
    head = (tmp_path / "out" / "ce" / "car.csv").read_text().partition("\n")[0]
    assert head == "split,filename,y,a,image_id,subset,support"


def test_another_dataset_is_refused(suite, run_cli, tmp_path):
    things = document(
        [image(i) for i in range(5)], [{"image_id": 1, "category_id": 3, "area": 2.0}]
    )
    run_cli("import coco --things", write(tmp_path / "o.json", things), tmp_path / "other").ok()
    run_cli("export suite --to csv --dataset other out").refused("fingerprints differ")


def test_a_note_says_how_to_state_a_license(run_cli, tmp_path):
    things = document(
        [image(i) for i in range(1, 9)],
        [{"image_id": i, "category_id": 3, "area": 2.0} for i in (1, 2, 3)],
    )
    del things["licenses"]
    run_cli("import coco --things", write(tmp_path / "t.json", things), tmp_path / "dataset")
    run_cli("find dataset --cues car=person --tasks car --out suite")
    silent = run_cli("export suite --to ids a").ok()
    assert "--license TEXT" in silent.err
    assert "licenses: not recorded" in silent.out
    stated = run_cli("export suite --to ids b --license 'CC BY 4.0'")
    assert stated.err == ""
    assert "licenses: CC BY 4.0" in stated.out


def test_without_the_extra_the_install_line_is_told(suite, run_cli, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fiftyone", None)
    run_cli("export suite photos --to fiftyone").refused("pip install 'nooch[fiftyone]'")
