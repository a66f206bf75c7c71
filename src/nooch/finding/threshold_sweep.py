"""Thresholds swept without refitting: cues by alpha, hard images over a grid of alpha and beta, and
over tau.

The data of the paper's Figs. 10 to 12, and the thresholds that best equalise the two shares
(section 3.2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import POOLED, Sweep
from nooch.criteria import CE, FittedCE, Gist, SupportFitted, require_areas
from nooch.data import Dataset
from nooch.errors import ParameterError
from nooch.finding.annotation_coverage import check_counted, check_fit
from nooch.finding.criterion_fits import training_part
from nooch.finding.suite_builder import resolve_tasks, splits_to_search
from nooch.shared_types import Progress, no_progress

__all__ = ["ALPHAS", "BETAS", "TAUS", "grid_of", "sweep_thresholds"]

ALPHAS = tuple(round(0.01 * i, 2) for i in range(21))
BETAS = tuple(round(0.02 * i, 2) for i in range(1, 26))
TAUS = tuple(round(0.02 * i, 2) for i in range(51))

Counts = NDArray[np.int64]
_SIDES = ("hard_positives", "hard_negatives", "positives", "negatives")


def sweep_thresholds(
    data: Dataset,
    *,
    alpha: Sequence[float] = (),
    beta: Sequence[float] = (),
    tau: Sequence[float] = (),
    embedding: str | None = None,
    tasks: str | Sequence[str] = "all",
    splits: Sequence[str] | None = None,
    allow_unannotated: bool = False,
    progress: Progress = no_progress,
) -> Sweep:
    """Count cues and hard images over thresholds; CE and gist are fitted once, on the training
    split.

    Images where a task's class, or one of its cues at an alpha, was not annotated are not counted
    there, on no side.

    Args:
        data: the dataset.
        alpha: thresholds on A(C, Y), fractions of the image, 0 and more; together with ``beta``.
        beta: thresholds on areas, likewise.
        tau: thresholds on the gist's cosine, -1 to 1; together with ``embedding``.
        embedding: name of one of the dataset's embeddings.
        tasks: ``all`` classes, ``nooch`` (the paper's 12), or names.
        splits: where to count; by default valid and test as far as there are any, or ``all``.
        allow_unannotated: as for ``nooch.find``.
        progress: called with what is being done, and how many of how many tasks are done.

    Raises:
        ParameterError: nothing to sweep, alpha without beta or the reverse, thresholds out of
            range, tau without an embedding.
        InputError: unknown areas, an empty training split; too much that was not annotated.
    """
    alphas, betas, taus = (
        grid_of(name, v) for name, v in (("alpha", alpha), ("beta", beta), ("tau", tau))
    )
    if not len(alphas) + len(taus) or bool(len(alphas)) != bool(len(betas)):
        raise ParameterError(
            "nothing to sweep", allowed="alpha together with beta, tau, or all three"
        )
    if len(taus) and embedding is None:
        raise ParameterError(
            "tau needs an embedding",
            where="sweep",
            allowed=", ".join(data.embeddings) or "none is there",
        )
    names = resolve_tasks(data, tasks)
    parts = {split: data.select(split) for split in splits_to_search(data, splits)}
    train = training_part(data, "the criteria")
    cues = pl.DataFrame(schema={"task": pl.String, "alpha": pl.Float64, "n_cues": pl.Int64})
    grid, tau_table = _empty(["alpha", "beta"]), _empty(["tau"])
    if len(alphas):
        fitted = CE(float(alphas[0]), float(betas[0])).fit(train)
        if not allow_unannotated:
            check_fit({"ce": fitted}, {}, names)
        n_cues = np.array([_cues(fitted, task, alphas)[1] for task in names], dtype=np.int64)
        cues = pl.DataFrame(
            {
                "task": np.repeat(names, len(alphas)),
                "alpha": np.tile(alphas, len(names)),
                "n_cues": n_cues.reshape(-1),
            }
        )
        tables = []
        for split, part in parts.items():
            counts = _Areas(part, betas).count(
                fitted, names, alphas, partial(_report, progress, split, len(names))
            )
            if not allow_unannotated:
                check_counted(names, split, counts[:, :, 2:].sum(axis=2).min(axis=1), len(part))
            tables.append(
                _table(
                    names,
                    split,
                    {"alpha": np.repeat(alphas, len(betas)), "beta": np.tile(betas, len(alphas))},
                    counts,
                )
            )
        grid = pl.concat(tables)
    if len(taus) and embedding is not None:
        gist = Gist(embedding).fit(train, names)
        defined = [task for task in names if gist.undefined(task) is None]
        if not allow_unannotated:
            for split, part in parts.items():
                unknown = [
                    0 if (mask := part.unknown_labels(task)) is None else int(mask.sum())
                    for task in defined
                ]
                check_counted(
                    defined, split, len(part) - np.array(unknown, dtype=np.int64), len(part)
                )
        tau_table = pl.concat(
            _table(defined, split, {"tau": taus}, _by_threshold(gist, part, defined, taus))
            for split, part in parts.items()
        )
    return Sweep(cues, grid, tau_table, _equal(grid))


def _report(progress: Progress, split: str, total: int, done: int) -> None:
    progress(f"counting on {split}", done, total)


def grid_of(name: str, values: Sequence[float]) -> NDArray[np.float64]:
    """Thresholds ascending, each once. Raises ParameterError where one is out of range for
    ``alpha``, ``beta`` or ``tau``.
    """
    grid = np.unique(np.asarray(values, dtype=np.float64))
    low, high = (-1.0, 1.0) if name == "tau" else (0.0, np.inf)
    if not np.isfinite(grid).all() or (len(grid) and (grid[0] < low or grid[-1] > high)):
        raise ParameterError(
            f"{name} reaches from {grid[0]:g} to {grid[-1]:g}", where="sweep",
            allowed="a cosine, -1 to 1" if name == "tau" else "fractions of the image, 0 and more",
        )  # fmt: skip
    return grid


def _cues(fitted: FittedCE, task: str, alphas: NDArray[np.float64]) -> tuple[list[int], Counts]:
    """Columns of the cues at the smallest alpha, strongest first, and how many of them there are at
    each alpha.
    """
    column = fitted.classes.index(task)
    strengths = np.nan_to_num(fitted.A[column], nan=-np.inf)
    strengths[column] = -np.inf
    order = np.lexsort((np.arange(len(strengths)), -strengths))
    found = strengths[order] > alphas[0]
    numbers = (strengths[order][found][None, :] > alphas[:, None]).sum(axis=1)
    return order[found].tolist(), numbers.astype(np.int64)


class _Areas:
    """Areas of a split as codes that say where they lie among the betas.

    An area between the (k-1)th and the kth beta has code 2k, one equal to the kth beta 2k + 1. So s
    < beta k is code <= 2k, and s > beta k is code >= 2k + 2; and the code of a maximum is the
    maximum of codes. Images that are not counted have the largest number there is, above which no
    code rises.
    """

    def __init__(self, part: Dataset, betas: NDArray[np.float64]) -> None:
        require_areas(part)
        self._part, self._n = part, len(betas)
        kind = np.uint8 if 2 * len(betas) < 256 else np.uint16

        def code(areas: Any) -> Any:
            return (
                np.searchsorted(betas, areas, "left") + np.searchsorted(betas, areas, "right")
            ).astype(kind)

        self._none = int(code(0.0))
        self._codes = {
            name: (rows, code(areas))
            for name in part.classes
            for rows, areas in [part.rows_of(name)]
        }
        self._kind, self._left_out = kind, int(np.iinfo(kind).max)

    def count(
        self,
        fitted: FittedCE,
        tasks: Sequence[str],
        alphas: NDArray[np.float64],
        done: Callable[[int], None],
    ) -> Counts:
        """Hard positives, hard negatives, positives and negatives: int64 (n_tasks, n_alphas x
        n_betas, 4).
        """
        counts = np.zeros((len(tasks), len(alphas), self._n, 4), dtype=np.int64)
        for number, task in enumerate(tasks):
            columns, n_cues = _cues(fitted, task, alphas)
            for k, counted in enumerate(
                self._prefixes(task, [fitted.classes[c] for c in columns], set(n_cues.tolist()))
            ):
                # the image's support is known now for every alpha at which there are k cues
                counts[number, n_cues == k] = counted
            done(number + 1)
        return counts.reshape(len(tasks), -1, 4)

    def _prefixes(self, task: str, cues: Sequence[str], wanted: set[int]) -> list[Counts]:
        """Counts by beta, int64 (n_betas, 4), for the first k cues, k = 0, 1, ...; only where
        wanted.
        """
        width = 2 * self._n + 1
        labels, unknown = self._part.labels(task, unknown=False), self._part.unknown_labels(task)
        support = np.full(len(labels), self._none, dtype=self._kind)
        histogram = np.zeros((2, width), dtype=np.int64)
        histogram[:, self._none] = (~labels).sum(), labels.sum()
        self._leave_out(unknown, support, histogram, labels)
        results = [self._counts(histogram)]
        # without a cue there is no hard image
        results[0][:, :2] = 0
        for k, cue in enumerate(cues, 1):
            rows, codes = self._codes[cue]
            before = support[rows]
            # only where the new cue is the largest does anything change
            rises = codes > before
            rows, before, after = rows[rises], before[rises], codes[rises]
            side = labels[rows] * width
            histogram += np.bincount(side + after, minlength=2 * width).reshape(2, width)
            histogram -= np.bincount(side + before, minlength=2 * width).reshape(2, width)
            support[rows] = after
            self._leave_out(self._part.unknown(cue), support, histogram, labels)
            results.append(self._counts(histogram) if k in wanted else results[0])
        return results

    def _leave_out(
        self,
        unknown: NDArray[np.bool_] | None,
        support: Any,
        histogram: Counts,
        labels: NDArray[np.bool_],
    ) -> None:
        """Take the images where something is unknown out of the histogram, once."""
        if unknown is None:
            return
        rows = np.flatnonzero(unknown & (support != self._left_out))
        np.subtract.at(
            histogram, (labels[rows].astype(np.int64), support[rows].astype(np.int64)), 1
        )
        support[rows] = self._left_out

    def _counts(self, histogram: Counts) -> Counts:
        below = histogram.cumsum(axis=1)
        hard = below[1, 0 : 2 * self._n : 2], below[0, -1] - below[0, 1 : 2 * self._n : 2]
        return np.stack([*hard, *(np.full(self._n, below[side, -1]) for side in (1, 0))], axis=1)


def _by_threshold(
    fitted: SupportFitted, part: Dataset, tasks: Sequence[str], thresholds: NDArray[np.float64]
) -> Counts:
    """The same counts for a criterion whose support does not depend on the threshold: int64
    (n_tasks, n_thresholds, 4).
    """
    counts = np.zeros((len(tasks), len(thresholds), 4), dtype=np.int64)
    for number, task in enumerate(tasks):
        support, labels = fitted.support(part, task), part.labels(task, unknown=False)
        unknown = part.unknown_labels(task)
        known = ~np.isnan(support) if unknown is None else ~np.isnan(support) & ~unknown
        positive, negative = np.sort(support[labels & known]), np.sort(support[~labels & known])
        counts[number, :, 0] = np.searchsorted(positive, thresholds, "left")
        counts[number, :, 1] = len(negative) - np.searchsorted(negative, thresholds, "right")
        counts[number, :, 2:] = len(positive), len(negative)
    return counts


def _empty(thresholds: Sequence[str]) -> pl.DataFrame:
    return _table(
        [], "", {name: np.empty(0) for name in thresholds}, np.empty((0, 0, 4), dtype=np.int64)
    )


def _table(
    tasks: Sequence[str], split: str, thresholds: dict[str, NDArray[np.float64]], counts: Counts
) -> pl.DataFrame:
    """Counts (n_tasks, n_points, 4) as rows, those of all tasks together last."""
    names = [*tasks, POOLED] if tasks else []
    counts = np.concatenate([counts, counts.sum(axis=0, keepdims=True)]) if tasks else counts
    n_points = counts.shape[1]
    frame = pl.DataFrame(
        {
            "task": (
                pl.Series(names, dtype=pl.String).gather(np.repeat(np.arange(len(names)), n_points))
            ),
            "split": pl.Series([split] * (len(names) * n_points), dtype=pl.String),
            **{name: np.tile(values, len(names)) for name, values in thresholds.items()},
            **{side: counts[:, :, i].reshape(-1) for i, side in enumerate(_SIDES)},
        }
    )
    share = {f"share_{s}": pl.col(f"hard_{s}s") / pl.col(f"{s}s") for s in ("positive", "negative")}
    return frame.with_columns(**share).with_columns(
        pl.col("share_positive", "share_negative").fill_nan(None)
    )


def _equal(grid: pl.DataFrame) -> pl.DataFrame:
    p, q = pl.col("share_positive"), pl.col("share_negative")
    found = grid.filter((p > 0) & (q > 0)).with_columns(
        imbalance=(p - q).abs() / (p + q), least=pl.min_horizontal(p, q)
    )
    ordered = found.sort(
        "imbalance", pl.col("least"), descending=[False, True], maintain_order=True
    )
    columns = ["task", "split", "alpha", "beta", "share_positive", "share_negative", "imbalance"]
    best = ordered.unique(["task", "split"], keep="first", maintain_order=True).select(columns)
    places = grid.select("task", "split").unique(maintain_order=True)
    return places.join(best, on=["task", "split"], how="inner", maintain_order="left")
