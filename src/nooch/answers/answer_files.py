"""Files of answers as the tools of the field write them, recognized by their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nooch.data.data_files import checked_read
from nooch.data.json_records import file_records
from nooch.errors import InputError, MissingExtraError

__all__ = [
    "FORMATS",
    "AnswerFormat",
    "RawAnswer",
    "holds_answers",
    "read_raw_answers",
    "recognized_format",
]

_FIRST = 1 << 20
"""Characters within which a file's first record ends."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class RawAnswer:
    """One answer as a file has it; None where the file does not say.

    Attributes:
        text: the model's words.
        question_id: number or text that identifies the question in its file of questions.
        question: text of the question.
        image: name or id of the image, where the answer itself says it.
        task: name of the object, where the answer itself says it.
        category: part of the question file, where question ids repeat in each part.
        position: place of the question in its file, from 0, where ids are not recorded.
        probability: of yes, where the tool recorded it.
        weight: images that the question stands for.
    """

    text: str | None
    question_id: Any = None
    question: str | None = None
    image: Any = None
    task: str | None = None
    category: str | None = None
    position: int | None = None
    probability: float | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class AnswerFormat:
    """What a tool writes.

    Attributes:
        fields: alternatives of fields that identify it.
        rule: the rule that the tool itself applies, a name out of ``RULES``.
        read: record -> answer.
    """

    fields: tuple[frozenset[str], ...]
    rule: str
    read: Callable[[Record], RawAnswer]


def _first(value: Any) -> Any:
    """The only element of nested lists, as lmms-eval writes single responses."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def _lmms_eval(record: Record) -> RawAnswer:
    text = _first(record["filtered_resps"] if "filtered_resps" in record else record["resps"])
    question_id = None
    for value in record.values():
        if isinstance(value, dict) and "question_id" in value:
            question_id = value["question_id"]
    return RawAnswer(text, question_id, position=record["doc_id"])


def _dash(record: Record) -> RawAnswer:
    text = record.get("response", record.get("answer"))
    return RawAnswer(text, image=record["img_id"], task=record["object_name"])


def _vlmevalkit(record: Record) -> RawAnswer:
    return RawAnswer(record["prediction"], record["index"], record.get("question"))


def _asked(record: Record) -> RawAnswer:
    return RawAnswer(
        record["answer"],
        record.get("question_id"),
        record.get("text"),
        record["image_id"],
        record["task"],
        probability=record.get("probability"),
        weight=record.get("weight", 1.0),
    )


def _pope(record: Record) -> RawAnswer:
    probability = record.get("probability")
    return RawAnswer(
        record["answer"], record.get("question_id"), record.get("question"), probability=probability
    )


def _llava(record: Record) -> RawAnswer:
    category = record.get("category")
    return RawAnswer(record["text"], record["question_id"], record.get("prompt"), category=category)


def _amber(record: Record) -> RawAnswer:
    return RawAnswer(record["response"], record["id"])


def _fields(*alternatives: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(names.split()) for names in alternatives)


FORMATS: Mapping[str, AnswerFormat] = {
    "lmms-eval": AnswerFormat(
        _fields("doc_id filtered_resps", "doc_id resps"), "lmms-eval", _lmms_eval
    ),
    "vlmevalkit": AnswerFormat(_fields("index question prediction"), "vlmevalkit", _vlmevalkit),
    "dash-b": AnswerFormat(
        _fields("img_id object_name response", "img_id object_name answer"), "word", _dash
    ),
    "nooch": AnswerFormat(_fields("image_id task answer"), "word", _asked),
    "pope": AnswerFormat(_fields("question answer", "question_id answer"), "pope", _pope),
    "llava": AnswerFormat(_fields("question_id text"), "pope", _llava),
    "amber": AnswerFormat(_fields("id response"), "word", _amber),
}
"""Name -> format; the first whose fields a file has is its format."""


def recognized_format(fields: set[str]) -> str | None:
    """Name of the format whose fields are all there, or None."""
    for name, kind in FORMATS.items():
        if any(alternative <= fields for alternative in kind.fields):
            return name
    return None


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
            with path.open(encoding="utf-8-sig") as file:
                start = file.read(_FIRST)
            if ending in {".csv", ".tsv"}:
                fields = set(re.split(r"[,;\t]", start.partition("\n")[0].strip()))
            else:
                record, _ = json.JSONDecoder().raw_decode(start.lstrip("[ \t\r\n"))
                fields = set(record) if isinstance(record, dict) else set()
    except (OSError, ValueError, RecursionError, pl.exceptions.PolarsError):
        return False
    return recognized_format(fields) is not None


def read_raw_answers(path: str | Path) -> tuple[str, list[RawAnswer]]:
    """Name of the format of a file, and its answers in order.

    Args:
        path: JSON in any layout, Parquet, CSV, TSV or XLSX.

    Raises:
        InputError: the file cannot be read, is in none of ``FORMATS``, or a record lacks a field.
    """
    records = _records(Path(path))
    name = recognized_format(set(records[0])) if records else None
    if name is None:
        known = "; ".join(
            f"{kind}: {' or '.join(', '.join(sorted(f)) for f in FORMATS[kind].fields)}"
            for kind in FORMATS
        )
        fields = ", ".join(sorted(records[0])) if records else "no record"
        raise InputError(
            f"holds no answers that are recognized: its first record has {fields}",
            where=path,
            allowed=known,
        )
    read, answers = FORMATS[name].read, []
    for number, record in enumerate(records, 1):
        try:
            answer = read(record)
        except KeyError as error:
            raise InputError(
                f"record {number} has no field {error.args[0]}",
                where=path,
                allowed=f"the fields of {name} in every record",
            ) from error
        if answer.text is not None and not isinstance(answer.text, str):
            raise InputError(
                f"the answer of record {number} is {type(answer.text).__name__}",
                where=path,
                allowed="text",
            )
        answers.append(answer)
    return name, answers


def _records(path: Path) -> list[dict[str, Any]]:
    if path.suffix.lower() != ".xlsx":
        return file_records(path)
    try:
        return checked_read(path, lambda: pl.read_excel(path, engine="openpyxl")).to_dicts()
    except ModuleNotFoundError as error:
        raise MissingExtraError("openpyxl", "vlm", "reading XLSX") from error
