"""Remedies that name a parameter in words, which no test can apply, may only become fewer."""

import ast
import re
from pathlib import Path

import nooch

SOURCE = Path(nooch.__file__).parent
IN_WORDS = 109
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
