"""Tables of Hugging Face: a row for each object, names for the numbers of classes, and a table for
each split.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import polars as pl

from nooch.base.errors import InputError, NoochError, some_of
from nooch.base.limits import BROKEN_JSON
from nooch.base.yaml_files import yaml_value
from nooch.data.box_columns import OBJECT_CLASSES, object_rows
from nooch.data.image_names import IMAGE_ENDING
from nooch.data.splits import SPLIT_NAMES, split_of
from nooch.data.table_files import plain_types, read_table, table_files

SPLIT = "split"
"""Column of the splits that the names of tables give."""
_Rows = TypeVar("_Rows", pl.DataFrame, pl.LazyFrame)


def splits_of(tables: Sequence[Path]) -> dict[Path, str]:
    """Table -> its split, in its own name or its folder's; empty unless all have one, of two or
    more, and none is there in two formats.
    """
    found = {file: split_of(file.stem) or split_of(file.parent.name) for file in tables}
    splits = {file: split for file, split in found.items() if split}
    once = len({file.with_suffix("") for file in tables}) == len(tables) == len(splits)
    return splits if once and len({*splits.values()}) > 1 else {}


def of_split(
    rows: _Rows, schema: Mapping[str, pl.DataType], file: Path, splits: Mapping[Path, str]
) -> _Rows:
    """Rows of a table with its split. Where each has a folder of its own, names of image files,
    which are relative to it, get that in front.
    """
    if not splits:
        return rows
    rows = rows.with_columns(pl.lit(splits[file]).alias(SPLIT))
    root = os.path.commonpath([file.parent for file in splits])
    folder = file.parent.relative_to(root).as_posix()
    if folder == ".":
        return rows
    texts = pl.col([name for name, kind in schema.items() if kind == pl.String])
    is_whole = texts.str.contains("://", literal=True) | texts.str.starts_with(f"{folder}/")
    is_kept = is_whole | ~texts.str.contains(IMAGE_ENDING)
    return rows.with_columns(pl.when(is_kept).then(texts).otherwise(pl.lit(f"{folder}/") + texts))


_FILES = ("README.md", "dataset_info.json", "dataset_infos.json")


def read_split_tables(splits: Mapping[Path, str]) -> pl.DataFrame | None:
    """The tables of splits as one; None if they differ in columns, have their own splits, or two
    are the same.
    """
    tables = {file: read_flat_table(file) for file in splits}
    if any(a.equals(b) for a, b in combinations(tables.values(), 2)):
        return None
    schemas = [[*table.schema.items()] for table in tables.values()]
    if any(schema != schemas[0] for schema in schemas) or SPLIT in dict(schemas[0]):
        return None
    return pl.concat(of_split(rows, rows.schema, file, splits) for file, rows in tables.items())


def read_flat_table(path: Path) -> pl.DataFrame:
    """A table with a row for each object, see ``object_rows``, of ``plain_types``, and with the
    names of classes that ``class_labels`` gives in place of their numbers. Raises InputError for a
    number without a name.
    """
    table, named = plain_types(object_rows(read_table(path), path)), class_labels(path)
    for name in table.columns:
        # the class of an object was called otherwise
        of_objects = [named[n] for n in OBJECT_CLASSES if n in named and name == "class"]
        labels = named.get(name) or (of_objects[0] if len(of_objects) == 1 else None)
        if labels is None or not table[name].dtype.is_integer():
            continue
        numbers = table[name].drop_nulls()
        if len(wrong := numbers.filter(~numbers.is_between(0, len(labels) - 1))):
            problem = f"{name} has {some_of(wrong.unique().sort())}, not named by the features"
            raise InputError(problem, where=path, allowed=f"0 to {len(labels) - 1}")
        names = dict(enumerate(labels))
        table = table.with_columns(pl.col(name).replace_strict(names, return_dtype=pl.String))
    return table


def class_labels(path: Path) -> dict[str, list[str]]:
    """Column -> the names of its classes, in the order of their numbers, in the features that a
    Parquet file, or a README.md or dataset_info.json near it, describes.
    """
    file = table_files(path)[0]
    if file.suffix.lower() == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        about = b""
        # what cannot be read is refused, or read by polars, where its rows are
        with suppress(pa.ArrowException, OSError), pq.ParquetFile(file) as opened:
            about = (opened.schema_arrow.metadata or {}).get(b"huggingface", b"")
        if found := dict(_labels_in(_decoded(about))):
            return found
    above = file.parent.name.lower() in {"data", *SPLIT_NAMES}
    folders = [file.parent, file.parent.parent] if above else [file.parent]
    files = (folder / name for folder in folders for name in _FILES)
    for place in files:
        with suppress(OSError):
            if found := dict(_labels_in(_decoded(place.read_bytes()))):
                return found
    return {}


def _decoded(content: bytes) -> Any:
    """JSON, or the YAML on top of a text; None of other content."""
    with suppress(NoochError, *BROKEN_JSON):
        if content.startswith(b"---"):
            return yaml_value(content.split(b"\n---")[0].decode(errors="replace"), None)
        return msgspec.json.decode(content)
    return None


def _labels_in(node: Any, name: str = "") -> Iterator[tuple[str, list[str]]]:
    """The names of the classes of each feature that has such, as JSON (``{"label": {"names": [],
    "_type": "ClassLabel"}}``) or YAML (``{name: label, dtype: {class_label: {names: {}}}}``).
    """
    for item in node if isinstance(node, list) else ():
        yield from _labels_in(item, name)
    if not isinstance(node, dict):
        return
    name = node["name"] if isinstance(node.get("name"), str) else name
    for key, value in node.items():
        is_label = key == "class_label" or (key == "names" and node.get("_type") == "ClassLabel")
        labels = value.get("names") if is_label and isinstance(value, dict) else value
        if is_label and isinstance(labels, dict):
            labels = [
                labels[number] for number in sorted(labels, key=lambda key: (len(str(key)), key))
            ]
        if is_label and isinstance(labels, list):
            yield name, [str(label) for label in labels]
        else:
            yield from _labels_in(value, name if key in _WRAPPERS else str(key))


_WRAPPERS = ("feature", "sequence", "list", "struct", "dtype")
