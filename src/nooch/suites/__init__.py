"""A challenge set: hard positives and negatives of (criterion, task, split); a Suite: several."""

from nooch.suites.challenge_set import CELLS, SUBSETS, ChallengeSet, Counts
from nooch.suites.hard_easy import (
    EASY,
    HARD,
    NONE,
    Mark,
    mark_by_matching,
    mark_by_phi,
    mark_by_threshold,
)
from nooch.suites.suite import CriterionRecord, DatasetRecord, SetRecord, Skipped, Suite
from nooch.suites.suite_folder import SHIPPED, as_suite, is_shipped, load_suite, save_suite
from nooch.suites.thresholds import SuiteThresholds, suite_thresholds

__all__ = [
    "CELLS",
    "EASY", "HARD", "NONE", "SHIPPED", "SUBSETS", "ChallengeSet", "Counts",
    "CriterionRecord", "DatasetRecord", "Mark", "SetRecord", "Skipped", "Suite", "SuiteThresholds",
    "as_suite", "is_shipped", "load_suite", "mark_by_matching", "mark_by_phi",
    "mark_by_threshold", "save_suite", "suite_thresholds",
]  # fmt: skip
