"""Predictions from files, frames and arrays: one result from every form, runs that are told apart,
bad input refused.
"""

import warnings

import numpy as np
import polars as pl
import pytest
from refusals import fails
from scored import FORMS, TASKS, arrays_of, logits, small_suite, wide

from nooch.errors import InputError, ParameterError
from nooch.evaluation import read_predictions
from nooch.evaluation.prediction_files import as_runs

SUITE = ("car", "fire_hydrant", "cow")


@pytest.fixture(scope="module")
def long():
    return logits(small_suite())


def _same(run, frame):
    """The run holds exactly the rows of a long frame."""
    held = {
        (image, task): run.values[row, column]
        for row, task in enumerate(run.tasks)
        for column, image in enumerate(run.image_ids.cast(pl.Int64).to_list())
    }
    return held == {(image, task): value for image, task, value in frame.iter_rows()}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_read_to_the_same_values(long, tmp_path, name):
    form = FORMS[name]
    file = tmp_path / f"erm{form.ending}"
    form.write(long, file)
    (run,) = read_predictions(file, None, SUITE, "logit" if form.options else None)
    assert (run.run, run.scale, run.method, run.seed) == ("erm", "logit", None, None)
    assert _same(run, long)


def test_a_folder_of_part_files_is_one_run(long, tmp_path):
    (tmp_path / "erm").mkdir()
    long[:20].write_parquet(tmp_path / "erm" / "0.parquet")
    long[20:].write_parquet(tmp_path / "erm" / "1.parquet")
    (run,) = read_predictions(tmp_path / "erm", None, SUITE)
    assert run.run == "erm"
    assert _same(run, long)


def test_frames_of_other_libraries_and_lazy_ones(long):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for frame in (long.lazy(), long.to_arrow()):
            (run,) = as_runs(frame, SUITE)
            assert _same(run, long)


def test_an_ending_in_capitals_is_known(long, tmp_path):
    FORMS["npz"].write(long, tmp_path / "a.npz")
    (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    assert _same(read_predictions(tmp_path / "A.NPZ", None, SUITE)[0], long)


def test_task_names_with_spaces_are_the_suites(long, tmp_path):
    spaced = long.with_columns(pl.col("task").str.replace("_", " "))
    assert "fire hydrant" in spaced["task"]
    for frame, scale in ((spaced, None), (wide(spaced), "logit")):
        (run,) = read_predictions(frame, None, SUITE, scale)
        assert set(run.tasks) == set(TASKS)
    values, ids, tasks = arrays_of(spaced)
    np.savez(tmp_path / "a.npz", image_ids=ids, tasks=np.array(tasks), logits=values)
    assert set(read_predictions(tmp_path / "a.npz", None, SUITE)[0].tasks) == set(TASKS)


def test_the_task_may_be_left_out_where_there_is_one():
    frame = pl.DataFrame({"image_id": [1, 2], "probability": [0.25, 1.0]})
    (run,) = read_predictions(frame, None, ["car"])
    assert (run.tasks, run.scale, run.values.tolist()) == (("car",), "probability", [[0.25, 1.0]])
    fails(lambda: read_predictions(frame, None, SUITE), "has no column task")


def test_whole_floats_are_integer_ids(long):
    (run,) = read_predictions(long.with_columns(pl.col("image_id").cast(pl.Float64)), None, SUITE)
    assert run.image_ids.dtype == pl.Int64


def test_a_column_without_a_name_is_an_index_and_no_task(long):
    (run,) = read_predictions(wide(long).with_row_index(""), None, SUITE, "logit")
    assert set(run.tasks) == set(TASKS)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, ("f", None, None)),
        ({"run": "r"}, ("r", None, None)),
        ({"method": "erm"}, ("erm", "erm", None)),
        ({"seed": 3}, ("f/3", None, 3)),
        ({"method": "erm", "seed": 3}, ("erm/3", "erm", 3)),
        ({"run": "r", "seed": 3}, ("r", None, 3)),
        ({"run": "r", "method": "erm", "seed": 3}, ("r", "erm", 3)),
        ({"run": 7}, ("7", None, None)),
    ],
)
def test_how_runs_are_named(long, tmp_path, columns, expected):
    file = tmp_path / "f.parquet"
    long.with_columns(**{name: pl.lit(value) for name, value in columns.items()}).write_parquet(
        file
    )
    (run,) = read_predictions(file, None, SUITE)
    assert (run.run, run.method, run.seed) == expected


def test_runs_of_one_name_are_told_apart_by_method_and_seed(long):
    frame = pl.concat(long.with_columns(run=pl.lit("r"), seed=pl.lit(seed)) for seed in (0, 1))
    assert [run.run for run in as_runs(frame, SUITE)] == ["r/0", "r/1"]


def test_empty_keys_fall_back_to_the_file(long):
    frame = pl.concat(
        long.with_columns(method=pl.lit(method, pl.String), seed=pl.lit(seed, pl.Int64))
        for method, seed in (("erm", 1), ("erm", None), (None, 1), (None, None))
    )
    assert {run.run for run in read_predictions(frame, "f", SUITE)} == {"erm/1", "erm", "f/1", "f"}


def test_several_files_of_one_name_and_of_the_same_seeds(long, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        long.write_csv(tmp_path / folder / "p.csv")
    files = [tmp_path / folder / "p.csv" for folder in ("a", "b")]
    assert [run.run for run in as_runs(files, SUITE)] == [str(file) for file in files]
    for method in ("erm", "dro"):
        pl.concat(long.with_columns(seed=pl.lit(s)) for s in (0, 1)).write_parquet(
            tmp_path / f"{method}.parquet"
        )
    seeds = as_runs([tmp_path / "erm.parquet", tmp_path / "dro.parquet"], SUITE)
    assert [run.run for run in seeds] == ["erm/0", "erm/1", "dro/0", "dro/1"]


def test_a_mapping_names_its_runs_whatever_they_hold(long):
    several = pl.concat(long.with_columns(run=pl.lit(name)) for name in ("p", "q"))
    seeds = pl.concat(long.with_columns(seed=pl.lit(seed)) for seed in (0, 1))
    named = {"x": long.with_columns(run=pl.lit("r")), "y": several, "z": seeds, 4: long}
    assert [run.run for run in as_runs(named, SUITE)] == ["x", "y/p", "y/q", "z/0", "z/1", "4"]


def test_a_repeated_run_is_refused(long, tmp_path):
    long.write_csv(tmp_path / "p.csv")
    fails(
        lambda: as_runs([tmp_path / "p.csv", tmp_path / "." / "p.csv"], SUITE),
        "runs occur more than once",
        "p.csv",
    )
    fails(lambda: as_runs([long, long], SUITE), "runs occur more than once: predictions")


def test_archives_of_several_runs(long, tmp_path):
    values, ids, tasks = arrays_of(long)
    np.savez(
        tmp_path / "a.npz",
        image_ids=ids,
        tasks=tasks,
        logits=np.stack([values, -values]),
        runs=["u", "v"],
    )
    one, two = read_predictions(tmp_path / "a.npz", None, SUITE)
    assert (one.run, two.run) == ("u", "v")
    assert (one.values == -two.values).all()
    np.savez(tmp_path / "b.npz", image_ids=ids, tasks=tasks, logits=np.stack([values, -values]))
    assert [run.run for run in read_predictions(tmp_path / "b.npz", None, SUITE)] == ["b/0", "b/1"]
    np.savez(tmp_path / "c.npz", image_ids=ids, tasks=tasks, logits=values, runs=np.array("w"))
    assert [run.run for run in read_predictions(tmp_path / "c.npz", None, SUITE)] == ["w"]
    for runs in (["u"], ["u", "v", "w"]):
        np.savez(
            tmp_path / "d.npz",
            image_ids=ids,
            tasks=tasks,
            logits=np.stack([values, -values]),
            runs=runs,
        )
        fails(
            lambda: read_predictions(tmp_path / "d.npz", None, SUITE),
            "runs and logits of shape",
            "d.npz",
        )


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda f: f.rename({"image_id": "id"}), ["has columns id, task, logit"]),
        (lambda f: f[:0], ["holds no row"]),
        (lambda f: f[:0].with_columns(run=pl.lit("r")), ["holds no row"]),
        (
            lambda f: f.with_columns(probability=0.5),
            ["both a column logit and a column probability"],
        ),
        (
            lambda f: f.rename({"logit": "score"}),
            ["a column task, but neither logit nor probability"],
        ),
        (lambda f: f.drop("logit"), ["neither logit nor probability"]),
        (
            lambda f: f.with_columns(logit=pl.lit("0.5")),
            ["column logit holds String", "no numbers"],
        ),
        (
            lambda f: f.with_columns(logit=pl.concat_str(pl.lit("n/"), "image_id")),
            ["such as 'n/37'"],
        ),
        (lambda f: f.with_columns(logit=pl.lit(value=True)), ["column logit holds Boolean"]),
        (lambda f: f.with_columns(logit=pl.lit(None)), ["column logit holds Null"]),
        (
            lambda f: f.with_columns(logit=pl.when(pl.int_range(pl.len()) != 30).then("logit")),
            ["1 logits are missing", "image 43, task fire_hydrant"],
        ),
        (
            lambda f: f.with_columns(image_id=pl.when(pl.col("image_id") > 37).then("image_id")),
            ["2 image_ids are"],
        ),
        (
            lambda f: f.with_columns(task=pl.when(pl.col("image_id") > 37).then("task")),
            ["2 tasks are missing"],
        ),
        (
            lambda f: f.with_columns(logit=pl.lit(float("nan"))),
            ["48 values are NaN", "image 37, task car"],
        ),
        (lambda f: f.with_columns(logit=-pl.lit(float("inf"))), ["48 values are NaN or infinite"]),
        (lambda f: f.with_columns(seed=pl.lit("one")), ["wrong kind", "seed"]),
        (lambda f: f.with_columns(label=pl.lit(2)), ["label holds more than 0 and 1"]),
        (lambda f: f.with_columns(label=pl.lit(None, pl.Int64)), ["label holds more than 0 and 1"]),
        (lambda f: f.with_columns(task=pl.lit(" ")), ["empty name"]),
        (
            lambda f: pl.concat([f, f[:2]]),
            ["2 predictions are repeated, such as image 37, task car", "run f"],
        ),
        (lambda f: f.rename({"logit": "probability"}), ["are no probability", "0 to 1"]),
        (
            lambda f: f.select("image_id", "task", probability=pl.lit(1 + 1e-12)),
            ["48 values are no probability"],
        ),
        (
            lambda f: f.select("image_id", "task", probability=pl.lit(-1e-12)),
            ["48 values are no probability"],
        ),
    ],
)
@pytest.mark.parametrize("kept", ["frame", "parquet"])
def test_long_tables_that_are_refused(long, tmp_path, change, parts, kept):
    frame = change(long)
    source = frame
    if kept == "parquet":
        source = tmp_path / "f.parquet"
        frame.write_parquet(source)
    fails(lambda: read_predictions(source, "f", SUITE), *parts, helps="empty name" not in parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda f: f.select("image_id"), ["has columns image_id"]),
        (lambda f: f.with_columns(file_name=pl.lit("a.jpg")), ["no numbers: file_name (String)"]),
        (lambda f: f.with_columns(**{"fire hydrant": 0.5}), ["24 predictions are repeated"]),
        (
            lambda f: f.with_columns(car=pl.when(pl.col("image_id") > 37).then("car")),
            ["1 logits are missing, such as image 37, task car"],
        ),
        (lambda f: pl.concat([f, f[:1]]), ["2 predictions are repeated, such as image 37"]),
    ],
)
def test_wide_tables_that_are_refused(long, change, parts):
    fails(lambda: read_predictions(change(wide(long)), "f", SUITE, "logit"), *parts)


def test_a_wide_table_must_say_its_scale(long):
    fails(lambda: as_runs(wide(long), SUITE), "`scale` logit", "`scale` probability")
    fails(
        lambda: as_runs(long, SUITE, "logits"),
        "'logits' is no scale",
        "mean logit",
        kind=ParameterError,
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"image_id,task,logit\n", "holds no row"),
        (b'image_id,task,logit\n"1,car', "cannot be"),
    ],
)
def test_csv_files_without_rows(tmp_path, content, message):
    (tmp_path / "p.csv").write_bytes(content)
    fails(lambda: read_predictions(tmp_path / "p.csv", None, SUITE), message, "p.csv", helps=False)


def test_empty_cells_and_text_in_a_csv(tmp_path):
    (tmp_path / "p.csv").write_text("image_id,task,logit\n1,car,0.5\n2,car,\n")
    fails(
        lambda: read_predictions(tmp_path / "p.csv", None, SUITE),
        "1 logits are missing",
        "image 2, task car",
    )
    (tmp_path / "p.csv").write_text("image_id,task,logit\n1,car,0.5\n2,car,high\n")
    fails(lambda: read_predictions(tmp_path / "p.csv", None, SUITE), "holds String, such as 'high'")
    for text in ("nan", "NaN", "inf", "-inf"):
        (tmp_path / "p.csv").write_text(f"image_id,task,logit\n1,car,0.5\n2,car,{text}\n")
        fails(
            lambda: read_predictions(tmp_path / "p.csv", None, SUITE),
            f"such as '{text}'" if text == "nan" else "image 2",
        )


@pytest.mark.parametrize("name", ["long-parquet", "npz"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.99])
def test_files_that_were_cut(long, tmp_path, name, keep):
    form = FORMS[name]
    file = tmp_path / f"p{form.ending}"
    form.write(long, file)
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content))])
    fails(lambda: read_predictions(file, None, SUITE), "cannot be read", str(file), helps=False)


def test_archives_of_objects_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "unpickled"), "w"))

    bomb = np.array([Bomb()], dtype=object)
    np.savez(tmp_path / "p.npz", image_ids=[1], tasks=["car"], logits=bomb)
    fails(lambda: read_predictions(tmp_path / "p.npz", None, SUITE), "cannot be read", "p.npz")
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "array.npy").rename(tmp_path / "q.npz")
    fails(lambda: read_predictions(tmp_path / "q.npz", None, SUITE), "no named array")
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"logits": [[0.1]], "tasks": ["car"]}, "holds logits, tasks"),
        ({"logits": [[0.1]], "image_ids": [1]}, "holds logits, image_ids"),
        ({"image_ids": [1], "tasks": ["car"]}, "holds image_ids, tasks"),
        (
            {"image_ids": [1], "tasks": ["car"], "logits": [[0.1]], "probabilities": [[0.1]]},
            "holds image_ids, tasks",
        ),
        ({"image_ids": [1], "tasks": ["car"], "logits": [["0.1"]]}, "values are no numbers"),
        ({"image_ids": [1], "tasks": ["car"], "logits": [[1j]]}, "values are no numbers"),
        (
            {"image_ids": [1.5], "tasks": ["car"], "logits": [[0.1]]},
            "image_ids: holds image ids that are no whole numbers, or too large: 1.5",
        ),
        ({"image_ids": [np.inf], "tasks": ["car"], "logits": [[0.1]]}, "or too large: inf"),
        ({"image_ids": [1e300], "tasks": ["car"], "logits": [[0.1]]}, "or too large: 1e+300"),
        (
            {"image_ids": [1, 1], "tasks": ["car"], "logits": [[0.1], [0.2]]},
            "image ids occur more than once: 1",
        ),
        (
            {"image_ids": [1], "tasks": ["car", "cow"], "logits": [[0.1]]},
            "values have shape (1, 1)",
        ),
        ({"image_ids": [1], "tasks": ["car"], "logits": 0.1}, "values have shape ()"),
        ({"image_ids": [1], "tasks": ["car"], "logits": [[[[0.1]]]]}, "values have shape"),
        ({"image_ids": [1], "tasks": ["car"], "probabilities": [[1.1]]}, "no probability"),
        ({"image_ids": [1], "tasks": ["car"], "logits": [[np.nan]]}, "NaN"),
        ({"image_ids": [], "tasks": ["car"], "logits": np.empty((0, 1))}, "there are no image ids"),
        ({"image_ids": [1], "tasks": [], "logits": np.empty((1, 0))}, "there are no tasks"),
    ],
)
def test_archives_that_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "p.npz", **arrays)
    fails(lambda: read_predictions(tmp_path / "p.npz", None, SUITE), message)


def test_what_is_no_predictions(tmp_path, long):
    for thing in (None, 3, np.zeros((2, 2)), [1.5], {"a": np.zeros(3)}):
        fails(lambda thing=thing: as_runs(thing, SUITE), "is no predictions", "Predictions.of")
    for nothing in ([], {}):
        fails(
            lambda nothing=nothing: as_runs(nothing, SUITE),
            "no predictions were given",
            kind=ParameterError,
        )
    fails(lambda: as_runs(tmp_path / "none.csv", SUITE), "no such file", "none.csv", helps=False)
    long.write_csv(tmp_path / "p.txt")
    fails(lambda: as_runs(tmp_path / "p.txt", SUITE), "'.txt'")
    (tmp_path / "empty").mkdir()
    fails(lambda: as_runs(tmp_path / "empty", SUITE), "holds no table", kind=InputError)
