"""Runs judged once: their boxes matched to objects, and the scores above which boxes count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logit

from nooch.base.errors import InputError, ParameterError, check_idle
from nooch.criteria.context_fit import no_context
from nooch.data import Dataset
from nooch.evaluation.boxes.files import data_of_counts
from nooch.evaluation.boxes.matched import (
    IOU,
    OF_BOXES,
    MatchedRun,
    limits_of_largest_f1,
    without_boxes,
)
from nooch.evaluation.context_changes import with_baseline
from nooch.evaluation.prediction_files import read_predictions
from nooch.evaluation.predictions import Predictions, positions
from nooch.evaluation.thresholds import (
    AnswerThreshold,
    RunThresholds,
    answer_thresholds,
    one_threshold,
)
from nooch.suites import ChallengeSet, Suite

BoxThreshold = float | str
"""A score in [0, 1], or ``f1``."""


@dataclass(frozen=True, eq=False)
class JudgedRuns:
    """Runs, and what each of them claims, of the images of a split.

    Attributes:
        runs: a logit above 0, or a probability above 0.5, is a claim. Those whose boxes are matched
            have ``objects``.
        data: the dataset, if it is known.
        split: the one that is looked at.
        matched: name -> the boxes of these runs, matched.
        thresholds: name -> task -> score above which a box counts.
        limit: the threshold of all boxes, or ``f1``; None without boxes.
        notes: how boxes are judged.
        baseline: name of the run that the others are compared with, if one was named.
    """

    runs: Sequence[Predictions]
    data: Dataset | None
    split: str
    matched: Mapping[str, MatchedRun] = field(default_factory=dict)
    thresholds: RunThresholds = field(default_factory=dict)
    limit: BoxThreshold | None = None
    notes: Sequence[str] = ()
    baseline: str | None = None

    @property
    def outputs(self) -> list[Predictions]:
        """The runs, of boxes with the largest scores as values."""
        return [self.matched[r.run].run if r.run in self.matched else r for r in self.runs]

    @cached_property
    def part(self) -> Dataset:
        """The images of the split."""
        assert self.data is not None  # noqa: S101 - without a dataset nobody asks
        return self.data.select(self.split)

    @cached_property
    def one_label(self) -> bool:
        """True if labels exclude each other: an image is of one of several classes."""
        data = self.data
        return data is not None and len(data.classes) > 1 and no_context(data) is not None

    @property
    def without_baseline(self) -> JudgedRuns:
        """Only the runs that are compared with the baseline."""
        return replace(self, runs=[run for run in self.runs if run.run != self.baseline])

    def run(self, name: str) -> Predictions:
        """The run of a name."""
        return next(run for run in self.runs if run.run == name)

    def labeled(self, task: str) -> tuple[Dataset, ChallengeSet]:
        """The images whose label is known, and that runs with ``weights`` were asked about; and as
        a set of easy images.
        """
        is_known, ids = known_labels(self.part, task), self.part.images["image_id"]
        for run in self.runs:
            if run.weights is not None and task in run.tasks:
                asked = run.image_ids.filter(pl.Series(run.weights[run.tasks.index(task)] > 0))
                is_known &= ids.is_in(asked.cast(ids.dtype, strict=False).implode()).to_numpy()
        part = self.part if is_known.all() else self.part.select(rows=is_known)
        labels, subset = part.labels(task), np.full(len(part), 2, np.uint8)
        return part, ChallengeSet("any", task, self.split, part.images["image_id"], labels, subset)

    def weights(self, run: Predictions, challenge: ChallengeSet) -> NDArray[np.float64] | None:
        """Weights with mean 1 of the images of a set as in ``labeled``, float64 (n,), of the run's
        own sample, else of the first run's that is one; None where they are equal.
        """
        task, ids = challenge.task, challenge.image_ids
        for one in (run, *self.runs):
            if one.weights is not None and task in one.tasks:
                at = positions(ids, one.image_ids.cast(ids.dtype, strict=False))
                of_image = one.weights[one.tasks.index(task), at]
                return of_image / of_image.mean() if np.ptp(of_image) > 0 else None
        return None


def known_labels(data: Dataset, task: str) -> NDArray[np.bool_]:
    """Images whose label is known, bool (n_images,)."""
    unknown = data.unknown_labels(task)
    return np.ones(len(data), dtype=bool) if unknown is None else ~unknown


def judge_runs(
    predictions: Any,
    data: Dataset | None,
    split: str,
    *,
    suite: Suite | None = None,
    tasks: Sequence[str] | None = None,
    reading: Mapping[str, Any] | None = None,
    threshold: BoxThreshold | None = None,
    iou: float = IOU,
    recall: bool = False,
    baseline: str | Path | None = None,
) -> JudgedRuns:
    """Read runs, and match their boxes to the objects of a dataset, where both are there.

    Args:
        predictions: as ``nooch.evaluate`` takes them.
        data: the dataset.
        split: the one that is looked at.
        suite: found in the dataset, if predictions are for its tasks.
        tasks: as for ``nooch.load_predictions``, as is ``reading``.
        reading: see ``tasks``.
        threshold: the score above which a box counts, in [0, 1], or ``f1``: of the largest F1 on
            valid, by class; the default if it can be chosen there and ``split`` is another one,
            else 0.5.
        iou: the least overlap of a box and the object it finds.
        recall: as for ``MatchedRun.match``.
        baseline: run that the others are compared with, or its file, which is also read.

    Raises:
        InputError: as ``nooch.load_predictions`` and ``MatchedRun.match``.
        ParameterError: a threshold outside its range.
    """
    if threshold is not None and threshold != OF_BOXES:
        threshold = one_threshold(threshold)
    read = partial(read_predictions, suite=suite, data=data, reading=reading, tasks=tasks)
    runs, named = read(predictions), None
    if baseline is not None:
        runs, named = with_baseline(runs, baseline, read)
    notes = list[str]()
    if data is not None and suite is None:
        data, notes = data_of_counts(data, runs)
    matched = {
        run.run: MatchedRun.match(run, data, iou, recall=recall)
        for run in runs
        if run.boxes is not None and data is not None and data.objects is not None
    }
    if not matched or data is None:
        no_objects = "the dataset has no objects with boxes"
        _refuse_idle(runs, no_objects, threshold=threshold, iou=None if iou == IOU else iou)
        return JudgedRuns(runs, data, split, notes=notes, baseline=named)
    by_run: RunThresholds = {}
    if threshold == OF_BOXES or (threshold is None and split != "valid"):
        try:
            by_run, notes = limits_of_largest_f1([*matched.values()], data)
        except (InputError, ParameterError):
            if threshold is not None:
                raise
    limit: BoxThreshold = OF_BOXES if by_run else 0.5 if threshold is None else threshold
    if not by_run:
        by_run = {run: dict.fromkeys(of.run.tasks, float(limit)) for run, of in matched.items()}
        notes = [f"boxes count above the score {limit:g} (`threshold`)"]
    notes = [f"objects are found by boxes that overlap them by {iou:g} (`iou`)", *notes]
    every = as_judged(runs, [*matched.values()], by_run)
    return JudgedRuns(every, data, split, matched, by_run, limit, notes, named)


def _refuse_idle(runs: Sequence[Predictions], why: str, **settings: object) -> None:
    """Raise ParameterError for a setting of boxes that is given where no box is matched."""
    remedy = None
    if any(run.objects is not None for run in runs):
        why = "image_metrics are counts of boxes that val has chosen and matched"
        remedy = "{}; val takes it as conf" if settings.get("threshold") is not None else None
    elif all(run.boxes is None for run in runs):
        why = "the predictions have no boxes"
    check_idle(settings, f": {why}", where="predictions", remedy=remedy)


def as_judged(
    runs: Sequence[Predictions], matched: Sequence[MatchedRun], thresholds: RunThresholds
) -> list[Predictions]:
    """Runs that have thresholds, with values above 0 where they are above these; those that are
    ``matched`` with their ``objects``.
    """
    found = {of.run.run: of.found(thresholds.get(of.run.run, {})) for of in matched}

    def judged(run: Predictions) -> Predictions:
        run = replace(run, objects=found.get(run.run, run.objects))
        if (limits := thresholds.get(run.run)) is None:
            return run
        bounds = np.array([[limits.get(task, 0.5)] for task in run.tasks])
        bounds = bounds if run.scale == "probability" else logit(bounds)
        return replace(run, values=run.values - bounds, scale="logit")

    return [judged(run) for run in runs]


def with_thresholds(
    runs: Sequence[Predictions],
    judged: JudgedRuns | None,
    data: Dataset | None,
    threshold: AnswerThreshold,
    iou: float,
    suite: Suite,
    tasks: Sequence[str],
    *,
    recall: bool,
) -> tuple[list[MatchedRun], RunThresholds, list[str]]:
    """Runs with the counts of their matched boxes (none without ``data``), the threshold of each
    run and task, and notes that state them; no threshold is 0.5. What is ``judged`` stays so.

    Other parameters as in ``nooch.evaluate`` and ``MatchedRun.match``, and raises as that.
    """
    if data is None:
        unmatched = "no box is matched, since `boxes` is off"
        _refuse_idle(runs, unmatched, iou=None if iou == IOU else iou)
        if str(threshold) == "0.5":
            return [], {}, []
        return [], *answer_thresholds(threshold, suite, runs, tasks)
    if judged is not None:
        same = [(run, judged.matched[run.run]) for run in runs if run.run in judged.matched]
        matched = [_counted(replace(of, run=run), judged.thresholds) for run, of in same]
        return matched, judged.thresholds, []
    matched = [
        MatchedRun.match(run, data, iou, recall=recall) for run in runs if run.boxes is not None
    ]
    if not matched:
        raise without_boxes(runs[0])
    if threshold == OF_BOXES:
        thresholds, notes = limits_of_largest_f1(matched, data)
    else:
        thresholds, notes = answer_thresholds(threshold, suite, runs, tasks)
    return [_counted(run, thresholds) for run in matched], thresholds, notes


def _counted(matched: MatchedRun, thresholds: RunThresholds) -> MatchedRun:
    counts = matched.counts(thresholds.get(matched.run.run, {}))
    return replace(matched, run=replace(matched.run, counts=counts))
