"""The language of phi, the out-of-context condition (paper, section 2): a small SQL-like expression
over named values.

sqlglot parses the text, every node of its tree is checked against a list of allowed ones, and the
polars expression is built here from the tree: polars never reads text that a user or a file gave.
Logic has SQL's three values, so that a guard such as ``x IS NOT NULL AND x > 3`` works. Arithmetic
is float64: ``/`` is true division, ``%`` has the sign of the dividend as in SQL, and what is not a
number (0/0, ln of a negative number) is null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

import polars as pl
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError

from nooch.base.errors import ParameterError, reason_of
from nooch.criteria.phi_expressions import (
    ARITHMETIC,
    COMPARISONS,
    Scope,
    build,
    is_storable,
    value_of,
    written,
)
from nooch.criteria.phi_types import Term, as_boolean

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "Phi", "identifier", "literal_text", "parse"]

MAX_LENGTH = 20_000
"""Characters of an expression."""
MAX_DEPTH = 32
"""Levels of parentheses and operators; a chain of ANDs or ORs is one. Python's limit is near 45."""
MAX_SHOWN = 60
ALLOWED = (
    "names, numbers, 'text', TRUE, FALSE, = != < <= > >=, AND, OR, NOT, IN (values), BETWEEN, IS"
    " [NOT] NULL, + - * / %, ( ), ln(x), abs(x), unseen(column), area(class), present(class)"
)

# sqlglot's own dialect: double quotes for names, single for text, doubled to escape
_DIALECT = Dialect.get_or_raise("")
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# sqlglot reads these as more than names: as other words for IS NULL, or as the start of a statement
_RESERVED = {"ISNULL", "NOTNULL", "UNKNOWN", "IF", "CONNECT_BY_ROOT"}
_SYMBOLS = {*"(),+-*/%", "=", "==", "!=", "<>", "<", "<=", ">", ">="}

# what cannot be an operand without parentheses: a < x < b would be (a < x) < b
_PREDICATES = (*COMPARISONS, exp.In, exp.Between, exp.Is)
_WITH_PARENTHESES = (exp.Paren, exp.In, exp.Ln, exp.Abs, exp.Anonymous)
# what each allowed node may carry
_PARTS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((*COMPARISONS, *ARITHMETIC, exp.And, exp.Or, exp.Is), ("this", "expression")),
    **dict.fromkeys((exp.Column, exp.Paren, exp.Boolean, exp.Not), ("this",)),
    **dict.fromkeys((exp.Neg, exp.Abs, exp.Ln), ("this",)),
    **dict.fromkeys((exp.In, exp.Anonymous), ("this", "expressions")),
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    exp.Between: ("this", "low", "high"),
    exp.Null: (),
}
_FREE = (exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Paren)
_REMEDIES: dict[type, str] = {
    exp.Cast: "write the value itself; a date is text, 'YYYY-MM-DD'",
    exp.Like: "list the values: name IN ('a', 'b')",
    exp.Case: "write it with AND, OR and NOT",
    exp.Null: "write IS NULL or IS NOT NULL",
    **dict.fromkeys(
        (exp.Literal, exp.Neg), "numbers are integers of 64 bits, or floats up to 1.7e308"
    ),
    exp.In: "list the values themselves: name IN ('a', 'b')",
    exp.Is: "IS is for NULL; write name = TRUE",
    exp.Func: "the functions are ln(x), abs(x), unseen(column), area(class) and present(class);"
    " compute others as a column",
}
_ELSE = "compute it as a column of the table; put a name that SQL reserves in double quotes"


@dataclass(frozen=True)
class Phi:
    """A parsed expression.

    Attributes:
        text: as it was written.
        tree: sqlglot's tree, which holds only what is allowed.
        names: the names that occur in it, in their order, without those of ``calls``.
        unseen: the names inside ``unseen(...)``.
        calls: text of each ``area(...)`` and ``present(...)`` -> function, class.
    """

    text: str
    tree: Any
    names: tuple[str, ...]
    unseen: tuple[str, ...]
    calls: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def expression(self, columns: Mapping[str, Term], seen: Mapping[str, Sequence[Any]]) -> pl.Expr:
        """The polars expression: Boolean, null where SQL's logic gives NULL.

        Args:
            columns: name, or text of a call -> its term, for each of ``names`` and ``calls``.
            seen: name -> its training values as in JSON, for each of ``unseen``.

        Raises:
            ParameterError: types do not match, or the result is no Boolean.
        """
        return as_boolean(build(self.tree, Scope(columns, seen)))


def parse(text: str) -> Phi:
    """Parse an expression. Raises ParameterError for what is not part of the language."""
    if not isinstance(text, str) or not text.strip():
        raise _error("is empty", 'write a condition, such as "place != y"')
    if len(text) > MAX_LENGTH:
        problem = f"has {len(text)} characters"
        raise _error(problem, "compute a part as a column", f"up to {MAX_LENGTH}")
    return _checked(text)


# every part and task asks for the same few again
@lru_cache(maxsize=32)
def _checked(text: str) -> Phi:
    tree = _parse(text)
    _check_depth(tree)
    _check_size(tree)
    for node in tree.walk():
        _check_node(node)
    names: dict[str, None] = {}
    unseen: dict[str, None] = {}
    calls = {}
    for node in tree.find_all(exp.Column, bfs=False):
        function = node.parent.name.lower() if type(node.parent) is exp.Anonymous else ""
        if function in {"area", "present"}:
            calls[written(node.parent)] = function, node.name
            continue
        names[node.name] = None
        if function:
            unseen[node.name] = None
    if not names and not calls:
        problem = f"is the same for every image: {_short(text)}"
        raise _error(problem, "compare an attribute, such as place != y")
    return Phi(text, tree, tuple(names), tuple(unseen), calls)


def identifier(name: str) -> str:
    """A name as phi writes it: in double quotes unless it reads as a name everywhere."""
    plain = _is_word(name) and _DIALECT.tokenize(name)[0].token_type == TokenType.VAR
    return name if plain else '"' + name.replace('"', '""') + '"'


def literal_text(value: object) -> str:
    """A value as phi writes it. Raises ParameterError for one that phi cannot hold."""
    if isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(float(value))  # a float of NumPy writes its type
    raise ParameterError(
        f"{value!r} is no value of phi", allowed="text, finite numbers, Booleans, dates and times"
    )


def _is_word(text: str) -> bool:
    return text.isidentifier() and text.upper() not in _RESERVED


def _parse(text: str) -> Any:
    try:
        text.encode()
        tokens = _DIALECT.tokenize(text)
        _check_tokens(tokens)
        # as a condition and not as a statement, so that a second word is an error and not an alias
        trees = _DIALECT.parser().parse_into(exp.Condition, tokens, text)
    except UnicodeEncodeError:
        problem = "holds half a character (a lone surrogate)"
        raise _error(problem, "write the whole character") from None
    except RecursionError:
        raise _too_deep() from None
    except SqlglotError as error:
        detail = (getattr(error, "errors", None) or [{}])[0]
        reason = detail.get("description") or reason_of(error)
        raise _error(
            f"cannot be read: {reason} (character {detail.get('col', '?')} of {_short(text)})"
        ) from None
    if len(trees) != 1 or trees[0] is None:
        raise _error(f"holds no condition: {_short(text)}", 'write one, such as "place != y"')
    # sqlglot adds parentheses to a = b IS NULL, and not those that other SQL implies
    opened = sum(token.token_type == TokenType.L_PAREN for token in tokens)
    if opened < sum(isinstance(node, _WITH_PARENTHESES) for node in trees[0].walk()):
        raise _chained(trees[0])
    return trees[0]


def _check_tokens(tokens: Sequence[Any]) -> None:
    """Refuse comments, and marks that open what is not part of the language: ; . : ? @ [ {."""
    depth = 0
    for token in tokens:
        kind, piece = token.token_type, token.text
        if token.comments:
            problem = f"holds a comment near {_short(piece)}"
            raise _error(problem, "leave it out; a - -1 needs the space")
        quoted = kind in (TokenType.STRING, TokenType.IDENTIFIER)
        is_number = kind == TokenType.NUMBER and _NUMBER.fullmatch(piece)
        if not (quoted or is_number or piece in _SYMBOLS or _is_word(piece)):
            raise _error(f"has {_short(piece)}, which is not part of the language")
        # counted before parsing too: a compiled sqlglot would not stop at Python's limit
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth > MAX_DEPTH:
            raise _too_deep()


def _check_depth(tree: Any) -> None:
    # without recursion, which the depth could exhaust
    stack = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise _too_deep()
        chain = type(node) if isinstance(node, exp.Connector) else None
        stack += [(child, depth + (type(child) is not chain)) for child in node.iter_expressions()]


def _check_size(tree: Any) -> None:
    """Refuse nested operations that compute an operand several times, and its operands again."""
    sizes: dict[int, int] = {}
    # children first
    for node in reversed([*tree.walk()]):
        times = {exp.Mod: 2, exp.Between: 2, exp.In: len(node.expressions)}.get(type(node), 1)
        size = sum(sizes[id(child)] for child in node.iter_expressions())
        size += (times - 1) * sizes[id(node.this)] if times > 1 else 0
        sizes[id(node)] = size + (type(node) not in _FREE)
    # more than any text without repetition can have
    if sizes[id(tree)] > MAX_LENGTH // 3:
        problem = "nests %, BETWEEN or IN too often: each computes its operand several times"
        raise _error(problem, "compute a part as a column of the table")


def _check_node(node: Any) -> None:
    """Refuse a node that is not on the list, has more than the list gives it, or is misplaced."""
    if type(node) not in _PARTS:
        raise _refused(node)
    for name, value in node.args.items():
        if value and name not in _PARTS[type(node)]:
            raise _refused(node)
    if type(node) in _RULES and not _RULES[type(node)](node):
        raise _refused(node)
    if type(node.parent) in _PREDICATES and type(node) in (*_PREDICATES, exp.Not):
        raise _chained(node.parent)


def _is_call(node: Any) -> bool:
    types = [type(part) for part in node.expressions]
    return node.name.lower() in {"unseen", "area", "present"} and types == [exp.Column]


_RULES: dict[type, Callable[[Any], bool]] = {
    exp.Anonymous: _is_call,
    exp.In: lambda node: bool(node.expressions) and None not in map(value_of, node.expressions),
    exp.Is: lambda node: type(node.expression) is exp.Null,
    exp.Null: lambda node: node.parent.expression is node if type(node.parent) is exp.Is else False,
    exp.Literal: lambda node: is_storable(value_of(node)),
    exp.Neg: lambda node: is_storable(value_of(node)),
}


def _refused(node: Any) -> ParameterError:
    remedy = next((_REMEDIES[kind] for kind in type(node).__mro__ if kind in _REMEDIES), _ELSE)
    return _error(f"has {_sql(node)}, which is not part of the language", remedy)


def _chained(node: Any) -> ParameterError:
    remedy = "write a < x AND x < b, or put one comparison in parentheses"
    return _error(f"chains comparisons: {_sql(node)}", remedy)


def _sql(node: Any) -> str:
    return _short(node.sql(dialect=_DIALECT, unsupported_level=ErrorLevel.IGNORE))


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "...")


def _too_deep() -> ParameterError:
    remedy = "compute a part as a column of the table"
    return _error("nests too deeply", remedy, f"up to {MAX_DEPTH} levels")


def _error(problem: str, remedy: str = _ELSE, allowed: str = ALLOWED) -> ParameterError:
    return ParameterError(problem, where="phi", allowed=allowed, remedy=remedy)
