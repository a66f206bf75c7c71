"""The models of a leaderboard: folders of answers or captions, as answers to its questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec
import polars as pl

from nooch.base.calls import Progress, tracked
from nooch.base.errors import InputError, ParameterError, some_of, unreadable
from nooch.base.files import sha256_of
from nooch.base.words import counted
from nooch.base.yaml_files import read_yaml
from nooch.evaluation.answer_files import read_raw_answers
from nooch.evaluation.answer_sample import (
    answers_as_predictions,
    said_as_predictions,
    weighted_as_sample,
    with_unanswered,
)
from nooch.evaluation.answers import read_answers
from nooch.evaluation.captions import ModelCaptions, finished, mentions, read_captions
from nooch.evaluation.context_changes import baseline_of
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.vocabulary import Vocabulary, load_vocabulary
from nooch.suites import Suite
from nooch.suites.questions import Draw, draw_questions, question_frame, read_questions

_ABOUT, _MOST_BYTES = "model.yaml", 1 << 16
PAIR = ("image_id", "task")


class ModelCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of a ``model.yaml``.

    Attributes:
        name: of the model.
        revision: its version, such as a commit of its weights.
        date: when it was asked, ``YYYY-MM-DD``.
        prompt: the question's wording, or the instruction for captions.
        who: who asked it.
        kind: ``answers`` to yes/no questions, ``captions``, or ``mentions``: captions that only
            list the names of tasks, such as "cup, dining table", which have no length.
        sha256: of the file of answers, if it is to be checked.
        source: address (``https://``) of the answers as published, at ``commit``, under
            ``license``, in a file with ``source_sha256``.
    """

    name: str
    revision: str = ""
    date: str = ""
    prompt: str = ""
    who: str = ""
    kind: Literal["answers", "captions", "mentions"] = "answers"
    sha256: str = ""
    source: str = ""
    commit: str = ""
    license: str = ""
    source_sha256: str = ""


@dataclass(frozen=True)
class RankedModel:
    """A model's folder, its ``model.yaml``, and its file of answers or captions."""

    folder: str
    card: ModelCard
    file: Path
    sha256: str


def read_models(folder: Path) -> list[RankedModel]:
    """The models of a folder; a link that leads out of it is not followed."""
    if not folder.is_dir():
        raise InputError("no such folder", where=folder, allowed="a folder of models")
    inside = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    entries = [_entry(path) for path in inside if path.is_dir() and not path.is_symlink()]
    if not entries:
        allowed = f"a folder for each model, with {_ABOUT} and one file of answers"
        raise InputError("contains no model", where=folder, allowed=allowed)
    facts: dict[str, dict[Any, str]] = {"the same file": {}, "the same name and revision": {}}
    for entry in entries:
        values = entry.sha256, (entry.card.name, entry.card.revision)
        for (what, seen), value in zip(facts.items(), values, strict=True):
            if (first := seen.setdefault(value, entry.folder)) != entry.folder:
                raise refused(entry, f"has {what} as {first}", "give each model once")
    return entries


def _entry(folder: Path) -> RankedModel:
    about = folder / _ABOUT
    files = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    others = [path for path in files if path.name != _ABOUT]
    if about not in files or len(others) != 1 or any(f.is_symlink() or f.is_dir() for f in files):
        allowed = f"{_ABOUT} and one file of answers or captions; no folders, no links"
        raise InputError(f"contains {some_of([f.name for f in files])}", where=folder,
                         allowed=allowed)  # fmt: skip
    if about.stat().st_size > _MOST_BYTES:
        raise InputError("is too large", where=about, allowed=f"at most {_MOST_BYTES:,} bytes")
    content = {name: str(value) for name, value in read_yaml(about).items() if value is not None}
    allowed = f"a model's facts; kind is {' or '.join(get_args(get_type_hints(ModelCard)['kind']))}"
    with unreadable(about, allowed, (msgspec.ValidationError,)):
        card = msgspec.convert(content, ModelCard)
    if not card.name.strip():
        raise InputError("has no name", where=about, allowed="the model's name")
    if card.source and not card.source.startswith("https://"):
        raise InputError(f"source is {card.source}", where=about, allowed="https://...")
    if card.date and not _is_date(card.date):
        raise InputError(f"date is {card.date}", where=about, allowed="YYYY-MM-DD")
    entry = RankedModel(folder.name, card, others[0], sha256_of(others[0]))
    if card.sha256 and card.sha256.lower() != entry.sha256:
        problem = f"has SHA-256 {entry.sha256}, and {_ABOUT} says {card.sha256}"
        raise refused(entry, problem, "give the file with that hash, or the right hash")
    return entry


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def refused(entry: RankedModel, problem: str, remedy: str | None = None, **more: Any) -> InputError:
    """The error of a model's file."""
    return InputError(problem, where=f"{entry.folder}/{entry.file.name}", remedy=remedy, **more)


def find_baseline(baseline: str | Path, entries: Sequence[RankedModel]) -> str:
    """The folder of the model that is meant."""
    names: dict[str, Sequence[str | Path]] = {
        entry.folder: (entry.card.name, entry.file.parent.absolute(), entry.file.absolute())
        for entry in entries
    }
    found = baseline_of(baseline, names, "the leaderboard")
    if found is None:
        remedy = f"give it a folder with {_ABOUT} among the models"
        problem = "is not the file of a model"
        raise ParameterError(problem, where=f"`baseline` {baseline}", remedy=remedy)
    return found


@dataclass(frozen=True)
class ModelReading:
    """The questions of a suite that models are ``asked``, the words of captions, and the column of
    their answers.
    """

    suite: Suite
    asked: pl.DataFrame
    words: Vocabulary
    answers: str | None


def asked_questions(
    suite: Suite, splits: Sequence[str], questions: str | Path | None
) -> pl.DataFrame:
    """The questions of a file, or of a list of the suite, numbered as there; else those that are
    drawn by default. Raises ParameterError for a name of both.
    """
    pairs = suite.question_lists.get(str(questions))
    if questions is not None and pairs is None:
        return read_questions(questions, suite)[0]
    if questions is not None and (file := Path(questions).absolute()).exists():
        raise ParameterError(
            "is a list of the suite and a file", where=f"`questions` {questions}",
            remedy="{} for the file; for the list, rename the file", give={"questions": str(file)},
        )  # fmt: skip
    drawn = question_frame(draw_questions(suite, suite.select_keys(splits=splits), Draw()))
    if pairs is None:
        return drawn
    ids = pl.int_range(1, pl.len() + 1).cast(pl.String)
    numbered = pairs.select(*PAIR, question_id=ids)
    return numbered.join(drawn.drop("question_id"), on=PAIR, maintain_order="left")


def read_runs(
    entries: Sequence[RankedModel], of: ModelReading, progress: Progress
) -> tuple[list[Predictions], dict[str, ModelCaptions]]:
    """Answers of each model, a run with the name of its folder, about all that was asked, and the
    captions by folder; these are read together, since some name only questions.
    """
    of_captions = [entry for entry in entries if entry.card.kind != "answers"]
    files = [entry.file for entry in of_captions]
    read = read_captions(files, of.suite, of.answers) if files else []
    captions = {e.folder: finished(run) for e, run in zip(of_captions, read, strict=True)}
    runs = []
    for entry in tracked(entries, len(entries), "reading", progress):
        if entry.folder in captions:
            listed = entry.card.kind == "mentions"
            words = load_vocabulary("names", of.suite.tasks) if listed else of.words
            run = mentioned(captions[entry.folder], replace(of, words=words))
            runs.append(replace(run, run=entry.folder))
            if listed:  # names have no length
                del captions[entry.folder]
            continue
        raw = read_raw_answers(entry.file, of.answers).frame
        if all(raw[name].null_count() for name in ("question_id", "image", "question")):
            problem = "names neither questions nor images, so answers cannot be matched"
            raise refused(entry, problem, "give question_id with each answer")
        named = raw.drop_nulls("image").select("image", "task", "question")
        if named.is_duplicated().any():
            raise refused(entry, "answers a question several times", "give one of each")
        found = read_answers(
            entry.file, of.suite, answers=of.answers, questions=of.asked, ignore_unknown=True
        )
        run = answers_as_predictions(found)
        _check_questions(entry, said_of(run), of.asked)
        runs.append(replace(run, run=entry.folder))
    return runs, captions


def mentioned(captions: ModelCaptions, of: ModelReading) -> Predictions:
    """Mentions of the tasks in captions of all images that questions were asked about."""
    run, suite = mentions(captions, of.words, of.suite.tasks), of.suite
    images = of.asked.select("image_id").drop_nulls().unique()
    pairs = images.join(pl.DataFrame({"task": run.tasks}), how="cross").with_columns(weight=1.0)
    ids = pl.col("image_id").cast(run.image_ids.dtype, strict=False)
    run, pairs = with_unanswered(run, pairs), pairs.with_columns(ids)
    if suite.sample_weights is not None:
        run = weighted_as_sample(run, suite.sample_weights)
    said = said_of(run).join(pairs.select(PAIR), on=PAIR, how="semi")
    return said_as_predictions(run.run, said, in_words=True)


def _check_questions(entry: RankedModel, said: pl.DataFrame, asked: pl.DataFrame) -> None:
    """Raise InputError for answers to other questions, or with other weights."""
    ids = pl.col("image_id").cast(said["image_id"].dtype, strict=False)
    pairs = asked.with_columns(ids).select(*PAIR, asked=pl.col("weight")).unique(PAIR)
    joined = said.join(pairs, on=PAIR, how="left")
    if strange := int(joined["asked"].null_count()):
        problem = f"has {counted(strange, 'answer')} to questions that were not asked"
        raise refused(entry, problem, give={"questions": ...})
    if (joined["weight"] != joined["asked"]).any():
        remedy = "keep the weights that nooch ask and nooch export wrote"
        raise refused(entry, "has other weights than the questions", remedy)


def said_of(run: Predictions) -> pl.DataFrame:
    """Answers, or mentions of captions."""
    assert run.said is not None  # noqa: S101 - models answer, or write captions
    return run.said
