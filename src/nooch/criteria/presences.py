"""Classes, or conditions on columns, that are present in images, and where that is unknown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack

from nooch.base.errors import InputError, check_one_of, some_of
from nooch.criteria.conditions import BEYOND, MOST_VALUES, quartiles
from nooch.criteria.exact_sums import presence_of
from nooch.data import KINDS, Dataset
from nooch.data.splits import unit_names


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
    """Presences in images: classes, then conditions on columns; parts are joined.

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
        group: str | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """Presences of a dataset, its images in groups; ``columns``: attributes and what is asked
        of each, see ``asked_of``. Raises InputError if names do not tell conditions apart.
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
        for column, asked in (columns or {}).items():
            values, nulls = _answers(data.images[column], asked)
            present, change = hstack([present, values]), hstack([change, nulls])
            names += [column + test for test in asked]
            kinds = np.concatenate([kinds, np.full(len(asked), -1)])
        if both := {name for name in names if names.count(name) > 1} if columns else ():
            problem = f"conditions on columns have the names of others: {some_of(sorted(both))}"
            raise InputError(problem, where="context", remedy="rename the attribute columns")
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
            remedy = "complete the criterion with the whole first: criterion.completed(data)"
            raise InputError("parts have other conditions", where="context", remedy=remedy)
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


def asked_of(values: pl.Series) -> list[str]:
    """Conditions on a column without its name: each value, such as ``=7``, or quartiles of numbers
    of many values, such as ``<=3.5``; last ``=``, which is unknown if there is no value.
    """
    if values.dtype.is_numeric() and values.drop_nulls().n_unique() > MOST_VALUES:
        return [f"{sign}{cut!r}" for sign, cut in quartiles(values)] + ["="]
    texts = _known(values).cast(pl.String).drop_nulls().unique().sort()
    return [*dict.fromkeys([*(f"={text}" for text in texts), "="])]


def columns_of(names: Iterable[str], listed: Collection[str]) -> dict[str, list[str]]:
    """The columns, and what is asked of each, that names such as ``hour=7`` are of. Raises
    ParameterError for a column that is not listed, InputError for a name that fits two.
    """
    columns = dict[str, list[str]]()
    for name in names:
        known = [c for c in listed if name.startswith((f"{c}=", *(c + sign for sign in BEYOND)))]
        if not known:
            check_one_of("column", re.split("[<>]?=", name)[0], listed, owner="the dataset")
        if len(known) > 1:
            problem = f"{name} is a condition on each of the columns {some_of(known)}"
            raise InputError(problem, where="context", remedy="rename the attribute columns")
        columns.setdefault(known[0], []).append(name.removeprefix(known[0]))
    return columns


def _known(values: pl.Series) -> pl.Series:
    return values.fill_nan(None) if values.dtype.is_float() else values


def _answers(values: pl.Series, asked: Sequence[str]) -> tuple[csr_array, csr_array]:
    """Answers to what is asked of a column: present, and, in the place of ``=``, unknown."""
    values, place = _known(values), {test: number for number, test in enumerate(asked)}
    codes = ("=" + values.cast(pl.String)).replace_strict(
        place, default=None, return_dtype=pl.Int64
    )
    rows, columns = [np.flatnonzero(codes.is_not_null())], [codes.drop_nulls().to_numpy()]
    for test in place.keys() if values.dtype.is_numeric() else ():
        if beyond := BEYOND.get(test[:2]):
            holds = beyond(values.cast(pl.Float64), float(test[2:])).fill_null(value=False)
            rows.append(np.flatnonzero(holds))
            columns.append(np.full(len(rows[-1]), place[test]))
    nulls = np.flatnonzero(values.is_null())
    pairs = np.concatenate(rows), np.concatenate(columns)
    nulls = nulls if "=" in place else nulls[:0]
    missing = nulls, np.full(len(nulls), place.get("=", 0))
    shape = (len(values), len(asked))
    first, last = (csr_array((np.ones(len(at[0])), at), shape=shape) for at in (pairs, missing))
    return first, last
