"""Losses on hard images against losses on all of a side, a point for each task (paper, Fig. 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from nooch.report.figures.style import SIDE_COLORS, canvas, new_axes, styled, worded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_losses", "loss_points", "losses"]

_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("criterion", "side", "task"), pl.String),
    **dict.fromkeys(("all", "hard"), pl.Float64),
    **dict.fromkeys(("n", "n_hard", "runs"), pl.Int64),
}


def loss_points(losses: pl.DataFrame) -> pl.DataFrame:
    """The points of Fig. 3, from ``nooch.evaluation.class_losses``.

    Returns:
        ``criterion, side`` (positive or negative), ``task``, ``all`` (mean NLL of the side's
        images), ``hard`` (of its hard ones; null where there is none), ``n`` and ``n_hard`` images,
        ``runs``.
    """
    parts = []
    for side in SIDE_COLORS:
        names = {"all": side, "hard": f"hard_{side}", "n": f"{side}s", "n_hard": f"hard_{side}s"}
        parts.append(losses.with_columns(side=pl.lit(side), **names).select(list(_SCHEMA)))
    points = pl.concat(parts).cast(_SCHEMA)  # type: ignore[arg-type]
    place = pl.col("criterion").cast(pl.Enum(losses["criterion"].unique(maintain_order=True)))
    return points.sort(place, pl.col("side") != "positive", maintain_order=True)


def losses(
    points: pl.DataFrame, criterion: str, side: str = "positive", ax: Axes | None = None
) -> Axes:
    """One panel of Fig. 3: on the dashed line hard images are no harder than all of their side.

    Args:
        points: as ``loss_points`` gives them.
        criterion: whose hard images.
        side: ``positive`` or ``negative``.
        ax: where to draw; new axes by default.
    """
    from matplotlib.ticker import MaxNLocator

    ax = new_axes(ax)
    part = points.filter(criterion=criterion, side=side).drop_nulls(["all", "hard"])
    top = max([1e-9, *part["all"], *part["hard"]]) * 1.05
    ax.plot([0, top], [0, top], color="0.6", linestyle="--", linewidth=1)
    style: Any = {"s": 22, "alpha": 0.75, "linewidths": 0.4, "edgecolors": "white", "zorder": 3}
    ax.scatter(part["all"], part["hard"], color=SIDE_COLORS[side], **style)
    above = int((part["hard"] > part["all"]).sum())
    title = f"{worded(criterion)}, {side}s: {above} of {part.height} above"
    ax.set(xlabel=f"NLL, all {side}s", ylabel=f"NLL, hard {side}s", title=title)
    ax.set(xlim=(0, top), ylim=(0, top), aspect="equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5))
    return ax


@styled
def draw_losses(points: pl.DataFrame) -> Figure:
    """All panels of Fig. 3 side by side: positives and negatives of each criterion."""
    panels = points.select("criterion", "side").unique(maintain_order=True).rows()
    figure, axes = canvas(len(panels), 3.2, 3.3)
    for ax, (criterion, side) in zip(axes, panels, strict=True):
        losses(points, criterion, side, ax)
    return figure
