"""Columns are matched to tasks before their numbers are judged; repeats; other spellings."""

import gzip
import json
import zipfile

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from oracles import dataset_of
from refusals import fails
from scored import logits, small_suite

from nooch.base.errors import InputError
from nooch.evaluation import described, evaluate, load_predictions

SUITE = small_suite()
TASKS = ["car", "fire_hydrant"]
LONG = logits(SUITE).with_columns(probability=1 / (1 + (-pl.col("logit")).exp())).drop("logit")
WIDE = LONG.pivot("task", index="image_id", values="probability", maintain_order=True)
N = WIDE.height
OTHERS = {
    "Unnamed: 0": pl.Series(range(1, N + 1)),
    "epoch": pl.Series([12] * N),
    "loss": pl.Series(np.linspace(-3, 3, N)),
    "split": pl.Series(["test"] * N),
    "gap": pl.Series([None] * N, dtype=pl.Float64),
    "inside": pl.Series(np.linspace(0, 1, N)),
}


def _scores(source, **how):
    return evaluate(SUITE, source, metrics=["error"], reading=how).table["value"].to_list()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([*OTHERS]), unique=True), st.booleans(), st.booleans(), st.randoms()
)
def test_columns_that_are_no_task_have_no_say(names, percent, long, random):
    times = 100 if percent else 1
    frame = WIDE.with_columns(pl.col(TASKS) * times, *(OTHERS[n].alias(n) for n in names))
    frame = frame.select(random.sample(frame.columns, len(frame.columns)))
    if long:
        numbers = [n for n in names if n not in {"split", "gap"}]
        frame = frame.unpivot(
            [*TASKS, *numbers], index="image_id", variable_name="task", value_name="score"
        )
    (run,) = load_predictions(frame, SUITE, percent=percent)
    (plain,) = load_predictions(WIDE, SUITE)
    for task in TASKS:
        theirs = run.values[run.tasks.index(task)]
        np.testing.assert_allclose(theirs, plain.values[plain.tasks.index(task)])
    gone = [n for n in names if "_".join(n.split()) not in run.tasks]
    assert {"loss", "split", "gap"} & {*frame.columns} <= {*gone}
    assert all(name.split()[0] in " ".join(run.notes) for name in gone if name in frame.columns)
    if percent:
        fails(
            lambda: load_predictions(frame, SUITE), "as percentages do", "becomes", "percent=True"
        )


def test_percentages_say_what_values_become():
    percent = WIDE.with_columns(pl.lit(90.0).alias(TASKS[0]))
    words = "90 becomes 0.9", f"only {TASKS[0]})"
    fails(lambda: load_predictions(percent, SUITE), *words)
    high = WIDE.select(TASKS).to_numpy().max()
    words = "as probabilities do", f"{high:.6g} becomes {high / 100:.6g}", "leave out percent"
    fails(lambda: load_predictions(WIDE, SUITE, percent=True), *words)
    fails(lambda: load_predictions(LONG, SUITE, percent=True), *words)
    above = WIDE.with_columns(pl.lit(300.0).alias(TASKS[0]))
    fails(lambda: load_predictions(above, SUITE), "scale='logit' (all answers are yes)")
    (run,) = load_predictions(WIDE, SUITE, scale="logit")
    assert "no value is negative, so all answers are yes" in run.read


def test_arrays_are_judged_by_the_columns_of_tasks(tmp_path):
    values = np.column_stack([np.arange(N), WIDE.select(TASKS).to_numpy()])
    np.save(tmp_path / "p.npy", values)
    ids = WIDE["image_id"].to_list()
    classes = ["epoch", *(task.upper() for task in TASKS)]
    (run,) = load_predictions(tmp_path / "p.npy", SUITE, ids=ids, classes=classes)
    assert (run.scale, run.tasks) == ("probability", tuple(TASKS))
    assert "epoch" in run.notes[0]


@pytest.mark.parametrize("write", [str.upper, str.title, lambda name: name.replace("_", "-")])
@pytest.mark.parametrize("form", ["long", "wide", "answers"])
def test_classes_in_another_spelling(write, form):
    names = {task: write(task) for task in TASKS}
    if form == "wide":
        (run,) = load_predictions(WIDE.rename(names), SUITE)
    elif form == "long":
        (run,) = load_predictions(LONG.with_columns(pl.col("task").replace(names)), SUITE)
        other = [f"{own} as {task}" for task, own in names.items() if own != task]
        assert all(text in described([run]) for text in other)
    else:
        said = LONG.unique("image_id").select("image_id", pred=pl.col("task").replace(names))
        (run,) = load_predictions(said, SUITE)
    assert {*TASKS} <= {*run.tasks} <= {*SUITE.tasks}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, N - 1), min_size=1, max_size=6), st.booleans())
def test_the_same_row_twice_counts_once(rows, long):
    frame = LONG if long else WIDE
    twice = pl.concat([frame, frame[rows]])
    (run,) = load_predictions(twice, SUITE)
    assert f"{len(rows)} repeated row" in run.notes[0]
    assert _scores(twice) == _scores(frame)
    name = "probability" if long else TASKS[0]
    other = pl.concat([frame, frame[rows[:1]].with_columns((1 - pl.col(name)).alias(name))])
    words = f"row {rows[0] + 1} has", f"row {len(frame) + 1} has", "column run"
    fails(lambda: load_predictions(other, SUITE), *words)


def test_the_pipeline_of_a_classifier(tmp_path):
    ids = WIDE["image_id"].to_list()
    lists = [[{"label": task, "score": row[task]} for task in TASKS] for row in WIDE.to_dicts()]
    plain = _scores(WIDE)
    by_image = dict(zip(map(str, ids), lists, strict=True))
    records = [
        {"image_id": image, **row}
        for image, row in zip(ids, WIDE.drop("image_id").to_dicts(), strict=True)
    ]
    mapping = dict(zip(map(str, ids), WIDE.drop("image_id").to_dicts(), strict=True))
    for content, how in ((by_image, {}), (lists, {"ids": ids}), (records, {}), (mapping, {})):
        (tmp_path / "p.json").write_text(json.dumps(content))
        assert _scores(tmp_path / "p.json", **how) == plain
    # the best class alone of each image: what is not listed counts as 0
    best = {
        image: sorted(found, key=lambda one: -one["score"])[:1] for image, found in by_image.items()
    }
    some = next(iter(by_image))
    best[some] = by_image[some]
    (tmp_path / "p.json").write_text(json.dumps(best))
    (run,) = load_predictions(tmp_path / "p.json", SUITE)
    assert (run.values == 0).sum() == (N - 1) * (len(TASKS) - 1)
    assert "count as 0" in run.notes[0]
    best[some][0]["score"] = 3.5
    (tmp_path / "p.json").write_text(json.dumps(best))
    fails(lambda: load_predictions(tmp_path / "p.json", SUITE), "top_k")


def test_a_row_for_each_class_that_was_found(tmp_path):
    (best, other_class, *_), (first, second, *_) = TASKS, WIDE["image_id"]
    rows = [
        (first, best, 0.9),
        (first, best, 0.4),
        (first, other_class, 0.3),
        (second, other_class, 0.8),
    ]
    frame = pl.DataFrame(rows, ["Image Name", "Prediction", "Confidence"], orient="row")
    for changed in (frame, frame.rename({"Image Name": "image_name"})):
        changed.write_csv(tmp_path / "p.csv")
        (run,) = load_predictions(tmp_path / "p.csv", SUITE)
        found = {(image, task): value for image, task, value in rows[::-1]}
        expected = [[found.get((i, task), 0) for i in run.image_ids] for task in run.tasks]
        assert run.values.tolist() == expected
        assert len(run.image_ids) == N
        assert not run.in_words
    other = frame.rename({"Confidence": "score"})
    words = f"row 1 has {best}, row 3 has {other_class}", "Image Name, Prediction and Confidence"
    fails(lambda: load_predictions(other, SUITE), *words)


@pytest.mark.parametrize("form", ["csv", "json", "npy"])
def test_packed_files_are_read_like_what_they_hold(tmp_path, form):
    file, how = tmp_path / f"p.{form}", {}
    if form == "csv":
        LONG.write_csv(file)
    elif form == "json":
        file.write_text(json.dumps({str(row.pop("image_id")): row for row in WIDE.to_dicts()}))
    else:
        np.save(file, WIDE.select(TASKS).to_numpy())
        how = {"ids": WIDE["image_id"].to_list(), "classes": TASKS}
    (tmp_path / f"p.{form}.gz").write_bytes(gzip.compress(file.read_bytes()))
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.write(file, file.name)
    for packed in (f"p.{form}.gz", "p.zip"):
        (run,) = load_predictions(tmp_path / packed, SUITE, **how)
        assert run.run == "p"
        assert _scores(tmp_path / packed, **how) == _scores(file, **how)


def test_files_that_are_not_read_name_a_way_that_works(tmp_path):
    torch, expected = pytest.importorskip("torch"), WIDE.select(TASKS).to_numpy().astype("f4")
    torch.save(torch.tensor(expected), tmp_path / "p.pt")
    with pytest.raises(InputError) as caught:
        load_predictions(tmp_path / "p.pt", SUITE)
    way = caught.value.remedy.removeprefix("in Python: ")
    exec(way.replace("'p.npy'", repr(str(tmp_path / "p.npy"))), {"numpy": np, "torch": torch})
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), expected)
    for ending in ("pkl", "safetensors", "arrow"):
        (tmp_path / f"p.{ending}").write_bytes(b"")
        words = f"ending '.{ending}' is not a table's", "in Python: "
        fails(lambda ending=ending: load_predictions(tmp_path / f"p.{ending}", SUITE), *words)
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "dataset_info.json").write_text("{}")
    fails(
        lambda: load_predictions(tmp_path / "hub", SUITE), "datasets.load_from_disk(", "to_parquet"
    )


@pytest.mark.parametrize("form", ["long", "wide", "array"])
def test_known_tasks_that_are_not_asked_for_are_no_strangers(tmp_path, form):
    """They are read; a column without a task is of the only one that is asked for."""
    data = dataset_of([{"car": 0.1}, {"cow": 0.1}], ["car", "cow"])
    logits = {"car": [1.0, -1.0], "cow": [-9.0, 9.0], "fold": [77.0, 70.0]}
    wide = pl.DataFrame({"image_id": [1, 2], **logits})
    file = tmp_path / ("a.npz" if form == "array" else "a.csv")
    if form == "array":
        values = np.array([*logits.values()]).T
        np.savez(file, logits=values, image_ids=np.array([1, 2]), tasks=np.array([*logits]))
    elif form == "wide":
        wide.write_csv(file)
    else:
        wide.unpivot(index="image_id", variable_name="task", value_name="logit").write_csv(file)
    (run,) = load_predictions(file, data=data, tasks=["car"], scale="logit")
    assert run.tasks == ("car", "cow")
    assert run.notes == ("left out, as they are not known tasks: fold",)
    alone = pl.DataFrame({"image_id": [1, 2], "logit": [1.0, -1.0]})
    assert load_predictions(alone, data=data, tasks=["cow"])[0].tasks == ("cow",)
    fails(lambda: load_predictions(alone, data=data), "has no column task")


_TEXTS = LONG.with_columns(pl.col("probability").cast(pl.String))
_RECORDS = json.dumps(LONG.to_dicts())
ODD_FORMS = {
    "blank.csv": WIDE.write_csv().replace("\n", "\n\n").encode(),
    "separators.csv": f"{WIDE.write_csv()},,\n,,\n".encode(),
    "list.jsonl": b"\n " + _RECORDS.encode(),
    "lines.json": LONG.write_ndjson().encode(),
    "texts.jsonl": _TEXTS.write_ndjson().encode(),
}


@pytest.mark.parametrize("name", ODD_FORMS)
def test_odd_forms_of_a_table_are_read_like_the_plain_one(tmp_path, name):
    (tmp_path / name).write_bytes(ODD_FORMS[name])
    assert _scores(tmp_path / name) == _scores(WIDE)
    assert _scores(_TEXTS.to_pandas()) == _scores(WIDE)


def test_a_frame_of_truth_values_is_of_0_and_1():
    hard = WIDE.with_columns(pl.col(TASKS) > 0.5)
    words = hard.with_columns(pl.when(c).then(pl.lit("Yes")).otherwise(pl.lit("no")).alias(c)
                              for c in TASKS)  # fmt: skip
    for frame in (hard, words):
        fails(lambda frame=frame: load_predictions(frame, SUITE), "contains only 0 and 1")
        assert _scores(frame, scale="probability") == _scores(WIDE)


def test_what_is_no_number_is_shown():
    frame = WIDE.with_columns(car=pl.when(image_id=40).then(pl.lit("n/a")).otherwise("car"))
    fails(lambda: load_predictions(frame, SUITE), "car (String, such as 'n/a')")


@given(st.data())
def test_the_confidence_of_an_answer_is_not_that_of_yes(data):
    """Each row has a yes or no, and a number: of that, or of yes, as the numbers say."""
    thresholds = {task: data.draw(st.sampled_from([0.3, 0.5, 0.7])) for task in TASKS}
    of_yes = LONG.with_columns(
        prediction=pl.col("probability") > pl.col("task").replace_strict(thresholds)
    )
    yes = pl.col("probability") > 0.5
    of_answer = LONG.with_columns(
        prediction=yes,
        probability=pl.when(yes).then("probability").otherwise(1 - pl.col("probability")),
    )
    form = data.draw(st.sampled_from([pl.Boolean, pl.Int64, pl.String]))
    name = data.draw(st.sampled_from(["confidence", "probability"]))
    for frame, reads in ((of_yes, ""), (of_answer, "of the answer in column prediction")):
        typed = frame.with_columns(pl.col("prediction").cast(form)).rename({"probability": name})
        (run,) = load_predictions(typed, SUITE)
        assert reads in run.read
        (plain,) = load_predictions(LONG, SUITE)
        np.testing.assert_allclose(run.values, plain.values, atol=1e-12)


@pytest.mark.parametrize("form", ["prob_{}", "P({})", "score.{}", "{}_probability", "{}_score"])
def test_columns_called_after_a_class_and_what_they_are(form):
    odd = WIDE.rename({task: form.format(task) for task in TASKS})
    (run,) = load_predictions(odd, SUITE)
    assert set(TASKS) == {*run.tasks}
    assert f"{form.format(TASKS[0])} as {TASKS[0]}" in run.read
    assert _scores(odd) == _scores(WIDE)


@pytest.mark.parametrize("answer", ["pred", "label", "prediction"])
@pytest.mark.parametrize("kind", ["text", "number"])
def test_a_column_of_classes_next_to_their_scores_does_not_count(answer, kind):
    numbers = pl.Series([n % 2 for n in range(N)])
    names = [TASKS[n] for n in numbers]
    column = pl.Series(answer, names if kind == "text" else numbers + 3)
    assert _scores(WIDE.with_columns(column)) == _scores(WIDE)


def test_numbers_of_classes_need_their_names(tmp_path):
    numbers = [n % 3 for n in range(N)]
    names = [*TASKS, "tree"]
    frame = pl.DataFrame({"image_id": WIDE["image_id"], "pred": [names[n] for n in numbers]})
    numbered = frame.with_columns(pred=pl.Series(numbers))
    fails(lambda: load_predictions(numbered, SUITE), "pred has numbers of classes", "`classes`")
    fails(lambda: load_predictions(numbered, SUITE, classes=names[:2]), "given ones have no 2")
    (tmp_path / "names.txt").write_text("\n".join(names))
    assert _scores(numbered, classes=names) == _scores(frame)
    assert _scores(numbered, classes=tmp_path / "names.txt") == _scores(frame)
