"""A dataset in parts: written one part at a time, read back whole, its fingerprint that of one piece."""

import dataclasses
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import collections, dataset_of
from refusals import fails

from nooch.data import Dataset, load_dataset, save_dataset
from nooch.data.shard_writing import save_shards
from nooch.data.shards import divide, open_shards
from nooch.errors import FormatError, InputError, OutputError, ParameterError


def _joined(folder):
    """All parts put together by hand."""
    data = open_shards(folder)
    parts = [data.load(number) for number in range(len(data))]
    return parts, pl.concat([part.images for part in parts])


COLUMNS = {
    "place": st.none() | st.sampled_from(["forest", "sea", ""]),
    "hour": st.none() | st.integers(0, 23),
    "tags": st.lists(st.integers(0, 3), max_size=2),
}


@settings(deadline=None)
@given(collections(splits=True), st.data())
def test_parts_hold_the_whole_and_its_fingerprint(tmp_path_factory, sample, draw):
    images, classes, splits = sample
    text = draw.draw(st.booleans())
    ids = [f"i{n:03d}" for n in range(len(images))] if text else list(range(5, 5 + len(images)))
    data = dataset_of(images, classes, splits, ids)
    columns = {name: [draw.draw(values) for _ in images] for name, values in COLUMNS.items()}
    kinds = {"place": pl.String, "hour": pl.Int64, "tags": pl.List(pl.Int64)}
    frame = data.images.with_columns(**{name: pl.Series(v, dtype=kinds[name]) for name, v in columns.items()})
    captions = pl.DataFrame({"image_id": ids[::2], "caption": [f"a caption of {i}" for i in ids[::2]]})
    data = Dataset.build(
        frame, classes, data.areas, captions, embeddings={"e": np.arange(len(ids) * 2.0).reshape(-1, 2)}
    )
    folder = tmp_path_factory.mktemp("parts") / "data"
    save_shards(divide(data, draw.draw(st.integers(1, len(images)))), folder)
    opened = open_shards(folder)
    parts, joined = _joined(folder)
    assert joined.equals(data.images)
    assert opened.header.fingerprint == data.fingerprint
    assert opened.splits == data.splits
    assert np.array_equal(np.concatenate([part.areas.toarray() for part in parts]), data.areas.toarray())
    assert sum(part.areas.nnz for part in parts) == data.areas.nnz
    assert np.array_equal(np.concatenate([part.embeddings["e"] for part in parts]), data.embeddings["e"])
    assert pl.concat([part.captions for part in parts]).equals(data.captions)


def _data():
    return dataset_of([{"Y": 0.1}, {"A": 0.2}, {}, {"Y": 0.3, "A": 0.0}], ["Y", "A"])


def test_a_folder_in_one_piece_is_one_part(tmp_path):
    save_dataset(_data(), tmp_path / "whole")
    opened = open_shards(tmp_path / "whole")
    assert len(opened) == 1
    assert opened.load(0).fingerprint == _data().fingerprint


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda d: Dataset.build(d.images, ["Y", "B"], d.areas), "other classes than part 0"),
        (lambda d: Dataset.build(d.images.with_columns(x=1), d.classes, d.areas), "other columns of images"),
        (
            lambda d: dataclasses.replace(d, captions=pl.DataFrame({"image_id": [3], "caption": ["x"]})),
            "other captions",
        ),
        (lambda d: d.with_embedding("e", np.zeros((len(d), 2))), "other embeddings"),
        (lambda _: next(divide(_data(), 2)), "begins with image 1, and the part before ends with 2"),
        (lambda d: d.select(rows=np.empty(0, int)), "has no image"),
        (
            lambda d: Dataset.build(d.images.with_columns(split=pl.lit("train")), d.classes, d.areas),
            "some parts have splits",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(tmp_path, change, word):
    first, second = divide(_data(), 2)
    fails(lambda: save_shards([first, change(second)], tmp_path / "data"), word)
    assert not any(tmp_path.iterdir())


def test_what_is_no_division_is_refused(tmp_path):
    fails(lambda: divide(_data(), 5), "5 parts of 4 images", kind=ParameterError)
    fails(lambda: divide(_data(), 0), "0 parts of 4 images", kind=ParameterError)
    fails(lambda: save_shards([], tmp_path / "data"), "one part at least", kind=InputError, helps=False)
    (tmp_path / "data").mkdir()
    fails(lambda: save_shards(divide(_data(), 2), tmp_path / "data"), "exists already", kind=OutputError)


def test_parts_that_do_not_belong_together_are_refused(tmp_path):
    save_shards(divide(_data(), 2), tmp_path / "data")
    marker = tmp_path / "data" / "dataset.json"
    header = json.loads(marker.read_text())
    del header["files"]["areas/part-0000001.parquet"]
    marker.write_text(json.dumps(header))
    fails(lambda: open_shards(tmp_path / "data"), "nor the same tables for every part", kind=FormatError)
    header["files"] = {}
    marker.write_text(json.dumps(header))
    fails(lambda: open_shards(tmp_path / "data"), "does not list images.parquet", kind=FormatError)


def test_a_part_about_other_images_is_refused(tmp_path):
    save_shards(divide(_data(), 2), tmp_path / "data")
    marker = tmp_path / "data" / "dataset.json"
    header = json.loads(marker.read_text())
    one, two = "areas/part-0000000.parquet", "areas/part-0000001.parquet"
    files = header["files"]
    files[one], files[two] = files[two], files[one]
    (tmp_path / "data" / one).rename(tmp_path / "x")
    (tmp_path / "data" / two).rename(tmp_path / "data" / one)
    (tmp_path / "x").rename(tmp_path / "data" / two)
    marker.write_text(json.dumps(header))
    fails(
        lambda: open_shards(tmp_path / "data").load(0),
        "rows of images that it does not hold",
        kind=FormatError,
        helps=False,
    )


def test_an_altered_embedding_of_a_part_is_refused(tmp_path):
    data = _data()
    save_shards(divide(data.with_embedding("e", np.ones((len(data), 2), np.float32)), 2), tmp_path / "data")
    file = sorted((tmp_path / "data" / "embeddings" / "e").iterdir())[1]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    shards = open_shards(tmp_path / "data")
    assert shards.load(0).embeddings["e"].shape[1] == 2
    for act in (lambda: shards.load(1), lambda: load_dataset(tmp_path / "data")):
        fails(act, f"embeddings/e/{file.name} was altered", kind=FormatError)
    shards.load(1, reads=())


def test_a_part_outside_the_folder_is_refused(tmp_path):
    save_shards(divide(_data(), 1), tmp_path / "data")
    marker = tmp_path / "data" / "dataset.json"
    marker.write_text(marker.read_text().replace("images/part-", "images/../../part-"))
    fails(lambda: open_shards(tmp_path / "data").load(0), kind=FormatError)
