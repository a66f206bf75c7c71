"""read_coco against loops over dictionaries, and on genuine files."""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from coco_files import (
    STUFF,
    THINGS,
    areas_of,
    check_areas,
    collections,
    document,
    image,
    naive_areas,
    write,
)
from hypothesis import given, settings, strategies as st
from in_memory import read_coco, read_label_maps
from PIL import Image
from pycocotools import mask

from nooch.base.engines import LocalEngine
from nooch.base.errors import InputError
from nooch.data.readers.coco.decoder import run_lengths


def _read(documents, folder):
    return read_coco(**{
        role: [write(Path(folder, f"{role}{i}.json"), text) for i, text in enumerate(texts)]
        for role, texts in documents.items()
    })  # fmt: skip


def _one(folder, annotations=(), images=None, categories=None, **more):
    content = document(images or [image(1)], annotations, categories)
    return read_coco([write(folder / "things.json", content)], **more)


def _annotation(category=1, area=1.0, image_id=1, **more):
    return {"image_id": image_id, "category_id": category, "area": area, **more}


@settings(max_examples=30, deadline=None)
@given(collections())
def test_areas_and_presence_are_those_of_a_loop(documents):
    with tempfile.TemporaryDirectory() as folder:
        data = _read(documents, folder)
    expected = naive_areas([content for contents in documents.values() for content in contents])
    check_areas(data, expected, rel=1e-12)
    assert data.images["image_id"].to_list() == sorted(expected)
    assert "other" not in data.classes
    assert data.fitting_split == "all"


@settings(max_examples=30, deadline=None)
@given(collections(), st.randoms(use_true_random=False))
def test_the_order_in_files_and_of_files_has_no_effect(documents, rng):
    with tempfile.TemporaryDirectory() as folder:
        first = _read(documents, folder).fingerprint
        for contents in documents.values():
            rng.shuffle(contents)
            for content in contents:
                for part in ("images", "annotations", "categories"):
                    rng.shuffle(content[part])
        assert _read(documents, folder).fingerprint == first


def test_classes_are_in_the_order_of_ids_whatever_the_order_of_files(tmp_path):
    a = write(tmp_path / "a.json", document([image(1)], categories={1: "person", 90: "toothbrush"}))
    b = write(tmp_path / "b.json", document([image(2)], categories={3: "car", 1: "person"}))
    stuff = write(tmp_path / "c.json", document([image(1)], categories=STUFF))
    for things in ([a, b], [b, a]):
        classes = " ".join(read_coco(things, [stuff]).classes)
        assert classes == "person car toothbrush banner cardboard road"


SQUARE = [[0, 0, 2, 0, 2, 2, 0, 2]]
SUMS = {
    "crowds and zero areas are present": (
        [_annotation(1, 0.0), _annotation(3, 8.0, iscrowd=1)], {1: {"person": 0.0, "car": 0.5}}),
    "overlaps may bring an area over one": ([_annotation(area=12.0)] * 2, {1: {"person": 1.5}}),
    "a mask is decoded only where the area is missing": (
        [_annotation(c, area, segmentation=SQUARE) for c, area in ((1, 1.0), (3, None))],
        {1: {"person": 1 / 16, "car": 4 / 16}}),
    "images without annotations stay": ([], {5: {}, 7: {}}),
}  # fmt: skip


@pytest.mark.parametrize("case", SUMS)
def test_what_is_present_and_its_area(tmp_path, case):
    annotations, expected = SUMS[case]
    data = _one(tmp_path, annotations, [image(number) for number in sorted(expected)[::-1]])
    assert areas_of(data) == expected
    assert data.classes == ("person", "car", "fire_hydrant", "toothbrush")
    present = [[name in classes for classes in expected.values()] for name in data.classes]
    assert [data.labels(name).tolist() for name in data.classes] == present


@pytest.mark.parametrize("ids", [(0, 1), (-3, 5), (7, 2**40), (2**62, 2**63 - 1)])
def test_ids_may_be_any_of_64_bits(tmp_path, ids):
    categories = {ids[1]: "car", ids[0]: "person"}
    annotations = [_annotation(ids[1], 4.0, ids[0]), _annotation(ids[0], 8.0, ids[1])]
    data = _one(tmp_path, annotations, [image(ids[1]), image(ids[0])], categories)
    assert areas_of(data) == {ids[0]: {"car": 0.25}, ids[1]: {"person": 0.5}}
    annotations.append(_annotation(ids[0], 1.0, ids[0] + 2))
    with pytest.raises(InputError, match=f"not listed: {ids[0] + 2}; the first is annotation 2"):
        _one(tmp_path, annotations, [image(ids[1]), image(ids[0])], categories)


def test_183_is_dropped_also_where_another_class_is_called_other(tmp_path):
    things = write(tmp_path / "t.json", document([image(1)], [_annotation(5, 4.0)], {5: "other"}))
    annotations = [_annotation(183, 8.0), _annotation(149, 2.0)]
    stuff = write(tmp_path / "s.json", document([image(1)], annotations, STUFF))
    assert areas_of(read_coco([things], [stuff])) == {1: {"other": 0.25, "road": 0.125}}


def test_things_and_stuff_of_other_images_are_joined_and_noted(tmp_path):
    things = write(tmp_path / "t.json", document([image(1), image(2)], [_annotation(1, 4.0)]))
    content = document([image(2), image(3)], [_annotation(149, 8.0, 2)], STUFF)
    stuff = write(tmp_path / "s.json", content)
    data = read_coco([things], [stuff])
    assert areas_of(data) == {1: {"person": 0.25}, 2: {"road": 0.5}, 3: {}}
    assert data.images["annotated_things"].to_list() == [True, True, False]
    assert data.images["annotated_stuff"].to_list() == [False, True, True]
    assert {data.kinds[name] for name in ("person", "car")} == {"thing"}
    assert {data.kinds[name] for name in ("road", "banner")} == {"stuff"}
    assert data.attributes == ()
    # absent where it was annotated, unknown elsewhere
    assert data.unknown_labels("road").tolist() == [True, False, False]
    assert data.unknown_labels("person").tolist() == [False, False, True]
    things_note, stuff_note = data.provenance["notes"]
    unknown = "their things are unknown, not absent"
    assert things_note == f"1 images are in no things file: {unknown}"
    unknown = "their stuff is unknown, not absent"
    assert stuff_note == f"1 images are in no stuff file: {unknown}"


def test_provenance_names_files_hashes_and_licenses(tmp_path):
    data = _one(tmp_path)
    (source,) = data.provenance["sources"]
    assert source["role"] == "things"
    assert source["file"] == "things.json"
    assert source["bytes"] == (tmp_path / "things.json").stat().st_size
    assert len(source["blake3"]) == 64
    assert data.provenance["licenses"] == [{"name": "CC BY", "url": "https://example.org/by"}]
    assert data.provenance["area"] == "segments"


def test_a_missing_file_name_is_taken_from_the_address_or_another_file(tmp_path):
    first = image(1, file_name=None, coco_url="http://x/train2017/000000000001.jpg")
    things = write(tmp_path / "t.json", document([first, image(2, file_name=None)]))
    stuff = write(tmp_path / "s.json", document([image(2, file_name="two.jpg")], categories=STUFF))
    names = read_coco([things], [stuff]).images["file_name"].to_list()
    assert names == ["000000000001.jpg", "two.jpg"]


def test_image_files_are_found_below_the_folder(tmp_path):
    for name in ("pictures/train/000000000001.jpg", "pictures/000000000002.jpg"):
        write(tmp_path / name, b"")
    data = _one(tmp_path, images=[image(1), image(2), image(3)])
    assert data.image_root is None
    data = read_coco([tmp_path / "things.json"], images=tmp_path / "pictures")
    names = ["train/000000000001.jpg", "000000000002.jpg", "000000000003.jpg"]
    assert data.images["file_name"].to_list() == names
    assert data.image_root == str((tmp_path / "pictures").resolve())
    assert data.provenance["notes"] == [f"1 of 3 image files are not below {tmp_path / 'pictures'}"]


def test_captions_are_joined_and_what_lacks_one_is_noted(tmp_path):
    texts = [(9, "unknown"), (1, "b"), (1, "a")]
    texts = [{"id": n, "image_id": i, "caption": c} for n, (i, c) in enumerate(texts, 1)]
    captions = {"images": [image(1), image(9)], "annotations": texts}
    files = {"captions": [write(tmp_path / "c.json", captions)]}
    data = _one(tmp_path, images=[image(1), image(2)], **files)
    assert data.captions.rows() == [(1, "b"), (1, "a")]
    assert data.provenance["notes"] == [
        "1 captions of images that no annotation file lists are left out",
        "1 images have no caption, so they have no gist",
    ]
    write(tmp_path / "c.json", captions | {"annotations": []})
    assert _one(tmp_path, **files).captions.height == 0


def test_processes_give_what_one_process_gives(tmp_path):
    contents = {i: document([image(i)], [_annotation(1, i, i)]) for i in (1, 2, 3)}
    things = [write(tmp_path / f"{i}.json", content) for i, content in contents.items()]
    assert read_coco(things, map=LocalEngine(2).map).fingerprint == read_coco(things).fingerprint


def test_the_module_is_light_so_that_parsing_can_start_at_once():
    heavy = {"polars", "scipy", "pycocotools"}
    code = f"import sys, nooch.data.readers.coco.reader; print([*{heavy} & {{*sys.modules}}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# masks, where areas are missing

MASKS = st.tuples(st.integers(1, 24), st.integers(1, 24), st.randoms(use_true_random=False)).map(
    lambda t: np.asfortranarray(
        np.array([[t[2].random() < 0.4 for _ in range(t[1])] for _ in range(t[0])], np.uint8)
    )
)


def _runs(pixels):
    """Lengths of the runs of a mask, column by column, background first."""
    runs, value = [0], 0
    for pixel in pixels.ravel(order="F"):
        if pixel != value:
            runs.append(0)
            value = pixel
        runs[-1] += 1
    return runs


@settings(max_examples=60, deadline=None)
@given(MASKS)
def test_run_lengths_without_an_area_are_counted(pixels):
    compressed = mask.encode(pixels)["counts"].decode()
    height, width = pixels.shape
    assert run_lengths(compressed) == _runs(pixels)
    annotations = [
        _annotation(category, None, segmentation={"size": [height, width], "counts": counts})
        for category, counts in ((1, compressed), (3, _runs(pixels)))
    ]
    with tempfile.TemporaryDirectory() as folder:
        data = _one(Path(folder), annotations, [image(1, width, height)])
    share = int(pixels.sum()) / pixels.size
    assert areas_of(data) == {1: {"person": share, "car": share}}


POINTS = st.lists(
    st.tuples(*[st.integers(-20, 420).map(lambda x: x / 10)] * 2), min_size=3, max_size=6
)
POLYGONS = st.lists(
    POINTS.map(lambda points: [x for point in points for x in point]), min_size=1, max_size=3
)


@settings(max_examples=40, deadline=None)
@given(POLYGONS, st.integers(1, 40), st.integers(1, 40))
def test_polygons_without_an_area_are_drawn_as_pycocotools_does(polygons, height, width):
    pixels = int(mask.area(mask.merge(mask.frPyObjects(polygons, height, width))))
    annotations = [_annotation(1, None, segmentation=polygons), _annotation(3, 0.5)]
    with tempfile.TemporaryDirectory() as folder:
        data = _one(Path(folder), annotations, [image(1, width, height)])
    across, down = (np.concatenate([points[axis::2] for points in polygons]) for axis in (0, 1))
    is_outside = max(across) < 0 or min(across) > width or max(down) < 0 or min(down) > height
    person = {} if is_outside else {"person": pixels / (height * width)}
    assert areas_of(data) == {1: {**person, "car": 0.5 / (height * width)}}


# pixel maps instead of a stuff file


@pytest.mark.parametrize(
    ("values", "road", "thing"), [("cocostuff", 148, 2), ("pixelmaps", 149, 183)]
)
def test_stuff_is_counted_in_pixel_maps(tmp_path, values, road, thing):
    pixels = np.full((4, 4), road, np.uint8)
    pixels[0] = thing
    (tmp_path / "maps").mkdir()
    Image.fromarray(pixels).save(tmp_path / "maps" / "000000000001.png")
    Image.fromarray(pixels).save(tmp_path / "maps" / "000000000077.png")
    maps = {"stuff_maps": tmp_path / "maps", "stuff_map_values": values}
    data = _one(tmp_path, [_annotation(3, 4.0)], [image(1), image(2)], **maps)
    assert areas_of(data) == {1: {"car": 0.25, "road": 0.75}, 2: {}}
    assert data.classes[:4] == tuple(name.replace(" ", "_") for name in THINGS.values())
    assert len(data.classes) == 4 + 91
    assert data.images["annotated_stuff"].to_list() == [True, False]
    assert data.unknown_labels("road").tolist() == [False, True]
    assert data.unknown_labels("car") is None
    assert data.provenance["notes"] == [
        "1 images have no pixel map: their stuff is unknown, not absent"
    ]


# genuine files

TINY = [f"coco-tiny/annotations/instances_{part}2017.json" for part in ("train", "val")]
GENUINE = {
    "coco128": (["coco128/annotations/instances_train2017.json"], 128),
    "coco-tiny": (TINY, 160),
}


@pytest.mark.parametrize(("files", "n"), GENUINE.values(), ids=GENUINE)
def test_genuine_areas_are_sums_of_the_official_ones(shared_data, files, n):
    paths = [shared_data / "coco-real" / name for name in files]
    data = read_coco(paths, images=paths[0].parents[1])
    expected = naive_areas([json.loads(path.read_text()) for path in paths])
    assert len(data) == n
    check_areas(data, expected)
    assert data.images["file_name"].str.starts_with("train2017/").any()
    assert data.provenance["notes"] == []


@pytest.mark.parametrize("files", [files for files, _ in GENUINE.values()], ids=GENUINE)
def test_genuine_labels_are_those_derived_from_other_sources(shared_data, files):
    data = read_coco([shared_data / "coco-real" / name for name in files])
    with np.load(shared_data / "coco-stats" / "derived_coco_thing_labels_123287x80.npz") as derived:
        place = np.searchsorted(derived["image_ids"], data.image_ids)
        assert (derived["image_ids"][place] == data.image_ids).all()
        labels = derived["labels"][place]
        names = [str(name).replace(" ", "_") for name in derived["category_names"]]
    assert sorted(names) == sorted(data.classes)
    for column, name in enumerate(names):
        assert np.array_equal(data.labels(name), labels[:, column] == 1), name


def test_genuine_stuff_areas_are_the_pixels_of_their_own_masks(shared_data):
    path = shared_data / "stuff-json" / "stuff_examples.json"
    content = json.loads(path.read_text())
    for annotation in content["annotations"]:
        assert int(mask.area(annotation["segmentation"])) == annotation["area"]
        assert sum(run_lengths(annotation["segmentation"]["counts"])[1::2]) == annotation["area"]
    data = read_coco(stuff=[path])
    assert len(data.classes) == 91
    assert data.images["image_id"].to_list() == [934, 13715]
    check_areas(data, naive_areas([content]))


# pycocotools with numpy 2
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_genuine_stuff_masks_drawn_as_a_map_have_the_same_areas(shared_data, tmp_path):
    # the official maps hold another annotation of these photographs: draw maps from the masks
    path = shared_data / "stuff-json" / "stuff_examples.json"
    content = json.loads(path.read_text())
    for entry in content["images"]:
        pixels = np.zeros((entry["height"], entry["width"]), np.uint8)
        for annotation in content["annotations"]:
            if annotation["image_id"] == entry["id"]:
                pixels[mask.decode(annotation["segmentation"]) == 1] = annotation["category_id"]
        Image.fromarray(pixels).save(tmp_path / f"{entry['id']:012d}.png")
    check_areas(read_label_maps(tmp_path, "pixelmaps"), areas_of(read_coco(stuff=[path])))


def test_genuine_files_in_another_order_give_the_same_dataset(shared_data, tmp_path):
    path = shared_data / "coco-real" / "coco128" / "annotations" / "instances_train2017.json"
    content = json.loads(path.read_text())
    for part in ("images", "annotations", "categories"):
        random.Random(3).shuffle(content[part])
    shuffled = read_coco([write(tmp_path / "shuffled.json", content)])
    data = read_coco([path])
    assert data.images.equals(shuffled.images)
    assert data.classes == shuffled.classes
    assert np.array_equal(data.areas.indices, shuffled.areas.indices)
    np.testing.assert_allclose(data.areas.data, shuffled.areas.data, rtol=1e-14)


def test_genuine_captions(shared_data, tmp_path):
    path = shared_data / "captions" / "captions_val2017.json"
    content = json.loads(path.read_text())
    things = write(tmp_path / "things.json", document(content["images"]))
    data = read_coco([things], captions=[path])
    assert len(data) == 5000
    assert data.captions.height == 25014
    first = content["images"][0]["id"]
    assert data.select(image_ids=[first]).captions["caption"].to_list() == [
        a["caption"] for a in content["annotations"] if a["image_id"] == first
    ]


def test_a_captions_file_says_which_images_were_captioned(tmp_path):
    things = write(tmp_path / "t.json", document([image(1), image(2)]))
    texts = {"images": [image(2)], "annotations": []}
    data = read_coco([things], captions=[write(tmp_path / "c.json", texts)])
    assert data.images["annotated_captions"].to_list() == [False, True]
    assert data.unannotated("captions").tolist() == [True, False]
    assert data.gaps is None
