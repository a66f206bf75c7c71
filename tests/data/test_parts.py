"""A dataset of one part or several: written and read without a change, with one fingerprint."""

import dataclasses
import json
import pickle
from functools import partial

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from altered_files import write_header
from hypothesis import given, settings, strategies as st
from oracles import collections, dataset_of
from refusals import fails
from same_datasets import same_dataset
from scipy.sparse import csr_array

from nooch.base.engines import LocalEngine
from nooch.base.errors import FormatError, OutputError, ParameterError
from nooch.data import (
    Dataset,
    divide,
    load_dataset,
    open_dataset,
    save_dataset,
    seal_dataset,
    write_part,
)

COLUMNS = {
    "place": (pl.String, st.none() | st.sampled_from(["forest", "sea", ""])),
    "hour": (pl.Int64, st.none() | st.integers(0, 23)),
    "tags": (pl.List(pl.Int64), st.lists(st.integers(0, 3), max_size=2)),
    "annotated_stuff": (pl.Boolean, st.booleans()),
}


EDGES, EXTENTS = st.floats(-9, 9), st.floats(0, 9)
BOX = {"left": EDGES, "top": EDGES, "width": EXTENTS, "height": EXTENTS, "area": EXTENTS}


@st.composite
def objects_of(draw, ids, classes):
    """Random objects of these images, in any order, or none."""
    row = {"image_id": st.sampled_from(ids), "class": st.sampled_from(classes), **BOX}
    row |= {"crowd": st.booleans(), "ignore": st.booleans()}
    rows = draw(st.lists(st.fixed_dictionaries(row), max_size=9))
    kinds = dict(zip(row, [pl.Series(ids).dtype, pl.String, *5 * [pl.Float64]], strict=False))
    schema = {**kinds, "crowd": pl.Boolean, "ignore": pl.Boolean}
    return draw(st.sampled_from([None, pl.DataFrame(rows, schema=schema)]))


@st.composite
def datasets(draw):
    """Random datasets with attributes, captions, exceptions, objects, kinds and an embedding."""
    images, classes, splits = draw(collections(splits=True))
    numbers = range(5, 5 + len(images))
    ids = [f"i{n:03d}" for n in numbers] if draw(st.booleans()) else list(numbers)
    data = dataset_of(images, classes, splits, ids)
    columns = {
        name: pl.Series([draw(values) for _ in images], dtype=kind)
        for name, (kind, values) in COLUMNS.items()
    }
    stated = draw(st.none() | st.lists(st.booleans(), min_size=len(images), max_size=len(images)))
    unknown = None if stated is None else np.array(stated)[:, None] & (np.arange(len(classes)) == 0)
    return Dataset.build(
        data.images.with_columns(**columns),
        classes,
        data.areas,
        pl.DataFrame({"image_id": ids[::2], "caption": [f"a caption of {i}" for i in ids[::2]]}),
        embeddings={"e": np.arange(len(ids) * 2.0).reshape(-1, 2)},
        kinds={"A": "stuff"},
        unknown=unknown,
        objects=draw(objects_of(ids, classes)),
        provenance={"reader": "made up"},
    )


@settings(deadline=None, max_examples=10)
@given(datasets(), st.integers(1, 3))
def test_parts_hold_the_whole_and_its_fingerprint(tmp_path_factory, data, parts):
    folder = tmp_path_factory.mktemp("parts") / "data"
    save_dataset(divide(data, min(parts, len(data))), folder)
    opened, loaded = open_dataset(folder), load_dataset(folder)
    # in memory it is computed, in a folder it is recorded
    assert opened.fingerprint == dataclasses.replace(loaded).fingerprint == data.fingerprint
    for whole in (opened, loaded, *(pickle.loads(pickle.dumps(d)) for d in (opened, loaded))):
        assert len(whole) == len(data)
        assert (whole.splits, whole.fitting_split) == (data.splits, data.fitting_split)
        assert (whole.embedding_names, whole.has_captions) == (("e",), True)
        assert whole.attributes == data.attributes
        same_dataset(whole, data)
    pieces = [opened.part(number) for number in range(opened.n_parts)]
    assert len(pieces) == min(parts, len(data))
    assert pl.concat([part.images for part in pieces]).equals(data.images)
    areas = np.concatenate([part.areas.toarray() for part in pieces])
    assert np.array_equal(areas, data.areas.toarray(), equal_nan=True)
    assert sum(part.areas.nnz for part in pieces) == data.areas.nnz
    vectors = np.concatenate([part.embeddings["e"] for part in pieces])
    assert np.array_equal(vectors, data.embeddings["e"])
    assert pl.concat([part.captions for part in pieces]).equals(data.captions)
    stated = [0 if d.exceptions is None else d.exceptions.nnz for d in (*pieces, data)]
    assert sum(stated[:-1]) == stated[-1]


def _data():
    return dataset_of([{"Y": 0.1}, {"A": 0.2}, {}, {"Y": 0.3, "A": 0.0}], ["Y", "A"])


AGAIN = "begins with image 1, and the part before ends with 2"
CAPTION = pl.DataFrame({"image_id": [3], "caption": ["x"]})


def _with_columns(data, **columns):
    return Dataset.build(data.images.with_columns(**columns), data.classes, data.areas)


def _captioned(n=40):
    images = [{"Y": i / 99, **({"A": 0.5} if i % 3 else {})} if i % 5 else {} for i in range(n)]
    data = dataset_of(images, ["Y", "A"], ["train", "test"] * (n // 2))
    captions = data.images.select("image_id", caption="split")[::2]
    embeddings, provenance = {"e": np.ones((n, 2), np.float32)}, {"reader": "made up"}
    rest = {"embeddings": embeddings, "provenance": provenance}
    return Dataset.build(data.images, data.classes, data.areas, captions, **rest)


def _files(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.*"))


def test_one_part_is_one_file_per_table_and_several_are_folders(tmp_path):
    one = save_dataset(divide(_captioned(), 1), tmp_path / "one")
    tables = ("areas", "captions", "images")
    assert _files(one) == sorted(
        [*(f"{t}.parquet" for t in tables), "dataset.json", "embeddings/e.npy"]
    )
    done = []
    two = save_dataset(divide(_captioned(), 2), tmp_path / "two", progress=done.append)
    assert done == [1, 2]
    parts = [f"{table}/part-000000{k}.parquet" for table in tables for k in (0, 1)]
    vectors = [f"embeddings/e/part-000000{k}.npy" for k in (0, 1)]
    assert _files(two) == sorted([*parts, *vectors, "dataset.json"])
    # a stored dataset is written in as many parts as it has, one in memory as one
    for source, copy in (
        (open_dataset(two), two),
        (load_dataset(two), one),
        (open_dataset(one), one),
    ):
        save_dataset(source, tmp_path / "copy", overwrite=True)
        assert _files(tmp_path / "copy") == _files(copy)
        for name in _files(copy):
            assert (tmp_path / "copy" / name).read_bytes() == (copy / name).read_bytes(), name


def test_a_folder_of_one_part_file_per_table_stays_readable(tmp_path):
    (tmp_path / "data").mkdir()
    record = write_part(_captioned(), tmp_path / "data", 0, n_parts=2)
    seal_dataset(tmp_path / "data", [record], _captioned().classes, None, {"reader": "made up"})
    assert "images/part-0000000.parquet" in _files(tmp_path / "data")
    opened = open_dataset(tmp_path / "data")
    assert (opened.n_parts, opened.fingerprint) == (1, _captioned().fingerprint)
    same_dataset(opened, _captioned())
    same_dataset(opened.part(0), _captioned())


def test_nothing_is_read_before_it_is_asked_for(tmp_path, monkeypatch):
    save_dataset(divide(_captioned(), 2), tmp_path / "data")
    read, real = [], pq.ParquetFile
    monkeypatch.setattr(
        pq, "ParquetFile", lambda path, **more: read.append(str(path)) or real(path, **more)
    )
    opened = open_dataset(tmp_path / "data")
    assert (len(opened), opened.n_parts, opened.classes) == (40, 2, ("Y", "A"))
    assert (opened.splits, opened.fitting_split) == ({"train": 20, "test": 20}, "train")
    assert (opened.kinds, opened.embedding_names, opened.has_captions) == ({}, ("e",), True)
    assert opened.folder == tmp_path / "data"
    assert opened.header.n_images == 40
    assert "40 images, 2 classes" in repr(opened)
    assert "images" not in vars(opened)
    assert len(pickle.dumps(opened)) < 5_000
    assert read == []
    assert opened.areas.shape == (40, 2)
    assert opened.areas is opened.areas
    tables = [path.split("/")[-2] for path in read]
    assert tables == ["images", "images", "areas", "areas"]
    # what was read does not travel
    assert len(pickle.dumps(opened)) < 5_000
    with pytest.raises(AttributeError, match="no attribute 'imges'"):
        opened.imges  # noqa: B018 - asked for, and not there


def test_a_part_reads_what_is_asked_for(tmp_path):
    save_dataset(divide(_captioned(), 2), tmp_path / "data")
    opened = open_dataset(tmp_path / "data")
    bare = opened.part(1, reads=())
    assert (bare.captions, dict(bare.embeddings), len(bare)) == (None, {}, 20)
    assert opened.part(1, reads=("captions",)).captions.height == 10
    assert opened.part(1, reads=("embeddings/e",)).embedding_names == ("e",)
    # a dataset in memory is its only part
    whole = load_dataset(tmp_path / "data")
    assert whole.part(0) is whole
    assert (whole.n_parts, whole.folder, whole.header) == (1, None, None)


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("other classes than part 0", lambda d: Dataset.build(d.images, ["Y", "B"], d.areas)),
        ("other columns of images", lambda d: _with_columns(d, x=1)),
        ("other captions", lambda d: dataclasses.replace(d, captions=CAPTION)),
        ("other embeddings", lambda d: d.with_embedding("e", np.zeros((len(d), 2)))),
        (
            "begins with image 1, and the part before ends with 2",
            lambda _: next(divide(_data(), 2)),
        ),
        ("has no image", lambda d: d.select(rows=np.empty(0, int))),
        ("some parts have splits", lambda d: _with_columns(d, split=pl.lit("train"))),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(tmp_path, word, change):
    first, second = divide(_data(), 2)
    fails(lambda: save_dataset([first, change(second)], tmp_path / "data"), word)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.select(rows=np.array([1, 0])),
        lambda d: d.select(rows=np.array([1, 1])),
        lambda d: dataclasses.replace(d, areas=_unsorted(d.areas)),
    ],
)
def test_rows_in_another_order_are_not_written(tmp_path, change):
    fails(lambda: save_dataset(change(_data()), tmp_path / "data"), "ascend")
    assert not any(tmp_path.iterdir())


def _unsorted(areas):
    """Areas of the last image, whose classes are in another order."""
    return csr_array(([0.3, 0.0], [1, 0], [0, 0, 0, 0, 2]), shape=areas.shape)


def test_what_is_no_division_is_refused(tmp_path):
    fails(lambda: divide(_data(), 5), "5 parts of 4 images", kind=ParameterError)
    fails(lambda: divide(_data(), 0), "0 parts of 4 images", kind=ParameterError)
    fails(lambda: save_dataset([], tmp_path / "data"), "one part at least", helps=False)
    (tmp_path / "data").mkdir()
    save = partial(save_dataset, divide(_data(), 2), tmp_path / "data")
    fails(save, "exists already", kind=OutputError)


def test_parts_that_do_not_belong_together_are_refused(tmp_path):
    save_dataset(divide(_data(), 2), tmp_path / "data")
    marker = tmp_path / "data" / "dataset.json"
    header = json.loads(marker.read_text())
    del header["files"]["areas/part-0000001.parquet"]
    write_header(marker, header)
    words = "nor the same tables for every part"
    fails(lambda: open_dataset(tmp_path / "data"), words, kind=FormatError)
    header["files"] = {}
    write_header(marker, header)
    fails(lambda: open_dataset(tmp_path / "data"), "does not list images.parquet", kind=FormatError)


def test_a_part_about_other_images_is_refused(tmp_path):
    save_dataset(divide(_data(), 2), tmp_path / "data")
    marker = tmp_path / "data" / "dataset.json"
    header = json.loads(marker.read_text())
    one, two = "areas/part-0000000.parquet", "areas/part-0000001.parquet"
    files = header["files"]
    files[one], files[two] = files[two], files[one]
    (tmp_path / "data" / one).rename(tmp_path / "x")
    (tmp_path / "data" / two).rename(tmp_path / "data" / one)
    (tmp_path / "x").rename(tmp_path / "data" / two)
    write_header(marker, header)
    words = "images that are not in the dataset here: 4"
    fails(lambda: open_dataset(tmp_path / "data").part(0), words, kind=FormatError)
    fails(lambda: load_dataset(tmp_path / "data"), "not in order", kind=FormatError)


def test_an_altered_embedding_of_a_part_is_refused(tmp_path):
    save_dataset(divide(_captioned(), 2), tmp_path / "data")
    file = sorted((tmp_path / "data" / "embeddings" / "e").iterdir())[1]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    opened = open_dataset(tmp_path / "data")
    assert opened.part(0).embeddings["e"].shape[1] == 2
    load = partial(load_dataset, tmp_path / "data")
    for read in (lambda: opened.part(1), lambda: opened.embeddings, load):
        fails(read, f"embeddings/e/{file.name} was altered", kind=FormatError)
    opened.part(1, reads=())


def test_a_part_outside_the_folder_is_refused(tmp_path):
    save_dataset(divide(_data(), 2), tmp_path / "data")
    marker = tmp_path / "data" / "dataset.json"
    marker.write_text(marker.read_text().replace("images/part-", "images/../../part-"))
    fails(lambda: open_dataset(tmp_path / "data").part(0), kind=FormatError)


# parts that several processes write


def _write(job):
    source, parts, folder, number = job
    return write_part(list(divide(load_dataset(source), parts))[number], folder, number, parts)


@pytest.mark.parametrize("parts", [1, 13])
def test_parts_by_any_process_make_the_folder_of_one(tmp_path, parts):
    data = _captioned()
    save_dataset(divide(data, parts), tmp_path / "one")
    folder = tmp_path / "many"
    folder.mkdir()
    jobs = [(tmp_path / "one", parts, folder, number) for number in range(parts)]
    records = list(LocalEngine(2).map(_write, jobs))
    header = seal_dataset(folder, records, data.classes, None, data.provenance)
    for file in (tmp_path / "one").rglob("*.*"):
        assert file.read_bytes() == (folder / file.relative_to(tmp_path / "one")).read_bytes()
    assert header.fingerprint == data.fingerprint == load_dataset(folder).fingerprint
    assert json.loads((folder / "dataset.json").read_text())["n_images"] == 40
    counts = [len(record.per_image) for record in records]
    assert counts == [len(part) for part in divide(data, parts)]
    assert sum(int(record.per_image.sum()) for record in records) == data.areas.nnz
    assert sum(record.captions for record in records) == 20


def test_parts_without_splits_are_none_of_a_dataset_with_them(tmp_path):
    first, second = divide(_captioned(), 2)
    records = [write_part(first, tmp_path, 0, n_parts=2)]
    unsplit = second.images.with_columns(split=pl.lit("all"))
    records.append(write_part(dataclasses.replace(second, images=unsplit), tmp_path, 1, n_parts=2))
    seal = partial(seal_dataset, tmp_path, records, first.classes, None, {})
    fails(seal, "some parts have splits")
    assert not (tmp_path / "dataset.json").exists()
