"""Whatever comes in: one error and an exit code, never a traceback."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
from commands import argv
from oracles import dataset_of
from waiting import HANGS, until

from nooch.data import save_dataset


@pytest.fixture
def world(tmp_path, run_cli, monkeypatch):
    """A dataset ``ds`` of 60 images, its suite ``suite`` and predictions ``p.csv``."""
    monkeypatch.chdir(tmp_path)
    images = [{"car": 0.1, "road": 0.3} if n % 3 else {"road": 0.2} for n in range(60)]
    splits = [("train", "valid", "test")[n % 3 if n % 2 else 2] for n in range(60)]
    save_dataset(dataset_of(images, ["car", "road"], splits), tmp_path / "ds")
    run_cli("find ds --criterion ce --tasks car --cues car=road --out suite").ok()
    random = np.random.default_rng(0)
    logits = random.normal(size=60)
    table = pl.DataFrame({"image_id": range(1, 61), "task": "car", "logit": logits})
    table.filter(pl.Series(splits) != "train").write_csv("p.csv")
    return tmp_path


def _refused(ran):
    """One error for people, and an exit code of 2."""
    assert ran.code == 2, ran.err
    assert "internal error" not in ran.err
    assert ran.err.count("error:") == 1 or "Usage:" in ran.err
    return ran.err


@pytest.mark.parametrize("bootstrap", [100_001, 10**12, 10**40])
def test_too_many_resamples_are_refused(world, run_cli, bootstrap):
    assert "100000" in _refused(run_cli(f"evaluate suite p.csv --bootstrap {bootstrap}"))


@pytest.mark.filterwarnings("error")
def test_intervals_of_the_largest_logits(world, run_cli):
    table = pl.read_csv("p.csv").with_columns(logit=pl.when(pl.col("logit") > 0).then(1e308))
    table.with_columns(pl.col("logit").fill_null(-1e308)).write_csv("large.csv")
    run_cli("evaluate suite large.csv --bootstrap 50").ok()


@pytest.mark.parametrize("kind", ["Binary", "Struct", "List"])
@pytest.mark.parametrize("layout", ["--label c", "--class c"])
@pytest.mark.parametrize("more", ["", "--part-size 20"])
def test_columns_that_name_no_class_are_refused(world, run_cli, kind, layout, more):
    value = {"Binary": b"\xff", "Struct": {"a": 1}, "List": [1]}[kind]
    pl.DataFrame({"id": range(40), "c": [value] * 40}).write_parquet("t.parquet")
    assert kind in _refused(run_cli(f"import table t.parquet out --id id {layout} {more}"))
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "text", ["9" * 5000, "[" * 20_000, "{a: " * 5000, "2024-99-99", "!!python/name:os.system x"]
)
def test_yaml_that_cannot_be_read_is_refused(world, run_cli, text):
    Path("c.yaml").write_text(f"seeds: {text}")
    assert "c.yaml" in _refused(
        run_cli("train bench ds suite --features f --out o --config c.yaml")
    )
    _refused(run_cli("train bench ds suite --features f --out o --set", f"seeds={text}"))


@pytest.mark.parametrize("header", ["(" * 118, "{" * 118, "9" * 118, "[" * 60 + "]" * 58])
def test_damaged_headers_of_arrays_are_refused(world, run_cli, header):
    Path("x.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + header.encode())
    assert "x.npy" in _refused(run_cli("evaluate suite x.npy"))


def test_a_name_that_no_file_can_have_is_refused(world, run_cli):
    assert "name too long" in _refused(run_cli(f"evaluate suite {'s' * 300}.csv")).lower()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("shown", ["text", "json"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("show suite", 0),
        ("evaluate suite p.csv --fail-if error@hard<2", 1),
        ("evaluate suite p.csv --fail-if error@hard>2", 0),
        ("show none", 2),
    ],
)
def test_a_reader_that_stops_does_not_change_the_exit_code(world, command, code, shown, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    for err in (writer, subprocess.PIPE):
        ran = subprocess.run(argv(f"{command} --format {shown}"), stdout=writer, stderr=err,
                             check=False, env=env, timeout=HANGS)  # fmt: skip
        assert ran.returncode == code
        assert b"ipe" not in (ran.stderr or b"")
    os.close(writer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_one_error(world, unbuffered):
    for shown in ("text", "json"):
        with Path("/dev/full").open("wb") as full:
            ran = subprocess.run(argv(f"show suite --format {shown}"), stdout=full, check=False,
                                 env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
                                 stderr=subprocess.PIPE, timeout=HANGS)  # fmt: skip
        assert ran.returncode == 2
        assert b"No space left on device" in ran.stderr
        assert b"Exception ignored" not in ran.stderr


def test_what_nobody_foresaw_is_one_line_and_a_report_without_data(world, run_cli, monkeypatch):
    failing = Mock(side_effect=ZeroDivisionError("secret 4711"))
    monkeypatch.setattr("nooch.data.load_dataset", failing)
    monkeypatch.setattr(tempfile, "tempdir", str(world))
    monkeypatch.setattr(sys, "argv", ["nooch", "info", "ds", "--format=json"])
    ran = run_cli("info ds --format=json")
    assert ran.code == 70
    assert "Traceback" not in ran.err
    assert "internal error, ZeroDivisionError: secret 4711" in ran.err
    report = Path(re.search(r"\S*nooch-error-\S+\.txt", ran.err)[0]).read_text()
    assert re.search(r"cli/commands/info\.py:\d+ in info_command", report)
    assert "ZeroDivisionError" in report
    assert "options: --format\n" in report
    (line,) = ran.err.splitlines()
    error = json.loads(line)["error"]
    assert (error["code"], error["where"], error["flag"]) == (70, None, [])
    assert error["what"] == "internal error, ZeroDivisionError: secret 4711"
    assert "report it with the file" in error["remedy"]
    assert "4711" not in report


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("raise ZeroDivisionError('no car')", "ZeroDivisionError: no car"),
        ("np.zeros(2) + np.zeros(3)", "ValueError: operands could not be broadcast"),
        ("pl.DataFrame({'a': [1]})['b']", "ColumnNotFoundError: "),
    ],
)
def test_an_error_in_the_code_of_a_user_names_its_line(world, run_cli, line, expected):
    lines = (
        "import numpy as np, polars as pl",
        "from dataclasses import dataclass",
        "from nooch.criteria import CE",
        "@dataclass(frozen=True)",
        "class Broken(CE):",
        "    def finish(self, *args, **named):",
        f"        {line}",
    )
    Path("custom.py").write_text("\n".join(lines))
    ran = run_cli("find ds --criterion custom:Broken --tasks car --out out", separate=True,
                  cwd=world, env={"PYTHONPATH": str(world)})  # fmt: skip
    assert ran.code == 2
    assert f"{world / 'custom.py'}:7, in finish: {expected}" in ran.err
    assert "Traceback" not in ran.err
    assert not Path("out").exists()


def test_code_of_a_user_that_is_no_python_names_its_line(world, run_cli):
    Path("custom.py").write_text("import nooch\nclass Broken(:")
    ran = run_cli("find ds --criterion custom:Broken --tasks car --out out", separate=True,
                  cwd=world, env={"PYTHONPATH": str(world)})  # fmt: skip
    assert ran.code == 2
    assert f"{world / 'custom.py'}:2: " in ran.err


@pytest.mark.parametrize(
    ("number", "then"),
    [
        (signal.SIGINT, "raise"),
        (signal.SIGINT, "raise ImportError"),
        (signal.SIGINT, "pass"),
        # as where polars runs the handler, panics, and is taken to have met a broken table
        (signal.SIGTERM, "import nooch.base.errors; raise nooch.base.errors.FormatError('broken')"),
        (signal.SIGTERM, "raise ValueError"),
    ],
)
def test_a_signal_gives_its_code_whatever_is_made_of_its_exception(world, number, then):
    lines = (
        "import pathlib, time",
        "try:",
        "    pathlib.Path('ready').touch()",
        "    time.sleep(300)",
        "except BaseException:",
        f"    {then}",
    )
    Path("custom.py").write_text("\n".join(lines))
    process = subprocess.Popen(
        argv("find ds --criterion custom:Broken --tasks car --out out"),
        env={**os.environ, "PYTHONPATH": str(world)},
        stderr=subprocess.PIPE,
    )
    until(Path("ready").is_file, while_=lambda: process.poll() is None)
    process.send_signal(number)
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 128 + number
    assert b"Traceback" not in said
    assert b"error" not in said
    assert not Path("out").exists()


def test_a_panic_is_an_internal_error_too(world, run_cli, monkeypatch):
    panics = Mock(side_effect=pl.exceptions.PanicException("index out of bounds"))
    monkeypatch.setattr("nooch.data.load_dataset", panics)
    ran = run_cli("info ds")
    assert ran.code == 70
    assert "internal error, PanicException: index out of bounds" in ran.err


def test_a_report_that_cannot_be_written_is_said(monkeypatch, capsys):
    from nooch.cli import main as failure_report

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    assert failure_report.report_failure(KeyError("a")) == 70
    assert "could not be written: No space left" in capsys.readouterr().err
