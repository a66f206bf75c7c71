"""Files of answers as the tools of the field write them, recognized by their fields."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import InputError, check_one_of, some_of, unreadable
from nooch.base.text_encoding import decoded
from nooch.base.words import cell_text, counted_are, printable
from nooch.data import Dataset, name_column
from nooch.data.table_files import file_records
from nooch.evaluation.answer_rules import RULES, TOLERANT, read_verdicts
from nooch.evaluation.answer_words import AskedQuestion
from nooch.suites import Suite
from nooch.suites.questions import (
    Draw,
    asked_of,
    asked_questions,
    draw_questions,
    match_images,
    match_tasks,
)

_PAIR = ("image_id", "task")
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
    "images_there": pl.Float64,
}


@dataclass(frozen=True)
class AnswerFormat:
    """Format of a tool's files.

    Attributes:
        fields: alternatives of fields that identify it; each record has all fields of one
            alternative.
        columns: column of ``read_raw_answers`` -> fields that contain it; the first present one
            counts.
        letters: whether answers may be A for yes and B for no.
    """

    fields: tuple[str, ...]
    columns: Mapping[str, str]
    letters: bool = False

    def lacking(self, fields: set[str]) -> set[str]:
        """The fields that a record lacks; none if it is in this format."""
        return min((set(some.split()) - fields for some in self.fields), key=len)


_OWN = ("answer", "question_id", "task", "probability", "mass", "weight", "images_there")

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
    """True if a file's first record has the fields of an answer; False if it cannot be read."""
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

    Returns the name, and one row for each answer, null where the file has no value: ``answer`` (the
    model's words), ``question_id`` (in its file of questions), ``question`` (its text), ``image``
    (name; Int64 where all are ids) and ``task``, where the answer itself names them, ``category``
    (part of the file of questions), ``position`` (Int64, from 0, in that file), ``probability``
    (Float64, of yes), ``mass`` (Float64, of yes and no at the answer's token), ``weight`` (Float64,
    images that the question stands for), ``images_there`` (Float64, see ``Questions``). All others
    are String.
    """
    records = file_records(path)
    name = recognized_format(set(records[0])) if records else None
    if name is None:
        formats = (f"{kind}: {' or '.join(fmt.fields)}" for kind, fmt in FORMATS.items())
        fields = ", ".join(sorted(records[0])) if records else "no record"
        problem = f"contains no answers that are recognized: its first record has {fields}"
        raise InputError(problem, where=path, allowed="; ".join(formats))
    if name == "llava" and {"image", "image_id"} & set(records[0]):
        raise InputError(
            "contains questions or captions, which have an image, and no answers",
            where=path,
            allowed="answers of a model",
            remedy="give questions as `questions`, and captions to nooch captions",
        )
    kind = FORMATS[name]
    for number, record in enumerate(records, 1):
        if lacking := kind.lacking(set(record)):
            problem = f"record {number} has no field {some_of(sorted(lacking))}"
            raise InputError(problem, where=path, allowed=f"the fields of {name} in every record")
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
    names = fields.split()
    return [next((r[name] for name in names if r.get(name) is not None), None) for r in records]


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
        values = columns.get(name, [None] * n)
        errors = (TypeError, OverflowError)
        with unreadable(path, "numbers", errors, problem=f"{name} is not a number"):
            # ids and names may be numbers
            series.append(pl.Series(name, values, kind, strict=kind != pl.String))
    frame = pl.DataFrame(series).with_columns(pl.col("weight").fill_null(1.0))
    for name, most in (("probability", 1.0), ("mass", math.inf)):
        wrong = frame.filter(~pl.col(name).is_between(0, most))
        if wrong.height:
            problem = f"{counted_are(wrong.height, 'value')} not a {name}, such as {wrong[name][0]}"
            raise InputError(problem, where=path, allowed="0 to 1")
    return frame


_MOST = 0.5
"""Least probability of yes and no together at which the probability of yes counts."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers of a model.

    Attributes:
        run: its name.
        frame: one row for each image and task, ascending: ``image_id, task, question, answer``
            (String, the model's words, of the first phrasing), ``yes`` (Float64: the share of
            phrasings whose answer is yes, null if those that are neither yes nor no or have no
            answer could turn it), ``probability`` (Float64, of yes, null if it is not recorded or
            does not count), ``weight`` (Float64), ``missing`` (Float64, the share of the questions
            that the model was asked and that have no answer),
            ``images_there`` (Float64, of the drawn images, in a partial run; else null),
            ``label`` (Int8, from the file of questions, null if it has none).
        rule: name of the rule.
        notes: counts of what was left out, answered in other ways, or differs.
        listed: whether a list of questions was given: ``frame`` has all that the model was asked.
    """

    run: str
    frame: pl.DataFrame
    rule: str
    notes: list[str] = field(default_factory=list)
    listed: bool = False


def read_answers(
    path: str | Path,
    about: Suite | Dataset,
    *,
    questions: str | Path | pl.DataFrame | None = None,
    rule: str | None = None,
    language: str = "en",
    run: str | None = None,
    ignore_unknown: bool = False,
) -> Answers:
    """Answers of a model in words, joined with the images and tasks that they are about.

    ``questions``: those that it was asked, a file or the frame of ``asked_questions``; the result
    also has those without an answer.
    """
    kind, raw = read_raw_answers(path)
    rule = check_one_of("rule", rule or TOLERANT, RULES)
    asked, notes = _listed(path, about, questions, ignore_unknown)
    listed, by_image = asked is not None, raw["image"][0] is not None
    if by_image:
        matched = match_images(raw["image"], about, path, ignore_unknown=ignore_unknown)
        columns, label = (matched.ids, match_tasks(raw["task"], about)), pl.lit(None, pl.Int8)
        own = raw.select(
            "question_id", *columns, "weight", "images_there", text="question", label=label
        )
        notes += [matched.note] if matched.note else []
        row_numbers = pl.Series(range(len(raw)))
        asked = own if asked is None else asked
        if questions is None and _unanswered(asked, own).height:
            # a file next to the answers that is not about them
            asked, listed = own, False
    else:
        if asked is None:
            asked, note = _drawn(path, about)
            notes.append(note)
        own, row_numbers = asked, _matched(raw, asked, path)
        if not listed and len(raw) < len(asked) and raw["question"].has_nulls():
            raise InputError(
                f"{len(raw):,} answers, without the texts of their questions, may not be to those"
                f" that are drawn by default, which are {len(asked):,}",
                where=path,
                remedy="{}, the file that the model was asked",
                give={"questions": ...},
            )
    kept = "image_id", "task", "weight", "images_there", "label"
    answers = own.select(*kept, question="text")[row_numbers]
    answers = answers.hstack(raw.select("answer", "probability", "mass"))
    identified = answers.drop_nulls(_PAIR)
    if not identified.height:
        raise InputError("no answer is about an image and task of the suite", where=path)
    if identified.height < len(raw):
        outside = f"{len(raw) - identified.height:,} of {len(raw):,} answers are left out"
        notes.append(f"{outside}: the suite does not have their image or object")
    unanswered = _unanswered(identified, asked)
    if unanswered.height:
        count = f"{unanswered.height:,} of {len(asked):,} questions have no answer"
        notes.append(f"{count}: {some_of(unanswered['question_id'])}")
    about_each = [AskedQuestion(*row_numbers) for row_numbers in identified.select(
        pl.col("question").fill_null(""), "task"
    ).iter_rows()]  # fmt: skip
    texts = identified["answer"].fill_null("").to_list()
    letters = FORMATS[kind].letters
    words = read_verdicts(texts, about_each, rule=rule, language=language, letters=letters)
    judged, doubts = _judged(identified, pl.Series("words", words, pl.Boolean))
    frame, counts = _averaged(judged, unanswered.select(*kept, question="text"), rule)
    counts += doubts
    if isinstance(about, Suite):
        counts += _disagreeing(frame, about)
    return Answers(run or Path(path).stem, frame, rule, notes + counts, listed)


def _listed(
    path: str | Path,
    about: Suite | Dataset,
    questions: str | Path | pl.DataFrame | None,
    ignore_unknown: bool,
) -> tuple[pl.DataFrame | None, list[str]]:
    """The questions that were given, or are next to the answers, and notes on them; or None."""
    if isinstance(questions, pl.DataFrame):
        return questions, []
    sibling = Path(path).parent / "questions.parquet"
    if questions is None and sibling.is_file() and sibling.absolute() != Path(path).absolute():
        questions = sibling
    if questions is None:
        return None, []
    asked, matched = asked_questions(questions, about, ignore_unknown=ignore_unknown)
    return asked, [matched] if matched else []


def _drawn(path: str | Path, about: Suite | Dataset) -> tuple[pl.DataFrame, str]:
    """The questions that are drawn by default, and a note that they are taken."""
    if isinstance(about, Dataset):
        raise InputError(
            "the answers do not name images and tasks", where=path, give={"questions": ...}
        )
    keys = about.select_keys(splits=about.splits_to_score())
    note = "no file of questions is given: taken to answer those that are drawn by default"
    return asked_of(draw_questions(about, keys, Draw())), note


def _unanswered(answers: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """The questions that were asked more often about their image and task than answered."""
    asked = asked.drop_nulls(_PAIR).with_columns(
        pl.col("image_id").cast(answers["image_id"].dtype, strict=False),
        number=pl.int_range(pl.len()).over(_PAIR),
    )
    counts = answers.group_by(_PAIR).agg(answered=pl.len())
    rows = asked.join(counts, on=_PAIR, how="left", maintain_order="left")
    return rows.filter(pl.col("number") >= pl.col("answered").fill_null(0))


def _matched(raw: pl.DataFrame, questions: pl.DataFrame, path: str | Path) -> pl.Series:
    """Position of each answer's question: by id, by category and id, or by order."""
    cure: Any = {"remedy": "{}, the file that the model was asked", "give": {"questions": ...}}
    own, ids = raw["question_id"], questions["question_id"]
    has_ids, has_position = not own.has_nulls(), raw["position"][0] is not None
    nothing = own.null_count() == len(own) and not has_position
    if len(raw) == len(questions) and (nothing or own.equals(ids)):
        numbers = pl.Series(range(len(raw)), dtype=pl.Int64)
    elif has_ids and not ids.is_duplicated().any():
        numbers = _looked_up(raw, questions, ["question_id"])
    elif has_ids and raw["category"][0] is not None:
        numbers = _looked_up(raw, questions, ["category", "question_id"])
    elif has_position:
        numbers = raw["position"]
    else:
        problem = (
            f"{len(raw):,} answers do not fit {len(questions):,} questions: they have no ids, or"
            " ids that repeat in the questions"
        )
        raise InputError(problem, where=path, **cure)
    number = pl.int_range(1, pl.len() + 1).cast(pl.String)
    inside = numbers.is_between(0, len(questions) - 1).fill_null(value=False)
    stray = raw.select(pl.coalesce("question_id", number).filter(~inside))
    if stray.height:
        problem = f"{stray.height:,} answers fit no question: {some_of(stray.to_series())}"
        raise InputError(problem, where=path, **cure)
    twice = numbers.filter(numbers.is_duplicated()).unique(maintain_order=True)
    if len(twice):
        problem = f"{len(twice):,} questions are answered twice: {some_of(ids[twice])}"
        raise InputError(problem, where=path, allowed="one answer for each question")
    pairs = raw.select("question").hstack(questions.select("question_id", "text")[numbers])
    same = pl.col("question").str.contains(pl.col("text").str.strip_chars(), literal=True)
    other = pairs.filter(~same)
    if other.height:
        text, question_id, question = other.row(0)
        problem = (
            f"{other.height:,} answers are to other questions: question {question_id} is"
            f" {question!r}, its answer is to {text!r}"
        )
        raise InputError(problem, where=path, **cure)
    return numbers


def _looked_up(raw: pl.DataFrame, questions: pl.DataFrame, keys: list[str]) -> pl.Series:
    """Position of the question with an answer's keys, Int64; null if there is none."""
    places = questions.select(keys).with_row_index("at").unique(keys, keep="last")
    rows = raw.select(keys).join(places, on=keys, how="left", maintain_order="left")
    return rows["at"].cast(pl.Int64)


def _disagreeing(answers: pl.DataFrame, suite: Suite) -> list[str]:
    """A note where the file of questions labels images in another way than the suite."""
    labeled = answers.drop_nulls("label")
    tasks, wrong = set(labeled["task"]), []
    # criteria differ only in which images they cover
    for key in {key[1:]: key for key in suite.keys if key[1] in tasks}.values():
        rows = labeled.join(suite.set(*key).cell_frame, on=["image_id", "task"])
        positive = pl.col("cell").str.ends_with("positive")
        wrong.append(rows.filter((pl.col("label") == 1) != positive))
    differ = [f"{row['task']} {row['image_id']}" for some in wrong for row in some.to_dicts()]
    text = f"{len(differ):,} labels of the questions are not the suite's, which stand"
    return [f"{text}: {some_of(differ)}"] if differ else []


def _judged(answers: pl.DataFrame, words: pl.Series) -> tuple[pl.DataFrame, list[str]]:
    """Answers with ``yes`` (Boolean): by the probability if it counts, else by the words.

    A probability with its mass is of one token: it counts where yes and no have most of the mass,
    and where the words, if there are any, mean yes or no: "No idea" begins with No. A probability
    without mass is taken as it is.
    """
    given, mass = pl.col("probability").is_not_null(), pl.col("mass")
    low = given & (mass < _MOST).fill_null(value=False)
    spoken = pl.col("answer").fill_null("").str.strip_chars() != ""
    unread = given & ~low & spoken & pl.col("words").is_null()
    judged = answers.with_columns(words).with_columns(low=low, unread=unread)
    void = pl.col("low") | (pl.col("unread") & mass.is_not_null())
    judged = judged.with_columns(
        void=void & pl.col("unread"), probability=pl.when(~void).then("probability")
    )
    judged = judged.with_columns(yes=pl.coalesce(pl.col("probability") > 0.5, "words"))
    judged = judged.with_columns(unread=pl.col("unread") & ~pl.col("void"))
    judged = judged.with_columns(differ=pl.col("words") != pl.col("yes"))
    texts = {
        "low": "yes and no have less than half of the probability at the answer: the words count",
        "void": "the words are neither yes nor no, regardless of the probability of the first of "
        "them",
        "unread": "the words are neither yes nor no: the probability counts",
        "differ": "words and probability disagree: the probability counts",
    }
    sizes = {text: int(judged[name].sum()) for name, text in texts.items()}
    notes = [f"in {n:,} of {len(judged):,} answers {text}" for text, n in sizes.items() if n]
    return judged.drop("words", *texts, "mass"), notes


def _averaged(
    answers: pl.DataFrame, unanswered: pl.DataFrame, rule: str
) -> tuple[pl.DataFrame, list[str]]:
    """One row for each image and task; several answers about one are averaged. Those that are
    unknown count for neither side, but the others have to be a majority of all.
    """
    yes, probability = pl.col("yes").cast(pl.Float64), pl.col("probability")
    rows = pl.concat(
        [answers.with_columns(missing=0.0), unanswered.with_columns(missing=1.0)], how="diagonal"
    )
    half, least = pl.len() / 2, yes.sum()
    decided = (least > half) | (least + yes.null_count() < half) | ~yes.is_null().any()
    groups = rows.group_by("image_id", "task").agg(
        pl.col("question", "answer").first(),
        pl.when(decided).then(yes.mean()).alias("yes"),
        pl.when(~probability.is_null().any()).then(probability.mean()),
        pl.col("weight", "images_there", "label").first(),
        pl.col("missing").mean(),
        split=(yes == 1).any() & (yes == 0).any(),
    )
    answered = groups.filter(pl.col("missing") < 1)
    notes, n = [], answered.height
    if n < answers.height:
        notes.append(f"{answers.height:,} answers are about {n:,} images and tasks")
    if split := groups["split"].sum():
        notes.append(f"{split:,} of {n:,} have answers of both kinds")
    unknown = answered.sort("image_id", "task").filter(pl.col("yes").is_null())["answer"]
    if len(unknown):
        texts = unknown.fill_null("").unique(maintain_order=True)
        such = some_of((repr(cell_text(printable(text.strip()), 60)) for text in texts), 3)
        notes.append(f"{len(unknown):,} of {n:,} answers are neither yes nor no ({rule}): {such}")
    return groups.drop("split").sort("image_id", "task"), notes
