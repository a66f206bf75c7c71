"""Thresholds that a suite recorded, for use in another find: a threshold matched on valid can be
carried to test.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nooch.challenge.suite import SetRecord, Suite
from nooch.errors import ParameterError, check_one_of, some_of

__all__ = ["SuiteThresholds", "suite_thresholds"]

Pair = tuple[float, float]


@dataclass(frozen=True)
class SuiteThresholds:
    """Thresholds of one criterion and split of a suite.

    Attributes:
        tau: task -> thresholds of positives and of negatives, as a criterion's ``tau`` takes them;
            None for tasks of the suite that have no set, or no image on a side.
        support: what the support depends on, such as ``{"embedding": "minilm"}``: thresholds are of
            no other support.
        notes: tasks without a threshold; and tasks whose threshold is the support of several
            images, so that fewer images lie beyond it than were matched.
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
        kind: kind of criterion, such as ``gist``; the suite's criterion of that kind, of that name
            where there are several.
        split: whose sets; by default valid, or the suite's only split.

    Raises:
        ParameterError: no criterion of that kind or several, no such split, or no set with
            thresholds.
    """
    criterion = _criterion(suite, kind)
    split = (
        _split(suite.splits)
        if split is None
        else check_one_of("split", split, suite.splits, owner="the suite")
    )
    records = {
        task: suite.record(name, task, of)
        for name, task, of in suite.keys
        if (name, of) == (criterion, split)
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
        for side, ties in (("positive", record.tied_positive), ("negative", record.tied_negative))
        if ties
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
    return SuiteThresholds(
        pairs, {key: value for key, value in parameters.items() if key != "tau"}, tuple(notes)
    )


def _criterion(suite: Suite, kind: str) -> str:
    """Name of the suite's criterion of a kind."""
    records = suite.header.criteria
    of_kind = [name for name, record in records.items() if record.kind == kind]
    if kind in of_kind or len(of_kind) == 1:
        return kind if kind in of_kind else of_kind[0]
    raise ParameterError(
        f"the suite has {len(of_kind) or 'no'} criteria of kind {kind}",
        allowed=(
            "one; it has"
            f" {', '.join(f'{name} of kind {record.kind}' for name, record in records.items())}"
        ),
    )


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
