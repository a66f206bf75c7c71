"""Files of captions, as models and benchmarks write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
import polars as pl

from nooch.base.calls import Progress, no_progress, options_from
from nooch.base.display import DisplayTable
from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.words import counted, plural
from nooch.base.yaml_files import read_yaml
from nooch.data import class_name, name_column
from nooch.data.table_files import file_records
from nooch.evaluation.answer_text import answer_span
from nooch.evaluation.context_rates import POOLED, ContextRates, headline, task_rates
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.scores import ComparedRuns
from nooch.suites import Suite

_IMAGE, _TEXT = ("image_id", "image", "file_name", "id"), ("caption", "text", "response", "answer")
_ALLOWED = f"records with one of {', '.join(_IMAGE)} and one of {', '.join(_TEXT)}"


@dataclass(frozen=True)
class ModelCaptions:
    """One model's captions.

    Attributes:
        run: name of the file, with its folder where several have that name.
        captions: ``image_id`` (of the suite), ``caption``.
        n_outside: captions of images that the suite does not have.
        n_cut: texts without a caption, such as reasoning that was cut off.
        matched: how images were matched, in words; empty where all are ids.
    """

    run: str
    captions: pl.DataFrame
    n_outside: int = 0
    n_cut: int = 0
    matched: str = ""


def read_captions(paths: Sequence[str | Path], suite: Suite) -> list[ModelCaptions]:
    """The captions of each file.

    JSON (an array, one record per line, or one after the other) or a table, with the image's id or
    file name and the text: COCO's results (``image_id, caption``), POPE's (``image_id, text``),
    AMBER's (``id, response``). Reasoning before a caption is left out. A file without images, but
    with ``question_id``, takes them from the other files, where they are given for these ids.
    """
    files = [(Path(path), file_records(path)) for path in paths]
    if len({path.absolute() for path, _ in files}) < len(files):
        raise InputError("a file of captions is given twice", allowed="each file once")
    images: dict[Any, Any] = {}
    for path, records in files:
        for record in records:
            key, image = record.get("question_id"), record.get("image_id")
            if key is not None and image is not None and images.setdefault(key, image) != image:
                raise InputError(
                    f"question {key} is about image {images[key]} here and {image} there",
                    where=path,
                    allowed="files of the same questions",
                )
    runs = [_read(path, records, images, suite) for path, records in files]
    stems = [run.run for run in runs]
    return [
        replace(run, run=str(path)) if stems.count(run.run) > 1 else run
        for run, (path, _) in zip(runs, files, strict=True)
    ]


def _read(
    path: Path, records: Sequence[Mapping[str, Any]], images: Mapping[Any, Any], suite: Suite
) -> ModelCaptions:
    if not records:
        raise InputError("holds no caption", where=path, allowed=_ALLOWED)
    text_field, image_field = (
        next((name for name in names if name in records[0]), None) for names in (_TEXT, _IMAGE)
    )
    by_question = image_field is None and "question_id" in records[0]
    if text_field is None or (image_field is None and not by_question):
        fields = some_of(sorted(records[0]), 8)
        raise InputError(f"record 1 has {fields}", where=path, allowed=_ALLOWED)
    texts = [record.get(text_field) for record in records]
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            problem = f"record {number} has no text as {text_field}"
            raise InputError(problem, where=path, allowed=_ALLOWED)
    names = [record.get(image_field or "question_id") for record in records]
    if by_question:
        if unknown := [question for question in names if images.get(question) is None]:
            raise InputError(
                f"the images of {len(unknown):,} questions are not known: {some_of(unknown)}",
                where=path,
                allowed="records with image_id, or question_id where another file has both",
                remedy="give a file of the same questions that has image_id, too",
            )
        names = [images[question] for question in names]
    matched = suite.match_names(name_column(names, path), path)
    said = pl.Series("caption", [_caption_text(str(text)) for text in texts], pl.String)
    captions = pl.DataFrame([matched.ids, said]).drop_nulls()
    if not captions.height:
        raise InputError("no caption is of an image of the suite", where=path)
    cut = int((said.is_null() & matched.ids.is_not_null()).sum())
    return ModelCaptions(path.stem, captions, matched.ids.null_count(), cut, matched.note)


def _caption_text(text: str) -> str | None:
    """The caption after a model's reasoning; None where there is reasoning alone."""
    span = answer_span(text)
    said = text[slice(*span)] if span else ""
    return said if said.strip() or not text.strip() else None


COCO = "coco"
"""Name of the vocabulary that ships with nooch: the 80 things of COCO."""

_WORD = re.compile(r"[^\W_]+")
_TOKEN = re.compile(r"[^\W_]+|[,.;:!?()\n—–]")
_END = re.compile(r"[.!?…]+[\"'”’)\]]*")
_MARKS = frozenset(",.;:!?()\n—–")

_NEGATIONS = tuple(
    tuple(text.split())
    for text in (
        "no", "without", "neither", "nor", "lacking", "not any", "not a", "not an", "t any", "t a",
        "t an", "free of", "absence of", "devoid of", "lack of", "none of",
    )
)  # fmt: skip
"""What denies the objects that follow; "t any" ends "isn't any"."""
_NO_NEGATIONS = {("no", "one"), ("no", "doubt"), ("nor", "is"), ("nor", "are")}
_ENDS = frozenset(
    [
        "on",
        "in",
        "at",
        "near",
        "by",
        "under",
        "behind",
        "along",
        "around",
        "with",
        "through",
        "across",
        "for",
        "to",
        "from",
        "inside",
        "outside",
        "above",
        "below",
        "against",
        "between",
        "but",
        "while",
        "although",
        "though",
        "that",
        "which",
        "who",
        "is",
        "are",
        "was",
        "were",
        "can",
        "as",
        "there",
        "it",
        "he",
        "she",
        "they",
    ]
)
"""Words after which a negation holds no more: "no people on a boat" denies people alone."""
_LIST = frozenset({"or", "nor", "and"})
_NEW = frozenset(["a", "an", "the", "one", "two", "three", "four", "several", "some", "many"])
_VOCABULARY = "class: [words, ...]; or mentions: {class: [words, ...]} and any of other, plurals"


@dataclass(frozen=True)
class Vocabulary:
    """Phrases of classes.

    Attributes:
        classes: names of the classes, as a dataset has them.
        phrases: first word -> (all words of a phrase, its class or None), longest first.
    """

    classes: tuple[str, ...]
    phrases: Mapping[str, Sequence[tuple[tuple[str, ...], str | None]]]

    @classmethod
    def of(
        cls,
        mentions: Mapping[str, Sequence[str]],
        other: Sequence[str] = (),
        *,
        plurals: bool = False,
    ) -> Self:
        """A vocabulary from the phrases of each class."""
        listed = [(phrase, class_name(name)) for name, some in mentions.items() for phrase in some]
        named: list[tuple[str, str | None]] = [*listed, *((phrase, None) for phrase in other)]
        owners: dict[tuple[str, ...], str | None] = {}
        for phrase, owner in named:
            for form in (phrase, plural(phrase)) if plurals else (phrase,):
                words = tuple(_words(form))
                if not words or owners.setdefault(words, owner) != owner:
                    problem = f"{form!r} stands for {owner} and {owners.get(words)}"
                    raise InputError(
                        problem if words else f"{phrase!r} has no word",
                        where="synonyms",
                        allowed="words, each of one class",
                    )
        phrases: dict[str, list[tuple[tuple[str, ...], str | None]]] = {}
        for words, owner in sorted(owners.items(), key=lambda item: -len(item[0])):
            phrases.setdefault(words[0], []).append((words, owner))
        return cls(tuple(dict.fromkeys(name for _, name in listed)), phrases)

    def mentions(self, text: str) -> Counter[str]:
        """How often a text says that each class is there; see ``read``."""
        return self.read(text)[0]

    def read(self, text: str) -> tuple[Counter[str], Counter[str]]:
        """How often a text mentions each class, and how often it denies it; whole words in any
        case.

        The longest phrase at each place counts, and its words are used up: "hot dog" is no dog. A
        mention after "no", "without", "not any", "free of" or "absence of" in the same clause is
        a denial: "a road with no cars or trucks" mentions neither.
        """
        tokens = _TOKEN.findall(text.lower())
        words = [(place, token) for place, token in enumerate(tokens) if token not in _MARKS]
        denied = _denied(tokens)
        at, found, without = 0, Counter[str](), Counter[str]()
        while at < len(words):
            step, (place, word) = 1, words[at]
            for phrase, owner in self.phrases.get(word, ()):
                if tuple(token for _, token in words[at : at + len(phrase)]) == phrase:
                    step = len(phrase)
                    if owner is not None:
                        (without if denied[place] else found)[owner] += 1
                    break
            at += step
        return found, without


def load_vocabulary(source: str | Path) -> Vocabulary:
    """The vocabulary ``coco``, or that of a YAML file.

    A file maps classes to lists of phrases, or has them below ``mentions``, with ``other`` (phrases
    to pass over) and ``plurals`` (true: plural forms are added) next to it.
    """
    path = Path(__file__).parent / "coco_mentions.yaml" if source == COCO else Path(source)
    content = read_yaml(path)
    try:
        listed = msgspec.convert(
            content if "mentions" in content else {"mentions": content}, _Synonyms, str_keys=True
        )
    except msgspec.ValidationError as error:
        problem = f"is no list of synonyms: {error}"
        raise InputError(problem, where=path, allowed=_VOCABULARY) from error
    return Vocabulary.of(listed.mentions, listed.other, plurals=listed.plurals)


class _Synonyms(msgspec.Struct, forbid_unknown_fields=True):
    mentions: Annotated[dict[str, list[str]], msgspec.Meta(min_length=1)]
    other: list[str] = []
    plurals: bool = False


def whole_sentences(text: str) -> str:
    """The text without a last sentence that has no end; all of it where no sentence ends."""
    ends = [found.end() for found in _END.finditer(text)]
    return text[: ends[-1]] if ends else text


def word_count(text: str) -> int:
    """The number of words of a text."""
    return len(_words(text))


def first_words(text: str, most: int) -> str:
    """The first words of a text, at most so many."""
    for number, found in enumerate(_WORD.finditer(text), 1):
        if number == most:
            return text[: found.end()]
    return text


def _denied(tokens: Sequence[str]) -> list[bool]:
    """Whether each word is denied by one before it in its clause."""
    denied, negated = [], False
    for at, one in enumerate(tokens):
        if any(tuple(tokens[at : at + len(n)]) == n for n in _NEGATIONS):
            negated = tuple(tokens[at : at + 2]) not in _NO_NEGATIONS
        elif one == ",":
            # a list goes on: "no cars, trucks, or buses"
            following = tokens[at + 1 : at + 5]
            negated &= bool(_LIST & {*following[:1]}) or any(
                mark in following[1:] for mark in (",", "or", "nor")
            )
        elif (
            one in _MARKS
            or one in _ENDS
            or (len(one) > 4 and one.endswith("ing"))
            or (one == "and" and _NEW & {*tokens[at + 1 : at + 2]})
        ):
            negated = False
        denied.append(negated)
    return denied


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


_SHOWN = (
    ("absent_% hard", "rate", "hard_negative", 100.0),
    ("absent_% easy", "rate", "easy_negative", 100.0),
    ("absent ratio", "ratio", "negative", 1.0),
    ("odds ratio", "odds_ratio", "negative", 1.0),
    ("recall_% hard", "rate", "hard_positive", 100.0),
    ("recall_% easy", "rate", "easy_positive", 100.0),
)
"""What is shown: title, measure, subset, factor."""


@dataclass(frozen=True)
class CaptionOptions:
    """What captions are scored on.

    Attributes:
        split: one or several; by default ``test``, or the only one.
        criteria: names; all of the suite's by default.
        tasks: names; by default those that have synonyms.
        synonyms: ``coco``, or a YAML file, see ``load_vocabulary``.
        bootstrap: resamples of the images, for intervals; 0 for Wilson's of the rates alone.
        seed: of the resamples.
        baseline: run that the others are compared with; the first by default.
        as_written: count mentions after "no" or "without" as mentions, and keep a last sentence
            that has no end, as studies before did.
    """

    split: str | Sequence[str] | None = None
    criteria: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    synonyms: str | Path = COCO
    bootstrap: int = 1000
    seed: int = 0
    baseline: str | None = None
    as_written: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class CaptionScores(ComparedRuns):
    """How often captions mention objects.

    Attributes:
        table: ``run, criterion, task`` (``pooled``: all tasks), ``measure`` (``rate`` of mentions;
            ``ratio`` of the rates and Mantel-Haenszel ``odds_ratio`` over tasks, hard to easy),
            ``subset`` (a cell, or a side: ``positive`` for recall, ``negative`` for mentions of
            absent objects), ``value, low, high, n, reason``. Besides, for each run, ``chair_i``
            (the share of mentions that are of absent objects) and ``chair_s`` (of captions with
            one), over the tasks (Rohrbach et al., EMNLP 2018); ``chair_i_equal`` and
            ``chair_s_equal``, where each caption of an image is cut to as many words as the
            shortest run's has; ``words``, the mean number of words; and ``denied``, mentions that
            are denied ("no cars"), which are no mentions, as a share of all.
        differences: the same, without CHAIR, for each run minus the baseline run, in columns ``run,
            baseline, ..., difference, low, high, n, reason``; of runs with captions of the same
            images.
        notes: what a reader should know, first a line that sums up each run and criterion.
    """

    @property
    def tables(self) -> list[DisplayTable]:
        """Pooled over tasks: recall, mentions of absent objects in percent, ratio, odds ratio; and
        differences from the baseline, if there are any; lengths and CHAIR.
        """
        tables = [_pooled("Mentions by context", self.table)]
        if self.differences.height:
            title = f"Differences from {self.differences['baseline'][0]}"
            tables.append(_pooled(title, self.differences.rename({"difference": "value"}), "+"))
        return [*tables, self._lengths]

    @property
    def _lengths(self) -> DisplayTable:
        """Length of captions, CHAIR, and denials of each run and criterion."""
        names = {"words": "words", "chair_i": "chair_i", "chair_s": "chair_s",
                 "chair_i_equal": "chair_i, equal length",
                 "chair_s_equal": "chair_s, equal length", "denied": "denied"}  # fmt: skip
        wide = self.table.filter(pl.col("measure").is_in([*names])).pivot(
            "measure", index=["run", "criterion"], values="value"
        )
        rows = wide.select("run", "criterion", *names).rows()
        return DisplayTable(
            "Lengths and CHAIR", ["run", "criterion", *names.values()], rows, left=2
        )

    @property
    def display(self) -> DisplayTable:
        """The first of ``tables``, with the notes."""
        return replace(self.tables[0], title="CaptionScores", notes=self.notes)


def _pooled(title: str, table: pl.DataFrame, sign: str = "") -> DisplayTable:
    """What is shown of the values that are pooled over tasks."""
    rows = []
    parts = table.filter(task=POOLED).group_by("run", "criterion", maintain_order=True)
    for names, part in parts:
        values = {(row["measure"], row["subset"]): row for row in part.iter_rows(named=True)}
        cells = (_cell(values[measure, of], scale, sign) for _, measure, of, scale in _SHOWN)
        rows.append([*names, *cells])
    return DisplayTable(title, ["run", "criterion", *(name for name, *_ in _SHOWN)], rows, left=2)


def _cell(row: Mapping[str, Any], scale: float, sign: str) -> str | None:
    """A value with its interval."""
    if row["value"] is None:
        return None
    value, low, high = (
        None if row[name] is None else f"{scale * row[name]:{sign}.1f}"
        for name in ("value", "low", "high")
    )
    return value if low is None else f"{value} [{low}, {high}]"


def score_captions(
    suite: Suite,
    captions: str | Path | Sequence[str | Path],
    *,
    options: CaptionOptions | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> CaptionScores:
    """Rates of mentions by side and subset: does a model mention objects because of the context?

    An image counts as often as its captions mention the task's object: 1, 0, or the share of its
    captions. Rates are pooled over images and tasks; images are resampled with all their captions.

    Args:
        suite: the suite.
        captions: one or several files, see ``read_captions``.
        options: see ``CaptionOptions``.
        progress: called with what is being done, and how many files are done.
        named: fields of ``CaptionOptions``, such as ``split`` and ``synonyms``.

    Raises:
        InputError: files of captions or synonyms that cannot be used.
        ParameterError: unknown criteria, tasks or splits, or tasks without synonyms.
    """
    chosen = options_from(CaptionOptions, options, named)
    vocabulary = load_vocabulary(chosen.synonyms)
    splits, notes = suite.splits_to_score(chosen.split), []
    keys = suite.select_keys(chosen.criteria or (), chosen.tasks or (), splits)
    tasks = list(dict.fromkeys(task for _, task, _ in keys))
    if lacking := [task for task in tasks if task not in vocabulary.classes]:
        if chosen.tasks is not None or len(lacking) == len(tasks):
            raise ParameterError(
                f"there are no synonyms for {some_of(lacking)}",
                where="`synonyms`",
                allowed=some_of(vocabulary.classes, 12),
                remedy="list them in a YAML file: task: [words, ...]",
            )
        left = f"{counted(len(lacking), 'task')} without synonyms left out"
        notes.append(f"{left}: {some_of(lacking)}")
        keys = tuple(key for key in keys if key[1] not in lacking)
    cells = {
        criterion: pl.concat(suite.set(*key).cell_frame for key in keys if key[0] == criterion)
        for criterion in dict.fromkeys(key[0] for key in keys)
    }
    paths = [captions] if isinstance(captions, str | Path) else list(captions)
    runs = read_captions(paths, suite)
    names = [run.run for run in runs]
    baseline = check_one_of("run", chosen.baseline or names[0], names, owner="the captions")
    if not chosen.as_written:
        runs = [_ended(run) for run in runs]
    cut = _equally_long(runs)
    tables, lines, rated = [], [], {}
    for done, run in enumerate(runs, 1):
        frame, of_run, rated[run.run] = _scores(run, cut[run.run], vocabulary, cells, chosen)
        tables.append(frame)
        lines += of_run
        progress("scoring captions", done, len(paths))
    differences, other = _differences(rated, baseline)
    settings = {name: getattr(chosen, name) for name in ("bootstrap", "seed")}
    settings |= {"baseline": baseline, "synonyms": str(chosen.synonyms), "splits": splits}
    return CaptionScores(pl.concat(tables), differences, [*lines, *other, *notes], settings)


Rated = dict[str, tuple[pl.DataFrame, dict[str, ContextRates]]]
"""Criterion -> ``image_id, task`` of what was captioned, and the rates of mentions by task."""


def _scores(
    run: ModelCaptions,
    cut: pl.DataFrame,
    vocabulary: Vocabulary,
    cells: Mapping[str, pl.DataFrame],
    chosen: CaptionOptions,
) -> tuple[pl.DataFrame, list[str], Rated]:
    """Rows of a run, its lines for the reader, and its rates; ``cut`` are its captions, cut."""
    captions = run.captions.with_row_index("number")
    said, denied = _said(captions, vocabulary, as_written=chosen.as_written)
    of_cut, _ = _said(cut.with_row_index("number"), vocabulary, as_written=chosen.as_written)
    rows, lines = [], []
    rated: Rated = {}
    if run.matched:
        lines.append(f"{run.run}: {run.matched}")
    if run.n_outside:
        lines.append(f"{run.run}: {run.n_outside:,} captions are of images that the suite lacks")
    if run.n_cut:
        lines.append(f"{run.run}: {counted(run.n_cut, 'text')} of reasoning alone left out")
    for criterion, known in cells.items():
        mentioned = _with_mentions(known, captions, said)
        if not mentioned.height:
            lines.append(f"{run.run}: no caption is of an image of {criterion}'s sets")
            continue
        rates = task_rates(mentioned, bootstrap=chosen.bootstrap, seed=chosen.seed)
        rated[criterion] = mentioned.select("image_id", "task"), rates
        if line := headline(rates[POOLED], "mentions"):
            lines.append(f"{run.run}, {criterion}: {line}")
        of_criterion = [
            of.frame().select(pl.lit(task).alias("task"), pl.all()) for task, of in rates.items()
        ]
        more = _chair(mentioned, said) + _chair(mentioned, of_cut, "_equal")
        more += _lengths(mentioned, captions, said, denied)
        of_criterion.append(pl.DataFrame(more, of_criterion[0].schema))
        names = pl.lit(run.run).alias("run"), pl.lit(criterion).alias("criterion")
        rows.append(pl.concat(of_criterion).select(*names, pl.all()))
    if not rows:
        raise InputError(
            "no caption is of an image of the sets that are scored",
            where=run.run,
            allowed="captions of the images of the scored split",
            remedy="score another split with `split`",
        )
    return pl.concat(rows), lines, rated


def _differences(rated: Mapping[str, Rated], baseline: str) -> tuple[pl.DataFrame, list[str]]:
    """Rows of each run minus the baseline, where images are the same, and notes."""
    rows, notes = [], []
    for run, of_run in rated.items():
        for criterion, (images, rates) in of_run.items():
            known, base = rated[baseline].get(criterion, (images[:0], rates))
            if not images.equals(known):
                pair = f"{run} and {baseline} have captions of different images"
                notes.append(f"{pair} of {criterion}'s sets: no differences")
                continue
            for task, of in rates.items():
                names = {"run": run, "baseline": baseline, "criterion": criterion, "task": task}
                columns = (pl.lit(name).alias(column) for column, name in names.items())
                rows.append(of.minus(base[task]).select(*columns, pl.all()))
    return pl.concat(rows).filter(pl.col("run") != baseline), notes


def _with_mentions(known: pl.DataFrame, captions: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """``image_id, task, cell`` of captioned images; ``captions``, how many an image has; ``yes``,
    the share of these that mention the task.
    """
    of_image = captions.group_by("image_id").agg(captions=pl.len())
    of_task = said.group_by("image_id", "task").agg(yes=pl.len())
    rows = known.join(of_image, on="image_id", maintain_order="left")
    rows = rows.join(of_task, on=["image_id", "task"], how="left", maintain_order="left")
    return rows.with_columns(pl.col("yes").fill_null(0) / pl.col("captions"))


def _ended(run: ModelCaptions) -> ModelCaptions:
    """The run's captions without sentences that were cut off."""
    texts = [whole_sentences(text) for text in run.captions["caption"]]
    return replace(
        run, captions=run.captions.with_columns(caption=pl.Series(texts, dtype=pl.String))
    )


def _equally_long(runs: Sequence[ModelCaptions]) -> dict[str, pl.DataFrame]:
    """Run -> its captions, each cut to the words of the shortest run's captions of the image."""
    lengths = [
        run.captions.with_columns(
            pl.col("caption").map_elements(word_count, return_dtype=pl.Int64).alias("words")
        )
        for run in runs
    ]
    ids = pl.concat(frame.select("image_id", "words") for frame in lengths)
    least = ids.group_by("image_id").agg(pl.col("words").min())
    return {
        run.run: run.captions.join(least, on="image_id", maintain_order="left").select(
            "image_id",
            pl.struct("caption", "words")
            .map_elements(
                lambda row: first_words(row["caption"], row["words"]) if row["words"] else "",
                return_dtype=pl.String,
            )
            .alias("caption"),
        )
        for run in runs
    }


def _said(
    captions: pl.DataFrame, vocabulary: Vocabulary, *, as_written: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Mentions and denials: the columns of captions, ``task, times``, a row for each class."""
    counts: tuple[list[Any], list[Any]] = ([], [])
    for number, text in captions.select("number", "caption").rows():
        found, denied = vocabulary.read(text)
        if as_written:
            found, denied = found + denied, denied - denied
        for rows, some in zip(counts, (found, denied), strict=True):
            rows += [(number, *pair) for pair in some.items()]
    schema = {"number": pl.get_index_type(), "task": pl.String, "times": pl.Int64}
    said, denials = (
        pl.DataFrame(rows, schema, orient="row").join(captions, on="number") for rows in counts
    )
    return said, denials


def _lengths(
    mentioned: pl.DataFrame, captions: pl.DataFrame, said: pl.DataFrame, denied: pl.DataFrame
) -> list[dict[str, Any]]:
    """Mean number of words, and the share of mentions that are denials, as rows of the table."""
    images = mentioned.select("image_id").unique()
    own = captions.join(images, on="image_id", how="semi")
    words = sum(map(word_count, own["caption"]))
    pairs = mentioned.select("image_id", "task")
    times = [
        part.join(pairs, on=["image_id", "task"])["times"].to_list() for part in (denied, said)
    ]
    common = {"task": POOLED, "subset": "all"}
    shares = (("words", words, len(own)), ("denied", sum(times[0]), sum(map(sum, times))))
    return [
        {**common, "measure": name, "n": n, "value": part / n}
        if n
        else {**common, "measure": name, "n": 0, "reason": "none"}
        for name, part, n in shares
    ]


def _chair(mentioned: pl.DataFrame, said: pl.DataFrame, ending: str = "") -> list[dict[str, Any]]:
    """CHAIR_i and CHAIR_s over the tasks whose labels are known, as rows of the table."""
    of = said.join(mentioned.select("image_id", "task", "cell"), on=["image_id", "task"])
    wrong = of.filter(pl.col("cell").str.ends_with("negative"))
    captions = mentioned.unique("image_id")["captions"]
    shares = (
        (f"chair_i{ending}", int(wrong["times"].sum()), int(of["times"].sum())),
        (f"chair_s{ending}", wrong["number"].n_unique(), int(captions.sum())),
    )
    common = {"task": POOLED, "subset": "all"}
    return [
        {**common, "measure": name, "n": n, "value": part / n}
        if n
        else {**common, "measure": name, "n": 0, "reason": "none"}
        for name, part, n in shares
    ]


def mentions(run: ModelCaptions, vocabulary: Vocabulary, tasks: Sequence[str]) -> Predictions:
    """The share of an image's captions that mention each task's object, as probabilities."""
    named = [task for task in tasks if task in vocabulary.classes]
    found = [vocabulary.mentions(text) for text in run.captions["caption"]]
    columns = [pl.Series(task, [task in one for one in found]) for task in named]
    said = run.captions.select("image_id", *columns)
    shares = said.group_by("image_id", maintain_order=True).mean()
    values = shares.drop("image_id").to_numpy().T
    return Predictions(run.run, shares["image_id"], tuple(named), values, "probability")
