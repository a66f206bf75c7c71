"""Detections matched to objects: by hand, against pycocotools, and on a real detector's boxes."""

import json
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO

import numpy as np
import polars as pl
import pytest
from coco_files import document, image, write
from hypothesis import given, strategies as st
from planted import planted_detector

import nooch
from nooch.base.errors import ParameterError
from nooch.data import Dataset
from nooch.evaluation.boxes import matching
from nooch.evaluation.boxes.matched import MatchedRun
from nooch.evaluation.boxes.matching import Boxes, match_boxes


def boxes(rows):
    """Boxes of (image, class, left, top, width, height)."""
    table = np.array(rows, np.float64).reshape(-1, 6)
    return Boxes(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2:])


def by_pycocotools(found, scores, objects, crowd, ignored, iou):
    """Position of each detection's object (-1: none), and whether it counts, as pycocotools has."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    class Judge(COCOeval):
        def _prepare(self):
            super()._prepare()
            # it overwrites ``ignore`` by ``iscrowd``, although its matching knows both
            for annotations in self._gts.values():
                for annotation in annotations:
                    annotation["ignore"] |= ignored[annotation["id"] - 1]

    with redirect_stdout(StringIO()):
        truth, results = COCO(), COCO()
        images = [{"id": int(i)} for i in {*found.image.tolist(), *objects.image.tolist()}]
        labels = [{"id": int(k)} for k in {*found.label.tolist(), *objects.label.tolist()}]
        truth.dataset = {"images": images, "categories": labels, "annotations": [
            {"id": n + 1, "image_id": int(objects.image[n]), "category_id": int(objects.label[n]),
             "bbox": objects.box[n].tolist(), "area": 1.0, "iscrowd": int(crowd[n])}
            for n in range(len(objects))
        ]}  # fmt: skip
        results.dataset = {"images": images, "categories": labels, "annotations": [
            {"id": n + 1, "image_id": int(found.image[n]), "category_id": int(found.label[n]),
             "bbox": found.box[n].tolist(), "area": 1.0, "iscrowd": 0, "score": float(scores[n])}
            for n in range(len(found))
        ]}  # fmt: skip
        truth.createIndex()
        results.createIndex()
        judge = Judge(truth, results, "bbox")
        judge.params.iouThrs = np.array(iou)
        judge.params.areaRng, judge.params.areaRngLbl = [[0, 1e10]], ["all"]
        judge.evaluate()
    matched = np.full((len(iou), len(found)), -1)
    counted = np.zeros(matched.shape, bool)
    for cell in filter(None, judge.evalImgs):
        rows = np.array(cell["dtIds"], int) - 1
        matched[:, rows] = cell["dtMatches"].astype(int) - 1
        counted[:, rows] = ~cell["dtIgnore"].astype(bool)
    return matched, counted


sides = st.integers(0, 6).map(float)
places = st.tuples(st.integers(0, 1), st.integers(0, 1), sides, sides, sides, sides)
"""On a coarse grid, so that overlaps are often equal or exactly at the threshold."""


@given(
    st.lists(st.tuples(places, st.integers(0, 3)), max_size=12),
    st.lists(st.tuples(places, st.booleans(), st.booleans()), max_size=8),
)
def test_matches_equal_pycocotools(found, objects):
    scores = np.array([score for _, score in found]) / 3
    kinds = np.array([kinds for _, *kinds in objects], bool).reshape(-1, 2).T
    mine, others = boxes([box for box, _ in found]), boxes([box for box, *_ in objects])
    iou = (0.5, 0.75, 1.0)
    result = match_boxes(mine, scores, others, *kinds, iou=iou)
    expected = by_pycocotools(mine, scores, others, *kinds, iou)
    np.testing.assert_array_equal(result.matched, expected[0])
    np.testing.assert_array_equal(result.is_counted, expected[1])


def test_matching_in_pieces_changes_nothing(monkeypatch):
    draw = np.random.default_rng(0)
    found, objects = (
        boxes(np.c_[draw.integers(0, 3, (n, 2)), draw.integers(0, 9, (n, 4))]) for n in (300, 80)
    )
    scores, crowd = draw.random(300), draw.random(80) < 0.2
    whole = match_boxes(found, scores, objects, crowd, crowd & False, most=20)
    monkeypatch.setattr(matching, "_PAIRS", 7)
    pieces = match_boxes(found, scores, objects, crowd, crowd & False, most=20)
    for name in ("matched", "is_counted", "overlap"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))
    assert (whole.matched >= 0).any()
    assert not whole.is_counted.all()


def test_duplicates_crowds_and_near_misses_by_hand():
    objects = boxes([(0, 0, 0, 0, 10, 10), (0, 0, 50, 0, 20, 10), (0, 1, 0, 0, 10, 10)])
    found = boxes([
        (0, 0, 0, 0, 10, 9), (0, 0, 0, 0, 10, 10), (0, 0, 50, 0, 10, 10), (0, 0, 0, 5, 10, 10),
        (0, 1, 0, 0, 10, 10), (1, 0, 0, 0, 10, 10),
    ])  # fmt: skip
    crowd = np.array([False, True, False])
    result = match_boxes(found, np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]), objects, crowd, crowd)
    # a crowd covers all of the third box: its overlap is the share of the detection
    assert result.matched[0].tolist() == [0, -1, 1, -1, 2, -1]
    assert result.is_counted[0].tolist() == [True, True, False, True, True, True]
    np.testing.assert_allclose(result.overlap, [0.9, 1, 0, 1 / 3, 1, 0])


def test_the_first_100_detections_of_a_class_in_an_image_count():
    apart = [(0, 0, 100 + 20 * k, 0, 10, 10) for k in range(99)]
    found = boxes([*apart, (0, 0, 0, 0, 10, 10), (0, 0, 50, 0, 10, 10), (0, 1, 0, 0, 10, 10)])
    objects = boxes([(0, 0, 0, 0, 10, 10), (0, 0, 50, 0, 10, 10), (0, 1, 0, 0, 10, 10)])
    none = np.zeros(3, bool)
    result = match_boxes(found, np.linspace(0.9, 0.1, 102), objects, none, none)
    assert result.matched[0, 98:].tolist() == [-1, 0, -1, 2]
    assert result.is_counted[0, 98:].tolist() == [True, True, False, True]


def test_of_equal_overlaps_the_later_object_is_taken():
    """As pycocotools does: it passes by what is less than the best so far."""
    same = boxes([(0, 0, 0, 0, 10, 10)] * 2)
    none = np.zeros(2, bool)
    result = match_boxes(same, np.array([0.9, 0.8]), same, none, none)
    assert result.matched[0].tolist() == [1, 0]


def test_equal_boxes_overlap_by_1_whatever_is_rounded():
    box = boxes([(0, 0, 8.6, 0.3, 7.3, 1.8)])
    result = match_boxes(box, np.ones(1), box, *np.zeros((2, 1), bool), iou=[1.0])
    assert result.overlap[0] < 1
    assert result.matched.tolist() == [[0]]


@pytest.fixture(scope="module")
def real(shared_data):
    """Detections of YOLOX-nano, their scores, the objects of its images, and their crowds."""
    files = sorted((shared_data / "coco-real").glob("*/annotations/instances_*.json"))
    annotations = [a for file in files for a in json.loads(file.read_bytes())["annotations"]]
    results = json.loads((shared_data / "boxes/yolox_nano_coco_real.json").read_bytes())
    found, objects = (
        boxes([(r["image_id"], r["category_id"], *r["bbox"]) for r in rows])
        for rows in (results, annotations)
    )
    crowd = np.array([a["iscrowd"] for a in annotations], bool)
    return found, np.array([r["score"] for r in results]), objects, crowd


def test_matches_of_a_real_detector_equal_pycocotools(real):
    found, scores, objects, crowd = real
    iou = np.linspace(0.5, 0.95, 10)
    result = match_boxes(found, scores, objects, crowd, crowd & False, iou=iou)
    matched, counted = by_pycocotools(found, scores, objects, crowd, crowd & False, iou)
    np.testing.assert_array_equal(result.matched, matched)
    np.testing.assert_array_equal(result.is_counted, counted)


def test_a_real_detector_finds_what_is_known(real):
    """Figures that were computed outside this project, at a score of .3 and an overlap of .5."""
    found, scores, objects, crowd = real
    result = match_boxes(found, scores, objects, crowd, crowd & False)
    hits = (result.matched[0] >= 0) & result.is_counted[0] & (scores >= 0.3)
    is_found = np.zeros(len(objects), bool)
    is_found[result.matched[0, hits]] = True
    assert ((~crowd).sum(), is_found.sum()) == (2432, 964)
    pairs, pairs_found = (1000 * side.image + side.label for side in (objects, found))
    missed, claimed = pairs[~crowd & ~is_found], pairs_found[scores >= 0.3]
    assert len(np.unique(pairs[~crowd])) == 988
    assert len(np.intersect1d(missed, claimed)) == 215


@pytest.fixture(scope="module")
def planted():
    data, run, truth = planted_detector()
    attribute = nooch.Attribute("(y = 1) <> present(road)")
    suite = nooch.find(data, {"road": attribute}, tasks=["car"], splits=["all"])
    return data, suite, run, truth


def test_scores_of_boxes_are_those_of_the_planted_detector(planted):
    data, suite, run, truth = planted
    scores = nooch.evaluate(suite, run, boxes=True, dataset=data, bootstrap=50)
    for metric, sign in (("missed", "positive"), ("false_boxes", "negative")):
        found = [scores.value(metric, f"{subset}_{sign}") for subset in ("hard", "easy")]
        np.testing.assert_allclose(found, truth[metric])
    row = scores.table.filter(metric="missed", subset="hard_positive").row(0, named=True)
    assert row["low"] < row["value"] < row["high"]
    assert scores.value("average_recall", "easy_positive") == pytest.approx(1 - truth["missed"][1])
    assert scores.value("duplicates", "all") == scores.value("misplaced", "all") == 0
    missed, claimed = scores.box_effects.rows(named=True)
    assert missed["low"] < 0.3 < missed["high"]
    assert claimed["low"] < 0.28 < claimed["high"]
    assert max(missed["p"], claimed["p"]) < 1e-6
    assert "objects out of context are missed" in scores.headlines[0]


SIDES = [(side, empty) for side in ("positive", "negative")
         for empty in (("hard",), ("easy",), ("hard", "easy"))]  # fmt: skip


@pytest.mark.parametrize(("side", "empty"), SIDES)
def test_a_side_without_anything_is_null_with_its_reason(planted, side, empty):
    """A headline makes no number of it, and of each side that has something one."""
    data, suite, run, _ = planted
    challenge = suite.set("road", "car", "all")
    left_out = [i for kind in empty for i in challenge.ids(f"{kind}_{side}")]
    part = data.select(rows=~data.images["image_id"].is_in(left_out).to_numpy())
    road = {"road": nooch.Attribute("(y = 1) <> present(road)")}
    some = nooch.find(part, road, tasks=["car"], splits=["all"])
    reading = {"ignore_unknown": True}
    scores = nooch.evaluate(some, run, boxes=True, dataset=part, bootstrap=0, reading=reading)
    (row,) = scores.box_effects.filter(side=side).rows(named=True)
    assert row["reason"] == " and ".join(f"no detections on {kind} images" for kind in empty)
    assert [row["effect"], *(row[f"rate_{kind}"] for kind in empty)] == [None] * (1 + len(empty))
    (line,) = [text for text in scores.headlines if ("and size" in text) == (side == "positive")]
    assert "nan" not in line.lower()
    assert "None" not in line
    assert f"not comparable: {row['reason']}" in line
    for kind in {"hard", "easy"} - {*empty}:
        times = 100 if side == "positive" else 1000
        assert f"{times * row[f'rate_{kind}']:.{int(times == 1000)}f}" in line


def test_effects_are_of_the_splits_that_are_scored(planted):
    data, _, run, _ = planted
    split = pl.Series("split", ["train", "valid", "test", "test"] * (len(data) // 4))
    parts = Dataset.build(
        data.images.with_columns(split), data.classes, data.areas, objects=data.objects
    )
    road = {"road": nooch.Attribute("(y = 1) <> present(road)")}
    suite = nooch.find(parts, road, tasks=["car"], splits=["valid", "test"])
    how = {"boxes": True, "dataset": parts, "split": "test", "reading": {"ignore_unknown": True}}
    effects = nooch.evaluate(suite, replace(run, images_of=""), **how).box_effects
    assert effects["split"].to_list() == ["test", "test"]


def test_a_threshold_and_conditions_apply_to_boxes(planted):
    data, suite, run, _ = planted
    asked = {"boxes": True, "dataset": data, "metrics": ["missed"], "threshold": 0.95}
    scores = nooch.evaluate(suite, run, fail_if=["missed@hard_positive[road,car]>0.9"], **asked)
    assert scores.value("missed", "hard_positive") == 1
    assert [verdict.fired for verdict in scores.verdicts] == [True]


def test_boxes_are_refused_where_they_cannot_be_scored(planted):
    data, suite, run, _ = planted
    with pytest.raises(ParameterError, match="needs objects to match the boxes to"):
        nooch.evaluate(suite, run, metrics=["missed"])
    with pytest.raises(ParameterError, match="have no boxes"):
        nooch.evaluate(suite, replace(run, boxes=None), boxes=True, dataset=data)
    with pytest.raises(ParameterError, match="split valid, which the dataset lacks"):
        nooch.evaluate(suite, run, boxes=True, dataset=data, threshold="f1")


def test_the_largest_f1_by_hand(planted):
    """Scores .9 for boxes of objects, .4 for others: any limit between has no false box."""
    data, _, run, _ = planted
    objects = set(data.objects["image_id"])
    hit = np.isin(run.boxes.boxes.image, list(objects))
    scored = replace(run, boxes=replace(run.boxes, scores=np.where(hit, 0.9, 0.4)))
    matched = MatchedRun.match(scored, data)
    assert matched.f1_limits(run.image_ids) == {"car": pytest.approx(0.65)}


def test_the_context_effect_of_a_real_detector(shared_data, run_cli, tmp_path):
    """Claims follow the context, misses within a size do not: as computed outside this project."""
    things = sorted((shared_data / "coco-real").glob("*/annotations/instances_*.json"))
    listed = " ".join(f"--things {file}" for file in things)
    run_cli(f"import coco {listed} {tmp_path / 'data'}").ok()
    suite = tmp_path / "suite"
    run_cli(f"find {tmp_path / 'data'} --criterion context --lift 1 --out {suite}").ok()
    detections = shared_data / "boxes/yolox_nano_coco_real.json"
    ran = run_cli(f"evaluate {suite} {detections} --boxes --threshold 0.3 --format json")
    missed, claimed = json.loads(ran.ok().out)["box_effects"]
    assert missed["low"] < 0 < missed["high"]
    assert claimed["rate_hard"] / claimed["rate_easy"] > 4
    assert claimed["p"] < 1e-5


@pytest.mark.parametrize("names", [{4: "car"}, {4: "car", 9: "wine glass"}])
@pytest.mark.parametrize("size", ["", "--part-size 20"])
def test_an_image_set_without_objects_has_false_boxes(names, size, run_cli, tmp_path):
    """Every image is easy: no criterion can be fitted, and none is said to be undefined."""
    images, numbers = [image(i, 99, 99) for i in range(1, 51)], [*names]
    write(tmp_path / "empty.json", document(images, categories=names))
    found = [
        {"image_id": i, "category_id": numbers[i % len(names)], "bbox": [9, 9, 9, 9], "score": 0.9}
        for i in range(1, 11)
    ]
    write(tmp_path / "found.json", found)
    run = partial(run_cli, cwd=tmp_path)
    run(f"import coco --things empty.json ds {size}").ok()
    asked = ("context", "ce", "ce & context")
    for number, criterion in enumerate(asked):
        made = run(f"find ds --criterion '{criterion}' --out {number}").ok()
        assert "every image is easy, by the criterion 'no context'" in made.err.replace("\n", " ")
        scores = run(f"evaluate {number} found.json --boxes --format json").ok().json
        (claimed,) = [row for row in scores["box_effects"] if row["side"] == "negative"]
        assert claimed["rate_easy"] == pytest.approx(10 / 50 / len(names))
        assert claimed["reason"] == "no detections on hard images"
        assert not any("nan" in line for line in scores["headlines"])
    checked = run("check ds found.json --out checked").ok()
    assert "no context in which to compare the errors" in checked.out
    assert f"{10 // len(names)} of 50" in checked.out
    table = nooch.load_suite(tmp_path / "checked" / "suite")
    assert {criterion for criterion, _, _ in table.keys} == {"no context"}
    slices = json.loads((tmp_path / "checked" / "findings.json").read_text())
    assert slices["findings"] == []
