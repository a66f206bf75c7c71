"""Slices: where a model errs, by tests of conditions and of pairs that half of the images find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from nooch.base.calls import Progress, checked, no_progress, tracked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import ParameterError, some_of
from nooch.base.words import plural, readable, unit_notes, words_of
from nooch.criteria.conditions import ImageCondition, ImageConditions
from nooch.criteria.phi import identifier
from nooch.criteria.presences import fold_numbers
from nooch.data import Dataset, as_dataset
from nooch.data.importing.attributes import measured
from nooch.data.splits import unit_names, unit_numbers
from nooch.data.table_files import write_result
from nooch.data.table_schema import OF_ANY_CLASS
from nooch.evaluation.boxes.matched import IOU
from nooch.evaluation.captions import captioned
from nooch.evaluation.clauses import LANGUAGES, language_words
from nooch.evaluation.findings import (
    Outcomes,
    checked_split,
    outcomes_of,
    size_strata,
    some_images,
)
from nooch.evaluation.judged import BoxThreshold, JudgedRuns, judge_runs
from nooch.evaluation.metrics.pointwise import worst_case
from nooch.evaluation.metrics.proportions import wilson, wilson_of_groups
from nooch.evaluation.metrics.rate_gaps import RateGap, rate_gap
from nooch.evaluation.predictions import predicted_tasks
from nooch.evaluation.rate_words import (
    claims_in,
    condition_words,
    false_box_words,
    objects_of,
    percent,
)
from nooch.evaluation.vocabulary import COCO, load_vocabulary
from nooch.suites import ChallengeSet

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HalvedConditions:
    """Conditions, and the number of images of either half in which two of them are true.

    Attributes:
        all: the conditions.
        half: bool (n_images,), one of the two halves.
    """

    all: ImageConditions
    half: Booleans

    @property
    def halves(self) -> tuple[Booleans, Booleans]:
        """The images of either half, bool (n_images,)."""
        return self.half, ~self.half

    @cached_property
    def _counts(self) -> tuple[dict[ImageCondition, int], list[Floats]]:
        """The place of each condition that tasks share, and the counts of all images."""
        counts = [pair_counts(self.all.shared, half) for half in self.halves]
        return {condition: place for place, condition in enumerate(self.all.shared)}, counts

    def counts(self, conditions: Sequence[ImageCondition], side: Booleans) -> list[Floats]:
        """Numbers of images of a side, in either half, in which two conditions are true, float64
        (k, k).
        """
        if 2 * side.sum() > len(side) and self._counts[0].keys() >= set(conditions):
            # the other side is smaller
            rows = [self._counts[0][condition] for condition in conditions]
            return [
                counts[np.ix_(rows, rows)] - pair_counts(conditions, half & ~side)
                for counts, half in zip(self._counts[1], self.halves, strict=True)
            ]
        return [pair_counts(conditions, half & side) for half in self.halves]


_AT_ONCE = 8192


def pair_counts(conditions: Sequence[ImageCondition], images: NDArray[Any]) -> Floats:
    """Numbers of images in which any two conditions are true, float64 (k, k).

    ``images``: bool (n,), or how much each image counts, (n,).
    """
    counts = np.zeros((len(conditions),) * 2, np.float32)
    rows = np.flatnonzero(images)
    # counts below 2**24 are exact; a part at a time: words are many
    for some in np.split(rows, range(_AT_ONCE, len(rows), _AT_ONCE)):
        true = np.stack([condition.holds[some] for condition in conditions]).astype(np.float32)
        counts += (true * images[some].astype(np.float32)) @ true.T
    return counts.astype(np.float64)


LEAST_DROP = 0.1
"""Minimum increase in a slice's error rate; for pairs, on the half that is searched."""
MOST = 10
"""Pairs that each half finds, and unconfirmed slices listed, of each run, task and side."""
_ERROR = 0.05
"""Chance that any slice is confirmed where none errs more often."""
_OF_PAIRS = 0.1
"""Share of it for pairs that a half finds; the rest is for conditions, which then have as much
power as Fisher's test of only them.
"""
_FEWER = 0.6
"""Share of the error for the smaller one of a condition and its opposite."""
_ALIKE = 0.8
"""Share of images (Jaccard) above which two slices are the same one."""


@dataclass
class SliceFamily:
    """Tests that share a chance of any false confirmation, over all runs, tasks and sides.

    Attributes:
        name: what it tests.
        error: that chance.
        tested: how many tests there are, with those whose row was not kept; a condition and its
            opposite are one.
        found: the slice of each row, and the row's other columns.
    """

    name: str
    error: float
    tested: int = 0
    found: list[tuple[FoundSlice, dict[str, Any]]] = field(default_factory=list)

    def judged(self) -> Iterator[dict[str, Any]]:
        """The rows with intervals and p-values corrected step by step (Holm, with weights). Tests
        without a row count with p = 1.
        """
        adjusted, left = 0.0, float(self.tested)
        for piece, row in sorted(self.found, key=lambda entry: _order(entry[0])):
            gap, share = piece.gap, piece.weight / left
            low, high = gap.interval(1 - 2 * self.error * share)
            high = max(high, piece.worst.interval(1 - 2 * self.error * share)[1])
            adjusted = max(adjusted, min(1.0, piece.p / share * _ERROR / self.error))
            left -= piece.weight
            yield row | {
                "n_test": gap.n_with, "errors_test": gap.errors_with, "effect": gap.effect,
                "low": low, "high": high, "p": piece.p, "p_adjusted": adjusted,
                "confirmed": low > 0 and adjusted <= _ERROR,
            }  # fmt: skip


def slice_families(*, words: bool = False) -> list[SliceFamily]:
    """Results for conditions, for words if there are any (each with half of the chance, since words
    are many), and for pairs that the first and the second half find.
    """
    alone = ("conditions", "words")[: 1 + words]
    errors = dict.fromkeys(alone, _ERROR * (1 - 2 * _OF_PAIRS) / len(alone))
    for half in ("first", "second"):
        errors[f"pairs of the {half} half"] = _ERROR * _OF_PAIRS
    return [SliceFamily(name, error) for name, error in errors.items()]


@dataclass(frozen=True, eq=False)
class FoundSlice:
    """A slice and its test.

    Attributes:
        family: what it is tested with.
        conditions: one, or two.
        inside: bool (n,), images of the side in which they are true.
        other: bool (n,), those compared with.
        gap: the comparison of the images that test it; ``worst``: with unknown answers right in the
            other images.
        p: one-sided, 1 if there is nothing to compare.
        weight: of the test, 1 at most.
    """

    family: SliceFamily
    conditions: tuple[ImageCondition, ...]
    inside: Booleans
    other: Booleans
    gap: RateGap
    worst: RateGap
    p: float
    weight: float


@dataclass(frozen=True, eq=False)
class SliceSide:
    """The images of one side of a task, and what a run got wrong in them.

    Attributes:
        task: a class.
        conditions: those to test, chosen without a look at errors.
        images: bool (n,), images of the side.
        outcomes: of these images, or of each object in them.
        halves: bool (n,) each.
        n: outcomes for which any two conditions are true, of either half, float64 (k, k).
        units: number of each image's group, int64 (n,); None: each is one.
        weights: of each image, float64 (n,), with mean 1; None: they are equal.
    """

    task: str
    conditions: Sequence[ImageCondition]
    images: Booleans
    outcomes: Outcomes
    halves: tuple[Booleans, Booleans]
    n: Sequence[Floats]
    units: NDArray[np.int64] | None = None
    weights: Floats | None = None

    @cached_property
    def weight(self) -> Floats:
        """The weight of each outcome."""
        return self.outcomes.weights(self.weights)

    def tested(self, least: int, families: Sequence[SliceFamily]) -> Iterator[FoundSlice]:
        """Slices of one and two conditions, each family's most significant first, except slices of
        nearly the same images as an earlier one. All are counted as tests. ``least``: images of a
        slice.
        """
        bad = self.outcomes.wrong
        wrong = np.bincount(self.outcomes.row[bad], self.weight[bad], len(self.images))
        errors = [pair_counts(self.conditions, half * wrong) for half in self.halves]
        *alone, first, second = families
        for of_word, family in enumerate(alone):
            family.tested += self._partitions(bool(of_word))
        slices = [self._found(alone[c.of_word], (c,)) for c in self._far(errors)]
        kept: list[FoundSlice] = []
        for condition in sorted(slices, key=_order):
            if (len(kept) < MOST or condition.p <= _ERROR) and _unlike(condition, kept):
                kept.append(condition)
        slices = []
        for half, family in enumerate((first, second)):
            pairs = [*self._pairs(half, errors[half], least)]
            family.tested += len(pairs)
            slices += [self._found(family, pair, self.halves[1 - half]) for pair in pairs]
        for condition in sorted(slices, key=_order):
            if _unlike(condition, kept):
                kept.append(condition)
        yield from kept

    def strata(self, conditions: Sequence[ImageCondition]) -> NDArray[np.integer[Any]] | None:
        """The sizes to compare within, None for a slice that is only about the size."""
        of_size = all(condition.name == self.task for condition in conditions)
        return None if of_size else self.outcomes.strata

    def _partitions(self, of_word: bool) -> int:
        """Number of conditions, or of words, counting one and its opposite once."""
        rows = [c.holds[self.images] for c in self.conditions if c.of_word == of_word]
        return len({np.packbits(row ^ row[0]).tobytes() for row in rows})

    def _found(
        self,
        family: SliceFamily,
        conditions: tuple[ImageCondition, ...],
        test: Booleans | None = None,
    ) -> FoundSlice:
        """The slice, compared with the rest of the images that test."""
        inside = np.logical_and.reduce(
            [self.images, *(condition.holds for condition in conditions)]
        )
        other = self.images & ~inside
        outcomes = self.outcomes
        used = slice(None) if test is None else test[outcomes.row]
        strata, groups = (
            None if of is None else of[used] for of in (self.strata(conditions), outcomes.groups)
        )
        condition = inside[outcomes.row]
        weights = None if self.weights is None else self.weight[used]
        gap_of = partial(rate_gap, condition=condition[used], strata=strata, groups=groups,
                         weights=weights)  # fmt: skip
        worst = gap = gap_of(outcomes.wrong[used])
        if outcomes.unknown.any():
            wrong = worst_case(outcomes.wrong, outcomes.unknown, condition)
            worst = gap_of(wrong[used])
        p = 1.0 if np.isnan(gap.p_more) else gap.p_more
        fewer = inside.sum() <= other.sum()
        weight = 1.0 if len(conditions) > 1 else _FEWER if fewer else 1 - _FEWER
        return FoundSlice(family, conditions, inside, other, gap, worst, p, weight)

    def _far(self, errors: Sequence[Floats]) -> Iterator[ImageCondition]:
        """Conditions whose error rate is far enough above the other images' rate."""
        support, hits = (np.diag(first) + np.diag(second) for first, second in (self.n, errors))
        wrong = self.outcomes.wrong @ self.weight
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = (wrong - hits) / (self.weight.sum() - support)
            far = hits / support - rest >= LEAST_DROP
        for index in np.flatnonzero(far).tolist():
            yield self.conditions[index]

    def _pairs(
        self, half: int, errors: Floats, least: int
    ) -> Iterator[tuple[ImageCondition, ImageCondition]]:
        """Pairs for testing that a half finds."""
        n, conditions = self.n[half], self.conditions
        here = self.halves[half][self.outcomes.row] * self.weight
        bad = here @ self.outcomes.wrong
        first, second = np.triu_indices(len(conditions), 1)
        names = np.unique([condition.name for condition in conditions], return_inverse=True)[1]
        allowed = (names[first] != names[second]) & (n[first, second] >= least / 2)
        allowed &= (self.n[0] + self.n[1])[first, second] >= least
        first, second = first[allowed], second[allowed]
        support, hits = n[first, second], errors[first, second]
        rest = (bad - hits) / np.maximum(here.sum() - support, 1)
        rates = hits / np.maximum(support, 1)
        alone = np.diag(errors) / np.maximum(np.diag(n), 1)
        parents = np.maximum(alone[first], alone[second])
        good = np.flatnonzero(rates - rest >= LEAST_DROP)
        low = wilson(rates[good], support[good].astype(np.int64))[0]
        # a second condition has to add something beyond chance
        adds = low > parents[good]
        good, lower = good[adds], (low - rest[good])[adds]
        masks: list[Booleans] = []
        for index in good[np.argsort(-lower, kind="stable")]:
            first_condition, two = conditions[first[index]], conditions[second[index]]
            inside = first_condition.holds & two.holds & self.images
            if any(_alike(inside, other) for other in masks):
                continue
            if _supported(inside, self.units) < least:
                continue
            masks.append(inside)
            yield first_condition, two
            if len(masks) == MOST:
                return


def _order(piece: FoundSlice) -> float:
    return piece.p / piece.weight


def _alike(mask: Booleans, other: Booleans) -> bool:
    return bool((mask & other).sum() / (mask | other).sum() > _ALIKE)


def _unlike(piece: FoundSlice, others: Sequence[FoundSlice]) -> bool:
    return not any(_alike(piece.inside, other.inside) for other in others)


_SCHEMA: dict[str, Any] = {
    "run": pl.String, "task": pl.String, "side": pl.String, "split": pl.String,
    "conditions": pl.List(pl.String), "about": pl.List(pl.String), "n": pl.Int64,
    "errors": pl.Int64, "rate": pl.Float64, "rate_low": pl.Float64, "rate_high": pl.Float64,
    "rate_rest": pl.Float64, "false_boxes": pl.Float64, "false_boxes_rest": pl.Float64,
    "n_test": pl.Int64, "errors_test": pl.Int64, "effect": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "p": pl.Float64, "p_adjusted": pl.Float64,
    "confirmed": pl.Boolean, "by_size": pl.Boolean, "of_boxes": pl.Boolean,
    "one_label": pl.Boolean, "phi": pl.String,
    "images": pl.List(pl.String),
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Slices(TabularResult):
    """Slices on which a model errs more often than by chance, and others that come close.

    Attributes:
        table: a row for each slice: its conditions, the class or column that each is ``about``;
            images, errors and error rate, with Wilson's interval, and the rate of the others; on
            the images that test it (all of them for one condition, of a pair the half that did not
            find it), images, errors, the ``effect`` (difference of the rates) with an interval, the
            one-sided p-value, and ``p_adjusted`` (Holm), both corrected for all slices tested.
            ``false_boxes`` and ``false_boxes_rest``: boxes of no object, per image, in images of
            the slice and in the others without the class, where boxes are matched; else null.
            ``confirmed``: the interval excludes 0, and ``p_adjusted`` is at most 0.05.
            ``by_size``: the test compares objects of the same size; ``of_boxes``: objects are
            counted. ``phi``: the slice as the
            expression of an attribute criterion (``nooch.Attribute``). ``images``: ids of some
            errors.
        settings: how they were searched, and how many were tested (JSON-like).
    """

    table: pl.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> str:
        """Numbers of slices tested, listed and confirmed."""
        tested = sum(self.settings.get("tested", {}).values())
        confirmed = self.table.filter("confirmed").height
        text = f"{tested:,} tested, {len(self):,} listed, {confirmed:,} confirmed"
        if not self.settings.get("columns_alone"):
            return text
        why = "labels exclude each other, so slices come from attribute columns"
        return f"{text}; {why}{'' if tested else ', and none can be tested: `add-attributes`'}"

    @property
    def display(self) -> DisplayTable:
        """The numbers, and below them the first slices in words."""
        columns = ["task", "side", "conditions", "n", "errors", "rate", "rate_rest", "effect",
                   "low", "high", "confirmed", "run"]  # fmt: skip
        conditions = pl.col("conditions").list.join(" and ")
        rows = self.table.with_columns(conditions).select(columns).rows()
        title = f"Slices({self.counts})"
        words = [name.replace("_", " ") for name in columns]
        notes = [*self.sentences(5), *self.to_collect]
        return DisplayTable(title, words, rows, left=3, notes=notes)

    @property
    def to_collect(self) -> list[str]:
        """A sentence on the confirmed slice with the most boxes of no object."""
        rows = self.table.filter("confirmed", pl.col("false_boxes") > 0)
        rows = rows.sort("false_boxes", descending=True, maintain_order=True).head(1)
        return [
            f"to collect: {images}: {false_box_words(row)} (phi: {row['phi']})"
            for row in rows.iter_rows(named=True)
            for images in [claims_in(row, condition_words(row["conditions"])).partition(" in ")[2]]
        ]

    def sentences(self, most: int = 10) -> list[str]:
        """The first slices in words, each run's name before them if there are several."""
        several = self.table["run"].n_unique() > 1
        rows = self.table.head(most).iter_rows(named=True)
        return [(f"{row['run']}: " if several else "") + _sentence(row) for row in rows]

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the table as ``.parquet``, ``.csv`` (with joined lists) or ``.json``. Raises as
        ``result_files``.
        """
        table, content = self.table, {"settings": self.settings, "slices": self.table.to_dicts()}
        if Path(path).suffix == ".csv":
            table = table.with_columns(
                pl.col("conditions").list.join(" and "), pl.col("about", "images").list.join(" ")
            )
        write_result(path, "slices file", table, content, overwrite=overwrite)


def _sentence(row: Mapping[str, Any]) -> str:
    more, where = len(row["conditions"]) > 1, condition_words(row["conditions"])
    held = "confirmed" if row["confirmed"] else "not confirmed"
    by_weight = row["n"] and not np.isclose(row["rate"], row["errors"] / row["n"])
    weighted = [f"{percent(row['rate'])} by weight"] if by_weight else []
    test = [f"{row['errors_test']} of {row['n_test']} on the test half"] if more else []
    if row["by_size"]:
        effect = row["effect"]
        points = "none to compare" if effect is None else f"{100 * effect:+.0f} points"
        test.append(f"{points} among objects of the same size")
    if row["side"] == "positive":
        what = f"{objects_of(row)} {where}: {row['errors']:,} of {row['n']:,} missed"
    else:
        claimed, _, images = claims_in(row, where).partition(" in ")
        what = f"{images}: {claimed} claimed in {row['errors']:,} of {row['n']:,}"
        test += filter(None, [false_box_words(row)])
    about = "; ".join([*weighted, *test, held])
    return f"{what[0].upper()}{what[1:]}, {100 * row['rate_rest']:.0f}% elsewhere ({about})"


@checked
def find_slices(
    data: Dataset | str | Path,
    predictions: Any,
    *,
    split: str | None = None,
    tasks: Sequence[str] | None = None,
    reading: Mapping[str, Any] | None = None,
    min_support: Annotated[int, Meta(ge=2)] = 10,
    sizes: Sequence[float] = (),
    captions: Sequence[str | Path] = (),
    image_properties: bool = False,
    images: str | Path | None = None,
    group: str | None = None,
    context: Sequence[str] = (),
    threshold: BoxThreshold | None = None,
    iou: Annotated[float, Meta(gt=0, le=1)] = IOU,
    progress: Progress = no_progress,
) -> Slices:
    """Search slices of one and two conditions on which a model errs more often than elsewhere.

    Conditions are presences, absences and large areas of classes, the size of the target and the
    position of its largest box (for positives), attribute columns and words of captions; they need
    not be context cues. Labels that exclude each other are not conditions. Each condition is tested
    on all images. Pairs of conditions are searched in each half of the images, which a hash of the
    id or group decides, and tested in the other; a pair is dropped if one of its conditions errs as
    often on its own, and a slice where another one has nearly the same images. The chance that
    anything is confirmed where nothing errs more often is 5%, over all runs, tasks and sides.
    Misses are tested within quartiles of the target's area, unless the slice is about its size.

    Args:
        data: the annotated images.
        predictions: see ``nooch.evaluate``.
        split: ``test`` by default, else ``valid``, else ``all``.
        tasks: names of tasks; by default all that have predictions.
        reading: how files of predictions are read: keywords of ``nooch.load_predictions``.
        min_support: minimum number of images (or groups) in a slice.
        sizes: borders of the target sizes whose misses are compared: ascending fractions of the
            image such as 0.01 and 0.1; by default its smallest and largest quarter and half.
        captions: files of captions, as for ``nooch captions``, or a column of text; by default
            the dataset's own. Words in the captions of at least 20 images are conditions, except
            the class's own names and words of grammar.
        image_properties: measure brightness, contrast, sharpness, saturation, entropy, aspect,
            megapixels and JPEG quality of the images; their quartiles are conditions.
        images: folder of the images, where the dataset records none.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the dataset's.
        context: attribute columns that are conditions, such as ``scanner,site``; by default the
            context of the suite, or every one that is neither the group nor like ids.
        threshold: score above which a detected box counts, as for ``nooch.check``.
        iou: least overlap of a box and the object it finds, as for ``nooch.check``.
        progress: called with what is being done, and how many of how many are done.

    Raises:
        InputError: see ``nooch.evaluate``.
        ParameterError: an unknown task, split or group.

    Examples:
        >>> slices = nooch.find_slices("data", "model.csv")
        >>> slices.table.select("phi", "errors_test", "n_test").row(0)
        ('present(car) AND NOT present(road)', 42, 78)
    """
    data = captioned(as_dataset(data).grouped(group).with_context(context), captions)
    split = checked_split(data, split)
    if (sizes and not 0 < sizes[0] <= sizes[-1] < 1) or sorted({*sizes}) != [*sizes]:
        problem = f"is {some_of(sizes)}"
        raise ParameterError(problem, where="`sizes`", allowed="ascending fractions of the image")
    if images is not None and not image_properties:
        problem = "`images` has no effect without `image_properties`"
        raise ParameterError(problem, give=({"image_properties": True}, {"images": None}))
    data, notes = measured(data, split, images, progress) if image_properties else (data, [])
    judged = judge_runs(
        predictions, data, split, tasks=tasks, reading=reading, threshold=threshold, iou=iou
    )
    data = judged.data or data
    names = predicted_tasks(judged.runs, data.classes, tasks, owner="the dataset", kind="class")
    if sizes and (not data.has_areas or {*names} & {*OF_ANY_CLASS}):
        problem = "`sizes` has no effect: the areas of what is predicted are unknown"
        raise ParameterError(problem, give={"sizes": None})
    judged = replace(judged, notes=[*judged.notes, *notes])
    return judged_slices(judged, names, min_support, progress, sizes)


def judged_slices(
    judged: JudgedRuns,
    tasks: Sequence[str],
    min_support: int = 10,
    progress: Progress = no_progress,
    sizes: Sequence[float] = (),
) -> Slices:
    """As ``find_slices``, of runs that are judged in a dataset."""
    part, data = judged.part, judged.data
    assert data is not None  # noqa: S101 - they have its part
    alone = judged.one_label
    stop_words = _stop_words(part)
    shared = HalvedConditions(ImageConditions(part, data, alone, stop_words, sizes), _half(part))
    families = slice_families(words=stop_words is not None)
    for task in tracked(tasks, len(tasks), "searching slices, tasks", progress):
        labeled, everything = judged.labeled(task)
        conditions = shared
        if labeled is not part:
            of_labeled = ImageConditions(labeled, data, alone, stop_words, sizes)
            conditions = HalvedConditions(of_labeled, _half(labeled))
        if len(labeled):
            _of_task(everything, judged, conditions, min_support, families)
    rows = [{"split": judged.split, **row} for family in families for row in family.judged()]
    table = pl.DataFrame(rows, schema=_SCHEMA).with_columns(pl.col(pl.Float64).fill_nan(None))
    # first the confirmed ones, by the lower end of their interval
    rank: dict[str, Any] = {"descending": [True, True], "nulls_last": True, "maintain_order": True}
    table = table.sort("confirmed", "low", **rank)
    place = pl.int_range(pl.len()).over("run", "task", "side", "confirmed")
    table = table.filter(pl.col("confirmed") | (place < MOST))
    tested = {family.name: family.tested for family in families}
    options = {"min_support": min_support, "group": data.group}
    return Slices(
        table,
        {"split": judged.split, "options": options, "columns_alone": alone, "tested": tested,
         "notes": unit_notes(data.group) + data.id_notes + [*judged.notes]},
    )  # fmt: skip


def _half(part: Dataset) -> Booleans:
    """One of the halves, bool (n_images,): a group's, independent of other images."""
    names = unit_names(part.images, part.group).cast(pl.String)
    return np.asarray(fold_numbers(names, 2) == 0)


def _stop_words(data: Dataset) -> frozenset[str] | None:
    """The words of the language of captions, by its share of their words; None without captions."""
    if data.captions is None:
        return None
    counts = Counter(chain.from_iterable(map(str.split, data.caption_words["words"])))
    known = [language_words(name).known for name in LANGUAGES]
    return max(known, key=lambda words: sum(counts[word] for word in words))


def _own_words(task: str) -> set[str]:
    """The words of a class's name and synonyms, and their plurals."""
    coco = load_vocabulary(COCO)
    phrases = [words for some in coco.phrases.values() for words, owner in some if owner == task]
    words = {*words_of(readable(task)), *chain.from_iterable(phrases)}
    return words | {word for one in words for word in words_of(plural(one))}


def _of_task(
    everything: ChallengeSet,
    judged: JudgedRuns,
    conditions: HalvedConditions,
    least: int,
    families: Sequence[SliceFamily],
) -> None:
    """The tests of a task, added to the families."""
    task, labels, data = everything.task, everything.labels, conditions.all.data
    sizes, groups, own = size_strata(data, everything), data.groups, _own_words(task)
    units = None if groups is None else unit_numbers(groups)
    for side, of_side in (("positive", labels), ("negative", ~labels)):
        missed = side == "positive"
        any_class = task in OF_ANY_CLASS
        known = conditions.all.of_task(task, target=missed and not any_class, own_words=own)
        known = [condition for condition in known if condition.name not in OF_ANY_CLASS]
        kept = _distinct(known, of_side, least, units)
        of_images = conditions.counts(kept, of_side) if kept else []
        for run in (run for run in judged.runs if kept and task in run.tasks):
            outcomes = outcomes_of(run, everything, side, sizes, units)
            weights, n = judged.weights(run, everything), of_images
            if weights is not None or (run.objects is not None and missed):
                each = np.bincount(outcomes.row, outcomes.weights(weights), len(of_side))
                n = [pair_counts(kept, half * each) for half in conditions.halves]
            slice_side = SliceSide(
                task, kept, of_side, outcomes, conditions.halves, n, units, weights
            )
            for piece in slice_side.tested(least, families):
                label = f"present({identifier(task)})"
                own_label = [] if any_class else [label if missed else f"NOT {label}"]
                phi = [*own_label, *(c.phi for c in piece.conditions)]
                row = {
                    "run": run.run, "task": task, "side": side, "phi": " AND ".join(phi),
                    "of_boxes": run.objects is not None, "one_label": conditions.all.columns_alone,
                }  # fmt: skip
                piece.family.found.append((piece, row | _counts(piece, slice_side, everything)))


def _distinct(
    conditions: Sequence[ImageCondition],
    side: Booleans,
    support: int,
    units: NDArray[np.int64] | None,
) -> list[ImageCondition]:
    """Conditions with enough images, or groups, on either side, each set of images once."""
    most = int(side.sum()) - 1
    kept: dict[bytes, ImageCondition] = {}
    for condition in conditions:
        holds = condition.holds & side
        if support <= _supported(holds, units) and np.count_nonzero(holds) <= most:
            kept.setdefault(np.packbits(holds).tobytes(), condition)
    return list(kept.values())


def _supported(inside: Booleans, units: NDArray[np.int64] | None) -> int:
    """Number of images, or of their groups."""
    return int(np.count_nonzero(inside)) if units is None else len(np.unique(units[inside]))


def _counts(piece: FoundSlice, side: SliceSide, everything: ChallengeSet) -> dict[str, Any]:
    """A row's values on all images of the slice."""
    outcomes = side.outcomes
    inside, other = piece.inside[outcomes.row], piece.other[outcomes.row]
    events, groups = outcomes.wrong[inside], outcomes.groups
    boxes = outcomes.false_boxes
    weight = None if side.weights is None else side.weight[inside]
    low, high = wilson_of_groups(events, None if groups is None else groups[inside], weight)
    wrong = piece.inside & outcomes.images_with_errors(len(everything))
    return {
        "conditions": [c.text for c in piece.conditions],
        "about": [c.name for c in piece.conditions], "n": len(events), "errors": int(events.sum()),
        **{name: float(np.average(outcomes.wrong[of], weights=side.weight[of]))
           if of.any() else None for name, of in (("rate", inside), ("rate_rest", other))},
        "rate_low": low, "rate_high": high,
        **{name: float(boxes[of].mean()) if boxes is not None and of.any() else None
           for name, of in (("false_boxes", inside), ("false_boxes_rest", other))},
        "by_size": side.strata(piece.conditions) is not None,
        "images": some_images(everything.image_ids, wrong),
    }  # fmt: skip
