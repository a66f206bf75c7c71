"""Pictures for notebooks and papers: functions draw on matplotlib axes (``ax=``) and return them.

    import nooch

    nooch.plot.support(suite.set("ce", "car", "test"))
    nooch.plot.levels(results, "auc")

Functions take what nooch computes: suites' sets, scores, results, sweeps. ``nooch figure`` draws
the paper's whole figures from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl

from nooch.base.errors import ParameterError, UndefinedError, check_one_of
from nooch.evaluation import Scores
from nooch.evaluation.losses import LossSweep
from nooch.report.figures import (
    levels as level_figures,
    levels as loss_figures,
    sweeps as loss_sweep_figures,
    sweeps as sweep_figures,
)
from nooch.report.figures.levels import LEVELS, level_points, points_of_scores
from nooch.report.figures.style import SIDE_COLORS, new_axes, worded
from nooch.report.figures.sweeps import save_sweep
from nooch.report.images.galleries import save_gallery
from nooch.suites import POOLED, ChallengeSet, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "HasCells", "cues", "hard_by_tau", "levels", "losses", "losses_by_area", "losses_by_tau",
    "save_gallery", "save_sweep", "shares", "support",
]  # fmt: skip


class HasCells(Protocol):
    """Results of methods, as ``nooch.paper.read_results`` gives them."""

    @property
    def cells(self) -> pl.DataFrame:
        """The cells of results tables."""


def support(challenge: ChallengeSet, *, ax: Axes | None = None, bins: int = 40) -> Axes:
    """Histograms of context support of a challenge set, each side as a share of its images.

    Hard positives lie below their line, hard negatives above.
    """
    if challenge.support is None or not len(challenge):
        raise UndefinedError(
            f"{challenge.criterion} gives no support for {challenge.task}",
            allowed="a set of a criterion with support",
        )
    ax = new_axes(ax)
    edges = np.histogram_bin_edges(challenge.support, bins).tolist()
    sides = (
        ("positive", challenge.labels, challenge.positive, "below", "--"),
        ("negative", ~challenge.labels, challenge.negative, "above", ":"),
    )
    for side, mask, threshold, bound, line in sides:
        values, hard, color = challenge.support[mask], threshold.threshold, SIDE_COLORS[side]
        if len(values):
            weights, label = np.full(len(values), 1 / len(values)), f"{side}s ({len(values):,})"
            ax.hist(values, edges, weights=weights, color=color, alpha=0.45, label=label)
            if hard is not None:
                ax.axvline(hard, color=color, linestyle=line, label=f"hard {side}s {bound}")
    title = f"{worded(challenge.task)} by {worded(challenge.criterion)} ({challenge.split})"
    ax.set(xlabel="context support", ylabel="share of the side's images", title=title)
    ax.legend()
    return ax


def levels(
    results: HasCells | Scores,
    metric: str = "auc",
    criterion: str | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """What methods score on hard images against easy ones (Figs. 4 to 7), a line for each
    method.
    """
    check_one_of("metric", metric, LEVELS)
    if isinstance(results, Scores):
        points = points_of_scores(results, metric)
    else:
        points = level_points(results.cells, metric)
    if not points.height:
        raise UndefinedError(f"there is no value of {metric}", remedy="score with this metric")
    return level_figures.levels(points, _one("criterion", criterion, points["criterion"]), ax)


def losses(
    class_losses: pl.DataFrame,
    side: str = "positive",
    criterion: str | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Mean loss on hard images of a side against that on all of it, a point for each task (Fig. 3).

    Args:
        class_losses: as ``nooch.evaluation.class_losses`` gives it.
        side: ``positive`` or ``negative``.
        criterion: whose hard images; the only one by default.
        ax: where to draw; new axes by default.

    Raises:
        ParameterError: an unknown side or criterion, several criteria and none named.
    """
    points = loss_figures.loss_points(class_losses)
    return loss_figures.losses(
        points, _one("criterion", criterion, points["criterion"]), _side(side), ax
    )


def cues(sweep: Sweep, *, ax: Axes | None = None) -> Axes:
    """Number of tasks with at least 1 to 5 context cues by alpha (Fig. 10)."""
    return sweep_figures.cues(sweep_figures.cue_counts(_swept(sweep.cues, "alpha")), ax)


def hard_by_tau(
    sweep: Sweep, side: str = "positive", split: str | None = None, *, ax: Axes | None = None
) -> Axes:
    """Hard images by tau, median and quartiles over tasks (Fig. 11)."""
    table = _swept(sweep.tau, "tau")
    return sweep_figures.by_tau(
        sweep_figures.tau_counts(table, _one("split", split, table["split"])), _side(side), ax
    )


def shares(
    sweep: Sweep,
    side: str = "positive",
    split: str | None = None,
    *,
    task: str = POOLED,
    ax: Axes | None = None,
) -> Axes:
    """P(hard | y) over alpha and beta (Fig. 12); the white line: equal for both labels."""
    table = _swept(sweep.grid, "alpha and beta")
    check_one_of("task", task, table["task"].unique().to_list(), owner="the sweep")
    points = sweep_figures.share_points(table, _one("split", split, table["split"]), task)
    return sweep_figures.shares(points, _side(side), ax)


def losses_by_area(
    sweep: LossSweep, side: str = "positive", *, task: str = POOLED, ax: Axes | None = None
) -> Axes:
    """Mean NLL of the images that are hard by CE over alpha and beta (Fig. 13)."""
    table = _swept(sweep.grid, "alpha and beta")
    check_one_of("task", task, table["task"].unique().to_list(), owner="the sweep")
    return loss_sweep_figures.grid_losses(
        loss_sweep_figures.grid_points(table, task), _side(side), ax
    )


def losses_by_tau(sweep: LossSweep, side: str = "positive", *, ax: Axes | None = None) -> Axes:
    """Mean NLL of the images that are hard by the gist criterion by tau (Fig. 14)."""
    points = loss_sweep_figures.tau_points(_swept(sweep.tau, "tau"))
    return loss_sweep_figures.tau_losses(points, _side(side), ax)


def _side(side: str) -> str:
    return check_one_of("side", side, SIDE_COLORS)


def _swept(table: pl.DataFrame, what: str) -> pl.DataFrame:
    if not table.height:
        raise UndefinedError(f"{what} was not swept", remedy=f"sweep over {what}")
    return table


def _one(kind: str, name: str | None, column: pl.Series) -> str:
    """The name that was given, or the only one there is."""
    known = column.unique(maintain_order=True).to_list()
    if name is None:
        if len(known) > 1:
            raise ParameterError(
                f"which {kind}?", allowed=", ".join(known), remedy=f"give {kind}=NAME"
            )
        return str(known[0])
    return check_one_of(kind, name, known)
