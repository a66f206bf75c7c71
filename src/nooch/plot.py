"""Pictures for notebooks and papers: functions draw on matplotlib axes (``ax=``) and return them.

    import nooch

    nooch.plot.support(suite.set("ce", "car", "test"))
    nooch.plot.levels(results, "auc")

Functions take what nooch computes: suites' sets, scores, results, sweeps. ``nooch paper figures``
draws the paper's whole figures from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nooch.base.errors import UndefinedError
from nooch.report.figures.levels import HasCells, levels, losses
from nooch.report.figures.style import SIDE_COLORS, new_axes, worded
from nooch.report.figures.sweeps import (
    cues,
    hard_by_tau,
    losses_by_area,
    losses_by_tau,
    save_sweep,
    shares,
)
from nooch.report.images.galleries import save_gallery
from nooch.suites import ChallengeSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "HasCells", "cues", "hard_by_tau", "levels", "losses", "losses_by_area", "losses_by_tau",
    "save_gallery", "save_sweep", "shares", "support",
]  # fmt: skip


def support(challenge: ChallengeSet, *, ax: Axes | None = None, bins: int = 40) -> Axes:
    """Histograms of context support of a challenge set, each side as a share of its images.

    Hard positives lie below their line, hard negatives above.
    """
    if challenge.support is None or not len(challenge):
        problem = f"{challenge.criterion} gives no support for {challenge.task}"
        raise UndefinedError(problem, allowed="a set of a criterion with support")
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
