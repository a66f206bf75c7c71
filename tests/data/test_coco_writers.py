"""COCO as other programs write it: read as they mean it, with notes on what contradicts itself."""

import json

import numpy as np
import pytest
from coco_files import document, photo, write
from in_memory import read_coco
from PIL import Image
from refusals import fails

from nooch import load_dataset
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.importing.recognition import recognize
from nooch.data.readers.coco.reader import CocoReading

BOX = {"category_id": 1, "bbox": [1, 1, 4, 3]}
SIDES = {"width": 10, "height": 8}


def _image(i, name=None, **changed):
    return {"id": i, "file_name": name or f"{i}.jpg", **SIDES, **changed}


def _one(*annotations, images=(), categories=None):
    listed = [{"image_id": 1, **annotation} for annotation in annotations]
    return document([*(images or [_image(1)])], listed, categories or {1: "cat"})


def _read(folder, content, **given):
    return read_coco([write(folder / "a.json", content)], **given)


def _notes(data, *parts):
    text = "\n".join(data.provenance["notes"])
    for part in parts:
        assert part in text
    assert parts or not text
    return data


@pytest.mark.parametrize(
    ("changed", "area", "note"),
    [
        ({}, 12, "1 annotations have neither an area nor a segmentation"),
        ({"segmentation": []}, 12, "1 annotations have neither an area nor a segmentation"),
        ({"area": float("nan")}, 12, "1 values are NaN"),
        ({"bbox": [7, 6, 4, 9]}, 6, "1 annotations have neither an area nor a segmentation"),
        (
            {"bbox": ["1", "1", "4", "3"]},
            12,
            "1 annotations have neither an area nor a segmentation",
        ),
        ({"segmentation": [1, 1, 5, 1, 5, 5, 1, 5]}, 16, ""),
        ({"segmentation": [[1, 1]]}, 12, "1 segmentations cannot be decoded"),
        ({"segmentation": [[-9, -9, -5, -9, -5, -5]]}, 12, "1 segmentations cannot be decoded"),
        ({"bbox": None}, np.nan, "1 annotations have no area, segmentation or box"),
        ({"area": "12"}, 12, ""),
    ],
)
def test_areas_come_from_what_an_annotation_has(tmp_path, changed, area, note):
    data = _notes(_read(tmp_path, _one({**BOX, **changed})), *filter(None, [note]))
    np.testing.assert_array_equal(data.areas.toarray(), [[area / 80]])


@pytest.mark.parametrize(
    ("flag", "crowd"),
    [(0, False), ("0", False), (False, False), ("", False), (None, False), ([], False),
     (1, True), ("1", True), (True, True)],
)  # fmt: skip
def test_flags_may_be_texts(tmp_path, flag, crowd):
    objects = _read(tmp_path, _one({**BOX, "area": 9, "iscrowd": flag})).objects
    assert objects["crowd"].to_list() == [crowd]


@pytest.mark.parametrize("slice_size", [20, 1 << 24])
def test_ids_may_be_texts(tmp_path, slice_size):
    ids = ["b-1", "a-2", "7"]
    images = [_image(i, f"{i}.jpg") for i in ids]
    listed = [{**BOX, "image_id": i, "area": k, "category_id": "5"} for k, i in enumerate(ids, 1)]
    path = write(tmp_path / "a.json", document(images, listed, {"5": "cat"}))
    for part in (None, 1):
        out = tmp_path / str(part)
        import_dataset(CocoReading([path], slice_size=slice_size), out, part_size=part)
        data = load_dataset(out)
        assert data.images["image_id"].to_list() == ["7", "a-2", "b-1"]
        assert data.images["file_name"].to_list() == ["7.jpg", "a-2.jpg", "b-1.jpg"]
        assert (data.area("cat") * 80).round(6).tolist() == [3, 2, 1]
        assert data.objects["image_id"].to_list() == ["7", "a-2", "b-1"]
    # texts of whole numbers are these
    path = write(tmp_path / "a.json", document([_image("7")], [{**BOX, "image_id": 7}]))
    assert read_coco([path]).images["image_id"].to_list() == [7]
    unknown = write(tmp_path / "a.json", _one({**BOX, "image_id": "x"}, images=[_image("y")]))
    fails(lambda: read_coco([unknown]), "image ids of annotations are not listed", "annotation 0")


def test_a_twin_of_a_category_is_left_out_if_nobody_uses_it(tmp_path):
    names = {0: "big cat", 1: "big_cat", 2: "dog", 3: "dog"}
    data = _read(tmp_path, _one({**BOX, "area": 9}, categories=names))
    _notes(
        data, "left out, without annotations and with the name of another category: big cat, dog"
    )
    assert data.categories == {"big_cat": (1, "big_cat"), "dog": (2, "dog")}


@pytest.mark.parametrize("given", ["CC BY", ["CC BY"], [{"id": 1, "name": "CC BY"}], "", None])
def test_licenses_have_many_forms(tmp_path, given):
    data = _read(tmp_path, {**_one({**BOX, "area": 9}), "licenses": given})
    assert data.provenance["licenses"] == ([{"name": "CC BY"}] if given else [])


def test_sizes_come_from_the_files(tmp_path):
    (tmp_path / "p").mkdir()
    for i in (1, 2, 3):
        (tmp_path / "p" / f"{i}.jpg").write_bytes(photo(10, 8))
    sizes = [{}, {"width": 0, "height": 0}, {"width": "10", "height": None}]
    images = [{"id": i, "file_name": f"{i}.jpg", **size} for i, size in enumerate(sizes, 1)]
    content = _one({**BOX, "area": 8}, images=images)
    data = _read(tmp_path, content, images=tmp_path / "p")
    assert data.images.select("width", "height").rows() == [(10, 8)] * 3
    fails(lambda: _read(tmp_path, content), "images without a valid size: ids 1, 2", "images=...")
    (tmp_path / "p" / "2.jpg").unlink()
    fails(lambda: _read(tmp_path, content, images=tmp_path / "p"), "without a valid size: ids 2")


def test_numbers_that_contradict_each_other_are_counted(tmp_path):
    (tmp_path / "p").mkdir()
    # a photograph on its side: as stored, as shown, and of another size
    for i, turn in ((1, 6), (2, 6), (3, 1)):
        (tmp_path / "p" / f"{i}.jpg").write_bytes(photo(10, 8, turn))
    sides = [SIDES, {"width": 8, "height": 10}, {"width": 8, "height": 10}]
    images = [_image(i, **size) for i, size in enumerate(sides, 1)]
    good, flat = {**BOX, "area": 9}, {**BOX, "bbox": [1, 1, 0, 4], "area": 9}
    wrong = [{**BOX, "area": 80}, {**BOX, "area": 0}]
    content = _one(
        good, good, flat, *wrong, {**BOX, "bbox": [20, 1, 4, 3], "area": 9}, images=images
    )
    data = _notes(
        _read(tmp_path, content, images=tmp_path / "p"),
        "1 of 5 areas are larger than their box",
        "1 of 5 areas are 0, although their box is not empty",
        "1 boxes are empty, but have a positive area",
        f"1 annotation counted once: {tmp_path}/a.json, annotation 1 (counted from 0): is listed",
        f"1 annotation left out: {tmp_path}/a.json, annotation 5 (counted from 0): lies outside",
        "1 of 3 inspected image files differ in size",
    )
    assert data.has_areas
    assert data.objects["area"].to_list() == [9, 80, 0]
    assert data.area("cat")[0] * 80 == 9 + 9 + 80
    data = _notes(_read(tmp_path, _one(flat)), "1 boxes are empty")
    assert data.objects is None


WHOLE = {"category_id": 1, "area": 80}


@pytest.mark.parametrize("wrong", [{**BOX, "area": 80}, {**BOX, "area": 0}, WHOLE])
def test_areas_are_unknown_where_most_contradict_their_box_or_image(tmp_path, wrong):
    again = {**wrong, "iscrowd": 1} | ({"bbox": [2, 1, 4, 3]} if "bbox" in wrong else {})
    for right, is_known in ((1, False), (2, True)):
        good = [{**BOX, "bbox": [k, 1, 4, 3], "area": 9} for k in range(right)]
        data = _read(tmp_path, _one(wrong, again, *good))
        assert data.has_areas == is_known
        assert ("areas in a.json count as unknown" in "".join(data.provenance["notes"])) != is_known


POLYGON = {"segmentation": [[-9, 1, -5, 1, -5, 5]]}


@pytest.mark.parametrize("changed", [
    {"bbox": [-9, 1, 4, 3]}, {"bbox": [11, 1, 4, 3]}, {"bbox": [1, 9, 4, 3]}, POLYGON,
    {"area": 9, **POLYGON}, {"area": 9, "bbox": [-9, 1, 4, 3], **POLYGON},
])  # fmt: skip
def test_annotations_outside_of_their_image_are_left_out(tmp_path, changed):
    outside, good = {"category_id": 2, **changed}, {**BOX, "area": 9}
    content = _one(good, outside, categories={1: "cat", 2: "dog"})
    path = write(tmp_path / "a.json", content)
    data = _notes(read_coco([path]), "1 annotation left out", "annotation 1 (counted from 0)")
    assert data.areas.nnz == 1
    write(path, {**content, "annotations": [content["annotations"][1]]})
    fails(lambda: read_coco([path]), "a.json: 1 of 1 annotations lie outside their image")
    write(path, content)
    out = tmp_path / "out"
    words = "1 annotation is faulty", "(counted from 0): lies outside", "broken="
    fails(lambda: import_dataset(CocoReading([path]), out, broken="refuse"), *words)
    import_dataset(CocoReading([path]), out)
    assert (out / "broken_annotations.csv").read_text().count("lies outside") == 1


def test_an_annotation_that_is_listed_twice_counts_once(tmp_path):
    good, other = {**BOX, "area": 9}, {**BOX, "bbox": [2, 1, 4, 3], "area": 9}
    two = [_image(1), _image(2)]
    content = _one(good, other, {**good, "image_id": 2}, good, good, images=two)
    for part in (None, 1):
        out = tmp_path / str(part)
        path = write(tmp_path / "a.json", content)
        import_dataset(CocoReading([path], slice_size=40), out, part_size=part)
        data = load_dataset(out)
        assert (data.area("cat") * 80).round(9).tolist() == [18, 9]
        assert data.objects.height == 3
        assert (out / "broken_annotations.csv").read_text().count("counted once") == 2
    # without a box nothing tells that it is the same one
    data = _read(tmp_path, _one({"category_id": 1, "area": 9}, {"category_id": 1, "area": 9}))
    assert data.area("cat").tolist() == [18 / 80]


def test_files_may_number_their_categories_differently(tmp_path):
    numbers = [{1: "cat", 2: "big dog"}, {1: "big dog", 2: "cat"}, {5: "cow", 1: "big dog"}]
    paths = []
    for k, categories in enumerate(numbers, 1):
        listed = [{**BOX, "image_id": k, "category_id": c, "area": c} for c in categories]
        paths.append(write(tmp_path / f"{k}.json", document([_image(k)], listed, categories)))
    data = _notes(read_coco(paths), "joined by name: 1 is cat in 1.json and big_dog in 2.json")
    areas = dict(zip(data.classes, (data.areas.toarray().T * 80).round(9).tolist(), strict=True))
    assert areas == {"cat": [1, 2, 0], "big_dog": [2, 1, 1], "cow": [0, 0, 5]}
    # no number means one class
    assert data.categories == {}
    assert read_coco([paths[0], paths[0].rename(tmp_path / "4.json")][1:]).categories
    alone = write(tmp_path / "5.json", document([_image(9)], [], {1: "tree"}))
    fails(lambda: read_coco([paths[1], alone]), "5.json: category 1 is 'tree' here", "import each")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"image_id": "b-2"}, "image ids of annotations are not listed: b-2"),
        ({"category_id": "x y"}, "category ids of annotations are not listed: x y"),
    ],
)
def test_errors_name_ids_that_are_texts(tmp_path, changed, words):
    one = [_image("b-1", "1.jpg")]
    good = {**BOX, "image_id": "b-1", "area": 9}
    fails(lambda: _read(tmp_path, _one(good, {**good, **changed}, images=one)), words)
    fails(lambda: _read(tmp_path, _one(good, images=[*one, *one])), "more than once: b-1")
    flat = [*one, _image("b-3", width=0)]
    fails(lambda: _read(tmp_path, _one(good, images=flat)), "without a valid size: ids b-3")
    paths = [write(tmp_path / f"{k}.json", _one(good, images=one)) for k in "ab"]
    fails(lambda: read_coco(paths), "more than one of the things files: b-1")
    other = write(tmp_path / "c.json", _one(good, images=[{**one[0], "width": 7}]))
    fails(lambda: read_coco(paths[:1], [other]), "different widths for images b-1")


@pytest.mark.parametrize("names", [("train", "valid", "test"), ("annotations",)])
def test_files_with_the_same_ids_are_one_dataset(tmp_path, names):
    for k, name in enumerate(["train", "valid", "test"], 1):
        folder = tmp_path / name
        folder.mkdir()
        for i in range(k):
            Image.new("RGB", (10, 8)).save(folder / f"{i if k < 3 else f'x{i}'}.jpg")
        images = [_image(i, f"{i if k < 3 else f'x{i}'}.jpg") for i in range(k)]
        listed = [{**BOX, "image_id": i, "area": k} for i in range(k)]
        place = folder / "_a.coco.json" if len(names) > 1 else tmp_path / names[0] / f"{name}.json"
        write(place, document(images, listed, {1: "cat"}))
    found = recognize(tmp_path)
    if len(names) > 1:
        imported = import_dataset(found.reading, tmp_path / "out", images=found.images)
        assert imported.header.splits == {"train": 1, "valid": 2, "test": 3}
        data = load_dataset(tmp_path / "out")
        ids = ["test/0", "test/1", "test/2", "train/0", "valid/0", "valid/1"]
        assert data.images["image_id"].to_list() == ids
        files = ["test/x0.jpg", "test/x1.jpg", "test/x2.jpg"]
        files += ["train/0.jpg", "valid/0.jpg", "valid/1.jpg"]
        assert data.images["file_name"].to_list() == files
        assert (data.area("cat") * 80).round(6).tolist() == [3, 3, 3, 1, 2, 2]
    else:
        # two of them say that they have the same image
        data = read_coco([tmp_path / "annotations" / f"{name}.json" for name in ("train", "test")])
        assert data.images["image_id"].to_list() == ["test/0", "test/1", "test/2", "train/0"]
        both = [tmp_path / "annotations" / f"{name}.json" for name in ("train", "valid")]
        fails(lambda: read_coco(both), "more than one of the things files: 0", "nooch import coco")
        # and others that one image has two ids
        again = [_image(i, f"{i - 1}.jpg") for i in (1, 2)]
        write(both[0], document(again, [{**BOX, "image_id": 1, "area": 1}], {1: "cat"}))
        fails(lambda: read_coco(both), "more than one of the things files: 0.jpg, 1.jpg")


def test_nan_in_a_text_is_text(tmp_path):
    text = json.dumps(_one({**BOX, "area": float("-inf")}, categories={1: 'NaN "Infinity" NaN'}))
    data = _notes(_read(tmp_path, text), "1 values are NaN or Infinity")
    assert data.classes == ('NaN_"Infinity"_NaN',)
