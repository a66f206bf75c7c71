"""Tables of boxes in pixels, whose sizes are in the image files, in the layouts of other tools."""

import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from coco_files import document, image, photo, write
from hypothesis import given, settings, strategies as st
from in_memory import read_coco
from polars.testing import assert_frame_equal
from refusals import fails

import nooch
from nooch.data import load_dataset
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.importing.recognition import recognize
from nooch.data.importing.table_roles import Hints
from nooch.data.readers.contract import read
from nooch.data.table_files import read_table

SIDES = ("x1", "y1", "x2", "y2")
SIZE, CLASSES = (40, 30), ["cat", "traffic light"]
FILES = [f"{n:04}.jpg" for n in range(3)]
CERTAIN = [(file, name, 32, 21, 7, 8) for file in FILES[:2] for name in CLASSES]
"""Left, top, width, height that cannot be corners."""


@st.composite
def drawn(draw):
    """An object (file, class, left, top, width, height) in whole pixels."""
    left, top = draw(st.integers(0, SIZE[0] - 2)), draw(st.integers(0, SIZE[1] - 2))
    extent = draw(st.integers(1, SIZE[0] - left)), draw(st.integers(1, SIZE[1] - top))
    return draw(st.sampled_from(FILES)), draw(st.sampled_from(CLASSES)), left, top, *extent


def _corners(x, y, w, h):
    return x, y, x + w, y + h


def _csv(folder, objects, head, line, blank, sign=","):
    """A table of a line for each object, and a blank one for images without any."""
    bare = [file for file in FILES if file not in {row[0] for row in objects}]
    rows = [line(file, name, *_corners(*box)) for file, name, *box in objects]
    lines = [head, *(sign.join(map(str, row)) for row in rows), *map(blank.format, bare)]
    return write(folder / "boxes.csv", "\n".join(filter(None, lines)) + "\n")


def vott(folder, objects):
    return _csv(folder, objects, '"image","xmin","ymin","xmax","ymax","label"',
                lambda f, c, *box: (f'"{f}"', *map(float, box), f'"{c}"'), '"{}",,,,,')  # fmt: skip


def keras_retinanet(folder, objects):
    return _csv(folder, objects, "", lambda f, c, *box: (f"img/{f}", *box, c), "img/{},,,,,")


def decimal_commas(folder, objects):
    return _csv(folder, objects, "filename;x1;y1;x2;y2;class",
                lambda f, c, *box: (f, *(f"{x},0" for x in box), c), "{};;;;;", ";")  # fmt: skip


def sides_of_boxes(folder, objects):
    """``width`` and ``height`` are not the image's."""
    return _csv(folder, objects, "filename,xmin,ymin,xmax,ymax,width,height,class",
                lambda f, c, x, y, r, b: (f, x, y, r, b, r - x, b - y, c), "{},,,,,,,")  # fmt: skip


def text_lists(folder, objects):
    return _csv(folder, objects, "image_id,bbox,class",
                lambda f, c, x, y, r, b: (f[:4], f'"[{x}, {y}, {r - x}, {b - y}]"', c),
                "{},,")  # fmt: skip


def prefixed(folder, objects):
    return _csv(folder, objects, "Filename,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2,class_name",
                lambda f, c, *box: (f, *box, c), "{},,,,,")  # fmt: skip


def _records(objects, one):
    return [{"file_name": f, **one([row[1:] for row in objects if row[0] == f])} for f in FILES]


def _lines(folder, records, name="metadata.jsonl"):
    return write(folder / name, "\n".join(map(json.dumps, records)))


def hugging_face(folder, objects):
    return _lines(folder, _records(objects, lambda listed: {
        "note": "", "objects": {"id": [*range(len(listed))], "bbox": [[*box] for _, *box in listed],
                             "categories": [c for c, *_ in listed]},
    }))  # fmt: skip


def hugging_face_parquet(folder, objects):
    records = _records(objects, lambda listed: {"objects": [
        {"bbox": [*map(float, box)], "category": CLASSES.index(c), "area": box[2] * box[3]}
        for c, *box in listed
    ]})  # fmt: skip
    table, label = pa.Table.from_pylist(records), {"names": CLASSES, "_type": "ClassLabel"}
    about = {"info": {"features": {"objects": [{"category": label, "bbox": {}}]}}}
    table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    pq.write_table(table, folder / "data.parquet")
    return folder / "data.parquet"


def hugging_face_readme(folder, objects):
    label = {"class_label": {"names": {str(n): name for n, name in enumerate(CLASSES)}}}
    fields = [{"name": "bbox", "sequence": "int64"}, {"name": "categories", "dtype": label}]
    about = {"dataset_info": {"features": [{"name": "objects", "sequence": fields}]}}
    write(folder / "README.md", f"---\n{yaml.safe_dump(about)}---\n# Boxes\n")
    return _lines(folder / "train", _records(objects, lambda listed: {
        "objects": {"bbox": [[*box] for _, *box in listed],
                    "categories": [CLASSES.index(c) for c, *_ in listed]},
    }))  # fmt: skip


def bdd(folder, objects):
    records = _records(objects, lambda listed: {"attributes": {"weather": "clear"}, "labels": [
        {"id": "7", "category": c, "box2d": dict(zip(SIDES, _corners(*box), strict=True))}
        for c, *box in listed
    ]})  # fmt: skip
    named = [{"name" if key == "file_name" else key: v for key, v in r.items()} for r in records]
    return write(folder / "det.json", json.dumps(named))


LAYOUTS = [
    vott, keras_retinanet, decimal_commas, sides_of_boxes, text_lists, prefixed, hugging_face,
    hugging_face_parquet, hugging_face_readme, bdd,
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@settings(deadline=None, max_examples=4)
@given(objects=st.lists(drawn(), max_size=6, unique=True))
def test_boxes_in_pixels_are_those_of_coco(tmp_path_factory, layout, objects):
    folder = tmp_path_factory.mktemp("boxes")
    for name in FILES:
        write(folder / "photos" / name, photo(*SIZE))
    objects = [*objects, *(row for row in CERTAIN if row not in objects)]
    (folder / "train").mkdir()
    path = layout(folder, objects)
    data = nooch.dataset(path, images=folder / "photos")
    annotations = [
        {"image_id": FILES.index(file), "category_id": CLASSES.index(name) + 1,
         "bbox": box, "area": box[2] * box[3]}
        for file, name, *box in objects
    ]  # fmt: skip
    images = [image(n, *SIZE, file_name=file) for n, file in enumerate(FILES)]
    names = dict(enumerate(CLASSES, 1))
    coco = read_coco([write(folder / "coco.json", document(images, annotations, names))])
    assert data.images["file_name"].to_list() == FILES
    assert set(data.images.select("width", "height").rows()) == {SIZE}
    plain = [
        found.objects.join(found.images.select("image_id", "file_name"), on="image_id")
        .drop("image_id").with_columns(pl.col("class").cast(pl.String)).sort(pl.all())
        for found in (data, coco)
    ]  # fmt: skip
    assert_frame_equal(*plain, abs_tol=1e-9)
    assert abs((data.areas - coco.areas).toarray()).max() < 1e-12


def _photos(folder, *names):
    for name in names:
        write(folder / "photos" / name, photo(*SIZE))
    return folder / "photos"


EITHER = "a.jpg,4,5,10,12,cat\n"
"""Corners, or a corner and sides."""


@pytest.mark.parametrize(("form", "box"), [("xyxy", (4, 5, 6, 7)), ("xywh", (4, 5, 10, 12))])
def test_the_order_of_numbers_is_asked_where_two_fit(tmp_path, form, box):
    images = _photos(tmp_path, "a.jpg")
    path = write(tmp_path / "t.csv", EITHER)
    words = "in two formats", "`box_format`", "left, top, right, bottom", "left, top, width, height"
    fails(lambda: nooch.dataset(path, images=images), *words)
    data = nooch.dataset(path, images=images, box_format=form)
    assert data.objects.row(0)[2:6] == box
    assert form == "xyxy" or "left, top, width, height" in data.provenance["notes"][0]


def test_numbers_decide_where_one_order_fits(tmp_path):
    images = _photos(tmp_path, "a.jpg")
    for last, box in (("20,15,30,25", (20, 15, 10, 10)), ("20,15,10,10", (20, 15, 10, 10))):
        path = write(tmp_path / "t.csv", f"{EITHER}a.jpg,{last},cat\n")
        data = nooch.dataset(path, images=images)
        assert data.objects.row(1)[2:6] == box


ONE = 'image_id,bbox,source\na,"[30, 20, 5, 6]",usask\nb,,arvalis\na,"[20, 20, 4, 4]",usask\n'
"""Boxes of wheat, which have no class."""


def test_boxes_without_classes_are_of_one_class_that_is_asked(tmp_path):
    path, images = write(tmp_path / "in" / "t.csv", ONE), _photos(tmp_path, "a.jpg", "b.jpg")
    fails(lambda: nooch.dataset(path, images=images), "has boxes (bbox)", "`one_class`")
    data = nooch.dataset(path, images=images, one_class="wheat head")
    assert data.classes == ("wheat_head",)
    assert data.labels("wheat_head").tolist() == [True, False]
    assert data.objects["left"].to_list() == [30, 20]
    assert data.images["source"].to_list() == ["usask", "arvalis"]
    # without image files, the class is known and its boxes are not
    data = nooch.dataset(path, one_class="wheat head")
    assert data.labels("wheat_head").tolist() == [True, False]
    assert data.objects is None
    plain = write(tmp_path / "plain.csv", "image_id,class\na,cat\nb,dog\n")
    fails(
        lambda: nooch.dataset(plain, one_class="cat"), "there are no boxes", kind=nooch.NoochError
    )


TARGET = "patientId,x,y,width,height,Target\n7,,,,,0\n8,0,0,5,6,1\n8,20,20,4,4,1\n9,,,,,0\n"


@pytest.mark.parametrize("labels", [[], ["Target"]])
@pytest.mark.parametrize("has_images", [True, False])
def test_a_column_of_1_where_a_box_is_names_the_class(tmp_path, labels, has_images):
    path, images = write(tmp_path / "in" / "t.csv", TARGET), _photos(tmp_path, "7.jpg", "8.jpg")
    given = {"images": images} if has_images else {}
    data = nooch.dataset(path, id="patientId", labels=labels, **given)
    assert data.labels("Target").tolist() == [False, True, False]
    assert data.objects is None if not has_images else data.objects["width"].to_list() == [5, 4]


def test_boxes_that_are_not_as_they_should_be_are_listed(tmp_path):
    rows = ["a,cat,1,2,9,8", "a,cat,1,2,9,8", "a,cat,30,20,50,25", "a,dog,60,70,80,90",
            "b,dog,9,9,5,5", "b,dog,1,,5,5", "b,,1,1,5,5", "b,cat,,,,", "a,cat,2,2,inf,9",
            *(f"c,cat,{n},1,9,9" for n in range(5))]  # fmt: skip
    path = write(tmp_path / "t.csv", "\n".join(["image_id,class,x1,y1,x2,y2", *rows]))
    images = _photos(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    found = recognize(path, images=images)
    import_dataset(found.reading, tmp_path / "out", images=images, part_size=1)
    bad = read_table(tmp_path / "out" / "broken_annotations.csv").sort("place")
    left, kept = "left out", "kept; its area is the part within the image"
    rules = {2: "counted once", 3: kept, 4: left, 5: left, 6: left, 7: left, 9: left}
    assert dict(bad.select("place", "rule").rows()) == {f"row {n}": r for n, r in rules.items()}
    assert set(bad["file"]) == {"t.csv"}
    data = load_dataset(tmp_path / "out")
    assert data.objects.select("left", "area").rows()[:2] == [(1, 48), (30, 50)]
    # a box that is left out is not there
    assert data.labels("dog").sum() == 0
    assert data.labels("cat").tolist() == [True, True, True]
    refuse = {"images": images, "broken": "refuse", "overwrite": True}
    words = "7 annotations are faulty", "t.csv, row 5"
    fails(lambda: import_dataset(found.reading, tmp_path / "out", **refuse), *words)


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("", "{}.jpg,{},32,21,39,29"),
        ("Filename,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2,ClassId", "{}.jpg,32,21,39,29,{}"),
        ("imageId,class,xmin,ymin,xmax,ymax", "{},{},32,21,39,29"),
    ],
)
def test_a_number_0_of_a_box_is_a_class(tmp_path, head, row):
    """In columns of any spelling; N/A is a blank."""
    names = ("cat", "dog") if not head else ("0", "1")
    rows = [row.format(n, name) for n, name in enumerate(names)]
    rows += [row.format(2, names[0]).replace("32,21,39,29", "N/A,N/A,N/A,N/A")] if head else []
    path = write(tmp_path / "t.csv", "\n".join(filter(None, [head, *rows])))
    data = nooch.dataset(path, images=_photos(tmp_path, "0.jpg", "1.jpg", "2.jpg"))
    assert data.classes == names
    assert data.objects["class"].to_list() == [*names]
    assert data.labels(names[0]).tolist() == [True, False, True][: len(data)]


def test_boxes_next_to_columns_of_classes_are_attributes(tmp_path):
    text = "image,cat,dog,x1,y1,x2,y2\na.jpg,1,0,2,2,9,9\nb.jpg,0,1,2,2,9,9\n"
    found = recognize(write(tmp_path / "t.csv", text))
    assert "boxes (x1, y1, x2, y2) are attributes, since no column has their classes" in found.why
    assert read(found.reading).attributes == ("x1", "y1", "x2", "y2")
    text = "image,class,RLE\na.jpg,cat,1 2\na.jpg,dog,3 4\n"
    found = recognize(write(tmp_path / "t.csv", text))
    assert found.why.endswith("left out: RLE")


def test_numbers_of_classes_beyond_the_features_are_refused(tmp_path):
    write(tmp_path / "dataset_info.json", json.dumps(
        {"features": {"label": {"names": ["a", "b"], "_type": "ClassLabel"}}}))  # fmt: skip
    path = write(tmp_path / "t.csv", "file_name,label\na.jpg,0\nb.jpg,2\n")
    fails(lambda: recognize(path), "label has 2, not named by the features", "0 to 1")
    path = write(tmp_path / "t.csv", "file_name,label\na.jpg,0\nb.jpg,1\nc.jpg,1\n")
    assert read(recognize(path).reading).classes == ("a", "b")


def test_lists_of_objects_that_differ_in_length_are_refused(tmp_path):
    path = _lines(tmp_path, [{"file_name": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4]],
                                                                "category": [1, 2]}}])  # fmt: skip
    fails(lambda: recognize(path, Hints()), "row 1", "another number of bbox")
