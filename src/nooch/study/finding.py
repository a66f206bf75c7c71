"""Dataset and criteria -> Suite: fit on training images, mark the others, keep what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import (
    HARD,
    ChallengeSet,
    CriterionRecord,
    DatasetRecord,
    Mark,
    Skipped,
    Suite,
    mark_by_matching,
    mark_by_phi,
    mark_by_threshold,
)
from nooch.challenge.suite import SetRecord
from nooch.criteria import Combination, Criterion, Fitted, FittedCE, MarkFitted, SupportFitted, TaskThresholds
from nooch.data import Dataset
from nooch.errors import InputError, ParameterError, UndefinedError, check_one_of, some_of
from nooch.published import NOOCH_TASKS
from nooch.shared_types import Progress, no_progress
from nooch.study.unannotated import check_fit, check_sets

__all__ = [
    "TASKS_AT_ONCE",
    "Finding",
    "check_match",
    "check_thresholds",
    "criterion_record",
    "find",
    "resolve_tasks",
    "splits_to_search",
    "thresholds_in",
    "training_part",
]

Key = tuple[str, str, str]
TASKS_AT_ONCE = 32
"""Tasks whose supports are computed at once: 171 of them on 24,657 images need 6 MiB at a time, not 34."""


def find(
    data: Dataset,
    criteria: Mapping[str, Criterion | Fitted | Combination],
    *,
    tasks: str | Sequence[str] = "all",
    match: str | None = None,
    splits: Sequence[str] | None = None,
    path: str | None = None,
    allow_unannotated: bool = False,
    progress: Progress = no_progress,
) -> Suite:
    """Find the challenge sets of a dataset.

    Images of which it is unknown whether they show a task's class, or how large its cues are, because that was not annotated,
    are left out of fits and sets; sets count them (``excluded_*``).

    Args:
        data: criteria are fitted on its split ``train``, or on ``all`` in a dataset without splits.
        criteria: name -> criterion, fitted criterion (used as it is), or combination of the others by name.
        tasks: ``all`` classes, ``nooch`` (the paper's 12), or names.
        match: criterion whose counts of hard images, for each split and side, are matched by those criteria that measure
            support and have no thresholds of their own.
        splits: where to find; by default valid and test as far as there are any, or ``all``.
        path: where the dataset lies, recorded so that images can be explained later.
        allow_unannotated: also where that leaves out more than half of a task's training positives or of a split's images.
        progress: called with what is being done, and how many of how many tasks are done.

    Returns:
        A suite in memory; tasks without a set under a criterion are listed with the reason.

    Raises:
        ParameterError: unknown tasks, splits or names; a criterion that has no thresholds and nothing to match, or that has
            thresholds by task and none for a task, or for an unknown class.
        InputError: an empty split; areas or attribute values that a criterion needs and the data lack; more than half of
            what a set would stand on was not annotated.
    """
    names = resolve_tasks(data, tasks)
    found_in = splits_to_search(data, splits)
    check_thresholds(thresholds_in(criteria), names, data.classes)
    base = {name: c for name, c in criteria.items() if not isinstance(c, Combination)}
    fitted = {name: _fit(name, criterion, data, names) for name, criterion in base.items()}
    check_match(fitted, match, criteria)
    if not allow_unannotated:
        check_fit(fitted, base, names)
    job = Finding(names, fitted, match, {s: data.select(s) for s in found_in})
    sets: dict[Key, ChallengeSet] = {}
    skipped: list[Skipped] = []
    for name, criterion in criteria.items():
        for done, task in enumerate(names):
            progress(f"finding {name}", done, len(names))
            try:
                marks = {split: job.mark(name, criterion, task, split) for split in found_in}
            except UndefinedError as error:
                skipped.append(Skipped(name, task, error.problem))
                continue
            for split, mark in marks.items():
                sets[name, task, split] = ChallengeSet.from_mark(name, task, split, job.parts[split], mark)
        job.forget()
        progress(f"finding {name}", len(names), len(names))
    if not allow_unannotated:
        check_sets((SetRecord.of(one) for one in sets.values()), fitted)
    return Suite.of(
        sets,
        dataset=DatasetRecord(
            data.fingerprint,
            len(data),
            data.splits,
            data.provenance.get("area"),
            path,
            data.provenance.get("licenses", []),
        ),
        criteria={name: criterion_record(c, fitted.get(name), names, match) for name, c in criteria.items()},
        skipped=skipped,
        tasks=names,
        splits=found_in,
    )


def resolve_tasks(data: Dataset, tasks: str | Sequence[str]) -> list[str]:
    """Names of tasks from ``all``, ``nooch``, a comma-separated text or a sequence; each must be a class."""
    if tasks == "all":
        return list(data.classes)
    if tasks == "nooch":
        tasks = NOOCH_TASKS
    names = [t.strip() for t in tasks.split(",")] if isinstance(tasks, str) else list(tasks)
    for name in names:
        check_one_of("class", name, data.classes, owner="the dataset")
    if not names or len(set(names)) != len(names):
        raise ParameterError("tasks are missing or named twice", allowed="all, nooch, or names separated by commas")
    return names


@dataclass
class Finding:
    """Marks of every criterion on the parts of a dataset; supports of many tasks are computed together."""

    tasks: list[str]
    fitted: Mapping[str, Fitted]
    match: str | None
    parts: Mapping[str, Dataset]

    def __post_init__(self) -> None:
        self._marks: dict[Key, Mark] = {}
        self._supports: dict[tuple[str, str], dict[str, NDArray[np.float64]]] = {}

    def forget(self) -> None:
        """Drop what the next criterion does not need: all but the marks that are matched."""
        self._marks = {key: mark for key, mark in self._marks.items() if key[0] == self.match}
        self._supports = {}

    def mark(self, name: str, criterion: Criterion | Fitted | Combination, task: str, split: str) -> Mark:
        """Verdicts of a criterion on a split's images, for one task."""
        if isinstance(criterion, Combination):
            return criterion.evaluate({part: self._base_mark(part, task, split) for part in criterion.names})
        return self._base_mark(name, task, split)

    def _base_mark(self, name: str, task: str, split: str) -> Mark:
        key = name, task, split
        if key not in self._marks:
            fitted, part = self.fitted[name], self.parts[split]
            if reason := fitted.undefined(task):
                raise UndefinedError(reason)
            if isinstance(fitted, SupportFitted):
                self._marks[key] = self._support_mark(name, fitted, task, split)
            elif isinstance(fitted, MarkFitted):
                self._marks[key] = mark_by_phi(fitted.phi(part, task), part.unknown_labels(task))
        return self._marks[key]

    def _support_mark(self, name: str, fitted: SupportFitted, task: str, split: str) -> Mark:
        part = self.parts[split]
        support, labels = self._support(name, fitted, task, split), part.labels(task, unknown=False)
        unknown = part.unknown_labels(task)
        if unknown is not None:
            # neither a positive nor a negative: it counts on no side and is matched with nothing
            support = np.where(unknown, np.nan, support)
        if (limits := fitted.thresholds_for(task)) is not None:
            by_cue = fitted.hard_by_cue(part, task, labels)
            return mark_by_threshold(support, labels, limits.positive, limits.negative, by_cue)
        assert self.match is not None  # noqa: S101 - checked before anything was computed
        try:
            matched = self._base_mark(self.match, task, split)
        except UndefinedError as error:
            raise UndefinedError(f"its counts are those of {self.match}, and there: {error.problem}") from error
        hard = matched.codes == HARD
        return mark_by_matching(support, labels, int((hard & labels).sum()), int((hard & ~labels).sum()))

    def _support(self, name: str, fitted: SupportFitted, task: str, split: str) -> NDArray[np.float64]:
        """Support of a task, computed together with that of the tasks around it."""
        block = self._supports.get((name, split), {})
        if task not in block:
            start = self.tasks.index(task) // TASKS_AT_ONCE * TASKS_AT_ONCE
            tasks = [t for t in self.tasks[start : start + TASKS_AT_ONCE] if fitted.undefined(t) is None]
            columns = fitted.supports(self.parts[split], tasks)
            block = {t: np.ascontiguousarray(columns[:, i]) for i, t in enumerate(tasks)}
            self._supports[name, split] = block
        return block[task]


def splits_to_search(data: Dataset, splits: Sequence[str] | None) -> list[str]:
    """Names of the splits to find in: those that are given, else valid and test as far as there are any, or all."""
    if splits is None:
        splits = [s for s in ("valid", "test", "all") if s in data.splits]
    for split in splits:
        check_one_of("split", split, data.splits, owner="the dataset")
    if not splits:
        raise InputError(
            "the dataset has neither a valid nor a test split to find in",
            allowed=", ".join(data.splits) or "images in some split",
            remedy="name a split with --splits, or import with --split",
        )
    return list(splits)


def _fit(name: str, criterion: Criterion | Fitted, data: Dataset, tasks: list[str]) -> Fitted:
    if isinstance(criterion, Fitted):
        return criterion
    given = getattr(criterion, "cues", {})
    if data.fitting_split not in data.splits and all(task in given for task in tasks):
        # cues by hand need no training image; A(C, Y) is then unknown
        return criterion.fit(data.select(rows=np.empty(0, dtype=np.int64)), tasks)
    return criterion.fit(training_part(data, name), tasks)


def training_part(data: Dataset, name: str) -> Dataset:
    """The images that criteria are fitted on. Raises InputError, for ``name``, where there are none."""
    if data.fitting_split in data.splits:
        return data.select(data.fitting_split)
    raise InputError(
        f"the split train is empty, so {name} cannot be fitted",
        allowed=f"splits: {', '.join(f'{s} {n}' for s, n in data.splits.items())}",
        remedy="give cues by hand for every task, or a criterion fitted elsewhere (--fitted SUITE)",
    )


def check_match(fitted: Mapping[str, Fitted], match: str | None, criteria: Mapping[str, Any]) -> None:
    """Raise a ParameterError where the criterion whose counts are matched is none that can be."""
    if match is not None:
        check_one_of("criterion", match, fitted, owner="--match")
    for name, one in fitted.items():
        if isinstance(one, SupportFitted) and one.thresholds is None and match in (None, name):
            raise ParameterError(
                f"{name} has no thresholds of its own",
                remedy="match another criterion's counts (--match ce), or give --tau",
            )
    for name, criterion in criteria.items():
        if isinstance(criterion, Combination):
            for part in criterion.names:
                check_one_of("criterion", part, fitted, owner=f"the combination {name}")


def thresholds_in(criteria: Mapping[str, Any]) -> dict[str, TaskThresholds]:
    """Thresholds of each criterion, fitted or not; None of one that has none, or is a combination."""
    return {name: getattr(criterion, "thresholds", None) for name, criterion in criteria.items()}


def check_thresholds(tables: Mapping[str, TaskThresholds], tasks: Sequence[str], classes: Sequence[str]) -> None:
    """Check each criterion's thresholds, where it has them by task, against the tasks that are asked for.

    Raises:
        ParameterError: thresholds of an unknown class, or none for a task.
    """
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            continue
        for task in table:
            check_one_of("class", task, classes, owner=f"the dataset, but {name} has a threshold for it")
        if missing := [task for task in tasks if task not in table]:
            raise ParameterError(
                f"{name} has no threshold for {some_of(missing, 12)}",
                allowed=f"tasks with thresholds: {some_of(table, 12)}",
                remedy="give thresholds for them, or name in tasks only those that have some",
            )


def criterion_record(
    criterion: Criterion | Fitted | Combination, fitted: Fitted | None, tasks: list[str], match: str | None
) -> CriterionRecord:
    """What a suite keeps of a criterion."""
    if isinstance(criterion, Combination) or fitted is None:
        expression = criterion.expression if isinstance(criterion, Combination) else ""
        return CriterionRecord("combination", {}, expression=expression)
    cues: dict[str, list[tuple[str, float | None]]] = {}
    if isinstance(fitted, FittedCE):
        cues = {task: [(cue, _finite(fitted.strength(cue, task))) for cue in fitted.cues(task)] for task in tasks}
    matched = match if isinstance(fitted, SupportFitted) and fitted.thresholds is None else None
    return CriterionRecord(fitted.kind, fitted.parameters(), fitted.to_json(), cues, matched)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
