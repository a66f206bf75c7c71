"""Classes, or values of attributes, that are present in images, and where that is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack

from nooch.base.errors import InputError, check_one_of, some_of
from nooch.criteria.exact_sums import presence_of
from nooch.data import KINDS, Dataset
from nooch.data.splits import unit_names

LABELS = "labels"
COLUMNS = "columns"
SOURCES = (LABELS, COLUMNS)
"""Kinds of context: the other classes, or attribute columns of the images."""


def image_hashes(ids: pl.Series) -> NDArray[np.uint64]:
    """A number for each image that depends only on its id, as if drawn, uint64 (n_images,)."""
    if ids.dtype != pl.Int64:
        digests = b"".join(blake3(str(image_id).encode()).digest(8) for image_id in ids)
        return np.frombuffer(digests, np.uint64).copy()
    # the finalizer of SplitMix64
    mixed = ids.to_numpy().astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def fold_numbers(ids: pl.Series, folds: int) -> NDArray[np.int64]:
    """Index of the fold of each image, by its id or its group's name, int64 (n_images,)."""
    return (image_hashes(ids) % np.uint64(folds)).astype(np.int64)


@dataclass(frozen=True)
class Presences:
    """Presences in images: classes, then values of attributes; parts are joined.

    Attributes:
        names: of all columns, the dataset's classes first.
        hashes: uint64 (n_images,), see ``image_hashes``; ``units``: of their ``unit_names``.
        present: columns that are present, as starts int64 (n_images + 1,) and columns int32.
        missing: int8 (n_images, len(KINDS)), 1 where a kind of class was not annotated.
        gaps: columns that differ from ``missing``, in the same form, with values int8: 1 where they
            are unknown all the same, -1 if they are known all the same.
        kinds: int8 (n_columns,), each column's of ``missing``, or -1.
    """

    names: list[str]
    hashes: NDArray[np.uint64]
    units: NDArray[np.uint64]
    present: tuple[NDArray[np.int64], NDArray[np.int32]]
    missing: NDArray[np.int8]
    gaps: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]
    kinds: NDArray[np.int8]

    @classmethod
    def from_dataset(
        cls,
        data: Dataset,
        source: str = LABELS,
        group: str | None = None,
        columns: Sequence[str] = (),
    ) -> Self:
        """Presences of a dataset, its images in groups; ``columns``: attributes, by default those
        that are its context. Raises InputError if it has none to read.
        """
        present, gaps = presence_of(data.areas), data.gaps
        names, kinds = list(data.classes), np.full(len(data.classes), -1)
        missing, change = np.zeros((len(data), len(KINDS))), csr_array(present.shape)
        if gaps is not None:
            missing, kinds = gaps.images.toarray(), gaps.kinds
            rows = np.repeat(np.arange(len(data)), np.diff(present.indptr))
            # not annotated, but stated as present: only its area is not complete
            stated = gaps.at(rows, present.indices).astype(np.float64)
            annotated = csr_array((stated, present.indices, present.indptr), shape=present.shape)
            change = csr_array((change if gaps.pairs is None else gaps.pairs) - annotated)
            change.eliminate_zeros()
        if source == COLUMNS:
            values, nulls, more = _one_hot(data, columns or data.context_columns)
            present, change = hstack([present, values]), hstack([change, nulls])
            if both := set(names) & set(more):
                problem = f"classes are named as values of attributes are: {some_of(sorted(both))}"
                raise InputError(problem, where="context", remedy="rename the attribute columns")
            names, kinds = names + more, np.concatenate([kinds, np.full(len(more), -1)])
        return cls._made(
            names,
            image_hashes(data.images["image_id"]),
            image_hashes(unit_names(data.images, group)),
            csr_array(present),
            missing.astype(np.int8),
            csr_array(change),
            kinds.astype(np.int8),
        )

    @classmethod
    def _made(
        cls,
        names: list[str],
        hashes: NDArray[np.uint64],
        units: NDArray[np.uint64],
        present: csr_array,
        missing: NDArray[np.int8],
        gaps: csr_array,
        kinds: NDArray[np.int8],
    ) -> Self:
        entries = present.indptr.astype(np.int64), present.indices.astype(np.int32)
        changes = gaps.indptr.astype(np.int64), gaps.indices.astype(np.int32)
        values = gaps.data.astype(np.int8)
        return cls(names, hashes, units, entries, missing, (*changes, values), kinds)

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def matrix(self) -> csr_array:
        """Presence, CSR float64 (n_images, n_columns) of ones."""
        starts, columns = self.present
        shape = (len(self), len(self.names))
        return csr_array((np.ones(len(columns)), columns, starts), shape=shape)

    @property
    def _changes(self) -> csr_array:
        starts, columns, values = self.gaps
        shape = (len(self), len(self.names))
        return csr_array((values.astype(np.float64), columns, starts), shape=shape)

    def with_names(self, names: Sequence[str]) -> Presences:
        """With these columns, in their order; others are left out."""
        if list(names) == self.names:
            return self
        place = {name: column for column, name in enumerate(names)}
        old = [column for column, name in enumerate(self.names) if name in place]
        new = [place[self.names[column]] for column in old]
        ones = (np.ones(len(old)), (old, new))
        move = csr_array(ones, shape=(len(self.names), len(names)))
        kinds = np.full(len(names), -1, np.int8)
        kinds[new] = self.kinds[old]
        present, gaps = csr_array(self.matrix @ move), csr_array(self._changes @ move)
        present.sort_indices()
        gaps.sort_indices()
        own = self.hashes, self.units
        return self._made(list(names), *own, present, self.missing, gaps, kinds)

    def rows(self, rows: NDArray[np.intp]) -> Presences:
        """Presences of some images, in this order."""
        present, gaps = csr_array(self.matrix[rows]), csr_array(self._changes[rows])
        own = self.hashes[rows], self.units[rows]
        return self._made(self.names, *own, present, self.missing[rows], gaps, self.kinds)

    @classmethod
    def joined(cls, parts: Iterable[Presences], most: int) -> Presences:
        """All parts; of more than ``most`` images, those with the smallest hashes."""
        parts = list(parts)
        names = parts[0].names
        if any(part.names != names for part in parts):
            # classes are the same in all parts; values of attributes may be only in some
            names = list(dict.fromkeys(name for part in parts for name in part.names))
        parts = [part.with_names(names) for part in parts]
        hashes = np.concatenate([part.hashes for part in parts])
        kinds = np.max([part.kinds for part in parts], axis=0)
        joined = cls._made(
            names,
            hashes,
            np.concatenate([part.units for part in parts]),
            csr_array(vstack([part.matrix for part in parts])),
            np.concatenate([part.missing for part in parts]),
            csr_array(vstack([part._changes for part in parts])),  # noqa: SLF001 - of this class
            kinds,
        )
        if len(joined) <= most:
            return joined
        return joined.rows(np.sort(np.argsort(hashes, kind="stable")[:most]))

    def is_unknown(self, column: int) -> NDArray[np.bool_]:
        """Images in which it is unknown whether a column is present, bool (n_images,)."""
        return self.unknowns(np.array([column])) > 0

    def unknowns(self, columns: NDArray[np.intp]) -> NDArray[np.int64]:
        """Number of these columns that are unknown in each image, int64 (n_images,)."""
        matrix = np.zeros(len(self.names))
        matrix[columns] = 1
        of_kind = [(matrix * (self.kinds == kind)).sum() for kind in range(len(KINDS))]
        counts: NDArray[np.float64] = self.missing @ of_kind + self._changes @ matrix
        return np.rint(counts).astype(np.int64)

    def unknown_images(self) -> NDArray[np.int64]:
        """In how many images each column is unknown, int64 (n_columns,)."""
        of_kind = np.append(self.missing.sum(axis=0, dtype=np.int64), 0)
        own = np.rint(np.asarray(self._changes.sum(axis=0)).ravel()).astype(np.int64)
        total: NDArray[np.int64] = of_kind[self.kinds] + own
        return total


def columns_of(names: Iterable[str], data: Dataset) -> list[str]:
    """The attribute columns whose values, such as ``hour=7``, are named. Raises ParameterError for
    one that the dataset lacks.
    """
    columns, listed = dict[str, None](), data.attributes
    for name in names:
        known = [column for column in listed if name.startswith(f"{column}=")]
        if not known:
            check_one_of("column", name.partition("=")[0], listed, owner="the dataset")
        columns |= dict.fromkeys(known)
    return [*columns]


def _one_hot(data: Dataset, columns: Sequence[str]) -> tuple[csr_array, csr_array, list[str]]:
    """Values of attribute columns: presence, unknown, and names such as ``hour=7``."""
    if not columns:
        why = f" but {some_of(data.attributes)}: ids or groups" if data.attributes else ""
        raise InputError(
            f"the images have no attribute column{why}, so there is no context in them",
            where="context",
            remedy="add columns with `add-attributes`, or take the context from labels",
        )
    present: list[csr_array] = []
    unknown: list[csr_array] = []
    names: list[str] = []
    for column in columns:
        values = data.images[column].cast(pl.String)
        levels = values.unique().drop_nulls().sort()
        codes = values.cast(pl.Enum(levels)).to_physical()
        rows = np.flatnonzero(values.is_not_null().to_numpy())
        positions = codes.drop_nulls().to_numpy()
        shape = (len(data), len(levels) + 1)
        present.append(csr_array((np.ones(len(rows)), (rows, positions)), shape=shape))
        nulls = np.flatnonzero(values.is_null().to_numpy())
        positions = np.full(len(nulls), len(levels))
        unknown.append(csr_array((np.ones(len(nulls)), (nulls, positions)), shape=shape))
        # the last column is never present: it is unknown if there is no value
        names += [f"{column}={level}" for level in levels] + [f"{column}="]
    return csr_array(hstack(present)), csr_array(hstack(unknown)), names
