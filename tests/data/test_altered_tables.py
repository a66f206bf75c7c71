"""Tables altered together with their hashes: refused with the file, the problem and a remedy."""

import json
import shutil
from functools import partial

import numpy as np
import polars as pl
import pytest
from altered_files import seal, write_header
from refusals import fails
from scipy.sparse import csr_array

from nooch.base.errors import FormatError
from nooch.criteria import CE
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.suites import load_suite, save_suite
from nooch.suites.find import find
from nooch.training.records import RunsFolder

refused = partial(fails, kind=FormatError)


def _data():
    """Eight images, five in the second of two parts' order, with every table."""
    ids = [*range(1, 9)]
    names = [f"{number}.jpg" for number in ids]
    images = {"image_id": ids, "file_name": names, "width": 4, "height": 3}
    images |= {"split": ["train", "test"] * 4, "annotated_things": [True] * 7 + [False]}
    areas = csr_array(np.tile([[0.2, 0.4, 0.0], [0.0, 0.3, 0.1]], (4, 1)))
    texts = [f"a boat of {n}" for n in range(16)]
    captions = pl.DataFrame({"image_id": np.repeat(ids, 2), "caption": texts})
    unknown = np.zeros((8, 3), int)
    unknown[::2, 2] = unknown[4, 0] = 1
    box = dict.fromkeys(("left", "top", "width", "height", "area"), 0.5)
    objects = pl.DataFrame({"image_id": ids, "class": "boat", **box}).with_columns(
        crowd=False, ignore=pl.col("image_id") == 2
    )
    rest = {"kinds": {"car": "thing"}, "unknown": unknown, "objects": objects}
    rest["embeddings"] = {"e": np.arange(24, dtype=np.float32).reshape(8, 3)}
    frame = pl.DataFrame({**images, "place": "sea"})
    return Dataset.build(frame, ["boat", "sea", "car"], areas, captions, **rest)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The dataset in one part and in two, and its suite: never written to."""
    folder = tmp_path_factory.mktemp("made")
    for n_parts in (1, 2):
        save_dataset(divide(_data(), n_parts), folder / f"{n_parts}")
    suite = find(_data(), {"ce": CE(0.01, 0.1)}, tasks="boat", allow_unannotated=True)
    save_suite(suite, folder / "suite")
    return folder


@pytest.fixture
def altered(made, tmp_path):
    """A copy of a folder, one of its files altered by a function, or replaced by bytes."""

    def alter(kind, name, change):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        shutil.copytree(made / kind, folder)
        file = folder / name
        if isinstance(change, bytes):
            file.write_bytes(change)
        elif name.endswith(".npy"):
            np.save(file, change(np.load(file)))
        else:
            change(pl.read_parquet(file.read_bytes())).write_parquet(file)
        seal(folder, file)
        return folder

    return alter


def _to(**values):
    """The table with other values in its first row."""
    return lambda table: table.with_columns(
        pl.Series(name, [value, *table[name][1:]], table[name].dtype)
        for name, value in values.items()
    )


def _lacks(names):
    """For each column: the table without it, and words of the refusal."""
    return [(lambda t, n=n: t.drop(n), f"has no column {n}") for n in names.split()]


def _null(names):
    """For each column: the table with a null in it, and words of the refusal."""
    return [(_to(**{n: None}), f"column {n} has 1 nulls") for n in names.split()]


def _as(kind, names, words=None):
    """For each column: the table with it as another type, and words of the refusal."""
    cast = lambda name: lambda t: t.with_columns(pl.col(name).cast(kind))  # noqa: E731
    return [(cast(n), f"column {n} is {words or kind}") for n in names.split()]


def _renamed(before, after):
    return lambda t: t.with_columns(pl.col("class").cast(pl.String).replace(before, after))


def _twice(table):
    return pl.concat([table.head(1), table])


def _more(images):
    """Images with one more, after all others."""
    return pl.concat([images, images.tail(1).with_columns(image_id=pl.lit(99, pl.Int64))])


STRAY = "column image_id names images that are not in the dataset here: 77"
IDS = [*_as(pl.String, "image_id"), (_to(image_id=77), STRAY)]
UNSORTED = "columns image_id and class are not in order"
NO_TABLE = [(c, "cannot be read") for c in (b"", b"no table", b"PAR1" + bytes(20) + b"PAR1")]
ALL = pl.lit("all")

# table -> alterations: what is done to the table, and words of the refusal
ALTERED = {
    "images": [
        *_lacks("image_id file_name width height split"),
        *_null("image_id split annotated_things"),
        *_as(pl.Float64, "image_id width height"),
        *_as(pl.Categorical, "file_name split", "Categorical"),
        *_as(pl.Int8, "annotated_things"),
        (_to(width=0), "column width contains 0"),
        (_to(height=-2), "column height contains -2"),
        (_to(split="training"), "column split contains training"),
        (_to(split="valid"), "column split has"),
        (lambda t: t.with_columns(split=ALL), "column split has"),
        (_to(file_name="../a.jpg"), "column file_name contains ../a.jpg"),
        (_to(file_name="/etc/x"), "column file_name contains /etc/x"),
        (lambda t: t.reverse(), "image_id does not ascend"),
        (lambda t: _to(image_id=t["image_id"][1])(t), "image_id does not ascend"),
        (lambda t: t.head(-1), "images.parquet has 7 images, dataset.json records 8"),
        (_more, "images.parquet has 9 images, dataset.json records 8"),
    ],
    "areas": [
        *_lacks("image_id class area"),
        *_null("image_id class area"),
        *_as(pl.Float32, "area"),
        *_as(pl.String, "area"),
        *IDS,
        (lambda t: t.with_columns(pl.col("class").to_physical()), "column class is UInt"),
        (_renamed("sea", "ocean"), "class"),
        (_to(area=-0.1), "column area contains -0.1"),
        (_to(area=float("inf")), "column area contains inf"),
        (_to(area=101.0), "column area contains 101.0"),
        (lambda t: t.reverse(), UNSORTED),
        (_twice, UNSORTED),
        (lambda t: pl.concat([t[1], t[0], t[2:]]), UNSORTED),
    ],
    "captions": [
        *_lacks("image_id caption"),
        *_null("image_id caption"),
        *IDS,
        (lambda t: t.with_columns(caption=pl.lit(1)), "column caption is Int32"),
        (lambda t: t.reverse(), "column image_id is not in order"),
    ],
    "exceptions": [
        *_lacks("image_id class known"),
        *_null("image_id class known"),
        *_as(pl.Int8, "known"),
        *IDS,
        (_renamed("car", "cab"), "class"),
        (_twice, UNSORTED),
        (lambda t: t.reverse(), UNSORTED),
    ],
    "objects": [
        *_lacks("image_id class left top width height area crowd ignore"),
        *_null("image_id class left area crowd"),
        *_as(pl.Float32, "top area"),
        *_as(pl.Int8, "ignore"),
        *IDS,
        (_to(left=float("nan")), "column left contains nan"),
        (_to(top=float("-inf")), "column top contains -inf"),
        (_to(width=-0.5), "column width contains -0.5"),
        (_to(area=float("nan")), "column area contains nan"),
        (_renamed("boat", "s"), "class"),
        (lambda t: t.reverse(), "column image_id is not in order"),
    ],
    "embeddings/e": [
        (change, "expected")
        for change in (lambda v: v[1:], lambda v: v.astype(int), np.ravel, lambda v: v.astype(str))
    ],
}


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("kind", ALTERED)
def test_an_altered_table_of_a_dataset_is_refused(altered, kind, parts):
    """Whoever reads it: everything at once, its part, or the one table."""
    name = kind if parts == 1 else f"{kind}/part-0000001"
    table, _, embedding = kind.partition("/")
    for change, word in ALTERED[kind] + ([] if embedding else NO_TABLE):
        folder = altered(f"{parts}", f"{name}.{'npy' if embedding else 'parquet'}", change)
        for read in (
            load_dataset,
            lambda at: open_dataset(at).part(parts - 1),
            lambda at: getattr(open_dataset(at), table),
        ):
            refused(partial(read, folder), str(folder), table, word)


VECTORS, IMAGES = "embeddings/e/part-0000001.npy", "images/part-0000001.parquet"
DIFFER = [
    (VECTORS, lambda v: v[:, :2], "of one length and type"),
    (VECTORS, lambda v: v.astype(np.float64), "of one length and type"),
    (IMAGES, lambda t: t.drop("place"), f"{IMAGES}: column place is missing, and String"),
]


def test_parts_that_differ_are_refused(altered):
    for name, change, words in DIFFER:
        refused(partial(load_dataset, altered("2", name, change)), words)


def test_kinds_of_what_is_no_class_are_refused(made, tmp_path):
    header = json.loads((made / "1" / "dataset.json").read_text())
    for kinds in ({"cab": "thing"}, {"car": "animal"}):
        write_header(tmp_path / "dataset.json", {**header, "kinds": kinds})
        words = "dataset.json gives unknown kinds"
        refused(lambda: open_dataset(tmp_path), words)


COUNTS = "is not the one that suite.json counts"
SETS = [
    *_lacks("criterion task split image_id label support subset"),
    *_null("criterion task split image_id label subset"),
    *_as(pl.Int64, "label by_cue"),
    *_as(pl.Float64, "image_id"),
    *_as(pl.Float32, "support"),
    (lambda t: t.with_columns(pl.col("subset").to_physical()), "column subset is UInt"),
    (_to(label=2), "column label contains 2"),
    (lambda t: t.with_columns(subset=pl.lit("hard")), "column subset contains hard"),
    (lambda t: t.with_columns(split=pl.lit("dev")), "column split contains dev"),
    (
        lambda t: t.with_columns(task=pl.lit("car")),
        "task of row group 0 does not contain only boat",
    ),
    (lambda t: t.head(-1), COUNTS),
    (lambda t: t.reverse(), COUNTS),
    (lambda t: t.with_columns(label=1 - pl.col("label")), COUNTS),
    (lambda t: t.with_columns(split=pl.lit("valid")), COUNTS),
    *NO_TABLE,
]


def test_an_altered_table_of_a_suite_is_refused(altered):
    for change, word in SETS:
        folder = altered("suite", "challenge_sets.parquet", change)
        read = lambda at=folder: load_suite(at).set("ce", "boat", "test")  # noqa: E731
        refused(read, "challenge_sets.parquet", word)


def test_altered_predictions_of_a_job_are_refused(tmp_path):
    file = tmp_path / "jobs" / "j" / "predictions.parquet"
    file.parent.mkdir(parents=True)
    frame = pl.DataFrame({"image_id": [1, 2], "split": ["valid", "test"], "logit": [0.5, -1.0]})
    frame.write_parquet(file)
    runs = RunsFolder(tmp_path, None)
    assert runs.predictions("j").equals(frame)
    for change, word in (*_lacks("logit"), *_null("split"), *_as(pl.String, "logit")):
        change(frame).write_parquet(file)
        words = ("predictions.parquet", word, "delete the job's folder")
        refused(lambda: runs.predictions("j"), *words)
