"""Predictions of any model -> what the report's page of results shows of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from nooch.base.display import DisplayTable
from nooch.base.errors import NoochError
from nooch.base.shared_types import Progress
from nooch.base.words import counted
from nooch.evaluation import Predictions, Scores, evaluate
from nooch.evaluation.answer_sample import AskedSample
from nooch.evaluation.predictions import Aligned
from nooch.report.site.results_page import FIGURES, ResultsView, chart_rows
from nooch.report.tables.score_tables import tables_of
from nooch.suites import Suite

__all__ = ["PredictionScores", "score_predictions", "scored_view"]

ANSWERS_SHOWN = ("accuracy", "recall", "fpr", "yes_rate", "dprime", "response_criterion")
"""Metrics of answers in words that are shown by default."""


@dataclass(frozen=True, eq=False)
class PredictionScores:
    """Scores of the runs that can be scored, those of the same images together; ``problems`` say
    why others cannot. ``tables`` are what ``nooch evaluate`` prints: by task, by context cue, and
    differences between runs.
    """

    scores: Sequence[Scores]
    problems: Sequence[str]
    tables: Sequence[DisplayTable]
    notes: Sequence[str]


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
    and tasks that the suite does not have are left out. ``metrics`` are in addition to those of the
    figures; ``scoring`` are other options of ``nooch.evaluate``.
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
            asked: Hashable = None
            if run.weights is not None:
                asked = run.in_words, run.tasks, tuple(run.image_ids), run.weights.tobytes()
            groups.setdefault(asked, []).append(run)
        progress("checking predictions", done, len(predictions))
    scores = []
    for runs in groups.values():
        # a task can take minutes: progress is shown before the first one is done
        predicted = {task for run in runs for task in run.tasks}
        tasks = {task for _, task, of in suite.keys if of == split and task in predicted}
        progress("scoring tasks", 0, len(tasks))
        wanted = [*(() if runs[0].in_words else FIGURES), *metrics]
        wanted += () if runs[0].weights is None else ANSWERS_SHOWN
        options = {"split": split, "metrics": wanted, "ignore_unknown": True, **scoring}
        scores.append(evaluate(suite, runs, progress=progress, **options))
    shown = list(dict.fromkeys([*FIGURES, *metrics, *ANSWERS_SHOWN]))
    tables = [table for one in scores for table in tables_of(one, shown)]
    notes = dict.fromkeys(note for one in scores for note in one.notes)
    return PredictionScores(scores, problems, tables, list(notes))


def _check(suite: Suite, run: Predictions, split: str) -> None:
    """Raise NoochError where a run cannot be scored, without scoring it."""
    keys = [key for key in suite.keys if key[1] in run.tasks and key[2] == split]
    if not keys:
        evaluate(suite, [run], split=split, ignore_unknown=True)
    sample = AskedSample.of(suite, [run], keys).suite
    for challenge in (sample.set(*key) for key in keys if key in sample.keys):
        Aligned(run, challenge.image_ids, split).values(challenge.task, slice(None), challenge)


def scored_view(scored: PredictionScores, *, split: str, bootstrap: int) -> ResultsView | None:
    """The page of results of predictions alone, or None where nothing could be scored."""
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
            f"95 % intervals of {bootstrap:,} resamples of images; Wilson's of a rate that is the"
            " same in all of them"
            if bootstrap
            else "95 % intervals: Wilson's of rates; of all else none, without resamples"
        ),
    )
