"""A fitted search; measures of images -> marks of every criterion -> sets of one task."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.errors import (
    InputError,
    ParameterError,
    UndefinedError,
    check_one_of,
    reason_of,
    some_of,
)
from nooch.base.files import place
from nooch.criteria import Combination, Criterion, Fitted, FittedCE, MarkFitted, SupportFitted
from nooch.criteria.contract import TaskThresholds
from nooch.data import Dataset, replaced_columns
from nooch.data.table_schema import check_split
from nooch.suites.challenge_set import ChallengeSet
from nooch.suites.hard_easy import HARD, Mark, mark_by_matching, mark_by_phi, mark_by_threshold
from nooch.suites.label_overlay import LabelOverlay
from nooch.suites.suite import CriterionRecord, DatasetRecord, SetRecord, Skipped, SuiteHeader
from nooch.suites.suite_folder import load_suite

_FROM = "from:"


def recorded_path(dataset: str | Path, out: Path | None) -> str:
    """Path by which a suite in ``out`` names its dataset: a relative path, or the address; in
    memory, the absolute path.
    """
    dataset = place(dataset)
    if not isinstance(dataset, Path):
        return str(dataset)
    path = dataset.resolve()
    return str(path) if out is None else os.path.relpath(path, out.resolve())


def recorded(outcome: ChallengeSet | Skipped) -> SetRecord | Skipped:
    """Header entry of a set, or the reason for a missing one."""
    return outcome if isinstance(outcome, Skipped) else SetRecord.from_set(outcome)


Measures = Mapping[str, NDArray[Any]]
"""Measures of criteria in images for a task, each (n_images,), see ``measured``."""
UNDEFINED: Measures = {"label": np.empty(0, bool)}
"""Measures of a task that no criterion defines."""
TYPES = {"support": pl.Float64, "by_cue": pl.UInt64, "phi": pl.Boolean}


def measured(
    images: Dataset,
    task: str,
    fitted: Mapping[str, Any],
    supports: Mapping[str, NDArray[np.float64]],
    overlay: LabelOverlay | None,
) -> Measures:
    """Measures in images by the criteria under which the task is defined; ``supports`` by
    criterion.

    ``label``, False where unknown, and ``unknown``, left out where no label is; ``support/NAME``
    (NaN = no notion of context), ``phi/NAME`` of those that mark directly; of those with thresholds
    ``by_cue/NAME`` (see ``Mark``).
    """
    labels, unknown = images.labels(task, unknown=False), images.unknown_labels(task)
    if overlay is not None:
        before, ids = labels, images.images["image_id"]
        labels, judged, left_out = overlay.applied(task, ids, before)
        left_out |= False if unknown is None else unknown & ~judged
        unknown = left_out if left_out.any() else None
        if (labels != before).any():
            # a custom support may depend on the label
            images = _relabeled(images, task, labels)
            supports = {name: fitted[name].support(images, task) for name in supports}
    # columns of a matrix become contiguous one task at a time
    values: dict[str, Any] = {
        f"support/{name}": np.ascontiguousarray(support) for name, support in supports.items()
    }
    for name, fitted_criterion in fitted.items():
        if isinstance(fitted_criterion, MarkFitted):
            values[f"phi/{name}"] = fitted_criterion.phi(images, task)
        elif (
            isinstance(fitted_criterion, SupportFitted) and fitted_criterion.thresholds is not None
        ):
            values[f"by_cue/{name}"] = fitted_criterion.hard_by_cue(images, task, labels)
    values |= {"label": labels, "unknown": unknown}
    return {name: measure for name, measure in values.items() if measure is not None}


def _relabeled(images: Dataset, task: str, labels: NDArray[np.bool_]) -> Dataset:
    """The images with other labels of a task; what is present now has the area 0."""
    present = csr_array(labels[:, None].astype(np.float64))
    present.data[:] = 0
    areas = replaced_columns(images.areas, present, np.array([images.column(task)]))
    return replace(images, areas=areas)


@dataclass
class Search:
    """A fitted search: criteria, tasks, splits.

    Attributes:
        fitted: base criteria by name.
        criteria: all criteria by name, combinations among them.
        tasks: names of tasks.
        splits: names.
        match: criterion whose counts of hard images are matched, or ``from:SUITE[:CRITERION]``;
            None: the only one that needs no match, where others do.
        overlay: corrected labels, or None.

    Raises:
        ParameterError: ``match`` cannot be matched, is missing or has no effect; a combination of
            a criterion that is not there.
    """

    fitted: Mapping[str, Fitted]
    criteria: Mapping[str, Criterion | Fitted | Combination]
    tasks: Sequence[str]
    splits: Sequence[str]
    match: str | None
    overlay: LabelOverlay | None = None
    counts: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.match is not None and self.match.startswith(_FROM):
            self.counts = suite_counts(self.match.removeprefix(_FROM))
        elif self.match is not None:
            check_one_of("criterion", self.match, self.fitted, owner="`match`")
        unbounded = [name for name in self.fitted if self.is_matched(name)]
        others = [name for name in self.fitted if name not in unbounded]
        if self.match is None and unbounded and len(others) == 1:
            self.match = others[0]
        for name in unbounded:
            if self.match in (None, name):
                raise ParameterError(
                    f"{name} has no thresholds",
                    remedy="{} to match the counts of another criterion",
                    give=({"match": "ce"}, {"tau": ...}),
                )
        if self.match is not None and not unbounded:
            raise ParameterError(
                f"`match` {self.match} has no effect: every criterion with support has"
                " thresholds already",
                allowed="a criterion without thresholds, such as gist without its tau",
                give={"match": None},
            )
        for name, criterion in self.criteria.items():
            if isinstance(criterion, Combination):
                for part in criterion.names:
                    check_one_of("criterion", part, self.fitted, owner=f"the combination {name}")

    def is_matched(self, name: str) -> bool:
        """True if a base criterion takes the counts of another, since it has no thresholds."""
        fitted = self.fitted[name]
        return isinstance(fitted, SupportFitted) and fitted.thresholds is None

    def content(self) -> dict[str, Any]:
        """All that its results depend on besides the dataset, JSON-like."""
        fitted = {
            n: [*code_of(fitted_criterion), fitted_criterion.kind, fitted_criterion.to_json()]
            for n, fitted_criterion in self.fitted.items()
        }
        criteria = [[name, getattr(c, "expression", None)] for name, c in self.criteria.items()]
        counts = [[*key, *pair] for key, pair in self.counts.items()]
        inputs = [list(self.tasks), list(self.splits), self.match, *counts]
        files = [] if self.overlay is None else self.overlay.record.files
        return {"fitted": fitted, "criteria": criteria, "asked": inputs, "overlay": files}

    def header(
        self,
        dataset: DatasetRecord,
        outcomes: Sequence[SetRecord | Skipped],
        stability: Mapping[str, Any],
    ) -> SuiteHeader:
        """All of the suite but its rows; sets by criterion, then by task."""
        order = list(self.criteria)
        records = {name: self._record(name) for name in order}
        for name, stable in stability.items():
            records[name] = msgspec.structs.replace(records[name], stability=stable)
        by_criterion = sorted(outcomes, key=lambda outcome: order.index(outcome.criterion))
        return SuiteHeader(
            dataset,
            list(self.tasks),
            list(self.splits),
            records,
            [record for record in by_criterion if isinstance(record, SetRecord)],
            [record for record in by_criterion if isinstance(record, Skipped)],
            overlay=None if self.overlay is None else self.overlay.record,
        )

    def sets(
        self, task: str, image_ids: Mapping[str, pl.Series], measures: Mapping[str, Measures]
    ) -> Iterator[ChallengeSet | Skipped]:
        """The sets of a task under every criterion, or why there are none."""
        marks = {split: _Marks(self, task, split, measures[split]) for split in self.splits}
        for name in self.criteria:
            lacking: dict[str, list[str]] = {}
            for split, of_split in marks.items():
                try:
                    mark, ids = of_split.mark(name), image_ids[split]
                except UndefinedError as error:
                    lacking.setdefault(error.problem, []).append(split)
                    continue
                labels, unknown = of_split.labels, of_split.unknown
                yield ChallengeSet.from_mark(name, task, split, mark, ids, labels, unknown)
            for reason, splits in lacking.items():
                where = "" if len(splits) == len(marks) else f"in {', '.join(splits)}: "
                yield Skipped(name, task, where + reason)

    def _record(self, name: str) -> CriterionRecord:
        """Header entry of a criterion."""
        criterion = self.criteria[name]
        if isinstance(criterion, Combination):
            return CriterionRecord("combination", {}, expression=criterion.expression)
        fitted, cues = self.fitted[name], {}
        if isinstance(fitted, SupportFitted):
            for task in self.tasks:
                strengths = [(cue, fitted.strength(cue, task)) for cue in fitted.cues(task)]
                if not strengths and not isinstance(fitted, FittedCE):
                    continue
                cues[task] = [(cue, a if np.isfinite(a) else None) for cue, a in strengths]
        match = self.match if self.is_matched(name) else None
        try:
            statistics = msgspec.json.decode(msgspec.json.encode(fitted.to_json()))
            type(fitted).from_json(statistics)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as error:
            problem = f"what it saves as JSON cannot be read back: {reason_of(error)}"
            raise InputError(problem, where=name, allowed="finite numbers, or null") from error
        return CriterionRecord(fitted.kind, fitted.parameters(), statistics, cues, match)


class _Marks:
    """Marks of the images of one split for one task; each criterion's is computed once."""

    def __init__(self, search: Search, task: str, split: str, measures: Measures) -> None:
        self.search, self.task, self.split, self.measures = search, task, split, measures
        self.labels, self.unknown = measures["label"], measures.get("unknown")
        self._marks: dict[str, Mark] = {}

    def mark(self, name: str) -> Mark:
        """The mark of a criterion. Raises UndefinedError if the task has no set under it."""
        if name not in self._marks:
            criterion = self.search.criteria[name]
            self._marks[name] = (
                criterion.evaluate({part: self.mark(part) for part in criterion.names})
                if isinstance(criterion, Combination)
                else self._base(name)
            )
        return self._marks[name]

    def _base(self, name: str) -> Mark:
        fitted = self.search.fitted[name]
        if reason := fitted.undefined(self.task) or fitted.undefined_in(self.task, self.split):
            raise UndefinedError(reason)
        if not isinstance(fitted, SupportFitted):
            return mark_by_phi(self.measures[f"phi/{name}"], self.unknown)
        support = self.measures[f"support/{name}"]
        if self.unknown is not None:
            # neither positive nor negative: counted on no side, matched with nothing
            support = np.where(self.unknown, np.nan, support)
        if (limits := fitted.thresholds_for(self.task)) is not None:
            by_cue = self.measures.get(f"by_cue/{name}")
            return mark_by_threshold(support, self.labels, limits.positive, limits.negative, by_cue)
        return mark_by_matching(support, self.labels, *self._counts_to_match())

    def _counts_to_match(self) -> tuple[int, int]:
        """Hard positives and hard negatives of the criterion, or of the suite, that is matched."""
        match, key = self.search.match, (self.task, self.split)
        if self.search.counts:
            if key not in self.search.counts:
                problem = f"{match} has no set of it in {self.split}, whose counts it would match"
                raise UndefinedError(problem)
            return self.search.counts[key]
        assert match is not None  # noqa: S101 - checked before anything was computed
        try:
            hard = self.mark(match).codes == HARD
        except UndefinedError as error:
            raise UndefinedError(f"its counts come from {match}: {error.problem}") from error
        return int((hard & self.labels).sum()), int((hard & ~self.labels).sum())


def suite_counts(text: str) -> dict[tuple[str, str], tuple[int, int]]:
    """(Task, split) -> hard positives and negatives in ``SUITE[:CRITERION]``; the first by
    default.
    """
    place, colon, name = text.rpartition(":")
    if not colon or Path(text).exists():
        place, name = text, ""
    suite = load_suite(place)
    name = check_one_of("criterion", name or suite.criteria[0], suite.criteria, owner="`match`")
    return {
        (record.task, record.split): (record.hard_positives, record.hard_negatives)
        for record in suite.header.sets
        if record.criterion == name
    }


def check_thresholds(
    tables: Mapping[str, TaskThresholds], tasks: Sequence[str], classes: Sequence[str]
) -> None:
    """Raise ParameterError for thresholds by task of an unknown class, or without some task."""
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            continue
        for task in table:
            check_one_of(
                "class", task, classes, owner=f"the dataset, but {name} has a threshold for it"
            )
        known = [task for task in tasks if task in table]
        if missing := [task for task in tasks if task not in table]:
            raise ParameterError(
                f"{name} has no threshold for {some_of(missing, 12)}",
                allowed=f"tasks with thresholds: {some_of(table, 12)}",
                remedy="give thresholds for them" + (", or {}" if known else ""),
                give={"tasks": known} if known else (),
            )


def refuse_if_most_missing(rows: Iterable[tuple[str, int, int]], what: str, whole: str) -> None:
    """Raise InputError for names of which more than half was not annotated; how much of how much.

    ``what`` would be left out, such as ``images``, of a ``whole`` each.
    """
    few = [f"{name} ({missing} of {total})" for name, missing, total in rows if 2 * missing > total]
    if few:
        raise InputError(
            f"{what} without annotated things or stuff would be left out: {some_of(few, 6)}",
            allowed=f"at most half of a {whole}",
            remedy="import the annotation files of the other images too, or only the images that"
            " were annotated; or {} to use only the annotated rest",
            give={"allow_unannotated": True},
        )


def left_out(fitted: Fitted, tasks: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Task -> (training positives left out of the fit as unannotated, of how many), where any."""
    pairs = {task: fitted.left_out(task) for task in tasks}
    return {task: pair for task, pair in pairs.items() if pair is not None and pair[0]}


def check_fit(name: str, fitted: Fitted, tasks: Sequence[str]) -> None:
    """Raise InputError if a fit leaves out more than half of a task's training positives."""
    rows = [(f"{name}: {task}", *pair) for task, pair in left_out(fitted, tasks).items()]
    refuse_if_most_missing(rows, "training positives", "task's training positives")


def resolve_tasks(classes: Sequence[str], tasks: str | Sequence[str]) -> list[str]:
    """Classes named by ``all``, ``nooch``, a comma-separated text or a sequence."""
    names = [t.strip() for t in tasks.split(",")] if isinstance(tasks, str) else list(tasks)
    if names == ["all"]:
        return list(classes)
    if names == ["nooch"]:
        from nooch.suites.published_counts import NOOCH_TASKS

        names = list(NOOCH_TASKS)
    for name in names:
        check_one_of("class", name, classes, owner="the dataset")
    if not names or len(set(names)) != len(names):
        raise ParameterError(
            "tasks are missing or named twice", allowed="all, nooch, or names separated by commas"
        )
    return names


def splits_to_search(splits: Collection[str], requested: Sequence[str] | None) -> list[str]:
    """The requested splits, else valid and test if the dataset has them, or all."""
    if requested is None:
        requested = [split for split in ("valid", "test", "all") if split in splits]
    return [check_split(split, splits) for split in requested] or [check_split(None, splits)]


def code_of(criterion: object) -> list[str]:
    """A criterion's class and, for a custom one, the hash of its source file, which may change."""
    kind = type(criterion)
    place = [kind.__module__, kind.__qualname__]
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or kind.__module__.startswith("nooch."):
        return place
    return [*place, blake3(Path(file).read_bytes()).hexdigest()]
