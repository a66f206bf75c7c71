"""Counts and losses over alpha, beta and tau: the report's data of Figs. 3 and 10 to 14."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.criteria import FittedCE, FittedGist
from nooch.data import Dataset
from nooch.evaluation.losses import hard_sums
from nooch.report.images.choice import UNKNOWN, TaskView
from nooch.suites import POOLED, Suite
from nooch.suites.sweep import ALPHAS, BETAS, TAUS, sweep_thresholds

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
        self._by_area = np.zeros((len(ALPHAS), len(BETAS), 4))
        self._by_tau = np.zeros((len(TAUS), 4))

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
        if self._ce is not None and self._part is not None and self._ce[0] in of_method:
            self._add_areas(view, self._part, self._ce[1], of_method[self._ce[0]])
        if self._gist is not None:
            name = self._gist[0]
            if name in of_method and name in view.support:
                self._by_tau += _sums(view.support[name], view.labels, of_method[name], TAUS)

    def _add_areas(self, view: TaskView, part: Dataset, fitted: FittedCE, losses: Floats) -> None:
        known: dict[tuple[str, ...], Floats] = {(): np.zeros((len(BETAS), 4))}
        for row, alpha in enumerate(ALPHAS):
            other = FittedCE(replace(fitted.criterion, alpha=alpha), fitted.classes, fitted.state)
            cues = other.cues(view.task)
            if cues not in known:
                support = other.support(part, view.task)
                known[cues] = _sums(support, view.labels, losses, BETAS)
            self._by_area[row] += known[cues]

    def content(self) -> dict[str, Any]:
        """``points`` of tasks: the mean loss on a side and on its hard images; ``by_alpha_beta``:
        for each side the mean loss on hard images of all tasks together, (n_alpha, n_beta), NaN
        where there is none; ``by_tau``: likewise (n_tau,).
        """
        found: dict[str, Any] = {"points": self._points}
        if self._ce is not None:
            found["by_alpha_beta"] = {"alpha": ALPHAS, "beta": BETAS, **_means(self._by_area)}
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


def _sums(
    support: Floats, labels: NDArray[np.int8], losses: Floats, thresholds: Sequence[float]
) -> Floats:
    """Counts and sums of known losses, float64 (n_thresholds, 4)."""
    known = (labels >= 0) & ~np.isnan(losses)
    return hard_sums(support[known], labels[known] == 1, losses[known], np.array(thresholds))


def _means(total: Floats) -> dict[str, list[Any]]:
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(total[..., :2] > 0, total[..., 2:] / total[..., :2], np.nan)
    return {side: means[..., place].tolist() for place, side in enumerate(("positive", "negative"))}
