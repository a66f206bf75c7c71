"""Open Images: a table with a row for each box."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import polars as pl

from nooch.base.errors import InputError, check_one_of, reason_of, some_of
from nooch.data import class_name, read_table
from nooch.data.readers.box_rows import LEEWAY, BoxTable, check_box

__all__ = ["find_openimages"]

_EDGES = ("XMin", "XMax", "YMin", "YMax")


def find_openimages(file: Path, classes: Path | None, images: Path | None) -> BoxTable:
    """Boxes of a table; parameters and errors as of ``nooch.data.readers.boxes.read_boxes``."""
    del images  # a table names no images
    return BoxTable(source=file, names_of=partial(_names, file, classes), read=partial(_read, file))


def _read(file: Path) -> pl.DataFrame:
    """The boxes of each image, in the order of rows."""
    table = read_table(file)
    for name in ("ImageID", "LabelName", *_EDGES):
        check_one_of("column", name, table.columns, owner=str(file))
    table = table.select(pl.col("ImageID", "LabelName").cast(pl.String), *_EDGES)
    if bare := table.filter(pl.any_horizontal(pl.col("ImageID", "LabelName").is_null())).height:
        raise InputError(
            f"{bare} rows have no ImageID or no LabelName", where=file, allowed="both in every row"
        )
    try:
        table = table.with_columns(pl.col(_EDGES).cast(pl.Float64))
    except pl.exceptions.PolarsError as error:
        reason = reason_of(error)
        raise InputError(f"edges are no numbers: {reason}", where=file) from error
    left, right, top, bottom = (pl.col(edge) for edge in _EDGES)
    # the same bounds as ``check_box``, which raises for the first box outside them
    inside = [
        pl.all_horizontal(low >= -LEEWAY, low <= high, high <= 1 + LEEWAY)
        for low, high in ((left, right), (top, bottom))
    ]
    is_inside = pl.all_horizontal(inside).fill_null(value=False)
    outside = table.with_row_index("row", 1).filter(~is_inside).head(1)
    for row, *box in outside.select("row", pl.col(_EDGES).fill_null(float("nan"))).iter_rows():
        check_box(box, f"{file}, row {row}")
    boxes = table.select(stem="ImageID", keys="LabelName", areas=(right - left) * (bottom - top))
    return boxes.group_by("stem", maintain_order=True).agg("keys", "areas")


def _names(file: Path, classes: Path | None, keys: Sequence[str]) -> dict[str, str]:
    if classes is None:
        return {key: class_name(key, file) for key in keys}
    options = {"has_header": False} if classes.suffix == ".csv" else {}
    listed = read_table(classes, **options)
    if listed.width < 2:
        raise InputError("has one column", where=classes, allowed="LabelName, name")
    known = {str(row[0]): class_name(str(row[1]), classes) for row in listed.iter_rows()}
    if unknown := [key for key in keys if key not in known]:
        raise InputError(
            f"labels {some_of(unknown)} have no name",
            where=classes,
            allowed="a row LabelName, name for each label",
        )
    return {key: known[key] for key in keys}
