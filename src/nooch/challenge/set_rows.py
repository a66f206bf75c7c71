"""A challenge set from the rows of its table."""

from __future__ import annotations

import numpy as np
import polars as pl

from nooch.challenge.challenge_set import ChallengeSet
from nooch.challenge.hard_easy import Side
from nooch.challenge.suite import SetRecord

__all__ = ["set_of"]


def set_of(record: SetRecord, rows: pl.DataFrame) -> ChallengeSet:
    """The set of these rows, with the thresholds and counts of its record."""
    # suites of earlier versions have no column by_cue
    support, by_cue = rows["support"], rows["by_cue"] if "by_cue" in rows.columns else None
    return ChallengeSet(
        record.criterion,
        record.task,
        record.split,
        rows["image_id"],
        rows["label"].to_numpy().astype(bool),
        rows["subset"].to_physical().to_numpy().astype(np.uint8),
        None if support.null_count() else support.to_numpy(),
        Side(record.threshold_positive, record.tied_positive, record.missing_positives),
        Side(record.threshold_negative, record.tied_negative, record.missing_negatives),
        (record.excluded_positives, record.excluded_negatives, record.excluded_unknown),
        None if by_cue is None or by_cue.null_count() else by_cue.to_numpy(),
    )
