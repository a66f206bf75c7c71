"""What methods score on hard images against easy ones, with intervals (paper, Figs. 4 to 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from nooch.evaluation import AVERAGE, Scores
from nooch.evaluation.score_summaries import LARGER_IS_BETTER
from nooch.report.figure_style import BLUE, GREY, ORANGE, PURPLE, canvas, new_axes, styled, worded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LEVELS", "PAPER_LEVELS", "draw_levels", "level_points", "levels", "points_of_scores"]

SIDES = ("hard_positive", "easy_positive", "hard_negative", "easy_negative")
LEVELS = {
    "auc": ("hard", "easy"),
    "error": SIDES,
    "nll": SIDES,
    "ece": ("hard", "easy"),
    "ece_paper": ("hard", "easy"),
}
"""Metric -> the subsets that are set against one another, in Figs. 4 to 7 in this order: a hard
side against the easy one of its label.
"""

PAPER_LEVELS = {
    **LEVELS,
    **dict.fromkeys(("error", "nll"), ("hard_positive", "hard_negative", "easy")),
}
"""The same as the paper has them: it gives no easy side, only both together."""

SCHEMA = {
    "source": pl.String, "criterion": pl.String, "metric": pl.String, "subset": pl.String, "method": pl.String,
    "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "bar": pl.String,
    "tasks": pl.Int64, "of_tasks": pl.Int64, "averaged_tasks": pl.String, "seeds": pl.Int64,
}  # fmt: skip
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
_BARS = {"bootstrap": "95 % bootstrap interval", "wilson": "95 % Wilson interval"}


def level_points(
    cells: pl.DataFrame, metric: str, source: str = _SOURCE, subsets: Sequence[str] | None = None
) -> pl.DataFrame:
    """The points of Figs. 4 to 7, from the cells of results
    (``nooch.results.run_results.Results``).

    Args:
        cells: of methods with their chosen settings; the rows of task ``average`` are taken.
        metric: one of ``LEVELS``.
        source: whose numbers these are, in a word.
        subsets: those of ``LEVELS`` by default.

    Returns:
        ``source, criterion, metric, subset, method, value`` (mean over tasks and seeds) ``, low,
        high`` (one standard deviation to each side; null of one seed) ``, bar`` (what low and high
        are) ``, tasks`` (how many the mean is over) ``, of_tasks`` (how many there are) ``,
        averaged_tasks`` (their names) ``, seeds``. Methods without a value are left out.
    """
    mine = cells.filter(pl.col("subset").is_in(subsets or LEVELS[metric]), metric=metric)
    n = (
        mine.filter(pl.col("task") != AVERAGE)
        .group_by("criterion")
        .agg(of_tasks=pl.col("task").n_unique())
    )
    rows = mine.filter(pl.col("task") == AVERAGE).drop_nulls("mean")
    return rows.join(n, on="criterion", how="left", maintain_order="left").select(
        pl.lit(source).alias("source"),
        "criterion",
        "metric",
        "subset",
        "method",
        pl.col("mean").alias("value"),
        (pl.col("mean") - pl.col("std")).alias("low"),
        (pl.col("mean") + pl.col("std")).alias("high"),
        pl.lit("sd over seeds").alias("bar"),
        pl.col("n_tasks").alias("tasks"),
        pl.col("of_tasks").fill_null(1),
        "averaged_tasks",
        pl.col("n_seeds").alias("seeds"),
    ).cast(SCHEMA)  # type: ignore[arg-type] # fmt: skip


def points_of_scores(
    scores: Scores, metric: str, source: str = _SOURCE, subsets: Sequence[str] | None = None
) -> pl.DataFrame:
    """The same from scores of single runs: a row for each run, low and high bound its 95 % interval
    (``bar`` says which).

    One split is taken: the scores must be of one. Averages over tasks are taken where there are
    several tasks.
    """
    plain = scores.table.filter(
        pl.col("subset").is_in(subsets or LEVELS[metric]),
        pl.col("cue").is_null(),
        pl.col("group").is_null(),
        metric=metric,
    )
    single = plain.filter(pl.col("task") != AVERAGE)
    n = single.group_by("criterion", "run").agg(of_tasks=pl.col("task").n_unique())
    averaged = plain.filter(pl.col("task") == AVERAGE)
    # of one task there is no average
    rest = single.join(averaged, on=["criterion", "run"], how="anti", maintain_order="left")
    rows = pl.concat([averaged, rest]).drop_nulls("value")
    return rows.join(n, on=["criterion", "run"], how="left", maintain_order="left").select(
        pl.lit(source).alias("source"),
        "criterion",
        "metric",
        "subset",
        pl.col("run").alias("method"),
        "value",
        "low",
        "high",
        pl.col("interval").replace_strict(_BARS, default=None, return_dtype=pl.String).alias("bar"),
        pl.col("n_tasks").fill_null(1).alias("tasks"),
        "of_tasks",
        pl.col("averaged_tasks").fill_null(pl.col("task")),
        pl.lit(1).alias("seeds"),
    ).cast(SCHEMA)  # type: ignore[arg-type] # fmt: skip


def levels(points: pl.DataFrame, criterion: str, ax: Axes | None = None) -> Axes:
    """One panel of Figs. 4 to 7: a line for each method, a mark for each subset, bars from low to
    high.

    Args:
        points: as ``level_points`` or ``points_of_scores`` give them. Those of a second source are
            hollow and a little lower.
        criterion: whose hard and easy images.
        ax: where to draw; new axes by default.
    """
    ax = new_axes(ax)
    methods = points["method"].unique(maintain_order=True).to_list()
    sources = points["source"].unique(maintain_order=True).to_list()
    part = points.filter(criterion=criterion)
    for number, source in enumerate(sources):
        shift = 0.0 if len(sources) == 1 else (number - (len(sources) - 1) / 2) * 0.36
        for method, rows in part.filter(source=source).partition_by("method", as_dict=True).items():
            y = methods.index(method[0]) + shift
            ax.plot(
                [min(rows["value"]), max(rows["value"])],
                [y, y],
                color="0.82",
                linewidth=3,
                zorder=1,
            )
            for row in rows.iter_rows(named=True):
                _mark(ax, row, y, hollow=number > 0)
    metric = points["metric"][0]
    better = "more is better" if metric in LARGER_IS_BETTER else "less is better"
    ax.set(
        xlabel=f"{_NAMES[metric]} ({better})",
        title=worded(criterion),
        ylim=(len(methods) - 0.4, -0.6),
    )
    ax.set_yticks(range(len(methods)), [worded(name) for name in methods])
    ax.grid(visible=False, axis="y")
    return ax


def _mark(ax: Axes, row: dict[str, Any], y: float, *, hollow: bool) -> None:
    color, marker = _LOOKS[row["subset"]]
    if row["low"] is not None:
        ax.plot(
            [row["low"], row["high"]],
            [y, y],
            color=color,
            linewidth=1.4,
            solid_capstyle="butt",
            zorder=2,
        )
    ax.plot(
        [row["value"]], [y], marker=marker, color=color, markersize=5.5, linestyle="none", zorder=3,
        markerfacecolor="white" if hollow else color,
    )  # fmt: skip


@styled
def draw_levels(points: pl.DataFrame) -> Figure:
    """Figs. 4 to 7: a panel for each criterion, the subsets named below."""
    criteria = points["criterion"].unique(maintain_order=True).to_list()
    methods, sources = (
        points["method"].n_unique(),
        points["source"].unique(maintain_order=True).to_list(),
    )
    height = 1.85 + 0.24 * methods * (1 + 0.5 * (len(sources) - 1))
    alone = len(criteria) == 1
    figure, axes = canvas(len(criteria), 5.2 if alone else 3.9, height, share=True)
    for ax, criterion in zip(axes, criteria, strict=True):
        levels(points, criterion, ax)
    figure.suptitle(_title(points), fontsize=9.5)
    figure.legend(
        handles=_legend(points, sources), loc="outside lower center", ncols=3 if alone else 5
    )
    return figure


def _title(points: pl.DataFrame) -> str:
    """What is shown, over how many tasks, and what the bars are: a line each, so that one panel is
    wide enough.
    """
    counts = points.group_by("source", maintain_order=True).agg("tasks", "of_tasks").rows()
    over = [
        _range(*counted) + (f" ({worded(source)})" if len(counts) > 1 else "")
        for source, *counted in counts
    ]
    bars = points.drop_nulls("low")["bar"].unique(maintain_order=True)
    lines = [
        f"{_NAMES[points['metric'][0]]} on hard and easy images",
        f"mean over {', '.join(over)}",
    ]
    if "easy" in points["subset"] and "hard_positive" in points["subset"]:
        lines.append("easy: positives and negatives together, as the paper has it")
    return "\n".join([*lines, *([f"bars: {', '.join(bars)}"] if len(bars) else [])])


def _range(counts: list[int], tasks: list[int]) -> str:
    """How many tasks are averaged, of how many; both may differ between criteria."""
    few, many, whole = min(counts), max(counts), max(tasks)
    over = f"{few} to {many}" if few < many else f"{few}"
    return f"{over} of {whole} tasks" if few < whole else f"{over} task{'' if many == 1 else 's'}"


def _legend(points: pl.DataFrame, sources: list[str]) -> list[Any]:
    from matplotlib.lines import Line2D

    def mark(color: str, marker: str, label: str, face: str) -> Line2D:
        return Line2D(
            [], [], color=color, marker=marker, markerfacecolor=face, linestyle="none", label=label
        )

    shown = points["subset"].unique().to_list()
    marks = [
        mark(color, marker, f"{subset.replace('_', ' ')}{'s' if '_' in subset else ''}", color)
        for subset, (color, marker) in _LOOKS.items()
        if subset in shown
    ]
    if len(sources) > 1:
        marks += [
            mark(GREY, "o", worded(name), "white" if i else GREY) for i, name in enumerate(sources)
        ]
    return marks
