"""Confusions: which classes a model takes for which, where each image has one class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.display import DisplayTable, TabularResult
from nooch.base.words import counted, readable
from nooch.data import Dataset
from nooch.evaluation import Predictions
from nooch.evaluation.findings import some_images
from nooch.evaluation.metrics.proportions import wilson
from nooch.evaluation.predictions import positions
from nooch.evaluation.rate_words import model_name, percent, started


@dataclass(frozen=True, eq=False, repr=False)
class Confusions(TabularResult):
    """Confusions of classes by a model.

    Attributes:
        table: ``run, task, answer, n, count, share, low, high, back, images``: of ``n`` images of
            class ``task`` the model calls ``count`` another class, ``answer``, a ``share`` with
            its 95% interval (Wilson's); ``back`` is the share of the opposite direction. First
            what is most frequent, by ``low``.
    """

    table: pl.DataFrame

    @property
    def counts(self) -> str:
        """Their number."""
        return f"{counted(len(self), 'pair')} of classes"

    @property
    def display(self) -> DisplayTable:
        """The numbers."""
        rows = self.table.drop("images").rows()
        return DisplayTable(f"Confusions({self.counts})", self.table.columns[:-1], rows, left=3)

    def sentences(self, most: int = 10) -> list[str]:
        """The most frequent confusions in words."""
        return [_sentence(row) for row in self.table.head(most).iter_rows(named=True)]


def find_confusions(data: Dataset, runs: Sequence[Predictions], tasks: Sequence[str]) -> Confusions:
    """The confusions of runs on images that have one class each; a class is an answer where its
    output is above 0, or its probability above 1/2.
    """
    rows: list[dict[str, Any]] = []
    ids = data.images["image_id"]
    present = np.stack([data.labels(task, unknown=False) for task in tasks])
    for run in runs:
        rows += _of_run(run.run, ids, present, tasks, claimed_classes(run, ids, tasks))
    table = pl.DataFrame(rows, schema=_COLUMNS)
    return Confusions(table.sort("low", descending=True, maintain_order=True))


def claimed_classes(
    run: Predictions, ids: pl.Series, tasks: Sequence[str]
) -> dict[str, NDArray[np.bool_]]:
    """Predicted task -> images in which the run claims it, bool (n,)."""
    predicted = [task for task in tasks if task in run.tasks]
    image_rows = positions(ids, run.image_ids.cast(ids.dtype, strict=False))
    values = run.values[[run.tasks.index(task) for task in predicted]][:, image_rows]
    # of equal outputs, or without outputs, none is above
    said = np.where(image_rows >= 0, values > (0 if run.scale == "logit" else 0.5), False)
    return dict(zip(predicted, said, strict=True))


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
    presence = dict(zip(tasks, present, strict=True))
    for task in tasks:
        for answer, yes in said.items():
            wrong = presence[task] & yes & ~presence[answer]
            if answer == task or not wrong.any():
                continue
            count, n, back = int(wrong.sum()), sizes[task], None
            if task in said and sizes[answer]:
                back = float(
                    (presence[answer] & said[task] & ~presence[task]).sum() / sizes[answer]
                )
            low, high = wilson(np.array(count / n), np.array(n))
            rows.append({
                "run": run, "task": task, "answer": answer, "n": n, "count": count,
                "share": count / n, "low": float(low), "high": float(high), "back": back,
                "images": some_images(ids, wrong),
            })  # fmt: skip
    return rows


def _sentence(row: Mapping[str, Any]) -> str:
    """A confusion in words: how often, its interval, and the opposite direction."""
    who, task, answer = started(model_name(row["run"])), readable(row["task"]), row["answer"]
    fraction = f"{row['count']:,} of {row['n']:,}"
    text = f"{who} answers {readable(answer)} for {task} images in {percent(row['share'])}"
    text += f" ({fraction}); 95% interval {percent(row['low'])} to {percent(row['high'])}"
    return text if row["back"] is None else f"{text}; the reverse in {percent(row['back'])}"
