"""Results -> what the report's page of results shows: the paper's tables, intervals, differences,
verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from nooch.challenge import Suite
from nooch.errors import UndefinedError
from nooch.evaluation import AVERAGE, Scores
from nooch.published.published_results import PAPER_TABLES
from nooch.report.level_figures import LEVELS
from nooch.report.paper_tables import shown
from nooch.report.score_tables import Shown, average_label, tables_of
from nooch.results.compared_methods import baseline_of
from nooch.results.paired_runs import paired_results
from nooch.results.paper_statements import judge_statements
from nooch.results.result_cells import in_order
from nooch.results.run_results import Results, paper_cells, roles_of
from nooch.results.table_contents import legend, like
from nooch.shared_types import Progress, no_progress
from nooch.training.run_records import RUNS_MARKER

__all__ = ["BEST", "FIGURES", "ResultsView", "results_view"]


BEST = "\ue000"
"""What a best cell's text begins with on its way to the page."""

FIGURES = {metric: LEVELS[metric] for metric in ("auc", "error", "nll", "ece")}
"""Metric -> subsets that Figs. 4 to 7 set against one another."""


_OLD_SCORES = (
    "These scores were collected without easy positives and easy negatives: there is no easy side"
    " to compare errors and NLL with. Run nooch collect again, or give the folder of runs."
)


@dataclass(frozen=True, eq=False)
class ResultsView:
    """What the page of results shows.

    Attributes:
        about: what the numbers are of.
        notes: what a reader should know.
        tables: the paper's tables, best cells beginning with ``BEST``; ``compared`` with the
            paper's numbers beside.
        differences: paired differences; empty without runs to resample.
        access: method -> what it may see.
        statements: ``sentence, rule, verdict, scope, paper, checks``.
        points: numbers of the figures: ``criterion, metric, subset, task, method, mean, std, n,
            over, n_worse, low, high``; ``over`` says of an average over how many tasks it is, else
            it is null.
        intervals: what ``low`` and ``high`` are, in words.
        scored: tables of ``nooch evaluate``, of predictions that were given.
    """

    about: str
    notes: Sequence[str]
    tables: Sequence[Shown] = ()
    compared: Sequence[Shown] = ()
    differences: Sequence[Shown] = ()
    access: Sequence[tuple[str, str]] = ()
    statements: Sequence[dict[str, Any]] = ()
    points: pl.DataFrame = field(default_factory=pl.DataFrame)
    intervals: str = ""
    scored: Sequence[Shown] = ()


def results_view(
    results: Results,
    suite: Suite,
    sources: Sequence[Path],
    *,
    split: str,
    bootstrap: int,
    progress: Progress = no_progress,
) -> ResultsView:
    """Everything of the page of results.

    Args:
        results: of all sources together.
        suite: the suite.
        sources: folders of runs or of collected scores.
        split: whose images.
        bootstrap: resamples of the paired bootstrap; 0 for none.
        progress: called with what is being done, and how much of how much is done.
    """
    tables, compared, notes = _tables(results)
    pairs, why = _paired(results, suite, sources, split, bootstrap, progress)
    intervals = (
        f"95 % intervals of {bootstrap:,} resamples of images"
        if pairs
        else f"one standard deviation over seeds ({why})"
    )
    return ResultsView(
        results.about,
        [legend(by_sight=False), *notes, *_without_easy_sides(results)],
        tables,
        compared,
        [
            table
            for scores in pairs
            for table in tables_of(scores, list(FIGURES))
            if table.title.startswith("Differences")
        ],
        _access(results),
        _statements(results),
        _points(results, suite, pairs),
        intervals,
    )


def _tables(results: Results) -> tuple[list[Shown], list[Shown], list[str]]:
    there = set(results.cells["criterion"])
    names = [
        name
        for name, table in PAPER_TABLES.items()
        if there & {panel.criterion for panel in table.panels}
    ]
    try:
        plain, notes = like(results, names)
    except UndefinedError as error:
        return [], [], [*results.notes, str(error)]
    beside, more = like(results, names, compare=True)
    found = [table for table in beside if table.rows["paper_mean"].null_count() < table.rows.height]
    kept = list(dict.fromkeys([*notes, *more]))
    return (
        [shown(table, lambda text: BEST + text) for table in plain],
        [shown(t, lambda text: BEST + text) for t in found],
        kept,
    )


def _paired(
    results: Results,
    suite: Suite,
    sources: Sequence[Path],
    split: str,
    bootstrap: int,
    progress: Progress,
) -> tuple[list[Scores], str]:
    runs = [source for source in sources if (source / RUNS_MARKER).is_file()]
    methods = in_order(results.cells["method"])
    criteria = results.cells["criterion"].unique(maintain_order=True).to_list()
    if not bootstrap:
        return [], "no resamples were asked for"
    if not runs or len(runs) < len(sources):
        return [], "collected scores have no predictions to resample"
    if len(methods) < 2:
        return [], "one method alone cannot be compared"
    options: dict[str, Any] = {
        "metrics": list(FIGURES),
        "split": split,
        "bootstrap": bootstrap,
        "seed": 0,
        "progress": progress,
    }
    baseline = baseline_of(methods) or "all"
    return paired_results(runs, [suite], results, criteria, baseline=baseline, **options), ""


def _access(results: Results) -> list[tuple[str, str]]:
    sees = dict(results.cells.select("method", "sees").unique().rows())
    return [(method, str(sees[method])) for method in in_order(sees)]


def _statements(results: Results) -> list[dict[str, Any]]:
    paper = {finding.statement.name: finding.verdict for finding in judge_statements(paper_cells())}
    return [
        {
            "sentence": f.statement.sentence, "rule": f.statement.rule, "verdict": f.verdict, "scope": f.scope,
            "paper": paper[f.statement.name], "checks": f.checks,
        }
        for f in judge_statements(results)
    ]  # fmt: skip


def _without_easy_sides(results: Results) -> list[str]:
    if set(results.cells["subset"]) & {"easy_positive", "easy_negative"}:
        return []
    return [_OLD_SCORES]


def _points(results: Results, suite: Suite, pairs: Sequence[Scores]) -> pl.DataFrame:
    keys = ["criterion", "metric", "subset", "task", "method"]
    wanted = pl.DataFrame(
        [(metric, subset) for metric, subsets in FIGURES.items() for subset in subsets],
        schema={"metric": pl.String, "subset": pl.String}, orient="row",
    )  # fmt: skip
    cells = results.cells.join(wanted, on=["metric", "subset"], how="semi", maintain_order="left")
    tasks = dict(
        results.cells.filter(pl.col("task") != AVERAGE)
        .group_by("criterion")
        .agg(pl.col("task").n_unique())
        .rows()
    )
    over = [
        None if n is None else average_label([n], tasks[criterion])
        for criterion, n in cells.select("criterion", "n_tasks").rows()
    ]
    cells = cells.with_columns(over=pl.Series(over, dtype=pl.String))
    cells = cells.select(*keys, "mean", "std", "n", "over", "averaged_tasks", "n_worse")
    # results call a criterion by its kind where it is the only one of that kind; scores call it by
    # its name
    roles = roles_of((key[0] for key in suite.keys), [suite], {})
    bounds = [
        scores.table.select(
            pl.col("criterion").replace(roles), *keys[1:], "averaged_tasks", "low", "high"
        )
        for scores in pairs
    ]
    if bounds:
        # the interval of an average is one over the same tasks
        on = [*keys, "averaged_tasks"]
        bounded = pl.concat(bounds).unique(on)
        return cells.join(bounded, on=on, how="left", nulls_equal=True, maintain_order="left").drop(
            "averaged_tasks"
        )
    reach = pl.col("std")
    return cells.with_columns(low=pl.col("mean") - reach, high=pl.col("mean") + reach).drop(
        "averaged_tasks"
    )
