"""A suite against the published sets, restricted to the images that the suite has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError
from nooch.suites import Suite
from nooch.suites.published_sets import Published, PublishedSet

__all__ = ["SetAgreement", "verify"]


@dataclass(frozen=True)
class SetAgreement:
    """One (criterion, task, split, side) of a suite next to the published one.

    Attributes:
        published: ids in the published file.
        covered: of those, how many are among the suite's images of that task and split; only these
            can agree.
        mislabelled: covered ids that have the other label in the suite, so that they cannot be on
            this side.
        found: ids on this side in the suite.
        both: ids that the two share.
        jaccard: both / (covered + found - both); null where the two are empty.
        only_published: covered ids that the suite does not have on this side; ``only_found`` the
            reverse.
        images: images of the suite for this task, also in the published split where that is known.
        reason: why the suite has no such set, or null.
    """

    criterion: str
    task: str
    split: str
    side: str
    published: int
    covered: int
    mislabelled: int
    found: int
    both: int
    jaccard: float | None
    only_published: list[int]
    only_found: list[int]
    images: int
    reason: str | None = None


def verify(suite: Suite, published: Published) -> list[SetAgreement]:
    """Compare every published set with the suite's set of the same criterion, task, split and side.

    Only images that both the suite and the published split hold are compared, so that a partial
    dataset, one without splits or one with splits of its own is judged on what can be known.

    Raises:
        InputError: the suite shares no criterion and task with the published sets, or has no
            integer ids.
    """
    kinds = {record.kind: name for name, record in reversed(suite.header.criteria.items())}
    shared = [p for p in published.sets if p.criterion in kinds and p.task in suite.tasks]
    if not shared:
        tasks = ", ".join(sorted({p.task for p in published.sets}))
        raise InputError(
            f"the suite (criteria {', '.join(suite.criteria)}) shares no criterion and task with"
            " the published sets",
            allowed=f"criteria ce and gist; tasks {tasks}",
        )
    agreements = [
        _compare(suite, published_set, kinds[published_set.criterion], published.splits)
        for published_set in shared
    ]
    return [agreement for agreement in agreements if agreement is not None]


def _compare(
    suite: Suite, theirs: PublishedSet, criterion: str, splits: Mapping[str, NDArray[np.int64]]
) -> SetAgreement | None:
    split = theirs.split if theirs.split in suite.splits else "all"
    if split not in suite.splits:
        return None
    head = (theirs.criterion, theirs.task, theirs.split, theirs.side, len(theirs.ids))
    for skipped in suite.header.skipped:
        if (skipped.criterion, skipped.task) == (criterion, theirs.task):
            return SetAgreement(*head, 0, 0, 0, 0, None, [], [], 0, skipped.reason)
    challenge = suite.set(criterion, theirs.task, split)
    if challenge.image_ids.dtype != pl.Int64:
        raise InputError("the suite's image ids are text, the published ones are integers")
    ids, labels = challenge.image_ids.to_numpy(), challenge.labels
    if theirs.split in splits:
        shared = np.isin(ids, splits[theirs.split], assume_unique=True)
        ids, labels = ids[shared], labels[shared]
    covered = np.intersect1d(theirs.ids, ids, assume_unique=True)
    wrong = labels[np.searchsorted(ids, covered)] != (theirs.side == "positive")
    hard = challenge.ids(f"hard_{theirs.side}")
    ours = np.intersect1d(hard, ids, assume_unique=True).astype(np.int64)
    both = len(np.intersect1d(covered, ours, assume_unique=True))
    union = len(covered) + len(ours) - both
    return SetAgreement(
        *head,
        covered=len(covered),
        mislabelled=int(wrong.sum()),
        found=len(ours),
        both=both,
        jaccard=both / union if union else None,
        only_published=np.setdiff1d(covered, ours, assume_unique=True).tolist(),
        only_found=np.setdiff1d(ours, covered, assume_unique=True).tolist(),
        images=len(ids),
    )
