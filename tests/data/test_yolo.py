"""YOLO datasets with a data.yaml: names, splits, missing label files, paths that lead out."""

from itertools import pairwise

import pytest
from coco_files import PHOTO, areas_of, write
from refusals import fails, refused

from nooch.data import load_dataset
from nooch.data.readers.boxes import read_boxes
from nooch.data.readers.yolo import label_of, read_yolo_data

PROXY = "areas are of bounding boxes, which are larger than the objects in them"
NAMES = "names: [person, fire hydrant]\n"
TRAIN = "train: images/train\nval: images/val\n"
LABELS = {"train/1": "0 .5 .5 .5 .5", "train/2": "", "val/4": "1 .5 .5 1 1"}
IMAGES = ("train/1", "train/2", "train/3", "val/4", "val/5")


def _dataset(folder, yaml, images=IMAGES, labels=LABELS):
    """A YOLO dataset of five images, of which 3 and 5 have no label file."""
    for name in images:
        write(folder / "images" / f"{name}.jpg", PHOTO)
    for name, text in labels.items():
        write(folder / "labels" / f"{name}.txt", text)
    return write(folder / "data.yaml", yaml)


def _read(file, source):
    """With the file as the source, or its folder and the file as the classes."""
    options = {} if source == "the file" else {"classes": file}
    return read_boxes(file.parent if options else file, "yolo", **options)


def _splits(data):
    return dict(data.images.select("image_id", "split").rows())


AREAS = {1: {"person": 0.25}, 2: {}, 3: {}, 4: {"fire_hydrant": 1.0}, 5: {}}


@pytest.mark.parametrize(
    "yaml",
    [
        TRAIN + NAMES,
        TRAIN + "nc: 2\nnames: {0: person, 1: fire hydrant}\n",
        TRAIN + "names:\n  1: fire hydrant\n  '0': person\n",
        "path: .\ntrain: [images/train]\nvalid: images/val/\ntest:\n" + NAMES,
        # exports of Roboflow
        "train: ../images/train\nval: ../images/val\n" + NAMES + "roboflow: {license: MIT}\n",
        "train: train.txt\nvalidation: images/val\n" + NAMES,
    ],
)
@pytest.mark.parametrize("source", ["the folder", "the file"])
def test_names_splits_and_images_without_a_label_file(tmp_path, yaml, source):
    file = _dataset(tmp_path / "d", yaml)
    listed = "./images/train/1.jpg\nimages/train/2.jpg\n\n./images/train/3.jpg\n"
    write(tmp_path / "d" / "train.txt", listed)
    data = _read(file, source)
    assert data.classes == ("person", "fire_hydrant")
    assert areas_of(data) == AREAS
    assert _splits(data) == {1: "train", 2: "train", 3: "train", 4: "valid", 5: "valid"}
    assert data.images["file_name"].to_list() == [f"images/{name}.jpg" for name in IMAGES]
    assert data.image_root == str((tmp_path / "d").resolve())
    assert data.provenance["notes"] == [
        PROXY,
        "2 of 5 images have no label file or row: they count as images without objects",
    ]


def test_the_path_of_a_file_that_is_the_source_may_lead_anywhere(tmp_path):
    _dataset(tmp_path / "d", "")
    for path in ("../d", str(tmp_path / "d")):
        file = write(tmp_path / "elsewhere" / "data.yml", f"path: {path}\n" + TRAIN + NAMES)
        assert areas_of(read_boxes(file, "yolo")) == AREAS
    # with a folder as the source, path has no effect
    assert areas_of(read_boxes(tmp_path / "d", "yolo", classes=file)) == AREAS
    file = write(file, "path: ../nowhere\n" + TRAIN + NAMES)
    parts = "data.yml, path", "nowhere is not a folder", "the file as classes"
    fails(lambda: read_boxes(file, "yolo"), *parts)
    file = write(file, TRAIN + NAMES)
    fails(lambda: read_boxes(file, "yolo"), "names no images that are there", "correct path:")
    fails(lambda: read_boxes(write(file, NAMES), "yolo"), "names no images that are there")


def test_labels_lie_where_images_is_last_or_next_to_the_image(tmp_path):
    assert label_of("images/a/images/b/1.2.jpg") == "images/a/labels/b/1.2.txt"
    assert label_of("train/images/1.jpg") == "train/labels/1.txt"
    assert label_of("pictures/images.jpg") == "pictures/images.txt"
    write(tmp_path / "a" / "7.jpg", PHOTO)
    write(tmp_path / "a" / "7.txt", "0 .5 .5 .5 .5")
    write(tmp_path / "b" / "8.png", PHOTO)
    data = read_boxes(write(tmp_path / "data.yaml", "train: a\ntest: b\n" + NAMES), "yolo")
    assert areas_of(data) == {7: {"person": 0.25}, 8: {}}
    assert _splits(data) == {7: "train", 8: "test"}


def test_names_alone_for_a_folder_of_labels(tmp_path):
    names = "names: {0: person, 5: fire hydrant}\n"
    file = _dataset(tmp_path, TRAIN + names, labels={"train/1": "5 .5 .5 1 1"})
    data = read_boxes(tmp_path / "labels", "yolo", classes=file)
    assert areas_of(data) == {1: {"fire_hydrant": 1.0}}
    assert data.images["split"].to_list() == ["all"]
    assert data.provenance["notes"] == [
        PROXY,
        f"the splits of data.yaml have no effect: none of them is below {tmp_path / 'labels'}",
        "no folder of images was given: images without a label file are left out",
    ]
    more = read_boxes(tmp_path / "labels", "yolo", classes=file, images=tmp_path / "images")
    assert areas_of(more) == {1: {"fire_hydrant": 1.0}, 2: {}, 3: {}, 4: {}, 5: {}}
    write(tmp_path / "labels" / "2.txt", "3 .5 .5 1 1")
    read = lambda: read_boxes(tmp_path / "labels", "yolo", classes=file)  # noqa: E731
    fails(read, "class 3 has no name", "0, 5, as data.yaml")


def test_a_folder_that_holds_images_is_their_folder(tmp_path):
    _dataset(tmp_path / "d", "")
    names = write(tmp_path / "names.txt", "person\nfire hydrant\n")
    data = read_boxes(tmp_path / "d", "yolo", classes=names)
    assert areas_of(data) == AREAS
    assert data.provenance["notes"][1].startswith("2 of 5 images have no label file")


YAML = {
    "no YAML": ("names: [", "cannot be read"),
    "no mapping": ("- person\n", "contains a list"),
    "a tag": ("names: !!python/object/apply:os.getcwd []\n", "cannot be read"),
    "no names": (TRAIN, "gives no names"),
    "names in a text": (TRAIN + "names: person\n", "gives no names"),
    "a truth value": (TRAIN + "names: [no, yes]\n", "the name of class 0 is not text",
        "quote names"),
    "an empty name": (TRAIN + "names: ['']\n", "empty name"),
    "a negative number": (TRAIN + "names: {-1: person}\n", "'-1' of names is not a number"),
    "a number twice": (TRAIN + "names: {1: person, '01': car}\n",
        "'01' of names is not a number, or given twice"),
    "another count": (TRAIN + "nc: 3\n" + NAMES, "nc is not the number", "nc: 2"),
    "a path that is none": (TRAIN + "path: [a]\n" + NAMES, "path is not text"),
    "an entry that is not a path": ("train: 5\n" + NAMES, "train is not a path"),
    "a split twice": (TRAIN + "validation: images/val\n" + NAMES,
        "validation names the split valid again"),
    "an entry that is not there": (TRAIN + "test: images/test\n" + NAMES,
        "images/test is not there", "remove it"),
    "an entry that leads out": ("train: images/train\nval: ../../outside\n" + NAMES,
        "../../outside is not there"),
    "an absolute entry": ("train: images/train\nval: /\n" + NAMES, "/ is not there"),
    "a link that leads out": ("train: images/train\nval: link\n" + NAMES, "link is not there"),
    "images in two splits": ("train: images\nval: images/val\n" + NAMES,
        "2 images are in the splits train and valid"),
    "another file": ("train: data.yaml\n" + NAMES, "neither a folder nor a list of images"),
    "a split without images": ("train: images/train\nval: labels\n" + NAMES,
        "the split valid has no image"),
    "a list that leads out": ("train: out.txt\n" + NAMES,
        "'./../outside/9.jpg' leads out of the folder"),
    "a list through a link": ("train: linked.txt\n" + NAMES,
        "'link/9.jpg' leads out of the folder"),
    "a list of labels": ("train: labels.txt\n" + NAMES, "'labels/train/1.txt' is not an image"),
    "neither image nor label": ("train: gone.txt\n" + NAMES,
        "1 images have neither an image file nor a label file"),
    "no label file": ("train: bare\n" + NAMES, "no label file is there, such as", "bare/9.txt"),
    "an unknown class": ("train: images/train\n" + "names: {1: a}\n", "class 0 has no name",
        "allowed: 1, as data.yaml"),
}  # fmt: skip


@pytest.mark.parametrize("case", YAML)
@pytest.mark.parametrize("source", ["the folder", "the file"])
def test_files_that_are_refused(tmp_path, case, source):
    text, *parts = YAML[case]
    file = _dataset(tmp_path / "d", text)
    write(tmp_path / "outside" / "9.jpg", PHOTO)
    write(tmp_path / "d" / "bare" / "9.jpg", PHOTO)
    (tmp_path / "d" / "link").symlink_to(tmp_path / "outside")
    lines = {"out": "./../outside/9.jpg", "linked": "link/9.jpg", "labels": "labels/train/1.txt"}
    for name, line in lines.items():
        write(tmp_path / "d" / f"{name}.txt", line)
    write(tmp_path / "d" / "gone.txt", "images/train/1.jpg\nimages/train/99.jpg\n")
    fails(lambda: _read(file, source), *parts, helps=False)


def test_labels_that_are_links_out_of_the_folder_are_refused(tmp_path):
    file = _dataset(tmp_path / "d", TRAIN + NAMES)
    write(tmp_path / "secret.txt", "0 .5 .5 1 1")
    (tmp_path / "d" / "labels" / "train" / "3.txt").symlink_to(tmp_path / "secret.txt")
    parts = "label files lead out of the folder", "labels/train/3.txt"
    fails(lambda: read_boxes(file, "yolo"), *parts)


def test_a_label_file_may_lack_its_image(tmp_path):
    file = _dataset(tmp_path, "train: train.txt\n" + NAMES, images=["train/2"])
    write(tmp_path / "train.txt", "images/train/1.jpg\nimages/train/2.jpg\n")
    data = read_boxes(file, "yolo")
    assert areas_of(data) == {1: {"person": 0.25}, 2: {}}
    assert data.provenance["notes"] == [PROXY, "1 of 2 image files are not there"]


def test_what_the_file_says_is_not_given_again(tmp_path):
    file = _dataset(tmp_path, TRAIN + NAMES)
    both = "leave out"
    refused(lambda: read_boxes(file, "yolo", images=tmp_path), both)
    refused(lambda: read_boxes(file, "yolo", classes=file), both)
    again = {"classes": file, "images": tmp_path}
    refused(lambda: read_boxes(tmp_path, "yolo", **again), "leave out images")


def test_a_file_of_aliases_is_harmless(tmp_path):
    pairs = pairwise("abcdefghijklmnopqrstu")
    bomb = "a: &a [x, x]\n" + "".join(f"{c}: &{c} [*{p}, *{p}]\n" for p, c in pairs)
    file = write(tmp_path / "data.yaml", bomb + "names: *u\n")
    fails(lambda: read_yolo_data(file), "has more than 20 aliases", "at most 20")


def test_as_typed(run_cli, tmp_path):
    file = _dataset(tmp_path / "d", TRAIN + NAMES)
    out, command = tmp_path / "out", "import boxes --boxes yolo --format json"
    done = run_cli(f"{command} {file.parent} --classes {file} {out}")
    assert done.code == 0, done.err
    assert {name: n for name, n in done.json["splits"].items() if n} == {"train": 3, "valid": 2}
    assert done.json["classes"] == 2
    assert "note: 2 of 5 images have no label file" in done.err
    again = run_cli(f"{command} {file} {tmp_path}/again --split 40/40/20")
    assert again.json["splits"] == {"train": 2, "valid": 2, "test": 1}
    for folder in (out, tmp_path / "again"):
        assert load_dataset(folder).classes == ("person", "fire_hydrant")
