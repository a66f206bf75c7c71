"""All metrics of one task on many subsets of its images at once, once or under many resamplings.

Subsets are unions of atoms: the smallest parts of the images that no subset divides. What is a mean
or a histogram is summed over atoms once; AUC and average precision come from one ranking.

``ece`` (Guo et al., 2017) is of the probability of being positive: the sum over bins of |share of
positives - mean probability| x the bin's share of images; ``ece_top`` is of the answer, whose
confidence is max(p, 1 - p) (paper, section 5). ``ece_paper`` is ``ece_top`` times the subset's
share of all images: the paper's Tables 17 and 18 only write "ECE", and fit this quantity and no
other (docs/results.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array
from scipy.special import ndtri

from nooch.base.errors import UndefinedError
from nooch.evaluation.metrics.pointwise import are_wrong, losses, probabilities

Floats = NDArray[np.float64]
Weights = NDArray[np.float64] | NDArray[np.uint16]


def auc(labels: NDArray[np.bool_], scores: Floats) -> float:
    """Area under the ROC curve: the chance that a positive outscores a negative, ties 1/2.

    ``labels``: bool (n,); ``scores``: float64 (n,), finite; larger means more likely positive. Only
    their order matters.
    """
    area = Ranking.from_scores(labels, scores).areas(None)[0]
    if np.isnan(area):
        raise UndefinedError(
            "a ranking of one class has no area", allowed="at least one positive and one negative"
        )
    return area


def stable_order(values: Floats) -> NDArray[np.intp]:
    """``np.argsort(values, kind="stable")`` of float64 (n,) without NaN, 2 to 4 times as fast.

    A radix sort over 16-bit digits of the floats' bits: float32 outputs of models need two.
    """
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    # adding 0 makes -0.0 the 0.0 that it is equal to
    if np.array_equal(narrow, values):
        key = _ascending((narrow + np.float32(0)).view(np.int32), np.uint32(1 << 31))
    else:
        key = _ascending((values + 0.0).view(np.int64), np.uint64(1 << 63))
    # numpy sorts 16-bit integers by counting; a cast keeps the lowest 16 bits
    order = key.astype(np.uint16).argsort(kind="stable")
    for digit in range(1, key.itemsize // 2):
        part = (key >> key.dtype.type(16 * digit)).astype(np.uint16)
        order = order[part[order].argsort(kind="stable")]
    return order


def _ascending(bits: NDArray[Any], sign: Any) -> NDArray[Any]:
    """Unsigned integers in the order of the floats with these bits: negative ones inverted."""
    negative = (bits >> (8 * bits.itemsize - 1)).view(sign.dtype)
    return np.asarray(bits.view(sign.dtype) ^ (negative | sign))


@dataclass(frozen=True)
class Ranking:
    """Images of a task in ascending order of their scores.

    Attributes:
        order: intp (n,), rows in ascending order of score.
        labels: bool (n,), in that order.
        groups: int64 (n,), in that order: rows of one score share a number; None where no two do.
    """

    order: NDArray[np.intp]
    labels: NDArray[np.bool_]
    groups: NDArray[np.int64] | None

    @classmethod
    def from_scores(cls, labels: NDArray[np.bool_], scores: Floats) -> Self:
        """Rank scores, float64 (n,) without NaN."""
        order = stable_order(scores)
        ranked = scores[order]
        rises = ranked[1:] != ranked[:-1]
        groups = None
        if not rises.all():
            groups = np.zeros(len(scores), dtype=np.int64)
            rises.cumsum(out=groups[1:])
        return cls(order, labels[order], groups)

    def areas(self, mask: NDArray[np.bool_] | None) -> tuple[float, float]:
        """AUC and average precision of the rows in ``mask``, or of all (None); NaN for one class.

        ``mask`` is bool (n,), ascending by score. Counts are integers until the last division.
        """
        labels, groups = self.labels, self.groups
        if mask is not None:
            positions = mask.nonzero()[0]
            labels, groups = labels[positions], None if groups is None else groups[positions]
        n, where = len(labels), labels.nonzero()[0]
        n_positive = len(where)
        if n_positive in {0, n}:
            return np.nan, np.nan
        # each positive's group of equal scores starts at ``start`` and ends before ``end``;
        # ``before`` and ``until`` count the positives up to there
        start, before = where, np.arange(n_positive)
        below_twice = 2 * int(where.sum()) - n_positive * (n_positive - 1)
        tied = _tied(groups, where)
        if groups is not None and len(tied):
            start, mine = where.copy(), groups[where[tied]]
            start[tied], end = groups.searchsorted(mine, "left"), groups.searchsorted(mine, "right")
            below_twice -= 2 * int((where[tied] - before[tied]).sum())
            before[tied], until = where.searchsorted(start[tied]), where.searchsorted(end)
            below_twice += int((start[tied] - before[tied] + end - until).sum())
        area = below_twice / (2 * n_positive * (n - n_positive))
        return area, float(((n_positive - before) / (n - start)).sum()) / n_positive

    def cells(self, positions: NDArray[np.intp]) -> tuple[NDArray[np.intp], int, NDArray[np.bool_]]:
        """The m scores of positives among the rows at ``positions``, and what lies between them."""
        groups = positions if self.groups is None else self.groups[positions]
        labels = self.labels[positions]
        has = np.zeros(len(self.order), dtype=bool)
        has[groups[labels]] = True
        number = has.cumsum()[groups]
        n_scores = int(has.sum())
        return np.where(labels, number - 1, n_scores + number), n_scores, has[groups] & ~labels


def _tied(groups: NDArray[np.int64] | None, where: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows among ``where`` that share their group with another row."""
    if groups is None:
        return np.empty(0, dtype=np.intp)
    same = groups[1:] == groups[:-1]
    either = np.zeros(len(groups), dtype=bool)
    either[1:] = same
    either[:-1] |= same
    return np.asarray(either[where].nonzero()[0])


class SubsetAreas:
    """AUC and average precision of subsets of ranked images, under many weightings at once.

    One sparse product sums the weights of all subsets: of each positive score, of the negatives
    between two of them, and of the negatives that tie with one.

    Args:
        ranking: of all images.
        masks: subsets, each as for ``Ranking.areas``.
    """

    def __init__(self, ranking: Ranking, masks: Sequence[NDArray[np.bool_] | None]) -> None:
        self._sizes: list[tuple[int, NDArray[np.intp]]] = []
        rows, columns, start = [np.empty(0, np.intp)], [np.empty(0, np.intp)], 0
        n = len(ranking.order)
        for mask in masks:
            positions = np.arange(n) if mask is None else mask.nonzero()[0]
            cells, n_scores, tied = ranking.cells(positions)
            which, numbers = np.unique(cells[tied] - n_scores - 1, return_inverse=True)
            rows += [start + cells, start + 2 * n_scores + 1 + numbers]
            columns += [ranking.order[positions], ranking.order[positions[tied]]]
            self._sizes.append((n_scores, which))
            start += 2 * n_scores + 1 + len(which)
        places = np.concatenate(rows), np.concatenate(columns)
        self._sums = coo_array((np.ones(len(places[0]), np.uint8), places), (start, n)).tocsc()

    def __call__(self, weights: Weights) -> Floats:
        """AUC and average precision, float64 (2, n_masks, k); NaN if one class has no weight.

        ``weights``: (n, k), in the order of the scores that were ranked; a column is a weighting.
        Float64, at least 0, or uint16, whose columns' sums are below 65,536.
        """
        sums, k = np.asarray(self._sums @ weights), weights.shape[1]
        areas, start = np.empty((2, len(self._sizes), k)), 0
        # fresh memory for each subset would take most of the time
        space = np.empty((max((n_scores for n_scores, _ in self._sizes), default=0), k))
        for row, (n_scores, which) in enumerate(self._sizes):
            bounds = np.cumsum([start, n_scores, n_scores + 1, len(which)])
            positive, negative, tied = (sums[a:b] for a, b in pairwise(bounds))
            areas[:, row] = _areas(positive, negative, tied, which, space[:n_scores])
            start = bounds[-1]
        return areas


def _areas(
    positive: Weights, negative: Weights, tied: Weights, which: NDArray[np.intp], space: Floats
) -> Floats:
    """AUC and average precision, (2, k), from weights by score.

    ``positive``: (m, k), of the positives of each score, ascending; ``space``: (m, k), overwritten.
    """
    kind = positive.dtype
    caught = positive[::-1].cumsum(axis=0, dtype=kind)[::-1]
    below = negative.cumsum(axis=0, dtype=kind)
    above = caught + (below[-1] - below[:-1])
    # at and above a score without weight there may be none: then it adds nothing
    least = 1 if kind == np.uint16 else np.finfo(np.float64).tiny
    precision = np.divide(caught, np.maximum(above, least, out=above), out=space)
    area, average, half = (
        np.einsum("mk,mk->k", *pair, dtype=np.float64)
        for pair in ((positive, below[:-1]), (positive, precision), (positive[which], tied / 2))
    )
    all_positive, all_negative = positive.sum(axis=0, dtype=np.float64), below[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        both = np.array([(area + half) / (all_positive * all_negative), average / all_positive])
    both[:, (all_positive == 0) | (all_negative == 0)] = np.nan
    return both


METRICS = ("auc", "auprc", "error", "nll", "ece", "ece_top", "ece_paper")
"""Those that are computed by default."""

N_BINS = 15
"""Bins of equal width over [0, 1] of the expected calibration errors."""

_RANKED = METRICS[:2]


def _of_both(sums: Mapping[str, Floats], value: Floats) -> Floats:
    """The value if there are positives and negatives, else NaN."""
    return np.where((sums["positive"] > 0) & (sums["negative"] > 0), value, np.nan)


def _balanced(sums: Mapping[str, Floats]) -> Floats:
    hits, rejections = sums["hit"] / sums["positive"], 1 - sums["false"] / sums["negative"]
    return (hits + rejections) / 2


def _z_scores(sums: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Normal quantiles of recall and FPR, log-linearly corrected (Hautus 1995) for the number of
    images, regardless of weights, so that rates of 0 and 1 also have one; NaN without positives or
    negatives.
    """
    rates = []
    for said, size in (("hit", "n_positive"), ("false", "n_negative")):
        n, weight = sums[size], sums[_SIZES[size]]
        rates.append(_of_both(sums, (sums[said] * (n / weight) + 0.5) / (n + 1)))
    return ndtri(rates[0]), ndtri(rates[1])


def _dprime(sums: Mapping[str, Floats]) -> Floats:
    hits, claims = _z_scores(sums)
    return hits - claims


def _response_criterion(sums: Mapping[str, Floats]) -> Floats:
    hits, claims = _z_scores(sums)
    return -(hits + claims) / 2


_COUNTED = {
    "error": (1, 2), "positive": (2, 3), "negative": (0, 1), "hit": (3,), "false": (1,)
}  # fmt: skip
"""Sums that count images -> the outcomes counted, see ``_outcomes``."""
N_OUTCOMES = 4
"""Kinds of answers to a positive or negative, see ``_outcomes``."""
_EVERY = tuple(range(N_OUTCOMES))
SHARES = {
    "error": (_COUNTED["error"], _EVERY),
    "accuracy": ((0, 3), _EVERY),
    "yes_rate": ((1, 3), _EVERY),
    "recall": (_COUNTED["hit"], _COUNTED["positive"]),
    "fpr": (_COUNTED["false"], _COUNTED["negative"]),
}
"""Metrics that are a share of images: the outcomes that are counted, and those they are among."""
_CONFUSION = ("positive", "negative", "hit", "false")
_SIZES = {"n_positive": "positive", "n_negative": "negative"}
"""Numbers of images -> the sums that they are without weights."""
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
    "dprime": ((*_CONFUSION, *_SIZES), _dprime),
    "response_criterion": ((*_CONFUSION, *_SIZES), _response_criterion),
    "missed": (("objects", "found"), lambda s: 1 - s["found"] / s["objects"]),
    "average_recall": (("objects", "recalled"), lambda s: s["recalled"] / s["objects"]),
    "false_boxes": (("false_boxes",), lambda s: 1000 * s["false_boxes"] / s["weight"]),
    "misplaced": (("misplaced",), lambda s: 1000 * s["misplaced"] / s["weight"]),
    "duplicates": (("duplicates",), lambda s: 1000 * s["duplicates"] / s["weight"]),
}
"""Metric -> the sums over images that it is made of, and its value from them: from those, from
``weight``, the weight of the subset, ``images``, the weight of the whole set, and ``n_positive``
and ``n_negative``, the images of the subset, or all images by a mixture's shares. 0 / 0 is
undefined.
"""


def value_of(metric: str, sums: Mapping[str, Floats]) -> Floats:
    """A metric that is made of sums, see ``_FORMULAS``; NaN where it is undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _FORMULAS[metric][1](sums)


BOX_METRICS = ("missed", "false_boxes", "misplaced", "duplicates", "average_recall")
"""Metrics of detections: the share of objects that are missed; boxes per 1,000 images that overlap
no object of their class, overlap one too little, or repeat one; and COCO's average recall. Of
several objects in an image each one counts.
"""
_OF_BOXES = {part for name in BOX_METRICS for part in _FORMULAS[name][0]}
ALL_METRICS = (*_RANKED, *(name for name in _FORMULAS if name not in BOX_METRICS))
"""Metrics of outputs, which need no boxes."""
METRIC_NAMES = (*ALL_METRICS, *BOX_METRICS)
ANSWER_METRICS = (
    "accuracy", "balanced_accuracy", "precision", "recall", "fpr", "f1", "yes_rate", "dprime",
    "response_criterion", "error",
)  # fmt: skip
"""Metrics that need only a yes or no, not a probability."""


@dataclass(frozen=True)
class Parts:
    """Subsets of a task's images, and mixtures: distributions over cells (unions of atoms).

    Attributes:
        labels: bool (n,).
        atoms: intp (n,), number of each image's atom.
        members: bool (n_subsets, n_atoms), the atoms of each subset.
        cells: intp (n_atoms,), number of each atom's cell.
        shares: float64 (n_mixtures, n_cells), each cell's share of a mixture, regardless of its
            size.
    """

    labels: NDArray[np.bool_]
    atoms: NDArray[np.intp]
    members: NDArray[np.bool_]
    cells: NDArray[np.intp]
    shares: Floats

    @cached_property
    def sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Images and positives of each subset, int64 (n_subsets,) each."""
        n_atoms = self.members.shape[1]
        images = np.bincount(self.atoms, minlength=n_atoms)
        positives = np.bincount(self.atoms[self.labels], minlength=n_atoms)
        return self.members @ images, self.members @ positives

    def rankable(self, ranking: Ranking) -> Iterator[tuple[int, NDArray[np.bool_] | None]]:
        """Rows of the subsets that contain both classes, and their masks for the ranking."""
        atoms = self.atoms[ranking.order]
        for row, (images, positives) in enumerate(zip(*self.sizes, strict=True)):
            member = self.members[row]
            if 0 < positives < images:
                yield row, None if member.all() else member[atoms]

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
            that is missing or neither yes nor no, and counts as the wrong one; only
            ``ANSWER_METRICS`` allow it.
        scale: ``logit`` or ``probability``.
        metrics: names from ``ALL_METRICS``.
        threshold: probability above which the answer is positive.
        counts: of detections: objects and boxes of each image by kind, float64 (n,) each, which
            ``BOX_METRICS`` need.
    """

    def __init__(
        self,
        labels: NDArray[np.bool_],
        values: Floats,
        scale: str,
        metrics: Sequence[str] = METRICS,
        threshold: float = 0.5,
        counts: Mapping[str, Floats] | None = None,
    ) -> None:
        self.metrics = tuple(metrics)
        self.needed = {part for name in metrics if name in _FORMULAS for part in _FORMULAS[name][0]}
        self.ranking = Ranking.from_scores(labels, values) if set(_RANKED) & set(metrics) else None
        self.outcomes = _outcomes(labels, values, scale, threshold)
        self.summed = _terms_of(labels, values, scale, self.needed)
        # undefined for predictions without boxes
        given = dict.fromkeys(_OF_BOXES, np.full(len(labels), np.nan)) | dict(counts or {})
        self.summed |= {n: _Terms(c, None) for n, c in given.items() if n in self.needed}

    @cached_property
    def areas_of_all(self) -> SubsetAreas:
        """Areas of all images, for mixtures; if there is a ranking."""
        assert self.ranking is not None  # noqa: S101 - the caller looked
        return SubsetAreas(self.ranking, [None])

    def scores(self, parts: Parts) -> Floats:
        """Metrics of subsets, then mixtures: (n_subsets + n_mixtures, n_metrics); or NaN."""
        n_atoms = parts.members.shape[1]
        places = parts.atoms * N_OUTCOMES + self.outcomes
        outcomes = np.bincount(places, minlength=n_atoms * N_OUTCOMES).reshape(n_atoms, -1, 1)
        sums = {
            n: outcome.by_atom(parts.atoms, n_atoms)[..., None]
            for n, outcome in self.summed.items()
        }
        areas = np.full((2, len(parts.members), 1), np.nan)
        if self.ranking is not None:
            for row, mask in parts.rankable(self.ranking):
                areas[:, row, 0] = self.ranking.areas(mask)
        weights = np.broadcast_to(np.float64(1), (len(parts.atoms), 1))
        return _assembled(self, parts, weights, outcomes, outcomes, sums, areas)[..., 0]


class Resampler:
    """All metrics of a model under many weightings of the images, from sums by sparse matrices.

    A column is an image: so the weights are read in their own order, which is fastest.
    """

    def __init__(self, model: Graded, parts: Parts) -> None:
        atoms, n_atoms, ranking = parts.atoms, parts.members.shape[1], model.ranking
        self._model, self._parts = model, parts
        ones, places = np.ones(len(atoms), np.uint8), atoms * N_OUTCOMES + model.outcomes
        self._outcomes = _by_image(ones, places, n_atoms * N_OUTCOMES)
        self._sums = {
            name: _by_image(outcome.values, outcome.places(atoms), n_atoms * outcome.n_bins)
            for name, outcome in model.summed.items()
        }
        ranked = {} if ranking is None else dict(parts.rankable(ranking))
        self._rows = list(ranked)
        self._areas = None if ranking is None else SubsetAreas(ranking, list(ranked.values()))

    def __call__(self, weights: Weights, floats: Floats, drawn: Weights | None = None) -> Floats:
        """Like ``Graded.scores``, (..., n_metrics, k).

        ``weights``: (n, k), a column for each weighting; float64, or uint16 as for ``SubsetAreas``;
        ``floats``: the same as float64: models of the same images share them; ``drawn``: (n, k),
        how often each image is there, where that is not its weight.
        """
        parts, model = self._parts, self._model
        n_atoms, k = parts.members.shape[1], weights.shape[1]
        outcomes = counted = (self._outcomes @ weights).reshape(n_atoms, N_OUTCOMES, k)
        if drawn is not None:
            counted = (self._outcomes @ drawn).reshape(n_atoms, N_OUTCOMES, k)
        sums = {n: (matrix @ floats).reshape(n_atoms, -1, k) for n, matrix in self._sums.items()}
        areas = np.full((2, len(parts.members), k), np.nan)
        if self._areas is not None:
            areas[:, self._rows] = self._areas(weights)
        return _assembled(model, parts, floats, outcomes, counted, sums, areas)


def _by_image(
    values: NDArray[np.float64] | NDArray[np.uint8], places: NDArray[np.intp], n_rows: int
) -> csc_array:
    """The matrix (n_rows, n) that takes weights of images to sums of weighted values by place."""
    return csc_array((values, places, np.arange(len(values) + 1)), shape=(n_rows, len(values)))


def _assembled(
    model: Graded,
    parts: Parts,
    weights: Floats,
    outcomes: NDArray[Any],
    counted: NDArray[Any],
    sums: Mapping[str, Floats],
    areas: Floats,
) -> Floats:
    """Metrics, (n_subsets + n_mixtures, n_metrics, k).

    From weights (n, k), weights of outcomes (n_atoms, 4, k) and their images, sums by bin (n_atoms,
    n_bins, k), and areas of subsets (2, n_subsets, k).
    """
    n_subsets, k = len(parts.members), outcomes.shape[-1]
    counts = outcomes.sum(axis=1, dtype=np.float64)
    scales = [parts.scales(mixture, counts) for mixture in range(len(parts.shares))]
    if scales and model.ranking is not None:
        mixed = [np.nan_to_num(scale)[parts.atoms] * weights for scale in scales]
        of_mixtures = [model.areas_of_all(areas_mixed) for areas_mixed in mixed]
        areas = np.concatenate([areas, *of_mixtures], axis=1)

    def total(of_atoms: Floats) -> Floats:
        result = np.empty((n_subsets + len(scales), of_atoms.shape[1], k))
        for row, member in enumerate(parts.members):
            # no product: 0 times the infinite loss of an image outside would be NaN
            np.sum(of_atoms[member], axis=0, out=result[row])
        for row, scale in enumerate(scales, n_subsets):
            np.einsum("ak,abk->bk", scale, of_atoms, out=result[row])
        return np.asarray(np.abs(result, out=result).sum(axis=1))

    totals = {name: total(of_atoms) for name, of_atoms in sums.items()}
    for name in _COUNTED.keys() & model.needed:
        totals[name] = total(_count(outcomes, name))
    weight, everything = total(counts[:, None]), np.broadcast_to(counts.sum(axis=0), (1, k))
    # a mixture is over all images
    subset = np.arange(len(weight))[:, None] < n_subsets
    images = np.where(subset, everything, weight)
    totals |= {"weight": weight, "images": np.where(weight > 0, images, np.nan)}
    result = np.full((len(weight), len(model.metrics), k), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        for name in _SIZES.keys() & model.needed:
            of_mixture = totals[_SIZES[name]] / weight * counted.sum(axis=(0, 1))
            of_subset = total(_count(counted, _SIZES[name]))
            totals[name] = np.where(subset, of_subset, of_mixture)
        for column, name in enumerate(model.metrics):
            if name in _FORMULAS:
                result[:, column] = _FORMULAS[name][1](totals)
            else:
                result[:, column] = areas[_RANKED.index(name)]
    return result


def _count(outcomes: NDArray[Any], name: str) -> Floats:
    """Weight of the outcomes that are counted as ``name``, float64 (n_atoms, 1, k)."""
    return np.asarray(outcomes[:, _COUNTED[name]].sum(axis=1, dtype=np.float64)[:, None])


@dataclass(frozen=True)
class _Terms:
    """A value of each image, float64 (n,), to sum by atom and bin, intp (n,); None = one bin."""

    values: Floats
    bins: NDArray[np.int64] | None

    @property
    def n_bins(self) -> int:
        return 1 if self.bins is None else N_BINS

    def places(self, atoms: NDArray[np.intp]) -> NDArray[np.intp]:
        """Index at which the value of each image is added, intp (n,)."""
        return atoms if self.bins is None else atoms * N_BINS + self.bins

    def by_atom(self, atoms: NDArray[np.intp], n_atoms: int) -> Floats:
        """Sums, float64 (n_atoms, n_bins)."""
        sums = np.bincount(self.places(atoms), weights=self.values, minlength=n_atoms * self.n_bins)
        return np.asarray(sums, dtype=np.float64).reshape(n_atoms, self.n_bins)


def _outcomes(
    labels: NDArray[np.bool_], values: Floats, scale: str, threshold: float
) -> NDArray[np.uint8]:
    """Outcome of each image: 2 x label + (0 for no, 1 for yes); NaN is the wrong answer."""
    answers = labels ^ are_wrong(labels, values, scale, threshold)
    return np.asarray(np.uint8(2) * labels + answers)


def _terms_of(
    labels: NDArray[np.bool_], values: Floats, scale: str, metrics: set[str]
) -> dict[str, _Terms]:
    """The terms wanted, by name."""
    terms = {}
    p = probabilities(values, scale) if {"ece", "ece_top", "brier"} & metrics else np.empty(0)
    if "nll" in metrics:
        terms["nll"] = _Terms(losses(labels, values, scale), None)
    if "brier" in metrics:
        terms["brier"] = _Terms((p - labels) ** 2, None)
    if "ece" in metrics:
        terms["ece"] = _Terms(np.asarray(labels - p), _bins_of(p))
    if "ece_top" in metrics:
        confidence = np.maximum(p, 1 - p)
        right = ~are_wrong(labels, values, scale)
        terms["ece_top"] = _Terms(right - confidence, _bins_of(confidence))
    return terms


def _bins_of(p: Floats) -> NDArray[np.int64]:
    """Bin of each probability, int64 (n,): each has its lower bound, and the last one 1."""
    bounds = np.linspace(0, 1, N_BINS + 1)
    guess = np.minimum((p * N_BINS).astype(np.int64), N_BINS - 1)
    # the product may be rounded over a bound
    guess -= p < bounds[guess]
    return np.asarray(np.minimum(guess + (p >= bounds[guess + 1]), N_BINS - 1))
