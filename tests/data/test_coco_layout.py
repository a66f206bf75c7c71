"""COCO-Stuff is found below a folder in the usual layouts; missing files are reported."""

import json
import shutil

import numpy as np
import pytest
from coco_files import STUFF, areas_of, document, image, write
from download_server import zipped
from PIL import Image
from refusals import fails

from nooch.base.zips import unpack
from nooch.data.readers.coco.layout import find_coco, find_split
from nooch.data.readers.contract import read

PARTS = {"train2017": [1, 2, 3], "val2017": [4, 5]}
ROAD = {"image_id": 0, "category_id": 149, "area": 8.0}
PERSON = {"image_id": 0, "category_id": 1, "area": 4.0}


def _contents(part):
    images = [image(i) for i in PARTS[part]]
    persons = [PERSON | {"image_id": i} for i in PARTS[part] if i % 2]
    roads = [ROAD | {"image_id": i} for i in PARTS[part]]
    captions = [{"image_id": PARTS[part][0], "caption": "a road"}]
    return {
        f"instances_{part}.json": document(images, persons),
        f"stuff_{part}.json": document(images, roads, STUFF),
        f"captions_{part}.json": {"images": images, "annotations": captions},
    }


def _lay(root, things="annotations", stuff=None, captions=None, parts=("train2017", "val2017")):
    """Write the files into these folders; None: with the things, "-": not at all."""
    for part in parts:
        for name, content in _contents(part).items():
            role = name.partition("_")[0]
            where = things if role == "instances" else (stuff if role == "stuff" else captions)
            if where != "-":
                write(root / (things if where is None else where) / name, content)


def _lay_images(folder, parts=("train2017", "val2017")):
    for part in parts:
        for i in PARTS[part]:
            write(folder / part / f"{i:012d}.jpg", b"")


def _lay_maps(pattern, value, parts=("train2017", "val2017")):
    for part in parts:
        for i in PARTS[part]:
            path = write(pattern(part) / f"{i:012d}.png", b"")
            Image.fromarray(np.array([[value] * 4] * 2 + [[255] * 4] * 2, np.uint8)).save(path)


def _read(root, images=None):
    layout = find_coco(root)
    return read(layout.reading, images=images or layout.images)


WHOLE = {i: {"person": 0.25, "road": 0.5} if i % 2 else {"road": 0.5} for i in range(1, 6)}


LAYOUTS = [("annotations", None), ("", None), ("dataset/annotations", None)]
LAYOUTS += [("coco/annotations", None), ("annotations", "")]
LAYOUTS += [("annotations", f"stuff_trainval2017{more}") for more in ("", "/annotations")]
LAYOUTS += [(name, f"{name}/stuff_trainval2017") for name in ("annotations", "dataset/annotations")]


@pytest.mark.parametrize(("things", "stuff"), LAYOUTS)
@pytest.mark.parametrize("images", ["images", "", "dataset/images", "coco/images", "coco"])
def test_the_usual_layouts(tmp_path, things, stuff, images):
    _lay(tmp_path, things, stuff)
    _lay_images(tmp_path / images)
    data = _read(tmp_path)
    assert areas_of(data) == WHOLE
    assert data.captions.height == 2
    assert data.image_root == str((tmp_path / images).resolve())
    assert data.images["file_name"].to_list()[0] == "train2017/000000000001.jpg"
    assert data.provenance["notes"] == ["3 images have no caption, so they have no gist"]


def test_what_download_leaves_is_read(tmp_path):
    contents = {name: text for part in PARTS for name, text in _contents(part).items()}
    texts = {f"annotations/{name}": json.dumps(text).encode() for name, text in contents.items()}
    for into in ("annotations", "stuff_trainval2017"):
        is_stuff = into == "stuff_trainval2017"
        files = {name: text for name, text in texts.items() if ("/stuff" in name) == is_stuff}
        path = write(tmp_path / f"{into}.zip", zipped(files))
        unpack(path, tmp_path / into, 10**6)
    assert areas_of(_read(tmp_path)) == WHOLE


def test_one_part_alone(tmp_path):
    _lay(tmp_path, parts=["val2017"])
    _lay_images(tmp_path / "images", ["val2017"])
    data = _read(tmp_path)
    assert areas_of(data) == {i: WHOLE[i] for i in (4, 5)}
    note = "instances_train2017.json is not there: train2017 is left out"
    assert find_coco(tmp_path).notes == [note]
    # stuff and captions of the other part make no images
    for name in ("stuff_train2017.json", "captions_train2017.json"):
        write(tmp_path / "annotations" / name, _contents("train2017")[name])
    assert areas_of(_read(tmp_path)) == {i: WHOLE[i] for i in (4, 5)}


def test_captions_may_be_missing(tmp_path):
    _lay(tmp_path, captions="-")
    assert _read(tmp_path).captions is None
    write(tmp_path / "captions_val2017.json", _contents("val2017")["captions_val2017.json"])
    data = _read(tmp_path)
    assert data.captions.height == 1
    assert find_coco(tmp_path).notes == ["captions_train2017.json is not there"]


def test_images_elsewhere_or_nowhere(tmp_path):
    _lay(tmp_path / "root")
    assert _read(tmp_path / "root").image_root is None
    _lay_images(tmp_path / "mine")
    assert _read(tmp_path / "root", images=tmp_path / "mine").image_root == str(tmp_path / "mine")
    # a folder of images without parts
    (tmp_path / "root" / "images").mkdir()
    assert find_coco(tmp_path / "root").images == tmp_path / "root" / "images"
    # which goes before another one
    for folder in (tmp_path / "root" / "images", tmp_path / "root" / "dataset" / "images"):
        _lay_images(folder)
    assert find_coco(tmp_path / "root").images == tmp_path / "root" / "images"


def test_copies_are_one_file_and_others_are_refused(tmp_path):
    _lay(tmp_path)
    shutil.copytree(tmp_path / "annotations", tmp_path / "dataset" / "annotations")
    (tmp_path / "coco").mkdir()
    (tmp_path / "coco" / "annotations").symlink_to(tmp_path / "annotations")
    names = [f"instances_{part}.json" for part in PARTS]
    assert find_coco(tmp_path).things == [tmp_path / "annotations" / name for name in names]
    write(tmp_path / "dataset" / "annotations" / "stuff_val2017.json", {})
    text = fails(lambda: find_coco(tmp_path), "differs from", "which of the two is meant")
    for folder in ("annotations", "dataset/annotations"):
        assert str(tmp_path / folder / "stuff_val2017.json") in text


def test_nothing_is_there(tmp_path):
    fails(lambda: find_coco(tmp_path / "none"), "no such folder")
    problem = "does not contain instances_train2017.json or instances_val2017.json"
    text = fails(lambda: find_coco(tmp_path), problem)
    for place in ("annotations", "stuff_trainval2017", "dataset/annotations", "coco/annotations"):
        assert place in text
    assert f"nooch download coco-stuff with root={str(tmp_path)!r}" in text


def test_stuff_is_missing(tmp_path):
    _lay(tmp_path, stuff="-")
    parts = "does not contain stuff_train2017.json or stuff_val2017.json", "looked for in"
    text = fails(lambda: find_coco(tmp_path), *parts)
    assert "pixel maps in stuffthingmaps/train2017" in text
    write(tmp_path / "stuff_train2017.json", _contents("train2017")["stuff_train2017.json"])
    fails(lambda: find_coco(tmp_path), "does not contain stuff_val2017.json")
    # maps of one part do not do for both
    _lay_maps(lambda part: tmp_path / "stuffthingmaps" / part, 148, ["train2017"])
    fails(lambda: find_coco(tmp_path), "does not contain stuff_val2017.json")


PATTERNS = {
    "stuffthingmaps/PART": 148,
    "stuffthingmaps_trainval2017/PART": 148,
    "dataset/stuffthingmaps/PART": 148,
    "stuff_PART_pixelmaps": 149,
    "annotations/stuff_PART_pixelmaps": 149,
    "stuff_trainval2017/stuff_PART_pixelmaps": 149,
}


@pytest.mark.parametrize(("pattern", "value"), PATTERNS.items())
@pytest.mark.parametrize("parts", [["train2017", "val2017"], ["val2017"]], ids=["both", "val"])
def test_pixel_maps_take_the_place_of_stuff(tmp_path, pattern, value, parts):
    _lay(tmp_path, stuff="-", parts=parts)
    # of both parts, whatever is annotated
    _lay_maps(lambda part: tmp_path / pattern.replace("PART", part), value)
    data = _read(tmp_path)
    assert areas_of(data) == {i: WHOLE[i] for part in parts for i in PARTS[part]}
    # files go first
    _lay(tmp_path, parts=parts)
    assert find_coco(tmp_path).stuff_maps is None


def test_maps_next_to_other_images_are_refused(tmp_path):
    _lay(tmp_path, stuff="-")
    _lay_maps(lambda part: tmp_path / "annotations" / f"stuff_{part}_pixelmaps", 149)
    _lay_maps(lambda part: tmp_path / "annotations" / f"panoptic_{part}", 7)
    fails(lambda: find_coco(tmp_path), "that would be counted as pixel maps", "`stuff_maps`")


@pytest.mark.parametrize("name", ["nooch_split.npz", "cocostuff_split_image_ids.npz"])
def test_the_papers_split(tmp_path, name):
    assert find_split(tmp_path) is None
    write(tmp_path / name, b"")
    assert find_split(tmp_path) == tmp_path / name
