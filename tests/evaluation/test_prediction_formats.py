"""Predictions as people have them: names, text, arrays, detections; what is open is refused."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from refusals import fails
from scored import arrays_of, logits, small_data, small_suite

from nooch.data import Dataset
from nooch.evaluation import described, evaluate, load_predictions

SUITE = small_suite()
LONG = logits(SUITE).with_columns(value=1 / (1 + (-pl.col("logit")).exp())).drop("logit")
VALUES, IDS, TASKS = arrays_of(LONG.rename({"value": "logit"}))


def _same(run, expected=LONG, tolerance=1e-12):
    """The run holds the values of a long table."""
    for task, values in zip(run.tasks, run.values, strict=True):
        of_task = dict(expected.filter(task=task).select("image_id", "value").rows())
        ids = run.image_ids.cast(pl.Int64).to_list()
        assert values.tolist() == pytest.approx([of_task[i] for i in ids], abs=tolerance)


def _named(names):
    """The small dataset with these file names."""
    data = small_data()
    images = data.images.with_columns(file_name=pl.Series(names, dtype=pl.String))
    return Dataset.build(images, data.classes, data.areas)


@pytest.mark.parametrize("image", ["image", "filename", "file_name", "path", "id", "Image"])
@pytest.mark.parametrize("task", ["class", "label", "category"])
@pytest.mark.parametrize("value", ["prob", "score", "confidence", "Score"])
def test_other_names_of_columns(image, task, value):
    frame = LONG.rename({"image_id": image, "task": task, "value": value})
    (run,) = load_predictions(frame, SUITE)
    assert run.scale == "probability"
    assert described([run]) == f'Predictions: 24 images, probabilities (column "{value}")'
    _same(run)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"filename": "a", "path": "a"}, ["columns filename and path could each be image_id"]),
        ({"id": 1, "prob": 0.5}, ["columns score and prob could each be logit or probability"]),
        ({"id": 1, "category": "a"}, ["columns class and category could each be task"]),
    ],
)
def test_columns_of_two_meanings_are_refused(columns, words):
    frame = LONG.rename({"task": "class", "value": "score"}).drop("image_id")
    fails(lambda: load_predictions(frame.with_columns(**{c: pl.lit(v) for c, v in columns.items()}),
                                   SUITE), *words, "rename one")  # fmt: skip


@pytest.mark.parametrize("name", ["pred", "Prediction", "predicted_label"])
def test_one_class_for_each_image_is_yes_of_it_and_no_of_the_others(name):
    ids = LONG["image_id"].unique().sort()
    classes = [*SUITE.tasks, "unicorn"]
    said = [classes[i % len(classes)] for i in range(len(ids))]
    frame = pl.DataFrame({"image": ids, "label": "other", name: said, "confidence": 0.3})
    (run,) = load_predictions(frame, SUITE)
    assert run.in_words
    assert set(run.tasks) == {*classes}
    for i, one in enumerate(said):
        at = run.image_ids.to_list().index(ids[i])
        assert {t: v for t, v in zip(run.tasks, run.values[:, at], strict=True) if v} == {one: 1}
    (never,) = load_predictions(frame.with_columns(pl.lit(classes[0]).alias(name)), SUITE)
    assert never.values[never.tasks.index(classes[1])].tolist() == [0] * len(ids)
    unknown = frame.with_columns(pl.lit("unicorn").alias(name))
    fails(lambda: load_predictions(unknown, SUITE), "has no known class: unicorn", classes[0])
    twice = pl.concat([frame, frame.with_columns(pl.col(name).reverse())])
    fails(lambda: load_predictions(twice, SUITE), "one class for each image")
    bare = frame.drop("image")
    fails(lambda: load_predictions(bare, SUITE), "names no images: columns label", "`ids`")
    fails(lambda: load_predictions(bare, SUITE, ids=[1]), "24 rows for 1 `ids`")
    (listed,) = load_predictions(bare, SUITE, ids=ids)
    assert (listed.values == run.values).all()
    gaps = frame.with_columns(pl.col(name).replace("unicorn", None))
    fails(lambda: load_predictions(gaps, SUITE), "missing")


@pytest.mark.parametrize("task", ["class", "label", "category"])
@pytest.mark.parametrize("value", ["conf", "score", "confidence"])
def test_a_class_and_its_confidence_for_each_image_is_an_answer(task, value):
    best = LONG.sort("value").group_by("image_id").last().sort("image_id")
    frame = best.select("image_id", pl.col("task").alias(task), pl.col("value").alias(value))
    (run,) = load_predictions(frame, SUITE)
    assert run.in_words
    for image, said in best.select("image_id", "task").rows():
        column = run.values[:, run.image_ids.to_list().index(image)]
        assert dict(zip(run.tasks, column, strict=True)) == {t: t == said for t in SUITE.tasks}
    # two rows of an image, or a column that is called task, are a long table
    for long in (LONG.rename({"task": task, "value": value}), frame.rename({task: "task"})):
        (scores,) = load_predictions(long, SUITE)
        assert not scores.in_words


@settings(max_examples=30)
@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 2**32 - 1), st.booleans())
def test_wide_tables_are_probabilities_where_all_values_can_be(n, images, seed, softmax):
    values = np.random.default_rng(seed).uniform(0.01, 0.99, (images, n))
    values = values / values.sum(axis=1, keepdims=True) if softmax else values
    names = [f"c{i}" for i in range(n)]
    frame = pl.DataFrame(values.astype(np.float32), schema=names)
    frame = frame.with_columns(image_id=pl.int_range(images))
    (run,) = load_predictions(frame)
    assert run.scale == "probability"
    np.testing.assert_allclose(run.values.T, values, atol=1e-6)
    sums = [sum(row) for row in values.tolist()]
    expected = ", each row adds up to 1, like a softmax"
    assert run.read.endswith(expected) == all(abs(total - 1) < 1e-3 for total in sums)
    assert "(a wide table with values from 0 to 1)" in run.read
    hundred = frame.with_columns(pl.col(names) * 50 + 3)
    fails(lambda: load_predictions(hundred), "a wide table contains values", "as percentages do")
    (percent,) = load_predictions(frame.with_columns(pl.col(names) * 100), percent=True)
    np.testing.assert_allclose(percent.values, run.values, atol=1e-6)


SEPARATED = {
    "semicolons": ("{}; {}; {}\n", {}, "{:.9f}"),
    "spaces": ('{}, "{}", {}\n', {}, "{:.9f}"),
    "decimal commas": ("{};{};{}\n", {"decimal": ","}, "{:.9f}"),
    "percentages": ("{},{},{}\n", {"percent": True}, "{:.7f}%"),
    "both": ("{}; {}; {}\n", {"decimal": ",", "percent": True}, "{:.7f}%"),
}


@pytest.mark.parametrize("name", SEPARATED)
def test_text_tables(tmp_path, name):
    line, options, number = SEPARATED[name]
    texts = [
        (i, task, number.format(value * (100 if "percent" in options else 1)))
        for i, task, value in LONG.select("image_id", "task", "value").rows()
    ]
    if "decimal" in options:
        texts = [(i, task, text.replace(".", ",")) for i, task, text in texts]
    content = "".join(line.format(*row) for row in [("image_id", "task", "prob"), *texts])
    (tmp_path / "p.csv").write_text(content)
    (run,) = load_predictions(tmp_path / "p.csv", SUITE, **options)
    _same(run, tolerance=1e-8)
    if options:
        hint = "`percent`" if "percent" in options else "`decimal`"
        fails(lambda: load_predictions(tmp_path / "p.csv", SUITE), "contains String", hint)


SHARE = pl.col("value")


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [("logit", SHARE, ["logit contains only values from 0 to 1", "scale='probability'"]),
     ("score", SHARE * 3 - 1, ["column score contains values from", "scale='logit'"]),
     ("prob", SHARE.round(), ["prob contains only 0 and 1", "two values", "`scale`"]),
     ("logit", SHARE.round(), ["logit contains only 0 and 1"]),
     ("prob", SHARE * 100, ["prob contains values from", "as percentages do", "`percent`"]),
     ("score", SHARE * 100, ["as percentages do", "percent=True (", "; or, if", "scale='logit'"]),
     ("prob", SHARE + 0.9, ["are not a probability"])],
)  # fmt: skip
def test_values_that_do_not_fit_their_name(column, values, words):
    frame = LONG.with_columns(value=values).rename({"value": column})
    fails(lambda: load_predictions(frame, SUITE), *words)
    if "scale='probability'" in words or "two values" in words:
        (run,) = load_predictions(frame, SUITE, scale="probability")
        assert run.scale == "probability"
        assert ("are crude" in run.read) == ("two values" in words)


NAMES = {
    "names": ("{}.jpg", "{}.jpg"),
    "below folders": ("{}.jpg", "/data/all/{}.jpg"),
    "without folders": ("train/{}.jpg", "{}.jpg"),
    "without endings": ("a{}.jpg", "a{}"),
    "another ending and folder": ("a/img{}.jpg", "b/img{}.png"),
    "backslashes": ("a/{}.jpg", "C:\\data\\a\\{}.jpg"),
    "COCO's digits": ("{:012d}.jpg", "COCO_val2014_{:012d}.jpg"),
}


@pytest.mark.parametrize("name", NAMES)
def test_file_names_stand_for_images(name):
    theirs, ours = NAMES[name]
    data = _named([theirs.format(i) for i in small_data().images["image_id"]])
    frame = LONG.rename({"value": "prob"}).with_columns(
        image_id=pl.Series([ours.format(i) for i in LONG["image_id"]])
    )
    (run,) = load_predictions(frame, small_suite(data), data)
    assert run.image_ids.dtype == pl.Int64
    _same(run)
    expected = evaluate(SUITE, LONG.rename({"value": "prob"})).table["value"].to_list()
    assert evaluate(SUITE, run).table["value"].to_list() == expected


def test_without_known_file_names_digits_are_no_ids():
    frame = LONG.rename({"value": "prob"}).with_columns(
        image_id=pl.format("COCO_{}.jpg", pl.col("image_id").cast(pl.String).str.zfill(12))
    )
    fails(lambda: evaluate(SUITE, frame), "24 of 24 images are not in the suite",
          "has no file names", "if the dataset is given")  # fmt: skip


def test_names_of_several_images_and_unknown_ones_are_refused():
    numbers = small_data().images["image_id"].to_list()
    data = _named([f"{'ab'[i % 2]}/{i // 2}.jpg" for i in numbers])
    frame = pl.DataFrame({"image": ["18.jpg", "a/19.jpg"], "task": "car", "prob": [0.25, 0.5]})
    suite = small_suite(data)
    fails(lambda: load_predictions(frame, suite, data), "18.jpg names several images: a/18"
          ".jpg and b/18.jpg")  # fmt: skip
    two = frame.with_columns(image=pl.Series(["x/a/19.jpg", "a/19"]))
    fails(lambda: load_predictions(two, suite, data), "mean the same image: a/19, x/a/19.jpg")
    one = frame.with_columns(image=pl.Series(["a/19.jpg", "a/99.jpg"]))
    unknown = "1 of 2 images are not in the suite: a/99.jpg"
    fails(lambda: load_predictions(one, suite, data), unknown)
    (run,) = load_predictions(one, suite, data, ignore_unknown=True)
    assert (run.image_ids.to_list(), run.values.tolist()) == ([38], [[0.25]])


def test_images_of_training_are_counted_and_no_error():
    data = small_data()
    extra = pl.DataFrame({"image_id": [1, 2], "task": "car", "value": [0.25, 0.5]})
    frame = pl.concat([LONG, extra]).rename({"value": "prob"})
    runs = load_predictions(frame, SUITE, data)
    assert described(runs).endswith("; 2 images of the dataset are not in the suite")
    assert set(evaluate(SUITE, runs).table["split"]) == {"test"}
    assert evaluate(SUITE, frame).table.equals(evaluate(SUITE, runs).table)
    stray = frame.with_columns(pl.col("image_id") + 1000)
    fails(lambda: load_predictions(stray, SUITE, data), "26 of 26 images are not in the suite")
    fails(lambda: load_predictions(stray, data=data), "26 of 26 images are not in the dataset")


def test_a_dataset_is_opened_for_images_in_no_set_alone():
    asked = []
    frame = LONG.rename({"value": "prob"})
    (run,) = load_predictions(frame, SUITE, lambda: asked.append(1))
    _same(run)
    assert not asked
    extra = frame.with_columns(pl.col("image_id") - 30).filter(pl.col("image_id") < 37)
    more = pl.concat([frame, extra])
    found = load_predictions(more, SUITE, small_data)
    assert described(found) == described(load_predictions(more, SUITE, small_data()))
    load_predictions(more, SUITE, lambda: asked.append(1))
    assert asked == [1]


def _arrays(folder, kind):
    """A file of an array of each kind, and the options that say what it leaves open."""
    file = folder / f"p.{kind.partition(' ')[0]}"
    if kind == "npy":
        np.save(file, VALUES)
    else:
        np.savez(file, **{"probabilities" if kind == "npz of names" else "anything": VALUES})
    return file, {} if kind == "npz of names" else {"scale": "probability"}


@pytest.mark.parametrize("kind", ["npy", "npz", "npz of names"])
def test_arrays_with_ids_and_classes(tmp_path, kind):
    file, scale = _arrays(tmp_path, kind)
    (tmp_path / "ids.txt").write_text("\n".join(map(str, IDS)) + "\n")
    (tmp_path / "classes.txt").write_text("\n".join(TASKS))
    of_files = {"ids": tmp_path / "ids.txt", "classes": tmp_path / "classes.txt"}
    for options in (of_files, {"ids": IDS.tolist(), "classes": TASKS}):
        (run,) = load_predictions(file, SUITE, **options, **scale)
        _same(run)
        (same,) = load_predictions(file, SUITE, **options)
        assert same.scale == "probability"
        assert ("an array with values from 0 to 1" in same.read) == bool(scale)
    fails(lambda: load_predictions(file, SUITE, **scale), "with its ids and classes")
    fails(lambda: load_predictions(file, SUITE, ids=IDS[1:].tolist(), classes=TASKS, **scale),
          "values have shape")  # fmt: skip


def test_tensors_on_disk_are_no_predictions(tmp_path):
    (tmp_path / "p.pt").write_bytes(b"")
    fails(lambda: load_predictions(tmp_path / "p.pt", SUITE), "ending '.pt' is not a table's")


def _detections(folder, rows):
    keys = ("image_id", "category_id", "score")
    content = [{**dict(zip(keys, row, strict=True)), "bbox": [0, 0, 1, 1]} for row in rows]
    (folder / "d.json").write_text(json.dumps(content))
    return folder / "d.json"


@pytest.mark.parametrize("form", ["json", "txt", "names"])
def test_detections_give_the_largest_score_and_0_elsewhere(tmp_path, form):
    rows = [(37, 3, 0.25), (37, 3, 0.75), (38, 11, 0.5), (38, 5, 0.9), (37, 3, 0.5)]
    classes = {"json": '{"categories": [{"id": 3, "name": "car"}, {"id": 5, "name": "bus"},'
               ' {"id": 11, "name": "fire hydrant"}]}', "txt": "3 car\n5 bus\n11: fire hydrant\n",
               "names": "\n".join(["a", "b", "c", "car", *"defghijk", "fire hydrant"])}  # fmt: skip
    named = tmp_path / f"c.{'json' if form == 'json' else 'txt'}"
    named.write_text(classes[form])
    file = _detections(tmp_path, rows)
    if form == "names":
        fails(lambda: load_predictions(file, SUITE, classes=named), "category ids 3, 5, 11")
        return
    (run,) = load_predictions(file, SUITE, classes=named)
    assert run.image_ids.to_list() == SUITE.set("ce", "car", "test").image_ids.to_list()
    values = dict(zip(run.tasks, run.values.tolist(), strict=True))
    assert values["car"] == [0.75, *[0] * 23]
    assert values["fire_hydrant"] == [0, 0.5, *[0] * 22]
    assert "4 boxes (COCO results" in run.read
    assert "22 images without any" in run.read
    assert evaluate(SUITE, run).table["value"].is_not_null().any()
    (listed,) = load_predictions(file, SUITE, classes=named, ids=[36, 37, 38])
    assert listed.image_ids.to_list() == [36, 37, 38]
    assert listed.values.max(axis=1).tolist() == [0.75, 0.5]
    fails(lambda: load_predictions(file, SUITE, classes=named, ids=[37]), "that are not listed: 38")
    fails(lambda: load_predictions(file, classes=named), "are not listed", "`ids`")
    fails(lambda: load_predictions(file, SUITE), "there are no class names", "`classes`")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("[", "cannot be read"),
        ("3", "it is a int"),
        ("[1]", "names no images for its 1 element"),
        ('{"a": 1}', "image a: cannot be read as detections"),
        ('[{"image_id": 1}]', "image 1: cannot be read as detections"),
        ('[{"image_id": 1e400, "category_id": 1}]', "cannot be read as detections"),
        ('[{"image_id": 1, "category_id": 1, "score": 0.5}, 3]', "element 2: cannot be read"),
        ('[{"image_id": 99999999999999999999, "category_id": 1, "score": 0.5}]', "element 1"),
        ('[{"image_id": 1, "category_id": 1, "score": 1.5}]', "element 1, image 1: 1 score not in"),
        ('[{"image_id": 1, "category_id": 1, "score": NaN}]', "cannot be read"),
        ('[{"image_id": null, "category_id": 1, "score": 0.5}]', "element 1: cannot be read"),
        ('{"images": [], "annotations": []}', "annotations, not detections"),
    ],
)
def test_what_is_no_results(tmp_path, content, words):
    (tmp_path / "d.json").write_text(content)
    fails(lambda: load_predictions(tmp_path / "d.json", SUITE, classes=["car"]), words,
          helps=bool(content))  # fmt: skip
    (tmp_path / "d.json").write_bytes(b"\xff\xfe\x00")
    fails(lambda: load_predictions(tmp_path / "d.json", SUITE, classes=["car"]), "UTF-16")


def test_formats_that_are_refused(tmp_path):
    fails(lambda: load_predictions(LONG, SUITE, decimal=";"), "value of `decimal`", kind=ValueError)
    fails(lambda: load_predictions(LONG, SUITE, percentage=True), "did you mean", kind=ValueError)
    (tmp_path / "c.json").write_text('{"images": []}')
    file = _detections(tmp_path, [(1, 1, 0.5)])
    for name, words in (("c.json", "categories"), ("none.txt", "cannot be read")):
        fails(lambda n=name: load_predictions(file, SUITE, classes=tmp_path / n), words)
