"""A metric is a plain function of labels and one model's outputs; all of a task's subsets are
scored from one ranking.
"""

from nooch.metrics.calibration import N_BINS, ece, ece_paper, ece_top
from nooch.metrics.pointwise import SCALES, constant_nll, error, nll
from nooch.metrics.ranking import auc, auprc, stable_order
from nooch.metrics.subset_metrics import METRICS, Graded, Parts

__all__ = [
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
