"""The contract of a criterion: frozen parameters, ``fit`` on training images, support or mark."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import (
    Command,
    FormatError,
    Give,
    InputError,
    ParameterError,
    UndefinedError,
    check_one_of,
    some_of,
)
from nooch.base.text_encoding import utf8_bytes
from nooch.data import Dataset
from nooch.data.table_files import checked_read, read_table

_SUPPORTS_AT_ONCE = 1 << 23
"""Supports computed at once, 64 MiB: of 171 tasks on 24,657 images all, 34 MB."""


@dataclass(frozen=True)
class Thresholds:
    """Hard positives: support < ``positive``; hard negatives: support > ``negative``."""

    positive: float
    negative: float


TaskThresholds = Thresholds | Mapping[str, Thresholds | None] | None
"""Thresholds of all tasks, or by task (None: no challenge set); None where counts are matched."""


class Criterion(Protocol):
    """Frozen parameters of a notion of context; ``kind`` names it in files and commands."""

    @property
    def kind(self) -> str:
        """Name in the table of criteria."""
        ...

    def fit(self, train: Dataset, tasks: Sequence[str]) -> Fitted:
        """Estimate what the criterion needs for these tasks, only from training images."""
        ...


@runtime_checkable
class Summable(Protocol):
    """A criterion that is fitted by adding statistics of parts, independent of the division into
    parts.

    A dataclass may also have ``state``, the type of what ``partial`` gives (a dataclass, arrays,
    numbers, texts, lists, ...): a part's statistics are then kept on disk until the suite is
    written, so that an interrupted find sums no part twice.
    """

    def partial(self, shard: Dataset, tasks: Sequence[str]) -> Any:
        """Statistics of the training images of a part, of which there may be none."""
        ...

    def merge(self, states: Iterable[Any]) -> Any:
        """The statistics of all together, one at least."""
        ...

    def finish(self, state: Any, classes: Sequence[str], tasks: Sequence[str]) -> Fitted:
        """The fitted criterion."""
        ...


def reads_of(criteria: Iterable[Any]) -> frozenset[str] | None:
    """All that criteria read of a dataset; None if one does not declare it: maybe everything."""
    together: set[str] = set()
    for criterion in criteria:
        reads: Collection[str] | None = getattr(criterion, "reads", None)
        if reads is None:
            return None
        together.update(reads)
    return frozenset(together)


def require_areas(data: Dataset, instead: Give | None = None) -> None:
    """Raise InputError if an area of the dataset is unknown; ``instead``: what needs none."""
    if not data.has_areas:
        problem = "areas are unknown: the annotations name classes, and not how large they are"
        remedy = "{} if images have several labels; import segmentations, label maps or boxes; or"
        remedy += " predict areas: {}"
        give = (instead or {"criteria": "context"}, Command("annotate"))
        raise InputError(problem, where="ce", remedy=remedy, give=give)


class Fitted(ABC):
    """A criterion with its statistics: saved as JSON, used on any dataset with its classes."""

    kind: ClassVar[str]

    @property
    def reads(self) -> Collection[str] | None:
        """Inputs in addition to images and areas: ``captions``, ``embeddings/NAME``.

        None: everything. A criterion that is not fitted yet may have this too. Nothing else is then
        read of a dataset folder.
        """
        return None

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The criterion's parameters, JSON-like, for display."""

    def undefined(self, task: str) -> str | None:
        """Why the task has no challenge set under this criterion, or None if it has one."""
        del task
        return None

    def undefined_in(self, task: str, split: str) -> str | None:
        """Why a task that is defined has no challenge set in a split, or None if it has one."""
        del task, split
        return None

    def notes(self, tasks: Sequence[str]) -> list[str]:
        """Notes on the fit for readers of the challenge sets of these tasks."""
        del tasks
        return []

    def left_out(self, task: str) -> tuple[int, int] | None:
        """Training positives left out as not annotated, of how many; None where none is."""
        del task
        return None

    @abstractmethod
    def explain(self, image: Dataset, task: str) -> str:
        """In words, what the criterion sees in one image (a Dataset of one image) for a task."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Parameters and statistics as JSON-like values."""

    @classmethod
    @abstractmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave. Raises FormatError if it does not fit."""


@contextlib.contextmanager
def saved_as(kind: str) -> Iterator[None]:
    """Raise what is wrong with the JSON of a fitted criterion as a FormatError."""
    try:
        yield
    except (msgspec.ValidationError, ParameterError, ValueError) as error:
        raise FormatError(f"is not a fitted {kind} criterion: {error}") from error


class SupportFitted(Fitted):
    """A fitted criterion that measures support: larger = a more usual context for the class."""

    needs_annotation: ClassVar[bool] = False
    """True if only missing annotations leave an image without support, so that find limits them."""

    thresholds: TaskThresholds
    """The criterion's own thresholds, or None if they come from matching."""

    def thresholds_for(self, task: str) -> Thresholds | None:
        """Thresholds of one task, or None where its counts are matched.

        Raises:
            ParameterError: there are thresholds by task, but this task is not among them.
            UndefinedError: the task is among them without a threshold, so it has no challenge set.
        """
        if not isinstance(self.thresholds, Mapping):
            return self.thresholds
        check_one_of("task", task, self.thresholds, owner="the thresholds")
        thresholds = self.thresholds[task]
        if thresholds is None:
            raise UndefinedError("the given thresholds have none for it")
        return thresholds

    @abstractmethod
    def support(self, data: Dataset, task: str) -> NDArray[np.float64]:
        """Support of every image, shape (n_images,); NaN = no notion of context there.

        Raises UndefinedError if the task has no set under this criterion.
        """

    def supports(self, data: Dataset, tasks: Sequence[str]) -> NDArray[np.float64]:
        """Support for many tasks at once, shape (n_images, n_tasks)."""
        by_task = np.empty((len(tasks), len(data)))
        for values, task in zip(by_task, tasks, strict=True):
            values[:] = self.support(data, task)
        return by_task.T

    def each_support(self, data: Dataset, tasks: Sequence[str]) -> Iterator[NDArray[np.float64]]:
        """Support for one task after another, each (n_images,); computed for many at once."""
        n_tasks = max(1, _SUPPORTS_AT_ONCE // max(1, len(data)))
        for start in range(0, len(tasks), n_tasks):
            yield from self.supports(data, tasks[start : start + n_tasks]).T

    def cues(self, task: str) -> tuple[str, ...]:
        """Classes that are single pieces of the task's context, strongest first; may be none."""
        del task
        return ()

    def strength(self, cue: str, task: str) -> float:
        """Strength of a cue: A(cue, task) for CE, an odds ratio for context; or NaN."""
        del cue, task
        return np.nan

    def hard_by_cue(
        self, data: Dataset, task: str, labels: NDArray[np.bool_]
    ) -> NDArray[np.uint64] | None:
        """Bit i: hard by the task's i-th cue, uint64 (n_images,); None without cues."""
        del data, task, labels
        return None


class MarkFitted(Fitted):
    """A fitted criterion that marks images as out of context directly."""

    @abstractmethod
    def phi(self, data: Dataset, task: str) -> NDArray[np.bool_]:
        """True where an image is out of context for the task, shape (n_images,)."""


Pairs = Mapping[str, tuple[float, float] | None]
"""Task -> thresholds of its positives and negatives; None: the task has no challenge set."""
Tau = float | Pairs
"""One threshold for all tasks and both sides, or pairs."""

_SIDES = ("positive", "negative")


def checked_tau(tau: Tau | None, where: str, low: float, high: float, allowed: str) -> Tau | None:
    """``tau`` with numbers as floats and pairs as tuples.

    The two numbers of a pair are of different images, so either may be the larger one.
    """
    if tau is None:
        return None
    if not isinstance(tau, Mapping):
        if not low <= tau <= high:
            raise ParameterError(f"tau is {tau}", where=where, allowed=allowed)
        return tau
    if not tau:
        raise ParameterError("tau has no task", where=where, allowed="a pair of numbers per task")
    pairs: dict[str, tuple[float, float] | None] = {}
    for task, pair in tau.items():
        if pair is None:
            pairs[task] = None
            continue
        if len(pair) != len(_SIDES):
            problem = f"tau of {task} has {len(pair)} numbers"
            raise ParameterError(problem, where=where, allowed="two: of positives and of negatives")
        for side, value in zip(_SIDES, pair, strict=True):
            if not low <= value <= high:
                problem = f"tau of the {side}s of {task} is {value}"
                raise ParameterError(problem, where=where, allowed=allowed)
        pairs[task] = (float(pair[0]), float(pair[1]))
    return pairs


def thresholds_of(tau: Tau | None) -> TaskThresholds:
    """Value of ``SupportFitted.thresholds`` for a ``tau``."""
    if isinstance(tau, Mapping):
        return {task: None if pair is None else Thresholds(*pair) for task, pair in tau.items()}
    return None if tau is None else Thresholds(tau, tau)


def read_thresholds(path: str | Path) -> dict[str, tuple[float, float]]:
    """Thresholds per task and side from a table; see ``read_task_numbers``."""
    numbers = read_task_numbers(path, _SIDES)
    return {task: (positive, negative) for task, (positive, negative) in numbers.items()}


def read_task_numbers(path: str | Path, columns: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Numbers per task from a table.

    Columns other than ``task`` and these are ignored, so that a Table 6 of ``nooch paper tables``
    can be read.

    ``columns``: of numbers.
    """
    path, allowed = Path(path), f"a row per task with the columns task, {', '.join(columns)}"
    if path.suffix.lower() == ".json":
        frame = checked_read(path, lambda: pl.read_json(utf8_bytes(path.read_bytes(), path)))
    else:
        frame = read_table(path)
    if missing := [name for name in ("task", *columns) if name not in frame.columns]:
        raise InputError(f"lacks the columns {', '.join(missing)}", where=path, allowed=allowed)
    for name in columns:
        if not (kind := frame[name].dtype).is_numeric():
            raise InputError(f"column {name} contains {kind}", where=path, allowed="numbers")
    frame = frame.select(pl.col("task").cast(pl.String), pl.col(columns).cast(pl.Float64))
    no_value = pl.any_horizontal(pl.all().is_null(), pl.col(columns).is_nan())
    empty = frame.filter(no_value)["task"]
    twice = frame["task"].filter(frame["task"].is_duplicated()).unique(maintain_order=True)
    problem = None
    if not frame.height:
        problem = "contains no row"
    elif len(empty):
        problem = f"has an empty or NaN cell for {some_of(empty)}"
    elif len(twice):
        problem = f"has more than one row for {some_of(twice)}"
    if problem:
        raise InputError(problem, where=path, allowed=allowed)
    return {task: tuple(numbers) for task, *numbers in frame.rows()}
