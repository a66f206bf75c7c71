"""Attributes of a dataset: columns of a custom table (context scores, cameras, places, years), and
properties of image files (brightness, contrast, sharpness, size, JPEG quality).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image
from scipy.ndimage import laplace

from nooch.base.calls import Progress, no_progress
from nooch.base.errors import InputError, some_of
from nooch.base.limits import usable_cpus
from nooch.base.words import counted
from nooch.data.dataset import Dataset
from nooch.data.image_names import UNTYPED, ImageNames
from nooch.data.importing.table_roles import image_columns
from nooch.data.readers.image_files import (
    UNREADABLE,
    ImageIndex,
    ValueRange,
    check_range,
    opened_image,
    rgb_of,
)
from nooch.data.readers.table_layouts import Columns
from nooch.data.table_schema import PROPERTIES, check_unique


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
        raise InputError("the table has only a column of ids", where=where, allowed=allowed)
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


_EVERY = 50

# Annex K of the JPEG standard, by rows: the luminance table that libjpeg scales by quality
_LUMINANCE = np.array([
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
])  # fmt: skip
_QUALITIES = np.arange(1, 101)
_SCALES = np.where(_QUALITIES < 50, 5000 // _QUALITIES, 200 - 2 * _QUALITIES)
_TABLES = np.clip((_LUMINANCE * _SCALES[:, None] + 50) // 100, 1, 255)


def image_properties(
    data: Dataset,
    images: str | Path | None = None,
    progress: Progress = no_progress,
    value_range: ValueRange | None = None,
) -> pl.DataFrame:
    """Properties of a dataset's images, upright and in RGB: ``image_id``, then ``brightness`` (mean
    luma, 0 to 1), ``contrast`` (its standard deviation, 0 to .5), ``sharpness`` (variance of the
    Laplacian of the luma of 0 to 255; small if blurred), ``saturation`` (mean of HSV's, 0 to 1),
    ``entropy`` (of the luma's 256 values, in bits, 0 to 8; small if there is little to see),
    ``aspect`` (width over height), ``megapixels`` and ``jpeg_quality`` (1 to 100: of libjpeg with
    the nearest table; null for other formats). Null where a file is missing or cannot be read.

    Args:
        data: the dataset.
        images: folder of images; by default the one that the dataset records.
        progress: called with what is being done, and how many of how many images are done.
        value_range: black and white of wide images; by default those that the dataset records.

    Raises:
        InputError: no folder, none of the images in it, or columns that the dataset has already.
        ParameterError: a range that is not two ascending numbers.
    """
    check_range(value_range)
    if clash := [name for name in PROPERTIES if name in data.images.columns]:
        problem = f"the dataset has columns {some_of(clash)} already"
        raise InputError(problem, where="image properties", allowed="a dataset without them")
    index = ImageIndex.from_dataset(data, images, "images")
    ids, names = data.images["image_id"], data.images["file_name"].to_list()
    files = [name and index.by_file_name(name) for name in names]
    if not any(files):
        problem = f"none of the dataset's images is there: {some_of(names)}"
        raise InputError(problem, where=index.root, give={"images": ...})
    paths = [index.root / file if file else None for file in files]
    rows, value_range = [], value_range or data.value_range
    # Pillow decodes and NumPy computes without holding the interpreter
    with ThreadPoolExecutor(usable_cpus()) as pool:
        for done, row in enumerate(pool.map(lambda p: _of(p, value_range), paths), 1):
            rows.append(row)
            if done % _EVERY == 0 or done == len(paths):
                progress("measuring images", done, len(paths))
    return pl.DataFrame([ids, *pl.DataFrame(rows, PROPERTIES, orient="row")])


def measured(
    data: Dataset,
    split: str,
    images: str | Path | None,
    progress: Progress = no_progress,
    value_range: ValueRange | None = None,
) -> tuple[Dataset, list[str]]:
    """The dataset with ``image_properties`` of a split, and a note on images that have none."""
    table = image_properties(data.select(split), images, progress, value_range)
    return with_attributes(data, table), unread_notes(table)


def unread_notes(table: pl.DataFrame) -> list[str]:
    """A note on images without ``image_properties``, if there are any."""
    missing = table.filter(pl.col("megapixels").is_null())["image_id"]
    files = f"{counted(len(missing), 'image')} missing or unreadable, without properties"
    return [f"{files}: {some_of(missing)}"] if len(missing) else []


def _of(path: Path | None, value_range: ValueRange | None) -> tuple[float | None, ...]:
    try:
        if path is None:
            return (None,) * len(PROPERTIES)
        with opened_image(path) as opened:
            quality, picture = jpeg_quality(opened), rgb_of(opened, value_range)
    except UNREADABLE:
        return (None,) * len(PROPERTIES)
    gray = picture.convert("L")
    luma = np.asarray(gray).astype(np.float32)
    saturation = np.asarray(picture.convert("HSV").getchannel("S"))
    return (
        float(luma.mean(dtype=np.float64)) / 255,
        float(luma.std(dtype=np.float64)) / 255,
        float(laplace(luma).var(dtype=np.float64)),
        float(saturation.mean(dtype=np.float64)) / 255,
        gray.entropy() + 0.0,  # never -0
        picture.width / picture.height,
        picture.width * picture.height / 1e6,
        quality,
    )


def jpeg_quality(opened: Image.Image) -> int | None:
    """Quality of libjpeg, 1 to 100, whose luminance table is nearest; None without a table."""
    tables = getattr(opened, "quantization", None) or {}
    if 0 not in tables:
        return None
    return int(_QUALITIES[np.abs(_TABLES - np.array(tables[0])).sum(axis=1).argmin()])
