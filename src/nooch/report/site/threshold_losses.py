"""Counts and losses over alpha, beta and tau: the report's data of Figs. 3 and 10 to 14."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.criteria import FittedCE, FittedGist
from nooch.data import Dataset
from nooch.report.images.choice import UNKNOWN, TaskView
from nooch.suites import Suite
from nooch.suites.sweep import ALPHAS, BETAS, POOLED, TAUS, area_sums, hard_sums, sweep_thresholds

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


class ThresholdLosses:
    """Figs. 3, 13 and 14 of a method: its losses on hard images, added up task by task.

    Args:
        method: its name.
        part: the dataset of the split, or None.
        ce: name and statistics of the criterion of Fig. 13, or None.
        gist: likewise of Fig. 14.
    """

    def __init__(
        self,
        method: str,
        part: Dataset | None,
        ce: tuple[str, FittedCE] | None,
        gist: tuple[str, FittedGist] | None,
    ) -> None:
        self._method, self._gist = method, gist
        self._part, self._ce = part, None if part is None or not part.has_areas else ce
        self._points: list[dict[str, Any]] = []
        self._by_area = np.zeros((len(ALPHAS) * len(BETAS), 2, 3))
        self._by_tau = np.zeros((len(TAUS), 2, 3))

    def add(self, view: TaskView) -> None:
        """Add the images of a task."""
        of_method = {
            criterion: losses[self._method]
            for criterion, losses in view.losses.items()
            if self._method in losses
        }
        for criterion, marks in view.marks.items():
            if criterion in of_method:
                self._points += _points(view, criterion, marks, of_method[criterion])
        alphas, betas, taus = np.array(ALPHAS), np.array(BETAS), np.array(TAUS)
        if self._ce is not None and self._part is not None and self._ce[0] in of_method:
            losses, fitted = of_method[self._ce[0]], self._ce[1]
            ce = replace(fitted.criterion, alpha=ALPHAS[0])
            least = FittedCE(ce, fitted.classes, fitted.state)
            sides = _sides(view, losses)
            self._by_area += area_sums(least, self._part, view.task, alphas, betas, sides, losses)
        if self._gist is not None and self._gist[0] in of_method and self._gist[0] in view.support:
            losses, support = of_method[self._gist[0]], view.support[self._gist[0]]
            self._by_tau += hard_sums(support, _sides(view, losses), taus, taus, losses)

    def content(self) -> dict[str, Any]:
        """``points`` of tasks: the mean loss on a side and on its hard images; ``by_alpha_beta``:
        for each side the mean loss on hard images of all tasks together, (n_alpha, n_beta), NaN
        where there is none; ``by_tau``: likewise (n_tau,).
        """
        found: dict[str, Any] = {"points": self._points}
        if self._ce is not None:
            by_area = self._by_area.reshape(len(ALPHAS), len(BETAS), 2, 3)
            found["by_alpha_beta"] = {"alpha": ALPHAS, "beta": BETAS, **_means(by_area)}
        if self._gist is not None:
            found["by_tau"] = {"tau": TAUS, **_means(self._by_tau)}
        return found


def _points(
    view: TaskView, criterion: str, marks: NDArray[np.uint8], losses: Floats
) -> list[dict[str, Any]]:
    points = []
    for side, label, code in (("positive", 1, 0), ("negative", 0, 1)):
        # images without a verdict count nowhere
        known = (view.labels == label) & (marks != UNKNOWN) & ~np.isnan(losses)
        hard = known & (marks == code)
        if hard.any():
            about = {"criterion": criterion, "task": view.task, "side": side}
            means = {"all": float(losses[known].mean()), "hard": float(losses[hard].mean())}
            counts = {"n": int(known.sum()), "n_hard": int(hard.sum())}
            points.append({**about, **means, **counts})
    return points


def _sides(view: TaskView, losses: Floats) -> NDArray[np.bool_]:
    """Positives and negatives with a loss, bool (2, n_images)."""
    return np.stack([view.labels == 1, view.labels == 0]) & ~np.isnan(losses)


def _means(total: Floats) -> dict[str, list[Any]]:
    hard, lost = total[..., 0], total[..., 2]
    means = np.divide(lost, hard, out=np.full(hard.shape, np.nan), where=hard > 0)
    return {side: means[..., place].tolist() for place, side in enumerate(("positive", "negative"))}
