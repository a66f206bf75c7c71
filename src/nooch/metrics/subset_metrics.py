"""All metrics of one task on many subsets of its images at once, once or under many resamplings.

Subsets are unions of atoms: the smallest parts of the images that no subset divides. What is a mean
or a histogram is summed over atoms once; AUC and average precision come from one ranking.

``ece`` (Guo et al., 2017) is of the probability of being positive: the sum over bins of |share of
positives - mean probability| x the bin's share of images; ``ece_top`` is of the answer, whose
confidence is max(p, 1 - p) (paper, section 5). ``ece_paper`` is ``ece_top`` times the subset's
share of all images: the paper's Tables 17 and 18 say only "ECE", and fit this quantity and no other
(docs/results.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack
from scipy.special import ndtri

from nooch.metrics.pointwise import losses, probabilities, said_positive
from nooch.metrics.ranking import Ranking

__all__ = ["ALL_METRICS", "ANSWER_METRICS", "METRICS", "N_BINS", "Graded", "Parts"]

METRICS = ("auc", "auprc", "error", "nll", "ece", "ece_top", "ece_paper")
"""Those that are computed by default."""

N_BINS = 15
"""Bins of equal width over [0, 1] of the expected calibration errors."""

Floats = NDArray[np.float64]
_RANKED = METRICS[:2]


def _of_both(sums: Mapping[str, Floats], value: Floats) -> Floats:
    """The value where there are positives and negatives, else NaN."""
    return np.where((sums["positive"] > 0) & (sums["negative"] > 0), value, np.nan)


def _balanced(sums: Mapping[str, Floats]) -> Floats:
    hits, rejections = sums["hit"] / sums["positive"], 1 - sums["false"] / sums["negative"]
    return (hits + rejections) / 2


def _z_scores(sums: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Normal quantiles of recall and FPR, log-linearly corrected (Hautus 1995), so that rates of 0
    and 1 have one, too; NaN without positives or negatives.
    """
    unit = sums["size"] / sums["weight"]
    hits = _of_both(sums, (sums["hit"] * unit + 0.5) / (sums["positive"] * unit + 1))
    claims = _of_both(sums, (sums["false"] * unit + 0.5) / (sums["negative"] * unit + 1))
    return ndtri(hits), ndtri(claims)


def _dprime(sums: Mapping[str, Floats]) -> Floats:
    hits, claims = _z_scores(sums)
    return hits - claims


def _response_criterion(sums: Mapping[str, Floats]) -> Floats:
    hits, claims = _z_scores(sums)
    return -(hits + claims) / 2


_CONFUSION = ("positive", "negative", "hit", "false")
_FORMULAS: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Floats]], Floats]]] = {
    "error": (("error",), lambda s: s["error"] / s["weight"]),
    "nll": (("nll",), lambda s: s["nll"] / s["weight"]),
    "ece": (("ece",), lambda s: s["ece"] / s["weight"]),
    "ece_top": (("ece_top",), lambda s: s["ece_top"] / s["weight"]),
    "ece_paper": (("ece_top",), lambda s: s["ece_top"] / s["images"]),
    "accuracy": (("error",), lambda s: 1 - s["error"] / s["weight"]),
    "balanced_accuracy": (_CONFUSION, _balanced),
    "precision": (_CONFUSION, lambda s: _of_both(s, s["hit"] / (s["hit"] + s["false"]))),
    "recall": (("positive", "hit"), lambda s: s["hit"] / s["positive"]),
    "fpr": (("negative", "false"), lambda s: s["false"] / s["negative"]),
    "f1": (
        _CONFUSION,
        lambda s: _of_both(s, 2 * s["hit"] / (s["hit"] + s["false"] + s["positive"])),
    ),
    "brier": (("brier",), lambda s: s["brier"] / s["weight"]),
    "yes_rate": (("hit", "false"), lambda s: (s["hit"] + s["false"]) / s["weight"]),
    "dprime": (_CONFUSION, _dprime),
    "response_criterion": (_CONFUSION, _response_criterion),
}
"""Metric -> the sums over images that it is made of, and its value from them: from those, from
``weight``, the weight of the subset, ``images``, that of the whole set, and ``size``, the images
of the subset or mixture. 0 / 0 is undefined.
"""
ALL_METRICS = (*_RANKED, *_FORMULAS)
"""Names of all metrics."""
ANSWER_METRICS = (
    "accuracy", "balanced_accuracy", "precision", "recall", "fpr", "f1", "yes_rate", "dprime",
    "response_criterion", "error",
)  # fmt: skip
"""Those that need a yes or no alone, no probability."""


@dataclass(frozen=True)
class Parts:
    """Subsets of a task's images, and mixtures: distributions over cells (unions of atoms).

    Attributes:
        labels: bool (n,).
        atoms: intp (n,), number of each image's atom.
        members: bool (n_subsets, n_atoms), the atoms of each subset.
        cells: intp (n_atoms,), number of each atom's cell.
        shares: float64 (n_mixtures, n_cells), each cell's share of a mixture, whatever its size.
    """

    labels: NDArray[np.bool_]
    atoms: NDArray[np.intp]
    members: NDArray[np.bool_]
    cells: NDArray[np.intp]
    shares: Floats

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Images of each atom, int64 (n_atoms,)."""
        return np.bincount(self.atoms, minlength=self.members.shape[1])

    @cached_property
    def sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Images and positives of each subset, int64 (n_subsets,) each."""
        positives = np.bincount(self.atoms[self.labels], minlength=self.members.shape[1])
        return self.members @ self.counts, self.members @ positives

    def scales(self, mixture: int, counts: Floats) -> Floats:
        """Weight of an image of each atom in a mixture, (n_atoms, k), from ``counts`` (n_atoms, k).

        NaN in a column where a cell that has a share has no weight: the mixture is undefined there.
        """
        shares = self.shares[mixture]
        weight = np.zeros((len(shares), counts.shape[1]))
        np.add.at(weight, self.cells, counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            of_cell = np.where(shares[:, None] > 0, shares[:, None] / weight, 0.0)
        of_cell[:, ~np.isfinite(of_cell).all(axis=0)] = np.nan
        return np.asarray(of_cell[self.cells])


class Graded:
    """The outputs of one model for one task, ready to be scored on any subsets.

    Args:
        labels: bool (n,).
        values: float64 (n,), finite; logits, or probabilities of being positive. NaN is an answer
            that is neither positive nor negative, which is wrong; ``ANSWER_METRICS`` alone know it.
        scale: ``logit`` or ``probability``.
        metrics: names out of ``ALL_METRICS``.
        threshold: probability above which the answer is positive.
    """

    def __init__(
        self,
        labels: NDArray[np.bool_],
        values: Floats,
        scale: str,
        metrics: Sequence[str] = METRICS,
        threshold: float = 0.5,
    ) -> None:
        self.metrics = tuple(metrics)
        self._ranking = Ranking.of(labels, values) if set(_RANKED) & set(metrics) else None
        wanted = {part for name in metrics if name in _FORMULAS for part in _FORMULAS[name][0]}
        self._summed = _summands(labels, values, scale, wanted, threshold)

    def scores(self, parts: Parts) -> Floats:
        """Metrics of subsets, then mixtures: (n_subsets + n_mixtures, n_metrics); or NaN."""
        n_atoms = parts.members.shape[1]
        sums = {n: one.by_atom(parts.atoms, n_atoms)[..., None] for n, one in self._summed.items()}
        counts = parts.counts.astype(np.float64)[:, None]
        return self._assemble(parts, counts, sums, None)[..., 0]

    def resampled(self, parts: Parts, weights: Floats) -> Floats:
        """The same, (..., n_metrics, k), under k weightings of the images, float64 (n, k)."""
        n_atoms = parts.members.shape[1]
        matrices = [part.matrix(parts.atoms, n_atoms) for part in self._summed.values()]
        count = coo_array(
            (np.ones(len(weights)), (parts.atoms, np.arange(len(weights)))), (n_atoms, len(weights))
        )
        sums = vstack([count.tocsr(), *matrices], format="csr") @ weights
        bounds = np.cumsum([n_atoms, *(m.shape[0] for m in matrices)])
        blocks = np.split(sums, bounds[:-1])
        shaped = {
            n: b.reshape(n_atoms, -1, weights.shape[1])
            for n, b in zip(self._summed, blocks[1:], strict=True)
        }
        return self._assemble(parts, blocks[0], shaped, weights)

    def _assemble(
        self, parts: Parts, counts: Floats, sums: dict[str, Floats], weights: Floats | None
    ) -> Floats:
        """From weights of atoms (n_atoms, k) and sums over them (n_atoms, n_bins, k)."""
        n_subsets, k = len(parts.members), counts.shape[1]
        areas = None if self._ranking is None else self._areas(parts, counts, weights)
        result = np.full((n_subsets + len(parts.shares), len(self.metrics), k), np.nan)
        for column, name in enumerate(self.metrics):
            if areas is not None and name in _RANKED:
                result[:, column] = areas[_RANKED.index(name)]
        if sums:
            for row, scale in enumerate(self._scales(parts, counts)):
                total, wide = (scale * counts).sum(axis=0), np.broadcast_to(scale, counts.shape)
                totals = {
                    name: np.abs(np.einsum("ak,abk->bk", wide, of_atoms)).sum(axis=0)
                    for name, of_atoms in sums.items()
                }
                # a mixture is over all images
                images = counts.sum(axis=0) if row < n_subsets else total
                totals |= {"weight": total, "images": np.where(total > 0, images, np.nan)}
                totals["size"] = total if row < n_subsets else counts.sum(axis=0)
                with np.errstate(invalid="ignore", divide="ignore"):
                    for column, name in enumerate(self.metrics):
                        if name in _FORMULAS:
                            result[row, column] = _FORMULAS[name][1](totals)
        return result

    @staticmethod
    def _scales(parts: Parts, counts: Floats) -> list[Floats]:
        """Weight of an image of each atom in subsets, (n_atoms, 1), and mixtures, (n_atoms, k)."""
        members = [member.astype(np.float64)[:, None] for member in parts.members]
        return members + [parts.scales(mixture, counts) for mixture in range(len(parts.shares))]

    def _areas(self, parts: Parts, counts: Floats, weights: Floats | None) -> Floats:
        """AUC and average precision, float64 (2, n_subsets + n_mixtures, k)."""
        assert self._ranking is not None  # noqa: S101 - the caller looked
        images, positives = parts.sizes
        result = np.full((2, len(parts.members) + len(parts.shares), counts.shape[1]), np.nan)
        atoms = parts.atoms[self._ranking.order]
        for row, member in enumerate(parts.members):
            if 0 < positives[row] < images[row]:
                mask = None if member.all() else member[atoms]
                if weights is None:
                    result[:, row, 0] = self._ranking.areas(mask)
                else:
                    result[:, row] = self._ranking.weighted_areas(mask, weights)
        for mixture in range(len(parts.shares)):
            scale = parts.scales(mixture, counts)[parts.atoms]
            defined = ~np.isnan(scale).any(axis=0)
            filled = np.where(defined, scale, 1.0) * (1.0 if weights is None else weights)
            both = np.array(self._ranking.weighted_areas(None, filled))
            result[:, len(parts.members) + mixture] = np.where(defined, both, np.nan)
        return result


@dataclass(frozen=True)
class _Summand:
    """A value of each image, float64 (n,), to sum by atom and bin, intp (n,); None = one bin."""

    values: Floats
    bins: NDArray[np.int64] | None

    @property
    def n_bins(self) -> int:
        return 1 if self.bins is None else N_BINS

    def _places(self, atoms: NDArray[np.intp]) -> NDArray[np.intp]:
        return atoms if self.bins is None else atoms * N_BINS + self.bins

    def by_atom(self, atoms: NDArray[np.intp], n_atoms: int) -> Floats:
        """Sums, float64 (n_atoms, n_bins)."""
        sums = np.bincount(
            self._places(atoms), weights=self.values, minlength=n_atoms * self.n_bins
        )
        return np.asarray(sums, dtype=np.float64).reshape(n_atoms, self.n_bins)

    def matrix(self, atoms: NDArray[np.intp], n_atoms: int) -> csr_array:
        """The matrix (n_atoms x n_bins, n) that takes weights of images to those sums."""
        shape = n_atoms * self.n_bins, len(atoms)
        return coo_array((self.values, (self._places(atoms), np.arange(len(atoms)))), shape).tocsr()


def _summands(
    labels: NDArray[np.bool_], values: Floats, scale: str, wanted: set[str], threshold: float
) -> dict[str, _Summand]:
    """The summands wanted, by name."""
    summands = {}
    positive = said_positive(values, scale, threshold)
    counted = {
        "error": (positive != labels) | np.isnan(values),
        "positive": labels,
        "negative": ~labels,
        "hit": positive & labels,
        "false": positive & ~labels,
    }
    for name in [name for name in counted if name in wanted]:
        summands[name] = _Summand(counted[name].astype(np.float64), None)
    p = probabilities(values, scale) if {"ece", "ece_top", "brier"} & wanted else np.empty(0)
    if "nll" in wanted:
        summands["nll"] = _Summand(losses(labels, values, scale), None)
    if "brier" in wanted:
        summands["brier"] = _Summand((p - labels) ** 2, None)
    if "ece" in wanted:
        summands["ece"] = _Summand(np.asarray(labels - p), _bins_of(p))
    if "ece_top" in wanted:
        confidence = np.maximum(p, 1 - p)
        right = said_positive(values, scale) == labels
        summands["ece_top"] = _Summand(right - confidence, _bins_of(confidence))
    return summands


def _bins_of(p: Floats) -> NDArray[np.int64]:
    """Bin of each probability, int64 (n,): each has its lower bound, and the last one 1."""
    bounds = np.linspace(0, 1, N_BINS + 1)
    guess = np.minimum((p * N_BINS).astype(np.int64), N_BINS - 1)
    # the product may be rounded over a bound
    guess -= p < bounds[guess]
    return np.asarray(np.minimum(guess + (p >= bounds[guess + 1]), N_BINS - 1))
