"""Predictions on a suite -> findings: errors in the misleading and in the usual context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.analysis.findings import Findings, some_images
from nooch.base.errors import InputError, check_one_of, some_of
from nooch.base.files import Place
from nooch.base.shared_types import Progress, no_progress, tracked
from nooch.data import Dataset
from nooch.evaluation import Predictions, load_predictions
from nooch.evaluation.answer_sample import AskedSample
from nooch.evaluation.metrics.pointwise import said_positive
from nooch.evaluation.metrics.proportions import wilson
from nooch.evaluation.metrics.rate_gaps import rate_gap
from nooch.evaluation.predictions import Aligned, positions
from nooch.suites import ChallengeSet, Suite, as_suite

__all__ = [
    "checked_split", "cue_findings", "errors_of", "known_at", "labeled_images", "size_strata"
]  # fmt: skip

_HARD = (0, 1)
_CUTS = (0.25, 0.5, 0.75)


def cue_findings(
    suite: Suite | str | Path,
    predictions: Any,
    *,
    data: Dataset | Place | str | None = None,
    split: str | None = None,
    tasks: Sequence[str] | None = None,
    scale: str | None = None,
    progress: Progress = no_progress,
) -> Findings:
    """Compare error rates in a misleading context with those in the usual one.

    For positives (a miss is an error), a context cue misleads where it is absent: its area is below
    the criterion's threshold. For negatives (a claim is an error) it misleads where it is present.
    Of criteria without cues, hard images are compared with easy ones of the same side. The effect
    of positives compares objects of the same size, by quartiles of the target's area, because small
    objects are both harder and found in other contexts.

    Args:
        suite: with easy images.
        predictions: see ``nooch.evaluate``.
        data: the dataset that the suite was found in, for the areas; without it, or without areas,
            effects are not by size (``by_size``).
        split: ``test`` by default, or the suite's only one.
        tasks: by default those that have predictions.
        scale: ``logit`` or ``probability``, for wide tables.
        progress: called with what is being done, and how many of how many are done.

    Returns:
        a row for each run, criterion, task, cue (null for the criterion as a whole) and side.

    Raises:
        InputError: see ``nooch.evaluate``; a suite of hard images alone; another dataset.
        ParameterError: an unknown task or split.
    """
    suite = as_suite(suite)
    suite.require_easy("comparing contexts")
    data = None if data is None else suite.require_dataset(data)
    (split,) = suite.splits_to_score(split)
    for task in tasks or ():
        check_one_of("task", task, suite.tasks, owner="the suite")
    runs = load_predictions(predictions, suite, data, scale=scale)
    wanted = [t for t in tasks or suite.tasks if any(t in run.tasks for run in runs)]
    if not wanted:
        raise InputError(f"there are no predictions for {some_of(tasks or suite.tasks)}")
    keys = [(criterion, task, split) for task in wanted for criterion in suite.criteria]
    sample = AskedSample.of(suite, runs, [key for key in keys if key in suite.keys]).suite
    rows: list[dict[str, Any]] = []
    for key in tracked(keys, len(keys), "comparing contexts, sets", progress):
        if key in sample.keys:
            rows += _of_set(suite, sample.set(*key), runs, data)
    rows = _said_once(rows)
    return Findings.of(rows, {"split": split, "tasks": wanted, "runs": [run.run for run in runs]})


def _said_once(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the cues of a criterion that an earlier one has, too."""
    seen: dict[tuple[Any, ...], str] = {}
    kept = []
    for row in rows:
        key = tuple(row[name] for name in ("run", "task", "side", "cue"))
        if row["cue"] is None or seen.setdefault(key, row["criterion"]) == row["criterion"]:
            kept.append(row)
    return kept


def checked_split(data: Dataset, split: str | None) -> str:
    """The split to look at: the one asked for, else test, valid or all, whichever comes first.

    Raises:
        ParameterError: the dataset does not have it.
    """
    if split is None:
        split = next((s for s in ("test", "valid", "all") if s in data.splits), "test")
    return check_one_of("split", split, data.splits, owner="the dataset")


def errors_of(run: Predictions, challenge: ChallengeSet) -> NDArray[np.bool_]:
    """Where a run's answer is not the label, bool (n,): positive where logit > 0, or probability >
    0.5.
    """
    values = Aligned(run, challenge.image_ids, challenge.split).values(
        challenge.task, slice(None), challenge
    )
    wrong: NDArray[np.bool_] = said_positive(values, run.scale) != challenge.labels
    return wrong


def known_at(data: Dataset, task: str) -> NDArray[np.bool_]:
    """Images whose label is known, bool (n_images,)."""
    unknown = data.unknown_labels(task)
    return np.ones(len(data), dtype=bool) if unknown is None else ~unknown


def labeled_images(
    part: Dataset, task: str, split: str, runs: Sequence[Predictions]
) -> tuple[Dataset, ChallengeSet]:
    """The images of a split whose label is known, and that runs with ``weights`` were asked about;
    and as a set of easy images.
    """
    there, ids = known_at(part, task), part.images["image_id"]
    for run in runs:
        if run.weights is not None and task in run.tasks:
            asked = run.image_ids.filter(pl.Series(run.weights[run.tasks.index(task)] > 0))
            there &= ids.is_in(asked.cast(ids.dtype, strict=False).implode()).to_numpy()
    known = part if there.all() else part.select(rows=there)
    labels, subset = known.labels(task), np.full(len(known), 2, np.uint8)
    return known, ChallengeSet("any", task, split, known.images["image_id"], labels, subset)


def size_strata(data: Dataset | None, challenge: ChallengeSet) -> NDArray[np.intp] | None:
    """Quartile of the target's area among the set's positives, 0 to 3, and 4 where it is unknown;
    intp (n,), or None where no area is known.
    """
    if data is None or not data.has_areas:
        return None
    rows = positions(challenge.image_ids, data.images["image_id"])
    areas = data.area(challenge.task, unknown=np.nan)[rows]
    known = challenge.labels & ~np.isnan(areas)
    if not known.any():
        return None
    cuts = np.quantile(areas[known], _CUTS)
    return np.where(np.isnan(areas), len(cuts) + 1, np.searchsorted(cuts, areas, side="right"))


def _of_set(
    suite: Suite, challenge: ChallengeSet, runs: Sequence[Predictions], data: Dataset | None
) -> Iterator[dict[str, Any]]:
    """Rows of one set: of the criterion as a whole, then of each of its cues."""
    record = suite.header.criteria[challenge.criterion]
    cues = [cue for cue, _ in record.cues.get(challenge.task, [])]
    misleading: list[tuple[str | None, NDArray[np.bool_]]] = [
        (None, np.isin(challenge.subset, _HARD))
    ]
    if challenge.by_cue is not None:
        misleading += [
            (cue, (challenge.by_cue >> np.uint64(bit)) & np.uint64(1) > 0)
            for bit, cue in enumerate(cues[:64])
        ]
        if len(cues) == 1:
            # the cue says it in plainer words
            del misleading[0]
    sizes = size_strata(data, challenge)
    for run in runs:
        if challenge.task not in run.tasks:
            continue
        wrong = errors_of(run, challenge)
        for side, of_side in (("positive", challenge.labels), ("negative", ~challenge.labels)):
            strata = sizes[of_side] if sizes is not None and side == "positive" else None
            for cue, condition in misleading:
                yield {
                    "run": run.run,
                    "criterion": challenge.criterion,
                    "task": challenge.task,
                    "cue": cue,
                    "side": side,
                    "split": challenge.split,
                    **_gap(wrong[of_side], condition[of_side], strata),
                    "images": some_images(challenge.image_ids, of_side & condition & wrong),
                }


def _gap(
    wrong: NDArray[np.bool_], condition: NDArray[np.bool_], strata: NDArray[np.intp] | None
) -> dict[str, Any]:
    gap = rate_gap(wrong, condition, strata)
    low, high = wilson(np.array(gap.rate_with), np.array(gap.n_with))
    return {
        "n_misleading": gap.n_with, "n_usual": gap.n_without, "rate_misleading": gap.rate_with,
        "rate_low": float(low), "rate_high": float(high), "rate_usual": gap.rate_without,
        "effect": gap.effect, "low": gap.low, "high": gap.high, "p": gap.p,
        "by_size": strata is not None,
    }  # fmt: skip
