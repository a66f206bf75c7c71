"""Tables altered together with their hashes: refused with the file, the problem and a remedy."""

import io
import json
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from altered_files import write_header
from refusals import fails
from scipy.sparse import csr_array

from nooch.base.errors import FormatError
from nooch.base.files import sha256_of
from nooch.criteria import CE
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.suites import load_suite, save_suite
from nooch.suites.find import find
from nooch.training.records import RunsFolder


def _data():
    """Eight images, five in the second of two parts' order, with every table."""
    ids = list(range(1, 9))
    names = [f"{number}.jpg" for number in ids]
    images = pl.DataFrame(
        {
            "image_id": ids,
            "file_name": names,
            "width": 4,
            "height": 3,
            "split": ["train", "test"] * 4,
        }
    ).with_columns(annotated_things=pl.Series([True] * 7 + [False]), place=pl.lit("sea"))
    areas = csr_array(np.tile([[0.2, 0.4, 0.0], [0.0, 0.3, 0.1]], (4, 1)))
    texts = [f"a boat of {n}" for n in range(16)]
    captions = pl.DataFrame({"image_id": np.repeat(ids, 2), "caption": texts})
    unknown = np.zeros((8, 3), int)
    unknown[::2, 2] = unknown[4, 0] = 1
    embeddings = {"e": np.arange(24, dtype=np.float32).reshape(8, 3)}
    box = dict.fromkeys(("left", "top", "width", "height", "area"), 0.5)
    objects = pl.DataFrame({"image_id": ids, "class": "boat", **box}).with_columns(
        crowd=False, ignore=pl.col("image_id") == 2
    )
    rest = {"embeddings": embeddings, "kinds": {"car": "thing"}, "unknown": unknown}
    rest["objects"] = objects
    return Dataset.build(images, ["boat", "sea", "car"], areas, captions, **rest)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The dataset in one part and in two, and its suite: never written to."""
    folder = tmp_path_factory.mktemp("made")
    for n_parts in (1, 2):
        save_dataset(divide(_data(), n_parts), folder / f"{n_parts}")
    suite = find(_data(), {"ce": CE(0.01, 0.1)}, tasks="boat", allow_unannotated=True)
    save_suite(suite, folder / "suite")
    return folder


@pytest.fixture(params=[1, 2], ids=["one part", "two parts"])
def stored(request, made, tmp_path):
    """A dataset folder of one part or two, and the name of the last file of each table."""
    shutil.copytree(made / f"{request.param}", tmp_path / "data")
    name = "{}.{}" if request.param == 1 else "{}/part-0000001.{}"
    return SimpleNamespace(
        folder=tmp_path / "data",
        last=request.param - 1,
        file=lambda kind: name.format(kind, "npy" if "/" in kind else "parquet"),
    )


def _record(folder, name):
    """Write the size and hash that a file has now into the dataset's header."""
    header = json.loads((folder / "dataset.json").read_text())
    size = (folder / name).stat().st_size
    header["files"][name] = {"sha256": sha256_of(folder / name), "bytes": size}
    write_header(folder / "dataset.json", header)


def _alter(folder, name, change):
    """Write another table or array, and its size and hash into the header."""
    if name.endswith(".npy"):
        np.save(folder / name, change(np.load(folder / name)))
    else:
        change(pl.read_parquet(folder / name)).write_parquet(folder / name)
    _record(folder, name)


def _first(table, **values):
    """The table with other values in its first row."""
    changed = [
        pl.Series(name, [value, *table[name][1:]], table[name].dtype)
        for name, value in values.items()
    ]
    return table.with_columns(*changed)


def _kind(name, kind, table):
    return table.with_columns(pl.col(name).cast(kind))


def _twice(table):
    return pl.concat([table.head(1), table])


def _more(images):
    """Images with one more, after all others."""
    return pl.concat([images, images.tail(1).with_columns(image_id=pl.lit(99, pl.Int64))])


def _without(names):
    """For each column: the table without it, and words of the refusal."""
    return [(lambda t, n=n: t.drop(n), f"has no column {n}") for n in names.split()]


def _null(names):
    """For each column: the table with a null in it, and words of the refusal."""
    return [
        (lambda t, n=n: _first(t, **{n: None}), f"column {n} has 1 nulls") for n in names.split()
    ]


def _as(kind, names, words=None):
    """For each column: the table with it as another type, and words of the refusal."""
    return [(partial(_kind, n, kind), f"column {n} is {words or kind}") for n in names.split()]


STRAY = "column image_id names images that are not in the dataset here: 77"
IDS = [*_as(pl.String, "image_id"), (lambda t: _first(t, image_id=77), STRAY)]
UNSORTED = "columns image_id and class are not in order"

# table -> alterations: what is done to the table, and words of the refusal
ALTERED = {
    "images": [
        *_without("image_id file_name width height split"),
        *_null("image_id split annotated_things"),
        *_as(pl.Float64, "image_id width height"),
        *_as(pl.Categorical, "file_name split", "Categorical"),
        *_as(pl.Int8, "annotated_things"),
        (lambda t: _first(t, width=0), "column width contains 0"),
        (lambda t: _first(t, height=-2), "column height contains -2"),
        (lambda t: _first(t, split="training"), "column split contains training"),
        (lambda t: _first(t, split="valid"), "column split has"),
        (lambda t: t.with_columns(split=pl.lit("all")), "column split has"),
        (lambda t: _first(t, file_name="../a.jpg"), "column file_name contains ../a.jpg"),
        (lambda t: _first(t, file_name="/etc/x"), "column file_name contains /etc/x"),
        (lambda t: t.reverse(), "image_id does not ascend"),
        (lambda t: _first(t, image_id=t["image_id"][1]), "image_id does not ascend"),
        (lambda t: t.head(-1), "images.parquet has 7 images, dataset.json records 8"),
        (_more, "images.parquet has 9 images, dataset.json records 8"),
    ],
    "areas": [
        *_without("image_id class area"),
        *_null("image_id class area"),
        *_as(pl.Float32, "area"),
        *_as(pl.String, "area"),
        *IDS,
        (lambda t: t.with_columns(pl.col("class").to_physical()), "column class is UInt"),
        (
            lambda t: t.with_columns(pl.col("class").cast(pl.String).replace("sea", "ocean")),
            "class",
        ),
        (lambda t: _first(t, area=-0.1), "column area contains -0.1"),
        (lambda t: _first(t, area=float("inf")), "column area contains inf"),
        (lambda t: _first(t, area=101.0), "column area contains 101.0"),
        (lambda t: t.reverse(), UNSORTED),
        (_twice, UNSORTED),
        (lambda t: pl.concat([t[1], t[0], t[2:]]), UNSORTED),
    ],
    "captions": [
        *_without("image_id caption"),
        *_null("image_id caption"),
        *IDS,
        (lambda t: t.with_columns(caption=pl.lit(1)), "column caption is Int32"),
        (lambda t: t.reverse(), "column image_id is not in order"),
    ],
    "exceptions": [
        *_without("image_id class known"),
        *_null("image_id class known"),
        *_as(pl.Int8, "known"),
        *IDS,
        (lambda t: t.with_columns(pl.col("class").cast(pl.String).replace("car", "cab")), "class"),
        (_twice, UNSORTED),
        (lambda t: t.reverse(), UNSORTED),
    ],
    "objects": [
        *_without("image_id class left top width height area crowd ignore"),
        *_null("image_id class left area crowd"),
        *_as(pl.Float32, "top area"),
        *_as(pl.Int8, "ignore"),
        *IDS,
        (lambda t: _first(t, left=float("nan")), "column left contains nan"),
        (lambda t: _first(t, top=float("-inf")), "column top contains -inf"),
        (lambda t: _first(t, width=-0.5), "column width contains -0.5"),
        (lambda t: _first(t, area=float("nan")), "column area contains nan"),
        (lambda t: t.with_columns(pl.col("class").cast(pl.String).replace("boat", "s")), "class"),
        (lambda t: t.reverse(), "column image_id is not in order"),
    ],
}
# what commands are asked, too: they read as is tested here, whatever was altered
TYPED = {changes[0][1] for changes in ALTERED.values()} | {"cannot be read", "expected"}
CASES = [(kind, change, word) for kind, changes in ALTERED.items() for change, word in changes]


def _reads(stored, kind):
    """What reads the table: everything at once, its part, the one table."""
    table = "embeddings" if kind.startswith("embeddings/") else kind
    return (
        lambda: load_dataset(stored.folder),
        lambda: open_dataset(stored.folder).part(stored.last),
        lambda: getattr(open_dataset(stored.folder), table),
    )


def _refused(stored, kind, word, run_cli, tmp_path):
    for read in _reads(stored, kind):
        text = fails(read, str(stored.folder), word, kind=FormatError)
        assert kind.partition("/")[0] in text
    # objects are not read by find
    if not stored.last or word not in TYPED or kind == "objects":
        # a command reads a dataset of one part as one of two
        return
    gist = "--criterion gist --encoder e --tau 0.5" if "/" in kind else ""
    out = tmp_path / "suite"
    command = f"find {stored.folder} {gist} --tasks boat --allow-unannotated --out {out}"
    if kind == "captions":
        command = f"tools embed {stored.folder} --encoder lexical"
    done = run_cli(command)
    assert done.code == 2, done.err
    assert str(stored.folder) in done.err.replace("\n", "")
    assert not out.exists()


@pytest.mark.parametrize(("kind", "change", "word"), CASES)
def test_an_altered_table_is_refused(stored, kind, change, word, run_cli, tmp_path):
    _alter(stored.folder, stored.file(kind), change)
    _refused(stored, kind, word, run_cli, tmp_path)


@pytest.mark.parametrize("kind", ["images", "areas", "captions", "exceptions", "objects"])
@pytest.mark.parametrize("content", [b"", b"no table", b"PAR1" + bytes(20) + b"PAR1"])
def test_a_file_that_is_no_table_is_refused(stored, kind, content, run_cli, tmp_path):
    (stored.folder / stored.file(kind)).write_bytes(content)
    _record(stored.folder, stored.file(kind))
    _refused(stored, kind, "cannot be read", run_cli, tmp_path)


@pytest.mark.parametrize(
    "change", [lambda v: v[1:], lambda v: v.astype(np.int64), np.ravel, lambda v: v.astype(str)]
)
def test_an_altered_embedding_is_refused(stored, change, run_cli, tmp_path):
    _alter(stored.folder, stored.file("embeddings/e"), change)
    _refused(stored, "embeddings/e", "expected", run_cli, tmp_path)


VECTORS, IMAGES = "embeddings/e/part-0000001.npy", "images/part-0000001.parquet"
DIFFER = [
    (VECTORS, lambda v: v[:, :2], "of one length and type"),
    (VECTORS, lambda v: v.astype(np.float64), "of one length and type"),
    (IMAGES, lambda t: t.drop("place"), f"{IMAGES}: column place is missing, and String"),
]


@pytest.mark.parametrize(("name", "change", "words"), DIFFER)
def test_parts_that_differ_are_refused(made, tmp_path, name, change, words):
    folder = shutil.copytree(made / "2", tmp_path / "data")
    _alter(folder, name, change)
    fails(lambda: load_dataset(folder), words, kind=FormatError)


@pytest.mark.parametrize("kinds", [{"cab": "thing"}, {"car": "animal"}])
def test_kinds_of_what_is_no_class_are_refused(stored, kinds):
    header = json.loads((stored.folder / "dataset.json").read_text())
    write_header(stored.folder / "dataset.json", {**header, "kinds": kinds})
    words = "dataset.json gives kinds of what is not a class"
    fails(lambda: open_dataset(stored.folder), words, kind=FormatError)


# suites


@pytest.fixture
def suite(made, tmp_path):
    """A suite folder."""
    return shutil.copytree(made / "suite", tmp_path / "suite")


def _alter_suite(folder, content):
    (folder / "challenge_sets.parquet").write_bytes(content)
    header = json.loads((folder / "suite.json").read_text())
    header["files"]["challenge_sets.parquet"] = sha256_of(folder / "challenge_sets.parquet")
    write_header(folder / "suite.json", header)


COUNTS = "is not the one that suite.json counts"
SETS = [
    *_without("criterion task split image_id label support subset"),
    *_null("criterion task split image_id label subset"),
    *_as(pl.Int64, "label by_cue"),
    *_as(pl.Float64, "image_id"),
    *_as(pl.Float32, "support"),
    (lambda t: t.with_columns(pl.col("subset").to_physical()), "column subset is UInt"),
    (lambda t: _first(t, label=2), "column label contains 2"),
    (lambda t: t.with_columns(subset=pl.lit("hard")), "column subset contains hard"),
    (lambda t: t.with_columns(split=pl.lit("dev")), "column split contains dev"),
    (
        lambda t: t.with_columns(task=pl.lit("car")),
        "column task of row group 0 does not contain only boat",
    ),
    (lambda t: t.head(-1), COUNTS),
    (lambda t: t.reverse(), COUNTS),
    (lambda t: t.with_columns(label=1 - pl.col("label")), COUNTS),
    (lambda t: t.with_columns(split=pl.lit("valid")), COUNTS),
]


@pytest.mark.parametrize(("change", "word"), SETS)
def test_an_altered_table_of_a_suite_is_refused(suite, change, word, run_cli, tmp_path):
    buffer = io.BytesIO()
    change(pl.read_parquet(suite / "challenge_sets.parquet")).write_parquet(buffer)
    _alter_suite(suite, buffer.getvalue())
    words = ("challenge_sets.parquet", word)
    fails(lambda: load_suite(suite).set("ce", "boat", "test"), *words, kind=FormatError)
    if word not in {SETS[0][1], COUNTS}:
        return
    done = run_cli(f"export {suite} {tmp_path / 'out'} --to ids")
    assert done.code == 2, done.err
    assert "challenge_sets.parquet" in done.err.replace("\n", "")


@pytest.mark.parametrize("content", [b"", b"no table", b"PAR1" + bytes(20) + b"PAR1"])
def test_a_suite_without_a_table_is_refused(suite, content):
    _alter_suite(suite, content)
    fails(lambda: load_suite(suite), "challenge_sets.parquet", "cannot be read", kind=FormatError)


# jobs


JOB = [*_without("logit"), *_null("split"), *_as(pl.String, "logit")]


@pytest.mark.parametrize(("change", "word"), JOB)
def test_altered_predictions_of_a_job_are_refused(tmp_path, change, word):
    file = tmp_path / "jobs" / "j" / "predictions.parquet"
    file.parent.mkdir(parents=True)
    frame = pl.DataFrame({"image_id": [1, 2], "split": ["valid", "test"], "logit": [0.5, -1.0]})
    frame.write_parquet(file)
    runs = RunsFolder(tmp_path, None)
    assert runs.predictions("j").equals(frame)
    change(frame).write_parquet(file)
    words = ("predictions.parquet", word, "delete the job's folder")
    fails(lambda: runs.predictions("j"), *words, kind=FormatError)
