"""The scores criterion: context support from attribute columns of the images."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.criteria.contract import SupportFitted, Tau, checked_tau, saved_as, thresholds_of
from nooch.data import Dataset

_TASK = "{task}"
_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class ContextScores(SupportFitted):
    """The scores criterion. Nothing is estimated: it is its own fitted criterion.

    Attributes:
        column: attribute column of supports, larger = a more usual context for the class;
            ``{task}`` in it stands for the task's name. An image without a value (missing or NaN)
            has no notion of context.
        tau: threshold on the support for hard positives (below) and negatives (above); or by task a
            pair, of positives and of negatives (None for a task without a challenge set); or None
            where counts are matched.
    """

    column: str
    tau: Tau | None = None

    kind = "scores"
    reads = ()

    def __post_init__(self) -> None:
        if not self.column:
            allowed = "an attribute column such as 'context_{task}'"
            raise ParameterError("needs `column`", where="scores", allowed=allowed)
        tau = checked_tau(self.tau, "scores", -_LARGEST, _LARGEST, "a finite number")
        object.__setattr__(self, "tau", tau)
        object.__setattr__(self, "thresholds", thresholds_of(tau))

    def fit(self, train: Dataset, tasks: Sequence[str]) -> Self:
        """Check the columns of these tasks.

        Raises:
            ParameterError: a column that the dataset lacks, or that contains no numbers.
        """
        for task in tasks:
            _column(train, self.column, task)
        return self

    def parameters(self) -> dict[str, Any]:
        """Name of the column and tau (null where counts are matched)."""
        return {"column": self.column, "tau": self.tau}

    def support(self, data: Dataset, task: str) -> NDArray[np.float64]:
        """The column's values, float64 (n_images,); NaN if there is none.

        Raises:
            ParameterError: the dataset lacks the column, or it contains no numbers.
            InputError: a value is infinite.
        """
        values = _column(data, self.column, task).to_numpy()
        rows = np.flatnonzero(np.isinf(values))
        if len(rows):
            raise InputError(
                f"column {_named(self.column, task)} is infinite for images"
                f" {some_of(data.image_ids[rows])}",
                allowed="finite numbers, and nothing or NaN where an image has no context",
            )
        return values

    def explain(self, image: Dataset, task: str) -> str:
        """The value in words, such as ``context_car is 0.31``."""
        value = float(self.support(image, task)[0])
        name = _named(self.column, task)
        if math.isnan(value):
            return f"{name} has no value, so there is no notion of context"
        return f"{name} is {value:.6g}"

    def to_json(self) -> dict[str, Any]:
        """Column and tau; the values are the dataset's, and the suite's supports."""
        return self.parameters()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        with saved_as(cls.kind):
            saved = msgspec.convert(content, _SavedScores)
            return cls(saved.column, saved.tau)


class _SavedScores(msgspec.Struct):
    column: str
    tau: float | dict[str, tuple[float, float] | None] | None


def _named(column: str, task: str) -> str:
    return column.replace(_TASK, task)


def _column(data: Dataset, column: str, task: str) -> pl.Series:
    """A task's supports as Float64, null as NaN. ParameterError: no such column of numbers."""
    name = _named(column, task)
    values = data.images[
        check_one_of("attribute column", name, data.attributes, owner="the dataset")
    ]
    if not values.dtype.is_numeric():
        allowed = "numbers, larger = a more usual context"
        raise ParameterError(
            f"column {name} contains {values.dtype}", where="scores", allowed=allowed
        )
    return values.cast(pl.Float64).fill_null(np.nan)
