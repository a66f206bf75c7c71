"""Roles of a table's columns: which has the images, which the labels, and how labels are written.

What the columns do not decide is refused, with each reading, the keyword for it, and what it gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Options
from nooch.base.errors import Give, InputError, ParameterError, check_one_of, some_of
from nooch.base.words import counted
from nooch.data.box_columns import (
    FORMATS,
    HEADERLESS,
    NUMBERS,
    Floats,
    are_fractions,
    box_columns,
    box_numbers,
    check_inside,
    share_outside,
)
from nooch.data.image_names import FILE_COLUMNS, IMAGE_COLUMNS, IMAGE_ENDING
from nooch.data.importing.table_questions import (
    TARGETS,
    Reading,
    ask_attributes,
    ask_blank,
    ask_positive,
    ask_texts,
    ask_unsure,
    columns_seen,
    is_fact,
    is_mark,
    pair_of,
    question,
    record_of,
)
from nooch.data.objects import LEEWAY
from nooch.data.readers.table_layouts import (
    CHOICES,
    SEPARATORS,
    YES_NO,
    Columns,
    LongTable,
    TableLayout,
    TableOfImages,
    as_yes,
    ask_present,
    has_image,
    has_lists,
    is_unnamed,
    rows_with,
    states_absence,
    tags_of,
    texts_of,
)
from nooch.data.splits import SPLIT_NAMES
from nooch.data.table_files import as_numbers
from nooch.data.table_schema import ALL, CLASS_COLUMNS, CLASS_NUMBERS

_OTHER_CLASSES = ("labelname", "choice", "choices")
"""Columns of classes of Open Images and Label Studio."""
_TAGS = ("tags", "labels", "classes", "categories", "keywords", "tag")
_SIZES = (("image_width", "image_height"), ("img_width", "img_height"), ("width", "height"))
_FLAGS = {
    "crowd": ("iscrowd", "is_crowd", "crowd", "isgroupof", "is_group_of"),
    "ignore": ("ignore", "difficult", "is_difficult"),
}


@dataclass(frozen=True)
class Hints(Options):
    """Choices of a user for annotations that are recognized.

    Attributes:
        id: column of a table with image ids or file names.
        label: label columns of a table with a row per image; a column's name is the class.
        class_column: column of class names in a table with a row per label.
        area_column: column of areas in such a table, as fractions of the image.
        present_column: column of such a table with 1 (class present) and 0 (absent); a class
            without a row is unknown. ``none``: each row is a class that is present.
        positive: label column -> the text that means present; ``*`` makes each value a class.
        blank_is_no: a blank cell of a label column means that the class is absent.
        label_separator: separator of several classes in one cell: a character, ``comma``,
            ``semicolon``, ``bar``, ``space``, ``tab`` or ``json``; ``none`` if a cell is one class.
        file_name: column of the images' file names, where ``id`` has others.
        split_column: column of split names.
        split_values: what values of a table's column of splits mean, such as ``{"0": "train"}``.
        attributes: columns to keep as attributes; by default all that have no other part.
        context: columns that are context, and no labels, such as ``scanner``; ``all`` names none.
        group: the column that images are grouped by, if it is one (it is not a label).
        box_format: order of the numbers of boxes, where their columns leave it open: ``xyxy``
            (corners), ``xywh`` (left, top, width, height) or ``cxcywh`` (center).
        one_class: name of the class of all boxes, where no column has classes.
        void: values of label maps that are not classes.
        reader: a custom reader of another format, ``package.module:Name``.
        follow_links: follow links that lead out of the folder that a ``data.yaml`` names.
    """

    id: str | None = None
    label: Sequence[str] = ()
    class_column: str | None = None
    area_column: str | None = None
    present_column: str | None = None
    positive: Mapping[str, str] = field(default_factory=dict)
    blank_is_no: bool = False
    label_separator: str | None = None
    file_name: str | None = None
    split_column: str | None = None
    split_values: Mapping[str, str] = field(default_factory=dict)
    attributes: Sequence[str] = ()
    context: Sequence[str] = ()
    group: str | None = None
    box_format: Annotated[str, FORMATS] | None = None
    one_class: str | None = None
    void: Sequence[int] = ()
    reader: str | None = None
    follow_links: bool = False

    @property
    def named_context(self) -> Sequence[str]:
        """The columns that ``context`` names; ``all`` names none."""
        return () if [*self.context] == [ALL] else self.context


HINTS = [field.name for field in fields(Hints)]


def _left_out(hints: Hints) -> Give:
    return {name: None for name in HINTS if getattr(hints, name) != getattr(Hints(), name)}


def refuse_hints(hints: Hints | None, where: str) -> None:
    """Raise ParameterError for hints about a dataset, the parameter ``where``."""
    if hints is not None:
        problem = "is a dataset: it has no columns to choose, or splits to name"
        given = {name: None for name in HINTS if getattr(hints, name) != getattr(Hints(), name)}
        raise ParameterError(problem, where=f"`{where}`", give=given)


def named_roles(hints: Hints) -> tuple[Columns, TableLayout] | None:
    """Roles of the columns if hints name the columns of images and of labels or classes, or None.

    Raises ParameterError for hints that exclude each other.
    """
    if hints.id is None or not (hints.label or hints.class_column):
        return None
    _check_layout(hints, hints.class_column)
    columns = _columns(hints.id, hints.file_name, hints.split_column, hints)
    if hints.class_column is None:
        return columns, TableOfImages(hints.label, hints.positive, hints.blank_is_no)
    given = hints.class_column, hints.area_column, hints.label_separator
    return columns, LongTable(*given, present_column=hints.present_column)


def _check_layout(hints: Hints, class_column: str | None) -> None:
    """Raise ParameterError for hints of another layout than the table's."""
    if hints.label and hints.class_column:
        problem = "label columns and a class column exclude each other"
        raise ParameterError(
            problem,
            remedy="{} for a row per label, {} for a row per image",
            give=({"label": None}, {"class_column": None}),
        )
    for name in ("area_column", "present_column", "label_separator"):
        if class_column is None and getattr(hints, name):
            problem = f"`{name}` needs a column of classes"
            give = ({"class_column": ...}, {name: None})
            raise ParameterError(problem, give=give)


def _columns(id: str, file_name: str | None, split: str | None, hints: Hints) -> Columns:
    return Columns(id, file_name, split, hints.split_values, hints.attributes or None)


def table_roles(
    table: pl.DataFrame, where: object, hints: Hints, images: Path | None = None
) -> tuple[Columns, TableLayout, str, bool]:
    """Roles of the columns, layout, the reasons, and whether ids are file names; ``images`` is
    the folder of the image files.

    Raises:
        ParameterError: a column that is not there.
        InputError: no row, no column of images or labels, or labels that can be read in several
            ways.
    """
    names, key = _small(table), _key(table, hints, where)
    table = table.filter(has_image(key, table.schema[key]))
    if not table.height:
        raise InputError("contains no row", where=where, remedy="give a table with a row per image")
    is_file = table[key].dtype == pl.String and _share_of_files(table[key]) > 0
    split = hints.split_column or _split_column(table, names)
    others = [names[n] for n in FILE_COLUMNS if n in names and names[n] != key]
    texts = [name for name in others if table[name].dtype == pl.String]
    file_name = hints.file_name or (None if is_file else next(iter(texts), None))
    columns = _columns(key, file_name, split, hints)
    told = {*hints.attributes, *hints.named_context, hints.group}
    taken = {key, split, file_name, *told} - {*hints.label, hints.class_column}
    boxes, note = _boxes(table, names, where, hints, (file_name or key, images))
    class_column = hints.class_column or _class_column(
        table, key, names, {*taken, *boxes.box}, where, hints, rows_with(table, boxes.box)
    )
    _check_layout(hints, class_column)
    one = _one_class(table, key, class_column, boxes.box, taken, where, hints)
    if one is not None:
        long = replace(boxes, class_column=one[0], one_class=one[1])
        why = f"a row for each box of {key}, all of class {one[1]}: {', '.join(long.columns)}{note}"
    elif class_column is None:
        layout, why = _wide(table, {*taken, *boxes.box}, where, hints, key)
        kept = f"; boxes ({', '.join(boxes.box)}) are attributes, since no column has their classes"
        return columns, layout, why + (kept if boxes.box else ""), is_file
    else:
        area = hints.area_column or names.get("area")
        long, why = _long(table, key, replace(boxes, class_column=class_column, area_column=area),
                          where, hints)  # fmt: skip
        why += note
    present = hints.present_column
    if present is None and {"image_id", "label_name", "confidence"} <= {*names}:
        cells = table[names["confidence"]]
        present = names["confidence"] if texts_of(cells) <= {"0", "1"} else None
    long = replace(long, present_column=present)
    if long.present:
        why += f"; {present}: 1 present, 0 absent, pairs without a row are unknown"
    used = {*taken, *long.columns, *long.may_state(table.columns)}
    rest = [name for name in table.columns if name not in used]
    of_images = [name for name in rest if _is_constant(table, key, name)]
    others = [name for name in rest if name not in of_images]
    _ask_presence(table, long, others, where)
    if table[key].n_unique() < table.height and not hints.attributes:
        columns = replace(columns, attributes=of_images)
        why += f"; left out: {some_of(others)}" if others else ""
    return columns, long, why, is_file


def _key(table: pl.DataFrame, hints: Hints, where: object) -> str:
    """The column of images. Raises ParameterError for hints that name no column, or one twice."""
    present = None if hints.present_column == "none" else hints.present_column
    one_each = (
        hints.class_column, hints.area_column, present, hints.file_name, hints.split_column,
    )  # fmt: skip
    for name in (*one_each, *hints.label, *hints.positive, *hints.attributes, *hints.named_context):
        if name is not None:
            check_one_of("column", name, table.columns, owner=str(where))
    key = _image_column(table, hints.id, where)
    if key in (hints.class_column, *hints.label):
        problem = f"column {key} cannot have both the images and the classes"
        raise ParameterError(problem, where=where, give={"id": ...})
    taken = {key, *one_each, *hints.label, *hints.positive}
    if both := [name for name in hints.named_context if name in taken]:
        kept = [name for name in hints.named_context if name not in both]
        problem = f"{some_of(both)} cannot be context and also labels, images or splits"
        raise ParameterError(problem, where=where, give={"context": kept or None})
    return key


def _ask_presence(
    table: pl.DataFrame, long: LongTable, names: Sequence[str], where: object
) -> None:
    """Refuse columns that differ in the rows of an image and may state presence."""
    if long.present_column is not None or long.box:
        return
    flags = {name for called in _FLAGS.values() for name in called}
    for name in names:
        is_flag = bool(record_of(name)) or name.strip().lower() in flags
        if states_absence(table[name]) and not is_flag:
            raise ask_present(name, where)


def _split_column(table: pl.DataFrame, names: Mapping[str, str]) -> str | None:
    split = next((names[n] for n in ("split", "subset", "set", "fold") if n in names), None)
    # a column of that name is refused later, with what to do, where its values are not known
    return split if split in (None, "split") or _are_splits(table[split]) else None


def _share_of_files(column: pl.Series) -> float:
    texts = column.drop_nulls()
    return float(texts.str.contains(IMAGE_ENDING).mean() or 0)  # type: ignore[arg-type]


def _small(table: pl.DataFrame) -> dict[str, str]:
    """Name of each column in small letters, with underscores -> as it is written; ``classId`` is
    ``class_id``.
    """
    words = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip()) for name in table.columns}
    return {re.sub(r"[\s-]+", "_", word.lower()): name for name, word in words.items()}


def image_columns(table: pl.DataFrame, id: str | None, where: object) -> list[str]:
    """Columns that may name the images, the likeliest first: ``id``; or all that are called so; or
    all whose cells are names of image files. Raises ParameterError, InputError without any.
    """
    if first := [name for name in table.columns if re.search(IMAGE_ENDING, name)]:
        problem = f"its first line names an image, {first[0]}, not columns"
        remedy = "put a line such as filename,label on top"
        raise InputError(problem, where=where, allowed="a table with a header", remedy=remedy)
    if id is not None:
        return [check_one_of("column", id, table.columns, owner=str(where))]
    names = _small(table)
    texts = [name for name in table.columns if table[name].dtype == pl.String]
    files = [name for name in texts if _share_of_files(table[name]) == 1]
    if found := [names[name] for name in IMAGE_COLUMNS if name in names] or files:
        return found
    raise InputError(
        f"no column contains image ids or file names; columns: {columns_seen(table)}",
        where=where,
        allowed=f"a column called {', '.join(IMAGE_COLUMNS[:8])}, or a column of file names",
        give={"id": ...},
    )


def _image_column(table: pl.DataFrame, id: str | None, where: object) -> str:
    """The column that names the images. Raises InputError where several have different files."""
    names = image_columns(table, id, where)
    if len(names) > 1 and not {*names} & {_small(table).get(name) for name in IMAGE_COLUMNS}:
        ends = [table[name].str.extract(r"([^/\\]+)$") for name in names]
        others = [name for name, end in zip(names, ends, strict=True) if not end.equals(ends[0])]
        if others:
            problem = f"{some_of([names[0], *others])} name different image files"
            ways = ((f"the images of {name}", {"id": name}) for name in (names[0], *others))
            raise question(problem, where, *ways)
    return names[0]


def _are_splits(column: pl.Series) -> bool:
    if column.dtype != pl.String:
        return False
    texts = column.drop_nulls().str.strip_chars().str.to_lowercase().unique()
    return column.null_count() == 0 and set(texts) <= set(SPLIT_NAMES)


def _class_column(
    table: pl.DataFrame,
    key: str,
    names: Mapping[str, str],
    taken: set[str | None],
    where: object,
    hints: Hints,
    has_box: pl.Series,
) -> str | None:
    """The column of class names: one of that name with texts that are not yes and no, or with
    numbers of classes, such as 0 of a row that ``has_box``. Raises InputError for one of 0 and 1
    that may be a class itself.
    """
    if hints.label:
        return None
    called = ("class", *_TAGS, *CLASS_COLUMNS, *_OTHER_CLASSES, *CLASS_NUMBERS)
    known = {n: names[n] for n in called if n in names}
    known = {n: of for n, of in known.items() if of not in {*taken, *hints.positive}}
    # next to names of classes, numbers are of them, or state their presence
    for name in sorted(known, key=lambda name: table[known[name]].dtype.is_integer()):
        column = known[name]
        cells = table[column]
        is_pair, is_number = pair_of(cells) is not None, cells.dtype.is_integer()
        several = table[key].n_unique() < table.height
        several |= is_number and bool((cells.eq(0) & has_box).any())
        if has_lists(cells) or (cells.dtype == pl.String and not is_pair):
            return column
        if is_number and (several or not is_pair):
            return column
        if is_number and name not in TARGETS:
            values = cells.drop_nulls().unique().sort()
            several_classes = f"{counted(len(values), 'class')}, {some_of(values)}"
            raise question(
                f"{column} has {some_of(values)}: numbers of classes, or absent and present?",
                where,
                (several_classes, {"class_column": column}),
                (f"1 class, {column}", {"label": [column]}),
            )
    return None


def _one_class(
    table: pl.DataFrame,
    key: str,
    class_column: str | None,
    box: Sequence[str],
    taken: set[str | None],
    where: object,
    hints: Hints,
) -> tuple[str | None, str] | None:
    """The column of 0 and 1, if any, and the name of the one class of a table of boxes; None of
    another table. Raises InputError for boxes without a column of classes.
    """
    is_yes = {n: pair_of(table[n]) in YES_NO[:2] for n in table.columns if n not in {*taken, *box}}
    if hints.one_class is not None:
        if not box and not is_yes.get(str(class_column)):
            problem = "`one_class` is the class of all boxes, but there are no boxes"
            raise ParameterError(problem, where=where, give={"one_class": None})
        return class_column, hints.one_class
    repeated = table[key].n_unique() < table.height
    if not box or class_column is not None or not (repeated or not any(is_yes.values())):
        return None
    has_box = rows_with(table, box)
    of_boxes = [n for n in is_yes if is_yes[n] and (as_yes(table[n]) == has_box).all()]
    if target := hints.label if len(hints.label) == 1 else of_boxes[:1]:
        return target[0], target[0]
    if hints.label:
        return None
    raise question(
        f"has boxes ({', '.join(box)}), but no column is certain to have their classes",
        where,
        ("1 class, of that name", {"one_class": ...}),
        *_class_readings(table, [n for n in is_yes if not is_yes[n]], where),
    )


def _is_constant(table: pl.DataFrame, key: str, name: str) -> bool:
    if table[name].dtype.is_nested():
        return False
    return bool((table.group_by(key).agg(pl.col(name).n_unique())[name] == 1).all())


def _long(
    table: pl.DataFrame, key: str, long: LongTable, where: object, hints: Hints
) -> tuple[LongTable, str]:
    """The layout of a table with a column of classes, and what ``long`` has of it so far."""
    column, area = str(long.class_column), long.area_column
    cells = table[column]
    if long.placed:
        in_pixels = area is not None and bool((as_numbers(table[area]) > 1).any())
        used = ", ".join(long.box if long.in_fractions else [*long.box, *long.size])
        long = replace(long, areas_in_pixels=in_pixels and not long.in_fractions)
        return long, f"a row for each box of {key}, {column}: {used}"
    has_objects = cells.dtype == pl.String and cells.str.contains(r"^\s*\{").any()
    if area is None and (has_objects or table[key].n_unique() == table.height):
        sign = _separator(cells, column, where, hints)
        if sign is not None or has_lists(cells):
            classes = counted(tags_of(cells, sign)[1].drop_nulls().n_unique(), "class")
            how = "as lists" if sign in (None, "json") else f"separated by {_word(sign)}"
            return LongTable(
                column, None, sign
            ), f"a row for each {key}; {classes} in {column}, {how}"
    return LongTable(column, area, "none"), f"a long table of {key}, {column}"


def _boxes(
    table: pl.DataFrame,
    names: Mapping[str, str],
    where: object,
    hints: Hints,
    pictures: tuple[str, Path | None],
) -> tuple[LongTable, str]:
    """The boxes of a table, in a layout of nothing else, if it has any; and a note.
    ``pictures``: the column that names the images, and their folder. Raises InputError where the
    order of the numbers is open, or another one than columns say.
    """
    box, box_format = box_columns(names)
    cells = [table[name].drop_nulls() for name in box if len(box) == 4]
    none = LongTable(None), ""
    if not box or any(map(_is_words, cells)):
        return none
    try:
        numbers, box_format = box_numbers(table, box, box_format, where)
    except InputError:
        if len(box) == 4:
            raise
        # a column of that name has something else
        return none
    written = numbers.to_numpy()
    has_box = np.isfinite(written).all(axis=1)
    if not has_box.any():
        return none
    pairs = ([names[n] for n in pair] for pair in _SIZES if set(pair) <= set(names))
    size = next((pair for pair in pairs if not set(pair) & set(box)), [])
    extent = box_numbers(table, size, "", where)[0].to_numpy() if size else None
    sides, left_out = written[:, 2:] - written[:, :2], list[str]()
    if extent is not None and np.allclose(extent[has_box], sides[has_box], atol=1):
        # of the box, not of the image
        size, extent, left_out = [], None, size
    in_fractions = are_fractions(written[has_box])
    if in_fractions:
        extent = np.ones((table.height, 2))
    elif extent is None:
        extent = _sizes(table[pictures[0]], has_box, pictures[1])
    has_box &= np.isfinite(extent).all(axis=1)
    if not has_box.any():
        note = "they are in pixels, and neither columns width and height nor image files give sizes"
        return LongTable(None, box=box, is_placed=False), f"; its boxes are left out: {note}"
    known = written[has_box], extent[has_box]
    forms = (box_format,) if box_format else ("xywh", "cxcywh")
    if numbers.columns == ["1", "2", "3", "4"] or box == HEADERLESS:
        forms = ("xyxy", "xywh")
    place = f"{where}, {', '.join(box)}"
    box_format = hints.box_format or _box_format(*known, forms, place)
    note = check_inside(known[0], box_format, known[1], where)
    flags = {
        flag: next(names[name] for name in called if name in names)
        for flag, called in _FLAGS.items()
        if {*called} & {*names}
    }
    long = LongTable(None, box=box, box_format=box_format, size=size, in_fractions=in_fractions,
                     left_out=left_out, flags=flags)  # fmt: skip
    sizes = "" if size or in_fractions else ", in pixels of the image files"
    return long, f" ({NUMBERS[box_format]}{sizes}){'; ' if note else ''}{note}"


def _is_words(cells: pl.Series) -> bool:
    """True for texts, most of which are not numbers."""
    return cells.dtype == pl.String and as_numbers(cells).null_count() > len(cells) / 2


_MOST_SIZED = 500
"""Image files whose sizes are looked at."""


def _sizes(names: pl.Series, has_box: NDArray[np.bool_], folder: Path | None) -> Floats:
    """Width and height of the image of each row (n, 2), NaN where not known, of a sample of those
    with a box.
    """
    extent = np.full((len(names), 2), np.nan)
    if folder is None:
        return extent
    chosen = names.filter(has_box).unique(maintain_order=True)
    chosen = chosen.gather_every(-(-len(chosen) // _MOST_SIZED))
    from nooch.data.readers.image_files import ImageIndex, sizes_of

    index = ImageIndex(folder)
    paths = [index.by_file_name(str(name)) or index.by_id(name) for name in chosen]
    sizes = sizes_of([None if path is None else f"{folder}/{path}" for path in paths])
    size_of = dict(zip(chosen, sizes, strict=True))
    return np.array([size_of.get(name, (None, None)) for name in names], dtype=np.float64)


def _box_format(written: Floats, extent: Floats, forms: Sequence[str], where: object) -> str:
    """The order of numbers in which most boxes lie within images."""
    shares = {f: share_outside(written, f, extent, LEEWAY) for f in forms}
    ranked = sorted(shares, key=shares.__getitem__)
    if len(ranked) == 1 or shares[ranked[0]] < min(shares[ranked[1]], 0.34):
        return ranked[0]
    raise question(
        "boxes could be in two formats: equally many fit into the images",
        where,
        *((NUMBERS[f], {"box_format": f}) for f in forms),
    )


def _word(sign: str) -> str:
    return next((word for word, found in SEPARATORS.items() if found == sign), sign)


def _separator(column: pl.Series, name: str, where: object, hints: Hints) -> str | None:
    """The character between the classes of a cell; None if a cell is one class. Raises InputError
    if blanks, or several characters, may be it.
    """
    if hints.label_separator == "none" or column.dtype != pl.String:
        return None
    if hints.label_separator is not None:
        return hints.label_separator
    cells = column.drop_nulls().str.strip_chars()
    cells = cells.filter(cells != "")
    objects = cells.filter(cells.str.starts_with("{"))
    if len(objects) and objects.str.contains(CHOICES).all():
        return "json"
    if len(objects):
        raise InputError(
            f"cells of {name} are objects, such as {objects[0][:60]}",
            where=where,
            allowed='names of classes, or lists such as ["sky", "road"]',
            remedy="write a row for each label or box",
        )
    lists = cells.str.contains(r"^\[.*\]$")
    if len(cells) and lists.all():
        return "json"
    if lists.any():
        raise InputError(
            f"some cells of {name} are lists, such as {cells.filter(lists)[0]}, others are text,"
            f" such as {cells.filter(~lists)[0]}",
            where=where,
            allowed="lists in all rows, or text in all rows",
            remedy="write lists in all rows",
        )
    found = [sign for sign in ",;|\t" if cells.str.contains(sign, literal=True).any()]
    plural = name.strip().lower() in _TAGS
    # in lists of classes, texts between commas recur
    recur = tags_of(cells.unique(), ",")[1].is_duplicated().any()
    if len(found) == 1 and (plural or found != [","] or recur):
        return found[0]
    if not found and not (plural and cells.str.contains(" ").any()):
        return None
    readings: list[Reading] = []
    for sign in [*map(_word, found or [" "]), "none"]:
        classes = tags_of(cells, None if sign == "none" else sign)[1].unique().drop_nulls().sort()
        what = f"{counted(len(classes), 'class')}: {some_of(map(repr, classes), 4)}"
        readings.append((what, {"label_separator": sign}))
    example = next((cell for cell in cells if any(sign in cell for sign in found or " ")), "")
    raise question(
        f"several classes may be in a cell of {name}, such as {example!r}", where, *readings
    )


def _wide(
    table: pl.DataFrame, taken: set[str | None], where: object, hints: Hints, key: str
) -> tuple[TableOfImages, str]:
    """The layout of a table with a column for each class."""
    rest = [name for name in table.columns if name not in taken and not is_unnamed(name)]
    pairs = {name: pair for name in rest if (pair := pair_of(table[name])) is not None}
    marks = {name: text for name in rest if (text := _mark(table[name])) is not None}
    # other single texts, such as a remark, only if nothing else is a label
    short = [name for name, text in marks.items() if is_mark(text, name)]
    known = [n for n in rest if n in pairs or n in short or n in hints.positive]
    words = [n for n in rest if n not in known or n in hints.positive]
    whole = [n for n in words if not table[n].null_count()]
    texts = [] if hints.label else _class_readings(table, whole, where)
    if texts:
        # next to classes in words, a constant is a record of them
        known = [n for n in known if table[n].n_unique() > 1]
    labels = [*hints.label] or known or ([] if texts else [*marks])
    if not hints.label:
        ask_unsure(table, [name for name in rest if name not in labels], labels, where)
    others = partial(_class_readings, table, rest, where)
    if not labels:
        ask_positive(table, rest, where, others())
    blank = [name for name in labels if table[name].null_count()]
    if blank and not hints.blank_is_no:
        full = [] if hints.label else [name for name in labels if name not in blank]
        ask_blank(table, blank, full, where)
    if not hints.label:
        ask_attributes(table, labels, rest, where, others)
        if not (hints.positive or hints.blank_is_no):
            ask_texts(labels, texts, where)
    why = f"a row for each {key}; columns of 0 and 1 or yes and no are labels: {', '.join(labels)}"
    kept = hints.attributes or [
        *hints.named_context,
        *(name for name in rest if name not in labels),
    ]
    why += f"; attributes: {some_of(kept)}" if kept else ""
    return TableOfImages(labels, dict(hints.positive), hints.blank_is_no), why


def _class_readings(table: pl.DataFrame, names: Sequence[str], where: object) -> list[Reading]:
    """The readings of columns of texts, some of them in several rows, as columns of classes."""
    readings: list[Reading] = []
    for name in names:
        column = table[name]
        most = table.height - 1 if table.height < _FEW else table.height // 2
        if column.dtype == pl.String and 1 < column.n_unique() <= most and not _is_record(column):
            with suppress(InputError):
                classes = tags_of(column, _separator(column, name, where, Hints()))[1]
                n = counted(classes.drop_nulls().n_unique(), "class")
                readings.append((n, {"class_column": name}))
    # what is likely labels first
    readings.sort(key=lambda one: is_fact(str(one[1]["class_column"])))
    return readings[:_MOST_READINGS]


_MOST_READINGS, _FEW = 5, 20
"""Readings that are shown, and rows up to which one repeated text is enough for classes."""


def _is_record(column: pl.Series) -> bool:
    """True for texts that are numbers, times, addresses or files, or blank, and name no classes."""
    texts = column.drop_nulls().str.strip_chars()
    are_files = texts.str.contains(r"^[\d\s:.,/TZ+-]*$|://") | texts.str.contains(IMAGE_ENDING)
    return bool(are_files.all() or (texts == "").any())


def _mark(column: pl.Series) -> str | None:
    """The only text of a column with blanks."""
    if column.dtype != pl.String or not column.null_count():
        return None
    texts = column.drop_nulls().unique()
    return str(texts[0]) if len(texts) == 1 else None
