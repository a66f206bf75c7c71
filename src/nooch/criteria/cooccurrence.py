"""The co-occurrence/extractibility criterion (paper, section 3.1.1): objects that usually come with Y and are larger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.criteria.base import SupportFitted, Thresholds
from nooch.criteria.exact import ExactSums, group_sums
from nooch.data import Dataset
from nooch.errors import FormatError, InputError, ParameterError, UndefinedError, check_one_of

__all__ = ["CE", "CEState", "FittedCE", "require_areas"]

_MOST_BITS = 64


@dataclass(frozen=True)
class CEState:
    """Additive statistics of one shard of training images.

    Attributes:
        exact: (n_classes, n_classes); the sums, the same bits for whatever shards they were added up from.
        counts: int64 (n_classes,); images where Y is present.
    """

    exact: ExactSums
    counts: NDArray[np.int64]

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """float64 (n_classes, n_classes); ``sums[Y, C]`` = the sum of area(C) over images where Y is present."""
        return self.exact.values


@dataclass(frozen=True)
class CE:
    """Parameters of the CE criterion.

    Attributes:
        alpha: C is a context cue of Y where A(C, Y) = E[area(C) - area(Y) | y = 1] > alpha; fraction of the image.
        beta: hard positive: every cue below beta; hard negative: some cue above it; fraction of the image.
        cues: task -> cues given by hand, instead of those that alpha finds.
    """

    alpha: float = 0.05
    beta: float = 0.1
    cues: Mapping[str, Sequence[str]] = field(default_factory=dict)

    kind = "ce"
    state = CEState
    reads = ()

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not np.isfinite(value) or value < 0:
                raise ParameterError(f"{name} is {value}", where="ce", allowed="a fraction of the image, 0 and more")
        object.__setattr__(self, "cues", {task: tuple(cues) for task, cues in self.cues.items()})
        for task, cues in self.cues.items():
            if not cues or task in cues or len(set(cues)) != len(cues):
                raise ParameterError(
                    f"cues of {task} are {', '.join(cues) or 'empty'}", where="ce", allowed="other classes, each once"
                )

    def partial(self, shard: Dataset, tasks: Sequence[str] = ()) -> CEState:
        """Sums over a shard, for all pairs of classes whatever the tasks. Raises InputError where areas are unknown."""
        del tasks
        require_areas(shard)
        areas = shard.areas
        presence = csr_array((np.ones_like(areas.data), areas.indices, areas.indptr), shape=areas.shape)
        counts = np.bincount(areas.indices, minlength=len(shard.classes))
        return CEState(group_sums(presence, areas, "areas"), counts.astype(np.int64))

    def merge(self, states: Iterable[CEState]) -> CEState:
        """The statistics of all shards together, one state at a time; their order and number do not matter."""
        return reduce(lambda a, b: CEState(a.exact + b.exact, a.counts + b.counts), states)

    def finish(self, state: CEState, classes: Sequence[str], tasks: Sequence[str] = ()) -> FittedCE:
        """The fitted criterion. Raises ParameterError where given cues are no classes."""
        del tasks
        for task, cues in self.cues.items():
            for name in (task, *cues):
                check_one_of("class", name, classes, owner="the dataset")
        return FittedCE(self, tuple(classes), state)

    def fit(self, train: Dataset, tasks: Sequence[str] = ()) -> FittedCE:
        """Fit on training images. All pairs of classes are estimated, whatever the tasks."""
        del tasks
        return self.finish(self.partial(train), train.classes)


class FittedCE(SupportFitted):
    """CE with its statistics. Support of Y = the largest area of its cues."""

    kind = "ce"
    reads = ()

    def __init__(self, criterion: CE, classes: tuple[str, ...], state: CEState) -> None:
        self.criterion, self.classes, self.state = criterion, classes, state
        self.thresholds = Thresholds(criterion.beta, criterion.beta)
        self._column = {name: column for column, name in enumerate(classes)}
        self._cues: dict[str, tuple[str, ...]] = {}

    @cached_property
    def A(self) -> NDArray[np.float64]:  # noqa: N802 - the paper's name
        """The paper's A as a matrix, rows Y, columns C, float64, fractions of the image; NaN rows for classes without a positive."""
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.state.sums / self.state.counts[:, None]
        return means - np.diagonal(means)[:, None]

    def cues(self, task: str) -> tuple[str, ...]:
        """Context cues of a task, strongest first: those given by hand, or every class with A above alpha."""
        if task not in self._cues:
            row = np.nan_to_num(self.A[self._columns_of(task)], nan=-np.inf)
            given = self.criterion.cues.get(task)
            found = np.flatnonzero(row > self.criterion.alpha) if given is None else [self._column[c] for c in given]
            ordered = sorted((int(column) for column in found), key=lambda column: (-row[column], column))
            self._cues[task] = tuple(self.classes[column] for column in ordered if self.classes[column] != task)
        return self._cues[task]

    def strength(self, cue: str, task: str) -> float:
        """A(cue, task); NaN where the task has no positive in training."""
        return float(self.A[self._columns_of(task), self._columns_of(cue)])

    def _columns_of(self, name: str) -> int:
        return self._column[check_one_of("class", name, self._column, owner="the fitted criterion")]

    def parameters(self) -> dict[str, Any]:
        """Alpha, beta and the cues given by hand."""
        given = {task: list(cues) for task, cues in self.criterion.cues.items()}
        return {"alpha": self.criterion.alpha, "beta": self.criterion.beta, "cues": given}

    def undefined(self, task: str) -> str | None:
        """A task without cues has no CE set (paper, section 3.1.1: "at least one context cue")."""
        column = self._columns_of(task)
        if self.cues(task):
            return None
        if self.state.counts[column] == 0:
            return "no training image has the class, so it has no context cue"
        row = np.delete(self.A[column], column)
        largest = f"; the largest A(C, {task}) is {row.max():.3g}" if len(row) else ""
        return f"no class has A(C, {task}) > {self.criterion.alpha:g}{largest}"

    def support(self, data: Dataset, task: str) -> NDArray[np.float64]:
        """The largest area of the task's cues in every image, float64 (n_images,).

        Raises:
            UndefinedError: the task has no cue.
            InputError: an area is unknown.
        """
        if reason := self.undefined(task):
            raise UndefinedError(f"task {task} has no CE support: {reason}", remedy="lower alpha, or give cues by hand")
        require_areas(data)
        largest = np.zeros(len(data))
        for cue in self.cues(task):
            rows, areas = data.rows_of(cue)
            largest[rows] = np.maximum(largest[rows], areas)
        return largest

    def hard_by_cue(self, data: Dataset, task: str, labels: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Bit i where the i-th cue alone makes an image hard: a positive below beta, a negative above it.

        So a hard positive has the bits of all cues, and a hard negative at least one. The 64 strongest cues have bits.
        """
        beta, bits = self.criterion.beta, np.zeros(len(data), dtype=np.uint64)
        for position, cue in enumerate(self.cues(task)[:_MOST_BITS]):
            bit = np.uint64(1 << position)
            rows, areas = data.rows_of(cue)
            if beta > 0:
                # where the cue is absent its area is 0, which is below beta
                bits[labels] |= bit
            hard = np.where(labels[rows], areas < beta, areas > beta)
            bits[rows] = np.where(hard, bits[rows] | bit, bits[rows] & ~bit)
        return bits

    def explain(self, image: Dataset, task: str) -> str:
        """Which cue covers how much of the image, against beta, with A."""
        beta = self.criterion.beta
        areas = {cue: float(image.area(cue)[0]) for cue in self.cues(task)}
        parts = []
        for cue, area in sorted(areas.items(), key=lambda item: -item[1]):
            sign = ">" if area > beta else "<" if area < beta else "="
            strength = self.strength(cue, task)
            note = "given by hand" if np.isnan(strength) else f"A({cue}, {task}) = {strength:.3g}"
            parts.append(f"{cue} covers {_percent(area)} {sign} {_percent(beta)} ({note})")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Parameters, classes, sums and counts: what merges and refits exactly."""
        return {
            **self.parameters(),
            "classes": list(self.classes),
            "sums": self.state.sums.tolist(),
            "counts": self.state.counts.tolist(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        try:
            saved = msgspec.convert(content, _Saved)
            state = CEState(ExactSums.of(np.array(saved.sums, np.float64)), np.array(saved.counts, np.int64))
        except (msgspec.ValidationError, ValueError) as error:
            raise FormatError(f"is no fitted CE criterion: {error}") from error
        n = len(saved.classes)
        if state.sums.shape != (n, n) or state.counts.shape != (n,):
            raise FormatError(f"is no fitted CE criterion: {n} classes, but sums of shape {state.sums.shape}")
        return cls(CE(saved.alpha, saved.beta, saved.cues), tuple(saved.classes), state)


class _Saved(msgspec.Struct):
    alpha: float
    beta: float
    cues: dict[str, list[str]]
    classes: list[str]
    sums: list[list[float]]
    counts: list[int]


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def require_areas(data: Dataset) -> None:
    """Raise InputError where an area of the dataset is unknown."""
    if not data.has_areas:
        raise InputError(
            "areas are unknown: the annotations say which classes are present, not how large they are",
            where="ce",
            remedy="import segmentations, label maps or boxes, or use the gist or attribute criterion",
        )
