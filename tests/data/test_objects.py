"""Objects of datasets: against a loop over the files, and what is refused or left out."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from coco_files import THINGS, document, image, photo, write
from hypothesis import given, settings, strategies as st
from in_memory import read_boxes, read_coco
from polars.testing import assert_frame_equal
from refusals import fails
from same_datasets import same_dataset
from scipy.sparse import csr_array

from nooch.base.errors import FormatError
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.importing.recognition import recognize
from nooch.data.objects import rescaled
from nooch.data.part_files import read_header
from nooch.data.readers.boxes import BoxReading
from nooch.data.readers.coco.reader import CocoReading
from nooch.data.readers.contract import read
from nooch.integrity import fsck


def _rows(data):
    """The objects as a list of tuples."""
    return [] if data.objects is None else data.objects.rows()


def _objects(**changed):
    row = {"image_id": 1, "class": "cow", "left": 1.0, "top": 2.0, "width": 3.0, "height": 4.0}
    return pl.DataFrame({**row, "area": 5.0, "crowd": False, "ignore": True, **changed})


def _data(objects=None, **columns):
    images = pl.DataFrame({"image_id": [1, 2, 3], **columns})
    areas = csr_array(np.array([[0.5, 0.0], [0.0, 0.25], [0.0, 0.0]]))
    return Dataset.build(images, ["cow", "road"], areas, objects=objects)


# in a dataset


def test_objects_are_in_the_order_of_images_and_of_their_list(tmp_path):
    listed = [_objects(image_id=i, left=float(x)) for i, x in ((3, 9), (1, 5), (3, 2), (1, 7))]
    data = _data(pl.concat(listed))
    assert data.objects["class"].dtype == pl.Enum(["cow", "road"])
    assert data.objects.select("image_id", "left").rows() == [(1, 5), (1, 7), (3, 9), (3, 2)]
    for parts in (1, 3):
        folder = tmp_path / f"{parts}"
        save_dataset(divide(data, parts), folder)
        loaded = load_dataset(folder)
        assert loaded.objects.equals(data.objects)
        assert load_dataset(folder, reads=()).objects is None
        assert open_dataset(folder).fingerprint == replace(loaded).fingerprint == data.fingerprint
        assert open_dataset(folder).select(image_ids=[3, 2]).objects["left"].to_list() == [9, 2]
    # files may list objects in any order
    assert _data(pl.concat(listed[::-1])).fingerprint == data.fingerprint
    others = [None, data.objects.head(0), data.objects.with_columns(crowd=True)]
    assert len({data.fingerprint, *(_data(objects).fingerprint for objects in others)}) == 4


def test_a_dataset_without_objects_is_one_of_before(tmp_path):
    for name, objects, version in (("without", None, 2), ("with", _objects(), 3)):
        folder = save_dataset(_data(objects), tmp_path / name)
        header = read_header(folder)
        assert header.version == version
        assert ("objects.parquet" in header.files) == (version == 3)
        assert load_dataset(folder).n_parts == 1


def test_fsck_finds_an_altered_table(tmp_path):
    folder = save_dataset(divide(_data(_objects()), 2), tmp_path / "data")
    assert fsck(folder).is_whole
    file = folder / "objects" / "part-0000000.parquet"
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    assert [damage.file for damage in fsck(folder).damaged] == ["objects/part-0000000.parquet"]
    fails(lambda: load_dataset(folder).objects, "was altered", kind=FormatError)


REFUSED = [
    ({"width": -1.0}, "column width contains -1.0 in images 1", "at least 0"),
    ({"height": math.nan}, "column height contains nan", "finite"),
    ({"left": math.inf}, "column left contains inf", "finite"),
    ({"area": None}, "column area is Null", "Float64"),
    ({"crowd": 1}, "column crowd is Int64", "Boolean"),
    ({"image_id": 7}, "images that are not in the dataset: 7"),
    ({"class": "cat"}, "classes that are not in the dataset: cat", "cow"),
]


@pytest.mark.parametrize(("changed", "words"), [(case[0], case[1:]) for case in REFUSED])
def test_objects_that_are_refused(changed, words):
    fails(lambda: _data(_objects(**changed)), *words)
    fails(lambda: _data(_objects().drop("ignore")), "objects", "has no column ignore")


def test_boxes_follow_the_size_of_their_image():
    objects = _data(pl.concat([_objects(), _objects(image_id=2, area=8.0)])).objects
    before = pl.DataFrame({"image_id": [1, 2], "width": [None, 10], "height": [None, 20]})
    after = pl.DataFrame({"image_id": [1, 2], "width": [100, 20], "height": [50, 20]})
    scaled = rescaled(objects, before, after).drop("image_id", "class", "crowd", "ignore")
    assert scaled.rows() == [(100, 100, 300, 200, 25000), (2, 2, 6, 4, 16)]
    assert rescaled(objects, before, before) is objects


# COCO

SIDES = st.integers(-2, 9) | st.floats(-2, 9).map(lambda x: round(x, 2))
BOX = st.lists(SIDES, min_size=4, max_size=4)
# what must not fail, and is not a box
NO_BOX = st.sampled_from([None, [], [1, 2, 3], [1, 2, 3, 4, 5], "1,2,3,4", [1, 2, "3", 4], {}, 7])
NO_BOX |= st.sampled_from([[[1, 2], [3, 4]], [1, 2, None, 4], [0, 0, -1, 2], [0, 0, 2, -0.5]])
FLAG = st.sampled_from([0, 1, True, False, None])


@st.composite
def annotations(draw):
    """Annotations of images 1 to 3, in any order."""
    boxes = draw(st.sampled_from([BOX, BOX | NO_BOX, NO_BOX]))
    row = {
        "image_id": st.sampled_from([1, 2, 3]),
        "category_id": st.sampled_from([*THINGS]),
        "area": st.integers(0, 9),
    }
    maybe = {"bbox": boxes, "iscrowd": FLAG, "ignore": FLAG}
    listed = draw(st.lists(st.fixed_dictionaries(row, optional=maybe), max_size=12))
    # areas larger than boxes, boxes outside and objects listed twice have tests of their own
    kept = {}
    for number, annotation in enumerate(listed):
        what = number
        if _is_box(annotation.get("bbox")):
            x, y, w, h = annotation["bbox"]
            annotation["bbox"][:2] = min(max(x, -w), 4), min(max(y, -h), 4)
            annotation["area"] = min(annotation["area"], int(w * h))
            what = str([annotation[name] for name in (*row, "bbox")])
        kept.setdefault(what, annotation)
    return [*kept.values()]


def _is_box(box):
    numbers = isinstance(box, list) and all(type(x) in (int, float) for x in box)
    return numbers and len(box) == 4 and box[2] >= 0 and box[3] >= 0


def _slowly(listed):
    """The objects of annotations, and how many have no box."""
    rows = [
        (a["image_id"], THINGS[a["category_id"]].replace(" ", "_"), *map(float, a["bbox"]),
         float(a["area"]), bool(a.get("iscrowd")), bool(a.get("ignore")))
        for i in (1, 2, 3) for a in listed if a["image_id"] == i and _is_box(a.get("bbox"))
    ]  # fmt: skip
    return rows, len(listed) - len(rows)


@settings(deadline=None)
@given(annotations(), st.integers(0, 3), st.sampled_from([1 << 24, 150]))
def test_objects_of_coco_are_those_of_a_loop(tmp_path_factory, listed, first, slice_size):
    folder = tmp_path_factory.mktemp("coco")
    among = [[a for a in listed if (a["image_id"] <= first) == part] for part in (True, False)]
    ids = [range(1, first + 1), range(first + 1, 4)]
    files = [
        write(folder / f"{n}.json", document([image(i) for i in some], annotated))
        for n, (some, annotated) in enumerate(zip(ids, among, strict=True))
        if len(some)
    ]
    rows, boxless = _slowly(listed)
    import_dataset(CocoReading(things=files, slice_size=slice_size), folder / "whole")
    data = load_dataset(folder / "whole")
    assert _rows(data) == rows
    # without any annotation, images have no object; without any box, it is not known
    assert (data.objects is None) == bool(listed and not rows)
    notes = data.provenance["notes"]
    expected = f"{boxless} annotations of objects have no usable box"
    assert any(note.startswith(expected) for note in notes) == bool(rows and boxless)
    outside = sum(x < -1 or y < -1 or x + w > 5 or y + h > 5 for _, _, x, y, w, h, *_ in rows)
    expected = f"{outside} boxes reach more than a pixel beyond their image"
    assert any(note.startswith(expected) for note in notes) == bool(outside)
    import_dataset(CocoReading(things=files), folder / "parts", part_size=1)
    same_dataset(load_dataset(folder / "parts"), data)


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        (lambda x, y, w, h: [x, y, x + w, y + h], "look like boxes xyxy given as xywh"),
        (lambda x, y, w, h: [x / 100, y / 80, w / 100, h / 80], "boxes are fractions"),
    ],
)
def test_boxes_of_coco_in_other_numbers_are_refused(tmp_path, numbers, problem):
    """And not those of which only the files' own are true: with an area and without its box, each
    is taken.
    """
    random = np.random.default_rng(0)
    boxes = random.integers([30, 20, 10, 10], [60, 40, 40, 40], (9, 4)).tolist()
    images = [image(n, 100, 80) for n in range(9)]
    rows = [
        {"image_id": n, "category_id": 1, "area": w * h} for n, (_, _, w, h) in enumerate(boxes)
    ]

    def given(convert):
        boxed = [row | {"bbox": convert(*box)} for row, box in zip(rows, boxes, strict=True)]
        return read_coco(things=[write(tmp_path / "a.json", document(images, boxed))])

    fails(lambda: given(numbers), problem, "leave bbox out if there is")
    plain = given(lambda *box: list(box))
    without = read_coco(things=[write(tmp_path / "b.json", document(images, rows))])
    assert plain.area("person").tolist() == without.area("person").tolist()


# every format: the objects of the same data in COCO's

SIZE = (40, 30)
"""Of every image, in pixels."""
FORMATS = {"yolo": (), "polygons": (), "voc": ("ignore",), "openimages": ("crowd",)}
FORMATS |= dict.fromkeys(["xyxy", "xywh", "cxcywh", "fractions", "list"], ("crowd", "ignore"))
"""Format, or order of numbers in a table -> the flags of objects that it has."""


@st.composite
def drawn(draw):
    """Objects (image, class, left, top, width, height, crowd, ignore) in whole pixels."""
    width, height = SIZE
    left, top = draw(st.integers(0, width - 2)), draw(st.integers(0, height - 2))
    extent = draw(st.integers(1, width - left)), draw(st.integers(1, height - top))
    about = draw(st.sampled_from("123")), draw(st.sampled_from(["cat", "traffic light"]))
    return *about, left, top, *extent, draw(st.booleans()), draw(st.booleans())


def _as_coco(folder, objects, kind):
    """With the flags that the format has; polygons are triangles."""
    known = FORMATS[kind]
    annotations = [
        {
            "image_id": int(i), "category_id": {"cat": 1, "traffic light": 2}[name],
            "bbox": [*box], "area": box[2] * box[3] / (2 if kind == "polygons" else 1),
            "iscrowd": int(crowd and "crowd" in known),
            "ignore": int(ignore and "ignore" in known),
        }
        for i, name, *box, crowd, ignore in objects
    ]  # fmt: skip
    images = [image(i, *SIZE, file_name=f"{i}.jpg") for i in (1, 2, 3)]
    names = {1: "cat", 2: "traffic light"}
    return CocoReading([write(folder / "coco.json", document(images, annotations, names))])


def _in_format(folder, objects, kind, images):
    width, height = SIZE
    if kind in ("yolo", "polygons"):
        for image_id in "123":
            write(folder / "labels" / f"{image_id}.txt", "\n".join(
                _yolo_line(int(name != "cat"), box, kind)
                for i, name, *box, _, _ in objects if i == image_id
            ))  # fmt: skip
        classes = write(folder / "classes.txt", "cat\ntraffic light\n")
        return BoxReading(folder / "labels", "yolo", classes, images)
    if kind == "voc":
        for image_id in "123":
            listed = "".join(
                f"<object><name>{name}</name><difficult>{int(ignore)}</difficult><bndbox>"
                f"<xmin>{x + 1}</xmin><ymin>{y + 1}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>"
                "</bndbox></object>"
                for i, name, x, y, w, h, _, ignore in objects if i == image_id
            )  # fmt: skip
            size = f"<size><width>{width}</width><height>{height}</height></size>"
            name = f"<filename>{image_id}.jpg</filename>"
            text = f"<annotation>{name}{size}{listed}</annotation>"
            write(folder / "voc" / f"{image_id}.xml", text)
        return BoxReading(folder / "voc", "voc")
    if kind != "openimages":
        return recognize(_table(folder, objects, kind)).reading
    rows = [
        (i, name, x / width, (x + w) / width, y / height, (y + h) / height, int(crowd))
        for i, name, x, y, w, h, crowd, _ in objects
    ]
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    text = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\n" + lines
    return BoxReading(write(folder / "boxes.csv", text), "openimages", images=images)


def _table(folder, objects, kind):
    """A row for each box, and one without a box or class for each image."""
    width, height = SIZE
    names = {"xywh": "left,top,width,height", "cxcywh": "x_center,y_center,w,h"}.get(kind)
    names = names or ("bbox" if kind == "list" else "xmin,ymin,xmax,ymax")
    lines = [f"image_id,class,{names},image_width,image_height,iscrowd,difficult"]
    for i, name, x, y, w, h, crowd, ignore in objects:
        numbers = {"xywh": (x, y, w, h), "cxcywh": (x + w / 2, y + h / 2, w, h)}
        box = numbers.get(kind, (x, y, x + w, y + h))
        if kind == "fractions":
            box = x / width, y / height, (x + w) / width, (y + h) / height
        written = ",".join(map(str, box))
        written = f'"[{x}, {y}, {w}, {h}]"' if kind == "list" else written
        lines.append(f"{i},{name},{written},{width},{height},{int(crowd)},{ignore}")
    lines += [f"{i},,{',' * names.count(',')},{width},{height},0,False" for i in "123"]
    return write(folder / "boxes.csv", "\n".join(lines) + "\n")


def _yolo_line(number, box, kind):
    (x, y, w, h), (width, height) = box, SIZE
    numbers = (x + w / 2) / width, (y + h / 2) / height, w / width, h / height
    if kind == "polygons":
        corners = (x, y), (x + w, y), (x, y + h)
        numbers = [side for across, down in corners for side in (across / width, down / height)]
    return " ".join(map(str, (number, *numbers)))


@pytest.mark.parametrize("kind", FORMATS)
@settings(deadline=None, max_examples=4)
@given(objects=st.lists(drawn(), max_size=9))
def test_every_format_has_the_objects_of_coco(tmp_path_factory, kind, objects):
    # a table of nothing but the first pixel would look like fractions, and the order of numbers
    # must be certain
    objects = [*objects, *(("2", "cat", 32, 21, 7, 8 - i, False, True) for i in range(6))]
    folder = tmp_path_factory.mktemp("formats")
    for name in "123":
        write(folder / "images" / f"{name}.jpg", photo(*SIZE))
    reading = _in_format(folder, objects, kind, folder / "images")
    import_dataset(reading, folder / "whole")
    data = load_dataset(folder / "whole")
    coco = read_coco(_as_coco(folder, objects, kind).things)
    assert_frame_equal(_plain(data), _plain(coco), abs_tol=1e-9)
    assert data.images["image_id"].to_list() == [1, 2, 3]
    import_dataset(reading, folder / "parts", part_size=1)
    same_dataset(load_dataset(folder / "parts"), data)
    assert fsck(folder / "parts").is_whole


def _plain(data):
    return data.objects.with_columns(pl.col("class").cast(pl.String))


@pytest.mark.parametrize("kind", ["yolo", "openimages"])
def test_without_image_files_boxes_are_fractions(tmp_path, kind):
    reading = _in_format(tmp_path, [("2", "cat", 10, 3, 20, 15, False, False)], kind, None)
    import_dataset(reading, tmp_path / "data")
    data = load_dataset(tmp_path / "data")
    assert data.images["width"].null_count() == len(data)
    values = data.objects.row(0)
    assert values[:2] == (2, "cat")
    assert values[2:7] == pytest.approx((0.25, 0.1, 0.5, 0.5, 0.25))


def _recognized(folder, text):
    """The reading of a table, and what is said of it."""
    recognized = recognize(write(folder / "table.csv", text))
    return read(recognized.reading), recognized.why


def test_rows_without_a_box(tmp_path):
    """They count for presence; boxes outside are kept, with the area within; both are counted."""
    head = "filename,width,height,class,xmin,ymin,xmax,ymax\n"
    rows = ["1.jpg,40,30,cat,1,2,3,4", "1.jpg,40,30,dog,,,,", "2.jpg,,,cat,1,2,3,4"]
    rows += ["3.jpg,40,30,cat,-3,0,20,30", "4.jpg,40,30,,,,,"]
    data, _ = _recognized(tmp_path, head + "\n".join(rows))
    assert data.objects.select("image_id", "left", "area").rows() == [
        ("1.jpg", 1, 4), ("3.jpg", -3, 600)
    ]  # fmt: skip
    assert data.images["width"].to_list() == [40, None, 40, 40]
    assert data.labels("cat").tolist() == [True, True, True, False]
    assert np.isnan(data.area("dog")[0])
    words = [note.split(" ")[:2] for note in data.provenance["notes"]]
    assert words == [["1", "annotations"], ["1", "images"], ["1", "annotation"]]
    bad = data.provenance["notes"][-1]
    assert "table.csv, row 4: the box from" in bad
    assert "kept; its area is the part within" in bad


def test_the_unit_of_a_table_s_boxes(tmp_path):
    """Fractions without sizes; pixels without sizes have no objects, and it is said."""
    head, pixels = "filename,class,x1,y1,x2,y2\n", "a.jpg,cat,5,5,9,9\n"
    data, _ = _recognized(tmp_path, f"{head}a.jpg,cat,.25,.25,.5,.75\n")
    assert data.objects.row(0)[2:7] == (0.25, 0.25, 0.25, 0.5, 0.125)
    data, why = _recognized(tmp_path, head + pixels)
    assert data.objects is None
    assert "its boxes are left out: they are in pixels, and neither columns width and height" in why
    # with w and h, width and height are the image's
    text = "filename,class,left,top,w,h,width,height\na.jpg,cat,5,6,7,8,40,30\n"
    data, _ = _recognized(tmp_path, text)
    assert data.objects.row(0)[2:6] == (5, 6, 7, 8)
    assert data.images.select("width", "height").rows() == [(40, 30)]


def test_the_order_of_a_table_s_numbers(tmp_path):
    """Corner or center, by what lies within the images; else it is asked."""
    head = "image_id,class,x,y,w,h,img_width,img_height\n"
    corner, center, either = ("1,cat,0,0,20,20,40,30\n", "1,cat,35,25,10,10,40,30\n",
                              "1,cat,15,15,6,6,40,30\n")  # fmt: skip
    assert _recognized(tmp_path, head + corner)[0].objects["left"].to_list() == [0]
    assert _recognized(tmp_path, head + center)[0].objects["left"].to_list() == [30]
    words = "x, y, w, h: boxes could be in two formats", "`box_format`", "of the center"
    fails(lambda: _recognized(tmp_path, head + either), *words)
    corners = "image_id,class,left,top,width,height,image_width,image_height\n"
    rows = "1,cat,20,20,39,29,40,30\n" * 3
    words = "these look like boxes xyxy given as xywh", "left, top, right, bottom"
    fails(lambda: _recognized(tmp_path, corners + rows), *words)


def test_a_column_called_box_may_be_something_else(tmp_path):
    data, why = _recognized(tmp_path, "image_id,class,box\n1,cat,red\n2,dog,blue\n")
    assert data.objects is None
    assert "long table" in why


def test_a_turned_box_of_a_table_is_left_out(tmp_path):
    """Where most of the others are as the columns say."""
    rows = "".join(f"{i},cat,1,1,9,9,40,30\n" for i in range(200))
    text = "image_id,class,xmin,ymin,xmax,ymax,width,height\n" + rows + "200,cat,9,9,5,5,40,30\n"
    data, _ = _recognized(tmp_path, text)
    assert len(data) == 201
    assert data.labels("cat").sum() == data.objects.height == 200
    assert "row 201: the box from (0.225, 0.3) to (0.125, 0.1667) has reversed edges" in str(
        data.provenance
    )


def test_without_a_box_there_is_no_table(tmp_path):
    import_dataset(_in_format(tmp_path, [], "yolo", None), tmp_path / "data")
    assert load_dataset(tmp_path / "data").objects is None
    assert not (tmp_path / "data" / "objects.parquet").exists()


def test_areas_are_of_polygons_where_there_are_some(tmp_path):
    """A triangle and a box, or two triangles."""
    triangle, box = "0 0 0 1 0 0 1", "0 .5 .5 1 1"
    names = write(tmp_path / "names.txt", "cat")
    for lines, areas in (([triangle, box], [0.5, 1.0]), ([triangle, "0 0 0 1 0 1 1"], [0.5, 0.5])):
        write(tmp_path / "labels" / "1.txt", "\n".join(lines))
        data = read_boxes(tmp_path / "labels", "yolo", classes=names)
        assert data.objects["area"].to_list() == areas
        assert data.area("cat").tolist() == [sum(areas)]
        mixed = box in lines
        assert data.provenance["area"] == ("boxes" if mixed else "segments")
        proxies = [note for note in data.provenance["notes"] if "bounding boxes" in note]
        assert [note.split(", ")[-1] for note in proxies] == mixed * [
            "for 1 of 2 objects; the others have polygons"
        ]


def test_key_points_follow_the_box(tmp_path):
    """As many numbers as ``kpt_shape`` says; others are a polygon."""
    write(tmp_path / "images" / "1.jpg", photo(*SIZE))
    write(tmp_path / "labels" / "1.txt", "0 .5 .5 .5 .5 .1 .1 .9 .9\n")
    yaml = "train: images\nnames: [cat]\n"
    file = write(tmp_path / "data.yaml", yaml)
    assert read_boxes(file, "yolo").objects["left"].to_list() == [4.0]
    write(file, yaml + "kpt_shape: [2, 2]\n")
    assert read_boxes(file, "yolo").objects["left"].to_list() == [10.0]
    for wrong in ("17", "[2]", "[a, 2]"):
        write(file, f"{yaml}kpt_shape: {wrong}\n")
        fails(lambda: read_boxes(file, "yolo"), "kpt_shape is not two numbers", "kpt_shape: [")


def test_an_upright_picture_has_the_size_that_boxes_are_of(tmp_path):
    """A photograph that EXIF turns; and a file that is not one."""
    write(tmp_path / "i" / "1.jpg", photo(40, 30, turn=6))
    write(tmp_path / "i" / "2.jpg", "no image")
    for name in "12":
        write(tmp_path / "l" / f"{name}.txt", "0 .5 .5 .5 .5")
    names = write(tmp_path / "names.txt", "cat")
    data = read_boxes(tmp_path / "l", "yolo", classes=names, images=tmp_path / "i")
    assert data.images.select("width", "height").rows() == [(30, 40), (None, None)]
    assert data.objects["width"].to_list() == [15, 0.5]


def test_stuff_has_no_objects(tmp_path):
    box = {"image_id": 1, "category_id": 149, "area": 4, "bbox": [0, 0, 2, 2]}
    stuff = write(tmp_path / "stuff.json", document([image(1)], [box], {149: "road"}))
    thing = {**box, "category_id": 1}
    things = write(tmp_path / "things.json", document([image(1)], [thing, {**thing, "bbox": []}]))
    assert read_coco(stuff=[stuff]).objects is None
    assert read_coco([things], [stuff]).objects["class"].to_list() == ["person"]


def test_numbers_that_are_none(tmp_path):
    """In a file whose other annotations stay as they are."""
    text = json.dumps(document([image(1)], [
        {"image_id": 1, "category_id": 1, "area": 1, "bbox": [0, 0, 1, k]} for k in (1, 777, 2)
    ]))  # fmt: skip
    file = write(tmp_path / "a.json", text.replace("777", "1e999"))
    assert read_coco([file]).objects["height"].to_list() == [1, 2]


def test_real_annotations(shared_data):
    files = sorted(shared_data.glob("coco-real/*/annotations/instances_*.json"))
    assert len(files) == 3
    count = crowds = 0
    for file in files:
        content = json.loads(file.read_text())
        data = read_coco([file])
        names = {c["id"]: c["name"].replace(" ", "_") for c in content["categories"]}
        listed = sorted(content["annotations"], key=lambda a: a["image_id"])
        assert _rows(data) == [
            (a["image_id"], names[a["category_id"]], *a["bbox"], a["area"], a["iscrowd"] == 1,
             False)
            for a in listed
        ]  # fmt: skip
        count, crowds = count + len(listed), crowds + data.objects["crowd"].sum()
    assert (count, crowds) == (2459, 27)
