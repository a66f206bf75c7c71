"""The mean loss of each task on all its images, positives, negatives, and the hard ones of each
side (paper, Fig. 3).
"""

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
        suite: its sets say which images are hard; images without a verdict count nowhere.
        runs: predictions of one model, or of one for each seed.
        split: of the suite.

    Returns:
        ``criterion, task``, the mean NLL (natural logarithm) on each of ``PARTS``, null where there
        is no image, then the counts ``n, positives, negatives, hard_positives, hard_negatives`` and
        ``runs``. Tasks that no run predicts are missing, and what is predicted for classes that the
        suite does not have is left alone: a network of all classes has more of them.

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
    hard = {name: challenge.subset == code for code, name in enumerate(SUBSETS)}
    inside: dict[str, NDArray[np.bool_]] = {
        "all": np.ones(len(challenge), dtype=bool),
        "positive": challenge.labels,
        "negative": ~challenge.labels,
        "hard": ~hard["easy"],
        "hard_positive": hard["hard_positive"],
        "hard_negative": hard["hard_negative"],
    }
    values = np.mean([_losses(run, challenge) for run in runs], axis=0)
    means = {
        part: float(values[mask].mean()) if mask.any() else None for part, mask in inside.items()
    }
    counts = {
        f"{part}s": int(inside[part].sum())
        for part in ("positive", "negative", "hard_positive", "hard_negative")
    }
    return {
        "criterion": challenge.criterion,
        "task": challenge.task,
        **means,
        "n": len(challenge),
        **counts,
        "runs": len(runs),
    }


def _losses(run: Predictions, challenge: ChallengeSet) -> NDArray[np.float64]:
    """The loss of each image of a set, float64 (n,)."""
    found = Aligned(run, challenge.image_ids, challenge.split)
    return losses(challenge.labels, found.values(challenge.task, slice(None), challenge), run.scale)
