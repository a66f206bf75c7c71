"""Thresholds swept without refitting: cues by alpha, hard images over alpha and beta, tau or lift.

The data of the paper's Figs. 10 to 14, and the thresholds of the most equal shares (3.2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress, checked, no_progress
from nooch.base.errors import ParameterError, check_fraction, check_one_of
from nooch.criteria import CE, Context, FittedCE, FittedContext, Gist, SupportFitted, require_areas
from nooch.criteria.context import FOLDS
from nooch.data import Dataset, as_dataset
from nooch.suites.find import training_part
from nooch.suites.search import check_fit, refuse_if_most_missing, resolve_tasks, splits_to_search

ALPHAS = tuple(round(0.01 * i, 2) for i in range(21))
BETAS = tuple(round(0.02 * i, 2) for i in range(1, 26))
TAUS = tuple(round(0.02 * i, 2) for i in range(51))

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
POOLED = "all tasks"
"""The task that stands for all pairs of image and task together."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Results of sweeping thresholds.

    Attributes:
        cues: ``task, alpha, n_cues`` (Fig. 10).
        grid: ``task, split, alpha, beta, hard_positives, hard_negatives, positives, negatives,
            share_positive, share_negative`` (Fig. 12): share_positive is P(hard | y = 1),
            share_negative P(hard | y = 0). Without a cue at an alpha there is no hard image. The
            task ``all tasks`` pools all pairs of image and task.
        tau: ``task, split, tau``, then the same columns, for the gist criterion (Fig. 11); empty if
            it was not swept.
        equal: for each task and split the (alpha, beta) whose shares are most alike: the smallest
            |p - q| / (p + q), then the larger shares; without tasks where no point has images on
            both sides.
        lift: as ``tau`` for the context criterion; its hard positives are the same at each lift.

    ``sweep_losses`` adds ``loss_positive, loss_negative`` to ``grid`` and ``tau``: the mean NLL
    (natural logarithm) of hard images, null if there is none (Figs. 13 and 14).
    """

    cues: pl.DataFrame
    grid: pl.DataFrame
    tau: pl.DataFrame
    equal: pl.DataFrame
    lift: pl.DataFrame

    def __repr__(self) -> str:
        return (
            f"Sweep({self.cues['task'].n_unique()} tasks, {self.grid.height} points,"
            f" {self.tau.height} of tau, {self.lift.height} of lift)"
        )


class Grids(NamedTuple):
    """Thresholds to sweep, float64, ascending, each once; and the embedding of tau."""

    alpha: Floats
    beta: Floats
    tau: Floats
    lift: Floats
    embedding: str | None

    @classmethod
    def checked(
        cls,
        data: Dataset,
        alpha: Sequence[float],
        beta: Sequence[float],
        tau: Sequence[float],
        lift: Sequence[float],
        embedding: str | None,
    ) -> Self:
        """The grids. Raises ParameterError as ``sweep_thresholds`` does."""
        grids = cls(
            grid_of("alpha", alpha), grid_of("beta", beta), grid_of("tau", tau),
            grid_of("lift", lift), embedding,
        )  # fmt: skip
        if bool(len(grids.alpha)) != bool(len(grids.beta)) or not any(
            len(grid) for grid in grids[:4]
        ):
            raise ParameterError(
                "nothing to sweep", allowed="alpha together with beta, tau, lift, or all of them"
            )
        if len(grids.tau) and embedding is None:
            raise ParameterError(
                "tau needs an embedding",
                where="sweep",
                allowed=", ".join(data.embeddings) or "none stored",
            )
        if len(grids.tau):
            check_one_of("embedding", str(embedding), data.embeddings, owner="the dataset")
        return grids


@checked
def sweep_thresholds(
    data: Dataset | str | Path,
    *,
    alpha: Sequence[float] = (),
    beta: Sequence[float] = (),
    tau: Sequence[float] = (),
    lift: Sequence[float] = (),
    embedding: str | None = None,
    tasks: str | Sequence[str] = "all",
    splits: Sequence[str] | None = None,
    allow_unannotated: bool = False,
    progress: Progress = no_progress,
) -> Sweep:
    """Count cues and hard images over thresholds; criteria are fitted once, on the training split.

    Images where a task's class, or a cue at an alpha, was not annotated are not counted there.

    Args:
        data: the dataset.
        alpha: thresholds on A(C, Y) of ce, fractions of the image from 0 to 1; together with
            ``beta``.
        beta: thresholds on areas of ce, fractions of the image from 0 to 1; together with
            ``alpha``.
        tau: thresholds on the cosine of gist, from -1 to 1; together with ``embedding``.
        lift: thresholds of context: how many times the usual odds of the class, above 0.
        embedding: name of one of the dataset's embeddings.
        tasks: names separated by commas; ``nooch`` (the paper's 12), or ``all`` classes, the
            default.
        splits: splits to count in; by default valid and test, if the dataset has them, or ``all``.
        allow_unannotated: continue even if more than half of a task's training positives or of a
            split's images were not annotated.
        progress: called with what is being done, and how many of how many tasks are done.

    Raises:
        ParameterError: nothing to sweep, alpha without beta or the reverse, thresholds out of
            range, tau without an embedding.
        InputError: unknown areas, an empty training split; too much that was not annotated.

    Examples:
        >>> sweep = nooch.sweep_thresholds("data", alpha=[0, 0.05], beta=[0.1], tasks=["car"])
        >>> sweep.cues.rows()
        [('car', 0.0, 1), ('car', 0.05, 1)]
    """
    data = as_dataset(data)
    grids = Grids.checked(data, alpha, beta, tau, lift, embedding)
    names, places = resolve_tasks(data.classes, tasks), splits_to_search(data.splits, splits)
    return swept(data, grids, names, places, progress, allow_unannotated=allow_unannotated)


def swept(
    data: Dataset,
    asked: Grids,
    names: Sequence[str],
    splits: Sequence[str],
    progress: Progress,
    losses_of: Callable[[Dataset, str], Floats] | None = None,
    *,
    allow_unannotated: bool,
) -> Sweep:
    """Counts over thresholds, and mean losses of hard images; ``losses_of`` gives the losses of a
    part's images for a task, (n_images,).
    """
    alphas, betas, taus, lifts, _ = asked
    train = training_part(data, "the criteria")
    cues = pl.DataFrame(schema={"task": pl.String, "alpha": pl.Float64, "n_cues": pl.Int64})
    fits: dict[str, SupportFitted] = {}
    if len(alphas):
        other = "lift" if losses_of is None else "tau"
        for part in (train, *map(data.select, splits)):
            require_areas(part, {"alpha": None, "beta": None, other: ...})
        fits["grid"] = ce = CE(float(alphas[0]), float(betas[0])).fit(train)
        if not allow_unannotated:
            check_fit("ce", ce, names)
        n_cues = np.concatenate([cue_counts(ce, task, alphas) for task in names])
        columns = np.repeat(names, len(alphas)), np.tile(alphas, len(names)), n_cues
        cues = pl.DataFrame(dict(zip(cues.columns, columns, strict=True)))
    if len(taus):
        fits["tau"] = Gist(str(asked.embedding)).fit(train, names)
    if len(lifts):
        folds = FOLDS if data.fitting_split in splits else 0
        fits["lift"] = Context(folds=folds, group=data.group or "").fit(train, names)
    grids = {"grid": (alphas, betas), "tau": (taus,), "lift": (lifts,)}
    points = {name: {name: tables_of_splits[0]} for name, tables_of_splits in grids.items()}
    points["grid"] = {"alpha": np.repeat(alphas, len(betas)), "beta": np.tile(betas, len(alphas))}
    n_sums = 2 if losses_of is None else 3
    tables = {
        name: [_table({}, n_sums, "", tables_of_splits)]
        for name, tables_of_splits in points.items()
    }
    for name, fitted in fits.items():
        # without cues a task is counted all the same
        tasks = [t for t in names if name == "grid" or fitted.undefined(t) is None]
        for split in splits:
            part, sums, unknown_rows = data.select(split), {}, []
            for task, of_task in zip(
                tasks, _sums(fitted, part, tasks, grids[name], losses_of), strict=True
            ):
                sums[task] = of_task[0]
                unknown_rows.append(of_task[1])
                progress(f"counting on {split}", len(unknown_rows), len(tasks))
            if not allow_unannotated:
                rows = [
                    (t, len(part) - n, len(part)) for t, n in zip(tasks, unknown_rows, strict=True)
                ]
                refuse_if_most_missing(rows, f"images of {split}", "split's images")
            tables[name].append(_table(sums, n_sums, split, points[name]))
    grid, tau, lift = (pl.concat(tables_of_splits) for tables_of_splits in tables.values())
    return Sweep(cues, grid, tau, _equal(grid), lift)


def _sums(
    fitted: SupportFitted,
    part: Dataset,
    tasks: Sequence[str],
    grid: Sequence[Floats],
    losses_of: Callable[[Dataset, str], Floats] | None,
) -> Iterator[tuple[Floats, int]]:
    """For each task ``hard_sums`` over a grid, and in how many images it was annotated."""
    supports = fitted.each_support(part, tasks)
    for task in tasks:
        labels, unknown = part.labels(task, unknown=False), part.unknown_labels(task)
        sides = np.stack([labels, ~labels]) & (True if unknown is None else ~unknown)
        losses = None if losses_of is None else losses_of(part, task)
        if isinstance(fitted, FittedCE):
            alphas, betas = grid
            sums = area_sums(fitted, part, task, alphas, betas, sides, losses)
            yield sums, int(sums[..., 1].sum(axis=1).min())
            continue
        low = high = grid[0]
        if isinstance(fitted, FittedContext):
            usual = fitted.usual(task)
            low, high = np.full(len(grid[0]), usual), usual + np.log(grid[0])
        yield hard_sums(next(supports), sides, low, high, losses), int(sides.sum())


def grid_of(name: str, values: Sequence[float]) -> Floats:
    """Thresholds ascending, each once. Raises ParameterError out of the range of ``name``."""
    grid = np.unique(np.asarray(values, dtype=np.float64))
    if name == "lift":
        if not ((grid > 0) & (grid < np.inf)).all():
            problem = f"{name} ranges from {grid[0]:g} to {grid[-1]:g}"
            raise ParameterError(problem, where="sweep", allowed="positive numbers, such as 2,3,5")
    elif name != "tau":
        for value in (*grid[:1], *grid[-1:]):
            check_fraction(name, value, "sweep")
    elif not (np.abs(grid) <= 1).all():
        problem = f"{name} ranges from {grid[0]:g} to {grid[-1]:g}"
        raise ParameterError(problem, where="sweep", allowed="a cosine, -1 to 1")
    return grid


def cue_counts(fitted: FittedCE, task: str, alphas: Floats) -> NDArray[np.int64]:
    """Number of a task's cues, strongest first, at each alpha, int64 (n_alphas,); ``fitted`` has
    the least alpha.
    """
    cues = fitted.cues(task)
    if task in fitted.criterion.cues:
        return np.full(len(alphas), len(cues))
    strengths = np.array([fitted.strength(cue, task) for cue in cues])
    return np.asarray((strengths > alphas[:, None]).sum(axis=1))


def cue_supports(
    fitted: FittedCE, part: Dataset, task: str, alphas: Floats
) -> Iterator[tuple[Bools, Floats]]:
    """The alphas with the same cues, bool (n_alphas,), and the support by these; not those without.

    ``fitted`` has the least alpha. The support, float64 (n_images,), is one array that changes: a
    cue more can only make it larger.
    """
    require_areas(part)
    n_cues = cue_counts(fitted, task, alphas)
    support = np.zeros(len(part))
    for k, cue in enumerate(fitted.cues(task), 1):
        rows, areas = part.rows_of(cue)
        support[rows] = np.maximum(support[rows], areas)
        if (unknown := part.unknown(cue)) is not None:
            support[unknown] = np.nan
        if (same := n_cues == k).any():
            yield same, support


def area_sums(
    fitted: FittedCE,
    part: Dataset,
    task: str,
    alphas: Floats,
    betas: Floats,
    sides: Bools,
    losses: Floats | None = None,
) -> Floats:
    """``hard_sums`` over alphas and betas, float64 (n_alphas * n_betas, 2, 2 or 3)."""
    sums = np.zeros((len(alphas), len(betas), 2, 2 if losses is None else 3))
    # without a cue nothing is hard
    sums[..., 1] = sides.sum(axis=1)
    for same, support in cue_supports(fitted, part, task, alphas):
        sums[same] = hard_sums(support, sides, betas, betas, losses)
    return sums.reshape(-1, *sums.shape[2:])


def hard_sums(
    support: Floats, sides: Bools, low: Floats, high: Floats, losses: Floats | None = None
) -> Floats:
    """For each threshold and side the number of hard images and of all and, if they are given, the
    sum of losses of the hard ones: float64 (t, 2, 2 or 3).

    ``support``: float64 (n,), NaN without a verdict; ``sides``: positives and negatives, bool (2,
    n); hard positives lie strictly below ``low``, hard negatives strictly above ``high``, float64
    (t,), ascending.
    """
    sums = np.empty((len(low), 2, 2 if losses is None else 3))
    has_support = ~np.isnan(support)
    for side, (sign, limits) in enumerate(((1, low), (-1, -high[::-1]))):
        # most images are negative and below every threshold
        rows = np.flatnonzero(sides[side] & (sign * support < limits[-1]))
        place = np.searchsorted(limits, sign * support[rows], "right")
        sums[:, side, 0] = np.bincount(place, minlength=len(low)).cumsum()[::sign]
        sums[:, side, 1] = np.count_nonzero(sides[side] & has_support)
        if losses is not None:
            sums[:, side, 2] = np.bincount(place, losses[rows], len(low)).cumsum()[::sign]
    return sums


def _table(
    sums: Mapping[str, Floats], n_sums: int, split: str, points: Mapping[str, Floats]
) -> pl.DataFrame:
    """Sums by task, each (n_points, 2, n_sums), as rows; the sums over all tasks come last."""
    if sums:
        sums = {**sums, POOLED: np.sum(list(sums.values()), axis=0)}
    every = np.concatenate([np.empty((0, 2, n_sums)), *sums.values()])
    n_points, sides = len(next(iter(points.values()))), list(enumerate(("positive", "negative")))
    columns: dict[str, Any] = {
        "task": pl.Series(np.repeat(list(sums), n_points), dtype=pl.String),
        "split": pl.repeat(split, len(every), dtype=pl.String, eager=True),
        **{name: np.tile(values, len(sums)) for name, values in points.items()},
        **{f"hard_{side}s": every[:, i, 0].astype(np.int64) for i, side in sides},
        **{f"{side}s": every[:, i, 1].astype(np.int64) for i, side in sides},
        **{f"share_{side}": _mean(every[:, i, 0], every[:, i, 1]) for i, side in sides},
    }
    if n_sums > 2:
        columns |= {f"loss_{side}": _mean(every[:, i, 2], every[:, i, 0]) for i, side in sides}
    return pl.DataFrame(columns)


def _mean(total: Floats, n: Floats) -> pl.Series:
    """Null where ``n`` is 0."""
    return pl.Series(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)).fill_nan(None)


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
