"""A challenge set with corrected labels: what was a hard negative may be an easy positive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import polars as pl

from nooch.base.words import counted
from nooch.suites import HARD, SUBSETS, ChallengeSet, SetRecord, Suite, mark_by_threshold
from nooch.suites.challenge_set import subset_codes
from nooch.suites.hard_easy import Side
from nooch.suites.label_overlay import LabelOverlay

__all__ = ["corrected_suite"]


def corrected_suite(suite: Suite, overlay: LabelOverlay) -> tuple[Suite, str]:
    """The suite with other labels, and a note that says how many these are."""
    records, moved, gone = [], set[tuple[Any, str]](), set[tuple[Any, str]]()
    for key in suite.keys:
        challenge, changed, left_out = _corrected(suite, overlay, *key)
        moved |= {(image, key[1]) for image in changed}
        gone |= {(image, key[1]) for image in left_out}
        records += [SetRecord.of(challenge)] if len(challenge) else []
    header = msgspec.structs.replace(suite.header, sets=records)
    note = (
        f"{counted(len(moved), 'label')} corrected, {counted(len(gone), 'image')} left out of the"
        " sets of a task (ambiguous, or not known to be hard or easy with the other label)"
    )
    return suite.with_header(header, lambda *key: _corrected(suite, overlay, *key)[0]), note


def _corrected(
    suite: Suite, overlay: LabelOverlay, *key: str
) -> tuple[ChallengeSet, pl.Series, pl.Series]:
    """The set with other labels; ids of images with another label now, and of those left out.

    The thresholds stand: an image is hard by those of its new side. Without support, a mark phi
    stands, which knows no label. Where neither is known, as for combinations and published sets,
    and where each side has its betas, the image is left out. Ambiguous images are left out, too. By
    a single cue (area above or below beta) an image with another label is hard where it was easy.
    """
    challenge, criterion = suite.set(*key), suite.header.criteria[key[0]]
    labels, _, ambiguous = overlay.applied(challenge.task, challenge.image_ids, challenge.labels)
    other = labels != challenge.labels
    support, hard = challenge.support, challenge.subset != SUBSETS.index("easy")
    keep = ~ambiguous
    if support is not None and not criterion.parameters.get("betas"):
        bounds = _bound(challenge.positive, -np.inf), _bound(challenge.negative, np.inf)
        hard = np.where(other, mark_by_threshold(support, labels, *bounds).codes == HARD, hard)
    elif support is not None or criterion.fitted is None:
        keep &= ~other
    by_cue = challenge.by_cue
    if by_cue is not None:
        by_cue = np.where(other, ~by_cue, by_cue)
    corrected = replace(
        challenge, labels=labels, subset=subset_codes(labels, hard), by_cue=by_cue
    ).only(keep)
    ids = challenge.image_ids
    return corrected, ids.filter(pl.Series(other & keep)), ids.filter(pl.Series(~keep))


def _bound(side: Side, nothing: float) -> float:
    return nothing if side.threshold is None else side.threshold
