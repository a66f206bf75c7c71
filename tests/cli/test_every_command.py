"""What every command promises, on every command: nothing is lost, half written or let through.

``NOOCH_TEST_ALTERATIONS=500`` tries more altered files.
"""

import os
import random
import re
import shutil
from pathlib import Path

import pytest
from altered_files import alterations, seal
from every_command import COMMANDS, ELSEWHERE, HOSTILE, PLAIN, World
from full_disk import full_disk
from small_world import contents

from nooch.cli.main import EXAMPLES

WRITING = [command for command in COMMANDS if command.kind]
MOST = int(os.environ.get("NOOCH_TEST_ALTERATIONS", "12"))
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def of_each(commands):
    return pytest.mark.parametrize("command", commands, ids=[one.words for one in commands])


@pytest.fixture
def world(every_world):
    return every_world


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return World.make(tmp_path_factory.mktemp("hostile"), HOSTILE)


def test_each_command_is_tested():
    assert set(EXAMPLES) == {command.name for command in COMMANDS} | set(ELSEWHERE)
    tests = Path(__file__).parents[1]
    for name, file in ELSEWHERE.items():
        text = (tests / file).read_text(encoding="utf-8")
        assert all(word in text for word in name.split()), name


# what is written


def made(folder):
    """What lies where ``out`` was written, and next to it for a while."""
    return sorted(path.name for path in folder.iterdir() if "out" in path.name)


def written(folder):
    """Files that were written there, but logs, and what is kept to resume."""
    return [path for path in folder.glob("out*/**/*") if path.is_file() and path.suffix != ".log"]


@of_each(WRITING)
def test_a_full_disk_is_one_error_and_what_exists_is_kept(command, world, run_cli, tmp_path):
    world.place(tmp_path)
    typed = command.typed(PLAIN)
    with full_disk(command.full):
        said = run_cli(typed).refused("remedy: ")
    assert said.count("error:") == 1
    assert re.search("cannot (be written|write|be made|read or write).*: File too large", said), (
        said
    )
    assert command.kind == "resumed" or not written(tmp_path)
    run_cli(typed).ok()
    assert not list(tmp_path.glob(".out*partial*"))
    before, names = contents(tmp_path / command.out), made(tmp_path)
    if command.kind == "resumed":
        run_cli(f"{typed} --format json").ok().json  # noqa: B018 - it parses what was printed
        assert contents(tmp_path / command.out) == before
        return
    done = run_cli(typed)
    done.refused("exists already", "remedy: ", "--overwrite")
    assert done.error.give == ({"overwrite": True},)
    assert contents(tmp_path / command.out) == before
    # JSON stands alone on standard output, and the same is written again
    done = run_cli(f"{typed} --overwrite --format json")
    done.ok().json  # noqa: B018
    assert contents(tmp_path / command.out).keys() == before.keys()
    old = f".{command.out}.old"
    assert made(tmp_path) in (names, sorted([old, *names]))
    # a folder that was replaced is kept, which a note says
    assert (f"is kept as {tmp_path / old}" in done.err.replace("\n", " ")) == (
        old in made(tmp_path)
    )


@of_each(WRITING)
def test_places_that_cannot_be_written_and_a_wrong_option(
    command, world, run_cli, tmp_path, monkeypatch
):
    world.place(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / command.out).mkdir()
    (tmp_path / "mine" / command.out / "thesis.txt").write_text("precious")
    before, ending = sorted(tmp_path.rglob("*")), Path(command.out).suffix
    for out, message in (
        (f"p.csv/{command.out}", "cannot (make the folder|be written|be made|write)"),
        (f"{'x' * 300}{ending}", "File name too long"),
        (f"/proc/nooch/{command.out}", "/proc"),
        (f"s3://bucket/{command.out}", "only datasets are read from one"),
    ):
        said = run_cli(command.typed(PLAIN, out)).refused()
        assert re.search(message, said)
        assert re.search("(remedy|allowed): ", said)
    run_cli(f"{command.typed(PLAIN)} --no-such-option").refused("No such option")
    if command.kind != "added":
        theirs = command.typed(PLAIN, f"mine/{command.out}")
        more = "" if command.kind == "resumed" else "--overwrite"
        run_cli(theirs).refused("remedy: ")
        run_cli(f"{theirs} {more}").refused("remedy: ")
    no_right = lambda _path, mode, **_: not mode & os.W_OK  # noqa: E731
    monkeypatch.setattr("nooch.base.files.os.access", no_right)
    if command.kind != "resumed":
        run_cli(command.typed(PLAIN)).refused("no permission to write here", "remedy: ")
    assert sorted(tmp_path.rglob("*")) == before


@of_each(WRITING)
def test_an_interrupt_leaves_nothing(command, world, run_cli, tmp_path, monkeypatch):
    world.place(tmp_path)

    def stop(*_, **__):
        raise KeyboardInterrupt

    # at the last moment: what is written gets its name
    with monkeypatch.context() as patch:
        patch.setattr("nooch.base.files._install", stop)
        patch.setattr("pathlib.Path.replace", stop)
        ran = run_cli(command.typed(PLAIN))
    assert (ran.code, ran.out) == (130, "")
    assert "Traceback" not in ran.err
    assert command.kind == "resumed" or not written(tmp_path)
    assert not (tmp_path / command.out).is_file()
    if left := [name for name in made(tmp_path) if name[0] == "."]:
        # it is resumed
        run_cli(command.typed(PLAIN)).ok()
        assert not set(left) & set(made(tmp_path))


@of_each([command for command in COMMANDS if not command.kind])
def test_json_stands_alone_and_nothing_is_written(command, world, run_cli, tmp_path):
    world.place(tmp_path)
    run_cli(f"{command.typed(PLAIN)} --format json").ok().json  # noqa: B018
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in world.folder.iterdir()
    )


# what is read

HOSTILE_TOO = """
evaluate suite p.csv --out out.md
evaluate suite p.csv --out out.tex
evaluate suite p.csv --fail-if auc@hard<2 -> 1
paper figures all --suite suite --predictions p.csv --formats svg --out out
find ds --criterion ce --tasks nothing{car} --out out -> 2
evaluate suite missing{car}.csv -> 2
"""


@pytest.mark.parametrize(
    "typed", [*(command.words for command in COMMANDS), *HOSTILE_TOO.strip().splitlines()]
)
def test_no_name_reaches_a_terminal_log_or_file_name(typed, hostile, run_cli, tmp_path):
    """Names that move a cursor or turn text around are spelled out."""
    hostile.place(tmp_path, "ds", "parts")
    before = {*tmp_path.rglob("*")}
    command = next((one for one in COMMANDS if one.words == typed), None)
    line = command.typed(HOSTILE) if command else typed.format(car=f"'{HOSTILE.car}'")
    line, _, code = line.partition(" -> ")
    as_json = command is not None and not command.kind
    for more in ["", "--format json"] if as_json else [""]:
        ran = run_cli(f"{line} {more}")
        assert ran.code == int(code or 0), ran.err
        # a document for a pipe is as it is
        shown = ran.err if "--format" in line else ran.out + ran.err
        assert not CONTROLS.search(shown), (CONTROLS.search(shown), shown)
        if more and (typed == "info ds" or command.name in {"show", "evaluate", "explain"}):
            assert HOSTILE.car in str(ran.json) or "\\x1b[2J" in str(ran.json)
    for path in {*tmp_path.rglob("*")} - before:
        assert not CONTROLS.search(str(path.relative_to(tmp_path))), path
        if path.suffix == ".log":
            assert not CONTROLS.search(path.read_text(encoding="utf-8")), path


READ = sorted({name for command in COMMANDS for name in command.reads})


def _files(place):
    """The files to alter: of runs those of the first job alone."""
    if place.is_file():
        return [place]
    first = next(iter(sorted(place.glob("jobs/*"))), place)
    others = {file for job in place.glob("jobs/*") if job != first for file in job.iterdir()}
    endings = {".parquet", ".csv", ".json", ".npy"}
    return [f for f in sorted(place.rglob("*")) if f.suffix in endings and f not in others]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", READ)
def test_altered_files_are_refused_in_one_line_or_read(target, world, run_cli, tmp_path):
    """Files that somebody altered, with hashes that match: an error that names it, or a result."""
    world.place(tmp_path, target, "ds", "parts")
    intact, place, draw = world.folder / target, tmp_path / target, random.Random(target)
    readers = [command.typed(PLAIN) for command in COMMANDS if target in command.reads]
    cases = [(file, *case) for file in _files(place) for case in alterations(file)]
    for file, name, content in draw.sample(cases, min(MOST, len(cases))):
        command = draw.choice(readers)
        if place.is_dir():
            shutil.rmtree(place)
            shutil.copytree(intact, place)
        file.write_bytes(content() if callable(content) else content)
        if place.is_dir():
            seal(place, file)
        ran = run_cli(command)
        what = f"{file.name}, {name}: {command}: {ran.err}"
        assert ran.code in {0, 1, 2}, what
        if ran.code == 2:
            assert "Usage:" in ran.err or ran.err.count("error: ") == 1, what
        assert "\x1b" not in ran.out + ran.err, what
        for one in (tmp_path / name for name in made(tmp_path)):
            shutil.rmtree(one) if one.is_dir() else one.unlink()
