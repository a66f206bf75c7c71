"""Metrics: functions of labels and outputs; one ranking of a task serves all of its subsets."""

from nooch.metrics.calibration import N_BINS, ece, ece_paper, ece_top
from nooch.metrics.pointwise import SCALES, constant_nll, error, nll
from nooch.metrics.ranking import auc, auprc, stable_order
from nooch.metrics.subset_metrics import ALL_METRICS, METRICS, Graded, Parts

__all__ = [
    "ALL_METRICS",
    "METRICS",
    "N_BINS",
    "SCALES",
    "Graded",
    "Parts",
    "auc",
    "auprc",
    "constant_nll",
    "ece",
    "ece_paper",
    "ece_top",
    "error",
    "nll",
    "stable_order",
]
