"""Layouts of tables: a row for each image with its labels, or for each (image, class, area)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import Give, InputError, ParameterError, check_one_of, some_of, unreadable
from nooch.base.limits import MOST_AREA
from nooch.data.box_columns import as_boxes, box_numbers
from nooch.data.objects import LEEWAY, objects_table
from nooch.data.readers.box_formats import KEPT, bad_line, judged_boxes
from nooch.data.readers.contract import BAD
from nooch.data.readers.image_rows import Entries, class_order, columns_of
from nooch.data.table_files import are_exact_integers, as_numbers
from nooch.data.table_schema import (
    ABSENT,
    ANNOTATED,
    CORE_COLUMNS,
    PRESENT,
    check_classes,
    class_name,
)

ROW = "nooch:row"
"""Column of rows: the number in the whole table."""

SIZE = ("nooch:width", "nooch:height")
"""Columns of rows: the size of the image in pixels, null where it is not known."""

SLICE = 1 << 20
"""Number of values that are processed at once."""


_ROLES = {"image_id": "id", "file_name": "file_name", "split": "split_column"}
"""Name that a dataset has for a column -> the parameter that a column of a table is given as."""


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns.

    Attributes:
        id: column of image ids (integers or text).
        file_name: column of paths of the images.
        split: column of split names; ``values`` maps them if they are not the usual ones.
        attributes: columns to keep as attributes; by default all without another role.
    """

    id: str
    file_name: str | None = None
    split: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    attributes: Sequence[str] | None = None

    def attribute_names(
        self, names: Iterable[str], taken: Sequence[str], path: object
    ) -> list[str]:
        """The attributes among a table's columns; ``taken`` columns have classes and areas.

        Raises:
            InputError: a name that nooch uses itself.
        """
        used = {self.id, self.split, *taken}
        unused = [name for name in names if name not in used and not is_unnamed(name)]
        columns = unused if self.attributes is None else [*dict.fromkeys(self.attributes)]
        reserved = {*CORE_COLUMNS, *ANNOTATED} - {"width", "height"}
        reserved -= {"file_name"} if self.file_name == "file_name" else set()
        if clash := [name for name in columns if name in reserved]:
            rest = [name for name in columns if name not in clash]
            roles = {_ROLES[name]: name for name in clash if name in _ROLES}
            raise InputError(
                f"columns {', '.join(clash)} have a name that nooch uses itself",
                where=path,
                remedy="rename them",
                give=[*([roles] if roles else []), *([{"attributes": rest}] if rest else [])],
            )
        return [name for name in columns if name != "file_name"]

    def check(self, schema: Mapping[str, pl.DataType], path: object) -> None:
        """Raise ParameterError for a missing column, InputError for one that cannot contain ids."""
        for name in (self.id, self.file_name, self.split, *(self.attributes or ())):
            if name is not None:
                check_one_of("column", name, schema, owner=str(path))
        kind = schema[self.id]
        if not kind.is_integer() and kind != pl.String:
            allowed = "integers or text as image ids"
            raise InputError(f"column {self.id} contains {kind}", where=path, allowed=allowed)
        kind = schema[self.file_name or self.id]
        if kind.is_nested() or kind == pl.Binary:
            problem = f"column {self.file_name} contains {kind}"
            raise InputError(problem, where=path, allowed="text as names of files")


def has_image(key: str, kind: pl.DataType) -> pl.Expr:
    """True in the rows that have an id in that column, which is not blank."""
    column = pl.col(key)
    return column.str.strip_chars() != "" if kind == pl.String else column.is_not_null()


def is_unnamed(name: str) -> bool:
    """True for a column of row numbers as pandas writes it: neither label nor attribute."""
    return re.fullmatch(r"\s*|Unnamed: \d+", name) is not None


class DistinctValues:
    """The distinct values of a column, by batches: Polars would need several times the memory."""

    def __init__(self) -> None:
        self.rows = self.nulls = 0
        self._found: list[pl.Series] = []
        self._most = SLICE

    def add(self, column: pl.Series) -> None:
        """Take in a batch."""
        self.rows += len(column)
        self.nulls += column.null_count()
        self._found.append(column.unique())
        if sum(map(len, self._found)) > self._most:
            self._most = 2 * len(self.values()) + SLICE

    def values(self) -> pl.Series:
        """The distinct values, null among them, in any order."""
        self._found = [pl.concat(self._found).unique()]
        return self._found[0]


Seen = Mapping[str, DistinctValues]
"""Facts about all rows before any is assembled: the distinct values of columns."""


@dataclass(frozen=True)
class TableOfImages:
    """A row for each image.

    Attributes:
        labels: columns of labels; the name is the class's.
        positive: value of a column of two texts that means present, as ``sky=yes``; by default of
            0/1, true/false and the like. ``sky=*``: each value is a class, ``sky=yes`` and so on.
        blank_is_no: a class is absent where its cell is blank, which is an error otherwise.
    """

    labels: Sequence[str]
    positive: Mapping[str, str] = field(default_factory=dict)
    blank_is_no: bool = False
    area: ClassVar[str] = "unknown"
    by_size: ClassVar[bool] = False

    @property
    def columns(self) -> Sequence[str]:
        """Columns that classes are in."""
        return self.labels

    named = columns

    def check(self, names: Sequence[str], path: Path) -> None:
        """Raise ParameterError if there is no label, or a column is missing."""
        if not self.labels:
            allowed = ", ".join(names)
            raise ParameterError("no label column was given", allowed=allowed, give={"label": ...})
        for name in self.positive:
            check_one_of("label", name, self.labels, owner="the table")
        for name in self.columns:
            check_one_of("column", name, names, owner=str(path))

    def check_repeated(self, images: pl.DataFrame, first: NDArray[Any], path: Path) -> None:
        """Raise InputError if an image has two rows; ``first``: of the image of each row."""
        if len(twice := images["image_id"].filter(first != np.arange(len(first))).unique().sort()):
            problem = f"image ids occur more than once: {some_of(twice)}"
            remedy = "remove the repeated rows; or, if each (image, class) has a row, {}"
            raise InputError(problem, where=path, remedy=remedy, give={"class_column": ...})

    def classes(self, seen: Seen, path: Path) -> dict[Any, str]:
        """Names of a class for each column of 0/1 or true/false, and for each value of the others,
        by (column, value, whether it is a text in lower case).
        """
        names: list[tuple[Any, str]] = []
        for label in self.labels:
            values = seen[label].values()
            if (nulls := seen[label].nulls) and not self.blank_is_no:
                raise InputError(
                    f"{nulls} rows have no {label}",
                    where=path,
                    allowed="a label in every row",
                    remedy=f"{{}} if blank means that {label} is absent there; if it is"
                    " unknown, fill in the cells or remove these rows",
                    give={"blank_is_no": True},
                )
            values = values.drop_nulls()
            names += _classes_of(label, values, self._positive(label, values), path).items()
        if not names:
            problem = f"label columns are empty: {some_of(self.labels)}"
            raise InputError(
                problem, where=path, remedy="name other columns: {}", give={"label": ...}
            )
        check_classes([name for _, name in names], path)
        return dict(names)

    def _positive(self, label: str, values: pl.Series) -> str | None:
        """The value that means present; the only text of a column whose blanks mean absent."""
        only = self.blank_is_no and values.dtype == pl.String and values.n_unique() == 1
        return self.positive.get(label, str(values[0]) if only else None)

    def entries(
        self, rows: pl.DataFrame, names: Mapping[Any, str], path: Path
    ) -> dict[str, Entries]:
        """``areas``: rows and classes that are present, of unknown area."""
        del path
        present = []
        for label, value, as_text in names:
            values = _as_labels(rows[label])
            values = _text(values).str.to_lowercase() if as_text else values
            present.append(np.flatnonzero((values == value).fill_null(value=False).to_numpy()))
        which = np.concatenate(present)
        columns = np.repeat([*columns_of(names).values()], [len(some) for some in present])
        return {"areas": (which, columns, np.full(len(which), np.nan))}


YES_NO = (
    ("0", "1"), ("false", "true"), ("-1", "1"), ("no", "yes"), ("n", "y"), ("f", "t")
)  # fmt: skip
"""Pairs of values, in small letters, of a column that is one class: absent, present."""


def _as_labels(values: pl.Series) -> pl.Series:
    return values.cast(pl.Int64) if values.dtype.is_float() else values


def _classes_of(
    label: str, distinct: pl.Series, positive: str | None, path: Path
) -> dict[Any, str]:
    """The classes of a label column with these values.

    Raises InputError for values that are not labels, two texts without ``positive``, or another
    one.
    """
    if distinct.dtype.is_nested() or distinct.dtype == pl.Binary:
        problem = f"label {label} contains {distinct.dtype}"
        allowed = "one text or number in each row"
        remedy = "write a table with a row for each (image, class), and {}"
        give = {"label": None, "class_column": ...}
        raise InputError(problem, where=path, allowed=allowed, remedy=remedy, give=give)
    if distinct.dtype.is_float() and not are_exact_integers(distinct).all():
        problem = f"label {label} contains fractions, NaN, infinity or numbers beyond 2^53"
        raise InputError(problem, where=path, allowed="0/1, or one value for each class")
    values = _as_labels(distinct).unique().sort().to_list()
    text = {str(v).strip().lower() for v in values}
    if positive not in (None, "*"):
        positives = [value for value in values if str(value) == positive]
        if not positives:
            problem = f"label {label} is never {positive!r}; it has {some_of(values)}"
            raise InputError(problem, where=path, allowed="a value of the column, or *")
        return {(label, positives[0], False): class_name(label, path)}
    if positive is None:
        _refuse_lists(distinct, label, {"positive": {label: "*"}}, path)
    for no, yes in YES_NO if positive is None else ():
        if text <= {no, yes}:
            return {(label, yes, True): class_name(label, path)}
    names = [class_name(f"{label}={value}", path) for value in values]
    if positive is None and len(values) == 2 and distinct.dtype == pl.String:
        raise InputError(
            f"is label {label} ({values[0]} or {values[1]}) one class, {label}, or two classes,"
            f" {names[0]} and {names[1]}?",
            where=path,
            allowed="0/1, true/false or yes/no, which are one class",
            remedy="{} or {} for one class, {} for two",
            give=[{"positive": {label: value}} for value in (values[1], values[0], "*")],
        )
    return {(label, value, False): name for name, value in zip(names, values, strict=True)}


@dataclass(frozen=True)
class TableBoxes:
    """Boxes of rows: left, top, width, height in pixels where the ``extent`` of the image is known
    (n, 4); its width and height (n, 2); the areas within it as fractions (n,), NaN without a usable
    box; mask of rows that are left out (n,); and counts for notes.
    """

    numbers: NDArray[np.float64]
    extent: NDArray[np.float64]
    areas: NDArray[np.float64]
    left_out: NDArray[np.bool_]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class LongTable:
    """A row for each (image, class), or with several classes in a cell.

    Attributes:
        class_column: names of classes; lists of them, or text. With ``one_class`` a column of 0
            and 1, or none.
        area_column: areas; without it, and without ``box``, they are unknown.
        label_separator: what is between the classes in a cell: a character, one of the names of
            ``SEPARATORS``, or ``json`` for lists as JSON or Python write them; ``none``: a cell is
            one class. By default it is, and cells that look like lists are refused.
        present_column: of 1, the class of a row is present, and 0, it is absent; all other pairs
            are unknown then. ``none``: each row is a present class. Without it, a column of that
            kind, such as ``Confidence``, is refused.
        box: four columns of a box's numbers, or one of lists; with ``box_format``, their order.
            Without areas, a box's area stands in for its object's.
        size: columns of the image's width and height in pixels; by default, unless boxes are
            ``in_fractions`` of it, read from the image files.
        is_placed: whether the sizes of any images are known, so that boxes are read.
        left_out: columns without a role, such as the width and height of a box with four corners.
        areas_in_pixels: whether areas are in pixels of the image.
        flags: ``crowd`` and ``ignore`` -> the column that is true of such objects.
        one_class: the class of all rows with a box, or where ``class_column`` is 1.
    """

    class_column: str | None
    area_column: str | None = None
    label_separator: str | None = None
    box: Sequence[str] = ()
    box_format: str = "xyxy"
    size: Sequence[str] = ()
    in_fractions: bool = False
    is_placed: bool = True
    left_out: Sequence[str] = ()
    areas_in_pixels: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)
    present_column: str | None = None
    one_class: str | None = None

    @property
    def present(self) -> str | None:
        """The column of present and absent."""
        return None if self.present_column == "none" else self.present_column

    @property
    def placed(self) -> bool:
        """True if boxes are read."""
        return self.is_placed and bool(self.box)

    @property
    def by_size(self) -> bool:
        """True if boxes are read in pixels of images, whose sizes they need."""
        return self.placed and not self.in_fractions

    @property
    def area(self) -> str:
        """The areas of a table, in words."""
        return "given" if self.area_column else "boxes" if self.placed else "unknown"

    @property
    def columns(self) -> Sequence[str]:
        """Columns of classes, areas and boxes."""
        of_boxes = *self.box, *self.size, *self.left_out, *self.flags.values()
        columns = self.class_column, self.area_column, self.present, *of_boxes
        return [*dict.fromkeys(column for column in columns if column)]

    @property
    def named(self) -> Sequence[str]:
        """The column of classes."""
        return [self.class_column] if self.class_column and not self.one_class else []

    def check(self, names: Sequence[str], path: Path) -> None:
        """Raise ParameterError if a column is missing."""
        for name in self.columns:
            check_one_of("column", name, names, owner=str(path))

    def may_state(self, names: Iterable[str]) -> list[str]:
        """Columns that may state which class of an image is present, and which is absent."""
        if self.present_column is not None:
            return []
        return [n for n in names if n not in self.columns and is_called_present(n)]

    def check_stated(self, seen: Seen, path: Path) -> None:
        """Raise InputError if such a column has 0, and nothing else but 1."""
        for name in self.may_state(seen):
            if states_absence(seen[name].values()):
                raise ask_present(name, path)

    def check_repeated(self, images: pl.DataFrame, first: NDArray[Any], path: Path) -> None:
        """Raise InputError if rows of an image differ; ``first``: of the image of each row."""
        differs = np.zeros(len(first), dtype=bool)
        for column in images.drop("image_id"):
            own = column.ne_missing(column.gather(first)).to_numpy()
            if self.present_column is None and own.any() and states_absence(column):
                raise ask_present(column.name, path)
            differs |= own
        if len(twice := images["image_id"].filter(differs).unique().sort()):
            problem = f"images have different attributes in different rows: {some_of(twice)}"
            allowed = "the same attributes in every row of an image"
            remedy = "{}, only the columns that describe images"
            give = {"attributes": ...}
            raise InputError(problem, where=path, allowed=allowed, remedy=remedy, give=give)

    def classes(self, seen: Seen, path: Path) -> dict[Any, str]:
        """Every name that occurs, by its spellings, sorted."""
        if self.one_class or self.class_column is None:
            return {str(self.one_class): class_name(str(self.one_class), path)}
        values = seen[self.class_column].values()
        if values.dtype == pl.Binary or (values.dtype.is_nested() and not has_lists(values)):
            problem = f"column {self.class_column} contains {values.dtype}"
            raise InputError(problem, where=path, allowed="names of classes")
        if self.label_separator is None and self.area_column is None and not self.placed:
            _refuse_lists(values, self.class_column, {"label_separator": "none"}, path)
        texts = tags_of(values, self.label_separator)[1].drop_nulls().unique().to_list()
        names = {text: class_name(text, path) for text in texts if text}
        return dict(sorted(names.items(), key=itemgetter(1)))

    def tags(self, rows: pl.DataFrame) -> tuple[NDArray[np.int64], pl.Series]:
        """The classes of rows, as ``tags_of``; blank where a row has none."""
        if self.class_column and not self.one_class:
            which, classes = tags_of(rows[self.class_column], self.label_separator)
            return which, classes.fill_null("")
        column = self.class_column
        is_one = rows_with(rows, self.box) if column is None else as_yes(rows[column])
        return np.arange(rows.height), pl.Series(np.where(is_one, str(self.one_class), ""))

    def entries(
        self,
        rows: pl.DataFrame,
        names: Mapping[Any, str],
        path: Path,
        boxes: TableBoxes | None = None,
    ) -> dict[str, Entries]:
        """``areas`` of rows that name a class; ``unknown``: those whose area is that word;
        ``verified``: with ``present_column``, those that are absent.
        """
        stated = pl.repeat(False, rows.height, eager=True)
        as_text = self.area_column is not None and rows[self.area_column].dtype == pl.String
        if self.area_column is not None and as_text:
            words = _text(rows[self.area_column]).str.to_lowercase()
            stated = (words == _UNKNOWN).fill_null(value=False)
        which, classes = self.tags(rows)
        has_class, absent = classes != "", self._absent(rows, path).gather(which)
        if boxes is not None:
            has_class &= pl.Series(~boxes.left_out[which])
        areas = self._areas(rows, path, stated, boxes)[which]
        stated = stated.gather(which)
        columns = columns_of(names)

        def entries(among: pl.Series, values: NDArray[np.float64]) -> Entries:
            in_row = (has_class & among).to_numpy()
            class_columns = classes.filter(in_row).replace_strict(columns, return_dtype=pl.Int64)
            return which[in_row], class_columns.to_numpy(), values[in_row]

        tables, ones = {"areas": entries(~stated & ~absent, areas)}, np.ones(len(which))
        if self.present:
            tables["verified"] = entries(absent, ones)
        return tables | ({"unknown": entries(stated, ones)} if as_text else {})

    def _absent(self, rows: pl.DataFrame, path: Path) -> pl.Series:
        """Mask of the rows whose class is absent. Raises InputError for another cell than 0, 1."""
        if self.present is None:
            return pl.repeat(False, rows.height, eager=True)
        texts = _text(rows[self.present]).str.to_lowercase()
        known = texts.is_in([*ABSENT, *PRESENT]).fill_null(value=False)
        if not known.all():
            problem = f"column {self.present} contains {texts.filter(~known)[0]}"
            raise InputError(problem, where=path, allowed="1, present, and 0, absent, in every row")
        return texts.is_in([*ABSENT])

    def objects(
        self,
        rows: pl.DataFrame,
        images: tuple[pl.Series, NDArray[np.int64]],
        names: Mapping[Any, str],
        boxes: TableBoxes,
    ) -> pl.DataFrame:
        """Objects of rows that name a class and have a box; ``images``: all ids, and the position
        among them of each row's image.
        """
        which, classes = self.tags(rows)
        usable = (classes != "").to_numpy() & ~np.isnan(boxes.areas[which])
        numbers = classes.filter(usable).replace_strict(columns_of(names), return_dtype=pl.Int64)
        which = which[usable]
        flags = {name: as_yes(rows[column]).to_numpy() for name, column in self.flags.items()}
        pixels = np.nan_to_num(boxes.extent, nan=1.0).prod(axis=1)
        # whole pixels stay whole
        areas = np.where(
            np.isnan(boxes.extent[:, 0]), boxes.areas, np.round(boxes.areas * pixels, 6)
        )
        ids, positions = images
        return objects_table(
            ids, class_order(names), positions[which], numbers.to_numpy(), boxes.numbers[which],
            areas[which], **{name: flag[which] for name, flag in flags.items()},
        )  # fmt: skip

    def boxes(self, rows: pl.DataFrame, ids: pl.Series, path: Path) -> TableBoxes:
        """The boxes of rows of images with these ``ids``."""
        written, box_format = box_numbers(rows, self.box, self.box_format, path)
        numbers = as_boxes(written.to_numpy(), box_format)
        extent = np.full((rows.height, 2), np.nan)
        if self.size:
            extent = box_numbers(rows, self.size, "", path)[0].to_numpy()
            extent = np.where((extent > 0).all(axis=1, keepdims=True), extent, np.nan)
        units = np.hstack([extent, extent])
        shares = numbers if self.in_fractions else numbers / units
        if self.in_fractions and self.size:
            numbers = np.where(np.isnan(units), shares, shares * units)
        blank = np.isnan(written.to_numpy()).all(axis=1)
        placed = ~blank & (self.in_fractions | ~np.isnan(units).any(axis=1))
        tags = pl.DataFrame(dict(zip(("row", "class"), self.tags(rows), strict=True)))
        texts = tags.group_by("row").agg(pl.all().str.join()).sort("row")["class"]
        keys = pl.DataFrame({"image": ids, "class": texts})
        leeway = np.where(np.isnan(extent), LEEWAY, 1 / extent)[placed]
        areas, left_out = np.full(rows.height, np.nan), np.zeros(rows.height, dtype=bool)
        areas[placed], odd = judged_boxes(shares[placed], leeway, keys.filter(placed))
        places = np.flatnonzero(placed)
        bad = {int(places[number]): problem for number, problem in odd.items()}
        left_out[[row for row, (_, rule) in bad.items() if rule != KEPT]] = True
        areas[left_out] = np.nan
        if self.area_column and self.areas_in_pixels:
            given = as_numbers(rows[self.area_column]).to_numpy() / extent.prod(axis=1)
            areas = np.where(np.isfinite(given) & np.isfinite(areas), given, areas)
        lines = [bad_line(path.name, f"row {rows[ROW][row] + 1}", *bad[row]) for row in sorted(bad)]
        boxless = int((blank & (keys["class"] != "").to_numpy()).sum())
        unsized = ids.filter(~blank & ~placed).n_unique()
        counts = dict.fromkeys((f"{BAD}{line}" for line in lines), 1)
        counts |= {"boxless": boxless, "unsized": unsized}
        return TableBoxes(numbers, extent, areas, left_out, counts)

    def _areas(
        self, rows: pl.DataFrame, path: Path, stated: pl.Series, boxes: TableBoxes | None
    ) -> NDArray[np.float64]:
        """Area of each row; NaN in those that are stated as unknown, and if there is none."""
        if boxes is not None and (self.area_column is None or self.areas_in_pixels):
            return boxes.areas
        if self.area_column is None:
            return np.full(rows.height, np.nan)
        column = rows[self.area_column]
        shares = _shares(column.set(stated, value=None) if stated.any() else column)
        if shares is None:
            problem = f"column {self.area_column} contains {column.dtype}"
            raise InputError(problem, where=path, allowed="numbers")
        values = shares.to_numpy()
        if len(wrong := np.flatnonzero((values < 0) | (values > MOST_AREA))):
            raise InputError(
                f"row {rows[ROW][int(wrong[0])] + 1} has area {values[wrong[0]]}",
                where=path,
                allowed=f"fractions of the image, from 0 to {MOST_AREA:.0f}; empty where present"
                " with unknown area; unknown where not annotated",
            )
        if len(values) >= _ENOUGH and (values > 1).sum() > np.isfinite(values).sum() / 2:
            problem = f"most areas are above 1, up to {np.nanmax(values):g}: they look like percent"
            remedy = f"divide column {self.area_column} by 100"
            raise InputError(problem, where=path, allowed="fractions of the image", remedy=remedy)
        return values


SEPARATORS = {"comma": ",", "semicolon": ";", "bar": "|", "space": " ", "tab": "\t"}
"""Names of what separates the classes in a cell."""


_PRESENCE = {
    "answer", "confidence", "exist", "exists", "gt", "label", "positive", "presence", "present",
    "state", "target", "truth", "value", "verified", "visible", "y",
}  # fmt: skip


def is_called_present(name: str) -> bool:
    """True for the name of a column that may state whether the class of a row is present."""
    own = re.sub(r"^\W*(is|has|label|human)_", "", name.lower()).removeprefix("is")
    return re.sub(r"[\W_]+", "", own) in _PRESENCE


def states_absence(values: pl.Series) -> bool:
    """True if some cells are 0, or no, and the others 1, or yes."""
    texts = texts_of(values)
    return bool(texts & ABSENT) and texts <= {*ABSENT, *PRESENT}


def texts_of(column: pl.Series) -> set[str]:
    """A few different values of a column, without blanks around them, in small letters; none of one
    that has no labels.
    """
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        return set()
    values = column.drop_nulls()
    if column.dtype.is_float():
        if not are_exact_integers(values).all():
            return set()
        values = values.cast(pl.Int64)
    texts = values.unique().head(9).cast(pl.String).str.to_lowercase()
    # a cell of blanks is none that is empty
    return {text.strip() or text for text in texts}


def ask_present(name: str, path: object) -> InputError:
    """The error for a column of 0 and 1 that may state presence."""
    return InputError(
        f"column {name} is 0 in some rows: is their class absent?",
        where=path,
        remedy="{} if so (pairs of image and class without a row are unknown); {} if every row is a"
        " present class",
        give=({"present_column": name}, {"present_column": "none"}),
    )


def rows_with(rows: pl.DataFrame, box: Sequence[str]) -> pl.Series:
    """Mask of the rows with a box."""
    if not box:
        return pl.repeat(False, rows.height, eager=True)
    return rows.select(~pl.all_horizontal(pl.col(box).is_null())).to_series()


def as_yes(values: pl.Series) -> pl.Series:
    """Mask of the cells that mean yes."""
    texts = _text(values).str.to_lowercase()
    return texts.is_in([*PRESENT]).fill_null(value=False)


def has_lists(values: pl.Series) -> bool:
    """True if the cells are lists of texts."""
    return isinstance(values.dtype, pl.List) and values.dtype.inner in (pl.String, pl.Null)


def tags_of(cells: pl.Series, separator: str | None) -> tuple[NDArray[np.int64], pl.Series]:
    """The classes in cells: position of each one's cell, int64 (n,), and its name, stripped, String
    (n,). A cell without one has a null.
    """
    if has_lists(cells):
        lists = cells.cast(pl.List(pl.String))
    elif separator in (None, "none"):
        return np.arange(len(cells)), _text(cells)
    elif separator == "json":
        lists = pl.Series([_listed(cell) for cell in _text(cells)], dtype=pl.List(pl.String))
    else:
        lists = cells.cast(pl.String).str.split(SEPARATORS.get(separator, separator))
    table = pl.DataFrame({"cell": np.arange(len(cells)), "name": lists}).explode("name")
    return table["cell"].to_numpy(), _text(table["name"])


def _refuse_lists(values: pl.Series, column: str, single: Give, path: Path) -> None:
    """Raise InputError for texts with separators between parts that recur, as lists of classes
    have; with ``single`` each text is one class.
    """
    texts = values.drop_nulls().unique().sort()
    if texts.dtype != pl.String:
        return
    lists = len(texts) and texts.str.contains(r"^\s*\[.*\]\s*$").all()
    for word, sign in ({"json": "json"} if lists else SEPARATORS).items():
        several = texts if lists else texts.filter(texts.str.contains(sign, literal=True))
        classes = tags_of(texts, sign)[1] if len(several) and word != "space" else texts
        if lists or classes.is_duplicated().any():
            raise InputError(
                f"several classes may be in a cell of {column}, such as {several[0]!r}",
                where=path,
                remedy=f"{{}} for {classes.drop_nulls().n_unique()} classes; {{}} for {len(texts)}",
                give=({"class_column": column, "label_separator": word}, single),
            )


def _listed(cell: str | None) -> list[str]:
    """The texts of a list as JSON or Python write it, also as Label Studio's choices, or as text
    next to these. Raises InputError for another cell.
    """
    if not cell:
        return []
    if choices := re.fullmatch(CHOICES, cell, re.DOTALL):
        cell = choices[1]
    elif not cell.startswith("["):
        return [cell]
    with unreadable(repr(cell[:60]), 'a list such as ["sky", "road"]', BROKEN_LIST):
        found = ast.literal_eval(cell)
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise ValueError("is not a list of texts")
        return found


CHOICES = r'\{\s*"choices"\s*:\s*(\[.*\])\s*\}'
"""Label Studio's cell of several classes."""
BROKEN_LIST = (ValueError, SyntaxError, MemoryError, RecursionError)
"""Exceptions of reading a list in a cell."""

_ENOUGH = 10
"""Rows from which on areas tell whether they are percent."""
_UNKNOWN = "unknown"
"""As an area: nobody looked for the class in this image, or not for all of it."""


def _text(values: pl.Series) -> pl.Series:
    return values.cast(pl.String).str.strip_chars()


def _shares(column: pl.Series) -> pl.Series | None:
    """Float64, None if it is not numbers; of text also with decimal commas and percent signs."""
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        return None
    values, as_text = as_numbers(column), column.dtype == pl.String
    if values.null_count() > column.null_count():
        return None
    is_percent = as_text and column.str.strip_chars().str.ends_with("%").fill_null(value=False)
    return values * np.where(is_percent, 0.01, 1.0)


TableLayout = TableOfImages | LongTable
"""Layout of rows: one row for each image, or one for each (image, class)."""
