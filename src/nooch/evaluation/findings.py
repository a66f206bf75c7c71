"""Findings: how much more often a model errs in a misleading context, in numbers and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress, no_progress, tracked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.words import counted, plural
from nooch.data import Dataset
from nooch.data.table_schema import check_split
from nooch.evaluation.answer_sample import AskedSample
from nooch.evaluation.boxes.matched import IOU
from nooch.evaluation.judged import JudgedRuns, judge_runs
from nooch.evaluation.metrics.pointwise import are_wrong, worst_case
from nooch.evaluation.metrics.proportions import wilson_of_groups
from nooch.evaluation.metrics.rate_gaps import rate_gap
from nooch.evaluation.predictions import Predictions, positions, predicted_tasks, values_of
from nooch.evaluation.rate_words import Rate, compared, context_words, error_words, in_full
from nooch.evaluation.scores import CONTEXT, ConditionVerdict, verdicts_on_tasks
from nooch.suites import ChallengeSet, Suite, as_suite
from nooch.suites.challenge_set import NO_CONTEXT

SMALLEST = 20
"""Images, or groups of them, in the misleading and in the usual context below which nothing is
concluded.
"""
VERDICTS = ("worse", "better", "no difference shown", "too few images to tell")

COLUMNS: dict[str, Any] = {
    "run": pl.String, "criterion": pl.String, "task": pl.String, "cue": pl.String,
    "side": pl.String, "split": pl.String, "n_misleading": pl.Int64, "n_usual": pl.Int64,
    "rate_misleading": pl.Float64, "rate_low": pl.Float64, "rate_high": pl.Float64,
    "rate_usual": pl.Float64, "effect": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "p": pl.Float64, "p_adjusted": pl.Float64, "by_size": pl.Boolean, "of_boxes": pl.Boolean,
    "one_label": pl.Boolean, "verdict": pl.String, "images": pl.List(pl.String), "phi": pl.String,
}  # fmt: skip
"""Columns of ``findings.parquet``. ``side`` is ``positive`` (objects that are missed) or
``negative`` (objects that are claimed); ``cue`` is null for the criterion as a whole; ``by_size``
means that the effect compares objects of similar size; ``of_boxes`` that objects are counted, and
images in which a box is of no object, instead of images; ``one_label`` that an image has one label;
``images`` are ids of some errors;
``phi`` is the condition of an attribute criterion."""
_SHOWN = 6


def adjusted_p(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """P-values adjusted by Benjamini and Hochberg, float64 (n,); scipy.stats takes a second."""
    order = np.argsort(p)[::-1]
    adjusted = np.empty(len(p))
    ranks = np.arange(len(p), 0, -1)
    adjusted[order] = np.minimum.accumulate(p[order] * (len(p) / ranks)).clip(0, 1)
    return adjusted


@dataclass(frozen=True, eq=False, repr=False)
class Findings(TabularResult):
    """Errors of a model that are due to the context.

    Attributes:
        table: a row for each run, criterion, task, cue and side, see ``COLUMNS``; first what is
            worse, by the lower end of the interval of its effect.
        settings: how it was computed (JSON-like).
    """

    table: pl.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> Self:
        """Adjust p-values by Benjamini and Hochberg (1995) over all rows with enough images, give
        each row its verdict, and rank them.
        """
        table = pl.DataFrame(
            [{"p_adjusted": None, "verdict": None, **row} for row in rows], schema=COLUMNS
        ).with_columns(pl.col(pl.Float64).fill_nan(None))
        enough = (pl.min_horizontal("n_misleading", "n_usual") >= SMALLEST) & pl.col(
            "p"
        ).is_not_null()
        judged = table.select(enough).to_series().to_numpy()
        adjusted = np.full(table.height, np.nan)
        if judged.any():
            adjusted[judged] = adjusted_p(table["p"].to_numpy()[judged])
        table = table.with_columns(p_adjusted=pl.Series(adjusted).fill_nan(None))
        shown, more = adjusted < 0.05, (table["effect"].fill_null(0) > 0).to_numpy()
        verdict = np.select(
            [~judged, shown & more, shown], [VERDICTS[i] for i in (3, 0, 1)], VERDICTS[2]
        )
        table = table.with_columns(verdict=pl.Series(verdict))
        rank = pl.col("verdict") != VERDICTS[0]
        return cls(
            table.sort(rank, pl.col("low"), descending=[False, True], nulls_last=True,
                       maintain_order=True),
            dict(settings),
        )  # fmt: skip

    @property
    def counts(self) -> str:
        """Numbers of rows with each verdict, in words."""
        return ", ".join(f"{self.table.filter(verdict=v).height:,} {v}" for v in VERDICTS)

    @property
    def display(self) -> DisplayTable:
        """The numbers, and below them the worst findings in words."""
        columns = ["task", "cue", "side", "n_misleading", "rate_misleading", "rate_usual", "effect",
                   "low", "high", "p_adjusted", "verdict", "criterion", "run"]  # fmt: skip
        words = [name.replace("_", " ") for name in columns]
        rows = self.table.select(columns).rows()
        title = f"Findings({self.counts})"
        return DisplayTable(title, words, rows, left=3, notes=self.sentences(5))

    @property
    def pairs(self) -> list[list[dict[str, Any]]]:
        """Rows of errors by context beyond chance, one finding per class and cue, the worst first
        and criteria as a whole last.
        """
        worse = self.table.filter(pl.col("verdict") == VERDICTS[0], pl.col("effect") > 0)
        # a cue describes the context in plainer words than the criterion as a whole
        by_cue = worse.filter(pl.col("cue").is_not_null())["task"].implode()
        worse = worse.filter(
            pl.col("cue").is_not_null()
            | pl.col("phi").is_not_null()
            | ~pl.col("task").is_in(by_cue)
        )
        groups: dict[tuple[str | None, ...], list[dict[str, Any]]] = {}
        for row in worse.iter_rows(named=True):
            groups.setdefault((row["task"], row["cue"], row["phi"]), []).append(row)
        return sorted(groups.values(), key=lambda rows: rows[0]["cue"] is None)

    def sentences(self, most: int = 10) -> list[str]:
        """The worst findings in words."""
        worse = self.table.filter(verdict=VERDICTS[0])
        rows = worse.head(most).iter_rows(named=True)
        return [in_full(sentence(row), rates_of(row), size_effect(row)) for row in rows]


def spread(places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most so many of the places, spread over all of them."""
    return places[np.linspace(0, len(places) - 1, min(most, len(places))).astype(np.intp)]


def some_images(ids: pl.Series, where: NDArray[np.bool_]) -> list[str]:
    """Ids of some of the images, as text, spread over all of them."""
    return ids[spread(np.flatnonzero(where), _SHOWN)].cast(pl.String).to_list()


def sentence(row: Mapping[str, Any]) -> str:
    """A finding in words: the model, what it misses or claims, how much more often, and both rates.

    ``row``: of ``Findings.table``.
    """
    points = row["effect"] if row["by_size"] else None
    return compared(errors_in(row), rates_of(row), points, row["task"])


def errors_in(row: Mapping[str, Any]) -> str:
    """The errors of a row in words: which model misses or claims what."""
    what, *_ = context_words(row)
    return error_words(row["run"], row["side"], what)


def rates_of(row: Mapping[str, Any]) -> tuple[Rate, Rate]:
    """The rates of a row in the misleading and in the usual context."""
    _, *where = context_words(row)
    low, high, of = row["rate_low"], row["rate_high"], unit_of(row)
    return (
        Rate(where[0], row["rate_misleading"], row["n_misleading"], low, high, of=of),
        Rate(where[1], row["rate_usual"] or 0.0, row["n_usual"], of=of),
    )


_RARE = 0.1


def unit_of(row: Mapping[str, Any]) -> str:
    """The word for what a row counts, if it is of boxes: rare claims are counted in images."""
    if row["side"] == "positive":
        return plural(row["task"]) if row["of_boxes"] else ""
    names = ("rate_misleading", "rate_usual", "rate", "rate_rest")
    rare = max(row.get(name) or 0.0 for name in names) < _RARE
    return "images" if row["of_boxes"] and rare else ""


def size_effect(row: Mapping[str, Any]) -> str:
    """The effect of a row for objects of the same size, in words, if they were compared."""
    if not row["by_size"] or row["effect"] is None:
        return ""
    return f"{100 * row['effect']:+.0f} points among {plural(row['task'])} of the same size"


_CUTS = (0.25, 0.5, 0.75)


def cue_findings(
    suite: Suite | str | Path,
    predictions: Any,
    *,
    data: Dataset | str | Path | None = None,
    split: str | None = None,
    tasks: Sequence[str] | None = None,
    reading: Mapping[str, Any] | None = None,
    threshold: float | str | None = None,
    iou: float = IOU,
    group: str | None = None,
    progress: Progress = no_progress,
) -> Findings:
    """Compare error rates in a misleading context with those in the usual one.

    Unknown answers are errors where the context misleads and right in the usual one, so that
    leaving out answers never makes an effect smaller.

    For positives (a miss is an error), a context cue misleads if it is absent: its area is below
    the criterion's threshold. For negatives (a claim is an error) it misleads if it is present.
    Of criteria without cues, hard images are compared with easy ones of the same side. The effect
    of positives compares objects of the same size, by quartiles of the target's area, because small
    objects are both harder and found in other contexts.

    Args:
        suite: with easy images.
        predictions: see ``nooch.evaluate``.
        data: the dataset that the suite was found in, for the areas; without it, or without areas,
            effects are not by size (``by_size``).
        split: ``test`` by default, or the suite's only one.
        tasks: names of tasks; by default all that have predictions.
        reading: how files of predictions are read: keywords of ``nooch.load_predictions``.
        threshold: score above which a detected box counts, as for ``nooch.check``.
        iou: least overlap of a box and the object it finds, as for ``nooch.check``.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the suite's.
        progress: called with what is being done, and how many of how many are done.

    Returns:
        a row for each run, criterion, task, cue (null for the criterion as a whole) and side.

    Raises:
        InputError: see ``nooch.evaluate``; a suite of only hard images; another dataset.
        ParameterError: an unknown task or split.

    Examples:
        >>> findings = nooch.cue_findings("suite", "model.csv")
        >>> findings.table.select("cue", "side", "n_misleading", "verdict").rows()
        [('road', 'positive', 78, 'worse'), ('road', 'negative', 101, 'worse')]
    """
    suite = as_suite(suite, group, data)
    suite.require_easy("comparing contexts")
    data = None if data is None else suite.require_dataset(data)
    (split,) = suite.splits_to_score(split)
    judged = judge_runs(
        predictions, data, split, suite=suite, reading=reading, threshold=threshold, iou=iou
    )
    names = predicted_tasks(judged.runs, suite.tasks, tasks, owner="the suite")
    keys = [(criterion, task, split) for task in names for criterion in suite.criteria]
    return compare_contexts(suite, judged, keys, progress)


def compare_contexts(
    suite: Suite,
    judged: JudgedRuns,
    keys: Sequence[tuple[str, str, str]],
    progress: Progress = no_progress,
) -> Findings:
    """As ``cue_findings``, of (criterion, task, split), all of one split."""
    suite.require_easy("comparing contexts")
    runs = judged.runs
    asked = AskedSample.from_runs(suite, runs, [key for key in keys if key in suite.keys])
    sample, rows = asked.suite, list[dict[str, Any]]()
    for key in tracked(keys, len(keys), "comparing contexts, sets", progress):
        if key in sample.keys:
            challenge = sample.set(*key)
            rows += _of_set(suite, challenge, judged, asked.weights_of(challenge))
    tasks = [*dict.fromkeys(task for _, task, _ in keys)]
    settings = {"split": keys[0][2], "tasks": tasks, "runs": [run.run for run in runs]}
    return Findings.from_rows(_said_once(rows), settings)


def judged_contexts(
    findings: Sequence[Findings], runs: Sequence[Predictions]
) -> list[ConditionVerdict]:
    """The condition ``context`` of ``fail_if`` on each of the runs and each task of the findings,
    one for each split, which is met if there are some.
    """
    judged = {}
    for of_split in findings:
        enough = of_split.table.filter(pl.col("verdict") != VERDICTS[3])
        for run, task, split in enough.select("run", "task", "split").unique().rows():
            found = Findings(of_split.table.filter(run=run, task=task)).pairs
            worst = "".join(f": {sentence(rows[0])}" for rows in found[:1])
            judged[run, task, split] = len(found), counted(len(found), "finding") + worst
    places = [
        (task, each.settings["split"]) for each in findings for task in each.settings["tasks"]
    ]
    return verdicts_on_tasks(CONTEXT, judged, {run.run: run.tasks for run in runs}, places)


def _said_once(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the cues of a criterion that an earlier one also has."""
    seen: dict[tuple[Any, ...], str] = {}
    kept = []
    for row in rows:
        key = tuple(row[name] for name in ("run", "task", "side", "cue"))
        if row["cue"] is None or seen.setdefault(key, row["criterion"]) == row["criterion"]:
            kept.append(row)
    return kept


def checked_split(data: Dataset, split: str | None) -> str:
    """The split to look at: the one asked for, else test, valid or all, whichever comes first."""
    if split is None:
        split = next((s for s in ("test", "valid", "all") if s in data.splits), None)
    return check_split(split, data.splits)


SIDES = ("positive", "negative")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Errors of a run on one side of a set: of images; or where boxes are matched, of each object
    that can be missed.

    Attributes:
        wrong: bool (n,); what is ``unknown``, bool (n,), counts as wrong.
        row: row in the set of the image, intp (n,).
        strata: of the object's size, integers (n,); None where it is not compared.
        groups: integers (n,), outcomes that are alike; None where each is one.
        false_boxes: int64 (n,), boxes of no object in each image; or None, where none is matched.
    """

    wrong: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    row: NDArray[np.intp]
    strata: NDArray[np.integer[Any]] | None
    groups: NDArray[np.integer[Any]] | None
    false_boxes: NDArray[np.int64] | None = None

    def weights(self, of_images: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """The weight of each outcome, float64 (n,): its image's, or 1 where images have none."""
        return np.ones(len(self.row)) if of_images is None else of_images[self.row]

    def images_with_errors(self, n: int) -> NDArray[np.bool_]:
        """Images of the set in which anything is wrong, bool (n,)."""
        return np.bincount(self.row[self.wrong], minlength=n) > 0


def outcomes_of(
    run: Predictions,
    challenge: ChallengeSet,
    side: str,
    sizes: NDArray[np.intp] | None = None,
    units: NDArray[np.int64] | None = None,
) -> Outcomes:
    """The outcomes of a run; ``sizes`` of the images' largest objects as ``size_strata``;
    ``units``: the numbers of the images' groups, int64 (n,); None: each image is one.
    """
    is_missed = side == SIDES[0]
    of_side = challenge.labels if is_missed else ~challenge.labels
    at, ids = np.empty(0, np.int64), challenge.image_ids
    if run.objects is not None:
        at = positions(run.image_ids.cast(ids.dtype, strict=False), ids)
        at = np.where((at >= 0) & of_side[at], at, -1)
    if run.objects is None or not is_missed:
        row = np.flatnonzero(of_side)
        values = values_of(run, challenge)
        wrong = are_wrong(challenge.labels, values, run.scale)[row]
        strata = sizes[row] if sizes is not None and is_missed else None
        groups = None if units is None else units[row]
        false = None
        if run.objects is not None:
            image = run.objects.false_of(run.tasks.index(challenge.task), at)
            false = np.bincount(image, minlength=len(ids))[row]
        return Outcomes(wrong, np.isnan(values)[row], row, strata, groups, false)
    missed, row, size = run.objects.missed(run.tasks.index(challenge.task), at)
    known = np.zeros(len(row), np.bool_)
    strata = None if run.boxes is None else size
    return Outcomes(missed, known, row, strata, row if units is None else units[row])


def errors_of(run: Predictions, challenge: ChallengeSet) -> NDArray[np.bool_]:
    """Mask of images where a run's answer is not the label, bool (n,): positive where logit > 0, or
    probability > 0.5; where boxes are matched, any object is missed.
    """
    by_side = [outcomes_of(run, challenge, side) for side in SIDES]
    return np.logical_or(*(each.images_with_errors(len(challenge)) for each in by_side))


def size_strata(data: Dataset | None, challenge: ChallengeSet) -> NDArray[np.intp] | None:
    """Quartile of the target's area among the set's positives, 0 to 3, and 4 if it is unknown;
    intp (n,), or None where no area is known.
    """
    if data is None or not data.has_areas:
        return None
    rows = positions(challenge.image_ids, data.images["image_id"])
    areas = data.area(challenge.task, unknown=np.nan)[rows]
    labeled = challenge.labels & ~np.isnan(areas)
    if not labeled.any():
        return None
    cuts = np.quantile(areas[labeled], _CUTS)
    return np.where(np.isnan(areas), len(cuts) + 1, np.searchsorted(cuts, areas, side="right"))


def misleading_contexts(
    suite: Suite, challenge: ChallengeSet
) -> list[tuple[str | None, NDArray[np.bool_]]]:
    """Images of a set whose context misleads, bool (n,): by the criterion as a whole (None), then
    by each of its cues; all of them if there is no context.
    """
    if challenge.criterion == NO_CONTEXT:
        return [(None, np.ones(len(challenge), np.bool_))]
    record = suite.header.criteria[challenge.criterion]
    cues = [cue for cue, _ in record.cues.get(challenge.task, [])]
    misleading: list[tuple[str | None, NDArray[np.bool_]]] = [(None, challenge.hard)]
    if challenge.by_cue is not None:
        misleading += [
            (cue, (challenge.by_cue >> np.uint64(bit)) & np.uint64(1) > 0)
            for bit, cue in enumerate(cues[:64])
        ]
        if len(cues) == 1:
            # the cue describes it in plainer words
            del misleading[0]
    return misleading


def phi_of_set(suite: Suite, challenge: ChallengeSet) -> str | None:
    """The condition of the set's criterion, if it is an attribute criterion of context."""
    record = suite.header.criteria[challenge.criterion]
    has_phi = record.kind == "attribute" and challenge.criterion != NO_CONTEXT
    return record.parameters["phi"] if has_phi else None


def _of_set(
    suite: Suite, challenge: ChallengeSet, judged: JudgedRuns, weights: NDArray[np.float64] | None
) -> Iterator[dict[str, Any]]:
    """Rows of one set: of the criterion as a whole, then of each of its cues. ``weights``: of its
    images, None where they are equal.
    """
    misleading, phi = misleading_contexts(suite, challenge), phi_of_set(suite, challenge)
    sizes, units = size_strata(judged.data, challenge), suite.units(challenge.image_ids)
    for run in judged.runs:
        if challenge.task not in run.tasks:
            continue
        for side in SIDES:
            outcomes = outcomes_of(run, challenge, side, sizes, units)
            wrong = outcomes.images_with_errors(len(challenge))
            for cue, condition in misleading:
                yield {
                    "run": run.run,
                    "criterion": challenge.criterion,
                    "task": challenge.task,
                    "cue": cue,
                    "side": side,
                    "split": challenge.split,
                    **_gap(outcomes, condition[outcomes.row], weights),
                    "of_boxes": run.objects is not None,
                    "one_label": judged.one_label,
                    "images": some_images(challenge.image_ids, condition & wrong),
                    "phi": phi,
                }


def _gap(
    outcomes: Outcomes, condition: NDArray[np.bool_], of_image: NDArray[np.float64] | None
) -> dict[str, Any]:
    wrong, groups = worst_case(outcomes.wrong, outcomes.unknown, condition), outcomes.groups
    weights = None if of_image is None else of_image[outcomes.row]
    gap = rate_gap(wrong, condition, outcomes.strata, groups, weights=weights)
    low, high = wilson_of_groups(
        outcomes.wrong[condition],
        None if groups is None else groups[condition],
        None if weights is None else weights[condition],
    )
    few = groups is not None and any(
        len(np.unique(groups[side])) < SMALLEST for side in (condition, ~condition)
    )
    return {
        "n_misleading": gap.n_with, "n_usual": gap.n_without, "rate_misleading": gap.rate_with,
        "rate_low": low, "rate_high": high, "rate_usual": gap.rate_without,
        "effect": gap.effect, "low": gap.low, "high": gap.high,
        # many objects of a few images, or many images of a few groups, say little
        "p": np.nan if few else gap.p,
        "by_size": outcomes.strata is not None,
    }  # fmt: skip
