"""Tables: a row for each image, or for each image and class."""

import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from coco_files import areas_of, photo, write
from refusals import fails, refused

import nooch
from nooch.base.errors import InputError, ParameterError
from nooch.criteria import CE
from nooch.data import load_dataset
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.importing.recognition import recognize, recognize_table
from nooch.data.importing.table_roles import Hints
from nooch.data.readers.contract import read
from nooch.data.readers.table_layouts import Columns, LongTable, TableOfImages
from nooch.data.readers.tables import TableReading


def _classes(data):
    """Image id -> names of the classes that are present."""
    return {i: set(classes) for i, classes in areas_of(data).items()}


def _of_images(path, columns, labels=("y",), positive=None, images=None):
    layout = TableOfImages(labels, positive or {})
    return read(TableReading(path, columns, layout), images=images)


def _of_rows(path, columns, area=None, **more):
    return read(TableReading(path, columns, LongTable("class", area, "none", **more)))


def _wide(folder, text, labels=("y",), id="id", positive=None, **columns):
    path = write(folder / "table.csv", text)
    return _of_images(path, Columns(id, **columns), labels, positive)


def _long(folder, text, area="area", **columns):
    path = write(folder / "table.csv", text)
    return _of_rows(path, Columns("id", **columns), area)


# a row for each image


@pytest.mark.parametrize(
    ("no", "yes"), [("0", "1"), ("false", "true"), ("False", "True"), ("-1", "1"), ("0.0", "1.0")]
)
def test_a_label_of_two_values_is_one_class_called_after_the_column(tmp_path, no, yes):
    data = _wide(tmp_path, f"id,land bird\n2,{yes}\n1,{no}\n3,{yes}\n", ["land bird"])
    assert data.classes == ("land_bird",)
    assert data.labels("land_bird").tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("value", "present"), [("0", False), ("1", True), ("false", False), ("-1", False)]
)
def test_a_label_that_never_changes_is_still_a_class(tmp_path, value, present):
    assert _wide(tmp_path, f"id,y\n1,{value}\n2,{value}\n").labels("y").tolist() == [present] * 2


def test_any_other_label_is_a_class_for_each_value(tmp_path):
    text = "id,animal,n\n1,cat,0\n2,wild dog,1\n3,cat,2\n"
    words = "one class, animal, or two classes, animal=cat and animal=wild_dog?"
    fails(lambda: _wide(tmp_path, text, ["animal", "n"]), words, "`positive`")
    data = _wide(tmp_path, text, ["animal", "n"], positive={"animal": "*"})
    assert data.classes == ("animal=cat", "animal=wild_dog", "n=0", "n=1", "n=2")
    classes = {1: {"animal=cat", "n=0"}, 2: {"animal=wild_dog", "n=1"}, 3: {"animal=cat", "n=2"}}
    assert _classes(data) == classes


def test_of_two_texts_one_means_present(tmp_path):
    text = "id,sky\n1,yes\n2,no\n3,yes\n"
    data = _wide(tmp_path, text, ["sky"], positive={"sky": "yes"})
    assert _classes(data) == {1: {"sky"}, 2: set(), 3: {"sky"}}
    wrong = partial(_wide, tmp_path, text, ["sky"])
    fails(partial(wrong, positive={"sky": "ja"}), "is never 'ja'", "no, yes")
    refused(partial(wrong, positive={"sun": "yes"}), "'sun' is not a label")
    # boolean words are no question
    assert _wide(tmp_path, "id,y\n1,TRUE\n2,False\n", ["y"]).classes == ("y",)


def test_areas_are_unknown_and_ce_says_so(tmp_path):
    data = _wide(tmp_path, "id,y,z\n1,1,0\n2,0,1\n3,1,1\n", ["y", "z"])
    assert all(math.isnan(area) for classes in areas_of(data).values() for area in classes.values())
    assert data.provenance["area"] == "unknown"
    fails(lambda: CE().fit(data, ["y"]), "area", kind=(InputError, ParameterError), helps=False)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["000000000139", "285"], [139, 285]),
        (["10_3_s", "2_1_s"], ["10_3_s", "2_1_s"]),
        (["0001", "a2"], ["0001", "a2"]),
        (["1234567890123456789", "5"], [5, 1234567890123456789]),
    ],
)
def test_ids(tmp_path, ids, expected):
    data = _wide(tmp_path, "id,y\n" + "".join(f"{i},1\n" for i in ids))
    assert data.images["image_id"].to_list() == expected


def test_text_ids_of_parquet_are_taken_as_in_csv(tmp_path):
    pl.DataFrame({"id": ["007", "12"], "y": [True, False]}).write_parquet(tmp_path / "t.parquet")
    data = _of_images(tmp_path / "t.parquet", Columns("id"))
    assert data.images["image_id"].to_list() == [7, 12]
    assert _classes(data) == {7: {"y"}, 12: set()}


def test_columns_become_what_they_are_said_to_be(tmp_path):
    text = "id,path,y,fold,place,weight,width,height\n"
    text += "2,a/2.jpg,1,0,sea,0.5,30,20\n1,a/1.jpg,0,2,land,,40,20\n"
    parts = {"file_name": "path", "split": "fold", "values": {"0": "train", "2": "test"}}
    data = _wide(tmp_path, text, **parts)
    columns = ["image_id", "file_name", "width", "height", "split", "path", "place", "weight"]
    assert data.images.columns == columns
    assert data.images.rows() == [
        (1, "a/1.jpg", 40, 20, "test", "a/1.jpg", "land", None),
        (2, "a/2.jpg", 30, 20, "train", "a/2.jpg", "sea", 0.5),
    ]
    assert data.splits == {"train": 1, "test": 1}
    data = _wide(tmp_path, text, attributes=["place", "place"])
    assert data.attributes == ("place",)
    assert _wide(tmp_path, text, attributes=[]).attributes == ()


def test_a_column_called_file_name_may_be_the_file_name(tmp_path):
    text = "image_id,file_name,y\n1,a.jpg,1\n"
    data = _wide(tmp_path, text, id="image_id", file_name="file_name")
    assert data.images["file_name"].to_list() == ["a.jpg"]
    assert data.attributes == ()


def test_image_files_are_found_by_name_or_id(tmp_path):
    for name in ("in/1.jpg", "in/000000000139.png", "in/x.jpg"):
        write(tmp_path / "pictures" / name, "")
    path = write(tmp_path / "table.csv", "id,p,y\n1,x.jpg,1\n139,gone.jpg,0\n3,,1\n")
    data = _of_images(path, Columns("id"), images=tmp_path / "pictures")
    assert data.images["file_name"].to_list() == ["in/1.jpg", None, "in/000000000139.png"]
    data = _of_images(path, Columns("id", "p"), images=tmp_path / "pictures")
    assert data.images["file_name"].to_list() == ["in/x.jpg", None, "gone.jpg"]
    assert data.provenance["notes"] == [f"2 of 3 image files are not below {tmp_path / 'pictures'}"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "jsonl", "folder"])
def test_kinds_of_tables(tmp_path, kind):
    frame = pl.DataFrame({"id": [1, 2, 3], "y": [1, 0, 1], "place": ["a", "b", "a"]})
    path = tmp_path / f"table.{kind}"
    if kind == "folder":
        path.mkdir()
        frame[:2].write_parquet(path / "part-0.parquet")
        frame[2:].write_parquet(path / "part-1.parquet")
        (path / "_SUCCESS").touch()
    else:
        writers = {"csv": frame.write_csv, "parquet": frame.write_parquet}
        writers |= {"tsv": partial(frame.write_csv, separator="\t"), "jsonl": frame.write_ndjson}
        writers[kind](path)
    data = _of_images(path, Columns("id"))
    assert _classes(data) == {1: {"y"}, 2: set(), 3: {"y"}}
    assert data.images["place"].to_list() == ["a", "b", "a"]


def test_lists_may_be_attributes_and_fields_of_objects_are_columns(tmp_path):
    first, second = '"y":1,"tags":["a","b"],"at":{"x":1}', '"y":0,"tags":[],"at":{"x":2}'
    path = write(tmp_path / "t.jsonl", f'{{"id":1,{first}}}\n{{"id":2,{second}}}\n')
    data = _of_images(path, Columns("id"))
    assert data.attributes == ("tags", "x")
    write(path, path.read_text().replace('"b"', '"c"'))
    assert _of_images(path, Columns("id")).fingerprint != data.fingerprint


WIDE = {
    "no column of ids": ("id,y\n1,1\n", {"id": "image"}, "'image' is not a column of", "id, y"),
    "no column of names": ("id,y\n1,1\n", {"file_name": "path"}, "'path' is not a column of"),
    "no column of splits": ("id,y\n1,1\n", {"split": "fold"}, "'fold' is not a column of"),
    "no such attribute": ("id,y\n1,1\n", {"attributes": ["place"]}, "'place' is not a column of"),
    "no such label": ("id,Y\n1,1\n", {}, "'y' is not a column of", "Y, id"),
    "no row": ("id,y\n", {}, "contains no row"),
    "an empty file": ("", {}, "cannot be read: empty"),
    "a ragged file": ("id,y\n1,1,1\n", {}, "cannot be read"),
    "no id": ("id,y\n,1\n,0\n", {}, "no row has a id"),
    "a repeated id": ("id,y\n1,1\n2,1\n1,0\n", {}, "image ids occur more than once: 1",
        "`class_column`"),
    "ids that become the same": ("id,y\na/1,1\na/1,1\n", {}, "image ids occur more than once: a/1"),
    "ids with fractions": ("id,y\n1.5,1\n", {}, "column id contains Float64", "integers or text"),
    "ids of 65 bits": ("id,y\n18446744073709551616,1\n", {}, "more than 64 bits",
        "so that they are text"),
    "no label in a row": ("id,y\n1,1\n2,\n", {}, "1 rows have no y", "a label in every row"),
    "labels with fractions": ("id,y\n1,1\n2,0.5\n", {}, "label y contains fractions"),
    "NaN as a label": ("id,y\n1,1.0\n2,NaN\n", {}, "label y contains fractions, NaN, infinity"),
    "infinity as a label": ("id,y\n1,1.0\n2,inf\n", {},
        "label y contains fractions, NaN, infinity"),
    "an unknown split": ("id,y,s\n1,1,train\n2,1,night\n", {"split": "s"},
        "split values night are not known", "`split_values`"),
    "no split in a row": ("id,y,s\n1,1,train\n2,1,\n", {"split": "s"},
        "column s is blank in some rows"),
    "a column called split": ("id,y,split\n1,1,train\n", {},
        "columns split have a name that nooch uses", "`split_column`"),
    "a column called image_id": ("id,y,image_id\n1,1,7\n", {},
        "columns image_id have a name that nooch uses"),
    "an absolute path": ("id,y,p\n1,1,/etc/passwd\n", {"file_name": "p"},
        "column file_name contains", "relative paths"),
    "a size in words": ("id,y,width,height\n1,1,wide,4\n", {},
        "table.csv: ", "sizes of images are of the wrong kind", "wide"),
    "no extent": ("id,y,width,height\n1,1,0,4\n", {},
        "table.csv: ", "column width contains 0 in images 1", "at least 1 pixel"),
    "a path upwards": ("id,y,p\n1,1,a/../../b\n", {"file_name": "p"},
        "column file_name contains a/../../b"),
}  # fmt: skip


@pytest.mark.parametrize("case", WIDE)
def test_tables_that_are_refused(tmp_path, case):
    text, columns, *parts = WIDE[case]
    helps = case not in {"no row", "an empty file", "a ragged file", "no id"}
    act = partial(_wide, tmp_path, text, **columns)
    fails(act, "table.csv", *parts, kind=(InputError, ParameterError), helps=helps)


def test_arguments_that_are_refused(tmp_path):
    parts = "no label column was given", "id, y", "`label`"
    refused(partial(_wide, tmp_path, "id,y\n1,1\n", []), *parts)
    fails(partial(_wide, tmp_path, "id,y\n1,1\n", ["y", "y"]), "class 'y' is listed twice")
    act = partial(_wide, tmp_path, "id,y,s\n1,1,0\n", split="s", values={"0": "night"})
    refused(act, "night is not a split")


def test_labels_that_are_lists_are_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", '{"id":1,"y":["a"]}\n')
    act = partial(_of_images, path, Columns("id"))
    fails(act, "t.jsonl", "label y contains List(", "`class_column`")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", None, "no such file or folder"),
        ("t.xlsx", b"PK", "cannot be read"),
        ("t.xls", b"PK", "ending '.xls' is not a table's"),
        ("t.csv", b"id,y\n\xff\xfe,1\n", "line 2 is not UTF-8; cp1252 would read 'ÿþ'"),
        ("t.parquet", b"PAR1 nonsense", "cannot be read"),
        ("t.jsonl", b'{"id": 1,\n', "cannot be read"),
        ("folder/readme.md", b"", "the folder contains no table"),
        ("none", None, "no such file"),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        write(path, content)
    given = path.parent if name.startswith("folder") else path
    act = partial(_of_images, given, Columns("id"))
    text = fails(act, str(given), message, helps=False)
    reading = TableReading(given, Columns("id"), TableOfImages(["y"]))
    assert fails(partial(import_dataset, reading, tmp_path / "out"), helps=False) == text


def test_parts_must_have_the_same_columns(tmp_path):
    folder = write(tmp_path / "parts" / "a.csv", "id,y\n1,1\n").parent
    write(folder / "b.csv", "id,z\n2,1\n")
    act = partial(_of_images, folder, Columns("id"))
    fails(act, str(folder), "part files differ", "the same columns and types")


# a row for each image and class


def test_areas_in_percent_are_refused(tmp_path):
    rows = [f"{n},road,{area}" for n, area in enumerate([0.4, 0, 1, 20, 35, 45, 5, 50, 7, 80])]
    text = "\n".join(["id,class,area", *rows])
    parts = "most areas are above 1, up to 80: they look like percent", "divide column area by 100"
    fails(partial(_long, tmp_path, text), "table.csv", *parts)
    few = "id,class,area\n1,road,1.2\n2,road,1.5\n"
    assert _long(tmp_path, few).area("road").tolist() == [1.2, 1.5]


def test_long_tables_add_up(tmp_path):
    text = "id,class,area,place\n2,fire hydrant,0.25,sea\n1,cat,0,land\n"
    text += "2, fire_hydrant,0.5,sea\n2,cat,1.5,sea\n3,,,sea\n"
    data = _long(tmp_path, text)
    assert areas_of(data) == {1: {"cat": 0.0}, 2: {"fire_hydrant": 0.75, "cat": 1.5}, 3: {}}
    assert data.images["place"].to_list() == ["land", "sea", "sea"]
    assert data.provenance["area"] == "given"
    # without any class there are images; numbers are classes, and texts ids
    data = _long(tmp_path, "id,class,area\n1,,\n2,,\n")
    assert (areas_of(data), data.classes) == ({1: {}, 2: {}}, ())
    data = _long(tmp_path, "id,class,area\nb,3,0.5\na,12,1\n")
    assert areas_of(data) == {"a": {"12": 1.0}, "b": {"3": 0.5}}


def test_an_area_may_be_unknown(tmp_path):
    found = areas_of(_long(tmp_path, "id,class,area\n1,a,\n1,b,0.5\n2,a,NaN\n2,a,0.5\n"))
    assert math.isnan(found[1]["a"])
    assert math.isnan(found[2]["a"])
    assert found[1]["b"] == 0.5
    data = _long(tmp_path, "id,class\n1,a\n2,b\n", area=None)
    assert _classes(data) == {1: {"a"}, 2: {"b"}}
    assert data.provenance["area"] == "unknown"


def test_an_area_that_is_stated_as_unknown_is_neither_present_nor_absent(tmp_path):
    text = "id,class,area\n1,sea,0.5\n1,boat,\n2,sea,unknown\n3,sea,0.25\n3,sea,unknown\n4,,\n"
    data = _long(tmp_path, text)
    assert data.unknown_labels("sea").tolist() == [False, True, False, False]
    # in image 3 it is present, and not all of it has an area
    assert data.unknown("sea").tolist() == [False, True, True, False]
    assert data.labels("sea", unknown=False).tolist() == [True, False, True, False]
    assert data.unknown("boat") is None
    assert np.isnan(data.area("boat")[0])


LONG = {
    "no column of classes": ("id,area\n1,0.5\n", "'class' is not a column of"),
    "no column of areas": ("id,class\n1,a\n", "'area' is not a column of"),
    "a negative area": ("id,class,area\n1,a,0.5\n1,b,-0.5\n",
        "row 2 has area -0.5", "fractions of the image"),
    "an infinite area": ("id,class,area\n1,a,inf\n", "row 1 has area inf"),
    "an area in words": ("id,class,area\n1,a,big\n", "column area contains String", "numbers"),
    "no id": ("id,class,area\n,a,0.5\n", "no row has a id"),
    "attributes that differ": ("id,class,area,place\n1,a,0.5,sea\n1,b,0.5,land\n",
        "images have different attributes in different rows: 1", "`attributes`"),
}  # fmt: skip


@pytest.mark.parametrize("case", LONG)
def test_long_tables_that_are_refused(tmp_path, case):
    text, *parts = LONG[case]
    act = partial(_long, tmp_path, text)
    fails(act, "table.csv", *parts, kind=(InputError, ParameterError), helps=case != "no id")


def test_splits_of_a_long_table_must_be_the_same_in_every_row_of_an_image(tmp_path):
    text = "id,class,area,s\n1,a,0.5,train\n1,b,0.5,test\n"
    fails(lambda: _long(tmp_path, text, split="s"), "different attributes in different rows: 1")
    assert _long(tmp_path, text.replace("test", "trn"), split="s").splits == {"train": 1}


# rows without an image, and a table for each split


@pytest.mark.parametrize("ids", [("a", "b", "c"), (1, 2, 3)])
@pytest.mark.parametrize("part_size", [None, 1])
def test_rows_without_an_image_are_listed_and_left_out(tmp_path, ids, part_size):
    a, b, c = ids
    table = f"id,label\n,dog\n{a},cat\n,\n{b},dog\n,owl\n{c},cat\n"
    path = write(tmp_path / "t.csv", table)
    reading = recognize(path).reading
    import_dataset(reading, tmp_path / "out", part_size=part_size)
    data = load_dataset(tmp_path / "out")
    assert _classes(data) == {a: {"cat"}, b: {"dog"}, c: {"cat"}}
    assert data.classes == ("cat", "dog")
    listed = pl.read_csv(tmp_path / "out" / "broken_annotations.csv")
    assert listed.rows() == [("t.csv", f"row {n}", "no id", "left out") for n in (1, 3, 5)]
    refuse = partial(import_dataset, reading, tmp_path / "new", broken="refuse")
    fails(refuse, "3 annotations", "t.csv, row 1: no id")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("place", ["{}/metadata.{}", "{}.{}", "data/{}-00000-of-00001.{}"])
@pytest.mark.parametrize("by_name", [True, False])
def test_a_table_for_each_split_is_one_dataset(tmp_path, place, ending, by_name):
    has_folders, tables = place.startswith("{}/"), {"train": 3, "validation": 2, "test": 1}
    for number, (split, n) in enumerate(tables.items()):
        path = tmp_path / "d" / place.format(split, ending)
        path.parent.mkdir(parents=True, exist_ok=True)
        # next to its own table a name says nothing of the split
        files = [f"{i}.png" if has_folders else f"{number}{i}.png" for i in range(n)]
        rows = pl.DataFrame({"file_name": files, "label": ["cat", "dog", "cat"][:n]})
        content = {"csv": rows.write_csv, "jsonl": rows.write_ndjson, "parquet": rows.write_parquet}
        content[ending](path)
        for name in files:
            image = tmp_path / "d" / (split if has_folders else "images") / name
            image.parent.mkdir(exist_ok=True)
            image.write_bytes(photo(4, 4))
    hints = Hints(id="file_name", class_column="label") if by_name else Hints()
    found = recognize_table(tmp_path / "d", hints) if by_name else recognize(tmp_path / "d")
    data = read(found.reading, images=found.images or tmp_path / "d")
    assert data.splits == {"train": 3, "valid": 2, "test": 1}
    assert Counter(name for names in _classes(data).values() for name in names) == {
        "cat": 4,
        "dog": 2,
    }
    assert data.images["file_name"].null_count() == 0
    for name, split in data.images.select("file_name", "split").iter_rows():
        assert not has_folders or name.split("/")[0].startswith(split)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ("test.csv", "image\nc.png\n"),  # other columns
        ("train.tsv", "image\tlabel\na.png\tcat\nb.png\tdog\n"),  # the same rows again
        ("more.csv", "image,label\nc.png,cat\nd.png,dog\n"),  # not a split
        ("test.csv", "image,label\na.png,cat\nb.png,dog\n"),  # the same table
    ],
)
def test_tables_that_are_not_splits_of_one_are_refused_with_one_that_can_be_read(
    tmp_path, other, text
):
    for name, content in (("train.csv", "image,label\na.png,cat\nb.png,dog\n"), (other, text)):
        write(tmp_path / "d" / name, content)
    with pytest.raises(InputError, match="has 2 tables") as error:
        recognize(tmp_path / "d")
    (command,) = error.value.give
    assert read(recognize(command["path"]).reading).classes == ("cat", "dog")


def test_a_column_of_splits_next_to_names_of_splits_is_asked_about(tmp_path):
    for name, split in (("train", "test"), ("test", "train")):
        write(tmp_path / "d" / f"{name}.csv", f"image,label,split\n{name}.png,cat,{split}\n")
    hints = Hints(id="image", class_column="label")
    with pytest.raises(InputError, match="in its column split") as error:
        read(recognize_table(tmp_path / "d", hints).reading)
    (given,) = error.value.give
    reading = recognize_table(tmp_path / "d", replace(hints, **given)).reading
    assert read(reading).splits == {"train": 1, "test": 1}


# genuine


def test_waterbirds(shared_data):
    columns = Columns("img_id", "img_filename", "split", {"0": "train", "1": "valid", "2": "test"})
    data = _of_images(shared_data / "waterbirds" / "metadata.csv", columns)
    assert len(data) == 11788
    assert data.splits == {"train": 4795, "valid": 1199, "test": 5794}
    train = data.select("train")
    groups = Counter(zip(train.labels("y").tolist(), train.images["place"], strict=True))
    assert groups == {(False, 0): 3498, (False, 1): 184, (True, 0): 56, (True, 1): 1057}
    assert "place_filename" in data.attributes


@pytest.mark.parametrize("form", ["{:.3f}", "{:.1%}", "{:.1%} ", "comma", "comma %"])
def test_areas_are_the_same_in_every_notation(tmp_path, form):
    areas = [0.125, 0.5, 0.0, 1.0]
    texts = [f"{a:.3f}" if form == "comma" else f"{a:.1%}" for a in areas]
    texts = [t.replace(".", ",") for t in texts] if "comma" in form else map(form.format, areas)
    rows = "".join(f"{n};car;{text}\n" for n, text in enumerate(texts))
    data = _long(tmp_path, f"id;class;area\n{rows}4;car;\n5;car;unknown\n")
    assert data.areas.data[:4].tolist() == areas
    assert math.isnan(data.areas.data[4])
    assert data.areas.nnz == 5


@pytest.mark.parametrize("area", ["1.234,5", "0,2,5", "25 % of it", "a"])
def test_an_area_that_is_no_number_is_refused(tmp_path, area):
    fails(lambda: _long(tmp_path, f"id;class;area\n1;car;{area}\n2;car;0,5\n"), "contains String")


@pytest.mark.parametrize(
    ("name", "values", "ending"),
    [
        ("Confidence", [0.0, 1.0], "parquet"), ("IsPresent", [False, True], "ndjson"),
        ("Exists?", ["no", "yes"], "csv"), ("label", [0, 1], "csv"), ("seen", [0, 1], "parquet"),
        ("y", [0, 1], "ndjson"), ("value", [False, True], "csv"),
    ],
)  # fmt: skip
def test_a_column_that_may_state_presence_is_asked_about(tmp_path, name, values, ending):
    """Of any name where rows of an image differ, in files of all kinds, also if roles are named."""
    rows = [("a", "cat", values[1]), ("a", "dog", values[0]), ("b", "cat", values[0])]
    frame = pl.DataFrame(rows, ["image", "class_name", name], orient="row")
    path = tmp_path / f"t.{ending.replace('ndjson', 'jsonl')}"
    getattr(frame, f"write_{ending}")(path)
    named = Hints(id="image", class_column="class_name")
    for found in (partial(recognize, path), partial(recognize_table, path, named)):
        words = f"column {name} is 0 in some rows", "`present_column`"
        fails(lambda found=found: read(found().reading), *words)
    data = nooch.dataset(path, present_column=name)
    assert data.labels("cat", unknown=False).tolist() == [True, False]
    assert data.unknown_labels("dog").tolist() == [False, True]


@pytest.mark.parametrize("part_size", [None, 1])
def test_pairs_without_a_row_are_unknown_where_rows_state_presence(tmp_path, part_size):
    rows = [("a", "cat", 1), ("a", "dog", 0), ("b", "cat", 0), ("b", "cow", 1), ("c", "dog", 1)]
    pl.DataFrame(rows, ["id", "class", "value"], orient="row").write_csv(tmp_path / "t.csv")
    layout = LongTable("class", present_column="value")
    reading = TableReading(tmp_path / "t.csv", Columns("id"), layout)
    import_dataset(reading, tmp_path / "out", part_size=part_size)
    data = load_dataset(tmp_path / "out")
    stated = {(image, name): bool(value) for image, name, value in rows}
    for name in data.classes:
        unknown = data.unknown_labels(name)
        for row, image in enumerate(data.image_ids):
            assert unknown[row] == ((image, name) not in stated)
            labels = data.labels(name, unknown=False)
            assert labels[row] == stated.get((image, name), False)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", "cat", 1), ("a", "cat", 0)], "both present and absent in images a"),
        ([("a", "cat", 1), ("a", "dog", 2)], "column value contains 2"),
    ],
)
def test_presence_that_is_not_clear_is_refused(tmp_path, rows, words):
    pl.DataFrame(rows, ["id", "class", "value"], orient="row").write_csv(tmp_path / "t.csv")
    fails(
        lambda: _of_rows(tmp_path / "t.csv", Columns("id"), present_column="value"),
        words,
    )
