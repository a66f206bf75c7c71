"""Folders of intermediate files: keys, locks, results that are made once, leftovers, free space."""

import shutil
import subprocess
import sys

import msgspec
import numpy as np
import polars as pl
import pytest
from refusals import fails

from nooch.base.disk import locked, own_folder
from nooch.base.errors import InputError, OutputError
from nooch.base.work_folder import Steps, check_space, held, key_of, remove_leftovers, work_folder


class Found(msgspec.Struct):
    name: str
    counts: np.ndarray


def test_a_key_depends_on_all_content():
    contents = [{"a": 1, "b": [1, 2]}, {"a": 1, "b": [2, 1]}, {"b": [1, 2], "a": 1}, {"a": "1"}]
    keys = [key_of(content) for content in contents]
    assert len(set(keys)) == 4
    assert key_of(contents[0]) == keys[0]
    assert {len(key) for key in keys} == {16}


def test_a_work_folder_lies_beside_its_target(tmp_path):
    folder = work_folder(tmp_path / "suite", "finding", [1])
    assert folder == tmp_path / f".suite.finding-{key_of([1])}"


def test_an_empty_folder_and_those_made_for_it_are_removed(tmp_path):
    folder = tmp_path / "a" / "b" / ".suite.finding-0"
    with held(folder, "finding this suite"):
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_files_stay_unless_the_input_is_refused(tmp_path):
    folder = tmp_path / "made" / "work"

    def refused(**more):
        with held(folder, "working", **more):
            (folder / "file").touch()
            raise InputError("is refused")

    with pytest.raises(InputError):
        refused()
    assert [path.name for path in folder.parent.iterdir()] == ["work"]
    with pytest.raises(InputError):
        refused(clear_if_refused=True)
    # the folder above it was there before this time
    assert list(folder.parent.iterdir()) == []
    folder.parent.rmdir()
    with pytest.raises(InputError):
        refused(clear_if_refused=True)
    assert not folder.parent.exists()


def test_another_process_is_refused(tmp_path):
    folder = tmp_path / "work"
    held_again = f"held(Path({str(folder)!r}), 'working')"
    code = "from pathlib import Path\nfrom nooch.base.work_folder import held\n"
    words = [sys.executable, "-c", f"{code}with {held_again}: pass"]
    with held(folder, "working"):
        with pytest.raises(OutputError, match=r"work: another process is working\n  remedy: "):
            held(folder, "working").__enter__()
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "another process is working" in done.stderr
    assert subprocess.run(words, check=False).returncode == 0


def test_a_place_that_cannot_be_locked(tmp_path):
    (tmp_path / "x.lock").mkdir()
    locking = locked(tmp_path / "x.lock", "working", tmp_path)
    fails(locking.__enter__, "cannot be locked", kind=OutputError)
    (tmp_path / "file").touch()
    holding = held(tmp_path / "file" / "w", "working")
    fails(holding.__enter__, "cannot write", kind=OutputError, helps=False)


def test_leftovers_are_removed_unless_they_are_held(tmp_path):
    names = [".suite.finding-1", ".suite.finding-2", ".suite.summing-1", ".suite2.finding-1"]
    for name in names:
        own_folder(tmp_path / name)
        (tmp_path / name / "file").touch()
    with held(tmp_path / names[1], "finding this suite"):
        remove_leftovers(tmp_path / "suite", "finding", "finding this suite")
    assert sorted(path.name for path in tmp_path.iterdir()) == names[1:]


def test_a_result_is_made_once(tmp_path):
    made = []

    def make():
        made.append(1)
        return Found("a", np.arange(6, dtype=np.int32).reshape(2, 3))

    results = [Steps(tmp_path).get("result.msgpack", make, Found) for _ in range(3)]
    assert len(made) == 1
    for found in results:
        assert found.counts.dtype == np.int32
        assert found.counts.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(NotImplementedError):
        Steps(tmp_path).get("other.msgpack", lambda: Found("a", np.array([object()])), Found)
    assert [path.name for path in tmp_path.iterdir()] == ["result.msgpack"]


@pytest.mark.parametrize(
    ("name", "result", "same"),
    [
        (
            "a.npz",
            {"b.c": np.arange(3), "d": np.array("e")},
            lambda read, made: str(read) == str(made),
        ),
        ("a.npy", np.arange(6.0).reshape(2, 3), np.array_equal),
        (
            "a.arrow",
            [pl.DataFrame({"a": [1, None]}), pl.DataFrame({"a": []}, {"a": pl.Int64})],
            lambda read, made: all(read[i].equals(frame) for i, frame in enumerate(made)),
        ),
    ],
)
def test_a_step_is_made_again_where_its_file_is_damaged(tmp_path, name, result, same):
    steps, made = Steps(tmp_path), []

    def make():
        made.append(1)
        return result

    for number in range(3):
        assert same(steps.get(name, make), result)
        assert same(steps.get(name, make), result)
        assert len(made) == number + 1
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: [0, 20, 90][number]])
    assert steps.has(name)
    assert not steps.has("other.npy")


def test_space_is_checked(tmp_path, monkeypatch):
    usage = shutil._ntuple_diskusage(10**10, 10**10, 1999)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    check_space(tmp_path, 1999, "unpacking")
    message = "unpacking needs 2.0 GB, and 2.0 kB are free"
    fails(lambda: check_space(tmp_path, 2 * 10**9, "unpacking"), message, kind=OutputError)
