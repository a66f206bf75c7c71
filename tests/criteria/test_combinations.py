"""The little language of combinations."""

import pytest
from refusals import refused

from nooch.criteria import Combination, is_combination


class _Text(str):
    """Shows how an expression was read."""

    __slots__ = ()

    def __and__(self, other):
        return _Text(f"({self}&{other})")

    def __or__(self, other):
        return _Text(f"({self}|{other})")

    def __invert__(self):
        return _Text(f"~{self}")


@pytest.mark.parametrize(
    ("expression", "read"),
    [("ce & gist", "(ce&gist)"), ("~ce", "~ce"), ("ce | gist & attribute", "(ce|(gist&attribute))"),
     ("(ce | gist) & ~attribute", "((ce|gist)&~attribute)"), ("ce|ce", "(ce|ce)")],
)  # fmt: skip
def test_precedence(expression, read):
    names = Combination(expression).names
    assert is_combination(expression)
    assert Combination(expression).evaluate({name: _Text(name) for name in names}) == read


def test_names_in_order_of_first_mention():
    assert Combination("gist & (ce | gist)").names == ("gist", "ce")


REFUSED = [
    "", "ce &", "ce and gist", "ce + gist", "__import__('os')", "ce.x", "ce[0]", "1", "'ce'",
    "lambda: ce", "-ce", "not ce", "(" * 500, "ce & 1", "ce; gist",
]  # fmt: skip


@pytest.mark.parametrize("expression", REFUSED)
def test_anything_else_is_refused(expression):
    refused(lambda: Combination(expression).names, "allowed: names of criteria")
