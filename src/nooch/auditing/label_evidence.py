"""What speaks for a class in an image: models' outputs, mentions, the image's other labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from nooch.captions import ModelCaptions, Vocabulary
from nooch.data import Dataset
from nooch.evaluation import Predictions
from nooch.evaluation.predictions import positions
from nooch.resources import limited_threads
from nooch.shared_types import Progress, tracked

__all__ = ["context_run", "cross_fitted", "fold_numbers", "mentions", "values_of", "weighed"]

_FOLDS = 5
_SURE = 1e-3
"""A probability below this, or above 1 - this, is taken for it: 0 has no finite log odds."""


def cross_fitted(
    columns: Any, labels: NDArray[np.bool_], folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log odds of presence by logistic regressions, each fitted on the rows of the other folds.

    Args:
        columns: dense or sparse, (n, k).
        labels: bool (n,).
        folds: int64 (n,); negative: fitted on alone.

    Returns:
        float64 (n,), NaN where the other folds have one label alone.
    """
    odds = np.full(len(labels), np.nan)
    for fold in np.unique(folds[folds >= 0]):
        fitted, own = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if 0 < labels[fitted].sum() < len(fitted):
            # threads would wait for each other most of the time: a step of a regression is short
            with limited_threads(1):
                model = LogisticRegression(max_iter=1000).fit(columns[fitted], labels[fitted])
            odds[own] = model.decision_function(columns[own])
    return odds


def fold_numbers(ids: pl.Series) -> NDArray[np.int64]:
    """The fold of each row, int64 (n,): all rows of an image are in one of five, at random."""
    images = ids.unique().sort()
    numbers = np.random.default_rng(0).permutation(len(images)) % _FOLDS
    return numbers[positions(ids, images)]


def context_run(
    data: Dataset, tasks: Sequence[str], splits: Sequence[str], progress: Progress
) -> Predictions:
    """P(label | the image's other labels) in the images of splits: regressions on their presence.

    They are fitted on the training images or, where these are asked about themselves, on the other
    four fifths of the images. Areas are no evidence here: those of a map add up to 1, so that they
    tell the area of the class itself.
    """
    data = data.select(rows=data.images["split"].is_in([*splits, data.fitting_split]).to_numpy())
    ids, areas = data.images["image_id"], data.areas
    asked = data.images["split"].is_in(list(splits))
    folds = fold_numbers(ids) if data.fitting_split in splits else np.zeros(len(data), int)
    folds = np.where(asked.to_numpy(), folds, -1)
    odds = np.full((len(tasks), len(data)), np.nan)
    for row, task in enumerate(tracked(tasks, len(tasks), "fitting contexts, tasks", progress)):
        others = (areas.indices != data.column(task)).astype(np.float64)
        present = csr_array((others, areas.indices, areas.indptr), shape=areas.shape)
        unknown, labels = data.unknown_labels(task), data.labels(task, unknown=False)
        known = np.arange(len(data)) if unknown is None else np.flatnonzero(~unknown)
        odds[row, known] = cross_fitted(present[known], labels[known], folds[known])
    return Predictions("context", ids, tuple(tasks), odds, "logit").only(images=asked)


def mentions(run: ModelCaptions, vocabulary: Vocabulary, tasks: Sequence[str]) -> Predictions:
    """The share of an image's captions that mention each task's object, as probabilities."""
    named = [task for task in tasks if task in vocabulary.classes]
    found = [vocabulary.mentions(text) for text in run.captions["caption"]]
    columns = [pl.Series(task, [task in one for one in found]) for task in named]
    said = run.captions.select("image_id", *columns)
    shares = said.group_by("image_id", maintain_order=True).mean()
    values = shares.drop("image_id").to_numpy().T
    return Predictions(run.run, shares["image_id"], tuple(named), values, "probability")


def values_of(run: Predictions, task: str, ids: pl.Series) -> NDArray[np.float64]:
    """A run's log odds of presence in images, float64 (n,); NaN where it has none."""
    if task not in run.tasks:
        return np.full(len(ids), np.nan)
    at = positions(ids, run.image_ids.cast(ids.dtype, strict=False))
    values = np.where(at >= 0, run.values[run.tasks.index(task), at], np.nan).astype(np.float64)
    return values if run.scale == "logit" else logit(np.clip(values, _SURE, 1 - _SURE))


def weighed(
    values: NDArray[np.float64], labels: NDArray[np.bool_], folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log odds of presence from the sources that speak of each label, float64 (n,); else NaN.

    A regression for each set of sources, fitted on the labels that all of them speak of. ``values``
    is (n, n_sources), NaN where a source is silent.
    """
    bits = 1 << np.arange(values.shape[1])
    codes, odds = ~np.isnan(values) @ bits, np.full(len(values), np.nan)
    for code in np.unique(codes[codes > 0]):
        rows = np.flatnonzero(codes & code == code)
        fitted = cross_fitted(values[np.ix_(rows, bits & code > 0)], labels[rows], folds[rows])
        own = codes[rows] == code
        odds[rows[own]] = fitted[own]
    return odds
