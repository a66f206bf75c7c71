"""Predictions: one run's outputs for every image and task, checked, and matched with a suite."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.errors import Give, InputError, check_one_of, some_of
from nooch.base.words import counted, counted_are, plural
from nooch.criteria import Context
from nooch.criteria.context import FOLDS
from nooch.data import Dataset, ImageNames, class_name, id_column
from nooch.data.arrays import box_arrays, float_array, in_main_memory
from nooch.data.box_columns import FORMATS, are_fractions
from nooch.data.image_names import BY_ID, IMAGE_COLUMNS
from nooch.evaluation.boxes.matching import (
    ROUNDING,
    Boxes,
    Detections,
    FoundObjects,
    check_scores,
    checked_boxes,
    rounded,
)
from nooch.evaluation.metrics import SCALES
from nooch.suites import ChallengeSet, Suite


@dataclass(frozen=True, eq=False)
class Predictions:
    """The outputs of one run.

    Attributes:
        run: its name.
        image_ids: Int64 or String, unique, shape (n,).
        tasks: names, in the order of the rows of ``values``.
        values: float64 (n_tasks, n), or float32 of a table of these; NaN = no prediction.
        scale: ``logit`` or ``probability``.
        method: name of the training method, or None.
        seed: seed of the training, or None.
        labels: int8 (n_tasks, n), the labels given with the predictions, -1 = none; or None.
        read: what was recognized in their file, in words.
        notes: what a reader of their scores should know.
        images_of: the fingerprint of the dataset that the images were looked up in.
        weights: float64 (n_tasks, n), of a sample: the images that each one stands for, 0 if it
            was not asked about; or None, where all images have predictions.
        in_words: whether values are 1 for yes, 0 for no, and NaN for neither or no answer.
        said: of answers: their frame, with the model's words (see ``Answers``); of captions
            ``image_id, task, value`` (the share that mentions the task), ``weight``; and of both
            ``unknown`` (neither yes nor no, or no answer) and ``skipped``.
        listed: whether a list of what was asked was given: ``said`` has all of it.
        boxes: of detections: the boxes, of which ``values`` are the largest scores.
        counts: of matched detections: kind of objects or boxes -> how many there are, float64 CSR
            (n_tasks, n), see ``nooch.evaluation.boxes.matched.MatchedRun``.
        objects: of matched detections: the objects, and whether each was found.

    Examples:
        >>> values = [[0.1, 2.5], [-0.3, 1.0]]
        >>> nooch.Predictions.from_arrays(values, [7, 9], ["car", "boat"], scale="logit")
        Predictions(predictions: 2 images, 2 tasks, logits)
    """

    run: str
    image_ids: pl.Series
    tasks: tuple[str, ...]
    values: NDArray[np.float64]
    scale: str
    method: str | None = None
    seed: int | None = None
    labels: NDArray[np.int8] | None = None
    read: str = ""
    notes: tuple[str, ...] = ()
    images_of: str = ""
    weights: NDArray[np.float64] | None = None
    in_words: bool = False
    said: pl.DataFrame | None = None
    listed: bool = False
    boxes: Detections | None = None
    counts: Mapping[str, csr_array] = field(default_factory=dict)
    objects: FoundObjects | None = None

    @classmethod
    def from_arrays(
        cls,
        values: Any,
        image_ids: Any,
        tasks: str | Sequence[str],
        *,
        scale: str,
        run: str = "predictions",
        method: str | None = None,
        seed: int | None = None,
    ) -> Self:
        """Predictions from NumPy arrays, torch tensors on any device, or what NumPy can read.

        Args:
            values: (n_images, n_tasks), or (n_images,) for one task; finite numbers.
            image_ids: (n_images,), integers or text, each once.
            tasks: names in the order of the columns, or one name.
            scale: ``logit`` or ``probability``.
            run: name of the run.
            method: name of the training method, if it is known.
            seed: seed of the training, if it is known.

        Raises:
            InputError: shapes that do not agree, repeated ids or tasks, NaN or infinite values,
                probabilities outside [0, 1].
        """
        names = tuple(class_name(task) for task in ((tasks,) if isinstance(tasks, str) else tasks))
        matrix = float_array(values)
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
        ids = _ids(image_ids, f"run {run}, image_ids")
        if matrix.shape != (len(ids), len(names)):
            n, t = len(ids), len(names)
            raise InputError(
                f"values have shape {matrix.shape}",
                where=f"run {run}",
                allowed=f"({n}, {t}): {n} image ids and {t} tasks were given",
            )
        values = np.ascontiguousarray(matrix.T)
        return checked_values(cls(run, ids, names, values, scale, method, seed))

    @classmethod
    def from_boxes(
        cls,
        image_ids: Any,
        boxes: Sequence[Any],
        labels: Sequence[Any],
        scores: Sequence[Any],
        *,
        classes: Sequence[str] | Mapping[int, str] | None = None,
        box_format: str = "xyxy",
        run: str = "detections",
        method: str | None = None,
        seed: int | None = None,
    ) -> Self:
        """Predictions from a detector's boxes: NumPy arrays, torch tensors, or lists of each image.

        The value of an image and class is the largest score of its boxes, 0 without any.

        Args:
            image_ids: (n_images,), all images that the detector was run on, each once.
            boxes: of each image (n, 4): pixels of the image, or all of them fractions of it.
            labels: of each image (n,): names of classes, or numbers.
            scores: of each image (n,), in [0, 1].
            classes: names of the numbers from 0, or number -> name; also the tasks. By default
                the names that occur.
            box_format: ``xyxy`` (corners, as torchvision and transformers give them), ``xywh``
                (left, top, width, height) or ``cxcywh`` (center, width, height).
            run: name of the run.
            method: name of the training method, if it is known.
            seed: seed of the training, if it is known.

        Raises:
            InputError: shapes that do not agree, repeated ids, labels without a name, numbers that
                are not finite, negative widths or heights, scores outside [0, 1], no class.

        Examples:
            >>> found = [[[10, 20, 60, 80]], []], [["car"], []], [[0.9], []]
            >>> nooch.Predictions.from_boxes([7, 9], *found)
            Predictions(detections: 2 images, 1 task, probabilities)
        """
        check_one_of("value of `box_format`", box_format, FORMATS)
        where = f"run {run}"
        ids = _ids(image_ids, f"{where}, image_ids")
        sizes = [len(part) for part in (boxes, labels, scores)]
        if sizes != [len(ids)] * 3:
            problem = f"boxes, labels and scores are of {', '.join(map(str, sizes))} images"
            raise InputError(problem, where=where, allowed=f"{len(ids)}, as image_ids are")
        parts = [
            box_arrays(box, label, score, f"{where}, image {image}")
            for image, box, label, score in zip(ids, boxes, labels, scores, strict=True)
        ]
        names = dict(classes) if isinstance(classes, Mapping) else dict(enumerate(classes or ()))
        given = [names.get(x, x) for part in parts for x in part[0]]
        if unknown := sorted({x for x in given if not isinstance(x, str)}):
            raise InputError(f"labels {some_of(unknown)} have no name", where=where,
                             remedy="{}, names from 0 or number -> name",
                             give={"classes": ...})  # fmt: skip
        texts = [class_name(name) for name in given]
        tasks = tuple(dict.fromkeys([*map(class_name, names.values()), *texts]))
        image = np.repeat(np.arange(len(ids)), [len(part[1]) for part in parts])
        places = {task: number for number, task in enumerate(tasks)}
        label = np.array([places[text] for text in texts], np.int64)
        score = np.concatenate([np.zeros(0), *(part[1] for part in parts)])
        written = np.concatenate([np.zeros((0, 4)), *(part[2] for part in parts)])

        def place(row: int) -> str:
            number = row - int(np.searchsorted(image, image[row]))
            return f"{where}, image {ids[int(image[row])]}, box {number + 1}"

        notes = check_scores(score, place)
        found = Boxes(image, label, checked_boxes(written, box_format, place))
        values = np.zeros((len(tasks), len(ids)))
        np.maximum.at(values, (label, image), score)
        detections = Detections(found, score, are_fractions(written))
        read = counted(len(image), "box")
        return cls(run, ids, tasks, values, "probability", method, seed, read=read,
                   boxes=detections, notes=notes)  # fmt: skip

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            problem = f"scale {self.scale!r} is not known"
            raise InputError(problem, where=f"run {self.run}", allowed=", ".join(SCALES))
        tasks = pl.Series(self.tasks, dtype=pl.String)
        for what, column in (("image ids", self.image_ids), ("tasks", tasks)):
            check_unique(column, what, f"run {self.run}")
            if not len(column):
                raise InputError(
                    f"there are no {what}", where=f"run {self.run}", allowed="at least one"
                )

    def only(self, images: pl.Series) -> Self:
        """The predictions of some images, by a mask (n,)."""
        kept = np.flatnonzero(images.to_numpy())
        place = np.full(len(images), -1, np.int64)
        place[kept] = np.arange(len(kept))
        places = place, np.arange(len(self.tasks))
        return replace(
            self,
            image_ids=self.image_ids.filter(images),
            values=self.values[:, kept],
            labels=None if self.labels is None else self.labels[:, kept],
            weights=None if self.weights is None else self.weights[:, kept],
            boxes=None if self.boxes is None else self.boxes.moved(*places),
            objects=None if self.objects is None else self.objects.moved(*places),
            counts={name: count[:, kept] for name, count in self.counts.items()},
        )

    def outputs(self, task: str, ids: pl.Series) -> NDArray[np.float64]:
        """Outputs for images, float64 (n,); NaN if there is none."""
        if task not in self.tasks:
            return np.full(len(ids), np.nan)
        rows = positions(ids, self.image_ids.cast(ids.dtype, strict=False))
        return np.where(rows >= 0, self.values[self.tasks.index(task), rows], np.nan).astype(
            np.float64
        )

    def was_asked(self, task: str, ids: pl.Series) -> NDArray[np.bool_]:
        """Mask of images that answers or captions are about, answered or not, bool (n,); of other
        predictions those that have one.
        """
        if self.weights is None or task not in self.tasks:
            return np.asarray(~np.isnan(self.outputs(task, ids)))
        rows = positions(ids, self.image_ids.cast(ids.dtype, strict=False))
        return np.asarray((rows >= 0) & (self.weights[self.tasks.index(task), rows] > 0))

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.image_ids), 'image')}, {counted(len(self.tasks), 'task')}"
        return f"Predictions({self.run}: {sizes}, {plural(self.scale)})"


def check_unique(column: pl.Series, what: str, where: str) -> None:
    """Raise InputError for values that occur more than once; ``what`` names them."""
    if column.n_unique() != len(column):
        twice = column.filter(column.is_duplicated()).unique().sort()
        problem = f"{what} occur more than once: {some_of(twice)}"
        raise InputError(problem, where=where, allowed="each once")


_Run = TypeVar("_Run", bound="Predictions")


def checked_values(owner: _Run) -> _Run:
    """The predictions, with probabilities that rounding brought out of [0, 1] put back in place,
    and a note. Raises InputError for an impossible value.
    """
    values, notes = owner.values, owner.notes
    wrong = ~np.isfinite(values)
    what, allowed, give = "NaN or infinite", "finite numbers", list[Give]()
    if not wrong.any() and owner.scale == "probability":
        wrong = (values < -ROUNDING) | (values > 1 + ROUNDING)
        if not wrong.any() and (values.min() < 0 or values.max() > 1):
            notes += rounded(values, "probability")
        what, allowed, give = "not a probability", "0 to 1", [{"scale": "logit"}]
    if wrong.any():
        task, image = np.argwhere(wrong)[0]
        problem = (
            f"{counted_are(int(wrong.sum()), 'value')} {what}, such as {values[task, image]} for"
            f" image {owner.image_ids[int(image)]}, task {owner.tasks[task]}"
        )
        remedy = "if they are logits, {}" if give else None
        raise InputError(
            problem, where=f"run {owner.run}", allowed=allowed, remedy=remedy, give=give
        )
    return replace(owner, notes=notes)


def positions(values: pl.Series, among: pl.Series) -> NDArray[np.int64]:
    """Position of each value in ``among``, int64 (n,), -1 if it is not there."""
    if values.equals(among):
        return np.arange(len(among))
    table = pl.DataFrame({"value": among, "at": np.arange(len(among))})
    rows = pl.DataFrame({"value": values})
    rows = rows.join(table, on="value", how="left", nulls_equal=True, maintain_order="left")
    return rows["at"].fill_null(-1).to_numpy()


def _ids(image_ids: Any, where: str) -> pl.Series:
    if isinstance(image_ids, pl.Series):
        return id_column(image_ids, where)
    array = np.asarray(in_main_memory(image_ids))
    # frames keep text as objects
    return id_column(np.array(array.tolist()) if array.dtype.kind == "O" else array, where)


def as_known(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Names as known ones are spelled that differ only in case, spaces, ``_`` and ``-``; others,
    and those that several known ones are alike, as they are.
    """
    spelled: dict[str, set[str]] = {}
    for name in known:
        spelled.setdefault(_bare(name), set()).add(name)
    alike = [spelled.get(_bare(name), {name}) for name in names]
    return [name if name in one or len(one) > 1 else min(one)
            for name, one in zip(names, alike, strict=True)]  # fmt: skip


def _bare(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()


def task_notes(
    runs: Sequence[Predictions],
    task_names: Sequence[str],
    owner: str,
    requested: Sequence[str] | None = None,
    *,
    all_needed: bool = True,
) -> list[str]:
    """A note on tasks that the ``owner`` of the known ones does not have, and a warning of
    requested ones that no run has, unless not ``all_needed``; with the pairs that may be one task,
    of which there is always a warning.
    """
    predicted = dict.fromkeys(task for run in runs for task in run.tasks)
    extra = [task for task in predicted if task not in task_names]
    requested = task_names if requested is None else requested
    missing = [task for task in requested if task not in predicted]
    notes = []
    if extra:
        left = f"predictions of {counted(len(extra), 'task')} that the {owner} does not have"
        notes.append(f"{left} are left out: {some_of(extra)}")
    if missing:
        near = {task: get_close_matches(task, extra, 1) for task in missing if extra}
        meant = some_of(f"{task} by {other}" for task, names in near.items() for other in names)
        lack = f"warning: no predictions for {len(missing)} of {counted(len(requested), 'task')}"
        hint = f"; did you mean {meant}?" if meant else ""
        if all_needed or hint:
            notes.append(f"{lack} of the {owner}: {some_of(missing)}{hint}")
    return notes


def predicted_tasks(
    runs: Sequence[Predictions],
    task_names: Sequence[str],
    requested: Sequence[str] | None = None,
    *,
    owner: str,
    kind: str = "task",
) -> list[str]:
    """The known (or requested) tasks that a run has predictions for. Raises ParameterError for one
    that the owner does not have, InputError where none has predictions.
    """
    for task in requested or ():
        check_one_of(kind, task, task_names, owner=owner)
    predicted = {task for run in runs for task in run.tasks}
    candidates = task_names if requested is None else requested
    tasks = [task for task in candidates if task in predicted]
    if not tasks:
        raise InputError(
            f"there are no predictions for {some_of(candidates, 12)}, only for"
            f" {some_of(sorted(predicted))}",
            where="predictions",
            allowed=f"at least one {kind} of {owner}",
        )
    return tasks


def values_of(run: Predictions, challenge: ChallengeSet) -> NDArray[np.float64]:
    """A run's values of a set's images, float64 (n,)."""
    aligned = Aligned(run, challenge.image_ids, challenge.split)
    return aligned.values(challenge.task, slice(None), challenge)


class Aligned:
    """One run's values in the order of a split's images.

    Args:
        run: the predictions.
        ids: ids of the split's images, ascending.
        split: its name, for errors.
    """

    def __init__(self, run: Predictions, ids: pl.Series, split: str) -> None:
        self._run, self._ids, self._split = run, ids, split
        # in the suite's type, text of digits as a number; null where impossible
        own = run.image_ids.cast(ids.dtype, strict=False)
        one_each(run.image_ids, own, run.run)
        self._at = positions(ids, own)
        self._in_order = np.array_equal(self._at, np.arange(len(run.image_ids)))

    def values(
        self, task: str, rows: NDArray[np.intp] | slice, challenge: ChallengeSet
    ) -> NDArray[np.float64]:
        """Values of a set's images, float64 (n,)."""
        row, columns = self._run.tasks.index(task), self._at[rows]
        # predictions in the suite's own order need no looking up
        same = self._in_order and isinstance(rows, slice)
        values = (
            self._run.values[row]
            if same
            else np.where(columns >= 0, self._run.values[row, columns], np.nan)
        )
        missing, weights = np.isnan(values), self._run.weights
        if weights is not None:
            # an answer that is neither yes nor no is not missing
            missing = (columns < 0) | (weights[row, columns] == 0)
        if missing.any():
            ids = challenge.image_ids.filter(pl.Series(missing))
            raise InputError(
                f"{len(ids)} of {len(challenge)} images of split {self._split} have no prediction:"
                f" {some_of(ids)}",
                where=f"run {self._run.run}, task {task}",
                allowed="a prediction for every image of the split that is scored",
                remedy="predict them, or score another split: {}",
                give={"split": ...},
            )
        given = (
            np.full(len(columns), -1)
            if self._run.labels is None
            else self._run.labels[row, columns]
        )
        wrong = (given >= 0) & (given != challenge.labels)
        if wrong.any():
            raise InputError(
                f"{int(wrong.sum())} labels disagree with the suite's:"
                f" {some_of(challenge.image_ids.filter(pl.Series(wrong)))}",
                where=f"run {self._run.run}, task {task}",
                allowed="the suite's labels, or no column label",
                remedy="predict on the images and annotations that the suite was found in",
            )
        return values.astype(np.float64, copy=False)

    def counts(self, task: str, rows: NDArray[np.intp] | slice) -> dict[str, NDArray[np.float64]]:
        """Counts of a set's images by kind, float64 (n,) each; 0 of an image without any."""
        row, columns = self._run.tasks.index(task), self._at[rows]
        return {
            name: np.where(columns >= 0, count[[row]].toarray()[0][columns], 0.0)
            for name, count in self._run.counts.items()
        }


def one_each(given: pl.Series, ids: pl.Series, run: str) -> None:
    """Raise InputError if two of the given ids or names stand for one image; null is none."""
    twice = given.filter(ids.is_duplicated() & ids.is_not_null())
    if len(twice):
        problem = f"image ids mean the same image: {some_of(twice.sort())}"
        raise InputError(problem, where=f"run {run}", allowed="each image once")


@dataclass(frozen=True, eq=False)
class KnownImages:
    """The images of a suite's sets and of a dataset.

    Attributes:
        suite: the suite, or None.
        source: the dataset, or what gives it where images are in no set; or None.
    """

    suite: Suite | None = None
    source: Dataset | Callable[[], Dataset | None] | None = None

    @cached_property
    def data(self) -> Dataset | None:
        """The dataset, if there is one."""
        return self.source() if callable(self.source) else self.source

    @cached_property
    def _scored(self) -> list[pl.Series]:
        """Ids of the first set of each split: of all its images, as a rule."""
        if self.suite is None:
            return []
        first = {key[2]: key for key in reversed(list(self.suite.keys))}
        return [self.suite.set(*key).image_ids for key in first.values()]

    @property
    def classes(self) -> Sequence[str]:
        """Classes of the dataset, else tasks of the suite."""
        if self.data is not None:
            return self.data.classes
        return () if self.suite is None else self.suite.tasks

    @cached_property
    def table(self) -> pl.DataFrame:
        """``image_id, split``."""
        if self.data is not None:
            return self.data.images.select("image_id", "split")
        parts = [pl.DataFrame(schema={"image_id": pl.Int64, "split": pl.String})]
        if self.suite is not None and self.suite.keys:
            parts = []
            for split in dict.fromkeys(key[2] for key in self.suite.keys):
                ids = self.suite.image_ids(key for key in self.suite.keys if key[2] == split)
                parts.append(ids.to_frame().with_columns(split=pl.lit(split)))
        return pl.concat(parts)

    @property
    def _dataset(self) -> str:
        """Fingerprint of the dataset, also where only a suite that was found in it is known."""
        if self.suite is not None:
            return self.suite.header.dataset.fingerprint
        return "" if self.data is None else self.data.fingerprint

    @property
    def _has_names(self) -> bool:
        """True if the suite has a table of all the dataset's images."""
        return self.suite is not None and self.suite.name_rule == "table"

    @cached_property
    def names(self) -> ImageNames:
        """Images that names can refer to: as the suite records it, else by the dataset."""
        if self.data is not None and not self._has_names:
            return ImageNames.from_images(self.data.images)
        if self.suite is not None:
            return self.suite.image_names()
        return ImageNames(pl.Series("image_id", [], pl.Int64))

    def match(self, run: Predictions, *, ignore_unknown: bool, typed: bool = True) -> Predictions:
        """A run with ids in place of file names. Without a dataset, ids may be unknown."""
        if run.images_of == self._dataset:
            return run
        ids, note = self.ids_of(run.image_ids, f"run {run.run}", typed=typed)
        notes, suffix = [run.read, *([note] if note else [])], ""
        others = _absent(ids, self._scored).any()
        if others and (len(notes) > 1 or self._has_names or self.data is not None):
            suffix = "" if self.data is None else self._dataset
            if not ignore_unknown:
                self.check(run, ids)
            if count := self._outside(ids):
                verb = "is" if count == 1 else "are"
                notes.append(f"{counted(count, 'image')} of the dataset {verb} not in the suite")
        only_hard = self.suite is not None and self.suite.header.hard_only
        if others and ignore_unknown and not only_hard:
            n = int(_absent(ids, self._known()).sum())
            notes += [f"{counted(n, 'image')} left out, as unknown (`ignore_unknown`)"] * (n > 0)
        run = run.only(ids.is_not_null()) if ids.null_count() else run
        read = "; ".join(filter(None, notes))
        return replace(run, image_ids=ids.drop_nulls(), read=read, images_of=suffix)

    def one_column(self, frame: pl.DataFrame, where: str) -> tuple[pl.DataFrame, str]:
        """A table without the columns that name its images besides the one that counts; and a note,
        see ``ImageNames.agreed``.
        """
        named = {name.strip().lower(): name for name in reversed(frame.columns)}
        columns = {named[name]: frame[named[name]] for name in IMAGE_COLUMNS if name in named}
        columns = {
            name: column
            for name, column in columns.items()
            if column.dtype == pl.String or column.dtype.is_integer()
        }
        if len(columns) < 2:
            return frame, ""
        best, note = self.names.agreed(columns, where)
        return frame.drop(name for name in columns if best and name != best), note

    def ids_of(self, names: pl.Series, where: str, *, typed: bool = True) -> tuple[pl.Series, str]:
        """The images that names mean, and how they were matched; names that are ids stay as they
        are, also unknown ones. Raises as ``ImageNames.match``.
        """
        fixed = self.suite is not None and self.suite.name_rule in {"digits", "ids"}
        own = self._scored[0] if self._scored else self.names.ids
        if names.dtype != pl.String and (typed or (fixed and own.dtype.is_integer())):
            return names, ""
        matched = self.names.match(names.cast(pl.String), where)
        return (names, "") if matched.rule == BY_ID else (matched.ids, matched.note)

    def _outside(self, ids: pl.Series) -> int:
        """Number of images in the dataset, but not in the suite."""
        if self.suite is None or not (self._has_names or self.data is not None):
            return 0
        if self.data is not None:
            others = self.table.filter(~pl.col("split").is_in(self.suite.splits))["image_id"]
            return int(others.is_in(ids.cast(others.dtype, strict=False).implode()).sum())
        return int(_absent(ids.drop_nulls(), self._sets()).sum())

    def check(self, run: Predictions, ids: pl.Series | None = None) -> None:
        """Raise InputError for images of a run, or by these ids of them, that are not known."""
        if run.images_of == self._dataset:
            return
        unknown = run.image_ids.filter(
            _absent(run.image_ids if ids is None else ids, self._known())
        )
        if len(unknown):
            owner = "dataset" if self.suite is None else "suite"
            by_name = self.names.rule or not unknown.cast(pl.String).str.contains(r"[^0-9-]").any()
            lacks = "" if by_name else f"; the {owner} has no file names"
            problem = f"{len(unknown)} of {len(run.image_ids)} images are not in the {owner}:"
            problem += f" {some_of(unknown.sort())}{lacks}"
            splits = "" if self.suite is None else f" of {', '.join(self.suite.splits)}"
            known = some_of(next(self._known()), 3)
            allowed = f"images{splits}, such as {known}: ids, or file names if the dataset is given"
            give: Give = {"ignore_unknown": True} if len(unknown) < len(run.image_ids) else {}
            raise InputError(
                problem, where=f"run {run.run}", allowed=allowed, give=[give] if give else ()
            )

    def _known(self) -> Iterator[pl.Series]:
        """Ids of the sets and the dataset, read on demand."""
        yield from self._scored
        if self.data is not None:
            yield self.data.images["image_id"]
        elif self._has_names:
            yield self.names.ids
        yield from self._sets()

    def _sets(self) -> Iterator[pl.Series]:
        if self.suite is not None:
            yield from (self.suite.set(*key).image_ids for key in self.suite.keys)


def _absent(ids: pl.Series, columns: Iterable[pl.Series]) -> pl.Series:
    """Mask of ids that are in none of the columns, which are read on demand."""
    absent = pl.Series([True]).new_from_index(0, len(ids))
    for column in columns:
        inside = ids.cast(column.dtype, strict=False).is_in(column.implode())
        absent &= ~inside.fill_null(value=False)
        if not absent.any():
            break
    return absent


def context_run(
    data: Dataset, tasks: Sequence[str], splits: Sequence[str], name: str = "context"
) -> Predictions:
    """Log odds of tasks in the images of splits, by the regressions of ``nooch.Context`` on other
    labels, or on the columns that are declared as the context.

    They are fitted on the training images or, where these are asked about themselves, on the other
    four fifths of the images, or groups. Tasks without a regression are left out. Areas are not
    evidence here: the areas of a map add up to 1, so that they tell the area of the class itself.
    """
    folds = FOLDS if data.fitting_split in splits else 0
    criterion = Context(lift=None, folds=folds, group=data.group or "", columns=data.context)
    fitted = criterion.fit(data.select(data.fitting_split), tasks)
    part = data.select(rows=data.images["split"].is_in(list(splits)).to_numpy())
    defined = [task for task in tasks if fitted.undefined(task) is None]
    odds = np.ascontiguousarray(fitted.supports(part, defined).T)
    return Predictions(name, part.images["image_id"], tuple(defined), odds, "logit")
