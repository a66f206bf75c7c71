"""What a method minimizes, of its validation outputs and of the best constant answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nooch.training.jobs import Job
from nooch.training.training_data import Outputs, TrainingData, expected_of, objective_of
from nooch.training.training_pass import validation_value

_WIDEST = 10.0
"""Largest logit of a constant answer: 1 in 22,000."""
_AT_ONCE = 32
_ROUNDS = 4


def own_values(
    data: TrainingData,
    job: Job,
    logits: NDArray[np.float32],
    variant: str,
    first: Outputs | None = None,
) -> tuple[float, float]:
    """The method's own objective on all validation images, and that of the best constant there.

    For methods that draw rows, and for those with a first or last stage, it is the mean loss with
    each image weighted as they weigh it. Learned weights of environments (online GDRO) are as they
    begin. The best constant is searched among logits of -10 to 10, to about .0002.

    ``logits``: its outputs for the validation images, float32 (n_valid,).
    """
    import torch

    heads = [job] * (1 + _AT_ONCE)
    labels, environments = (
        torch.from_numpy(values)[:, None].expand(-1, len(heads)) for values in _targets(data, job)
    )
    weights = _weights(data, job, first)
    expected = None if weights is None else torch.from_numpy(weights)[:, None]
    own, middle, reach = torch.from_numpy(logits)[:, None], 0.0, _WIDEST
    values = torch.zeros(0)
    for _ in range(_ROUNDS):
        constants = torch.linspace(middle - reach, middle + reach, _AT_ONCE)
        outputs = torch.cat([own, constants.expand(len(own), -1)], dim=1)
        objective = objective_of(data, heads, variant)
        with torch.no_grad():
            known = outputs, labels, environments
            values = validation_value("objective", objective, known, expected, len(own))
        middle = float(constants[values[1:].argmin()])
        reach *= 2 / (_AT_ONCE - 1)
    return float(values[0]), float(values[1:].min())


def _targets(data: TrainingData, job: Job) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Labels and environments of the validation images; one environment where there are none."""
    labels = data.groups(job.task, "labels", "valid").astype(np.float32)
    if job.task not in data.environments:
        return labels, np.zeros(len(labels), np.int64)
    return labels, data.groups(job.task, "environments", "valid").astype(np.int64)


def _weights(data: TrainingData, job: Job, first: Outputs | None) -> NDArray[np.float32] | None:
    """How much each validation image counts, 1 on average, float32 (n_valid,); None for evenly."""
    even = None if job.kind.refit is None else job.kind.refit.even
    if even is None:
        return expected_of(data, job, first)
    groups = data.groups(job.task, even, "valid")
    counts = np.bincount(groups)
    weights: NDArray[np.float64] = 1 / counts[groups]
    return np.asarray(weights / weights.mean(), np.float32)
