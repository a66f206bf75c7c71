"""Objects without their background, detected again: is it the context, or the cut around them?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress
from nooch.base.errors import InputError, ParameterError, some_of
from nooch.base.limits import spread, usable_cpus
from nooch.base.words import counted
from nooch.data import Dataset
from nooch.data.box_columns import as_boxes
from nooch.data.objects import BOX, overlaps
from nooch.evaluation import Predictions
from nooch.evaluation.bootstrap import BootstrapDraws, intervals
from nooch.evaluation.boxes.matched import IOU
from nooch.evaluation.context_rates import context_rates
from nooch.evaluation.predictions import positions
from nooch.models.images import Decoding, decode_whole
from nooch.models.pixel_batches import read_in_order
from nooch.models.task_models import TaskModel
from nooch.report.images.cue_masks import ObjectMasks, object_masks
from nooch.suites import Suite

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

WAYS = ("whole", "mask", "box")
"""Ways to show an object: in the whole image; only its mask; only its box and 10% around it."""
AROUND = 0.1
"""Share of a box's width and height that is kept on each of its sides."""
LARGE = 96
"""Side in pixels, the root of the box's area, of objects that are large, as COCO has them."""
_NAMES = {"all": "objects", "large": f"objects of at least {LARGE} pixels"}
_CELLS = ("hard_positive", "easy_positive")
_SAME = 0.5
"""Pixels by which a dataset's box and the annotation's may differ, from rounding."""
_CHANGES = (("whole", "box"), ("box", "mask"), ("whole", "mask"))


def only(pixels: NDArray[np.uint8], kept: Mask) -> NDArray[np.uint8]:
    """The kept pixels; the others, of which there must be one, have their mean color."""
    # what is kept is small: its sum is quicker than the rest's
    rest = pixels.sum(axis=(0, 1)) - pixels[kept].sum(axis=0)
    color = (rest / (~kept).sum()).round().astype(np.uint8)
    return np.where(kept[:, :, None], pixels, color)


def around(box: Floats, shape: Sequence[int]) -> Mask:
    """The pixels of a box (left, top, width, height) and of ``AROUND`` on each side."""
    start, sides = box[:2], box[2:]
    low = np.floor(np.maximum(start - AROUND * sides, 0)).astype(int)
    high = np.ceil(start + (1 + AROUND) * sides).astype(int)
    mask = np.zeros(shape[:2], bool)
    mask[low[1] : high[1], low[0] : high[0]] = True
    return mask


def objects_of(
    data: Dataset, files: pl.DataFrame, tasks: Sequence[str], limit: int | None
) -> pl.DataFrame:
    """The objects of a split that count, with the ``path`` of their images, which ``files`` has; in
    ``limit`` of these, evenly spread.
    Raises ParameterError: a dataset without objects; InputError: a split without one.
    """
    if data.objects is None:
        problem = "the dataset has no objects with boxes"
        remedy = "import the annotations again, from COCO files of instances with masks"
        raise ParameterError(problem, remedy=remedy)
    counts = ~pl.col("crowd") & ~pl.col("ignore") & pl.col("class").is_in(list(tasks))
    objects = data.objects.filter(counts).join(files, on="image_id", maintain_order="left")
    if not objects.height:
        raise InputError(f"the split has no object of {some_of(tasks)}", allowed="at least one")
    images = objects["image_id"].unique(maintain_order=True)
    chosen = images[spread(len(images), limit)]
    return objects.filter(pl.col("image_id").is_in(chosen.implode()))


def shown_objects(
    model: TaskModel,
    before: Predictions,
    data: Dataset,
    objects: pl.DataFrame,
    annotations: Sequence[str | Path],
    decoding: Decoding,
    progress: Progress,
) -> tuple[pl.DataFrame, list[str]]:
    """Objects with their scores in each of ``WAYS``, and a note on objects without a mask.

    An object's score is the largest one of a box of its class that overlaps it by at least .5; 0
    without any.

    Args:
        model: a detector.
        before: its boxes in whole images.
        data: the dataset.
        objects: from ``objects_of``.
        annotations: COCO files with the objects' masks.
        decoding: how image files become pixels.
        progress: called with images done, of all that have objects.

    Raises:
        InputError: no object has a mask; images or annotations that cannot be read.
        ParameterError: a folder of label maps.
    """
    detect, boxes = model.detect, before.boxes
    # a detector's predictions have boxes
    assert detect is not None  # noqa: S101
    assert boxes is not None  # noqa: S101
    if any(Path(path).is_dir() for path in annotations):
        problem = "a folder of label maps does not separate objects of a class"
        raise ParameterError(problem, where="`annotations`", allowed="COCO files of instances")
    groups = objects.partition_by("image_id", maintain_order=True)
    masks = object_masks(data, annotations, {*objects["image_id"]}, model.tasks, with_boxes=False)
    place = positions(pl.Series([g["image_id"][0] for g in groups]), before.image_ids)
    order = np.argsort(boxes.boxes.image, kind="stable")
    first, last = (np.searchsorted(boxes.boxes.image[order], place, s) for s in ("left", "right"))
    read = partial(decode_whole, codec=decoding)
    images = read_in_order(read, [g["path"][0] for g in groups], usable_cpus())
    rows = list[dict[str, Any]]()
    for number, (group, pixels) in enumerate(zip(groups, images, strict=True)):
        progress("predicting objects", number, len(groups))
        found = order[first[number] : last[number]]
        whole = boxes.boxes.label[found], boxes.boxes.box[found], boxes.scores[found]
        for row, mask in _masked(group, masks, pixels.shape):
            box = np.array([row[side] for side in BOX])
            kept = mask, around(box, pixels.shape)
            # what fills the image is left as it is
            edited = detect([pixels if k.all() else only(pixels, k) for k in kept])
            ways = [whole, *((b.labels, as_boxes(b.boxes, "xyxy"), b.scores) for b in edited)]
            task = model.tasks.index(row["task"])
            rows.append(row | {n: _score(w, task, box) for n, w in zip(WAYS, ways, strict=True)})
    progress("predicting objects", len(groups), len(groups))
    if not rows:
        allowed = "COCO files of instances, from which the dataset was made"
        raise InputError("no object of the split has a mask", allowed=allowed)
    bare = objects.height - len(rows)
    notes = [f"{counted(bare, 'object')} without a mask left out"] if bare else []
    return pl.DataFrame(rows, infer_schema_length=None), notes


def _masked(
    group: pl.DataFrame, masks: ObjectMasks, shape: Sequence[int]
) -> Iterator[tuple[dict[str, Any], Mask]]:
    """The objects of an image that have a mask, with it."""
    annotated = [*masks(group["image_id"][0])]
    for image_id, name, *box in group.select("image_id", "class", *BOX).rows():
        for of_class, own, mask in annotated:
            is_same = own is not None and np.abs(np.subtract(own, box)).max() <= _SAME
            if is_same and of_class == name and mask.shape == tuple(shape[:2]) and mask.any():
                yield {"image_id": image_id, "task": name, **dict(zip(BOX, box, strict=True))}, mask
                break


def _score(found: tuple[NDArray[np.int64], Floats, Floats], task: int, box: Floats) -> float:
    labels, boxes, scores = found
    overlap = overlaps(boxes, box[None], np.zeros(1, bool))
    return float(scores[(labels == task) & (overlap >= IOU)].max(initial=0))


def compared_ways(
    objects: pl.DataFrame,
    limits: Mapping[str, float],
    suite: Suite,
    split: str,
    bootstrap: int,
    seed: int,
) -> tuple[pl.DataFrame, list[str]]:
    """Recall in each way and its changes, and sentences.

    The table has ``criterion, subset, n, measure`` (``recall`` or ``change``), ``way, baseline,
    value, low, high``: of all objects, of ``large`` ones, and by criterion of those in
    ``hard_positive`` and ``easy_positive`` images. Intervals are of images, or groups: of recall
    Wilson's of as many objects as would tell as much if they were independent, of changes
    percentiles of the bootstrap.

    Args:
        objects: from ``shown_objects``.
        limits: task -> the score above which an object is found.
        suite: whose verdicts on the images.
        split: the objects' split.
        bootstrap: resamples.
        seed: seed of the resamples.
    """
    limit = pl.col("task").replace_strict(limits, return_dtype=pl.Float64)
    found, units = objects.with_columns(pl.col(*WAYS) > limit), suite.units(objects["image_id"])
    found = found if units is None else found.with_columns(unit=pl.Series(units))
    pair = ["image_id", "task"]
    is_large = pl.col("width") * pl.col("height") >= LARGE**2
    parts = [("", "all", found), ("", "large", found.filter(is_large))]
    for criterion in suite.criteria:
        keys = [key for key in suite.keys if (key[0], key[2]) == (criterion, split)]
        if keys:
            judged = found.join(suite.cells(keys).drop("unit", strict=False), on=pair)
            parts += [(criterion, cell, judged.filter(cell=cell)) for cell in _CELLS]
    rows, sentences = list[dict[str, Any]](), list[str]()
    for criterion, subset, part in parts:
        if part.height:
            about = {"criterion": criterion or None, "subset": subset, "n": part.height}
            rows += [about | row for row in _measured(part, bootstrap, seed)]
            name = _NAMES.get(subset, f"objects of {subset.replace('_', ' ')}s")
            by = f" by {criterion}" if criterion and len(suite.criteria) > 1 else ""
            sentences.append(_sentence(rows[-6:], f"Of {part.height:,} {name}{by}"))
    return pl.DataFrame(rows, infer_schema_length=None), sentences


def _measured(part: pl.DataFrame, bootstrap: int, seed: int) -> Iterator[dict[str, Any]]:
    for way in WAYS:
        rates = context_rates(part.with_columns(yes=way, cell=pl.lit(_CELLS[0])), bootstrap=0)
        e = rates.estimates["rate", _CELLS[0]]
        numbers = {"value": e.value, "low": e.low, "high": e.high}
        yield {"measure": "recall", "way": way, "baseline": None, **numbers}
    units, unit = np.unique(
        part["unit" if "unit" in part.columns else "image_id"], return_inverse=True
    )
    draws = BootstrapDraws(len(units), bootstrap, seed)
    n = np.bincount(unit)
    for baseline, way in _CHANGES:
        change = part[way].cast(pl.Int8).to_numpy() - part[baseline].cast(pl.Int8).to_numpy()
        sums = np.stack([np.bincount(unit, change), n])
        drawn = [sums @ weights for _, weights in draws.weights(slice(None))]
        replicates = np.concatenate([np.zeros((2, 0)), *drawn], axis=1)
        low, high = np.nan, np.nan
        if replicates.size:
            low, high, _ = map(
                float, intervals(replicates[0] / replicates[1], np.array(len(units)))
            )
        ends = (None, None) if not low < high else (low, high)
        numbers = dict(zip(("value", "low", "high"), (float(change.mean()), *ends), strict=True))
        yield {"measure": "change", "way": way, "baseline": baseline, **numbers}


def _sentence(rows: Sequence[Mapping[str, Any]], what: str) -> str:
    whole, mask, box, beyond, cut, _ = (_shown(row) for row in rows)
    return (
        f"{what}, {whole} are found in the whole image, {mask} cut out by the mask, {box} with the"
        f" box + 10% kept: the context beyond the box changes recall by {beyond} points, the cut"
        f" along the outline by {cut}"
    )


def _shown(row: Mapping[str, Any]) -> str:
    sign, unit = ("+", "") if row["measure"] == "change" else ("", "%")
    value, *ends = (100 * (row[name] or 0) for name in ("value", "low", "high"))
    interval = "" if row["low"] is None else f" [{', '.join(f'{end:{sign}.1f}' for end in ends)}]"
    return f"{value:{sign}.1f}{unit}{interval}"
