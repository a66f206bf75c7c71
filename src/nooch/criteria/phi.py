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
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

import polars as pl
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError

from nooch.base.errors import ParameterError, reason_of
from nooch.base.words import (
    CAPTIONED,
    POSITIONS,
    compared_words,
    position_words,
    readable,
    value_words,
    with_article,
)

NUMBER, TEXT, BOOLEAN = "a number", "text", "a Boolean"
DATE, TIME, ZONED = "a date", "a time", "a time with a zone"

KINDS: dict[Any, tuple[str, Any]] = {
    **dict.fromkeys(
        (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32), (NUMBER, pl.Int64)
    ),
    **dict.fromkeys((pl.UInt64, pl.Int128), (NUMBER, pl.Int128)),
    **dict.fromkeys((pl.Float32, pl.Float64, pl.Decimal), (NUMBER, pl.Float64)),
    **dict.fromkeys((pl.String, pl.Categorical, pl.Enum), (TEXT, pl.String)),
    pl.Boolean: (BOOLEAN, pl.Boolean),
    pl.Date: (DATE, pl.Date),
    pl.Datetime: (TIME, pl.Datetime("us")),
}
"""The kind of each polars type, and the type it is computed in: smaller integers would wrap."""
_EXAMPLES = {DATE: "'2013-01-31'", TIME: "'2013-01-31T12:00'", ZONED: "'2013-01-31T12:00+00:00'"}


@dataclass(frozen=True)
class Term:
    """A typed part of an expression.

    Attributes:
        expr: its polars expression; numbers are Int64, Int128 or Float64, and NaN is null.
        kind: number, text, Boolean, date, time or time with a zone.
        text: what errors call it.
        value: of a literal; None for everything else.
        whole: whether it is an integer column.
    """

    expr: pl.Expr
    kind: str
    text: str
    value: Any = None
    whole: bool = False


def column(expr: pl.Expr, name: str, dtype: pl.DataType) -> Term:
    """A column as a term. Raises ParameterError for types that phi cannot use, such as lists."""
    text = f"{name} ({dtype})"
    if dtype.base_type() not in KINDS:
        raise ParameterError(
            f"the column {text} has a type that phi cannot use",
            allowed="numbers, text, Booleans, dates and times",
            remedy="convert it in the table",
        )
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        return Term(expr.dt.convert_time_zone("UTC").dt.cast_time_unit("us"), ZONED, text)
    kind, computed = KINDS[dtype.base_type()]
    expr = expr.cast(computed)
    if computed == pl.Float64:
        expr = expr.fill_nan(None)
    return Term(expr, kind, text, whole=computed in (pl.Int64, pl.Int128))


def literal(value: bool | float | str) -> Term:
    """A literal as a term."""
    kinds: dict[type, str] = {bool: BOOLEAN, int: NUMBER, float: NUMBER, str: TEXT}
    return Term(_lit(value), kinds[type(value)], repr(value), value)


def compare(left: Term, right: Term, operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> pl.Expr:
    """A comparison: Boolean, null where a side is. Raises ParameterError if types do not match.

    Numbers compare with numbers, text with text; a Boolean with numbers as 0 or 1; text that is a
    literal is read as ISO 8601 where the other side is a date or a time.
    """
    if right.value is not None:
        right = replace(right, expr=_lit(_converted(left, right)), kind=left.kind)
    elif left.value is not None:
        left = replace(left, expr=_lit(_converted(right, left)), kind=right.kind)
    if {left.kind, right.kind} == {NUMBER, BOOLEAN}:
        if left.kind == BOOLEAN:
            left = replace(left, expr=left.expr.cast(pl.Int64))
        else:
            right = replace(right, expr=right.expr.cast(pl.Int64))
    elif left.kind != right.kind:
        remedy = "compare columns of one type, or convert one of them in the table"
        raise _mismatch(left, right, remedy)
    return operation(left.expr, right.expr)


def as_boolean(term: Term) -> pl.Expr:
    """The term as a condition. Raises ParameterError if it is not a Boolean."""
    if term.kind != BOOLEAN:
        problem = f"needs a condition where {term.text} stands, which is {term.kind}"
        allowed = "comparisons and Boolean columns, joined by AND, OR and NOT"
        remedy = "compare it, for example with = 1"
        raise ParameterError(problem, where="phi", allowed=allowed, remedy=remedy)
    return term.expr


def as_number(term: Term) -> pl.Expr:
    """The term as Float64. Raises ParameterError if it is not a number."""
    if term.kind != NUMBER:
        problem = f"calculates with {term.text}, which is {term.kind}"
        remedy = "convert it in the table"
        raise ParameterError(problem, where="phi", allowed="numbers", remedy=remedy)
    return term.expr.cast(pl.Float64)


def unseen(term: Term, seen: Sequence[Any]) -> pl.Expr:
    """True if a value is not among the training values (from ``json_values``); null for null."""
    values = [_converted(term, literal(value)) for value in seen]
    if term.kind != NUMBER:
        return ~term.expr.is_in(pl.Series(values).implode())
    # 1 and 1.0 are one value; but floats would merge ids of more than 53 bits
    whole = term.whole and all(isinstance(value, int) for value in values)
    common = pl.Int128 if whole else pl.Float64
    return ~term.expr.cast(common).is_in(pl.Series(values, dtype=common).implode())


def json_values(values: pl.Series) -> list[Any]:
    """The different values of a column, ascending, as JSON stores them: dates and times as text."""
    # a column is never addressed by its own name: polars takes "*" and "^a$" for patterns
    term = column(pl.col("values"), values.name, values.dtype)
    different = values.to_frame("values").select(term.expr).to_series().drop_nulls().unique().sort()
    return [v.isoformat() if isinstance(v, date) else v for v in different]


def _lit(value: Any) -> pl.Expr:
    # signed and unsigned 64-bit integers would meet as floats: large ones get a wider type
    whole = type(value) is int
    return pl.lit(value, dtype=(pl.Int64 if value < 2**63 else pl.Int128) if whole else None)


def _converted(term: Term, other: Term) -> Any:
    """The value of a literal as the kind of the term it is compared with."""
    if other.kind == term.kind:
        return other.value
    if {other.kind, term.kind} == {NUMBER, BOOLEAN} and other.value in (0, 1):
        return bool(other.value) if term.kind == BOOLEAN else int(other.value)
    if other.kind == TEXT and term.kind in _EXAMPLES:
        return _moment(term, other)
    quotes = {
        TEXT: f"write the value in quotes: '{other.value}'",
        NUMBER: "write the number without quotes",
    }
    raise _mismatch(term, other, quotes.get(term.kind, "compare it with a value of its own type"))


def _moment(term: Term, other: Term) -> date:
    try:
        if term.kind == DATE:
            return date.fromisoformat(other.value)
        moment = datetime.fromisoformat(other.value)
        # a time without a zone is another moment in every zone, so none is assumed
        if (moment.tzinfo is not None) == (term.kind == ZONED):
            return moment.astimezone(UTC) if term.kind == ZONED else moment
    except (ValueError, OverflowError):
        pass
    raise _mismatch(term, other, f"write it as {_EXAMPLES[term.kind]}")


def _mismatch(left: Term, right: Term, remedy: str) -> ParameterError:
    other = f"{right.text}, which is {right.kind}"
    problem = f"{left.text} is {left.kind} and cannot be compared with {other}"
    return ParameterError(problem, where="phi", remedy=remedy)


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
    # SQL's remainder has the sign of the dividend; the remainder of polars has the sign of the
    # divisor
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
    """The term of a checked tree. Raises ParameterError if types do not fit together."""
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
    """True if 64 bits or a float64 can represent a number; true for everything else."""
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
        # NaN would be larger than every number; null can be caught by a guard. Only at the end:
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


LABELS = ("y", "label")
"""Names of the task's label; the task's own name is a third."""
FUNCTIONS = ("area", "present", *POSITIONS, "word")
"""Those of a class or of words, which have a value for each image."""
MAX_LENGTH = 20_000
"""Characters of an expression."""
MAX_DEPTH = 32
"""Levels of parentheses and operators; a chain of ANDs or ORs is one. Python's limit is near 45."""
MAX_SHOWN = 60
ALLOWED = (
    "names, numbers, 'text', TRUE, FALSE, = != < <= > >=, AND, OR, NOT, IN (values), BETWEEN, IS"
    " [NOT] NULL, + - * / %, ( ), ln(x), abs(x), unseen(column), area(class), present(class),"
    " at_edge(class), off_center(class), word(text)"
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
    exp.Func: "the functions are ln(x), abs(x), unseen(column), area(class), present(class),"
    " at_edge(class), off_center(class) and word(text); compute others as a column",
}
_ELSE = "compute it as a column of the table; put a name that SQL reserves in double quotes"


@dataclass(frozen=True)
class Phi:
    """A parsed expression.

    Attributes:
        text: as it was written.
        tree: sqlglot's tree, which contains only what is allowed.
        names: the names that occur in it, in their order, without the names of ``calls``.
        unseen: the names inside ``unseen(...)``.
        calls: text of each call of ``FUNCTIONS``, such as ``area(road)`` -> function, class or
            words.
    """

    text: str
    tree: Any
    names: tuple[str, ...]
    unseen: tuple[str, ...]
    calls: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def expression(self, columns: Mapping[str, Term], seen: Mapping[str, Sequence[Any]]) -> pl.Expr:
        """The polars expression: Boolean, null where SQL's logic gives NULL.

        ``columns``: name, or text of a call -> its term, for each of ``names`` and ``calls``.
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
    for node in tree.find_all(exp.Column, exp.Literal, bfs=False):
        function = node.parent.name.lower() if type(node.parent) is exp.Anonymous else ""
        if function in FUNCTIONS:
            calls[written(node.parent)] = function, node.name
            continue
        if isinstance(node, exp.Literal):
            continue
        names[node.name] = None
        if function:
            unseen[node.name] = None
    if not names and not calls:
        problem = f"is the same for every image: {_short(text)}"
        raise _error(problem, "compare an attribute, such as place != y")
    return Phi(text, tree, tuple(names), tuple(unseen), calls)


def condition_texts(text: str) -> list[str]:
    """Conditions that AND joins, each in words, such as "with a road"; [] if any has none. A guard
    such as ``x IS NOT NULL`` of another condition on x has no words.
    """
    nodes, texts = [*_joined(parse(text).tree)], list[str]()
    for node in nodes:
        subject = node.this.this if type(node.this) is exp.Is else None
        if subject is not None and any(
            subject in [*other.walk()] for other in nodes if type(other.this) is not exp.Is
        ):
            continue
        words = _words(node)
        if words is None:
            return []
        texts.append(words)
    return texts


def _joined(node: Node) -> Iterator[Node]:
    """The conditions that AND joins, parentheses or not."""
    if type(node) is exp.Paren:
        yield from _joined(node.this)
    elif type(node) is exp.And:
        for part in node.flatten():
            yield from _joined(part)
    else:
        yield node


def _words(node: Node, *, present: bool = True) -> str | None:
    """A condition in words, or that it does not hold; None for one that has none."""
    kind = type(node)
    if kind in (exp.Paren, exp.Not):
        return _words(node.this, present=present is (kind is exp.Paren))
    if kind is exp.Is and type(node.this) is exp.Column:
        return f"{'without' if present else 'with'} a value of {node.this.name}"
    if kind is exp.Column:
        return _compared(node, "=", value=True, present=present)
    if kind is exp.Anonymous:
        name, function = node.expressions[0].name, node.name.lower()
        with_ = "with" if present else "without"
        of = {"present": f"{with_} {with_article(name)}", "word": f"{with_} '{name}'{CAPTIONED}",
              "unseen": f"{with_} an unseen {name}"}  # fmt: skip
        return of[function] if function in of else position_words(name, function, holds=present)
    if kind is exp.In:
        values = " or ".join(str(value_of(part)) for part in node.expressions)
        return _compared(node.this, "=", values, present=present)
    return _comparison_words(node, present=present) if kind in _SIGNS else None


def _comparison_words(node: Node, *, present: bool) -> str | None:
    left, right, sign = node.this, node.expression, _SIGNS[type(node)]
    if value_of(left) is not None:
        left, right, sign = right, left, sign.translate(str.maketrans("<>", "><"))
    value, differs = value_of(right), sign == "!="
    own = _compared(left, sign.lstrip("!"), value, present=present is not differs)
    return None if value is None else own


def _compared(subject: Node, sign: str, value: object, *, present: bool) -> str | None:
    """A comparison of a column, or a class's area, with a value in words."""
    if type(subject) is exp.Column and subject.name not in LABELS:
        return value_words(subject.name, value, sign, present=present)
    if type(subject) is exp.Anonymous and sign != "=" and present:
        name = readable(subject.expressions[0].name)
        return f"with {name} on {compared_words(sign, value, share=True)}"
    return None


_SIGNS = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def identifier(name: str) -> str:
    """A name as phi writes it: in double quotes unless it reads as a name everywhere."""
    plain = _is_word(name) and _DIALECT.tokenize(name)[0].token_type == TokenType.VAR
    return name if plain else '"' + name.replace('"', '""') + '"'


def literal_text(value: object) -> str:
    """A value as phi writes it. Raises ParameterError for one that phi cannot represent."""
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
        f"{value!r} is not a value of phi",
        allowed="text, finite numbers, Booleans, dates and times",
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
        problem = "contains half a character (a lone surrogate)"
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
        raise _error(f"contains no condition: {_short(text)}", 'write one, such as "place != y"')
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
            problem = f"contains a comment near {_short(piece)}"
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
    function, types = node.name.lower(), [type(part) for part in node.expressions]
    text = function == "word" and types == [exp.Literal] and node.expressions[0].is_string
    return text or (function in {"unseen", *FUNCTIONS} and types == [exp.Column])


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
