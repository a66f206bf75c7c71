"""Help: groups, summaries on one line, two examples for each command, ``-h``, completion."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from nooch.cli.main import EXAMPLES, app

NO_DETECTION = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"


PATHS = dict(app.every())


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_commands_are_listed_by_what_they_are_for(run_cli):
    shown = run_cli("--help").ok().out
    heads = [line for line in shown.splitlines() if line.endswith(":") and line[0].isupper()]
    assert [head.rstrip(":") for head in heads[1:]] == [*app.sections]
    assert heads[:3] == ["Options:", "Start here:", "Data:"]
    commands = [
        name for title, names in app.sections.items() for name in names if title != "Groups"
    ]
    assert len(commands) <= 24
    assert [*app.sections["Groups"]] == ["train", "paper", "tools"]
    assert run_cli("-h").out == shown


@pytest.mark.parametrize("group", ["", "import", "download", "train", "paper", "tools"])
def test_summaries_fit_their_line(run_cli, group):
    lines = run_cli(f"{group} -h").ok().out.splitlines()
    assert not [line for line in lines if "..." in line and "[ARGS]..." not in line]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("path", PATHS)
def test_each_command_has_two_examples_that_parse(run_cli, path):
    shown = run_cli(f"{path} -h").ok().out
    examples = [line.strip() for line in shown.partition("Examples:\n")[2].splitlines()]
    assert len(examples) == 2
    assert max(map(len, shown.splitlines())) <= 80
    assert run_cli(f"{path} --help").out == shown
    for wrong in ("<object>", "shared."):
        assert wrong not in shown
    for example in examples:
        words = shlex.split(example.removeprefix(f"nooch {path} "))
        PATHS[path].make_context(path, words)


@pytest.mark.parametrize(
    ("typed", "meant"), [("evaluat s p", "evaluate"), ("train benc", "bench"), ("tols", "tools")]
)
def test_a_misspelled_command_is_suggested(run_cli, typed, meant):
    run_cli(typed).refused(f"Did you mean '{meant}'?")


def test_each_example_is_of_a_command():
    assert sorted(EXAMPLES) == sorted(PATHS)


def test_the_same_option_has_one_spelling():
    names = {opt for c in PATHS.values() for p in c.params for opt in p.opts if not p.hidden}
    assert not names & {"--splits", "--rules", "--workers"}


def complete(shell, typed, cwd):
    """What a shell's completion script asks nooch, and the answer."""
    words = {
        "COMP_WORDS": f"nooch {typed}",
        "COMP_CWORD": str(len(f"nooch {typed}".split(" ")) - 1),
        "_TYPER_COMPLETE_ARGS": f"nooch {typed}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_NOOCH_COMPLETE": f"complete_{shell}",
    }
    code = "import sys; sys.argv[0] = 'nooch'; from nooch.__main__ import run; run()"
    program = [sys.executable, "-c", code]
    done = subprocess.run(
        program, env={**os.environ, **words}, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("shell", "typed", "expected"),
    [
        ("bash", "ev", "evaluate"),
        ("zsh", "import co", "coco-stuff"),
        ("fish", "find data --crit", "--criterion"),
        ("bash", "evaluate nooch-coco p.csv --format js", "json"),
        ("zsh", "evaluate nooch-coco p.csv --criterion g", "gist"),
        ("fish", "explain nooch-coco --task bo", "bowl"),
        ("bash", "show nooch-coco --tasks car,bo", "car,boat"),
        ("zsh", "show lost --tasks car,bo", ""),
    ],
)
def test_completion(shell, typed, expected, tmp_path):
    shown = complete(shell, typed, tmp_path)
    assert expected in shown
    if not expected:
        assert shown.strip() in {"", "_files"}


# what completes "nooch evaluate nooch-coco p.csv --criterion g" in a shell that read its file
TYPED = {
    "bash": "COMP_WORDS=(nooch evaluate nooch-coco p.csv --criterion g); COMP_CWORD=5;"
    ' _nooch_completion nooch; echo "${COMPREPLY[@]}"',
    "zsh": "words=(nooch evaluate nooch-coco p.csv --criterion g); CURRENT=6;"
    ' _arguments() { echo "$@" }; _nooch_completion',
    "fish": 'complete -C "nooch evaluate nooch-coco p.csv --criterion g"',
}


@pytest.mark.parametrize("shell", TYPED)
def test_completion_is_installed(shell, tmp_path):
    code = (
        "import sys; sys.argv = ['nooch', '--install-completion', sys.argv[1]];"
        "from nooch.__main__ import run; run()"
    )
    env = {**os.environ, "HOME": str(tmp_path), NO_DETECTION: "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, shell], env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    written = [file for file in tmp_path.rglob("*") if file.is_file() and "nooch" in file.name]
    assert len(written) == 1
    assert "_NOOCH_COMPLETE" in written[0].read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: it completes nothing here")
    program = tmp_path / "nooch"
    run = "import sys; sys.argv[0] = 'nooch'; from nooch.__main__ import run; run()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{run}" "$@"\n')
    program.chmod(0o755)
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    # compdef is of zsh's interactive completion
    lines = f"{'compdef() { }; ' * (shell == 'zsh')}source {written[0]}; {TYPED[shell]}"
    done = subprocess.run([shell, "-c", lines], env=env, capture_output=True, check=False)
    assert b"gist" in done.stdout, done.stderr
