"""A challenge set: hard positives and negatives of (criterion, task, split); a Suite: several."""

from nooch.challenge.challenge_set import CELLS, SUBSETS, ChallengeSet, Counts
from nooch.challenge.hard_easy import (
    EASY,
    HARD,
    NONE,
    Mark,
    mark_by_matching,
    mark_by_phi,
    mark_by_threshold,
)
from nooch.challenge.packed_suites import pack_suite
from nooch.challenge.recorded_thresholds import SuiteThresholds, suite_thresholds
from nooch.challenge.suite import CriterionRecord, DatasetRecord, SetRecord, Skipped, Suite
from nooch.challenge.suite_folder import SHIPPED, as_suite, is_shipped, load_suite, save_suite
from nooch.challenge.sweep_counts import POOLED, Sweep

__all__ = [
    "CELLS",
    "EASY", "HARD", "NONE", "POOLED", "SHIPPED", "SUBSETS", "ChallengeSet", "Counts",
    "CriterionRecord", "DatasetRecord", "Mark", "SetRecord", "Skipped", "Suite", "SuiteThresholds",
    "Sweep", "as_suite", "is_shipped", "load_suite", "mark_by_matching", "mark_by_phi",
    "mark_by_threshold", "pack_suite", "save_suite", "suite_thresholds",
]  # fmt: skip
