"""Files altered in every way that a careless or hostile person might, with hashes made to match."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from nooch.base.files import DATASET_MARKER, SUITE_MARKER
from nooch.models.caches.array_store import block_hash

__all__ = ["alterations", "seal"]

_MARKERS = (DATASET_MARKER, SUITE_MARKER, "features.json", "runs.json")

_JSON_VALUES = [None, True, -1, 2.5, 2**70, 10**400, "x", "\x1b[31m²", "../../x"]
_JSON_VALUES += [[], {}, [None], {"x": 1}, [[1]]]
_MARK = "@here@"
_RAW_VALUES = {
    "deep": b'{"a":' * 2000 + b"1" + b"}" * 2000,
    "bad UTF-8": b'"\xff\xfe"',
    "NaN": b"NaN",
    "lone surrogate": b'"\\ud800"',
}


Content = bytes | Callable[[], bytes]


def alterations(file: Path) -> Iterator[tuple[str, Content]]:
    """What is altered, and the file's content then, or a function that makes it."""
    content = file.read_bytes()
    yield "empty", b""
    yield "cut", content[: len(content) // 2]
    yield "binary", b"\xff\xfe\x00" + content
    yield from _OF_KIND[file.suffix](content)


def _parquet(content: bytes) -> Iterator[tuple[str, Content]]:
    footer = int.from_bytes(content[-8:-4], "little") + 8
    for part in range(1, 5):
        at = 4 + (len(content) - footer - 4) * part // 5
        yield f"page {part}", content[:at] + b"\xff" * 8 + content[at + 8 :]
        at = len(content) - footer + footer * part // 5
        yield f"footer {part}", content[:at] + b"\xff" * 4 + content[at + 4 :]
    for name, table in _tables(pl.read_parquet(content)):
        yield name, partial(_saved, _write_parquet, table)


def _csv(content: bytes) -> Iterator[tuple[str, bytes]]:
    yield "bad UTF-8", content.replace(b"\n", b"\n\xff", 2)
    for name, table in _tables(pl.read_csv(content)):
        with contextlib.suppress(pl.exceptions.PolarsError):
            yield name, table.write_csv().encode()


def _lines(content: bytes) -> Iterator[tuple[str, bytes]]:
    first, *rest = content.splitlines()
    for name, line in _json(json.loads(first)):
        yield name, b"\n".join([line, *rest])


_CELLS: dict[str, Any] = {
    "null": None, "NaN": math.nan, "inf": math.inf, "huge": 1e308, "least": -(2**63), "text": "²",
    "escape": "\x1b[2J", "bytes": b"\xff", "true": True, "list": [1], "struct": {"a": 1},
    "date": date(2000, 1, 1), "zero": 0, "half": 0.5, "path": "../x",
}  # fmt: skip


def _tables(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    yield "no rows", table.clear()
    yield "one row twice", pl.concat([table.head(1), table])
    yield "reversed", table.reverse()
    yield "one row less", table.slice(1)
    yield "no columns", pl.DataFrame()
    for name in table.columns:
        column = table[name]
        yield f"{name} dropped", table.drop(name)
        yield f"{name} renamed", table.rename({name: "other"})
        for kind, value in _CELLS.items():
            made = pl.Series(name, [value]).new_from_index(0, table.height)
            yield f"{name} {kind}", table.with_columns(made)
        for kind in (pl.String, pl.Float64, pl.Int8, pl.UInt64, pl.Categorical, pl.Boolean):
            with contextlib.suppress(pl.exceptions.PolarsError):
                made = column.cast(kind, strict=False)
                yield f"{name} as {kind.__name__}", table.with_columns(made)
        if table.height:
            rest = column.to_list()[1:]
            first = pl.Series(name, [None, *rest], column.dtype)
            yield f"{name} first null", table.with_columns(first)
            for other in (10**9, "nobody", float("nan"), 1e308, -1.0):
                try:
                    first = pl.Series(name, [other, *rest], column.dtype)
                except (TypeError, pl.exceptions.PolarsError, OverflowError):
                    continue
                yield f"{name} first {other}", table.with_columns(first)


def _json(content: Any) -> Iterator[tuple[str, bytes]]:
    if isinstance(content, dict):
        # a header without one is taken for that of an earlier version
        content.pop("checksum", None)
    yield "deep", b"[" * 100_000
    yield "deep closed", b"[" * 3000 + b"]" * 3000
    yield "list", b"[]"
    yield "text", b'"x"'
    yield "number", b"9" * 5000
    for path in _paths(content):
        where = "/".join(map(str, path))
        for value in _JSON_VALUES:
            yield f"{where} = {value!s:.12}", json.dumps(_with(content, path, value)).encode()
        marked, mark = json.dumps(_with(content, path, _MARK)).encode(), json.dumps(_MARK).encode()
        for name, raw in _RAW_VALUES.items():
            yield f"{where} {name}", marked.replace(mark, raw)
        yield f"{where} gone", json.dumps(_with(content, path)).encode()


def _with(content: Any, path: Sequence[Any], *value: Any) -> Any:
    """A copy with another value in a place, or without what is there."""
    if not path:
        return value[0]
    key, *below = path
    altered = copy.copy(content)
    if below or value:
        altered[key] = _with(content[key], below, *value)
    else:
        del altered[key]
    return altered


def _paths(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places in JSON; of a list the first, of a mapping of many the first five."""
    items: list[tuple[Any, Any]] = []
    if isinstance(content, dict):
        items = list(content.items())[: None if len(content) < 20 else 5]
    elif isinstance(content, list):
        items = list(enumerate(content))[:1]
    for key, value in items:
        yield (*above, key)
        if len(above) < 6:
            yield from _paths(value, (*above, key))


def _altered_arrays(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    yield "object", np.array([{"a": 1}], dtype=object)
    yield "no dimension", np.array(1.0)
    yield "no row", array[:0]
    yield "one row less", array[1:]
    yield "one dimension more", array[None]
    yield "text", array.astype(str)
    yield "complex", np.zeros(array.shape, complex)
    yield "integers", np.zeros(array.shape, int)
    yield "half", np.zeros(array.shape, np.float16)
    yield "big-endian", np.zeros(array.shape, ">f8")
    yield "dates", np.zeros(array.shape, "M8[s]")
    yield "record", np.zeros(array.shape, [("a", "f8")])
    yield "bool", np.zeros(array.shape, bool)
    if array.dtype.kind == "f":
        yield "NaN", np.full_like(array, np.nan)
        yield "infinite", np.full_like(array, np.inf)
        yield "huge", np.full_like(array, np.finfo(array.dtype).max)


def _array(content: bytes) -> Iterator[tuple[str, bytes]]:
    for name, altered in _altered_arrays(np.load(io.BytesIO(content))):
        yield name, _saved(np.save, altered)


def _archive(content: bytes) -> Iterator[tuple[str, bytes]]:
    with np.load(io.BytesIO(content)) as loaded:
        arrays = dict(loaded)
    for name, array in arrays.items():
        others = {other: a for other, a in arrays.items() if other != name}
        yield f"{name} dropped", _saved(np.savez, **others)
        yield f"{name} renamed", _saved(np.savez, **others, x=array)
        for what, altered in _altered_arrays(array):
            yield f"{name} {what}", _saved(np.savez, **others, **{name: altered})


def _write_parquet(buffer: io.BytesIO, table: pl.DataFrame) -> None:
    table.write_parquet(buffer)


def _saved(save: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    return buffer.getvalue()


_OF_KIND = {
    ".parquet": _parquet, ".csv": _csv, ".json": lambda content: _json(json.loads(content)),
    ".jsonl": _lines, ".yaml": lambda content: _json(yaml.safe_load(content)), ".npy": _array,
    ".npz": _archive,
}  # fmt: skip


def write_header(file: Any, header: dict[str, Any]) -> None:
    """A header as a person changes it: without ``checksum``, which an altered one does not fit."""
    file.write_text(json.dumps({name: of for name, of in header.items() if name != "checksum"}))


def seal(folder: Path, file: Path) -> None:
    """Make the hashes in a folder's header match an altered file."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    name = file.relative_to(folder).as_posix()
    marker = next((folder / m for m in _MARKERS if (folder / m).is_file()), file)
    header = {} if marker == file else json.loads(marker.read_bytes())
    if marker.name == DATASET_MARKER and header:
        header["files"][name] = {"sha256": digest, "bytes": file.stat().st_size}
    elif marker.name == SUITE_MARKER and header:
        header["files"][name] = digest
    elif name == "images.parquet":
        header["images"] = digest
    elif file.suffix == ".npy" and header:
        with contextlib.suppress(ValueError, TypeError):
            array, block = np.load(file), header["block"]
            starts = range(0, len(array), block)
            header["blocks"] = [block_hash(array[start : start + block]) for start in starts]
    if header:
        write_header(marker, header)
