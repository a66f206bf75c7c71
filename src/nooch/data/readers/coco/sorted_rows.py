"""Rows on disk, sorted by image id, read by range of ids; each may carry a text.

Rows are the bytes of a structured NumPy array, which is mapped to find a range; texts are in a
second file, in blocks. The format is not Parquet because importing Polars takes a worker longer
than decoding a small file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.disk import sync

__all__ = ["read_ids", "read_rows", "write_rows"]

_BLOCK = 1024
"""Texts that are decoded at once."""

_TEXTS = msgspec.msgpack.Decoder(list[str | None])


def write_rows(
    stem: Path,
    kind: np.dtype[Any],
    columns: Sequence[NDArray[Any]],
    texts: Sequence[str | None] | None = None,
) -> None:
    """Write rows of columns (n,), first ``id``, as ``stem`` with endings, and sync them; rows with
    the same id keep their order. Texts are one for each row, or None; without any there are none.
    """
    order = np.argsort(columns[0], kind="stable")
    rows = np.empty(len(order), kind)
    for name, values in zip(kind.names or (), columns, strict=True):
        rows[name] = values[order]
    stem.with_suffix(".rows").write_bytes(rows.data)
    sync(stem.with_suffix(".rows"))
    if texts is not None:
        ordered = [texts[row] for row in order.tolist()]
        blocks = [
            msgspec.msgpack.encode(ordered[k : k + _BLOCK]) for k in range(0, len(ordered), _BLOCK)
        ]
        ends = np.cumsum([0, *map(len, blocks)])
        stem.with_suffix(".texts").write_bytes(b"".join((ends.tobytes(), *blocks)))
        sync(stem.with_suffix(".texts"))


def read_ids(stem: Path, kind: np.dtype[Any]) -> NDArray[np.int64]:
    """The ids of all rows, ascending: int64 (n,)."""
    return np.array(np.memmap(stem.with_suffix(".rows"), kind, mode="r")["id"])


def read_rows(
    stem: Path, kind: np.dtype[Any], low: int | None, high: int | None
) -> tuple[NDArray[Any], list[str | None]]:
    """Rows with ``low <= id < high`` (None: no end), by id; and their texts, if any."""
    mapped = np.memmap(stem.with_suffix(".rows"), kind, mode="r")
    ids = mapped["id"]
    first = 0 if low is None else bisect_left(ids, low)
    rows = np.array(mapped[first : len(ids) if high is None else bisect_left(ids, high, first)])
    texts = stem.with_suffix(".texts")
    return rows, _texts(texts, len(ids), first, len(rows)) if len(rows) and texts.is_file() else []


def _texts(file: Path, n_rows: int, first: int, count: int) -> list[str | None]:
    block, last = first // _BLOCK, (first + count - 1) // _BLOCK + 1
    ends = np.memmap(file, np.int64, mode="r", shape=(-(-n_rows // _BLOCK) + 1,))
    begins = (ends[block : last + 1] + ends.nbytes).tolist()
    with file.open("rb") as content:
        content.seek(begins[0])
        sizes = (end - begin for begin, end in pairwise(begins))
        decoded = [*chain.from_iterable(_TEXTS.decode(content.read(size)) for size in sizes)]
    skipped = first - block * _BLOCK
    return decoded[skipped : skipped + count]
