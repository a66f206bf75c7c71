"""The values of phi: what a column or a literal is, and which of them fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from nooch.base.errors import ParameterError

__all__ = [
    "BOOLEAN", "KINDS", "NUMBER", "Term", "as_boolean", "as_number", "column", "compare",
    "json_values", "literal", "unseen",
]  # fmt: skip

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
    """A comparison: Boolean, null where a side is. Raises ParameterError where types do not match.

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
    """The term as a condition. Raises ParameterError where it is no Boolean."""
    if term.kind != BOOLEAN:
        raise ParameterError(
            f"needs a condition where {term.text} stands, which is {term.kind}",
            where="phi",
            allowed="comparisons and Boolean columns, joined by AND, OR and NOT",
            remedy="compare it, for example with = 1",
        )
    return term.expr


def as_number(term: Term) -> pl.Expr:
    """The term as Float64. Raises ParameterError where it is no number."""
    if term.kind != NUMBER:
        raise ParameterError(
            f"calculates with {term.text}, which is {term.kind}",
            where="phi",
            allowed="numbers",
            remedy="convert it in the table",
        )
    return term.expr.cast(pl.Float64)


def unseen(term: Term, seen: Sequence[Any]) -> pl.Expr:
    """Whether a value is not among those of training (from ``json_values``); null for null."""
    values = [_converted(term, literal(value)) for value in seen]
    if term.kind != NUMBER:
        return ~term.expr.is_in(pl.Series(values).implode())
    # 1 and 1.0 are one value; but floats would merge ids of more than 53 bits
    whole = term.whole and all(isinstance(value, int) for value in values)
    common = pl.Int128 if whole else pl.Float64
    return ~term.expr.cast(common).is_in(pl.Series(values, dtype=common).implode())


def json_values(values: pl.Series) -> list[Any]:
    """The different values of a column, ascending, as JSON holds them: dates and times as text."""
    # a column is never addressed by its own name: polars takes "*" and "^a$" for patterns
    term = column(pl.col("values"), values.name, values.dtype)
    different = values.to_frame("values").select(term.expr).to_series().drop_nulls().unique().sort()
    return [v.isoformat() if isinstance(v, date) else v for v in different]


def _lit(value: Any) -> pl.Expr:
    # signed and unsigned 64-bit integers would meet as floats: large ones get a wider type
    whole = type(value) is int
    return pl.lit(value, dtype=(pl.Int64 if value < 2**63 else pl.Int128) if whole else None)


def _converted(term: Term, other: Term) -> Any:
    """The value of a literal as the kind of the term that it meets."""
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
