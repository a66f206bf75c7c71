"""What speaks for a class in an image: each source as log odds, and all sources together."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from nooch.base.resources import limited_threads
from nooch.evaluation import Predictions

__all__ = ["cross_fitted", "values_of", "weighed"]

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


def values_of(run: Predictions, task: str, ids: pl.Series) -> NDArray[np.float64]:
    """A run's log odds of presence in images, float64 (n,); NaN where it has none."""
    values = run.outputs(task, ids)
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
