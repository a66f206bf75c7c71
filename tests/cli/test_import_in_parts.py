"""``nooch import ... --part-size`` and ``--engine``."""

import json
import shlex

import pytest
from coco_files import PHOTO, STUFF, document, image, write
from PIL import Image

from nooch.data import load_dataset, open_dataset


@pytest.fixture
def files(tmp_path):
    """A folder in the layout of COCO-Stuff: 90 images, of which the first 60 are train2017."""
    folder = tmp_path / "coco" / "annotations"
    for part, ids in (("train2017", range(1, 61)), ("val2017", range(61, 91))):
        images = [image(i) for i in ids]
        person = [{"image_id": i, "category_id": 1, "area": float(i % 3)} for i in ids if i % 2]
        road = [{"image_id": i, "category_id": 149, "area": float(i % 16)} for i in ids if i % 4]
        write(folder / f"instances_{part}.json", document(images, person))
        write(folder / f"stuff_{part}.json", document(images, road, STUFF))
        said = [{"image_id": i, "caption": f"a person on road {i}"} for i in ids]
        write(folder / f"captions_{part}.json", {"images": images, "annotations": said})
    for i in range(1, 91):
        write(tmp_path / "coco" / "images" / f"{i:012d}.jpg", PHOTO)
    return folder


def coco(files, out, more=""):
    named = [
        f"--{option} {files / name}_{part}.json"
        for option, name in (("things", "instances"), ("stuff", "stuff"), ("captions", "captions"))
        for part in ("train2017", "val2017")
    ]
    return f"import coco {' '.join(named)} --split 60/20/20 {more} {out}"


def test_it_prints_and_holds_what_an_import_as_one_part_does(run_cli, files, tmp_path):
    images = "--images coco/images"
    one = run_cli(coco(files, "whole", images))
    two = run_cli(coco(files, "parts", f"{images} --part-size 25 --engine local:2")).ok()
    assert two.out == one.out.replace("whole", "parts")
    assert two.err == one.err
    assert open_dataset("parts").n_parts == 4
    a, b = load_dataset("whole"), load_dataset("parts")
    assert (a.fingerprint, a.provenance) == (b.fingerprint, b.provenance)
    assert a.image_root == b.image_root
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coco", "parts", "parts-logs", "whole"]
    assert "done" in next((tmp_path / "parts-logs").iterdir()).read_text()
    replaced = "--overwrite --format json"
    facts = run_cli(coco(files, "parts", f"--part-size 25 {replaced}")).json
    again = run_cli(coco(files, "whole", replaced)).json
    assert facts == again | {"dataset": "parts"}
    assert facts["annotated"] == a.areas.nnz


def test_it_is_found_in_and_shown_as_any_other(run_cli, files, tmp_path):
    run_cli(coco(files, "data", "--part-size 30")).ok()
    assert "Classes: 7" in run_cli("info data").out
    words = "find data --criterion ce --cues person=road --tasks person"
    run_cli(f"{words} --out suite").ok()


@pytest.mark.parametrize("name", ["a [*] b", "[red]x[/red]", "end[/x]", "-é"])
def test_a_folder_may_have_any_name(run_cli, files, name):
    """What is printed next can be typed, whatever brackets and spaces the name has."""
    done = run_cli(coco(files, "--", "--part-size 30"), name).ok()
    assert done.out.startswith(f"{name}: 90 images")
    line = next(line for line in done.out.splitlines() if line.startswith("next: nooch find"))
    assert shlex.split(line)[3] == name
    find = f"find --cues person=road --tasks person --out {shlex.quote(f's{name}')}"
    found = run_cli(f"{find} --", name).ok()
    assert shlex.split(found.out.splitlines()[-1])[-1] == f"s{name}"


def test_coco_stuff_is_found_and_imported_in_parts(run_cli, files, tmp_path):
    (files / "captions_val2017.json").unlink()
    whole = run_cli(f"import coco-stuff {files.parent} whole --format json")
    words = f"import coco-stuff {files.parent} parts --part-size 50 --format json"
    done = run_cli(words).ok()
    assert done.json == whole.json | {"dataset": "parts"}
    assert done.json["notes"][0] == "captions_val2017.json is not there"
    assert load_dataset(tmp_path / "parts").image_root == str(files.parent / "images")


def test_every_reader_takes_an_engine_and_parts(run_cli, tmp_path):
    for i in range(3):
        write(tmp_path / "yolo" / f"{i}.txt", "0 .5 .5 .5 .5")
    write(tmp_path / "names.txt", "road\n")
    write(tmp_path / "rows.csv", "id,road\n" + "".join(f"{i},1\n" for i in range(3)))
    for kind, words in (
        ("boxes", "yolo --boxes yolo --classes names.txt"),
        ("table", "rows.csv --id id --label road"),
    ):
        out = tmp_path / kind
        run_cli(f"import {kind} {words} {out} --engine local:2 --part-size 2").ok()
        assert (tmp_path / f"{kind}-logs").is_dir()
        assert open_dataset(out).n_parts == 2
        assert len(load_dataset(out)) == 3


def test_pixel_maps_are_counted_in_parts(run_cli, files, tmp_path):
    for part, ids in (("train2017", range(1, 61)), ("val2017", range(61, 91))):
        (files / f"stuff_{part}.json").unlink()
        folder = files.parent / "stuffthingmaps" / part
        folder.mkdir(parents=True)
        for i in ids:
            size = image(i)["width"], image(i)["height"]
            Image.new("L", size, 148 if i % 2 else 255).save(folder / f"{i:012d}.png")
    prints = []
    for out, more in (("one", ""), ("parts", "--part-size 25")):
        done = run_cli(f"import coco-stuff {files.parent} {out} --format json {more}").ok()
        prints.append(done.json["fingerprint"])
    assert prints[0] == prints[1]


@pytest.mark.parametrize("area", [-1.0, 1e18])
def test_a_broken_file_is_refused_by_workers_too(run_cli, files, tmp_path, area):
    file = files / "stuff_val2017.json"
    content = json.loads(file.read_text())
    content["annotations"][3]["area"] = area
    write(file, content)
    one, workers = (
        run_cli(coco(files, "data", more)).err for more in ("", "--part-size 9 --processes 2")
    )
    assert f"annotation 3 (counted from 0) has area {area}" in one
    assert one == workers
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coco"]


def test_large_files_as_one_part_bring_a_hint(run_cli, files, monkeypatch):
    assert "--part-size" not in run_cli(coco(files, "a")).err
    monkeypatch.setattr("nooch.cli.commands.import_data.LARGE", 1000)
    note = " ".join(run_cli(coco(files, "b")).err.split())
    assert "--part-size 125000 merges them part by part" in note
    assert "--part-size" not in run_cli(coco(files, "c", "--part-size 40")).err
