"""Schemas of the tables of nooch and of datasets: checked when one is read, and when one is
built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from nooch.base.errors import (
    Command,
    FormatError,
    Give,
    InputError,
    ParameterError,
    check_one_of,
    lacking,
    some_of,
    unreadable,
)
from nooch.base.limits import MOST_AREA
from nooch.data.table_files import id_column

SPLITS = ("train", "valid", "test")
ALL = "all"
"""The one split of a dataset that was not split: criteria are fitted on it and it is searched."""

COLUMN_OF_KIND = {"thing": "annotated_things", "stuff": "annotated_stuff"}
"""Kind of a class -> the column that marks the images in which classes of that kind were
annotated.
"""

KINDS = tuple(COLUMN_OF_KIND)
ANNOTATED = (*COLUMN_OF_KIND.values(), "annotated_captions")
"""Reserved Boolean columns of the images: annotated for things, stuff, captions."""

CORE_COLUMNS = ("image_id", "file_name", "width", "height", "split")
_DEFAULTS = {
    "file_name": pl.lit(None, pl.String),
    "width": pl.lit(None, pl.Int64),
    "height": pl.lit(None, pl.Int64),
    "split": pl.lit(ALL),
}

IMPORT_AGAIN = "import the dataset again"
"""The remedy for a dataset folder with wrong content."""

NAMES = (pl.Enum, pl.Categorical, pl.String)
"""Types of a column of names."""

PROPERTIES: dict[str, Any] = {
    "brightness": pl.Float64, "contrast": pl.Float64, "sharpness": pl.Float64,
    "saturation": pl.Float64, "entropy": pl.Float64, "aspect": pl.Float64,
    "megapixels": pl.Float64, "jpeg_quality": pl.Int64,
}  # fmt: skip
"""Columns that measured image files have."""

CLASS_COLUMNS = ("class", "label", "category", "class_name", "label_name", "category_name")
"""Columns that names of classes are in, in labels, predictions and boxes."""
PRESENT, ABSENT = {"1", "1.0", "true", "yes"}, {"0", "0.0", "false", "no"}
"""Cells that state that a class is there, and that it is not, in small letters."""
CLASS_NUMBERS = ("category_id", "class_id", "cls")
"""Columns that numbers of classes are in, in labels and boxes."""


def check_split(split: str | None, splits: Collection[str], owner: str = "the dataset") -> str:
    """A split, if ``owner``, a dataset or suite, has it; None: no usual one is there to be chosen.
    Raises ParameterError, with how to get it.
    """
    if split in splits:
        return str(split)
    give: list[Give] = [{"split": name} for name in splits]
    remedies = [" or ".join(["{}"] * len(give))] if give else []
    if split is None or split in SPLITS:
        is_suite, again = owner == "the suite", Command("find", splits=split or ...)
        give.append(again if is_suite else Command("import auto", split="60/20/20"))
        remedies.append("{} first")
    remedy = "; or ".join(remedies)
    if split is None:
        problem = f"{owner} has neither a test nor a valid split"
        raise ParameterError(problem, allowed=", ".join(splits), remedy=remedy, give=give)
    return check_one_of("split", split, splits, owner=owner, remedy=remedy, give=give)


def unsafe_names(names: pl.Series) -> pl.Series:
    """Mask of the names that lead out of the image folder, bool (n,); null if there is none."""
    # a drive letter, a leading slash or backslash, or any '..' component
    return names.str.contains(r"(^[A-Za-z]:)|(^[/\\])|((^|[/\\])\.\.($|[/\\]))|\x00")


@dataclass(frozen=True)
class Column:
    """Allowed values of a column.

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
    (pl.Int64,), "Int64, at least 1 pixel, null where unknown", nulls=True, wrong=lambda n: n < 1
)

IMAGES: Schema = {
    "image_id": _ID,
    "file_name": Column(
        (pl.String,),
        "relative paths, none that lead out of the image folder; null where unknown",
        True,
        wrong=unsafe_names,
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
CONFIDENCES: Schema = {
    "image_id": _ID,
    "class": _NAME,
    "confidence": Column(
        (pl.Float64,), "Float64, from 0 to 1", wrong=lambda value: ~value.is_between(0, 1)
    ),
}
_EDGE = Column((pl.Float64,), "Float64, finite", wrong=lambda edge: ~edge.is_finite())
_EXTENT = Column(
    (pl.Float64,),
    "Float64, finite, at least 0",
    wrong=lambda extent: ~(extent.is_finite() & (extent >= 0)),
)
_FLAG = Column((pl.Boolean,), "Boolean, never null")
OBJECTS: Schema = {
    "image_id": _ID,
    "class": _NAME,
    "left": _EDGE,
    "top": _EDGE,
    "width": _EXTENT,
    "height": _EXTENT,
    "area": _EXTENT,
    "crowd": _FLAG,
    "ignore": _FLAG,
}
EXCEPTIONS: Schema = {"image_id": _ID, "class": _NAME, "known": _FLAG}


def check_columns(
    table: pl.DataFrame,
    schema: Schema,
    where: object,
    remedy: str | None = None,
    kind: type[InputError] = FormatError,
) -> pl.DataFrame:
    """The table, if every column of the schema is present and valid; others are not checked."""
    for name, column in schema.items():
        if name not in table.columns:
            if column.optional:
                continue
            allowed = f"columns {', '.join(schema)}"
            raise lacking("column", [name], table.columns, where, allowed, remedy=remedy, kind=kind)
        values = table[name]
        if values.dtype not in column.types:
            problem = f"is {type_name(values.dtype)}"
        elif values.null_count() and not column.nulls:
            problem = f"has {values.null_count()} nulls"
        elif column.among and (
            others := set(values.unique().drop_nulls().cast(pl.String)) - set(column.among)
        ):
            problem = f"contains {some_of(sorted(others), 3)}"
        elif column.wrong is not None and (mask := column.wrong(values)).any():
            problem = f"contains {some_of(values.filter(mask).head(3))}"
            if "image_id" in table.columns:
                problem += f" in images {some_of(table['image_id'].filter(mask), 3)}"
        else:
            continue
        raise kind(f"column {name} {problem}", where=where, allowed=column.allowed, remedy=remedy)
    return table


def type_name(kind: pl.DataType | None) -> str:
    """A type for people, without its categories; ``missing`` if there is no such column."""
    return "missing" if kind is None else shorten(str(kind), 60)


def dataset_error(problem: str, where: object, allowed: str | None = None) -> FormatError:
    """The error of a dataset folder with wrong content."""
    return FormatError(problem, where=where, allowed=allowed, remedy=IMPORT_AGAIN)


def is_ascending(ids: pl.Series) -> bool:
    """True if each id is above the one before."""
    return bool((ids.head(-1) < ids.tail(-1)).all())


def complete_columns(images: pl.DataFrame) -> pl.DataFrame:
    """Fill the core columns that are missing, fix their types, put them first."""
    if "image_id" not in images.columns:
        raise InputError(
            "images have no column image_id", allowed=f"columns: {', '.join(images.columns)}"
        )
    images = images.with_columns(**{c: e for c, e in _DEFAULTS.items() if c not in images.columns})
    problem = "ids or sizes of images are of the wrong kind"
    allowed = "text or 64-bit integers as image_id, integers as width and height"
    with unreadable(None, allowed, (pl.exceptions.PolarsError,), problem=problem):
        return images.select(
            id_column(images["image_id"]),
            pl.col("file_name").cast(pl.String),
            pl.col("width", "height").cast(pl.Int64),
            pl.col("split").cast(pl.String),
            pl.exclude(CORE_COLUMNS),
        )


def identifiers(texts: Sequence[str]) -> pl.Series:
    """Column ``image_id`` from text: integers where every text consists of digits, else the text.

    ``000000000139`` becomes 139, as COCO and the published sets count; ``10_3_s`` stays as it is.
    """
    column = pl.Series("image_id", list(texts), dtype=pl.String)
    # 18 digits fit into 64 bits; anything longer stays text
    if len(column) and column.str.contains(r"^[0-9]{1,18}$").all():
        return column.cast(pl.Int64)
    return column


def check_images(images: pl.DataFrame) -> None:
    """Raise InputError for columns with values that ``IMAGES`` does not allow, repeated ids, and a
    split next to ``ALL``.
    """
    check_columns(images, IMAGES, None, kind=InputError)
    check_unique(images["image_id"], None)
    if len(names := images["split"].unique().sort()) > 1 and ALL in names:
        problem = f"split names {some_of(names)}"
        raise InputError(problem, allowed=f"{', '.join(SPLITS)}, or {ALL} for every image")


def check_unique(ids: pl.Series, where: object) -> None:
    """Raise InputError for ids that occur more than once."""
    if ids.n_unique() != len(ids):
        twice = some_of(ids.filter(ids.is_duplicated()).unique().sort())
        problem = f"image ids occur more than once: {twice}"
        raise InputError(problem, where=where, allowed="each image once")


def check_file_names(names: pl.Series, where: object = None) -> None:
    """Raise InputError for names that lead out of the folder of images."""
    table = names.alias("file_name").to_frame()
    remedy = "correct the names, and import the folder where these files are"
    check_columns(table, {"file_name": IMAGES["file_name"]}, where, remedy, InputError)


def check_areas(areas: csr_array, ids: pl.Series, classes: Sequence[str]) -> None:
    """Raise InputError for areas below 0 or above ``MOST_AREA``; NaN means unknown."""
    wrong = np.flatnonzero((areas.data < 0) | (areas.data > MOST_AREA))
    if not len(wrong):
        return
    images = ids.gather(np.searchsorted(areas.indptr, wrong, side="right") - 1)
    pairs = pl.DataFrame(
        {"image": images, "class": areas.indices[wrong], "area": areas.data[wrong]}
    )
    # the first by id, regardless of the number of parts
    image, column, area = pairs.sort("image", "class").row(0)
    allowed = f"fractions of the image, from 0 to {MOST_AREA:.0f} (overlaps count twice)"
    raise InputError(
        f"class {classes[column]} has area {area:.6g} in image {image}",
        allowed=f"{allowed}; NaN where unknown",
    )


def class_name(text: str, where: object = None) -> str:
    """A class name as COCO-Stuff spells it: spaces become underscores ("fire_hydrant")."""
    name = "_".join(text.split())
    if not name:
        raise InputError("a class has an empty name", where=where, remedy="give it a name")
    return name


def folded(name: str) -> str:
    """A name without case, and with blanks, `_` and `-` alike."""
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


_NOT_ANNOTATED = {"void", "unknown", "unannotated", "ignore", "ignored"}
_NOT_ANNOTATED |= {"unlabelled", "unlabeled", "unlabel"}
_FILLERS = {"label", "class", "pixel", "pixels", "region", "area"}


def means_void(name: str) -> bool:
    """True if a class name means that its pixels have no annotation."""
    marks = [name, *re.findall(r"[(\[]([^)\]]*)[)\]]", name)]
    words = [set(re.findall("[a-z]+", mark.lower())) - _FILLERS for mark in marks]
    return any(some and some <= _NOT_ANNOTATED for some in words)


OF_ANY_CLASS = ("annotated object", "false box")
"""Tasks of counts of any class: objects, which can be missed; and false boxes, of which an image is
right to have none. No class of a dataset has these names.
"""


def check_classes(classes: Sequence[str], where: object = None) -> None:
    """Raise InputError for empty or repeated class names, and for ``OF_ANY_CLASS``."""
    seen: set[str] = set()
    for name in classes:
        if name in OF_ANY_CLASS:
            problem = f"class {name!r} has the name of a count of objects of any class"
            raise InputError(problem, where=where, remedy=f"rename it, such as {class_name(name)}")
        if not name.strip():
            raise InputError("a class has an empty name", where=where)
        if name in seen:
            problem = f"class {name!r} is listed twice"
            raise InputError(problem, where=where, allowed="each class once")
        seen.add(name)


def check_captions(captions: pl.DataFrame, images: pl.DataFrame) -> pl.DataFrame:
    """Captions as ``image_id, caption`` in the order of images; InputError for unknown images."""
    captions = captions.select(
        pl.col("image_id").cast(images["image_id"].dtype), pl.col("caption").cast(pl.String)
    )
    stray = captions.join(images, on="image_id", how="anti")["image_id"].unique().sort()
    if len(stray):
        raise InputError(
            f"captions of {len(stray)} images that are not in the dataset: {some_of(stray)}",
            remedy="give the annotation files that contain these images, or leave these captions "
            "out",
        )
    return captions.drop_nulls("caption").sort("image_id", maintain_order=True)


def is_id(values: pl.Series) -> bool:
    """True for more than 20 texts, of fewer than 10 images each, or whole numbers of fewer than 3:
    a year also has few images.
    """
    kind, n_values = values.dtype, values.drop_nulls().n_unique()
    least = 3 if kind.is_integer() else 10 if kind in (pl.String, pl.Categorical, pl.Enum) else 0
    return n_values > 20 and values.count() < least * n_values
