"""One task of a split: every run on every subset of its sets, with intervals and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nooch.evaluation.bootstrap import BootstrapDraws, auc_interval, intervals, nll_interval
from nooch.evaluation.metrics import SHARES, Graded, Resampler
from nooch.evaluation.metrics.proportions import (
    dprime_intervals,
    effective_number,
    exact_mcnemar,
    paired_interval,
    wilson,
)
from nooch.evaluation.metrics.subset_metrics import N_OUTCOMES
from nooch.evaluation.predictions import Aligned
from nooch.evaluation.subsets import SCORED, DividedSet, ScoreScope
from nooch.suites import ChallengeSet

Floats = NDArray[np.float64]
_SENSITIVITY = ("dprime", "response_criterion")


@dataclass(frozen=True)
class Shares:
    """Counts of metrics that are shares of images.

    Attributes:
        n: float64 (n_subsets, n_metrics), images, of weighted ones the effective number (Kish
            1965); 0 where a metric is not a share.
        up: float64 (n_subsets, n_metrics), the share of a run; of two runs the share of images that
            are counted only for the first.
        down: of two runs the share of images that are counted only for the second; else None.
    """

    n: Floats
    up: Floats
    down: Floats | None = None

    @classmethod
    def of_run(
        cls, part: DividedSet, metrics: Sequence[str], values: Floats, seeds: Sequence[Graded]
    ) -> Self:
        """Shares of a run's values (n_subsets, n_metrics), the means over its seeds."""
        # a view would keep the replicates next to them
        return cls(_trials(part, metrics, seeds), values.copy())

    @classmethod
    def of_pair(cls, part: DividedSet, metrics: Sequence[str], new: Graded, old: Graded) -> Self:
        """Share of images counted only for ``new``, and only for ``old``."""
        n = _trials(part, metrics, [new], old)
        pairs = _sums(part, N_OUTCOMES * new.outcomes.astype(np.intp) + old.outcomes, N_OUTCOMES**2)
        table = pairs.reshape(-1, N_OUTCOMES, N_OUTCOMES)
        up, down = np.full((2, *n.shape), np.nan)
        rows = slice(0, len(table))
        for column, metric in enumerate(metrics):
            if metric in SHARES:
                events, among = (
                    np.isin(np.arange(N_OUTCOMES), outcomes) for outcomes in SHARES[metric]
                )
                total = table[:, among].sum(axis=(1, 2))
                with np.errstate(invalid="ignore"):
                    up[rows, column] = table[:, events][:, :, ~events].sum(axis=(1, 2)) / total
                    down[rows, column] = table[:, ~events][:, :, events].sum(axis=(1, 2)) / total
        return cls(n, up, down)

    def rows(self, rows: Sequence[int]) -> Self:
        """Counts of these subsets."""
        down = None if self.down is None else self.down[rows]
        return type(self)(self.n[rows], self.up[rows], down)

    def bounds(self) -> tuple[Floats, Floats, Floats]:
        """Low and high of the 95% interval, and of two runs the exact p; NaN if there is none.

        For weighted images and means, p uses the effective number of images.
        """
        if self.down is None:
            return *wilson(self.up, self.n), np.full(self.n.shape, np.nan)
        p = np.where(self.n > 0, exact_mcnemar(self.up * self.n, self.down * self.n), np.nan)
        return *paired_interval(self.up, self.down, self.n), p

    @classmethod
    def mean(cls, tasks: Sequence[Self], inflation: Floats) -> Self:
        """The unweighted mean over tasks, with the number of images that has its variance.

        The variances of the tasks use their rates with two images more (Agresti and Coull 1998;
        Bonett and Price 2012), which are not 0 where a task has no event.

        ``inflation``: (n_subsets, n_metrics), ratio of the variance to the one of independent
            tasks.
        """
        n = np.stack([task.n for task in tasks])
        has_images = n > 0
        count = has_images.sum(axis=0)
        means, smooth = [], []
        with np.errstate(invalid="ignore", divide="ignore"):
            for rates in ([t.up for t in tasks], [t.down for t in tasks if t.down is not None]):
                rate = np.where(has_images, np.stack(rates), 0.0) if rates else np.zeros_like(n)
                means.append(rate.sum(axis=0) / count)
                smooth.append(np.where(has_images, (rate * n + bool(rates)) / (n + 2), 0.0))
            spread = np.where(has_images, _variance(*smooth) / n, 0.0).sum(axis=0)
            whole = _variance(*(rate.sum(axis=0) / count for rate in smooth))
            effective = whole * count**2 / (spread * inflation)
        paired = tasks[0].down is not None
        effective = np.where(count > 0, effective, 0.0)
        return cls(effective, means[0], means[1] if paired else None)


def _variance(up: Floats, down: Floats) -> Floats:
    """Variance of one image's difference."""
    return np.asarray(up + down - (up - down) ** 2)


def _trials(
    part: DividedSet, metrics: Sequence[str], seeds: Sequence[Graded], old: Graded | None = None
) -> Floats:
    """Images that a metric is a share of, (n_subsets, n_metrics); 0 if it is not a share. Of groups
    of images the ``effective_number`` for the mean over seeds, less the share of ``old``.
    """
    scope = part.scope
    plain = np.array([subset.name in SCORED for subset in scope.subsets])
    if part.units is not None:
        return np.stack([_of_groups(part, metric, seeds, old) * plain for metric in metrics], 1)
    n, n_positive, n_negative = scope.images * plain
    trials = dict.fromkeys(SHARES, n) | {"recall": n_positive, "fpr": n_negative}
    return np.stack([trials.get(metric, np.zeros_like(n)) for metric in metrics], axis=1)


def _of_groups(
    part: DividedSet, metric: str, seeds: Sequence[Graded], old: Graded | None = None
) -> Floats:
    """The effective number of images of a share in each subset, (n_subsets,), 0 of others."""
    numbers, parts = np.zeros(len(part.scope.subsets)), part.parts
    if metric not in SHARES or part.units is None:
        return numbers
    events, among = map(list, SHARES[metric])
    values = np.mean([np.isin(model.outcomes, events) for model in seeds], axis=0)
    if old is not None:
        values = values - np.isin(old.outcomes, events)
    counted = np.isin(seeds[0].outcomes, among)
    for row, member in enumerate(parts.members):
        own = member[parts.atoms] & counted
        weights = None if part.weights is None else part.weights[own]
        numbers[row] = effective_number(values[own], part.units[own], weights)
    return numbers


def _sums(part: DividedSet, codes: NDArray[np.integer], size: int) -> Floats:
    """Weights of the images by code, float64 (n_subsets without mixtures, size)."""
    parts, n_atoms = part.parts, part.parts.members.shape[1]
    of_atoms = np.bincount(parts.atoms * size + codes, part.weights, minlength=n_atoms * size)
    return np.asarray(parts.members @ of_atoms.reshape(n_atoms, size).astype(np.float64))


def dprime_reaches(part: DividedSet, metrics: Sequence[str], model: Graded) -> Floats | None:
    """Distances down and up from d' and the response criterion to the ends of their intervals, (2,
    n_subsets, n_metrics), NaN of other metrics and mixtures; None without these two.
    """
    if not set(_SENSITIVITY) & set(metrics):
        return None
    sums = _sums(part, model.outcomes, N_OUTCOMES)
    reaches = np.full((2, len(part.scope.subsets), len(metrics)), np.nan)
    _, n_positive, n_negative = part.scope.images[:, : len(sums)]
    if part.units is not None:
        n_positive, n_negative = (
            _of_groups(part, name, [model])[: len(sums)] for name in ("recall", "fpr")
        )
    with np.errstate(invalid="ignore"):
        hits, claims = (
            sums[:, list(SHARES[name][0])].sum(axis=1) / sums[:, list(SHARES[name][1])].sum(axis=1)
            for name in ("recall", "fpr")
        )
    intervals = dprime_intervals(hits, n_positive, claims, n_negative)
    for name, reach in zip(_SENSITIVITY, intervals, strict=True):
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
        np.where(
            both,
            replicate - np.where(both, replicate, 0.0).sum(axis=-1, keepdims=True) / count,
            0.0,
        )
        for replicate in replicates
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        norm = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
        shared = np.where(norm > 0, (first * second).sum(axis=-1) / norm, 0.0)
    return np.sqrt(np.maximum(new**2 + old[::-1] ** 2 - 2 * shared * new * old[::-1], 0.0))


INTERVALS = (None, "bootstrap", "wilson", "tango", "jeffreys")
"""Kinds of 95% intervals, by their number in ``Block.kinds``."""

_ROUNDING = 1e-12
OF_BOTH = {"auc", "auprc", "balanced_accuracy", "precision", "f1", "dprime", "response_criterion"}
"""Metrics that are as uncertain as the rarer label has few images."""

K = TypeVar("K")


@dataclass(frozen=True)
class Block:
    """Values of one run (``baseline`` None), or what it has more than the baseline run.

    Attributes:
        run: name of the run.
        scope: what they are of.
        values: float64 (n_subsets, n_metrics), NaN where undefined; ``low`` and ``high`` the same,
            NaN without an interval.
        resamples: int64 (n_subsets, n_metrics), resamples in which the value is defined.
        kinds: int8 (n_subsets, n_metrics), positions in ``INTERVALS``.
        over: for an average, names of the tasks that define each (subset, metric), by row.
        baseline: name of the run that is subtracted.
        p: float64 (n_subsets, n_metrics), of a difference of shares, exact; NaN of others.
        shares: counts of the metrics that are shares, if known.
        reaches: of d' and the response criterion, how far their intervals reach down and up, (2,
            n_subsets, n_metrics), NaN of other metrics; or None.
    """

    run: str
    scope: ScoreScope
    values: Floats
    low: Floats
    high: Floats
    resamples: NDArray[np.int64]
    kinds: NDArray[np.int8]
    over: Sequence[tuple[str, ...]] | None = None
    baseline: str | None = None
    p: Floats | None = None
    shares: Shares | None = None
    reaches: Floats | None = None


ScoredTask = tuple[Block, Floats]
"""A block, and the values of ``scope.common``, then their replicates: (n_common, n_metrics, 1 + k).
"""


def score_task(
    parts: Sequence[DividedSet],
    runs: Mapping[str, tuple[Aligned, str]],
    metrics: Sequence[str],
    draws: BootstrapDraws | None,
    baseline: str | None,
    thresholds: Mapping[str, Mapping[str, float]],
) -> list[ScoredTask]:
    """Score one task of a split."""
    scored: list[ScoredTask] = []
    models: dict[str, Graded] = {}
    before: ChallengeSet | None = None
    for part in parts:
        if before is None or not part.challenge.image_ids.equals(before.image_ids):
            # criteria with a verdict on the same images share one ranking
            models = graded(part, runs, metrics, thresholds)
        before = part.challenge
        rows = with_replicates(models, part, draws)
        seeds = {name: [model] for name, model in models.items()}
        scored += compared(part, seeds, rows, metrics, [baseline] if baseline else [])
    return scored


def compared(
    part: DividedSet,
    models: Mapping[str, Sequence[Graded]],
    rows: Mapping[str, Floats],
    metrics: Sequence[str],
    baselines: Sequence[str],
) -> list[ScoredTask]:
    """Runs of one or several seeds on a set, then what they have more than baselines, each pair
    once. ``rows``: as of ``with_replicates``.
    """
    scope, mine = part.scope, dict[str, Block]()
    # one answer a run: over several seeds an image may change in some of them
    single = {name: seeds[0] for name, seeds in models.items() if len(seeds) == 1}
    for name, values in rows.items():
        mine[name] = block_of(
            name, scope, metrics, values,
            shares=Shares.of_run(part, metrics, values[..., 0], models[name]),
            reaches=dprime_reaches(part, metrics, single[name]) if name in single else None,
        )  # fmt: skip
    scored = [(block, rows[name][scope.common]) for name, block in mine.items()]
    here = [name for name in baselines if name in rows]
    for number, baseline in enumerate(here):
        for name in rows:
            if name == baseline or name in here[:number]:
                continue
            gap, shares = rows[name] - rows[baseline], None
            reaches, of_baseline = mine[name].reaches, mine[baseline].reaches
            if reaches is not None and of_baseline is not None:
                pair = rows[name][..., 1:], rows[baseline][..., 1:]
                reaches = correlated(reaches, of_baseline, pair)
            if name in single and baseline in single:
                shares = Shares.of_pair(part, metrics, single[name], single[baseline])
            block = block_of(
                name, scope, metrics, gap, baseline=baseline, shares=shares, reaches=reaches
            )
            scored.append((block, gap[scope.common]))
    return scored


def graded(
    part: DividedSet,
    runs: Mapping[K, tuple[Aligned, str]],
    metrics: Sequence[str],
    thresholds: Mapping[K, Mapping[str, float]] | None = None,
) -> dict[K, Graded]:
    """Run -> its outputs for the images of a set; ``thresholds`` as for ``score_task``."""
    challenge, models = part.challenge, {}
    for name, (run, scale) in runs.items():
        values = run.values(challenge.task, part.rows, challenge)
        threshold = (thresholds or {}).get(name, {}).get(challenge.task, 0.5)
        counts = run.counts(challenge.task, part.rows)
        models[name] = Graded(challenge.labels, values, scale, metrics, threshold, counts)
    return models


def with_replicates(
    models: Mapping[K, Graded], part: DividedSet, draws: BootstrapDraws | None
) -> dict[K, Floats]:
    """Run -> (n_subsets, n_metrics, 1 + k): values, then replicates."""
    rows: dict[K, Floats] = {}
    resampled = draws is not None or part.weights is not None
    resamplers = {n: Resampler(model, part.parts) for n, model in models.items() if resampled}
    for name, model in models.items():
        if part.weights is None:
            values = model.scores(part.parts)
        else:
            own = part.weights[:, None]
            values = resamplers[name](own, own, np.ones_like(own))[..., 0]
        rows[name] = np.empty((*values.shape, 1 + (0 if draws is None else draws.resamples)))
        rows[name][..., 0] = values
    for block, counts in () if draws is None else draws.weights(part.rows):
        weights, floats, drawn = counts, counts.astype(np.float64), None
        if part.weights is not None:
            weights = floats = floats * part.weights[:, None]
            drawn = counts
        for name, resampler in resamplers.items():
            rows[name][..., 1 + block.start : 1 + block.stop] = resampler(weights, floats, drawn)
    return rows


def block_of(
    run: str,
    scope: ScoreScope,
    metrics: Sequence[str],
    rows: Floats,
    *,
    baseline: str | None = None,
    over: Sequence[tuple[str, ...]] | None = None,
    shares: Shares | None = None,
    reaches: Floats | None = None,
) -> Block:
    """A run's values with 95% intervals, from rows (n_subsets, n_metrics, 1 + n_replicates).

    The point estimate is first. Shares have score intervals, d' and the response criterion the
    intervals of ``reaches``; the others percentiles of the replicates, of at least ``FEWEST``
    images. The intervals of AUC and NLL have their own form. Differences apart, no interval has
    width 0.
    """
    # a view would keep all replicates for as long as the block
    point, replicates = rows[..., 0].copy(), rows[..., 1:]
    low = high = np.full(point.shape, np.nan)
    defined, p = np.zeros(point.shape, dtype=np.int64), None
    if replicates.shape[-1]:
        low, high, defined = intervals(replicates, deciding(scope, metrics))
        unusable = np.isnan(point) | np.isnan(low)
        if baseline is None:
            low, high = _shaped(scope, metrics, rows, (low, high))
            unusable |= high <= low + _ROUNDING
        low, high = (np.where(unusable, np.nan, bound) for bound in (low, high))
    kinds = np.where(np.isnan(low), 0, 1).astype(np.int8)
    closed = []
    if shares is not None:
        least, most, p = shares.bounds()
        closed.append((least, most, 2 if shares.down is None else 3))
    if reaches is not None:
        closed.append((point - reaches[0], point + reaches[1], 4))
    for least, most, kind in closed:
        has = ~np.isnan(least) & ~np.isnan(point)
        low, high = np.where(has, least, low), np.where(has, most, high)
        kinds[has] = kind
    return Block(
        run, scope, point, low, high, defined, kinds, over, baseline, p, shares, reaches
    )  # fmt: skip


def _shaped(
    scope: ScoreScope, metrics: Sequence[str], rows: Floats, bounds: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Bounds with AUC's and NLL's own in place of percentiles, if they are finite."""
    n, *sizes = scope.images
    for column, metric in enumerate(metrics):
        parts = rows[:, column, 0], rows[:, column, 1:]
        if metric == "auc":
            interval = auc_interval(*parts, np.array(sizes), scope.tasks)
        elif metric == "nll":
            interval = nll_interval(*parts, n)
        else:
            continue
        for bound, own in zip(bounds, interval, strict=True):
            bound[:, column] = np.where(np.isfinite(own), own, bound[:, column])
    return bounds


def deciding(scope: ScoreScope, metrics: Sequence[str]) -> NDArray[np.int64]:
    """Images, or groups, that decide how far a metric may be off, (n_subsets, n_metrics)."""
    n, *sides = scope.units
    rarer = np.minimum(*sides)
    return np.stack([rarer if name in OF_BOTH else n for name in metrics], axis=1)
