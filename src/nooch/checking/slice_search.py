"""Slices: where a model errs, searched on half of the images and tested on the other half."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet
from nooch.checking.cue_findings import checked_split, errors_of, labeled_images, size_strata
from nooch.checking.findings import some_images, with_runs
from nooch.checking.slice_conditions import (
    Booleans,
    Floats,
    SliceCondition,
    SliceConditions,
    pair_counts,
)
from nooch.criteria.phi import identifier
from nooch.data import Dataset, as_dataset
from nooch.display import DisplayTable, TabularResult
from nooch.english import plural, readable
from nooch.errors import InputError, ParameterError, check_one_of
from nooch.evaluation import Predictions, load_predictions
from nooch.evaluation.bootstrap import wilson
from nooch.files import Place
from nooch.metrics.rate_gaps import rate_gap
from nooch.report.score_files import result_bytes
from nooch.shared_types import Progress, no_progress, options_from, tracked

__all__ = ["SliceOptions", "Slices", "find_slices"]

AGAINST = ("whole", "parent")
_SCHEMA: dict[str, Any] = {
    "run": pl.String, "task": pl.String, "side": pl.String, "split": pl.String,
    "conditions": pl.List(pl.String), "n": pl.Int64, "errors": pl.Int64, "rate": pl.Float64,
    "rate_low": pl.Float64, "rate_high": pl.Float64, "rate_rest": pl.Float64, "n_test": pl.Int64,
    "errors_test": pl.Int64, "effect": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "p": pl.Float64, "p_adjusted": pl.Float64, "confirmed": pl.Boolean, "by_size": pl.Boolean,
    "phi": pl.String, "images": pl.List(pl.String),
}  # fmt: skip
_ERROR = 0.05
"""Chance that any slice is confirmed where none errs more often."""
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
        group: attribute column; images with the same value, such as photographs of one scene, are
            in the same half.
    """

    min_support: int = 10
    min_drop: float = 0.1
    against: str = "whole"
    most: int = 10
    seed: int = 0
    group: str | None = None

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
            the interval excludes 0, and ``p_adjusted`` is at most 0.05. ``by_size``: the test
            compares objects of the same size.
            ``phi``: the slice as the expression of an attribute criterion (``nooch.Attribute``).
            ``images``: ids of some errors.
        settings: how they were searched (JSON-like).
    """

    table: pl.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.table.height

    @property
    def counts(self) -> str:
        """How many were tested, and how many are confirmed."""
        return f"{len(self):,} tested, {self.table.filter('confirmed').height:,} confirmed"

    @property
    def display(self) -> DisplayTable:
        """The numbers, and below them the first slices in words."""
        columns = ["task", "side", "conditions", "n", "errors", "rate", "rate_rest", "effect",
                   "low", "high", "confirmed", "run"]  # fmt: skip
        conditions = pl.col("conditions").list.join(" and ")
        rows = self.table.with_columns(conditions).select(columns).rows()
        title = f"Slices({self.counts})"
        words = [name.replace("_", " ") for name in columns]
        return DisplayTable(title, words, rows, left=3, notes=self.sentences(5))

    def sentences(self, most: int = 10) -> list[str]:
        """The first slices in words, each run's name before them where there are several."""
        return with_runs(self.table.head(most), _sentence, self.table["run"])

    def as_bytes(self, ending: str) -> bytes:
        """The table as ``.parquet``, ``.csv`` (with joined lists) or ``.json``."""
        table, content = self.table, {"settings": self.settings, "slices": self.table.to_dicts()}
        if ending == ".csv":
            table = table.with_columns(
                pl.col("conditions").list.join(" and "), pl.col("images").list.join(" ")
            )
        return result_bytes(table, ending, content)


def _sentence(row: Mapping[str, Any]) -> str:
    first, *more = row["conditions"]
    short = first.startswith("with ")
    also = "".join(f" and {text.removeprefix('with ') if short else text}" for text in more)
    held = "confirmed" if row["confirmed"] else "not confirmed"
    test = f"{row['errors_test']} of {row['n_test']} on the half that tests"
    if row["by_size"]:
        effect = row["effect"]
        points = "none to compare" if effect is None else f"{100 * effect:+.0f} points"
        test += f"; {points} among objects of the same size"
    if row["side"] == "positive":
        what = f"{plural(row['task']).capitalize()} {first}{also}: {row['errors']:,} of"
        what += f" {row['n']:,} missed"
    else:
        what = f"Images {first}{also} but no {readable(row['task'])}:"
        what += f" {plural(row['task'])} claimed in {row['errors']:,} of {row['n']:,}"
    return f"{what}, {100 * row['rate_rest']:.0f} % elsewhere ({test}; {held})"


def find_slices(
    data: Dataset | Place | str,
    predictions: Any,
    *,
    split: str | None = None,
    tasks: Sequence[str] | None = None,
    scale: str | None = None,
    options: SliceOptions | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> Slices:
    """Search slices of one and two conditions on which a model errs more often than elsewhere.

    Conditions are presences, absences and large areas of classes, the size of the target (for
    positives) and attribute columns; they need not be context cues. Slices are found on one half of
    the images and tested on the other; a slice of two conditions is dropped where one of its
    conditions alone errs as often, and so is one of nearly the same images as a better one. Misses
    are tested within quartiles of the target's area, unless the slice is about its size.

    Args:
        data: the annotated images.
        predictions: see ``nooch.evaluate``.
        split: ``test`` by default, else ``valid``, else ``all``.
        tasks: classes; by default those that have predictions.
        scale: ``logit`` or ``probability``, for wide tables.
        options: how to search; single fields can be given by name (``min_support=20``).
        progress: called with what is being done, and how many of how many are done.
        named: see ``options``.

    Raises:
        InputError: see ``nooch.evaluate``.
        ParameterError: an unknown task, split or option.
    """
    data = as_dataset(data)
    settings = options_from(SliceOptions, options, named)
    split = checked_split(data, split)
    for task in tasks or ():
        check_one_of("class", task, data.classes, owner="the dataset")
    runs = load_predictions(predictions, data=data, tasks=tasks, scale=scale)
    wanted = [t for t in tasks or data.classes if any(t in run.tasks for run in runs)]
    if not wanted:
        raise InputError("there are no predictions for these tasks", where="predictions")
    part = data.select(split)
    shared = SliceConditions(part, _half(part, settings), data)
    tested: list[_Tested] = []
    for task in tracked(wanted, len(wanted), "searching slices, tasks", progress):
        known, everything = labeled_images(part, task, split, runs)
        conditions = shared
        if known is not part:
            conditions = SliceConditions(known, _half(known, settings), data)
        tested += _of_task(everything, runs, conditions, settings) if len(known) else ()
    testing = tracked(tested, len(tested), "testing slices", progress)
    rows = [_row(one, split, len(tested)) for one in testing]
    table = pl.DataFrame(rows, schema=_SCHEMA).with_columns(pl.col(pl.Float64).fill_nan(None))
    # first the confirmed ones, by the lower end of their interval
    rank: dict[str, Any] = {"descending": [True, True], "nulls_last": True, "maintain_order": True}
    table = table.sort("confirmed", "low", **rank)
    return Slices(table, {"split": split, "options": asdict(settings)})


def _half(part: Dataset, options: SliceOptions) -> Booleans:
    """The images that are searched, bool (n_images,): all or none of a group."""
    group = np.arange(len(part))
    if options.group is not None:
        check_one_of("attribute", options.group, part.attributes, owner="the dataset")
        values = part.images[options.group].cast(pl.String)
        # an image without a value is a group of its own
        group = np.where(values.is_null(), -1 - group, values.rank("dense").fill_null(0))
        group = np.unique(group, return_inverse=True)[1]
    order = np.random.default_rng(options.seed).permutation(group.max(initial=-1) + 1)
    return np.asarray(order[group] % 2 == 0)


@dataclass(frozen=True)
class _Tested:
    """A slice with what it is tested on."""

    run: str
    task: str
    side: str
    conditions: tuple[SliceCondition, ...]
    inside: Booleans
    wrong: Booleans
    other: Booleans
    half: Booleans
    ids: pl.Series
    sizes: NDArray[np.intp] | None


def _of_task(
    everything: ChallengeSet,
    runs: Sequence[Predictions],
    conditions: SliceConditions,
    options: SliceOptions,
) -> Iterator[_Tested]:
    task, labels, half = everything.task, everything.labels, conditions.half
    strata = size_strata(conditions.data, everything)
    wrong_of = {run.run: errors_of(run, everything) for run in runs if task in run.tasks}
    for side, of_side in (("positive", labels), ("negative", ~labels)):
        missed = side == "positive"
        kept = _distinct(conditions.of_task(task, size=missed), of_side, options.min_support)
        for run, wrong in wrong_of.items() if kept else ():
            n = conditions.counts(kept, of_side)
            for held, inside, other in _search(kept, n, wrong, of_side, half, options):
                of_size = not missed or any(one.name == task for one in held)
                tested = inside, wrong, other, ~half, everything.image_ids
                yield _Tested(run, task, side, held, *tested, None if of_size else strata)


def _distinct(
    conditions: Sequence[SliceCondition], side: Booleans, support: int
) -> list[SliceCondition]:
    """Conditions with enough images on either side, each set of images once."""
    most = int(side.sum()) - 1
    kept: dict[bytes, SliceCondition] = {}
    for condition in conditions:
        holds = condition.holds & side
        if support <= np.count_nonzero(holds) <= most:
            kept.setdefault(np.packbits(holds).tobytes(), condition)
    return list(kept.values())


def _search(
    conditions: list[SliceCondition],
    n: Floats,
    wrong: Booleans,
    side: Booleans,
    half: Booleans,
    options: SliceOptions,
) -> Iterator[tuple[tuple[SliceCondition, ...], Booleans, Booleans]]:
    """Slices for testing: their conditions, the images inside, those compared with."""
    here, bad = half & side, half & side & wrong
    errors = pair_counts(conditions, bad)
    first, second = np.triu_indices(len(conditions))
    names = np.unique([condition.name for condition in conditions], return_inverse=True)[1]
    allowed = (names[first] != names[second]) | (first == second)
    allowed &= n[first, second] >= options.min_support / 2
    first, second = first[allowed], second[allowed]
    support, hits, single = n[first, second], errors[first, second], first == second
    rest = (bad.sum() - hits) / np.maximum(here.sum() - support, 1)
    rates = hits / np.maximum(support, 1)
    alone = np.diag(errors) / np.maximum(np.diag(n), 1)
    parents = np.maximum(alone[first], alone[second])
    against = np.where(single | (options.against == "whole"), rest, parents)
    good = np.flatnonzero(rates - against >= options.min_drop)
    low = wilson(rates[good], support[good].astype(np.int64))[0]
    # a second condition has to add something beyond chance
    adds = single[good] | (low > parents[good])
    good, lower = good[adds], (low - against[good])[adds]
    chosen: list[Booleans] = []
    for at in good[np.lexsort((~single[good], -lower))]:
        one, two = conditions[first[at]], conditions[second[at]]
        inside = one.holds & two.holds & side
        few = inside.sum() < options.min_support
        if few or any((inside & x).sum() / (inside | x).sum() > _ALIKE for x in chosen):
            continue
        chosen.append(inside)
        other = side & ~inside
        if options.against == "parent" and one is not two:
            other &= (one if alone[first[at]] >= alone[second[at]] else two).holds
        yield (one,) if one is two else (one, two), inside, other
        if len(chosen) == options.most:
            return


def _row(one: _Tested, split: str, n_tested: int) -> dict[str, Any]:
    n, errors = int(one.inside.sum()), int(one.wrong[one.inside].sum())
    low, high = wilson(np.array(errors / n), np.array(n))
    used = one.half & (one.inside | one.other)
    sizes = None if one.sizes is None else one.sizes[used]
    gap = rate_gap(one.wrong[used], one.inside[used], sizes, level=1 - _ERROR / n_tested)
    p_adjusted = float(np.minimum(1.0, gap.p * n_tested))
    label = f"present({identifier(one.task)})"
    phi = [label if one.side == "positive" else f"NOT {label}", *(c.phi for c in one.conditions)]
    return {
        "run": one.run, "task": one.task, "side": one.side, "split": split,
        "conditions": [c.text for c in one.conditions], "n": n, "errors": errors,
        "rate": errors / n, "rate_low": float(low), "rate_high": float(high),
        "rate_rest": float(one.wrong[one.other].mean()) if one.other.any() else None,
        "n_test": gap.n_with, "errors_test": gap.errors_with,
        "effect": gap.effect, "low": gap.low, "high": gap.high, "p": gap.p,
        "p_adjusted": p_adjusted, "confirmed": gap.low > 0 and p_adjusted <= _ERROR,
        "by_size": sizes is not None, "phi": " AND ".join(phi),
        "images": some_images(one.ids, one.inside & one.wrong),
    }  # fmt: skip
