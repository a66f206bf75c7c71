"""Columns of a custom table -> attributes of a dataset: context scores, cameras, places, years."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.base.words import counted
from nooch.data.dataset import Dataset
from nooch.data.image_names import UNTYPED, ImageNames
from nooch.data.importing.table_roles import image_columns
from nooch.data.readers.table_layouts import Columns
from nooch.data.table_schema import check_unique


def attribute_table(
    data: Dataset,
    table: pl.DataFrame,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    where: object = None,
) -> pl.DataFrame:
    """A table's columns as attributes: ``image_id`` of the dataset, then the attributes, of the
    images that the table lists; rows of other images are left out.

    Args:
        data: the dataset.
        table: a row for each image.
        id: its column of image ids or file names, which are matched to the dataset's by
            their longest common end; by default recognized.
        columns: those to take as attributes; by default all others.
        where: file that the table comes from, for errors.

    Raises:
        ParameterError: a column that is not there.
        InputError: ids that are missing or occur twice, several columns of images that disagree, no
            image of the dataset, a name that nooch uses itself or the dataset has, or no column at
            all.
    """
    where = where or "the table"
    key, others, ids = _images(data, table, image_columns(table, id, where), where)
    roles = Columns(key, "file_name" if "file_name" in others else None, attributes=columns)
    roles.check(table.schema, where)
    names = roles.attribute_names(table.columns, others, where)
    if not names:
        allowed = "a column for each attribute"
        raise InputError("the table has no column but the ids", where=where, allowed=allowed)
    if clash := [name for name in names if name in data.images.columns]:
        problem = f"the dataset has columns {', '.join(clash)} already"
        raise InputError(problem, where=where, remedy="rename them in the table")
    return table.select(ids.alias("image_id"), *names).drop_nulls("image_id")


def with_attributes(
    data: Dataset, attributes: pl.DataFrame, captions: pl.DataFrame | None = None
) -> Dataset:
    """The dataset, or a part of it, with the columns of ``attribute_table``, null where an image
    is not listed; and with ``captions`` (``image_id, caption``, of any of its images) in place of
    its own, if there are any.
    """
    images = data.images.join(attributes, on="image_id", how="left", maintain_order="left")
    if captions is not None:
        captions = captions.join(images, on="image_id", how="semi", maintain_order="left")
    return replace(data, images=images, captions=data.captions if captions is None else captions)


def _images(
    data: Dataset, table: pl.DataFrame, columns: Sequence[str], where: object
) -> tuple[str, list[str], pl.Series]:
    """The column that names images of the dataset, others that name the same ones, and the image
    of each row, null for one that the dataset does not have. Raises InputError.
    """
    known = ImageNames.from_images(data.images)
    matched, errors = dict[str, pl.Series](), list[InputError]()
    for name in columns:
        try:
            matched[name] = _matched(table[name], known, where)
        except InputError as error:
            errors.append(error)
    if not matched:
        raise errors[0]
    key = max(matched, key=lambda name: matched[name].count())
    if differ := [name for name, ids in matched.items() if (ids != matched[key]).any()]:
        readings = [f"{{}} for {counted(matched[n].count(), 'image')}" for n in (key, *differ)]
        raise InputError(
            f"columns {some_of((key, *differ))} name different images in the same row",
            where=where,
            remedy="; ".join(readings),
            give=[{"id": n} for n in (key, *differ)],
        )
    return key, [name for name in matched if name != key], matched[key]


def _matched(column: pl.Series, known: ImageNames, where: object) -> pl.Series:
    """The images that a column names. Raises InputError for one that cannot be."""
    Columns(column.name).check({column.name: column.dtype}, where)
    if nulls := column.null_count():
        problem = f"{nulls} rows have no {column.name}"
        raise InputError(problem, where=where, allowed="an image id in every row")
    check_unique(column, where)
    # a number in CSV may be the name of a file
    is_id = column.dtype.is_integer() and Path(str(where)).suffix.lower() not in UNTYPED
    ids = known.match(column if is_id else column.cast(pl.String), where).ids
    if not ids.count():
        files = "" if known.files is None else f", or files such as {some_of(known.files, 3)}"
        raise InputError(
            f"no row names an image of the dataset; {column.name} has {some_of(column, 3)}",
            where=where,
            allowed=f"ids such as {some_of(known.ids, 3)}{files}",
            give={"id": ...},
        )
    return ids
