"""Results -> what the page of results shows: tables, intervals, differences."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import polars as pl

from nooch.base.calls import Progress
from nooch.base.display import DisplayTable
from nooch.base.errors import NoochError
from nooch.base.words import counted
from nooch.evaluation import AVERAGE, Predictions, Scores, evaluate
from nooch.evaluation.answer_sample import AskedSample
from nooch.evaluation.predictions import values_of
from nooch.report.figures.levels import LEVELS
from nooch.report.images.sources import Sources
from nooch.report.results.cells import in_order
from nooch.report.results.pairs import baseline_of, paired_results
from nooch.report.results.run_results import Results, roles_of
from nooch.report.tables.method_tables import ResultTable, auc_tables, legend, shown
from nooch.report.tables.score_tables import average_label, tables_of
from nooch.suites import Suite
from nooch.training.records import RUNS_MARKER

BEST = "\ue000"
"""Prefix of a best cell's text on its way to the page."""

FIGURES = {metric: LEVELS[metric] for metric in ("auc", "error", "nll", "ece")}
"""Metric -> subsets that Figs. 4 to 7 set against one another."""
_CHARTS = FIGURES | {
    "fpr": ("hard_negative", "easy_negative"),
    "recall": ("hard_positive", "easy_positive"),
    **dict.fromkeys(("dprime", "response_criterion"), ("hard", "easy")),
}

TablesOf = Callable[[Results], tuple[Sequence[ResultTable], Sequence[ResultTable], Sequence[str]]]
"""Results -> their tables, tables with published numbers next to each, and notes."""


def own_tables(results: Results) -> tuple[list[ResultTable], list[ResultTable], list[str]]:
    """AUC on hard and easy images, and nothing published."""
    return auc_tables(results), [], [*results.notes, *results.averages]


@dataclass(frozen=True, eq=False)
class ResultsView:
    """Content of the page of results.

    Attributes:
        about: what the numbers are of.
        notes: what a reader should know.
        tables: tables of results, best cells beginning with ``BEST``; ``compared`` with published
            numbers.
        differences: paired differences; empty without runs to resample.
        access: method -> what it may see.
        points: numbers of the figures: ``criterion, metric, subset, task, method, mean, std, n,
            over, n_worse, low, high``; ``over`` is the number of tasks of an average in words, else
            it is null.
        intervals: what ``low`` and ``high`` are, in words.
        scored: tables of ``nooch evaluate``, of predictions that were given.
    """

    about: str
    notes: Sequence[str]
    tables: Sequence[DisplayTable] = ()
    compared: Sequence[DisplayTable] = ()
    differences: Sequence[DisplayTable] = ()
    access: Sequence[tuple[str, str]] = ()
    points: pl.DataFrame = field(default_factory=pl.DataFrame)
    intervals: str = ""
    scored: Sequence[DisplayTable] = ()


def results_view(sources: Sources, suite: Suite, results: Results, tables: TablesOf) -> ResultsView:
    """Everything of the page of results of runs or collected scores; without resamples, no paired
    differences.
    """
    plain, compared, notes = tables(results)
    pairs: list[Scores] = []
    why = _no_pairs(results, sources.folders, sources.bootstrap)
    if not why:
        methods = in_order(results.cells["method"])
        pairs = paired_results(
            sources.folders,
            [suite],
            results,
            results.cells["criterion"].unique(maintain_order=True).to_list(),
            baseline=baseline_of(methods) or "all",
            how={
                "metrics": list(FIGURES), "split": sources.of_split,
                "bootstrap": sources.bootstrap, "progress": sources.progress,
            },
        )  # fmt: skip
    sees = dict(results.cells.select("method", "sees").unique().rows())
    shown_pairs = [table for scores in pairs for table in tables_of(scores, list(FIGURES))]
    return ResultsView(
        results.about,
        [legend(by_sight=False), *notes],
        _shown(plain),
        _shown(compared),
        [table for table in shown_pairs if table.title.startswith("Differences")],
        [(method, str(sees[method])) for method in in_order(sees)],
        _points(results, suite, pairs),
        f"one standard deviation over seeds ({why})"
        if why
        else f"95% intervals of {sources.bootstrap:,} resamples of {suite.unit_name}",
    )


def _shown(tables: Sequence[ResultTable]) -> list[DisplayTable]:
    return [shown(table, lambda text: BEST + text) for table in tables]


def _no_pairs(results: Results, sources: Sequence[Path], bootstrap: int) -> str:
    """Why methods are not compared by resampling; empty if they are."""
    if not bootstrap:
        return "no resamples were asked for"
    if not sources or not all((source / RUNS_MARKER).is_file() for source in sources):
        return "collected scores have no predictions to resample"
    return "one method cannot be compared" if results.cells["method"].n_unique() < 2 else ""


def chart_rows(cells: pl.DataFrame) -> pl.DataFrame:
    """The rows that the charts show, and ``over``: for an average the tasks that it is over."""
    shown = [(metric, subset) for metric, subsets in _CHARTS.items() for subset in subsets]
    frame = pl.DataFrame(shown, {"metric": pl.String, "subset": pl.String}, orient="row")
    of_tasks = cells.filter(pl.col("task") != AVERAGE).group_by("criterion")
    tasks = dict(of_tasks.agg(pl.col("task").n_unique()).rows())
    rows = cells.join(frame, on=["metric", "subset"], how="semi", maintain_order="left")
    over = [
        None if n is None else average_label([n], tasks[criterion])
        for criterion, n in rows.select("criterion", "n_tasks").rows()
    ]
    return rows.with_columns(over=pl.Series(over, dtype=pl.String))


def _points(results: Results, suite: Suite, pairs: Sequence[Scores]) -> pl.DataFrame:
    keys = ["criterion", "metric", "subset", "task", "method"]
    # the interval of an average is one over the same tasks
    on = [*keys, "averaged_tasks"]
    cells = chart_rows(results.cells).select(
        *on[:-1], "mean", "std", "n", "over", on[-1], "n_worse"
    )
    if not pairs:
        mean, std = pl.col("mean"), pl.col("std")
        return cells.with_columns(low=mean - std, high=mean + std).drop("averaged_tasks")
    # results call a criterion by its kind if it is the only one of that kind; scores call it by
    # its name
    listed = [key[0] for key in suite.keys]
    role = pl.col("criterion").replace(roles_of(listed, [suite], {}))
    bounds = pl.concat(scores.table.select(role, *on[1:], "low", "high") for scores in pairs)
    bounded = cells.join(
        bounds.unique(on), on=on, how="left", nulls_equal=True, maintain_order="left"
    )
    return bounded.drop("averaged_tasks")


ANSWERS_SHOWN = ("accuracy", "recall", "fpr", "yes_rate", "dprime", "response_criterion")
"""Metrics of answers in words that are shown by default."""


@dataclass(frozen=True, eq=False)
class PredictionScores:
    """Scores of the runs that can be scored, runs on the same images together; ``problems`` explain
    why others cannot. ``tables`` are what ``nooch evaluate`` prints: by task, by context cue, and
    differences between runs.
    """

    scores: Sequence[Scores]
    problems: Sequence[str]
    tables: Sequence[DisplayTable]
    notes: Sequence[str]

    @classmethod
    def from_scores(
        cls, scores: Sequence[Scores], metrics: Sequence[str] = (), problems: Sequence[str] = ()
    ) -> Self:
        """With tables of the figures' metrics, other metrics, and the metrics of answers."""
        shown = list(dict.fromkeys([*FIGURES, *metrics, *ANSWERS_SHOWN]))
        tables = [table for scored in scores for table in tables_of(scored, shown)]
        notes = dict.fromkeys(note for scored in scores for note in scored.notes)
        return cls(scores, problems, tables, list(notes))


def score_predictions(
    suite: Suite,
    predictions: Sequence[Predictions],
    *,
    split: str,
    metrics: Sequence[str] = (),
    progress: Progress,
    **scoring: Any,
) -> PredictionScores:
    """Score each run that has a value for every image of the split, or for a sample of them; images
    and tasks that the suite does not have are left out. ``metrics`` are in addition to the metrics
    of the figures; ``scoring`` are other options of ``nooch.evaluate``.
    """
    # by what was asked about
    groups: dict[Hashable, list[Predictions]] = {}
    problems = []
    for done, run in enumerate(predictions, 1):
        try:
            _check(suite, run, split)
        except NoochError as error:
            problems.append(f"{run.run} is not scored: {error}")
        else:
            kind: Hashable = run.in_words
            if run.weights is not None:
                kind = run.in_words, run.tasks, tuple(run.image_ids), run.weights.tobytes()
            groups.setdefault(kind, []).append(run)
        progress("checking predictions", done, len(predictions))
    scores = []
    for runs in groups.values():
        # a task can take minutes: progress is shown before the first one is done
        predicted = {task for run in runs for task in run.tasks}
        tasks = {
            task
            for _, task, split_of_set in suite.keys
            if split_of_set == split and task in predicted
        }
        progress("scoring tasks", 0, len(tasks))
        metric_names = [*(() if runs[0].in_words else FIGURES), *metrics]
        is_answers = runs[0].in_words or runs[0].weights is not None
        metric_names += ANSWERS_SHOWN if is_answers else ()
        options = {
            "split": split,
            "metrics": metric_names,
            "reading": {"ignore_unknown": True},
            **scoring,
        }
        scores.append(evaluate(suite, runs, progress=progress, **options))
    return PredictionScores.from_scores(scores, metrics, problems)


def _check(suite: Suite, run: Predictions, split: str) -> None:
    """Raise NoochError if a run cannot be scored, without scoring it."""
    keys = [key for key in suite.keys if key[1] in run.tasks and key[2] == split]
    if not keys:
        evaluate(suite, [run], split=split, reading={"ignore_unknown": True})
    sample = AskedSample.from_runs(suite, [run], keys).suite
    for challenge in (sample.set(*key) for key in keys if key in sample.keys):
        values_of(run, challenge)


def scored_view(
    scored: PredictionScores, suite: Suite, *, split: str, bootstrap: int
) -> ResultsView | None:
    """The page of results of only predictions, or None where nothing could be scored."""
    if not scored.scores:
        return None
    table = pl.concat(scores.table for scores in scored.scores)
    runs = table["run"].n_unique()
    whole = table.filter(pl.col("cue").is_null() & pl.col("group").is_null())
    rows = chart_rows(whole)
    return ResultsView(
        f"{counted(runs, 'run')} of predictions, {split} images",
        scored.notes,
        scored=scored.tables,
        points=rows.select(
            *("criterion", "metric", "subset", "task", "low", "high", "n"),
            *(pl.col("run").alias("method"), pl.col("value").alias("mean"), "over"),
        ),
        intervals=(
            f"95% intervals of {bootstrap:,} resamples of {suite.unit_name}; Wilson's of a rate"
            " that is the same in all of them"
            if bootstrap
            else "95% intervals: Wilson's of rates; of all else none, without resamples"
        ),
    )
