"""Slices: where a model errs, by tests of conditions and of pairs that half of the images find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.analysis.findings import (
    checked_split,
    errors_of,
    labeled_images,
    size_strata,
    some_images,
    with_runs,
)
from nooch.analysis.slice_conditions import Booleans, SliceCondition, SliceConditions
from nooch.analysis.slice_tests import MOST, FoundSlice, SliceFamily, SliceSide, slice_families
from nooch.base.calls import Progress, no_progress, tracked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import ParameterError, check_one_of
from nooch.base.words import plural, readable
from nooch.criteria.context_fit import no_context
from nooch.criteria.phi import identifier
from nooch.criteria.presences import fold_numbers
from nooch.data import Dataset, as_dataset
from nooch.data.table_files import write_result
from nooch.evaluation import Predictions, load_predictions
from nooch.evaluation.metrics.proportions import wilson
from nooch.evaluation.predictions import predicted_tasks
from nooch.suites import ChallengeSet

_SCHEMA: dict[str, Any] = {
    "run": pl.String, "task": pl.String, "side": pl.String, "split": pl.String,
    "conditions": pl.List(pl.String), "n": pl.Int64, "errors": pl.Int64, "rate": pl.Float64,
    "rate_low": pl.Float64, "rate_high": pl.Float64, "rate_rest": pl.Float64, "n_test": pl.Int64,
    "errors_test": pl.Int64, "effect": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "p": pl.Float64, "p_adjusted": pl.Float64, "confirmed": pl.Boolean, "by_size": pl.Boolean,
    "phi": pl.String, "images": pl.List(pl.String),
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Slices(TabularResult):
    """Slices on which a model errs more often than by chance, and others that come close.

    Attributes:
        table: a row for each slice: its conditions; images, errors and error rate, with Wilson's
            interval, and the rate of the others; on the images that test it (all of them for one
            condition, of a pair the half that did not find it), images, errors, the ``effect``
            (difference of the rates) with an interval, the one-sided p-value, and ``p_adjusted``
            (Holm), both corrected for all slices tested. ``confirmed``: the interval excludes 0,
            and ``p_adjusted`` is at most 0.05. ``by_size``: the test compares objects of the same
            size. ``phi``: the slice as the expression of an attribute criterion
            (``nooch.Attribute``). ``images``: ids of some errors.
        settings: how they were searched, and how many were tested (JSON-like).
    """

    table: pl.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.table.height

    @property
    def counts(self) -> str:
        """How many were tested, how many are listed, and how many are confirmed."""
        tested = sum(self.settings.get("tested", {}).values())
        confirmed = self.table.filter("confirmed").height
        text = f"{tested:,} tested, {len(self):,} listed, {confirmed:,} confirmed"
        if not self.settings.get("columns_alone"):
            return text
        why = "labels exclude each other, so slices are of attribute columns"
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
        return DisplayTable(title, words, rows, left=3, notes=self.sentences(5))

    def sentences(self, most: int = 10) -> list[str]:
        """The first slices in words, each run's name before them where there are several."""
        return with_runs(self.table.head(most), _sentence, self.table["run"])

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the table as ``.parquet``, ``.csv`` (with joined lists) or ``.json``. Raises as
        ``result_files``.
        """
        table, content = self.table, {"settings": self.settings, "slices": self.table.to_dicts()}
        if Path(path).suffix == ".csv":
            table = table.with_columns(
                pl.col("conditions").list.join(" and "), pl.col("images").list.join(" ")
            )
        write_result(path, "slices file", table, content, overwrite=overwrite)


def _sentence(row: Mapping[str, Any]) -> str:
    first, *more = row["conditions"]
    short = first.startswith("with ")
    also = "".join(f" and {text.removeprefix('with ') if short else text}" for text in more)
    held = "confirmed" if row["confirmed"] else "not confirmed"
    test = [f"{row['errors_test']} of {row['n_test']} on the half that tests"] if more else []
    if row["by_size"]:
        effect = row["effect"]
        points = "none to compare" if effect is None else f"{100 * effect:+.0f} points"
        test.append(f"{points} among objects of the same size")
    if row["side"] == "positive":
        what = f"{plural(row['task']).capitalize()} {first}{also}: {row['errors']:,} of"
        what += f" {row['n']:,} missed"
    else:
        what = f"Images {first}{also} but no {readable(row['task'])}:"
        what += f" {plural(row['task'])} claimed in {row['errors']:,} of {row['n']:,}"
    return f"{what}, {100 * row['rate_rest']:.0f} % elsewhere ({'; '.join([*test, held])})"


def find_slices(
    data: Dataset | str | Path,
    predictions: Any,
    *,
    split: str | None = None,
    tasks: Sequence[str] | None = None,
    scale: str | None = None,
    min_support: int = 10,
    group: str | None = None,
    progress: Progress = no_progress,
) -> Slices:
    """Search slices of one and two conditions on which a model errs more often than elsewhere.

    Conditions are presences, absences and large areas of classes, the size of the target (for
    positives) and attribute columns; they need not be context cues. Labels that exclude each other
    are no conditions. Each condition is tested on all
    images. Pairs of conditions are searched in each half of the images, which a hash of the id or
    group decides, and tested in the other; a pair is dropped where one of its conditions alone errs
    as often, and a slice where another one has nearly the same images. The chance that anything is
    confirmed where nothing errs more often is 5 %, over all runs, tasks and sides. Misses are
    tested within quartiles of the target's area, unless the slice is about its size.

    Args:
        data: the annotated images.
        predictions: see ``nooch.evaluate``.
        split: ``test`` by default, else ``valid``, else ``all``.
        tasks: classes; by default those that have predictions.
        scale: ``logit`` or ``probability``, for wide tables.
        min_support: images of a slice at least.
        group: attribute column; images with the same value, such as photographs of one scene, are
            in the same half, and have one vote in tests.
        progress: called with what is being done, and how many of how many are done.

    Raises:
        InputError: see ``nooch.evaluate``.
        ParameterError: an unknown task, split or group.
    """
    data = as_dataset(data)
    if min_support < 2:
        raise ParameterError(f"min_support is {min_support}", allowed="at least 2")
    split = checked_split(data, split)
    runs = load_predictions(predictions, data=data, tasks=tasks, scale=scale)
    wanted = predicted_tasks(runs, data.classes, tasks, owner="the dataset", of="class")
    part = data.select(split)
    alone = len(data.classes) > 1 and no_context(data) is not None
    shared = SliceConditions(part, _half(part, group), data, alone)
    families = slice_families()
    for task in tracked(wanted, len(wanted), "searching slices, tasks", progress):
        known, everything = labeled_images(part, task, split, runs)
        conditions = shared
        if known is not part:
            conditions = SliceConditions(known, _half(known, group), data, alone)
        if len(known):
            _of_task(everything, runs, conditions, min_support, group, families)
    rows = [{"split": split, **row} for family in families for row in family.judged()]
    table = pl.DataFrame(rows, schema=_SCHEMA).with_columns(pl.col(pl.Float64).fill_nan(None))
    # first the confirmed ones, by the lower end of their interval
    rank: dict[str, Any] = {"descending": [True, True], "nulls_last": True, "maintain_order": True}
    table = table.sort("confirmed", "low", **rank)
    place = pl.int_range(pl.len()).over("run", "task", "side", "confirmed")
    table = table.filter(pl.col("confirmed") | (place < MOST))
    tested = {family.name: family.tested for family in families}
    options = {"min_support": min_support, "group": group}
    return Slices(
        table, {"split": split, "options": options, "columns_alone": alone, "tested": tested}
    )


def _groups(part: Dataset, group: str | None) -> pl.Series:
    """The group of each image, text (n_images,); an image without a value is one of its own."""
    alone = part.images["image_id"].cast(pl.String)
    if group is None:
        return alone
    check_one_of("attribute", group, part.attributes, owner="the dataset")
    values = part.images[group].cast(pl.String)
    return ("group " + values).zip_with(values.is_not_null(), "image " + alone)


def _half(part: Dataset, group: str | None) -> Booleans:
    """One of the halves, bool (n_images,): a group's, whatever other images there are."""
    return np.asarray(fold_numbers(_groups(part, group), 2) == 0)


def _of_task(
    everything: ChallengeSet,
    runs: Sequence[Predictions],
    conditions: SliceConditions,
    least: int,
    group: str | None,
    families: Sequence[SliceFamily],
) -> None:
    """The tests of a task, added to the families."""
    task, labels, groups = everything.task, everything.labels, None
    sizes = size_strata(conditions.data, everything)
    if group is not None:
        groups = _groups(conditions.data, group).rank("dense").to_numpy()
    wrong_of = {run.run: errors_of(run, everything) for run in runs if task in run.tasks}
    for side, of_side in (("positive", labels), ("negative", ~labels)):
        missed = side == "positive"
        kept = _distinct(conditions.of_task(task, size=missed), of_side, least)
        n = conditions.counts(kept, of_side) if kept else []
        for run, wrong in wrong_of.items() if kept else ():
            one = SliceSide(
                task, kept, of_side, wrong & of_side, conditions.halves, n,
                sizes if missed else None, groups,
            )  # fmt: skip
            for found in one.tested(least, families):
                label = f"present({identifier(task)})"
                phi = [label if missed else f"NOT {label}", *(c.phi for c in found.conditions)]
                row = {"run": run, "task": task, "side": side, "phi": " AND ".join(phi)}
                found.family.found.append((found, row | _counts(found, one, everything)))


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


def _counts(found: FoundSlice, side: SliceSide, everything: ChallengeSet) -> dict[str, Any]:
    """What a row says of all images of the slice."""
    wrong, other = found.inside & side.wrong, found.other
    n, errors = int(found.inside.sum()), int(wrong.sum())
    low, high = wilson(np.array(errors / n), np.array(n))
    return {
        "conditions": [c.text for c in found.conditions], "n": n, "errors": errors,
        "rate": errors / n, "rate_low": float(low), "rate_high": float(high),
        "rate_rest": float(side.wrong[other].mean()) if other.any() else None,
        "by_size": side.strata(found.conditions) is not None,
        "images": some_images(everything.image_ids, wrong),
    }  # fmt: skip
