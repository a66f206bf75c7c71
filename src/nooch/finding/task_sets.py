"""Measures of images -> marks of every criterion -> challenge sets of one task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl

from nooch.challenge import (
    HARD,
    ChallengeSet,
    Mark,
    Skipped,
    mark_by_matching,
    mark_by_phi,
    mark_by_threshold,
)
from nooch.challenge.suite import SetRecord
from nooch.criteria import Combination, Criterion, Fitted, SupportFitted
from nooch.errors import UndefinedError
from nooch.finding.image_measures import Measures

__all__ = ["Marked", "Search"]


class Marked(msgspec.Struct):
    """The outcome of one task or several: records of the sets, and criteria without a set."""

    records: list[SetRecord] = []
    skipped: list[Skipped] = []

    def add(self, outcome: ChallengeSet | Skipped) -> None:
        """Record a set, or why there is none."""
        if isinstance(outcome, Skipped):
            self.skipped.append(outcome)
        else:
            self.records.append(SetRecord.of(outcome))


@dataclass(frozen=True)
class Search:
    """What is searched for, and where.

    Attributes:
        fitted: base criteria by name.
        criteria: all criteria by name, combinations among them.
        tasks: names.
        splits: names.
        match: criterion whose counts of hard images are matched, or None.
    """

    fitted: Mapping[str, Fitted]
    criteria: Mapping[str, Criterion | Fitted | Combination]
    tasks: Sequence[str]
    splits: Sequence[str]
    match: str | None

    def sets(
        self, task: str, image_ids: Mapping[str, pl.Series], measures: Mapping[str, Measures]
    ) -> Iterator[ChallengeSet | Skipped]:
        """The sets of a task under every criterion, or why there are none.

        Args:
            task: its name.
            image_ids: split -> images, ascending.
            measures: split -> what criteria measure in them.
        """
        marks = {split: _Marks(self, task, measures[split]) for split in self.splits}
        for name in self.criteria:
            try:
                by_split = {split: of_split.of(name) for split, of_split in marks.items()}
            except UndefinedError as error:
                yield Skipped(name, task, error.problem)
                continue
            for split, mark in by_split.items():
                of_split = measures[split]
                yield ChallengeSet.from_mark(
                    name, task, split, mark, image_ids[split], of_split.labels, of_split.unknown
                )


class _Marks:
    """Marks of the images of one split for one task; each criterion's is computed once."""

    def __init__(self, search: Search, task: str, measures: Measures) -> None:
        self.search, self.task, self.measures = search, task, measures
        self._marks: dict[str, Mark] = {}

    def of(self, name: str) -> Mark:
        """The mark of a criterion. Raises UndefinedError where the task has no set under it."""
        if name not in self._marks:
            criterion = self.search.criteria[name]
            self._marks[name] = (
                criterion.evaluate({part: self.of(part) for part in criterion.names})
                if isinstance(criterion, Combination)
                else self._base(name)
            )
        return self._marks[name]

    def _base(self, name: str) -> Mark:
        fitted, measures = self.search.fitted[name], self.measures
        if reason := fitted.undefined(self.task):
            raise UndefinedError(reason)
        if not isinstance(fitted, SupportFitted):
            return mark_by_phi(measures.phi[name], measures.unknown)
        support, labels = measures.support[name], measures.labels
        if measures.unknown is not None:
            # neither positive nor negative: counted on no side, matched with nothing
            support = np.where(measures.unknown, np.nan, support)
        if (limits := fitted.thresholds_for(self.task)) is not None:
            by_cue = measures.by_cue.get(name)
            return mark_by_threshold(support, labels, limits.positive, limits.negative, by_cue)
        return mark_by_matching(support, labels, *self._counts_to_match())

    def _counts_to_match(self) -> tuple[int, int]:
        """Hard positives and hard negatives of the criterion that is matched."""
        match = self.search.match
        assert match is not None  # noqa: S101 - checked before anything was computed
        try:
            hard = self.of(match).codes == HARD
        except UndefinedError as error:
            raise UndefinedError(
                f"its counts are those of {match}, and there: {error.problem}"
            ) from error
        labels = self.measures.labels
        return int((hard & labels).sum()), int((hard & ~labels).sum())
