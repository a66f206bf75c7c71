"""What the rows of a table say: the labels of an image each, or an image, a class and an area each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import class_name
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.limits import MOST_AREA
from nooch.readers.area_sums import Entries
from nooch.readers.table_rows import Seen

__all__ = ["LongTable", "TableOfImages"]


@dataclass(frozen=True)
class _Class:
    """Where a class is present: where a label column has this value, or where its text is this, in
    small letters.
    """

    name: str
    label: str
    value: Any
    as_text: bool

    def present(self, values: pl.Series) -> NDArray[np.bool_]:
        """Of each row."""
        same = (
            values.cast(pl.String).str.to_lowercase() == self.value
            if self.as_text
            else values == self.value
        )
        found: NDArray[np.bool_] = same.to_numpy()
        return found


@dataclass(frozen=True)
class TableOfImages:
    """A row for each image; ``labels`` are the columns that say what is in it."""

    labels: Sequence[str]
    area: str = "unknown"

    @property
    def columns(self) -> Sequence[str]:
        """All are labels."""
        return self.labels

    @property
    def named(self) -> Sequence[str]:
        """All name classes."""
        return self.labels

    def check(self, names: Sequence[str], path: Path) -> None:
        """Raise where there is no label."""
        if not self.labels:
            raise ParameterError(
                "no label column was given", allowed=", ".join(names), remedy="give `label`"
            )
        for label in self.labels:
            check_one_of("column", label, names, owner=str(path))

    def check_repeated(self, frame: pl.DataFrame, first: NDArray[Any], path: Path) -> None:
        """Raise InputError where an image has two rows."""
        if len(twice := frame["image_id"].filter(first != np.arange(len(first))).unique().sort()):
            raise InputError(
                f"image ids occur more than once: {some_of(twice)}",
                where=path,
                remedy=(
                    "for a row of each (image, class), name the class column with `class_column`"
                ),
            )

    def classes(self, seen: Seen, path: Path) -> list[_Class]:
        """A class for each column of 0/1 or true/false, and for each value of the others."""
        found: list[_Class] = []
        for label in self.labels:
            if nulls := seen.nulls[label]:
                raise InputError(
                    f"{nulls} rows have no {label}", where=path, allowed="a label in every row"
                )
            found += _classes_of(label, seen.values[label], path)
        return found

    def names_of(self, classes: list[_Class]) -> list[str]:
        """In the order of labels, then of values."""
        return [c.name for c in classes]

    def entries(
        self,
        table: pl.DataFrame,
        rows: NDArray[Any],
        numbers: NDArray[Any],
        classes: list[_Class],
        path: Path,
    ) -> Entries:
        """What is present, of unknown area."""
        del numbers, path
        values = {label: _as_labels(table[label]) for label in self.labels}
        found = [np.flatnonzero(c.present(values[c.label])) for c in classes]
        which = np.concatenate(found)
        columns = np.repeat(np.arange(len(found)), [len(some) for some in found])
        return rows[which], columns, np.full(len(which), np.nan)

    def unknown(self, table: pl.DataFrame, rows: NDArray[Any], classes: list[_Class]) -> None:
        """Every row says of every class whether it is there."""
        del table, rows, classes


def _as_labels(values: pl.Series) -> pl.Series:
    return values.cast(pl.Int64) if values.dtype.is_float() else values


def _classes_of(label: str, distinct: pl.Series, path: Path) -> list[_Class]:
    if distinct.dtype.is_nested():
        raise InputError(
            f"label {label} holds lists or records",
            where=path,
            allowed="one value in each row",
            remedy="give a long table with a row for each (image, class), and `class_column`",
        )
    # beyond 2^53 a float is no exact number
    if (
        distinct.dtype.is_float()
        and not ((distinct == distinct.round()) & (distinct.abs() <= 2**53)).all()
    ):
        raise InputError(
            f"label {label} holds fractions, NaN, infinity or numbers beyond 2^53",
            where=path,
            allowed="0/1, or one value for each class",
        )
    values = _as_labels(distinct).unique().sort().to_list()
    text = {str(v).lower() for v in values}
    for negative, positive in (("0", "1"), ("false", "true"), ("-1", "1")):
        if text <= {negative, positive}:
            return [_Class(class_name(label, path), label, positive, as_text=True)]
    return [
        _Class(class_name(f"{label}={value}", path), label, value, as_text=False)
        for value in values
    ]


@dataclass(frozen=True)
class LongTable:
    """A row for each (image, class); without a column of areas they are unknown."""

    class_column: str
    area_column: str | None = None

    @property
    def area(self) -> str:
        """Whether the table gives areas."""
        return "given" if self.area_column else "unknown"

    @property
    def columns(self) -> Sequence[str]:
        """Of classes and areas."""
        return [c for c in (self.class_column, self.area_column) if c]

    @property
    def named(self) -> Sequence[str]:
        """The column of classes."""
        return [self.class_column]

    def check(self, names: Sequence[str], path: Path) -> None:
        """Raise where one of them is missing."""
        for name in self.columns:
            check_one_of("column", name, names, owner=str(path))

    def check_repeated(self, frame: pl.DataFrame, first: NDArray[Any], path: Path) -> None:
        """Raise InputError where rows of an image differ."""
        differs = np.zeros(len(first), dtype=bool)
        for column in frame.drop("image_id"):
            differs |= column.ne_missing(column.gather(first)).to_numpy()
        if len(twice := frame["image_id"].filter(differs).unique().sort()):
            raise InputError(
                f"images have different attributes in different rows: {some_of(twice)}",
                where=path,
                allowed="the same attributes in every row of an image",
                remedy="keep the columns that belong to images with `attributes`",
            )

    def classes(self, seen: Seen, path: Path) -> list[str]:
        """Every name that occurs, sorted."""
        texts = _text(seen.values[self.class_column]).drop_nulls()
        return sorted({class_name(text, path) for text in texts.unique().sort().to_list() if text})

    def names_of(self, classes: list[str]) -> list[str]:
        """They are names."""
        return classes

    def entries(
        self,
        table: pl.DataFrame,
        rows: NDArray[Any],
        numbers: NDArray[Any],
        classes: list[str],
        path: Path,
    ) -> Entries:
        """Rows that name a class, and their areas."""
        stated = self._stated(table)
        there, columns = self._named(table, classes, ~stated)
        return rows[there], columns, _areas(table, self.area_column, numbers, path, stated)[there]

    def unknown(
        self, table: pl.DataFrame, rows: NDArray[Any], classes: list[str]
    ) -> Entries | None:
        """Rows whose area is the word ``unknown``; None where areas are numbers."""
        if self.area_column is None or table[self.area_column].dtype != pl.String:
            return None
        there, columns = self._named(table, classes, self._stated(table))
        return rows[there], columns, np.ones(len(columns))

    def _stated(self, table: pl.DataFrame) -> NDArray[np.bool_]:
        """Rows that state their class as unknown."""
        if self.area_column is None or table[self.area_column].dtype != pl.String:
            return np.zeros(table.height, dtype=bool)
        return (
            (_text(table[self.area_column]).str.to_lowercase() == _UNKNOWN)
            .fill_null(value=False)
            .to_numpy()
        )

    def _named(
        self, table: pl.DataFrame, classes: list[str], among: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Rows of some that name a class, bool (n_rows,), and the number of each one's class."""
        text = _text(table[self.class_column])
        has_class = (text != "").fill_null(value=False) & pl.Series(among)
        named = text.filter(has_class)
        column = {name: i for i, name in enumerate(classes)}
        of_text = {t: column[class_name(t)] for t in named.unique().to_list()}
        columns = named.replace_strict(
            list(of_text), list(of_text.values()), return_dtype=pl.Int64
        ).to_numpy()
        return has_class.to_numpy(), columns


_UNKNOWN = "unknown"
"""As an area: nobody looked for the class in this image, or not for all of it."""


def _text(values: pl.Series) -> pl.Series:
    return values.cast(pl.String).str.strip_chars()


def _areas(
    table: pl.DataFrame,
    column: str | None,
    numbers: NDArray[Any],
    path: Path,
    stated: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Area of each row; NaN in those that are stated as unknown, and where there is none."""
    if column is None:
        return np.full(table.height, np.nan)
    try:
        given = table[column].set(pl.Series(stated), value=None) if stated.any() else table[column]
        values = given.cast(pl.Float64).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"column {column} holds {table[column].dtype}", where=path, allowed="numbers"
        ) from error
    wrong = np.flatnonzero((values < 0) | (values > MOST_AREA))
    if len(wrong):
        raise InputError(
            f"row {numbers[wrong[0]] + 1} has area {values[wrong[0]]}",
            where=path,
            allowed=(
                f"fractions of the image, from 0 to {MOST_AREA:.0f}; empty where present with"
                " unknown area; unknown where not annotated"
            ),
        )
    return values
