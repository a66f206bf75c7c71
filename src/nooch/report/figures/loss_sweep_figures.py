"""Average losses of hard images over thresholds, after the paper's Figs. 13 and 14."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from nooch.report.figures.style import SIDE_COLORS, new_axes
from nooch.report.figures.sweep_figures import (
    draw_sides,
    heat,
    largest,
    of_side,
    quartiles,
    tau_band,
)
from nooch.suites import POOLED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "draw_grid_losses", "draw_tau_losses", "grid_losses", "grid_points", "tau_losses", "tau_points",
]  # fmt: skip


def grid_points(grid: pl.DataFrame, task: str = POOLED) -> pl.DataFrame:
    """The fields of Fig. 13, from ``LossSweep.grid``.

    Returns:
        ``task, split, side, alpha, beta, hard`` (images; of all tasks together pairs of image and
        task) ``, loss``: their mean NLL, null without any.
    """
    sides = [
        of_side(grid.filter(task=task), side, ["alpha", "beta"], loss="loss_{}")
        for side in SIDE_COLORS
    ]
    return pl.concat(sides).sort(pl.col("side") != "positive", "alpha", "beta")


def tau_points(tau: pl.DataFrame) -> pl.DataFrame:
    """The lines of Fig. 14, from ``LossSweep.tau``.

    Returns:
        ``task`` (all together), ``split, side, tau, hard, loss`` as in Fig. 13, and ``low, median,
        high``: quartiles of the mean losses of single tasks, of the ``tasks`` that have hard images
        there.
    """
    single = tau.filter(pl.col("task") != POOLED)
    sides = []
    for side in SIDE_COLORS:
        pooled = of_side(tau.filter(task=POOLED), side, ["tau"], loss="loss_{}")
        bands = quartiles(single, side, f"loss_{side}").drop("side")
        sides.append(pooled.join(bands, on="tau", how="left", maintain_order="left"))
    return pl.concat(sides)


def grid_losses(points: pl.DataFrame, side: str = "positive", ax: Axes | None = None) -> Axes:
    """One panel of Fig. 13: mean NLL of hard images over alpha and beta; white without any."""
    ax = new_axes(ax)
    part = points.filter(side=side)
    # the two sides differ by more than a shared scale could show
    heat(ax, part, "loss", top=largest(part["loss"]), label="mean NLL")
    ax.set_title(f"NLL of hard {side}s by CE ({part['split'][0]})")
    return ax


def tau_losses(points: pl.DataFrame, side: str = "positive", ax: Axes | None = None) -> Axes:
    """One panel of Fig. 14: mean NLL of hard images by tau, all pairs together and over tasks."""
    ax = new_axes(ax)
    part = points.filter(side=side)
    tau_band(ax, part, SIDE_COLORS[side])
    known = part.drop_nulls("loss")
    style: Any = {"color": "black", "linestyle": "--", "linewidth": 1.3}
    ax.plot(known["tau"], known["loss"], **style, label="all hard images")
    title = f"NLL of hard {side}s by the gist criterion ({part['split'][0]})"
    ax.set(xlabel="tau", ylabel="mean NLL", title=title, ylim=(0, None))
    ax.legend()
    return ax


draw_grid_losses = partial(draw_sides, draw=grid_losses)
"""Fig. 13: positives and negatives side by side, each on its own scale."""
draw_tau_losses = partial(draw_sides, draw=tau_losses)
"""Fig. 14: positives and negatives side by side."""
