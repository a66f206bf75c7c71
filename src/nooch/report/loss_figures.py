"""Losses on hard images against losses on all of a side, a point for each task (paper, Fig. 3)."""

from __future__ import annotations

import polars as pl

from nooch.report.style import BLUE, ORANGE, canvas, svg

__all__ = ["losses_figure"]

_SIDES = (("positive", BLUE), ("negative", ORANGE))


def losses_figure(losses: pl.DataFrame) -> bytes:
    """Two panels for each criterion, positives and negatives, from ``nooch.evaluation.class_losses``, as SVG.

    On the dashed line hard images are no harder than all of their side.
    """
    criteria = list(dict.fromkeys(losses["criterion"].to_list()))
    figure, axes = canvas(2 * len(criteria))
    panels = ((criterion, side, color) for criterion in criteria for side, color in _SIDES)
    for place, (criterion, side, color) in zip(axes, panels, strict=True):
        part = losses.filter(criterion=criterion).drop_nulls([side, f"hard_{side}"])
        top = max([1e-9, *part[side], *part[f"hard_{side}"]]) * 1.05
        place.plot([0, top], [0, top], color="0.6", linestyle="--", linewidth=1)
        place.scatter(part[side], part[f"hard_{side}"], color=color, s=14, alpha=0.7, linewidths=0)
        above = int((part[f"hard_{side}"] > part[side]).sum())
        place.set(
            xlabel=f"NLL, all {side}s",
            ylabel=f"NLL, hard {side}s",
            title=f"{criterion}, {side}s: {above} of {part.height} above",
            xlim=(0, top),
            ylim=(0, top),
        )
    return svg(figure)
