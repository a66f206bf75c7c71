"""Sweeps as pictures, after the paper's Figs. 10 to 12: first their data as tables, then axes and
figures of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nooch.challenge import POOLED
from nooch.report.figure_style import SIDE_COLORS, canvas, new_axes, styled, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "by_tau",
    "cue_counts",
    "cues",
    "draw_cues",
    "draw_shares",
    "draw_sides",
    "draw_tau",
    "heat",
    "largest",
    "matrix",
    "quartiles",
    "share_points",
    "shares",
    "tau_band",
    "tau_counts",
]

_MOST_CUES = 5


def cue_counts(cues: pl.DataFrame) -> pl.DataFrame:
    """The lines of Fig. 10, from ``Sweep.cues``: ``alpha``, ``cues`` (1 to 5) and ``tasks`` that
    have at least so many.
    """
    lines = cues.group_by("alpha").agg(
        pl.col("n_cues").ge(k).sum().cast(pl.Int64).alias(str(k)) for k in range(1, _MOST_CUES + 1)
    )
    long = lines.unpivot(index="alpha", variable_name="cues", value_name="tasks")
    return (
        long.with_columns(pl.col("cues").cast(pl.Int64))
        .sort("cues", "alpha")
        .select("alpha", "cues", "tasks")
    )


def share_points(grid: pl.DataFrame, split: str, task: str = POOLED) -> pl.DataFrame:
    """The fields of Fig. 12, from ``Sweep.grid``.

    Returns:
        ``task, split, side, alpha, beta, hard`` (images) ``, n`` (images of the side) and
        ``share``: P(hard | y), null without an image.
    """
    part = grid.filter(split=split, task=task)
    sides = [
        part.select(
            "task", "split", pl.lit(side).alias("side"), "alpha", "beta", pl.col(f"hard_{side}s").alias("hard"),
            pl.col(f"{side}s").alias("n"), pl.col(f"share_{side}").alias("share"),
        )
        for side in SIDE_COLORS
    ]  # fmt: skip
    return pl.concat(sides).sort(pl.col("side") != "positive", "alpha", "beta")


def tau_counts(tau: pl.DataFrame, split: str) -> pl.DataFrame:
    """The bands of Fig. 11, from ``Sweep.tau``.

    Returns:
        ``split, side, tau``, then ``low, median, high``: quartiles over tasks of the number of hard
            images, and ``tasks``.
    """
    part = tau.filter(pl.col("task") != POOLED, split=split)
    sides = [quartiles(part, side, f"hard_{side}s") for side in SIDE_COLORS]
    return pl.concat(sides).select(pl.lit(split).alias("split"), pl.all())


def quartiles(table: pl.DataFrame, side: str, column: str) -> pl.DataFrame:
    """``side, tau, low, median, high, tasks``: quartiles of a column over tasks, which nulls are no
    part of.
    """
    value = pl.col(column)
    return table.group_by("tau").agg(
        value.quantile(0.25, "linear").alias("low"),
        value.median().alias("median"),
        value.quantile(0.75, "linear").alias("high"),
        tasks=value.count().cast(pl.Int64),
    ).sort("tau").select(pl.lit(side).alias("side"), pl.all())  # fmt: skip


def cues(counts: pl.DataFrame, ax: Axes | None = None) -> Axes:
    """Fig. 10: number of tasks with at least 1, 2, ... cues by alpha, from ``cue_counts``."""
    from matplotlib import colormaps
    from matplotlib.ticker import MaxNLocator

    ax = new_axes(ax)
    markers = "osD^v"
    for k, color in enumerate(colormaps["cividis"](np.linspace(0, 0.85, _MOST_CUES)), 1):
        line = counts.filter(cues=k)
        ax.plot(
            line["alpha"], line["tasks"], color=color, marker=markers[k - 1], markersize=4, label=f"{k} or more", linewidth=1.4,
            markeredgewidth=0,
        )  # fmt: skip
    ax.set(xlabel="alpha", ylabel="tasks", title="Tasks by number of context cues", ylim=(0, None))
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.legend(title="cues")
    return ax


def shares(points: pl.DataFrame, side: str = "positive", ax: Axes | None = None) -> Axes:
    """One panel of Fig. 12: P(hard | y) over alpha and beta, from ``share_points``; a white line
    where both sides are equal.
    """
    ax = new_axes(ax)
    part = points.filter(side=side)
    name, split = part.select("task", "split").row(0)
    heat(ax, part, "share", top=largest(points["share"]), label="share of images")
    ax.set_title(f"P(hard | {side}), {worded(name)} ({split})")
    wide = {one: matrix(points.filter(side=one), "share") for one in SIDE_COLORS}
    _draw_equal(ax, part["alpha"].unique().sort(), part["beta"].unique().sort(), wide)
    return ax


def heat(ax: Axes, part: pl.DataFrame, column: str, *, top: float, label: str) -> None:
    """A field over alpha and beta, null left white, with its scale from 0 to ``top``."""
    values = matrix(part, column)
    alphas, betas = part["alpha"].unique().sort(), part["beta"].unique().sort()
    shown = ax.pcolormesh(
        alphas,
        betas,
        values,
        vmin=0,
        vmax=top,
        cmap="cividis",
        shading="nearest",
        rasterized=True,
        zorder=1,
    )
    ax.grid(visible=False)
    ax.set(xlabel="alpha", ylabel="beta")
    ax.figure.colorbar(shown, ax=ax, label=label)


def matrix(part: pl.DataFrame, column: str) -> Any:
    """Values as float64 (n_betas, n_alphas), NaN where null."""
    ordered = part.sort("beta", "alpha")
    values = ordered[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return values.reshape(part["beta"].n_unique(), part["alpha"].n_unique())


def largest(values: pl.Series) -> float:
    """The largest value, the top of a scale; 1 where nothing is known or all is 0."""
    top: Any = values.max()
    return float(top or 1.0)


def _draw_equal(ax: Axes, alphas: pl.Series, betas: pl.Series, share: dict[str, Any]) -> None:
    difference = share["positive"] - share["negative"]
    # a line of equality needs both signs and more than one row and column; without a positive all
    # is NaN
    if min(difference.shape) > 1 and (difference < 0).any() and (difference > 0).any():
        from matplotlib.lines import Line2D

        ax.contour(alphas, betas, difference, levels=[0.0], colors="white", linewidths=1.2)
        line = Line2D([], [], color="white", linewidth=1.2, label="both sides equal")
        # on a dark ground of its own: the field below may be light
        ax.legend(
            handles=[line], frameon=True, facecolor="0.25", labelcolor="white", loc="upper right"
        )


def by_tau(bands: pl.DataFrame, side: str = "positive", ax: Axes | None = None) -> Axes:
    """One panel of Fig. 11: hard images by tau, median and quartiles over tasks, from
    ``tau_counts``.
    """
    ax = new_axes(ax)
    part = bands.filter(side=side)
    tau_band(ax, part, SIDE_COLORS[side])
    split = part["split"][0]
    ax.set(
        xlabel="tau",
        ylabel="images",
        title=f"Hard {side}s by the gist criterion ({split})",
        ylim=(0, None),
    )
    ax.legend()
    return ax


def tau_band(ax: Axes, part: pl.DataFrame, color: str) -> None:
    """The median task as a line, half of the tasks as a band."""
    known = part.drop_nulls("median")
    ax.fill_between(
        known["tau"],
        known["low"],
        known["high"],
        color=color,
        alpha=0.22,
        linewidth=0,
        label="half of the tasks",
    )
    ax.plot(known["tau"], known["median"], color=color, linewidth=1.6, label="median task")


@styled
def draw_cues(counts: pl.DataFrame) -> Figure:
    """Fig. 10 alone."""
    figure, (ax,) = canvas(1, 4.8)
    cues(counts, ax)
    return figure


@styled
def draw_shares(points: pl.DataFrame) -> Figure:
    """Fig. 12: positives and negatives side by side, on one scale."""
    return draw_sides(points, shares)


@styled
def draw_tau(bands: pl.DataFrame) -> Figure:
    """Fig. 11: positives and negatives side by side."""
    return draw_sides(bands, by_tau)


def draw_sides(table: pl.DataFrame, draw: Any, sides: Sequence[str] = tuple(SIDE_COLORS)) -> Figure:
    """A panel for positives beside one for negatives; ``draw`` takes the table, the side and axes."""
    figure, axes = canvas(len(sides), 4.6)
    for ax, side in zip(axes, sides, strict=True):
        draw(table, side, ax)
    return figure
