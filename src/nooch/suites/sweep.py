"""Thresholds swept without refitting: cues by alpha, hard images over alpha and beta, tau or lift.

The data of the paper's Figs. 10 to 12, and the thresholds of the most equal shares (3.2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress, no_progress, options_from
from nooch.base.errors import ParameterError, check_fraction, check_one_of
from nooch.base.files import Place
from nooch.criteria import CE, Context, FittedCE, FittedContext, Gist, SupportFitted, require_areas
from nooch.criteria.context import FOLDS
from nooch.data import Dataset, as_dataset
from nooch.suites.coverage import check_counted, check_fit
from nooch.suites.find import training_part
from nooch.suites.search import resolve_tasks, splits_to_search
from nooch.suites.sweep_counts import POOLED, Sweep

ALPHAS = tuple(round(0.01 * i, 2) for i in range(21))
BETAS = tuple(round(0.02 * i, 2) for i in range(1, 26))
TAUS = tuple(round(0.02 * i, 2) for i in range(51))

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
_SIDES = ("hard_positives", "hard_negatives", "positives", "negatives")


@dataclass(frozen=True)
class SweepOptions:
    """Thresholds to sweep, and for which tasks.

    Attributes:
        alpha: thresholds on A(C, Y), fractions of the image, 0 and more; together with ``beta``.
        beta: thresholds on areas, likewise.
        tau: thresholds on the gist's cosine, -1 to 1; together with ``embedding``.
        lift: of the context criterion, above 0: how many times the usual odds of the class.
        embedding: name of one of the dataset's embeddings.
        tasks: ``all`` classes, ``nooch`` (the paper's 12), or names; by default all classes, in a
            sweep of losses those that are predicted.
        allow_unannotated: as for ``nooch.find``.
    """

    alpha: Sequence[float] = ()
    beta: Sequence[float] = ()
    tau: Sequence[float] = ()
    lift: Sequence[float] = ()
    embedding: str | None = None
    tasks: str | Sequence[str] | None = None
    allow_unannotated: bool = False

    def grids(self, data: Dataset) -> tuple[Floats, Floats, Floats, Floats]:
        """Alpha, beta, tau and lift, float64, ascending, each once.

        Raises:
            ParameterError: nothing to sweep, alpha without beta or the reverse, thresholds out of
                range, tau without an embedding of the dataset.
        """
        names = "alpha", "beta", "tau", "lift"
        alphas, betas, taus, lifts = (grid_of(n, getattr(self, n)) for n in names)
        if not len(alphas) + len(taus) + len(lifts) or bool(len(alphas)) != bool(len(betas)):
            raise ParameterError(
                "nothing to sweep", allowed="alpha together with beta, tau, lift, or all of them"
            )
        if len(taus) and self.embedding is None:
            raise ParameterError(
                "tau needs an embedding",
                where="sweep",
                allowed=", ".join(data.embeddings) or "none is there",
            )
        if len(taus):
            check_one_of("embedding", str(self.embedding), data.embeddings, owner="the dataset")
        return alphas, betas, taus, lifts


def sweep_thresholds(
    data: Dataset | Place | str,
    *,
    options: SweepOptions | None = None,
    splits: Sequence[str] | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> Sweep:
    """Count cues and hard images over thresholds; criteria are fitted once, on the training split.

    Images where a task's class, or a cue at an alpha, was not annotated are not counted there.

    Args:
        data: the dataset.
        options: see ``SweepOptions``.
        splits: where to count; by default valid and test as far as there are any, or ``all``.
        progress: called with what is being done, and how many of how many tasks are done.
        named: fields of ``SweepOptions``, such as ``alpha`` and ``beta``.

    Raises:
        ParameterError: nothing to sweep, alpha without beta or the reverse, thresholds out of
            range, tau without an embedding.
        InputError: unknown areas, an empty training split; too much that was not annotated.
    """
    data = as_dataset(data)
    asked = options_from(SweepOptions, options, named)
    alphas, betas, taus, lifts = asked.grids(data)
    names = resolve_tasks(data.classes, "all" if asked.tasks is None else asked.tasks)
    parts = {split: data.select(split) for split in splits_to_search(data.splits, splits)}
    train = training_part(data, "the criteria")
    strict = not asked.allow_unannotated
    cues = pl.DataFrame(schema={"task": pl.String, "alpha": pl.Float64, "n_cues": pl.Int64})
    grids = []
    if len(alphas):
        fitted = CE(float(alphas[0]), float(betas[0])).fit(train)
        if strict:
            check_fit({"ce": fitted}, {}, names)
        n_cues = np.array([_cues(fitted, task, alphas)[1] for task in names], dtype=np.int64)
        cues = pl.DataFrame(
            {
                "task": np.repeat(names, len(alphas)),
                "alpha": np.tile(alphas, len(names)),
                "n_cues": n_cues.reshape(-1),
            }
        )
        points = {"alpha": np.repeat(alphas, len(betas)), "beta": np.tile(betas, len(alphas))}
        for split, part in parts.items():
            counts = _Areas(part, betas).count(fitted, names, alphas, split, progress)
            if strict:
                check_counted(names, split, counts[:, :, 2:].sum(axis=2).min(axis=1), len(part))
            grids.append(_table(names, split, points, counts))
    lines: dict[str, list[pl.DataFrame]] = {"tau": [], "lift": []}
    fits: list[tuple[str, Floats, Any]] = [("tau", taus, Gist(str(asked.embedding)))]
    fits.append(("lift", lifts, Context(folds=FOLDS if data.fitting_split in parts else 0)))
    for name, values, criterion in fits:
        if not len(values):
            lines[name] = [_table([], "", {name: values}, np.empty((0, 0, 4), dtype=np.int64))]
            continue
        by_support = criterion.fit(train, names)
        defined = [task for task in names if by_support.undefined(task) is None]
        for split, part in parts.items():
            if strict:
                _check_labels(part, split, defined)
            counts = _by_support(by_support, part, defined, values)
            lines[name].append(_table(defined, split, {name: values}, counts))
    none = alphas[:0]
    empty = _table([], "", {"alpha": none, "beta": none}, np.empty((0, 0, 4), dtype=np.int64))
    grid = pl.concat(grids or [empty])
    return Sweep(cues, grid, pl.concat(lines["tau"]), _equal(grid), pl.concat(lines["lift"]))


def _check_labels(part: Dataset, split: str, tasks: Sequence[str]) -> None:
    """Raise InputError where most images of a split have no known label of a task."""
    masks = [part.unknown_labels(task) for task in tasks]
    known = [len(part) - (0 if mask is None else int(mask.sum())) for mask in masks]
    check_counted(tasks, split, np.array(known, dtype=np.int64), len(part))


def grid_of(name: str, values: Sequence[float]) -> Floats:
    """Thresholds ascending, each once. Raises ParameterError out of the range of ``name``."""
    grid = np.unique(np.asarray(values, dtype=np.float64))
    if name == "lift":
        if not ((grid > 0) & (grid < np.inf)).all():
            problem = f"{name} reaches from {grid[0]:g} to {grid[-1]:g}"
            raise ParameterError(problem, where="sweep", allowed="positive numbers, such as 2,3,5")
    elif name != "tau":
        for value in (*grid[:1], *grid[-1:]):
            check_fraction(name, value, "sweep")
    elif not (np.abs(grid) <= 1).all():
        problem = f"{name} reaches from {grid[0]:g} to {grid[-1]:g}"
        raise ParameterError(problem, where="sweep", allowed="a cosine, -1 to 1")
    return grid


def _cues(fitted: FittedCE, task: str, alphas: Floats) -> tuple[list[int], Counts]:
    """Columns of the cues at the smallest alpha, strongest first; their number at each alpha."""
    column = fitted.classes.index(task)
    strengths = np.nan_to_num(fitted.A[column], nan=-np.inf)
    strengths[column] = -np.inf
    order = np.lexsort((np.arange(len(strengths)), -strengths))
    order = order[strengths[order] > alphas[0]]
    return order.tolist(), (strengths[order] > alphas[:, None]).sum(axis=1).astype(np.int64)


class _Areas:
    """Areas of a split as codes of their position among the betas.

    An area between the (k-1)th and the kth beta has code 2k, one equal to the kth beta 2k + 1. So s
    < beta k is code <= 2k, and s > beta k is code >= 2k + 2; the code of a maximum is the maximum
    of codes. Images that are not counted have the type's largest number, which no code exceeds.
    """

    def __init__(self, part: Dataset, betas: Floats) -> None:
        require_areas(part)
        self._part, self._n = part, len(betas)
        kind = np.uint8 if 2 * len(betas) < 256 else np.uint16

        def code(areas: Any) -> Any:
            below, up_to = (np.searchsorted(betas, areas, side) for side in ("left", "right"))
            return (below + up_to).astype(kind)

        self._none = int(code(0.0))
        areas_of = {name: part.rows_of(name) for name in part.classes}
        self._codes = {name: (rows, code(areas)) for name, (rows, areas) in areas_of.items()}
        self._kind, self._left_out = kind, int(np.iinfo(kind).max)

    def count(
        self, fitted: FittedCE, tasks: Sequence[str], alphas: Floats, split: str, progress: Progress
    ) -> Counts:
        """Counts of ``_SIDES``: int64 (n_tasks, n_alphas x n_betas, 4)."""
        counts = np.zeros((len(tasks), len(alphas), self._n, 4), dtype=np.int64)
        for number, task in enumerate(tasks):
            columns, n_cues = _cues(fitted, task, alphas)
            for k, counted in enumerate(
                self._prefixes(task, [fitted.classes[c] for c in columns], set(n_cues.tolist()))
            ):
                # the image's support is known now for every alpha at which there are k cues
                counts[number, n_cues == k] = counted
            progress(f"counting on {split}", number + 1, len(tasks))
        return counts.reshape(len(tasks), -1, 4)

    def _prefixes(self, task: str, cues: Sequence[str], wanted: set[int]) -> list[Counts]:
        """Counts by beta, int64 (n_betas, 4), for the first k cues, k = 0 and each wanted k."""
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
        self, unknown: NDArray[np.bool_] | None, support: Any, histogram: Counts, labels: Any
    ) -> None:
        """Take the images where something is unknown out of the histogram, once."""
        if unknown is None:
            return
        rows = np.flatnonzero(unknown & (support != self._left_out))
        cells = labels[rows].astype(np.int64), support[rows].astype(np.int64)
        np.subtract.at(histogram, cells, 1)
        support[rows] = self._left_out

    def _counts(self, histogram: Counts) -> Counts:
        below = histogram.cumsum(axis=1)
        hard = below[1, 0 : 2 * self._n : 2], below[0, -1] - below[0, 1 : 2 * self._n : 2]
        return np.stack([*hard, *(np.full(self._n, below[side, -1]) for side in (1, 0))], axis=1)


def _by_support(
    fitted: SupportFitted, part: Dataset, tasks: Sequence[str], values: Floats
) -> Counts:
    """Counts of ``_SIDES`` where support does not depend on the threshold: int64 (n, n_values, 4).

    Values are taus or, of a context criterion, lifts.
    """
    counts = np.zeros((len(tasks), len(values), 4), dtype=np.int64)
    supports = fitted.each_support(part, tasks)
    for number, (task, support) in enumerate(zip(tasks, supports, strict=True)):
        labels = part.labels(task, unknown=False)
        unknown = part.unknown_labels(task)
        known = ~np.isnan(support) if unknown is None else ~np.isnan(support) & ~unknown
        positive, negative = np.sort(support[labels & known]), np.sort(support[~labels & known])
        low = high = values
        if isinstance(fitted, FittedContext):
            usual = fitted.usual(task)
            low, high = np.full(len(values), usual), usual + np.log(values)
        counts[number, :, 0] = np.searchsorted(positive, low, "left")
        counts[number, :, 1] = len(negative) - np.searchsorted(negative, high, "right")
        counts[number, :, 2:] = len(positive), len(negative)
    return counts


def point_columns(
    tasks: Sequence[str], split: str, thresholds: Mapping[str, Floats]
) -> dict[str, pl.Series]:
    """Columns ``task, split`` and thresholds, float64 (n_points,); a row per task and point."""
    n_points = len(next(iter(thresholds.values())))
    names = pl.Series("task", tasks, dtype=pl.String)
    return {
        "task": names.gather(np.repeat(np.arange(len(tasks)), n_points)),
        "split": pl.repeat(split, len(tasks) * n_points, dtype=pl.String, eager=True),
        **{name: pl.Series(np.tile(values, len(tasks))) for name, values in thresholds.items()},
    }


def _table(
    tasks: Sequence[str], split: str, thresholds: dict[str, Floats], counts: Counts
) -> pl.DataFrame:
    """Counts (n_tasks, n_points, 4) as rows, those of all tasks together last."""
    names = [*tasks, POOLED] if tasks else []
    counts = np.concatenate([counts, counts.sum(axis=0, keepdims=True)]) if tasks else counts
    frame = pl.DataFrame(
        point_columns(names, split, thresholds)
        | {side: pl.Series(counts[:, :, i].reshape(-1)) for i, side in enumerate(_SIDES)}
    )
    share = {f"share_{s}": pl.col(f"hard_{s}s") / pl.col(f"{s}s") for s in ("positive", "negative")}
    return frame.with_columns(**share).with_columns(
        pl.col("share_positive", "share_negative").fill_nan(None)
    )


def _equal(grid: pl.DataFrame) -> pl.DataFrame:
    p, q = pl.col("share_positive"), pl.col("share_negative")
    ordered = (
        grid.filter((p > 0) & (q > 0))
        .with_columns(imbalance=(p - q).abs() / (p + q), least=pl.min_horizontal(p, q))
        .sort("imbalance", "least", descending=[False, True], maintain_order=True)
    )
    columns = ["task", "split", "alpha", "beta", "share_positive", "share_negative", "imbalance"]
    best = ordered.unique(["task", "split"], keep="first", maintain_order=True).select(columns)
    places = grid.select("task", "split").unique(maintain_order=True)
    return places.join(best, on=["task", "split"], how="inner", maintain_order="left")
