"""COCO's results of object detection -> predictions: the largest score of a class in an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.base.limits import BROKEN_JSON
from nooch.data.data_files import checked_read
from nooch.data.readers.cocostuff import COCOSTUFF, COCOSTUFF_IDS
from nooch.evaluation.known_images import KnownImages
from nooch.evaluation.prediction_format import PredictionFormat
from nooch.evaluation.predictions import Predictions, positions

__all__ = ["detected", "with_undetected"]

_ALLOWED = "COCO results: a list of image_id, category_id, score (0 to 1), and others such as bbox"
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Detection(msgspec.Struct, gc=False):
    image_id: _Integer | str
    category_id: _Integer
    score: Annotated[float, msgspec.Meta(ge=0, le=1)]


def detected(path: Path, classes: Sequence[str], how: PredictionFormat) -> pl.DataFrame:
    """``image_id, task, probability`` of the classes that were detected in each image.

    Args:
        path: COCO results.
        classes: of the dataset; where they have COCO's 80, category ids are COCO's.
        how: the format, whose ``classes`` name other category ids.

    Raises:
        InputError: no COCO results, scores outside [0, 1], categories without a name.
    """
    try:
        content = checked_read(path, path.read_bytes)
        found = msgspec.json.decode(content, type=list[_Detection])
    except BROKEN_JSON as error:
        raise InputError(f"cannot be read: {error}", where=path, allowed=_ALLOWED) from error
    ids = [one.image_id for one in found]
    ids = [*map(str, ids)] if any(isinstance(image_id, str) for image_id in ids) else ids
    things = {COCOSTUFF_IDS[name]: name for name, kind in COCOSTUFF.items() if kind == "thing"}
    names = how.named() or (things if {*things.values()} <= {*classes} else {})
    categories = [one.category_id for one in found]
    unnamed = sorted({*categories} - names.keys())
    # names alone are counted from 0, and ids may start at 1
    if not unnamed and 0 in names and 0 not in categories and not str(how.classes).endswith("json"):
        unnamed = sorted({*categories})
    if unnamed:
        raise InputError(
            f"no class name is known for category ids {some_of(unnamed)}",
            where=path,
            remedy="give `classes`: a COCO file with categories, or NUMBER NAME per line",
        )
    tasks = pl.Series(categories, dtype=pl.Int64).replace_strict(names, return_dtype=pl.String)
    scores = pl.Series([one.score for one in found], dtype=pl.Float64)
    table = pl.DataFrame({"image_id": ids, "task": tasks, "probability": scores})
    return table.group_by("image_id", "task", maintain_order=True).max()


def with_undetected(run: Predictions, images: KnownImages, how: PredictionFormat) -> Predictions:
    """Detections with probability 0 for what was not detected, in ``how.ids`` or else in all images
    of the splits in which anything was detected.
    """
    ids = how.listed()
    if ids is None:
        table = images.table.with_columns(pl.col("image_id").cast(run.image_ids.dtype))
        seen = table.join(pl.DataFrame(run.image_ids), on="image_id")["split"].unique()
        ids = table.filter(pl.col("split").is_in(seen.implode()))["image_id"]
    else:
        ids, _ = images.ids_of(ids, "`ids`")
    ids = ids.cast(run.image_ids.dtype, strict=False)
    at = positions(run.image_ids, ids)
    if (at < 0).any():
        raise InputError(
            f"images were detected in that are not listed:"
            f" {some_of(run.image_ids.filter(pl.Series(at < 0)))}",
            where=f"run {run.run}",
            remedy="give all images as `ids`, or a suite or dataset",
        )
    values = np.zeros((len(run.tasks), len(ids)))
    values[:, at] = np.nan_to_num(run.values)
    about = f"COCO detections, {len(ids) - len(at):,} images without any"
    read = run.read.replace('column "probability"', about)
    return replace(run, image_ids=ids, values=values, read=read)
