"""The gist criterion (paper, section 3.2.2): likeness of captions to the captions of Y's images.

e(x) is an embedding of the image x, such as the mean of its captions' SBERT embeddings.

    p(Y) = E[e(x) | y = 1]      the mean over the training positives of Y, its prototype
    s(x) = cos(e(x), p(Y))      the support
    hard positive               y = 1 and s(x) < tau
    hard negative               y = 0 and s(x) > tau

``suites/hard_easy.py`` compares s with tau, or matches the counts of another criterion.
``exact_sums.cosines`` does not depend on the batch.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import ParameterError, UndefinedError, check_one_of
from nooch.base.limits import usable_cpus
from nooch.criteria.contract import (
    SupportFitted,
    TaskThresholds,
    Tau,
    checked_tau,
    saved_as,
    thresholds_of,
)
from nooch.criteria.exact_sums import ExactSums, cosines, group_sums, presence_of
from nooch.data import Dataset, embedding_precision


def mean_embedding(total: NDArray[np.float64], positives: int) -> NDArray[np.float64]:
    """p(Y), from the sum of e(x) over the positives of Y and their number; NaN without one."""
    return total / positives if positives else np.full_like(total, np.nan)


def likeness(e: NDArray[Any], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """s: a row for each image, embedded in ``e``, a column for each task's prototype in ``p``."""
    units = p / np.linalg.norm(p, axis=1, keepdims=True)
    return cosines(e, units)


_BLOCK = 8192
"""Rows summed at a time: of an embedding that is mapped, no more is in memory."""


@dataclass(frozen=True)
class GistState:
    """Additive statistics of one shard over the positives of tasks.

    Attributes:
        exact: (n_tasks, d); sums of embeddings, the same bits for any shards.
        counts: int64 (n_tasks,); positives with an embedding.
    """

    exact: ExactSums
    counts: NDArray[np.int64]

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """Sums of embeddings, float64 (n_tasks, d)."""
        return self.exact.values

    def __add__(self, other: GistState) -> GistState:
        return GistState(self.exact + other.exact, self.counts + other.counts)


def embeddings_summed(shard: Dataset, embedding: str, tasks: Sequence[str]) -> GistState:
    """Sums over the positives of each task; images without an embedding do not count."""
    values = embedding_of(shard, embedding)
    columns = [shard.column(task) for task in tasks]

    def of_block(start: int) -> GistState:
        block = values[start : start + _BLOCK]
        present = presence_of(shard.areas[start : start + _BLOCK][:, columns].tocsr())
        complete = ~np.isnan(block).any(axis=1)
        if not complete.all():
            present, block = present[np.flatnonzero(complete)], block[complete]
        counts = np.bincount(present.indices, minlength=len(tasks))
        return GistState(group_sums(present, block, "embeddings"), counts)

    with ThreadPoolExecutor(usable_cpus()) as pool:
        # one block at least: a shard may have no image
        return reduce(operator.add, pool.map(of_block, range(0, max(1, len(shard)), _BLOCK)))


def embedding_of(data: Dataset, name: str) -> NDArray[np.floating[Any]]:
    """The embedding of that name, (n_images, d)."""
    return data.embeddings[check_one_of("embedding", name, data.embeddings, owner="the dataset")]


class SavedGist(msgspec.Struct):
    """A fitted gist criterion as in a suite's JSON."""

    embedding: str
    tau: float | dict[str, tuple[float, float] | None] | None
    tasks: list[str]
    sums: list[list[float]]
    counts: list[int]


def read_saved(content: Mapping[str, Any]) -> tuple[SavedGist, GistState]:
    """Parameters, tasks and statistics from JSON. Raises ValueError if they do not fit."""
    saved = msgspec.convert(content, SavedGist)
    sums = np.array(saved.sums, np.float64)
    if not len(saved.tasks) == len(sums) == len(saved.counts):
        raise ValueError(f"{len(saved.tasks)} tasks, but {len(sums)} prototypes")
    return saved, GistState(ExactSums.from_values(sums), np.array(saved.counts, np.int64))


@dataclass(frozen=True)
class Gist:
    """Parameters of the gist criterion.

    Attributes:
        embedding: name of a dataset's embedding, for example of mean caption embeddings; by default
            ``nooch.find`` takes the dataset's only one.
        tau: threshold on the cosine for hard positives and negatives; or by task a pair, of
            positives and of negatives (None for a task without a challenge set); or None where
            counts are matched.

    Examples:
        >>> nooch.Gist(tau={"car": (0.3, 0.4)}).thresholds["car"]
        Thresholds(positive=0.3, negative=0.4)
    """

    embedding: str = ""
    tau: Tau | None = None

    kind = "gist"
    state = GistState

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", checked_tau(self.tau, "gist", -1, 1, "a cosine, -1 to 1"))

    @property
    def thresholds(self) -> TaskThresholds:
        """Thresholds that ``tau`` stands for."""
        return thresholds_of(self.tau)

    @property
    def reads(self) -> tuple[str, ...]:
        """Its embedding."""
        return (f"embeddings/{self.embedding}",)

    def completed(self, embeddings: Collection[str]) -> Self:
        """The criterion with the dataset's only embedding, unless it names one."""
        if self.embedding:
            return self
        if len(embeddings) != 1:
            raise ParameterError(
                f"the dataset has {len(embeddings)} embeddings",
                where="Gist",
                allowed=f"the name of one: {', '.join(embeddings) or 'there is none'}",
                remedy='data, name = nooch.embed(data, "all-MiniLM-L6-v2"), then nooch.Gist(name)',
            )
        return replace(self, embedding=next(iter(embeddings)))

    def partial(self, shard: Dataset, tasks: Sequence[str]) -> GistState:
        """Sums over the positives of each task; images without an embedding do not count."""
        return embeddings_summed(shard, self.embedding, tasks)

    def merge(self, states: Iterable[GistState]) -> GistState:
        """The statistics of all shards together; their order and number do not matter."""
        return reduce(operator.add, states)

    def finish(
        self, state: GistState, classes: Sequence[str], tasks: Sequence[str] | None = None
    ) -> FittedGist:
        """The fitted criterion, with a prototype for each summed task (by default, all classes)."""
        return FittedGist(self, tuple(classes if tasks is None else tasks), state)

    def fit(self, train: Dataset, tasks: Sequence[str]) -> FittedGist:
        """Fit on training images."""
        return self.finish(self.partial(train, tasks), train.classes, tasks)


class FittedGist(SupportFitted):
    """Gist with the mean embedding of each task's training positives. Support = cosine with it."""

    kind = "gist"

    def __init__(self, criterion: Gist, tasks: tuple[str, ...], state: GistState) -> None:
        self.criterion, self.tasks, self.state = criterion, tasks, state
        self.thresholds = criterion.thresholds
        self._row = {task: row for row, task in enumerate(tasks)}

    @property
    def reads(self) -> tuple[str, ...]:
        """Its embedding."""
        return self.criterion.reads

    def prototype(self, task: str) -> NDArray[np.float64]:
        """Mean embedding of the task's training positives, float64 (d,); NaN without a positive."""
        row = self._row[check_one_of("task", task, self._row, owner="the fitted gist criterion")]
        return mean_embedding(self.state.sums[row], int(self.state.counts[row]))

    def parameters(self) -> dict[str, Any]:
        """Name and precision of the embedding, and tau (null where counts are matched)."""
        name, tau = self.criterion.embedding, self.criterion.tau
        return {"embedding": name, "precision": embedding_precision(name), "tau": tau}

    def undefined(self, task: str) -> str | None:
        """A task without a training positive with an embedding has no prototype."""
        prototype = self.prototype(task)
        if np.isnan(prototype).any():
            return "no training image of the class has an embedding, so it has no prototype"
        return None if np.any(prototype) else "the mean embedding of its training images is zero"

    def with_tau(self, tau: Tau) -> FittedGist:
        """The same prototypes with other thresholds."""
        return FittedGist(replace(self.criterion, tau=tau), self.tasks, self.state)

    def support(self, data: Dataset, task: str) -> NDArray[np.float64]:
        """Cosine with the task's prototype, float64 (n_images,); NaN without an embedding."""
        return self.supports(data, [task])[:, 0]

    def supports(self, data: Dataset, tasks: Sequence[str]) -> NDArray[np.float64]:
        """Cosines for many tasks at once, float64 (n_images, n_tasks), independent of the batch.
        Raises UndefinedError: a task without a prototype.
        """
        for task in tasks:
            if reason := self.undefined(task):
                raise UndefinedError(f"task {task} has no gist support: {reason}")
        values = embedding_of(data, self.criterion.embedding)
        if values.shape[1] != self.state.sums.shape[1]:
            raise ParameterError(
                f"embedding {self.criterion.embedding} has {values.shape[1]} dimensions, "
                f"the fitted criterion {self.state.sums.shape[1]}"
            )
        prototypes = np.reshape([self.prototype(t) for t in tasks], (len(tasks), values.shape[1]))
        return likeness(values, prototypes)

    def explain(self, image: Dataset, task: str) -> str:
        """The cosine in words, with the first caption."""
        cosine = float(self.support(image, task)[0])
        texts = [] if image.captions is None else image.captions["caption"].to_list()
        caption = f', captioned "{texts[0].strip()}"' if texts else ""
        if np.isnan(cosine):
            return f"the image has no caption embedding, so it has no gist{caption}"
        return (
            f"the cosine of its gist with the gist of {task}'s training images is "
            f"{cosine:.3f}{caption}"
        )

    def to_json(self) -> dict[str, Any]:
        """Parameters, tasks, sums and counts."""
        content = {**self.parameters(), "tasks": list(self.tasks)}
        return content | {"sums": self.state.sums.tolist(), "counts": self.state.counts.tolist()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        with saved_as(cls.kind):
            saved, state = read_saved(content)
            return cls(Gist(saved.embedding, saved.tau), tuple(saved.tasks), state)
