"""Sweeps as pictures, after the paper's Figs. 10 to 12: tables of their data, axes, figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl

from nooch.base.errors import Command, FormatError, InputError, UndefinedError, check_one_of
from nooch.base.files import SWEEP_MARKER, write_folder
from nooch.base.version import __version__
from nooch.data import encode_header, load_header, parquet_bytes, read_table
from nooch.report.figures.style import SIDE_COLORS, canvas, new_axes, one_of, styled, svg, worded
from nooch.suites.sweep import POOLED, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_CUES = 5


def cue_counts(cues: pl.DataFrame) -> pl.DataFrame:
    """The lines of Fig. 10, from ``Sweep.cues``.

    Returns ``alpha``, ``cues`` (1 to 5) and ``tasks`` that have at least so many (Int64).
    """
    lines = cues.group_by("alpha").agg(
        pl.col("n_cues").ge(k).sum().cast(pl.Int64).alias(str(k)) for k in range(1, _MOST_CUES + 1)
    )
    long = lines.unpivot(index="alpha", variable_name="cues", value_name="tasks")
    long = long.with_columns(pl.col("cues").cast(pl.Int64)).sort("cues", "alpha")
    return long.select("alpha", "cues", "tasks")


def share_points(grid: pl.DataFrame, split: str, task: str = POOLED) -> pl.DataFrame:
    """The fields of Fig. 12, from ``Sweep.grid``.

    Returns ``task, split, side, alpha, beta, hard`` (images) ``, n`` (images of the side) and
    ``share``: P(hard | y), null without an image.
    """
    part, values = grid.filter(split=split, task=task), {"n": "{}s", "share": "share_{}"}
    sides = [of_side(part, side, ["alpha", "beta"], **values) for side in SIDE_COLORS]
    return pl.concat(sides).sort(pl.col("side") != "positive", "alpha", "beta")


def of_side(table: pl.DataFrame, side: str, thresholds: list[str], **values: str) -> pl.DataFrame:
    """``task, split, side``, thresholds, ``hard`` images, and columns named with ``{}`` for it."""
    columns = {name: column.format(side) for name, column in {"hard": "hard_{}s", **values}.items()}
    return table.select("task", "split", pl.lit(side).alias("side"), *thresholds, **columns)


def tau_counts(tau: pl.DataFrame, split: str) -> pl.DataFrame:
    """The bands of Fig. 11, from ``Sweep.tau``, or the same from ``Sweep.lift``.

    Returns ``split, side, tau`` (or ``lift``), then ``low, median, high``: quartiles over tasks of
    the number of hard images, and ``tasks``.
    """
    part = tau.filter(pl.col("task") != POOLED, split=split)
    sides = [quartiles(part, side, f"hard_{side}s") for side in SIDE_COLORS]
    return pl.concat(sides).select(pl.lit(split).alias("split"), pl.all())


def quartiles(table: pl.DataFrame, side: str, column: str) -> pl.DataFrame:
    """``side, tau, low, median, high, tasks``: quartiles of a column over tasks; nulls are left
    out.
    """
    value = pl.col(column)
    name = _swept(table)
    bands = table.group_by(name).agg(
        low=value.quantile(0.25, "linear"),
        median=value.median(),
        high=value.quantile(0.75, "linear"),
        tasks=value.count().cast(pl.Int64),
    )
    return bands.sort(name).select(pl.lit(side).alias("side"), pl.all())


def _swept(table: pl.DataFrame) -> str:
    return "lift" if "lift" in table.columns else "tau"


def cues(sweep: Sweep, *, ax: Axes | None = None) -> Axes:
    """Draw the number of tasks with at least 1 to 5 context cues by alpha (Fig. 10)."""
    from matplotlib import colormaps
    from matplotlib.ticker import MaxNLocator

    counts = cue_counts(_rows(sweep.cues, "alpha"))
    ax = new_axes(ax)
    colors = colormaps["cividis"](np.linspace(0, 0.85, _MOST_CUES))
    for k, (color, marker) in enumerate(zip(colors, "osD^v", strict=True), 1):
        line = counts.filter(cues=k)
        (drawn,) = ax.plot(line["alpha"], line["tasks"], color=color, marker=marker, linewidth=1.4)
        drawn.set(label=f"{k} or more", markersize=4, markeredgewidth=0)
    ax.set(xlabel="alpha", ylabel="tasks", title="Tasks by number of context cues", ylim=(0, None))
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.legend(title="cues")
    return ax


def shares(
    sweep: Sweep,
    side: str = "positive",
    split: str | None = None,
    *,
    task: str = POOLED,
    ax: Axes | None = None,
) -> Axes:
    """P(hard | y) over alpha and beta (Fig. 12); the white line: equal for both labels."""
    table = _of_task(sweep.grid, task)
    points = share_points(table, one_of("split", split, table["split"]), task)
    part = points.filter(side=check_one_of("side", side, SIDE_COLORS))
    ax = new_axes(ax)
    heat(ax, part, "share", top=largest(points["share"]), label="share of images")
    ax.set_title(f"P(hard | {side}), {worded(task)} ({part['split'][0]})")
    wide = {name: matrix(points.filter(side=name), "share") for name in SIDE_COLORS}
    difference = wide["positive"] - wide["negative"]
    # a line needs both signs and more than one row and column; without a positive all is NaN
    if min(difference.shape) > 1 and (difference < 0).any() and (difference > 0).any():
        from matplotlib.lines import Line2D

        alphas, betas = part["alpha"].unique().sort(), part["beta"].unique().sort()
        ax.contour(alphas, betas, difference, levels=[0.0], colors="white", linewidths=1.2)
        mark = Line2D([], [], color="white", linewidth=1.2, label="both sides equal")
        # on a dark ground: the field below may be light
        ground: Any = {"facecolor": "0.25", "labelcolor": "white"}
        ax.legend(handles=[mark], frameon=True, loc="upper right", **ground)
    return ax


def heat(ax: Axes, part: pl.DataFrame, column: str, *, top: float, label: str) -> None:
    """A field over alpha and beta, null left white, with its scale from 0 to ``top``."""
    alphas, betas = part["alpha"].unique().sort(), part["beta"].unique().sort()
    scale: Any = {"vmin": 0, "vmax": top, "cmap": "cividis", "shading": "nearest"}
    values = matrix(part, column)
    shown = ax.pcolormesh(alphas, betas, values, **scale, rasterized=True, zorder=1)
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


def hard_by_tau(
    sweep: Sweep, side: str = "positive", split: str | None = None, *, ax: Axes | None = None
) -> Axes:
    """Hard images by tau, median and quartiles over tasks (Fig. 11)."""
    return _hard_by(_rows(sweep.tau, "tau"), side, split, ax=ax)


def _hard_by(table: pl.DataFrame, side: str, split: str | None, *, ax: Axes | None) -> Axes:
    """The same of a sweep over tau or over lift."""
    split, name = one_of("split", split, table["split"]), _swept(table)
    part = tau_counts(table, split).filter(side=check_one_of("side", side, SIDE_COLORS))
    ax = new_axes(ax)
    tau_band(ax, part, SIDE_COLORS[side])
    criterion = {"tau": "gist", "lift": "context"}[name]
    title = f"Hard {side}s by the {criterion} criterion ({split})"
    ax.set(xlabel=name, ylabel="images", title=title, ylim=(0, None))
    ax.legend()
    return ax


def tau_band(ax: Axes, part: pl.DataFrame, color: str) -> None:
    """The median task as a line, half of the tasks as a band."""
    band = part.drop_nulls("median")
    tau, low, high = (band[name] for name in (_swept(part), "low", "high"))
    label = "half of the tasks"
    ax.fill_between(tau, low, high, color=color, alpha=0.22, linewidth=0, label=label)
    ax.plot(tau, band["median"], color=color, linewidth=1.6, label="median task")


@styled
def draw_cues(sweep: Sweep) -> Figure:
    """Only Fig. 10."""
    figure, (ax,) = canvas(1, 4.8)
    cues(sweep, ax=ax)
    return figure


@styled
def draw_sides(draw: Callable[..., Axes], swept: Any, **named: Any) -> Figure:
    """Figs. 11 to 14: a panel for positives next to one for negatives, by a function above."""
    figure, axes = canvas(len(SIDE_COLORS), 4.6)
    for ax, side in zip(axes, SIDE_COLORS, strict=True):
        draw(swept, side, ax=ax, **named)
    return figure


def _rows(table: pl.DataFrame, what: str) -> pl.DataFrame:
    if not table.height:
        raise UndefinedError(f"{what} was not swept", remedy=f"sweep over {what}")
    return table


def _of_task(grid: pl.DataFrame, task: str) -> pl.DataFrame:
    check_one_of(
        "task", task, _rows(grid, "alpha and beta")["task"].unique().to_list(), owner="the sweep"
    )
    return grid


_VERSION = 1
_SIDES = ("hard_positives", "hard_negatives", "positives", "negatives")
_SHARES = dict.fromkeys(("share_positive", "share_negative"), pl.Float64)
_COUNTS = dict.fromkeys(_SIDES, pl.Int64) | _SHARES
_PLACE = {"task": pl.String, "split": pl.String}
_POINT = {"alpha": pl.Float64, "beta": pl.Float64}
_COLUMNS: dict[str, dict[str, Any]] = {
    "cues": {"task": pl.String, "alpha": pl.Float64, "n_cues": pl.Int64},
    "grid": {**_PLACE, **_POINT, **_COUNTS},
    "tau": {**_PLACE, "tau": pl.Float64, **_COUNTS},
    "lift": {**_PLACE, "lift": pl.Float64, **_COUNTS},
    "equal": {**_PLACE, **_POINT, **_SHARES, "imbalance": pl.Float64},
}


def save_sweep(
    sweep: Sweep,
    folder: str | Path,
    settings: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a sweep's folder atomically: ``NAME.parquet`` of its tables, and pictures of them.

    Raises:
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with write_folder(folder, overwrite=overwrite, marker=SWEEP_MARKER) as partial:
        for name in _COLUMNS:
            table: pl.DataFrame = getattr(sweep, name)
            if table.height:
                (partial / f"{name}.parquet").write_bytes(parquet_bytes(table))
        for name, picture in _pictures(sweep).items():
            (partial / f"{name}.svg").write_bytes(picture)
        header = {
            "format": "nooch-sweep",
            "version": _VERSION,
            "nooch": __version__,
            **(settings or {}),
            "equal": sweep.equal.to_dicts(),
        }
        (partial / SWEEP_MARKER).write_bytes(encode_header(header))
    return Path(folder)


def _pictures(sweep: Sweep) -> dict[str, bytes]:
    pictures = {}
    if sweep.cues.height:
        pictures["cues_by_alpha"] = svg(draw_cues(sweep))
    for split in sweep.grid["split"].unique(maintain_order=True):
        name = f"hard_by_alpha_and_beta_{split}"
        pictures[name] = svg(draw_sides(shares, sweep, split=split))
    for name, table in (("tau", sweep.tau), ("lift", sweep.lift)):
        for split in table["split"].unique(maintain_order=True):
            pictures[f"hard_by_{name}_{split}"] = svg(draw_sides(_hard_by, table, split=split))
    return pictures


class _Header(msgspec.Struct):
    """Header fields needed to read a sweep."""

    format: str
    version: int


def load_sweep(folder: str | Path) -> Sweep:
    """Read a sweep's folder."""
    folder = Path(folder)
    load_header(
        folder / SWEEP_MARKER,
        _Header,
        name="sweep",
        version=_VERSION,
        make=Command("sweep", alpha="0:0.1:5", beta="0:0.5:6"),
        again="sweep again",
    )
    tables = {
        name: _table(folder / f"{name}.parquet", columns) for name, columns in _COLUMNS.items()
    }
    return Sweep(**tables)


def _table(path: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    """A table of a sweep; one that was not written has no row."""
    if not path.exists():
        return pl.DataFrame(schema=columns)
    try:
        return read_table(path).select(list(columns)).cast(columns)  # type: ignore[arg-type]
    except (pl.exceptions.PolarsError, InputError) as error:
        problem = f"is not a table of a sweep: {error}"
        raise FormatError(problem, where=path, give=Command("sweep")) from error


def grid_points(grid: pl.DataFrame, task: str = POOLED) -> pl.DataFrame:
    """The fields of Fig. 13, from ``sweep_losses``, ``Sweep.grid``.

    Returns ``task, split, side, alpha, beta, hard`` (images; of all tasks together pairs of image
    and task) ``, loss``: their mean NLL, null without any.
    """
    sides = [
        of_side(grid.filter(task=task), side, ["alpha", "beta"], loss="loss_{}")
        for side in SIDE_COLORS
    ]
    return pl.concat(sides).sort(pl.col("side") != "positive", "alpha", "beta")


def tau_points(tau: pl.DataFrame) -> pl.DataFrame:
    """The lines of Fig. 14, from ``sweep_losses``, ``Sweep.tau``.

    Returns ``task`` (all together), ``split, side, tau, hard, loss`` as in Fig. 13, and ``low,
    median, high``: quartiles of the mean losses of single tasks, of the ``tasks`` that have hard
    images there.
    """
    single = tau.filter(pl.col("task") != POOLED)
    sides = []
    for side in SIDE_COLORS:
        pooled = of_side(tau.filter(task=POOLED), side, ["tau"], loss="loss_{}")
        bands = quartiles(single, side, f"loss_{side}").drop("side")
        sides.append(pooled.join(bands, on="tau", how="left", maintain_order="left"))
    return pl.concat(sides)


def losses_by_area(
    sweep: Sweep, side: str = "positive", *, task: str = POOLED, ax: Axes | None = None
) -> Axes:
    """Mean NLL of the images that are hard by CE over alpha and beta (Fig. 13); white without
    any.
    """
    points = grid_points(_of_task(sweep.grid, task), task)
    part = points.filter(side=check_one_of("side", side, SIDE_COLORS))
    ax = new_axes(ax)
    # the two sides differ by more than a shared scale could show
    heat(ax, part, "loss", top=largest(part["loss"]), label="mean NLL")
    ax.set_title(f"NLL of hard {side}s by CE ({part['split'][0]})")
    return ax


def losses_by_tau(sweep: Sweep, side: str = "positive", *, ax: Axes | None = None) -> Axes:
    """Mean NLL of the images that are hard by the gist criterion by tau (Fig. 14): of all pairs of
    image and task together, and over tasks.
    """
    points = tau_points(_rows(sweep.tau, "tau"))
    part = points.filter(side=check_one_of("side", side, SIDE_COLORS))
    ax = new_axes(ax)
    tau_band(ax, part, SIDE_COLORS[side])
    points = part.drop_nulls("loss")
    style: Any = {"color": "black", "linestyle": "--", "linewidth": 1.3}
    ax.plot(points["tau"], points["loss"], **style, label="all hard images")
    title = f"NLL of hard {side}s by the gist criterion ({part['split'][0]})"
    ax.set(xlabel="tau", ylabel="mean NLL", title=title, ylim=(0, None))
    ax.legend()
    return ax
