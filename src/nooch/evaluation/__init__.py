"""Predictions and a suite -> scores: a long table with counts, intervals, reasons for nulls."""

from nooch.evaluation.averages import AVERAGE
from nooch.evaluation.evaluate import evaluate
from nooch.evaluation.losses import PARTS, class_losses
from nooch.evaluation.prediction_files import (
    described,
    load_predictions,
    read_predictions,
    run_notes,
)
from nooch.evaluation.predictions import Predictions, context_run
from nooch.evaluation.scores import Condition, ConditionVerdict, Scores, judge, parse_condition
from nooch.evaluation.subsets import SCORED, Distribution, parse_distribution
from nooch.suites import CELLS

__all__ = [
    "AVERAGE",
    "CELLS",
    "PARTS",
    "SCORED",
    "Condition",
    "ConditionVerdict",
    "Distribution",
    "Predictions",
    "Scores",
    "class_losses",
    "context_run",
    "described",
    "evaluate",
    "judge",
    "load_predictions",
    "parse_condition",
    "parse_distribution",
    "read_predictions",
    "run_notes",
]  # fmt: skip
