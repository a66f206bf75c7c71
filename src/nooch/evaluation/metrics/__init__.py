"""Metrics: functions of labels and outputs; one ranking of a task serves all of its subsets."""

from nooch.evaluation.metrics.pointwise import SCALES, constant_nll, nll
from nooch.evaluation.metrics.subset_metrics import (
    ALL_METRICS,
    ANSWER_METRICS,
    BOX_METRICS,
    METRIC_NAMES,
    METRICS,
    SHARES,
    Graded,
    Parts,
    Resampler,
    Weights,
    auc,
    stable_order,
)

__all__ = [
    "ALL_METRICS", "ANSWER_METRICS", "BOX_METRICS", "METRICS", "METRIC_NAMES", "SCALES", "SHARES",
    "Graded", "Parts", "Resampler", "Weights", "auc", "constant_nll", "nll", "stable_order",
]  # fmt: skip
