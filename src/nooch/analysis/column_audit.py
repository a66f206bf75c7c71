"""Columns such as the site: do labels depend on them, do features show them, does it cost errors?

Of a column c, a task's labels y and features x, with folds and resamples that keep groups together:

    label      AUC of y by P(y | c) of the other folds       can y be read from only c?
    features   AUC of c by x within y = 0 and within y = 1   can c be read from the image?
    drop       balanced error of heads that saw no image with the same value of c, less the one
               of heads that saw as many images without regard to c, on the same images

``word_of`` makes one word of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from nooch.analysis.repair import one_run
from nooch.analysis.validity import TableInWords
from nooch.base.calls import Progress, Seed, checked, no_progress, tracked
from nooch.base.display import DisplayTable
from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.limits import limited_threads
from nooch.base.words import counted, plural, readable, unit_notes
from nooch.criteria.conditions import MOST_VALUES
from nooch.criteria.phi import KINDS
from nooch.data import Dataset, as_dataset
from nooch.data.readers.table_layouts import YES_NO
from nooch.data.splits import unit_numbers
from nooch.data.table_schema import is_id
from nooch.evaluation import Predictions, run_notes
from nooch.evaluation.bootstrap import FEWEST, BootstrapDraws, auc_interval
from nooch.evaluation.findings import errors_of
from nooch.evaluation.judged import judge_runs, known_labels
from nooch.evaluation.metrics.proportions import (
    effective_number,
    holm,
    paired_interval,
    student,
)
from nooch.evaluation.metrics.rate_gaps import rate_gap
from nooch.evaluation.metrics.subset_metrics import Ranking, SubsetAreas
from nooch.evaluation.predictions import positions, predicted_tasks
from nooch.evaluation.scores import Resamples
from nooch.models.caches.features import given_features
from nooch.suites import ChallengeSet
from nooch.training.last_layers import logistic_head

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Measured = tuple[float | None, float | None, float | None]
"""A value and its 95% interval."""

INFLATED, CONFOUNDED, CLEAN, TOO_FEW = "INFLATED", "CONFOUNDED", "CLEAN", "TOO FEW"
WORDS = (INFLATED, CONFOUNDED, CLEAN, TOO_FEW)
"""The first one that fits is used."""
SURE = 0.01
"""Largest p, by Holm, of a confounded column."""
LARGEST_AUC, LARGEST_DROP = 0.6, 0.03
"""Below these are both intervals of a clean column."""
_FOLDS = 5
_SHUFFLES, _BATCH, _ENOUGH = 1000, 100, 20
"""Shuffles, at a time; they end once so many reach the AUC (Besag and Clifford 1991)."""
_LEAST = 1e-6
"""Least p that a normal distribution is trusted with."""
_STRENGTH = 0.01
"""C of heads on standardized features."""
_TIE = 1e-12
"""AUCs that differ only by rounding are equal."""
_YES = {"1.0", "positive", "present", *(present for _, present in YES_NO)}
_NONE: Measured = (None, None, None)


@dataclass(frozen=True, eq=False)
class AuditedColumn:
    """A column as values of images.

    Attributes:
        name: of the column.
        code: number of each image's value, int64 (n,); -1: it has none.
        values: the values in words.
        note: how numbers were divided.
    """

    name: str
    code: Integers
    values: Sequence[str]
    note: str | None = None

    @classmethod
    def of(cls, data: Dataset, part: Dataset, name: str) -> AuditedColumn:
        """A column of a dataset, in a part of its images. Raises ParameterError or InputError for
        an unknown one, and for one that cannot be audited.
        """
        check_one_of("column", name, data.attributes, owner="the dataset")
        values, where = part.images[name], f"column {name}"
        if values.dtype.base_type() not in KINDS:
            allowed = "numbers, text, Booleans, dates and times"
            raise InputError(f"has the type {values.dtype}", where=where, allowed=allowed)
        if name == data.group:
            problem = "images are grouped by it, so that no fold has a value of another one"
            raise ParameterError(problem, where=where, allowed="a column of several groups")
        if values.dtype.is_float() or values.dtype.is_decimal():
            values = values.cast(pl.Float64).fill_nan(None)
        n = values.drop_nulls().n_unique()
        if is_id(values):
            problem = f"has {n} values of {values.count()} images, so it is like an id"
            raise InputError(problem, where=where, allowed="values that many images share",
                             remedy="audit other columns: {}; if its images are alike, also {}",
                             give=({"columns": ...}, {"group": name}))  # fmt: skip
        if n < 2:
            problem = f"has {counted(n, 'value')} in {counted(len(part), 'image')}"
            raise InputError(problem, where=where, allowed="at least two values")
        if n <= MOST_VALUES or not values.dtype.is_numeric():
            known = values.drop_nulls().unique().sort()
            place = values.replace_strict(known, range(n), default=-1, return_dtype=pl.Int64)
            return cls(name, place.to_numpy(), [str(value) for value in known])
        numbers = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
        cuts = np.unique(np.nanquantile(numbers, [0.25, 0.5, 0.75]))
        # with many equal numbers a quarter may be empty
        quarter = np.searchsorted(cuts, numbers)
        used = np.unique(quarter[~np.isnan(numbers)])
        code = np.where(np.isnan(numbers), -1, np.searchsorted(used, quarter))
        text = f"{name} has {n} numbers, which are divided at {some_of(f'{x:.4g}' for x in cuts)}"
        return cls(name, code, [f"quarter {q + 1}" for q in used], text)


@dataclass(frozen=True, eq=False)
class Case:
    """Images whose label and value of a column are known.

    Attributes:
        labels: bool (n,).
        code: number of each image's value, from 0 on, int64 (n,).
        unit: number of each image's group, int64 (n,); ``grouped``: some have several images.
        seed: of folds and shuffles.
    """

    labels: Booleans
    code: Integers
    unit: Integers
    grouped: bool
    seed: int

    @property
    def few(self) -> str | None:
        """Why there is no interval: fewer than ``FEWEST`` groups of a label; None: there is."""
        n = self.sizes
        what = "groups" if self.grouped else "images"
        return f"{n.min()} {what} of a label; {FEWEST} are needed" if n.min() < FEWEST else None

    @property
    def sizes(self) -> Integers:
        """Groups with a positive, and with a negative, int64 (2,)."""
        return np.array([len(np.unique(self.unit[self.labels == y])) for y in (True, False)])

    def folds(self, target: NDArray[Any], rows: NDArray[np.intp]) -> Integers:
        """Number of each row's fold, int64 (n_rows,): each has as much of every target."""
        splitter = StratifiedGroupKFold if self.grouped else StratifiedKFold
        fold, places = np.empty(len(rows), np.int64), np.zeros(len(rows))
        plan = splitter(_FOLDS, shuffle=True, random_state=self.seed)
        groups = self.unit[rows] if self.grouped else None
        for number, (_, own) in enumerate(plan.split(places, target, groups)):
            fold[own] = number
        return fold

    def rates(self, code: Integers, fold: Integers) -> tuple[Floats, Floats]:
        """Share of positives of each image's value in the other folds, and the AUC within folds,
        for many columns: float64 (k, n) and (k,). ``code``: int64 (k, n).

        Half an image of the mean label is added to each value, so that one without images in the
        other folds is neutral.
        """
        k, v = len(code), int(self.code.max()) + 1
        cell = ((np.arange(k)[:, None] * _FOLDS + fold) * v + code) * 2 + self.labels
        n = np.bincount(cell.ravel(), minlength=k * _FOLDS * v * 2).reshape(k, _FOLDS, v, 2)
        rest = (n.sum(axis=1, keepdims=True) - n).astype(np.float64)
        base = rest[..., 1].sum(axis=2, keepdims=True) / rest.sum(axis=(2, 3))[..., None]
        rate = (rest[..., 1] + base / 2) / (rest.sum(axis=3) + 0.5)
        wins = np.sign(rate[..., :, None] - rate[..., None, :]) / 2 + 0.5
        caught = np.einsum("kfv,kfvu,kfu->k", n[..., 1], wins, n[..., 0])
        pairs = n.sum(axis=2).prod(axis=2).sum(axis=1)
        at = np.arange(k)[:, None], fold, code
        with np.errstate(invalid="ignore"):
            return rate[at] - base[at[0], at[1], 0], caught / pairs

    def shuffled(self, random: np.random.Generator) -> Integers:
        """The values with groups shuffled, int64 (n,): a group gets the value of another one; of
        groups with several values, the values of as many images that follow each other by group.
        """
        n = int(self.unit.max()) + 1
        place, order = random.permutation(n), np.argsort(self.unit, kind="stable")
        first = np.empty(n, np.int64)
        first[self.unit] = self.code
        if np.array_equal(first[self.unit], self.code):
            return first[place[self.unit]]
        code = np.empty_like(self.code)
        code[np.argsort(place[self.unit], kind="stable")] = self.code[order]
        return code

    def chance(self, area: float, fold: Integers) -> float:
        """The p of an AUC: the share of shuffled columns that reach it; if none does, at most what
        a normal distribution of theirs has beyond it on both sides.
        """
        random, areas = np.random.default_rng(self.seed), np.empty(0)
        while len(areas) < _SHUFFLES and (areas >= area).sum() < _ENOUGH:
            code = np.stack([self.shuffled(random) for _ in range(_BATCH)])
            areas = np.append(areas, self.rates(code, fold)[1])
        p = (1 + (areas >= area - _TIE).sum()) / (1 + len(areas))
        if p * (1 + len(areas)) < 2 and areas.std() > 0:
            p = min(p, max(_LEAST, 2 * ndtr((areas.mean() - area) / areas.std())))
        return float(p)


def mean_area(
    parts: Sequence[tuple[Booleans, Floats, Sequence[Booleans]]],
    weights: Sequence[Floats],
    sizes: Integers,
) -> Measured:
    """The mean AUC of parts, each weighted by its pairs of a positive and a negative.

    ``parts``: labels (n,), scores (n,) and the masks (n,) of its subsets; ``weights``: of each
    part, how often the resamples draw its images, float64 (n, k); ``sizes``: groups with a
    positive, and a negative, (2,).
    """
    areas, pairs = [], []
    for (labels, scores, masks), drawn in zip(parts, weights, strict=True):
        ranking = Ranking.from_scores(labels, scores)
        made = SubsetAreas(ranking, [mask[ranking.order] for mask in masks])
        areas.append(made(np.column_stack([np.ones(len(labels)), drawn]))[0])
        pairs += [labels[mask].sum() * (~labels[mask]).sum() for mask in masks]
    values, share = np.concatenate(areas), np.array(pairs, np.float64)[:, None]
    share = np.where(np.isnan(values), 0.0, share)
    with np.errstate(invalid="ignore"):
        means = (np.nan_to_num(values) * share).sum(axis=0) / share.sum(axis=0)
    if np.isnan(means[0]):
        return _NONE
    low, high = auc_interval(means[:1], means[None, 1:], sizes[:, None])
    return float(means[0]), float(low[0]), float(high[0])


def held_out_errors(
    features: NDArray[np.float32], case: Case, random: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Integers]:
    """Errors of heads in images that they were not trained on, bool (3, n): of heads that saw no
    group with an image's value; and, twice, of heads that saw as many images of each label, with
    others of this value. Which of the three are known, bool (3, n), and the random half of each
    image, whose heads it has in common with the images of its value, int64 (n,).
    """
    n_units = int(case.unit.max()) + 1
    wrong, known = np.zeros((2, 3, len(case.unit)), bool)
    half = random.integers(0, 2, n_units)[case.unit]

    def fit(which: int, rest: Booleans, own: Booleans) -> None:
        if own.any() and 0 < case.labels[rest].sum() < rest.sum():
            head = logistic_head(features[rest], case.labels[rest], penalty="l2", C=_STRENGTH,
                                 class_weight="balanced")  # fmt: skip
            claimed = features[own] @ head[:-1] + head[-1] > 0
            wrong[which, own], known[which, own] = claimed != case.labels[own], True

    for value in range(int(case.code.max()) + 1):
        own = case.code == value
        outside = ~np.isin(case.unit, case.unit[own])
        fit(0, outside, own)
        for side, which in product((0, 1), (1, 2)):
            tested, kept = own & (half == side), np.zeros(len(case.unit), bool)
            order = random.permutation(n_units)[case.unit].argsort(kind="stable")
            order = order[~np.isin(case.unit[order], case.unit[tested])]
            for label in (False, True):
                most = int((case.labels[outside] == label).sum())
                kept[order[case.labels[order] == label][:most]] = True
            fit(which, kept, tested)
    return wrong, known, half


def drop_of(wrong: Booleans, case: Case, half: Integers) -> tuple[Floats, Measured]:
    """Balanced error rates of the three heads, float64 (3,), and the drop: the first one's less
    the mean of the others.

    The interval is for paired differences, of fewer images by what heads differ by chance,
    which the other two show: a head's errors have it in common. The first head is one for both
    halves of a value, whose chance adds up; the others' is averaged.

    ``wrong``, ``half``: as of ``held_out_errors``, of images of which all is known.
    """
    positive, n = case.labels.sum(), len(case.labels)
    weight = np.where(case.labels, 1 / positive, 1 / (n - positive)) / 2
    errors = wrong.astype(np.float64)
    change = errors[0] - errors[1:].mean(axis=0)
    up, down = weight @ np.maximum(change, 0), weight @ np.maximum(-change, 0)
    number = effective_number(change, case.unit, weight * n)
    cell, apart = 2 * case.code + half, weight * (errors[1] - errors[2])
    by_unit = np.bincount(np.unique(np.stack([cell, case.unit]), axis=1, return_inverse=True)[1],
                          apart)  # fmt: skip
    # what they differ by in single images, or groups, is in the number already
    by_chance = max(0.0, (np.bincount(cell, apart) ** 2).sum() - (by_unit**2).sum())
    gap = up - down
    # a value and half shows it once
    wider = student(np.ones(cell.max() + 2)) / ndtri(0.975)
    variance = (weight @ change**2 - gap**2) / number + 1.25 * wider**2 * by_chance
    if variance > 0:
        number = (up + down - gap**2) / variance
    low, high = paired_interval(np.array(up), np.array(down), np.array(number))
    return errors @ weight, (float(up - down), float(low), float(high))


def word_of(row: Mapping[str, Any]) -> str:
    """The word for a row of ``ColumnAudit.table``: the first of ``WORDS`` whose rule is met."""
    label_low, label_high, apparent, drop_low, drop_high = (
        np.nan if row[name] is None else row[name]
        for name in ("label_low", "label_high", "label_apparent", "drop_low", "drop_high")
    )
    if label_low > 0.5 and row["p_adjusted"] <= SURE:
        return INFLATED if drop_low > 0 else CONFOUNDED
    # by few images of a value the other folds say the opposite, and their AUC is too low
    is_clean = max(label_high, apparent) < LARGEST_AUC and drop_high < LARGEST_DROP
    return CLEAN if is_clean else TOO_FEW


_MEASURES = ("label", "features", "drop", "model")
_SCHEMA: dict[str, Any] = {
    "column": pl.String, "task": pl.String, "word": pl.String, "n": pl.Int64,
    "n_groups": pl.Int64, "values": pl.Int64,
    **{name + end: pl.Float64 for name in _MEASURES for end in ("", "_low", "_high")},
    "label_apparent": pl.Float64, "error": pl.Float64, "error_held_out": pl.Float64,
    "p": pl.Float64, "p_adjusted": pl.Float64, "reason": pl.String,
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class ColumnAudit(TableInWords):
    """Labels that columns predict, and the errors that this causes.

    Attributes:
        table: a row for each column and task, each measure with the ends of its 95% interval,
            ``_low`` and ``_high``. ``label``: AUC of the label by the column's value, cross-fitted,
            within folds; ``label_apparent``: by all images, never too low; ``p``: share of columns
            with shuffled groups that have as large an AUC, and ``p_adjusted`` (Holm) over all rows.
            ``features``: AUC of the column's values by the features, cross-fitted, among images of
            the same label. ``drop``: ``error_held_out``, the mean of the error rates of positives
            and negatives by heads that saw no image with the same value, less ``error``, by heads
            that saw as many images with others of this value. ``model``, where the interval of
            ``label`` is above 0.5: error rate of the predictions where the column speaks against
            the label, less elsewhere. ``word``: one of ``WORDS``; ``reason``: what could not be
            measured, and why. ``n`` images, ``n_groups`` groups of them, different ``values``.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    notes: Sequence[str] = ()
    kind = "columns"

    @property
    def display(self) -> DisplayTable:
        """The numbers, and below them the rows in words."""
        measures = [name for name in _MEASURES if self.table[name].count()]
        rows = [
            [*(row[name] for name in ("column", "task", "word")),
             *(_measured(row, name, 1, 2) for name in measures), row["p_adjusted"], row["n"]]
            for row in self.table.iter_rows(named=True)
        ]  # fmt: skip
        counts = {word: self.table.filter(word=word).height for word in WORDS}
        title = f"ColumnAudit({', '.join(f'{n} {word}' for word, n in counts.items() if n)})"
        names = ["column", "task", "word", *measures, "p adjusted", "n"]
        return DisplayTable(title, names, rows, left=3, notes=[*self.sentences(), *self.notes])

    def sentences(self, most: int = 10) -> list[str]:
        """The first rows in words, and what to do."""
        return [_sentence(row) for row in self.table.head(most).iter_rows(named=True)]


def _measured(row: Mapping[str, Any], name: str, scale: int, digits: int) -> str | None:
    """A measure and its interval, times ``scale``: "0.91 [0.88, 0.94]"."""
    if row[f"{name}_low"] is None:
        return None
    low, high = sorted(scale * row[name + end] for end in ("_low", "_high"))
    # 0.0 is added to what rounds to -0.0
    value, low, high = (
        f"{round(x, digits) + 0.0:.{digits}f}" for x in (scale * row[name], low, high)
    )
    return f"{value} [{low}, {high}]"


def _points(row: Mapping[str, Any], name: str) -> str:
    """The distance from 0 in points: "12 points [8, 16]"."""
    scale = -100 if row[name] < -0.005 else 100
    value, interval = str(_measured(row, name, scale, 0)).split(" ", 1)
    return f"{value} point{'' if value == '1' else 's'} {interval}"


def _below(row: Mapping[str, Any]) -> str:
    """Why an AUC is below 0.5, if it is: other folds tell the opposite of the labels."""
    if row["label_high"] >= 0.5:
        return ""
    like = row["label_apparent"] < LARGEST_AUC
    why = "have like shares of positives" if like else "are too few times in the data"
    return f", below 0.5 since values {why}"


def _sentence(row: Mapping[str, Any]) -> str:
    column, word, several = readable(row["column"]), row["word"], plural(readable(row["column"]))
    parts = []
    if (area := _measured(row, "label", 1, 2)) is not None:
        words = {CLEAN: "cannot be read", TOO_FEW: "is not shown to be readable"}
        what = words.get(word, "can be read")
        parts.append(f"{row['task']} {what} from the {column} alone (AUC {area}{_below(row)})")
    if (area := _measured(row, "features", 1, 2)) is not None:
        can = "tell" if row["features_low"] > 0.5 else "do not tell"
        parts.append(f"features {can} {several} apart within a label (AUC {area})")
    if row["drop_low"] is not None:
        verb = "gains" if row["drop"] < -0.005 else "loses"
        parts.append(f"on {several} left out, the model {verb} {_points(row, 'drop')}")
    if row["model_low"] is not None:
        more = "more" if row["model"] >= 0 else "fewer"
        parts.append(f"its predictions err {_points(row, 'model')} {more} where the {column} speaks"
                     " against the label")  # fmt: skip
    if row["reason"]:
        parts.append(row["reason"])
    advice = {
        INFLATED: f"split by {column} (`group` {row['column']}), so that errors are those on new"
        f" {several}, and collect both labels with each",
        CONFOUNDED: f"collect images of both labels for each {column}, and compare within each",
        TOO_FEW: "more images are needed to tell" if not row["reason"] else "",
    }.get(word)
    return f"{column}: {'; '.join(parts)}: {word}{f'. To do: {advice}' if advice else ''}"


@checked
def audit_columns(
    data: Dataset | str | Path,
    predictions: Any = None,
    *,
    columns: Sequence[str],
    features: Any = None,
    split: str | None = None,
    tasks: Sequence[str] | None = None,
    group: str | None = None,
    bootstrap: Annotated[Resamples, Meta(ge=100)] = 1000,
    seed: Seed = 0,
    reading: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> ColumnAudit:
    """Test whether columns such as site or scanner predict labels, whether features show them, and
    how much a model loses on values that it was not trained on.

    Heads are logistic regressions on standardized features, with both labels weighted alike. Words:
    ``CONFOUNDED``: the interval of the label's AUC is above 0.5, and the AUC is larger than for
    columns with shuffled groups (p at most .01 by Holm over all rows); ``INFLATED``: also the
    interval of the drop is above 0; else ``CLEAN``: the interval of the AUC is below 0.6, and the
    AUC by all images, and the interval of the drop is below 3 points; else ``TOO FEW``.

    Args:
        data: the annotated images.
        predictions: one run, whose errors are compared where the column speaks against the label
            and elsewhere; see ``nooch.evaluate``.
        columns: columns to audit; numbers of more than 20 values are divided at their quartiles.
        features: features of all images, as for ``nooch.repair``, or the name of an embedding of
            the dataset; by default its only one. Without any, only the label's AUC is measured, and
            no column is clean.
        split: only its images; by default all.
        tasks: classes; by default those that have predictions, or all.
        group: column, or pattern of file names, of images that count as one, such as ``patient``,
            and are left out together; by default the dataset's.
        bootstrap: resamples for intervals, at least 100.
        seed: of folds, shuffles, draws and resamples.
        reading: how files of predictions are read: keywords of ``nooch.load_predictions``; ``ids``
            also name the rows of features in an ``.npy`` or ``.npz``.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        InputError: a column with one value, with values like ids, or with the label; what
            ``nooch.evaluate`` or ``nooch.repair`` refuse of predictions and features.
        ParameterError: an unknown column, class, split or embedding; a column that groups images.
    """
    data = as_dataset(data).grouped(group)
    part = data.select(split)
    names = [AuditedColumn.of(data, part, name) for name in dict.fromkeys(columns)]
    if not names:
        raise ParameterError("no column is given", allowed=some_of(data.attributes, 12))
    notes = [*unit_notes(data.group), *(each.note for each in names if each.note)]
    run = None
    if predictions is not None:
        where = split or next(iter(data.splits))
        judged = judge_runs(predictions, data, where, tasks=tasks, reading=reading)
        run = one_run(judged.runs)
        notes += [*run_notes([run]), *judged.notes]
        tasks = predicted_tasks([run], data.classes, tasks, owner="the dataset", kind="class")
    for task in tasks or ():
        check_one_of("class", task, data.classes, owner="the dataset")
    values, source = _features(features, data, part, reading, notes)
    draws = BootstrapDraws(len(part), bootstrap, seed, None if part.groups is None else
                           unit_numbers(part.groups))  # fmt: skip
    audit = _Audit(part, values, source, run, draws, seed)
    pairs = [*product(names, tasks or data.classes)]
    with limited_threads(1):
        rows = [audit.row(*pair)
                for pair in tracked(pairs, len(pairs), "auditing columns", progress)]  # fmt: skip
    adjusted = holm(np.array([1.0 if row["p"] is None else row["p"] for row in rows]))
    for row, p in zip(rows, adjusted, strict=True):
        row["p_adjusted"] = None if row["p"] is None else float(p)
        row["word"] = word_of(row)
    rows.sort(key=lambda row: (WORDS.index(row["word"]), -(row["label"] or 0)))
    return ColumnAudit(pl.DataFrame(rows, schema=_SCHEMA), notes)


def _features(
    given: Any, data: Dataset, part: Dataset, reading: Mapping[str, Any] | None, notes: list[str]
) -> tuple[NDArray[np.float32] | None, str]:
    """Features of the images of a part, float32 (n, d), NaN in a row without; or why not."""
    names = data.embedding_names
    if given is None and len(names) == 1:
        given = names[0]
        notes.append(f"features: the dataset's embedding {given} (`features`)")
    if given is None:
        return None, "no features were given (`features`), so nothing was measured with them"
    if isinstance(given, str) and given in names:
        if Path(given).exists():
            problem = f"{given} is an embedding of the dataset, and a file or folder"
            raise ParameterError(problem, where="`features`", remedy="write ./ before a file")
        return np.asarray(part.embeddings[given], np.float32), ""
    rows = positions(part.images["image_id"], data.images["image_id"])
    inputs = given_features(given, data, (reading or {}).get("ids"), notes)
    return np.asarray(inputs[rows], np.float32), ""


@dataclass(frozen=True, eq=False)
class _Audit:
    """Shared by all rows: images, features, predictions and resamples."""

    part: Dataset
    features: NDArray[np.float32] | None
    no_features: str
    run: Predictions | None
    draws: BootstrapDraws
    seed: int

    def row(self, column: AuditedColumn, task: str) -> dict[str, Any]:
        """The measures of a column and a task."""
        rows = np.flatnonzero(known_labels(self.part, task) & (column.code >= 0))
        labels = self.part.labels(task, unknown=False)[rows]
        used, code = np.unique(column.code[rows], return_inverse=True)
        _refuse_labels(column, [column.values[u] for u in used], task, labels, code)
        groups = self.part.groups
        names = np.arange(len(rows)) if groups is None else unit_numbers(groups)[rows]
        unit = np.unique(names, return_inverse=True)[1]
        n_groups = len(np.unique(unit))
        case = Case(labels, code, unit, n_groups < len(rows), self.seed)
        found: dict[str, Measured] = dict.fromkeys(_MEASURES, _NONE)
        row: dict[str, Any] = dict.fromkeys(_SCHEMA) | {
            "column": column.name, "task": task, "n": len(rows), "n_groups": n_groups,
            "values": len(used),
        }  # fmt: skip
        reasons = [case.few or ("one value in these images" if len(used) < 2 else None)]
        if reasons == [None]:
            fold = case.folds(labels, np.arange(len(rows)))
            rates, area = case.rates(code[None], fold)
            alone = [len(np.unique(unit[code == value])) < 2 for value in range(len(used))]
            if all(alone):
                reasons = ["each value is in one group, so no fold tells about another one"]
            else:
                masks = [fold == number for number in range(_FOLDS)]
                found["label"] = mean_area(
                    [(labels, rates[0], masks)], [self._weights(rows)], case.sizes
                )
                row["p"] = case.chance(float(area[0]), fold)
                shares = np.bincount(code, labels) / np.bincount(code)
                row["label_apparent"] = float(roc_auc_score(labels, shares[code]))
                # what an uninformative column speaks against is chance
                if (found["label"][1] or 0) > 0.5:
                    found["model"] = self._model(task, rows, case, rates[0])
            found["features"], found["drop"] = self._of_features(row, rows, case, reasons)
        for name, measured in found.items():
            row |= zip((name, f"{name}_low", f"{name}_high"), measured, strict=True)
        return row | {"reason": "; ".join(filter(None, reasons)) or None}

    def _weights(self, rows: NDArray[np.intp]) -> Floats:
        """Number of times that each resample draws these images, float64 (n, k)."""
        return np.concatenate([w for _, w in self.draws.weights(rows)], axis=1).astype(np.float64)

    def _model(self, task: str, rows: NDArray[np.intp], case: Case, rates: Floats) -> Measured:
        """Difference of the run's error rates, where the column speaks against the label."""
        if self.run is None or task not in self.run.tasks:
            return _NONE
        ids = self.part.images["image_id"][rows]
        at, number = positions(ids, self.run.image_ids.cast(ids.dtype)), self.run.tasks.index(task)
        asked = at >= 0
        weights, values = self.run.weights, self.run.values
        asked &= ~np.isnan(values[number, at]) if weights is None else weights[number, at] > 0
        if not asked.any():
            return _NONE
        labels, unit = case.labels[asked], case.unit[asked]
        split, easy = "all", np.full(len(labels), 2, np.uint8)
        judged = ChallengeSet("any", task, split, ids.filter(pl.Series(asked)), labels, easy)
        against = np.where(labels, rates[asked] < 0, rates[asked] > 0)
        gap = rate_gap(errors_of(self.run, judged), against, labels.astype(np.int64), unit)
        ends = gap.effect, gap.low, gap.high
        return _NONE if np.isnan(ends).any() else ends

    def _of_features(
        self, row: dict[str, Any], rows: NDArray[np.intp], case: Case, reasons: list[str | None]
    ) -> tuple[Measured, Measured]:
        """The measures that need features; ``row`` gets both errors, ``reasons`` why not."""
        if self.features is None:
            reasons.append(self.no_features)
            return _NONE, _NONE
        features = self.features[rows]
        finite = np.isfinite(features).all(axis=1)
        if not finite.all():
            reasons.append(f"{counted(int((~finite).sum()), 'image')} without features")
            rows, features = rows[finite], features[finite]
            unit = np.unique(case.unit[finite], return_inverse=True)[1]
            case = Case(case.labels[finite], case.code[finite], unit, case.grouped, case.seed)
            if case.few:
                reasons.append(f"with features: {case.few}")
                return _NONE, _NONE
        shown = self._shown(features, rows, case)
        if shown == _NONE:
            reasons.append("no two values in enough groups of a label for the features' AUC")
        random = np.random.default_rng(case.seed)
        wrong, each, half = held_out_errors(features, case, random)
        known = each.all(axis=0)
        judged = Case(case.labels[known], case.code[known], case.unit[known], case.grouped, 0)
        if judged.few:
            reasons.append(f"drop: {judged.few}, with both labels among the other values")
            return shown, _NONE
        if (lost := int((~known).sum())) > 0:
            reasons.append(f"no drop of {counted(lost, 'image')}, without which only one label is")
        rates, drop = drop_of(wrong[:, known], judged, half[known])
        row |= {"error_held_out": float(rates[0]), "error": float(rates[1:].mean())}
        return shown, drop

    def _shown(self, features: NDArray[np.float32], rows: NDArray[np.intp], case: Case) -> Measured:
        """The AUC of the column's values by features, among images of the same label."""
        parts, weights = [], []
        for label in (False, True):
            own = np.flatnonzero(case.labels == label)
            # values of fewer groups than folds have none in some of them
            held = np.unique(np.stack([case.code[own], case.unit[own]]), axis=1)[0]
            enough = np.flatnonzero(np.bincount(held) >= _FOLDS)
            own = own[np.isin(case.code[own], enough)]
            if len(enough) < 2:
                continue
            fold, x = case.folds(case.code[own], own), features[own]
            x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), np.finfo(np.float32).tiny)
            is_value = case.code[own][:, None] == enough
            scores = np.empty(is_value.shape)
            for number in range(_FOLDS):
                rest, tested = fold != number, fold == number
                model = Ridge(alpha=x.shape[1]).fit(x[rest], is_value[rest].astype(np.float32))
                scores[tested] = model.predict(x[tested])
            masks = [fold == number for number in range(_FOLDS)]
            drawn = self._weights(rows[own])
            # of two values the second is the opposite of the first
            for place in range(len(enough) if len(enough) > 2 else 1):
                parts.append((is_value[:, place], scores[:, place], masks))
                weights.append(drawn)
        return mean_area(parts, weights, case.sizes) if parts else _NONE


def _refuse_labels(
    column: AuditedColumn, values: Sequence[str], task: str, labels: Booleans, code: Integers
) -> None:
    """Raise InputError if a value says yes exactly where the label is."""
    for number, value in enumerate(values):
        text = value.strip().casefold()
        if (text in _YES or text == task.casefold()) and np.array_equal(code == number, labels):
            problem = f"{value} is in exactly the images with {readable(task)}: it is the label"
            raise InputError(problem, where=f"column {column.name}",
                             allowed="a column that says something else",
                             give=({"columns": ...}, {"tasks": ...}))  # fmt: skip
