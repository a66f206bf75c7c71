"""Predictions of any model and a suite -> scores: one long table, with counts, intervals, and a reason for every null."""

from nooch.evaluation.class_losses import PARTS, class_losses
from nooch.evaluation.conditions import Condition, Verdict, check_names, judge, parse_condition
from nooch.evaluation.evaluating import evaluate
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.reading import read_predictions
from nooch.evaluation.scores import Scores
from nooch.evaluation.scoring import AVERAGE
from nooch.evaluation.subsets import CELLS, SCORED, Distribution, parse_distribution

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
