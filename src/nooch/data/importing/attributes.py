"""Columns of a custom table -> attributes of a dataset: context scores, cameras, places, years."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.data.dataset import Dataset
from nooch.data.readers.table_layouts import Columns
from nooch.data.table_schema import check_unique


def attribute_table(
    table: pl.DataFrame,
    id: str = "image_id",
    columns: Sequence[str] | None = None,
    *,
    where: object = None,
) -> pl.DataFrame:
    """A user's table, checked: column ``image_id``, then attributes.

    Args:
        table: a row for each image.
        id: its column of image ids.
        columns: those to take as attributes; by default all others.
        where: file that it comes from, for errors.

    Raises:
        ParameterError: a column that is not there.
        InputError: ids that are missing or occur twice, a name that nooch uses itself, or no column
            at all.
    """
    roles = Columns(id, attributes=columns)
    roles.check(table.schema, where or "the table")
    names = roles.attribute_names(table.columns, (), where)
    if not names:
        allowed = "a column for each attribute"
        raise InputError("the table has no column but the ids", where=where, allowed=allowed)
    if nulls := table[id].null_count():
        allowed = "an image id in every row"
        raise InputError(f"{nulls} rows have no {id}", where=where, allowed=allowed)
    check_unique(table[id], where)
    return table.select(pl.col(id).alias("image_id"), *names)


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
