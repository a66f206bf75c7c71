"""Objects shown by themselves: what a planted detector depends on is what the changes name."""

import json
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from in_memory import read_coco
from PIL import Image
from refusals import fails, refused

import nooch
from nooch.analysis.hide_background import WAYS, around, compared_ways, only
from nooch.evaluation.metrics.proportions import student, wilson

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("pycocotools", reason="pycocotools is not installed (nooch[masks])")

SIZE, N = 200, 40
GRAY, RED, GREEN = (120, 120, 120), (220, 30, 30), (30, 200, 30)


def scene(i):
    """A red square on gray, in half of the images with a green road; and its box."""
    left, top, side = np.random.default_rng(i).integers([20, 20, 30], [70, 70, 120])
    pixels = np.full((SIZE, SIZE, 3), GRAY, np.uint8)
    if i % 2:
        pixels[-8:] = GREEN
    pixels[top : top + side, left : left + side] = RED
    return pixels, [int(left), int(top), int(side), int(side)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Pictures with their COCO file; a dataset and a suite of cars by roads."""
    folder = tmp_path_factory.mktemp("squares")
    (folder / "images").mkdir()
    images, annotations = [], []
    for i in range(N):
        pixels, box = scene(i)
        Image.fromarray(pixels).save(folder / "images" / f"{i}.png")
        images.append({"id": i, "file_name": f"{i}.png", "width": SIZE, "height": SIZE})
        x, y, w, h = box
        car = {"category_id": 1, "bbox": box, "area": w * h, "iscrowd": 0,
               "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]]}  # fmt: skip
        road = {"category_id": 2, "bbox": [0, SIZE - 8, SIZE, 8], "area": 8 * SIZE, "iscrowd": 0,
                "segmentation": [[0, SIZE - 8, SIZE, SIZE - 8, SIZE, SIZE, 0, SIZE]]}  # fmt: skip
        annotations += [{"image_id": i, **one} for one in ([car, road] if i % 2 else [car])]
    listed = [{**one, "id": number} for number, one in enumerate(annotations, 1)]
    names = [{"id": 1, "name": "car"}, {"id": 2, "name": "road"}]
    file = folder / "instances.json"
    file.write_text(json.dumps({"images": images, "annotations": listed, "categories": names}))
    data = read_coco([file], [], [], images=folder / "images")
    suite = nooch.find(data, {"ce": nooch.CE(cues={"car": ["road"]}, beta=0.01)}, tasks=["car"])
    return folder, data, suite


OWN = """
import numpy as np

def near(pixels, color):
    return (np.abs(pixels.astype(int) - color) < 30).all(axis=2)

class Planted:
    classes = ["road", "car"]

    def __call__(self, images):
        return [self.one(image) for image in images]

    def one(self, image):
        rows, columns = np.nonzero(near(image, (220, 30, 30)))
        if not len(rows):
            return {"boxes": [], "labels": [], "scores": []}
        box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        # a box of another class, and one elsewhere, do not count
        boxes = [box, box, [0, 0, 5, 5]]
        return {"boxes": boxes, "labels": [1, 0, 1], "scores": [self.score(image, box), 1, 1]}

class Object(Planted):
    score = lambda self, image, box: 0.9

class Context(Planted):
    score = lambda self, image, box: 0.9 if near(image, (30, 200, 30)).any() else 0.1

class Outline(Planted):
    # sure of an object where it ends as in a photograph
    score = lambda self, image, box: 0.9 if tuple(image[box[1] - 1, box[0]]) == (120,) * 3 else 0.1
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "planted_detectors.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "planted_detectors", raising=False)

    def load(name):
        from nooch.models.task_models import load_task_model

        return load_task_model(f"planted_detectors:{name}", ["car"])

    return load


def run(world, model, out, **options):
    folder, data, suite = world
    given = {"annotations": [folder / "instances.json"], "bootstrap": 200, **options}
    return nooch.intervene(suite, model, out, data=data, edit="hide-background", **given)


@pytest.mark.parametrize(
    ("name", "recalls"),
    # without a road, what is hidden is gray, and its mean is too
    [("Object", (1, 1, 1)), ("Context", (0.5, 0, 0)), ("Outline", (1, 0.5, 1))],
)
def test_recall_changes_with_what_a_detector_depends_on(world, own, tmp_path, name, recalls):
    made = run(world, own(name), tmp_path / "out")
    recall = made.table.filter(subset="all", measure="recall")
    assert recall["way"].to_list() == [*WAYS]
    assert recall["value"].to_list() == [*recalls]
    whole, mask, box = recalls
    change = made.table.filter(subset="all", measure="change")
    expected = {("whole", "box"): box - whole, ("box", "mask"): mask - box,
                ("whole", "mask"): mask - whole}  # fmt: skip
    assert {(b, w): v for b, w, v in change.select("baseline", "way", "value").rows()} == expected
    for row in change.filter(pl.col("value") != 0, pl.col("value") > -1).to_dicts():
        assert row["low"] < row["value"] < row["high"] < 0
    sides = made.table.filter(criterion="ce", measure="recall", way="whole")
    if name == "Context":
        values = dict(sides.select("subset", "value").rows())
        assert values == {"hard_positive": 0, "easy_positive": 1}
    assert made.sentences[0].startswith(f"Of {N} objects, {100 * whole:.1f}%")
    assert "objects of at least 96 pixels" in made.sentences[1]
    assert "large" in str(made)


def test_what_is_saved(world, own, tmp_path):
    made = run(world, own("Outline"), tmp_path / "out", threshold=0.95)
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {"before.parquet", "changes.parquet", "edited.parquet", "thresholds.csv"}
    objects = pl.read_parquet(tmp_path / "out/edited.parquet")
    assert objects.columns[2:] == ["left", "top", "width", "height", *WAYS]
    assert objects["whole"].to_list() == [0.9] * N
    boxes = [scene(i)[1] for i in objects["image_id"]]
    assert [[*row] for row in objects.select("left", "top", "width", "height").rows()] == boxes
    # nothing is found above .95
    assert made.table.filter(measure="recall")["value"].unique().to_list() == [0]


def test_a_first_try(world, own, tmp_path):
    made = run(world, own("Object"), tmp_path / "out", limit=10)
    assert made.table["n"][0] == 10
    images = pl.read_parquet(tmp_path / "out/edited.parquet")["image_id"]
    assert images.to_list() == [*range(0, N, 4)]


def test_the_command(world, own, run_cli, tmp_path):
    folder, data, suite = world
    nooch.data.save_dataset(data, tmp_path / "data")
    nooch.save_suite(suite, tmp_path / "suite")
    own("Context")
    command = f"intervene {tmp_path / 'suite'} --dataset {tmp_path / 'data'}"
    command += f" --model planted_detectors:Context --annotations {folder / 'instances.json'}"
    done = run_cli(f"{command} --edit hide-background --out {tmp_path / 'out'}").ok()
    text = " ".join(done.out.split())
    assert "50.0% [35.2, 64.8] are found in the whole image, 0.0% [0.0, 8.8] cut out" in text
    assert "next:" not in done.out
    shown = run_cli(f"{command} --edit hide-background --out {tmp_path / 'b'} --format json").ok()
    assert len(shown.json["changes"]) == 4 * 6


def test_what_is_refused(world, own, tmp_path):
    folder, data, _ = world
    from answering import save_classifier

    from nooch.models.task_models import load_task_model

    classifier = load_task_model(save_classifier(tmp_path / "m", ("car", "road")), ["car"])
    refused(lambda: run(world, classifier, tmp_path / "out"), "is not a detector", "hide-cue")
    model = own("Object")
    refused(lambda: run(world, model, tmp_path / "out", annotations=[folder]), "label maps")
    plain = replace(data, objects=None)
    plain = (
        folder,
        plain,
        nooch.find(plain, {"ce": nooch.CE(cues={"car": ["road"]})}, tasks=["car"]),
    )
    refused(lambda: run(plain, model, tmp_path / "out"), "no objects with boxes", "import")
    content = json.loads((folder / "instances.json").read_text())
    for annotation in content["annotations"]:
        del annotation["segmentation"]
    (tmp_path / "boxes.json").write_text(json.dumps(content))
    boxes = {"annotations": [tmp_path / "boxes.json"]}
    fails(lambda: run(world, model, tmp_path / "out", **boxes), "no object of the split has a mask")
    assert not (tmp_path / "out").exists()


def test_pixels():
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    kept = around(np.array([10.0, 5.0, 10.0, 10.0]), pixels.shape)
    assert np.argwhere(kept).min(0).tolist() == [4, 9]
    assert np.argwhere(kept).max(0).tolist() == [15, 20]
    shown = only(pixels, kept)
    assert (shown[kept] == pixels[kept]).all()
    assert (shown[~kept] == pixels[~kept].mean(axis=0).round()).all()
    # a box at the border is cut off there
    assert around(np.array([-5.0, 0.0, 100.0, 10.0]), pixels.shape)[:11].all()


def test_intervals_are_of_images(world):
    """Objects of one image that are all alike tell as much as one."""
    _, _, suite = world
    found = np.arange(N) % 4 > 0
    one = pl.DataFrame({"image_id": np.arange(N), "task": "car", "width": 9.0, "height": 9.0,
                        "whole": 0.9, "mask": found * 0.9, "box": 0.9})  # fmt: skip
    many = pl.concat([one] * 5)
    tables = [compared_ways(rows, {"car": 0.5}, suite, "all", 200, 0)[0] for rows in (one, many)]
    for table in tables:
        assert table.filter(way="mask", measure="recall", subset="all")["value"].item() == 0.75
    # a rate of 1 does not show how alike objects are
    measured = (t.filter(pl.col("subset") == "all", pl.col("value") < 1) for t in tables)
    one, many = (rows.to_numpy()[:, -3:].astype(float) for rows in measured)
    np.testing.assert_allclose(one[1:], many[1:], atol=1e-12)
    # with Student's quantile for the number of images
    low, high = wilson(one[0, 0], N * (1.959964 / student(np.ones(N))) ** 2 * (N - 1) / N)
    np.testing.assert_allclose(many[0], [one[0, 0], low, high], rtol=1e-6)
