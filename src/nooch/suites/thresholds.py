"""Thresholds that a suite recorded, for another find: from valid to test, for example."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nooch.base.errors import ParameterError, some_of
from nooch.data.table_schema import check_split
from nooch.suites.suite import SetRecord, Suite

Pair = tuple[float, float]


@dataclass(frozen=True)
class SuiteThresholds:
    """Thresholds of one criterion and split of a suite.

    Attributes:
        tau: task -> thresholds of positives and of negatives, as for a criterion's ``tau``; None
            for tasks that have no set, or no image on a side.
        support: what the support depends on, such as ``{"embedding": "minilm"}``.
        notes: tasks without a threshold; and tasks whose threshold is the support of several
            images, so that fewer images are beyond it than were matched.
    """

    tau: dict[str, Pair | None]
    support: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def suite_thresholds(suite: Suite, kind: str = "gist", split: str | None = None) -> SuiteThresholds:
    """Thresholds of the challenge sets of one criterion and split.

    The threshold recorded for a matched set is the midpoint between the last hard image and the
    next.

    Args:
        suite: where the thresholds were recorded.
        kind: kind of criterion, such as ``gist``; of several, the one of that name.
        split: whose sets; by default valid, or the suite's only split.

    Raises:
        ParameterError: no criterion of that kind or several, no such split, or no set with
            thresholds.
    """
    criterion = _criterion(suite, kind)
    if split is None:
        split = _split(suite.splits)
    check_split(split, suite.splits, "the suite")
    records = {
        record.task: record
        for record in suite.header.sets
        if (record.criterion, record.split) == (criterion, split)
    }
    pairs: dict[str, Pair | None] = {task: _pair(records.get(task)) for task in suite.tasks}
    missing = [task for task, pair in pairs.items() if pair is None]
    if len(missing) == len(pairs):
        raise ParameterError(
            f"{criterion} of the suite has no thresholds on split {split}",
            allowed="a suite of nooch find, with sets of a criterion that measures support",
        )
    tied = [
        f"{task} ({side}s)"
        for task, record in records.items()
        for side in ("positive", "negative")
        if getattr(record, f"tied_{side}")
    ]
    notes = []
    if tied:
        notes.append(
            f"thresholds of {split} that equal the support of several images, which are all easy by"
            f" them: {some_of(tied)}"
        )
    if missing:
        notes.append(f"no threshold of {split}, so no {criterion} set here: {some_of(missing)}")
    parameters = suite.header.criteria[criterion].parameters
    support = {key: value for key, value in parameters.items() if key != "tau"}
    return SuiteThresholds(pairs, support, tuple(notes))


def _criterion(suite: Suite, kind: str) -> str:
    """Name of the suite's criterion of a kind."""
    records = suite.header.criteria
    of_kind = [name for name, record in records.items() if record.kind == kind]
    if kind in of_kind or len(of_kind) == 1:
        return kind if kind in of_kind else of_kind[0]
    others = ", ".join(f"{name} of kind {record.kind}" for name, record in records.items())
    problem = f"the suite has {len(of_kind) or 'no'} criteria of kind {kind}"
    raise ParameterError(problem, allowed=f"one; it has {others}")


def _split(splits: Collection[str]) -> str:
    if len(splits) == 1 or "valid" in splits:
        return "valid" if "valid" in splits else next(iter(splits))
    raise ParameterError(
        "the suite has several splits, and no valid", allowed=f"name one of {', '.join(splits)}"
    )


def _pair(record: SetRecord | None) -> Pair | None:
    if record is None or record.threshold_positive is None or record.threshold_negative is None:
        return None
    return record.threshold_positive, record.threshold_negative
