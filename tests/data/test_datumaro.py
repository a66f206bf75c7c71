"""Layouts that Datumaro reads: objects and areas; without Datumaro, the line that installs it."""

import importlib.util
import json
import sys

import numpy as np
import pytest
from PIL import Image
from refusals import fails

from nooch.base.errors import InputError, MissingExtraError
from nooch.data.importing.recognition import recognize
from nooch.data.importing.table_roles import Hints
from nooch.data.readers import READERS, custom_reading
from nooch.data.readers.contract import read
from nooch.data.readers.datumaro import FORMATS, DatumaroReading

NEEDED = pytest.mark.skipif(
    importlib.util.find_spec("datumaro") is None,
    reason="Datumaro pins packages, and has an environment of its own (make test-datumaro)",
)
WIDTH, HEIGHT = 20, 10


def picture(path, values=90):
    """An image file of a value, or of the values of its pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.broadcast_to(np.asarray(values, np.uint8), (HEIGHT, WIDTH))
    Image.fromarray(values).save(path)


def kitti(folder):
    """Two images with boxes of 4 x 5 and 6 x 5 pixels, and one without a label file."""
    lines = {"0": ["Car 0 0 0 1 2 5 7", "Van 0 0 0 0 0 6 5"], "1": ["Car 0 0 0 1 2 5 7"]}
    for stem, boxes in lines.items():
        picture(folder / "training" / "image_2" / f"{stem}.png")
        label = folder / "training" / "label_2" / f"{stem}.txt"
        label.parent.mkdir(exist_ok=True)
        label.write_text("".join(f"{box} 0 0 0 0 0 0 0\n" for box in boxes))


def dota(folder):
    """Two splits; the second of the boxes is difficult."""
    for split, difficult in (("train", 0), ("val", 1)):
        picture(folder / split / "images" / f"{split}.png")
        text = folder / split / "labelTxt" / f"{split}.txt"
        text.parent.mkdir()
        text.write_text(f"imagesource:x\ngsd:1\n2 3 8 3 8 7 2 7 plane {difficult}\n")


def camvid(folder):
    """A photograph and its map."""
    picture(folder / "train" / "0.png")
    picture(folder / "trainannot" / "0.png")


def ade(folder, text="json"):
    """A photograph, its maps and what lists their regions, as of 2020."""
    for name in ("a.jpg", "a_seg.png", "a_parts_1.png"):
        picture(folder / "training" / "street" / name)
    (folder / "training" / "street" / f"a.{text}").write_text("{}")


def mvtec(folder):
    """One good image to train from; a good and a broken one to test, with its map."""
    for name in ("train/good/0", "test/good/0", "test/cut/0"):
        picture(folder / f"{name}.png")
    picture(folder / "ground_truth" / "cut" / "0_mask.png", 255)


@NEEDED
def test_boxes_are_objects_and_areas(tmp_path):
    kitti(tmp_path / "in")
    data = read(DatumaroReading(tmp_path / "in", "kitti_detection"))
    assert data.classes == ("Car", "Van")
    assert data.splits == {"train": 2}
    rows = data.objects.select("image_id", "class", "left", "top", "width", "height", "area").rows()
    assert sorted(rows) == [
        ("0", "Car", 1, 2, 4, 5, 20), ("0", "Van", 0, 0, 6, 5, 30), ("1", "Car", 1, 2, 4, 5, 20),
    ]  # fmt: skip
    np.testing.assert_allclose(data.areas.toarray(), [[0.1, 0.15], [0.1, 0]])
    assert data.provenance["area"] == "boxes"
    assert [data.images["width"][0], data.images["height"][0]] == [WIDTH, HEIGHT]


@NEEDED
def test_rotated_boxes_splits_and_difficult_objects(tmp_path):
    dota(tmp_path / "in")
    data = read(recognized(tmp_path / "in"))
    assert data.splits == {"train": 1, "valid": 1}
    assert sorted(data.objects.select("image_id", "area", "ignore").rows()) == [
        ("train", 24, False), ("val", 24, True),
    ]  # fmt: skip


@NEEDED
def test_maps_of_regions_are_areas_and_no_objects(tmp_path):
    folder = tmp_path / "in"
    picture(folder / "images" / "0.png")
    picture(folder / "masks" / "0.png", np.repeat([1, 2], HEIGHT // 2)[:, None])
    meta = {"label_map": {"0": "void", "1": "sky", "2": "road"}}
    (folder / "dataset_meta.json").write_text(json.dumps(meta))
    data = read(DatumaroReading(folder, "common_semantic_segmentation"))
    assert dict(zip(data.classes, data.areas.toarray()[0], strict=True)) == {
        "sky": 0.5, "road": 0.5,
    }  # fmt: skip
    assert data.objects is None
    assert data.provenance["area"] == "segments"


@NEEDED
def test_labels_are_present_with_unknown_area(tmp_path):
    mvtec(tmp_path / "in")
    data = read(DatumaroReading(tmp_path / "in", "mvtec_classification"))
    # an id in both splits has the split in front
    assert set(data.image_ids) == {"cut/0", "train/good/0", "test/good/0"}
    assert data.splits == {"train": 1, "test": 2}
    assert np.isnan(data.areas.data).all()


@NEEDED
def test_a_format_that_is_not_certain_is_asked(tmp_path):
    mvtec(tmp_path / "in")
    options = [f"datumaro/mvtec_{task}" for task in ("classification", "detection", "segmentation")]
    with pytest.raises(InputError, match="matches several formats") as caught:
        read(DatumaroReading(tmp_path / "in"))
    assert caught.value.give == tuple({"reader": option} for option in options)


@NEEDED
def test_a_reading_without_annotations_or_with_images_left_is_refused(tmp_path):
    kitti(tmp_path / "in")
    labels = tmp_path / "in" / "training" / "label_2"
    for file in labels.iterdir():
        file.write_text("")
    reading = DatumaroReading(tmp_path / "in", "kitti_detection")
    with pytest.raises(InputError, match="2 images as kitti_detection, without an annotation"):
        read(reading)
    dota(tmp_path / "more")
    # DOTA's importer takes images with a text file only
    picture(tmp_path / "more" / "train" / "images" / "other.png")
    reading = DatumaroReading(tmp_path / "more", "dota")
    with pytest.raises(InputError, match=r"without 1 photograph.*other\.png"):
        read(reading)


@NEEDED
def test_a_format_that_datumaro_lacks_is_refused_with_similar_ones(tmp_path):
    kitti(tmp_path / "in")
    reading = DatumaroReading(tmp_path / "in", "kitti_detections")
    fails(lambda: read(reading), "did you mean kitti_detection", kind=ValueError)


def recognized(folder):
    """The reading of a folder whose layout is recognized."""
    return recognize(folder).reading


LAYOUTS = [
    (kitti, "kitti_detection"), (dota, "dota"), (camvid, "camvid"), (mvtec, "mvtec_classification"),
    (ade, "ade20k2020"), (lambda folder: ade(folder, "txt"), "ade20k2017"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "marks"), [
    ("datumaro", '{"items": [], "categories": {"label": {}}}'),
    ("vott_json", '{"assets": {"1": {"regions": []}}}'),
    ("coco_panoptic", '{"annotations": [{"segments_info": []}]}'),
    ("roboflow_create_ml", '[{"image": "a.jpg", "annotations": [{"label": 1, "coordinates": 1}]}]'),
])  # fmt: skip
def test_files_that_datumaro_reads_are_refused_with_the_line_that_reads_them(tmp_path, name, marks):
    place = tmp_path / "in" / "train" / "a.json"
    place.parent.mkdir(parents=True)
    place.write_text(marks)
    words = f"nooch import auto {tmp_path}/in `reader` datumaro/{name}"
    fails(lambda: recognize(tmp_path / "in"), "which is not read", "nooch[datumaro]", words)
    fails(lambda: recognize(place), words.replace("/in ", "/in/train "))


@pytest.mark.parametrize(("write", "name"), LAYOUTS)
def test_without_datumaro_its_layouts_are_named_with_the_line_that_reads_them(
    tmp_path, monkeypatch, write, name
):
    write(tmp_path / "in")
    monkeypatch.setattr("nooch.data.importing.recognition.find_spec", lambda _: None)
    text = fails(lambda: recognize(tmp_path / "in"), "has the layout of", "nooch[datumaro]")
    named = text.rpartition("reader=")[2].strip("'")
    reading = recognize(tmp_path / "in", Hints(reader=named)).reading
    assert (reading.source, reading.format) == (tmp_path / "in", name)


def test_without_datumaro_its_reader_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datumaro.components.environment", None)
    with pytest.raises(MissingExtraError, match=r"nooch\[datumaro\]"):
        DatumaroReading(tmp_path).check(None)


def test_a_variant_is_given_only_to_a_reader_that_needs_one(tmp_path):
    assert custom_reading("boxes/voc", tmp_path).format == "voc"
    fails(lambda: custom_reading("table/x", tmp_path), "needs more than a path", kind=ValueError)
    assert "datumaro" in READERS
    assert "coco" not in FORMATS
