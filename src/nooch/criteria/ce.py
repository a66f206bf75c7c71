"""The CE criterion (paper, section 3.2.1): objects that usually come with Y and are larger."""

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

from nooch.base.errors import (
    FormatError,
    ParameterError,
    UndefinedError,
    check_fraction,
    check_one_of,
)
from nooch.criteria.contract import SupportFitted, Thresholds, require_areas
from nooch.criteria.exact_sums import ExactSums, group_sums, presence_of
from nooch.data import KINDS, Dataset, Gaps

CueBetas = Mapping[str, Mapping[str, float | tuple[float, float]]]
"""Task -> cue -> its beta, or two: of positives and of negatives."""


def checked_betas(betas: CueBetas, beta: float) -> dict[str, dict[str, tuple[float, float]]]:
    """The betas as pairs.

    Raises:
        ParameterError: one is not in (0, 1], there are not one or two, or ``beta`` itself is 0.
    """
    pairs: dict[str, dict[str, tuple[float, float]]] = {}
    for task, of_cues in betas.items():
        for cue, given in of_cues.items():
            pair = tuple(map(float, given)) if isinstance(given, list | tuple) else (given, given)
            if len(pair) != 2 or not all(0 < one <= 1 for one in (*pair, beta)):
                raise ParameterError(
                    f"the beta of {cue} for {task} is {given}, and beta {beta:g}",
                    where="ce",
                    allowed="fractions of the image above 0: one, or of positives and of negatives",
                )
            pairs.setdefault(task, {})[cue] = pair
    return pairs


def scaled(
    areas: NDArray[np.float64], labels: NDArray[np.bool_], pair: tuple[float, float], beta: float
) -> NDArray[Any]:
    """Areas, float64 (n,), scaled so that a cue's own beta becomes ``beta``; with floats, too, what
    was above its own beta, equal to it or below it is so to ``beta``.
    """
    # a quotient is rounded to 1 only where the two are equal, and so is its product with beta
    return areas / np.where(labels, *pair) * beta


_MOST_BITS = 64


@dataclass(frozen=True)
class KnownPairs:
    """Additive statistics of the training images where two classes, Y and C, were both annotated.

    Attributes:
        own: (n_classes, n_classes); sums of area(Y) over such images where Y is present.
        counts: int64 (n_classes, n_classes); the number of these images.
        positives: int64 (n_classes,); all images where Y is present.
        missing: int64 (n_classes, len(KINDS)); those of them where the kind was not annotated.
    """

    own: ExactSums
    counts: NDArray[np.int64]
    positives: NDArray[np.int64]
    missing: NDArray[np.int64]

    @classmethod
    def of(cls, state: CEState) -> KnownPairs:
        """Those of a shard; where all classes were annotated in all images every pair is known."""
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
        exact: (n_classes, n_classes); the sums, the same bits whatever the shards.
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

    def __add__(self, other: CEState) -> CEState:
        both = self.known is None and other.known is None
        known = None if both else KnownPairs.of(self) + KnownPairs.of(other)
        return CEState(self.exact + other.exact, self.counts + other.counts, known)


@dataclass(frozen=True)
class CE:
    """Parameters of the CE criterion.

    Attributes:
        alpha: C is a context cue of Y where A(C, Y) = E[area(C) - area(Y) | y = 1] > alpha;
            fraction of the image.
        beta: hard positive: every cue below beta; hard negative: some cue above it; fraction of the
            image.
        cues: task -> cues given by hand, instead of those that alpha finds.
        betas: task -> cue -> its own beta, or two: of positives and of negatives. Such a cue's
            area is scaled so that its own beta becomes ``beta``. Images between the two are neither
            hard nor easy.
        expected: what is known of verdicts with these betas, recorded in suites (JSON-like).
    """

    alpha: float = 0.05
    beta: float = 0.1
    cues: Mapping[str, Sequence[str]] = field(default_factory=dict)
    betas: CueBetas = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)

    kind = "ce"
    state = CEState
    reads = ()

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            check_fraction(name, value, "ce")
        object.__setattr__(self, "cues", {task: tuple(cues) for task, cues in self.cues.items()})
        if self.betas:
            object.__setattr__(self, "betas", checked_betas(self.betas, self.beta))
        for task, cues in self.cues.items():
            if not cues or task in cues or len(set(cues)) != len(cues):
                raise ParameterError(
                    f"cues of {task} are {', '.join(cues) or 'empty'}",
                    where="ce",
                    allowed="other classes, each once",
                )

    def partial(self, shard: Dataset, tasks: Sequence[str] = ()) -> CEState:
        """Sums over a shard for all pairs of classes. Raises InputError where areas are unknown."""
        del tasks
        require_areas(shard)
        areas = shard.areas if shard.gaps is None else shard.gaps.annotated(shard.areas)
        state = CEState(group_sums(presence_of(areas), areas, "areas"), _class_counts(areas))
        if shard.gaps is None:
            return state
        return replace(state, known=_known_pairs(shard, shard.gaps, areas, state))

    def merge(self, states: Iterable[CEState]) -> CEState:
        """The statistics of all shards together; their order and number do not matter."""
        return reduce(operator.add, states)

    def finish(self, state: CEState, classes: Sequence[str], tasks: Sequence[str] = ()) -> FittedCE:
        """The fitted criterion. Raises ParameterError where given cues are no classes."""
        del tasks
        for task, cues in self.cues.items():
            for name in (task, *cues):
                check_one_of("class", name, classes, owner="the dataset")
        fitted = FittedCE(self, tuple(classes), state)
        for task, betas in self.betas.items():
            for cue in betas:
                check_one_of("cue", cue, fitted.cues(task), owner=f"{task}, but has a beta")
        return fitted

    def fit(self, train: Dataset, tasks: Sequence[str] = ()) -> FittedCE:
        """Fit on training images. All pairs of classes are estimated, whatever the tasks."""
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

        The mean is over the training positives of Y in which both Y and C were annotated; NaN where
        there is none.
        """
        known = self.state.known
        with np.errstate(invalid="ignore", divide="ignore"):
            if known is None:
                means: NDArray[np.float64] = self.state.sums / self.state.counts[:, None]
                return means - np.diagonal(means)[:, None]
            means = self.state.sums / known.counts
            return means - known.own.values / known.counts

    def left_out(self, task: str) -> tuple[int, int] | None:
        """Training positives that A(C, task) leaves out as not annotated, and all positives.

        C is the cue of the task that leaves out most; or it is the kind of class that does.
        """
        known, row = self.state.known, self._columns_of(task)
        if known is None:
            return None
        cues = [self._column[cue] for cue in self.cues(task)]
        positives = int(known.positives[row])
        of_cues = positives - int(known.counts[row, cues].min(initial=positives))
        return max(of_cues, int(known.missing[row].max(initial=0))), positives

    def cues(self, task: str) -> tuple[str, ...]:
        """Context cues of a task, strongest first: given by hand, or all classes with A > alpha."""
        if task not in self._cues:
            own = self._columns_of(task)
            row = np.fmax(self.A[own], -np.inf)
            columns = np.flatnonzero(row > self.criterion.alpha).tolist()
            if task in self.criterion.cues:
                columns = [self._column[cue] for cue in self.criterion.cues[task]]
            columns.sort(key=lambda column: (-row[column], column))
            self._cues[task] = tuple(self.classes[column] for column in columns if column != own)
        return self._cues[task]

    def strength(self, cue: str, task: str) -> float:
        """A(cue, task); NaN where the task has no positive in training."""
        return float(self.A[self._columns_of(task), self._columns_of(cue)])

    def _columns_of(self, name: str) -> int:
        return self._column[check_one_of("class", name, self._column, owner="the fitted criterion")]

    def parameters(self) -> dict[str, Any]:
        """Alpha, beta and the cues given by hand."""
        by_hand = {task: list(cues) for task, cues in self.criterion.cues.items()}
        known = {"alpha": self.criterion.alpha, "beta": self.criterion.beta, "cues": by_hand}
        more = {"betas": self.criterion.betas, "expected": self.criterion.expected}
        return known | {name: value for name, value in more.items() if value}

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
        """The largest area of the task's cues, float64 (n_images,); NaN where one is unknown.

        Raises:
            UndefinedError: the task has no cue.
            InputError: an area is unknown.
        """
        if reason := self.undefined(task):
            problem = f"task {task} has no CE support: {reason}"
            raise UndefinedError(problem, remedy="lower alpha, or give cues by hand")
        require_areas(data)
        return self._largest(data, task, data.labels(task, unknown=False))

    def _largest(self, data: Dataset, task: str, labels: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The support where these were the labels."""
        largest = np.zeros(len(data))
        for cue in self.cues(task):
            rows, areas = self._areas(data, task, cue, labels)
            largest[rows] = np.maximum(largest[rows], areas)
            unknown = data.unknown(cue)
            if unknown is not None:
                # an unknown area could be the largest, and NaN stays in a maximum
                largest[unknown] = np.nan
        return largest

    def between(
        self, data: Dataset, task: str, labels: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | None:
        """Images with areas between the two betas of cues, which are neither hard nor easy.

        A positive is hard where all cues are below their first beta, and easy where one is not
        below its second. A negative is hard where a cue is above its second beta, and easy where
        none is above its first. With the same two betas that leaves none.
        """
        if all(
            first >= second for first, second in (self._pair(task, cue) for cue in self.cues(task))
        ):
            return None
        beta = self.criterion.beta
        own, other = (self._largest(data, task, of) for of in (labels, ~labels))
        absent, present = (own >= beta) & (other < beta), (own <= beta) & (other > beta)
        return np.where(labels, absent, present)

    def _pair(self, task: str, cue: str) -> tuple[float, float]:
        """Betas of positives and of negatives."""
        pair: Any = self.criterion.betas.get(task, {}).get(cue)
        return pair or (self.criterion.beta, self.criterion.beta)

    def hard_by_cue(
        self, data: Dataset, task: str, labels: NDArray[np.bool_]
    ) -> NDArray[np.uint64]:
        """Bit i: hard by the i-th cue alone, a positive below beta or a negative above it.

        A hard positive has the bits of all cues, a hard negative at least one. The 64 strongest
        cues have bits.
        """
        beta, cues = self.criterion.beta, self.cues(task)[:_MOST_BITS]
        # where a cue is absent its area is 0, which is below beta
        bits = labels * np.uint64((1 << len(cues)) - 1 if beta > 0 else 0)
        for position, cue in enumerate(cues):
            rows, areas = self._areas(data, task, cue, labels)
            large = np.flatnonzero(~(areas < beta))
            rows, above, bit = rows[large], areas[large] > beta, np.uint64(1 << position)
            bits[rows] = np.where(above & ~labels[rows], bits[rows] | bit, bits[rows] & ~bit)
        return bits

    def _areas(
        self, data: Dataset, task: str, cue: str, labels: NDArray[np.bool_]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Rows where a cue is present, and its areas, scaled where it has a beta of its own."""
        (rows, areas), beta, pair = data.rows_of(cue), self.criterion.beta, self._pair(task, cue)
        return rows, areas if pair == (beta, beta) else scaled(areas, labels[rows], pair, beta)

    def explain(self, image: Dataset, task: str) -> str:
        """Which cue covers how much of the image, against beta, with A."""
        is_negative = int(not image.labels(task, unknown=False)[0])
        areas = {cue: float(image.area(cue, unknown=np.nan)[0]) for cue in self.cues(task)}
        known = {cue: area for cue, area in areas.items() if not np.isnan(area)}
        parts = [f"whether there is {cue} was not annotated" for cue in areas if cue not in known]
        for cue, area in sorted(known.items(), key=lambda item: -item[1]):
            beta = self._pair(task, cue)[is_negative]
            sign = ">" if area > beta else "<" if area < beta else "="
            strength = self.strength(cue, task)
            note = "given by hand" if np.isnan(strength) else f"A({cue}, {task}) = {strength:.3g}"
            parts.append(f"{cue} covers {_percent(area)} {sign} {_percent(beta)} ({note})")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Parameters, classes, sums and counts: what merges and refits exactly."""
        known = self.state.known
        content = {
            **self.parameters(),
            "classes": list(self.classes),
            "sums": self.state.sums.tolist(),
            "counts": self.state.counts.tolist(),
        }
        if known is not None:
            arrays = {name: getattr(known, name) for name in ("counts", "positives", "missing")}
            pairs = {name: array.tolist() for name, array in arrays.items()}
            content["known"] = {"own": known.own.values.tolist(), **pairs}
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        try:
            saved = msgspec.convert(content, _SavedCE)
            known = None if saved.known is None else saved.known.pairs()
            sums = ExactSums.of(np.array(saved.sums, np.float64))
            state = CEState(sums, np.array(saved.counts, np.int64), known)
        except (msgspec.ValidationError, ValueError) as error:
            raise FormatError(f"is no fitted CE criterion: {error}") from error
        n = len(saved.classes)
        square = [state.sums, *([] if known is None else [known.own.high, known.counts])]
        rows = [state.counts, *([] if known is None else [known.positives, known.missing[:, 0]])]
        if any(part.shape != (n, n) for part in square) or any(part.shape != (n,) for part in rows):
            raise FormatError(
                f"is no fitted CE criterion: {n} classes, but sums of shape {state.sums.shape}"
            )
        own = CE(saved.alpha, saved.beta, saved.cues, saved.betas, saved.expected)
        return cls(own, tuple(saved.classes), state)


class _SavedPairs(msgspec.Struct):
    own: list[list[float]]
    counts: list[list[int]]
    positives: list[int]
    missing: list[list[int]]

    def pairs(self) -> KnownPairs:
        counts, positives, missing = (
            np.array(part, np.int64) for part in (self.counts, self.positives, self.missing)
        )
        return KnownPairs(ExactSums.of(np.array(self.own, np.float64)), counts, positives, missing)


class _SavedCE(msgspec.Struct):
    alpha: float
    beta: float
    cues: dict[str, list[str]]
    classes: list[str]
    sums: list[list[float]]
    counts: list[int]
    known: _SavedPairs | None = None
    betas: dict[str, dict[str, tuple[float, float]]] = {}
    expected: dict[str, Any] = {}


def _known_pairs(shard: Dataset, gaps: Gaps, areas: csr_array, state: CEState) -> KnownPairs:
    """Statistics of all positives, minus those of positives where the other class is unknown.

    No matrix of unknown pairs is made: it is the one of kinds, (n_images, 2), spread over classes,
    plus that of exceptions.
    """
    every, presence = KnownPairs.of(state), presence_of(areas)
    high, low, counts = every.own.high.copy(), every.own.low.copy(), every.counts.copy()
    spread, there = gaps.kinds[gaps.kinds >= 0], np.flatnonzero(gaps.kinds >= 0)
    parts = [(gaps.images, there, spread)]
    if gaps.pairs is not None:
        parts.append((gaps.pairs, np.arange(len(shard.classes)), np.arange(len(shard.classes))))
    for unknown, columns, of in parts:
        own = group_sums(unknown, areas, "areas")
        high[:, columns] -= own.high[of].T
        low[:, columns] -= own.low[of].T
        counts[:, columns] -= np.rint((unknown.T @ presence).toarray()[of].T).astype(np.int64)
    missing = np.rint((presence_of(shard.areas).T @ gaps.images).toarray()).astype(np.int64)
    return KnownPairs(ExactSums(high, low), counts, _class_counts(shard.areas), missing)


def _class_counts(areas: csr_array) -> NDArray[np.int64]:
    """Images in which each class is present, int64 (n_classes,)."""
    return np.bincount(areas.indices, minlength=areas.shape[1]).astype(np.int64)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"
