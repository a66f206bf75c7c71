"""read_boxes against areas worked out by hand."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from coco_files import PHOTO, areas_of, write
from hypothesis import given, settings, strategies as st
from in_memory import read_boxes
from PIL import Image
from refusals import fails

from nooch.base.engines import LocalEngine
from nooch.base.errors import InputError, ParameterError
from nooch.data import load_dataset
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.importing.recognition import recognize
from nooch.data.readers.box_formats import KEPT, LEFT_OUT, ONCE, UNREAD
from nooch.data.readers.boxes import BoxReading
from nooch.data.table_files import read_table

HEADER = "ImageID,LabelName,XMin,XMax,YMin,YMax\n"
PROXY = "areas are of bounding boxes, which are larger than their objects"


def _yolo(folder, files, names="person\nfire hydrant\n"):
    for name, text in files.items():
        write(folder / "labels" / name, text)
    listed = write(folder / "names.txt", names)
    return {"source": folder / "labels", "format": "yolo", "classes": listed}


def _refused(*parts, kind=InputError, helps=True, **given):
    fails(lambda: read_boxes(**given), *parts, kind=kind, helps=helps)


SIZE = "<width>100</width><height>50</height><depth>3</depth>"


def _voc(objects=(("cat", 1, 100, 1, 50),), size=SIZE, file_name="a.jpg"):
    listed = "".join(
        f"<object><name>{name}</name><bndbox><xmin>{a}</xmin><ymin>{c}</ymin><xmax>{b}</xmax><ymax>{d}</ymax></bndbox></object>"
        for name, a, b, c, d in objects
    )
    return f"<annotation><filename>{file_name}</filename><size>{size}</size>{listed}</annotation>"


# YOLO

BOX = "0 .5 .5 .5 .5"


def test_yolo(tmp_path):
    files = {
        "000000000001.txt": "0 0.5 0.5 0.5 0.25\n1 0.5 0.5 1 1\n0 0.25 0.25 0.5 0.5 0.93\n",
        "sub/000000000002.txt": "\n",
    }
    data = read_boxes(**_yolo(tmp_path, files))
    assert areas_of(data) == {1: {"person": 0.375, "fire_hydrant": 1.0}, 2: {}}
    assert data.classes == ("person", "fire_hydrant")
    assert data.images["width"].null_count() == 2


# edges in 64ths: centers, sizes and sums of products are exact
EDGES = st.tuples(st.integers(0, 64), st.integers(0, 64)).map(sorted)
BOXES = st.lists(st.tuples(st.integers(0, 2), EDGES, EDGES))


def _hashable(box):
    return box[0], tuple(box[1]), tuple(box[2])


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.integers(0, 9999), BOXES, min_size=1, max_size=5))
def test_yolo_sums_width_times_height(boxes):
    files, expected = {}, {}
    for i, listed in boxes.items():
        lines, expected[i] = [], {}
        # a line that is there twice counts once
        for key, (left, right), (top, bottom) in dict.fromkeys(map(_hashable, listed)):
            width, height = (right - left) / 64, (bottom - top) / 64
            lines.append(f"{key} {(left + right) / 128} {(top + bottom) / 128} {width} {height}")
            expected[i]["abc"[key]] = expected[i].get("abc"[key], 0.0) + width * height
        files[f"{i}.txt"] = "\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        assert areas_of(read_boxes(**_yolo(Path(folder), files, "a\nb\nc"))) == expected


def test_images_without_a_label_file_have_no_object(tmp_path):
    for name in ("a/1.jpg", "b/2.png"):
        write(tmp_path / "pictures" / name, "")
    given = _yolo(tmp_path, {"1.txt": BOX, "3.txt": ""})
    data = read_boxes(**given, images=tmp_path / "pictures")
    assert areas_of(data) == {1: {"person": 0.25}, 2: {}, 3: {}}
    assert data.images["file_name"].to_list() == ["a/1.jpg", "b/2.png", None]
    assert data.image_root == str((tmp_path / "pictures").resolve())
    bare = "1 of 3 images have no label file or row: they count as images without objects"
    assert data.provenance["notes"] == [PROXY, bare, "1 of 3 image files are not there"]


def test_the_class_list_may_lie_among_the_labels_and_have_a_byte_order_mark(tmp_path):
    given = _yolo(tmp_path, {"1.txt": "1 .5 .5 .5 .5", "classes.txt": "\ufeffcar\nbus\n\n"})
    data = read_boxes(given["source"], "yolo", classes=tmp_path / "labels" / "classes.txt")
    assert data.classes == ("car", "bus")
    assert areas_of(data) == {1: {"bus": 0.25}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 car\n1: bus\n", ("car", "bus")),
        ("'car'\n\"a bus\",\n", ("car", "a_bus")),
        ("0 car\nbus\n", ("0_car", "bus")),
        ("2 cv\n0 km\n", ("2_cv", "0_km")),
    ],
)
def test_lines_of_a_class_list_may_be_numbered_or_in_quotes(tmp_path, text, expected):
    given = _yolo(tmp_path, {"1.txt": "1 .5 .5 .5 .5", "classes.txt": text})
    data = read_boxes(given["source"], "yolo", classes=tmp_path / "labels" / "classes.txt")
    assert data.classes == expected


BAD_LINES = {
    "too few numbers": ("0 .5 .5 .5", "is not a box", LEFT_OUT),
    "a name": ("cat .5 .5 .5 .5", "is not a box", LEFT_OUT),
    "a word": ("0 .5 .5 .5 wide", "is not a box", LEFT_OUT),
    "half a class": ("0.5 .5 .5 .5 .5", "is not a box", LEFT_OUT),
    "a file": ("data/obj/1.jpg", "is not a box", LEFT_OUT),
    "half a corner": ("0 .1 .1 .9 .1 .9 .9 .1", "corners of a polygon", LEFT_OUT),
    "a corner that is NaN": ("0 .1 .1 .9 .1 nan .9", "is not a number", LEFT_OUT),
    "a corner outside": ("0 .1 .1 .9 .1 1.2 .9", "(0.1, 0.1) to (1.2, 0.9) reaches beyond", KEPT),
    "NaN": ("0 nan .5 .5 .5", "the box from (nan", LEFT_OUT),
    "a negative width": ("0 .5 .5 -.5 .5", "has reversed edges", LEFT_OUT),
    "a box across": ("0 .9 .5 .5 .5", "(0.65, 0.25) to (1.15, 0.75) reaches beyond", KEPT),
    "pixels": ("0 320 240 100 100", "is outside the image", LEFT_OUT),
    "a line twice": (BOX, "is listed twice", ONCE),
}  # fmt: skip
AREAS_OF_BAD = {"a corner outside": 0.32 - 0.8 * (9 / 11 - 1 / 3) * 0.2 / 2, "a box across": 0.175}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_does_not_refuse_the_others(tmp_path, case, run_cli):
    line, problem, rule = BAD_LINES[case]
    given = _yolo(tmp_path, {"0.txt": "", "1.txt": f"{BOX}\n{line}\n"})
    data = read_boxes(**given)
    area = data.area("person")[1] - 0.25
    assert area == pytest.approx(AREAS_OF_BAD.get(case, 0))
    assert data.objects.height == 1 + (rule == KEPT)
    (note,) = data.provenance["notes"][2:]
    assert note.startswith(f"1 annotation {rule}: ")
    assert problem in note
    command = f"import boxes {given['source']} --boxes yolo --classes {given['classes']}"
    done = run_cli(f"{command} --broken refuse {tmp_path / 'no'}")
    assert done.code == 2
    assert problem in done.err
    assert "--broken leave-out" in done.err
    assert not (tmp_path / "no").exists()
    assert run_cli(f"{command} {tmp_path / 'out'}").code == 0
    listed = read_table(tmp_path / "out" / "broken_annotations.csv")
    assert listed.columns == ["file", "place", "problem", "rule"]
    (row,) = listed.iter_rows()
    assert row[:2] == (f"{given['source']}/1.txt", "line 2")
    assert problem in row[2]
    assert row[3] == rule


def test_a_set_of_bad_lines_is_refused(tmp_path):
    files = {"1.txt": BOX, "2.txt": "0 320 240 100 100\n0 20 20 9 9\n"}
    parts = "2 of 3 boxes cannot be used", "2.txt, line 1", "in this format"
    _refused(*parts, **_yolo(tmp_path, files))


def test_a_class_without_a_name_is_refused(tmp_path):
    for number in (2, -1):
        files = {"1.txt": f"{number} .5 .5 .5 .5"}
        parts = f"class {number} has no name", "0 to 1, as names.txt lists"
        _refused(*parts, **_yolo(tmp_path, files))


def test_decimal_commas_and_whole_classes(tmp_path):
    data = read_boxes(**_yolo(tmp_path, {"1.txt": "1.0 0,5 0,5 0,5 0,25\n"}))
    assert areas_of(data) == {1: {"fire_hydrant": 0.125}}


POSE = "0 .67 .58 .12 .02 .66 .58 2 .68 .585 2"
MAYBE = "0 .5 .5 .4 .4 .4 .6 .6 .6"


def test_key_points_are_never_a_polygon(tmp_path):
    data = read_boxes(**_yolo(tmp_path, {"1.txt": POSE}))
    assert areas_of(data)[1]["person"] == pytest.approx(0.12 * 0.02)
    assert data.provenance["notes"][-1] == "key points after the box are left out in 1 line"
    given = _yolo(tmp_path / "maybe", {"1.txt": MAYBE})
    parts = "8 numbers", "box and key points, or the corners", "kpt_shape: [2, 2]", "pass classes="
    _refused(*parts, helps=False, **given)
    for shape, area in (("[2, 2]", 0.16), ("[0, 2]", 0.02)):
        names = f"names: [person]\nkpt_shape: {shape}\n"
        given["classes"] = write(tmp_path / "data.yaml", names)
        assert areas_of(read_boxes(**given))[1]["person"] == pytest.approx(area)
    # what no box and points can be shows that all are polygons
    given = _yolo(tmp_path / "both", {"1.txt": MAYBE, "2.txt": "0 .1 .1 .9 .1 .9 .9 .1 .9"})
    assert areas_of(read_boxes(**given))[1]["person"] == pytest.approx(0.02)


def test_boxes_may_reach_a_thousandth_over_the_edge(tmp_path):
    data = read_boxes(**_yolo(tmp_path, {"1.txt": "0 .5 .5 1.001 1"}))
    assert areas_of(data) == {1: {"person": 1.001}}
    data = read_boxes(**_yolo(tmp_path, {"1.txt": "0 .5 .5 1.003 1"}))
    assert areas_of(data) == {1: {"person": 1}}
    assert data.objects["width"].to_list() == [1.003]


# files of labels, names -> what the error says, and whether it also says what is allowed
YOLO_FILES = {
    "no name": ({}, "", True, "names.txt", "names no class"),
    "names in no UTF-8": ({}, b"caf\xe9\n", False, "names.txt", "would read 'café'"),
    # an empty line would otherwise shift the numbers of all that follow
    "an empty name": ({}, "a\n\nb\n", False, "names.txt, line 2", "empty name"),
    "two classes of one name": ({}, "a b\nc\na_b\n", True, "classes 0 and 2", "same name 'a_b'"),
    "labels in no UTF-8": ({"2.txt": b"\xff"}, "a\n", False, "2.txt", "cp1252 would read 'ÿ'"),
}


@pytest.mark.parametrize("case", YOLO_FILES)
def test_yolo_files_that_are_refused(tmp_path, case):
    files, names, helps, *parts = YOLO_FILES[case]
    _refused(*parts, helps=helps, **_yolo(tmp_path, {"1.txt": BOX, **files}, names))


def test_yolo_needs_a_list_of_classes(tmp_path):
    given = {"source": _yolo(tmp_path, {"1.txt": BOX})["source"], "format": "yolo"}
    _refused("by number", "pass classes=...", kind=ParameterError, **given)
    _refused("no.txt", "cannot be read", helps=False, classes=tmp_path / "no.txt", **given)


@pytest.mark.parametrize("format", ["yolo", "voc", "openimages"])
def test_a_source_that_is_not_there(tmp_path, format):
    given = {"format": format}
    if format == "yolo":
        given["classes"] = write(tmp_path / "names.txt", "a")
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.mkdir()
    _refused(str(missing), "no such file or folder", helps=False, source=missing, **given)
    _refused(str(empty), "no", helps=False, source=empty, **given)
    file = write(tmp_path / "file.txt", "")
    _refused(str(file), source=file, **given)


def test_an_unknown_format(tmp_path):
    parts = "'yolov8' is not a format of boxes", "openimages, voc, yolo", "did you mean yolo"
    _refused(*parts, kind=ParameterError, source=tmp_path, format="yolov8")


# Pascal VOC


def test_voc(tmp_path):
    objects = [("cat", 1, 50, 1, 25), ("traffic light", 51, 60, 26, 30), ("cat", 1, 10, 1, 5)]
    write(tmp_path / "v" / "2007_000001.xml", _voc(objects))
    write(tmp_path / "v" / "2007_000002.xml", _voc([], file_name="b.jpg"))
    data = read_boxes(tmp_path / "v", "voc")
    assert areas_of(data) == {
        "2007_000001": {"cat": (50 * 25 + 10 * 5) / 5000, "traffic_light": 10 * 5 / 5000},
        "2007_000002": {},
    }
    assert data.images.rows() == [
        ("2007_000001", "a.jpg", 100, 50, "all"),
        ("2007_000002", "b.jpg", 100, 50, "all"),
    ]


def test_voc_boxes_that_count_from_zero_are_taken(tmp_path):
    write(tmp_path / "1.xml", _voc([("cat", 0, 50, 0, 25)]))
    assert areas_of(read_boxes(tmp_path, "voc")) == {1: {"cat": 51 * 26 / 5000}}


ENTITY = "<!DOCTYPE a [<!ENTITY b 'cat'>]>"
UTF_16 = "<?xml version='1.0' encoding='utf-16'?>"
UNREADABLE = {
    "truncated": (_voc()[:90], "is not XML"),
    "empty": ("", "is not XML"),
    "no XML": ("hello", "is not XML"),
    "an unknown encoding": ("<?xml version='1.0' encoding='nono'?><a/>", "is not XML"),
    "another element": ("<View><Label value='cat'/></View>", "is a View, not an annotation"),
    "a document type": (ENTITY + _voc([("&b;", 1, 5, 1, 5)]), "a document type or entities"),
    "a document type in UTF-16": (f"{UTF_16}{ENTITY}{_voc()}".encode("utf-16"),
                                  "declares a document type or entities"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_voc_file_that_cannot_be_read_is_left_out_with_its_image(tmp_path, case, run_cli):
    content, problem = UNREADABLE[case]
    for name in ("7.jpg", "odd.jpg", "9.jpg"):
        write(tmp_path / "p" / name, PHOTO)
    write(tmp_path / "v" / "7.xml", _voc())
    write(tmp_path / "v" / "odd.xml", content)
    data = read_boxes(tmp_path / "v", "voc", images=tmp_path / "p")
    # the ids of the others are numbers
    assert areas_of(data) == {7: {"cat": 1.0}, 9: {}}
    command = f"import boxes {tmp_path / 'v'} --boxes voc --images {tmp_path / 'p'}"
    done = run_cli(f"{command} {tmp_path / 'out'}")
    assert f"1 annotation {UNREAD}: {tmp_path}/v/odd.xml, the file: " in done.err
    assert problem in done.err
    (row,) = read_table(tmp_path / "out" / "broken_annotations.csv").iter_rows()
    assert (row[0], row[3]) == (f"{tmp_path}/v/odd.xml", UNREAD)
    done = run_cli(f"{command} --broken refuse {tmp_path / 'no'}")
    assert done.code == 2
    assert problem in done.err
    (tmp_path / "v" / "7.xml").unlink()
    _refused("none of 1 file can be read", problem, source=tmp_path / "v", format="voc")


def test_a_text_without_a_box_is_no_label_file(tmp_path):
    texts = {"README.txt": "Exported on Monday\n", "train.txt": "pictures/1.jpg\n"}
    data = read_boxes(**_yolo(tmp_path, {"1.txt": BOX, "2.txt": "\n", **texts}))
    assert areas_of(data) == {1: {"person": 0.25}, 2: {}}
    assert f"1 annotation {UNREAD}: " in data.provenance["notes"][-1]


def _many(*more):
    return _voc([("cat", 1, 100, 1, 50), *(("dog", n, n, 1, 1) for n in range(1, 9)), *more])


BAD_BOXES = {
    "NaN": (("cat", "nan", 5, 1, 5), "bndbox/xmin is nan", LEFT_OUT),
    "an edge in words": (("cat", "left", 5, 1, 5), "bndbox/xmin is left", LEFT_OUT),
    "no name": (("", 1, 5, 1, 5), "name is missing", LEFT_OUT),
    "infinite": (("cat", 1, "inf", 1, 5), "is not finite", LEFT_OUT),
    "across": (("cat", 1, 110, 1, 50), "to (1.1, 1) reaches beyond", KEPT),
    "a negative edge": (("cat", -5, 50, 1, 5), "reaches beyond", KEPT),
    "outside": (("cat", 200, 300, 1, 5), "is outside", LEFT_OUT),
    "edges the wrong way round": (("cat", 50, 5, 1, 5), "has reversed edges", LEFT_OUT),
    "twice": (("cat", 1, 100, 1, 50), "cat is listed twice", ONCE),
    "fractions": (("cat", 0.1, 0.5, 0, 1), "is in fractions of the image, not pixels", LEFT_OUT),
}


@pytest.mark.parametrize("case", BAD_BOXES)
def test_a_bad_object_does_not_refuse_the_others(tmp_path, case):
    box, problem, rule = BAD_BOXES[case]
    write(tmp_path / "v" / "1.xml", _many(box))
    data = read_boxes(tmp_path / "v", "voc")
    assert data.objects.height == 9 + (rule == KEPT)
    (note,) = data.provenance["notes"][1:]
    assert note.startswith(f"1 annotation {rule}: ")
    assert "1.xml, object 10: " in note
    assert problem in note
    assert data.area("cat")[0] == pytest.approx({"across": 2, "a negative edge": 1.05}.get(case, 1))


def test_voc_edges_reach_a_pixel_over_the_border(tmp_path):
    write(tmp_path / "1.xml", _voc([("cat", 12.5, 40.75, 5.25, 40.5), ("cat", 50, 100.4, 5, 50.3)]))
    data = read_boxes(tmp_path, "voc")
    assert data.objects.height == 2
    assert data.provenance["notes"] == [PROXY]


def test_an_object_without_an_edge_does_not_refuse_the_others(tmp_path):
    write(tmp_path / "1.xml", _many(("bus", 1, 77, 1, 5)).replace("<xmax>77</xmax>", ""))
    data = read_boxes(tmp_path, "voc")
    assert data.objects.height == 9
    assert "object 10: bndbox/xmax is missing" in data.provenance["notes"][-1]


def test_a_width_and_height_as_the_second_corner_are_refused(tmp_path):
    boxes = [("cat", 21, 61, 3, 13), ("cat", 60, 20, 3, 20), ("cat", 10, 50, 10, 50)]
    write(tmp_path / "1.xml", _voc(boxes))
    parts = (
        "1 of 3 boxes have reversed edges: the box from (0.59, ",
        "may be left, top, width, height",
    )
    _refused(*parts, source=tmp_path, format="voc")


# files below ImageSets, or names of files -> the split of 0 to 3, and a part of a note
LISTS = {
    "VOC": ({"Main/train": "0\n1\n", "Main/val": "2", "Main/test": "3", "Main/cat_train": "3 1"},
            "train train valid test", "splits train, valid, test from lists"),
    "labels and paths": ({"train": "0  1\nJPEGImages/1.jpg Annotations/1.xml\n", "val": "2\n3"},
            "train train valid valid", "splits train, valid from lists"),
    "trainval": ({"Main/trainval": "0\n1\n2", "Main/test": "3"},
            "train train train test", "splits train, test from lists"),
    "some in none": ({"Main/train": "0\n", "Main/val": "2\n77"},
            "train - valid -", "left out 2 images in none of these lists"),
    "one list": ({"Main/train": "0\n"}, "all all all all", "lists of train have no effect"),
    "a list of others": ({"Main/train": "a", "Main/val": "b"}, "all all all all", "no effect"),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTS)
def test_lists_of_voc_are_its_splits(tmp_path, case):
    lists, splits, note = LISTS[case]
    for number in range(4):
        write(tmp_path / "Annotations" / f"{number}.xml", _voc(file_name=f"{number}.jpg"))
    for name, text in lists.items():
        write(tmp_path / "ImageSets" / f"{name}.txt", text)
    data = read_boxes(tmp_path / "Annotations", "voc")
    found = dict(data.images.select("image_id", "split").iter_rows())
    assert [found.get(number, "-") for number in range(4)] == splits.split()
    assert any(note in words for words in data.provenance["notes"])


def test_an_image_in_two_lists_of_voc_is_refused(tmp_path):
    write(tmp_path / "Annotations" / "0.xml", _voc())
    for name in ("train", "val"):
        write(tmp_path / "ImageSets" / "Main" / f"{name}.txt", "0\n")
    _refused("0 is in the lists of", source=tmp_path / "Annotations", format="voc")


def test_folders_called_after_splits_are_the_splits(tmp_path):
    for name in ("train/1", "valid/2"):
        write(tmp_path / f"{name}.xml", _voc())
        write(tmp_path / f"{name}.jpg", PHOTO)
    write(tmp_path / "valid" / "3.jpg", PHOTO)
    data = read_boxes(tmp_path, "voc", images=tmp_path)
    assert data.images["split"].to_list() == ["train", "valid", "valid"]
    assert "splits train, valid from the names of folders" in data.provenance["notes"]


@pytest.mark.parametrize("format", ["yolo", "voc"])
def test_equal_names_in_several_folders_are_told_apart_by_folder(tmp_path, format):
    for name in ("dogs/1", "dogs/2", "others/1", "others/2"):
        write(tmp_path / "images" / f"{name}.jpg", PHOTO)
    given = {"source": tmp_path / "labels", "format": format, "images": tmp_path}
    if format == "yolo":
        given |= _yolo(tmp_path, {"dogs/1.txt": BOX, "dogs/2.txt": BOX}, "dog\n")
    else:
        for name in ("dogs/1", "dogs/2"):
            write(tmp_path / "labels" / f"{name}.xml", _voc([("dog", 1, 50, 1, 25)]))
    data = read_boxes(**given)
    assert areas_of(data) == {
        "images/dogs/1": {"dog": 0.25}, "images/dogs/2": {"dog": 0.25},
        "images/others/1": {}, "images/others/2": {},
    }  # fmt: skip
    assert data.images["file_name"].to_list() == [f"{i}.jpg" for i in data.image_ids]
    write(tmp_path / "images" / "dogs" / "1.png", PHOTO)
    _refused("several files are called images/dogs/1", helps=False, **given)


@pytest.mark.parametrize(
    "size", ["", "<width>0</width><height>0</height>", "<width>wide</width>", SIZE]
)
def test_voc_sizes_come_from_the_image_files(tmp_path, size):
    photo = Image.new("RGB", (100, 50))
    (tmp_path / "p").mkdir()
    photo.save(tmp_path / "p" / "1.jpg")
    write(tmp_path / "v" / "1.xml", _voc([("cat", 1, 50, 1, 25)], size, "1.jpg"))
    data = read_boxes(tmp_path / "v", "voc", images=tmp_path / "p")
    assert areas_of(data) == {1: {"cat": 0.25}}
    assert data.objects.row(0)[2:7] == (0, 0, 50, 25, 1250)
    assert data.images.select("width", "height").rows() == [(100, 50)]
    write(tmp_path / "v" / "2.xml", _voc([("cat", 1, 50, 1, 25)], "", "2.jpg"))
    data = read_boxes(tmp_path / "v", "voc", images=tmp_path / "p")
    assert np.isnan(data.area("cat")[1])
    assert data.objects.height == 1
    assert "1 images have boxes in pixels and no known size" in data.provenance["notes"][-1]


def test_voc_names_are_checked(tmp_path):
    folder = write(tmp_path / "v" / "1.xml", _voc(file_name="../a.jpg")).parent
    given = {"source": folder, "format": "voc"}
    _refused(str(folder), "column file_name contains ../a.jpg", **given)
    write(folder / "1.xml", _voc([(" ", 1, 5, 1, 5)]))
    _refused(str(folder), "empty name", helps=False, **given)
    _refused("leave out classes", kind=ParameterError, classes=folder, **given)


# Open Images


def test_openimages(tmp_path):
    rows = "b1,/m/1,0,0.5,0,0.5\na0,/m/2,0.25,0.75,0,1\nb1,/m/1,0.5,1,0.5,1\nb1,/m/2,0,1,0,1\n"
    source = write(tmp_path / "boxes.csv", HEADER + rows)
    assert areas_of(read_boxes(source, "openimages")) == {
        "a0": {"/m/2": 0.5},
        "b1": {"/m/1": 0.5, "/m/2": 1.0},
    }
    names = write(tmp_path / "names.csv", "/m/1,Traffic light\n/m/2,Cat\n/m/3,Unused\n")
    data = read_boxes(source, "openimages", classes=names)
    assert areas_of(data) == {"a0": {"Cat": 0.5}, "b1": {"Traffic_light": 0.5, "Cat": 1.0}}
    names = write(tmp_path / "names.tsv", "LabelName\tDisplayName\n/m/1\tA\n/m/2\tB\n")
    assert read_boxes(source, "openimages", classes=names).classes == ("A", "B")


@pytest.mark.parametrize("part_size", [None, 1])
def test_tables_of_open_images_in_a_folder_are_splits(tmp_path, part_size):
    folder = tmp_path / "d"
    for split, name in (("train", "a"), ("validation", "b")):
        write(folder / "images" / split / f"{name}.jpg", PHOTO)
        rows = HEADER + f"{name},/m/1,0,0.5,0,1\n{name},,0,1,0,1\n"
        write(folder / "annotations" / f"{split}-annotations-bbox.csv", rows)
    write(folder / "images" / "train" / "c.jpg", PHOTO)
    write(folder / "annotations" / "class-descriptions.csv", "/m/1,Cat\n/m/2,Dog\n")
    for reading in (recognize(folder).reading, BoxReading(folder, "openimages", images=folder)):
        import_dataset(reading, tmp_path / "out", part_size=part_size, overwrite=True)
        data = load_dataset(tmp_path / "out")
        assert areas_of(data) == {"a": {"Cat": 0.5}, "b": {"Cat": 0.5}, "c": {}}
        assert data.images["split"].to_list() == ["train", "valid", "train"]
        bad = read_table(tmp_path / "out" / "broken_annotations.csv")
        assert bad["problem"].to_list() == ["the box has no class"] * 2


ROW = HEADER + "a,/m/1,0,1,0,1\n"
OPENIMAGES = {
    "a missing column": ("ImageID,LabelName\na,b\n", "'XMin' is not a column",
        "ImageID, LabelName"),
    "no image": (HEADER + ",/m/1,0,1,0,1\n", "1 rows have no ImageID"),
    "an image twice": ({"train.csv": ROW, "test.csv": ROW}, "images are in several files: a"),
    "no tables": ({"train.csv": "ImageID,LabelName\n"}, "contains no table of boxes"),
    "a picture without a split": ({"train.csv": ROW, "test.csv": ROW.replace("a,", "b,"),
        "images/c.jpg": PHOTO}, "no row or folder gives the split of c"),
    "an edge in words": (HEADER + "a,/m/1,left,1,0,1\n", "boxes are not numbers"),
    "no row": (HEADER, "contains no boxes of any image"),
    "ragged": (HEADER + "a,/m/1,1,0,0,1,5,6,7\n", "cannot be read"),
    "empty": ("", "cannot be read"),
}  # fmt: skip


def test_a_bad_row_does_not_refuse_the_others(tmp_path):
    rows = ["0,1,0,1", ",1,0,1", "0,1,0,1.5", "1,0,0,1", "2,3,0,1", "0,0.5,0,1", "0,0.5,0,1"]
    text = "".join(f"{'ab'[n > 0]},/m/1,{row}\n" for n, row in enumerate(rows))
    data = read_boxes(
        write(tmp_path / "b.csv", HEADER + "a,/m/1,0,0.25,0,1\n" + text), "openimages"
    )
    assert areas_of(data) == {"a": {"/m/1": 1.25}, "b": {"/m/1": 1.5}}
    assert data.objects.height == 4
    words = [note.split(": ")[0] for note in data.provenance["notes"][1:]]
    kept, once, lost = f"1 annotation {KEPT}", f"1 annotation {ONCE}", f"3 annotations {LEFT_OUT}"
    assert words == [once, kept, lost]


def test_openimages_with_decimal_commas(tmp_path):
    text = HEADER.replace(",", ";") + "a;dog;0,25;0,5;0;1\nb;cat;0;0,5;0;1\n"
    data = read_boxes(write(tmp_path / "boxes.csv", text), "openimages")
    assert areas_of(data) == {"a": {"dog": 0.25}, "b": {"cat": 0.5}}


def _lines(n):
    return "".join(f"0 .5 .5 1 1 {number / 1000}\n" for number in range(n))


def test_boxes_of_more_than_a_hundred_images_are_refused(tmp_path):
    data = read_boxes(**_yolo(tmp_path, {"1.txt": _lines(100)}, "cat\n"))
    assert areas_of(data) == {1: {"cat": 100.0}}
    given = _yolo(tmp_path, {"1.txt": _lines(101)}, "cat\n")
    _refused("class cat has area 101 in image 1", "from 0 to 100", **given)


@pytest.mark.parametrize("case", OPENIMAGES)
def test_openimages_tables_that_are_refused(tmp_path, case):
    text, *parts = OPENIMAGES[case]
    source = tmp_path / ("boxes.csv" if isinstance(text, str) else "d")
    for name, content in ({"": text} if isinstance(text, str) else text).items():
        write(source / name, content)
    given = {"source": source, "format": "openimages"}
    given |= {"images": source / "images"} if (source / "images").is_dir() else {}
    kinds = (InputError, ParameterError)
    _refused(str(given["source"]), *parts, kind=kinds, helps=False, **given)


def test_openimages_names_that_are_refused(tmp_path):
    source = write(tmp_path / "boxes.csv", HEADER + "a,/m/1,0,1,0,1\n")
    for text, problem in (("/m/2,Cat\n", "labels /m/1 have no name"), ("/m/1\n", "has one column")):
        names = write(tmp_path / "names.csv", text)
        _refused("names.csv", problem, source=source, format="openimages", classes=names)


@pytest.mark.parametrize("format", ["yolo", "voc"])
def test_processes_and_provenance(tmp_path, format):
    ending, content = (".txt", BOX) if format == "yolo" else (".xml", _voc())
    for i in range(300):
        write(tmp_path / "l" / f"{i}{ending}", content)
    classes = write(tmp_path / "names.txt", "cat") if format == "yolo" else None
    data = read_boxes(tmp_path / "l", format, classes=classes, map=LocalEngine(2).map)
    assert data.fingerprint == read_boxes(tmp_path / "l", format, classes=classes).fingerprint
    assert data.provenance["area"] == "boxes"
    left_out = ["no folder of images was given: images without a label file are left out"]
    assert data.provenance["notes"] == [PROXY, *(left_out if format == "yolo" else [])]
    assert data.provenance["reader"] == f"boxes/{format}"
