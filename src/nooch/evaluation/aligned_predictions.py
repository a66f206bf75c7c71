"""Predictions matched with a suite: every image of a set has a value, and none is left over."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet, Suite
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.evaluation.predictions import Predictions, positions

__all__ = ["Aligned", "check_tasks", "one_each", "union_of"]


def check_tasks(run: Predictions, suite: Suite) -> None:
    """Raise InputError for a task that the suite does not have."""
    for task in run.tasks:
        try:
            check_one_of("task", task, suite.tasks)
        except ParameterError as error:
            raise InputError(
                f"task {task!r} is not in the suite",
                where=f"run {run.run}",
                allowed=some_of(sorted(suite.tasks), 12),
                remedy=error.remedy or "leave it out, or give `ignore_unknown`",
            ) from error


def union_of(sets: Iterable[ChallengeSet]) -> pl.Series:
    """Ids of the images of several sets, ascending, each once."""
    columns: list[pl.Series] = []
    for challenge in sets:
        # most sets of a split have the same images
        if not any(challenge.image_ids.equals(column) for column in columns):
            columns.append(challenge.image_ids)
    if len(columns) == 1:
        return columns[0]
    return pl.concat(columns).unique().sort() if columns else pl.Series("image_id", [], pl.Int64)


class Aligned:
    """One run's values in the order of a split's images.

    Args:
        run: the predictions.
        ids: ids of the split's images, ascending.
        split: its name, for errors.
    """

    def __init__(self, run: Predictions, ids: pl.Series, split: str) -> None:
        self._run, self._ids, self._split = run, ids, split
        self._at = positions(ids, _as(run, ids.dtype))
        self._in_order = np.array_equal(self._at, np.arange(len(run.image_ids)))

    def values(
        self, task: str, rows: NDArray[np.intp] | slice, challenge: ChallengeSet
    ) -> NDArray[np.float64]:
        """Values of a set's images, float64 (n,).

        Args:
            task: one of the run's tasks.
            rows: where the set's images are among the split's.
            challenge: the set, whose labels those of the predictions must agree with.

        Raises:
            InputError: an image of the set has no prediction, or another label than it.
        """
        row, at = self._run.tasks.index(task), self._at[rows]
        # predictions in the suite's own order need no looking up
        same = self._in_order and isinstance(rows, slice)
        values = (
            self._run.values[row] if same else np.where(at >= 0, self._run.values[row, at], np.nan)
        )
        missing = np.isnan(values)
        if missing.any() and not self._run.in_words:
            ids = challenge.image_ids.filter(pl.Series(missing))
            raise InputError(
                f"{len(ids)} of {len(challenge)} images of split {self._split} have no prediction:"
                f" {some_of(ids)}",
                where=f"run {self._run.run}, task {task}",
                allowed="a prediction for every image of the split that is scored",
                remedy="predict them, or score another split with `split`",
            )
        if self._run.labels is not None:
            self._check_labels(task, self._run.labels[row, at], challenge)
        return values

    def _check_labels(self, task: str, given: NDArray[np.int8], challenge: ChallengeSet) -> None:
        wrong = (given >= 0) & (given != challenge.labels)
        if wrong.any():
            raise InputError(
                f"{int(wrong.sum())} labels disagree with the suite's:"
                f" {some_of(challenge.image_ids.filter(pl.Series(wrong)))}",
                where=f"run {self._run.run}, task {task}",
                allowed="the suite's labels, or no column label",
                remedy="predict on the images and annotations that the suite was found in",
            )


def one_each(given: pl.Series, ids: pl.Series, run: str) -> None:
    """Raise InputError where two of the given ids or names stand for one image; null is none."""
    twice = given.filter(ids.is_duplicated() & ids.is_not_null())
    if len(twice):
        raise InputError(
            f"image ids stand for one image: {some_of(twice.sort())}",
            where=f"run {run}",
            allowed="each image once",
        )


def _as(run: Predictions, kind: pl.DataType) -> pl.Series:
    """A run's ids in the suite's type, text of digits as a number; null where impossible."""
    ids = run.image_ids.cast(kind, strict=False)
    one_each(run.image_ids, ids, run.run)
    return ids
