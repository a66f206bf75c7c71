"""Annotation coverage per image: a class that was not annotated is not taken for absent.

A column of the images for each kind (``annotated_things``, ``annotated_stuff``,
``annotated_captions``) marks where that kind was annotated; without a column, everywhere.
Exceptions are single (image, class) pairs that differ from these columns: unknown in an annotated
image (LVIS' lists that are not exhaustive), or known in another (LVIS' negative categories, Open
Images' verified labels).

Areas and exceptions, sparse (n_images, n_classes), are stored as tables with a row per pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.base.files import DATASET_MARKER
from nooch.data.table_schema import COLUMN_OF_KIND, KINDS, dataset_error

KNOWN, UNKNOWN = 1, -1
"""Values of exceptions."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Unannotated (image, class) pairs: the sum of two parts, never multiplied out.

    Attributes:
        images: CSR float64 (n_images, len(KINDS)), 1 where the kind was not annotated in the image.
        kinds: intp (n_classes,), the class's column of ``images``, or -1 without a kind.
        pairs: CSR float64 (n_images, n_classes): 1 where a pair is unknown although its kind was
            annotated, -1 if it is known although its kind was not; or None.
    """

    images: csr_array
    kinds: NDArray[np.intp]
    pairs: csr_array | None

    @cached_property
    def _dense(self) -> NDArray[np.float64]:
        return self.images.toarray()

    def at(self, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.bool_]:
        """True if pairs were not annotated, bool (n,)."""
        kinds = self.kinds[columns]
        missing = np.where(kinds >= 0, self._dense[rows, kinds], 0.0)
        if self.pairs is not None and len(rows):
            missing += np.asarray(self.pairs[rows, columns]).ravel()
        return missing > 0

    def annotated(self, areas: csr_array) -> csr_array:
        """The entries of ``areas`` whose pair was annotated, CSR of the same shape."""
        rows = np.repeat(np.arange(areas.shape[0]), np.diff(areas.indptr))
        keep = ~self.at(rows, areas.indices)
        ends = np.concatenate([[0], np.cumsum(np.bincount(rows[keep], minlength=areas.shape[0]))])
        return csr_array((areas.data[keep], areas.indices[keep], ends), shape=areas.shape)


def gaps_of(
    images: pl.DataFrame,
    classes: Sequence[str],
    kinds: Mapping[str, str],
    exceptions: csr_array | None,
) -> Gaps | None:
    """The gaps of a dataset; None where every class was annotated in every image."""
    masks = [unannotated(images, column) for column in COLUMN_OF_KIND.values()]
    column = np.array(
        [KINDS.index(kinds[name]) if name in kinds else -1 for name in classes], dtype=np.intp
    )
    dense = np.zeros((images.height, len(KINDS)), dtype=bool)
    for number, mask in enumerate(masks):
        if mask is not None and (column == number).any():
            dense[:, number] = mask
    pairs = None
    if exceptions is not None and exceptions.nnz:
        rows = np.repeat(np.arange(images.height), np.diff(exceptions.indptr))
        of_kind = column[exceptions.indices]
        before = (of_kind >= 0) & dense[rows, of_kind]
        change = (exceptions.data == UNKNOWN).astype(np.float64) - before
        # an exception that repeats the rule is dropped
        pairs = csr_array((change, exceptions.indices, exceptions.indptr), shape=exceptions.shape)
    if not dense.any() and (pairs is None or not (pairs.data > 0).any()):
        return None
    return Gaps(csr_array(dense.astype(np.float64)), column, pairs)


def unannotated(images: pl.DataFrame, column: str) -> NDArray[np.bool_] | None:
    """Mask of the images in which a column of ``ANNOTATED`` is false, bool (n_images,); None:
    nowhere, or no column.
    """
    if column not in images.columns or images[column].all():
        return None
    return ~images[column].to_numpy()


def check_kinds(kinds: Mapping[str, str], classes: Sequence[str]) -> dict[str, str]:
    """Kinds in the order of classes. Raises ParameterError for unknown kinds or classes."""
    for name, kind in kinds.items():
        check_one_of("class", name, classes, owner="the dataset")
        check_one_of("kind", kind, KINDS, owner=f"class {name}")
    return {name: kinds[name] for name in classes if name in kinds}


def no_exceptions(shape: tuple[int, int]) -> csr_array:
    """Exceptions without an entry: CSR int8 of this shape."""
    none = np.empty(0, dtype=np.int64)
    return csr_array((none.astype(np.int8), (none, none)), shape=shape)


def exceptions_of(
    unknown: Any, verified: Any, shape: tuple[int, int], order: NDArray[np.intp]
) -> csr_array | None:
    """Exceptions as CSR int8 (n_images, n_classes), or None where both arguments are None.

    ``unknown``: sparse or dense (n_images, n_classes), not zero where a pair is unknown, or None;
    ``shape``: of both.
    """
    if unknown is None and verified is None:
        return None
    total: csr_array = no_exceptions(shape)
    for name, matrix, value in (("unknown", unknown, UNKNOWN), ("verified", verified, KNOWN)):
        if matrix is None:
            continue
        pairs = csr_array(matrix)
        if pairs.shape != shape:
            raise ParameterError(
                f"{name} has shape {pairs.shape}", allowed=f"{shape}: images x classes"
            )
        marked = pairs.astype(bool).astype(np.int8)
        marked.sum_duplicates()
        marked.eliminate_zeros()
        marked.data[:] = value
        before = total.nnz + marked.nnz
        total = csr_array(total + marked)
        total.eliminate_zeros()
        if total.nnz != before:
            raise ParameterError(
                "unknown and verified name the same pairs",
                allowed="each (image, class) in one of them",
            )
    ordered = csr_array(total[order])
    ordered.sort_indices()
    return ordered


def areas_table(
    areas: csr_array, ids: pl.Series, classes: Sequence[str], name: str = "area"
) -> pl.DataFrame:
    """Areas, or confidences, as ``image_id, class, area``, a row for each stored entry."""
    return _entries(areas, ids, classes, name, areas.data)


def exceptions_table(exceptions: csr_array, ids: pl.Series, classes: Sequence[str]) -> pl.DataFrame:
    """Exceptions as a table ``image_id, class, known``, a row for each pair."""
    return _entries(exceptions, ids, classes, "known", exceptions.data == KNOWN)


def _entries(
    pairs: csr_array, ids: pl.Series, classes: Sequence[str], name: str, values: NDArray[Any]
) -> pl.DataFrame:
    """Stored entries of a matrix (n_images, n_classes) as rows."""
    per_row = np.diff(pairs.indptr)
    return pl.DataFrame(
        {
            "image_id": ids.gather(np.repeat(np.arange(len(ids)), per_row)),
            "class": pl.Series(classes, dtype=pl.Enum(list(classes))).gather(pairs.indices),
            name: values,
        }
    )


def pairs_matrix(
    table: pl.DataFrame, values: NDArray[Any], ids: pl.Series, classes: Sequence[str], where: object
) -> csr_array:
    """Values of pairs as CSR (n_images, n_classes), from a table with a row for each pair.

    ``table``: with the columns ``image_id`` and ``class``; ``classes``: names in the order of the
    columns.
    """
    classes_named = set(table["class"].unique().cast(pl.String))
    if classes_named - set(classes) or len(set(classes)) != len(classes):
        raise dataset_error(f"it and {DATASET_MARKER} name other classes", where)
    rows = rows_of(table["image_id"], ids, where)
    columns = table["class"].cast(pl.Enum(classes)).to_physical().to_numpy()
    if (np.diff(rows * max(1, len(classes)) + columns) <= 0).any():
        problem = "columns image_id and class are not in order"
        raise dataset_error(problem, where, "sorted by image, then class, each pair once")
    ends = np.cumsum(np.bincount(rows, minlength=len(ids)))
    return csr_array((values, columns, np.concatenate([[0], ends])), shape=(len(ids), len(classes)))


def rows_of(column: pl.Series, ids: pl.Series, where: object) -> NDArray[np.int64]:
    """Rows of images by their ids, int64 (n,). Raises FormatError if there is no such image."""
    if column.dtype != ids.dtype:
        allowed = f"{ids.dtype}, as of the images"
        raise dataset_error(f"column image_id is {column.dtype}", where, allowed)
    # one look-up per image, not per row: rows of an image follow each other
    rows = ids.alias("value").to_frame().with_row_index("row")
    runs = column.rle().struct.unnest().join(rows, on="value", how="left", maintain_order="left")
    stray = runs["value"].filter(runs["row"].is_null())
    if len(stray):
        problem = "column image_id names images that are not in the dataset here"
        raise dataset_error(
            f"{problem}: {some_of(stray.unique().sort())}", where, "ids of the images"
        )
    return np.repeat(runs["row"].cast(pl.Int64).to_numpy(), runs["len"].to_numpy())
