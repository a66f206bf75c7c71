"""Closed and narrow standard output, names that are not UTF-8, damaged intermediate files."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest
from image_folders import image_dataset
from refusals import fails

from nooch.base.errors import OutputError
from nooch.base.work_folder import Steps, held
from nooch.data import save_dataset

NOOCH = f"{sys.executable} -m nooch"


def _shell(command, cwd, **environment):
    """Exit code, standard output and error of a line for the shell."""
    done = subprocess.run(
        ["sh", "-c", command], cwd=cwd, env={**os.environ, **environment}, capture_output=True,
        check=False,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.parametrize("arguments", ["--help", "--version", "info data", "find --help"])
def test_a_closed_output_is_an_error_that_says_so(tmp_path, arguments):
    code, _, error = _shell(f"{NOOCH} {arguments} >&-", tmp_path)
    assert code == 2
    assert "standard output is closed" in error
    assert "remedy:" in error


def test_other_closed_streams_do_not_matter(tmp_path):
    code, out, _ = _shell(f"{NOOCH} --version <&- 2>&-", tmp_path)
    assert code == 0
    assert out.strip()
    code, _, _ = _shell(f"{NOOCH} info nowhere 2>&-", tmp_path)
    assert code == 2


def test_an_output_in_latin_1(tmp_path):
    data = image_dataset(tmp_path, 3)
    save_dataset(data, tmp_path / "naïve≥")
    narrow = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    code, out, _ = _shell(f"{NOOCH} info naïve≥", tmp_path, **narrow)
    assert code == 0
    # what the encoding lacks is spelled out
    assert "naïve\\u2265".encode("latin-1") in out
    code, out, _ = _shell(f"{NOOCH} info naïve≥ --format json", tmp_path, **narrow)
    assert code == 0
    # JSON is UTF-8 whatever the terminal is
    assert json.loads(out.decode())["images"] == 3


@pytest.mark.parametrize("arguments", [b"info na\xefve", b"info data --out=na\xefve"])
def test_arguments_that_are_not_utf_8(tmp_path, arguments):
    done = subprocess.run(
        [*os.fsencode(NOOCH).split(), *arguments.split()],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"na\\udcefve is not UTF-8" in done.stderr
    assert b"remedy: rename" in done.stderr


def test_arguments_in_a_locale_that_is_not_utf_8(tmp_path):
    save_dataset(image_dataset(tmp_path, 3), tmp_path / "naïve")
    # Python's own UTF-8 mode reads them in LC_ALL=C, unless it is switched off
    code, out, _ = _shell(f"{NOOCH} info naïve --format json", tmp_path, LC_ALL="C")
    assert (code, json.loads(out)["images"]) == (0, 3)
    code, _, error = _shell(f"{NOOCH} info naïve", tmp_path, LC_ALL="C", PYTHONUTF8="0")
    assert code == 2
    assert "na\\xefve is UTF-8, which the locale is not" in error
    assert "remedy: set PYTHONUTF8=1" in error


def test_names_of_data_in_a_locale_that_is_not_utf_8(tmp_path):
    data = image_dataset(tmp_path, 3)
    save_dataset(replace(data, classes=("naïve", *data.classes[1:])), tmp_path / "data")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, out, error = _shell(f"{NOOCH} info data", tmp_path, **ascii_only)
    assert code == 0, error
    assert b"na\\xefve" in out


def test_a_folder_that_is_not_utf_8(tmp_path):
    try:
        (folder := tmp_path / os.fsdecode(b"na\xefve")).mkdir()
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    code, _, error = _shell(f"{NOOCH} info data", folder)
    assert code == 2
    assert "is not UTF-8" in error


def test_a_damaged_result_is_made_again(tmp_path):
    for damage in (b"", b"\xc1", msgspec.msgpack.encode("text"), b"\x92\x01"):
        (tmp_path / "result.msgpack").write_bytes(damage)
        for make in (lambda: [1, 2], list):
            assert Steps(tmp_path).get("result.msgpack", make, list[int]) == [1, 2]


def test_work_that_cannot_be_resumed_names_its_folder(tmp_path):
    work = tmp_path / ".out.importing-0"

    def resume(error):
        with held(work, "importing"):
            (work / "rows.parquet").write_bytes(b"half")
            raise error

    # nothing was kept: an error of the work itself
    with pytest.raises(ZeroDivisionError):
        resume(ZeroDivisionError())
    parts = "cannot resume from the files here: ValueError: broken", "remedy: delete this folder"
    text = fails(lambda: resume(ValueError("broken\nline")), *parts, kind=OutputError)
    assert str(work) in text
    with pytest.raises(KeyboardInterrupt):
        resume(KeyboardInterrupt())
