"""Answers joined with their questions: what a model said about each image and task."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from nooch.answers.answer_files import FORMATS, read_raw_answers
from nooch.answers.answer_rules import RULES
from nooch.answers.asked_questions import asked_of, asked_questions, images_and_tasks
from nooch.challenge import Suite
from nooch.data import Dataset
from nooch.errors import InputError, check_one_of, some_of
from nooch.questions import QuestionOptions, draw_questions

__all__ = ["Answers", "read_answers"]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model said.

    Attributes:
        run: its name.
        frame: one row for each image and task, ascending: ``image_id, task, question, answer``
            (String, the model's words, those of the first phrasing), ``yes`` (Float64: the share of
            phrasings whose answer is yes, null where the rule finds neither yes nor no),
            ``probability`` (Float64, of yes, null where it is not recorded), ``weight`` (Float64),
            ``label`` (Int8, what the file of questions says, null where it does not).
        rule: name of the rule.
        notes: counts of what was left out, answered in other ways, or differs.
    """

    run: str
    frame: pl.DataFrame
    rule: str
    notes: list[str] = field(default_factory=list)


def read_answers(
    path: str | Path,
    about: Suite | Dataset,
    *,
    questions: str | Path | None = None,
    rule: str | None = None,
    run: str | None = None,
) -> Answers:
    """Answers of a model in words, joined with the images and tasks that they are about.

    Args:
        path: a file in one of ``FORMATS``.
        about: the suite; or a dataset, whose classes are the tasks.
        questions: the file of questions that were asked: ``questions.parquet`` of an export or its
            folder, or POPE's or LLaVA's JSON. By default the one next to the answers, else the
            questions that ``nooch export --to pope`` draws from the suite without further options,
            if answers are to all of them or have their texts.
        rule: how text becomes yes or no, a name out of ``RULES``; by default the rule of the tool
            that wrote the file.
        run: name of the run; by default the file's.

    Raises:
        InputError: the file is not recognized, answers that fit no question or another one's
            text, two answers to a question, fewer than there are to questions that are not known
            to be theirs, or no answer about an image and task of the suite.
        ParameterError: an unknown rule.
    """
    kind, raw = read_raw_answers(path)
    rule = check_one_of("rule", rule or FORMATS[kind].rule, RULES)
    notes: list[str] = []
    if raw["image"][0] is not None:
        named, label = images_and_tasks(raw["image"], raw["task"], about), pl.lit(None, pl.Int8)
        asked = raw.select("question_id", *named, "weight", text="question", label=label)
        of = pl.Series(range(len(raw)))
    else:
        asked, notes = _questions(path, about, questions)
        of = _matched(raw, asked, path)
        if notes and len(raw) < len(asked) and raw["question"].has_nulls():
            raise InputError(
                f"{len(raw):,} answers, without the texts of their questions, may not be to those"
                f" that are drawn by default, which are {len(asked):,}",
                where=path,
                remedy="give the file of questions that the model was asked as `questions`",
            )
    answers = asked.select("image_id", "task", "weight", "label", question="text")[of]
    answers = answers.hstack(raw.select("answer", "probability"))
    known = answers.drop_nulls(["image_id", "task"])
    if not known.height:
        raise InputError("no answer is about an image and task of the suite", where=path)
    if known.height < len(raw):
        outside = f"{len(raw) - known.height:,} of {len(raw):,} answers are left out"
        notes.append(f"{outside}: the suite does not have their image or object")
    numbers = pl.int_range(len(asked), eager=True)
    unanswered = asked["question_id"].filter(~numbers.is_in(of.implode()))
    if len(unanswered):
        count = f"{len(unanswered):,} of {len(asked):,} questions have no answer"
        notes.append(f"{count}: {some_of(unanswered)}")
    frame, counts = _averaged(known, rule)
    if isinstance(about, Suite):
        counts += _disagreeing(frame, about)
    return Answers(run or Path(path).stem, frame, rule, notes + counts)


def _questions(
    path: str | Path, about: Suite | Dataset, questions: str | Path | None
) -> tuple[pl.DataFrame, list[str]]:
    sibling = Path(path).parent / "questions.parquet"
    if questions is None and sibling.is_file() and sibling.absolute() != Path(path).absolute():
        questions = sibling
    if questions is not None:
        return asked_questions(questions, about), []
    if isinstance(about, Dataset):
        raise InputError(
            "the answers do not name images and tasks", where=path, remedy="give `questions`"
        )
    keys = about.select_keys(splits=about.splits_to_score())
    note = "no file of questions is given: taken to answer those that are drawn by default"
    return asked_of(draw_questions(about, keys, QuestionOptions())), [note]


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


def _disagreeing(answers: pl.DataFrame, suite: Suite) -> list[str]:
    """A note where the file of questions labels images in another way than the suite."""
    labeled = answers.drop_nulls("label")
    tasks, wrong = set(labeled["task"]), []
    # criteria differ in images alone
    for key in {key[1:]: key for key in suite.keys if key[1] in tasks}.values():
        rows = labeled.join(suite.set(*key).cell_frame, on=["image_id", "task"])
        positive = pl.col("cell").str.ends_with("positive")
        wrong.append(rows.filter((pl.col("label") == 1) != positive))
    differ = [f"{row['task']} {row['image_id']}" for some in wrong for row in some.to_dicts()]
    text = f"{len(differ):,} labels of the questions are not the suite's, which stand"
    return [f"{text}: {some_of(differ)}"] if differ else []


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
            pl.col("question", "answer").first(),
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
