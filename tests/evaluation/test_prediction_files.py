"""Predictions from files, frames and arrays: the same from every form; bad input is refused."""

import warnings

import numpy as np
import polars as pl
import pytest
from refusals import fails
from scored import FORMS, TASKS, arrays_of, logits, small_suite, wide

from nooch.base.errors import InputError, ParameterError
from nooch.evaluation import evaluate, load_predictions

SUITE = small_suite()


@pytest.fixture(scope="module")
def long():
    return logits(small_suite())


def _same(run, frame):
    """The run holds exactly the rows of a long frame."""
    wide_frame = pl.DataFrame({"image_id": run.image_ids.cast(pl.Int64)})
    pairs = zip(run.tasks, run.values, strict=True)
    values = wide_frame.hstack([pl.Series(*pair) for pair in pairs])
    return set(values.unpivot(index="image_id").rows()) == set(frame.rows())


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_read_to_the_same_values(long, tmp_path, name):
    form = FORMS[name]
    file = tmp_path / f"erm{form.ending}"
    form.write(long, file)
    (run,) = load_predictions(file, SUITE, scale="logit" if form.options else None)
    assert (run.run, run.scale, run.method, run.seed) == ("erm", "logit", None, None)
    assert _same(run, long)


def test_float32_is_kept_and_scored_as_float64(long):
    narrow = long.with_columns(pl.col("logit").cast(pl.Float32))
    (run,) = load_predictions(narrow, SUITE)
    (same,) = load_predictions(narrow.with_columns(pl.col("logit").cast(pl.Float64)), SUITE)
    assert (run.values.dtype, same.values.dtype) == (np.float32, np.float64)
    kept, wide_ones = (evaluate(SUITE, one, bootstrap=5).table for one in (run, same))
    assert kept.equals(wide_ones)
    shares = narrow.select("image_id", "task", probability=pl.lit(31.7, pl.Float32))
    (run,) = load_predictions(shares, SUITE, percent=True)
    # polars before 2 multiplies by 1 / 100
    np.testing.assert_allclose(run.values, float(np.float32(31.7)) / 100, rtol=1e-15)


def test_a_folder_of_part_files_is_one_run(long, tmp_path):
    (tmp_path / "erm").mkdir()
    long[:20].write_parquet(tmp_path / "erm" / "0.parquet")
    long[20:].write_parquet(tmp_path / "erm" / "1.parquet")
    (run,) = load_predictions(tmp_path / "erm", SUITE)
    assert run.run == "erm"
    assert _same(run, long)


def test_frames_of_other_libraries_and_lazy_ones(long):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for frame in (long.lazy(), long.to_arrow()):
            (run,) = load_predictions(frame, SUITE)
            assert _same(run, long)


def test_an_ending_in_capitals_is_known(long, tmp_path):
    FORMS["npz"].write(long, tmp_path / "a.npz")
    (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    assert _same(load_predictions(tmp_path / "A.NPZ", SUITE)[0], long)


def test_task_names_with_spaces_are_the_suites(long, tmp_path):
    spaced = long.with_columns(pl.col("task").str.replace("_", " "))
    assert "fire hydrant" in spaced["task"]
    for frame, scale in ((spaced, None), (wide(spaced), "logit")):
        (run,) = load_predictions(frame, SUITE, scale=scale)
        assert set(run.tasks) == set(TASKS)
    values, ids, tasks = arrays_of(spaced)
    np.savez(tmp_path / "a.npz", image_ids=ids, tasks=np.array(tasks), logits=values)
    assert set(load_predictions(tmp_path / "a.npz", SUITE)[0].tasks) == set(TASKS)


def test_the_task_may_be_left_out_where_there_is_one():
    frame = pl.DataFrame({"image_id": [37, 38], "probability": [0.25, 1.0]})
    (run,) = load_predictions(frame, SUITE.only(["car"]))
    assert (run.tasks, run.scale, run.values.tolist()) == (("car",), "probability", [[0.25, 1.0]])
    fails(lambda: load_predictions(frame, SUITE), "has no column task")


def test_whole_floats_are_integer_ids(long):
    (run,) = load_predictions(long.with_columns(pl.col("image_id").cast(pl.Float64)), SUITE)
    assert run.image_ids.dtype == pl.Int64


def test_a_column_without_a_name_is_an_index_and_no_task(long):
    (run,) = load_predictions(wide(long).with_row_index(""), SUITE, scale="logit")
    assert set(run.tasks) == set(TASKS)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [({}, ("f", None, None)), ({"run": "r"}, ("r", None, None)),
     ({"method": "erm"}, ("erm", "erm", None)), ({"seed": 3}, ("f/3", None, 3)),
     ({"method": "erm", "seed": 3}, ("erm/3", "erm", 3)), ({"run": "r", "seed": 3}, ("r", None, 3)),
     ({"run": "r", "method": "erm", "seed": 3}, ("r", "erm", 3)), ({"run": 7}, ("7", None, None))],
)  # fmt: skip
def test_how_runs_are_named(long, tmp_path, columns, expected):
    file = tmp_path / "f.parquet"
    frame = long.with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    frame.write_parquet(file)
    (run,) = load_predictions(file, SUITE)
    assert (run.run, run.method, run.seed) == expected


def test_runs_of_one_name_are_distinguished_by_method_and_seed(long):
    frame = pl.concat(long.with_columns(run=pl.lit("r"), seed=pl.lit(seed)) for seed in (0, 1))
    assert [run.run for run in load_predictions(frame, SUITE)] == ["r/0", "r/1"]


def test_empty_keys_fall_back_to_the_file(long, tmp_path):
    frame = pl.concat(
        long.with_columns(method=pl.lit(method, pl.String), seed=pl.lit(seed, pl.Int64))
        for method, seed in (("erm", 1), ("erm", None), (None, 1), (None, None))
    )
    frame.write_parquet(tmp_path / "f.parquet")
    runs = load_predictions(tmp_path / "f.parquet", SUITE)
    assert {run.run for run in runs} == {"erm/1", "erm", "f/1", "f"}


def test_several_files_of_one_name_and_of_the_same_seeds(long, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        long.write_csv(tmp_path / folder / "p.csv")
    files = [tmp_path / folder / "p.csv" for folder in ("a", "b")]
    assert [run.run for run in load_predictions(files, SUITE)] == [str(file) for file in files]
    for method in ("erm", "dro"):
        both = pl.concat(long.with_columns(seed=pl.lit(s)) for s in (0, 1))
        both.write_parquet(tmp_path / f"{method}.parquet")
    seeds = load_predictions([tmp_path / "erm.parquet", tmp_path / "dro.parquet"], SUITE)
    assert [run.run for run in seeds] == ["erm/0", "erm/1", "dro/0", "dro/1"]


def test_a_mapping_names_its_runs_whatever_they_hold(long):
    several = pl.concat(long.with_columns(run=pl.lit(name)) for name in ("p", "q"))
    seeds = pl.concat(long.with_columns(seed=pl.lit(seed)) for seed in (0, 1))
    named = {"x": long.with_columns(run=pl.lit("r")), "y": several, "z": seeds, 4: long}
    runs = [run.run for run in load_predictions(named, SUITE)]
    assert runs == ["x", "y/p", "y/q", "z/0", "z/1", "4"]


def test_a_repeated_run_is_refused(long, tmp_path):
    long.write_csv(tmp_path / "p.csv")
    files = [tmp_path / "p.csv", tmp_path / "." / "p.csv"]
    fails(lambda: load_predictions(files, SUITE), "runs occur more than once", "p.csv")
    fails(lambda: load_predictions([long, long], SUITE), "runs occur more than once: predictions")


def test_archives_of_several_runs(long, tmp_path):
    values, ids, tasks = arrays_of(long)

    def runs(name, logits, **more):
        np.savez(tmp_path / name, image_ids=ids, tasks=tasks, logits=logits, **more)
        return load_predictions(tmp_path / name, SUITE)

    both = np.stack([values, -values])
    one, two = runs("a.npz", both, runs=["u", "v"])
    assert (one.run, two.run) == ("u", "v")
    assert (one.values == -two.values).all()
    assert [run.run for run in runs("b.npz", both)] == ["b/0", "b/1"]
    assert [run.run for run in runs("c.npz", values, runs=np.array("w"))] == ["w"]
    for names in (["u"], ["u", "v", "w"]):
        words = ("runs and logits of shape", "d.npz")
        fails(lambda names=names: runs("d.npz", both, runs=names), *words)


def without(column):
    """A change that removes a column's values in two rows, those of image 37."""
    return lambda f: f.with_columns(pl.when(pl.col("image_id") > 37).then(column).alias(column))


def with_column(**columns):
    """A change that adds or replaces columns."""
    return lambda f: f.with_columns(**columns)


def with_probability(value):
    """A change of logits to this probability."""
    return lambda f: f.select("image_id", "task", probability=pl.lit(value))


def repeated(n, **columns):
    """A change that repeats the first rows with other values."""
    return lambda f: pl.concat([f, f[:n].with_columns(**columns)])


LATE = pl.when(pl.int_range(pl.len()) != 30).then("logit")
WRONG_LONG = [
    (lambda f: f.rename({"image_id": "x"}), ["has columns x, task, logit"]),
    (lambda f: f[:0], ["contains no row"]),
    (lambda f: f[:0].with_columns(run=pl.lit("r")), ["contains no row"]),
    (with_column(probability=0.5), ["both a column logit and a column probability"]),
    (lambda f: f.rename({"logit": "x"}), ["a column task, but neither logit nor probability"]),
    (lambda f: f.drop("logit"), ["neither logit nor probability"]),
    (with_column(logit=pl.lit("0.5")), ["only values from 0 to 1"]),
    (with_column(logit=pl.concat_str(pl.lit("n/"), "image_id")), ["such as 'n/37'"]),
    (with_column(logit=pl.lit(value=True)), ["only 0 and 1"]),
    (with_column(logit=pl.lit(None)), ["column logit contains Null"]),
    (with_column(logit=LATE), ["1 value is missing", "image 43, task fire_hydrant"]),
    (without("image_id"), ["2 image ids are"]),
    (without("task"), ["2 tasks are missing"]),
    (with_column(logit=pl.lit(float("nan"))), ["48 values are NaN", "image 37, task car"]),
    (with_column(logit=-pl.lit(float("inf"))), ["48 values are NaN or infinite"]),
    (with_column(seed=pl.lit("one")), ["wrong type", "seed"]),
    (with_column(label=pl.lit(2)), ["label contains more than 0 and 1"]),
    (with_column(label=pl.lit(None, pl.Int64)), ["label contains more than 0 and 1"]),
    (with_column(task=pl.lit(" ")), ["empty name"]),
    (repeated(2, logit=pl.col("logit") + 1),
     ["2 predictions are repeated with other values", "task car: row 1 has", "run f"]),
    (lambda f: f.rename({"logit": "probability"}), ["are not a probability", "0 to 1"]),
    (with_probability(1 + 1e-5), ["48 values are not a probability"]),
    (with_probability(-1e-5), ["48 values are not a probability"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "parts"), WRONG_LONG)
@pytest.mark.parametrize("kept", ["frame", "parquet"])
def test_long_tables_that_are_refused(long, tmp_path, change, parts, kept):
    frame = change(long)
    source = frame
    if kept == "parquet":
        source = tmp_path / "f.parquet"
        frame.write_parquet(source)
    fails(lambda: load_predictions({"f": source}, SUITE), *parts, helps="empty name" not in parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [(lambda f: f.select("image_id"), ["has columns image_id"]),
     (with_column(car=pl.lit("a")), ["not numbers: car (String, such as 'a')"]),
     (with_column(**{"Fire hydrant": 0.5}), ["are both task fire_hydrant"]),
     (without("car"), ["1 value is missing, such as image 37, task car"]),
     (repeated(1, car=7.0), ["1 predictions are repeated with other values", "row 25",
                             "such as image 37: row 1 has"])],
)  # fmt: skip
def test_wide_tables_that_are_refused(long, change, parts):
    fails(lambda: load_predictions({"f": change(wide(long))}, SUITE, scale="logit"), *parts)


def test_a_wide_table_must_say_its_scale(long):
    fails(lambda: load_predictions(wide(long), SUITE), "if they are logits, pass scale='logit'")
    words = ("'logits' is not a value of `scale`", "mean logit?")
    fails(lambda: load_predictions(long, SUITE, scale="logits"), *words, kind=ParameterError)


HEAD = "image_id,task,logit\n"
INFINITE = [(f"1,car,0.5\n2,car,{v}\n", ["image 2"]) for v in ("NaN", "inf", "-inf")]


@pytest.mark.parametrize(
    ("rows", "words"),
    [(None, ["cannot be read", "p.csv"]), ("", ["contains no row", "p.csv"]),
     ('"1,car', ["cannot be", "p.csv"]),
     ("1,car,0.5\n2,car,\n", ["1 value is missing", "image 2, task car"]),
     ("1,car,0.5\n2,car,high\n", ["contains String, such as 'high'"]),
     ("1,car,0.5\n2,car,nan\n", ["NaN", "image 2, task car"]), *INFINITE],
)  # fmt: skip
def test_csv_files_that_are_refused(tmp_path, rows, words):
    (tmp_path / "p.csv").write_text("" if rows is None else HEAD + rows)
    fails(lambda: load_predictions(tmp_path / "p.csv", SUITE), *words, helps="p.csv" not in words)


@pytest.mark.parametrize("name", ["long-parquet", "npz"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.99])
def test_files_that_were_cut(long, tmp_path, name, keep):
    form = FORMS[name]
    file = tmp_path / f"p{form.ending}"
    form.write(long, file)
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content))])
    fails(lambda: load_predictions(file, SUITE), "cannot be read", str(file), helps=False)


def test_archives_of_objects_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "unpickled"), "w"))

    bomb = np.array([Bomb()], dtype=object)
    np.savez(tmp_path / "p.npz", image_ids=[1], tasks=["car"], logits=bomb)
    fails(lambda: load_predictions(tmp_path / "p.npz", SUITE), "cannot be read", "p.npz")
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "array.npy").rename(tmp_path / "q.npz")
    fails(lambda: load_predictions(tmp_path / "q.npz", SUITE), "no named array")
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image_ids": None}, "contains logits, tasks"),
        ({"tasks": None}, "contains logits, image_ids"),
        ({"logits": None}, "contains image_ids, tasks"),
        ({"probabilities": [[0.1]]}, "contains logits, image_ids, tasks"),
        ({"logits": [["0.1"]]}, "values are not numbers"),
        ({"logits": [[1j]]}, "values are not numbers"),
        (
            {"image_ids": [1.5]},
            "image_ids: contains image ids that are not whole numbers, or too large: 1.5",
        ),
        ({"image_ids": [np.inf]}, "or too large: inf"),
        ({"image_ids": [1e300]}, "or too large: 1e+300"),
        ({"image_ids": [1, 1], "logits": [[0.1], [2.1]]}, "image ids occur more than once: 1"),
        ({"tasks": ["car", "cow"]}, "values have shape (1, 1)"),
        ({"logits": 2.1}, "values have shape ()"),
        ({"logits": [[[[2.1]]]]}, "values have shape"),
        ({"logits": None, "probabilities": [[1.1]]}, "not a probability"),
        ({"logits": [[np.nan]]}, "NaN"),
        ({"image_ids": [], "logits": np.empty((0, 1))}, "there are no image ids"),
        ({"tasks": [], "logits": np.empty((1, 0))}, "there are no tasks"),
    ],
)
def test_archives_that_are_refused(tmp_path, arrays, message):
    content = {"logits": [[2.1]], "image_ids": [1], "tasks": ["car"], **arrays}
    np.savez(tmp_path / "p.npz", **{k: v for k, v in content.items() if v is not None})
    fails(lambda: load_predictions(tmp_path / "p.npz", SUITE), message)


def test_what_is_no_predictions(tmp_path, long):
    for thing in (None, 3, np.zeros((2, 2)), [1.5], {"a": np.zeros(3)}):
        words = "cannot be read as predictions", "Predictions.from_arrays"
        fails(lambda thing=thing: load_predictions(thing, SUITE), *words)
    for nothing in ([], {}):
        words = "no predictions were given"
        fails(lambda nothing=nothing: load_predictions(nothing, SUITE), words, kind=ParameterError)
    absent = tmp_path / "none.csv"
    fails(lambda: load_predictions(absent, SUITE), "no such file", "none.csv", helps=False)
    long.write_csv(tmp_path / "p.txt")
    fails(lambda: load_predictions(tmp_path / "p.txt", SUITE), "'.txt'")
    (tmp_path / "empty").mkdir()
    fails(lambda: load_predictions(tmp_path / "empty", SUITE), "contains no table", kind=InputError)
