"""Slices as COCO-JSON: pycocotools' AP of a class on them is its AP on its own set's images."""

import contextlib
import io
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from coco_files import document, image, write
from in_memory import read_coco
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from refusals import fails, refused

from nooch.criteria import CE
from nooch.data import load_dataset, save_dataset
from nooch.data.objects import BOX
from nooch.data.readers.cocostuff import COCOSTUFF_IDS
from nooch.report.exports.export import export
from nooch.suites.find import find

EVALUATION = Path(__file__).parents[2] / "docs" / "evaluation.md"


@pytest.fixture(scope="module")
def suite(data):
    tasks = data.objects["class"].unique().sort().to_list()
    return find(data, ["context", "ce"], tasks=tasks)


@pytest.fixture(scope="module")
def detections(data):
    """Most of the objects, moved about, some out of their image; and others anywhere."""
    random, listed = np.random.default_rng(4), []
    ids = data.images["image_id"].to_list()
    for image_id, name, *box in data.objects.select("image_id", "class", *BOX).iter_rows():
        if random.random() < 0.8:
            moved = (np.array(box) + random.normal(0, 2, 4)).clip([-99, -99, 1, 1]).round(2)
            listed.append((image_id, COCOSTUFF_IDS[name], moved.tolist()))
        if random.random() < 0.4:
            place = random.integers(-9, 60, 4).astype(float).clip([-9, -9, 4, 4]).tolist()
            listed.append((int(random.choice(ids)), COCOSTUFF_IDS[name], place))
    return [
        {"image_id": i, "category_id": c, "bbox": box, "score": round(random.random(), 3)}
        for i, c, box in listed
    ]


@pytest.fixture(scope="module")
def slices(data, scenes, suite, detections, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slices")
    write(folder / "detections.json", detections)
    predictions = folder / "detections.json"
    reading = {"classes": scenes / "annotations" / "instances_scenes.json"}
    export(
        suite, "coco-slices", folder / "slices", data=data, predictions=predictions,
        reading=reading,
    )  # fmt: skip
    return folder


def _quietly(act, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        done = act(*arguments)
    return said.getvalue() if done is None else done


def _evaluated(file, detections, images=None, category=None):
    gt = _quietly(COCO, str(file))
    # pycocotools writes into them
    found = [dict(found) for found in detections if found["image_id"] in gt.imgs]
    run = _quietly(COCOeval, gt, _quietly(gt.loadRes, found), "bbox")
    if images is not None:
        run.params.imgIds, run.params.catIds = images, [category]
    for step in (run.evaluate, run.accumulate):
        _quietly(step)
    return run.eval["precision"][:, :, :, 0, -1], run.params.catIds


@pytest.mark.parametrize("criterion", ["context", "ce"])
@pytest.mark.parametrize("side", ["hard", "easy"])
def test_the_precision_of_a_class_is_the_one_on_its_own_images(
    suite, slices, detections, criterion, side
):
    folder, split = slices / "slices", "test"
    precision, categories = _evaluated(folder / f"{criterion}-{split}-{side}.json", detections)
    compared = 0
    for task in suite.tasks:
        if (criterion, task, split) not in suite.keys:
            continue
        challenge, category = suite.set(criterion, task, split), COCOSTUFF_IDS[task]
        on_side = challenge.hard == (side == "hard")
        images = challenge.image_ids.to_numpy()[on_side].tolist()
        listed = json.loads((folder / "tasks" / f"{task}-slices.json").read_text())
        assert listed[f"{criterion} {task.replace('_', ' ')} {split} {side}"] == images
        file = folder / "tasks" / f"{task}.json"
        own, _ = _evaluated(file, detections, images, category)
        np.testing.assert_array_equal(precision[:, :, categories.index(category)], own[:, :, 0])
        compared += (own > 0).any()
    assert compared > 3


def test_detections_are_written_with_the_ids_of_the_annotations(slices, detections):
    gt = json.loads((slices / "slices" / "tasks" / "car.json").read_text())
    known = {image["id"] for image in gt["images"]}
    written = json.loads((slices / "slices" / "detections-detections.json").read_text())
    kept = [found for found in detections if found["image_id"] in known]
    assert 0 < len(kept) < len(detections)
    assert sorted(map(str, written)) == sorted(map(str, kept))


def test_the_lines_of_the_docs_print_both_sides(slices, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", EVALUATION.read_text(), re.MULTILINE | re.DOTALL)
    (lines,) = [block for block in blocks if "COCOeval" in block]
    monkeypatch.chdir(slices)
    said = _quietly(lambda: exec(compile(lines, "docs", "exec"), {}))
    averages = re.findall(r"IoU=0.50:0.95 \| area=   all \| maxDets=100 \] = ([0-9.]+)", said)
    # average precision and recall of each side
    assert len(averages) == 4
    assert len({*averages}) > 2
    assert 0 < float(averages[0]) < 1


def test_ignored_objects_are_ignored_by_pycocotools(data, suite, tmp_path):
    some = data.objects.with_columns(ignore=data.objects["image_id"] % 2 == 0)
    ignoring = data.build(
        data.images, data.classes, data.areas, objects=some, kinds=data.kinds,
        image_root=data.image_root,
    )  # fmt: skip
    tasks = suite.tasks[:2]
    found = find(ignoring, "context", tasks=tasks)
    export(found, "coco-slices", tmp_path / "out", data=ignoring)
    files = [tmp_path / "out" / "tasks" / f"{task}.json" for task in tasks]
    listed = [a for file in files for a in json.loads(file.read_text())["annotations"]]
    marks = {(a["image_id"] % 2 == 0, a["ignore"], a["iscrowd"]) for a in listed}
    assert {(True, 1, 1), (False, 0, 0)} <= marks
    assert not {mark for mark in marks if mark[0] and not mark[1]}


def test_what_cannot_be_exported(data, suite, tmp_path):
    write_to = tmp_path / "out"
    bare = data.build(data.images, data.classes, data.areas, kinds=data.kinds)
    of_bare = find(bare, "context", tasks=suite.tasks)
    refused(lambda: export(of_bare, "coco-slices", write_to, data=bare), "no objects", "YOLO")
    images = data.images.with_columns(width=None, height=None)
    unsized = data.build(
        images, data.classes, data.areas, kinds=data.kinds, objects=data.objects,
    )  # fmt: skip
    of_unsized = find(unsized, "context", tasks=suite.tasks)
    act = lambda: export(of_unsized, "coco-slices", write_to, data=unsized)  # noqa: E731
    fails(act, "have no known size", "nooch import auto", "`images`")
    assert not write_to.exists()


OWN = {7: "wine glass", 3: "cat", 5: "table", 2: "sofa"}


@pytest.fixture
def own_ids(tmp_path):
    """Glasses are on tables and cats on sofas, or the other way about, in a file with other ids
    than COCO's; a detector finds what has its usual context, in the file's ids.
    """
    images = [image(i, 100, 100) for i in range(1, 81)]
    boxes, found = [], []
    for i in range(1, 81):
        thing, usual = (7, 3)[i % 2], i % 8 > 1
        cue = (5, 2)[(i % 2) == usual]
        for category, box in ((thing, [10, 10, 20, 20]), (cue, [0, 50, 100, 50])):
            about = {"image_id": i, "category_id": category, "bbox": box}
            area = box[2] * box[3]
            boxes.append({"id": len(boxes) + 1, **about, "area": area, "iscrowd": 0})
            if category != thing or usual:
                found.append({**about, "score": 0.9})
    file = write(tmp_path / "own.json", document(images, boxes, OWN))
    data = read_coco([file])
    suite = find(data, CE(cues={"cat": ("sofa",), "wine_glass": ("table",)}),
                 tasks=["cat", "wine_glass"])  # fmt: skip
    return data, suite, write(tmp_path / "detections.json", found)


def test_hotcoco_prints_the_precision_of_a_task_on_each_side(own_ids, tmp_path):
    """The user's own detections, as they are, and those that the export writes."""
    pytest.importorskip("hotcoco", reason="hotcoco is in the group `dev`: make install")
    data, suite, detections = own_ids
    folder = tmp_path / "slices"
    done = export(suite, "coco-slices", folder, data=data, predictions=detections)
    assert not any("counted from 1" in note for note in done.notes)
    for task, found in itertools.product(("cat", "wine_glass"), (
        detections, folder / "detections-detections.json",
    )):  # fmt: skip
        gt, lists = (folder / "tasks" / f"{task}{end}.json" for end in ("", "-slices"))
        command = ["eval", "--gt", gt, "--dt", found, "--slices", lists]
        said = subprocess.run([sys.executable, "-c", "from hotcoco.cli import main; main()",
                               *command], capture_output=True, text=True, check=True)  # fmt: skip
        name = task.replace("_", " ")
        printed = dict(re.findall(rf"{name} all (hard|easy) +\d+ +([\d.]+)", said.stdout))
        assert printed == {"hard": "0.000", "easy": "1.000"}


def test_categories_are_those_of_the_source(own_ids, tmp_path):
    """Also in the other export that writes categories; a dataset without a source counts them."""
    data, suite, _ = own_ids
    export(suite, "coco-slices", tmp_path / "slices", data=data)
    export(suite, "coco", tmp_path / "coco", data=data, no_annotations=True)
    save_dataset(data, tmp_path / "data")
    assert load_dataset(tmp_path / "data").categories == data.categories
    for file, named in ((tmp_path / "slices" / "tasks" / "cat.json", {3: "cat", 7: "wine glass"}),
                        (tmp_path / "coco" / "all.json", OWN)):  # fmt: skip
        listed = json.loads(file.read_text())["categories"]
        assert {c["id"]: c["name"] for c in listed} == named
    bare = data.build(data.images, data.classes, data.areas, objects=data.objects)
    done = export(suite, "coco-slices", tmp_path / "counted", data=bare)
    assert any("counted from 1" in note for note in done.notes)
    listed = json.loads((tmp_path / "counted" / "tasks" / "cat.json").read_text())["categories"]
    numbers = {name.replace("_", " "): n for n, name in enumerate(data.classes, 1)}
    assert {c["name"]: c["id"] for c in listed} == {n: numbers[n] for n in ("cat", "wine glass")}
