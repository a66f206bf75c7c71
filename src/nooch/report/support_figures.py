"""A challenge set as a picture: context support by side, and where images become hard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nooch.errors import UndefinedError
from nooch.report.figure_style import SIDE_COLORS, new_axes, worded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nooch.challenge import ChallengeSet

__all__ = ["support"]


def support(challenge: ChallengeSet, ax: Axes | None = None, bins: int = 40) -> Axes:
    """Histograms of context support, each side as a share of its images.

    Hard positives lie below their line, hard negatives above.

    Args:
        challenge: a set of a criterion that has support.
        ax: where to draw; new axes by default.
        bins: number of bins between the smallest and the largest support.

    Raises:
        UndefinedError: the criterion gives no support, or the set no image.
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
