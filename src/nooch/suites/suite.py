"""A Suite: challenge sets, how they were made, and the fitted criteria that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from nooch.base.display import Displayed, DisplayTable, parameters_text
from nooch.base.errors import (
    Command,
    FormatError,
    InputError,
    NoochError,
    ParameterError,
    check_one_of,
)
from nooch.base.files import SUITE_MARKER
from nooch.base.words import counted, unit_notes
from nooch.criteria import FITTED, Fitted
from nooch.criteria.cue_stability import CueStability
from nooch.data import Dataset, ImageNames, MatchedNames, as_dataset, open_dataset
from nooch.data.any_class import OBJECT, with_any_class
from nooch.data.splits import group_names, unit_numbers
from nooch.data.table_schema import check_split
from nooch.suites.challenge_set import ChallengeSet, Counts
from nooch.suites.hard_easy import Side


class DatasetRecord(msgspec.Struct, frozen=True):
    """The dataset that a suite was found in.

    ``licenses`` come from its annotation files, each with ``name`` and ``url`` where given.
    """

    fingerprint: str
    n_images: int
    splits: dict[str, int]
    area: str | None = None
    path: str | None = None
    licenses: list[dict[str, Any]] = []


class CriterionRecord(msgspec.Struct, frozen=True):
    """A criterion of a suite: its kind, parameters for display, and ``fitted`` to reproduce it.

    ``cues`` lists the context cues of each task with A(C, Y). ``match`` names the criterion whose
    counts were matched, ``expression`` defines a combination, ``stability`` is the evidence for the
    cues (CE, where resamples were asked for).
    """

    kind: str
    parameters: dict[str, Any]
    fitted: dict[str, Any] | None = None
    cues: dict[str, list[tuple[str, float | None]]] = {}
    match: str | None = None
    expression: str | None = None
    stability: dict[str, list[CueStability]] | UnsetType = UNSET

    def restored(self) -> Fitted | None:
        """The criterion with its statistics; None without them, and if it is a custom one.

        Raises FormatError for statistics that are none of this kind.
        """
        if self.fitted is None or self.kind not in FITTED:
            return None
        try:
            return FITTED[self.kind].from_json(self.fitted)
        except NoochError as error:
            problem = f"{SUITE_MARKER} has no valid statistics of {self.kind}: {error}"
            raise FormatError(problem, remedy="find the suite again") from error


class SetRecord(Counts, frozen=True, kw_only=True):
    """Counts and thresholds of one challenge set."""

    criterion: str
    task: str
    split: str
    threshold_positive: float | None
    threshold_negative: float | None
    tied_positive: bool
    tied_negative: bool
    missing_positives: int
    missing_negatives: int

    @classmethod
    def from_set(cls, challenge: ChallengeSet) -> SetRecord:
        """The record of a set."""
        positive, negative = challenge.positive, challenge.negative
        return cls(
            *msgspec.structs.astuple(challenge.counts),
            criterion=challenge.criterion,
            task=challenge.task,
            split=challenge.split,
            threshold_positive=positive.threshold,
            threshold_negative=negative.threshold,
            tied_positive=positive.tied,
            tied_negative=negative.tied,
            missing_positives=positive.missing,
            missing_negatives=negative.missing,
        )

    def of_table(self, rows: pl.DataFrame) -> ChallengeSet:
        """The set whose ``rows`` these are, with thresholds and counts of the record."""
        support, by_cue = rows["support"], rows["by_cue"]
        return ChallengeSet(
            self.criterion,
            self.task,
            self.split,
            rows["image_id"],
            rows["label"].to_numpy().astype(bool),
            rows["subset"].to_physical().to_numpy().astype(np.uint8),
            None if support.null_count() else support.to_numpy(),
            Side(self.threshold_positive, self.tied_positive, self.missing_positives),
            Side(self.threshold_negative, self.tied_negative, self.missing_negatives),
            (self.excluded_positives, self.excluded_negatives, self.excluded_unknown),
            None if by_cue.null_count() else by_cue.to_numpy(),
        )


class Skipped(msgspec.Struct, frozen=True):
    """A task without a challenge set under a criterion, and why."""

    criterion: str
    task: str
    reason: str


class OverlayRecord(msgspec.Struct, frozen=True):
    """Corrected labels: SHA-256 of their files, and what a reader should know of them."""

    files: list[str]
    notes: list[str]


class SuiteHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything of a suite but the rows of its sets; ``hard_only``: they contain no easy image;
    ``overlay``: the corrected labels that took the place of the dataset's; ``image_names``: see
    ``Suite.name_rule``; ``group``: by which its images are grouped, see ``Dataset.group``;
    ``context``: the columns that were declared as the context.
    """

    dataset: DatasetRecord
    tasks: list[str]
    splits: list[str]
    criteria: dict[str, CriterionRecord]
    sets: list[SetRecord]
    skipped: list[Skipped]
    hard_only: bool = False
    overlay: OverlayRecord | None = None
    image_names: str = ""
    group: str = ""
    context: tuple[str, ...] = ()


def grouped_images(data: Dataset) -> pl.DataFrame:
    """``image_id, group`` of a dataset's images, see ``Dataset.groups``."""
    frames = (
        images.select("image_id", group_names(images, data.group or ""))
        for images in data.image_parts()
    )
    return pl.concat(frames)


class Suite(Displayed):
    """Several challenge sets and how they were made.

    Args:
        header: records of criteria, sets and what was skipped.
        source: gives the set of (criterion, task, split), from memory or from disk.
        dataset: the dataset that it was found in or its folder, where that is known.
        names: gives ``image_id, file_name`` of the dataset's images, if the header lists such
            a table.
        groups: gives ``image_id, group`` of the dataset's images, if the header names a ``group``.
        pairs: of suites of the package what is known of images and tasks: ``image_id, task``, and
            ``weight`` (the images that one of a sample stands for) or ``suspect`` (Boolean: the
            label is doubtful, see ``suspects_are``).

    ``folder`` is the suite's own, where it was loaded from one.
    """

    def __init__(
        self,
        header: SuiteHeader,
        source: Callable[[str, str, str], ChallengeSet],
        dataset: Dataset | str | None = None,
        names: Callable[[], pl.DataFrame] | None = None,
        pairs: pl.DataFrame | None = None,
        groups: Callable[[], pl.DataFrame] | None = None,
    ) -> None:
        self.header, self._source, self.dataset = header, source, dataset
        self.named_images, self.grouped_images, self.pairs = names, groups, pairs
        self.folder: Path | None = None
        self._records = {(r.criterion, r.task, r.split): r for r in header.sets}

    @classmethod
    def from_sets(
        cls,
        sets: Mapping[tuple[str, str, str], ChallengeSet],
        *,
        dataset: DatasetRecord,
        criteria: Mapping[str, CriterionRecord],
        skipped: list[Skipped],
        tasks: list[str],
        splits: list[str],
        hard_only: bool = False,
    ) -> Suite:
        """A suite in memory."""
        records = [SetRecord.from_set(challenge) for challenge in sets.values()]
        header = SuiteHeader(dataset, tasks, splits, dict(criteria), records, skipped, hard_only)
        return cls(header, lambda *key: sets[key])

    @property
    def display(self) -> DisplayTable:
        """Counts and thresholds of each set, and parameters of the criteria."""
        h = self.header
        columns = [
            "task", "criterion", "split", "hard positives", "of", "hard negatives", "of",
            "positives below", "negatives above", "no verdict",
        ]  # fmt: skip
        rows = [
            [
                r.task, r.criterion, r.split,
                r.hard_positives, None if h.hard_only else r.positives,
                r.hard_negatives, None if h.hard_only else r.negatives,
                r.threshold_positive, r.threshold_negative,
                r.excluded_positives + r.excluded_negatives + r.excluded_unknown,
            ]
            for r in h.sets
        ]  # fmt: skip
        notes = [
            f"{name}: {record.expression or record.kind} {parameters_text(record.parameters)}"
            + (f", counts matched to {record.match}" if record.match else "")
            for name, record in h.criteria.items()
        ]
        notes += [] if h.overlay is None else h.overlay.notes
        if h.skipped:
            notes.append(f"{len(h.skipped):,} tasks and criteria without a set")
        title = (
            f"Suite({', '.join(h.criteria)}; {counted(len(h.tasks), 'task')};"
            f" {', '.join(h.splits)}; {counted(len(h.sets), 'set')})"
        )
        return DisplayTable(title, columns, rows, left=3, notes=notes)

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the criteria."""
        return tuple(self.header.criteria)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Requested tasks, with or without sets."""
        return tuple(self.header.tasks)

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits that were searched."""
        return tuple(self.header.splits)

    @property
    def keys(self) -> KeysView[tuple[str, str, str]]:
        """(criterion, task, split) of every set, in the order in which they were found."""
        return self._records.keys()

    def set(self, criterion: str, task: str, split: str) -> ChallengeSet:
        """One challenge set.

        Raises:
            ParameterError: no such set; for a skipped task, the message gives the reason.
        """
        self.record(criterion, task, split)
        return self._source(criterion, task, split)

    def image_ids(self, keys: Iterable[tuple[str, str, str]] | None = None) -> pl.Series:
        """Ids of the images of several sets, by default of all, ascending, each once."""
        if keys is None:
            return self._every_id
        columns: list[pl.Series] = []
        for key in keys:
            ids = self.set(*key).image_ids
            # most sets of a split have the same images
            if not any(ids.equals(column) for column in columns):
                columns.append(ids)
        if len(columns) == 1:
            return columns[0]
        return pl.concat(columns or [pl.Series("image_id", [], pl.Int64)]).unique().sort()

    @cached_property
    def _every_id(self) -> pl.Series:
        return self.image_ids(self.keys)

    def grouped(self, group: str | None, data: Dataset | str | Path | None = None) -> Suite:
        """The suite with its images in other groups; None, or its own: unchanged.

        Raises ParameterError as ``require_dataset``, and for a group that the dataset lacks.
        """
        if group in (None, self.header.group):
            return self
        data = self.require_dataset(data).grouped(group)
        header = msgspec.structs.replace(self.header, group=group)
        suite = self.with_header(header)
        suite.dataset, suite.grouped_images = data, partial(grouped_images, data)
        return suite

    @property
    def unit_name(self) -> str:
        """The name of the unit that counts: "images", or "groups by scene"."""
        return f"groups by {self.header.group}" if self.header.group else "images"

    @property
    def unit_notes(self) -> list[str]:
        """A note on the unit that counts, if images are grouped."""
        return unit_notes(self.header.group)

    def units(self, ids: pl.Series) -> NDArray[np.int64] | None:
        """Group number of each image, int64 (n,): intervals and tests count each group once. None:
        images are not grouped.
        """
        if self._units is None:
            return None
        alone = self._units["unit"].len() + pl.int_range(pl.len())
        frame = pl.DataFrame({"image_id": ids}).cast({"image_id": self._units["image_id"].dtype})
        frame = frame.join(self._units, on="image_id", how="left", maintain_order="left")
        return frame.select(pl.col("unit").fill_null(alone)).to_series().to_numpy()

    @cached_property
    def _units(self) -> pl.DataFrame | None:
        """``image_id, unit``; None: each image is one."""
        if not self.header.group or self.grouped_images is None:
            return None
        groups = self.grouped_images()
        return groups.select("image_id", unit=pl.Series(unit_numbers(groups["group"])))

    def cells(self, keys: Iterable[tuple[str, str, str]]) -> pl.DataFrame:
        """``image_id, task, cell`` of sets, and ``unit`` (see ``units``) if it has groups."""
        frame = pl.concat(self.set(*key).cell_frame for key in keys)
        units = self.units(frame["image_id"])
        return frame if units is None else frame.with_columns(unit=pl.Series(units))

    def source_dataset(self) -> Dataset | None:
        """The dataset that it was found in, or None if that is not known, was moved or changed."""
        dataset = self.dataset
        if isinstance(dataset, str):
            try:
                dataset = open_dataset(dataset)
                _ = dataset.images
            except NoochError:
                return None
        same = dataset is not None and dataset.fingerprint == self.header.dataset.fingerprint
        return self.with_tasks(dataset) if same and dataset is not None else None

    def with_tasks(self, data: Dataset) -> Dataset:
        """The dataset with the groups and the context that the suite was found with; and
        ``with_any_class``, if its tasks are these counts.
        """
        own = (r.parameters.get("columns") for r in self.header.criteria.values())
        named = self.header.context or next((names for names in own if names), ())
        data = data.grouped(self.header.group or None)
        if columns := [name for name in named if name in data.attributes]:
            data = data.declaring(context=columns)
        return with_any_class(data) if OBJECT in self.tasks else data

    @property
    def name_rule(self) -> str:
        """Rule for matching names of images without the dataset, see ``ImageNames.rule``; empty
        where nothing is recorded. The authors' sets are of COCO, whose file names end in ids.
        """
        return self.header.image_names or ("digits" if self.is_of_coco else "")

    @property
    def is_of_coco(self) -> bool:
        """True if the images are COCO's by their ids: the authors' sets, and the package's own."""
        return self.header.dataset.fingerprint.startswith("published-")

    def image_names(self) -> ImageNames:
        """Images that names can refer to: by its own record, else only by id."""
        rule = self.name_rule
        if rule == "digits":
            return ImageNames(self.image_ids(), digits=True, of_coco=self.is_of_coco)
        if rule == "table" and self.named_images is not None:
            return ImageNames.from_images(self.named_images())
        return ImageNames(self.image_ids())

    def match_names(self, names: pl.Series, where: object, *, strict: bool = True) -> MatchedNames:
        """The images of the suite that names mean, null for others; see ``ImageNames.match``."""
        matched = self.image_names().match(names, where, strict=strict)
        inside = matched.ids.is_in(self.image_ids().implode()).fill_null(value=False)
        return replace(matched, ids=matched.ids.set(~inside, None))

    def record(self, criterion: str, task: str, split: str) -> SetRecord:
        """Counts and thresholds of a set, without reading its rows."""
        record = self._records.get((criterion, task, split))
        if record is not None:
            return record
        check_one_of("criterion", criterion, self.criteria, owner="the suite")
        check_one_of("task", task, self.tasks, owner="the suite")
        check_split(split, self.splits, "the suite")
        skipped = (s for s in self.header.skipped if (s.criterion, s.task) == (criterion, task))
        reasons = "; ".join(s.reason for s in skipped)
        raise ParameterError(f"task {task} has no {criterion} set: {reasons or 'it was not found'}")

    def only(self, tasks: Sequence[str]) -> Suite:
        """The suite of some of its tasks, in the order given.

        Raises:
            ParameterError: no task, one twice, or one that the suite does not have.
        """
        for task in tasks:
            check_one_of("task", task, self.tasks, owner="the suite")
        if not tasks or len(set(tasks)) != len(tasks):
            raise ParameterError(
                f"tasks are {', '.join(tasks) or 'none'}", allowed="at least one task, each once"
            )
        h, names, criteria = self.header, list(self.header.criteria), {}
        sets = [r for r in h.sets if r.task in tasks]
        sets.sort(key=lambda r: (names.index(r.criterion), tasks.index(r.task)))
        for name, record in h.criteria.items():
            cues, stable = (
                {task: listed for task, listed in (entries or {}).items() if task in tasks}
                for entries in (record.cues, record.stability)
            )
            criteria[name] = msgspec.structs.replace(record, cues=cues, stability=stable or UNSET)
        skipped = [s for s in h.skipped if s.task in tasks]
        header = msgspec.structs.replace(
            h, tasks=list(tasks), criteria=criteria, sets=sets, skipped=skipped
        )
        return self.with_header(header)

    def with_header(
        self, header: SuiteHeader, source: Callable[[str, str, str], ChallengeSet] | None = None
    ) -> Suite:
        """The suite with another header, and other sets where these are given."""
        return Suite(
            header, source or self._source, self.dataset, self.named_images, self.pairs,
            self.grouped_images,
        )  # fmt: skip

    @property
    def is_of_tenths(self) -> bool:
        """True for a sample by tenths of support, of which two are hard, as ``nooch-words`` is."""
        return self.pairs is not None and "tenth" in self.pairs.columns

    @property
    def is_of_pairs(self) -> bool:
        """True for a suite of the package that is listed by pairs of an image and a task."""
        return self.pairs is not None and "label" in self.pairs.columns

    @property
    def suspects(self) -> pl.DataFrame | None:
        """``image_id, task`` of labels that are suspect, if the suite has been audited."""
        if self.pairs is None or "suspect" not in self.pairs.columns:
            return None
        return self.pairs.filter("suspect").select("image_id", "task")

    @property
    def suspects_are(self) -> str:
        """Words for the suspect labels."""
        most = "labels that the image's other labels contradict most"
        return self._stated("suspects") or f"{most}: some are wrong, others are the hardest"

    @property
    def sample_weights(self) -> pl.DataFrame | None:
        """``image_id, task, weight`` of a suite that is a sample of pairs."""
        if self.pairs is None or "weight" not in self.pairs.columns:
            return None
        return self.pairs.select("image_id", "task", "weight")

    @cached_property
    def question_lists(self) -> Mapping[str, pl.DataFrame]:
        """List of POPE -> ``image_id, task, label`` of its questions, in order; else empty."""
        pairs = pl.DataFrame() if self.pairs is None else self.pairs
        names = [name[6:] for name in pairs.columns if name.startswith("asked/")]
        return {
            name: pairs.drop_nulls(f"asked/{name}")
            .sort(f"order/{name}", f"asked/{name}")
            .select("image_id", "task", "label")
            for name in names
        }

    @property
    def words(self) -> str:
        """The vocabulary by which captions mention the tasks."""
        return self._stated("words") or "coco"

    def _stated(self, name: str) -> str:
        """A parameter of a criterion that is about the whole suite; empty without."""
        records = self.header.criteria.values()
        return next((str(r.parameters[name]) for r in records if name in r.parameters), "")

    @property
    def prompts(self) -> tuple[str, ...]:
        """Templates of the suite's own questions; empty without any."""
        records = self.header.criteria.values()
        return tuple(text for record in records for text in record.parameters.get("prompts", ()))

    def select_keys(
        self, criteria: Sequence[str] = (), tasks: Sequence[str] = (), splits: Sequence[str] = ()
    ) -> tuple[tuple[str, str, str], ...]:
        """The (criterion, task, split) of sets with these names; all where none are given.

        Raises:
            ParameterError: a name that the suite does not have, or no set.
        """
        requested, available = (criteria, tasks, splits), (self.criteria, self.tasks, self.splits)
        for kind, names, options in zip(
            ("criterion", "task", "split"), requested, available, strict=True
        ):
            for name in names:
                if kind == "split":
                    check_split(name, options, "the suite")
                else:
                    check_one_of(kind, name, options, owner="the suite")
        keys = tuple(
            key
            for key in self.keys
            if all(not names or part in names for part, names in zip(key, requested, strict=True))
        )
        if not keys:
            reasons = [f"{s.criterion} {s.task}: {s.reason}" for s in self.header.skipped]
            raise ParameterError(
                "the suite has no such challenge set" + (f" ({reasons[0]})" if reasons else ""),
                remedy="{} lists the sets",
                give=Command("show"),
            )
        return keys

    def in_context(self, criterion: str, task: str, split: str = "train") -> list[Any]:
        """Ids of the images with phi = 0, for training in the paper's step 3 (section 2).

        The suite must have been found with the training split among its splits.
        """
        self.require_easy("training on images in their usual context")
        return self.set(criterion, task, split).ids("easy")

    def splits_to_score(self, split: str | Sequence[str] | None = None) -> list[str]:
        """The given splits, else test, or the only one. Raises ParameterError for others."""
        if split is None and len(self.splits) != 1 and "test" not in self.splits:
            raise ParameterError(
                "which split is to be scored?", give=[{"split": name} for name in self.splits]
            )
        if split is None:
            split = "test" if "test" in self.splits else self.splits
        names = [split] if isinstance(split, str) else list(dict.fromkeys(split))
        return [check_split(name, self.splits, "the suite") for name in names]

    def require_dataset(self, data: Dataset | str | Path | None) -> Dataset:
        """Open the dataset; None: at its recorded path. Raises ParameterError if it is missing, or
        not the one that the suite was found in.
        """
        dataset = self.source_dataset() if data is None else as_dataset(data)
        if dataset is None:
            problem = "the dataset of the suite is needed, but was not found at its recorded path"
            raise ParameterError(problem, give={"data": ...})
        if dataset.fingerprint != self.header.dataset.fingerprint:
            raise ParameterError(
                "the suite was found in another dataset: the fingerprints differ",
                remedy="{}, the suite's dataset; or {} to find the suite again",
                give=({"data": ...}, Command("find")),
            )
        return self.with_tasks(dataset)

    def require_easy(self, purpose: str) -> None:
        """Raise InputError if the suite contains only hard images and ``purpose`` needs all."""
        if self.header.hard_only:
            problem = f"{purpose} needs the easy images, and the suite contains only hard images"
            remedy = "make the suite with the labels of all images"
            raise InputError(problem, remedy=f"{remedy} (nooch.paper.published_suite)")
