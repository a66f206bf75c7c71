"""Thresholds of a find: typed, of a table, or as a suite recorded them: valid's for test, say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nooch.base.errors import ParameterError, some_of
from nooch.criteria import FittedContext, FittedGist, Tau, read_thresholds
from nooch.criteria.by_name import AnyCriterion
from nooch.data import ALL, SPLITS
from nooch.data.table_schema import check_split
from nooch.suites.suite import SetRecord, Suite
from nooch.suites.suite_folder import load_suite

Pair = tuple[float, float]
_FROM = "from:"
TAKE_TAU = {"context": "columns", "gist": "embedding", "scores": "column"}
"""Criterion that takes thresholds -> the parameter that its support depends on."""


@dataclass(frozen=True)
class SuiteThresholds:
    """Thresholds, of one criterion and split of a suite or given otherwise.

    Attributes:
        tau: task -> thresholds of positives and of negatives, as for a criterion's ``tau``; None
            for tasks that have no set, or no image on a side. Or one number.
        support: what the support depends on, such as ``{"embedding": "minilm"}``, where known.
        notes: tasks without a threshold; and tasks whose threshold is the support of several
            images, so that fewer images are beyond it than were matched.
    """

    tau: Tau
    support: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def given_to(self, criterion: AnyCriterion) -> AnyCriterion:
        """A criterion of ``TAKE_TAU`` with these thresholds.

        Raises ParameterError for thresholds of another support.
        """
        own: Any = getattr(criterion, "criterion", criterion)
        key = TAKE_TAU[own.kind]
        value = getattr(own, key)
        value = value if isinstance(value, str) else [*value]
        # columns are only recorded if there are some
        came = self.support.get(key, []) if self.support else value
        if (came if isinstance(came, str) else [*came]) != value:
            raise ParameterError(
                f"the suite's thresholds are for {key} {came}, but this run uses {key} {value}",
                where="`tau`",
                allowed="thresholds for the same support",
            )
        if isinstance(criterion, FittedContext | FittedGist):
            return criterion.with_tau(self.tau)
        return replace(own, tau=self.tau)  # type: ignore[no-any-return]


def parse_tau(text: str, criteria: Collection[str]) -> tuple[str, SuiteThresholds]:
    """``0.5``, a table of thresholds per task and side, or ``from:SUITE[:SPLIT]``; and the name of
    the criterion that takes it. Raises ParameterError unless it is one.
    """
    takers = [name for name in TAKE_TAU if name in criteria]
    if len(takers) != 1:
        raise ParameterError(
            f"`tau` fits several criteria: {' and '.join(takers)}"
            if takers
            else f"no criterion has a tau: {', '.join(criteria)}",
            where="`tau`",
            allowed="one `criterion` of context, gist and scores per run",
            give={"tau": None, "match": "ce"} if "ce" in criteria else {"tau": None},
        )
    if text.startswith(_FROM):
        place, colon, split = text.removeprefix(_FROM).rpartition(":")
        if not colon or split not in (*SPLITS, ALL):
            place, split = text.removeprefix(_FROM), ""
        return takers[0], suite_thresholds(load_suite(place), takers[0], split or None)
    try:
        return takers[0], SuiteThresholds(float(text))
    except ValueError:
        return takers[0], SuiteThresholds(read_thresholds(text))


def suite_thresholds(suite: Suite, kind: str = "gist", split: str | None = None) -> SuiteThresholds:
    """Thresholds of the challenge sets of one criterion and split.

    The threshold recorded for a matched set is the midpoint between the last hard image and the
    next.

    Args:
        suite: where the thresholds were recorded.
        kind: kind of criterion, such as ``gist``; of several, the one of that name.
        split: split of the sets; by default valid, or the suite's only split.

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
            f"several images of {split} have a support equal to the threshold and count as easy:"
            f" {some_of(tied)}"
        )
    if missing:
        notes.append(f"no threshold on {split}, so no {criterion} set: {some_of(missing)}")
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
        "the suite has several splits, but not valid", allowed=f"name one of {', '.join(splits)}"
    )


def _pair(record: SetRecord | None) -> Pair | None:
    if record is None or record.threshold_positive is None or record.threshold_negative is None:
        return None
    return record.threshold_positive, record.threshold_negative
