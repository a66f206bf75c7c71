"""One class per image: the largest output is the answer, and errors are confusions of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.analysis.findings import some_images, with_runs
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import InputError
from nooch.base.words import counted, plural
from nooch.data import Dataset
from nooch.evaluation import Predictions
from nooch.evaluation.metrics.proportions import wilson
from nooch.evaluation.predictions import positions

_SMALLEST = 1e-300


def largest_answers(
    runs: Sequence[Predictions], decision: str | None, *, exclusive: bool
) -> Sequence[Predictions]:
    """Runs with ``largest_answer`` if that is the decision, or if labels exclude each other and
    outputs are of several classes; else, and where they are answers in words, as they are.
    """
    whole = [len(run.tasks) > 1 and run.weights is None for run in runs]
    able = [several and not run.in_words for several, run in zip(whole, runs, strict=True)]
    if decision == "argmax" and not all(whole):
        problem = "the largest output is asked for, where there are outputs of one class or answers"
        raise InputError(problem, where="predictions", allowed="outputs of at least two classes")
    wanted = decision == "argmax" or (decision is None and exclusive)
    if not (wanted and any(able)):
        return runs
    return [largest_answer(run) if one else run for one, run in zip(able, runs, strict=True)]


def largest_answer(run: Predictions) -> Predictions:
    """The run with log odds of each class against the best of the others.

    They are above 0 for the class with the largest output alone, so that an error is an error of
    the answer, not of one class by itself. Images without an output for some class have none.
    """
    values = run.values if run.scale == "logit" else np.log(np.maximum(run.values, _SMALLEST))
    ordered = np.sort(values, axis=0)
    best, second = ordered[-1], ordered[-2]
    margins = values - np.where(values == best, second, best)
    return replace(run, values=margins.astype(np.float64), scale="logit")


@dataclass(frozen=True, eq=False, repr=False)
class Confusions(TabularResult):
    """Which classes a model takes for which.

    Attributes:
        table: ``run, task, answer, n, count, share, low, high, back, images``: of ``n`` images of
            class ``task`` the model calls ``count`` another class, ``answer``, a ``share`` with
            its 95 % interval (Wilson's); ``back`` is the share of the opposite direction. First
            what is most frequent, by ``low``.
    """

    table: pl.DataFrame

    def __len__(self) -> int:
        return self.table.height

    @property
    def counts(self) -> str:
        """How many there are."""
        return f"{counted(len(self), 'pair')} of classes"

    @property
    def display(self) -> DisplayTable:
        """The numbers."""
        rows = self.table.drop("images").rows()
        return DisplayTable(f"Confusions({self.counts})", self.table.columns[:-1], rows, left=3)

    def sentences(self, most: int = 10) -> list[str]:
        """The most frequent confusions in words."""
        return with_runs(self.table.head(most), _sentence, self.table["run"])


def find_confusions(data: Dataset, runs: Sequence[Predictions], tasks: Sequence[str]) -> Confusions:
    """The confusions of runs on images that have one class each; a class is an answer where its
    output is above 0, or its probability above 1/2.
    """
    rows: list[dict[str, Any]] = []
    ids = data.images["image_id"]
    present = np.stack([data.labels(task, unknown=False) for task in tasks])
    for run in runs:
        known = [task for task in tasks if task in run.tasks]
        at = positions(ids, run.image_ids.cast(ids.dtype, strict=False))
        values = run.values[[run.tasks.index(task) for task in known]][:, at]
        # of equal outputs, or without outputs, none is above
        said = np.where(at >= 0, values > (0 if run.scale == "logit" else 0.5), False)
        rows += _of_run(run.run, ids, present, tasks, dict(zip(known, said, strict=True)))
    table = pl.DataFrame(rows, schema=_COLUMNS)
    return Confusions(table.sort("low", descending=True, maintain_order=True))


_COLUMNS: dict[str, Any] = {
    "run": pl.String, "task": pl.String, "answer": pl.String, "n": pl.Int64, "count": pl.Int64,
    "share": pl.Float64, "low": pl.Float64, "high": pl.Float64, "back": pl.Float64,
    "images": pl.List(pl.String),
}  # fmt: skip


def _of_run(
    run: str,
    ids: pl.Series,
    present: NDArray[np.bool_],
    tasks: Sequence[str],
    said: Mapping[str, NDArray[np.bool_]],
) -> list[dict[str, Any]]:
    rows = []
    sizes = dict(zip(tasks, present.sum(axis=1).tolist(), strict=True))
    of = dict(zip(tasks, present, strict=True))
    for task in tasks:
        for answer, yes in said.items():
            wrong = of[task] & yes & ~of[answer]
            if answer == task or not wrong.any():
                continue
            count, n, back = int(wrong.sum()), sizes[task], None
            if task in said and sizes[answer]:
                back = float((of[answer] & said[task] & ~of[task]).sum() / sizes[answer])
            low, high = wilson(np.array(count / n), np.array(n))
            rows.append({
                "run": run, "task": task, "answer": answer, "n": n, "count": count,
                "share": count / n, "low": float(low), "high": float(high), "back": back,
                "images": some_images(ids, wrong),
            })  # fmt: skip
    return rows


def _sentence(row: Mapping[str, Any]) -> str:
    """A confusion in words: both directions, with the interval."""
    share, low, high = (f"{100 * row[name]:.0f}" for name in ("share", "low", "high"))
    task, answer = plural(row["task"]), plural(row["answer"])
    of = f"{row['count']:,} of {row['n']:,}"
    text = f"{task} are called {answer} in {share} % [{low}, {high}] ({of})"
    return text if row["back"] is None else f"{text}; the reverse in {100 * row['back']:.0f} %"
