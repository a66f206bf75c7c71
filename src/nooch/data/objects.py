"""Objects of a dataset: a row for each annotated box, crowd regions among them.

Columns: ``image_id``, ``class``, ``left``, ``top``, ``width``, ``height``, ``area``, ``crowd``,
``ignore``. Boxes are in pixels, and areas in square pixels, where the size of the image is known;
else both are fractions of the image. Boxes are as annotated, never clipped.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, some_of
from nooch.base.files import DATASET_MARKER
from nooch.data.table_schema import OBJECTS, check_columns, dataset_error

BOX = ("left", "top", "width", "height")
"""Columns of a box."""

LEEWAY = 1e-3
"""Tolerance of boxes beyond the edge of their image, as a fraction: annotation tools round
outwards. Where its size is known, it is a pixel.
"""

NOTES = {
    "boxless": (
        "{n} annotations of objects have no usable box (four numbers, a width and height of at"
        " least 0): they are not among the objects"
    ),
    "unsized": (
        "{n} images have boxes in pixels and no known size: these are not among the objects, and"
        " their areas are unknown; give the folder of the images"
    ),
    "outside": "{n} boxes reach more than a pixel beyond their image: they are kept as they are",
}
"""Counts of ``usable_boxes`` -> their notes."""


def usable_boxes(
    boxes: NDArray[np.float64],
    width: NDArray[Any],
    height: NDArray[Any],
    counts: MutableMapping[str, int],
) -> NDArray[np.bool_]:
    """Mask of the usable boxes, bool (n,): the others, NaN or of negative extent, are counted as
    ``boxless``; and usable ones that leave their image as ``outside``.

    ``boxes``: left, top, width, height (n, 4); ``width`` and ``height``: of each one's image in
    pixels (n,), NaN where they are unknown and the box is in fractions.
    """
    left, top, wide, tall = boxes.T
    usable: NDArray[np.bool_] = np.isfinite(boxes).all(axis=1) & (wide >= 0) & (tall >= 0)
    leeway = np.where(np.isnan(width), LEEWAY, 1)
    outside = (left < -leeway) | (top < -leeway)
    outside |= left + wide > np.nan_to_num(width, nan=1) + leeway
    outside |= top + tall > np.nan_to_num(height, nan=1) + leeway
    counts["boxless"] = int((~usable).sum())
    counts["outside"] = int((usable & outside).sum())
    return usable


def objects_table(
    ids: pl.Series,
    classes: Sequence[str],
    rows: NDArray[Any],
    columns: NDArray[Any],
    boxes: NDArray[np.float64],
    areas: NDArray[np.float64] | None = None,
    crowd: NDArray[np.bool_] | None = None,
    ignore: NDArray[np.bool_] | None = None,
) -> pl.DataFrame:
    """Objects by image, in their own order within one.

    Args:
        ids: of the images, ascending.
        classes: names of all classes.
        rows: positions in ``ids`` (n,).
        columns: positions in ``classes`` (n,).
        boxes: left, top, width, height (n, 4).
        areas: of the annotations (n,); by default width x height.
        crowd: bool (n,); by default none.
        ignore: bool (n,); by default none.
    """
    order = np.argsort(rows, kind="stable")
    areas = boxes[:, 2] * boxes[:, 3] if areas is None else areas
    flags = {"crowd": crowd, "ignore": ignore}
    none = np.zeros(len(rows), dtype=bool)
    return pl.DataFrame(
        {
            "image_id": ids.gather(rows[order]),
            "class": pl.Series(classes, dtype=pl.Enum(list(classes))).gather(columns[order]),
            **{name: boxes[order, number] for number, name in enumerate(BOX)},
            "area": areas[order],
            **{name: (none if flag is None else flag)[order] for name, flag in flags.items()},
        }
    )


def needed_objects(objects: pl.DataFrame | None) -> pl.DataFrame:
    """The objects of a dataset. Raises ParameterError if it has none."""
    if objects is None:
        raise ParameterError(
            "the dataset has no objects with boxes",
            remedy="import the annotations again, with boxes: COCO or LVIS instances, YOLO, Pascal"
            " VOC, Open Images, or a table with a row per box",
        )
    return objects


def largest_boxes(objects: pl.DataFrame, images: pl.DataFrame, name: str) -> pl.DataFrame:
    """The box of a class's largest object in each image: ``left, top, right, bottom`` as fractions
    of the image's width and height, (n_images,); null without one. Largest is the annotated area,
    of equals the first; crowds and ignored objects do not count.
    """
    own = objects.filter(~pl.col("crowd"), ~pl.col("ignore"), pl.col("class").cast(str) == name)
    ordered = own.sort("area", descending=True, maintain_order=True)
    largest = ordered.unique("image_id", keep="first")
    sizes = images.select("image_id", wide=pl.col("width").fill_null(1),
                          tall=pl.col("height").fill_null(1))  # fmt: skip
    left, top, width, height = map(pl.col, BOX)
    return sizes.join(largest, on="image_id", how="left", maintain_order="left").select(
        left=left / pl.col("wide"),
        top=top / pl.col("tall"),
        right=(left + width) / pl.col("wide"),
        bottom=(top + height) / pl.col("tall"),
    )


def check_objects(
    objects: pl.DataFrame, images: pl.DataFrame, classes: Sequence[str]
) -> pl.DataFrame:
    """Objects as they are stored, in the order of images. Raises InputError: columns that are
    missing or contain what is not allowed, unknown images or classes.
    """
    kind = images["image_id"].dtype
    if "image_id" in objects.columns:
        objects = objects.with_columns(pl.col("image_id").cast(kind))
    check_columns(objects, OBJECTS, "objects", kind=InputError)
    stray = objects.join(images, on="image_id", how="anti")["image_id"].unique().sort()
    if len(stray):
        problem = f"objects are of images that are not in the dataset: {some_of(stray)}"
        raise InputError(problem, allowed="ids of the images")
    if others := _other_classes(objects, classes):
        problem = f"objects are of classes that are not in the dataset: {some_of(others)}"
        raise InputError(problem, allowed=some_of(classes))
    return of_classes(objects, classes).sort("image_id", maintain_order=True)


def stored_objects(table: pl.DataFrame, classes: Sequence[str], where: object) -> pl.DataFrame:
    """A table that was read. Raises FormatError for other classes."""
    if _other_classes(table, classes):
        raise dataset_error(f"it and {DATASET_MARKER} name other classes", where)
    return of_classes(table, classes)


def _other_classes(objects: pl.DataFrame, classes: Sequence[str]) -> list[str]:
    return sorted(set(objects["class"].unique().cast(pl.String)) - set(classes))


def of_classes(objects: pl.DataFrame, classes: Sequence[str]) -> pl.DataFrame:
    """The objects of some classes, as an enumeration of these."""
    kind, objects = pl.Enum(list(classes)), objects.select([*OBJECTS])
    if objects["class"].dtype == kind:
        return objects
    named = objects.with_columns(pl.col("class").cast(pl.String).cast(kind, strict=False))
    return named.drop_nulls("class")


def rescaled(objects: pl.DataFrame, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Objects of images whose sizes were others before, or unknown.

    ``before`` and ``after`` have the same images with their ``width`` and ``height``.
    """
    ratios = {
        side: after[side].fill_null(1) / before[side].fill_null(1) for side in ("width", "height")
    }
    if all((ratio == 1).all() for ratio in ratios.values()):
        return objects
    scales = pl.DataFrame({"image_id": before["image_id"], **ratios})
    joined = objects.select("image_id").join(
        scales, on="image_id", how="left", maintain_order="left"
    )
    across, down = joined["width"], joined["height"]
    return objects.with_columns(
        objects["left"] * across,
        objects["top"] * down,
        objects["width"] * across,
        objects["height"] * down,
        objects["area"] * across * down,
    )


def overlaps(
    found: NDArray[np.float64], objects: NDArray[np.float64], crowd: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Intersection over union of each pair of boxes, or over the detection for crowds: float64
    (n,), in [0, 1]. Boxes are left, top, width, height: float64 (n, 4).
    """
    left, top, width, height = found.T
    left_of, top_of, width_of, height_of = objects.T
    wide = np.minimum(left + width, left_of + width_of) - np.maximum(left, left_of)
    tall = np.minimum(top + height, top_of + height_of) - np.maximum(top, top_of)
    shared = np.where((wide > 0) & (tall > 0), wide * tall, 0.0)
    area = width * height
    whole = np.where(crowd, area, area + width_of * height_of - shared)
    # boxes without extent overlap nothing
    return np.asarray(np.divide(shared, whole, out=np.zeros(len(shared)), where=whole > 0))
