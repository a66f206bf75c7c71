"""Dataset and criteria -> Suite: fit on training images, measure and mark the others.

This module runs the whole search: sums over the training images of its parts, then measures of the
images of its parts, of which ``Search`` makes sets. One process and one part need no file.
Otherwise sums, measures and sets are stored next to the suite until that is written; an interrupted
find takes sums and measures from there. Both give the same sets, bit by bit, however a dataset is
divided.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import numpy as np
import polars as pl
from msgspec import Meta

from nooch.base.calls import Map, Progress, checked, no_progress, tracked
from nooch.base.errors import Command, InputError, ParameterError, check_one_of, giving, some_of
from nooch.base.files import SUITE_MARKER, check_output
from nooch.base.version import __version__
from nooch.base.words import counted, plural, readable
from nooch.base.work_folder import Steps, held, remove_leftovers, work_folder
from nooch.criteria import (
    CE,
    Attribute,
    Combination,
    Context,
    Criterion,
    Fitted,
    FittedCE,
    Gist,
    MarkFitted,
    Summable,
    SupportFitted,
    reads_of,
)
from nooch.criteria.by_name import parse_criteria
from nooch.criteria.context import FOLDS
from nooch.criteria.cue_stability import cue_stability
from nooch.criteria.exact_sums import presence_of
from nooch.data import Dataset, ImageNames, as_dataset
from nooch.data.part_files import Header
from nooch.suites.challenge_set import NO_CONTEXT, ChallengeSet
from nooch.suites.label_overlay import OverlaySource, read_label_overlay
from nooch.suites.search import (
    TYPES,
    UNDEFINED,
    Measures,
    Search,
    check_fit,
    check_thresholds,
    code_of,
    measured,
    recorded,
    recorded_path,
    refuse_if_most_missing,
    resolve_tasks,
    splits_to_search,
)
from nooch.suites.suite import DatasetRecord, SetRecord, Skipped, Suite, SuiteHeader, grouped_images
from nooch.suites.suite_folder import load_suite, save_suite

if TYPE_CHECKING:
    from nooch.criteria.by_name import AnyCriterion, CriteriaLike


@dataclass(frozen=True)
class MeasureFiles:
    """The intermediate files of a search; it travels to workers with each job.

    Attributes:
        steps: kept in these files.
        n_parts: of the dataset.
        search: what is searched for.
    """

    steps: Steps
    n_parts: int
    search: Search

    def measure(self, data: Dataset, number: int) -> None:
        """Measure the images of a part, unless done: a record batch per task, in their order."""
        if self.steps.has(_name(number, "images")):
            return
        part = data.part(number, reads=reads_of(self.search.fitted.values()))
        images = part.select(rows=part.images["split"].is_in(list(self.search.splits)).to_numpy())
        measures = _measured(self.search, images)
        schema, is_unknown = (
            pl.DataFrame(schema=self._schema),
            pl.col("unknown").fill_null(value=False),
        )
        frames = (
            pl.concat([schema, pl.DataFrame(one)], how="diagonal").with_columns(is_unknown)
            for one in measures
        )
        self.steps.put(_name(number, "measures"), frames)
        # written last: its existence means that the part is done
        codes = {name: code for code, name in enumerate(self.search.splits)}
        split = pl.col("split").replace_strict(codes, return_dtype=pl.UInt8)
        self.steps.put(_name(number, "images"), [images.images.select("image_id", split)])

    def mark(self, task: str) -> list[SetRecord | Skipped]:
        """Mark all images for one task and write its sets, a record batch each."""
        measures, outcomes = self._measures(task), list[SetRecord | Skipped]()
        numbers = {
            split: pl.int_range(len(measure["label"]), dtype=pl.UInt32, eager=True)
            for split, measure in measures.items()
        }

        def sets() -> Iterator[pl.DataFrame]:
            for outcome in self.search.sets(task, numbers, measures):
                outcomes.append(recorded(outcome))
                if isinstance(outcome, ChallengeSet):
                    yield outcome.table

        self.steps.put(self._marked(task), sets())
        return outcomes

    def read(self, record: SetRecord, number: int) -> ChallengeSet:
        """The set of a record that ``mark`` has written: the ``number``-th of its task."""
        rows = self.steps.read(self._marked(record.task))[number]
        ids = self._ids[record.split]
        own = ids if len(rows) == len(ids) else ids.gather(rows["image_id"])
        return record.of_table(rows.with_columns(own.alias("image_id")))

    @cached_property
    def _schema(self) -> dict[str, Any]:
        """Column of a table of measures -> its type."""
        schema: dict[str, Any] = {"label": pl.Boolean, "unknown": pl.Boolean}
        for name, fitted_criterion in self.search.fitted.items():
            if isinstance(fitted_criterion, MarkFitted):
                schema[f"phi/{name}"] = TYPES["phi"]
            elif isinstance(fitted_criterion, SupportFitted):
                kinds = ["support"] + ["by_cue"] * (fitted_criterion.thresholds is not None)
                schema |= {f"{kind}/{name}": TYPES[kind] for kind in kinds}
        return schema

    def _measures(self, task: str) -> dict[str, Measures]:
        """Measures of the images of every split, all parts together."""
        splits, number = self.search.splits, list(self.search.tasks).index(task)
        table = pl.concat(
            self.steps.read(_name(part, "measures"))[number] for part in range(self.n_parts)
        )
        if table.is_empty():
            return dict.fromkeys(splits, UNDEFINED)
        tables = (table.filter(self._images["split"] == code) for code in range(len(splits)))
        return {
            split: {
                column.name: column.to_numpy() for column in of_split if not column.null_count()
            }
            for split, of_split in zip(splits, tables, strict=True)
        }

    @cached_property
    def _images(self) -> pl.DataFrame:
        """Id, and position of the split, of every image that is searched."""
        of_parts = (self.steps.read(_name(part, "images")) for part in range(self.n_parts))
        images: pl.DataFrame = pl.concat(batches[0] for batches in of_parts)
        return images

    @cached_property
    def _ids(self) -> dict[str, pl.Series]:
        """Ids of the images of every split, ascending."""
        images, splits = self._images, self.search.splits
        return {name: images.filter(split=code)["image_id"] for code, name in enumerate(splits)}

    def _marked(self, task: str) -> str:
        return f"marked-{list(self.search.tasks).index(task)}.arrow"


def _name(part: int, what: str) -> str:
    return f"shard-{part:07d}.{what}.arrow"


def intermediate_folder(target: Path, what: str, header: Header | None, content: Any) -> Path:
    """The folder of intermediate files, named by all inputs: no other find uses them."""
    assert header is not None  # noqa: S101 - only datasets in folders have intermediate files
    hashes = {name: record.sha256 for name, record in header.files.items()}
    of_data = {"fingerprint": header.fingerprint, "files": hashes}
    return work_folder(target, what, {"version": __version__, "data": of_data, **content})


_ReadSet = Callable[[str, str, str], ChallengeSet]

_DOING = "running nooch find for this suite"


def all_easy(data: Dataset) -> dict[str, Fitted]:
    """The criterion by which every image is easy, by its name; no training split is needed."""
    return {NO_CONTEXT: Attribute("y < 0").fit(data)}


@checked
def find(
    data: Dataset | str | Path,
    criteria: CriteriaLike,
    *,
    tasks: str | Sequence[str] = "all",
    match: str | None = None,
    splits: Sequence[str] | None = None,
    path: str | None = None,
    allow_unannotated: bool = False,
    stability: Annotated[int, Meta(ge=0)] = 0,
    overlay: OverlaySource = (),
    group: str | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
) -> Suite:
    """Find the challenge sets of a dataset.

    Of a dataset without any label no criterion can be fitted: its suite also has a criterion ``no
    context``, by which every image is easy, so that false claims can be counted.

    Images of which it is unknown whether they show a task's class, or how large its cues are,
    because that was not annotated, are left out of fits and sets; sets count them (``excluded_*``).

    Args:
        data: the dataset or its folder; criteria are fitted on its split ``train``, or on ``all``
            in a dataset without splits.
        criteria: ``CE()``, ``"ce"`` or ``"ce & gist"``; a list of these, or name -> criterion.
        tasks: names separated by commas; ``nooch`` (the paper's 12), or ``all`` classes, the
            default.
        match: criterion whose counts of hard images, for each split and side, set the thresholds of
            criteria that have none; by default the only criterion that needs no match.
            ``from:SUITE[:CRITERION]``: match the counts of that suite's sets.
        splits: splits to search; by default valid and test, if the dataset has them, or ``all``.
        path: the dataset's place, recorded so that images can be explained later; by default its
            folder, relative to ``out``.
        allow_unannotated: continue even if more than half of a task's training positives or of a
            split's images were not annotated.
        stability: resamples of the training images for the uncertainty of each cue of ce, such as
            200; 0 for none.
        overlay: files of corrected labels, such as verdicts from the page of ``nooch.audit``: they
            replace labels in the sets, which leave out ambiguous images. Criteria are fitted on
            the dataset's own labels.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the dataset's.
        out: suite folder to write. Without it everything is in memory.
        overwrite: replace a suite folder that exists.
        map: where the work is done, such as an engine's, on a dataset of ``open_dataset``. With it,
            or with several parts and ``out``, a part's images are in memory at a time, and
            intermediate files are stored next to ``out``, where all workers must be able to write;
            an interrupted find resumes there.
        progress: called with what is being done, and how much of how much is done.

    Returns:
        A suite in memory, or the one in ``out``, whose rows are read on demand; tasks without a set
        under a criterion are listed with the reason.

    Raises:
        ParameterError: unknown tasks, splits or names; a criterion that has no thresholds and
            nothing to match, or thresholds by task that do not fit the tasks; ``match`` where every
            criterion has thresholds; a criterion that cannot be fitted on several parts; an engine
            without ``out``, or for a dataset in memory.
        InputError: an empty split; areas or attribute values that a criterion needs and the data
            lack; more than half of the images behind a set were not annotated.
        OutputError: the folder exists, cannot be written, or is in use by another process.

    Examples:
        >>> suite = nooch.find("data", ["ce", nooch.Context()], tasks=["car"])
        >>> suite.criteria
        ('ce', 'context')
        >>> suite.record("ce", "car", "test").hard_positives
        78
    """
    target = None if out is None else check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    folder, data = data, as_dataset(data).grouped(group)
    if path is None and not isinstance(folder, Dataset):
        path = recorded_path(folder, target)
    names, places = resolve_tasks(data.classes, tasks), splits_to_search(data.splits, splits)
    fitted, work = _fitted(_work_on(data, target, map, progress), criteria, names, places)
    labels = read_label_overlay(overlay, data) if overlay else None
    search = Search(*fitted, names, places, match, labels)
    if not allow_unannotated:
        for name, fitted_criterion in search.fitted.items():
            if fitted_criterion is not search.criteria[name]:
                check_fit(name, fitted_criterion, names)
    stored = None
    if work.target is not None:
        stored = intermediate_folder(work.target, "finding", data.header, search.content())
    with contextlib.nullcontext() if stored is None else held(stored, _DOING):
        made = _in_memory(search, work) if stored is None else _in_files(search, work, stored)
        outcomes, read = made
        header = _header(search, work, outcomes, path, stability)
        tables = [partial(of, work.data) for of in (_named_images, grouped_images)]
        suite = Suite(header, read, names=tables[0], groups=tables[1])
        if not allow_unannotated:
            rows = [_missing(record, search.fitted) for record in suite.header.sets]
            refuse_if_most_missing(rows, "images of challenge sets", "split's images")
        if target is not None:
            progress("writing", 0, 1)
            save_suite(suite, target, overwrite=overwrite)
    if target is not None:
        # a find with other options may also have left files there
        for what in ("finding", "summing"):
            remove_leftovers(target, what, _DOING)
        progress("writing", 1, 1)
        suite = load_suite(target)
    suite.dataset = data
    return suite


def _has_labels(data: Dataset) -> bool:
    """True if any image has any class."""
    return any(data.part(number, ()).areas.nnz for number in range(data.n_parts))


@dataclass(frozen=True)
class _Work:
    """Inputs and execution context of find().

    Attributes:
        data: the dataset, in memory without a ``target``.
        target: the suite folder next to which intermediate files are stored; None: all is in
            memory.
        map: as for ``find``, as is ``progress``.
    """

    data: Dataset
    target: Path | None
    map: Map
    progress: Progress

    def reading(self, criteria: Iterable[Any]) -> Self:
        """With what criteria read in memory, or the parts of the dataset as they are.

        Raises ParameterError for an embedding that the dataset lacks.
        """
        for kind in [kind for criterion in criteria for kind in reads_of([criterion]) or ()]:
            if kind.startswith("embeddings/"):
                name = kind.partition("/")[2]
                check_one_of("embedding", name, self.data.embedding_names, owner="the dataset")
        return self if self.target else replace(self, data=self.data.in_memory(reads_of(criteria)))

    def tracked(self, do: Callable[[Any], Any], items: Sequence[Any], what: str) -> Iterator[Any]:
        """Results of a function on items, in their order, with progress."""
        return tracked(self.map(do, items), len(items), what, self.progress)


def _work_on(data: Dataset, target: Path | None, map: Map, progress: Progress) -> _Work:
    """Files are used for several parts or an engine. Raises ParameterError if it has none."""
    if map is builtins.map:
        return _Work(data, target if data.n_parts > 1 else None, map, progress)
    if target is None or data.folder is None:
        lacking = "a folder for the suite" if target is None else "a dataset in a folder"
        raise ParameterError(
            f"workers of an engine (`map`) need {lacking}",
            allowed="a dataset of open_dataset, and `out`, on storage that every worker reaches",
            remedy="{} to find in this process",
            give={"map": None},
        )
    return _Work(data, target, map, progress)


def _fitted(
    work: _Work, given: CriteriaLike, tasks: Sequence[str], splits: Sequence[str]
) -> tuple[tuple[dict[str, Fitted], Mapping[str, AnyCriterion]], _Work]:
    """Fitted criteria and all that were asked for, by name; and the work with what these read."""
    data = work.data
    criteria = {
        name: one.completed(data.embedding_names) if isinstance(one, Gist) else one
        for name, one in parse_criteria(given).items()
    }
    of_labels = [isinstance(c, CE | Context | Gist | Combination) for c in criteria.values()]
    if all(of_labels) and not _has_labels(data):
        criteria = {**criteria, **all_easy(data)}
    criteria = {
        name: _of_dataset(one, data, splits) if isinstance(one, Context) else one
        for name, one in criteria.items()
    }
    tables = {name: getattr(c, "thresholds", None) for name, c in criteria.items()}
    check_thresholds(tables, tasks, data.classes)
    base = {name: c for name, c in criteria.items() if not isinstance(c, Combination)}
    fitting = work.reading(base.values())
    fitted = _fit(fitting, base, tasks)
    same = reads_of(fitted.values()) == reads_of(base.values())
    return (fitted, criteria), fitting if same else work.reading(fitted.values())


def _of_dataset(criterion: Context, data: Dataset, splits: Sequence[str]) -> Context:
    """With the folds of images that are searched and fitted, and the columns of all parts."""
    if data.fitting_split in splits:
        # no image has support from a regression that was fitted on it
        criterion = replace(criterion, folds=FOLDS, group=data.group or "")
    with giving("", {"context": "columns"}):
        return criterion.completed(data)


def _fit(
    work: _Work, criteria: Mapping[str, Criterion | Fitted], tasks: Sequence[str]
) -> dict[str, Fitted]:
    """Fitted criteria by name; those that are fitted already stay as they are."""
    unfitted = {name: c for name, c in criteria.items() if not isinstance(c, Fitted)}
    for name, criterion in unfitted.items():
        _check_fitting(work.data, name, criterion, tasks)
    fitted: dict[str, Any] = dict(criteria)
    if unfitted:
        fitted |= _summed(work, unfitted, tasks)
    for name, criterion in unfitted.items():
        if isinstance(criterion, Summable):
            fitted[name] = criterion.finish(fitted[name], work.data.classes, tasks)
    return fitted


def _check_fitting(data: Dataset, name: str, criterion: Criterion, tasks: Sequence[str]) -> None:
    if data.n_parts > 1 and not isinstance(criterion, Summable):
        raise ParameterError(
            f"{name} cannot be fitted on several parts: it has no partial, merge and finish",
            allowed="a built-in or a fitted criterion, or one with these three methods",
            remedy="fit it on a dataset of one part; then {}, the suite of that fit",
            give={"fitted": ...},
        )
    cues = getattr(criterion, "cues", {})
    # cues by hand need no training image; A(C, Y) is then unknown
    if data.fitting_split not in data.splits and not all(task in cues for task in tasks):
        training_part(data, name)


def training_part(data: Dataset, name: str) -> Dataset:
    """The images that criteria are fitted on. Raises InputError, for ``name``, without any."""
    if data.fitting_split in data.splits:
        return data.select(data.fitting_split)
    raise InputError(
        f"the split train is empty: {name} is fitted on training images",
        allowed=f"splits: {', '.join(f'{s} {n}' for s, n in data.splits.items())}",
        remedy="import again with a training split: {}; give cues by hand for every task (ce): {};"
        " or use a criterion fitted on other data: {}",
        give=(Command("import auto", split="70/10/20"), {"cues": ...}, {"fitted": ...}),
    )


def _summed(work: _Work, criteria: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, Any]:
    """Statistics of all parts by criterion, added up at once: memory does not grow with parts."""
    data, folder = work.data, None
    total: dict[str, Any] = {}
    if work.target is not None:
        states = {
            "criteria": {name: [*code_of(c), repr(c)] for name, c in criteria.items()},
            "tasks": list(tasks),
        }
        folder = intermediate_folder(work.target, "summing", data.header, states)
    of_part = partial(_part_sums, data, criteria, tuple(tasks), folder)
    with contextlib.nullcontext() if folder is None else held(folder, _DOING):
        for sums in work.tracked(of_part, range(data.n_parts), "summing parts"):
            for name, state in sums.items():
                both = [total[name], state] if name in total else []
                total[name] = criteria[name].merge(both) if both else state
    return total


def _part_sums(
    data: Dataset,
    criteria: Mapping[str, Any],
    tasks: Sequence[str],
    folder: Path | None,
    number: int,
) -> dict[str, Any]:
    """Statistics of the training images of a part by criterion; stored ones are read.

    A criterion without statistics is fitted: the part is then the only one.
    """

    @cache
    def images() -> Dataset:
        part = data.part(number, reads=reads_of(criteria.values()))
        return part.select(rows=(part.images["split"] == data.fitting_split).to_numpy())

    def summed(criterion: Any) -> Any:
        add = criterion.partial if isinstance(criterion, Summable) else criterion.fit
        return add(images(), tasks)

    states = {}
    for place, (name, criterion) in enumerate(criteria.items()):
        if folder is None or not _can_be_stored(criterion):
            states[name] = summed(criterion)
        else:
            file = f"shard-{number:07d}.{place}.msgpack"
            states[name] = Steps(folder).get(file, partial(summed, criterion), criterion.state)
    return states


def _can_be_stored(criterion: Any) -> bool:
    """True if statistics can be read back, and the criterion's repr has all of its parameters."""
    return (
        hasattr(criterion, "state")
        and is_dataclass(criterion)
        and type(criterion).__repr__ is not object.__repr__
    )


def _in_memory(search: Search, work: _Work) -> tuple[list[SetRecord | Skipped], _ReadSet]:
    """Measure and mark all images in this process, one task at a time."""
    parts = {split: work.data.select(split) for split in search.splits}
    ids = {split: part.images["image_id"] for split, part in parts.items()}
    measures = zip(*(_measured(search, part) for part in parts.values()), strict=True)
    tasks = tracked(search.tasks, len(search.tasks), "marking tasks", work.progress)
    suites = [
        outcome
        for task, of_splits in zip(tasks, measures, strict=True)
        for outcome in search.sets(task, ids, dict(zip(parts, of_splits, strict=True)))
    ]
    sets = {(o.criterion, o.task, o.split): o for o in suites if isinstance(o, ChallengeSet)}
    return [recorded(outcome) for outcome in suites], lambda *key: sets[key]


def _in_files(
    search: Search, work: _Work, folder: Path
) -> tuple[list[SetRecord | Skipped], _ReadSet]:
    """Measure every part and mark every task, each a job, in a folder next to the suite."""
    files = MeasureFiles(Steps(folder), work.data.n_parts, search)
    measure = partial(files.measure, work.data)
    list(work.tracked(measure, range(work.data.n_parts), "measuring parts"))
    outcomes, places = list[SetRecord | Skipped](), {}
    for of_task in work.tracked(files.mark, search.tasks, "marking tasks"):
        outcomes += of_task
        for number, record in enumerate(
            record for record in of_task if isinstance(record, SetRecord)
        ):
            places[record.criterion, record.task, record.split] = record, number
    return outcomes, lambda *key: files.read(*places[key])


def _measured(search: Search, images: Dataset) -> Iterator[Measures]:
    """Measures of images, task after task; of no image for a task that no criterion defines."""
    fitted, tasks = search.fitted, search.tasks
    by_task = {
        task: {
            name: fitted_criterion
            for name, fitted_criterion in fitted.items()
            if fitted_criterion.undefined(task) is None
        }
        for task in tasks
    }
    each = {
        name: fitted_criterion.each_support(
            images, [task for task in tasks if name in by_task[task]]
        )
        for name, fitted_criterion in fitted.items()
        if isinstance(fitted_criterion, SupportFitted)
    }
    for task, defined in by_task.items():
        supports = {name: next(each[name]) for name in defined if name in each}
        if defined:
            yield measured(images, task, defined, supports, search.overlay)
        else:
            yield UNDEFINED


def _header(
    search: Search,
    work: _Work,
    outcomes: Sequence[SetRecord | Skipped],
    path: str | None,
    stability: int,
) -> SuiteHeader:
    """All of the suite but its rows."""
    data, provenance = work.data, work.data.provenance
    area, licenses = provenance.get("area"), provenance.get("licenses", [])
    record = DatasetRecord(data.fingerprint, len(data), data.splits, area, path, licenses)
    header = search.header(record, outcomes, _stability(search, work, stability))
    rules = {ImageNames.from_images(part).rule for part in data.image_parts()} - {""}
    rule = "table" if len(rules) > 1 else next(iter(rules), "")
    about = {"image_names": rule, "group": data.group or "", "context": data.context}
    return msgspec.structs.replace(header, **about)


def _missing(record: SetRecord, fitted: Mapping[str, Fitted]) -> tuple[str, int, int]:
    """A set, the images left out of it as not annotated, and all images.

    Images without a gist have always been left out and counted: they are not counted here.
    """
    excluded = record.excluded_positives + record.excluded_negatives
    missing, fitted_criterion = record.excluded_unknown, fitted.get(record.criterion)
    if isinstance(fitted_criterion, SupportFitted) and fitted_criterion.needs_annotation:
        missing += excluded
    total = record.positives + record.negatives + excluded + record.excluded_unknown
    return f"{record.criterion}: {record.task}, {record.split}", missing, total


def _named_images(data: Dataset) -> pl.DataFrame:
    """``image_id, file_name`` of all images."""
    return pl.concat(part.select("image_id", "file_name") for part in data.image_parts())


def _stability(search: Search, work: _Work, resamples: int) -> dict[str, Any]:
    """Criterion -> stability of its cues, of CE and where resamples were asked for."""
    data, split = work.data, work.data.fitting_split
    if not resamples or split not in data.splits:
        return {}
    stable = {}
    for name, fitted in search.fitted.items():
        if isinstance(fitted, FittedCE):
            parts = (data.part(number, reads={"areas"}) for number in range(data.n_parts))
            training = (part.select(split) for part in parts if split in part.splits)
            stable[name] = cue_stability(fitted, training, search.tasks, resamples=resamples)
    return stable


_EXPECTED = 3
"""Training images with both classes that chance would give: none is then a chance of 5%."""
_NAMED = 3
UNSEEN_PAIRS: dict[str, Any] = {
    "task": pl.String, "other": pl.String, "n_test": pl.Int64, "expected_train": pl.Float64,
}  # fmt: skip
"""Columns of ``unseen_pairs``."""


def unseen_pairs(data: Dataset, split: str) -> pl.DataFrame:
    """Pairs of classes that images of a split show together and training images never do, though
    chance would give some of these; both orders of each, the most images first.

    A class with labels that are unknown in training is in none. Without training images, or on
    them, there is no pair.
    """
    empty = pl.DataFrame(schema=UNSEEN_PAIRS)
    if "train" not in data.splits or split == "train":
        return empty
    train = data.select("train")
    before, now = (presence_of(part.areas) for part in (train, data.select(split)))
    present = np.asarray(before.sum(axis=0)).ravel()
    unknown = [task for task in data.classes if train.unknown_labels(task) is not None]
    present[[data.classes.index(task) for task in unknown]] = 0
    tests = (now.T @ now).tocoo()
    first, second = (np.asarray(of) for of in tests.coords)
    expected = present[first] * present[second] / max(len(train), 1)
    kept = (first != second) & (expected >= _EXPECTED)
    first, second, n = first[kept], second[kept], tests.data[kept]
    seen = (before.T @ before).tocsr()
    unseen = np.array([not seen[a, b] for a, b in zip(first, second, strict=True)], dtype=bool)
    names = np.array(data.classes, dtype=object)
    pairs = pl.DataFrame(
        {
            "task": names[first[unseen]].tolist(), "other": names[second[unseen]].tolist(),
            "n_test": n[unseen].astype(np.int64), "expected_train": expected[kept][unseen],
        },
        schema=UNSEEN_PAIRS,
    )  # fmt: skip
    return pairs.sort("n_test", "task", "other", descending=[True, False, False])


def unseen_note(pairs: pl.DataFrame) -> list[str]:
    """A line with the first pairs, each once; none without pairs. ``pairs``: with the columns of
    ``UNSEEN_PAIRS``, and rates if they are known.
    """
    texts: dict[frozenset[str], str] = {}
    for row in pairs.iter_rows(named=True):
        key = frozenset((row["task"], row["other"]))
        text = f"{readable(row['task'])} and {readable(row['other'])}"
        text += f" ({counted(row['n_test'], 'image')}"
        if row.get("rate") is not None and row["rate_elsewhere"] is not None:
            rates = f"{row['rate']:.0%}, elsewhere {row['rate_elsewhere']:.0%}"
            text += f"; {plural(row['task'])} missed: {rates}"
        texts.setdefault(key, f"{text})")
    what = "never together in training, though expected by chance: "
    return [what + some_of([*texts.values()], _NAMED)] if texts else []
