"""COCO as other programs write it: read as they mean it, with notes on what contradicts itself."""

import json

import numpy as np
import pytest
from coco_files import document, photo, write
from PIL import Image
from refusals import fails

from nooch import load_dataset
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.importing.recognition import recognize
from nooch.data.readers.coco.reader import CocoReading, read_coco

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
        ({}, 12, "1 areas are of bounding boxes"),
        ({"segmentation": []}, 12, "1 areas are of bounding boxes"),
        ({"area": float("nan")}, 12, "1 values are NaN"),
        ({"bbox": [7, 6, 4, 9]}, 6, "1 areas are of bounding boxes"),
        ({"bbox": ["1", "1", "4", "3"]}, 12, "1 areas are of bounding boxes"),
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
    _notes(data, "a category without annotations whose name another one has: big cat, dog")
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
    fails(lambda: _read(tmp_path, content), "images without extent: ids 1, 2", "images=...")
    (tmp_path / "p" / "2.jpg").unlink()
    fails(lambda: _read(tmp_path, content, images=tmp_path / "p"), "without extent: ids 2")


def test_numbers_that_contradict_each_other_are_counted(tmp_path):
    (tmp_path / "p").mkdir()
    # a photograph on its side: as stored, as shown, and of another size
    for i, turn in ((1, 6), (2, 6), (3, 1)):
        (tmp_path / "p" / f"{i}.jpg").write_bytes(photo(10, 8, turn))
    sides = [SIDES, {"width": 8, "height": 10}, {"width": 8, "height": 10}]
    images = [_image(i, **size) for i, size in enumerate(sides, 1)]
    good, flat = {**BOX, "area": 9}, {**BOX, "bbox": [1, 1, 0, 4], "area": 9}
    content = _one(good, good, flat, {**BOX, "area": 80}, images=images)
    data = _notes(
        _read(tmp_path, content, images=tmp_path / "p"),
        "1 of 3 areas are larger than their box",
        "1 boxes have no extent, but a positive area",
        "1 annotations are listed twice",
        "1 of 3 image files that were looked at have another size",
    )
    assert data.has_areas
    assert data.objects.height == 3
    data = _notes(_read(tmp_path, _one(good, *[{**BOX, "area": 80}] * 2)), "areas are unknown")
    assert not data.has_areas
    data = _notes(_read(tmp_path, _one(flat)), "1 boxes have no extent")
    assert data.objects is None


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
        fails(lambda: read_coco(both), "more than one of the things files: 0")


def test_nan_in_a_text_is_text(tmp_path):
    text = json.dumps(_one({**BOX, "area": float("-inf")}, categories={1: 'NaN "Infinity" NaN'}))
    data = _notes(_read(tmp_path, text), "1 values are NaN or Infinity")
    assert data.classes == ('NaN_"Infinity"_NaN',)
