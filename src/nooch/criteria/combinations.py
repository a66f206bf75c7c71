"""Combinations of criteria: ``ce & gist``, ``ce | gist``, ``~ce``, with parentheses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from nooch.errors import ParameterError

__all__ = ["Combination", "is_combination"]


class _Mark(Protocol):
    def __and__(self, other: Self) -> Self: ...
    def __or__(self, other: Self) -> Self: ...
    def __invert__(self) -> Self: ...


M = TypeVar("M", bound=_Mark)
_OPERATIONS: dict[type[ast.operator], Callable[[M, M], M]] = {
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
}


def is_combination(text: str) -> bool:
    """Whether a criterion's text combines others."""
    return any(sign in text for sign in "&|~()")


@dataclass(frozen=True)
class Combination:
    """Marks of several criteria combined; ``expression`` names them.

    ``~`` binds strongest, then ``&``, then ``|``. Hard and easy are combined by Kleene's
    three-valued logic, in which an image without a verdict under one criterion has one in the whole
    only if it cannot depend on the missing one.
    """

    expression: str

    @property
    def names(self) -> tuple[str, ...]:
        """Criteria that the expression names, in the order of first mention."""
        names = {node.id for node in ast.walk(self._tree()) if isinstance(node, ast.Name)}
        return tuple(sorted(names, key=self.expression.index))

    def evaluate(self, marks: Mapping[str, M]) -> M:
        """The combined mark."""
        return _evaluate(self._tree(), marks)

    def _tree(self) -> ast.expr:
        try:
            tree = ast.parse(self.expression.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ParameterError(
                f"{self.expression!r} is no combination of criteria", allowed=_ALLOWED
            ) from error
        for node in ast.walk(tree):
            if not isinstance(node, _NODES):
                text = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
                problem = f"{text!r} has no meaning in the combination {self.expression!r}"
                raise ParameterError(problem, allowed=_ALLOWED)
        return tree


_NODES = (ast.Name, ast.Load, ast.BinOp, ast.BitAnd, ast.BitOr, ast.UnaryOp, ast.Invert)
_ALLOWED = "names of criteria, &, |, ~ and parentheses, such as 'ce & ~gist'"


def _evaluate(node: ast.expr, marks: Mapping[str, M]) -> M:
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_evaluate(node.left, marks), _evaluate(node.right, marks))
    if isinstance(node, ast.UnaryOp):
        return ~_evaluate(node.operand, marks)
    if isinstance(node, ast.Name):
        return marks[node.id]
    raise TypeError(node)
