"""Columns of nooch's own tables: declared per table, and checked whenever one is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import polars as pl

from nooch.data.coverage import ANNOTATED
from nooch.data.dataset_checks import ALL, SPLITS, unsafe_names
from nooch.errors import FormatError, some_of
from nooch.limits import MOST_AREA

__all__ = [
    "AREAS",
    "CAPTIONS",
    "EXCEPTIONS",
    "IMAGES",
    "IMPORT_AGAIN",
    "NAMES",
    "Column",
    "Schema",
    "check_columns",
    "dataset_error",
    "is_ascending",
    "type_name",
]

IMPORT_AGAIN = "import the dataset again"
"""The remedy for a dataset folder with wrong content."""

NAMES = (pl.Enum, pl.Categorical, pl.String)
"""Types of a column of names."""


@dataclass(frozen=True)
class Column:
    """What a column may hold.

    Attributes:
        types: of polars.
        allowed: values, in words.
        nulls: whether a value may be missing.
        optional: whether the column may be missing.
        among: allowed names of a column of names; empty: any.
        wrong: mask of the values that are not allowed, bool (n,); null counts as allowed.
    """

    types: tuple[Any, ...]
    allowed: str
    nulls: bool = False
    optional: bool = False
    among: tuple[str, ...] = ()
    wrong: Callable[[pl.Series], pl.Series] | None = None


Schema = Mapping[str, Column]

_ID = Column((pl.Int64, pl.String), "Int64 or String, never null")
_NAME = Column(NAMES, "names of classes, never null")
_SIZE = Column(
    (pl.Int64,), "Int64, 1 pixel and more, null where unknown", nulls=True, wrong=lambda n: n < 1
)

IMAGES: Schema = {
    "image_id": _ID,
    "file_name": Column(
        (pl.String,), "relative paths without '..', null where unknown", True, wrong=unsafe_names
    ),
    "width": _SIZE,
    "height": _SIZE,
    "split": Column((pl.String,), f"{', '.join(SPLITS)} or {ALL}", among=(*SPLITS, ALL)),
    **{name: Column((pl.Boolean,), "Boolean, never null", optional=True) for name in ANNOTATED},
}
"""Any other column is an attribute."""

AREAS: Schema = {
    "image_id": _ID,
    "class": _NAME,
    "area": Column(
        (pl.Float64,),
        f"Float64, fractions of the image from 0 to {MOST_AREA:.0f}, NaN where unknown",
        wrong=lambda area: ~(area.is_between(0, MOST_AREA) | area.is_nan()),
    ),
}
CAPTIONS: Schema = {"image_id": _ID, "caption": Column((pl.String,), "String, never null")}
EXCEPTIONS: Schema = {
    "image_id": _ID,
    "class": _NAME,
    "known": Column((pl.Boolean,), "Boolean, never null"),
}


def check_columns(table: pl.DataFrame, schema: Schema, where: object, remedy: str) -> pl.DataFrame:
    """The table, if every column of the schema is present and valid.

    Args:
        table: as it was read.
        schema: what it must hold; other columns are not checked.
        where: the file, for errors.
        remedy: for errors.

    Raises:
        FormatError: it names the file, the column, what came and what is allowed.
    """
    for name, column in schema.items():
        if name not in table.columns:
            if column.optional:
                continue
            columns = f"columns {', '.join(schema)}"
            raise FormatError(f"has no column {name}", where=where, allowed=columns, remedy=remedy)
        values = table[name]
        if values.dtype not in column.types:
            problem = f"is {type_name(values.dtype)}"
        elif values.null_count() and not column.nulls:
            problem = f"has {values.null_count()} nulls"
        elif column.among and (others := set(values.unique().cast(pl.String)) - set(column.among)):
            problem = f"holds {some_of(sorted(others), 3)}"
        elif column.wrong is not None and (mask := column.wrong(values)).any():
            problem = f"holds {some_of(values.filter(mask).head(3))}"
        else:
            continue
        raise FormatError(
            f"column {name} {problem}", where=where, allowed=column.allowed, remedy=remedy
        )
    return table


def type_name(kind: pl.DataType | None) -> str:
    """A type for people, without its categories; ``missing`` where there is no such column."""
    return "missing" if kind is None else shorten(str(kind), 60)


def dataset_error(problem: str, where: object, allowed: str | None = None) -> FormatError:
    """The error of a dataset folder with wrong content."""
    return FormatError(problem, where=where, allowed=allowed, remedy=IMPORT_AGAIN)


def is_ascending(ids: pl.Series) -> bool:
    """Whether each id is above the one before."""
    return bool((ids.head(-1) < ids.tail(-1)).all())
