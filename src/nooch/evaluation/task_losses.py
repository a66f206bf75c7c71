"""The mean loss of each task on all images, each side, and its hard images (paper, Fig. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import SUBSETS, ChallengeSet, Suite
from nooch.errors import InputError, check_one_of
from nooch.evaluation.aligned_predictions import Aligned
from nooch.evaluation.predictions import Predictions
from nooch.metrics.pointwise import losses
from nooch.plans import LOSS_SPLIT

__all__ = ["PARTS", "class_losses"]

PARTS = ("all", "positive", "negative", "hard", "hard_positive", "hard_negative")
"""Columns of mean losses."""


def class_losses(
    suite: Suite, runs: Sequence[Predictions], *, split: str = LOSS_SPLIT
) -> pl.DataFrame:
    """Mean losses by criterion and task, over several runs (seeds) their mean.

    Args:
        suite: defines which images are hard; images without a verdict count nowhere.
        runs: predictions of one model, or of one for each seed.
        split: of the suite.

    Returns:
        ``criterion, task``, the mean NLL (natural logarithm) on each of ``PARTS``, null where there
        is no image, then the counts ``n, positives, negatives, hard_positives, hard_negatives`` and
        ``runs``. Tasks without predictions are missing; other predicted classes are ignored.

    Raises:
        InputError: images without a prediction, no task of the suite, a suite of hard images alone.
        ParameterError: no such split.
    """
    check_one_of("split", split, suite.splits, owner="the suite")
    suite.require_easy("the loss of a class")
    rows = []
    for criterion, task, of in suite.keys:
        asked = [run for run in runs if task in run.tasks]
        if of == split and asked:
            rows.append(_row(suite.set(criterion, task, split), asked))
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
    by_run = []
    for run in runs:
        aligned = Aligned(run, challenge.image_ids, challenge.split)
        values = aligned.values(challenge.task, slice(None), challenge)
        by_run.append(losses(challenge.labels, values, run.scale))
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
