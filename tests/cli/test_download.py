"""``nooch download`` and ``nooch import coco-stuff`` as a user types them."""

import json

import numpy as np
import pytest
from coco_files import STUFF, document, image, write
from download_server import BODY, SIZE, cut, left, remote, serving, status, zipped

from nooch.base.download import Collection, Downloaded
from nooch.data import load_dataset

THINGS_ZIP, STUFF_ZIP = "annotations_trainval2017.zip", "stuff_trainval2017.zip"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as running:
        yield running


@pytest.fixture
def known(monkeypatch, server):
    """What the catalog says: two zips of annotations, and a file that comes with ``--images``."""
    images = [image(i) for i in range(1, 11)]
    person = [{"image_id": i, "category_id": 1, "area": 4.0} for i in range(1, 11, 2)]
    road = [{"image_id": i, "category_id": 149, "area": 8.0} for i in range(1, 11)]
    things = zipped(
        {"annotations/instances_val2017.json": json.dumps(document(images, person)).encode()}
    )
    stuff = zipped({"stuff_val2017.json": json.dumps(document(images, road, STUFF)).encode()})
    files = (
        remote(
            server.put("/missing", b"", always=status(404)),
            server.put("/things.zip", things),
            body=things,
            name=THINGS_ZIP,
            into="annotations",
            unpacked_at_most=10**6,
        ),
        remote(
            server.put("/stuff.zip", stuff),
            body=stuff,
            name=STUFF_ZIP,
            into="stuff_trainval2017",
            unpacked_at_most=10**6,
            size=None,
            about=9999,
        ),
    )
    asked = []

    def collection(name, *, images=False):
        asked.append((name, images))
        more = (remote(server.put("/file.bin", BODY)),) if images else ()
        return Collection(
            name=name,
            files=files + more,
            licenses=("CC BY [4.0]",),
            next="nooch import coco-stuff {root} DATASET",
        )

    monkeypatch.setattr("nooch.base.download.collection", collection)
    return asked


def test_everything_is_brought_and_said(run_cli, known, tmp_path):
    root = tmp_path / "my data"
    done = run_cli("download coco-stuff", root).ok()
    assert f"{root}: 2 files (2 downloaded)" in done.out
    assert "license: CC BY [4.0]" in done.out
    assert f"next: nooch import coco-stuff '{root}' DATASET" in done.out
    assert sorted(p.name for p in root.iterdir() if not p.name.startswith(".")) == [
        "annotations", THINGS_ZIP, "stuff_trainval2017", STUFF_ZIP,
    ]  # fmt: skip
    done = run_cli("download coco-stuff", root)
    assert f"{root}: 2 files (2 unpacked)" in done.out
    assert known == [("coco-stuff", False)] * 2


def test_json_stands_alone(run_cli, known, server, tmp_path):
    done = run_cli("download coco-stuff root --images --no-keep-zips --format json").ok()
    found = done.json
    assert {k: found[k] for k in ("collection", "root", "licenses")} == {
        "collection": "coco-stuff", "root": "root", "licenses": ["CC BY [4.0]"],
    }  # fmt: skip
    assert [(f["name"], f["how"], f["source"]) for f in found["files"]] == [
        (THINGS_ZIP, "downloaded", server.url("/things.zip")),
        (STUFF_ZIP, "downloaded", server.url("/stuff.zip")),
        ("file.bin", "downloaded", server.url("/file.bin")),
    ]
    assert found["files"][2]["size"] == SIZE
    assert not list((tmp_path / "root").glob("*.zip"))


def test_one_error_and_exit_code_2(run_cli, known, server, tmp_path, monkeypatch):
    monkeypatch.setattr("nooch.base.http.time.sleep", lambda _: None)
    server.put("/things.zip", b"", always=status(403))
    done = run_cli("download coco-stuff root")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("error:") == 1
    assert "Traceback" not in done.err
    assert f"{server.url('/things.zip')} answers 403 Forbidden" in done.err
    assert f"{server.url('/missing')} answers 404 Not Found" in done.err
    assert left(tmp_path / "root") == []


def test_published_is_another_collection(run_cli, known, tmp_path):
    run_cli("download nooch-published root").ok()
    assert known == [("nooch-published", False)]
    assert "no such option" in run_cli("download nooch-published x --images").err.lower()


def test_progress_on_a_terminal(known, server, run_cli, monkeypatch):
    from nooch.cli.commands import download as downloading

    told = []
    monkeypatch.setattr(downloading, "show_progress", lambda *what: told.append(what))
    monkeypatch.setattr("nooch.base.download.LARGE", 10**6)
    server.put("/file.bin", BODY, cut(1_000_000))
    run_cli("download coco-stuff root --images --format json").ok()
    assert told[0] == ("files", 0, 3)
    assert told[-1] == ("files", 3, 3)
    assert ("downloading file.bin (MB)", 3, 3) in told


# images, one by one

JPEG = b"\xff\xd8\xff\xe0" + BODY[:5000]
IMAGES = ["000000000009.jpg", "COCO_val2014_000000000042.jpg", "000000000139.jpg"]


@pytest.fixture
def coco_server(monkeypatch, server):
    """COCO's server, which has two images, and then a third."""
    from nooch.base import download as downloads

    catalog = downloads._catalog()
    catalog["mirrors"]["coco"] = [server.url("/a/"), server.url("/b/")]
    monkeypatch.setattr(downloads, "_catalog", lambda: catalog)
    for path in ("/a/train2017/000000000009.jpg", "/b/val2014/COCO_val2014_000000000042.jpg"):
        server.put(path, JPEG)
    return server


def test_listed_images_are_fetched_one_by_one(run_cli, coco_server, tmp_path):
    listed = tmp_path / "images.txt"
    listed.write_text("\n".join(["# nooch-images", *IMAGES, ""]))
    first = run_cli(f"download nooch-coco-images coco --list {listed}")
    assert first.code == 2
    assert "val2017/000000000139.jpg answers 404" in first.err.replace("\n", "")
    assert left(tmp_path / "coco") == IMAGES[:2]
    coco_server.put("/b/val2017/000000000139.jpg", b"<html>no image")
    again = run_cli(f"download nooch-coco-images coco --list {listed}")
    assert "is not a JPEG image" in again.err.replace("\n", " ")
    coco_server.put("/b/val2017/000000000139.jpg", JPEG, cut(1000))
    asked = len(coco_server.requests)
    done = run_cli(f"download nooch-coco-images coco --list {listed}").ok()
    assert "3 files (2 there, 1 downloaded)" in done.out
    assert "Flickr" in done.out
    assert done.err.count("note:") == 1
    assert "no checksum is published for 3 images" in done.err.replace("\n", " ")
    assert {path for path, _ in coco_server.requests[asked:]} == {
        f"/{base}/{folder}2017/000000000139.jpg" for base in "ab" for folder in ("train", "val")
    }
    assert [(tmp_path / "coco" / name).read_bytes() for name in IMAGES] == [JPEG] * 3


def test_the_images_of_the_default_draw(run_cli, monkeypatch, tmp_path):
    run_cli("export nooch-coco images.txt --to images").ok()
    lines = (tmp_path / "images.txt").read_text().splitlines()
    names = [line for line in lines if not line.startswith("#")]
    assert len(names) == 4330
    wanted = []

    def download(source, root, **_):
        wanted.extend(file.name for file in source.files)
        return Downloaded(source.name, str(root), [], [], source.next, [])

    monkeypatch.setattr("nooch.base.download.download", download)
    run_cli("download nooch-coco-images coco").ok()
    assert wanted == names


@pytest.mark.parametrize(
    "name", ["../up.jpg", "photo.jpg", "a/000000000009.jpg", "000000000009.png"]
)
def test_other_names_are_refused(run_cli, coco_server, tmp_path, name):
    (tmp_path / "images.txt").write_text(f"000000000009.jpg\n{name}\n")
    done = run_cli("download nooch-coco-images coco --list images.txt")
    assert done.code == 2
    assert f"1 names are not of COCO's images: {name}" in done.err.replace("\n", " ")
    assert coco_server.requests == []


# nooch import coco-stuff


@pytest.fixture
def root(run_cli, known, tmp_path):
    run_cli("download coco-stuff root").ok()
    return tmp_path / "root"


def test_what_was_downloaded_is_imported(run_cli, root, tmp_path):
    done = run_cli(f"import coco-stuff {root} data --format json").ok()
    assert (done.json["images"], done.json["splits"], done.json["annotated"]) == (
        10,
        {"all": 10},
        15,
    )
    text = "instances_train2017.json is not there: train2017 is left out"
    assert text in done.json["notes"]
    assert text in done.err
    assert list(load_dataset(tmp_path / "data").provenance["notes"]) == done.json["notes"]
    assert "--split" not in done.err


def test_options_of_an_import(run_cli, root, tmp_path):
    words = f"import coco-stuff {root} data"
    done = run_cli(f"{words} --split 70/10/20 --seed 3 --processes 1 --format json")
    assert done.json["splits"] == {"train": 7, "valid": 1, "test": 2}
    assert run_cli(words).code == 2
    run_cli(f"{words} --overwrite").ok()
    assert "matches no part of" in run_cli(f"import coco-stuff {root} x --group 'a{{9}}'").err


def test_the_papers_split_is_offered_and_not_applied(run_cli, root, tmp_path):
    file = root / "cocostuff_split_image_ids.npz"
    np.savez(file, train_ids=np.arange(1, 8), valid_ids=np.array([8]), test_ids=np.array([9, 10]))
    done = run_cli(f"import coco-stuff {root} data")
    assert f"--split {file}" in done.err
    assert load_dataset(tmp_path / "data").splits == {"all": 10}
    done = run_cli(f"import coco-stuff {root} split --split {file}").ok()
    assert "gives the paper's" not in done.err
    assert load_dataset(tmp_path / "split").splits == {"train": 7, "valid": 1, "test": 2}


def test_nothing_to_import(run_cli, tmp_path):
    write(tmp_path / "root" / "other.json", {})
    done = run_cli("import coco-stuff root data")
    assert (done.code, done.out) == (2, "")
    assert "looked for in" in done.err
    assert not (tmp_path / "data").exists()
