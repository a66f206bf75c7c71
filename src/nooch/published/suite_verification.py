"""A suite against the published sets, restricted to the images that the suite has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import Suite
from nooch.errors import InputError
from nooch.published.published_sets import Published, PublishedSet

__all__ = ["Verdict", "verify"]


@dataclass(frozen=True)
class Verdict:
    """One (criterion, task, split, side) of a suite beside the published one.

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
        images: images of the suite for this task, in the published split too where that is known.
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


def verify(suite: Suite, published: Published) -> list[Verdict]:
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
        raise InputError(
            f"the suite (criteria {', '.join(suite.criteria)}) shares no criterion and task with"
            " the published sets",
            allowed=(
                f"criteria ce and gist; tasks {', '.join(sorted({p.task for p in published.sets}))}"
            ),
        )
    verdicts = [
        _compare(suite, one, kinds[one.criterion], published.splits.get(one.split))
        for one in shared
    ]
    return [verdict for verdict in verdicts if verdict is not None]


def _compare(
    suite: Suite, one: PublishedSet, criterion: str, universe: NDArray[np.int64] | None
) -> Verdict | None:
    split = one.split if one.split in suite.splits else "all"
    if split not in suite.splits:
        return None
    head = (one.criterion, one.task, one.split, one.side, len(one.ids))
    for skipped in suite.header.skipped:
        if (skipped.criterion, skipped.task) == (criterion, one.task):
            return Verdict(*head, 0, 0, 0, 0, None, [], [], 0, skipped.reason)
    challenge = suite.set(criterion, one.task, split)
    if challenge.image_ids.dtype != pl.Int64:
        raise InputError("the suite's image ids are text, the published ones are integers")
    ids, labels = challenge.image_ids.to_numpy(), challenge.labels
    if universe is not None:
        shared = np.isin(ids, universe)
        ids, labels = ids[shared], labels[shared]
    covered = one.ids[np.isin(one.ids, ids)]
    found = np.intersect1d(challenge.ids(f"hard_{one.side}"), ids).astype(np.int64)
    both = np.intersect1d(covered, found)
    union = len(covered) + len(found) - len(both)
    return Verdict(
        *head,
        covered=len(covered),
        mislabelled=int((labels[np.searchsorted(ids, covered)] != (one.side == "positive")).sum()),
        found=len(found),
        both=len(both),
        jaccard=len(both) / union if union else None,
        only_published=np.setdiff1d(covered, found).tolist(),
        only_found=np.setdiff1d(found, covered).tolist(),
        images=len(ids),
    )
