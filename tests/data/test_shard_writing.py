"""Parts that several processes write, sealed by one: the folder that one process writes."""

import dataclasses
import json

import pytest
from oracles import dataset_of
from refusals import fails

from nooch.data import Dataset, load_dataset
from nooch.data.shard_writing import save_shards, seal_shards, write_part
from nooch.data.shards import divide
from nooch.engines import LocalEngine
from nooch.errors import InputError


def _data():
    images = [{"Y": n / 99, **({"A": 0.5} if n % 3 else {})} if n % 5 else {} for n in range(40)]
    data = dataset_of(images, ["Y", "A"], ["train", "test"] * 20)
    captions = data.images.select("image_id", caption="split")[::2]
    return Dataset.build(data.images, data.classes, data.areas, captions, provenance={"reader": "made up"})


def _write(job):
    source, parts, folder, number = job
    return write_part(list(divide(load_dataset(source), parts))[number], folder, number)


@pytest.mark.parametrize("parts", [1, 3, 13])
def test_parts_by_any_process_make_the_folder_of_one(tmp_path, parts):
    data = _data()
    save_shards(divide(data, parts), tmp_path / "one")
    folder = tmp_path / "many"
    folder.mkdir()
    jobs = [(tmp_path / "one", parts, folder, number) for number in range(parts)]
    records = list(LocalEngine(2).map(_write, jobs))
    header = seal_shards(folder, records, data.classes, None, data.provenance)
    for file in (tmp_path / "one").rglob("*.*"):
        assert file.read_bytes() == (folder / file.relative_to(tmp_path / "one")).read_bytes()
    assert header.fingerprint == data.fingerprint == load_dataset(folder).fingerprint
    assert json.loads((folder / "dataset.json").read_text())["n_images"] == 40
    assert [len(record.per_image) for record in records] == [len(part) for part in divide(data, parts)]
    assert sum(int(record.per_image.sum()) for record in records) == data.areas.nnz
    assert sum(record.captions for record in records) == 20


def test_parts_without_splits_are_none_of_a_dataset_with_them(tmp_path):
    first, second = divide(_data(), 2)
    records = [write_part(first, tmp_path, 0)]
    every = dataclasses.replace(
        second, images=second.images.with_columns(split=second.images["split"].str.replace(".*", "all"))
    )
    records.append(write_part(every, tmp_path, 1))
    fails(lambda: seal_shards(tmp_path, records, first.classes, None, {}), "some parts have splits", kind=InputError)
    assert not (tmp_path / "dataset.json").exists()
