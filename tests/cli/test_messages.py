"""Messages of the library name parameters; the command line shows them as they are typed."""

import json
import sys

import pytest

from nooch.base.errors import Command, InputError
from nooch.cli.main import app
from nooch.cli.terminal import (
    as_typed,
    end_progress,
    note,
    print_json,
    print_text,
    say,
    show_progress,
    speak_for,
    with_flags,
)


@pytest.fixture
def shown(monkeypatch):
    """A message as a command shows it."""
    speak_for(app)

    def of(words, text):
        monkeypatch.setattr(sys, "argv", ["nooch", *words.split()])
        return with_flags(text)

    return of


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        ("import coco out", "or without `part_size`", "or without --part-size"),
        # options with other names than their parameters
        ("import table f out", "give `class_column` and `area_column`", "give --class and --area"),
        ("predict suite", "give `task_map` FILE.yaml", "give --map FILE.yaml"),
        ("train bench dataset", "`set` batch=8", "--set batch=8"),
        # an argument of this command is an option of another
        ("export suite", "give `suite`, or `dataset` DATASET", "give SUITE, or --dataset DATASET"),
        ("paper tables runs", "give `suite` SUITE", "give --suite SUITE"),
        # arguments that all commands call otherwise than Python
        ("captions suite c.json", "it needs `data`, a dataset", "it needs --dataset, a dataset"),
        ("evaluate suite p.csv", "no such `criteria`", "no such --criterion"),
        # what another command takes, which the text names
        ("find data", "nooch import coco `things` A", "nooch import coco --things A"),
    ],
)
def test_parameters_are_shown_as_they_are_typed(shown, words, text, expected):
    assert shown(words, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "`nothing` of nooch", "missing required field `images`", "at `$.images[3].id`", "`A B`",
        "no", "give `fail_if`, or `task_map`", "nooch wrote `fail_if`",
    ],
)  # fmt: skip
def test_other_words_stay_and_so_do_parameters_of_other_commands(shown, text):
    assert shown("import coco out", text) == text


def test_notes_are_shown_so_on_both_outputs(shown, capsys):
    shown("export suite", "")
    note("`licenses` TEXT")
    print_json({"notes": ["`licenses` TEXT"], "name": "`licenses`"})
    printed = capsys.readouterr()
    assert "note: --license TEXT" in printed.err
    assert '"--license TEXT"' in printed.out
    assert '"`licenses`"' in printed.out


@pytest.mark.parametrize(
    ("words", "give", "expected"),
    [
        ("evaluate suite p.csv", {"ignore_unknown": True}, "give --ignore-unknown"),
        ("evaluate suite p.csv", {"encoding": "cp1252"}, "give --encoding cp1252"),
        # which it lacks
        ("repair suite", {"split": "test"}, ""),
        (
            "find ds",
            {"tasks": ["a b", "c"], "cues": {"d": "e"}},
            "give --tasks 'a b,c' and --cues d=e",
        ),
        ("import table f out", {"class_column": "name"}, "give --class name"),
        ("find ds", {"match": None, "tau": 0.5}, "leave out --match, and give --tau 0.5"),
        ("export suite", {"criteria": ...}, "give --criterion CRITERION"),
        ("export suite", {"suite": ..., "dataset": ...}, "give SUITE and --dataset DATASET"),
        ("download coco-stuff f", {"keep_zips": False}, "give --no-keep-zips"),
        ("import label-maps m", {"void": [0, 255]}, "give --void 0 --void 255"),
        ("train bench dataset", {"data": ...}, "give DATASET"),
        (
            "evaluate suite p.csv",
            Command("find", data="d s", splits=["valid"]),
            "nooch find 'd s' --out OUT --split valid",
        ),
    ],
)
def test_what_to_give_is_shown_as_it_is_typed(shown, words, give, expected):
    shown(words, "")
    assert as_typed(give) == expected


def test_an_error_of_the_library_is_shown_so(run_cli, tmp_path):
    run_cli(f"tools scenes {tmp_path}").refused("choose another path, or give --overwrite")


SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"
"""What shows and hides the cursor of a terminal, which progress bars hide."""


@pytest.mark.parametrize("printing", [note, say, print_text, print_json])
def test_progress_bars_are_gone_before_anything_is_printed(printing, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    show_progress("reading", 1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show_progress("reading", 1, 2)
    printing("a result")
    drawn = capsys.readouterr()
    assert "reading" in drawn.err.partition("a result")[0]
    assert "a result" in drawn.out + drawn.err.rpartition(SHOWN)[2]
    # and others are drawn afterwards
    show_progress("scoring", 1, 2)
    end_progress()
    again = capsys.readouterr().err
    assert "scoring" in again
    assert "reading" not in again
    assert again.rfind(SHOWN) > again.rfind(HIDDEN) >= 0


@pytest.mark.parametrize("error", [InputError("a file is empty"), SystemExit(143)])
def test_bars_of_a_command_that_fails_are_gone(error, run_cli, monkeypatch):
    def fails(*_arguments, progress, **_more):
        progress("reading", 1, 2)
        raise error

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("nooch.scenes.generator.generate", fails)
    done = run_cli("tools scenes out")
    assert done.code in {2, 143}
    assert done.err.rfind(SHOWN) > done.err.rfind(HIDDEN) >= 0


def test_notes_below_a_table_name_the_flag(run_cli):
    shown = run_cli("show nooch-coco --tasks car --detect 20").out
    assert "10% (--rate)" in " ".join(shown.split())


def test_notes_are_json_where_the_result_is(monkeypatch, capsysbinary):
    for words in ("--format json", "--format=json"):
        monkeypatch.setattr(sys, "argv", ["nooch", "info", "d", *words.split()])
        note("a \x1b[2J", "warning: b")
        lines = capsysbinary.readouterr().err.decode().splitlines()
        assert [json.loads(line) for line in lines] == [{"note": "a \x1b[2J"}, {"warning": "b"}]
        assert "\x1b" not in "".join(lines)
