"""Answers joined with their questions: what a model said about each image and task."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from nooch.answers.answer_files import FORMATS, read_raw_answers
from nooch.answers.answer_rules import RULES
from nooch.answers.asked_questions import asked_of, asked_questions, tasks_in
from nooch.challenge import Suite
from nooch.errors import InputError, check_one_of, some_of
from nooch.questions import QuestionOptions, draw_questions
from nooch.readers.image_files import ids_in_names

__all__ = ["Answers", "read_answers"]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model said.

    Attributes:
        run: its name.
        frame: one row for each image and task, ascending: ``image_id, task, answer`` (String, the
            model's words, those of the first phrasing), ``yes`` (Float64: the share of phrasings
            whose answer is yes, null where the rule finds neither yes nor no), ``probability``
            (Float64, of yes, null where it is not recorded), ``weight`` (Float64), ``label`` (Int8,
            what the file of questions says, null where it does not).
        rule: name of the rule.
        notes: counts of what was left out, answered in other ways, or differs.
    """

    run: str
    frame: pl.DataFrame
    rule: str
    notes: list[str] = field(default_factory=list)


def read_answers(
    path: str | Path,
    suite: Suite,
    *,
    questions: str | Path | None = None,
    rule: str | None = None,
    run: str | None = None,
) -> Answers:
    """Answers of a model in words, joined with the suite's images and tasks.

    Args:
        path: a file in one of ``FORMATS``.
        suite: the suite.
        questions: the file of questions that were asked: ``questions.parquet`` of an export or its
            folder, or POPE's or LLaVA's JSON. By default the one next to the answers, else the
            questions that ``nooch export --to pope`` draws without further options.
        rule: how text becomes yes or no, a name out of ``RULES``; by default the rule of the tool
            that wrote the file.
        run: name of the run; by default the file's.

    Raises:
        InputError: the file is not recognized, answers that fit no question or another one's
            text, two answers to a question, or no answer about an image and task of the suite.
        ParameterError: an unknown rule.
    """
    kind, raw = read_raw_answers(path)
    rule = check_one_of("rule", rule or FORMATS[kind].rule, RULES)
    notes: list[str] = []
    if raw["image"][0] is not None:
        ids, tasks = ids_in_names(raw["image"], suite.image_ids()), tasks_in(raw["task"], suite)
        asked = raw.select(
            "question_id", ids, tasks, "weight", text="question", label=pl.lit(None, pl.Int8)
        )
        of = pl.Series(range(len(raw)))
    else:
        asked, notes = _questions(path, suite, questions)
        of = _matched(raw, asked, path)
    answers = asked.select("image_id", "task", "weight", "label")[of]
    answers = answers.hstack(raw.select("answer", "probability"))
    known = answers.drop_nulls(["image_id", "task"])
    if not known.height:
        raise InputError("no answer is about an image and task of the suite", where=path)
    if known.height < len(raw):
        outside = f"{len(raw) - known.height:,} of {len(raw):,} answers are left out"
        notes.append(f"{outside}: the suite does not have their image or object")
    unanswered = asked["question_id"].filter(~pl.int_range(len(asked), eager=True).is_in(of))
    if len(unanswered):
        count = f"{len(unanswered):,} of {len(asked):,} questions have no answer"
        notes.append(f"{count}: {some_of(unanswered)}")
    frame, about = _averaged(known, rule)
    return Answers(run or Path(path).stem, frame, rule, notes + about)


def _questions(
    path: str | Path, suite: Suite, questions: str | Path | None
) -> tuple[pl.DataFrame, list[str]]:
    sibling = Path(path).parent / "questions.parquet"
    if questions is None and sibling.is_file() and sibling.absolute() != Path(path).absolute():
        questions = sibling
    if questions is not None:
        return asked_questions(questions, suite), []
    splits = suite.splits_to_score()
    keys = [key for key in suite.keys if key[2] in splits]
    note = "no file of questions is given: taken to answer those that are drawn by default"
    return asked_of(draw_questions(suite, keys, QuestionOptions())), [note]


def _matched(raw: pl.DataFrame, asked: pl.DataFrame, path: str | Path) -> pl.Series:
    """Position of each answer's question: by id, by category and id, or by order.

    Raises:
        InputError: answers without a question or to another text, or two to one question.
    """
    remedy = "give the file of questions that the model was asked as `questions`"
    own, ids = raw["question_id"], asked["question_id"]
    has_ids, has_position = not own.has_nulls(), raw["position"][0] is not None
    nothing = own.null_count() == len(own) and not has_position
    if len(raw) == len(asked) and (nothing or own.equals(ids)):
        of = pl.Series(range(len(raw)), dtype=pl.Int64)
    elif has_ids and not ids.is_duplicated().any():
        of = _looked_up(raw, asked, ["question_id"])
    elif has_ids and raw["category"][0] is not None:
        of = _looked_up(raw, asked, ["category", "question_id"])
    elif has_position:
        of = raw["position"]
    else:
        raise InputError(
            f"{len(raw):,} answers do not fit {len(asked):,} questions: they have no ids, or ids"
            " that repeat in the questions",
            where=path,
            allowed="one answer for each question, in order, or with the ids of the questions",
            remedy=remedy,
        )
    number = pl.int_range(1, pl.len() + 1).cast(pl.String)
    inside = of.is_between(0, len(asked) - 1).fill_null(value=False)
    stray = raw.select(pl.coalesce("question_id", number).filter(~inside))
    if stray.height:
        raise InputError(
            f"{stray.height:,} answers fit no question: {some_of(stray.to_series())}",
            where=path,
            allowed="answers to the questions",
            remedy=remedy,
        )
    twice = of.filter(of.is_duplicated()).unique(maintain_order=True)
    if len(twice):
        raise InputError(
            f"{len(twice):,} questions are answered twice: {some_of(ids[twice])}",
            where=path,
            allowed="one answer for each question",
        )
    pairs = raw.select("question").hstack(asked.select("question_id", "text")[of])
    same = pl.col("question").str.contains(pl.col("text").str.strip_chars(), literal=True)
    other = pairs.filter(~same)
    if other.height:
        text, question_id, question = other.row(0)
        raise InputError(
            f"{other.height:,} answers are to other questions: question {question_id} is"
            f" {question!r}, its answer is to {text!r}",
            where=path,
            allowed="answers to the questions, with the same texts",
            remedy=remedy,
        )
    return of


def _looked_up(raw: pl.DataFrame, asked: pl.DataFrame, keys: list[str]) -> pl.Series:
    """Position of the question with an answer's keys, Int64; null where there is none."""
    places = asked.select(keys).with_row_index("at").unique(keys, keep="last")
    found = raw.select(keys).join(places, on=keys, how="left", maintain_order="left")
    return found["at"].cast(pl.Int64)


def _averaged(answers: pl.DataFrame, rule: str) -> tuple[pl.DataFrame, list[str]]:
    """One row for each image and task; several answers about one are averaged.

    Where each answer has a probability of yes, that says yes or no, not the rule.
    """
    said = answers["probability"] > 0.5
    if answers["probability"].null_count():
        text = answers["answer"].fill_null("")
        verdicts = {answer: RULES[rule](answer) for answer in text.unique()}
        said = text.replace_strict(verdicts, return_dtype=pl.Boolean)
    yes = pl.col("yes")
    groups = (
        answers.with_columns(yes=said)
        .group_by("image_id", "task")
        .agg(
            pl.col("answer").first(),
            yes.mean(),
            pl.col("probability").mean(),
            pl.col("weight", "label").first(),
            split=yes.any() & ~yes.all(),
        )
    )
    notes, n, rows = [], groups.height, answers.height
    if n < rows:
        notes.append(f"{rows:,} answers are about {n:,} images and tasks")
    if split := groups["split"].sum():
        notes.append(f"{split:,} of {n:,} have answers of both kinds")
    if unknown := groups["yes"].null_count():
        notes.append(f"{unknown:,} of {n:,} answers are neither yes nor no ({rule})")
    return groups.drop("split").sort("image_id", "task"), notes
