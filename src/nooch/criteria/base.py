"""The contract of a criterion: frozen parameters, ``fit`` on training images, then support or a mark for any image."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from nooch.data import Dataset

__all__ = ["Criterion", "Fitted", "MarkFitted", "SupportFitted", "Thresholds"]


@dataclass(frozen=True)
class Thresholds:
    """Hard positives have support below ``positive``, hard negatives above ``negative`` (both strict)."""

    positive: float
    negative: float


class Criterion(Protocol):
    """Frozen parameters of a notion of context.

    ``kind`` names it in files and on the command line.
    """

    @property
    def kind(self) -> str:
        """Name in the table of criteria."""
        ...

    def fit(self, train: Dataset, tasks: Sequence[str]) -> Fitted:
        """Estimate what the criterion needs for these tasks, from training images alone."""
        ...


class Fitted(ABC):
    """A criterion with its statistics. It can be saved as JSON and used on any dataset with the same classes."""

    kind: ClassVar[str]

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The criterion's parameters, JSON-like, for display."""

    @abstractmethod
    def undefined(self, task: str) -> str | None:
        """Why the task has no challenge set under this criterion, or None where it has one."""

    @abstractmethod
    def explain(self, image: Dataset, task: str) -> str:
        """In words, what the criterion sees in one image (a Dataset of one image) for a task."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Parameters and statistics as JSON-like values."""

    @classmethod
    @abstractmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave. Raises FormatError where it does not fit."""


class SupportFitted(Fitted):
    """A fitted criterion that measures context support: larger = a more usual context for the task's class."""

    thresholds: Thresholds | None
    """The criterion's own thresholds, or None where they come from matching."""

    @abstractmethod
    def support(self, data: Dataset, task: str) -> NDArray[np.float64]:
        """Support of every image, shape (n_images,); NaN = no notion of context there.

        Raises UndefinedError where the task has no set under this criterion.
        """

    def supports(self, data: Dataset, tasks: Sequence[str]) -> NDArray[np.float64]:
        """Support for many tasks at once, shape (n_images, n_tasks)."""
        columns = [self.support(data, task) for task in tasks]
        return np.column_stack(columns) if columns else np.empty((len(data), 0))

    def hard_by_cue(self, data: Dataset, task: str, labels: NDArray[np.bool_]) -> NDArray[np.uint64] | None:
        """Bit i where an image is hard by the task's i-th cue alone, shape (n_images,); None for criteria without cues."""
        del data, task, labels
        return None


class MarkFitted(Fitted):
    """A fitted criterion that marks images as out of context directly."""

    @abstractmethod
    def phi(self, data: Dataset, task: str) -> NDArray[np.bool_]:
        """True where an image is out of context for the task, shape (n_images,)."""
