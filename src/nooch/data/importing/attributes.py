"""Columns of a custom table -> attributes of a dataset: context scores, cameras, places, years."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.data.dataset import Dataset
from nooch.data.image_names import UNTYPED, ImageNames
from nooch.data.importing.table_roles import image_columns
from nooch.data.readers.table_layouts import Columns
from nooch.data.table_schema import check_unique


def attribute_table(
    table: pl.DataFrame,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    data: Dataset | None = None,
    where: object = None,
) -> pl.DataFrame:
    """A user's table, checked: column ``image_id``, then attributes.

    Args:
        table: a row for each image.
        id: its column of image ids or file names; by default recognized by its name, or as the
            first of names of image files.
        columns: those to take as attributes; by default all others.
        data: the dataset that they are for. Names of files are then matched to its images by their
            longest common end, and rows of other images are left out.
        where: file that it comes from, for errors.

    Raises:
        ParameterError: a column that is not there.
        InputError: ids that are missing or occur twice, several columns of images that disagree, a
            name that nooch uses itself, no column at all, or no image of the dataset.
    """
    where = where or "the table"
    found = image_columns(table, id, where)
    key, same, ids = (
        (found[0], found[:1], None) if data is None else _named(table, found, data, where)
    )
    roles = Columns(key, next((n for n in same if n == "file_name"), None), attributes=columns)
    roles.check(table.schema, where)
    names = roles.attribute_names(table.columns, same if columns is None else (), where)
    if not names:
        allowed = "a column for each attribute"
        raise InputError("the table has no column but the ids", where=where, allowed=allowed)
    if nulls := table[key].null_count():
        allowed = "an image id in every row"
        raise InputError(f"{nulls} rows have no {key}", where=where, allowed=allowed)
    check_unique(table[key], where)
    ids = table[key] if ids is None else ids
    return table.select(ids.alias("image_id"), *names).drop_nulls("image_id")


def _named(
    table: pl.DataFrame, columns: Sequence[str], data: Dataset, where: object
) -> tuple[str, list[str], pl.Series]:
    """The column that names images of the dataset, all that name the same ones, and the images,
    null for rows of others. Raises InputError.
    """
    known, matched, last = ImageNames.from_images(data.images), dict[str, pl.Series](), None
    for name in columns:
        try:
            Columns(name).check(table.schema, where)
            typed = table[name].dtype.is_integer() and Path(str(where)).suffix not in UNTYPED
            names = table[name] if typed else table[name].cast(pl.String)
            check_unique(names.drop_nulls(), where)
            ids = known.match(names, where).ids
        except InputError as error:
            last = last or error
            continue
        if ids.count():
            matched[name] = ids
    if not matched:
        values = table[columns[0]].drop_nulls()
        raise last or InputError(
            f"no row names an image of the dataset; {columns[0]} has {some_of(values, 3)}",
            where=where,
            allowed=f"ids such as {some_of(known.ids, 3)}"
            + ("" if known.files is None else f", or files such as {some_of(known.files, 3)}"),
            remedy="name the column with `id`",
        )
    key, ids = next(iter(matched.items()))
    if differ := [name for name, other in matched.items() if (other != ids).any()]:
        readings = (f"`id` {n} gives {matched[n].count()} images" for n in (key, *differ))
        raise InputError(
            f"columns {some_of((key, *differ))} name different images in the same row",
            where=where,
            allowed="; ".join(readings),
            remedy="give one of them",
        )
    return key, [*matched], ids


_TEXT = (pl.String, pl.Categorical, pl.Enum)


def with_attributes(
    data: Dataset, table: pl.DataFrame, *, where: object = None
) -> tuple[Dataset, int]:
    """The dataset with a table's columns as attributes, and how many of its images the table lists.

    An image that the table does not list has null there. Rows of other images are left out.

    Args:
        data: the dataset, or a part of it.
        table: as ``attribute_table`` gives it.
        where: file that it comes from, for errors.

    Raises:
        InputError: an attribute that the dataset has, or ids of another kind.
    """
    names = table.columns[1:]
    if clash := [name for name in names if name in data.images.columns]:
        problem = f"the dataset has columns {', '.join(clash)} already"
        raise InputError(problem, where=where, remedy="rename them in the table")
    kind, ids = data.images["image_id"].dtype, table["image_id"]
    if not (ids.dtype.is_integer() if kind.is_integer() else isinstance(ids.dtype, _TEXT)):
        raise InputError(
            f"ids of the table are {ids.dtype}, such as {some_of(ids.to_list(), 1)}, ids of the"
            f" dataset are {kind}, such as {some_of(data.images['image_id'], 1)}",
            where=where,
            allowed="the dataset's image ids",
        )
    # an id that cannot be cast is not in the dataset
    attributes = table.with_columns(pl.col("image_id").cast(kind, strict=False))
    images = data.images.join(attributes, on="image_id", how="left", maintain_order="left")
    listed = data.images.join(attributes, on="image_id", how="semi").height
    return replace(data, images=images), listed
