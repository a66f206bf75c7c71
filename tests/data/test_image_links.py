"""Links, pipes and odd names in a folder of images: followed, or left out and named."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
from in_memory import read_label_maps
from PIL import Image
from refusals import fails

import nooch
from nooch.data.readers.contract import read
from nooch.data.readers.image_files import FolderWalk, ImageIndex, list_images, opened_image
from nooch.data.readers.image_folder import FolderReading
from nooch.models.caches.pixels import build_pixels
from nooch.models.images import decode_images


def _picture(path, color=9):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (color, 0, 0)).save(path)
    return path


def _listed(root, *, follow=True):
    walk = FolderWalk(follow)
    return sorted(list_images(root, walk)), sorted(walk.left_out), sorted(walk.led_out)


@pytest.fixture
def cache(tmp_path):
    """Two classes as a hub's cache has them: every image is a link to a blob without ending."""
    for number, name in enumerate(("cat/a.jpg", "dog/b.jpg")):
        blob = tmp_path / "blobs" / f"{number:040x}"
        _picture(blob.with_suffix(".jpg"), 200 * number).rename(blob)
        link = tmp_path / "snapshot" / name
        link.parent.mkdir(parents=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return tmp_path / "snapshot"


def test_an_image_folder_of_links_is_read_whole(cache, tmp_path):
    data = read(FolderReading(cache))
    assert list(data.image_ids) == ["cat/a.jpg", "dog/b.jpg"]
    (note,) = data.provenance["notes"][1:]
    assert note.startswith("followed 2 links out of the folder of images: cat/a.jpg, dog/b.jpg")
    nooch.import_dataset(FolderReading(cache), tmp_path / "data")
    saved = nooch.load_dataset(tmp_path / "data")
    assert saved.provenance["notes"] == data.provenance["notes"]
    # the folder that is recorded came with data, and is not left
    left = "left out of the folder of images: 2: ", "a link that leads out of the folder"
    words = "2 of 2 images were not found", *left, "`images`"
    fails(lambda: build_pixels(saved, tmp_path / "px", size=8), *words)
    pixels = build_pixels(saved, tmp_path / "px", size=8, images=cache, codec="pil")
    assert np.abs(pixels.array[:, 0, 0, 0].astype(int) - [0, 200]).max() < 10


def test_links_to_folders_are_followed_once(tmp_path):
    root, away = tmp_path / "root", tmp_path / "away"
    _picture(root / "own" / "a.jpg")
    _picture(away / "deep" / "b.jpg")
    (root / "linked").symlink_to(away)
    (away / "deep" / "back").symlink_to(root)
    (away / "round").symlink_to(away)
    (root / "up").symlink_to(tmp_path)
    (root / "twin").symlink_to(root / "own")
    images, left, led = _listed(root)
    assert images == ["linked/deep/b.jpg", "own/a.jpg"]
    assert led == ["linked"]
    again = "(a link to a folder that is listed without it)"
    assert left == [f"{n} {again}" for n in ("linked/deep/back", "linked/round", "twin", "up")]
    images, left, led = _listed(root, follow=False)
    assert (images, led) == (["own/a.jpg"], [])
    assert "linked (a link that leads out of the folder)" in left


def test_what_is_no_image_file_is_named(tmp_path):
    root = tmp_path / "root"
    _picture(root / "a.jpg")
    os.mkfifo(root / "pipe.jpg")
    (root / "gone.jpg").symlink_to("nowhere")
    (root / "self").symlink_to("self")
    (root / "notes.txt").symlink_to("nowhere")
    (root / "to-pipe.jpg").symlink_to("pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)
        try:
            server.bind("socket.jpg")
        finally:
            os.chdir(here)
        images, left, _ = _listed(root)
    assert images == ["a.jpg"]
    assert left == [
        "gone.jpg (a link that leads nowhere)",
        "pipe.jpg (not a regular file)",
        "self (a link that leads nowhere)",
        "socket.jpg (not a regular file)",
        "to-pipe.jpg (not a regular file)",
    ]
    index = ImageIndex(root)
    fails(lambda: index.all_of([1], ["pipe.jpg"], "`images`"), "pipe.jpg (not a regular file)")


def test_names_that_are_not_utf_8_are_named(tmp_path):
    root = tmp_path / "root"
    _picture(root / "c" / "a.jpg")
    try:
        _picture(root / "c" / "b.jpg").rename(root / "c" / os.fsdecode(b"na\xefve.jpg"))
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    data = read(FolderReading(root))
    assert list(data.image_ids) == ["c/a.jpg"]
    assert "1: c/na\\udcefve.jpg (its name is not UTF-8)" in data.provenance["notes"][1]


@pytest.mark.parametrize("name", ["pipe.jpg", "link.jpg", "zero.jpg"])
def test_pipes_are_never_waited_for_and_devices_not_read(tmp_path, name):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "link.jpg").symlink_to("pipe.jpg")
    (tmp_path / "zero.jpg").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="is not a regular file"), opened_image(tmp_path / name):
        pass
    for codec in ("pil", "auto"):
        _, broken = decode_images([tmp_path / name], (4, 4), codec)
        assert broken == [f"{tmp_path / name}: is not a regular file"]


@pytest.mark.parametrize("odd", ["pipe", "link", "utf-8"])
def test_label_maps_are_not_left_out_silently(tmp_path, odd):
    maps = tmp_path / "maps"
    maps.mkdir()
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(maps / "1.png")
    if odd == "pipe":
        os.mkfifo(maps / "2.png")
    elif odd == "link":
        (maps / "2.png").symlink_to("nowhere")
    else:
        try:
            (maps / os.fsdecode(b"na\xefve.png")).write_bytes((maps / "1.png").read_bytes())
        except OSError:
            pytest.skip("this file system has UTF-8 names only")
    (tmp_path / "classes.txt").write_text("sky\n")
    problem = "1 entries cannot be read: ", "remedy: repair, rename or remove them"
    fails(lambda: read_label_maps(maps, tmp_path / "classes.txt"), *problem)


FILES = [
    "a/0001.jpg", "a/img/7.JPG", "b/img/7.png", "b/u\u0308ber.jpg", "c/Straße.jpg", "c/x.y.jpg",
    "d/two.jpg", "e/two.jpg", "f/010.jpg",
]  # fmt: skip
NAMES = {
    "a/0001.jpg": "a/0001.jpg",
    "0001.jpg": "a/0001.jpg",
    "1.jpg": "a/0001.jpg",
    "a/1.jpg": "a/0001.jpg",
    "b/1.jpg": None,
    "a\\img\\7.JPG": "a/img/7.JPG",
    "img/7.jpg": "a/img/7.JPG",
    "C:\\data\\img\\7.png": "b/img/7.png",
    "/data/elsewhere/7.png": "b/img/7.png",
    "../../img/7.png": "b/img/7.png",
    "data/elsewhere/7.png": None,
    "./d/two.jpg": "d/two.jpg",
    "/data/e/two.jpg": "e/two.jpg",
    "b/\u00fcber.jpg": "b/u\u0308ber.jpg",
    "B/\u00dcBER.JPG": "b/u\u0308ber.jpg",
    "x.y.jpg": "c/x.y.jpg",
    "x.jpg": None,
    "10.jpg": "f/010.jpg",
    "100.jpg": None,
    "7": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_the_file_with_the_longest_common_end_in_its_first_form(tmp_path, name):
    index = ImageIndex(tmp_path, FILES)
    assert index.by_file_name(name) == NAMES[name]
    stem = name.rsplit(".", 1)[0]
    if NAMES[name] is not None and name.count("7") == 0:
        assert index.by_stem(stem) == NAMES[name]


def test_names_of_several_files_are_refused_and_ids_have_zeros(tmp_path):
    index = ImageIndex(tmp_path, FILES)
    for name in ("two.jpg", "TWO.jpg", "/data/two.jpg"):
        fails(lambda: index.by_file_name(name), f"several files are called {name}")  # noqa: B023
    fails(lambda: index.by_stem("7"), "several files are called 7")
    assert [index.by_id(i) for i in (1, 10, 100, "0001", "c/x.y", "d/x.y")] == [
        "a/0001.jpg", "f/010.jpg", None, "a/0001.jpg", "c/x.y.jpg", None
    ]  # fmt: skip


@pytest.mark.parametrize("record", ["report.json", "audit.parquet"])
def test_pictures_of_pages_are_no_images(record, tmp_path):
    """A check or an audit next to the images has copies of them, called by numbers."""
    for folder in ("out/report/pictures/valid/0", "mine/pictures", "out/report/other"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "0.jpg").touch()
    (tmp_path / "out/report" / record).touch()
    assert sorted(list_images(tmp_path)) == ["mine/pictures/0.jpg", "out/report/other/0.jpg"]
