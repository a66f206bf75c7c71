"""How well criteria find what is truly out of context: challenge sets of generated scenes against
their truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import SUBSETS, ChallengeSet, Suite
from nooch.data import parquet_bytes
from nooch.data.disk_tables import read_table
from nooch.errors import InputError, ParameterError, UndefinedError, check_one_of, some_of
from nooch.files import check_output_file
from nooch.metrics import auc
from nooch.report import write_file

__all__ = [
    "AVERAGE",
    "TruthScores",
    "check_truth_output",
    "find_score",
    "load_truth",
    "save_truth_scores",
]

AVERAGE = "average"
"""The task under which the unweighted mean over tasks is listed."""

_COLUMNS: dict[str, Any] = {
    "image_id": pl.Int64, "task": pl.String, "present": pl.Boolean, "against": pl.Boolean,
}  # fmt: skip
_SIDES = ("positive", "negative")
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
_TABLE: dict[str, Any] = {
    "criterion": pl.String, "split": pl.String, "task": pl.String, "side": pl.String, "n": pl.Int64, "against": pl.Int64,
    "hard": pl.Int64, "hits": pl.Int64, "precision": pl.Float64, "recall": pl.Float64, "auc": pl.Float64, "reason": pl.String,
}  # fmt: skip
_CURVE: dict[str, Any] = {
    "criterion": pl.String, "split": pl.String, "task": pl.String, "side": pl.String, "share": pl.Float64,
    "threshold": pl.Float64, "hard": pl.Int64, "hits": pl.Int64, "precision": pl.Float64, "recall": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True)
class TruthScores:
    """What ``find_score`` gives.

    Attributes:
        table: a row for each criterion, split, task (and ``average``) and side (``positive``,
            ``negative``): ``n`` images of the side that have a verdict, ``against`` of them truly
            against context, ``hard`` in the challenge set, ``hits`` in both, ``precision`` = hits /
            hard, ``recall`` = hits / against, ``auc`` = how well support alone tells images against
            context from the side's others (lower support for positives, higher for negatives). Null
            where undefined, ``reason`` says why.
        thresholds: the same precision and recall where other shares of a side were called hard.
        notes: what to know.
    """

    table: pl.DataFrame
    thresholds: pl.DataFrame
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON-like values."""
        return {
            "scores": self.table.to_dicts(),
            "thresholds": self.thresholds.to_dicts(),
            "notes": self.notes,
        }


def load_truth(path: str | Path) -> pl.DataFrame:
    """The truth of generated scenes: ``image_id, task, present, against``, any other columns left
    out.

    Raises:
        InputError: no such file, no table, columns that are missing or of another type, an image
            listed twice for a task.
    """
    frame = read_table(path)
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        raise InputError(
            f"has no column {', '.join(missing)}",
            where=path,
            allowed=f"{', '.join(_COLUMNS)}, as nooch scenes writes",
        )
    try:
        frame = frame.select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"has values of another kind: {str(error).splitlines()[0]}", where=path
        ) from error
    if (
        frame.null_count().sum_horizontal().item()
        or frame.select("image_id", "task").is_duplicated().any()
    ):
        raise InputError(
            "holds an empty cell, or an image twice for a task",
            where=path,
            allowed="one row for each pair",
        )
    return frame


def find_score(
    suite: Suite,
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
        criteria: which; all by default.
        tasks: which; all that both know by default.
        splits: which; all by default.

    Raises:
        ParameterError: unknown names, or nothing that both know.
        InputError: images of the suite that the truth does not list, or lists with another label.
    """
    chosen = {
        "criterion": _chosen("criterion", criteria, suite.criteria),
        "task": _chosen(
            "task", tasks, [t for t in suite.tasks if t in set(truth["task"].unique())]
        ),
        "split": _chosen("split", splits, suite.splits),
    }
    rows: list[tuple[Any, ...]] = []
    curve: list[tuple[Any, ...]] = []
    notes = [
        f"{s.criterion}: {s.task} has no set: {s.reason}"
        for s in suite.header.skipped
        if s.task in chosen["task"]
    ]
    by_task = dict(truth.partition_by("task", as_dict=True, include_key=False))
    for criterion in chosen["criterion"]:
        for split in chosen["split"]:
            tasked = [t for t in chosen["task"] if (criterion, t, split) in suite.keys]
            sets = [suite.set(criterion, task, split) for task in tasked]
            scored = [_Scored.of(found, by_task[found.task,]) for found in sets]
            rows += [row for one in scored for row in one.rows()]
            curve += [row for one in scored for row in one.curve()]
            rows += _averages(criterion, split, rows[len(rows) - 2 * len(scored) :])
    return TruthScores(
        pl.DataFrame(rows, _TABLE, orient="row"), pl.DataFrame(curve, _CURVE, orient="row"), notes
    )


def _chosen(kind: str, asked: Sequence[str] | None, there: Sequence[str]) -> list[str]:
    if not there:
        raise ParameterError(
            f"the suite and the truth have no {kind} in common",
            remedy="give the truth of the scenes that the suite is from",
        )
    return (
        [check_one_of(kind, name, there, owner="the suite and the truth") for name in asked]
        if asked
        else list(there)
    )


@dataclass(frozen=True)
class _Scored:
    """One challenge set beside its truth: arrays over its images."""

    found: ChallengeSet
    against: NDArray[np.bool_]

    @classmethod
    def of(cls, found: ChallengeSet, truth: pl.DataFrame) -> _Scored:
        """Line the truth up with the set's images."""
        where = f"{found.criterion}, {found.task}, {found.split}"
        if found.image_ids.dtype != pl.Int64:
            raise InputError(
                "image ids are text, those of the truth are integers", where=where, remedy=_REMEDY
            )
        known = pl.DataFrame({"image_id": found.image_ids}).join(
            truth, on="image_id", how="left", maintain_order="left"
        )
        lacking = known.filter(pl.col("present").is_null())["image_id"]
        if len(lacking):
            raise InputError(
                f"the truth lists no image {some_of(lacking)}", where=where, remedy=_REMEDY
            )
        other = known.filter(pl.Series(found.labels) != pl.col("present"))["image_id"]
        if len(other):
            raise InputError(
                f"the truth has another label for image {some_of(other)}",
                where=where,
                remedy=_REMEDY,
            )
        return cls(found, known["against"].to_numpy())

    def _sides(self) -> list[tuple[str, NDArray[np.bool_], NDArray[np.float64] | None]]:
        """(side, its images, how unusual their context is, larger = more so)."""
        support = self.found.support
        labels = self.found.labels
        return [
            ("positive", labels, None if support is None else -support),
            ("negative", ~labels, support),
        ]

    def rows(self) -> list[tuple[Any, ...]]:
        """Two rows of the table."""
        found, easy, rows = self.found, SUBSETS.index("easy"), []
        for side, mask, unusual in self._sides():
            against, hard = self.against[mask], (found.subset != easy)[mask]
            counts = (
                len(against),
                int(against.sum()),
                int(hard.sum()),
                int((hard & against).sum()),
            )
            value, reason = _auc(against, None if unusual is None else unusual[mask])
            truly, marked, hits = counts[1:]
            rows.append((
                found.criterion, found.split, found.task, side, *counts, _share(hits, marked), _share(hits, truly), value, reason,
            ))  # fmt: skip
        return rows

    def curve(self) -> list[tuple[Any, ...]]:
        """Precision and recall where the most unusual share of a side was called hard; ties at the
        threshold are called so too.
        """
        found, rows = self.found, []
        for side, mask, unusual in self._sides():
            if unusual is None or not mask.any():
                continue
            values, against = unusual[mask], self.against[mask]
            ordered = np.sort(values)[::-1]
            for share in _SHARES:
                least = ordered[max(0, min(len(ordered), round(share * len(ordered))) - 1)]
                hard = values >= least
                marked, hits = int(hard.sum()), int((hard & against).sum())
                threshold = float(-least if side == "positive" else least)
                rows.append((
                    found.criterion, found.split, found.task, side, share, threshold, marked, hits,
                    _share(hits, marked), _share(hits, int(against.sum())),
                ))  # fmt: skip
        return rows


_REMEDY = "give the truth of the scenes that the suite is from"


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
    made = []
    for side in _SIDES:
        mine = [row for row in rows if row[3] == side]
        if not mine:
            continue
        counts = [sum(row[i] for row in mine) for i in range(4, 8)]
        values = [[row[i] for row in mine if row[i] is not None] for i in range(8, 11)]
        means = [float(np.mean(v)) if v else None for v in values]
        fewest = min(len(v) for v in values)
        reason = None if fewest == len(mine) else f"a mean is over {fewest} of {len(mine)} tasks"
        made.append((criterion, split, AVERAGE, side, *counts, *means, reason))
    return made


_WRITE: dict[str, Callable[[TruthScores], dict[str, bytes]]] = {
    ".json": lambda scores: {"": msgspec.json.encode(scores.as_json()) + b"\n"},
    ".csv": lambda scores: {name: frame.write_csv().encode() for name, frame in _frames(scores)},
    ".parquet": lambda scores: {name: parquet_bytes(frame) for name, frame in _frames(scores)},
}


def _frames(scores: TruthScores) -> list[tuple[str, pl.DataFrame]]:
    return [("", scores.table), ("-thresholds", scores.thresholds)]


def check_truth_output(path: str | Path, *, overwrite: bool = False) -> list[Path]:
    """The files that ``save_truth_scores`` will write: one for JSON, else a second one
    ``NAME-thresholds``.

    Raises:
        ParameterError: another ending than .parquet, .csv or .json.
        OutputError: a file exists (and ``overwrite`` is false) or cannot be written.
    """
    path = Path(path)
    check_one_of("ending of a scores file", path.suffix, _WRITE)
    files = (
        [path]
        if path.suffix == ".json"
        else [path, path.with_name(f"{path.stem}-thresholds{path.suffix}")]
    )
    for file in files:
        check_output_file(file, overwrite=overwrite)
    return files


def save_truth_scores(
    scores: TruthScores, path: str | Path, *, overwrite: bool = False
) -> list[Path]:
    """Write scores; the ending names the format. Returns the files. Raises as
    ``check_truth_output`` does.
    """
    files = check_truth_output(path, overwrite=overwrite)
    for file, content in zip(files, _WRITE[Path(path).suffix](scores).values(), strict=True):
        write_file(file, content)
    return files
