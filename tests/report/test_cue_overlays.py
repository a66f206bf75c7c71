"""Cues shaded in pictures: where they are is what the annotations say, whatever form these have."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from oracles import dataset_of
from PIL import Image
from refusals import fails

from nooch.criteria import CE
from nooch.data.readers.coco.rows import source_of
from nooch.report.answer import Answer, ErrorFinding
from nooch.report.images.cue_masks import cue_masks, outlines
from nooch.report.images.thumbnails import SplitImages, Wanted, draw_pictures
from nooch.report.site.folder import draw_shades, shade_name
from nooch.suites.find import find

H, W = 12, 16


def _collection(ids=None):
    images = [{"car": 0.1, "road": 0.5, "fire_hydrant": 0.2}] * 4
    splits = ["train", "train", "test", "test"]
    data = dataset_of(images, ["car", "road", "fire_hydrant"], splits, ids)
    suite = find(data, {"ce": CE(cues={"car": ("road", "fire_hydrant")})}, tasks=["car"])
    return data, suite, {"test": SplitImages.from_split(suite, "test", data)}


def _file(path, annotations):
    names = enumerate(("car", "road", "fire hydrant"), 1)
    content = {
        "images": [{"id": i, "height": H, "width": W} for i in range(1, 5)],
        "categories": [{"id": number, "name": name} for number, name in names],
        "annotations": [{"id": n, **a} for n, a in enumerate(annotations)],
    }
    path.write_text(json.dumps(content))
    return path


def _masks(tmp_path, annotations):
    data, suite, images = _collection()
    wanted = [Wanted("test", row, tmp_path / f"{row}.png") for row in range(2)]
    made = cue_masks(suite, data, images, [_file(tmp_path / "a.json", annotations)], wanted)
    return [dict(made("test", row)) for row in range(2)], wanted


def test_polygons_run_lengths_and_boxes(tmp_path):
    square = [[2, 3, 8, 3, 8, 9, 2, 9]]
    below = [[0, 0, 16, 0, 16, 2, 0, 2]]
    runs = {"size": [H, W], "counts": [W * H - 24, 24]}
    too_large = {"size": [10**9, 10**9], "counts": [1, 2]}
    far_out = [[1, 1, 1e30, 1, 5, 5]]
    shapes = [(3, 2, square), (3, 2, below), (3, 1, below), (4, 2, runs)]
    shapes += [(4, 2, too_large), (4, 2, far_out)]
    annotations = [
        {"image_id": image, "category_id": category, "segmentation": shape}
        for image, category, shape in shapes
    ]
    annotations.insert(4, {"image_id": 4, "category_id": 3, "bbox": [1, 1, 4, 5]})
    found, _ = _masks(tmp_path, annotations)
    expected = np.zeros((H, W), dtype=bool)
    expected[3:9, 2:8] = True
    expected[:2] = True
    # the target is no cue
    assert list(found[0]) == ["road"]
    assert (found[0]["road"] == expected).all()
    # run lengths go down the columns: the last 24 pixels are the last two columns
    assert found[1]["road"].sum() == 24
    assert found[1]["road"][:, -2:].all()
    assert found[1]["fire_hydrant"][1:6, 1:5].all()


def test_pictures_have_fill_and_edge(tmp_path):
    square = {"image_id": 3, "category_id": 2, "segmentation": [[2, 3, 8, 3, 8, 9, 2, 9]]}
    found, wanted = _masks(tmp_path, [square])
    for one in wanted:
        Image.new("RGB", (W, H)).save(one.path)
    drawn = draw_pictures(wanted, tmp_path)
    named = draw_shades(drawn, lambda split, row: list(found[row].items()), tmp_path)
    assert named == {"test": {0: ["road"]}}
    alpha = np.asarray(Image.open(tmp_path / shade_name("test", 0, 0)).convert("RGBA"))[..., 3]
    assert alpha.shape == (H, W)
    assert (alpha[3:9, 2:8] > 0).all()
    assert (alpha > 0).sum() == 36
    assert set(alpha[4:8, 3:7].ravel()) == {96}
    assert set(alpha[3, 2:8]) == {255}
    assert draw_shades(drawn, None, tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "words"), [(None, "a.json"), ("[1]", "a.json"), ("text ids", "ids are text")]
)
def test_files_and_ids_that_cannot_be_used_are_refused(tmp_path, content, words):
    data, suite, images = _collection(list("abcd") if content == "text ids" else None)
    file = tmp_path / "a.json"
    if content is not None:
        file.write_text(content)
    act = partial(cue_masks, suite, data, images, [file], [Wanted("test", 0, tmp_path)])
    fails(act, words, helps=content == "text ids")


def test_all_images_that_a_finding_leads_to_are_outlined(tmp_path):
    (tmp_path / "images").mkdir()
    square = [[2, 3, 8, 3, 8, 9, 2, 9]]
    car = [{"image_id": i, "category_id": 1, "segmentation": square, "area": 36} for i in (3, 4)]
    file = _file(tmp_path / "a.json", car)
    data, suite, images = _collection([1, 2, 3, 4])
    data = replace(
        data,
        provenance={
            "sources": [{"role": "things", "file": "a.json", "blake3": source_of(file)["blake3"]}]
        },
    )
    wanted = [Wanted("test", row, tmp_path / f"{row}.png") for row in range(2)]
    given = ErrorFinding("context", "car", *[""] * 5, 0, outlined=["car"], rows=np.array([0, 1]))
    answer = Answer("", "test", [given])
    made = outlines(suite, data, images, tmp_path / "images", wanted, answer)
    # none of them is shown on the overview
    assert [[name for name, _ in made("test", row)] for row in range(2)] == [["car"]] * 2
