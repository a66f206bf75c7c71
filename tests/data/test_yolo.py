"""YOLO datasets with a data.yaml: names, splits, missing label files, paths that lead out."""

from itertools import pairwise

import pytest
from coco_files import PHOTO, areas_of, write
from in_memory import read_boxes
from refusals import fails, refused

from nooch.data import load_dataset
from nooch.data.importing.recognition import recognize
from nooch.data.readers.box_formats import label_of
from nooch.data.readers.contract import read
from nooch.data.readers.yolo import read_yolo_data

PROXY = "areas are of bounding boxes, which are larger than their objects"
NAMES = "names: [person, fire hydrant]\n"
TRAIN = "train: images/train\nval: images/val\n"
BOX_OF_1 = "0 .5 .5 .5 .5"
LABELS = {"train/1": BOX_OF_1, "train/2": "", "val/4": "1 .5 .5 1 1"}
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
    parts = "names no images that exist", "nowhere", "this file as classes"
    fails(lambda: read_boxes(file, "yolo"), *parts)
    # a path of another machine is the folder of the file
    other = write(tmp_path / "d" / "data.yml", "path: /content/d\n" + TRAIN + NAMES)
    assert areas_of(read_boxes(other, "yolo")) == AREAS
    file = write(file, TRAIN + NAMES)
    fails(lambda: read_boxes(file, "yolo"), "names no images that exist", "correct path:")
    fails(lambda: read_boxes(write(file, NAMES), "yolo"), "names no images that exist")


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
    assert data.provenance["notes"][1] == "splits train, valid from the names of folders"
    assert data.provenance["notes"][2].startswith("2 of 5 images have no label file")


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
        "images/test does not exist", "remove it"),
    "an entry that leads out": ("train: images/train\nval: ../../outside\n" + NAMES,
        "../../outside does not exist"),
    "an absolute entry": ("train: images/train\nval: /\n" + NAMES, "/ does not exist"),
    "images in two splits": ("train: images\nval: images/val\n" + NAMES,
        "2 images are in the splits train and valid"),
    "another file": ("train: data.yaml\n" + NAMES, "neither a folder nor a list of images"),
    "a split without images": ("train: images/train\nval: labels\n" + NAMES,
        "the split valid has no image"),
    "a list of others": ("train: out.txt\n" + NAMES,
        "1 of 1 images have neither an image file nor a label file: ./../outside/8.jpg"),
    "a list of labels": ("train: labels.txt\n" + NAMES, "'labels/train/1.txt' is not an image"),
    "neither image nor label": ("train: gone.txt\n" + NAMES,
        "2 of 3 images have neither an image file nor a label file"),
    "no label file": ("train: bare\n" + NAMES, "no label file exists, such as", "bare/9.txt"),
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
    lines = {"out": "./../outside/8.jpg", "labels": "labels/train/1.txt"}
    for name, line in lines.items():
        write(tmp_path / "d" / f"{name}.txt", line)
    write(tmp_path / "d" / "gone.txt", "images/train/1.jpg\nimages/train/98.jpg\n99.jpg\n")
    fails(lambda: _read(file, source), *parts, helps=False)


LINKED = {
    "a folder": ("train: images/train\nval: link\n", "link does not exist"),
    "a list": (
        "train: linked.txt\n",
        "1 image leads out of the folder by links: link/9",
    ),
    "an image": ("train: odd\n", "the split train has no image; left out of the folder of images"),
    "a label": ("train: images/train\n", "1 label file leads out of the folder by links"),
}


@pytest.mark.parametrize("case", LINKED)
def test_links_out_are_followed_where_a_user_names_the_folder(tmp_path, case, run_cli):
    text, problem = LINKED[case]
    file, away = _dataset(tmp_path / "d", text + NAMES), tmp_path / "away"
    write(away / "9.jpg", PHOTO)
    write(away / "9.txt", "1 .5 .5 .5 .5")
    write(tmp_path / "d" / "linked.txt", "link/9.jpg\n")
    (tmp_path / "d" / "odd").mkdir()
    (tmp_path / "d" / "odd" / "9.txt").write_text("1 .5 .5 .5 .5")
    links = {"link": away, "odd/9.jpg": away / "9.jpg", "labels/train/3.txt": away / "9.txt"}
    if case != "a label":
        del links["labels/train/3.txt"]
    for name, target in links.items():
        (tmp_path / "d" / name).symlink_to(target)
    image, number = ("images/train/3.jpg", 3) if case == "a label" else (None, 9)
    for command in (f"auto {file.parent}", f"auto {file} --follow-links"):
        out = tmp_path / f"out-{len(command)}"
        done = run_cli(f"import {command} {out}")
        assert done.code == 0, done.err
        data = load_dataset(out)
        assert areas_of(data)[number] == {"fire_hydrant": 0.25}
        assert image is not None or "followed 1 link out of the folder of images: " in done.err
    fails(lambda: read_boxes(file, "yolo"), problem, helps=False)
    done = run_cli(f"import auto {file} {tmp_path / 'no'}")
    assert case == "a folder" or "--follow-links" in done.err


def test_what_is_not_there_is_found_by_the_end_of_its_path(tmp_path):
    file = _dataset(
        tmp_path / "d", "train: /content/d/train.txt\nval: C:\\d\\images\\val\n" + NAMES
    )
    names = (
        "/content/d/images/train/1.jpg",
        "..\\d\\images\\train\\2.jpg",
        "train/3.jpg",
        "77.jpg",
    )
    write(tmp_path / "d" / "train.txt", "\n".join(names))
    data = read_boxes(file, "yolo")
    assert areas_of(data) == AREAS
    assert _splits(data) == {1: "train", 2: "train", 3: "train", 4: "valid", 5: "valid"}
    ends = f"{names[0]} is images/train/1.jpg, {names[1]} is images/train/2.jpg"
    assert data.provenance["notes"][2:] == [
        "/content/d/train.txt of data.yaml does not exist: reading train.txt instead",
        "C:\\d\\images\\val of data.yaml does not exist: reading images/val instead",
        "1 image of train.txt left out, with neither an image nor a label file: 77.jpg",
        f"3 images of train.txt found by the end of their path: {ends} and 1 more",
    ]
    for image in (tmp_path / "d" / "images" / "train").iterdir():
        image.unlink()
    # an image without a file is called as its label
    assert {1, 2} <= {*areas_of(read_boxes(file, "yolo"))}


def _darknet(folder, lists):
    for number in (1, 2, 3):
        write(folder / "obj_data" / f"{number}.PNG", PHOTO)
        write(folder / "obj_data" / f"{number}.txt", f"{number % 2} .5 .5 .5 .5")
    write(folder / "obj.names", "car\nbus\n")
    for name, numbers in lists.items():
        lines = "".join(f"data/obj_data/{n}.PNG\n" for n in numbers)
        write(folder / f"{name}.txt", lines)
    return folder


@pytest.mark.parametrize("described", [True, False])
def test_darknet_lists_are_read_by_obj_data_or_next_to_the_names(tmp_path, described):
    folder = _darknet(tmp_path / "d", {"train": [1, 2], "valid": [3]})
    if described:
        text = "classes = 2\ntrain = data/train.txt\nvalid=data/valid.txt\nnames = data/obj.names\n"
        write(folder / "obj.data", text)
    data = read(recognize(folder).reading)
    assert data.classes == ("car", "bus")
    assert areas_of(data) == {1: {"bus": 0.25}, 2: {"car": 0.25}, 3: {"bus": 0.25}}
    assert _splits(data) == {1: "train", 2: "train", 3: "valid"}
    write(folder / "obj.data", "classes = 3\nnames = obj.names\n")
    fails(lambda: read_yolo_data(folder / "obj.data"), "nc is not the number of names")
    write(folder / "obj.data", "names = gone.names\n")
    fails(lambda: read_yolo_data(folder / "obj.data"), "gives no names")


@pytest.mark.parametrize("name", ["mine.yaml", "coco128.yml", "data.YAML"])
def test_a_yaml_of_any_name_is_read_and_two_are_asked_about(tmp_path, name):
    file = _dataset(tmp_path / "d", TRAIN + NAMES)
    file.rename(file.with_name(name))
    write(tmp_path / "d" / "hyp.yaml", "lr0: 0.01\n")
    data = read(recognize(tmp_path / "d").reading)
    assert areas_of(data) == AREAS
    write(tmp_path / "d" / "other.yaml", NAMES)
    parts = "all name classes of YOLO boxes", "other.yaml", "name one: nooch import auto"
    fails(lambda: recognize(tmp_path / "d"), *parts)


def test_endings_of_labels_are_compared_in_small_letters(tmp_path):
    file = _dataset(tmp_path, TRAIN + NAMES, labels={"train/1": BOX_OF_1})
    (tmp_path / "labels" / "train" / "1.txt").rename(tmp_path / "labels" / "train" / "1.TXT")
    assert areas_of(read_boxes(file, "yolo"))[1] == {"person": 0.25}


def test_listed_images_of_one_name_are_told_apart_by_folder(tmp_path):
    images = ("train/dogs/1", "train/others/1", "val/1")
    file = _dataset(tmp_path, TRAIN + NAMES, images, {"train/dogs/1": BOX_OF_1})
    assert areas_of(read_boxes(file, "yolo")) == {
        f"images/{name}": {"person": 0.25} if "dogs" in name else {} for name in images
    }


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
    assert "2 of 5 images have no label file" in done.err
    again = run_cli(f"{command} {file} {tmp_path}/again --split 40/40/20")
    assert again.json["splits"] == {"train": 2, "valid": 2, "test": 1}
    for folder in (out, tmp_path / "again"):
        assert load_dataset(folder).classes == ("person", "fire_hydrant")
