"""Datasets at addresses: read and checked like folders, and never followed out of theirs."""

import functools
import http.server
import importlib.util
import json
import pickle
import sys
import threading
import zipfile
from pathlib import Path

import fsspec
import numpy as np
import polars as pl
import pytest
from altered_files import write_header
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry
from oracles import dataset_of
from refusals import fails

from nooch.base import files
from nooch.base.engines import LocalEngine
from nooch.base.errors import FormatError, MissingExtraError, ParameterError
from nooch.base.files import place, read_bytes
from nooch.criteria import CE, Gist
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.suites import save_suite
from nooch.suites.find import find

_fails = functools.partial(fails, kind=FormatError)
_no_address = functools.partial(fails, kind=ParameterError)
CRITERIA = {"ce": CE(0.01, 0.1), "gist": Gist("e")}


def _data():
    random = np.random.default_rng(5)
    images = [{"Y": 0.2, "A": float(a)} if a > 0.4 else {"A": float(a)} for a in random.random(40)]
    data = dataset_of(images, ["Y", "A"], random.choice(["train", "valid", "test"], 40).tolist())
    captions = pl.DataFrame(
        {"image_id": list(range(1, 41)), "caption": [f"scene {i % 7}" for i in range(40)]}
    )
    data = Dataset.build(data.images, data.classes, data.areas, captions)
    return data.with_embedding("e", random.normal(size=(40, 3)))


@pytest.fixture
def folder(tmp_path):
    """A folder with a dataset of one part, and the same with four."""
    save_dataset(_data(), tmp_path / "served" / "whole")
    save_dataset(divide(_data(), 4), tmp_path / "served" / "parts")
    return tmp_path / "served"


@pytest.fixture
def memory(folder):
    """The folder in memory."""
    system = MemoryFileSystem()
    system.put(f"{folder}/", "/served/", recursive=True)
    yield "memory://served"
    system.rm("/served", recursive=True)


class _File:
    """A file at an address, as far as these tests use it as a path."""

    def __init__(self, address):
        self.system, self.path = fsspec.core.url_to_fs(address)

    def read_bytes(self):
        return self.system.cat_file(self.path)

    def write_bytes(self, content):
        self.system.pipe_file(self.path, content)

    def write_text(self, text):
        self.write_bytes(text.encode())

    def unlink(self):
        self.system.rm_file(self.path)


@pytest.fixture
def fetched(monkeypatch):
    """Names of the files that were fetched from memory."""
    names, fetch = [], files._fetch

    def counted(file):
        names.append("/".join(file.split("/")[4:]))
        return fetch(file)

    monkeypatch.setattr(files, "_fetch", counted)
    monkeypatch.setattr(files, "_PAUSES", (0, 0))
    return names


def _same(one, other):
    assert one.fingerprint == other.fingerprint
    assert np.array_equal(one.embeddings["e"], other.embeddings["e"])


def _find(address, out, **more):
    find(open_dataset(address), CRITERIA, match="ce", path="d", out=out, **more)
    return [(out / name).read_bytes() for name in ("challenge_sets.parquet", "suite.json")]


@pytest.mark.parametrize("kind", ["whole", "parts"])
def test_an_address_gives_what_the_folder_gives(memory, folder, kind, fetched):
    _same(load_dataset(f"{memory}/{kind}"), _data())
    _same(load_dataset(f"{memory}/{kind}/"), _data())
    assert len(fetched) == 2 * len(set(fetched))  # each file once for each dataset
    _same(load_dataset(f"file://{folder}/{kind}"), _data())
    _same(load_dataset(place(folder / kind)), _data())
    assert isinstance(place(f"file://{folder}"), Path)


def test_a_find_at_an_address_gives_the_bytes_of_the_folder(memory, folder, tmp_path, fetched):
    expected = _find(folder / "parts", tmp_path / "one")
    assert _find(f"{memory}/parts", tmp_path / "two") == expected
    assert _find(f"{memory}/whole", tmp_path / "three") == expected
    # what criteria do not read stays where it is
    fetched.clear()
    find(open_dataset(f"{memory}/parts"), {"ce": CE(0.01)}, out=tmp_path / "four")
    assert not [name for name in fetched if name.startswith(("captions", "embeddings"))]
    # one part is read more, which tells that there are labels
    assert len([name for name in fetched if name.startswith("areas")]) == 2 * 4 + 1


def test_workers_open_the_address_themselves(folder, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "served.zip", "w") as archive:
        for file in folder.rglob("*"):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    address = f"zip://parts::file://{tmp_path}/served.zip"
    opened = pickle.loads(pickle.dumps(open_dataset(address)))
    _same(opened.part(1), open_dataset(folder / "parts").part(1))
    # the archive by its path, also from here; workers in other folders find it
    assert str(place(f"zip://parts::{tmp_path}/served.zip")) == address
    monkeypatch.chdir(tmp_path)
    assert str(place("zip://parts::served.zip")) == address
    assert _find(address, tmp_path / "one", map=LocalEngine(2).map) == _find(
        folder / "parts", tmp_path / "two"
    )


@pytest.fixture
def server(folder):
    """The folder over http, and what was asked of it."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(f"{self.command} {self.path}")

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_http_takes_one_request_for_each_file(server, folder, tmp_path):
    address, asked = server
    if importlib.util.find_spec("aiohttp") is None:
        words = "http://", "pip install 'fsspec[http]'"
        _no_address(lambda: load_dataset(f"{address}/parts"), *words)
        assert not asked
        return
    _same(load_dataset(f"{address}/parts"), _data())
    assert all(line.startswith("GET /parts/") for line in asked)
    assert len(asked) == len(set(asked)) == 1 + 4 * 4
    expected = _find(folder / "parts", tmp_path / "one")
    assert _find(f"{address}/parts", tmp_path / "two") == expected
    _fails(lambda: load_dataset(f"{address}/nowhere"), "is not a dataset")


OUTSIDE = ["../outside", "images/../../outside", "/etc/passwd", "s3://other/x", "a\\..\\b", ""]
OUTSIDE += ["file:///etc/passwd", "memory://served/whole/areas.parquet", "%2e%2e/outside"]


@pytest.mark.parametrize("name", [*OUTSIDE, "images/./x", "a?b"])
def test_names_that_lead_elsewhere_are_never_asked_for(memory, name, fetched):
    marker = _File(f"{memory}/whole/dataset.json")
    header = json.loads(marker.read_bytes())
    own = {"dataset.json", *header["files"]}
    record = header["files"]["images.parquet"]
    # as itself, and as what is inside the folder of an embedding
    for named in (name, f"embeddings/f/{name}"):
        write_header(marker, {**header, "files": {**header["files"], named: record}})
        _fails(lambda: load_dataset(f"{memory}/whole"), "names a file outside the folder")
    assert set(fetched) <= own


def test_altered_short_and_missing_files_are_refused(memory):
    root = f"{memory}/parts"
    file = _File(f"{root}/areas/part-0000002.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    _fails(lambda: load_dataset(root), "part-0000002.parquet was altered")
    file.write_bytes(content[:-1])
    _fails(lambda: open_dataset(root).part(2), "missing, or its size differs")
    file.unlink()
    _fails(lambda: open_dataset(root).part(2), "missing, or its size differs")
    file = _File(f"{root}/embeddings/e/part-0000000.npy")
    file.write_bytes(bytes([1]) + file.read_bytes()[1:])
    _fails(lambda: open_dataset(root).part(0), "was altered")
    assert open_dataset(root).part(0, reads=()).embeddings == {}
    nothing = f"{memory}/nothing"
    _fails(lambda: load_dataset(nothing), nothing, "is not a dataset")


class ThrottlingError(Exception):
    """As packages of protocols have them: no OSError."""


def test_a_connection_that_fails_is_tried_again(memory, monkeypatch):
    calls, cat = [], MemoryFileSystem.cat_file

    def fails_twice(self, path, **more):
        calls.append(path)
        if len(calls) % 3:
            raise ThrottlingError("connection reset")
        return cat(self, path, **more)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", fails_twice)
    monkeypatch.setattr(files, "_PAUSES", (0, 0))
    _same(load_dataset(f"{memory}/parts"), _data())
    assert len(calls) == 3 * (1 + 4 * 4)


def test_a_find_goes_on_where_the_connection_broke(memory, folder, tmp_path, monkeypatch):
    cat, calls = MemoryFileSystem.cat_file, []

    def breaks(self, path, **more):
        calls.append(path)
        # after the sums, in the third part that is measured
        if sum("areas/part-0000002" in call for call in calls) == 2:
            raise ThrottlingError("the bucket is gone")
        return cat(self, path, **more)

    monkeypatch.setattr(files, "_PAUSES", ())
    monkeypatch.setattr(MemoryFileSystem, "cat_file", breaks)
    words = "ThrottlingError: the bucket is gone", "run the same command again"
    file = f"{memory}/parts/areas/part-0000002.parquet"
    fails(lambda: _find(f"{memory}/parts", tmp_path / "suite"), file, *words)
    assert not (tmp_path / "suite").exists()
    monkeypatch.setattr(MemoryFileSystem, "cat_file", cat)
    measured = list(tmp_path.glob(".suite.finding-*/shard-*.images.arrow"))
    assert len(measured) == 2
    times = [file.stat().st_mtime_ns for file in measured]

    def progress(what, *_):
        if what == "marking tasks":
            times.append([file.stat().st_mtime_ns for file in measured])

    done = _find(f"{memory}/parts", tmp_path / "suite", progress=progress)
    assert all(again == times[:2] for again in times[2:])
    assert len(times) > 2
    assert done == _find(folder / "parts", tmp_path / "other")


def test_what_is_no_address_of_a_dataset_is_refused(monkeypatch, tmp_path):
    _no_address(lambda: place("nowhere://x/y"), "nowhere:// is not a kind of address")
    text = _no_address(lambda: place("ftp://me:secret@host/data"), "has a password in it")
    assert "secret" not in text

    def missing(_name):
        raise ImportError("Install s3fs to access S3")

    with monkeypatch.context() as patch:
        patch.setattr(fsspec, "get_filesystem_class", missing)
        bucket = "s3://bucket/data"
        _no_address(lambda: place(bucket), bucket, "pip install s3fs")
        _no_address(lambda: place("https://host/data"), "pip install 'fsspec[http]'")
        _no_address(lambda: place("hf://datasets/me/mine"), "pip install huggingface_hub")
    monkeypatch.setattr(files, "_PAUSES", ())
    fails(lambda: open_dataset("simplecache://data"), "cannot be fetched")
    assert place("MEMORY://Served/x") == place("memory://Served/x")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    install = "pip install 'nooch[remote]'"
    fails(lambda: load_dataset(bucket), install, kind=MissingExtraError)
    # what only looks like one
    assert place("a:b/c") == Path("a:b/c")
    assert place("C:/data") == Path("C:/data")


def test_a_dataset_on_the_hub_is_read(memory, tmp_path, monkeypatch):
    class Hub(MemoryFileSystem):
        """Paths as in ``HfFileSystem``, which takes these out of addresses."""

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.removeprefix("hf://"))

    monkeypatch.setitem(_registry, "hf", Hub)
    monkeypatch.setattr(Hub, "store", {
        path.replace("/served", "/datasets/me/mine"): file
        for path, file in MemoryFileSystem.store.items()
    })  # fmt: skip
    hub = "hf://datasets/me/mine/whole"
    assert open_dataset(hub).fingerprint == load_dataset(f"{memory}/whole").fingerprint
    save_suite(find(load_dataset(hub), {"ce": CE(0.01)}), tmp_path / "suite")


def test_nothing_but_datasets_is_read_from_or_written_to_an_address(memory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = load_dataset(f"{memory}/whole")
    suite = find(data, {"ce": CE(0.01)})
    for out in ("s3://bucket/suite", Path("s3://bucket/suite")):
        _no_address(lambda out=out: save_suite(suite, out), "is an address")
    assert not (tmp_path / "s3:").exists()


def test_a_place_that_denies_is_not_asked_again(memory, monkeypatch):
    calls = []

    def denies(self, path, **_):
        calls.append(path)
        raise PermissionError("no")

    monkeypatch.setattr(MemoryFileSystem, "cat_file", denies)
    fails(lambda: read_bytes(place(f"{memory}/whole/dataset.json")), "PermissionError: no")
    assert len(calls) == 1
