"""Metrics that count images: their score intervals, of runs, of two runs, and of means over tasks.

Nothing here is resampled: a score interval needs the counts alone, and is right where few images
change and where a sample has no event. docs/intervals.md has how often they cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nooch.evaluation.metrics import SHARES, Graded
from nooch.evaluation.metrics.proportions import (
    dprime_intervals,
    exact_mcnemar,
    paired_interval,
    wilson,
)
from nooch.evaluation.metrics.subset_metrics import N_OUTCOMES
from nooch.evaluation.subsets import SCORED, DividedSet, ScoreScope

Floats = NDArray[np.float64]
_SENSITIVITY = ("dprime", "response_criterion")


@dataclass(frozen=True)
class Shares:
    """What some metrics are: shares of images.

    Attributes:
        n: float64 (n_subsets, n_metrics), images, of weighted ones the effective number (Kish
            1965); 0 where a metric is no share.
        up: float64 (n_subsets, n_metrics), the share of a run; of two runs the share of images that
            are counted for the first alone.
        down: of two runs the share of images that are counted for the second alone; else None.
    """

    n: Floats
    up: Floats
    down: Floats | None = None

    @classmethod
    def of_run(cls, scope: ScoreScope, metrics: Sequence[str], values: Floats) -> Self:
        """Those of a run's values (n_subsets, n_metrics)."""
        # a view would keep the replicates next to them
        return cls(_trials(scope, metrics), values.copy())

    @classmethod
    def of_pair(cls, part: DividedSet, metrics: Sequence[str], new: Graded, old: Graded) -> Self:
        """How often an image is counted for ``new`` alone, and for ``old`` alone."""
        n = _trials(part.scope, metrics)
        pairs = _sums(part, N_OUTCOMES * new.outcomes.astype(np.intp) + old.outcomes, N_OUTCOMES**2)
        table = pairs.reshape(-1, N_OUTCOMES, N_OUTCOMES)
        up, down = np.full((2, *n.shape), np.nan)
        rows = slice(0, len(table))
        for column, metric in enumerate(metrics):
            if metric in SHARES:
                events, among = (np.isin(np.arange(N_OUTCOMES), of) for of in SHARES[metric])
                total = table[:, among].sum(axis=(1, 2))
                with np.errstate(invalid="ignore"):
                    up[rows, column] = table[:, events][:, :, ~events].sum(axis=(1, 2)) / total
                    down[rows, column] = table[:, ~events][:, :, events].sum(axis=(1, 2)) / total
        return cls(n, up, down)

    def rows(self, rows: Sequence[int]) -> Self:
        """Of these subsets."""
        down = None if self.down is None else self.down[rows]
        return type(self)(self.n[rows], self.up[rows], down)

    def bounds(self) -> tuple[Floats, Floats, Floats]:
        """Low and high of the 95 % interval, and of two runs the exact p; NaN where there is none.

        Of weighted images and of means p is that of the effective number of images.
        """
        if self.down is None:
            return *wilson(self.up, self.n), np.full(self.n.shape, np.nan)
        p = np.where(self.n > 0, exact_mcnemar(self.up * self.n, self.down * self.n), np.nan)
        return *paired_interval(self.up, self.down, self.n), p

    @classmethod
    def mean(cls, tasks: Sequence[Self], inflation: Floats) -> Self:
        """The unweighted mean over tasks, with the number of images that has its variance.

        The variances of the tasks are those of their rates with two images more (Agresti and Coull
        1998; Bonett and Price 2012), which are not 0 where a task has no event.

        ``inflation``: (n_subsets, n_metrics), how much larger the variance is than that of
        independent tasks.
        """
        n = np.stack([task.n for task in tasks])
        known = n > 0
        count = known.sum(axis=0)
        means, smooth = [], []
        with np.errstate(invalid="ignore", divide="ignore"):
            for rates in ([t.up for t in tasks], [t.down for t in tasks if t.down is not None]):
                rate = np.where(known, np.stack(rates), 0.0) if rates else np.zeros_like(n)
                means.append(rate.sum(axis=0) / count)
                smooth.append(np.where(known, (rate * n + bool(rates)) / (n + 2), 0.0))
            spread = np.where(known, _variance(*smooth) / n, 0.0).sum(axis=0)
            whole = _variance(*(rate.sum(axis=0) / count for rate in smooth))
            effective = whole * count**2 / (spread * inflation)
        paired = tasks[0].down is not None
        effective = np.where(count > 0, effective, 0.0)
        return cls(effective, means[0], means[1] if paired else None)


def _variance(up: Floats, down: Floats) -> Floats:
    """Of one image's difference."""
    return np.asarray(up + down - (up - down) ** 2)


def _trials(scope: ScoreScope, metrics: Sequence[str]) -> Floats:
    """Images that a metric is a share of, (n_subsets, n_metrics); 0 where it is no share."""
    plain = np.array([subset.name in SCORED for subset in scope.subsets])
    n, n_positive, n_negative = scope.images * plain
    of = dict.fromkeys(SHARES, n) | {"recall": n_positive, "fpr": n_negative}
    return np.stack([of.get(metric, np.zeros_like(n)) for metric in metrics], axis=1)


def _sums(part: DividedSet, codes: NDArray[np.integer], size: int) -> Floats:
    """Weights of the images by code, float64 (n_subsets without mixtures, size)."""
    parts, n_atoms = part.parts, part.parts.members.shape[1]
    of_atoms = np.bincount(parts.atoms * size + codes, part.weights, minlength=n_atoms * size)
    return np.asarray(parts.members @ of_atoms.reshape(n_atoms, size).astype(np.float64))


def dprime_reaches(part: DividedSet, metrics: Sequence[str], model: Graded) -> Floats | None:
    """How far the intervals of d' and of the response criterion reach down and up from their
    values, (2, n_subsets, n_metrics), NaN of other metrics and mixtures; None without these two.
    """
    if not set(_SENSITIVITY) & set(metrics):
        return None
    sums = _sums(part, model.outcomes, N_OUTCOMES)
    reaches = np.full((2, len(part.scope.subsets), len(metrics)), np.nan)
    _, n_positive, n_negative = part.scope.images[:, : len(sums)]
    with np.errstate(invalid="ignore"):
        hits, claims = (
            sums[:, list(SHARES[name][0])].sum(axis=1) / sums[:, list(SHARES[name][1])].sum(axis=1)
            for name in ("recall", "fpr")
        )
    found = dprime_intervals(hits, n_positive, claims, n_negative)
    for name, reach in zip(_SENSITIVITY, found, strict=True):
        if name in metrics:
            reaches[:, : len(sums), list(metrics).index(name)] = reach
    return reaches


def correlated(new: Floats, old: Floats, replicates: tuple[Floats, Floats]) -> Floats | None:
    """Reaches of the difference of two values from theirs, (2, n_subsets, n_metrics), with the
    correlation that their replicates (n_subsets, n_metrics, k) have (Zou and Donner 2008).

    None without replicates: the correlation is not known then.
    """
    if not replicates[0].shape[-1]:
        return None
    both = ~np.isnan(replicates[0] + replicates[1])
    count = np.maximum(both.sum(axis=-1, keepdims=True), 1)
    first, second = (
        np.where(both, of - np.where(both, of, 0.0).sum(axis=-1, keepdims=True) / count, 0.0)
        for of in replicates
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        norm = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
        shared = np.where(norm > 0, (first * second).sum(axis=-1) / norm, 0.0)
    return np.sqrt(np.maximum(new**2 + old[::-1] ** 2 - 2 * shared * new * old[::-1], 0.0))
