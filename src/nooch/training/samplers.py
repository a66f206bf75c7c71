"""Samplers, how often each training row is taken in an epoch, and what rows are mixed with.

Fine-tuning takes rows so often, in random order. In a pass of many heads, which share one order of
rows, a row keeps its place and its loss is multiplied by that number (divided by the mean): the
expected step is the same, the batch is not. Mixup and LISA mix pixels or features and labels: they
become w x + (1 - w) x', and the same for y.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from nooch.base.errors import ParameterError
from nooch.training.objectives import Ranges

Groups = NDArray[np.integer]
"""Labels or environments of rows, (n,)."""
Parameters = Mapping[str, float]
"""Hyperparameter -> value."""


@dataclass(frozen=True)
class RandomStreams:
    """Draws of a job (``name``). Streams belong to the order of rows: other ones for each job, not
    seed.
    """

    order: int
    name: str
    epoch: int = 0

    def fixed(self) -> np.random.Generator:
        """The same in every epoch."""
        return np.random.default_rng([self.order, 1, crc32(self.name.encode())])

    def of_epoch(self) -> np.random.Generator:
        """Another one in each epoch."""
        return np.random.default_rng([self.order, 2, crc32(self.name.encode()), self.epoch])


class Sampler(ABC):
    """Number of times each of n training rows is taken in an epoch."""

    by: ClassVar[str | None] = None
    """Basis of groups: ``labels``, ``environments``, or None where groups have no effect."""
    ranges: ClassVar[Ranges] = {}
    """Any number from 0 on by default."""

    @abstractmethod
    def counts(
        self, groups: Groups, parameters: Parameters, streams: RandomStreams
    ) -> NDArray[np.int64]:
        """Number of times each row is taken, int64 (n,)."""

    def expected(
        self, groups: Groups, parameters: Parameters, basis: Groups
    ) -> NDArray[np.float32]:
        """Average counts of rows of groups ``basis``, relative to the mean row: float32, as long as
        it.
        """
        del groups, parameters
        return np.ones(len(basis), dtype=np.float32)


@dataclass(frozen=True)
class Redraw(Sampler):
    """n draws with replacement by label or environment, chances ~ (1 / w)^alpha, w the frequency of
    the group (Eq. 3).
    """

    by: str  # type: ignore[misc]

    def counts(
        self, groups: Groups, parameters: Parameters, streams: RandomStreams
    ) -> NDArray[np.int64]:
        """Counts of a multinomial draw, a new one in each epoch."""
        random = streams.of_epoch()
        drawn = random.multinomial(len(groups), _chances(groups, parameters["alpha"]))
        counts = np.zeros(len(groups), dtype=np.int64)
        for group, number in enumerate(drawn):
            rows = np.flatnonzero(groups == group)
            if number:
                draws = random.integers(0, len(rows), number)
                counts[rows] = np.bincount(draws, minlength=len(rows))
        return counts

    def expected(
        self, groups: Groups, parameters: Parameters, basis: Groups
    ) -> NDArray[np.float32]:
        """By group; 0 for groups that training does not have."""
        return _expected(groups, parameters["alpha"], basis)


@dataclass(frozen=True)
class Balance(Sampler):
    """As many rows of each label or environment as the rarest has, fixed (SUBY, SUBG; Idrissi et
    al., 2022).
    """

    by: str  # type: ignore[misc]

    def counts(
        self, groups: Groups, parameters: Parameters, streams: RandomStreams
    ) -> NDArray[np.int64]:
        """1 for rows that are taken, else 0."""
        del parameters
        random, rows = streams.fixed(), [np.flatnonzero(groups == g) for g in np.unique(groups)]
        least = min(map(len, rows))
        taken = np.concatenate([random.permutation(each)[:least] for each in rows])
        return np.bincount(taken, minlength=len(groups))

    def expected(
        self, groups: Groups, parameters: Parameters, basis: Groups
    ) -> NDArray[np.float32]:
        """Every group weighs the same, as when redrawing with alpha = 1."""
        del parameters
        return _expected(groups, 1.0, basis)


@dataclass(frozen=True)
class FixedShare(Sampler):
    """A share of the rows, always the same ones; the others are left for a later stage."""

    share: float = 0.8

    def counts(
        self, groups: Groups, parameters: Parameters, streams: RandomStreams
    ) -> NDArray[np.int64]:
        """1 for rows that are taken, else 0."""
        del parameters
        taken = streams.fixed().permutation(len(groups))[: max(1, round(self.share * len(groups)))]
        return np.bincount(taken, minlength=len(groups))


def row_weights(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Counts as weights of rows with mean 1, float32 (n,)."""
    return np.asarray(counts / counts.mean(), dtype=np.float32)


def in_order(counts: NDArray[np.int64] | int, order: int, epoch: int) -> NDArray[np.intp]:
    """Rows of an epoch in random order: each ``counts`` times, or n rows once each."""
    rows = counts if isinstance(counts, int) else np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng([order, 0, epoch]).permutation(rows)


def _chances(groups: Groups, alpha: float) -> NDArray[np.float64]:
    """Chance of each group at each draw."""
    counts = np.bincount(groups).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mass = np.where(counts > 0, counts * (len(groups) / np.maximum(counts, 1)) ** alpha, 0.0)
    if not np.isfinite(mass.sum()):
        problem = f"alpha is {alpha:g}: the weights of groups overflow"
        raise ParameterError(problem, allowed="such as 0 to 2")
    return np.asarray(mass / mass.sum())


def _expected(groups: Groups, alpha: float, basis: Groups) -> NDArray[np.float32]:
    counts = np.bincount(groups, minlength=int(basis.max(initial=0)) + 1)
    chances = _chances(groups, alpha)
    chances = np.pad(chances, (0, len(counts) - len(chances)))
    weights = chances * len(groups) / np.maximum(counts, 1)
    return np.asarray(weights[basis], dtype=np.float32)


Labels = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Training rows of an epoch, the partners that they are mixed with, int (n,) each, and the
    ``weights`` of the former, float32 (n,), 0 to 1.
    """

    rows: NDArray[np.intp]
    partners: NDArray[np.intp]
    weights: NDArray[np.float32]


class Mixing(ABC):
    """Pairs of rows to mix. Shares are drawn for each row, from Beta(alpha, alpha)."""

    of_task: ClassVar[bool] = False
    """True if it looks at labels or environments; else all tasks can share what is mixed."""
    ranges: ClassVar[Ranges] = {}

    def of(self, variant: str) -> Self:
        """Itself as the variant has it: ``released`` is what its authors' code does."""
        del variant
        return self

    @abstractmethod
    def __call__(
        self, labels: Labels, environments: Groups | None, parameters: Parameters, random: Generator
    ) -> Mixture:
        """The mixture of an epoch for training rows with labels (n,) and environments (n,)."""


@dataclass(frozen=True)
class Mixup(Mixing):
    """Any row with any other (Zhang et al., 2018)."""

    ranges: ClassVar[Ranges] = {"alpha": (1e-3, 1e3)}

    def __call__(
        self, labels: Labels, environments: Groups | None, parameters: Parameters, random: Generator
    ) -> Mixture:
        """Partners are a permutation."""
        del environments
        n, alpha = len(labels), parameters["alpha"]
        partners = random.permutation(n)
        return Mixture(np.arange(n), partners, random.beta(alpha, alpha, n).astype(np.float32))


@dataclass(frozen=True)
class Lisa(Mixing):
    """Selective mixing (Yao et al., 2022): with chance ``p`` rows of one label and different
    contexts, else of one context and different labels. What has no such partner stays as it is.

    Shares are from Beta(alpha, alpha). Every row is taken once; ``released``: n draws with
    replacement, as many of each of the four environments.
    """

    of_task = True
    ranges: ClassVar[Ranges] = {"p": (0.0, 1.0)}
    alpha: float = 2.0
    released: bool = False

    def of(self, variant: str) -> Self:
        """As in the authors' code, or Algorithm 1 of the paper."""
        return replace(self, released=variant == "released")

    def __call__(
        self, labels: Labels, environments: Groups | None, parameters: Parameters, random: Generator
    ) -> Mixture:
        """Partners are drawn with replacement."""
        assert environments is not None  # noqa: S101 - checked when the grid was planned
        n = len(labels)
        rows = np.arange(n)
        if self.released:
            chances = _expected(environments, 1.0, environments) / n
            rows = random.choice(n, n, p=chances / chances.sum())
        # an environment is 2 x label + context
        y, context = np.divmod(environments[rows].astype(np.int64), 2)
        intra_label = random.random(n) < parameters["p"]
        group_needed = np.where(intra_label, 2 * y + (1 - context), 2 * (1 - y) + context)
        weights = random.beta(self.alpha, self.alpha, n).astype(np.float32)
        partners = rows.copy()
        for group in range(4):
            asking, candidates = (
                np.flatnonzero(group_needed == group),
                np.flatnonzero(environments == group),
            )
            if len(candidates):
                partners[asking] = candidates[random.integers(0, len(candidates), len(asking))]
            else:
                weights[asking] = 1
        return Mixture(rows, partners, weights)


@dataclass(frozen=True)
class MixedRows:
    """Rows, int (n,), of an array (n_images, d), mixed or as they are, read when they are asked
    for.
    """

    whole: Any
    rows: NDArray[np.intp]
    mixture: Mixture | None

    def __getitem__(self, places: NDArray[np.intp]) -> Any:
        if self.mixture is None:
            return self.whole[self.rows[places]]
        own = self.whole[self.rows[self.mixture.rows[places]]]
        share = self.mixture.weights[places][:, None]
        return share * own + (1 - share) * self.whole[self.rows[self.mixture.partners[places]]]
