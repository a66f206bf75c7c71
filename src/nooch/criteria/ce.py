"""The CE criterion (paper, section 3.2.1): objects that usually come with Y and are larger.

area(C) is the fraction of an image that C covers, 0 where C is absent; y = 1 where Y is present.

    A(C, Y) = E[area(C) - area(Y) | y = 1]      the mean over the training positives of Y
    C is a context cue of Y                     A(C, Y) > alpha
    hard positive                               y = 1 and every cue has area(C) < beta
    hard negative                               y = 0 and some cue has area(C) > beta

Y has at least one cue. Every cue is below beta where the largest is, some cue is above it where the
largest is: the largest area is the support, which ``suites/hard_easy.py`` compares with beta.
Where a class was not annotated in an image, pairs with it leave the image out.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.errors import ParameterError, UndefinedError, check_fraction, check_one_of
from nooch.criteria.contract import SupportFitted, Thresholds, require_areas, saved_as
from nooch.criteria.exact_sums import ExactSums, group_sums, presence_of
from nooch.data import KINDS, Dataset, Gaps

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def mean_difference(area_c: Floats, area_y: Floats, positives: NDArray[np.int64]) -> Floats:
    """A(C, Y), from sums of areas over the positives of Y and their number; 0 / 0 is NaN."""
    return area_c / positives - area_y / positives


def is_cue(a: Floats, alpha: float) -> Bools:
    """True if C is a context cue of Y, from A(C, Y); NaN, without a positive, is none."""
    return a > alpha


def largest_area(cues: Iterable[tuple[NDArray[np.intp], Floats]], n_images: int) -> Floats:
    """The largest area of a cue in each image: of each, the images that have it, and its areas."""
    largest = np.zeros(n_images)
    for images, areas in cues:
        largest[images] = np.maximum(largest[images], areas)
    return largest


def is_hard(area: Floats | float, y: Bools, beta: float) -> Bools:
    """True if images are hard by the area of a cue."""
    return np.where(y, area < beta, area > beta)


_MOST_BITS = 64


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


@dataclass(frozen=True)
class CE:
    """Parameters of the CE criterion.

    Attributes:
        alpha: C is a context cue of Y where A(C, Y) = E[area(C) - area(Y) | y = 1] > alpha;
            fraction of the image.
        beta: hard positive: every cue below beta; hard negative: some cue above it; fraction of the
            image.
        cues: task -> cues given by hand, instead of those that alpha finds.

    Examples:
        >>> train = nooch.load_dataset("data").select("train")
        >>> nooch.CE(alpha=0.05).fit(train).cues("car")
        ('road',)
        >>> nooch.CE(cues={"car": ["tree"]}).fit(train).cues("car")
        ('tree',)
    """

    alpha: float = 0.05
    beta: float = 0.1
    cues: Mapping[str, Sequence[str]] = field(default_factory=dict)

    kind = "ce"
    state = CEState
    reads = ()

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            check_fraction(name, value, "ce")
        object.__setattr__(self, "cues", {task: tuple(cues) for task, cues in self.cues.items()})
        for task, cues in self.cues.items():
            if not cues or task in cues or len(set(cues)) != len(cues):
                raise ParameterError(
                    f"cues of {task} are {', '.join(cues) or 'empty'}",
                    where="ce",
                    allowed="other classes, each once",
                )

    def partial(self, shard: Dataset, tasks: Sequence[str] = ()) -> CEState:
        """Sums over a shard for all pairs of classes. Raises InputError if areas are unknown."""
        del tasks
        return areas_summed(shard)

    def merge(self, states: Iterable[CEState]) -> CEState:
        """The statistics of all shards together; their order and number do not matter."""
        return reduce(operator.add, states)

    def finish(self, state: CEState, classes: Sequence[str], tasks: Sequence[str] = ()) -> FittedCE:
        """The fitted criterion. Raises ParameterError if given cues are not classes."""
        del tasks
        for task, cues in self.cues.items():
            for name in (task, *cues):
                check_one_of("class", name, classes, owner="the dataset")
        return FittedCE(self, tuple(classes), state)

    def fit(self, train: Dataset, tasks: Sequence[str] = ()) -> FittedCE:
        """Fit on training images. All pairs of classes are estimated, for any tasks."""
        del tasks
        return self.finish(self.partial(train), train.classes)


class FittedCE(SupportFitted):
    """CE with its statistics. Support of Y = the largest area of its cues."""

    kind = "ce"
    reads = ()
    needs_annotation = True

    def __init__(self, criterion: CE, classes: tuple[str, ...], state: CEState) -> None:
        self.criterion, self.classes, self.state = criterion, classes, state
        self.thresholds = Thresholds(criterion.beta, criterion.beta)
        self._column = {name: column for column, name in enumerate(classes)}
        self._cues: dict[str, tuple[str, ...]] = {}

    @cached_property
    def A(self) -> NDArray[np.float64]:  # noqa: N802 - the paper's name
        """The paper's A as a matrix, rows Y, columns C, float64, fractions of the image.

        The mean is over the training positives of Y in which both Y and C were annotated; NaN if
        there is none.
        """
        state = self.state
        with np.errstate(invalid="ignore", divide="ignore"):
            return mean_difference(state.sums, state.own, state.positives)

    def left_out(self, task: str) -> tuple[int, int] | None:
        """Training positives that A(C, task) leaves out as not annotated, and all positives.

        C is the cue of the task that leaves out most; or it is the kind of class that does.
        """
        annotated, row = self.state.known, self._columns_of(task)
        if annotated is None:
            return None
        cues = [self._column[cue] for cue in self.cues(task)]
        positives = int(annotated.positives[row])
        of_cues = positives - int(annotated.counts[row, cues].min(initial=positives))
        return max(of_cues, int(annotated.missing[row].max(initial=0))), positives

    def cues(self, task: str) -> tuple[str, ...]:
        """Context cues of a task, strongest first: given by hand, or all classes with A > alpha."""
        if task not in self._cues:
            own, by_hand = self._columns_of(task), self.criterion.cues.get(task)
            row = self.A[own]
            is_context_cue = is_cue(row, self.criterion.alpha)
            if by_hand is not None:
                is_context_cue = np.array([name in by_hand for name in self.classes])
            # NaN is last
            strongest = np.argsort(-row, kind="stable").tolist()
            self._cues[task] = tuple(
                self.classes[c] for c in strongest if is_context_cue[c] and c != own
            )
        return self._cues[task]

    def strength(self, cue: str, task: str) -> float:
        """A(cue, task); NaN where the task has no positive in training."""
        return float(self.A[self._columns_of(task), self._columns_of(cue)])

    def _columns_of(self, name: str) -> int:
        return self._column[check_one_of("class", name, self._column, owner="the fitted criterion")]

    def parameters(self) -> dict[str, Any]:
        """Alpha, beta and the cues given by hand."""
        by_hand = {task: list(cues) for task, cues in self.criterion.cues.items()}
        return {"alpha": self.criterion.alpha, "beta": self.criterion.beta, "cues": by_hand}

    def undefined(self, task: str) -> str | None:
        """A task without cues has no CE set (paper, section 3.2.1: "at least one context cue")."""
        column = self._columns_of(task)
        if self.cues(task):
            return None
        if self.state.counts[column] == 0:
            return "no training image has the class, so it has no context cue"
        problem = f"no class has A(C, {task}) > {self.criterion.alpha:g}"
        others = np.delete(np.fmax(self.A[column], -np.inf), column)
        if not np.isfinite(others).any():
            return problem
        best = np.delete(self.classes, column)[others.argmax()]
        return f"{problem}; the largest is A({best}, {task}) = {others.max():.3g}"

    def support(self, data: Dataset, task: str) -> NDArray[np.float64]:
        """The largest area of the task's cues, float64 (n_images,); NaN if one is unknown."""
        if reason := self.undefined(task):
            problem = f"task {task} has no CE support: {reason}"
            raise UndefinedError(problem, remedy="lower alpha, or give cues by hand")
        require_areas(data)
        cues = self.cues(task)
        largest = largest_area((data.rows_of(cue) for cue in cues), len(data))
        for cue in cues:
            if (unknown := data.unknown(cue)) is not None:
                # an unknown area could be the largest
                largest[unknown] = np.nan
        return largest

    def hard_by_cue(
        self, data: Dataset, task: str, labels: NDArray[np.bool_]
    ) -> NDArray[np.uint64]:
        """Bit i: hard by the i-th cue, a positive below beta or a negative above it.

        A hard positive has the bits of all cues, a hard negative at least one. The 64 strongest
        cues have bits.
        """
        beta, cues = self.criterion.beta, self.cues(task)[:_MOST_BITS]
        # where cues are absent their areas are 0
        absent = is_hard(0.0, np.array([False, True]), beta) * np.uint64((1 << len(cues)) - 1)
        bits: NDArray[np.uint64] = np.where(labels, absent[1], absent[0])
        for position, cue in enumerate(cues):
            rows, areas = data.rows_of(cue)
            # below beta an area is as good as 0
            large = np.flatnonzero(~(areas < beta))
            rows, bit = rows[large], np.uint64(1 << position)
            hard = is_hard(areas[large], labels[rows], beta)
            bits[rows] = np.where(hard, bits[rows] | bit, bits[rows] & ~bit)
        return bits

    def explain(self, image: Dataset, task: str) -> str:
        """Share of the image that each cue covers, against beta, with A."""
        beta = self.criterion.beta
        areas = {cue: float(image.area(cue, unknown=np.nan)[0]) for cue in self.cues(task)}
        measured = {cue: area for cue, area in areas.items() if not np.isnan(area)}
        parts = [
            f"whether there is {cue} was not annotated" for cue in areas if cue not in measured
        ]
        for cue, area in sorted(measured.items(), key=lambda item: -item[1]):
            sign = ">" if area > beta else "<" if area < beta else "="
            strength = self.strength(cue, task)
            note = "given by hand" if np.isnan(strength) else f"A({cue}, {task}) = {strength:.3g}"
            parts.append(f"{cue} covers {_percent(area)} {sign} {_percent(beta)} ({note})")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Parameters, classes, sums and counts: what merges and refits exactly."""
        content = {**self.parameters(), "classes": list(self.classes)}
        return content | state_to_json(self.state)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        with saved_as("CE"):
            saved, state = read_saved(content)
            return cls(CE(saved.alpha, saved.beta, saved.cues), tuple(saved.classes), state)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g}%"
