"""Layouts of tables: a row for each image with its labels, or for each (image, class, area)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.limits import MOST_AREA
from nooch.data import class_name
from nooch.data.data_files import are_exact_integers
from nooch.data.readers.image_rows import Entries
from nooch.data.readers.table_rows import Seen, TableLayout, TableRows

__all__ = ["LongTable", "TableOfImages"]


@dataclass(frozen=True)
class _Class:
    """Present where a label column has this value, or this text in lower case."""

    name: str
    label: str
    value: Any
    as_text: bool

    def present(self, values: pl.Series) -> NDArray[np.bool_]:
        """Of each row."""
        if self.as_text:
            values = values.cast(pl.String).str.to_lowercase()
        is_present: NDArray[np.bool_] = (values == self.value).to_numpy()
        return is_present


@dataclass(frozen=True)
class TableOfImages(TableLayout):
    """A row for each image; ``labels`` are the columns that say what is in it. ``positive`` has the
    value that means present, for columns of another two than 0/1 and true/false, or ``*``: each
    value is a class of its own, ``column=value``.
    """

    labels: Sequence[str]
    positive: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> Sequence[str]:
        """All are labels, and name classes."""
        return self.labels

    def check(self, names: Sequence[str], path: Path) -> None:
        """Raise ParameterError where there is no label."""
        if not self.labels:
            allowed = ", ".join(names)
            raise ParameterError(
                "no label column was given", allowed=allowed, remedy="give `label`"
            )
        for name in self.positive:
            check_one_of("label", name, self.labels, owner="the table")
        super().check(names, path)

    def check_repeated(self, frame: pl.DataFrame, first: NDArray[Any], path: Path) -> None:
        """Raise InputError where an image has two rows."""
        if len(twice := frame["image_id"].filter(first != np.arange(len(first))).unique().sort()):
            raise InputError(
                f"image ids occur more than once: {some_of(twice)}",
                where=path,
                remedy="for a row of each (image, class), name the class column with"
                " `class_column`",
            )

    def classes(self, seen: Seen, path: Path) -> list[_Class]:
        """A class for each column of 0/1 or true/false, and for each value of the others."""
        classes: list[_Class] = []
        for label in self.labels:
            if nulls := seen.nulls[label]:
                raise InputError(
                    f"{nulls} rows have no {label}", where=path, allowed="a label in every row"
                )
            classes += _classes_of(label, seen.values[label], self.positive.get(label), path)
        return classes

    def names_of(self, classes: list[_Class]) -> list[str]:
        """In the order of labels, then of values."""
        return [c.name for c in classes]

    def entries(self, rows: TableRows, classes: list[_Class], path: Path) -> Entries:
        """Present classes, of unknown area."""
        del path
        values = {label: _as_labels(rows.table[label]) for label in self.labels}
        present = [np.flatnonzero(c.present(values[c.label])) for c in classes]
        which = np.concatenate(present)
        columns = np.repeat(np.arange(len(present)), [len(some) for some in present])
        return rows.positions[which], columns, np.full(len(which), np.nan)


def _as_labels(values: pl.Series) -> pl.Series:
    return values.cast(pl.Int64) if values.dtype.is_float() else values


def _classes_of(label: str, distinct: pl.Series, positive: str | None, path: Path) -> list[_Class]:
    """The classes of a label column with these values.

    Raises InputError for values that are no labels, two texts without ``positive``, or another one.
    """
    if distinct.dtype.is_nested() or distinct.dtype == pl.Binary:
        raise InputError(
            f"label {label} holds {distinct.dtype}",
            where=path,
            allowed="one text or number in each row",
            remedy="give a long table with a row for each (image, class), and `class_column`",
        )
    if distinct.dtype.is_float() and not are_exact_integers(distinct).all():
        raise InputError(
            f"label {label} holds fractions, NaN, infinity or numbers beyond 2^53",
            where=path,
            allowed="0/1, or one value for each class",
        )
    values = _as_labels(distinct).unique().sort().to_list()
    text = {str(v).lower() for v in values}
    if positive not in (None, "*"):
        found = [value for value in values if str(value) == positive]
        if not found:
            problem = f"label {label} never is {positive!r}, but {some_of(values)}"
            raise InputError(problem, where=path, allowed="a value of the column, or *")
        return [_Class(class_name(label, path), label, found[0], as_text=False)]
    for no, yes in (("0", "1"), ("false", "true"), ("-1", "1")) if positive is None else ():
        if text <= {no, yes}:
            return [_Class(class_name(label, path), label, yes, as_text=True)]
    names = [class_name(f"{label}={value}", path) for value in values]
    if positive is None and len(values) == 2 and distinct.dtype == pl.String:
        raise InputError(
            f"label {label} holds two texts, {values[0]} and {values[1]}: is it one class, {label},"
            f" or are they two, {names[0]} and {names[1]}?",
            where=path,
            allowed="0/1 or true/false, which are one class",
            remedy=f"give `positive` {names[1]} (or {names[0]}) for one class, {label}=* for two",
        )
    return [
        _Class(name, label, value, as_text=False) for name, value in zip(names, values, strict=True)
    ]


@dataclass(frozen=True)
class LongTable(TableLayout):
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
        values = seen.values[self.class_column]
        if values.dtype.is_nested() or values.dtype == pl.Binary:
            problem = f"column {self.class_column} holds {values.dtype}"
            raise InputError(problem, where=path, allowed="names of classes")
        texts = _text(values).drop_nulls()
        return sorted({class_name(text, path) for text in texts.unique().sort().to_list() if text})

    def names_of(self, classes: list[str]) -> list[str]:
        """They are names."""
        return classes

    def entries(self, rows: TableRows, classes: list[str], path: Path) -> Entries:
        """Rows that name a class, and their areas."""
        stated = self._stated(rows.table)
        there, columns = self._named(rows.table, classes, ~stated)
        return rows.positions[there], columns, self._areas(rows, path, stated)[there]

    def unknown(self, rows: TableRows, classes: list[str]) -> Entries | None:
        """Rows whose area is the word ``unknown``; None where areas are numbers."""
        if self.area_column is None or rows.table[self.area_column].dtype != pl.String:
            return None
        there, columns = self._named(rows.table, classes, self._stated(rows.table))
        return rows.positions[there], columns, np.ones(len(columns))

    def _stated(self, table: pl.DataFrame) -> NDArray[np.bool_]:
        """Rows that state their class as unknown."""
        if self.area_column is None or table[self.area_column].dtype != pl.String:
            return np.zeros(table.height, dtype=bool)
        is_stated = _text(table[self.area_column]).str.to_lowercase() == _UNKNOWN
        return is_stated.fill_null(value=False).to_numpy()

    def _named(
        self, table: pl.DataFrame, classes: list[str], among: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Rows of some that name a class, bool (n_rows,), and the number of each one's class."""
        text = _text(table[self.class_column])
        has_class = (text != "").fill_null(value=False) & pl.Series(among)
        named = text.filter(has_class)
        column = {name: i for i, name in enumerate(classes)}
        of_text = {t: column[class_name(t)] for t in named.unique().to_list()}
        texts, numbers = list(of_text), list(of_text.values())
        columns = named.replace_strict(texts, numbers, return_dtype=pl.Int64)
        return has_class.to_numpy(), columns.to_numpy()

    def _areas(self, rows: TableRows, path: Path, stated: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Area of each row; NaN in those that are stated as unknown, and where there is none."""
        if self.area_column is None:
            return np.full(rows.table.height, np.nan)
        column = rows.table[self.area_column]
        refused = InputError(
            f"column {self.area_column} holds {column.dtype}", where=path, allowed="numbers"
        )
        # a structure of numbers can be cast, too
        if column.dtype.is_nested():
            raise refused
        try:
            numbers = column.set(pl.Series(stated), value=None) if stated.any() else column
            values = numbers.cast(pl.Float64).to_numpy()
        except pl.exceptions.PolarsError as error:
            raise refused from error
        if len(wrong := np.flatnonzero((values < 0) | (values > MOST_AREA))):
            raise InputError(
                f"row {rows.numbers[wrong[0]] + 1} has area {values[wrong[0]]}",
                where=path,
                allowed=f"fractions of the image, from 0 to {MOST_AREA:.0f}; empty where present"
                " with unknown area; unknown where not annotated",
            )
        if len(values) >= _ENOUGH and (values > 1).sum() > np.isfinite(values).sum() / 2:
            raise InputError(
                f"most areas are above 1, up to {np.nanmax(values):g}: they look like percent",
                where=path,
                allowed="fractions of the image",
                remedy=f"divide column {self.area_column} by 100",
            )
        return values


_ENOUGH = 10
"""Rows from which on areas tell whether they are percent."""
_UNKNOWN = "unknown"
"""As an area: nobody looked for the class in this image, or not for all of it."""


def _text(values: pl.Series) -> pl.Series:
    return values.cast(pl.String).str.strip_chars()
