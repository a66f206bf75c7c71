"""Records of a file: a table, or JSON as an array, one per line, or one after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.base.errors import InputError, MissingExtraError
from nooch.base.files import read_bytes
from nooch.base.limits import BROKEN_JSON
from nooch.base.text_encoding import utf8_bytes
from nooch.data.data_files import checked_read, read_table
from nooch.data.image_names import IMAGE_COLUMNS

__all__ = ["file_records", "json_records"]

# a ValueError: an integer of thousands of digits
_BROKEN = (*BROKEN_JSON, ValueError)
_TABLES = {".parquet", ".csv", ".tsv"}


def json_records(path: str | Path) -> list[dict[str, Any]]:
    """The objects of a file: a JSON array of them, JSON lines, or objects one after the other.

    Raises:
        InputError: the file cannot be read, is not JSON, or holds anything but objects; the
            message names the record.
    """
    content = utf8_bytes(checked_read(path, lambda: read_bytes(Path(path))), path)
    records: list[Any]
    try:
        whole = msgspec.json.decode(content)
        records = whole if isinstance(whole, list) else [whole]
    except _BROKEN:
        try:
            records = msgspec.json.Decoder().decode_lines(content)
        except _BROKEN:
            records = _one_by_one(content, path)
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise InputError(
                f"record {number} is {type(record).__name__}",
                where=path,
                allowed="JSON objects: in an array, one per line, or one after the other",
            )
    return records


def file_records(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a table (Parquet, CSV, TSV, XLSX) as records, or those of ``json_records``.

    Raises:
        InputError: see ``json_records`` and ``read_table``.
        MissingExtraError: XLSX cannot be read without openpyxl.
    """
    ending = Path(path).suffix.lower()
    if ending == ".xlsx":
        try:
            return checked_read(path, lambda: pl.read_excel(path, engine="openpyxl").to_dicts())
        except ModuleNotFoundError as error:
            raise MissingExtraError("openpyxl", "vlm", "reading XLSX") from error
    if ending not in _TABLES:
        return json_records(path)
    # dates that Python does not have are found where rows are made
    return checked_read(path, read_table(path, names=IMAGE_COLUMNS).to_dicts)


def _one_by_one(content: bytes, path: str | Path) -> list[Any]:
    records: list[Any] = []
    decoder, at = json.JSONDecoder(), 0
    text = content.decode()
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            record, at = decoder.raw_decode(text, at)
            # halves of characters are none
            json.dumps(record, ensure_ascii=False).encode()
        # also a number of thousands of digits
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, at) + 1
            raise InputError(
                f"record {len(records) + 1}, which starts in line {line}, is not JSON: {error}",
                where=path,
                allowed="JSON objects: in an array, one per line, or one after the other",
            ) from error
        records.append(record)
    return records
