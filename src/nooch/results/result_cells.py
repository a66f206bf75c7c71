"""Scores of single runs and chosen settings -> cells of results tables, with what each of them
lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from nooch.errors import InputError, UndefinedError, some_of
from nooch.evaluation import AVERAGE
from nooch.evaluation.score_summaries import over_seeds, over_tasks, with_worst_hard
from nooch.published.published_results import PAPER_NAMES
from nooch.training.methods import METHODS

__all__ = [
    "CELLS",
    "averages_note",
    "cells_of",
    "in_order",
    "missing_note",
    "sight",
    "with_averages",
    "with_setting",
]

CELLS = {
    "criterion": pl.String, "metric": pl.String, "subset": pl.String, "task": pl.String, "method": pl.String,
    "sees": pl.String, "setting": pl.String, "n": pl.Int64, "n_positive": pl.Int64, "mean": pl.Float64, "std": pl.Float64,
    "n_seeds": pl.Int64, "seeds": pl.Int64, "n_settings": pl.Int64,
    "settings": pl.Int64, "n_tasks": pl.Int64, "averaged_tasks": pl.String, "n_worse": pl.Int64, "reason": pl.String,
}  # fmt: skip
"""Columns of cells; ``nooch.results.run_results.Results`` says what they hold."""

_SETTING = ["task", "method", "setting"]
_CHOSEN = ["criterion", "task", "method", "setting"]
_RUN = ["criterion", "metric", "subset", "task", "method", "setting", "seed"]


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

    Args:
        table: scores of single runs, as ``nooch.evaluate`` gives them.
        selected: chosen settings, as ``nooch.results.score_collection.collect`` gives them.
        planned: ``task, method, setting, seed, done``, a row for every job.
        places: ``criterion, task`` of all sets that there should be results on.
        rule: whose choice counts.
        split: whose scores.
        sees: method -> what it may see, in words; of others, what ``METHODS`` says.
        strict: see ``nooch.evaluation.score_summaries.over_tasks``.

    Raises:
        UndefinedError: the rule chose nothing at all.
        InputError: scores and choice do not belong together.
    """
    chosen = selected.filter(rule=rule).select(*_CHOSEN, n_worse="worse_than_constant")
    if not chosen.height:
        made = some_of(selected["rule"].unique().sort())
        remedy = f"collect with `rules` {rule}, or take another rule"
        raise UndefinedError(
            f"no setting was chosen by {rule}", allowed=made or None, remedy=remedy
        )
    scored = with_setting(table).filter(pl.col("task") != AVERAGE)
    values = (
        scored.filter(split=split)
        .join(chosen, on=_CHOSEN, how="semi")
        .select(*_RUN, "value", "n", "n_positive", "reason")
    )
    if not values.height or values.select(_RUN).is_duplicated().any():
        remedy = "run nooch collect again"
        raise InputError(
            "scores and chosen settings do not belong together, or a run is there twice",
            remedy=remedy,
        )
    values = with_worst_hard(values)
    shown = values.select("metric", "subset").unique(maintain_order=True)
    grid = places.join(shown, how="cross").join(
        _plan(planned), on="task", how="inner", maintain_order="left"
    )
    on = ["criterion", "metric", "subset", "task", "method"]
    there = scored.select("task", "method").unique().with_columns(scored=pl.lit(value=True))
    grid = grid.join(chosen.drop("setting"), on=_CHOSEN[:3], how="left", maintain_order="left")
    cells = grid.join(over_seeds(values), on=on, how="left", maintain_order="left").join(
        there, on=["task", "method"], how="left", maintain_order="left"
    )
    known = {name: sees.get(name) or _known_sight(name) for name in planned["method"].unique()}
    return with_averages(
        cells.with_columns(
            pl.col("n_seeds").fill_null(0),
            reason=_why(rule),
            sees=pl.col("method").replace_strict(known),
            n_tasks=pl.lit(None, pl.Int64),
            averaged_tasks=pl.lit(None, pl.String),
        ).select(list(CELLS)),
        strict=strict,
    )


def _why(rule: str) -> pl.Expr:
    """Why a cell has no value."""
    return (
        pl.when(pl.col("setting").is_not_null())
        .then("reason")
        .when(~pl.col("any_done"))
        .then(pl.lit("no job is done"))
        .when(pl.col("scored").is_null())
        .then(pl.lit("every job has diverged"))
        .otherwise(
            pl.lit(f"{rule} is undefined on the split that it looks at, so no setting is chosen")
        )
    )


def _plan(planned: pl.DataFrame) -> pl.DataFrame:
    """For each task and method: seeds that were planned, settings, and how many of these have all
    their seeds.
    """
    settings = planned.group_by(_SETTING, maintain_order=True).agg(
        whole=pl.col("done").all(), any=pl.col("done").any(), seeds=pl.len()
    )
    return settings.group_by("task", "method", maintain_order=True).agg(
        pl.col("seeds").max().cast(pl.Int64),
        n_settings=pl.col("whole").sum().cast(pl.Int64),
        settings=pl.len().cast(pl.Int64),
        any_done=pl.col("any").any(),
    )


def with_averages(cells: pl.DataFrame, *, strict: bool = False) -> pl.DataFrame:
    """Cells of tasks, and rows of task ``average`` below them; ``strict`` as in
    ``nooch.evaluation.score_summaries.over_tasks``.
    """
    about = cells.select("method", "sees").unique()
    averages = over_tasks(cells, strict=strict).join(
        about, on="method", how="left", maintain_order="left"
    )
    block = ["criterion", "metric", "subset", "method"]
    # of the tasks that the average is over
    over = averages.select(*block, over="averaged_tasks")
    # a task's name may have a comma in it
    inside = pl.format(", {}, ", "over").str.contains(pl.format(", {}, ", "task"), literal=True)
    known = pl.col("n_worse").count() > 0
    counted = cells.join(over, on=block).filter(inside).group_by(block)
    worse = counted.agg(n_worse=pl.when(known).then(pl.col("n_worse").sum()))
    averages = averages.join(worse, on=block, how="left", maintain_order="left")
    averages = averages.with_columns(setting=pl.lit(None, pl.String))
    return pl.concat([cells, averages.select(list(CELLS))])


def averages_note(cells: pl.DataFrame) -> list[str]:
    """For each criterion whose averages leave out tasks: which tasks they are over, and which not."""
    notes = []
    for (criterion,), part in cells.partition_by(
        ["criterion"], as_dict=True, maintain_order=True
    ).items():
        own = (
            part.filter(pl.col("task") != AVERAGE)
            .drop_nulls("mean")
            .select("metric", "subset")
            .unique()
        )
        tasks = part.filter(pl.col("task") != AVERAGE)["task"].unique(maintain_order=True).to_list()
        rows = (
            part.filter(task=AVERAGE)
            .join(own, on=["metric", "subset"], how="semi")
            .drop_nulls("averaged_tasks")
        )
        lists = rows["averaged_tasks"].unique(maintain_order=True).to_list()
        few, many = (f(rows["n_tasks"].to_list(), default=len(tasks)) for f in (min, max))
        if few < many:
            notes.append(
                f"averages under {criterion} are over {few} to {many} of {len(tasks)} tasks: no"
                " task has all values"
            )
        elif few < len(tasks):
            kept = [task for task in tasks if f", {task}, " in f", {lists[0]}, "]
            rest = [task for task in tasks if task not in kept]
            notes.append(
                f"averages under {criterion} are over {few} of {len(tasks)} tasks:"
                f" {some_of(kept, 12)}; left out, because they lack a value: {some_of(rest, 12)}"
            )
    return notes


def missing_note(planned: pl.DataFrame, most: int = 8) -> list[str]:
    """A note that lists the jobs that are missing, by task, method and setting; none where there
    are none.
    """
    lost = planned.filter(~pl.col("done"))
    listed = [
        f"{task}: {' '.join(filter(None, (method, setting)))}, seed"
        f" {', '.join(map(str, sorted(seeds)))}"
        for task, method, setting, seeds in (
            lost.group_by(_SETTING, maintain_order=True).agg("seed").rows()
        )
    ]
    text = (
        f"{lost.height} of {planned.height} runs are missing: {some_of(listed, most)}; cells that"
        " lack any say so"
    )
    return [text] if listed else []


def with_setting(table: pl.DataFrame) -> pl.DataFrame:
    """Scores of whole subsets with a column ``setting``: what a run's name has between method and
    seed.
    """
    plain = table.filter(
        pl.col("cue").is_null()
        & pl.col("group").is_null()
        & ~pl.col("subset").str.starts_with("avg:")
    )
    middle = pl.col("run").str.strip_prefix(pl.col("method"))
    middle = middle.str.strip_suffix(pl.concat_str(pl.lit("/"), pl.col("seed").cast(pl.String)))
    return plain.filter(pl.col("method").is_not_null() & pl.col("seed").is_not_null()).with_columns(
        setting=middle.str.strip_prefix("/")
    )


def sight(sees: Sequence[str]) -> str:
    """What a method may see, in words."""
    return ", ".join(sees) or "nothing"


def _known_sight(method: str) -> str:
    return sight(METHODS[method].sees) if method in METHODS else "unknown"


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in the order of the paper's columns, then in that of ``METHODS``, then as they come."""
    known = list(dict.fromkeys([*PAPER_NAMES.values(), *METHODS]))
    given = list(dict.fromkeys(methods))
    return sorted(
        given, key=lambda m: known.index(m) if m in known else len(known) + given.index(m)
    )
