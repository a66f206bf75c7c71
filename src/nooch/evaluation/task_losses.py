"""The mean loss of each task on all images, each side, and its hard images (paper, Fig. 3); and on
hard images for many thresholds at once (Figs. 13 and 14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, check_one_of
from nooch.base.split_plan import LOSS_SPLIT
from nooch.evaluation.metrics.pointwise import losses
from nooch.evaluation.predictions import Aligned, Predictions
from nooch.suites import SUBSETS, ChallengeSet, Suite

__all__ = ["PARTS", "LossSweep", "class_losses", "hard_sums"]

Floats = NDArray[np.float64]

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


@dataclass(frozen=True, eq=False)
class LossSweep:
    """Mean losses of hard images over thresholds.

    Attributes:
        grid: ``task, split, alpha, beta, hard_positives, hard_negatives, loss_positive,
            loss_negative``: how many images are hard by CE with these thresholds, and their mean
            NLL (natural logarithm), null where there is none. The task ``all tasks`` pools all hard
            pairs of image and task.
        tau: ``task, split, tau``, then the same columns, for the gist criterion.
    """

    grid: pl.DataFrame
    tau: pl.DataFrame

    def __repr__(self) -> str:
        return f"LossSweep({self.grid.height} points, {self.tau.height} of tau)"


def hard_sums(
    support: Floats, labels: NDArray[np.bool_], losses: Floats, thresholds: Floats
) -> Floats:
    """For each threshold the number of hard positives and negatives and the sums of their losses.

    Args:
        support: float64 (n,); images where it is NaN have no verdict.
        labels: bool (n,).
        losses: float64 (n,).
        thresholds: float64 (t,): hard positives lie strictly below, hard negatives strictly above.

    Returns:
        float64 (t, 4): hard positives, hard negatives, and the sums of the losses of either.
    """
    known = ~np.isnan(support)
    n_low, below = _below(support[labels & known], losses[labels & known], thresholds)
    n_high, above = _below(-support[~labels & known], losses[~labels & known], -thresholds)
    return np.stack([n_low, n_high, below, above], axis=1).astype(np.float64)


def _below(values: Floats, losses: Floats, thresholds: Floats) -> tuple[NDArray[np.intp], Floats]:
    """How many values lie strictly below each threshold, and the sums of their losses."""
    order = np.argsort(values, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(losses[order])])
    n = np.searchsorted(values[order], thresholds, "left")
    return n, sums[n]
