"""Any byte, any length, any file of a folder: nooch info --check notices every change."""

import json
import shutil
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from altered_files import write_header
from commands import completed
from hypothesis import given, settings, strategies as st
from refusals import fails
from small_world import bench_command, make_world

import nooch
from nooch.base.errors import FormatError
from nooch.data import divide, is_intact, load_dataset, save_dataset
from nooch.integrity import Damage, fsck
from nooch.models.caches.array_store import making, write_block
from nooch.models.caches.features import FEATURES
from nooch.models.caches.pixels import PIXELS

KINDS = ["dataset", "parts", "suite", "runs", "features", "pixels", "export"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder of every kind, by its name."""
    folder = make_world(tmp_path_factory.mktemp("world"), epochs=1)
    data = load_dataset(folder / "dataset")
    # a suite that knows where its dataset is
    suite = {"out": folder / "suite", "tasks": ["car", "bowl"], "overwrite": True}
    nooch.find(folder / "dataset", nooch.CE(0.001), **suite)
    save_dataset(divide(data, 2), folder / "parts")
    nooch.export(nooch.load_suite(folder / "suite"), "hf", folder / "export", data=data)
    for kind, dtype, shape in ((FEATURES, "float32", (3,)), (PIXELS, "uint8", (2, 2, 3))):
        layout = {"shape": (len(data), *shape), "dtype": dtype, "block": 150}
        with making(folder / kind.name, kind, data, {}, **layout) as array:
            for number in array.todo:
                rows = array.rows(number)
                values = np.full((rows.stop - rows.start, *shape), number, dtype)
                array.record(number, write_block(array.array, array.offset_of(number), values))
    return folder


@pytest.fixture(scope="module")
def runs(world):
    pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    completed(bench_command(world, world / "runs"))
    return world / "runs"


@contextmanager
def _altered(file, change):
    """The file is another one meanwhile; ``change`` None removes it."""
    before = file.read_bytes()
    try:
        if change is None:
            file.unlink()
        else:
            file.write_bytes(change(before))
        yield
    finally:
        file.write_bytes(before)


@pytest.fixture(params=KINDS)
def kind(request):
    if request.param == "runs":
        request.getfixturevalue("runs")
    return request.param


def test_what_was_written_is_whole(kind, world):
    found = fsck(world / kind)
    assert (found.is_whole, found.damaged, found.notes) == (True, [], [])
    assert found.kind == ("dataset" if kind == "parts" else kind)
    assert len(found.files) == sum(file.is_file() for file in (world / kind).rglob("*"))


def test_any_change_is_noticed(kind, world):
    every = sorted(file for file in (world / kind).rglob("*") if file.is_file())
    files = [file for file in every if file.name != "timings.jsonl"]

    @given(st.data())
    @settings(max_examples=25)
    def change(drawn):
        file = drawn.draw(st.sampled_from(files))
        size = file.stat().st_size
        # the ends more often: checksums, padding, magic
        ends = st.integers(max(0, size - 99), size - 1)
        place = drawn.draw(st.one_of(st.integers(0, size - 1), ends))
        bits = drawn.draw(st.integers(1, 255))
        what = drawn.draw(st.sampled_from(["flip", "cut", "no"]))

        def altered(content):
            if what == "cut":
                return content[:place]
            return content[:place] + bytes([content[place] ^ bits]) + content[place + 1 :]

        with _altered(file, None if what == "no" else altered):
            try:
                found = fsck(world / kind)
            except FormatError:
                assert file.parent == world / kind
                return
        assert not found.is_whole, (file, what, place, bits)

    change()


def test_every_byte_of_a_suites_header_and_of_its_checksum(world):
    file = world / "suite" / "suite.json"
    content = file.read_bytes()
    assert is_intact(content)
    for place in range(len(content) - 120, len(content)):
        for bit in (1, 32):
            flipped = content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
            with _altered(file, lambda _, flipped=flipped: flipped):
                try:
                    assert not fsck(world / "suite").is_whole, place
                except FormatError:
                    continue


def test_the_command_says_what_is_damaged_and_how_to_make_it_again(world, run_cli):
    done = run_cli(f"info {world / 'dataset'} --check").ok()
    assert done.out.split() == f"{world / 'dataset'}: dataset, 4 files checked, whole".split()
    with _altered(world / "dataset/embeddings/made.npy", lambda content: content + b"x"):
        done = run_cli(f"info {world / 'dataset'} --check")
        text = " ".join(done.out.split())
        assert done.code == 1
        assert "embeddings/made.npy: has 25729 bytes, 25728 were written" in text
        assert "--overwrite, then run nooch tools embed" in text
        assert text.endswith("damaged: 1 file")
        damaged = run_cli(f"info {world / 'dataset'} --check --format json")
        assert damaged.code == 1
        assert damaged.json["is_whole"] is False
        assert [one["file"] for one in damaged.json["damaged"]] == ["embeddings/made.npy"]
    run_cli(f"info {world} --check").refused("is not a folder of nooch", "a dataset, suite, runs")


def test_a_header_without_checksum_is_read_and_noted(world, tmp_path):
    for kind, marker in (("dataset", "dataset.json"), ("suite", "suite.json")):
        shutil.copytree(world / kind, tmp_path / kind)
        header = json.loads((tmp_path / kind / marker).read_text())
        write_header(tmp_path / kind / marker, header)
        found = fsck(tmp_path / kind)
        assert found.is_whole
        assert "has no checksum" in found.notes[0]
    recorded = header["header"]["dataset"]["fingerprint"]
    assert load_dataset(tmp_path / "dataset").fingerprint == recorded


def _as_a_tool_writes_it(content):
    return json.dumps(json.loads(content)).encode()


@pytest.mark.parametrize("form", [bytes, _as_a_tool_writes_it])
def test_a_header_that_was_altered_is_refused_when_it_is_read(world, form):
    words = "its checksum does not match its content", "delete its line `checksum`"
    for kind, load in (("dataset", load_dataset), ("suite", nooch.load_suite)):
        file = world / kind / f"{kind}.json"
        with _altered(file, lambda content: form(content.replace(b'"car"', b'"cat"', 1))):
            fails(partial(load, world / kind), *words, kind=FormatError)


def test_leftovers_and_strange_files_are_notes(world, tmp_path):
    for name in ("dataset", "suite"):
        shutil.copytree(world / name, tmp_path / name)
    (tmp_path / "dataset/.embedding-x/parts").mkdir(parents=True)
    (tmp_path / "dataset/.embedding-x/parts/x.npy").touch()
    for name in (".dataset.partial", ".dataset.old"):
        (tmp_path / name).mkdir()
    (tmp_path / "dataset/notes.txt").touch()
    found = fsck(tmp_path / "dataset")
    assert found.is_whole
    assert ".embedding-x/parts/x.npy, ../.dataset.partial" in found.notes[0]
    assert found.notes[1] == "files that are not part of it: notes.txt"
    assert ".dataset.old" not in str(found.notes)
    shutil.rmtree(tmp_path / "dataset")
    assert "its dataset has moved or changed" in fsck(tmp_path / "suite").notes[0]


def test_runs_that_are_not_all_done(runs, tmp_path):
    copy = tmp_path / "runs"
    shutil.copytree(runs, copy)
    first, second = sorted((copy / "jobs").iterdir())[:2]
    shutil.rmtree(first)
    assert (
        "1 of 24 jobs are not done: run the same nooch train bench command again"
        in fsck(copy).notes
    )
    (second / "done").unlink()
    remedy = f"delete {second}, then run the same nooch train bench command again"
    assert fsck(copy).damaged == [Damage(f"jobs/{second.name}/done", "is missing", remedy)]
    (second / "done").touch()
    assert fsck(copy).damaged[0].problem == "was altered"
