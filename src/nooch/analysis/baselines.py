"""Baselines to hold a model against: a constant, the task's prior, and the context alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import logit

from nooch.analysis.cue_findings import known_at
from nooch.base.errors import InputError
from nooch.data import Dataset
from nooch.evaluation import Predictions, context_run

__all__ = ["BASELINES", "baselines"]

BASELINES = ("baseline: constant", "baseline: prior", "baseline: context only")


def baselines(data: Dataset, tasks: Sequence[str], split: str) -> list[Predictions]:
    """What a model that does not look at the object would answer.

    The constant gives every image the probability 1/2, the prior the task's share of positives in
    training. The context alone is a logistic regression on the presence of the other classes, see
    ``nooch.Context``; labels that exclude each other have none. An image of which a label is
    unknown gets the prior.

    Args:
        data: the dataset of the labels.
        tasks: which tasks.
        split: whose images are predicted.
    """
    part, train = data.select(split), data.select(data.fitting_split)
    ids = part.images["image_id"]
    prior = np.array([train.labels(t, unknown=False)[known_at(train, t)].mean() for t in tasks])
    flat = np.ones((len(tasks), len(ids)))
    made = [
        Predictions(BASELINES[0], ids, tuple(tasks), flat / 2, "probability"),
        Predictions(BASELINES[1], ids, tuple(tasks), flat * prior[:, None], "probability"),
    ]
    try:
        context = context_run(data, tasks, [split], BASELINES[2])
    except InputError:
        # labels that say nothing about each other
        return made
    usual = logit(prior[[tasks.index(task) for task in context.tasks]])
    values = np.where(np.isnan(context.values), usual[:, None], context.values)
    return [*made, replace(context, values=values)]
