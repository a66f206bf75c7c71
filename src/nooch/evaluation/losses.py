"""The mean loss of each task on all images, each side, and its hard images (paper, Fig. 3); and on
hard images for many thresholds at once (Figs. 13 and 14).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress, checked, no_progress
from nooch.base.errors import InputError, some_of
from nooch.base.split_plan import LOSS_SPLIT
from nooch.data import Dataset, as_dataset
from nooch.data.table_schema import check_split
from nooch.evaluation.metrics.pointwise import losses
from nooch.evaluation.prediction_files import load_predictions
from nooch.evaluation.predictions import Aligned, Predictions, predicted_tasks, values_of
from nooch.suites import EASY, SUBSETS, ChallengeSet, Mark, Suite
from nooch.suites.search import resolve_tasks
from nooch.suites.sweep import Grids, Sweep, swept

Floats = NDArray[np.float64]

PARTS = ("all", "positive", "negative", "hard", "hard_positive", "hard_negative")
"""Columns of mean losses."""


def class_losses(
    suite: Suite, runs: Sequence[Predictions], *, split: str = LOSS_SPLIT
) -> pl.DataFrame:
    """Mean losses by criterion and task, over several runs (seeds) their mean.

    Returns ``criterion, task``, the mean NLL (natural logarithm) on each of ``PARTS``, null if
    there is no image, then the counts ``n, positives, negatives, hard_positives, hard_negatives``
    and ``runs``. Tasks without predictions are missing; other predicted classes are ignored.
    """
    check_split(split, suite.splits, "the suite")
    suite.require_easy("the loss of a class")
    rows = []
    for criterion, task, split_of_set in suite.keys:
        predicted = [run for run in runs if task in run.tasks]
        if split_of_set == split and predicted:
            rows.append(_row(suite.set(criterion, task, split), predicted))
    if not rows:
        raise InputError(
            f"no task has both predictions and a set of split {split}",
            allowed=", ".join(sorted(suite.tasks)),
        )
    return pl.DataFrame(rows)


def _row(challenge: ChallengeSet, runs: Sequence[Predictions]) -> dict[str, Any]:
    of_subset = {name: challenge.subset == code for code, name in enumerate(SUBSETS)}
    inside: dict[str, NDArray[np.bool_]] = {
        "all": np.ones(len(challenge), dtype=bool),
        "positive": challenge.labels,
        "negative": ~challenge.labels,
        "hard": ~of_subset.pop("easy"),
        **of_subset,
    }
    by_run = [losses(challenge.labels, values_of(run, challenge), run.scale) for run in runs]
    loss = np.mean(by_run, axis=0)
    sides = ("positive", "negative", "hard_positive", "hard_negative")
    return {
        "criterion": challenge.criterion,
        "task": challenge.task,
        **{name: float(loss[mask].mean()) if mask.any() else None for name, mask in inside.items()},
        "n": len(challenge),
        **{f"{side}s": int(inside[side].sum()) for side in sides},
        "runs": len(runs),
    }


@checked
def sweep_losses(
    data: Dataset | str | Path,
    predictions: Any,
    *,
    alpha: Sequence[float] = (),
    beta: Sequence[float] = (),
    tau: Sequence[float] = (),
    embedding: str | None = None,
    tasks: str | Sequence[str] | None = None,
    allow_unannotated: bool = False,
    split: str = "test",
    scale: str | None = None,
    progress: Progress = no_progress,
) -> Sweep:
    """Mean losses of hard images over thresholds; criteria are fitted once, on the training split.

    Args:
        data: the dataset.
        predictions: as for ``nooch.evaluate``; losses are averaged over runs (seeds).
        alpha: see ``nooch.sweep_thresholds``, as for the next four.
        beta: thresholds on areas.
        tau: thresholds on the cosine.
        embedding: name of one of the dataset's embeddings.
        tasks: by default the classes that are predicted.
        allow_unannotated: as for ``nooch.find``.
        split: split of the images.
        scale: ``logit`` or ``probability``, needed for wide tables.
        progress: called with what is being done, and how many of how many tasks are done.

    Raises:
        ParameterError: nothing to sweep, thresholds out of range, an unknown task, split or
            embedding, tau without an embedding.
        InputError: no predicted class, missing predictions, unknown areas, no training images.
    """
    data = as_dataset(data)
    grids = Grids.checked(data, alpha, beta, tau, (), embedding)
    check_split(split, data.splits)
    runs = load_predictions(predictions, data=data, scale=scale)
    task_names = None if tasks is None else resolve_tasks(data.classes, tasks)
    names = predicted_tasks(runs, data.classes, task_names, owner="the dataset", kind="class")
    if missing := [name for name in task_names or () if name not in names]:
        raise InputError(f"there are no predictions for {some_of(missing)}")
    image_ids = data.select(split).images["image_id"]
    aligned = {run.run: Aligned(run, image_ids, split) for run in runs}

    def losses_of(part: Dataset, task: str) -> Floats:
        labels, unknown = part.labels(task, unknown=False), part.unknown_labels(task)
        rows = slice(None) if unknown is None else np.flatnonzero(~unknown)
        # a set of all images, none of them hard: it states what the predictions must have
        easy = Mark(np.full(len(part), EASY, np.int8))
        whole = ChallengeSet.from_mark(
            "all images", task, split, easy, part.images["image_id"], labels, unknown
        )
        values = [
            losses(labels[rows], aligned[run.run].values(task, rows, whole), run.scale)
            for run in runs
            if task in run.tasks
        ]
        loss = np.full(len(part), np.nan)
        loss[rows] = np.mean(values, axis=0)
        return loss

    return swept(
        data, grids, names, [split], progress, losses_of, allow_unannotated=allow_unannotated
    )
