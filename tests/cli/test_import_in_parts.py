"""``nooch import ... --part-size`` and ``--engine`` as a user types them."""

import json
import shlex

import pytest
from coco_files import STUFF, document, image, write
from PIL import Image

from nooch.cli import import_options as import_steps
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
        write(tmp_path / "coco" / "images" / f"{i:012d}.jpg", "")
    return folder


def _words(files, out, *more):
    roles = (("things", "instances"), ("stuff", "stuff"), ("captions", "captions"))
    named = [
        w
        for o, name in roles
        for part in ("train2017", "val2017")
        for w in (f"--{o}", files / f"{name}_{part}.json")
    ]
    return ["import", "coco", out, *named, "--split", "60/20/20", *more]


def test_it_prints_and_holds_what_an_import_in_one_piece_does(run_cli, files, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    one = run_cli(*_words(files, whole, "--images", files.parent / "images"))
    two = run_cli(
        *_words(
            files,
            parts,
            "--images",
            files.parent / "images",
            "--part-size",
            25,
            "--engine",
            "local:2",
        )
    ).ok()
    assert two.out == one.out.replace(str(whole), str(parts))
    assert two.err == one.err
    assert open_dataset(parts).n_parts == 4
    a, b = load_dataset(whole), load_dataset(parts)
    assert a.fingerprint == b.fingerprint
    assert a.provenance == b.provenance
    assert a.image_root == b.image_root
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coco", "parts", "parts-logs", "whole"]
    assert "done" in next((tmp_path / "parts-logs").iterdir()).read_text()
    facts = run_cli(
        *_words(files, parts, "--part-size", 25, "--overwrite", "--format", "json")
    ).json
    again = run_cli(*_words(files, whole, "--overwrite", "--format", "json")).json
    assert facts == again | {"dataset": str(parts)}
    assert facts["annotated"] == a.areas.nnz


def test_it_is_found_in_and_told_of_as_any_other(run_cli, files, tmp_path):
    out = tmp_path / "data"
    run_cli(*_words(files, out, "--part-size", 30, "--engine", "local:2")).ok()
    assert "Classes: 7" in run_cli(f"info {out}").out
    words = f"find {out} --criterion ce --cues person=road --tasks person"
    for name, engine in (("a", []), ("b", ["--engine", "local:2"])):
        run_cli(f"{words} --out {tmp_path / name}", *engine).ok()
    one, two = ((tmp_path / name / "challenge_sets.parquet").read_bytes() for name in "ab")
    assert one == two


@pytest.mark.parametrize("name", ["a [*] b", "[red]x[/red]", "end[/x]", "-é"])
def test_a_folder_may_have_any_name(run_cli, files, tmp_path, monkeypatch, name):
    """What is printed next can be typed, whatever brackets and spaces the name has."""
    monkeypatch.chdir(tmp_path)
    words = _words(files, name, "--part-size", 30, "--engine", "local:2")
    done = run_cli(*words[:2], *words[3:], "--", name).ok()
    assert done.out.startswith(f"{name}: 90 images")
    line = next(line for line in done.out.splitlines() if line.startswith("next: nooch find"))
    assert shlex.split(line)[3] == name
    found = run_cli(
        f"find --cues person=road --tasks person --engine local:2 --out s{name} -- {name}"
    ).ok()
    assert shlex.split(found.out.splitlines()[-1])[-1] == f"s{name}"


def test_coco_stuff_is_found_and_imported_in_parts(run_cli, files, tmp_path):
    (files / "captions_val2017.json").unlink()
    whole = run_cli(f"import coco-stuff {files.parent} whole --format json")
    words = f"import coco-stuff {files.parent} parts --part-size 50 --format json"
    done = run_cli(f"{words} --engine local:2").ok()
    assert done.json == whole.json | {"dataset": str(tmp_path / "parts")}
    assert done.json["notes"][0] == "captions_val2017.json is not there"
    assert load_dataset(tmp_path / "parts").image_root == str(files.parent / "images")


def test_every_reader_takes_an_engine_and_parts(run_cli, tmp_path):
    for i in range(3):
        write(tmp_path / "yolo" / f"{i}.txt", "0 .5 .5 .5 .5")
    names = write(tmp_path / "names.txt", "road\n")
    rows = write(tmp_path / "rows.csv", "id,road\n" + "".join(f"{i},1\n" for i in range(3)))
    for kind, words in (
        ("boxes", [tmp_path / "yolo", "--format", "yolo", "--classes", names]),
        ("table", [rows, "--id", "id", "--label", "road"]),
    ):
        for more, n_parts in (([], 1), (["--part-size", 2], 2)):
            out = tmp_path / f"{kind}-{n_parts}"
            run_cli(f"import {kind}", *words, out, "--engine", "local:2", *more).ok()
            assert (tmp_path / f"{out.name}-logs").is_dir()
            assert open_dataset(out).n_parts == n_parts
            assert len(load_dataset(out)) == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--processes", 2, "--engine", "local:2"], "--engine local:2, or another engine"),
        (["--engine", "clowd"], "'clowd' is no engine"),
        (["--part-size", 0], "--part-size"),
        (["--part-size", 9, "--group", "x"], "matches no part of"),
    ],
)
def test_what_cannot_be_done_is_refused(run_cli, files, tmp_path, more, message):
    run_cli(*_words(files, tmp_path / "new" / "data", *more)).refused(message)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coco"]


def test_pixel_maps_are_counted_in_parts(run_cli, files, tmp_path):
    for part, ids in (("train2017", range(1, 61)), ("val2017", range(61, 91))):
        (files / f"stuff_{part}.json").unlink()
        folder = files.parent / "stuffthingmaps" / part
        folder.mkdir(parents=True)
        for i in ids:
            size = image(i)["width"], image(i)["height"]
            Image.new("L", size, 148 if i % 2 else 255).save(folder / f"{i:012d}.png")
    prints = []
    for more in ([], ["--part-size", 25, "--engine", "local:2"]):
        done = run_cli(
            f"import coco-stuff {files.parent}",
            tmp_path / f"data{len(more)}",
            "--format",
            "json",
            *more,
        ).ok()
        prints.append(done.json["fingerprint"])
    assert prints[0] == prints[1]


@pytest.mark.parametrize("area", [-1.0, 1e18])
def test_a_broken_file_is_refused_by_workers_too(run_cli, files, tmp_path, area):
    file = files / "stuff_val2017.json"
    content = json.loads(file.read_text())
    content["annotations"][3]["area"] = area
    write(file, content)
    told = [
        run_cli(*_words(files, tmp_path / "data", *more)).err
        for more in ([], ["--part-size", 9, "--processes", 2])
    ]
    assert f"annotation 3 (counted from 0) has area {area}" in told[0]
    assert told[0] == told[1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coco"]


def test_large_files_in_one_piece_bring_a_hint(run_cli, files, tmp_path, monkeypatch):
    assert "--part-size" not in run_cli(*_words(files, tmp_path / "a")).err
    monkeypatch.setattr(import_steps, "_MANY", 1000)
    assert "--part-size 125000 merges them in parts" in " ".join(
        run_cli(*_words(files, tmp_path / "b")).err.split()
    )
    assert "--part-size" not in run_cli(*_words(files, tmp_path / "c", "--part-size", 40)).err
