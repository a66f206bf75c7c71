"""How counts and losses depend on alpha, beta and tau, for the report: the data of the paper's
Figs. 3 and 10 to 14.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import POOLED, Suite
from nooch.criteria import FittedCE
from nooch.data import Dataset
from nooch.evaluation.hard_losses import hard_sums
from nooch.examples.task_views import TaskView
from nooch.finding.threshold_sweep import ALPHAS, BETAS, TAUS, sweep_thresholds

__all__ = ["loss_points", "losses_by_support", "losses_by_thresholds", "swept"]

Floats = NDArray[np.float64]


def swept(suite: Suite, data: Dataset, embedding: str | None) -> dict[str, Any]:
    """Figs. 10 to 12: tasks by number of cues, shares of hard images over alpha and beta, and
    counts over tau.

    Args:
        suite: its tasks and splits are swept.
        data: the dataset it was found in.
        embedding: of the gist criterion, or None.
    """
    # what the suite was found in although it is not annotated enough is shown like it
    options: dict[str, Any] = {
        "tasks": list(suite.tasks),
        "splits": list(suite.splits),
        "allow_unannotated": True,
    }
    if data.has_areas:
        options |= {"alpha": ALPHAS, "beta": BETAS}
    if embedding is not None and embedding in data.embeddings:
        options |= {"tau": TAUS, "embedding": embedding}
    if "alpha" not in options and "tau" not in options:
        return {}
    found = sweep_thresholds(data, **options)
    return {
        "cues": _columns(found.cues),
        "grid": _columns(found.grid.filter(task=POOLED)),
        "tau": _columns(found.tau.filter(pl.col("task") != POOLED)),
        "equal": _columns(found.equal),
    }


def _columns(table: pl.DataFrame) -> dict[str, list[Any]]:
    return {name: table[name].to_list() for name in table.columns}


def loss_points(views: Sequence[TaskView], method: str) -> list[dict[str, Any]]:
    """Fig. 3: the mean loss of a method on a side and on its hard images, a point for each
    criterion, task and side.
    """
    points = []
    for view in views:
        for criterion, marks in view.marks.items():
            losses = view.losses.get(criterion, {}).get(method)
            if losses is None:
                continue
            for side, label, code in (("positive", 1, 0), ("negative", 0, 1)):
                # images without a verdict count nowhere
                known = (view.labels == label) & (marks != 255) & ~np.isnan(losses)
                hard = known & (marks == code)
                if hard.any():
                    mean, of_hard = float(losses[known].mean()), float(losses[hard].mean())
                    points.append({"criterion": criterion, "task": view.task, "side": side, "all": mean, "hard": of_hard,
                                   "n": int(known.sum()), "n_hard": int(hard.sum())})  # fmt: skip
    return points


def losses_by_thresholds(
    fitted: FittedCE, part: Dataset, views: Sequence[TaskView], criterion: str, method: str
) -> dict[str, Any]:
    """Fig. 13: the mean loss on hard images of all tasks together, over alpha and beta.

    Returns:
        ``alpha``, ``beta``, and for each side a matrix (n_alpha, n_beta), NaN where there is no
        hard image.
    """
    betas = np.array(BETAS)
    total = np.zeros((len(ALPHAS), len(betas), 4))
    for view in views:
        losses = view.losses.get(criterion, {}).get(method)
        if losses is None:
            continue
        known: dict[tuple[str, ...], Floats] = {(): np.zeros((len(betas), 4))}
        for row, alpha in enumerate(ALPHAS):
            other = FittedCE(replace(fitted.criterion, alpha=alpha), fitted.classes, fitted.state)
            cues = other.cues(view.task)
            if cues not in known:
                known[cues] = _sums(other.support(part, view.task), view.labels, losses, betas)
            total[row] += known[cues]
    return {"alpha": ALPHAS, "beta": BETAS, **_means(total)}


def losses_by_support(
    supports: Mapping[str, Floats], views: Sequence[TaskView], criterion: str, method: str
) -> dict[str, Any]:
    """Fig. 14: the mean loss on hard images of all tasks together, over tau; NaN where there is no
    hard image.
    """
    taus = np.array(TAUS)
    total = np.zeros((len(taus), 4))
    for view in views:
        losses = view.losses.get(criterion, {}).get(method)
        if losses is not None and view.task in supports:
            total += _sums(supports[view.task], view.labels, losses, taus)
    return {"tau": TAUS, **_means(total)}


def _sums(support: Floats, labels: NDArray[np.int8], losses: Floats, thresholds: Floats) -> Floats:
    """Counts and sums of losses, float64 (n_thresholds, 4), of images whose label and loss are
    known.
    """
    known = (labels >= 0) & ~np.isnan(losses)
    return hard_sums(support[known], labels[known] == 1, losses[known], thresholds)


def _means(total: Floats) -> dict[str, list[Any]]:
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(total[..., :2] > 0, total[..., 2:] / total[..., :2], np.nan)
    return {side: means[..., place].tolist() for place, side in enumerate(("positive", "negative"))}
