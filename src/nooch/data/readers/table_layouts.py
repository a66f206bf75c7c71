"""Layouts of tables: a row for each image with its labels, or for each (image, class, area)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.limits import MOST_AREA
from nooch.data.dataset import Dataset
from nooch.data.readers.image_files import ImageIndex
from nooch.data.readers.image_rows import Entries, summed
from nooch.data.splits import named_splits
from nooch.data.table_files import are_exact_integers
from nooch.data.table_schema import ANNOTATED, CORE_COLUMNS, check_file_names, class_name


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns.

    Attributes:
        id: image ids (integers or text).
        file_name: paths of the images, or None.
        split: split names, or None; ``split_values`` says what they mean where they are not the
            usual names.
        attributes: columns to keep as attributes; None keeps all that have no other part.
    """

    id: str
    file_name: str | None = None
    split: str | None = None
    split_values: Mapping[str, str] = field(default_factory=dict)
    attributes: Sequence[str] | None = None

    def attribute_names(self, names: Iterable[str], taken: Sequence[str], path: Path) -> list[str]:
        """The attributes among a table's columns; ``taken`` hold classes and areas.

        Raises:
            InputError: a name that nooch uses itself.
        """
        used = {self.id, self.split, *taken}
        unused = [name for name in names if name not in used]
        columns = unused if self.attributes is None else [*dict.fromkeys(self.attributes)]
        reserved = {*CORE_COLUMNS, *ANNOTATED} - {"width", "height"}
        reserved -= {"file_name"} if self.file_name == "file_name" else set()
        if clash := [name for name in columns if name in reserved]:
            raise InputError(
                f"columns {', '.join(clash)} have a name that nooch uses itself",
                where=path,
                remedy="say what they are (`id`, `file_name`, `split_column`), rename them, or"
                " leave them out of `attributes`",
            )
        return [name for name in columns if name != "file_name"]

    def check(self, schema: Mapping[str, pl.DataType], path: Path) -> None:
        """Raise ParameterError for a missing column, InputError for one that cannot hold ids."""
        for sign, words in ((";", "semicolons"), ("\t", "tabs")):
            if len(schema) == 1 and sign in next(iter(schema)):
                raise InputError(
                    f"its columns are separated by {words}",
                    where=path,
                    allowed="commas in .csv, tabs in .tsv",
                    remedy="write it with commas, or call it .tsv if it has tabs",
                )
        for name in (self.id, self.file_name, self.split, *(self.attributes or ())):
            if name is not None:
                check_one_of("column", name, schema, owner=str(path))
        kind = schema[self.id]
        if not kind.is_integer() and kind != pl.String:
            allowed = "integers or text as image ids"
            raise InputError(f"column {self.id} holds {kind}", where=path, allowed=allowed)


@dataclass(frozen=True)
class Seen:
    """What is known of all rows before any is put together: the distinct values of columns, in any
    order, and how many rows have none.
    """

    values: dict[str, pl.Series]
    nulls: dict[str, int]


@dataclass(frozen=True)
class TableRows:
    """All rows of some images, in the order of the whole table, in which they have the ``numbers``
    from 0: ``ids`` are Int64 or String by row, ``images`` ascending.
    """

    table: pl.DataFrame
    ids: pl.Series
    numbers: NDArray[Any]
    images: pl.Series

    @cached_property
    def positions(self) -> NDArray[Any]:
        """The image of each row, as its position among the images."""
        order = self.images.alias("image_id").to_frame().with_row_index("position")
        ids = self.ids.alias("image_id").to_frame()
        joined = ids.join(order, on="image_id", how="left", maintain_order="left")
        return joined["position"].to_numpy()


class TableLayout(ABC):
    """How rows say what is in an image: one row for each image, or one for each (image, class)."""

    @property
    def area(self) -> str:
        """What areas are, for the provenance."""
        return "unknown"

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Columns that classes and areas are in."""

    @property
    def named(self) -> Sequence[str]:
        """Those of them whose values name classes."""
        return self.columns

    def check(self, names: Sequence[str], path: Path) -> None:
        """Raise ParameterError where a column is missing."""
        for name in self.columns:
            check_one_of("column", name, names, owner=str(path))

    @abstractmethod
    def check_repeated(self, frame: pl.DataFrame, first: NDArray[Any], path: Path) -> None:
        """Raise InputError for repeated rows; ``first`` is the first row of each row's image."""

    @abstractmethod
    def classes(self, seen: Seen, path: Path) -> Any:
        """The classes of the whole table, for ``names_of`` and ``entries``. Raises InputError."""

    @abstractmethod
    def names_of(self, classes: Any) -> list[str]:
        """Their names, in order."""

    @abstractmethod
    def entries(self, rows: TableRows, classes: Any, path: Path) -> Entries:
        """Positions of images and classes that are present, and areas. Raises InputError."""

    def unknown(self, rows: TableRows, classes: Any) -> Entries | None:
        """Pairs stated as unknown, each with a 1; None where the table cannot state any."""
        del rows, classes
        return None


def put_together(
    rows: TableRows,
    columns: Columns,
    layout: TableLayout,
    path: Path,
    index: ImageIndex | None,
    classes: Any,
) -> tuple[Dataset, dict[str, int]]:
    """All rows of some images as a Dataset without provenance, and counts for ``table_provenance``;
    ``path`` is for errors, ``classes`` are those of the whole table.
    """
    positions = rows.positions
    first = np.empty(len(rows.images), np.int64)
    # of an image's rows the first is written last
    first[positions[::-1]] = np.arange(len(positions))[::-1]
    every = _images(rows.table, rows.ids, columns, layout, path)
    layout.check_repeated(every, first[positions], path)
    frame = every[first]
    names = layout.names_of(classes)
    shape = frame.height, len(names)
    areas = summed(layout.entries(rows, classes, path), shape)
    stated = layout.unknown(rows, classes)
    unknown = None if stated is None else summed(stated, shape)
    counts: dict[str, int] = {}
    if index is not None:
        files, counts["files"] = _located(frame, index)
        frame = frame.with_columns(files)
    root = None if index is None else str(index.root.resolve())
    try:
        return Dataset.build(frame, names, areas, image_root=root, unknown=unknown), counts
    except InputError as error:
        raise InputError(
            error.problem, where=path, allowed=error.allowed, remedy=error.remedy
        ) from error


def table_provenance(
    path: Path,
    sha256: str | None,
    layout: TableLayout,
    counts: Mapping[str, int],
    n_images: int,
    images: object,
) -> dict[str, Any]:
    """Provenance of a dataset read from a table; ``images`` is the folder of image files."""
    missing = counts.get("files", 0)
    return {
        "reader": "table",
        "area": layout.area,
        "sources": [{"role": "table", "file": path.name, "sha256": sha256}],
        "notes": [f"{missing} of {n_images} image files are not below {images}"] if missing else [],
    }


def _images(
    table: pl.DataFrame, ids: pl.Series, columns: Columns, layout: TableLayout, path: Path
) -> pl.DataFrame:
    """What each row says of its image."""
    attributes = columns.attribute_names(table.columns, layout.columns, path)
    frame = pl.DataFrame([ids])
    if columns.file_name:
        names = table[columns.file_name].cast(pl.String).alias("file_name")
        check_file_names(names, path)
        frame = frame.with_columns(names)
    if columns.split:
        frame = frame.with_columns(named_splits(table[columns.split], columns.split_values, path))
    return frame.with_columns(table[c] for c in attributes)


def _located(frame: pl.DataFrame, index: ImageIndex) -> tuple[pl.Series, int]:
    """Where the image files are, and how many are missing."""
    if "file_name" in frame.columns:
        names = frame["file_name"].to_list()
        paths = index.by_file_names(names)
        listed = [path or name for path, name in zip(paths, names, strict=True)]
    else:
        paths = listed = [index.by_id(image_id) for image_id in frame["image_id"].to_list()]
    return pl.Series("file_name", listed, pl.String), paths.count(None)


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
