"""Ultralytics' ``image_metrics``: how many objects of an image were found and missed, of any class,
and how many boxes were false.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.base.words import counted
from nooch.data import Dataset, id_column
from nooch.data.any_class import with_any_class
from nooch.data.image_names import IMAGE_COLUMNS
from nooch.data.table_schema import OF_ANY_CLASS
from nooch.evaluation.boxes.matching import Boxes, FoundObjects, Integers
from nooch.evaluation.predictions import Predictions

METRICS = _RATES, _COUNTS = ("precision", "recall", "f1"), ("tp", "fp", "fn")
"""Columns that a table of ``image_metrics`` has, either three."""
_MANY = 3
"""False boxes for each object, above which the confidence was probably not chosen."""


def image_metrics(frame: pl.DataFrame, run: str, where: str) -> Predictions:
    """The run of a table ``image, tp, fp, fn``. Raises InputError for another one, such as of only
    precision and recall, and for values that are not counts.
    """
    named = {name.strip().lower(): name for name in frame.columns}
    image = next((named[name] for name in IMAGE_COLUMNS if name in named), None)
    if image is None:
        raise InputError("image_metrics without a column image", where=where,
                         allowed="the file name of each image")  # fmt: skip
    if lacking := [name for name in _COUNTS if name not in named]:
        raise InputError(
            f"image_metrics without {some_of(lacking)}: rates do not tell how many objects they"
            " are of", where=where, allowed="tp, fp and fn of each image",
            remedy="update ultralytics (8.4.190 writes them), and run val again",
        )  # fmt: skip
    counts = frame.select(pl.col(named[name]).alias(name) for name in _COUNTS)
    numbers = counts.select(pl.all().cast(pl.Float64, strict=False)).to_numpy()
    bad = ~((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < 1 << 31))
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        problem = f"{_COUNTS[column]} of image {frame[image][row]} is {counts.row(row)[column]!r}"
        raise InputError(problem, where=where, allowed="counts: 0, 1, 2, ...")
    tp, fp, fn = numbers.astype(np.int64).T
    at, false = np.arange(len(tp)), int(fp.sum())
    objects = np.concatenate([np.repeat(at, tp), np.repeat(at, fn)])
    n_found = int(tp.sum())
    many = f"warning: {false:,} false boxes for {counted(len(objects), 'object')}: val counts boxes"
    many += " above a confidence of 0.001, if none is given; choose one: model.val(conf=0.25)"
    is_found, sizes = np.arange(len(objects)) < n_found, np.zeros(len(objects), np.int64)
    false_boxes = _placeless(np.repeat(at, fp), 1)
    return Predictions(
        run, id_column(frame[image], where), OF_ANY_CLASS,
        np.stack([tp + fp > 0, fp > 0]).astype(np.float64), "probability",
        read=f"{counted(len(objects), 'object')} of any class (image_metrics of ultralytics),"
        f" {counted(len(objects) - n_found, 'object')} missed, {counted(false, 'false box')}",
        notes=(many,) * (false > _MANY * len(objects)),
        objects=FoundObjects(_placeless(objects, 0), sizes, is_found, false_boxes),
    )  # fmt: skip


def _placeless(image: Integers, label: int) -> Boxes:
    return Boxes(image, np.full(len(image), label), np.full((len(image), 4), np.nan))


def data_of_counts(data: Dataset, runs: Sequence[Predictions]) -> tuple[Dataset, list[str]]:
    """The dataset, ``with_any_class`` if runs are ``image_metrics``; and a note on images whose
    objects are more or fewer than those that were counted.
    """
    counting = [run for run in runs if run.tasks == OF_ANY_CLASS and run.objects is not None]
    if not counting:
        return data, []
    if len(counting) < len(runs):
        others = some_of(run.run for run in runs if run not in counting)
        problem = f"image_metrics have no classes, and other predictions do: {others}"
        raise InputError(problem, where="predictions", allowed="one of both kinds at a time")
    notes = [note for run in counting for note in _other_objects(run, data)]
    return with_any_class(data), notes


def _other_objects(run: Predictions, data: Dataset) -> list[str]:
    """A note if the dataset has other objects than those that were counted."""
    if data.objects is None or run.objects is None:
        return []
    ids = data.objects["image_id"]
    annotated = ids.filter(~data.objects["crowd"]).value_counts()
    known = run.image_ids.cast(ids.dtype, strict=False).to_frame("image_id")
    theirs = known.join(annotated, on="image_id", how="left", maintain_order="left")["count"]
    n = np.bincount(run.objects.boxes.image, minlength=len(run.image_ids))
    if not (differ := int((theirs.fill_null(0).to_numpy() != n).sum())):
        return []
    than = f"than the dataset has in {differ:,} of {counted(len(n), 'image')}"
    return [f"warning: {run.run} counts more or fewer objects {than}; validate on the same labels"]
