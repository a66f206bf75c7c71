"""Files of answers as the tools of the field write them, recognized by their fields."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import InputError, reason_of, some_of
from nooch.base.text_encoding import decoded
from nooch.base.words import counted_are
from nooch.data import name_column
from nooch.data.json_records import file_records

__all__ = ["FORMATS", "AnswerFormat", "holds_answers", "read_raw_answers", "recognized_format"]

_FIRST = 1 << 20
"""Bytes within which a file's first record ends."""

_COLUMNS: Mapping[str, type[pl.DataType]] = {
    "answer": pl.String,
    "question_id": pl.String,
    "question": pl.String,
    "image": pl.String,
    "task": pl.String,
    "category": pl.String,
    "position": pl.Int64,
    "probability": pl.Float64,
    "mass": pl.Float64,
    "weight": pl.Float64,
}


@dataclass(frozen=True)
class AnswerFormat:
    """What a tool writes.

    Attributes:
        fields: alternatives of fields that identify it; each record has those of one.
        columns: column of ``read_raw_answers`` -> fields that hold it, the first that is there.
        letters: whether answers may be A for yes and B for no.
    """

    fields: tuple[str, ...]
    columns: Mapping[str, str]
    letters: bool = False

    def lacking(self, fields: set[str]) -> set[str]:
        """The fields that a record lacks; none where it is in this format."""
        return min((set(some.split()) - fields for some in self.fields), key=len)


_OWN = ("answer", "question_id", "task", "probability", "mass", "weight")

FORMATS: Mapping[str, AnswerFormat] = {
    "lmms-eval": AnswerFormat(
        ("doc_id filtered_resps", "doc_id resps"),
        {"answer": "filtered_resps resps", "position": "doc_id"},
    ),
    "vlmevalkit": AnswerFormat(
        ("index question prediction",),
        {"answer": "prediction", "question_id": "index", "question": "question"},
        letters=True,
    ),
    "dash-b": AnswerFormat(
        ("img_id object_name response", "img_id object_name answer"),
        {"answer": "response answer", "image": "img_id", "task": "object_name"},
    ),
    "nooch": AnswerFormat(
        ("image_id task answer",),
        {"image": "image_id", "question": "text"} | {name: name for name in _OWN},
    ),
    "pope": AnswerFormat(
        ("question answer", "question_id answer"),
        {name: name for name in ("answer", "question_id", "question", "probability")},
    ),
    "llava": AnswerFormat(
        ("question_id text",),
        {"answer": "text", "question_id": "question_id", "question": "prompt"}
        | {"category": "category"},
    ),
    "amber": AnswerFormat(("id response",), {"answer": "response", "question_id": "id"}),
}
"""Name -> format; the first whose fields a file has is its format."""


def recognized_format(fields: set[str]) -> str | None:
    """Name of the format whose fields are all there, or None."""
    return next((name for name, kind in FORMATS.items() if not kind.lacking(fields)), None)


def holds_answers(path: str | Path) -> bool:
    """Whether a file's first record has the fields of an answer; False where it cannot be read."""
    path = Path(path)
    ending = path.suffix.lower()
    if not path.is_file():
        return False
    try:
        if ending == ".parquet":
            fields = set(pl.read_parquet_schema(path))
        elif ending == ".xlsx":
            return True
        else:
            with path.open("rb") as file:
                head = file.read(_FIRST)
            # not within a character: tables end lines, and records end in what is ASCII
            end = len(head) if len(head) < _FIRST else max(map(head.rfind, (b"\n", b"}"))) + 1
            start = decoded(head[: end + end % 2 if b"\0" in head else end], path)
            if ending in {".csv", ".tsv"}:
                fields = set(re.split(r"[,;\t]", start.partition("\n")[0].strip()))
            else:
                record, _ = json.JSONDecoder().raw_decode(start.lstrip("[ \t\r\n"))
                fields = set(record) if isinstance(record, dict) else set()
    except (OSError, ValueError, RecursionError, InputError, pl.exceptions.PolarsError):
        return False
    return recognized_format(fields) is not None


def read_raw_answers(path: str | Path) -> tuple[str, pl.DataFrame]:
    """Name of the format of a file, and its answers in order.

    Args:
        path: JSON in any layout, Parquet, CSV, TSV or XLSX.

    Returns:
        The name, and one row for each answer, null where the file does not say: ``answer`` (the
        model's words), ``question_id`` (in its file of questions), ``question`` (its text),
        ``image`` (name; Int64 where all are ids) and ``task``, where the answer itself names them,
        ``category`` (part of the file of questions), ``position`` (Int64, from 0, in that file),
        ``probability`` (Float64, of yes), ``mass`` (Float64, of yes and no at the answer's token),
        ``weight`` (Float64, images that the question stands for). All others are String.

    Raises:
        InputError: the file cannot be read, is in none of ``FORMATS``, or a record lacks a field or
            has another type.
    """
    records = file_records(path)
    name = recognized_format(set(records[0])) if records else None
    if name is None:
        known = (f"{kind}: {' or '.join(of.fields)}" for kind, of in FORMATS.items())
        fields = ", ".join(sorted(records[0])) if records else "no record"
        raise InputError(
            f"holds no answers that are recognized: its first record has {fields}",
            where=path,
            allowed="; ".join(known),
        )
    if name == "llava" and {"image", "image_id"} & set(records[0]):
        raise InputError(
            "holds questions or captions, which have an image, and no answers",
            where=path,
            allowed="answers of a model",
            remedy="give questions as `questions`, and captions to nooch captions",
        )
    kind = FORMATS[name]
    for number, record in enumerate(records, 1):
        if lacking := kind.lacking(set(record)):
            raise InputError(
                f"record {number} has no field {some_of(sorted(lacking))}",
                where=path,
                allowed=f"the fields of {name} in every record",
            )
    columns = {column: _values(records, fields) for column, fields in kind.columns.items()}
    if name == "lmms-eval":
        columns["answer"] = [_only(value) for value in columns["answer"]]
        columns["question_id"] = [_of_metric(record) for record in records]
    for number, text in enumerate(columns["answer"], 1):
        if text is not None and not isinstance(text, str):
            problem = f"the answer of record {number} is {type(text).__name__}"
            raise InputError(problem, where=path, allowed="text")
    return name, _frame(columns, len(records), path)


def _values(records: Sequence[Mapping[str, Any]], fields: str) -> list[Any]:
    first, *others = fields.split()
    values = [record.get(first) for record in records]
    for name in others:
        pairs = zip(values, records, strict=True)
        values = [record.get(name) if value is None else value for value, record in pairs]
    return values


def _only(value: Any) -> Any:
    """The only element of nested lists, as lmms-eval writes single responses."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def _of_metric(record: Mapping[str, Any]) -> Any:
    """The question id that our functions for lmms-eval put into each metric."""
    metrics = [value for value in record.values() if isinstance(value, dict)]
    return next((m["question_id"] for m in metrics if "question_id" in m), None)


def _frame(columns: Mapping[str, list[Any]], n: int, path: str | Path) -> pl.DataFrame:
    series = []
    for name, kind in _COLUMNS.items():
        if name == "image" and name in columns:
            series.append(name_column(columns[name], path))
            continue
        try:
            # ids and names may be numbers
            values = columns.get(name, [None] * n)
            series.append(pl.Series(name, values, kind, strict=kind != pl.String))
        except (TypeError, OverflowError) as error:
            problem = f"{name} is no number: {reason_of(error)}"
            raise InputError(problem, where=path, allowed="numbers") from error
    frame = pl.DataFrame(series).with_columns(pl.col("weight").fill_null(1.0))
    for name, most in (("probability", 1.0), ("mass", math.inf)):
        wrong = frame.filter(~pl.col(name).is_between(0, most))
        if wrong.height:
            problem = f"{counted_are(wrong.height, 'value')} no {name}, such as {wrong[name][0]}"
            raise InputError(problem, where=path, allowed="0 to 1")
    return frame
