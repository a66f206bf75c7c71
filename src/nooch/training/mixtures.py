"""Batch transforms that mix rows: mixup and LISA.

Pixels or features and labels become w x + (1 - w) x', y likewise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from nooch.objectives import Ranges
from nooch.training.samplers import Groups, Parameters

__all__ = ["Lisa", "MixedRows", "Mixing", "Mixture", "Mixup"]

Labels = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Mixture:
    """With which row each of n training rows is mixed in an epoch.

    Attributes:
        partners: int (n,), rows.
        weights: float32 (n,), the row's own share, 0 to 1.
    """

    partners: NDArray[np.intp]
    weights: NDArray[np.float32]


class Mixing(ABC):
    """What is mixed with what. Shares are drawn for each row, from Beta(alpha, alpha)."""

    of_task: ClassVar[bool] = False
    """Whether it looks at labels or environments; else all tasks can share what is mixed."""
    ranges: ClassVar[Ranges] = {}

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
        return Mixture(random.permutation(n), random.beta(alpha, alpha, n).astype(np.float32))


@dataclass(frozen=True)
class Lisa(Mixing):
    """Selective mixing (Yao et al., 2022): with chance ``p`` rows of one label and different
    contexts, else of one context and different labels. What has no such partner stays as it is.

    Attributes:
        alpha: of the shares' distribution.
    """

    of_task = True
    ranges: ClassVar[Ranges] = {"p": (0.0, 1.0)}
    alpha: float = 2.0

    def __call__(
        self, labels: Labels, environments: Groups | None, parameters: Parameters, random: Generator
    ) -> Mixture:
        """Partners are drawn with replacement."""
        assert environments is not None  # noqa: S101 - checked when the grid was planned
        n, y = len(labels), np.asarray(labels, dtype=np.int64)
        # an environment is 2 x label + context
        context = environments.astype(np.int64) - 2 * y
        intra_label = random.random(n) < parameters["p"]
        wanted = np.where(intra_label, 2 * y + (1 - context), 2 * (1 - y) + context)
        weights = random.beta(self.alpha, self.alpha, n).astype(np.float32)
        partners = np.arange(n)
        for group in range(4):
            asking, there = np.flatnonzero(wanted == group), np.flatnonzero(environments == group)
            if len(there):
                partners[asking] = there[random.integers(0, len(there), len(asking))]
            else:
                weights[asking] = 1
        return Mixture(partners, weights)


@dataclass(frozen=True)
class MixedRows:
    """Some rows of an array, mixed or as they are, read when they are asked for.

    Attributes:
        whole: array (n_images, d).
        rows: int (n,), which rows.
        mixture: of these n rows, or None.
    """

    whole: Any
    rows: NDArray[np.intp]
    mixture: Mixture | None

    def __getitem__(self, places: NDArray[np.intp]) -> Any:
        own = self.whole[self.rows[places]]
        if self.mixture is None:
            return own
        share = self.mixture.weights[places][:, None]
        return share * own + (1 - share) * self.whole[self.rows[self.mixture.partners[places]]]
