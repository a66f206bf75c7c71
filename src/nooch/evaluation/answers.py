"""Answers of a model -> one row for each image and task that it was asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nooch.base.errors import InputError, check_one_of, some_of
from nooch.base.words import cell_text, counted, printable
from nooch.data import Dataset, ImageNames
from nooch.data.table_files import unpacked_stem
from nooch.evaluation.answer_files import RawAnswers, read_raw_answers
from nooch.evaluation.answer_rules import RULES, TOLERANT, read_verdicts
from nooch.evaluation.answer_words import AskedQuestion
from nooch.evaluation.listed_questions import (
    CATEGORIES,
    listed_pairs,
    listed_questions,
    without_category,
)
from nooch.suites import Suite
from nooch.suites.questions import (
    Draw,
    draw_questions,
    match_images,
    match_tasks,
    question_frame,
    read_questions,
)

_PAIR = ("image_id", "task")
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
            ``available_share`` (Float64, of the drawn images, in a partial run; else null),
            ``label`` (Int8, from the file of questions, null if it has none); of listed questions
            also ``category`` (String, POPE's, by commas).
        rule: name of the rule.
        notes: counts of what was left out, answered in other ways, or differs.
        listed: whether a list of questions was given: ``frame`` has all that the model was asked.
        column: field of the file that the words were read from.
    """

    run: str
    frame: pl.DataFrame
    rule: str
    notes: list[str] = field(default_factory=list)
    listed: bool = False
    column: str = "answer"


def read_answers(
    path: str | Path | Mapping[Path, str],
    about: Suite | Dataset,
    *,
    answers: str | None = None,
    questions: str | Path | pl.DataFrame | None = None,
    rule: str | None = None,
    language: str = "en",
    run: str | None = None,
    ignore_unknown: bool = False,
) -> Answers:
    """Answers of a model in words, joined with the images and tasks that they are about.

    ``path``: a file, or the files of one model and the category of questions that each is to;
    ``answers``: field of the model's words; ``questions``: those that it was asked, a file or the
    frame of ``read_questions``; the result also has those without an answer.
    """
    known = (
        about.image_names() if isinstance(about, Suite) else ImageNames.from_images(about.images)
    )
    parts: Mapping[Path, str] = path if isinstance(path, Mapping) else {}
    read, path = _read_parts(parts or {Path(str(path)): ""}, answers, known)
    rule = check_one_of("rule", rule or TOLERANT, RULES)
    asked, notes = _listed(path, about, questions, ignore_unknown)
    notes += [read.note] if read.note else []
    given = questions is not None
    suite = about if asked is None and isinstance(about, Suite) else None
    of_suite = None if suite is None else listed_questions(read.frame, suite, path)
    if of_suite is not None:
        asked, given = of_suite.asked, True
        notes.append(of_suite.note)
    if of_suite is not None and of_suite.numbers is not None:
        joined = _numbered(read.frame, of_suite.asked, of_suite.numbers)
    else:
        joined = _by_image(
            read.frame, about, asked, path, given=given, ignore_unknown=ignore_unknown
        ) or _by_question(read.frame, about, asked, path)
    once, repeated = _once(joined.raw, joined.keys, path)
    notes += filter(None, (joined.note, repeated))
    asked, listed = joined.asked, asked is not None and joined.listed
    raw, own = joined.raw.filter(once), joined.own.filter(once)
    kept = "image_id", "task", "weight", "available_share", "label"
    answered = own.select(*kept, question="text")
    answered = answered.hstack(raw.select("answer", "probability", "mass"))
    identified = answered.drop_nulls(_PAIR)
    if not identified.height:
        raise InputError("no answer is about an image and task of the suite", where=path)
    if identified.height < len(raw):
        outside = f"{len(raw) - identified.height:,} of {len(raw):,} answers are left out"
        notes.append(f"{outside}: their image or object is not in the suite")
    unanswered = _unanswered(identified, asked)
    if unanswered.height:
        count = f"{unanswered.height:,} of {len(asked):,} questions have no answer"
        notes.append(f"{count}: {some_of(unanswered['question_id'])}")
    about_each = [AskedQuestion(*row_numbers) for row_numbers in identified.select(
        pl.col("question").fill_null(""), "task"
    ).iter_rows()]  # fmt: skip
    texts = identified["answer"].fill_null("").to_list()
    words = read_verdicts(texts, about_each, rule=rule, language=language, letters=read.letters)
    judged, doubts = _judged(identified, pl.Series("words", words, pl.Boolean))
    frame, counts = _averaged(judged, unanswered.select(*kept, question="text"), rule)
    counts += doubts
    if of_suite is None and isinstance(about, Suite):
        of_suite = listed_pairs(frame, about)
    if of_suite is not None:
        frame = frame.join(of_suite.categories, on=_PAIR, how="left", maintain_order="left")
    counts += _about_labels(frame, about, read)
    name = run or unpacked_stem(Path(path))
    name = without_category(name) if parts else name
    notes = list(dict.fromkeys([*notes, *counts]))
    return Answers(name, frame, rule, notes, listed, read.column)


class _Joined(NamedTuple):
    """Answers with their questions: ``raw`` and ``own`` have the same rows, ``keys`` tell a
    question from others, ``asked`` has all of them, also those without an answer.
    """

    raw: pl.DataFrame
    own: pl.DataFrame
    keys: pl.DataFrame
    asked: pl.DataFrame
    note: str
    listed: bool = True


def _by_image(
    raw: pl.DataFrame,
    about: Suite | Dataset,
    asked: pl.DataFrame | None,
    path: str | Path,
    *,
    given: bool,
    ignore_unknown: bool,
) -> _Joined | None:
    """Answers that name their images and objects; None where they do not, or where only the ids of
    questions say it. Of a file of questions next to them (not ``given``) that is not about them,
    nothing is taken.
    """
    if raw["image"].has_nulls():
        return None
    others = not raw["question_id"].has_nulls()
    matched = match_images(raw["image"], about, path, ignore_unknown=ignore_unknown or others)
    names = (match_tasks(raw[column], about) for column in ("task", "question"))
    own = raw.select(
        "question_id", matched.ids, pl.coalesce(*names).alias("task"), "category", "position",
        "weight", "available_share", text="question",
    )  # fmt: skip
    ids = pl.col("image_id").cast(matched.ids.dtype, strict=False)
    if asked is not None and own["task"].has_nulls():
        texts = asked.select(ids, "text", of="task").drop_nulls().unique(["image_id", "text"])
        own = own.join(texts, on=["image_id", "text"], how="left", maintain_order="left")
        own = own.with_columns(task=pl.coalesce("task", "of")).drop("of")
    if others and not own.drop_nulls(_PAIR).height:
        return None
    if others and not ignore_unknown:
        match_images(raw["image"], about, path)
    keys = own.select("question_id", *_PAIR, "category", "position", "text")
    # names distinguish what the suite does not have
    keys = keys.hstack(raw.select(_image="image", _task="task"))
    listed = asked is not None and not (not given and _unanswered(asked, own).height)
    if asked is None or not listed:
        asked = _drawn_alike(own.filter(_are_first(raw, keys)), about)
    of_pair = asked.unique(_PAIR, keep="first").select(*_PAIR, _w="weight", _l="label")
    own = own.join(of_pair.with_columns(ids), on=_PAIR, how="left", maintain_order="left")
    weight = pl.coalesce("weight", "_w", pl.lit(1.0))
    own = own.with_columns(weight=weight, label=pl.col("_l")).drop("_w", "_l")
    return _Joined(raw, own, keys, asked, matched.note, listed)


def _by_question(
    raw: pl.DataFrame, about: Suite | Dataset, asked: pl.DataFrame | None, path: str | Path
) -> _Joined:
    """Answers to listed questions, or to those that are drawn by default."""
    listed, note = asked is not None, ""
    if asked is None:
        asked, note = _drawn(path, about)
    numbers = _matched(raw, asked, path)
    if not listed and len(raw) < len(asked) and raw["question"].has_nulls():
        raise InputError(
            f"{len(raw):,} answers do not name their questions, and may not answer the questions"
            f" that are drawn by default, of which there are {len(asked):,}",
            where=path,
            remedy="{}, the file of questions that the model was asked",
            give={"questions": ...},
        )
    return _numbered(raw, asked, numbers, note, listed=listed)


def _numbered(
    raw: pl.DataFrame,
    asked: pl.DataFrame,
    numbers: pl.Series,
    note: str = "",
    *,
    listed: bool = True,
) -> _Joined:
    """Answers to the questions in these positions of all."""
    return _Joined(raw, asked[numbers], numbers.alias("number").to_frame(), asked, note, listed)


def _read_parts(
    parts: Mapping[Path, str], answers: str | None, known: ImageNames
) -> tuple[RawAnswers, Path]:
    """The answers of files, of several with the category of each; and the path of the first."""
    reads = [read_raw_answers(part, answers, known) for part in parts]
    if len(reads) == 1:
        return reads[0], next(iter(parts))
    frames = []
    for read, (part, category) in zip(reads, parts.items(), strict=True):
        own = read.frame["category"].drop_nulls().str.to_lowercase()
        if (other := own.filter(own.is_in(CATEGORIES) & (own != category))).len():
            problem = f"answers questions of {other[0]} by its column category, and of {category}"
            raise InputError(f"{problem} by its name", where=part, remedy="rename the file")
        frames.append(read.frame.with_columns(category=pl.lit(category)))
    frame = pl.concat(frames, how="vertical_relaxed")
    of_each = ", ".join(f"{part.name} to {category}" for part, category in parts.items())
    note = f"{reads[0].note}; " if reads[0].note else ""
    note += f"files of one model, by their names: {of_each}"
    return reads[0]._replace(frame=frame, note=note), next(iter(parts))


def _once(raw: pl.DataFrame, keys: pl.DataFrame, path: str | Path) -> tuple[pl.Series, str]:
    """Mask of answers without those that are there again, and a note on these. Raises InputError
    for a question that is answered twice.
    """
    values = raw.select("answer", "probability", "mass")
    first, keys = _are_first(raw, keys), keys.hstack(raw.select("sample"))
    if first.all():
        return first, ""
    rows = keys.hstack(values).with_row_index("row", offset=1)
    again = rows.filter(~first)
    pairs = again.join(rows.filter(first), on=keys.columns, nulls_equal=True, suffix="_first",
                       maintain_order="left")  # fmt: skip
    other = pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"{c}_first")) for c in values.columns)
    if (differ := pairs.filter(other)).height:
        row = differ.row(0, named=True)
        raise InputError(
            f"{differ.height:,} questions have two different answers: rows {row['row_first']} and"
            f" {row['row']} answer one question with {row['answer_first']!r:.60} and"
            f" {row['answer']!r:.60}",
            where=path,
            allowed="one answer per question; for several wordings of a question, give question"
            " or question_id",
            remedy="remove one",
        )
    row = pairs.row(0, named=True)
    example = f"rows {row['row_first']} and {row['row']}"
    return first, f"{counted(again.height, 'answer')} occur twice and count once: {example}"


def _are_first(raw: pl.DataFrame, keys: pl.DataFrame) -> pl.Series:
    """Mask of the answers whose question has none before, in the same sample."""
    return keys.hstack(raw.select("sample")).select(
        pl.struct(pl.all()).is_first_distinct()
    ).to_series()  # fmt: skip


def _drawn_alike(own: pl.DataFrame, about: Suite | Dataset) -> pl.DataFrame:
    """The questions that are drawn by default, if the answers are to these; else their own."""
    own = own.with_columns(label=pl.lit(None, pl.Int8), weight=pl.col("weight").fill_null(1.0))
    if isinstance(about, Dataset) or own["text"].has_nulls():
        return own
    drawn = question_frame(
        draw_questions(about, about.select_keys(splits=about.splits_to_score()), Draw())
    )
    pairs = drawn.select(*_PAIR).unique()
    there = own.drop_nulls(_PAIR).select(*_PAIR).unique()
    alike = len(pairs) == len(there) == len(pairs.join(there, on=_PAIR, how="semi"))
    return drawn if alike else own


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
    asked, matched = read_questions(questions, about, ignore_unknown=ignore_unknown)
    return asked, [matched] if matched else []


def _drawn(path: str | Path, about: Suite | Dataset) -> tuple[pl.DataFrame, str]:
    """The questions that are drawn by default, and a note that they are taken."""
    if isinstance(about, Dataset):
        raise InputError(
            "the answers do not name images and tasks", where=path, give={"questions": ...}
        )
    keys = about.select_keys(splits=about.splits_to_score())
    note = "no file of questions is given, so these answer the questions that are drawn by default"
    return question_frame(draw_questions(about, keys, Draw())), note


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
    cure: Any = {
        "remedy": "{}, the file of questions that the model was asked",
        "give": {"questions": ...},
    }
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
            f"{len(raw):,} answers do not fit {len(questions):,} questions: the answers have no"
            " ids, or ids that repeat in the questions"
        )
        raise InputError(problem, where=path, **cure)
    number = pl.int_range(1, pl.len() + 1).cast(pl.String)
    inside = numbers.is_between(0, len(questions) - 1).fill_null(value=False)
    stray = raw.select(pl.coalesce("question_id", number).filter(~inside))
    if stray.height:
        problem = f"{stray.height:,} answers fit no question: {some_of(stray.to_series())}"
        raise InputError(problem, where=path, **cure)
    pairs = raw.select("question").hstack(questions.select("question_id", "text")[numbers])
    same = pl.col("question").str.contains(pl.col("text").str.strip_chars(), literal=True)
    other = pairs.filter(~same)
    if other.height:
        text, question_id, question = other.row(0)
        problem = (
            f"{other.height:,} answers belong to other questions: question {question_id} is"
            f" {question!r}, its answer is to {text!r}"
        )
        raise InputError(problem, where=path, **cure)
    return numbers


def _looked_up(raw: pl.DataFrame, questions: pl.DataFrame, keys: list[str]) -> pl.Series:
    """Position of the question with an answer's keys, Int64; null if there is none."""
    places = questions.select(keys).with_row_index("at").unique(keys, keep="last")
    rows = raw.select(keys).join(places, on=keys, how="left", maintain_order="left")
    return rows["at"].cast(pl.Int64)


def _about_labels(answers: pl.DataFrame, about: Suite | Dataset, read: RawAnswers) -> list[str]:
    """Notes where the questions label images in another way than the suite, and where the words are
    the labels, in all of more than ``_ALIKE``.
    """
    parts = []
    if isinstance(about, Suite):
        # criteria differ only in which images they cover
        for key in {key[1:]: key for key in about.keys if key[1] in answers["task"]}.values():
            cells = about.set(*key).cell_frame
            positive = pl.col("cell").str.ends_with("positive")
            parts.append(answers.join(cells, on=["image_id", "task"]).with_columns(truth=positive))
    notes, rows = (
        [],
        pl.concat(parts) if parts else answers.with_columns(truth=pl.col("label") == 1),
    )
    wrong = rows.filter((pl.col("label") == 1) != pl.col("truth"))
    if wrong.height:
        differ = [f"{row['task']} {row['image_id']}" for row in wrong.to_dicts()]
        text = f"{len(differ):,} labels of the questions differ from the suite's, which are used"
        notes.append(f"{text}: {some_of(differ)}")
    for name, truth in (("suite", "truth"), ("questions", pl.col("label") == 1)):
        labels = rows.select("yes", truth=truth).drop_nulls("truth")
        same = ((labels["yes"] == 1) == labels["truth"]) & labels["yes"].is_in([0.0, 1.0])
        if (
            len(labels) > _ALIKE
            and same.fill_null(value=False).all()
            and labels["truth"].n_unique() > 1
        ):
            text = f"warning: all {len(labels):,} answers (column {read.column}) are the labels"
            notes.append(f"{text} of the {name}: does this column have the model's answers?")
            break
    return notes


_ALIKE = 30


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
        "low": "yes and no have less than half of the probability, so the text is used",
        "void": "the text is neither yes nor no, although its first word is",
        "unread": "the text is neither yes nor no, so the probability is used",
        "differ": "text and probability disagree, and the probability is used",
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
        pl.col("weight", "available_share", "label").first(),
        pl.col("missing").mean(),
        split=(yes == 1).any() & (yes == 0).any(),
    )
    answered = groups.filter(pl.col("missing") < 1)
    notes, n = [], answered.height
    if n < answers.height:
        notes.append(f"{answers.height:,} answers are about {n:,} images and tasks")
    if split := groups["split"].sum():
        notes.append(f"{split:,} of {n:,} have both yes and no")
    unknown = answered.sort("image_id", "task").filter(pl.col("yes").is_null())["answer"]
    if len(unknown):
        texts = unknown.fill_null("").unique(maintain_order=True)
        such = some_of((repr(cell_text(printable(text.strip()), 60)) for text in texts), 3)
        notes.append(f"{len(unknown):,} of {n:,} answers are neither yes nor no ({rule}): {such}")
    return groups.drop("split").sort("image_id", "task"), notes
