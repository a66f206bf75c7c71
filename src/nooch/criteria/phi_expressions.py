"""The polars expression of a tree that ``phi.parse`` has allowed: one function per kind of node."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from sqlglot import exp

from nooch.criteria.phi_types import (
    BOOLEAN,
    NUMBER,
    Term,
    as_boolean,
    as_number,
    compare,
    literal,
    unseen,
)

__all__ = ["ARITHMETIC", "COMPARISONS", "Scope", "build", "is_storable", "value_of", "written"]

Node = Any
"""A node of sqlglot's tree; the name of their base class differs between its versions."""

COMPARISONS: dict[type, Callable[[Any, Any], pl.Expr]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
ARITHMETIC: dict[type, Callable[..., pl.Expr]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
    # SQL's remainder has the sign of the dividend; that of polars has the sign of the divisor
    exp.Mod: lambda a, b: a.sign() * (a.abs() % b.abs()),
    exp.Neg: operator.neg,
    exp.Abs: operator.abs,
    exp.Ln: pl.Expr.log,
}


@dataclass(frozen=True)
class Scope:
    """Meanings of names and calls: their terms; for those inside unseen their training values."""

    columns: Mapping[str, Term]
    seen: Mapping[str, Sequence[Any]]


def build(node: Node, scope: Scope) -> Term:
    """The term of a checked tree. Raises ParameterError where types do not fit together."""
    value = value_of(node)
    return literal(value) if value is not None else _BUILDERS[type(node)](node, scope)


def written(node: Node) -> str:
    """A node as text, functions in lower case."""
    return str(node.sql(normalize_functions="lower"))


def value_of(node: Node) -> bool | float | str | None:
    """The value of a literal (a number, text, TRUE or FALSE); None for any other node."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -_number(node.this.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(node.this)
    return bool(node.this) if isinstance(node, exp.Boolean) else None


def _number(text: str) -> float:
    # Python refuses integers of thousands of digits; a float of these is infinite
    return int(text) if text.isdigit() and len(text) < 100 else float(text)


def is_storable(value: bool | float | str | None) -> bool:
    """Whether 64 bits or a float64 can hold a number; true for everything else."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return not isinstance(value, float) or math.isfinite(value)


def _condition(expr: pl.Expr, node: Node) -> Term:
    return Term(expr, BOOLEAN, node.sql())


def _comparison(node: Node, scope: Scope) -> Term:
    left, right = build(node.this, scope), build(node.expression, scope)
    return _condition(compare(left, right, COMPARISONS[type(node)]), node)


def _arithmetic(node: Node, scope: Scope) -> Term:
    operands = [as_number(build(part, scope)) for part in node.iter_expressions()]
    expr, outer = ARITHMETIC[type(node)](*operands), node.parent
    while isinstance(outer, exp.Paren):
        outer = outer.parent
    if type(outer) not in ARITHMETIC:
        # NaN would be larger than every number; null can be caught by a guard. At the end alone:
        # arithmetic keeps NaN, and polars computes twice what it fills
        expr = expr.fill_nan(None)
    return Term(expr, NUMBER, node.sql())


def _and_or(node: Node, scope: Scope) -> Term:
    parts = [as_boolean(build(part, scope)) for part in node.flatten()]
    joined = pl.all_horizontal if isinstance(node, exp.And) else pl.any_horizontal
    return _condition(joined(parts), node)


def _in(node: Node, scope: Scope) -> Term:
    operand = build(node.this, scope)
    options = [compare(operand, build(part, scope), operator.eq) for part in node.expressions]
    return _condition(pl.any_horizontal(options), node)


def _between(node: Node, scope: Scope) -> Term:
    operand, low, high = (build(node.args[name], scope) for name in ("this", "low", "high"))
    inside = [compare(operand, low, operator.ge), compare(operand, high, operator.le)]
    return _condition(pl.all_horizontal(inside), node)


def _called(node: Node, scope: Scope) -> Term:
    if node.name.lower() != "unseen":
        return scope.columns[written(node)]
    name = node.expressions[0].name
    return _condition(unseen(scope.columns[name], scope.seen[name]), node)


_BUILDERS: dict[type, Callable[[Node, Scope], Term]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **dict.fromkeys((exp.And, exp.Or), _and_or),
    exp.In: _in,
    exp.Between: _between,
    exp.Anonymous: _called,
    exp.Not: lambda node, scope: _condition(~as_boolean(build(node.this, scope)), node),
    exp.Is: lambda node, scope: _condition(build(node.this, scope).expr.is_null(), node),
    exp.Paren: lambda node, scope: build(node.this, scope),
    exp.Column: lambda node, scope: scope.columns[node.name],
}
