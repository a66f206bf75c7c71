"""Ultralytics' ``image_metrics``, per image tp, fp and fn of any class: read as outcomes."""

import json
from functools import partial

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of
from planted import planted_detector
from refusals import fails

import nooch
from nooch.base.errors import ParameterError
from nooch.data import load_dataset, save_dataset
from nooch.data.any_class import FALSE_BOX, OBJECT, with_any_class
from nooch.evaluation.boxes.matched import MatchedRun

N = 300


def written(folder, counts, keys=("precision", "recall", "f1", "tp", "fp", "fn")):
    """A file as ``json.dump(metrics.box.image_metrics)`` writes it; ``counts``: tp, fp, fn."""
    folder.mkdir(exist_ok=True)
    content = {}
    for name, (tp, fp, fn) in counts.items():
        precision, recall = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
        both = precision + recall
        values = precision, recall, 2 * precision * recall / both if both else 0.0, tp, fp, fn
        listed = dict(zip(("precision", "recall", "f1", "tp", "fp", "fn"), values, strict=True))
        content[name] = {key: listed[key] for key in keys}
    (folder / "image_metrics.json").write_text(json.dumps(content))
    return folder / "image_metrics.json"


@pytest.fixture(scope="module")
def world():
    """Images of cars, trucks, persons and nothing; more is missed and claimed next to trucks."""
    draw = np.random.default_rng(7)
    classes = ["car", "truck", "person"]
    shown = draw.random((N, 3)) < [0.5, 0.3, 0.4]
    there = [{c: 0.05 for c, one in zip(classes, row, strict=True) if one} for row in shown]
    data = dataset_of(there, classes, ["valid"] * N)
    names = [f"{i:03}.jpg" for i in range(N)]
    data = nooch.Dataset.build(data.images.with_columns(file_name=pl.Series(names)), classes,
                               data.areas)  # fmt: skip
    counts = {}
    for name, (car, truck, person) in zip(names, shown, strict=True):
        n = int(car) * 2 + int(truck) + int(person)
        fn = int(draw.binomial(n, 0.5 if truck else 0.1))
        counts[name] = n - fn, int(draw.poisson(2 if truck else 0.2)), fn
    return data, counts, shown[:, 1]


def test_slices_of_any_class_have_the_counts_of_a_plain_loop(world, tmp_path):
    data, counts, truck = world
    found = nooch.find_slices(data, written(tmp_path, counts))
    rows = {row["task"]: row for row in found.table.filter(conditions=["with a truck"]).to_dicts()}
    inside = [c for c, there in zip(counts.values(), truck, strict=True) if there]
    other = [c for c, there in zip(counts.values(), truck, strict=True) if not there]
    missed, claimed = rows["annotated object"], rows["false box"]
    assert (missed["errors"], missed["n"]) == (sum(fn for *_, fn in inside),
                                               sum(tp + fn for tp, _, fn in inside))  # fmt: skip
    assert missed["rate_rest"] == pytest.approx(
        sum(fn for *_, fn in other) / sum(tp + fn for tp, _, fn in other)
    )
    assert (claimed["errors"], claimed["n"]) == (sum(fp > 0 for _, fp, _ in inside), len(inside))
    assert claimed["false_boxes"] == pytest.approx(np.mean([fp for _, fp, _ in inside]))
    assert claimed["false_boxes_rest"] == pytest.approx(np.mean([fp for _, fp, _ in other]))
    assert missed["false_boxes"] is None
    for row in (missed, claimed):
        assert row["confirmed"]
        assert not row["by_size"]
        assert row["phi"] == "present(truck)"
    words = f"images with a truck: {claimed['false_boxes']:.1f} false boxes per image,"
    assert found.to_collect[0].startswith(f"to collect: {words}")
    assert "Annotated objects in images with a truck: " in "\n".join(found.sentences())
    # nothing is about the two tasks, which are no classes
    assert not {*found.table["about"].explode()} & {"annotated object", "false box"}


def test_a_check_opens_with_slices(world, tmp_path):
    data, counts, _ = world
    checked = nooch.check(data, written(tmp_path, counts), tmp_path / "out", bootstrap=0)
    first, second, *_ = checked.answer.numbered
    assert first.phi == second.phi == "present(truck)"
    assert "annotated objects in images with a truck" in checked.answer.text()
    errors = {row[0]: row[2:] for row in checked.errors.rows}
    n = sum(tp + fn for tp, _, fn in counts.values())
    assert errors["annotated object"][0] == f"{sum(c[2] for c in counts.values()):,} of {n:,}"
    assert errors["false box"][1] == f"{sum(c[1] > 0 for c in counts.values()):,} of {N:,}"
    assert not checked.answer.left_out
    assert checked.page.is_file()


def test_commands_after_a_check_have_its_dataset(world, tmp_path, run_cli):
    """Its tasks are no classes of the dataset, which is found and known all the same."""
    data, counts, _ = world
    save_dataset(data, tmp_path / "data")
    out = tmp_path / "out"
    given = written(tmp_path, counts)
    run_cli(f"check {tmp_path / 'data'} {given} --out {out} --bootstrap 0").ok()
    run_cli(f"export {out} {tmp_path / 'csv'} --to csv --finding 1").ok()
    explained = run_cli(f"explain {out} --task 'annotated object' --image {data.image_ids[0]}")
    assert "annotated object is" in explained.ok().out
    run_cli(f"slices {out / 'suite'} {given} --dataset {tmp_path / 'data'}").ok()
    run_cli(f"report {out / 'suite'} --predictions {given} --out {tmp_path / 'page'}").ok()


def test_classes_of_any_class_have_the_union_of_presences():
    areas = [{"a": 0.0}, {}, {"a": 0.5, "b": 0.25}, {"b": float("nan")}]
    data = dataset_of(areas, ["a", "b"], ["all"] * 4)
    view = with_any_class(data)
    assert view.labels(OBJECT).tolist() == [True, False, True, True]
    assert not view.labels(FALSE_BOX).any()
    np.testing.assert_array_equal(view.area(OBJECT), [0, 0, 0.75, np.nan])
    assert view.classes == ("a", "b", OBJECT, FALSE_BOX)
    assert with_any_class(view) is view


def test_no_class_has_the_name_of_a_count(tmp_path, run_cli):
    """Counts would be taken for its images; files have the name with an underscore."""
    for name in (OBJECT, FALSE_BOX):
        fails(lambda name=name: dataset_of([{name: 0.5}], [name, "b"], ["all"]), name, "_")
        table = pl.DataFrame({"id": [1, 2], "class": [name, "b"]})
        table.write_csv(tmp_path / "t.csv")
        out = tmp_path / name
        run_cli(f"import table {tmp_path / 't.csv'} '{out}' --id id --class class").ok()
        assert with_any_class(load_dataset(out)).labels(OBJECT).tolist() == [True, True]


def test_counts_of_a_matched_detector_are_its_outcomes(tmp_path):
    """One class: objects missed are those that boxes with scores and classes miss."""
    data, run, _ = planted_detector()
    found = MatchedRun.match(run, data, recall=False).found({})
    tp, fn, fp = (
        np.bincount(at, minlength=len(data)).tolist()
        for at in (
            found.boxes.image[found.found],
            found.boxes.image[~found.found],
            found.false.image,
        )
    )
    counts = dict(enumerate(zip(tp, fp, fn, strict=True)))
    of_any = nooch.find_slices(data, written(tmp_path, counts)).table
    of_boxes = nooch.find_slices(data, run).table
    key = pl.col("conditions").list.join(" ") == "without a road"
    one, other = (t.filter(key, side="positive").select("n", "errors") for t in (of_any, of_boxes))
    assert one.rows() == other.rows()
    # objects of the dataset are compared with those that were counted
    counts[0] = (counts[0][0], 0, counts[0][2] + 1)
    notes = nooch.find_slices(data, written(tmp_path, counts)).settings["notes"]
    assert any("more or fewer objects than the dataset has in 1 of 2,000" in note for note in notes)


def test_tables_without_counts_or_of_other_images_are_refused(world, tmp_path):
    data, counts, _ = world
    rates = ["precision", "recall", "f1"]
    boxes = nooch.Predictions.from_boxes(data.image_ids[:1], [[[0, 0, 1, 1]]], [["car"]], [[0.9]])
    for given, problem in (
        (written(tmp_path / "a", counts, rates), "without tp, fp, fn"),
        (written(tmp_path / "b", counts, [*rates, "tp", "fp"]), "without fn"),
        (written(tmp_path / "c", {**counts, "elsewhere.jpg": (1, 0, 0)}), "not in the dataset"),
        (written(tmp_path / "d", {**counts, "003.jpg": (1, -1, 0)}), "fp of image 003.jpg is -1"),
        (pl.DataFrame({"tp": [1], "fp": [0], "fn": [0]}), "without a column image"),
        ({"a": written(tmp_path / "e", counts), "b": boxes}, "other predictions do: b"),
    ):
        fails(partial(nooch.find_slices, data, given), problem)


def test_many_false_boxes_are_noted(world, tmp_path):
    data, counts, _ = world
    many = {name: (tp, fp + 9, fn) for name, (tp, fp, fn) in counts.items()}
    (run,) = nooch.load_predictions(written(tmp_path, many), data=data)
    assert "model.val(conf=0.25)" in run.notes[0]
    (run,) = nooch.load_predictions(written(tmp_path, counts), data=data)
    assert run.notes == ()


def test_counts_of_two_models_are_compared_on_all_images(world, tmp_path):
    """Broken and fixed are the changes of the counts of each image."""
    data, counts, _ = world
    old = {name: (0, fp, tp + fn) if int(name[:3]) % 2 else (tp + fn, fp, 0)
           for name, (tp, fp, fn) in counts.items()}  # fmt: skip
    before = written(tmp_path / "old", old).rename(tmp_path / "old.json")
    given, out = written(tmp_path, counts), tmp_path / "out"
    checked = nooch.check(data, given, out, baseline=before, bootstrap=0, fail_if=["worse"])
    row = checked.comparison.table.row(
        by_predicate=(pl.col("task") == OBJECT) & (pl.col("side") == "positive"), named=True
    )
    more = [counts[name][2] - old[name][2] for name in counts]
    assert row["n"] == sum(tp + fn for tp, _, fn in counts.values())
    assert row["n_broken"] == sum(n for n in more if n > 0)
    assert row["n_fixed"] == -sum(n for n in more if n < 0)
    assert row["verdict"] == "better"
    words = "The model misses annotated objects in images less often than old"
    assert words in checked.answer.text()
    assert "where y < 0" not in checked.page.read_text()
    assert any("errors on the same images; " in note for note in checked.notes)
    same = nooch.check(data, given, tmp_path / "same", baseline=given, bootstrap=0)
    assert {*same.comparison.table["verdict"]} == {"unchanged"}


def test_settings_of_boxes_and_classes_are_refused(world, tmp_path):
    """Where no box is matched: counts, predictions without boxes, data without objects."""
    data, counts, _ = world
    given, out = written(tmp_path, counts), tmp_path / "out"
    boxes = nooch.Predictions.from_boxes(data.image_ids, [[[0, 0, 1, 1]]] * N, [["car"]] * N,
                                         [[0.9]] * N)  # fmt: skip
    plain = pl.DataFrame({"image_id": data.image_ids, "task": "car", "logit": 1.5})
    for option in ({"threshold": 0.3}, {"iou": 0.7}):
        for predictions, why in (
            (given, "image_metrics are counts"), (plain, "the predictions have no boxes"),
            (boxes, "the dataset has no objects with boxes"),
        ):  # fmt: skip
            text = f"`{next(iter(option))}` has no effect: {why}"
            call = partial(nooch.find_slices, data, predictions, **option)
            fails(call, text, kind=ParameterError)
    for option in ({"criterion": ["ce"]}, {"decision": "argmax"}, {"decision": "threshold"}):
        call = partial(nooch.check, data, given, out, **option)
        fails(call, f"`{next(iter(option))}` has no effect on counts", kind=ParameterError)
    checked = nooch.check(data, given, out, alpha=0.2, bootstrap=0)
    assert "`alpha` and `beta` have no effect without the criterion ce" in checked.notes
