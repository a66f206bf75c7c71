"""Files of answers as the tools of the field write them, recognized by their fields."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nooch.base.errors import Command, InputError, ParameterError, some_of, unreadable
from nooch.base.text_encoding import decoded
from nooch.base.words import counted_are
from nooch.data import ImageNames, name_column
from nooch.data.image_names import IMAGE_COLUMNS
from nooch.data.json_records import RECORD_LISTS
from nooch.data.table_files import file_records, unpacked
from nooch.evaluation.answer_rules import BOXES
from nooch.evaluation.metrics import SCALES

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
    "sample": pl.Int64,
    "probability": pl.Float64,
    "mass": pl.Float64,
    "weight": pl.Float64,
    "available_share": pl.Float64,
}

REPLIES = ("answer", "prediction", "response", "pred", "text", "output", "caption")
"""Fields that can have a model's words; ``answer``, ``text`` and ``caption`` also the truth, or
the question."""
QUESTIONS = ("question", "query", "prompt", "text")
TASKS = ("task", "object_name", "object", "target_object")
_OWN = ("question_id", "category", "sample", "probability", "mass", "weight", "available_share")


@dataclass(frozen=True)
class AnswerFormat:
    """Format of a tool's files.

    Attributes:
        fields: alternatives of fields that identify it; each record has all fields of one.
        columns: column of ``read_raw_answers`` -> fields that contain it; the first present one
            counts.
        letters: whether answers may be A for yes and B for no.
    """

    fields: tuple[str, ...]
    columns: Mapping[str, str]
    letters: bool = False

    def has(self, fields: set[str]) -> bool:
        """True if a record is in this format."""
        return any({*some.split()} <= fields for some in self.fields)


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
        ("img_id object_name response",),
        {"answer": "response", "image": "img_id", "task": "object_name"},
    ),
    "nooch": AnswerFormat(
        ("image_id task answer weight", "image_id text prompt caption"),
        {"answer": "answer caption", "image": "image_id", "task": "task", "question": "text"}
        | {name: name for name in _OWN},
    ),
    "llava": AnswerFormat(
        ("question_id text answer_id", "question_id text model_id"),
        {"answer": "text", "question_id": "question_id", "question": "prompt question"}
        | {"category": "category"},
    ),
}
"""Name -> format; in other files the one field of ``REPLIES`` counts."""
_INSPECT = {"id", "epoch", "target", "output"}
"""Fields of a sample in a log of Inspect AI."""
_RECORDS = (
    "records with the question (question_id; question; or image and task), and the model's words"
    f" (one of {', '.join(REPLIES)})"
)


def _signature(fields: set[str]) -> AnswerFormat | None:
    return next((kind for kind in FORMATS.values() if kind.has(fields)), None)


def _are_answers(fields: set[str]) -> bool:
    """True if records with these fields can be answers to questions."""
    if _signature(fields) is not None or fields >= _INSPECT:
        return True
    replies = fields & {*REPLIES}
    if fields & {"question_id", "question", "query"} or replies > {"text"}:
        return bool(replies)
    if {"id", "response"} <= fields:
        return True
    # of a table of predictions, the column is a class
    outputs = {*SCALES, "prob", "score", "confidence", "conf"}
    named = fields & {*TASKS} and fields & {*IMAGE_COLUMNS}
    return bool(named and (replies - {"text", "caption"} if not fields & outputs else
                           fields & {"answer", "response"}))  # fmt: skip


def holds_answers(path: str | Path) -> bool:
    """True if a file's first record has the fields of an answer; False if it cannot be read."""
    if not Path(path).is_file():
        return False
    try:
        with unpacked(Path(path)) as file:
            return _are_answers({str(name).strip().lower() for name in _first_fields(file)})
    except (OSError, ValueError, RecursionError, InputError, pl.exceptions.PolarsError):
        return False


def _first_fields(path: Path) -> set[str]:
    ending = path.suffix.lower()
    if ending == ".parquet":
        return set(pl.read_parquet_schema(path))
    if ending in {".xlsx", ".txt"}:
        records = file_records(path)
        return set(records[0]) if records else set()
    with path.open("rb") as file:
        head = file.read(_FIRST)
    # not within a character: tables end lines, and records end in what is ASCII
    end = len(head) if len(head) < _FIRST else max(map(head.rfind, (b"\n", b"}"))) + 1
    start = decoded(head[: end + end % 2 if b"\0" in head else end], path)
    if ending in {".csv", ".tsv"}:
        return {name.strip(' "') for name in re.split(r"[,;\t]", start.partition("\n")[0].strip())}
    inner = re.search(rf'"(?:{"|".join(RECORD_LISTS)})"\s*:\s*\[(?=\s*\{{)', start)
    start = start[inner.end() :] if inner and start.lstrip().startswith("{") else start
    try:
        record, _ = json.JSONDecoder().raw_decode(start.lstrip("[ \t\r\n"))
    except ValueError:
        # images can be in Inspect's first sample, behind these
        return _INSPECT & {*re.findall(r'"(\w+)"\s*:', start)}
    return set(record) if isinstance(record, dict) else set()


def reply_records(path: str | Path) -> list[dict[str, Any]]:
    """The records of a file of answers or captions; names of fields in lower case."""
    records = file_records(path)
    if not records:
        raise InputError("contains no record", where=path, allowed=_RECORDS)
    with unreadable(path, "logs as Inspect AI writes them", (AttributeError, KeyError, TypeError)):
        records = [_of_inspect(r) if r.keys() >= _INSPECT else r for r in records]
    return [{name.strip().lower(): value for name, value in r.items()} for r in records]


def _of_inspect(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample of a log of Inspect AI as ``nooch ask`` writes it; what failed has no answer."""
    asked, choices = sample["input"], sample["output"].get("choices")
    said = choices[0]["message"]["content"] if choices else None
    texts = [
        " ".join(part["text"] for part in content if part.get("type") == "text")
        if isinstance(content, list) else content
        for content in ([asked] if isinstance(asked, str) else [m["content"] for m in asked])
    ]  # fmt: skip
    parts = said if isinstance(said, list) else [{"type": "text", "text": said}]
    words = [part["text"] for part in parts if part.get("type") == "text" and part["text"]]
    facts = sample.get("metadata") or {}
    about = {name: facts.get(name) for name in ("image_id", "task", *_OWN)}
    about |= {"question_id": sample["id"], "sample": sample["epoch"], "question": "\n".join(texts)}
    about = {name: value for name, value in about.items() if value is not None}
    return about | {"answer": "\n".join(words) if words else None}


def reply_field(
    records: Sequence[Mapping[str, Any]], where: object, answers: str | None = None
) -> str | None:
    """The field that has the model's words; None without one.

    ``answers``, if it is given; else the field of a tool's format, else the only one of
    ``REPLIES``. A field ``text`` of questions is none.

    Raises:
        ParameterError: the records have no field ``answers``.
        InputError: several fields could have them.
    """
    fields = records[0]
    if answers is not None:
        name = answers.strip().lower()
        if name in fields:
            return name
        problem = f"{where} has no column {answers}"
        raise ParameterError(problem, where="`answers`", allowed=some_of(fields, 12))
    if (kind := _signature({*fields})) is not None:
        return next(name for name in kind.columns["answer"].split() if name in fields)
    filled = [f for f in REPLIES if f in fields and any(r.get(f) is not None for r in records)]
    found = [name for name in filled if name != "text" or not _are_questions(records)]
    if len(found) > 1:
        one = next(
            (r for r in records if len({str(r.get(n)).casefold() for n in found}) > 1), records[0]
        )
        shown = " and ".join(f"{name} ({one.get(name)!r:.40})" for name in found)
        raise InputError(
            f"columns {shown} could each have the model's answers (the others have the true"
            " answers)",
            where=where, remedy="name the model's: " + " or ".join(["{}"] * len(found)),
            give=[{"answers": name} for name in found],
        )  # fmt: skip
    return found[0] if found else None


def _are_questions(records: Sequence[Mapping[str, Any]]) -> bool:
    texts = [text for record in records if isinstance(text := record.get("text"), str)]
    return bool(texts) and all("?" in text for text in texts)


def image_field(
    records: Sequence[Mapping[str, Any]], path: str | Path, images: ImageNames | None
) -> tuple[str | None, str]:
    """The field that names images, and a note; see ``ImageNames.agreed``. None without one."""
    names = [name for name in IMAGE_COLUMNS if name in records[0]]
    columns = {name: name_column([r.get(name) for r in records], path) for name in names}
    best, note = ("", "")
    if len(columns) > 1 and images is not None:
        best, note = images.agreed(columns, path)
    others = [name for name in names if name != "id"]
    return best or next(iter([*others, *names]), None), note


class RawAnswers(NamedTuple):
    """Answers of a file.

    Attributes:
        column: field that has the model's words.
        frame: one row for each answer, in order, null where the file has no value: ``answer`` (the
            model's words), ``question_id`` (in its file of questions), ``question`` (its text),
            ``image`` (name; Int64 where all are ids) and ``task``, where the answer itself names
            them, ``category`` (part of the file of questions), ``position`` (Int64, from 0, in that
            file), ``probability`` (Float64, of yes), ``mass`` (Float64, of yes and no at the
            answer's token), ``weight`` (Float64, images that the question stands for),
            ``available_share`` (Float64, see ``Questions``). All others are String.
        letters: whether answers may be A for yes and B for no.
        note: on fields that name other images; or empty.
    """

    column: str
    frame: pl.DataFrame
    letters: bool = False
    note: str = ""


def read_raw_answers(
    path: str | Path, answers: str | None = None, images: ImageNames | None = None
) -> RawAnswers:
    """The answers of a file. ``answers``: the field of the model's words; ``images``: the known
    ones, which decide between fields that name images.
    """
    records = reply_records(path)
    fields = {*records[0]}
    reply = reply_field(records, path, answers)
    image, note = image_field(records, path, images)
    if reply is None or (reply == "text" and image not in {None, "id"} and not fields & _ASKED):
        if fields & {*REPLIES}:
            raise InputError(
                "contains questions or captions, but no answers",
                where=path,
                allowed="answers of a model",
                remedy="for questions, also give the answers, and {}; for captions, {}",
                give=({"questions": path}, Command("captions", captions=path)),
            )
        problem = "contains no known field of answers; its first record has"
        raise InputError(f"{problem} {', '.join(sorted(fields))}", where=path, allowed=_RECORDS)
    for number, record in enumerate(records, 1):
        if reply not in record:
            problem = f"record {number} has no field {reply}"
            raise InputError(problem, where=path, allowed="the same fields in every record")
    signature = _signature(fields)
    kind = signature or _general(fields, reply, image)
    columns = {column: _values(records, names) for column, names in kind.columns.items()}
    columns["answer"] = [_words(record[reply]) for record in records]
    if kind is FORMATS["lmms-eval"]:
        columns["question_id"] = [_of_metric(record) for record in records]
        # what was asked, in one of its versions with the task's own document
        asked = [
            record["doc"] if isinstance(record.get("doc"), dict) else record for record in records
        ]
        texts = (_values([one], "question input")[0] for one in asked)
        columns["question"] = [text if isinstance(text, str) else None for text in texts]
        columns["category"] = _values(asked, "category")
    if "image" in columns and image not in {None, "id"}:
        columns["image"] = [record.get(image) for record in records]
    for number, text in enumerate(columns["answer"], 1):
        if text is not None and not isinstance(text, str):
            problem = f"the {reply} of record {number} is {type(text).__name__}"
            raise InputError(problem, where=path, allowed="text, true or false, 1 or 0, or boxes")
    frame = _frame(columns, len(records), path)
    return RawAnswers(reply, frame, kind.letters, note if "image" in columns else "")


_ASKED = {"question", "query", *TASKS, "answer_id", "model_id"}


def _general(fields: set[str], reply: str, image: str | None) -> AnswerFormat:
    """Columns of records that no tool's format fits."""
    columns = {name: name for name in (*_OWN, "position")} | {"task": " ".join(TASKS)}
    columns["question"] = " ".join(name for name in QUESTIONS if name != reply)
    if image not in {None, "id"}:
        columns["image"] = str(image)
    elif "question_id" not in fields and not fields & {"question", "query"}:
        columns["question_id"] = "id"
    return AnswerFormat((), columns)


def _values(records: Sequence[Mapping[str, Any]], fields: str) -> list[Any]:
    names = fields.split()
    return [next((r[name] for name in names if r.get(name) is not None), None) for r in records]


def _words(value: Any) -> Any:
    """The only element of nested lists, as lmms-eval writes single responses; yes for true and 1;
    boxes (lists of numbers) as their text.
    """
    while isinstance(value, list):
        if BOXES.fullmatch(str(value)):
            return str(value)
        if len(value) != 1:
            break
        value = value[0]
    is_answer = isinstance(value, bool | int | float) and value in (0, 1)
    return ("no", "yes")[int(value)] if is_answer else value


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
        values = columns.get(name, [None] * n)
        errors = (TypeError, OverflowError)
        with unreadable(path, "numbers", errors, problem=f"{name} is not a number"):
            # ids and names may be numbers
            series.append(pl.Series(name, values, kind, strict=kind != pl.String))
    frame = pl.DataFrame(series)
    for name, most in (("probability", 1.0), ("mass", math.inf)):
        wrong = frame.filter(~pl.col(name).is_between(0, most))
        if wrong.height:
            problem = f"{counted_are(wrong.height, 'value')} not a {name}, such as {wrong[name][0]}"
            raise InputError(problem, where=path, allowed="0 to 1")
    return frame
