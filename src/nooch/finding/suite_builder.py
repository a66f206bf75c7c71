"""Dataset and criteria -> Suite: fit on training images, measure and mark the others.

One process and one part need no file. Otherwise measures and marks are stored next to the suite
until that is written, so that an interrupted find resumes where it stopped. Both give the same
sets, bit by bit, however a dataset is divided.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nooch.challenge import (
    ChallengeSet,
    CriterionRecord,
    DatasetRecord,
    Suite,
    load_suite,
    save_suite,
)
from nooch.challenge.suite import SuiteHeader
from nooch.criteria import (
    Combination,
    Criterion,
    Fitted,
    FittedCE,
    SupportFitted,
    TaskThresholds,
    reads_of,
)
from nooch.criteria.cue_stability import cue_stability
from nooch.data import Dataset
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.files import SUITE_MARKER, check_output
from nooch.finding.annotation_coverage import check_fit, check_sets
from nooch.finding.criterion_fits import check_embeddings, code_of, content_of, fit_criteria
from nooch.finding.image_measures import measured
from nooch.finding.measure_files import MeasureFiles
from nooch.finding.task_sets import Marked, Search
from nooch.options import options_from
from nooch.published import NOOCH_TASKS
from nooch.shared_types import Map, Progress, no_progress
from nooch.version import __version__
from nooch.work_folder import held, remove_leftovers, work_folder

__all__ = ["FindOptions", "check_thresholds", "find", "resolve_tasks", "splits_to_search"]

_ReadSet = Callable[[str, str, str], ChallengeSet]


@dataclass(frozen=True)
class FindOptions:
    """What ``nooch.find`` looks for, and where.

    Attributes:
        tasks: ``all`` classes, ``nooch`` (the paper's 12), or names.
        match: criterion whose counts of hard images, for each split and side, are matched by those
            criteria that measure support and have no thresholds of their own.
        splits: where to find; by default valid and test as far as there are any, or ``all``.
        path: where the dataset lies, recorded so that images can be explained later.
        allow_unannotated: also where that leaves out more than half of a task's training positives
            or of a split's images.
        stability: resamples of the training images that say how sure each context cue is; 0: none.
    """

    tasks: str | Sequence[str] = "all"
    match: str | None = None
    splits: Sequence[str] | None = None
    path: str | None = None
    allow_unannotated: bool = False
    stability: int = 0


def find(
    data: Dataset,
    criteria: Mapping[str, Criterion | Fitted | Combination],
    *,
    options: FindOptions | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
    **named: Any,
) -> Suite:
    """Find the challenge sets of a dataset.

    Images of which it is unknown whether they show a task's class, or how large its cues are,
    because that was not annotated, are left out of fits and sets; sets count them (``excluded_*``).

    Args:
        data: criteria are fitted on its split ``train``, or on ``all`` in a dataset without splits.
        criteria: name -> criterion, fitted criterion, or combination of the others by name.
        options: see ``FindOptions``.
        out: suite folder to write. Without it everything is in memory.
        overwrite: replace a suite folder that exists.
        map: where the work is done, such as an engine's, on a dataset of ``open_dataset``. With it,
            or with several parts and ``out``, a part's images are in memory at a time, and
            intermediate files are stored next to ``out``, where all workers must be able to write;
            an interrupted find resumes there.
        progress: called with what is being done, and how much of how much is done.
        named: fields of ``FindOptions``, such as ``tasks`` and ``match``.

    Returns:
        A suite in memory, or the one in ``out``, whose rows are read on demand; tasks without a set
        under a criterion are listed with the reason.

    Raises:
        ParameterError: unknown tasks, splits or names; a criterion that has no thresholds and
            nothing to match, or thresholds by task that do not fit the tasks; ``match`` where every
            criterion has thresholds; a criterion that cannot be fitted on several parts; an engine
            without ``out``, or for a dataset in memory.
        InputError: an empty split; areas or attribute values that a criterion needs and the data
            lack; more than half of what a set would stand on was not annotated.
        OutputError: the folder exists, cannot be written, or is in use by another process.
    """
    asked = options_from(FindOptions, options, named)
    target = None if out is None else check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    working = _working_target(data, target, map)
    search, images = _fitted_search(data, criteria, asked, working, map, progress)
    with (
        contextlib.nullcontext(_in_memory(search, images, progress))
        if working is None
        else _in_files(search, data, working, map, progress)
    ) as (marked, read):
        suite = Suite(_header(search, data, asked, marked), read)
        if not asked.allow_unannotated:
            check_sets(suite.header.sets, search.fitted)
        if target is None:
            return suite
        progress("writing", 0, 1)
        save_suite(suite, target, overwrite=overwrite)
    # a find with other options may have left files there, too
    for what in ("finding", "summing"):
        remove_leftovers(target, what, "finding this suite")
    progress("writing", 1, 1)
    return load_suite(target)


def _fitted_search(
    data: Dataset,
    criteria: Mapping[str, Criterion | Fitted | Combination],
    asked: FindOptions,
    working: Path | None,
    map: Map,
    progress: Progress,
) -> tuple[Search, Dataset]:
    """What to search for, with fitted criteria; and the dataset, in memory unless ``working``."""
    names, splits = resolve_tasks(data, asked.tasks), splits_to_search(data, asked.splits)
    tables = {name: getattr(c, "thresholds", None) for name, c in criteria.items()}
    check_thresholds(tables, names, data.classes)
    base = {name: c for name, c in criteria.items() if not isinstance(c, Combination)}
    images = data.in_memory(reads_of(base.values())) if working is None else data
    fitted = fit_criteria(images, base, names, working, map, progress)
    _check_match(fitted, asked.match, criteria)
    if not asked.allow_unannotated:
        check_fit(fitted, base, names)
    reads = reads_of(fitted.values())
    check_embeddings(data, reads)
    if working is None and reads != reads_of(base.values()):
        images = data.in_memory(reads)
    return Search(fitted, criteria, names, splits, asked.match), images


def _working_target(data: Dataset, target: Path | None, map: Map) -> Path | None:
    """The suite folder whose intermediate files are stored next to it; None: all is in memory."""
    if map is builtins.map:
        return target if data.n_parts > 1 else None
    if target is None or data.folder is None:
        missing = "no folder to write the suite to" if target is None else "a dataset in memory"
        raise ParameterError(
            f"workers of an engine (`map`) were given {missing}",
            allowed="a dataset of open_dataset, and `out`, which they can all reach",
            remedy="leave out `map` to find in this process",
        )
    return target


def _in_memory(search: Search, data: Dataset, progress: Progress) -> tuple[Marked, _ReadSet]:
    """Measure and mark all images in this process, one task at a time."""
    parts = {split: data.select(split) for split in search.splits}
    ids = {split: part.images["image_id"] for split, part in parts.items()}
    measures = zip(
        *(measured(search.fitted, part, search.tasks) for part in parts.values()), strict=True
    )
    marked, sets = Marked(), {}
    progress("marking tasks", 0, len(search.tasks))
    for done, (task, of_splits) in enumerate(zip(search.tasks, measures, strict=True), 1):
        for outcome in search.sets(task, ids, dict(zip(parts, of_splits, strict=True))):
            marked.add(outcome)
            if isinstance(outcome, ChallengeSet):
                sets[outcome.criterion, outcome.task, outcome.split] = outcome
        progress("marking tasks", done, len(search.tasks))
    return marked, lambda *key: sets[key]


@contextlib.contextmanager
def _in_files(
    search: Search, data: Dataset, target: Path, map: Map, progress: Progress
) -> Iterator[tuple[Marked, _ReadSet]]:
    """Measure every part and mark every task, each a job, in a folder next to the suite."""
    files = MeasureFiles(data, _folder(target, data, search), search)
    with held(files.folder, "finding this suite"):
        _all(map(files.measure, range(data.n_parts)), data.n_parts, "measuring parts", progress)
        tasks = _all(map(files.mark, search.tasks), len(search.tasks), "marking tasks", progress)
        places = {
            (record.criterion, record.task, record.split): (record, number)
            for task in tasks
            for number, record in enumerate(task.records)
        }
        marked = Marked(
            [r for task in tasks for r in task.records], [s for task in tasks for s in task.skipped]
        )
        yield marked, lambda *key: files.read(*places[key])


def _all(results: Iterable[Any], total: int, what: str, progress: Progress) -> list[Any]:
    listed = []
    progress(what, 0, total)
    for result in results:
        listed.append(result)
        progress(what, len(listed), total)
    return listed


def _folder(target: Path, data: Dataset, search: Search) -> Path:
    """The folder of intermediate files, named by all inputs: no other find uses them."""
    content = {
        "version": __version__,
        "data": content_of(data),
        "fitted": {
            name: [*code_of(one), one.kind, one.to_json()] for name, one in search.fitted.items()
        },
        "criteria": [[name, getattr(c, "expression", None)] for name, c in search.criteria.items()],
        "asked": [list(search.tasks), list(search.splits), search.match],
    }
    return work_folder(target, "finding", content)


def _header(search: Search, data: Dataset, asked: FindOptions, marked: Marked) -> SuiteHeader:
    """All of the suite but its rows; sets by criterion, then by task."""
    known, order, tasks = data.provenance, list(search.criteria), list(search.tasks)
    area, licenses = known.get("area"), known.get("licenses", [])
    return SuiteHeader(
        DatasetRecord(data.fingerprint, len(data), data.splits, area, asked.path, licenses),
        tasks,
        list(search.splits),
        {
            name: _with_stability(
                _criterion_record(criterion, search.fitted.get(name), tasks, search.match),
                search.fitted.get(name),
                data,
                tasks,
                asked.stability,
            )
            for name, criterion in search.criteria.items()
        },
        sorted(marked.records, key=lambda record: order.index(record.criterion)),
        sorted(marked.skipped, key=lambda skipped: order.index(skipped.criterion)),
    )


def _with_stability(
    record: CriterionRecord, fitted: Fitted | None, data: Dataset, tasks: list[str], resamples: int
) -> CriterionRecord:
    """The record of CE with the stability of its cues, where resamples were asked for."""
    split = data.fitting_split
    if not resamples or not isinstance(fitted, FittedCE) or split not in data.splits:
        return record
    parts = (data.part(number, reads={"areas"}) for number in range(data.n_parts))
    training = (part.select(split) for part in parts if split in part.splits)
    stable = cue_stability(fitted, training, tasks, resamples=resamples)
    return msgspec.structs.replace(record, stability=stable)


def resolve_tasks(data: Dataset, tasks: str | Sequence[str]) -> list[str]:
    """Classes named by ``all``, ``nooch``, a comma-separated text or a sequence."""
    if tasks == "all":
        return list(data.classes)
    if tasks == "nooch":
        tasks = NOOCH_TASKS
    names = [t.strip() for t in tasks.split(",")] if isinstance(tasks, str) else list(tasks)
    for name in names:
        check_one_of("class", name, data.classes, owner="the dataset")
    if not names or len(set(names)) != len(names):
        raise ParameterError(
            "tasks are missing or named twice", allowed="all, nooch, or names separated by commas"
        )
    return names


def splits_to_search(data: Dataset, splits: Sequence[str] | None) -> list[str]:
    """The given splits, else valid and test as far as there are any, or all."""
    if splits is None:
        splits = [s for s in ("valid", "test", "all") if s in data.splits]
    for split in splits:
        check_one_of("split", split, data.splits, owner="the dataset")
    if not splits:
        raise InputError(
            "the dataset has neither a valid nor a test split to find in",
            allowed=", ".join(data.splits) or "images in some split",
            remedy="name a split with `splits`, or import with `split`",
        )
    return list(splits)


def _check_match(
    fitted: Mapping[str, Fitted], match: str | None, criteria: Mapping[str, Any]
) -> None:
    """Raise a ParameterError where ``match`` cannot be matched, is missing or has no effect."""
    if match is not None:
        check_one_of("criterion", match, fitted, owner="`match`")
    unbounded = [
        name
        for name, one in fitted.items()
        if isinstance(one, SupportFitted) and one.thresholds is None
    ]
    for name in unbounded:
        if match in (None, name):
            raise ParameterError(
                f"{name} has no thresholds of its own",
                remedy="match another criterion's counts (`match` ce), or give `tau`",
            )
    if match is not None and not unbounded:
        raise ParameterError(
            f"`match` {match} has no effect: no criterion measures support without thresholds",
            allowed="a criterion without thresholds, such as gist without `tau`",
            remedy="leave out `match`",
        )
    for name, criterion in criteria.items():
        if isinstance(criterion, Combination):
            for part in criterion.names:
                check_one_of("criterion", part, fitted, owner=f"the combination {name}")


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
        if missing := [task for task in tasks if task not in table]:
            raise ParameterError(
                f"{name} has no threshold for {some_of(missing, 12)}",
                allowed=f"tasks with thresholds: {some_of(table, 12)}",
                remedy="give thresholds for them, or name in tasks only those that have some",
            )


def _criterion_record(
    criterion: Criterion | Fitted | Combination,
    fitted: Fitted | None,
    tasks: list[str],
    match: str | None,
) -> CriterionRecord:
    """What a suite keeps of a criterion."""
    if isinstance(criterion, Combination) or fitted is None:
        expression = criterion.expression if isinstance(criterion, Combination) else ""
        return CriterionRecord("combination", {}, expression=expression)
    cues: dict[str, list[tuple[str, float | None]]] = {}
    if isinstance(fitted, FittedCE):
        for task in tasks:
            strengths = [(cue, fitted.strength(cue, task)) for cue in fitted.cues(task)]
            cues[task] = [(cue, a if np.isfinite(a) else None) for cue, a in strengths]
    matched = match if isinstance(fitted, SupportFitted) and fitted.thresholds is None else None
    return CriterionRecord(fitted.kind, fitted.parameters(), fitted.to_json(), cues, matched)
