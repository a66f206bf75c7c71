"""Counts and losses over alpha, beta and tau: the report's data of Figs. 3 and 10 to 14."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import POOLED, Suite
from nooch.criteria import FittedCE
from nooch.data import Dataset
from nooch.evaluation.task_losses import hard_sums
from nooch.examples.task_views import TaskView
from nooch.finding.threshold_sweep import ALPHAS, BETAS, TAUS, sweep_thresholds

__all__ = ["loss_points", "losses_by_support", "losses_by_thresholds", "swept"]

Floats = NDArray[np.float64]


def swept(suite: Suite, data: Dataset, embedding: str | None) -> dict[str, Any]:
    """Figs. 10 to 12: tasks by number of cues, shares over alpha and beta, counts over tau (of the
    gist criterion's embedding, if there is one), for the suite's tasks and splits.
    """
    grids: dict[str, Any] = {}
    if data.has_areas:
        grids |= {"alpha": ALPHAS, "beta": BETAS}
    if embedding is not None and embedding in data.embeddings:
        grids |= {"tau": TAUS, "embedding": embedding}
    if not grids:
        return {}
    # a suite that was found although few images are annotated is shown with all of them
    sweep = sweep_thresholds(
        data, **grids, tasks=list(suite.tasks), splits=list(suite.splits), allow_unannotated=True
    )
    tables = {
        "cues": sweep.cues,
        "grid": sweep.grid.filter(task=POOLED),
        "tau": sweep.tau.filter(pl.col("task") != POOLED),
        "equal": sweep.equal,
    }
    return {name: table.to_dict(as_series=False) for name, table in tables.items()}


def loss_points(views: Sequence[TaskView], method: str) -> list[dict[str, Any]]:
    """Fig. 3: mean loss of a method on a side and on its hard images, by criterion and task."""
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
                    about = {"criterion": criterion, "task": view.task, "side": side}
                    means = {"all": float(losses[known].mean()), "hard": float(losses[hard].mean())}
                    counts = {"n": int(known.sum()), "n_hard": int(hard.sum())}
                    points.append({**about, **means, **counts})
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


def losses_by_support(views: Sequence[TaskView], criterion: str, method: str) -> dict[str, Any]:
    """Fig. 14: the mean loss on hard images of all tasks together, over tau; NaN where none is."""
    taus = np.array(TAUS)
    total = np.zeros((len(taus), 4))
    for view in views:
        losses = view.losses.get(criterion, {}).get(method)
        if losses is not None and criterion in view.support:
            total += _sums(view.support[criterion], view.labels, losses, taus)
    return {"tau": TAUS, **_means(total)}


def _sums(support: Floats, labels: NDArray[np.int8], losses: Floats, thresholds: Floats) -> Floats:
    """Counts and sums of known losses, float64 (n_thresholds, 4)."""
    known = (labels >= 0) & ~np.isnan(losses)
    return hard_sums(support[known], labels[known] == 1, losses[known], thresholds)


def _means(total: Floats) -> dict[str, list[Any]]:
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(total[..., :2] > 0, total[..., 2:] / total[..., :2], np.nan)
    return {side: means[..., place].tolist() for place, side in enumerate(("positive", "negative"))}
