"""Slices: where a model errs, searched on half of the images and tested on the other half."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet
from nooch.checking.cue_findings import checked_split, errors_of
from nooch.checking.slice_conditions import SliceCondition, conditions_of
from nooch.data import Dataset, parquet_bytes
from nooch.display import DisplayTable, TabularResult
from nooch.english import plural, readable
from nooch.errors import InputError, ParameterError, check_one_of
from nooch.evaluation import Predictions, load_predictions
from nooch.evaluation.bootstrap import wilson
from nooch.metrics.rate_gaps import rate_gap
from nooch.options import options_from

__all__ = ["SliceOptions", "Slices", "find_slices"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]

AGAINST = ("whole", "parent")
_SCHEMA: dict[str, Any] = {
    "run": pl.String, "task": pl.String, "side": pl.String, "split": pl.String,
    "conditions": pl.List(pl.String), "n": pl.Int64, "errors": pl.Int64, "rate": pl.Float64,
    "rate_low": pl.Float64, "rate_high": pl.Float64, "rate_rest": pl.Float64, "n_test": pl.Int64,
    "errors_test": pl.Int64, "effect": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "p": pl.Float64, "p_adjusted": pl.Float64, "confirmed": pl.Boolean,
}  # fmt: skip
_ALIKE = 0.8
"""Share of images (Jaccard) above which two slices are the same one."""


@dataclass(frozen=True)
class SliceOptions:
    """How slices are searched.

    Attributes:
        min_support: images of a slice, over both halves, at least.
        min_drop: how much larger its error rate is on the half that is searched, at least.
        against: ``whole``: than that of all other images; ``parent``: for two conditions, than
            that of the images with only one of them.
        most: slices for each run, task and side that are tested, at most.
        seed: of the halves.
    """

    min_support: int = 10
    min_drop: float = 0.1
    against: str = "whole"
    most: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_one_of("comparison", self.against, AGAINST)
        if self.min_support < 2 or self.most < 1:
            raise ParameterError(
                f"min_support is {self.min_support} and most {self.most}",
                allowed="at least 2, and at least 1",
            )
        if not 0 <= self.min_drop < 1:
            raise ParameterError(f"min_drop is {self.min_drop}", allowed="0 to below 1")


@dataclass(frozen=True, eq=False, repr=False)
class Slices(TabularResult):
    """Slices on which a model errs more often, tested on images that the search did not see.

    Attributes:
        table: a row for each slice: its conditions; images, errors and error rate over both halves,
            with Wilson's interval, and the rate of the others; on the half that tests it, images,
            errors, the ``effect`` (difference of the rates) with an interval corrected for the
            number of slices tested, the p-value, and ``p_adjusted`` (Bonferroni). ``confirmed``:
            the interval excludes 0.
        settings: how they were searched (JSON-like).
    """

    table: pl.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.table.height

    @property
    def display(self) -> DisplayTable:
        """The numbers, and below them the first slices in words."""
        columns = ["task", "side", "conditions", "n", "errors", "rate", "rate_rest", "effect",
                   "low", "high", "confirmed", "run"]  # fmt: skip
        conditions = pl.col("conditions").list.join(" and ")
        rows = self.table.with_columns(conditions).select(columns).rows()
        title = f"Slices({len(self)} tested, {self.table.filter('confirmed').height} confirmed)"
        words = [name.replace("_", " ") for name in columns]
        return DisplayTable(title, words, rows, left=3, notes=self.sentences(5))

    def sentences(self, most: int = 10) -> list[str]:
        """The first slices in words, each run's name before them where there are several."""
        several = self.table["run"].n_unique() > 1
        return [
            (f"{row['run']}: " if several else "") + _sentence(row)
            for row in self.table.head(most).iter_rows(named=True)
        ]

    def as_bytes(self, ending: str) -> bytes:
        """The table as ``.parquet``, ``.csv`` (conditions joined by " and ") or ``.json``."""
        if ending == ".parquet":
            return parquet_bytes(self.table)
        if ending == ".csv":
            joined = self.table.with_columns(pl.col("conditions").list.join(" and "))
            return joined.write_csv().encode()
        content = {"settings": dict(self.settings), "slices": self.table.to_dicts()}
        return msgspec.json.format(msgspec.json.encode(content))


def _sentence(row: Mapping[str, Any]) -> str:
    first, *more = row["conditions"]
    short = first.startswith("with ")
    also = "".join(f" and {text.removeprefix('with ') if short else text}" for text in more)
    held = "confirmed" if row["confirmed"] else "not confirmed"
    test = f"{row['errors_test']} of {row['n_test']} on the half that tests"
    if row["side"] == "positive":
        what = f"{plural(row['task']).capitalize()} {first}{also}: {row['errors']:,} of"
        what += f" {row['n']:,} missed"
    else:
        what = f"Images {first}{also} but no {readable(row['task'])}:"
        what += f" {plural(row['task'])} claimed in {row['errors']:,} of {row['n']:,}"
    return f"{what}, {100 * row['rate_rest']:.0f} % elsewhere ({test}; {held})"


def find_slices(
    data: Dataset,
    predictions: Any,
    *,
    split: str | None = None,
    tasks: Sequence[str] | None = None,
    scale: str | None = None,
    options: SliceOptions | None = None,
    **named: Any,
) -> Slices:
    """Search slices of one and two conditions on which a model errs more often than elsewhere.

    Conditions are presences, absences and large areas of classes, the size of the target (for
    positives) and attribute columns; they need not be context cues. Slices are found on one half of
    the images and tested on the other; a slice of two conditions is dropped where one of its
    conditions alone errs as often, and so is one of nearly the same images as a better one.

    Args:
        data: the annotated images.
        predictions: see ``nooch.evaluate``.
        split: ``test`` by default, else ``valid``, else ``all``.
        tasks: classes; by default those that have predictions.
        scale: ``logit`` or ``probability``, for wide tables.
        options: how to search; single fields can be given by name (``min_support=20``).
        named: see ``options``.

    Raises:
        InputError: see ``nooch.evaluate``.
        ParameterError: an unknown task, split or option.
    """
    settings = options_from(SliceOptions, options, named)
    split = checked_split(data, split)
    for task in tasks or ():
        check_one_of("class", task, data.classes, owner="the dataset")
    runs = load_predictions(predictions, data=data, tasks=tasks, scale=scale)
    wanted = [t for t in tasks or data.classes if any(t in run.tasks for run in runs)]
    if not wanted:
        raise InputError("there are no predictions for these tasks", where="predictions")
    part = data.select(split)
    tested = [one for task in wanted for one in _of_task(task, split, runs, part, settings)]
    return Slices(_table(tested, split), {"split": split, "options": asdict(settings)})


@dataclass(frozen=True)
class _Tested:
    """A slice with what it is tested on."""

    run: str
    task: str
    side: str
    conditions: tuple[str, ...]
    inside: Booleans
    wrong: Booleans
    other: Booleans
    half: Booleans


def _of_task(
    task: str, split: str, runs: Sequence[Predictions], data: Dataset, options: SliceOptions
) -> Iterator[_Tested]:
    unknown = data.unknown_labels(task)
    known = data if unknown is None else data.select(rows=~unknown)
    labels = known.labels(task)
    everything = ChallengeSet(
        "any", task, split, known.images["image_id"], labels, np.full(len(labels), 2, np.uint8)
    )
    half = np.random.default_rng(options.seed).permutation(len(labels)) % 2 == 0
    for side, of_side in (("positive", labels), ("negative", ~labels)):
        conditions = _distinct(
            [
                replace(one, holds=one.holds[of_side])
                for one in conditions_of(known, task, size=side == "positive")
            ],
            options.min_support,
        )
        for run in runs if conditions else ():
            if task not in run.tasks:
                continue
            wrong = errors_of(run, everything)[of_side]
            for texts, inside, other in _search(conditions, wrong, half[of_side], options):
                yield _Tested(run.run, task, side, texts, inside, wrong, other, ~half[of_side])


def _distinct(conditions: list[SliceCondition], support: int) -> list[SliceCondition]:
    """Conditions with enough images on either side, each set of images once."""
    seen: set[bytes] = set()
    kept = []
    for condition in conditions:
        n = int(condition.holds.sum())
        key = condition.holds.tobytes()
        if support <= n <= len(condition.holds) - 1 and key not in seen:
            seen.add(key)
            kept.append(condition)
    return kept


def _search(
    conditions: list[SliceCondition], wrong: Booleans, half: Booleans, options: SliceOptions
) -> Iterator[tuple[tuple[str, ...], Booleans, Booleans]]:
    """Slices for testing: texts of the conditions, the images inside, those compared with."""
    holds = np.stack([c.holds for c in conditions], axis=1)
    here, bad = holds[half].astype(np.float64), wrong[half].astype(np.float64)
    n, errors = here.T @ here, here.T @ (here * bad[:, None])
    pairs = [
        (i, j)
        for i in range(len(conditions))
        for j in range(i, len(conditions))
        if i == j or conditions[i].name != conditions[j].name
    ]
    first, second = np.array(pairs).T
    support, hits = n[first, second], errors[first, second]
    rest = (bad.sum() - hits) / np.maximum(len(bad) - support, 1)
    rates = hits / np.maximum(support, 1)
    alone = np.diag(errors) / np.maximum(np.diag(n), 1)
    parents = np.maximum(alone[first], alone[second])
    single = first == second
    against = np.where(single | (options.against == "whole"), rest, parents)
    whole = holds.astype(np.float64)
    enough = support >= options.min_support / 2
    enough &= (whole.T @ whole)[first, second] >= options.min_support
    # a second condition has to add something beyond chance
    adds = single | (wilson(rates, support.astype(np.int64))[0] > parents)
    good = np.flatnonzero(enough & adds & (rates - against >= options.min_drop))
    lower = wilson(rates[good], support[good].astype(np.int64))[0] - against[good]
    chosen: list[Booleans] = []
    for at in good[np.lexsort((~single[good], -lower))]:
        i, j = int(first[at]), int(second[at])
        inside = holds[:, i] & holds[:, j]
        if any(_jaccard(inside, one) > _ALIKE for one in chosen):
            continue
        chosen.append(inside)
        both = (i,) if i == j else (i, j)
        other = ~inside
        if options.against == "parent" and i != j:
            other &= holds[:, i] if alone[i] >= alone[j] else holds[:, j]
        yield tuple(conditions[k].text for k in both), inside, other
        if len(chosen) == options.most:
            return


def _jaccard(a: Booleans, b: Booleans) -> float:
    return float((a & b).sum() / max((a | b).sum(), 1))


def _table(tested: Sequence[_Tested], split: str) -> pl.DataFrame:
    """Rows of the tested slices: first the confirmed ones, by the lower end of their interval."""
    rows = [_row(one, split, len(tested)) for one in tested]
    table = pl.DataFrame(rows, schema=_SCHEMA)
    return table.sort(
        "confirmed", "low", descending=[True, True], nulls_last=True, maintain_order=True
    )


def _row(one: _Tested, split: str, n_tested: int) -> dict[str, Any]:
    n, errors = int(one.inside.sum()), int(one.wrong[one.inside].sum())
    low, high = wilson(np.array(errors / n), np.array(n))
    used = one.half & (one.inside | one.other)
    gap = rate_gap(one.wrong[used], one.inside[used], level=1 - 0.05 / n_tested)
    known = not np.isnan(gap.effect)
    return {
        "run": one.run, "task": one.task, "side": one.side, "split": split,
        "conditions": list(one.conditions), "n": n, "errors": errors, "rate": errors / n,
        "rate_low": float(low), "rate_high": float(high),
        "rate_rest": float(one.wrong[one.other].mean()) if one.other.any() else None,
        "n_test": gap.n_with, "errors_test": gap.errors_with,
        "effect": gap.effect if known else None, "low": gap.low if known else None,
        "high": gap.high if known else None, "p": gap.p if known else None,
        "p_adjusted": min(1.0, gap.p * n_tested) if known else None,
        "confirmed": known and gap.low > 0,
    }  # fmt: skip
