"""Every guard of the COCO reader: errors name file and record, and what is allowed or a remedy."""

import codecs
import gzip
import json
import os
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from coco_files import STUFF, document, image, write
from in_memory import read_coco
from PIL import Image
from refusals import fails, refused
from same_datasets import same_dataset

from nooch.base.engines import LocalEngine
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.importing.recognition import recognize
from nooch.data.readers.coco.reader import CocoReading
from nooch.data.readers.contract import read
from nooch.evaluation.boxes.files import json_detections
from nooch.evaluation.prediction_format import FileFormat


def _annotation(**changed):
    return {"image_id": 1, "category_id": 1, "area": 1.0, **changed}


def _document(**changed):
    return {**document([image(1), image(2)], [_annotation()]), **changed}


def _annotated(*more, **changed):
    return _document(annotations=[_annotation(**changed), *more])


def _imaged(*arguments, **changed):
    return _document(images=[image(*arguments, **changed)])


TEXT = json.dumps(_document())
TWO = {"categories": [{"id": 1, "name": "fire hydrant"}, {"id": 2, "name": "fire_hydrant"}]}

# what the file holds -> what the error says
BROKEN = {
    "truncated": (TEXT[: len(TEXT) // 2], "is not valid JSON",
        "remedy: fetch or export the file again"),
    "an empty file": ("", "is empty"),
    "a packed file": (gzip.compress(TEXT.encode(), mtime=0), "packed with gzip", "gunzip"),
    "an archive": (b"PK\3\4" + TEXT.encode(), "a zip archive", "unzip"),
    "UTF-16": (TEXT.encode("utf-16"), "UTF-16", "iconv"),
    "values within values": (TEXT.replace("1.0", '1.0, "x": ' + "[" * 9999 + "]" * 9999),
        "nested too deeply"),
    "a member within members": ('{"x": ' + '{"x": ' * 9999 + "1" + "}" * 9999 + "," + TEXT[1:],
        "nested too deeply"),
    "categories given again": ('{"categories": [{"id": 1}],' + TEXT[1:], "$.categories[0]"),
    "images given again": ('{"images": 5,' + TEXT[1:], "$.images"),
    "no JSON at all": ("hello", "is not valid JSON"),
    "two documents": (TEXT + TEXT, "is not valid JSON"),
    "NaN for an id": (TEXT.replace('"image_id": 1', '"image_id": NaN'), "got `null`", "image_id"),
    "a word for a number": (TEXT.replace("1.0", "Nan"), "is not valid JSON"),
    "a huge number": (TEXT.replace("1.0", "1e400"), "out of range", "$.annotations[0].area"),
    "no UTF-8": (TEXT.encode().replace(b"person", b"p\xffrson"), "is not valid JSON", "utf-8"),
    "a list": ([], "is not COCO's structure", "Expected `object`", "annotations [{image_id"),
    "no images": ({"annotations": [], "categories": []}, "missing required field `images`"),
    "no annotations": ({"images": [], "categories": []}, "missing required field `annotations`"),
    "no categories": ({"images": [], "annotations": []}, "missing required field `categories`"),
    "images as an object": (_document(images={}), "Expected `array`", "$.images"),
    "an id as list": (_document(images=[{**image(1), "id": [1]}]), "Expected `int | str`",
        "$.images[0].id"),
    "an id with a fraction": (_annotated(image_id=1.5), "$.annotations[0].image_id"),
    "an id that is null": (_annotated(category_id=None), "$.annotations[0].category_id"),
    "an area as word": (_annotated(area="large"), "$.annotations[0].area"),
    "a name as number": (_document(categories=[{"id": 1, "name": 5}]), "$.categories[0].name"),
    "an annotation without image": (_document(annotations=[{"category_id": 1, "area": 1}]),
        "`image_id`"),
    "an image id of 70 bits": (_imaged(2**70), "does not fit into 64 bits"),
    "an annotation's id of 70 bits": (_annotated(image_id=2**70), "64 bits"),
    "a category of 70 bits": (_document(categories=[{"id": 2**70, "name": "a"}]), "64 bits"),
    "a width of 70 bits": (_imaged(1, 2**70), "without a valid size"),
    "no image": (_document(images=[], annotations=[]), "lists no image"),
    "a repeated image": (_document(images=[image(1), image(2), image(1)]),
        "image ids occur more than once: 1"),
    "a repeated category": (_document(categories=[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]),
        "category ids occur more than once: 1"),
    "two categories of one name": (_annotated(_annotation(category_id=2)) | TWO,
        "categories 1 and 2 have the same name 'fire_hydrant'"),
    "a category without a name": (_document(categories=[{"id": 1, "name": " "}]), "empty name"),
    "an unknown image": (_annotated(_annotation(image_id=7)),
        "image ids of annotations are not listed: 7", "annotation 1 (counted from 0)",
        "the file's own list of images"),
    "an unknown category": (_annotated(category_id=12),
        "category ids of annotations are not listed: 12", "the file's own list of categories"),
    "no category for an annotation": (_document(categories=[]),
        "category ids of annotations are not listed: 1"),
    "a negative area": (_annotated(_annotation(area=-1), _annotation(area=-2)),
        "annotation 1 (counted from 0) has area -1.0, and 1 more",
        "square pixels, from 0 to 100 times the image"),
    "an area of 1e18": (_annotated(_annotation(area=1e18)),
        "annotation 1 (counted from 0) has area 1e+18"),
    "an image of 1e300": (_document(images=[{**image(1), "id": 1e300}]), "image"),
    "an annotation of image 1e300": (_annotated(image_id=1e300), "image_id"),
    "an image of width 0": (_imaged(1, 0), "without a valid size: ids 1", "at least 1 pixel"),
    "an image of negative height": (_imaged(1, 4, -4), "without a valid size: ids 1"),
    "an image without a size": (_document(images=[{"id": 1}]), "without a valid size: ids 1"),
    "an absolute file name": (_imaged(1, file_name="/etc/passwd"),
        "column file_name contains /etc/passwd", "relative paths"),
    "a file name with a step upwards": (_imaged(1, file_name="a/../../b.jpg"), "a/../../b.jpg"),
    "a file name with backslashes": (_imaged(1, file_name="..\\b.jpg"), "..\\b.jpg"),
    "a file name on a drive": (_imaged(1, file_name="C:b.jpg"), "C:b.jpg"),
    "a file name with a zero byte": (_imaged(1, file_name="b\0.jpg"), "lead out"),
}  # fmt: skip

# these lack only a word on what is allowed: there is nothing to say
BARE = {"an empty file", "a category without a name"}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("role", ["things", "stuff"])
def test_a_broken_annotation_file_is_refused(tmp_path, case, role):
    content, *parts = BROKEN[case]
    path = write(tmp_path / "broken.json", content)
    text = fails(lambda: read_coco(**{role: [path]}), "broken.json", *parts, helps=case not in BARE)
    _refused_in_parts(text, tmp_path, **{role: [path]})


@pytest.mark.parametrize("slice_size", [20, 1 << 25])
def test_a_byte_order_mark_is_no_content(tmp_path, slice_size):
    plain, marked = tmp_path / "plain.json", tmp_path / "marked.json"
    texts = [
        TEXT,
        json.dumps([{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 1}]),
    ]
    for text, reader in zip(texts, (_read_in_slices(slice_size), _detections), strict=True):
        plain.write_text(text)
        marked.write_bytes(codecs.BOM_UTF8 + text.encode())
        reader(plain, marked)
        assert marked.read_bytes().startswith(codecs.BOM_UTF8)


def _read_in_slices(size):
    def compare(*paths):
        # also where the format is recognized
        for made in (lambda path: CocoReading([path], slice_size=size),
                     lambda path: recognize(path).reading):  # fmt: skip
            # the provenance has the hash of the file as it is
            same_dataset(*(replace(read(made(path)), provenance={}) for path in paths))

    return compare


def _detections(*paths):
    first, second = (
        json_detections(path, FileFormat(None, ".", False, None, None)).rows for path in paths
    )
    assert first.equals(second)


def _refused_in_parts(text, folder, **files):
    """An import of parts gives the same error, wherever files are cut, and leaves nothing."""
    before = sorted(folder.iterdir())
    for part, size in ((1, 20), (9, 1 << 18)):
        reading = CocoReading(**files, slice_size=size)
        act = partial(import_dataset, reading, folder / "new" / "data", part_size=part)
        assert text == fails(act, helps=False)
        assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_file_that_cannot_be_opened_is_named(tmp_path, name):
    path = tmp_path / name
    text = fails(lambda: read_coco([path]), str(path), "cannot be read", helps=False)
    _refused_in_parts(text, tmp_path, things=[path])


SEGMENTATIONS = {
    "text": ("x", "it is missing"),
    "a flat polygon of two points": ([0, 0, 4, 4], "at least three points"),
    "two points": ([[0, 0, 4, 4]], "at least three points"),
    "half a point": ([[0, 0, 4, 0, 4, 4, 1]], "at least three points"),
    "text in a polygon": ([[0, 0, 4, 0, 4, "x"]], "a coordinate is not a number"),
    "null in a polygon": ([[0, 0, 4, 0, 4, None]], "a coordinate is not a number"),
    "a point far away": ([[0, 0, 1e9, 0, 4, 4]], "far outside the image"),
    "no size": ({"counts": [16]}, "'size'"),
    "no counts": ({"size": [4, 4]}, "'counts'"),
    "another size": ({"size": [4, 5], "counts": [20]}, "size [4, 5] is not the image's [4, 4]"),
    "a size that is not a pair": ({"size": 4, "counts": [16]}, "not iterable"),
    "counts as number": ({"size": [4, 4], "counts": 5}, "not iterable"),
    "runs that are too short": ({"size": [4, 4], "counts": [8, 7]}, "run lengths do not add up"),
    "runs that are too long": ({"size": [4, 4], "counts": [8, 9]}, "run lengths do not add up"),
    "a negative run": ({"size": [4, 4], "counts": [8, -1, 9]}, "run lengths do not add up"),
    "runs with fractions": ({"size": [4, 4], "counts": [8.5, 7.5]}, "run lengths do not add up"),
    "a run as text": ({"size": [4, 4], "counts": ["16"]}, "run lengths do not add up"),
    "no compressed run": ({"size": [4, 4], "counts": ""}, "run lengths do not add up"),
    "a truncated compressed run": ({"size": [4, 4], "counts": "`"}, "end in the middle"),
    "runs of another image": ({"size": [4, 4], "counts": "99"}, "run lengths do not add up"),
    "a character that does not occur": ({"size": [4, 4], "counts": "8 8"}, "' ' does not occur"),
    "a letter with an accent": ({"size": [4, 4], "counts": "é"}, "ascii"),
}


@pytest.mark.parametrize("case", SEGMENTATIONS)
def test_a_mask_that_cannot_be_decoded_is_refused_where_the_area_is_missing(tmp_path, case):
    segmentation, reason = SEGMENTATIONS[case]
    masked = _annotation(area=None, segmentation=segmentation)
    content = _document(annotations=[_annotation(), masked])
    path = write(tmp_path / "masks.json", content)
    parts = "masks.json", "annotation 1 (counted from 0)", reason, "allowed: polygons"
    text = fails(lambda: read_coco([path]), *parts)
    _refused_in_parts(text, tmp_path, things=[path])
    content["annotations"][1]["area"] = 2.0
    assert len(read_coco([write(path, content)])) == 2


def test_files_of_one_role_must_not_share_images(tmp_path):
    a = write(tmp_path / "a.json", document([image(1), image(2)]))
    b = write(tmp_path / "b.json", document([image(2), image(3)], categories=STUFF))
    parts = "a.json, a.json", "more than one of the things files: 1, 2", "each image in one"
    fails(lambda: read_coco([a, a]), *parts)
    fails(lambda: read_coco(stuff=[b, b]), "more than one of the stuff files: 2, 3")
    assert len(read_coco([a], [b])) == 3


@pytest.mark.parametrize(("width", "height", "what"), [(5, 4, "widths"), (4, 5, "heights")])
def test_files_must_agree_on_sizes(tmp_path, width, height, what):
    a = write(tmp_path / "a.json", document([image(1), image(2)]))
    b = write(tmp_path / "b.json", document([image(1), image(2, width, height)], categories=STUFF))
    text = fails(lambda: read_coco([a], [b]), "a.json, b.json", f"different {what} for images 2")
    _refused_in_parts(text, tmp_path, things=[a], stuff=[b])


def test_files_of_one_role_must_agree_on_the_names_of_categories(tmp_path):
    a = write(tmp_path / "a.json", document([image(1)], categories={1: "person"}))
    b = write(tmp_path / "b.json", document([image(2)], categories={1: "dog"}))
    problem = "category 1 is 'dog' here and 'person' in another file"
    text = fails(lambda: read_coco([a, b]), "b.json", problem, "the same names")
    _refused_in_parts(text, tmp_path, things=[a, b])
    # things and stuff may number their categories independently
    assert read_coco([a], [b]).classes == ("person", "dog")


def test_the_same_class_may_have_several_numbers(tmp_path):
    a = write(tmp_path / "a.json", document([image(1)], [_annotation(area=4)], {1: "person"}))
    second = _annotation(image_id=2, area=8, category_id=7)
    b = write(tmp_path / "b.json", document([image(2)], [second], {7: "person"}))
    data = read_coco([a, b])
    assert data.area("person").tolist() == [0.25, 0.5]


def test_arguments_that_exclude_each_other(tmp_path):
    a = write(tmp_path / "a.json", document([image(1)]))
    refused(read_coco, "no annotation file was given", "things=..., or pass stuff=...")
    refused(lambda: read_coco(captions=[a]), "no annotation file was given")
    both = partial(read_coco, [a], [a], stuff_maps=tmp_path)
    refused(both, "`stuff_maps` exclude each other", "leave out stuff_maps")
    # its areas would count twice
    refused(lambda: read_coco([a], [a]), "a.json: is both things and stuff")
    misspelled = partial(read_coco, [a], stuff_maps=tmp_path, stuff_map_values="pixelmap")
    parts = "'pixelmap' is not a kind of pixel map", "did you mean pixelmaps"
    refused(misspelled, *parts)


def _captions(image_id, caption):
    return {"images": [image(1)], "annotations": [{"image_id": image_id, "caption": caption}]}


CAPTIONS = {
    "truncated": ('{"images": [', "is not valid JSON"),
    "an instances file": (_document(), "missing required field `caption`"),
    "a caption that is null": (_captions(1, None), "$.annotations[0].caption"),
    "an unknown image": (_captions(8, "x"), "image ids of annotations are not listed: 8"),
    "an id of 70 bits": (_captions(2**70, "x"), "64 bits"),
    "no image": ({"images": [], "annotations": []}, "lists no image"),
}


@pytest.mark.parametrize("case", CAPTIONS)
def test_a_broken_caption_file_is_refused(tmp_path, case):
    content, *parts = CAPTIONS[case]
    things = write(tmp_path / "a.json", document([image(1)]))
    captions = write(tmp_path / "captions.json", content)
    text = fails(lambda: read_coco([things], captions=[captions]), "captions.json", *parts)
    _refused_in_parts(text, tmp_path, things=[things], captions=[captions])


MAPS = {
    "another size": ("000000000001.png", (4, 5), 148, "{folder}: ",
        "different sizes for images 1"),
    "another image": ("000000000002.png", (4, 4), 148, "{folder}: no map is named after",
        "000000000002"),
    "no image": ("road.png", (4, 4), 148, "no map is named after", "road"),
    "no class": ("000000000001.png", (4, 4), 11, "000000000001.png: ",
        "value 11, which is not a class"),
    "no map": (None, (4, 4), 148, "{folder}: contains no label maps"),
}  # fmt: skip


@pytest.mark.parametrize("case", MAPS)
def test_pixel_maps_must_fit_the_images(tmp_path, case):
    name, size, value, *parts = MAPS[case]
    things, folder = write(tmp_path / "a.json", document([image(1)])), tmp_path / "maps"
    folder.mkdir()
    if name:
        Image.fromarray(np.full(size, value, np.uint8)).save(folder / name)
    parts = [part.replace("{folder}", str(folder)) for part in parts]
    fails(lambda: read_coco([things], stuff_maps=folder), *parts, helps=case != "another size")


def test_image_files_that_are_not_unique_or_not_there(tmp_path, monkeypatch):
    things = write(tmp_path / "a.json", document([image(1, file_name="x.jpg")]))
    nowhere, pictures = tmp_path / "no", tmp_path / "pictures"
    fails(lambda: read_coco([things], images=nowhere), f"{nowhere}: no such folder", helps=False)
    for folder in "ab":
        write(pictures / folder / "x.jpg", "")
    parts = "several files are called x.jpg", "a/x.jpg, b/x.jpg"
    fails(lambda: read_coco([things], images=pictures), *parts)
    # a name that says which one is meant does
    things = write(tmp_path / "a.json", document([image(1, file_name="b/x.jpg")]))
    assert read_coco([things], images=pictures).images["file_name"].item() == "b/x.jpg"
    # also by its last folders, or with folders before them, but never in another folder
    for name, path in (("data/b/x.jpg", "b/x.jpg"), ("c/x.jpg", "c/x.jpg")):
        things = write(tmp_path / "a.json", document([image(1, file_name=name)]))
        assert read_coco([things], images=pictures).images["file_name"].item() == path
    things = write(tmp_path / "a.json", document([image(1, file_name="b/x.jpg"),
                                                  image(2, file_name="c/x.jpg")]))  # fmt: skip
    found = read_coco([things], images=pictures)
    assert found.images["file_name"].to_list() == ["b/x.jpg", "c/x.jpg"]
    fails(lambda: read_coco([things], images=pictures / "a"),
          "x.jpg: matches both b/x.jpg and c/x.jpg")  # fmt: skip

    scandir = os.scandir

    def refuse(path):
        if str(path) != str(tmp_path):
            return scandir(path)
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("nooch.data.readers.image_files.os.scandir", refuse)
    problem = f"{tmp_path}: cannot be listed: Permission denied"
    fails(lambda: read_coco([things], images=tmp_path), problem, helps=False)


def test_links_in_the_folder_of_images_are_followed_or_named(tmp_path):
    write(tmp_path / "outside" / "000000000001.jpg", "")
    inside = write(tmp_path / "pictures" / "000000000002.jpg", "").parent
    (inside / "far").symlink_to(tmp_path / "outside")
    (inside / "round").symlink_to(inside)
    (inside / "itself").symlink_to("itself")
    (inside / "000000000001.jpg").symlink_to(tmp_path / "outside" / "000000000001.jpg")
    things = write(tmp_path / "a.json", document([image(1), image(2)]))
    data = read_coco([things], images=inside)
    left, followed = data.provenance["notes"]
    assert left.startswith("left out of the folder of images: 2: ")
    assert "itself (a link that leads nowhere)" in left
    assert "round (a link to a folder that is listed without it)" in left
    assert followed.startswith("followed 2 links out of the folder of images: ")


def test_an_error_in_a_worker_process_is_the_same_error(tmp_path):
    good = write(tmp_path / "good.json", document([image(1)]))
    bad = write(tmp_path / "bad.json", _document(annotations=[_annotation(area=-3)]))
    here = fails(lambda: read_coco([good, bad]), "bad.json")
    there = fails(lambda: read_coco([good, bad], map=LocalEngine(2).map), "bad.json")
    assert re.sub(r"\s+", " ", here) == re.sub(r"\s+", " ", there)
