"""COCO-Stuff is found below a folder in the layouts that people have; what is missing is said."""

import shutil

import numpy as np
import pytest
from coco_files import STUFF, areas_of, document, image, write
from PIL import Image
from refusals import fails

from nooch.readers.coco.coco_layout import find_coco, find_split
from nooch.readers.reader_contract import read

PARTS = {"train2017": [1, 2, 3], "val2017": [4, 5]}
ROAD = {"image_id": 0, "category_id": 149, "area": 8.0}
PERSON = {"image_id": 0, "category_id": 1, "area": 4.0}


def _contents(part):
    images = [image(i) for i in PARTS[part]]
    return {
        f"instances_{part}.json": document(
            images, [PERSON | {"image_id": i} for i in PARTS[part] if i % 2]
        ),
        f"stuff_{part}.json": document(
            images, [ROAD | {"image_id": i} for i in PARTS[part]], STUFF
        ),
        f"captions_{part}.json": {
            "images": images,
            "annotations": [{"image_id": PARTS[part][0], "caption": "a road"}],
        },
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


@pytest.mark.parametrize(
    ("things", "stuff"),
    [
        ("annotations", None),
        ("", None),
        ("annotations", "stuff_trainval2017"),
        ("annotations", "stuff_trainval2017/annotations"),
        ("annotations", "annotations/stuff_trainval2017"),
        ("annotations", ""),
        ("dataset/annotations", None),
        ("dataset/annotations", "dataset/annotations/stuff_trainval2017"),
        ("coco/annotations", None),
    ],
)
@pytest.mark.parametrize("images", ["images", "", "dataset/images", "coco/images", "coco"])
def test_the_usual_layouts(tmp_path, things, stuff, images):
    _lay(tmp_path, things, stuff)
    _lay_images(tmp_path / images)
    data = _read(tmp_path)
    assert areas_of(data) == WHOLE
    assert data.captions.height == 2
    assert data.image_root == str((tmp_path / images).resolve())
    assert data.images["file_name"].to_list()[0] == "train2017/000000000001.jpg"
    assert data.provenance["notes"] == ["3 images have no caption: they have no gist"]


def test_what_download_leaves_is_read(tmp_path):
    import json

    from download_server import zipped

    from nooch.download import unpack

    for into, roles in (
        ("annotations", ("instances", "captions")),
        ("stuff_trainval2017", ("stuff",)),
    ):
        files = {
            f"annotations/{name}": json.dumps(content).encode()
            for part in PARTS for name, content in _contents(part).items() if name.startswith(roles)
        }  # fmt: skip
        path = write(tmp_path / f"{into}.zip", zipped(files))
        unpack(path, tmp_path / into, 10**6)
    assert areas_of(_read(tmp_path)) == WHOLE


def test_one_part_alone(tmp_path):
    _lay(tmp_path, parts=["val2017"])
    _lay_images(tmp_path / "images", ["val2017"])
    data = _read(tmp_path)
    assert areas_of(data) == {i: WHOLE[i] for i in (4, 5)}
    assert find_coco(tmp_path).notes == [
        "instances_train2017.json is not there: train2017 is left out"
    ]
    # stuff and captions of the other part make no images
    for role in ("stuff", "captions"):
        write(
            tmp_path / "annotations" / f"{role}_train2017.json",
            _contents("train2017")[f"{role}_train2017.json"],
        )
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


def test_the_order_of_preference_of_images(tmp_path):
    _lay(tmp_path)
    _lay_images(tmp_path / "images")
    _lay_images(tmp_path / "dataset" / "images")
    assert find_coco(tmp_path).images == tmp_path / "images"


def test_copies_are_one_file_and_others_are_refused(tmp_path):
    _lay(tmp_path)
    shutil.copytree(tmp_path / "annotations", tmp_path / "dataset" / "annotations")
    (tmp_path / "coco").mkdir()
    (tmp_path / "coco" / "annotations").symlink_to(tmp_path / "annotations")
    assert find_coco(tmp_path).things == [
        tmp_path / "annotations" / f"instances_{p}.json" for p in PARTS
    ]
    write(tmp_path / "dataset" / "annotations" / "stuff_val2017.json", {})
    text = fails(lambda: find_coco(tmp_path), "differs from", "which of them is meant")
    for folder in ("annotations", "dataset/annotations"):
        assert str(tmp_path / folder / "stuff_val2017.json") in text


def test_nothing_is_there(tmp_path):
    fails(lambda: find_coco(tmp_path / "none"), "no such folder")
    text = fails(
        lambda: find_coco(tmp_path),
        "neither of instances_train2017.json, instances_val2017.json is there",
    )
    for place in ("annotations", "stuff_trainval2017", "dataset/annotations", "coco/annotations"):
        assert place in text
    assert f"nooch download coco-stuff {tmp_path}" in text


def test_stuff_is_missing(tmp_path):
    _lay(tmp_path, stuff="-")
    text = fails(
        lambda: find_coco(tmp_path),
        "stuff_train2017.json, stuff_val2017.json is there",
        "looked for in",
    )
    assert "pixel maps in stuffthingmaps/train2017" in text
    write(tmp_path / "stuff_train2017.json", _contents("train2017")["stuff_train2017.json"])
    fails(lambda: find_coco(tmp_path), "stuff_val2017.json is not there")
    # maps of one part do not do for both
    _lay_maps(lambda part: tmp_path / "stuffthingmaps" / part, 148, ["train2017"])
    fails(lambda: find_coco(tmp_path), "stuff_val2017.json is not there")


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (lambda root, part: root / "stuffthingmaps" / part, 148),
        (lambda root, part: root / "stuffthingmaps_trainval2017" / part, 148),
        (lambda root, part: root / "dataset" / "stuffthingmaps" / part, 148),
        (lambda root, part: root / f"stuff_{part}_pixelmaps", 149),
        (lambda root, part: root / "annotations" / f"stuff_{part}_pixelmaps", 149),
        (lambda root, part: root / "stuff_trainval2017" / f"stuff_{part}_pixelmaps", 149),
    ],
)
@pytest.mark.parametrize("parts", [["train2017", "val2017"], ["val2017"]], ids=["both", "val"])
def test_pixel_maps_take_the_place_of_stuff(tmp_path, pattern, value, parts):
    _lay(tmp_path, stuff="-", parts=parts)
    # of both parts, whatever is annotated
    _lay_maps(lambda part: pattern(tmp_path, part), value)
    data = _read(tmp_path)
    assert areas_of(data) == {i: WHOLE[i] for part in parts for i in PARTS[part]}
    # files go first
    _lay(tmp_path, parts=parts)
    assert find_coco(tmp_path).stuff_maps is None


def test_maps_beside_other_images_are_refused(tmp_path):
    _lay(tmp_path, stuff="-")
    _lay_maps(lambda part: tmp_path / "annotations" / f"stuff_{part}_pixelmaps", 149)
    _lay_maps(lambda part: tmp_path / "annotations" / f"panoptic_{part}", 7)
    fails(lambda: find_coco(tmp_path), "that would be counted as pixel maps", "`stuff_maps`")


@pytest.mark.parametrize("name", ["nooch_split.npz", "cocostuff_split_image_ids.npz"])
def test_the_papers_split(tmp_path, name):
    assert find_split(tmp_path) is None
    write(tmp_path / name, b"")
    assert find_split(tmp_path) == tmp_path / name
