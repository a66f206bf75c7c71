"""Sweeps as pictures, after the paper's Figs. 10 to 12."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nooch.challenge import POOLED
from nooch.report.style import BLUE, ORANGE, canvas, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cues_figure", "shares_figure", "tau_figure"]

_MOST_CUES = 5


def cues_figure(cues: pl.DataFrame) -> bytes:
    """Number of tasks with at least 1, 2, ... cues by alpha (Fig. 10), from ``Sweep.cues``, as SVG."""
    figure, (axes,) = canvas(1)
    counts = cues.group_by("alpha").agg(
        pl.col("n_cues").ge(k).sum().alias(str(k)) for k in range(1, _MOST_CUES + 1)
    ).sort("alpha")  # fmt: skip
    for k in range(1, _MOST_CUES + 1):
        shade = 0.35 + 0.65 * (_MOST_CUES - k) / (_MOST_CUES - 1)
        axes.plot(
            counts["alpha"], counts[str(k)], color=BLUE, alpha=shade, marker="o", markersize=3, label=f"{k} or more"
        )
    axes.set(xlabel="alpha", ylabel="tasks", title="Tasks by number of context cues", ylim=(0, None))
    axes.legend(title="cues", frameon=False)
    return svg(figure)


def shares_figure(grid: pl.DataFrame, split: str, task: str = POOLED) -> bytes:
    """P(hard | y) over the grid of alpha and beta (Fig. 12), from ``Sweep.grid``, as SVG; a line where the two are equal."""
    figure, axes = canvas(2)
    part = grid.filter(split=split, task=task)
    alphas, betas = part["alpha"].unique().sort(), part["beta"].unique().sort()
    share = {
        side: part.sort("beta", "alpha")[f"share_{side}"].fill_null(np.nan).to_numpy().reshape(len(betas), len(alphas))
        for side in ("positive", "negative")
    }
    top = max(np.nanmax(values, initial=0.0) for values in share.values()) or 1.0
    for place, (side, values) in zip(axes, share.items(), strict=True):
        shown = place.pcolormesh(
            alphas, betas, values, vmin=0, vmax=top, cmap="cividis", shading="nearest", rasterized=True
        )
        place.set(xlabel="alpha", ylabel="beta", title=f"P(hard | {side}), {task} ({split})")
        figure.colorbar(shown, ax=place)
        _draw_equal(place, alphas, betas, share)
    return svg(figure)


def _draw_equal(axes: Axes, alphas: pl.Series, betas: pl.Series, share: dict[str, Any]) -> None:
    difference = share["positive"] - share["negative"]
    # a line of equality needs both signs and more than one row and column; without a positive all is NaN
    if min(difference.shape) > 1 and (difference < 0).any() and (difference > 0).any():
        axes.contour(alphas, betas, difference, levels=[0.0], colors="white", linewidths=1)


def tau_figure(tau: pl.DataFrame, split: str) -> bytes:
    """Hard positives and negatives by tau over tasks (Fig. 11), from ``Sweep.tau``: median and quartiles, as SVG."""
    figure, axes = canvas(2)
    part = tau.filter(pl.col("task") != POOLED, split=split)
    for place, side, color in zip(axes, ("positive", "negative"), (BLUE, ORANGE), strict=True):
        column = pl.col(f"hard_{side}s")
        by = part.group_by("tau").agg(
            column.quantile(0.25).alias("low"), column.median().alias("middle"), column.quantile(0.75).alias("high")
        ).sort("tau")  # fmt: skip
        place.plot(by["tau"], by["middle"], color=color, label="median task")
        place.fill_between(
            by["tau"], by["low"], by["high"], color=color, alpha=0.25, linewidth=0, label="half of the tasks"
        )
        place.set(xlabel="tau", ylabel="images", title=f"Hard {side}s by the gist criterion ({split})", ylim=(0, None))
        place.legend(frameon=False)
    return svg(figure)
