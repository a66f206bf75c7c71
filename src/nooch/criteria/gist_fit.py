"""Statistics of the gist criterion from parts of a dataset: exact sums of embeddings, and JSON."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import check_one_of
from nooch.base.limits import usable_cpus
from nooch.criteria.exact_sums import ExactSums, group_sums, presence_of
from nooch.data import Dataset

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
