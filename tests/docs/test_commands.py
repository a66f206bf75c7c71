"""Every command and option that the documentation types exists."""

import ast
import re
import signal
from pathlib import Path

import pytest

from nooch.cli.main import EXIT_CODES, INTERNAL_ERROR, app

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "llms.txt")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
COMMANDS = dict(app.every())
GROUPS = {path.partition(" ")[0] for path in COMMANDS if " " in path}
OPTIONS = {
    path: {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}
    for path, command in COMMANDS.items()
}
FENCED = re.compile(r"^```(?:bash|console|sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(nooch\s[^`]+)`")


def typed(text):
    """Commands, each on one line without its comment: of fenced blocks, and in sentences."""
    for block in FENCED.findall(text):
        lines = re.sub(r"\\\n|\n +(?=[\[-])", " ", block).splitlines()
        yield from (line.partition(" #")[0] for line in lines)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (" ".join(found.split()) for found in INLINE.findall(prose))


def wrong(line):
    """The command or the options of a line that do not exist."""
    words = re.sub(r"^.*?\bnooch ", "", line)
    name = " ".join(words.split()[: 2 if words.split()[0] in GROUPS else 1])
    if name.startswith(("-", "COMMAND")) or name in GROUPS:
        return []
    if name not in COMMANDS:
        return [name]
    flags = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", words)
    return [f"{name} {flag}" for flag in flags if flag not in {*OPTIONS[name], "--help"}]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_exist(path):
    lines = [
        line for line in typed(path.read_text("utf-8")) if re.match(r"(\w+=\S+ )?nooch ", line)
    ]
    assert [found for line in lines for found in wrong(line)] == []


def test_what_does_not_exist_is_found():
    assert wrong("nooch evaluate suite p.csv --bootstrap 10") == []
    assert wrong("nooch evaluate suite p.csv [--bootsrap 10]") == ["evaluate --bootsrap"]
    assert wrong("PYTHONPATH=. nooch train benc data") == ["train benc"]
    assert [*typed("```\nnooch a \\\n  --b\nnooch c --d  # e\n```\nand `nooch\nf`")] == [
        "nooch a    --b", "nooch c --d ", "nooch f",
    ]  # fmt: skip


def test_exit_codes_are_those_of_the_page():
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text("utf-8")
    listed = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)
    assert {int(code): meaning for code, meaning in listed} == EXIT_CODES
    calls = [
        node
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in {"Exit", "exit", "_exit", "fail"}
    ]
    codes = {n.value for c in calls for n in c.args if isinstance(n, ast.Constant)}
    assert {1, 130} <= codes <= EXIT_CODES.keys()
    assert {INTERNAL_ERROR, 128 + signal.SIGINT, 128 + signal.SIGTERM} <= EXIT_CODES.keys()


def test_every_table_and_figure_is_reproduced():
    text = (ROOT / "docs" / "reproduce.md").read_text("utf-8")
    figures = {int(number) for number in re.findall(r"\bfig(\d+)", text)}
    assert figures == set(range(1, 27))
    # "all" is 3 to 5 and 9 to 18; 1 and 8 have no results
    tables = {int(number) for number in re.findall(r"\btable(\d+)", text)}
    assert tables | {3, 4, 5, *range(9, 19)} == {*range(2, 8), *range(9, 19)}
    assert "--like all" in text
