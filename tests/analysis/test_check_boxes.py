"""check, findings and slices of detections: objects are counted, not images."""

from dataclasses import replace
from functools import wraps

import numpy as np
import polars as pl
import pytest
from planted import planted_detector
from refusals import fails

import nooch
from nooch.analysis.slices import SliceSide
from nooch.base.errors import ParameterError
from nooch.evaluation import Predictions, prediction_files
from nooch.evaluation.boxes.matched import MatchedRun
from nooch.evaluation.boxes.matching import Boxes, Detections
from nooch.evaluation.judged import judge_runs
from nooch.evaluation.metrics.proportions import wilson_of_groups
from nooch.evaluation.metrics.rate_gaps import rate_gap
from nooch.evaluation.rate_words import percent
from nooch.report.images.choice import TaskView
from nooch.report.images.thumbnails import SplitImages
from nooch.report.site.cards import image_card


@pytest.fixture(scope="module")
def planted():
    return planted_detector()


@pytest.fixture(scope="module")
def checked(planted, tmp_path_factory):
    data, run, _ = planted
    out = tmp_path_factory.mktemp("check") / "out"
    return nooch.check(data, run, out, criterion=["ce"], bootstrap=20, stability=0)


def by_hand(data, run):
    """For each car its image, whether a box of its left side found it, and if there is a road."""
    left = set(zip(run.boxes.boxes.image.tolist(), run.boxes.boxes.box[:, 0], strict=True))
    rows = data.objects.select("image_id", "left", "width").rows()
    road = data.labels("road")
    return [(image, (image, at) not in left, not road[image], side) for image, at, side in rows]


def test_findings_count_objects_within_sizes(planted, checked):
    data, run, truth = planted
    row = checked.findings.table.row(by_predicate=pl.col("side") == "positive", named=True)
    image, missed, no_road, side = map(np.array, zip(*by_hand(data, run), strict=True))
    assert (row["cue"], row["of_boxes"], row["by_size"]) == ("road", True, True)
    assert (row["n_misleading"], row["n_usual"]) == (no_road.sum(), (~no_road).sum())
    assert row["rate_misleading"] == pytest.approx(truth["missed"][0])
    sizes = np.searchsorted([16, 32, 64, 96, 160], side, "right")
    gap = rate_gap(missed, no_road, sizes, image)
    assert [row[name] for name in ("effect", "low", "high")] == [gap.effect, gap.low, gap.high]
    assert (row["rate_low"], row["rate_high"]) == wilson_of_groups(missed[no_road], image[no_road])
    claims = checked.findings.table.row(by_predicate=pl.col("side") == "negative", named=True)
    assert 1000 * claims["rate_misleading"] == pytest.approx(truth["false_boxes"][0])
    assert set(checked.findings.table["verdict"]) == {"worse"}


def test_words_errors_and_scores_are_of_objects(planted, checked):
    data, run, truth = planted
    rates = " against ".join(percent(rate) for rate in truth["missed"])
    context = [one for one in checked.answer.findings if one.kind == "context"]
    missed = next(one for one in context if "misses" in one.sentence)
    assert rates in missed.sentence
    n_without = sum(bool(no_road) for *_, no_road, _ in by_hand(data, run))
    assert f"of {n_without:,} cars" in missed.full
    ((task, _, objects, images),) = checked.errors.rows
    everything = [lost for _, lost, *_ in by_hand(data, run)]
    assert (task, objects) == ("car", f"{sum(everything):,} of {len(everything):,}")
    assert images.endswith(f"of {int((~data.labels('car')).sum()):,}")
    found = checked.scores.value("missed", "hard_positive", run="detector")
    assert found == pytest.approx(truth["missed"][0])
    # runs without boxes have no objects that are missed
    baselines = checked.scores.table.filter(pl.col("run").str.starts_with("baseline"))
    assert baselines.filter(metric="missed")["value"].null_count() == len(
        baselines.filter(metric="missed")
    )
    assert any("boxes count above the score 0.5" in note for note in checked.notes)


def test_images_show_boxes_and_missed_objects_are_dashed(planted, checked):
    data, run, _ = planted
    lost = {}
    for image, is_lost, *_ in by_hand(data, run):
        lost.setdefault(image, []).append(is_lost)
    shown = [image for one in checked.answer.findings for image in one.shown]
    assert shown
    for image in shown:
        expected = lost.get(int(image.image_id), [])
        assert len(image.boxes.missed) == sum(expected)
        assert len(image.boxes.found) == len(expected) - sum(expected)
        assert image.boxes.svg.count("stroke-dasharray") == sum(expected)
        assert (image.boxes.width, image.boxes.height) == (400, 100)
        if expected:
            assert image.answered == f"{sum(expected)} of {len(expected)} missed"
            assert image.wrong == any(expected)
        else:
            assert image.wrong == bool(image.boxes.false)


def test_slices_count_objects(planted):
    data, run, truth = planted
    found = nooch.find_slices(data, run)
    row = found.table.row(by_predicate=pl.col("side") == "positive", named=True)
    missed = [lost for _, lost, no_road, _ in by_hand(data, run) if no_road]
    assert row["conditions"] == ["without a road"]
    assert (row["errors"], row["n"], row["confirmed"]) == (sum(missed), len(missed), True)
    assert row["of_boxes"]
    assert row["rate_rest"] == pytest.approx(truth["missed"][1])
    assert f"{sum(missed):,} of {len(missed):,} missed" in found.sentences()[0]


def test_answers_after_a_detector_are_counted_by_image(planted, monkeypatch):
    data, run, _ = planted
    values = np.where(data.labels("car"), 1.0, -1.0)
    answers = Predictions.from_arrays(values, data.image_ids, "car", scale="logit", run="answers")
    sides, tested = [], SliceSide.tested

    def recorded(side, *more):
        sides.append(side)
        return tested(side, *more)

    monkeypatch.setattr(SliceSide, "tested", recorded)
    nooch.find_slices(data, [run, answers], tasks=["car"])
    detected, answered = sides[:2]
    of_images = [(one.holds & answered.images).sum() for one in answered.conditions]
    assert np.diag(sum(answered.n)).tolist() == of_images
    assert np.diag(sum(detected.n)).tolist() != of_images


def test_false_boxes_are_counted_and_name_what_to_collect(planted):
    """A second box next to each claim: boxes are counted, not only images."""
    data, run, truth = planted
    boxes = run.boxes.boxes
    empty = np.flatnonzero(~data.labels("car")[boxes.image])
    more = Boxes(boxes.image[empty], boxes.label[empty], boxes.box[empty] + [200, 0, 0, 0])
    both = Boxes(*(np.concatenate([getattr(b, name) for b in (boxes, more)])
                   for name in ("image", "label", "box")))  # fmt: skip
    run = replace(run, boxes=Detections(both, np.full(len(both), 0.9)))
    found = nooch.find_slices(data, run)
    row = found.table.row(by_predicate=pl.col("side") == "negative", named=True)
    per_image = [2 * rate / 1000 for rate in truth["false_boxes"]]
    assert [row["false_boxes"], row["false_boxes_rest"]] == pytest.approx(per_image)
    here, elsewhere = (f"{1000 * rate:.0f}" for rate in per_image)
    words = f"{here} false cars per 1,000 images, {elsewhere} elsewhere"
    (sentence,) = found.to_collect
    assert sentence == (
        f"to collect: images with a road but no car: {words} (phi: NOT present(car) AND"
        " present(road))"
    )
    assert any(words in text for text in found.sentences())


def test_objects_of_one_image_that_err_together_widen_the_interval():
    draw = np.random.default_rng(0)
    image = np.repeat(np.arange(200), 4)
    together = np.repeat(draw.random(200) < 0.3, 4)
    low, high = wilson_of_groups(together, image)
    alone = wilson_of_groups(together, None)
    assert (high - low) / (alone[1] - alone[0]) == pytest.approx(2, abs=0.2)
    assert (
        wilson_of_groups(together & False, image)[1] > wilson_of_groups(together & False, None)[1]
    )


def test_the_threshold_is_chosen_on_valid_where_it_has_detections(planted, tmp_path):
    data, run, _ = planted
    thirds = pl.Series("split", [("train", "valid", "test")[i % 3] for i in range(len(data))])
    split = nooch.Dataset.build(
        data.images.with_columns(thirds), data.classes, data.areas, objects=data.objects
    )
    low = replace(run, boxes=replace(run.boxes, scores=run.boxes.scores / 3), values=run.values / 3)
    options = {"criterion": ["ce"], "bootstrap": 0, "stability": 0, "slices": False}
    checked = nooch.check(split, low, tmp_path / "out", **options)
    (note,) = (note for note in checked.notes if "largest F1 on" in note)
    assert "car 0.15" in note
    n = split.images.filter(split="valid").height
    assert f"on {n} images of valid" in note
    assert not [note for note in checked.notes if "chosen on fewer than" in note]
    ids = pl.col("image_id").is_in(split.images.filter(split="valid")["image_id"][:9].implode())
    rest = pl.when(pl.col("split") != "valid").then("split").when(ids).then(pl.lit("valid"))
    small = nooch.Dataset.build(
        split.images.with_columns(split=rest.otherwise(pl.lit("train"))),
        data.classes, data.areas, objects=data.objects,
    )  # fmt: skip
    having = int(small.select("valid").labels("car").sum())
    notes = nooch.check(small, low, tmp_path / "few", **options).notes
    (few,) = (note for note in notes if "chosen on fewer than 20 images" in note)
    assert f"car ({having})" in few
    assert checked.findings.table["rate_usual"].max() < 0.2
    strict = nooch.check(split, low, tmp_path / "strict", threshold=0.5, **options)
    assert strict.findings.table.filter(side="positive")["rate_usual"][0] == 1
    with pytest.raises(ParameterError, match="the threshold is 2"):
        nooch.check(split, low, tmp_path / "other", threshold=2.0, **options)
    assert not (tmp_path / "other").exists()


def test_runs_are_read_and_matched_once_in_a_check(planted, tmp_path, monkeypatch):
    """Findings, slices, scores and the page take the same matches."""
    data, run, _ = planted
    calls, reads, load = [], [], prediction_files.load_predictions
    counted = wraps(load)(lambda *given, **how: reads.append(given) or load(*given, **how))
    monkeypatch.setattr(prediction_files, "load_predictions", counted)
    match = MatchedRun.match.__func__
    monkeypatch.setattr(
        MatchedRun,
        "match",
        classmethod(
            lambda cls, run, *args, **how: calls.append(run.run) or match(cls, run, *args, **how)
        ),
    )
    nooch.check(data, run, tmp_path / "checked", bootstrap=0, stability=0)
    assert calls == [run.run]
    assert len(reads) == 1


def test_cards_of_a_report_draw_boxes(planted, tmp_path):
    """Next to the numbers of each kind; scores on the page are of the outputs as they are."""
    data, run, _ = planted
    suite = nooch.find(data, nooch.CE(), tasks=["car"], splits=["all"])
    images = SplitImages.from_split(suite, "all", data)
    judged = judge_runs(run, data, "all")
    assert judged.limit == 0.5
    view = TaskView("car", data.labels("car").astype(np.int8), {})
    lost = pl.DataFrame(by_hand(data, run), ["image", "lost", "no_road", "side"], orient="row")
    for row in (*range(40), *run.boxes.boxes.image[-5:].tolist()):
        card = image_card(view, images, "ce", row, judged.runs[0])
        own = lost.filter(image=row)
        expected = {"found": (~own["lost"]).sum(), "missed": own["lost"].sum()}
        expected["false boxes"] = int(not len(own) and row in run.boxes.boxes.image)
        assert dict(card.lines) == {kind: str(n) for kind, n in expected.items() if n}
    sources = nooch.paper.Sources(suite=suite, data=data, predictions=run, bootstrap=0)
    page = nooch.write_report(sources, tmp_path / "site").path / "examples.html"
    assert "missed" in page.read_text()


def test_the_results_page_of_a_check_has_the_scores_of_the_outputs(planted, checked):
    alone = nooch.evaluate(checked.suite, planted[1], split="all")
    page = (checked.page.parent / "results.html").read_text()
    assert f">{alone.value('nll', 'hard_positive'):.3f} [" in page


def test_a_detector_of_one_class_is_compared_without_any_context(planted, tmp_path):
    """Of a model that misses all cars but those on the left."""
    data, run, _ = planted
    boxes = run.boxes.boxes
    left = boxes.box[:, 0] < 100
    kept = Boxes(boxes.image[left], boxes.label[left], boxes.box[left])
    new = replace(run, run="new", boxes=Detections(kept, run.boxes.scores[left]))
    of_car = data.areas[:, [0]]
    one = nooch.Dataset.build(data.images, ["car"], of_car, objects=data.objects)
    checked = nooch.check(one, [new, run], tmp_path / "a", baseline="detector", bootstrap=0)
    assert any("car is the only class" in note for note in checked.notes)
    row = checked.comparison.table.filter(side="positive").row(0, named=True)
    after, before = (np.mean([lost for _, lost, *_ in by_hand(data, r)]) for r in (new, run))
    assert (row["rate"], row["rate_before"]) == (pytest.approx(after), pytest.approx(before))
    assert (row["n"], row["verdict"]) == (len(data.objects), "worse")
    assert "new misses cars more often than detector" in checked.answer.text()
    size = nooch.check(one, new, tmp_path / "b", bootstrap=0)
    assert size.slices is not None
    assert size.page.is_file()
    bare = nooch.Dataset.build(data.images, ["car"], of_car * np.nan)
    answers = pl.DataFrame({"image_id": data.image_ids, "task": "car", "logit": 1.5})
    fails(lambda: nooch.check(bare, answers, tmp_path / "c"), "car is the only class")
