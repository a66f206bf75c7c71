"""What every reader promises. A new reader is one row here; a reader without a row fails."""

import inspect
import json
from importlib import import_module

import numpy as np
import polars as pl
import pytest
from coco_files import document, image, write
from PIL import Image

from nooch.base.engines import LocalEngine
from nooch.base.errors import NoochError
from nooch.data import CORE_COLUMNS, load_dataset, save_dataset
from nooch.data.readers import READERS
from nooch.data.readers.coco.reader import CocoReading
from nooch.data.readers.contract import read
from nooch.data.readers.table_layouts import Columns, LongTable, TableOfImages


def _coco(folder):
    annotations = [
        {"image_id": 2, "category_id": 3, "area": 4.0},
        {"image_id": 1, "category_id": 1, "area": 0.0},
    ]
    content = document([image(2), image(1, file_name="sub/1.jpg")], annotations)
    return [[write(folder / "in.json", content)]], {}


def _label_maps(folder):
    (folder / "in").mkdir()
    for name, values in (("2", [0, 1]), ("1", [1, 1])):
        Image.fromarray(np.array([values], np.uint8)).save(folder / "in" / f"{name}.png")
    return [folder / "in", write(folder / "names.txt", "a\nfire hydrant\n")], {}


def _boxes(folder):
    write(folder / "in" / "2.txt", "0 .5 .5 1 1")
    write(folder / "in" / "1.txt", "")
    return [folder / "in", "yolo"], {"classes": write(folder / "names.txt", "fire hydrant\n")}


def _image_folder(folder):
    for name in ("fire hydrant/1.png", "cat/2.png"):
        (folder / "in" / name).parent.mkdir(parents=True)
        Image.new("RGB", (2, 2)).save(folder / "in" / name)
    return [folder / "in"], {}


def _table(folder):
    return [
        write(folder / "in.csv", "id,y,place\n2,1,sea\n1,0,land\n"),
        Columns("id"),
        TableOfImages(["y"]),
    ], {}


def _long_table(folder):
    text = "id,class,area,place\n2,cat,0.5,sea\n1,,,land\n"
    return [write(folder / "in.csv", text), Columns("id"), LongTable("class", "area")], {}


def _datumaro(folder):
    pytest.importorskip("datumaro", reason="Datumaro has an environment of its own")
    for name, maps in (("images", False), ("masks", True)):
        (folder / "in" / name).mkdir(parents=True)
        for stem, value in (("1", 1), ("2", 2)):
            pixels = np.full((2, 2), value if maps else 90, np.uint8)
            Image.fromarray(pixels).save(folder / "in" / name / f"{stem}.png")
    labels = {"label_map": {"0": "background", "1": "cat", "2": "fire hydrant"}}
    write(folder / "in" / "dataset_meta.json", json.dumps(labels))
    return [folder / "in", "common_semantic_segmentation"], {}


# name -> folder to write an input to -> arguments of the reader
EXAMPLES = {
    "coco": _coco,
    "label-maps": _label_maps,
    "boxes": _boxes,
    "image-folder": _image_folder,
    "table": _table,
    "datumaro": _datumaro,
    "long-table": _long_table,
}


def _kind(name):
    module, _, kind = READERS[name.removeprefix("long-")].partition(":")
    return getattr(import_module(module), kind)


def _read(name, arguments, options, map=map):
    return read(_kind(name)(*arguments, **options), map=map)


def test_every_reader_has_an_example():
    assert set(EXAMPLES) == set(READERS) | {"long-table"}


@pytest.mark.parametrize("name", READERS)
def test_its_reading_is_one(name):
    assert inspect.getdoc(_kind(name))
    for method in ("files", "check", "dependencies", "scan"):
        assert inspect.getdoc(getattr(_kind(name), method))


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_every_reader_promises(name, tmp_path):
    """Of two images, 2 and 1."""
    arguments, options = EXAMPLES[name](tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    data = _read(name, arguments, options)
    # it changes nothing that it reads
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    # a dataset without splits
    assert [str(image_id)[-5:] for image_id in data.image_ids] in (["1", "2"], ["2.png", "1.png"])
    assert data.splits == {"all": 2}
    assert data.images.columns[: len(CORE_COLUMNS)] == list(CORE_COLUMNS)
    assert data.images.schema["image_id"] in (pl.Int64, pl.String)
    assert data.areas.shape == (2, len(data.classes))
    assert data.areas.dtype == np.float64
    assert not any(" " in name for name in data.classes)
    # that says what was read
    assert set(data.provenance) >= {"reader", "area", "sources", "notes"}
    assert data.provenance["area"] in {"segments", "pixels", "boxes", "given", "unknown"}
    for source in data.provenance["sources"]:
        assert len(source.get("sha256") or source["blake3"]) == 64
    json.dumps(dict(data.provenance))
    # the same after a round trip and a second reading
    kept = load_dataset(save_dataset(data, tmp_path / "kept"))
    assert kept.fingerprint == data.fingerprint == _read(name, arguments, options).fingerprint
    # an input that is not there is named
    missing = tmp_path / "nowhere"
    first = [missing] if isinstance(arguments[0], list) else missing
    with pytest.raises(NoochError, match="nowhere"):
        _read(name, [first, *arguments[1:]], options)


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_engine_can_run_it(name, tmp_path):
    arguments, options = EXAMPLES[name](tmp_path)
    alone = _read(name, arguments, options)
    assert _read(name, arguments, options, LocalEngine(2).map).fingerprint == alone.fingerprint


def test_one_file_of_coco_needs_no_list(tmp_path):
    (files,), _ = _coco(tmp_path)
    assert read(CocoReading(files[0])).fingerprint == read(CocoReading(files)).fingerprint
