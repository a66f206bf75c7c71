"""Scores of single runs and chosen settings -> cells of results tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from nooch.base.errors import Command, InputError, UndefinedError, some_of
from nooch.evaluation import AVERAGE
from nooch.evaluation.averages import named_tasks, over_seeds, over_tasks, with_worst_hard
from nooch.training.methods import METHODS

_SUBSET = ["criterion", "metric", "subset"]
_TEXTS = [*_SUBSET, "task", "method", "sees", "setting"]
_COUNTS = ["n_seeds", "seeds", "n_settings", "settings", "n_tasks"]
CELLS: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(_TEXTS, pl.String),
    **dict.fromkeys(["n", "n_positive"], pl.Int64),
    **dict.fromkeys(["mean", "std"], pl.Float64),
    **dict.fromkeys(_COUNTS, pl.Int64),
    "averaged_tasks": pl.String,
    "n_worse": pl.Int64,
    "reason": pl.String,
}
"""Columns of cells; ``nooch.report.results.run_results.Results`` describes them."""

COLUMNS = (
    *("erm", "cvar", "focal", "label-reweight", "label-undersample", "environment-reweight"),
    *("environment-undersample", "gdro", "irm"),
)
"""Methods that come first in tables, in the order of the paper's columns."""
_SETTING = ["task", "method", "setting"]
_CHOSEN = ["criterion", *_SETTING]
_CELL = [*_SUBSET, "task", "method"]
_RUN = [*_CELL, "setting", "seed"]


def cells_of(
    table: pl.DataFrame,
    selected: pl.DataFrame,
    planned: pl.DataFrame,
    places: pl.DataFrame,
    *,
    rule: str,
    split: str,
    sees: Mapping[str, str],
    strict: bool = False,
) -> pl.DataFrame:
    """Cells of all planned tasks and methods, whether there are runs or not, and their averages.

    ``planned``: ``task, method, setting, seed, done, scored``, a row for every job: whether it is
    done, and has not diverged; ``places``: ``criterion, task`` of all sets that there should be
    results on.
    """
    chosen_jobs = selected.filter(rule=rule).select(*_CHOSEN, n_worse="worse_than_constant")
    if not chosen_jobs.height:
        rules = some_of(selected["rule"].unique().sort()) or None
        give = ({"rule": ...}, Command("train score", rules=rule))
        raise UndefinedError(f"no setting was chosen by {rule}", allowed=rules, give=give)
    scored = with_setting(table).filter(pl.col("task") != AVERAGE)
    own = scored.filter(split=split).join(chosen_jobs, on=_CHOSEN, how="semi")
    values = own.select(*_RUN, "value", "n", "n_positive", "reason")
    if not values.height or values.select(_RUN).is_duplicated().any():
        problem = "scores do not belong to the chosen settings, or a run occurs twice"
        raise InputError(problem, remedy="collect again: {}", give=Command("train score"))
    values = with_worst_hard(values)
    grid = places.join(values.select("metric", "subset").unique(maintain_order=True), how="cross")
    left: dict[str, Any] = {"how": "left", "maintain_order": "left"}
    cells = (
        grid.join(_plan(planned), on="task", how="inner", maintain_order="left")
        .join(chosen_jobs.drop("setting"), on=_CHOSEN[:3], **left)
        .join(over_seeds(values), on=_CELL, **left)
    )
    usual = {name: sight(method.sees) for name, method in METHODS.items()}
    usual_sight = {m: sees.get(m) or usual.get(m, "unknown") for m in planned["method"].unique()}
    cells = cells.with_columns(
        pl.col("n_seeds").fill_null(0),
        reason=_why(rule),
        sees=pl.col("method").replace_strict(usual_sight),
        n_tasks=pl.lit(None, pl.Int64),
        averaged_tasks=pl.lit(None, pl.String),
    )
    return with_averages(cells.select(list(CELLS)), strict=strict)


def _why(rule: str) -> pl.Expr:
    """Why a cell has no value."""
    undefined = f"{rule} is undefined on the split that it looks at, so no setting is chosen"
    return (
        pl.when(pl.col("setting").is_not_null())
        .then("reason")
        .when(~pl.col("any_done"))
        .then(pl.lit("no job is done"))
        .when(~pl.col("any_scored"))
        .then(pl.lit("every job has diverged"))
        .otherwise(pl.lit(undefined))
    )


def _plan(planned: pl.DataFrame) -> pl.DataFrame:
    """For each task and method: planned seeds, settings, and how many of these are complete."""
    settings = planned.group_by(_SETTING, maintain_order=True).agg(
        pl.col("scored").any(), whole=pl.col("done").all(), any=pl.col("done").any(), seeds=pl.len()
    )
    return settings.group_by("task", "method", maintain_order=True).agg(
        pl.col("seeds").max().cast(pl.Int64),
        n_settings=pl.col("whole").sum().cast(pl.Int64),
        settings=pl.len().cast(pl.Int64),
        any_done=pl.col("any").any(),
        any_scored=pl.col("scored").any(),
    )


def with_averages(cells: pl.DataFrame, *, strict: bool = False) -> pl.DataFrame:
    """Cells of tasks, and rows of task ``average`` below them.

    ``strict`` as in ``nooch.evaluation.averages.over_tasks``.
    """
    sees = cells.select("method", "sees").unique()
    averages = over_tasks(cells, strict=strict).with_columns(setting=pl.lit(None, pl.String))
    averages = averages.join(sees, on="method", how="left", maintain_order="left")
    return pl.concat([cells, averages.select(list(CELLS))])


def averages_note(cells: pl.DataFrame) -> list[str]:
    """A note for each criterion whose averages leave out tasks: which are averaged, which not."""
    notes = []
    for (criterion,), part in cells.group_by("criterion", maintain_order=True):
        own = part.filter(pl.col("task") != AVERAGE)
        defined = own.drop_nulls("mean").select("metric", "subset")
        tasks = own["task"].unique(maintain_order=True).to_list()
        averages = part.filter(task=AVERAGE).join(defined, on=["metric", "subset"], how="semi")
        averages = averages.drop_nulls("averaged_tasks")
        few, many = (f(averages["n_tasks"].to_list(), default=len(tasks)) for f in (min, max))
        if few < many:
            notes.append(
                f"averages under {criterion} are over {few} to {many} of {len(tasks)} tasks: no"
                " task has all values"
            )
        elif few < len(tasks):
            averaged = named_tasks(averages["averaged_tasks"][0], tasks)
            rest = [task for task in tasks if task not in averaged]
            notes.append(
                f"averages under {criterion} are over {few} of {len(tasks)} tasks:"
                f" {some_of(averaged, 12)}; left out, because they lack a value:"
                f" {some_of(rest, 12)}"
            )
    return notes


def missing_note(planned: pl.DataFrame) -> list[str]:
    """A note that lists the jobs that are missing, by task, method and setting, if any are."""
    missing = planned.filter(~pl.col("done"))
    listed = [
        f"{task}: {f'{method} {setting}'.strip()}, seed {', '.join(map(str, sorted(seeds)))}"
        for task, method, setting, seeds in (
            missing.group_by(_SETTING, maintain_order=True).agg("seed").rows()
        )
    ]
    text = (
        f"{missing.height} of {planned.height} runs are missing: {some_of(listed, 8)};"
        " cells that lack any have a mark"
    )
    return [text] if listed else []


def with_setting(table: pl.DataFrame) -> pl.DataFrame:
    """Scores of whole subsets with a column ``setting``: the part of a run's name between method
    and seed.
    """
    whole = pl.col("cue").is_null() & pl.col("group").is_null()
    plain = table.filter(whole & ~pl.col("subset").str.starts_with("avg:"))
    seed = pl.concat_str(pl.lit("/"), pl.col("seed").cast(pl.String))
    setting = pl.col("run").str.strip_prefix(pl.col("method")).str.strip_suffix(seed)
    return plain.drop_nulls(["method", "seed"]).with_columns(setting=setting.str.strip_prefix("/"))


def sight(sees: Sequence[str]) -> str:
    """Information that a method may use, in words."""
    return ", ".join(sees) or "nothing"


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in the order of the paper's columns, then of ``METHODS``, then as given."""
    requested = dict.fromkeys(methods)
    return [n for n in dict.fromkeys([*COLUMNS, *METHODS, *requested]) if n in requested]
