"""Answers joined with their questions: what a model said about each image and task."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from nooch.answers.answer_files import FORMATS, RawAnswer, read_raw_answers
from nooch.answers.answer_rules import RULES
from nooch.answers.asked_questions import (
    AskedQuestion,
    asked_of,
    asked_questions,
    image_id_of,
    images_of,
    tasks_by_noun,
)
from nooch.challenge import Suite
from nooch.errors import InputError, check_one_of, some_of
from nooch.questions import QuestionOptions, draw_questions

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
    if raw and raw[0].image is not None:
        asked = _asked_by_themselves(raw, suite)
        of = list(range(len(raw)))
    else:
        asked, source = _questions(path, suite, questions)
        notes += source
        of = _matched(raw, asked, path)
    pairs = [(asked[n], answer) for n, answer in zip(of, raw, strict=True)]
    known = [pair for pair in pairs if pair[0].image is not None and pair[0].task is not None]
    if not known:
        raise InputError("no answer is about an image and task of the suite", where=path)
    if len(known) < len(pairs):
        outside = f"{len(pairs) - len(known):,} of {len(pairs):,} answers are left out"
        notes.append(f"{outside}: the suite does not have their image or object")
    if missing := sorted(set(range(len(asked))) - set(of)):
        ids = some_of(asked[n].question_id for n in missing)
        notes.append(f"{len(missing):,} of {len(asked):,} questions have no answer: {ids}")
    frame, about = _table(known, rule)
    return Answers(run or Path(path).stem, frame, rule, notes + about)


def _questions(
    path: str | Path, suite: Suite, questions: str | Path | None
) -> tuple[list[AskedQuestion], list[str]]:
    sibling = Path(path).parent / "questions.parquet"
    if questions is None and sibling.is_file() and sibling.absolute() != Path(path).absolute():
        questions = sibling
    if questions is not None:
        return asked_questions(questions, suite), []
    splits = suite.splits_to_score()
    keys = [key for key in suite.keys if key[2] in splits]
    note = "no file of questions is given: taken to answer those that are drawn by default"
    return asked_of(draw_questions(suite, keys, QuestionOptions())), [note]


def _asked_by_themselves(raw: Sequence[RawAnswer], suite: Suite) -> list[AskedQuestion]:
    """The questions of answers that name image and task."""
    ids, nouns = images_of(suite), tasks_by_noun(suite.tasks)
    return [
        AskedQuestion(
            answer.question_id,
            image_id_of(str(answer.image), ids),
            nouns.get(str(answer.task).lower()),
            answer.question or "",
            answer.weight,
        )
        for answer in raw
    ]


def _matched(
    raw: Sequence[RawAnswer], asked: Sequence[AskedQuestion], path: str | Path
) -> list[int]:
    """Position of each answer's question: by id, by category and id, or by order.

    Raises:
        InputError: answers without a question or to another text, or two to one question.
    """
    ids = [question.question_id for question in asked]
    in_order = [answer.question_id for answer in raw]
    if len(raw) == len(asked) and (in_order == ids or set(in_order) == {None}):
        of: list[int | None] = list(range(len(raw)))
        if raw[0].position is not None and raw[0].question_id is None:
            of = [answer.position for answer in raw]
    elif None not in in_order and len(set(ids)) == len(ids):
        places: Mapping[Any, int] = {key: n for n, key in enumerate(ids)}
        of = [places.get(answer.question_id) for answer in raw]
    elif None not in in_order and raw[0].category is not None:
        places = {(q.category, q.question_id): n for n, q in enumerate(asked)}
        of = [places.get((answer.category, answer.question_id)) for answer in raw]
    elif raw[0].position is not None:
        of = [answer.position for answer in raw]
    else:
        raise InputError(
            f"{len(raw):,} answers do not fit {len(asked):,} questions: they have no ids, or ids"
            " that repeat in the questions",
            where=path,
            allowed="one answer for each question, in order, or with the ids of the questions",
            remedy="give the file of questions that the model was asked as `questions`",
        )
    stray = [
        answer.question_id if answer.question_id is not None else number
        for number, (n, answer) in enumerate(zip(of, raw, strict=True), 1)
        if n is None or not 0 <= n < len(asked)
    ]
    if stray:
        raise InputError(
            f"{len(stray):,} answers fit no question: {some_of(stray)}",
            where=path,
            allowed="answers to the questions",
            remedy="give the file of questions that the model was asked as `questions`",
        )
    found = [n for n in of if n is not None]
    if twice := [n for n, times in Counter(found).items() if times > 1]:
        raise InputError(
            f"{len(twice):,} questions are answered twice:"
            f" {some_of(asked[n].question_id for n in twice)}",
            where=path,
            allowed="one answer for each question",
        )
    _check_texts([asked[n] for n in found], raw, path)
    return found


def _check_texts(
    asked: Sequence[AskedQuestion], raw: Sequence[RawAnswer], path: str | Path
) -> None:
    """Raise InputError where an answer records another question than the one it is joined with."""
    other = [
        (question, answer.question)
        for question, answer in zip(asked, raw, strict=True)
        if answer.question is not None and question.text.strip() not in answer.question
    ]
    if other:
        question, text = other[0]
        raise InputError(
            f"{len(other):,} answers are to other questions: question {question.question_id} is"
            f" {question.text!r}, its answer is to {text!r}",
            where=path,
            allowed="answers to the questions, with the same texts",
            remedy="give the file of questions that the model was asked as `questions`",
        )


def _table(
    pairs: Sequence[tuple[AskedQuestion, RawAnswer]], rule: str
) -> tuple[pl.DataFrame, list[str]]:
    """One row for each image and task; several answers about one are averaged."""
    groups: defaultdict[tuple[Any, Any], list[tuple[AskedQuestion, RawAnswer]]] = defaultdict(list)
    for question, answer in pairs:
        groups[question.image, question.task].append((question, answer))
    rows, unknown, split = [], 0, 0
    for (image, task), members in groups.items():
        said = [RULES[rule](answer.text or "") for _, answer in members]
        clear = [yes for yes in said if yes is not None]
        probabilities = [a.probability for _, a in members if a.probability is not None]
        unknown += not clear
        split += len(set(clear)) > 1
        rows.append(
            {
                "image_id": image,
                "task": task,
                "answer": members[0][1].text,
                "yes": sum(clear) / len(clear) if clear else None,
                "probability": sum(probabilities) / len(probabilities) if probabilities else None,
                "weight": members[0][0].weight,
                "label": members[0][0].label,
            }
        )
    notes = []
    if len(groups) < len(pairs):
        notes.append(f"{len(pairs):,} answers are about {len(groups):,} images and tasks")
    if split:
        notes.append(f"{split:,} of {len(groups):,} have answers of both kinds")
    if unknown:
        notes.append(f"{unknown:,} of {len(groups):,} answers are neither yes nor no ({rule})")
    schema: dict[str, Any] = {"task": pl.String, "answer": pl.String, "label": pl.Int8}
    schema |= dict.fromkeys(("yes", "probability", "weight"), pl.Float64)
    frame = pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)
    return frame.sort("image_id", "task"), notes
