"""What a person put into a folder is kept when it is replaced; what nooch did not make stays."""

import contextlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from refusals import fails
from small_world import contents

from nooch.base import disk, files
from nooch.base.disk import locked, own_folder
from nooch.base.errors import OutputError
from nooch.base.files import SUITE_MARKER, check_output, write_folder
from nooch.base.work_folder import held, remove_folder, remove_leftovers, work_folder


def _write(folder, marker, *names):
    with write_folder(folder, overwrite=True, marker=marker) as partial:
        for name in (*names, marker):
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (partial / name).write_text("ours")


def _refused(act, *parts):
    return fails(act, *parts, kind=OutputError)


@pytest.fixture
def replaced(tmp_path):
    """A suite with files of a person; ``old`` is what it contains, ``again`` replaces it."""
    suite = tmp_path / "suite"
    _write(suite, SUITE_MARKER, "challenge_sets.parquet")
    for name in ("notes.txt", "mine/a.jpg", ".hidden"):
        (suite / name).parent.mkdir(exist_ok=True)
        (suite / name).write_text("mine")
    (suite / "empty").mkdir()
    (suite / "link").symlink_to(tmp_path)
    return SimpleNamespace(suite=suite, kept=tmp_path / ".suite.old", old=contents(suite),
                           again=lambda: _write(suite, SUITE_MARKER))  # fmt: skip


# as where the system has no call for it
EXCHANGES = {"exchange": disk.exchange, "renames": lambda *_: False}


@pytest.mark.parametrize("how", EXCHANGES)
def test_a_replaced_folder_is_kept_whole_and_logged(replaced, monkeypatch, caplog, how):
    monkeypatch.setattr(files, "exchange", EXCHANGES[how])
    caplog.set_level("INFO")
    replaced.again()
    assert [*contents(replaced.suite)] == [SUITE_MARKER]
    assert contents(replaced.kept) == replaced.old | {".nooch": b""}
    assert (replaced.kept / "empty").is_dir()
    assert (replaced.kept / "link").is_symlink()
    assert f"is kept as {replaced.kept}" in caplog.text
    # only one is kept, and nothing else
    replaced.again()
    assert [*contents(replaced.kept)] == [".nooch", SUITE_MARKER]
    names = [path.name for path in replaced.suite.parent.iterdir()]
    assert sorted(names) == [".suite.old", "suite"]


def test_a_folder_without_its_marker_is_not_replaced(replaced):
    for file in (replaced.suite, replaced.suite / "mine"):
        (replaced.suite / SUITE_MARKER).unlink(missing_ok=True)
        before = contents(replaced.suite)
        _refused(
            lambda f=file: check_output(f, overwrite=True, marker=SUITE_MARKER),
            "contains no suite.json",
        )
        _refused(lambda f=file: _write(f, SUITE_MARKER), "contains no suite.json")
        assert contents(replaced.suite) == before
    assert not replaced.kept.exists()


@pytest.mark.parametrize("how", EXCHANGES)
@pytest.mark.parametrize("step", range(1, 9))
def test_a_kill_at_any_step_of_a_replacement_loses_nothing(replaced, monkeypatch, how, step):
    """Each rename, mark or removal may be the last: then the next process puts it right."""
    steps = iter(range(1, 100))

    def stopping(act):
        def acts(*given, **named):
            if next(steps) >= step:
                raise KeyboardInterrupt
            return act(*given, **named)

        return acts

    replaced.again()
    (replaced.suite / "notes.txt").write_text("later")
    with monkeypatch.context() as patch:
        patch.setattr(files, "exchange", stopping(EXCHANGES[how]))
        for name in ("rename", "touch", "unlink", "rmdir"):
            patch.setattr(Path, name, stopping(getattr(Path, name)))
        patch.setattr("shutil.rmtree", stopping(shutil.rmtree))
        with contextlib.suppress(KeyboardInterrupt):
            replaced.again()
    with contextlib.suppress(OutputError):
        check_output(replaced.suite)
    either = [contents(folder) for folder in (replaced.suite, replaced.kept) if folder.exists()]
    assert SUITE_MARKER in either[0]
    later = [one for one in either if one.get("notes.txt") == b"later"]
    assert [SUITE_MARKER in one for one in later] == [True]
    assert not replaced.suite.with_name(".suite.partial").exists()
    replaced.again()
    assert [*contents(replaced.suite)] == [SUITE_MARKER]


def test_a_link_is_replaced_and_what_it_leads_to_stays(replaced, tmp_path):
    (tmp_path / "link").symlink_to(replaced.suite)
    _write(tmp_path / "link", SUITE_MARKER)
    assert contents(replaced.suite) == replaced.old
    assert not (tmp_path / "link").is_symlink()
    assert not (tmp_path / ".link.old").exists()


@pytest.mark.parametrize("name", [".out.partial", ".out.old"])
@pytest.mark.parametrize("existing", [True, False])
def test_folders_of_others_beside_the_output_stay(tmp_path, name, existing):
    if existing:
        _write(tmp_path / "out", SUITE_MARKER)
    (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / name / "deep" / "thesis.txt").write_text("mine")
    before = contents(tmp_path)
    if name == ".out.old" and not existing:
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
        locked(tmp_path / ".out.lock", "writing", tmp_path).__enter__, "is not a lock file of nooch"
    )
    _refused(lambda: _write(tmp_path / "out", SUITE_MARKER), "is not a lock file of nooch")
    assert (tmp_path / ".out.lock").read_text() == "mine"
