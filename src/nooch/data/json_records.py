"""JSON records as tables: an array of objects, JSON lines, labels by file name."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import polars.selectors as cs

from nooch.base.errors import InputError, some_of, unreadable
from nooch.base.files import read_bytes
from nooch.base.limits import BROKEN_JSON
from nooch.base.text_encoding import decoded, utf8_bytes
from nooch.base.words import counted
from nooch.data.box_columns import object_rows
from nooch.data.image_names import IMAGE_COLUMNS, IMAGE_ENDING

BROKEN_RECORDS = (*BROKEN_JSON, ValueError)
"""Exceptions of decoding JSON; a ValueError: an integer of thousands of digits."""

JSON_TABLES = (
    "a list of objects, one for each image, label or box; JSON lines; or an object of image file"
    ' names, such as {"a.jpg": ["sky", "road"]}'
)
"""JSON that is a table, for errors."""


RECORD_LISTS = (
    "annotations", "results", "answers", "captions", "predictions", "questions", "logs", "samples"
)  # fmt: skip
"""Members of an object that its records can be in: of COCO, leaderboards, lmms-eval, Inspect AI."""

_REWRITE = 'write it as a list of objects, such as {"file": "a.jpg", "labels": ["sky"]}'


def json_records(path: str | Path) -> list[dict[str, Any]]:
    """The objects of a file: a JSON array of them, JSON lines, or objects one after the other; or
    an object with such an array.
    """
    with unreadable(path, errors=(OSError,)):
        content = utf8_bytes(read_bytes(Path(path)), path)
    records: list[Any]
    try:
        whole = msgspec.json.decode(content)
        records = whole if isinstance(whole, list) else [whole]
        lists = (
            [whole[key] for key in RECORD_LISTS if isinstance(whole.get(key), list)]
            if isinstance(whole, dict) else []
        )  # fmt: skip
        if len(lists) == 1:
            records = _with_names(lists[0], whole.get("images"))
    except BROKEN_RECORDS:
        try:
            records = msgspec.json.Decoder().decode_lines(content)
        except BROKEN_RECORDS:
            records = _one_by_one(content, path)
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            problem = f"record {number} is {type(record).__name__}"
            allowed = "JSON objects: in an array, one per line, or one after the other"
            raise InputError(problem, where=path, allowed=allowed)
    return records


def _with_names(records: list[Any], images: Any) -> list[Any]:
    """Records of COCO with the file names that its images have: ids can be of this file only."""
    listed = images if isinstance(images, list) else []
    names = {image.get("id"): image["file_name"] for image in listed
             if isinstance(image, dict) and isinstance(image.get("file_name"), str)}  # fmt: skip
    return [
        {"file_name": names[record["image_id"]], **record}
        if isinstance(record, dict) and record.get("image_id") in names else record
        for record in records
    ]  # fmt: skip


def _one_by_one(content: bytes, path: str | Path) -> list[Any]:
    records: list[Any] = []
    decoder, position = json.JSONDecoder(), 0
    text = content.decode()
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        try:
            record, position = decoder.raw_decode(text, position)
            # lone surrogates are not valid characters
            json.dumps(record, ensure_ascii=False).encode()
        # also a number of thousands of digits
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, position) + 1
            raise InputError(
                f"record {len(records) + 1}, which starts in line {line}, is not JSON: {error}",
                where=path,
                allowed="JSON objects: in an array, one per line, or one after the other",
            ) from error
        records.append(record)
    return records


def json_lines(path: Path) -> bytes:
    """The records of a JSON file, or its labels by file name, as JSON lines. Raises InputError for
    another structure.
    """
    text = decoded(read_bytes(path), path)
    try:
        whole = _plain(json.loads(text, object_pairs_hook=_Pairs, parse_constant=_missing), path)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        # several objects, which are records; or what is not JSON, which is refused there
        whole = json_records(path)
    records = _records_of(whole, path) if isinstance(whole, dict) else whole
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InputError(
            f"is a {kind_of(records)}", where=path, allowed=JSON_TABLES, remedy=_REWRITE
        )
    if not records:
        raise InputError("contains no record", where=path, allowed=JSON_TABLES, remedy=_REWRITE)
    return b"\n".join(map(msgspec.json.encode, records))


def is_json_array(path: Path) -> bool:
    """True for a file called JSON lines that is an array of records."""
    if path.suffix.lower() != ".jsonl":
        return False
    with path.open("rb") as file:
        return file.read(1 << 16).lstrip(BOM_UTF8 + b" \t\r\n").startswith(b"[")


def lines_of(path: Path) -> bytes:
    """The content of a file called JSON lines, an array in it as lines."""
    return json_lines(path) if is_json_array(path) else utf8_bytes(read_bytes(path), path)


def _missing(name: str) -> None:
    """NaN, which Python and pandas write for a missing number. Raises ValueError for Infinity."""
    if name != "NaN":
        raise ValueError(f"JSON has no {name}")


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, also those that are repeated."""


def _plain(value: Any, path: Path) -> Any:
    """Members as dicts. Raises InputError for an object that has a key twice."""
    if not isinstance(value, list):
        return value
    if not isinstance(value, _Pairs):
        return [_plain(member, path) for member in value]
    counts = Counter(name for name, _ in value)
    if len(counts) < len(value):
        twice = some_of(name for name, count in counts.items() if count > 1)
        problem, allowed = f"keys occur more than once: {twice}", "each key once in an object"
        raise InputError(problem, where=path, allowed=allowed, remedy="merge their values")
    return {name: _plain(member, path) for name, member in value}


def _records_of(whole: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """The records in an object: its members by file name, or itself."""
    if whole and all(re.search(IMAGE_ENDING, name) for name in whole):
        found = {name: _labels(value) for name, value in whole.items()}
        if all(labels is not None for labels in found.values()):
            return [{"file_name": name, **(labels or {})} for name, labels in found.items()]
    elif {name.strip().lower() for name in whole} & {*IMAGE_COLUMNS}:
        return [whole]
    kinds = {name[:60]: kind_of(value) for name, value in whole.items()}
    lists = [name for name, kind in kinds.items() if re.match(r"list of.* objects?$", kind)]
    seen = some_of([f"{name} ({kind})" for name, kind in kinds.items()], 6) or "no key"
    raise InputError(
        f"is an object whose structure is not known: {seen}",
        where=path,
        allowed=f"COCO (images, annotations, categories); or {JSON_TABLES}",
        remedy=f"write the list in field `{lists[0]}` to a file of its own" if lists else _REWRITE,
    )


def _labels(value: Any) -> dict[str, Any] | None:
    """The fields of a value that is labels of an image: text, a list of texts, an object."""
    if isinstance(value, dict):
        return value
    texts = value if isinstance(value, list) else [value]
    return {"labels": texts} if all(isinstance(text, str) for text in texts) else None


_NAMES: dict[type, str] = {
    str: "text", bool: "truth value", int: "number", float: "number", type(None): "null",
    dict: "object",
}  # fmt: skip


def kind_of(value: Any) -> str:
    """The kind of a JSON value, in words."""
    if not isinstance(value, list):
        return _NAMES[type(value)]
    kinds = {_NAMES.get(type(member), "list") for member in value}
    return f"list of {counted(len(value), kinds.pop() if len(kinds) == 1 else 'value')}"


def records_frame(lines: bytes, path: Path) -> pl.DataFrame:
    """JSON lines as a table; fields of an object within a record are columns, and objects with
    boxes rows. Raises InputError if two columns have one name.
    """
    # all rows decide on types: with fewer, lists that are empty at first stay so
    table = object_rows(pl.read_ndjson(lines, infer_schema_length=None), path)
    for name in table.select(cs.struct()).columns:
        fields = [field.name for field in table.schema[name].fields]  # type: ignore[attr-defined]
        if twice := [field for field in fields if field in table.drop(name).columns]:
            problem = f"{name} has fields that the record has itself: {some_of(twice)}"
            raise InputError(problem, where=path, allowed=JSON_TABLES, remedy="rename them")
        table = table.unnest(name)
    return table
