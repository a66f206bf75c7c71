"""Does the context decide what a detector misses and claims? Hard against easy, over all tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.evaluation.boxes.matched import SIZES, MatchedRun
from nooch.evaluation.metrics.rate_gaps import rate_gap
from nooch.evaluation.predictions import positions
from nooch.suites import ChallengeSet, Suite

EFFECTS: dict[str, Any] = {
    "run": pl.String, "criterion": pl.String, "split": pl.String, "side": pl.String,
    "n_hard": pl.Int64, "n_easy": pl.Int64, "rate_hard": pl.Float64, "rate_easy": pl.Float64,
    "effect": pl.Float64, "low": pl.Float64, "high": pl.Float64, "p": pl.Float64,
    "reason": pl.String,
}  # fmt: skip
"""Columns of ``Scores.box_effects``. On the side ``positive``, rates are shares of objects that are
missed; on ``negative``, boxes claimed per image and task without the object. ``effect`` is the
difference of the shares, of negatives the shares with any claim, within each task (and size of the
object): Mantel and Haenszel's, with the interval and p of images or groups, see ``rate_gap``; null
with a ``reason`` where nothing is compared.
"""


def box_effects(
    runs: Sequence[MatchedRun],
    thresholds: Mapping[str, Mapping[str, float]],
    suite: Suite,
    keys: Sequence[tuple[str, str, str]],
) -> pl.DataFrame:
    """The effects of the context on each run; ``keys`` are the sets (criterion, task, split)."""
    groups = dict.fromkeys((criterion, split) for criterion, _, split in keys) if runs else {}
    rows = []
    for criterion, split in groups:
        sets = [suite.set(*key) for key in keys if (key[0], key[2]) == (criterion, split)]
        for run in runs:
            limits = thresholds.get(run.run.run, {})
            parts = [
                _outcomes(number, challenge, run, limits.get(challenge.task, 0.5), suite)
                for number, challenge in enumerate(sets)
                if challenge.task in run.run.tasks
            ]
            about = {"run": run.run.run, "criterion": criterion, "split": split}
            for number, side in enumerate(("positive", "negative") if parts else ()):
                columns = zip(*(part[number] for part in parts), strict=True)
                rows.append(about | {"side": side} | _effect(*map(np.concatenate, columns)))
    order = [run.run.run for run in runs]
    rows.sort(key=lambda row: order.index(row["run"]))
    return pl.DataFrame(rows, schema=EFFECTS).with_columns(pl.col(pl.Float64).fill_nan(None))


_Columns = tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any], NDArray[Any]]
"""Events, whether the image is hard, stratum, and the number of the image, or of its group: (n,)
each.
"""


def _outcomes(
    number: int, challenge: ChallengeSet, run: MatchedRun, limit: float, suite: Suite
) -> tuple[_Columns, _Columns]:
    """Objects of a set that are missed, and boxes claimed in each of its images without one."""
    ids, task, hard = challenge.image_ids, challenge.task, challenge.hard
    image = positions(ids, run.run.image_ids.cast(ids.dtype, strict=False))
    places = np.full(len(run.run.image_ids), -1, np.int64)
    places[image[image >= 0]] = np.flatnonzero(image >= 0)
    missed, row, size = run.found({task: limit}).missed(run.run.tasks.index(task), places)
    claims = np.bincount(run.claims(task, places, limit), minlength=len(ids))
    without, units = ~challenge.labels, suite.units(ids)
    unit = image if units is None else units
    return (
        (missed, hard[row], number * (len(SIZES) + 1) + size, unit[row]),
        (claims[without], hard[without], np.full(without.sum(), number), unit[without]),
    )


def _effect(
    events: NDArray[Any], hard: NDArray[np.bool_], strata: NDArray[Any], units: NDArray[Any]
) -> dict[str, Any]:
    gap = rate_gap(events > 0, hard, strata, units)
    rates = [float(events[side].mean()) if side.any() else np.nan for side in (hard, ~hard)]
    sizes = {"hard": gap.n_with, "easy": gap.n_without}
    empty = [f"no detections on {name} images" for name, n in sizes.items() if not n]
    if not empty and np.isnan(gap.effect):
        empty = ["no class and object size occurs on both sides"]
    return {
        "n_hard": gap.n_with, "n_easy": gap.n_without, "rate_hard": rates[0],
        "rate_easy": rates[1], "effect": gap.effect, "low": gap.low, "high": gap.high, "p": gap.p,
        "reason": " and ".join(empty) or None,
    }  # fmt: skip


def effect_sentence(row: Mapping[str, Any]) -> str:
    """An effect in words, with its interval; a side without an object or image is named so."""
    missed = row["side"] == "positive"
    times, unit = (100, " points") if missed else (1000, "")
    effect = f"not comparable: {row['reason']}"
    if row["effect"] is not None:
        low, value, high = (times * row[name] for name in ("low", "effect", "high"))
        effect = f"{value:+.1f}{unit} [{low:+.1f}, {high:+.1f}]"
    hard, easy = row["rate_hard"], row["rate_easy"]
    if missed:
        others = "no others" if easy is None else f"{100 * easy:.0f}% of {row['n_easy']:,} others"
        rates = f"no object is out of context, {others}{'' if easy is None else ' are missed'}"
        if hard is not None:
            rates = f"{100 * hard:.0f}% of {row['n_hard']:,} objects out of context are missed, "
            rates += others
        rates += "; within class and size"
    else:
        rates, boxes = "no image where absent objects are expected, ", ""
        what = " boxes of absent objects per 1,000 images and class"
        if hard is None:
            boxes = what
        else:
            rates = f"{1000 * hard:.1f}{what} where they are expected, "
        rates += "none elsewhere" if easy is None else f"{1000 * easy:.1f}{boxes} elsewhere"
        rates += "; images with any, within class:"
    return f"{row['run']}, {row['criterion']}: {rates} {effect}"
