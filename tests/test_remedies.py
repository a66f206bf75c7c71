"""Remedies that name a parameter in words, which no test can apply, may only become fewer; the
commands that errors recommend exist.

What is left in words are notes, which refuse nothing, and values of an environment.
"""

import ast
import re
from pathlib import Path

import nooch
from nooch.cli.main import app

SOURCE = Path(nooch.__file__).parent
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
        for path in sorted(SOURCE.rglob("*.py"))
        for text in _texts(ast.parse(path.read_text("utf-8")))
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
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Command"
    ]
    assert len(calls) > 40
    assert [call for call in calls if not call[2] <= known.get(call[1], set())] == []
