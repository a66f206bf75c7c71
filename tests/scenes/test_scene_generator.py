"""Generated collections: genuine COCO files, exact areas, the same bytes from the same seed."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import polars as pl
import pytest
from PIL import Image
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from refusals import fails, refused

from nooch.base.engines import LocalEngine
from nooch.base.errors import OutputError
from nooch.base.files import sha256_of
from nooch.data.readers.cocostuff import COCOSTUFF, COCOSTUFF_IDS
from nooch.scenes import ScenesPlan, generate
from nooch.scenes.generator import visible
from nooch.scenes.images import draw_image

# pycocotools with numpy 2
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def hashes(folder):
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): sha256_of(path) for path in files}


@pytest.fixture(scope="module")
def files(scenes):
    kinds, folder = ("instances", "stuff", "captions"), scenes / "annotations"
    with contextlib.redirect_stdout(io.StringIO()):
        return {kind: COCO(str(folder / f"{kind}_scenes.json")) for kind in kinds}


def test_the_same_seed_gives_the_same_bytes_in_any_number_of_processes(tmp_path):
    plan = ScenesPlan(images=70, size=32, seed=1)
    first = hashes(generate(plan, tmp_path / "a"))
    assert first == hashes(generate(plan, tmp_path / "b", map=LocalEngine(2).map))
    other = hashes(generate(ScenesPlan(images=70, size=32, seed=2), tmp_path / "c"))
    assert first.keys() == other.keys()
    # the world alone does not depend on the seed
    assert {name for name in first if first[name] == other[name]} == {"world.yaml"}


def test_an_image_does_not_depend_on_how_many_there_are(tmp_path):
    few = hashes(generate(ScenesPlan(images=3, size=32), tmp_path / "few"))
    many = hashes(generate(ScenesPlan(images=40, size=32), tmp_path / "many"))
    images = [name for name in few if name.endswith(".jpg")]
    assert len(images) == 3
    assert all(few[name] == many[name] for name in images)


def test_masks_decode_to_what_was_drawn(files, scenes):
    plan = json.loads((scenes / "scenes.json").read_text())
    settings = [plan[name] for name in ("size", "context_strength", "seed")]
    for image in range(1, 41):
        picture = draw_image(ScenesPlan().world, *settings, image)
        drawn = visible(picture)
        things, stuff = (files[kind] for kind in ("instances", "stuff"))
        both = (file.loadAnns(file.getAnnIds([image])) for file in (things, stuff))
        annotations = [annotation for listed in both for annotation in listed]
        assert len(annotations) == len(drawn)
        total = np.zeros(picture.owner.shape, int)
        for annotation in annotations:
            part = drawn[annotation["id"] - 1000 * image - 1]
            assert annotation["category_id"] == COCOSTUFF_IDS[part.item.name]
            mask = (stuff if part.is_stuff else things).annToMask(annotation)
            whole = np.zeros_like(mask)
            whole[part.box] = part.mask
            np.testing.assert_array_equal(mask, whole)
            total += mask
            assert annotation["area"] == mask.sum() == part.pixels
            box = coco_mask.toBbox(coco_mask.encode(np.asfortranarray(mask)))
            assert annotation["bbox"] == box.tolist()
        # every pixel shows one thing
        assert (total == 1).all()


def test_annotations_are_of_all_kinds(files):
    annotations = files["instances"].dataset["annotations"]
    assert {a["iscrowd"] for a in annotations} == {0, 1}
    stuff = files["stuff"].dataset["annotations"]
    assert all(isinstance(a["segmentation"]["counts"], str) for a in annotations + stuff)
    assert len({a["id"] for a in annotations + stuff}) == len(annotations) + len(stuff)


def test_categories_are_cocos_own(files):
    for kind, role in (("instances", "thing"), ("stuff", "stuff")):
        for category in files[kind].dataset["categories"]:
            name = category["name"].replace(" ", "_")
            assert COCOSTUFF_IDS[name] == category["id"]
            assert COCOSTUFF[name] == role
    assert files["instances"].getCatIds(supNms=["vehicle"]) == [3, 5, 6, 9]


def test_images_are_jpegs_of_their_size(files, scenes):
    for record in files["instances"].dataset["images"][:5]:
        with Image.open(scenes / "images" / record["file_name"]) as image:
            assert image.format == "JPEG"
            assert image.size == (record["width"], record["height"]) == (64, 64)


def test_captions_are_five_and_vary(files):
    by_image = {}
    for annotation in files["captions"].dataset["annotations"]:
        by_image.setdefault(annotation["image_id"], []).append(annotation["caption"])
    assert set(map(len, by_image.values())) == {5}
    assert all(len(set(texts)) >= 4 for texts in by_image.values())
    texts = [text for texts in by_image.values() for text in texts]
    assert all(text[0].isupper() and text.endswith(".") for text in texts)
    assert not any("{" in text or "_" in text for text in texts)
    assert len(set(texts)) > len(texts) / 2


def test_the_reader_reads_it(data):
    assert len(data) == 240
    assert data.captions.height == 1200
    assert "road" in data.classes
    # every pixel belongs to one class
    np.testing.assert_allclose(np.asarray(data.areas.sum(axis=1)).ravel(), 1)


def test_truth_agrees_with_annotations(data, scenes):
    truth = pl.read_parquet(scenes / "truth.parquet")
    world = ScenesPlan().world
    assert truth.height == 240 * len(world.tasks)
    assert truth.unique(["image_id", "task"]).height == truth.height
    for (task,), rows in truth.group_by("task"):
        order = np.argsort(data.images["image_id"].to_numpy())
        present = rows.sort("image_id")["present"].to_numpy()
        np.testing.assert_array_equal(present, data.labels(task)[order])
    for row in truth.iter_rows(named=True):
        strength = world.scenes[row["scene"]].things.get(row["task"], 0)
        assert row["strength"] == strength
        assert row["expected"] == (strength >= 0.5)
        assert row["against"] == (strength == 0 if row["present"] else strength >= 0.5)


def test_a_folder_that_exists_is_kept(scenes, tmp_path):
    plan, mine = ScenesPlan(images=1), tmp_path / "mine"
    fails(lambda: generate(plan, scenes), "exists already", kind=OutputError)
    mine.mkdir()
    (mine / "file").write_text("x")
    fails(lambda: generate(plan, mine, overwrite=True), "scenes.json", kind=OutputError)


def test_nothing_is_left_where_drawing_fails(tmp_path):
    def broken(function, jobs):
        yield function(jobs[0])
        raise OutputError("disk full", remedy="buy another")

    with pytest.raises(OutputError):
        generate(ScenesPlan(images=40, size=32), tmp_path / "out", map=broken)
    assert list(tmp_path.iterdir()) == []


STRENGTHS = [("context_strength", 1.01), ("context_strength", float("nan"))]


@pytest.mark.parametrize(("name", "value"), [("images", 0), ("size", 31), ("seed", -1), *STRENGTHS])
def test_plans_are_checked(name, value):
    refused(lambda: ScenesPlan(**{name: value}), f"`{name}`: is {value}")
