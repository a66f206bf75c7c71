"""Baselines to hold a model against: a constant, the task's prior, and the context alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from nooch.challenge import Suite
from nooch.checking.cue_findings import known_at
from nooch.data import Dataset
from nooch.evaluation import Predictions
from nooch.resources import limited_threads
from nooch.shared_types import Progress, no_progress, tracked

__all__ = ["BASELINES", "baselines"]

BASELINES = ("baseline: constant", "baseline: prior", "baseline: context only")
_FOLDS = 5


def baselines(
    suite: Suite,
    data: Dataset,
    tasks: Sequence[str],
    split: str,
    seed: int = 0,
    progress: Progress = no_progress,
) -> list[Predictions]:
    """What a model that does not look at the object would answer.

    The constant gives every image the probability 1/2, the prior the task's share of positives in
    training. The context alone is a logistic regression on the areas of the task's context cues,
    fitted on the training split; in a dataset without splits each fifth of the images is predicted
    by a regression fitted on the other four. A task without cues, or with fewer than five training
    images of either label, has no context baseline.

    Args:
        suite: with criteria that have cues.
        data: the dataset that the suite was found in.
        tasks: which tasks.
        split: whose images are predicted.
        seed: of the division into fifths.
        progress: called with what is being done, and how many of how many are done.
    """
    part, train = data.select(split), data.select(data.fitting_split)
    ids = part.images["image_id"]
    prior = np.array([train.labels(t, unknown=False)[known_at(train, t)].mean() for t in tasks])
    flat = np.ones((len(tasks), len(ids)))
    made = [
        Predictions(BASELINES[0], ids, tuple(tasks), flat / 2, "probability"),
        Predictions(BASELINES[1], ids, tuple(tasks), flat * prior[:, None], "probability"),
    ]
    # threads would wait for each other most of the time: a step of a regression is short
    with limited_threads(1):
        context = {
            task: values
            for task in tracked(tasks, len(tasks), "fitting baselines, tasks", progress)
            if (values := _context(task, cues_of(suite, task), train, part, seed)) is not None
        }
    if context:
        values = np.stack(list(context.values()))
        made.append(Predictions(BASELINES[2], ids, tuple(context), values, "probability"))
    return made


def cues_of(suite: Suite, task: str) -> list[str]:
    """The context cues of a task under any criterion, each once."""
    return list(
        dict.fromkeys(
            cue for record in suite.header.criteria.values() for cue, _ in record.cues.get(task, [])
        )
    )


def _context(
    task: str, cues: Sequence[str], train: Dataset, part: Dataset, seed: int
) -> NDArray[np.float64] | None:
    """Probabilities of the images of ``part`` from the areas of cues alone, float64 (n,)."""
    known = known_at(train, task)
    labels = train.labels(task, unknown=False)[known]
    if not cues or min(labels.sum(), (~labels).sum()) < _FOLDS:
        return None
    # a standard deviation as unit, so that the penalty is the same for large and small areas
    model = LogisticRegression(max_iter=1000)
    x = _areas(train, cues)[known]
    scale = np.maximum(x.std(axis=0), 1e-12)
    # images of unknown label are not scored, whatever they are given
    positive: NDArray[np.float64] = model.fit(x / scale, labels).predict_proba(
        _areas(part, cues) / scale
    )[:, 1]
    if train.fingerprint == part.fingerprint:
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
        found = cross_val_predict(model, x / scale, labels, cv=folds, method="predict_proba")
        positive[known] = found[:, 1]
    return positive


def _areas(data: Dataset, cues: Sequence[str]) -> NDArray[np.float64]:
    return np.nan_to_num(np.stack([data.area(cue, unknown=0.0) for cue in cues], axis=1))
