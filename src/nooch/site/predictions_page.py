"""Predictions of any model -> what the report's page of results shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from nooch.challenge import Suite
from nooch.errors import NoochError
from nooch.evaluation import AVERAGE, Predictions, Scores, evaluate
from nooch.report.score_tables import Shown, average_label, tables_of
from nooch.shared_types import Progress
from nooch.site.results_page import FIGURES, ResultsView

__all__ = ["PredictionScores", "score_predictions", "scored_view"]


@dataclass(frozen=True, eq=False)
class PredictionScores:
    """Scores of predictions, as far as they can be scored.

    Attributes:
        scores: of the runs that can be scored, or None.
        problems: why others cannot, a sentence for each.
    """

    scores: Scores | None = None
    problems: Sequence[str] = field(default_factory=tuple)

    @property
    def tables(self) -> list[Shown]:
        """What ``nooch evaluate`` prints: by task, by context cue, and differences between runs."""
        return [] if self.scores is None else tables_of(self.scores, list(FIGURES))


def score_predictions(
    suite: Suite,
    predictions: Sequence[Predictions],
    *,
    split: str,
    bootstrap: int,
    progress: Progress,
) -> PredictionScores:
    """Score each run that has a value for every image of the split.

    Args:
        suite: the suite.
        predictions: runs; images and tasks that the suite does not have are left out.
        split: whose images.
        bootstrap: resamples of the intervals; 0 for none.
        progress: called with what is being done, and how much of how much is done.
    """
    known, problems = [], []
    for run in predictions:
        try:
            evaluate(suite, [run], split=split, metrics=["error"], ignore_unknown=True)
        except NoochError as error:
            problems.append(f"{run.run} is not scored: {error}")
        else:
            known.append(run)
    if not known:
        return PredictionScores(None, problems)
    options: dict[str, Any] = {
        "split": split,
        "metrics": list(FIGURES),
        "bootstrap": bootstrap,
        "progress": progress,
    }
    return PredictionScores(evaluate(suite, known, ignore_unknown=True, **options), problems)


def scored_view(scored: PredictionScores, *, split: str, bootstrap: int) -> ResultsView | None:
    """The page of results of predictions alone, or None where nothing could be scored."""
    if scored.scores is None:
        return None
    runs = scored.scores.table["run"].n_unique()
    return ResultsView(
        f"{runs} {'run' if runs == 1 else 'runs'} of predictions, {split} images",
        list(scored.scores.notes),
        scored=scored.tables,
        points=_points(scored.scores),
        intervals=(
            f"95 % intervals of {bootstrap:,} resamples of images; Wilson's of an error that is the"
            " same in all of them"
            if bootstrap
            else "95 % intervals: Wilson's of errors; of all else none, without resamples"
        ),
    )


def _points(scores: Scores) -> pl.DataFrame:
    """The numbers of the charts, a row for each criterion, metric, subset, task and run."""
    wanted = [(metric, subset) for metric, subsets in FIGURES.items() for subset in subsets]
    place = pl.DataFrame(wanted, schema={"metric": pl.String, "subset": pl.String}, orient="row")
    rows = scores.table.filter(pl.col("cue").is_null() & pl.col("group").is_null())
    rows = rows.join(place, on=["metric", "subset"], how="semi", maintain_order="left")
    tasks = dict(
        rows.filter(pl.col("task") != AVERAGE)
        .group_by("criterion")
        .agg(pl.col("task").n_unique())
        .rows()
    )
    over = [
        None if n is None else average_label([n], tasks[c])
        for c, n in rows.select("criterion", "n_tasks").rows()
    ]
    return rows.select(
        "criterion", "metric", "subset", "task", "low", "high", "n", method="run", mean="value",
        over=pl.Series(over, dtype=pl.String),
    )  # fmt: skip
