"""A full disk: exit code 2, one error, no incomplete output, and the same command works later."""

import polars as pl
import pytest
from full_disk import full_disk
from oracles import dataset_of

from nooch.base.work_folder import _FORMATS
from nooch.data import Dataset, divide, load_dataset, save_dataset

FIND = "--criterion gist --encoder lexical --tau 0.5 --cues Y=A --tasks Y"


@pytest.fixture
def folder(tmp_path):
    """A dataset of 60 images with captions, with one part and with several."""
    images = [{"Y": 0.1, "A": 0.3} if n % 2 else {"A": 0.2} for n in range(60)]
    data = dataset_of(images, ["Y", "A"], [("train", "valid", "test")[n % 3] for n in range(60)])
    texts = [f"word{n} by the sea{n % 7} and {n % 5} birds{n}" for n in range(60)]
    captions = pl.DataFrame({"image_id": data.images["image_id"], "caption": texts})
    data = Dataset.build(data.images, data.classes, data.areas, captions)
    save_dataset(data, tmp_path / "whole")
    save_dataset(divide(data, 3), tmp_path / "parts")
    return tmp_path


def _contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("kind", "more"), [("whole", ""), ("parts", ""), ("parts", "--engine local:2")]
)
def test_an_embedding_that_does_not_fit_is_an_error(folder, run_cli, kind, more):
    command = f"tools embed {kind} --encoder lexical {more}"
    before = _contents(folder / kind)
    with full_disk(2000):
        done = run_cli(command)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("error:") == 1
    assert "cannot write: File too large" in done.err
    if kind == "whole":
        assert _contents(folder / kind) == before
    assert (folder / kind / "dataset.json").read_bytes() == before[folder / kind / "dataset.json"]
    assert load_dataset(folder / kind).embeddings == {}
    run_cli(command).ok()
    assert not list(folder.rglob("*.partial*"))
    assert load_dataset(folder / kind).embeddings["lexical-256"].shape[0] == 60


@pytest.mark.parametrize("kind", ["whole", "parts"])
def test_find_goes_on_without_keeping_the_embedding_and_says_so(folder, run_cli, kind, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = _contents(folder / kind)
    with monkeypatch.context() as patch:
        patch.setitem(_FORMATS, ".npy", (None, full))
        done = run_cli(f"find {kind} {FIND} --out suite")
    assert done.code == 0, done.err
    assert "the embedding is not stored: cannot write: No space left on device" in done.err
    assert _contents(folder / kind) == before
    run_cli(f"find {kind} {FIND} --out other").ok()
    sets = "challenge_sets.parquet"
    assert (folder / "suite" / sets).read_bytes() == (folder / "other" / sets).read_bytes()


def test_half_an_embedding_in_parts_is_removed_again(folder, run_cli, monkeypatch):
    (read, real), calls = _FORMATS[".npy"], []

    def second_fails(path, values):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(path, values)

    before = _contents(folder / "parts")
    monkeypatch.setitem(_FORMATS, ".npy", (read, second_fails))
    done = run_cli(f"find parts {FIND} --out suite")
    assert "the embedding is not stored" in done.err
    assert len(calls) == 2
    assert _contents(folder / "parts") == before


# what no command expected


def test_an_empty_array_is_an_error_and_not_the_end_of_a_dialogue(run_cli, tmp_path):
    (tmp_path / "p.npy").touch()
    said = run_cli("evaluate nooch-coco p.npy").refused("p.npy: cannot be read")
    assert "Aborted" not in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (EOFError("No data left"), "a file is empty or ends too early: No data left"),
        (OSError(28, "No space left", "/some/file"), "/some/file: cannot read or write: No space"),
    ],
)
def test_what_was_not_expected_is_an_error_too(run_cli, folder, monkeypatch, error, words):
    def fail(*_):
        raise error

    monkeypatch.setattr("nooch.data.as_dataset", fail)
    done = run_cli("tools embed whole --encoder lexical")
    assert done.code == 2
    assert f"error: {words}" in done.err
    assert "Aborted" not in done.err
