"""Accuracy of criteria in finding what is truly out of context: challenge sets of scenes against
truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import (
    InputError,
    ParameterError,
    UndefinedError,
    check_one_of,
    lacking,
    reason_of,
    some_of,
)
from nooch.data.table_files import read_table, result_contents, result_files, write_files
from nooch.evaluation.metrics import auc
from nooch.suites import ChallengeSet, Suite, as_suite
from nooch.suites.hard_easy import threshold_between

AVERAGE = "average"
"""The task under which the unweighted mean over tasks is listed."""

_COLUMNS: dict[str, Any] = {
    "image_id": pl.Int64, "task": pl.String, "present": pl.Boolean, "against": pl.Boolean,
}  # fmt: skip
_SIDES = ("positive", "negative")
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
_KEYS: dict[str, Any] = dict.fromkeys(("criterion", "split", "task", "side"), pl.String)
_HITS: dict[str, Any] = dict.fromkeys(("hard", "hits"), pl.Int64)
_RATES: dict[str, Any] = dict.fromkeys(("precision", "recall"), pl.Float64)
_TABLE: dict[str, Any] = {
    **_KEYS, "n": pl.Int64, "against": pl.Int64, **_HITS, **_RATES, "auc": pl.Float64,
    "reason": pl.String,
}  # fmt: skip
_CURVE: dict[str, Any] = {
    **_KEYS, "share": pl.Float64, "threshold": pl.Float64, **_HITS, **_RATES,
}  # fmt: skip


@dataclass(frozen=True)
class TruthScores:
    """Result of ``find_score``.

    Attributes:
        table: a row for each criterion, split, task (and ``average``) and side (``positive``,
            ``negative``): ``n`` images of the side that have a verdict, ``against`` of them truly
            against context, ``hard`` in the challenge set, ``hits`` in both, ``precision`` = hits /
            hard, ``recall`` = hits / against, ``auc`` of only support for images against context
            (lower support for positives, higher for negatives). Null where undefined; ``reason``
            explains why.
        thresholds: precision and recall if other shares of a side were called hard.
        notes: sets that do not exist, and why.
    """

    table: pl.DataFrame
    thresholds: pl.DataFrame
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON-like values."""
        scores, thresholds = self.table.to_dicts(), self.thresholds.to_dicts()
        return {"scores": scores, "thresholds": thresholds, "notes": self.notes}


def load_truth(path: str | Path) -> pl.DataFrame:
    """The columns ``image_id, task, present, against`` of the truth of generated scenes. Raises
    InputError: no such file, no table, columns that are missing or of another type, an image listed
    twice for a task.
    """
    frame = read_table(path)
    if missing := [name for name in _COLUMNS if name not in frame.columns]:
        allowed = f"{', '.join(_COLUMNS)}, as nooch tools scenes writes"
        raise lacking("column", missing, frame.columns, path, allowed)
    try:
        frame = frame.select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())
    except pl.exceptions.PolarsError as error:
        reason = reason_of(error)
        raise InputError(f"has values of another type: {reason}", where=path) from error
    twice = frame.select("image_id", "task").is_duplicated().any()
    if twice or frame.null_count().sum_horizontal().item():
        problem = "contains an empty cell, or an image and task twice"
        raise InputError(problem, where=path, allowed="one row per image and task")
    return frame


def find_score(
    suite: Suite | str | Path,
    truth: pl.DataFrame,
    *,
    criteria: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
) -> TruthScores:
    """Score a suite's challenge sets against the truth.

    Args:
        suite: found in generated scenes.
        truth: as from ``load_truth``.
        criteria: names of criteria; by default all of the suite.
        tasks: names of tasks; by default all that both have.
        splits: names of splits; by default all of the suite.

    Raises:
        ParameterError: unknown names, or nothing that both have.
        InputError: images of the suite that the truth does not list, or lists with another label.
    """
    suite = as_suite(suite)
    by_task = dict(truth.partition_by("task", as_dict=True, include_key=False))
    both = [task for task in suite.tasks if (task,) in by_task]
    criteria = _chosen("criterion", criteria, suite.criteria)
    tasks = _chosen("task", tasks, both)
    splits = _chosen("split", splits, suite.splits)
    rows: list[tuple[Any, ...]] = []
    curve: list[tuple[Any, ...]] = []
    for criterion, split in product(criteria, splits):
        available = [task for task in tasks if (criterion, task, split) in suite.keys]
        sets = [suite.set(criterion, task, split) for task in available]
        scored = [_ScoredSet.from_set(challenge, by_task[challenge.task,]) for challenge in sets]
        of_tasks = [row for entry in scored for row in entry.rows()]
        rows += of_tasks + _averages(criterion, split, of_tasks)
        curve += [row for entry in scored for row in entry.curve()]
    table = pl.DataFrame(rows, _TABLE, orient="row")
    skipped = [s for s in suite.header.skipped if s.task in tasks]
    notes = [f"{s.criterion}: {s.task} has no set: {s.reason}" for s in skipped]
    return TruthScores(table, pl.DataFrame(curve, _CURVE, orient="row"), notes)


_REMEDY = "give the truth of the suite's own scenes"


def _chosen(kind: str, requested: Sequence[str] | None, both: Sequence[str]) -> list[str]:
    if not both:
        problem = f"the suite and the truth have no {kind} in common"
        raise ParameterError(problem, remedy=_REMEDY)
    owner = "the suite and the truth"
    return [check_one_of(kind, name, both, owner=owner) for name in requested or both]


@dataclass(frozen=True)
class _ScoredSet:
    """One challenge set with its truth: arrays over its images."""

    challenge: ChallengeSet
    against: NDArray[np.bool_]

    @classmethod
    def from_set(cls, challenge: ChallengeSet, truth: pl.DataFrame) -> Self:
        """Align the truth with the set's images."""
        images = pl.DataFrame({"image_id": challenge.image_ids})
        problem = "" if images["image_id"].dtype == pl.Int64 else _TEXT_IDS
        if not problem:
            images = images.join(truth, on="image_id", how="left", maintain_order="left")
            lacking = images.filter(pl.col("present").is_null())["image_id"]
            other = images.filter(pl.Series(challenge.labels) != pl.col("present"))["image_id"]
            if len(lacking):
                problem = f"the truth lists no image {some_of(lacking)}"
            elif len(other):
                problem = f"the truth has another label for image {some_of(other)}"
        if problem:
            where = f"{challenge.criterion}, {challenge.task}, {challenge.split}"
            raise InputError(problem, where=where, remedy=_REMEDY)
        return cls(challenge, images["against"].to_numpy())

    def _sides(self) -> list[tuple[str, NDArray[np.bool_], NDArray[np.float64] | None]]:
        """(side, its images, how unusual their context is, larger = more so)."""
        support, labels = self.challenge.support, self.challenge.labels
        low = None if support is None else -support
        return [("positive", labels, low), ("negative", ~labels, support)]

    def _keys(self, side: str) -> tuple[str, ...]:
        return self.challenge.criterion, self.challenge.split, self.challenge.task, side

    def rows(self) -> list[tuple[Any, ...]]:
        """Two rows of the table."""
        all_hard, rows = self.challenge.hard, []
        for side, mask, unusual in self._sides():
            against, hard = self.against[mask], all_hard[mask]
            truly, marked, hits = int(against.sum()), int(hard.sum()), int((hard & against).sum())
            rates = _share(hits, marked), _share(hits, truly)
            value = _auc(against, None if unusual is None else unusual[mask])
            rows.append((*self._keys(side), len(against), truly, marked, hits, *rates, *value))
        return rows

    def curve(self) -> list[tuple[Any, ...]]:
        """Precision and recall if the most unusual share of a side, with ties, were called hard."""
        rows = []
        for side, mask, unusual in self._sides():
            if unusual is None or not mask.any():
                continue
            values, against = unusual[mask], self.against[mask]
            ordered = np.sort(values)[::-1]
            for share in _SHARES:
                least = ordered[max(0, min(len(ordered), round(share * len(ordered))) - 1)]
                hard = values >= least
                marked, hits = int(hard.sum()), int((hard & against).sum())
                following = float(-ordered[marked]) if marked < len(ordered) else None
                below = threshold_between(float(-least), following)
                threshold = below if side == "positive" else -below
                rates = _share(hits, marked), _share(hits, int(against.sum()))
                rows.append((*self._keys(side), share, threshold, marked, hits, *rates))
        return rows


_TEXT_IDS = "image ids are text, but integers in the truth"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _auc(
    against: NDArray[np.bool_], unusual: NDArray[np.float64] | None
) -> tuple[float | None, str | None]:
    if unusual is None:
        return None, "the criterion has no support to rank by"
    try:
        return auc(against, unusual), None
    except UndefinedError as error:
        return None, error.problem


def _averages(criterion: str, split: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Counts summed and values averaged over the tasks that have them, one row for each side."""
    averages = []
    for side in _SIDES:
        mine = [row for row in rows if row[3] == side]
        if not mine:
            continue
        counts = [sum(row[i] for row in mine) for i in range(4, 8)]
        values = [[row[i] for row in mine if row[i] is not None] for i in range(8, 11)]
        means = [float(np.mean(v)) if v else None for v in values]
        fewest = min(len(v) for v in values)
        reason = None if fewest == len(mine) else f"means of {fewest} or more of {len(mine)} tasks"
        averages.append((criterion, split, AVERAGE, side, *counts, *means, reason))
    return averages


def check_truth_output(path: str | Path, *, overwrite: bool = False) -> list[Path]:
    """The files that ``save_truth_scores`` will write: one for JSON, else also NAME-thresholds."""
    return result_files(path, "scores file", tables=["thresholds"], overwrite=overwrite)


def save_truth_scores(
    scores: TruthScores, path: str | Path, *, overwrite: bool = False
) -> list[Path]:
    """Write scores in the format of the ending; return files. Raises as ``check_truth_output``."""
    tables = {"": scores.table, "thresholds": scores.thresholds}
    whole = {".json": lambda: msgspec.json.encode(scores.as_json()) + b"\n"}
    contents = result_contents(path, "scores file", tables, whole, overwrite=overwrite)
    write_files(contents)
    return list(contents)
