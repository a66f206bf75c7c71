"""Remedies that name a parameter in words, which no test can apply, may only become fewer; the
commands that errors recommend exist.

What is left in words are notes, which refuse nothing, and values of an environment.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

import nooch
from nooch.base.errors import InputError
from nooch.cli.main import app
from nooch.cli.terminal import as_typed, speak_for, with_flags

SOURCE = Path(nooch.__file__).parent
TREES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
IN_WORDS = 13
"""Texts in the source that tell to give a parameter, or to leave it out, in words."""


def _texts(tree):
    """Texts of a module, whole where they are formatted, but its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    described = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield "" if id(node) in described else str(node.value)


def test_remedies_that_name_a_parameter_in_words_become_fewer():
    found = [
        f"{path.relative_to(SOURCE)}: {text}"
        for path, tree in TREES.items()
        for text in _texts(tree)
        if re.search(r"\b(give|leave|with|without|use|or|name|keep)\b[^`]{0,40}`[a-z_]+`", text)
        and " has no effect" not in text
    ]
    assert len(found) <= IN_WORDS, "give them as `give` of the error:\n" + "\n".join(found)


def test_commands_that_errors_recommend_take_what_is_given_to_them():
    known = {
        path: {"data"}.union(
            *(
                [part.name, *(flag.strip("-").replace("-", "_") for flag in part.opts)]
                for part in command.params
            )
        )
        for path, command in app.every()
    }
    calls = [
        (path.name, node.args[0].value, {word.arg for word in node.keywords} - {None})
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Command"
    ]
    assert len(calls) > 40
    assert [call for call in calls if not call[2] <= known.get(call[1], set())] == []


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def _gives():
    """Parameters of each way out that the source has, as a tuple."""
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "give":
                for way in ast.walk(node.value):
                    if isinstance(way, ast.Dict) and all(map(_is_text, way.keys)):
                        yield tuple(key.value for key in way.keys)


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


GIVES = {*_gives()}
TEXTS = {text for tree in TREES.values() for text in _texts(tree)
         if "`" in text and "nooch " not in text}  # fmt: skip


@pytest.mark.parametrize("command", dict(app.every()))
def test_a_command_recommends_no_option_that_only_another_one_has(command, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["nooch", *command.split()])
    speak_for(app)
    own = {flag for part in (*app.params, *dict(app.every())[command].params)
           for flag in (*part.opts, *part.secondary_opts)}  # fmt: skip
    for give in GIVES:
        said = InputError("no", remedy="mend it", give=dict.fromkeys(give, ...)).cure(as_typed)
        assert {*FLAG.findall(said)} <= own, said
        # a text in which it stands is said without it
        two = InputError("no", remedy="mend it; or {}, the way", give=dict.fromkeys(give, ...))
        assert two.cure(as_typed) == "mend it" or {*FLAG.findall(two.cure(as_typed))} <= own
    for text in TEXTS:
        added = {*FLAG.findall(with_flags(text))} - {*FLAG.findall(text)}
        assert added <= own, text
