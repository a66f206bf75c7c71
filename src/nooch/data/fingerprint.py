"""The fingerprint of a dataset: BLAKE3 of its contents, each column over all parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray

from nooch.data.table_schema import ANNOTATED, COLUMN_OF_KIND, OBJECTS

Columns = Callable[[str, str], Iterable[pl.Series]]
"""(table, column) -> one series per part, in order; none if there is no such table."""


def fingerprint_of(
    images: Mapping[str, Any],
    captions: Sequence[str],
    classes: Sequence[str],
    kinds: Mapping[str, str],
    per_image: Iterable[NDArray[Any]],
    columns: Columns,
) -> str:
    """BLAKE3 of ids, sizes, splits, attributes, classes, areas, captions, what was annotated and
    objects, in hexadecimal.

    It does not depend on how files were compressed or how the dataset is divided, nor on
    embeddings, which are derived. What was annotated counts if it is not everything: a dataset
    in which all was annotated has the fingerprint of one without this information. One piece of one
    column, or of the objects, is in memory at a time.

    ``images``: column of the images -> its type; ``captions``: columns of the captions; none if
        there is no such table; ``columns``: gives the columns, with ``areas`` as (``class``,
        ``area``),
        ``exceptions`` (``image_id``, ``class``, ``known``) and ``objects`` too.
    """
    digest = blake3()
    partly = [
        name
        for name in ANNOTATED
        if name in images and not all(c.all() for c in columns("images", name))
    ]
    for name, kind in images.items():
        if name in ANNOTATED and name not in partly:
            continue
        digest.update(f"{name}\0{kind}\0".encode())
        _add_column(digest, lambda name=name: columns("images", name))  # type: ignore[misc]
    digest.update("\0".join(classes).encode())
    digest.update(np.zeros(1, np.int64).tobytes())
    before = 0
    for counts in per_image:
        ends = before + np.cumsum(counts, dtype=np.int64)
        digest.update(ends.tobytes())
        before = int(ends[-1]) if len(ends) else before
    _add_codes(digest, columns("areas", "class"))
    for part in columns("areas", "area"):
        digest.update(part.to_numpy().tobytes())
    for name in captions:
        _add_column(digest, lambda name=name: columns("captions", name))  # type: ignore[misc]
    if any(name in COLUMN_OF_KIND.values() for name in partly):
        digest.update(
            b"\0kinds\0" + "\0".join(f"{name}\0{kind}" for name, kind in kinds.items()).encode()
        )
    if any(len(part) for part in columns("exceptions", "known")):
        digest.update(b"\0exceptions\0")
        _add_column(digest, lambda: columns("exceptions", "image_id"))
        _add_codes(digest, columns("exceptions", "class"))
        for part in columns("exceptions", "known"):
            digest.update(part.to_numpy().tobytes())
    if any(True for _ in columns("objects", "class")):
        _add_objects(digest, columns)
    return digest.hexdigest()


def _add_objects(digest: Any, columns: Columns) -> None:
    """Add objects row by row, sorted by their values within an image: files may list them in any
    order.
    """
    digest.update(b"\0objects\0")
    _add_column(digest, lambda: columns("objects", "image_id"))
    for part in zip(*(columns("objects", name) for name in OBJECTS), strict=True):
        table = pl.DataFrame(part).with_columns(pl.col("class").to_physical().cast(pl.Int64))
        # -0 is 0
        number = pl.col(pl.Float64)
        table = table.with_columns(pl.when(number != 0).then(number).otherwise(0.0))
        rows = table.sort(table.columns).drop("image_id")
        digest.update(rows.to_numpy(structured=True).tobytes())


def _add_codes(digest: Any, parts: Iterable[pl.Series]) -> None:
    for part in parts:
        digest.update(part.to_physical().cast(pl.Int64).to_numpy().tobytes())


def _add_column(digest: Any, column: Callable[[], Iterable[pl.Series]]) -> None:
    """Add values, regardless of their layout in memory: numbers as bytes, all else as text."""
    kinds = [(part.dtype, part.null_count() > 0) for part in column()]
    kind, nulls = kinds[0][0], any(missing for _, missing in kinds)
    if kind.is_numeric() and not nulls:
        for part in column():
            digest.update(part.to_numpy().tobytes())
        return
    nested = kind.is_nested() or kind in (pl.Binary, pl.Object)
    digest.update(b"[" if nested else b"")
    separator = b""
    for part in column():
        if len(part):
            digest.update(separator)
            if nested:
                digest.update(repr(part.to_list())[1:-1].encode())
            else:
                joined = part.cast(pl.String).fill_null("\x01").str.join("\0")
                digest.update(joined.cast(pl.Binary).item())
            separator = b", " if nested else b"\0"
    digest.update(b"]" if nested else b"")
