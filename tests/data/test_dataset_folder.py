"""The dataset folder: read back unchanged, refused where altered, never incomplete."""

import functools
import hashlib
import json
import math
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from altered_files import write_header
from hypothesis import example, given, settings
from oracles import collections, dataset_of
from refusals import fails
from same_datasets import same_dataset
from scipy.sparse import csr_array

from nooch.base import files
from nooch.base.errors import FormatError, InputError, OutputError, ParameterError
from nooch.base.files import check_output, replace_file, sha256_of, write_folder
from nooch.data import Dataset, load_dataset, open_dataset, save_dataset
from nooch.data.part_files import read_header


def _data():
    images = pl.DataFrame(
        {
            "image_id": [1, 2, 3],
            "file_name": ["a/1.jpg", None, "ü.jpg"],
            "width": [4, None, 6],
            "split": ["train", "train", "test"],
            "place": ["sea", None, "land"],
            "weight": [0.5, math.nan, None],
            "tags": [["a"], [], None],
        }
    )
    areas = csr_array((np.array([0.0, math.nan, 1.25]), ([0, 1, 2], [1, 0, 1])), shape=(3, 3))
    captions = pl.DataFrame({"image_id": [3, 1, 1], "caption": ["c", 'b, "quoted"\n', "a"]})
    embeddings = {"mini-1.0": np.array([[1, 2], [3, 4], [math.nan, math.nan]], np.float32)}
    provenance = {"reader": "test", "notes": ["n"], "nested": {"a": [1, None]}}
    rest = {"embeddings": embeddings, "image_root": "/pictures", "provenance": provenance}
    return Dataset.build(images, ["cow", "fire_hydrant", "unused"], areas, captions, **rest)


_fails = functools.partial(fails, kind=FormatError)
_no_output = functools.partial(fails, kind=OutputError)
_no_write = functools.partial(fails, kind=OutputError, helps=False)

EMBEDDING = "embeddings/mini-1.0.npy"


@pytest.fixture
def saved(tmp_path):
    """A dataset folder."""
    return save_dataset(_data(), tmp_path / "data")


# round trip


def test_what_goes_in_comes_out(saved):
    same_dataset(load_dataset(saved), _data())
    assert isinstance(load_dataset(saved).embeddings["mini-1.0"], np.memmap)
    tables = ["areas.parquet", "captions.parquet", "images.parquet"]
    files = {str(p.relative_to(saved)) for p in saved.rglob("*") if p.is_file()}
    assert files == {*tables, "dataset.json", EMBEDDING}
    header = read_header(saved)
    assert header.n_images == 3
    assert header.splits == {"train": 2, "test": 1}
    assert header.fingerprint == _data().fingerprint
    assert {name: record.sha256 for name, record in header.files.items()} == {
        name: sha256_of(saved / name) for name in header.files
    }

    # areas on disk are a table that others can read
    table = pl.read_parquet(saved / "areas.parquet")
    assert table.columns == ["image_id", "class", "area"]
    assert table["class"].cast(pl.String).to_list() == ["fire_hydrant", "cow", "fire_hydrant"]
    assert table["image_id"].to_list() == [1, 2, 3]


@settings(max_examples=30, deadline=None)
@given(collections(splits=True))
@example(([{}, {}], [], None))
def test_any_collection_comes_out_as_it_went_in(sample):
    images, classes, splits = sample
    data = dataset_of(images, classes, splits, [f"{i}_s" for i in range(len(images))])
    with tempfile.TemporaryDirectory() as folder:
        same_dataset(load_dataset(save_dataset(data, Path(folder) / "d")), data)


def test_saving_twice_gives_the_same_bytes(tmp_path):
    folders = [save_dataset(_data(), tmp_path / name) for name in "ab"]
    for file in folders[0].rglob("*"):
        if file.is_file():
            again = folders[1] / file.relative_to(folders[0])
            assert file.read_bytes() == again.read_bytes(), file


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "ü", "a\0"])
def test_names_that_an_embedding_cannot_have(name, tmp_path):
    data = _data().with_embedding(name, np.ones((3, 1)))
    words = f"{name!r} cannot name", "letters, digits"
    _fails(lambda: save_dataset(data, tmp_path / "new"), *words, kind=ParameterError)
    assert not any(tmp_path.iterdir())


# what was altered


def _header(folder, named=(), **changed):
    """Another header, which also names these files."""
    content = json.loads((folder / "dataset.json").read_text())
    files = {**{name: {"sha256": "0" * 64, "bytes": 0} for name in named}, **content["files"]}
    write_header(folder / "dataset.json", {**content, "files": files, **changed})
    return folder


@pytest.mark.parametrize("name", ["images.parquet", "areas.parquet", "captions.parquet"])
def test_an_altered_table_is_refused(saved, name):
    content = bytearray((saved / name).read_bytes())
    content[len(content) // 2] ^= 1
    (saved / name).write_bytes(content)
    words = str(saved), f"{name} was altered", "SHA-256", "import the dataset again"
    _fails(lambda: load_dataset(saved), *words)
    (saved / name).write_bytes(content[:-1])
    _fails(lambda: load_dataset(saved), f"{name} is missing, or its size differs")
    (saved / name).unlink()
    _fails(lambda: load_dataset(saved), f"{name} is missing, or its size differs")


@pytest.mark.parametrize("at", [0, 20, -1])
def test_an_altered_embedding_is_refused(saved, at):
    load_dataset(saved)
    content = bytearray((saved / EMBEDDING).read_bytes())
    content[at] ^= 1
    before = (saved / EMBEDDING).stat()
    (saved / EMBEDDING).write_bytes(content)
    # also where the file has its old times again
    os.utime(saved / EMBEDDING, ns=(before.st_atime_ns, before.st_mtime_ns))
    words = f"{EMBEDDING} was altered", "SHA-256", "import the dataset again"
    _fails(lambda: load_dataset(saved), *words)
    _fails(lambda: open_dataset(saved).part(0), f"{EMBEDDING} was altered")
    # what is not read is not hashed
    assert load_dataset(saved, reads=()).embeddings == {}
    (saved / EMBEDDING).write_bytes(content[:-4])
    _fails(lambda: load_dataset(saved), f"{EMBEDDING} is missing, or its size differs")


def test_an_embedding_is_hashed_when_it_is_first_read_and_not_again(saved, monkeypatch):
    hashed = []
    real = files.sha256_of
    monkeypatch.setattr(files, "sha256_of", lambda path: hashed.append(path.name) or real(path))
    for _ in range(3):
        load_dataset(saved)
    assert hashed == ["mini-1.0.npy"]
    # another file under the name is another file
    shutil.copyfile(saved / EMBEDDING, saved / "copy.npy")
    (saved / "copy.npy").replace(saved / EMBEDDING)
    load_dataset(saved)
    assert hashed == ["mini-1.0.npy"] * 2


NO_EMBEDDINGS = [
    (None, "cannot be read as an array"),
    (np.ones((2, 3)), "has shape (2, 3) float64, expected (3, d) of floats"),
    (np.ones(3), "has shape (3,) float64"),
    (np.ones((3, 2), np.int64), "has shape (3, 2) int64"),
]


@pytest.mark.parametrize(("values", "word"), NO_EMBEDDINGS)
def test_a_recorded_embedding_that_is_none_is_refused(saved, values, word):
    # as recorded, but not what an embedding can be
    (saved / EMBEDDING).write_bytes(b"")
    if values is not None:
        np.save(saved / EMBEDDING, values)
    content = (saved / EMBEDDING).read_bytes()
    recorded = json.loads((saved / "dataset.json").read_text())["files"]
    recorded[EMBEDDING] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    _fails(lambda: load_dataset(_header(saved, files=recorded)), f"{EMBEDDING} {word}")


OUTSIDE = ["../outside.txt", "a/../../outside.txt", "/etc/passwd", "..", "."]
UNREADABLE = [b"", b"{", b"[]", b"null", b'{"format":"\xff","version":1}']
UNREADABLE += [b'{"format": "nooch-dataset", "version": 1}']
# what the header says, or holds -> words of the refusal
HEADERS = [
    ({"version": 4}, "contains nooch-dataset version 4", "up to version 3",
        "install a newer nooch"),
    # whatever it holds
    (b'{"format": "nooch-dataset", "version": 7, "tables": []}', "contains nooch-dataset version 7",
        "install a newer nooch"),
    ({"format": "nooch-suite"}, "contains nooch-suite version 2", "nooch-dataset"),
    ({"version": "1"}, "cannot be read", "$.version"),
    ({"files": []}, "cannot be read", "$.files"),
    ({"files": {}}, "does not list images.parquet"),
    ({"classes": ["cow", "horse", "unused"]}, "name other classes"),
    ({"classes": ["cow", "fire_hydrant", "cow"]}, "name other classes"),
    ({"n_images": 4}, "images.parquet has 3 images, dataset.json records 4"),
    *(({"named": [name]}, f"names a file outside the folder: {name}") for name in OUTSIDE),
    *(({"named": [name]}, "dataset.json names") for name in ("a\0b", "x" * 300)),
    *((content, "dataset.json", "cannot be read", "import the dataset again")
        for content in UNREADABLE),
]  # fmt: skip


@pytest.mark.parametrize("case", HEADERS, ids=lambda case: repr(case[0])[:50])
def test_a_header_that_does_not_fit(saved, case):
    (saved.parent / "outside.txt").touch()
    changed, *parts = case
    if isinstance(changed, bytes):
        (saved / "dataset.json").write_bytes(changed)
    else:
        _header(saved, **changed)
    _fails(lambda: load_dataset(saved), str(saved), *parts)


def test_a_link_out_of_the_folder_is_not_followed(saved):
    outside = saved.parent / "images.parquet"
    (saved / "images.parquet").rename(outside)
    (saved / "images.parquet").symlink_to(outside)
    _fails(lambda: load_dataset(saved), "names a file outside the folder: images.parquet")


@pytest.mark.parametrize("read", [load_dataset, read_header])
def test_a_folder_that_is_no_dataset(tmp_path, read):
    for folder in (tmp_path, tmp_path / "missing"):
        _fails(lambda f=folder: read(f), str(folder), "is not a dataset", "nooch import")


# atomic writing


def _left(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr("nooch.data.dataset_folder.areas_table", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        save_dataset(_data(), tmp_path / "data")
    assert _left(tmp_path) == []


def test_a_failure_keeps_what_was_there(saved, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nooch.data.dataset_folder.areas_table", fail)
    words = str(saved), "cannot write: No space left on device"
    _no_write(lambda: save_dataset(dataset_of([{}], ["Y"]), saved, overwrite=True), *words)
    same_dataset(load_dataset(saved), _data())
    assert _left(saved.parent) == ["data"]


def test_overwrite_rules(saved, tmp_path):
    other = dataset_of([{"Y": 0.5}], ["Y"])
    _no_output(lambda: save_dataset(other, saved), str(saved), "exists already", "overwrite=True")
    same_dataset(load_dataset(saved), _data())
    save_dataset(other, saved, overwrite=True)
    same_dataset(load_dataset(saved), other)
    (tmp_path / "empty").mkdir()
    _no_output(lambda: save_dataset(other, tmp_path / "empty"), "exists already")
    save_dataset(other, tmp_path / "empty", overwrite=True)
    # a mistyped path never deletes somebody's files
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters.txt").touch()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("home", "file", "link"):
        words = "contains no dataset.json, so it is not replaced", "choose another path"
        target = tmp_path / name
        _no_output(lambda t=target: save_dataset(other, t, overwrite=True), str(target), *words)
    assert _left(tmp_path) == [".data.old", "data", "empty", "file", "home", "link"]


def test_overwriting_a_link_to_a_dataset_replaces_the_link_alone(saved, tmp_path):
    (tmp_path / "link").symlink_to(saved)
    save_dataset(dataset_of([{}], ["Y"]), tmp_path / "link", overwrite=True)
    assert not (tmp_path / "link").is_symlink()
    same_dataset(load_dataset(saved), _data())
    assert _left(tmp_path) == ["data", "link"]


# files.py


def test_folders_above_are_made_only_when_something_is_written(tmp_path):
    assert check_output(tmp_path / "a" / "b" / "c") == tmp_path / "a" / "b" / "c"
    assert _left(tmp_path) == []
    save_dataset(_data(), tmp_path / "a" / "b" / "c")
    assert len(load_dataset(tmp_path / "a" / "b" / "c")) == 3


def test_places_of_output(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        assert check_output("x") == tmp_path / "x"
    (tmp_path / "file").touch()
    for below in ("file/x", "file/x/y"):
        words = str(tmp_path / "file"), "cannot make the folder"
        _no_output(lambda b=below: check_output(tmp_path / b), *words)
    words = "cannot be written: File name too long"
    _no_output(lambda: check_output(tmp_path / ("x" * 300)), words)
    monkeypatch.setattr("nooch.base.files.os.access", lambda *_: False)
    words = str(tmp_path), "no permission to write here"
    _no_output(lambda: check_output(tmp_path / "x"), *words)

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    words = str(tmp_path / "x"), "cannot be written: Permission denied"
    _no_output(lambda: check_output(tmp_path / "x"), *words)


def test_a_folder_that_vanishes_meanwhile(tmp_path):
    def write():
        with write_folder(tmp_path / "x") as partial:
            partial.rmdir()

    _no_write(write, "cannot write: No such file or directory")
    assert _left(tmp_path) == []


def test_a_full_disk_is_reported_whoever_finds_it_full(tmp_path):
    def write(error):
        with write_folder(tmp_path / "x"):
            raise error

    of_polars = pl.exceptions.ComputeError("parquet: ... (os error 28)")
    for error in (OSError(28, "No space left on device"), of_polars):
        _no_write(lambda e=error: write(e), "x: cannot write: No space left on device")
    # what was meant for the user stays as it is, and so do faults of the program
    fails(lambda: write(InputError("no such thing")), "no such thing", helps=False)
    with pytest.raises(pl.exceptions.ComputeError, match="another"):
        write(pl.exceptions.ComputeError("another fault"))
    assert _left(tmp_path) == []


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path):
    def write():
        with write_folder(tmp_path / "x") as partial:
            (partial / "new").touch()
            (tmp_path / "x").write_text("another process was here")

    # a file of that name: the finished folder cannot take its place, and the file stays
    with pytest.raises(OutputError):
        write()
    assert (tmp_path / "x").read_text() == "another process was here"
    assert _left(tmp_path) == ["x"]


def _leftover(folder, name, kind):
    left = folder / f".{name}.{kind}"
    left.mkdir()
    (left / ".nooch").touch()
    (left / "half").touch()
    return left


@pytest.mark.parametrize("name", ["data", "da[t]a", "d*"])
def test_what_killed_processes_left_is_removed(tmp_path, name):
    # whichever machine or container it was left by: the lock is free
    _leftover(tmp_path, name, "partial")
    other = _leftover(tmp_path, "else", "partial")
    (tmp_path / f".{name}.lock").touch()
    save_dataset(_data(), tmp_path / name)
    assert len(load_dataset(tmp_path / name)) == 3
    assert _left(tmp_path) == sorted([name, other.name])


def test_what_another_process_is_writing_is_left_to_it(tmp_path):
    with write_folder(tmp_path / "data") as partial:
        check_output(tmp_path / "data")
        words = "another process is writing there", "wait for it"
        _no_output(lambda: save_dataset(_data(), tmp_path / "data"), *words)
        assert partial.is_dir()
    assert _left(tmp_path) == ["data"]


def test_replace_file(tmp_path):
    path = tmp_path / "x.json"
    replace_file(path, b"one")
    replace_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert sha256_of(path) == hashlib.sha256(b"two").hexdigest()
    assert _left(tmp_path) == ["x.json"]
    missing = tmp_path / "no" / "x"
    _no_write(lambda: replace_file(missing, b""), str(missing), "cannot write")
    (tmp_path / "folder").mkdir()
    _no_write(lambda: replace_file(tmp_path / "folder", b""), "cannot write")
    assert _left(tmp_path) == ["folder", "x.json"]
