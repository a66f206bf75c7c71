"""Predictions of any model -> what the report's page of results shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from nooch.challenge import Suite
from nooch.display import DisplayTable
from nooch.english import counted
from nooch.errors import NoochError
from nooch.evaluation import Predictions, Scores, evaluate
from nooch.evaluation.predictions import Aligned
from nooch.report.score_tables import tables_of
from nooch.shared_types import Progress
from nooch.site.results_page import FIGURES, ResultsView, chart_rows

__all__ = ["PredictionScores", "score_predictions", "scored_view"]


@dataclass(frozen=True, eq=False)
class PredictionScores:
    """Scores of the runs that can be scored, or None; ``problems`` say why others cannot.

    ``metrics`` are those that the tables show.
    """

    scores: Scores | None = None
    problems: Sequence[str] = ()
    metrics: Sequence[str] = ()

    @property
    def tables(self) -> list[DisplayTable]:
        """What ``nooch evaluate`` prints: by task, by context cue, and differences between runs."""
        return [] if self.scores is None else tables_of(self.scores, self.metrics)


def score_predictions(
    suite: Suite,
    predictions: Sequence[Predictions],
    *,
    split: str,
    metrics: Sequence[str] = (),
    progress: Progress,
    **scoring: Any,
) -> PredictionScores:
    """Score each run that has a value for every image of the split; images and tasks that the suite
    does not have are left out. ``metrics`` are in addition to those of the figures; ``scoring`` are
    other options of ``nooch.evaluate``.
    """
    known, problems = [], []
    for done, run in enumerate(predictions, 1):
        try:
            _check(suite, run, split)
        except NoochError as error:
            problems.append(f"{run.run} is not scored: {error}")
        else:
            known.append(run)
        progress("checking predictions", done, len(predictions))
    if not known:
        return PredictionScores(None, problems)
    # a task can take minutes: progress is shown before the first one is done
    predicted = {task for run in known for task in run.tasks}
    tasks = {task for _, task, of in suite.keys if of == split and task in predicted}
    progress("scoring tasks", 0, len(tasks))
    wanted = list(dict.fromkeys([*FIGURES, *metrics]))
    scores = evaluate(
        suite, known, split=split, metrics=wanted, ignore_unknown=True, progress=progress, **scoring
    )
    return PredictionScores(scores, problems, wanted)


def _check(suite: Suite, run: Predictions, split: str) -> None:
    """Raise NoochError where a run cannot be scored, without scoring it."""
    keys = [key for key in suite.keys if key[1] in run.tasks and key[2] == split]
    for challenge in (suite.set(*key) for key in keys):
        Aligned(run, challenge.image_ids, split).values(challenge.task, slice(None), challenge)
    if not keys:
        evaluate(suite, [run], split=split, ignore_unknown=True)


def scored_view(scored: PredictionScores, *, split: str, bootstrap: int) -> ResultsView | None:
    """The page of results of predictions alone, or None where nothing could be scored."""
    if scored.scores is None:
        return None
    table = scored.scores.table
    runs = table["run"].n_unique()
    rows = chart_rows(table.filter(pl.col("cue").is_null() & pl.col("group").is_null()))
    return ResultsView(
        f"{counted(runs, 'run')} of predictions, {split} images",
        list(scored.scores.notes),
        scored=scored.tables,
        points=rows.select(
            *("criterion", "metric", "subset", "task", "low", "high", "n"),
            *(pl.col("run").alias("method"), pl.col("value").alias("mean"), "over"),
        ),
        intervals=(
            f"95 % intervals of {bootstrap:,} resamples of images; Wilson's of an error that is the"
            " same in all of them"
            if bootstrap
            else "95 % intervals: Wilson's of errors; of all else none, without resamples"
        ),
    )
