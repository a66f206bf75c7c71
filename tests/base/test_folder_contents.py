"""What nooch did not write is never deleted, moved or emptied: with --overwrite, or without."""

import ast
from pathlib import Path

import pytest
from refusals import fails
from small_world import contents

from nooch.base import files
from nooch.base.disk import locked
from nooch.base.errors import OutputError
from nooch.base.files import DATASET_MARKER, SUITE_MARKER, atomic_folder, check_output
from nooch.base.folder_contents import _NAMES, foreign_files, own_folder
from nooch.base.work_folder import held, remove_folder, remove_leftovers, work_folder

SOURCE = Path(files.__file__).parent


def _write(folder, marker, *names):
    with atomic_folder(folder, overwrite=True, marker=marker) as partial:
        for name in (*names, marker):
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (partial / name).write_text("ours")


def _refused(act, *parts):
    return fails(act, *parts, kind=OutputError)


@pytest.mark.parametrize("strange", ["notes.txt", "mine/a.jpg", "empty/", "link", ".hidden"])
def test_a_folder_with_other_files_is_not_replaced(tmp_path, strange):
    suite = tmp_path / "suite"
    _write(suite, SUITE_MARKER, "challenge_sets.parquet")
    path = suite / strange
    if strange == "link":
        path.symlink_to(tmp_path)
    elif strange.endswith("/"):
        path.mkdir()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    before = contents(tmp_path)
    words = f"suite: contains what nooch did not write: {strange.rstrip('/')}", "remedy: move them"
    _refused(lambda: check_output(suite, overwrite=True, marker=SUITE_MARKER), *words)
    _refused(lambda: _write(suite, SUITE_MARKER, "challenge_sets.parquet"), *words)
    assert contents(tmp_path) == before


def test_files_that_come_while_a_folder_is_written_stop_its_replacement(tmp_path):
    _write(tmp_path / "suite", SUITE_MARKER)

    def replace():
        with atomic_folder(tmp_path / "suite", overwrite=True, marker=SUITE_MARKER):
            (tmp_path / "suite" / "notes.txt").write_text("mine")

    _refused(replace, "did not write: notes.txt")
    assert (tmp_path / "suite" / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["suite"]


def test_what_nooch_wrote_is_replaced_with_what_killed_processes_left(tmp_path):
    data = tmp_path / "data"
    left = (".x.parquet.partial-0123456789abcdef", ".embedding-a.lock")
    _write(data, DATASET_MARKER, "images/part-0000000.parquet", "embeddings/a/part-0000001.npy")
    own_folder(data / ".embedding-a")
    (data / ".embedding-a" / "part").touch()
    for name in left:
        (data / name).touch()
    assert foreign_files(data, DATASET_MARKER) == []
    _write(data, DATASET_MARKER, "images.parquet")
    assert sorted(contents(data)) == [DATASET_MARKER, "images.parquet"]


def test_an_export_without_its_record_is_not_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("nooch-export.json", "a.csv"):
        (tmp_path / "out" / name).touch()
    _refused(
        lambda: check_output(tmp_path / "out", overwrite=True, marker="nooch-export.json"),
        "did not write: a.csv",
    )


@pytest.mark.parametrize("name", [".out.partial", ".out.old"])
@pytest.mark.parametrize("existing", [True, False])
def test_folders_of_others_beside_the_output_stay(tmp_path, name, existing):
    if existing:
        _write(tmp_path / "out", SUITE_MARKER)
    (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / name / "deep" / "thesis.txt").write_text("mine")
    before = contents(tmp_path)
    if name == ".out.old":
        _write(tmp_path / "out", SUITE_MARKER)
        assert contents(tmp_path).items() >= before.items()
        return
    words = "did not make what is there", "remedy: rename it"
    _refused(lambda: _write(tmp_path / "out", SUITE_MARKER), *words)
    how = {"overwrite": existing, "marker": SUITE_MARKER}
    _refused(lambda: check_output(tmp_path / "out", **how), *words)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["file", "link"])
def test_files_and_links_of_that_name_stay(tmp_path, kind):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "a").touch()
    path = tmp_path / ".out.partial"
    path.write_text("mine") if kind == "file" else path.symlink_to(tmp_path / "theirs")
    _refused(lambda: _write(tmp_path / "out", SUITE_MARKER), "did not make what is there")
    assert path.is_symlink() or path.read_text() == "mine"
    assert (tmp_path / "theirs" / "a").exists()


def test_work_folders_of_others_stay(tmp_path):
    target, key = tmp_path / "out.parquet", work_folder(tmp_path / "out.parquet", "asking", 1)
    for theirs in (key, tmp_path / ".out.parquet.asking-notes"):
        theirs.mkdir()
        (theirs / "reply.txt").write_text("mine")
    before = contents(tmp_path)
    remove_leftovers(target, "asking", "asking")
    remove_folder(key)
    _refused(held(key, "asking").__enter__, "did not make what is there")
    assert contents(tmp_path) == before


def test_a_removal_that_is_cut_short_is_finished_by_the_next(tmp_path, monkeypatch):
    folder = work_folder(tmp_path / "out", "finding", 1)
    own_folder(folder)
    (folder / "parts").mkdir()
    (folder / "parts" / "a").touch()
    (folder / "b").touch()
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", lambda *_, **__: None)
        patched.setattr("time.sleep", lambda _: None)
        remove_folder(folder)
    (left,) = tmp_path.iterdir()
    assert (left / "parts" / "a").exists()
    remove_leftovers(tmp_path / "out", "finding", "finding")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_lock_is_not_emptied(tmp_path):
    (tmp_path / ".out.lock").write_text("mine")
    _refused(
        locked(tmp_path / ".out.lock", "writing", tmp_path).__enter__, "is not a lock of nooch"
    )
    _refused(lambda: _write(tmp_path / "out", SUITE_MARKER), "is not a lock of nooch")
    assert (tmp_path / ".out.lock").read_text() == "mine"


def test_every_kind_of_folder_has_its_names():
    """Markers are constants: each file that one is written as is in the table."""
    markers = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                name = getattr(node.targets[0], "id", "")
                if name.endswith("MARKER") or name == "CHANGES":
                    markers.add(node.value.value)
    # of runs, which grow and are not replaced
    assert markers - {"runs.json"} <= set(_NAMES), markers
