"""Detections as people have them: every layout gives the same boxes; what is damaged is refused."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from oracles import dataset_of
from refusals import fails
from scored import small_suite

from nooch import Predictions
from nooch.data import Dataset
from nooch.data.readers.coco import decoder
from nooch.evaluation import described, load_predictions
from nooch.evaluation.boxes import files

CLASSES = ("car", "fire_hydrant", "cow")
SIDES = (640, 480)
IMAGES = [f"{name}.jpg" for name in ("a", "b", "sub/c", "d")]


def _dataset():
    data = dataset_of([{"car": 0.2}] * 4, list(CLASSES), ["test"] * 4, [1, 2, 3, 4])
    images = data.images.with_columns(
        file_name=pl.Series(IMAGES), width=pl.lit(SIDES[0]), height=pl.lit(SIDES[1])
    )
    return Dataset.build(images, data.classes, data.areas)


DATA = _dataset()
_BOX = st.tuples(*(st.integers(0, side // 2) for side in SIDES * 2))
_ROW = st.tuples(st.integers(0, 3), st.integers(0, 2), _BOX, st.integers(1, 99))
# one box of pixels keeps all from being fractions; scores differ from 0 and 1
ROWS = st.lists(_ROW, max_size=12).map(lambda rows: [(0, 0, (20, 10, 200, 100), 50), *rows])


def _xyxy(box):
    left, top, width, height = box
    return [left, top, left + width, top + height]


def _center(box, sides=(1, 1)):
    left, top, width, height = box
    x, y = sides
    return [(left + width / 2) / x, (top + height / 2) / y, width / x, height / y]


def _json(folder, document):
    (folder / "d.json").write_text(json.dumps(document))
    return folder / "d.json"


def _coco(folder, rows):
    return _json(folder, [
        {"image_id": i + 1, "category_id": c, "bbox": box, "score": s / 100}
        for i, c, box, s in rows
    ])  # fmt: skip


def _stems(folder, rows):
    """As ``yolo val save_json=True`` writes them."""
    return _json(folder, [
        {"image_id": IMAGES[i].split("/")[-1][:-4], "file_name": IMAGES[i], "category_id": c,
         "bbox": box, "score": s / 100}
        for i, c, box, s in rows
    ])  # fmt: skip


def _by_image(rows):
    return {image: [row[1:] for row in rows if row[0] == i] for i, image in enumerate(IMAGES)}


def _torchvision(folder, rows):
    return _json(folder, {
        image: {"boxes": [_xyxy(box) for _, box, _ in own], "labels": [c for c, _, _ in own],
                "scores": [s / 100 for _, _, s in own]}
        for image, own in _by_image(rows).items()
    })  # fmt: skip


def _arrays_in_a_list(folder, rows):
    content = json.loads(_torchvision(folder, rows).read_text())
    return _json(folder, [{"image": image, **entry} for image, entry in content.items()])


def _pipeline(folder, rows):
    names = ("xmin", "ymin", "xmax", "ymax")
    return _json(folder, {
        image: [{"score": s / 100, "label": CLASSES[c].replace("_", " "),
                 "box": dict(zip(names, _xyxy(box), strict=True))} for c, box, s in own]
        for image, own in _by_image(rows).items()
    })  # fmt: skip


def _summary(rows):
    """As ``results.summary()`` of ultralytics, with the image of each."""
    names = ("x1", "y1", "x2", "y2")
    return [{"image": IMAGES[i], "name": CLASSES[c], "class": c, "confidence": s / 100,
             "box": dict(zip(names, _xyxy(box), strict=True))}
            for i, c, box, s in rows]  # fmt: skip


def _records(folder, rows):
    return _json(folder, _summary(rows))


def _text_cells(folder, rows):
    frame = pl.DataFrame([{**row, "box": repr(row["box"])} for row in _summary(rows)])
    frame.write_csv(folder / "d.csv")
    return folder / "d.csv"


def _yolo(folder, rows):
    labels = folder / "predict" / "labels"
    labels.mkdir(parents=True, exist_ok=True)
    for file in labels.iterdir():
        file.unlink()
    for image, own in _by_image(rows).items():
        lines = ["{} {!r} {!r} {!r} {!r} {}\n".format(c, *_center(box, SIDES), s / 100)
                 for c, box, s in own]  # fmt: skip
        if lines:
            (labels / f"{image.split('/')[-1][:-4]}.txt").write_text("".join(lines))
    return folder / "predict"


def _table(names, of_box):
    def write(folder, rows):
        frame = pl.DataFrame([
            {"filename": IMAGES[i], "class": CLASSES[c], "score": s / 100,
             **dict(zip(names, of_box(box), strict=True))} for i, c, box, s in rows
        ])  # fmt: skip
        frame.write_parquet(folder / "d.parquet")
        frame.write_csv(folder / "d.csv")
        return folder / ("d.csv" if names[0] == "left" else "d.parquet")

    return write


def _lists(folder, rows):
    frame = pl.DataFrame([{"image_id": i + 1, "label": CLASSES[c], "conf": s / 100, "bbox": box}
                          for i, c, box, s in rows])  # fmt: skip
    return frame.with_columns(pl.col("bbox").cast(pl.List(pl.Float64)))


LAYOUTS = {
    "COCO results": _coco,
    "file names": _stems,
    "torchvision": _torchvision,
    "a list of images": _arrays_in_a_list,
    "a pipeline": _pipeline,
    "records": _records,
    "cells of text": _text_cells,
    "YOLO": _yolo,
    "corners": _table(("xmin", "ymin", "xmax", "ymax"), _xyxy),
    "other corners": _table(("x1", "y1", "x2", "y2"), _xyxy),
    "sides": _table(("left", "top", "width", "height"), list),
    "centers": _table(("x_center", "y_center", "width", "height"), _center),
    "lists": _lists,
}


def _same(run, rows):
    """The run has these boxes, and the largest score of each image and class."""
    boxes = run.boxes.boxes
    scale = np.array(SIDES * 2) if run.boxes.in_fractions else 1
    found = sorted(
        (int(run.image_ids[int(i)]), run.tasks[c], *np.round(box * scale, 6).tolist(), round(s, 9))
        for i, c, box, s in zip(boxes.image, boxes.label, boxes.box, run.boxes.scores, strict=True)
    )
    expected = sorted((i + 1, CLASSES[c], *map(float, box), s / 100) for i, c, box, s in rows)
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    np.testing.assert_allclose([r[2:] for r in found], [r[2:] for r in expected], atol=1e-5)
    assert run.image_ids.to_list() == [1, 2, 3, 4]
    for c, task in enumerate(CLASSES):
        for i in range(4):
            value = run.values[run.tasks.index(task), i] if task in run.tasks else 0
            best = max((s / 100 for im, cl, _, s in rows if (im, cl) == (i, c)), default=0)
            assert value == pytest.approx(best)


@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=8)
@given(rows=ROWS)
def test_every_layout_gives_the_same_boxes(tmp_path_factory, name, rows):
    source = LAYOUTS[name](tmp_path_factory.mktemp("d"), rows)
    listed = tmp_path_factory.mktemp("c") / "data.yaml"
    listed.write_text(f"names: {json.dumps(CLASSES)}\n")
    (run,) = load_predictions(source, data=DATA, classes=listed)
    _same(run, rows)
    empty = 4 - len({row[0] for row in rows})
    what = f"{len(rows)} box{'es' * (len(rows) > 1)} ("
    assert what in described([run])
    assert f"{empty} image{'s' * (empty != 1)} without any" in described([run])


@settings(max_examples=15)
@given(ROWS, st.sampled_from(["xyxy", "xywh", "cxcywh"]), st.booleans())
def test_boxes_in_memory(rows, form, numbers):
    write = {"xyxy": _xyxy, "xywh": list, "cxcywh": _center}[form]
    own = [[row for row in rows if row[0] == i] for i in range(4)]
    run = Predictions.from_boxes(
        [1, 2, 3, 4],
        [np.array([write(row[2]) for row in part], np.float32) for part in own],
        [[row[1] if numbers else CLASSES[row[1]] for row in part] for part in own],
        [np.array([row[3] / 100 for row in part]) for part in own],
        classes=CLASSES if numbers else None,
        box_format=form,
    )
    _same(run, rows)
    assert load_predictions(run, data=DATA)[0].boxes is run.boxes


def test_boxes_in_memory_that_do_not_fit():
    box, make = [[0, 0, 9, 9]], Predictions.from_boxes
    fails(lambda: make([1], [box, box], [["car"]], [[0.5]]), "of 2, 1, 1 images")
    fails(lambda: make([1], [box], [["car"]], [[0.5, 0.6]]), "run detections, image 1: has boxes")
    fails(lambda: make([1], [[[0, 0, 9]]], [["car"]], [[0.5]]), "boxes (1, 3)")
    fails(lambda: make([1], [box], [[3]], [[0.5]]), "labels 3 have no name", "`classes`")
    fails(lambda: make([1], [box], [["car"]], [[1.5]]), "image 1, box 1", "1 score not in 0 to 1")
    fails(lambda: make([1, 1], [box] * 2, [["car"]] * 2, [[0.5]] * 2), "more than once")
    fails(lambda: make([1], [box], [["car"]], [[0.5]], box_format="yxyx"), "box_format",
          kind=ValueError)  # fmt: skip
    fails(lambda: make([1], [[]], [[]], [[]]), "there are no tasks")
    assert make([1], [[]], [[]], [[]], classes=["car"]).values.tolist() == [[0]]
    fails(lambda: load_predictions({"run": {"boxes": box}}, data=DATA), "from_boxes")


GOOD = [{"image_id": 1 + i % 4, "category_id": i % 3, "bbox": [300, 200, 320, 200], "score": 0.5}
        for i in range(40)]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bbox": [0, 0, -1, 5]}, ["element 3, image 3: 1 box with a negative width"]),
        ({"bbox": [0, 0, 1e300, 5]}, ["element 3, image 3", "infinite or huge"]),
        ({"bbox": [0, 0, 1]}, ["element 3: cannot be read", "length 4"]),
        ({"score": 55.0}, ["element 3, image 3", "as percentages are", "`percent`"]),
        ({"score": -0.1}, ["1 score not in 0 to 1, such as -0.1"]),
        ({"image_id": 77}, ["1 of 5 images are not in the dataset: 77"]),
        ({"category_id": 9}, ["there are no class names for category ids 9", "`classes`"]),
    ],
)
def test_damaged_results(tmp_path, change, words):
    rows = [{**row, **change} if i == 2 else row for i, row in enumerate(GOOD)]
    fails(lambda: load_predictions(_json(tmp_path, rows), data=DATA, classes=CLASSES), *words)


def test_scores_that_rounding_brought_out_of_range(tmp_path):
    rows = [{**row, "score": {2: 1.0000001, 5: -1e-7}.get(i, 0.5)} for i, row in enumerate(GOOD)]
    (read,) = load_predictions(_json(tmp_path, rows), data=DATA, classes=CLASSES)
    made = Predictions.from_boxes(
        [1, 2], [[[0, 0, 9, 9]]] * 2, [["car"]] * 2, [[1.0000001], [-1e-7]]
    )
    for run in (read, made):
        assert (run.boxes.scores.min(), run.boxes.scores.max(), run.values.max()) == (0, 1, 1)
        note = "2 scores outside 0 to 1 by at most 1e-06 (rounding) count as 0 or 1"
        assert note in run.notes
    over = [{**GOOD[0], "score": 1.00001}]
    fails(lambda: load_predictions(_json(tmp_path, over), data=DATA, classes=CLASSES),
          "1 score not in 0 to 1")  # fmt: skip


def test_boxes_of_another_order_are_named(tmp_path):
    corners = [{**row, "bbox": [300, 200, 620, 400]} for row in GOOD]
    file = _json(tmp_path, corners)
    read = {"data": DATA, "classes": CLASSES}
    fails(lambda: load_predictions(file, **read), "100.0% of the boxes leave their image by more",
          "boxes xyxy given as xywh", "pass box_format='xyxy'")  # fmt: skip
    (run,) = load_predictions(file, box_format="xyxy", **read)
    assert run.boxes.boxes.box[0].tolist() == [300, 200, 320, 200]
    frame = pl.DataFrame({"image": [1, 2], "class": "car", "score": [0.5, 0.6], "xmin": 300,
                          "ymin": 200, "xmax": 100, "ymax": 90})  # fmt: skip
    fails(lambda: load_predictions(frame, data=DATA), "row 1, image 1: 2 boxes with a negative",
          "pass box_format='xywh'")  # fmt: skip
    # one of 100 may leave the image, and any by some pixels
    few = [{**GOOD[0], "bbox": [300, 200, 380, 220 - i]} for i in range(99)]
    few += [{**GOOD[0], "bbox": [300, 200, 640, 480]}]
    (run,) = load_predictions(_json(tmp_path, few), **read)
    assert (len(run.boxes.boxes), run.notes) == (100, ())
    large = [{**GOOD[0], "bbox": [900, 900, 100, 100]}] * 9
    (run,) = load_predictions(_json(tmp_path, large), **read)
    assert "warning: 100.0% of the boxes leave their image" in run.notes[-1]


def test_nothing_detected(tmp_path):
    for content in ("[]", "{}", '{"a.jpg": []}'):
        (tmp_path / "d.json").write_text(content)
        fails(lambda: load_predictions(tmp_path / "d.json"), "contains no detection", "`ids`")
        (run,) = load_predictions(tmp_path / "d.json", data=DATA)
        assert (run.values.tolist(), len(run.boxes.boxes)) == ([[0] * 4] * 3, 0)
        assert "0 boxes" in described([run])
        assert "4 images without any" in described([run])
        (one,) = load_predictions(tmp_path / "d.json", tasks=["car"], ids=["a.jpg"])
        assert (one.tasks, one.image_ids.to_list()) == (("car",), ["a.jpg"])
    (suite_run,) = load_predictions(_json(tmp_path, []), small_suite())
    assert (suite_run.values == 0).all()


def test_what_names_no_image_is_refused(tmp_path):
    summary = [{k: v for k, v in row.items() if k != "image"}
               for row in _summary([(0, 0, (1, 2, 30, 40), 50)])]  # fmt: skip
    fails(lambda: load_predictions(_json(tmp_path, summary), data=DATA), "names no images",
          "result.path")  # fmt: skip
    frame = pl.DataFrame(summary)
    fails(lambda: load_predictions(frame, data=DATA), "names no images: columns name")
    by_image = _json(tmp_path, [summary, []])
    fails(lambda: load_predictions(by_image, data=DATA), "for its 2 elements", "`ids`")
    (run,) = load_predictions(by_image, data=DATA, ids=["d.jpg", "a.jpg"])
    assert (run.image_ids.to_list(), run.values.tolist()) == ([4, 1], [[0.5, 0]])
    other = [{**summary[0], "name": "zebra"}]
    fails(lambda: load_predictions(_json(tmp_path, {"a.jpg": other}), data=DATA),
          "known class; classes are zebra")  # fmt: skip
    (run,) = load_predictions(_json(tmp_path, {"a.jpg": summary + other}), data=DATA)
    assert run.notes == ("1 box of unknown classes are left out: zebra",)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 .5 .5 .1 .1", ["a.txt, line 2: has five numbers", "save_conf=True"]),
        ("0 .1 .2 .3 .4 .5 .6 .7 .8", ["has 9 numbers", "outlines"]),
        ("x .5 .5 .1 .1 .5", ["a.txt, line 2: is 'x .5"]),
        ("0 nan .5 .1 .1 .5", ["NaN"]),
        ("0 .5 .5 .1 .1 1.5", ["score", "not in 0 to 1"]),
        ("9 .5 .5 .1 .1 .5", ["category ids 9"]),
    ],
)
def test_damaged_text_files(tmp_path, line, words):
    (tmp_path / "a.txt").write_text(f"0 .5 .5 .1 .1 .5 7\n{line}\n")
    fails(lambda: load_predictions(tmp_path, data=DATA, classes=CLASSES), *words)


def test_tables_of_several_runs_of_fractions_and_of_open_columns():
    frame = pl.DataFrame({"image": ["a.jpg", "b.jpg"] * 2, "class": "car", "score": [0.5, 0.6] * 2,
                          "x": 0.5, "y": 0.5, "w": 0.2, "h": 0.1, "run": ["p", "q", "q", "p"],
                          })  # fmt: skip
    fails(lambda: load_predictions(frame, data=DATA), "a corner or the center", "`box_format`")
    runs = load_predictions(frame, data=DATA, box_format="cxcywh")
    assert [run.run for run in runs] == ["p", "q"]
    assert [run.boxes.boxes.image.tolist() for run in runs] == [[0, 1], [1, 0]]
    assert all(run.boxes.in_fractions for run in runs)
    np.testing.assert_allclose(runs[0].boxes.boxes.box[0], [0.4, 0.45, 0.2, 0.1])
    assert "2 boxes (a table, as fractions of the image), 2 images without any" in described(runs)
    odd = frame.with_columns(bbox=pl.lit("[1, 2, 3]")).drop("x")
    fails(lambda: load_predictions(odd, data=DATA), "row 1", "not four numbers")
    gap = frame.with_columns(x=pl.when(image="b.jpg").then(0.5))
    fails(lambda: load_predictions(gap, data=DATA, box_format="cxcywh"), "row 1", "NaN")


@settings(max_examples=20)
@given(ROWS, st.integers(1, 400))
def test_slices_of_any_size_are_the_whole(tmp_path_factory, rows, size):
    file = _coco(tmp_path_factory.mktemp("d"), rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "Listing", lambda *parts: decoder.Listing(*parts, size=size))
        (run,) = load_predictions(file, data=DATA, classes=CLASSES)
    _same(run, rows)


def test_a_real_detector(shared_data):
    file = shared_data / "boxes" / "yolox_nano_coco_real.json"
    real = shared_data / "coco-real"
    parts = (("coco128", "train"), ("coco-tiny", "train"), ("coco-tiny", "val"))
    ids, names = set(), {}
    for name, split in parts:
        content = json.loads((real / name / f"annotations/instances_{split}2017.json").read_text())
        ids |= {image["id"] for image in content["images"]}
        names |= {c["id"]: c["name"].replace(" ", "_") for c in content["categories"]}
    rows = json.loads(file.read_text())
    classes = real / "coco128" / "annotations" / "instances_train2017.json"
    (run,) = load_predictions(file, ids=sorted(ids), classes=classes)
    read = "COCO results, classes as instances_train2017.json numbers them"
    assert f"288 images, 20,294 boxes ({read}), 1 image without any" in described([run])
    boxes = run.boxes.boxes
    assert [run.image_ids[int(i)] for i in boxes.image] == [row["image_id"] for row in rows]
    assert [run.tasks[i] for i in boxes.label] == [names[row["category_id"]] for row in rows]
    np.testing.assert_array_equal(boxes.box, [row["bbox"] for row in rows])
    np.testing.assert_array_equal(run.boxes.scores, [row["score"] for row in rows])


def _inside(name, **around):
    return lambda folder, rows: _json(
        folder, {**around, name: json.loads(_coco(folder, rows).read_text())}
    )


def _coco_file(folder, rows):
    """With scores, images of other ids, and categories of other numbers."""
    images = [{"id": 70 + i, "file_name": name} for i, name in enumerate(IMAGES)]
    listed = [{"image_id": 70 + i, "category_id": c + 5, "bbox": box, "score": s / 100, "area": 9}
              for i, c, box, s in rows]  # fmt: skip
    categories = [{"id": c + 5, "name": name} for c, name in enumerate(CLASSES)]
    return _json(folder, {"images": images, "annotations": listed, "categories": categories})


def _folder(write):
    def files_of_images(folder, rows):
        for image, own in _by_image(rows).items():
            (folder / f"{image.split('/')[-1][:-4]}.json").write_text(json.dumps(write(own)))
        return folder

    return files_of_images


def _arrays(boxes, labels, scores):
    return lambda own: {boxes: [_xyxy(box) for _, box, _ in own], labels: [c for c, _, _ in own],
                        scores: [s / 100 for _, _, s in own]}  # fmt: skip


def _as_type(kind):
    def write(folder, rows):
        found = json.loads(_coco(folder, rows).read_text())
        return _json(folder, [{**row, "category_id": kind(row["category_id"])} for row in found])

    return write


def _of_inner(folder, rows):
    images = json.loads(_pipeline(folder, rows).read_text())
    return _json(folder, [{"image": image, "predictions": own} for image, own in images.items()])


def _supervision(folder, rows):
    """As ``CSVSink`` writes it, with the image as custom data."""
    names = ("x_min", "y_min", "x_max", "y_max")
    frame = pl.DataFrame([
        {**dict(zip(names, map(float, _xyxy(box)), strict=True)), "class_id": c,
         "confidence": s / 100, "tracker_id": "", "class_name": CLASSES[c], "image": IMAGES[i]}
        for i, c, box, s in rows
    ])  # fmt: skip
    frame.write_csv(folder / "d.csv")
    return folder / "d.csv"


def _other_spelling(folder, rows):
    rows = [{"image": IMAGES[i], "label": CLASSES[c].replace("_", "-").title(), "score": s / 100,
             "bbox": box} for i, c, box, s in rows]  # fmt: skip
    return _json(folder, rows)


MORE = {
    "annotations": _inside("annotations", info={}),
    "results": _inside("results"),
    "a COCO file with scores": _coco_file,
    "mmdetection's folder": _folder(_arrays("bboxes", "labels", "scores")),
    "a folder of supervision's arrays": _folder(_arrays("xyxy", "class_id", "confidence")),
    "a folder of results": _folder(
        lambda own: {"results": _arrays("boxes", "labels", "scores")(own)}
    ),
    "text": _as_type(str),
    "floats": _as_type(float),
    "text of floats": _as_type(lambda n: f"{n}.0"),
    "predictions of each image": _of_inner,
    "supervision's table": _supervision,
    "another spelling": _other_spelling,
}


@pytest.mark.parametrize("name", MORE)
@settings(max_examples=8)
@given(rows=ROWS)
def test_more_layouts_give_the_same_boxes(tmp_path_factory, name, rows):
    source = MORE[name](tmp_path_factory.mktemp("d"), rows)
    classes = None if name == "a COCO file with scores" else tmp_path_factory.mktemp("c") / "c.json"
    if classes is not None:
        classes.write_text(json.dumps({"id2label": dict(enumerate(CLASSES))}))
    (run,) = load_predictions(source, data=DATA, classes=classes)
    _same(run, rows)


def test_files_of_images_with_ids_of_digits(tmp_path):
    """Also names that several images of a folder may have, and what is no image's own file."""
    for i in (1, 3):
        (tmp_path / f"{i:012}.json").write_text(json.dumps(_arrays("boxes", "labels", "scores")(
            [(0, (300, 200, 320, 200), 50)])))  # fmt: skip
    (run,) = load_predictions(tmp_path, data=DATA, classes=["car"])
    assert (run.image_ids.to_list(), run.values.tolist()) == ([1, 2, 3, 4], [[0.5, 0, 0.5, 0]])
    (tmp_path / "all.json").write_text(json.dumps(GOOD))
    fails(
        lambda: load_predictions(tmp_path, data=DATA, classes=CLASSES),
        "all.json: names images itself",
    )


def test_detections_of_yolov5_without_boxes(tmp_path):
    frame = pl.DataFrame({"Image Name": ["a.jpg", "a.jpg", "d.jpg"],
                          "Prediction": ["car", "fire hydrant", "car"],
                          "Confidence": [0.5, 0.25, 0.75]})  # fmt: skip
    frame.write_csv(tmp_path / "predictions.csv")
    (run,) = load_predictions(tmp_path / "predictions.csv", data=DATA)
    assert (run.tasks, run.image_ids.to_list()) == (("car", "fire_hydrant"), [1, 2, 3, 4])
    assert run.values.tolist() == [[0.5, 0, 0, 0.75], [0.25, 0, 0, 0]]
    odd = frame.with_columns(Confidence=pl.lit("high"))
    fails(lambda: load_predictions(odd, data=DATA), "Confidence is not")


def test_numbers_of_classes_with_fractions_are_refused():
    frame = pl.DataFrame({"image": ["a.jpg"], "cls": [0.5], "score": [0.5], "x1": 1, "y1": 2,
                          "x2": 30, "y2": 40})  # fmt: skip
    fails(lambda: load_predictions(frame, data=DATA, classes=CLASSES), "cls has fractions")


def test_boxes_that_are_repeated_count_with_a_note(tmp_path):
    (run,) = load_predictions(_json(tmp_path, [GOOD[0]] * 3), data=DATA, classes=CLASSES)
    assert len(run.notes) == 1
    assert (
        "2 boxes repeat the image, class, score and position of another box: each"
    ) in run.notes[0]
    assert len(run.boxes.boxes) == 3
