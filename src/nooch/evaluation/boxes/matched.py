"""Boxes of a detector matched to a dataset's objects: objects found and missed, false boxes; and
whether the context decides which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.errors import Command, InputError, ParameterError, some_of
from nooch.base.words import readable
from nooch.data import Dataset
from nooch.data.objects import BOX, needed_objects, objects_table
from nooch.evaluation.bootstrap import FEWEST
from nooch.evaluation.boxes.matching import (
    Boxes,
    Detections,
    Floats,
    FoundObjects,
    Integers,
    Matches,
    match_boxes,
)
from nooch.evaluation.metrics.rate_gaps import rate_gap
from nooch.evaluation.predictions import Predictions, positions
from nooch.evaluation.thresholds import RunThresholds, listed
from nooch.suites import ChallengeSet, Suite

IOU = 0.5
"""Overlap (intersection over union) from which a detection is of an object."""
RECALL_IOU = tuple(np.linspace(0.5, 0.95, 10).tolist())
"""Overlaps that COCO's average recall is over."""
NEAR = 0.1
"""Overlap from which a false box is a misplaced one, as in TIDE (Bolya et al. 2020)."""
SIZES = (16, 32, 64, 96, 160)
"""Edges between sizes of objects: the square root of the box's area, in pixels."""
_USUAL = 640
"""Pixels of the sides of an image whose size is not known."""


@dataclass(frozen=True, eq=False)
class MatchedRun:
    """The boxes of a run and the objects of its tasks in its images, matched.

    Attributes:
        run: the predictions.
        detections: their boxes, in the units of the objects.
        objects: those that count: rows of the run's images, positions of its tasks.
        sizes: int64 (n_objects,), 0 for the smallest to 5, see ``SIZES``.
        found_at: float64 (n_objects,), the score of the detection that found it; -1: none did.
        recalled: float64 (n_objects,), the share of ``RECALL_IOU`` at which any detection finds it;
            0 where that was not wanted.
        kinds: int8 (n_detections,), positions in ``KINDS``.
    """

    run: Predictions
    detections: Detections
    objects: Boxes
    sizes: Integers
    found_at: Floats
    recalled: Floats
    kinds: NDArray[np.int8]

    @classmethod
    def match(
        cls, run: Predictions, data: Dataset, iou: float = IOU, *, recall: bool = True
    ) -> Self:
        """Match a run to a dataset's objects; images that the dataset lacks have none.

        Args:
            run: with boxes.
            data: with objects.
            iou: the least overlap of a detection with the object it finds, in (0, 1].
            recall: match at each of ``RECALL_IOU`` as well, which takes ten times as long.

        Raises:
            InputError: boxes in pixels of images whose size is not known.
            ParameterError: a run without boxes, a dataset without objects.
        """
        detections, table = run.boxes, needed_objects(data.objects)
        if detections is None:
            raise without_boxes(run)
        ids, images = run.image_ids, data.images
        rows = positions(ids.cast(images["image_id"].dtype, strict=False), images["image_id"])
        found = _in_units_of(detections.boxes, detections.in_fractions, rows, images, run.run)
        places = dict(zip(run.tasks, range(len(run.tasks)), strict=True))
        names = table["class"].cast(pl.String)
        label = names.replace_strict(places, default=-1, return_dtype=pl.Int64).to_numpy()
        image = positions(table["image_id"], ids.cast(table["image_id"].dtype, strict=False))
        kept = np.flatnonzero((label >= 0) & (image >= 0))
        box = table.select(BOX).to_numpy()[kept]
        objects = Boxes(image[kept], label[kept], box.astype(np.float64))
        crowd, ignored = (table[name].to_numpy()[kept] for name in ("crowd", "ignore"))
        overlaps = [iou, *(least for least in RECALL_IOU if recall and least != iou)]
        matches = match_boxes(found, detections.scores, objects, crowd, ignored, iou=overlaps)
        counted = ~(crowd | ignored)
        found_at = np.full(len(kept), -1.0)
        hits = matches.is_counted[0] & (matches.matched[0] >= 0)
        found_at[matches.matched[0, hits]] = detections.scores[hits]
        recalled = np.zeros(len(kept))
        for number, least in enumerate(overlaps):
            if recall and least in RECALL_IOU:
                at, is_counted = matches.matched[number], matches.is_counted[number]
                recalled[at[is_counted & (at >= 0)]] += 1 / len(RECALL_IOU)
        side = np.sqrt(objects.box[:, 2] * objects.box[:, 3])
        is_fraction = images["width"].is_null().to_numpy()[rows[objects.image]]
        sizes = np.searchsorted(SIZES, side * np.where(is_fraction, _USUAL, 1), "right")
        return cls(
            run,
            replace(detections, boxes=found),
            Boxes(objects.image[counted], objects.label[counted], objects.box[counted]),
            sizes[counted],
            found_at[counted],
            recalled[counted],
            _kinds(matches, iou),
        )

    def found(self, limits: Mapping[str, float]) -> FoundObjects:
        """The objects, and whether a detection with a score above the limit of its task, in [0, 1],
        found them.
        """
        least, above = self._limits(limits)
        rows = np.flatnonzero((self.detections.scores > above) & np.isin(self.kinds, _FALSE))
        boxes = self.detections.boxes
        false = Boxes(boxes.image[rows], boxes.label[rows], boxes.box[rows])
        return FoundObjects(self.objects, self.sizes, self.found_at > least, false)

    def _limits(self, limits: Mapping[str, float]) -> tuple[Floats, Floats]:
        """The limit for each object and for each detection."""
        of_task = np.array([limits.get(task, 0.5) for task in self.run.tasks])
        return of_task[self.objects.label], of_task[self.detections.boxes.label]

    def claims(self, task: str, places: Integers, limit: float) -> Integers:
        """The row in a set of each box of the task that overlaps no object, with a score above the
        limit: int64 (n,). ``places``: as for ``missed``.
        """
        boxes, scores = self.detections.boxes, self.detections.scores
        is_claim = (boxes.label == self.run.tasks.index(task)) & (scores > limit)
        is_claim &= self.kinds == KINDS.index("false_boxes")
        row = places[boxes.image[is_claim]]
        return np.asarray(row[row >= 0])

    def counts(self, limits: Mapping[str, float]) -> dict[str, csr_array]:
        """Sums of each task and image, float64 CSR (n_tasks, n_images), with the detections whose
        score is above the task's limit, in [0, 1].

        ``objects`` are those that count, ``found`` and ``recalled`` as the attributes; and false
        detections by ``KINDS``.
        """
        run, detections = self.run, self.detections
        shape = len(run.tasks), len(run.image_ids)
        least, above = self._limits(limits)
        of_objects, of_boxes = self.objects, detections.boxes
        sums = {
            "objects": np.ones(len(of_objects)),
            "found": (self.found_at > least).astype(np.float64),
            "recalled": self.recalled,
        }
        counts = {name: _by_image(of_objects, values, shape) for name, values in sums.items()}
        for kind in FALSE:
            is_kind = ((detections.scores > above) & (self.kinds == KINDS.index(kind))).astype(
                np.float64
            )
            counts[kind] = _by_image(of_boxes, is_kind, shape)
        return counts

    def f1_limits(self, images: pl.Series) -> dict[str, float]:
        """The limit of the largest F1 of each task on some images: harmonic mean of precision and
        recall of boxes. Duplicates and misplaced boxes are false; 0.5 without objects there.

        Candidates are the middles between neighboring scores; of several best ones the highest.
        """
        run, all_scores = self.run, self.detections.scores
        inside = run.image_ids.is_in(images.cast(run.image_ids.dtype).implode()).to_numpy()
        n_objects = np.bincount(self.objects.label[inside[self.objects.image]],
                                minlength=len(run.tasks))  # fmt: skip
        boxes, ignored = self.detections.boxes, KINDS.index("ignored")
        rows = np.flatnonzero(inside[boxes.image] & (self.kinds != ignored))
        rows = rows[np.lexsort((-all_scores[rows], boxes.label[rows]))]
        ends = np.searchsorted(boxes.label[rows], np.arange(len(run.tasks) + 1))
        limits = {}
        for number, task in enumerate(run.tasks):
            own = rows[ends[number] : ends[number + 1]]
            limits[task] = 0.5
            if not len(own) or not n_objects[number]:
                continue
            scores = all_scores[own]
            hits = np.cumsum(self.kinds[own] == KINDS.index("found"))
            quality = 2 * hits / (np.arange(1, len(own) + 1) + n_objects[number])
            # detections of one score are above a limit together
            last = np.append(scores[1:] < scores[:-1], True)
            best = int(np.argmax(np.where(last, quality, -1.0)))
            below = scores[best + 1] if best + 1 < len(own) else 0.0
            limits[task] = float(scores[best] + below) / 2
        return limits


def without_boxes(run: Predictions) -> ParameterError:
    """The error of a run that should have boxes."""
    problem, allowed = (
        "the predictions have no boxes",
        "detections with boxes, such as COCO results",
    )
    return ParameterError(problem, where=f"run {run.run}", allowed=allowed)


def annotated_by(
    run: Predictions, data: Dataset, classes: Sequence[str], threshold: float
) -> Dataset:
    """The images of a dataset, annotated by a run's boxes with a score above the threshold, in [0,
    1]; areas are sums over the boxes of a class, at most the image. Raises ParameterError
    for a run without boxes, InputError for boxes in pixels of images whose size is not known.
    """
    if run.boxes is None:
        raise without_boxes(run)
    ids, images = run.image_ids, data.images
    places = positions(ids.cast(images["image_id"].dtype, strict=False), images["image_id"])
    found = _in_units_of(run.boxes.boxes, run.boxes.in_fractions, places, images, run.run)
    labels = np.array([classes.index(task) if task in classes else -1 for task in run.tasks])
    boxes, kept = found.moved(places, labels)
    above = np.flatnonzero(run.boxes.scores[kept] > threshold)
    image, label, box = boxes.image[above], boxes.label[above], boxes.box[above]
    sizes = images.select(pl.col(_SIDES).cast(pl.Float64).fill_null(1.0)).to_numpy()[image]
    shape = len(images), len(classes)
    areas = csr_array((np.prod(box[:, 2:] / sizes, axis=1), (image, label)), shape)
    areas.data = np.minimum(areas.data, 1.0)
    objects = objects_table(images["image_id"], classes, image, label, box)
    return Dataset.build(images, list(classes), areas, data.captions, objects=objects)


FALSE = ("false_boxes", "misplaced", "duplicates")
KINDS = ("found", *FALSE, "ignored")
"""Kinds of detections: of an object that counts; or it overlaps no object of its class, one too
little, or one that a higher score found; or it does not count.
"""
_FALSE = tuple(KINDS.index(kind) for kind in FALSE)


OF_BOXES = "f1"
"""Rule of the threshold: the largest F1 of boxes on the validation split."""


def limits_of_largest_f1(
    runs: Sequence[MatchedRun], data: Dataset
) -> tuple[RunThresholds, list[str]]:
    """The thresholds of the largest F1 on valid, and notes that state them. Raises ParameterError
    for a dataset without this split, InputError for a run without boxes in it.
    """
    valid = data.images.filter(split="valid")["image_id"]
    if not len(valid):
        problem = "f1 chooses the threshold on the split valid, which the dataset lacks"
        raise ParameterError(problem, give={"threshold": 0.5})
    for run in runs:
        if not run.run.image_ids.is_in(valid.cast(run.run.image_ids.dtype).implode()).any():
            problem = "no threshold can be chosen on valid, because valid has no detections"
            raise InputError(problem, where=f"run {run.run.run}")
    by_run = {run.run.run: run.f1_limits(valid) for run in runs}
    part = data.select("valid")
    having = {
        task: int(part.labels(task).sum())
        for task in dict.fromkeys(task for limits in by_run.values() for task in limits)
    }
    few = [f"{readable(task)} ({n:,})" for task, n in having.items() if n < FEWEST]
    warning = (
        f"warning: scores of the largest F1 are chosen on fewer than {FEWEST} images of valid that"
        f" have the class, and would differ on others: {some_of(few)}; give numbers (`threshold`)"
    )
    return by_run, ([warning] if few else []) + [
        f"boxes of {run} count above the scores of the largest F1 on {len(valid):,} images of"
        f" valid: {listed(limits)}"
        for run, limits in by_run.items()
    ]


def _kinds(matches: Matches, iou: float) -> NDArray[np.int8]:
    overlap = matches.overlap
    false = np.where(overlap >= min(iou, 1 - 1e-10), 3, np.where(overlap >= NEAR, 2, 1))
    kinds = np.where(matches.matched[0] >= 0, 0, false)
    return np.where(matches.is_counted[0], kinds, 4).astype(np.int8)


def _by_image(boxes: Boxes, values: Floats, shape: tuple[int, int]) -> csr_array:
    some = np.flatnonzero(values)
    return csr_array((values[some], (boxes.label[some], boxes.image[some])), shape)


def _in_units_of(
    found: Boxes, in_fractions: bool, rows: Integers, images: pl.DataFrame, run: str
) -> Boxes:
    """The boxes in the units of the dataset's objects: pixels, where the image's size is known."""
    width, height = (images[side].cast(pl.Float64).to_numpy()[rows] for side in _SIDES)
    if in_fractions:
        # NaN: objects are in fractions as well
        extent = np.nan_to_num(np.stack([width, height, width, height], axis=1), nan=1.0)
        return Boxes(found.image, found.label, found.box * extent[found.image])
    unknown = np.isnan(width[found.image]) & (rows[found.image] >= 0)
    if unknown.any():
        problem = f"{len(np.unique(found.image[unknown]))} images have no known size, and the boxes"
        raise InputError(
            f"{problem} are in pixels", where=f"run {run}",
            remedy="{}, or give boxes as fractions of the image",
            give=Command("import auto", images=...),
        )  # fmt: skip
    return found


_SIDES = ("width", "height")


EFFECTS: dict[str, Any] = {
    "run": pl.String, "criterion": pl.String, "split": pl.String, "side": pl.String,
    "n_hard": pl.Int64, "n_easy": pl.Int64, "rate_hard": pl.Float64, "rate_easy": pl.Float64,
    "effect": pl.Float64, "low": pl.Float64, "high": pl.Float64, "p": pl.Float64,
    "reason": pl.String,
}  # fmt: skip
"""Columns of ``Scores.box_effects``. On the side ``positive``, rates are shares of objects that are
missed; on ``negative``, boxes claimed per image and task without the object. ``effect`` is the
difference of the shares, of negatives the shares with any claim, within each task (and size of the
object): Mantel and Haenszel's, with the interval and p of images or groups, see ``rate_gap``; null
with a ``reason`` where nothing is compared.
"""


def box_effects(
    runs: Sequence[MatchedRun],
    thresholds: Mapping[str, Mapping[str, float]],
    suite: Suite,
    keys: Sequence[tuple[str, str, str]],
) -> pl.DataFrame:
    """The effects of the context on each run; ``keys`` are the sets (criterion, task, split)."""
    groups = dict.fromkeys((criterion, split) for criterion, _, split in keys) if runs else {}
    rows = []
    for criterion, split in groups:
        sets = [suite.set(*key) for key in keys if (key[0], key[2]) == (criterion, split)]
        for run in runs:
            limits = thresholds.get(run.run.run, {})
            parts = [
                _outcomes(number, challenge, run, limits.get(challenge.task, 0.5), suite)
                for number, challenge in enumerate(sets)
                if challenge.task in run.run.tasks
            ]
            about = {"run": run.run.run, "criterion": criterion, "split": split}
            for number, side in enumerate(("positive", "negative") if parts else ()):
                columns = zip(*(part[number] for part in parts), strict=True)
                rows.append(about | {"side": side} | _effect(*map(np.concatenate, columns)))
    order = [run.run.run for run in runs]
    rows.sort(key=lambda row: order.index(row["run"]))
    return pl.DataFrame(rows, schema=EFFECTS).with_columns(pl.col(pl.Float64).fill_nan(None))


_Columns = tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any], NDArray[Any]]
"""Events, whether the image is hard, stratum, and the number of the image, or of its group: (n,)
each.
"""


def _outcomes(
    number: int, challenge: ChallengeSet, run: MatchedRun, limit: float, suite: Suite
) -> tuple[_Columns, _Columns]:
    """Objects of a set that are missed, and boxes claimed in each of its images without one."""
    ids, task, hard = challenge.image_ids, challenge.task, challenge.hard
    image = positions(ids, run.run.image_ids.cast(ids.dtype, strict=False))
    places = np.full(len(run.run.image_ids), -1, np.int64)
    places[image[image >= 0]] = np.flatnonzero(image >= 0)
    missed, row, size = run.found({task: limit}).missed(run.run.tasks.index(task), places)
    claims = np.bincount(run.claims(task, places, limit), minlength=len(ids))
    without, units = ~challenge.labels, suite.units(ids)
    unit = image if units is None else units
    return (
        (missed, hard[row], number * (len(SIZES) + 1) + size, unit[row]),
        (claims[without], hard[without], np.full(without.sum(), number), unit[without]),
    )


def _effect(
    events: NDArray[Any], hard: NDArray[np.bool_], strata: NDArray[Any], units: NDArray[Any]
) -> dict[str, Any]:
    gap = rate_gap(events > 0, hard, strata, units)
    rates = [float(events[side].mean()) if side.any() else np.nan for side in (hard, ~hard)]
    sizes = {"hard": gap.n_with, "easy": gap.n_without}
    empty = [f"no detections on {name} images" for name, n in sizes.items() if not n]
    if not empty and np.isnan(gap.effect):
        empty = ["no class and object size occurs on both sides"]
    return {
        "n_hard": gap.n_with, "n_easy": gap.n_without, "rate_hard": rates[0],
        "rate_easy": rates[1], "effect": gap.effect, "low": gap.low, "high": gap.high, "p": gap.p,
        "reason": " and ".join(empty) or None,
    }  # fmt: skip


def effect_sentence(row: Mapping[str, Any]) -> str:
    """An effect in words, with its interval; a side without an object or image is named so."""
    missed = row["side"] == "positive"
    times, unit = (100, " points") if missed else (1000, "")
    effect = f"not comparable: {row['reason']}"
    if row["effect"] is not None:
        low, value, high = (times * row[name] for name in ("low", "effect", "high"))
        effect = f"{value:+.1f}{unit} [{low:+.1f}, {high:+.1f}]"
    hard, easy = row["rate_hard"], row["rate_easy"]
    if missed:
        others = "no others" if easy is None else f"{100 * easy:.0f}% of {row['n_easy']:,} others"
        rates = f"no object is out of context, {others}{'' if easy is None else ' are missed'}"
        if hard is not None:
            rates = f"{100 * hard:.0f}% of {row['n_hard']:,} objects out of context are missed, "
            rates += others
        rates += "; within class and size"
    else:
        rates, boxes = "no image where absent objects are expected, ", ""
        what = " boxes of absent objects per 1,000 images and class"
        if hard is None:
            boxes = what
        else:
            rates = f"{1000 * hard:.1f}{what} where they are expected, "
        rates += "none elsewhere" if easy is None else f"{1000 * easy:.1f}{boxes} elsewhere"
        rates += "; images with any, within class:"
    return f"{row['run']}, {row['criterion']}: {rates} {effect}"
