"""Tables that were altered, and their hashes with them: refused with the file, what is wrong, and
what to do.
"""

import io
import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from refusals import fails
from scipy.sparse import csr_array

from nooch.challenge import load_suite, save_suite
from nooch.criteria import CE
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.errors import FormatError
from nooch.files import sha256_of
from nooch.finding.suite_builder import find
from nooch.training.run_records import RunsFolder


def _data():
    """Eight images, five in the second of two parts' order, with every table."""
    ids = list(range(1, 9))
    images = pl.DataFrame(
        {
            "image_id": ids,
            "file_name": [f"{number}.jpg" for number in ids],
            "width": 4,
            "height": 3,
            "split": ["train", "test"] * 4,
            "annotated_things": [True] * 7 + [False],
            "place": "sea",
        }
    )
    areas = csr_array(np.tile([[0.2, 0.4, 0.0], [0.0, 0.3, 0.1]], (4, 1)))
    captions = pl.DataFrame(
        {"image_id": np.repeat(ids, 2), "caption": [f"a boat of {n}" for n in range(16)]}
    )
    unknown = np.zeros((8, 3), int)
    unknown[::2, 2] = unknown[4, 0] = 1
    return Dataset.build(
        images, ["boat", "sea", "car"], areas, captions,
        embeddings={"e": np.arange(24, dtype=np.float32).reshape(8, 3)}, kinds={"car": "thing"}, unknown=unknown,
    )  # fmt: skip


@pytest.fixture(params=[1, 2], ids=["one part", "two parts"])
def stored(request, tmp_path):
    """A dataset folder of one part or two, and the name of the last file of each table."""
    save_dataset(divide(_data(), request.param), tmp_path / "data")
    name = "{}.{}" if request.param == 1 else "{}/part-0000001.{}"
    return SimpleNamespace(
        folder=tmp_path / "data",
        last=request.param - 1,
        file=lambda kind: name.format(kind, "npy" if "/" in kind else "parquet"),
    )


def _record(folder, name):
    """Write the size and hash that a file has now into the dataset's header."""
    header = json.loads((folder / "dataset.json").read_text())
    header["files"][name] = {
        "sha256": sha256_of(folder / name),
        "bytes": (folder / name).stat().st_size,
    }
    (folder / "dataset.json").write_text(json.dumps(header))


def _first(table, **values):
    """The table with other values in its first row."""
    changed = [
        pl.Series(name, [value, *table[name][1:]], table[name].dtype)
        for name, value in values.items()
    ]
    return table.with_columns(*changed)


def _text_ids(table):
    return table.with_columns(pl.col("image_id").cast(pl.String))


def _drop(name, table):
    return table.drop(name)


def _null(name, table):
    return _first(table, **{name: None})


def _kind(name, kind, table):
    return table.with_columns(pl.col(name).cast(kind))


# table -> alterations: what is done to the table, and words of the refusal
ALTERED = {
    "images": [
        *[(partial(_drop, name), f"has no column {name}") for name in ("image_id", "file_name", "width", "height", "split")],
        *[(partial(_null, name), f"column {name} has 1 nulls") for name in ("image_id", "split", "annotated_things")],
        *[(partial(_kind, name, pl.Float64), f"column {name} is Float64") for name in ("image_id", "width", "height")],
        *[(partial(_kind, name, pl.Categorical), f"column {name} is Categorical") for name in ("file_name", "split")],
        (partial(_kind, "annotated_things", pl.Int8), "column annotated_things is Int8"),
        (lambda t: _first(t, width=0), "column width holds 0"),
        (lambda t: _first(t, height=-2), "column height holds -2"),
        (lambda t: _first(t, split="training"), "column split holds training"),
        (lambda t: _first(t, split="valid"), "column split has"),
        (lambda t: t.with_columns(split=pl.lit("all")), "column split has"),
        *[(lambda t, n=name: _first(t, file_name=n), f"column file_name holds {name}") for name in ("../a.jpg", "/etc/x")],
        (lambda t: t.reverse(), "image_id does not ascend"),
        (lambda t: _first(t, image_id=t["image_id"][1]), "image_id does not ascend"),
        (lambda t: t.head(-1), ""),
    ],
    "areas": [
        *[(partial(_drop, name), f"has no column {name}") for name in ("image_id", "class", "area")],
        *[(partial(_null, name), f"column {name} has 1 nulls") for name in ("image_id", "class", "area")],
        (partial(_kind, "area", pl.Float32), "column area is Float32"),
        (partial(_kind, "area", pl.String), "column area is String"),
        (lambda t: t.with_columns(pl.col("class").to_physical()), "column class is UInt"),
        (_text_ids, "column image_id is String"),
        (lambda t: _first(t, image_id=77), "column image_id names images that the dataset does not hold here: 77"),
        (lambda t: t.with_columns(pl.col("class").cast(pl.String).replace("sea", "ocean")), "class"),
        *[(lambda t, a=area: _first(t, area=a), f"column area holds {area}") for area in (-0.1, float("inf"), 101.0)],
        (lambda t: t.reverse(), "columns image_id and class are not in order"),
        (lambda t: pl.concat([t.head(1), t]), "columns image_id and class are not in order"),
        (lambda t: pl.concat([t[1], t[0], t[2:]]), "columns image_id and class are not in order"),
    ],
    "captions": [
        *[(partial(_drop, name), f"has no column {name}") for name in ("image_id", "caption")],
        *[(partial(_null, name), f"column {name} has 1 nulls") for name in ("image_id", "caption")],
        (lambda t: t.with_columns(caption=pl.lit(1)), "column caption is Int32"),
        (_text_ids, "column image_id is String"),
        (lambda t: _first(t, image_id=77), "column image_id names images that the dataset does not hold here: 77"),
        (lambda t: t.reverse(), "column image_id is not in order"),
    ],
    "exceptions": [
        *[(partial(_drop, name), f"has no column {name}") for name in ("image_id", "class", "known")],
        *[(partial(_null, name), f"column {name} has 1 nulls") for name in ("image_id", "class", "known")],
        (partial(_kind, "known", pl.Int8), "column known is Int8"),
        (_text_ids, "column image_id is String"),
        (lambda t: _first(t, image_id=77), "column image_id names images that the dataset does not hold here: 77"),
        (lambda t: t.with_columns(pl.col("class").cast(pl.String).replace("car", "cab")), "class"),
        (lambda t: pl.concat([t.head(1), t]), "columns image_id and class are not in order"),
        (lambda t: t.reverse(), "columns image_id and class are not in order"),
    ],
}  # fmt: skip
CASES = [(kind, change, word) for kind, changes in ALTERED.items() for change, word in changes]


def _acts(stored, kind):
    """What reads the table: everything at once, its part, the one table."""
    table = "embeddings" if kind.startswith("embeddings/") else kind
    return (
        lambda: load_dataset(stored.folder),
        lambda: open_dataset(stored.folder).part(stored.last),
        lambda: getattr(open_dataset(stored.folder), table),
    )


def _refused(stored, kind, word, run_cli, tmp_path):
    for number, act in enumerate(_acts(stored, kind)):
        # a part cannot know how many images there are
        if word or number != 1:
            text = fails(act, str(stored.folder), word, kind=FormatError)
            assert kind.partition("/")[0] in text
    gist = ["--criterion", "gist", "--encoder", "e", "--tau", "0.5"] if "/" in kind else []
    command = ["embed", stored.folder, "--encoder", "lexical"] if kind == "captions" else [
        "find", stored.folder, *gist, "--tasks", "boat", "--allow-unannotated", "--out", tmp_path / "suite"
    ]  # fmt: skip
    done = run_cli(*command)
    assert done.code == 2, done.err
    assert str(stored.folder) in done.err.replace("\n", "")
    assert not (tmp_path / "suite").exists()


@pytest.mark.parametrize(("kind", "change", "word"), CASES)
def test_an_altered_table_is_refused(stored, kind, change, word, run_cli, tmp_path):
    name = stored.file(kind)
    change(pl.read_parquet(stored.folder / name)).write_parquet(stored.folder / name)
    _record(stored.folder, name)
    _refused(stored, kind, word, run_cli, tmp_path)


def test_an_image_more_is_refused_where_all_are_read(stored):
    name = stored.file("images")
    table = pl.read_parquet(stored.folder / name)
    more = table.tail(1).with_columns(image_id=pl.lit(99, pl.Int64))
    pl.concat([table, more]).write_parquet(stored.folder / name)
    _record(stored.folder, name)
    # a part cannot know how many images there are, but a row of an embedding is missing
    fails(
        lambda: open_dataset(stored.folder).part(stored.last),
        "expected" if stored.last else "9 images",
        kind=FormatError,
    )
    for act in (lambda: load_dataset(stored.folder), lambda: open_dataset(stored.folder).images):
        fails(act, "has 9 images, dataset.json says 8", kind=FormatError)


@pytest.mark.parametrize("kind", ["images", "areas", "captions", "exceptions"])
@pytest.mark.parametrize("content", [b"", b"no table", b"PAR1" + bytes(20) + b"PAR1"])
def test_a_file_that_is_no_table_is_refused(stored, kind, content, run_cli, tmp_path):
    (stored.folder / stored.file(kind)).write_bytes(content)
    _record(stored.folder, stored.file(kind))
    _refused(stored, kind, "cannot be read", run_cli, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values[1:],
        lambda values: values.astype(np.int64),
        lambda values: values.ravel(),
        lambda values: values.astype(str),
    ],
)
def test_an_altered_embedding_is_refused(stored, change, run_cli, tmp_path):
    name = stored.file("embeddings/e")
    np.save(stored.folder / name, change(np.load(stored.folder / name)))
    _record(stored.folder, name)
    _refused(stored, "embeddings/e", "expected", run_cli, tmp_path)


@pytest.mark.parametrize(
    "change", [lambda values: values[:, :2], lambda values: values.astype(np.float64)]
)
def test_parts_of_an_embedding_that_differ_are_refused(tmp_path, change):
    save_dataset(divide(_data(), 2), tmp_path / "data")
    name = "embeddings/e/part-0000001.npy"
    np.save(tmp_path / "data" / name, change(np.load(tmp_path / "data" / name)))
    _record(tmp_path / "data", name)
    fails(lambda: load_dataset(tmp_path / "data"), "of one length and type", kind=FormatError)


def test_parts_with_other_columns_are_refused(tmp_path):
    save_dataset(divide(_data(), 2), tmp_path / "data")
    name = "images/part-0000001.parquet"
    pl.read_parquet(tmp_path / "data" / name).drop("place").write_parquet(tmp_path / "data" / name)
    _record(tmp_path / "data", name)
    fails(
        lambda: load_dataset(tmp_path / "data"),
        f"{name}: column place is missing, and String",
        kind=FormatError,
    )


@pytest.mark.parametrize("kinds", [{"cab": "thing"}, {"car": "animal"}])
def test_kinds_of_what_is_no_class_are_refused(stored, kinds):
    header = json.loads((stored.folder / "dataset.json").read_text())
    (stored.folder / "dataset.json").write_text(json.dumps({**header, "kinds": kinds}))
    fails(
        lambda: open_dataset(stored.folder),
        "dataset.json gives kinds of what is no class",
        kind=FormatError,
    )


# suites


@pytest.fixture
def suite(tmp_path):
    """A suite folder."""
    found = find(_data(), {"ce": CE(0.01, 0.1)}, tasks="boat", allow_unannotated=True)
    return save_suite(found, tmp_path / "suite")


def _alter_suite(folder, content):
    (folder / "challenge_sets.parquet").write_bytes(content)
    header = json.loads((folder / "suite.json").read_text())
    header["files"]["challenge_sets.parquet"] = sha256_of(folder / "challenge_sets.parquet")
    (folder / "suite.json").write_text(json.dumps(header))


SETS = [
    *[(partial(_drop, name), f"has no column {name}") for name in ("criterion", "task", "split", "image_id", "label", "support", "subset")],
    *[(partial(_null, name), f"column {name} has 1 nulls") for name in ("criterion", "task", "split", "image_id", "label", "subset")],
    (partial(_kind, "label", pl.Int64), "column label is Int64"),
    (partial(_kind, "image_id", pl.Float64), "column image_id is Float64"),
    (partial(_kind, "support", pl.Float32), "column support is Float32"),
    (partial(_kind, "by_cue", pl.Int64), "column by_cue is Int64"),
    (lambda t: t.with_columns(pl.col("subset").to_physical()), "column subset is UInt"),
    (lambda t: _first(t, label=2), "column label holds 2"),
    (lambda t: t.with_columns(subset=pl.lit("hard")), "column subset holds hard"),
    (lambda t: t.with_columns(split=pl.lit("dev")), "column split holds dev"),
    (lambda t: t.with_columns(task=pl.lit("car")), "column task of row group 0 does not hold boat alone"),
    (lambda t: t.head(-1), "is not the one that suite.json counts"),
    (lambda t: t.reverse(), "is not the one that suite.json counts"),
    (lambda t: t.with_columns(label=1 - pl.col("label")), "is not the one that suite.json counts"),
    (lambda t: t.with_columns(split=pl.lit("valid")), "is not the one that suite.json counts"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "word"), SETS)
def test_an_altered_table_of_a_suite_is_refused(suite, change, word, run_cli, tmp_path):
    buffer = io.BytesIO()
    change(pl.read_parquet(suite / "challenge_sets.parquet")).write_parquet(buffer)
    _alter_suite(suite, buffer.getvalue())
    fails(
        lambda: load_suite(suite).set("ce", "boat", "test"),
        "challenge_sets.parquet",
        word,
        kind=FormatError,
    )
    done = run_cli(f"export {suite} {tmp_path / 'out'} --to npy")
    assert done.code == 2, done.err
    assert "challenge_sets.parquet" in done.err.replace("\n", "")


@pytest.mark.parametrize("content", [b"", b"no table", b"PAR1" + bytes(20) + b"PAR1"])
def test_a_suite_without_a_table_is_refused(suite, content):
    _alter_suite(suite, content)
    fails(lambda: load_suite(suite), "challenge_sets.parquet", "cannot be read", kind=FormatError)


# what jobs, caches and collections keep


def _rewritten(file, change):
    """Alter a table in its place."""
    frame = pl.read_parquet(file)
    change(frame).write_parquet(file)
    return frame


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (partial(_drop, "logit"), "has no column logit"),
        (partial(_null, "split"), "column split has 1 nulls"),
        (partial(_kind, "logit", pl.String), "column logit is String"),
    ],
)
def test_altered_predictions_of_a_job_are_refused(tmp_path, change, word):
    folder = RunsFolder(tmp_path, None)
    (tmp_path / "jobs" / "j").mkdir(parents=True)
    frame = pl.DataFrame({"image_id": [1, 2], "split": ["valid", "test"], "logit": [0.5, -1.0]})
    frame.write_parquet(tmp_path / "jobs" / "j" / "predictions.parquet")
    assert folder.predictions("j").equals(frame)
    _rewritten(tmp_path / "jobs" / "j" / "predictions.parquet", change)
    fails(
        lambda: folder.predictions("j"),
        "predictions.parquet",
        word,
        "delete the job's folder",
        kind=FormatError,
    )
