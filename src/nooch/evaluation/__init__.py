"""Predictions of any model and a suite -> scores: one long table, with counts, intervals, and a
reason for every null.
"""

from nooch.evaluation.evaluation_run import evaluate
from nooch.evaluation.prediction_files import read_predictions
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.score_conditions import (
    Condition,
    Verdict,
    check_names,
    judge,
    parse_condition,
)
from nooch.evaluation.scores import Scores
from nooch.evaluation.subsets import CELLS, SCORED, Distribution, parse_distribution
from nooch.evaluation.task_losses import PARTS, class_losses
from nooch.evaluation.task_scores import AVERAGE

__all__ = [
    "AVERAGE",
    "CELLS",
    "PARTS",
    "SCORED",
    "Condition",
    "Distribution",
    "Predictions",
    "Scores",
    "Verdict",
    "check_names",
    "class_losses",
    "evaluate",
    "judge",
    "parse_condition",
    "parse_distribution",
    "read_predictions",
]
