"""Statistics of CE from parts of a dataset: exact sums of areas by pairs of classes, and their
JSON.

Where a class was not annotated in an image, pairs with it leave the image out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.criteria.contract import require_areas
from nooch.criteria.exact_sums import ExactSums, group_sums, presence_of
from nooch.data import KINDS, Dataset, Gaps


@dataclass(frozen=True)
class KnownPairs:
    """Additive statistics of the training images where two classes, Y and C, were both annotated.

    Attributes:
        own: (n_classes, n_classes); sums of area(Y) over such images where Y is present.
        counts: int64 (n_classes, n_classes); the number of these images.
        positives: int64 (n_classes,); all images where Y is present.
        missing: int64 (n_classes, len(KINDS)); the ones in which the kind was not annotated.
    """

    own: ExactSums
    counts: NDArray[np.int64]
    positives: NDArray[np.int64]
    missing: NDArray[np.int64]

    @classmethod
    def from_state(cls, state: CEState) -> KnownPairs:
        """Statistics of a shard; where all classes were annotated in all images every pair is
        known.
        """
        if state.known is not None:
            return state.known
        n = len(state.counts)
        parts = np.diagonal(state.exact.high), np.diagonal(state.exact.low), state.counts
        high, low, counts = (np.repeat(part[:, None], n, axis=1) for part in parts)
        missing = np.zeros((n, len(KINDS)), np.int64)
        return cls(ExactSums(high, low), counts, state.counts, missing)

    def __add__(self, other: KnownPairs) -> KnownPairs:
        return KnownPairs(
            self.own + other.own,
            self.counts + other.counts,
            self.positives + other.positives,
            self.missing + other.missing,
        )


@dataclass(frozen=True)
class CEState:
    """Additive statistics of one shard of training images.

    Attributes:
        exact: (n_classes, n_classes); the sums, the same bits for any shards.
        counts: int64 (n_classes,); images where Y is present, and annotated completely.
        known: statistics of pairs of classes in images where both were annotated; None where all
            classes were annotated in all images.
    """

    exact: ExactSums
    counts: NDArray[np.int64]
    known: KnownPairs | None = None

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """float64 (n_classes, n_classes): [Y, C] sums area(C) over images with Y (both known)."""
        return self.exact.values

    @property
    def own(self) -> NDArray[np.float64]:
        """Like ``sums``, of area(Y) in the same images; (n_classes, 1) where these are all."""
        return np.diagonal(self.sums)[:, None] if self.known is None else self.known.own.values

    @property
    def positives(self) -> NDArray[np.int64]:
        """The number of these images, shaped like ``own``."""
        return self.counts[:, None] if self.known is None else self.known.counts

    def __add__(self, other: CEState) -> CEState:
        both = self.known is None and other.known is None
        pairs = None if both else KnownPairs.from_state(self) + KnownPairs.from_state(other)
        return CEState(self.exact + other.exact, self.counts + other.counts, pairs)


def areas_summed(shard: Dataset) -> CEState:
    """Sums over a part for all pairs of classes. Raises InputError if areas are unknown."""
    require_areas(shard)
    areas = shard.areas if shard.gaps is None else shard.gaps.annotated(shard.areas)
    state = CEState(group_sums(presence_of(areas), areas, "areas"), _class_counts(areas))
    if shard.gaps is None:
        return state
    return replace(state, known=_known_pairs(shard, shard.gaps, areas, state))


def _known_pairs(shard: Dataset, gaps: Gaps, areas: csr_array, state: CEState) -> KnownPairs:
    """Statistics of all positives, minus statistics of positives where the other class is unknown.

    No matrix of unknown pairs is made: it is the one of kinds, (n_images, 2), spread over classes,
        plus the matrix of exceptions.
    """
    every, presence = KnownPairs.from_state(state), presence_of(areas)
    high, low, counts = every.own.high.copy(), every.own.low.copy(), every.counts.copy()
    spread, unknown_rows = gaps.kinds[gaps.kinds >= 0], np.flatnonzero(gaps.kinds >= 0)
    parts = [(gaps.images, unknown_rows, spread)]
    if gaps.pairs is not None:
        parts.append((gaps.pairs, np.arange(len(shard.classes)), np.arange(len(shard.classes))))
    for unknown, columns, kinds in parts:
        own = group_sums(unknown, areas, "areas")
        high[:, columns] -= own.high[kinds].T
        low[:, columns] -= own.low[kinds].T
        counts[:, columns] -= np.rint((unknown.T @ presence).toarray()[kinds].T).astype(np.int64)
    missing = np.rint((presence_of(shard.areas).T @ gaps.images).toarray()).astype(np.int64)
    return KnownPairs(ExactSums(high, low), counts, _class_counts(shard.areas), missing)


def _class_counts(areas: csr_array) -> NDArray[np.int64]:
    """Images in which each class is present, int64 (n_classes,)."""
    return np.bincount(areas.indices, minlength=areas.shape[1]).astype(np.int64)


def state_to_json(state: CEState) -> dict[str, Any]:
    """Sums and counts: what merges and refits exactly."""
    content: dict[str, Any] = {"sums": state.sums.tolist(), "counts": state.counts.tolist()}
    if (known_pairs := state.known) is not None:
        arrays = {name: getattr(known_pairs, name) for name in ("counts", "positives", "missing")}
        pairs = {name: array.tolist() for name, array in arrays.items()}
        content["known"] = {"own": known_pairs.own.values.tolist(), **pairs}
    return content


class _SavedPairs(msgspec.Struct):
    own: list[list[float]]
    counts: list[list[int]]
    positives: list[int]
    missing: list[list[int]]


class SavedCE(msgspec.Struct):
    """A fitted CE criterion as in a suite's JSON."""

    alpha: float
    beta: float
    cues: dict[str, list[str]]
    classes: list[str]
    sums: list[list[float]]
    counts: list[int]
    known: _SavedPairs | None = None


def read_saved(content: Mapping[str, Any]) -> tuple[SavedCE, CEState]:
    """Parameters, classes and statistics from JSON. Raises ValueError if they do not fit."""
    saved, known_pairs = msgspec.convert(content, SavedCE), None
    if (pairs := saved.known) is not None:
        counts = (
            np.array(counts_of, np.int64)
            for counts_of in (pairs.counts, pairs.positives, pairs.missing)
        )
        known_pairs = KnownPairs(ExactSums.from_values(np.array(pairs.own, np.float64)), *counts)
    sums = ExactSums.from_values(np.array(saved.sums, np.float64))
    state = CEState(sums, np.array(saved.counts, np.int64), known_pairs)
    n = len(saved.classes)
    square = [
        state.sums,
        *([] if known_pairs is None else [known_pairs.own.high, known_pairs.counts]),
    ]
    rows = [
        state.counts,
        *([] if known_pairs is None else [known_pairs.positives, known_pairs.missing[:, 0]]),
    ]
    if any(part.shape != (n, n) for part in square) or any(part.shape != (n,) for part in rows):
        raise ValueError(f"{n} classes, but sums of shape {state.sums.shape}")
    return saved, state
