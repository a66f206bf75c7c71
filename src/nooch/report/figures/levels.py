"""Scores of methods on hard images against easy ones, with intervals (paper, Figs. 4 to 7)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from nooch.base.errors import UndefinedError, check_one_of
from nooch.base.words import counted, printable
from nooch.evaluation import AVERAGE, Scores
from nooch.evaluation.averages import LARGER_IS_BETTER
from nooch.evaluation.metrics.proportions import wilson
from nooch.evaluation.rate_words import Rate
from nooch.report.figures.style import (
    BLUE,
    GRAY,
    ORANGE,
    PURPLE,
    SIDE_COLORS,
    canvas,
    new_axes,
    one_of,
    styled,
    worded,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


SIDES = ("hard_positive", "easy_positive", "hard_negative", "easy_negative")
_BOTH = ("hard", "easy")
LEVELS = {"auc": _BOTH, "error": SIDES, "nll": SIDES, "ece": _BOTH, "ece_paper": _BOTH}
"""Metric -> the subsets that are compared, in Figs. 4 to 7 in this order: a hard side with the easy
one of its label.
"""

SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("source", "criterion", "metric", "subset", "method"), pl.String),
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    "bar": pl.String,
    **dict.fromkeys(("tasks", "of_tasks"), pl.Int64),
    "averaged_tasks": pl.String,
    "seeds": pl.Int64,
}
_NAMES = {
    "auc": "AUC", "error": "error", "nll": "NLL", "ece": "ECE of the positive probability",
    "ece_paper": "the paper's ECE (top label's, times the subset's share)",
}  # fmt: skip
_LOOKS = {
    "hard": (ORANGE, "o"),
    "hard_positive": (ORANGE, "o"),
    "easy_positive": (BLUE, "o"),
    "hard_negative": (PURPLE, "D"),
    "easy_negative": (BLUE, "D"),
    "easy": (BLUE, "s"),
}
_SOURCE = "here"
_BARS = {
    "bootstrap": "95% bootstrap interval",
    "wilson": "95% Wilson interval",
    "jeffreys": "95% interval of Jeffreys",
}


def level_points(
    cells: pl.DataFrame, metric: str, source: str = _SOURCE, subsets: Sequence[str] | None = None
) -> pl.DataFrame:
    """The points of Figs. 4 to 7, from the cells of ``nooch.report.results.run_results.Results``.

    Returns ``source, criterion, metric, subset, method, value`` (mean over tasks and seeds) ``,
    low, high`` (one standard deviation to each side; null of one seed) ``, bar`` (what low and high
    are) ``, tasks`` (how many the mean is over) ``, of_tasks`` (how many there are) ``,
    averaged_tasks`` (their names) ``, seeds``. Methods without a value are left out.
    """
    mine = cells.filter(pl.col("subset").is_in(subsets or LEVELS[metric]), metric=metric)
    of_tasks = mine.filter(pl.col("task") != AVERAGE).group_by("criterion")
    n = of_tasks.agg(of_tasks=pl.col("task").n_unique())
    rows = mine.filter(task=AVERAGE).drop_nulls("mean")
    labeled = rows.join(n, on="criterion", how="left", maintain_order="left").with_columns(
        source=pl.lit(source),
        value="mean",
        low=pl.col("mean") - pl.col("std"),
        high=pl.col("mean") + pl.col("std"),
        bar=pl.lit("sd over seeds"),
        tasks="n_tasks",
        of_tasks=pl.col("of_tasks").fill_null(1),
        seeds="n_seeds",
    )
    return labeled.select(list(SCHEMA)).cast(SCHEMA)  # type: ignore[arg-type]


def points_of_scores(
    scores: Scores, metric: str, subsets: Sequence[str] | None = None
) -> pl.DataFrame:
    """The same from scores of single runs, a row for each run.

    Low and high bound its 95% interval (``bar`` names its kind). The scores must be of one split.
    Averages over tasks are taken if there are several tasks.
    """
    shown = pl.col("subset").is_in(subsets or LEVELS[metric])
    whole = pl.col("cue").is_null() & pl.col("group").is_null()
    plain = scores.table.filter(shown & whole, metric=metric)
    single = plain.filter(pl.col("task") != AVERAGE)
    n = single.group_by("criterion", "run").agg(of_tasks=pl.col("task").n_unique())
    averaged = plain.filter(task=AVERAGE)
    # of one task there is no average
    rest = single.join(averaged, on=["criterion", "run"], how="anti", maintain_order="left")
    rows = pl.concat([averaged, rest]).drop_nulls("value")
    bar = pl.col("interval").replace_strict(_BARS, default=None, return_dtype=pl.String)
    keys = ["criterion", "run"]
    labeled = rows.join(n, on=keys, how="left", maintain_order="left").with_columns(
        source=pl.lit(_SOURCE),
        method="run",
        bar=bar,
        tasks=pl.col("n_tasks").fill_null(1),
        averaged_tasks=pl.col("averaged_tasks").fill_null(pl.col("task")),
        seeds=pl.lit(1),
    )
    return labeled.select(list(SCHEMA)).cast(SCHEMA)  # type: ignore[arg-type]


class HasCells(Protocol):
    """Results of methods, as ``nooch.paper.read_results`` gives them."""

    @property
    def cells(self) -> pl.DataFrame:
        """The cells of results tables."""


def levels(
    results: HasCells | Scores,
    metric: str = "auc",
    criterion: str | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Scores of methods on hard images against easy ones (Figs. 4 to 7), a line for each method."""
    check_one_of("metric", metric, LEVELS)
    if isinstance(results, Scores):
        points = points_of_scores(results, metric)
    else:
        points = level_points(results.cells, metric)
    if not points.height:
        raise UndefinedError(f"there is no value of {metric}", remedy="score with this metric")
    return level_panel(points, one_of("criterion", criterion, points["criterion"]), new_axes(ax))


def level_panel(points: pl.DataFrame, criterion: str, ax: Axes) -> Axes:
    """The same of points: a line for each method, marks for subsets, bars from low to high."""
    methods = points["method"].unique(maintain_order=True).to_list()
    sources = points["source"].unique(maintain_order=True).to_list()
    part = points.filter(criterion=criterion)
    for number, source in enumerate(sources):
        shift = 0.0 if len(sources) == 1 else (number - (len(sources) - 1) / 2) * 0.36
        groups = part.filter(source=source).group_by("method", maintain_order=True)
        for (method,), rows in groups:
            y = methods.index(method) + shift
            ends = [min(rows["value"]), max(rows["value"])]
            ax.plot(ends, [y, y], color="0.82", linewidth=3, zorder=1)
            for row in rows.iter_rows(named=True):
                _mark(ax, row, y, hollow=number > 0)
    metric = points["metric"][0]
    better = "more is better" if metric in LARGER_IS_BETTER else "less is better"
    ax.set(xlabel=f"{_NAMES[metric]} ({better})", title=worded(criterion))
    ax.set(ylim=(len(methods) - 0.4, -0.6))
    ax.set_yticks(range(len(methods)), [worded(name) for name in methods])
    ax.grid(visible=False, axis="y")
    return ax


def _mark(ax: Axes, row: dict[str, Any], y: float, *, hollow: bool) -> None:
    color, marker = _LOOKS[row["subset"]]
    if row["low"] is not None:
        ends = [row["low"], row["high"]]
        ax.plot(ends, [y, y], color=color, linewidth=1.4, solid_capstyle="butt", zorder=2)
    face = "white" if hollow else color
    (line,) = ax.plot([row["value"]], [y], marker=marker, color=color, linestyle="none", zorder=3)
    line.set(markersize=5.5, markerfacecolor=face)


_WIDEST_LABEL = 40


def compared_rates(
    rows: Sequence[tuple[str, Sequence[Rate], bool]], title: str, ax: Axes | None
) -> Axes:
    """Two rates of errors with their 95% intervals in each row: its label, the rates, and if the
    difference is beyond chance; marks of others are hollow.
    """
    from matplotlib.ticker import PercentFormatter

    if not rows:
        raise UndefinedError(f"there are no {title}", allowed="a report that has some")
    ax = new_axes(ax, (8.0, 1.4 + 0.55 * len(rows)))
    ax.set_title(f"{title[0].upper()}{title[1:]}")
    for y, (_, rates, beyond_chance) in enumerate(rows):
        ends = [rate.value for rate in rates]
        ax.plot(ends, [y, y], color="0.82", linewidth=3, zorder=1)
        for rate, subset, shift in zip(rates, _BOTH, (-0.09, 0.09), strict=True):
            low, high = rate.low, rate.high
            if low is None and rate.n:
                low, high = map(float, wilson(np.array(rate.value), np.array(rate.n)))
            point = {"subset": subset, "value": rate.value, "low": low, "high": high}
            _mark(ax, point, y + shift, hollow=not beyond_chance)
    labels = (
        textwrap.wrap(printable(label), _WIDEST_LABEL, max_lines=3, placeholder=" …")
        for label, *_ in rows
    )
    ax.set_yticks(range(len(rows)), ["\n".join(map(worded, lines)) for lines in labels])
    # the last row has the legend
    ax.set(xlabel="rate of errors, with 95% intervals", ylim=(len(rows) + 0.3, -0.6))
    ax.set_xlim(left=-0.02 * ax.get_xlim()[1])
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.grid(visible=False, axis="y")
    marks = zip(_BOTH, ("in these images", "elsewhere"), strict=True)
    handles = [_legend_mark(*_LOOKS[subset], label) for subset, label in marks]
    if not all(beyond_chance for *_, beyond_chance in rows):
        handles.append(_legend_mark(GRAY, "o", "not beyond chance", "white"))
    small: dict[str, Any] = {"fontsize": "small", "columnspacing": 1, "handletextpad": 0.2}
    ax.legend(handles=handles, loc="lower right", ncols=len(handles), **small)
    return ax


@styled
def draw_levels(points: pl.DataFrame) -> Figure:
    """Figs. 4 to 7: a panel for each criterion, the subsets named below."""
    criteria = points["criterion"].unique(maintain_order=True).to_list()
    sources = points["source"].unique(maintain_order=True).to_list()
    height = 1.85 + 0.24 * points["method"].n_unique() * (1 + 0.5 * (len(sources) - 1))
    alone = len(criteria) == 1
    figure, axes = canvas(len(criteria), 5.2 if alone else 3.9, height, share=True)
    for ax, criterion in zip(axes, criteria, strict=True):
        # one label for all: next to each other, two long ones overlap
        label = level_panel(points, criterion, ax).get_xlabel()
        ax.set_xlabel("")
    figure.supxlabel(label, fontsize=9)
    figure.suptitle(_title(points), fontsize=9.5)
    marks = _legend(points, sources)
    figure.legend(handles=marks, loc="outside lower center", ncols=3 if alone else 5)
    return figure


def _title(points: pl.DataFrame) -> str:
    """Caption: metric, number of tasks, and meaning of the bars.

    A line each, so that one panel is wide enough.
    """
    counts = points.group_by("source", maintain_order=True).agg("tasks", "of_tasks").rows()
    over = [
        _range(*counted) + (f" ({worded(source)})" if len(counts) > 1 else "")
        for source, *counted in counts
    ]
    name = _NAMES[points["metric"][0]]
    lines = [f"{name} on hard and easy images", f"mean over {', '.join(over)}"]
    if "easy" in points["subset"] and "hard_positive" in points["subset"]:
        lines.append("easy: positives and negatives together, as the paper has it")
    bars = points.drop_nulls("low")["bar"].unique(maintain_order=True)
    lines += [f"bars: {', '.join(bars)}"] if len(bars) else []
    return "\n".join(lines)


def _range(counts: list[int], tasks: list[int]) -> str:
    """Number of averaged tasks, and of how many, in words; both may differ between criteria."""
    few, many, whole = min(counts), max(counts), max(tasks)
    over = f"{few} to {many}" if few < many else f"{few}"
    return f"{over} of {whole} tasks" if few < whole else counted(many, "task")


def _legend(points: pl.DataFrame, sources: list[str]) -> list[Any]:
    shown = set(points["subset"])
    marks = [
        _legend_mark(color, marker, f"{subset.replace('_', ' ')}{'s' if '_' in subset else ''}")
        for subset, (color, marker) in _LOOKS.items()
        if subset in shown
    ]
    if len(sources) > 1:
        faces = ["white" if number else GRAY for number in range(len(sources))]
        pairs = zip(sources, faces, strict=True)
        marks += [_legend_mark(GRAY, "o", worded(name), face) for name, face in pairs]
    return marks


def _legend_mark(color: str, marker: str, label: str, face: str | None = None) -> Line2D:
    from matplotlib.lines import Line2D

    line = Line2D([], [], color=color, marker=marker, linestyle="none", label=label)
    line.set_markerfacecolor(face or color)
    return line


_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("criterion", "side", "task"), pl.String),
    **dict.fromkeys(("all", "hard"), pl.Float64),
    **dict.fromkeys(("n", "n_hard", "runs"), pl.Int64),
}


def loss_points(losses: pl.DataFrame) -> pl.DataFrame:
    """The points of Fig. 3, from ``nooch.evaluation.class_losses``.

    Returns ``criterion, side`` (positive or negative), ``task``, ``all`` (mean NLL of the side's
    images), ``hard`` (of its hard ones; null if there is none), ``n`` and ``n_hard`` images,
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
    class_losses: pl.DataFrame,
    side: str = "positive",
    criterion: str | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Mean loss on hard images of a side against that on all of it, a point for each task (Fig. 3):
    on the dashed line hard images are not harder than all of their side.

    Args:
        class_losses: as ``nooch.evaluation.class_losses`` gives it.
        side: ``positive`` or ``negative``.
        criterion: criterion of the hard images; by default the only one.
        ax: where to draw; new axes by default.

    Raises:
        ParameterError: an unknown side or criterion, several criteria and none named.
    """
    from matplotlib.ticker import MaxNLocator

    criterion = one_of("criterion", criterion, class_losses["criterion"])
    check_one_of("side", side, SIDE_COLORS)
    ax = new_axes(ax)
    part = loss_points(class_losses).filter(criterion=criterion, side=side)
    part = part.drop_nulls(["all", "hard"])
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
def draw_losses(class_losses: pl.DataFrame) -> Figure:
    """All panels of Fig. 3 side by side: positives and negatives of each criterion."""
    criteria = class_losses["criterion"].unique(maintain_order=True)
    panels = [(criterion, side) for criterion in criteria for side in SIDE_COLORS]
    figure, axes = canvas(len(panels), 3.2, 3.3)
    for ax, (criterion, side) in zip(axes, panels, strict=True):
        losses(class_losses, side, criterion, ax=ax)
    return figure
