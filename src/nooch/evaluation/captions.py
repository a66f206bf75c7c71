"""Files of captions, as models and benchmarks write them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
from msgspec import Meta

from nooch.base.calls import Progress, Seed, checked, no_progress
from nooch.base.display import DisplayTable
from nooch.base.errors import Command, InputError, ParameterError, some_of
from nooch.base.words import WORD, counted
from nooch.data import Dataset, ImageNames, as_dataset, name_column
from nooch.data.image_names import IMAGE_COLUMNS
from nooch.data.table_files import unpacked_stem
from nooch.data.table_schema import check_captions
from nooch.evaluation.answer_files import REPLIES, image_field, reply_field, reply_records
from nooch.evaluation.answer_rules import answer_span
from nooch.evaluation.answer_sample import answers_of_runs, fill_unanswered, said_as_predictions
from nooch.evaluation.bootstrap import RESAMPLES
from nooch.evaluation.context_changes import baseline_of, changes_tables, context_changes
from nooch.evaluation.context_rates import Estimate
from nooch.evaluation.evaluate import evaluate
from nooch.evaluation.metrics import ANSWER_METRICS
from nooch.evaluation.prediction_files import run_notes
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.scores import Scores
from nooch.evaluation.vocabulary import Vocabulary, load_vocabulary
from nooch.suites import Suite, as_suite

_ALLOWED = f"records with one of {', '.join(IMAGE_COLUMNS[:5])} and one of {', '.join(REPLIES)}"


@dataclass(frozen=True)
class ModelCaptions:
    """One model's captions.

    Attributes:
        run: name of the file, with its folder where several have that name.
        captions: ``image_id`` (of the suite), ``caption``.
        unread: ids of images with a text that has no caption, such as reasoning that was cut off.
        notes: how images were matched, and what was left out, a line each.
    """

    run: str
    captions: pl.DataFrame
    unread: pl.Series = field(default_factory=lambda: pl.Series("image_id", [], pl.Int64))
    notes: Sequence[str] = ()


def read_captions(
    paths: Sequence[str | Path], suite: Suite | ImageNames, answers: str | None = None
) -> list[ModelCaptions]:
    """The captions of each file, of a suite's images or others that are known; ``answers``: the
    field of the model's words, where several could have them.

    JSON (an array, one record per line, or one after the other) or a table, with the image's id or
    file name and the text: COCO's results (``image_id, caption``), POPE's (``image_id, text``),
    AMBER's (``id, response``). Reasoning before a caption is left out. A file without images, but
    with ``question_id``, takes them from the other files, if they are given for these ids.
    """
    files = [(Path(path), reply_records(path)) for path in paths]
    if len({path.absolute() for path, _ in files}) < len(files):
        raise InputError("a file of captions is given twice", allowed="each file once")
    images: dict[Any, Any] = {}
    for path, records in files:
        for record in records:
            key, image = record.get("question_id"), record.get("image_id")
            if key is not None and image is not None and images.setdefault(key, image) != image:
                problem = f"question {key} is about image {images[key]} here and {image} there"
                raise InputError(problem, where=path, allowed="files of the same questions")
    runs = [_read(path, records, images, suite, answers) for path, records in files]
    return [replace(run, run=name) for run, name in zip(runs, _runs(paths), strict=True)]


def _runs(paths: Sequence[str | Path]) -> dict[str, list[Path]]:
    """Name of a run -> its file: the file's, with its folder where several have that name."""
    stems = [unpacked_stem(Path(path)) for path in paths]
    return {
        str(path) if stems.count(stem) > 1 else stem: [Path(path).absolute()]
        for path, stem in zip(paths, stems, strict=True)
    }


def _known_images(suite: Suite | ImageNames) -> tuple[ImageNames, Any, str]:
    """The names of images, what matches others with them, and whose they are."""
    if isinstance(suite, ImageNames):
        return suite, suite.match, "dataset"
    return suite.image_names(), suite.match_names, "suite"


def _refuse_answers(texts: Sequence[Any], field: str, path: Path) -> None:
    """Raise InputError where most texts are only yes or no, and not called captions."""
    plain = [str(text).strip(" .!\"'").casefold() in {"yes", "no"} for text in texts]
    if field != "caption" and 2 * sum(plain) > len(texts):
        problem = "contains answers yes and no, not captions"
        raise InputError(problem, where=path, give=Command("evaluate", predictions=str(path)))


def _read(
    path: Path,
    records: Sequence[Mapping[str, Any]],
    images: Mapping[Any, Any],
    suite: Suite | ImageNames,
    answers: str | None,
) -> ModelCaptions:
    known_names, match, owner = _known_images(suite)
    once = list({msgspec.json.encode(record): record for record in records}.values())
    repeated, records = len(records) - len(once), once
    text_field = reply_field(records, path, answers)
    image, note = image_field(records, path, known_names)
    by_question = image is None and "question_id" in records[0]
    if text_field is None or (image is None and not by_question):
        fields = some_of(sorted(records[0]), 8)
        raise InputError(f"record 1 has {fields}", where=path, allowed=_ALLOWED)
    texts = [record.get(text_field) for record in records]
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            problem = f"record {number} has no text in {text_field}"
            raise InputError(problem, where=path, allowed=_ALLOWED)
    _refuse_answers(texts, text_field, path)
    names = [record.get(image or "question_id") for record in records]
    if by_question:
        if unknown := [question for question in names if images.get(question) is None]:
            raise InputError(
                f"the images of {len(unknown):,} questions are not known: {some_of(unknown)}",
                where=path,
                allowed="records with image_id, or question_id where another file has both",
                remedy="give a file of the same questions that also has image_id",
            )
        names = [images[question] for question in names]
    matched = match(name_column(names, path), path, strict=True)
    said = pl.Series("caption", [_caption_text(str(text)) for text in texts], pl.String)
    known = pl.DataFrame([matched.ids, said]).drop_nulls(matched.ids.name)
    captions, unread = known.drop_nulls(), known.filter(pl.col("caption").is_null())
    if not captions.height:
        such = some_of(known_names.ids.cast(pl.String).head(3).to_list())
        raise InputError(
            f"no caption is of an image of the {owner}",
            where=path,
            allowed=f"ids or file names of its images, such as {such}",
            remedy=f"name the {owner} of these images, or give the records the {owner}'s ids",
        )
    notes = [f"captions are column {text_field}", *filter(None, (note, matched.note))]
    if repeated:
        notes.append(f"{repeated:,} captions occur twice, with equal fields, and count once")
    if outside := matched.ids.null_count():
        notes.append(f"{outside:,} captions belong to images that are not in the {owner}")
    if unread.height:
        empty = counted(unread.height, "text")
        notes.append(f"{empty} without an answer (or only reasoning), counted as unknown")
    return ModelCaptions(unpacked_stem(path), captions, unread[matched.ids.name].unique(), notes)


def _caption_text(text: str) -> str | None:
    """The caption after a model's reasoning; None if there is none."""
    span = answer_span(text)
    said = text[slice(*span)] if span else ""
    return said if said.strip() else None


def captioned(data: Dataset, captions: Sequence[str | Path]) -> Dataset:
    """The dataset with captions from files, see ``read_captions``, or from a column; as it is if
    none are named. Raises InputError and ParameterError.
    """
    if not captions:
        return data
    of_text = [name for name in data.attributes if data.images[name].dtype == pl.String]
    columns = [name for name in captions if str(name) in of_text]
    files = [name for name in captions if name not in columns]
    if missing := [name for name in files if not Path(name).exists()]:
        problem = f"{some_of(missing)} is neither a file nor a column of text"
        allowed = f"columns of text: {some_of(of_text) or 'none'}"
        raise ParameterError(problem, where="`captions`", allowed=allowed)
    if both := [name for name in columns if Path(name).exists()]:
        problem = f"{some_of(both)} is a column of the dataset, and a file"
        remedy = "for the file, write ./ before its name; for the column, rename the file"
        raise ParameterError(problem, where="`captions`", remedy=remedy)
    texts = [data.images.select("image_id", caption=str(name)) for name in columns]
    names = ImageNames.from_images(data.images)
    texts += [run.captions for run in (read_captions(files, names) if files else ())]
    return replace(data, captions=check_captions(pl.concat(texts), data.images))


_END = re.compile(r"[.!?…]+[\"'”’)\]]*")


def whole_sentences(text: str) -> str:
    """The text without a last sentence that has no end; all of it where no sentence ends."""
    ends = [match.end() for match in _END.finditer(text)]
    return text[: ends[-1]] if ends else text


def word_count(text: str) -> int:
    """The number of words of a text."""
    return len(WORD.findall(text))


def first_words(text: str, most: int) -> str:
    """The first words of a text, at most so many."""
    ends = [0, *(match.end() for match in WORD.finditer(text))]
    return text[: ends[most]] if most < len(ends) else text


_SHOWN = (
    ("absent_% hard", "rate", "hard_negative", 100.0),
    ("absent_% easy", "rate", "easy_negative", 100.0),
    ("absent ratio", "ratio", "negative", 1.0),
    ("odds ratio", "odds_ratio", "negative", 1.0),
    ("recall_% hard", "rate", "hard_positive", 100.0),
    ("recall_% easy", "rate", "easy_positive", 100.0),
    ("macro recall_%", "macro_recall", "positive", 100.0),
)
"""Displayed rows: title, measure, subset, factor."""
POOLED = "pooled"
"""The task that stands for all tasks together."""
_LENGTHS = {
    "words": "words",
    "mentions_i": "mentions_i",
    "mentions_s": "mentions_s",
    "mentions_i_equal": "mentions_i, equal length",
    "mentions_s_equal": "mentions_s, equal length",
    "denied": "denied",
    "chair_i": "CHAIR_i",
    "chair_s": "CHAIR_s",
}


@dataclass(frozen=True, eq=False, repr=False)
class CaptionScores(Scores):
    """Mentions of objects in captions: scores of mentions as answers, and CHAIR.

    Attributes:
        table: as of ``Scores``; an image has a yes where more than half of its captions mention
            the task's object. Besides, for each run and criterion, as task ``pooled``, over all
            images, tasks and splits: metric ``rate``, the mean share of an image's captions with a
            mention, by subset; ``ratio`` of the rates and Mantel-Haenszel ``odds_ratio`` over
            tasks, hard to easy, by side (``positive`` for recall, ``negative`` for mentions of
            absent objects); ``macro_recall`` of subset ``positive``, the mean over tasks of the
            rate; and of subset ``all`` ``mentions_i`` (the share of mentions that are of
            absent objects) and ``mentions_s`` (of captions with one); ``mentions_i_equal`` and
            ``mentions_s_equal``, where each caption of an image is cut to as many words as the
            shortest run's has; ``words``, the mean number of words; ``denied``, mentions that are
            denied ("no cars"), which are not mentions, as a share of all; and, of synonyms in
            CHAIR's layout, ``chair_i`` and ``chair_s`` (Rohrbach et al., EMNLP 2018): over all
            classes of the synonyms, an object is there if a label or a reference caption has it,
            and every word counts.
        differences: as of ``Scores``. An image that another run has a caption of is unknown here.
    """

    @property
    def tables(self) -> list[DisplayTable]:
        """Mentions by context, pooled over tasks: of absent objects, and recall; lengths, CHAIR."""
        names = ["run", "criterion"]
        of_contexts = [
            [
                *key,
                *(_cell(rates.estimates[measure, key], scale) for _, measure, key, scale in _SHOWN),
            ]
            for key, rates in self.contexts.items()
        ]
        wide = self.table.filter(pl.col("metric").is_in([*_LENGTHS])).pivot(
            "metric", index=names, values="value"
        )
        columns = [*names, *(title for title, *_ in _SHOWN)]
        shown = {name: title for name, title in _LENGTHS.items() if name in wide.columns}
        lengths = wide.select(*names, *shown).rows()
        return [
            DisplayTable("Mentions by context", columns, of_contexts, left=2),
            DisplayTable("Absent mentions", [*names, *shown.values()], lengths, left=2),
            *changes_tables(self.changes),
        ]

    _verb = "mentions"

    @property
    def display(self) -> DisplayTable:
        """The first of ``tables``, with the notes."""
        notes = [*self.headlines, *self.notes]
        return replace(self.tables[0], title="CaptionScores", notes=notes)


def _cell(estimate: Estimate, scale: float) -> str | None:
    """A value with its interval."""
    value, low, high = (
        None if bound is None else f"{scale * bound:.1f}"
        for bound in (estimate.value, estimate.low, estimate.high)
    )
    return value if low is None else f"{value} [{low}, {high}]"


@checked
def score_captions(
    suite: Suite | str | Path,
    captions: str | Path | Sequence[str | Path],
    *,
    split: str | Sequence[str] | None = None,
    criteria: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    answers: str | None = None,
    synonyms: str | Path | None = None,
    bootstrap: Annotated[int, Meta(ge=0)] = RESAMPLES,
    seed: Seed = 0,
    baseline: str | Path | None = None,
    fail_if: Sequence[str] = (),
    as_written: bool = False,
    data: Dataset | str | Path | None = None,
    group: str | None = None,
    progress: Progress = no_progress,
) -> CaptionScores:
    """Rates of mentions by side and subset: does a model mention objects because of the context?

    An image counts as often as its captions mention the task's object: 1, 0, or the share of its
    captions. Rates are pooled over images and tasks; images are resampled with all their captions.

    Args:
        suite: the suite.
        captions: one or several files, see ``read_captions``.
        split: one or several splits; by default ``test``, or the only one.
        criteria: names of criteria; by default all of the suite.
        tasks: names of tasks; by default all that have synonyms.
        answers: column of the model's captions, where several could be, such as ``prediction`` next
            to a reference ``caption``.
        synonyms: words by which captions mention a task: ``coco``, ``names`` (only the task's
            name), a YAML file of words by task, or a .txt in the layout of CHAIR's synonyms.txt,
            which also computes CHAIR; by default ``coco``, and ``names`` for ``nooch-amber``.
        bootstrap: resamples of the images, for intervals; 0 for only score intervals.
        seed: seed of the resamples.
        baseline: run that the others are compared with, or its file; the first by default. One that
            is given is judged only by conditions that name it.
        fail_if: conditions on the scores of mentions as answers, as for ``nooch.evaluate``.
        as_written: count mentions after "no" or "without" as mentions, and keep an unfinished last
            sentence, as earlier studies did.
        data: the dataset, or its folder, whose labels and reference captions CHAIR is of, and for
            ``group``; by default the suite's.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the suite's.
        progress: called with what is being done, and how many of how many tasks are done.

    Raises:
        InputError: files of captions or synonyms that cannot be used, a dataset without any of
            their images.
        ParameterError: unknown criteria, tasks or splits, or tasks without synonyms.
    """
    suite = as_suite(suite, group, data)
    synonyms = suite.words if synonyms is None else synonyms
    vocabulary = load_vocabulary(synonyms, suite.tasks)
    splits, notes = suite.splits_to_score(split), suite.unit_notes
    keys = suite.select_keys(criteria or (), tasks or (), splits)
    task_names = list(dict.fromkeys(task for _, task, _ in keys))
    if lacking := [task for task in task_names if task not in vocabulary.classes]:
        if tasks is not None or len(lacking) == len(task_names):
            problem = f"there are no synonyms for {some_of(lacking)}"
            raise ParameterError(
                problem, remedy="{}, a YAML file: task: [words, ...]", give={"synonyms": ...}
            )
        left = f"{counted(len(lacking), 'task')} without synonyms left out"
        notes.append(f"{left}: {some_of(lacking)}")
        keys = tuple(key for key in keys if key[1] not in lacking)
        task_names = [task for task in task_names if task not in lacking]
    paths = _with_baseline(captions, baseline)
    given = read_captions(paths, suite, answers)
    runs = [_in_sets(run, suite.image_ids(keys), as_written) for run in given]
    first = baseline_of(baseline, _runs(paths), "the captions")
    runs.sort(key=lambda run: run.run != first)
    said = [_said(run.captions, vocabulary, as_written) for run in runs]
    asked = fill_unanswered(
        [_predictions(run, own, task_names) for run, (own, _) in zip(runs, said, strict=True)]
    )
    scores = evaluate(
        suite,
        asked,
        split=splits,
        criteria=criteria,
        tasks=task_names,
        metrics=ANSWER_METRICS,
        bootstrap=bootstrap,
        seed=seed,
        baseline=None if baseline is None else first,
        fail_if=fail_if,
        reading={"ignore_unknown": True},
        progress=progress,
    )
    images, every = asked[0].image_ids, suite.image_ids(keys)
    if len(images) < len(every):
        part = f"{len(images):,} of {len(every):,} images of the sets have a caption"
        notes.append(f"{part}: scores are of these")
    notes += run_notes(asked)
    reference, missing = _reference(suite, vocabulary, data)
    notes += missing
    whole = {run.run: run.captions for run in given}
    tables = [scores.table]
    for run, (own, denied), cut in zip(runs, said, equally_long(runs), strict=True):
        notes += [f"{run.run}: {note}" for note in run.notes]
        shorter = (
            own
            if cut.captions.equals(run.captions)
            else _said(cut.captions, vocabulary, as_written)[0]
        )
        for criterion in suite.criteria:
            if (run.run, criterion) in scores.contexts:
                cells = suite.cells(key for key in keys if key[0] == criterion)
                shares = _lengths(cells, images, run.captions, own, denied, shorter)
                if reference is not None:
                    ids = images.filter(images.is_in(cells["image_id"].implode()))
                    shares |= _chair(ids, whole[run.run], vocabulary, reference)
                lengths = _shares_table(shares)
                rates = scores.contexts[run.run, criterion].frame().rename({"measure": "metric"})
                run_criterion = {"run": run.run, "criterion": criterion, "task": POOLED}
                rows = pl.concat([rates, lengths], how="diagonal")
                tables.append(
                    rows.select(*(pl.lit(v).alias(k) for k, v in run_criterion.items()), pl.all())
                )
    notes.append(f"captions mention a task by the words of {synonyms} (`synonyms`)")
    changes = [*scores.changes]
    for run in runs[1:]:
        pair = [
            _predictions(cut, _said(cut.captions, vocabulary, as_written)[0], task_names)
            for cut in equally_long([runs[0], run])
        ]
        answered = answers_of_runs(fill_unanswered(pair), suite, keys, {})
        changes += context_changes(answered, runs[0].run, equal_length=True)
    return CaptionScores(
        pl.concat(tables, how="diagonal"),
        scores.differences,
        notes,
        {**scores.settings, "synonyms": str(synonyms), "splits": splits},
        scores.verdicts,
        contexts=scores.contexts,
        changes=changes,
    )


def _with_baseline(
    captions: str | Path | Sequence[str | Path], baseline: str | Path | None
) -> Sequence[str | Path]:
    paths = [captions] if isinstance(captions, str | Path) else list(captions)
    of_another = baseline_of(baseline, _runs(paths), "the captions") is None
    return [baseline, *paths] if baseline and of_another else paths


def _in_sets(run: ModelCaptions, ids: pl.Series, as_written: bool) -> ModelCaptions:
    """The captions of these images, ``finished`` unless as written."""
    captions = run.captions.filter(pl.col("image_id").is_in(ids.implode()))
    unread = run.unread.filter(run.unread.is_in(ids.implode()))
    if not captions.height:
        problem = "no caption is of an image of the sets that are scored"
        raise InputError(problem, where=run.run, give={"split": ...})
    run = replace(run, captions=captions, unread=unread)
    return run if as_written else finished(run)


def finished(run: ModelCaptions) -> ModelCaptions:
    """The captions without a last sentence that was cut off, as they are scored."""
    texts = pl.Series(map(whole_sentences, run.captions["caption"]), dtype=pl.String)
    return replace(run, captions=run.captions.with_columns(caption=texts))


def equally_long(runs: Sequence[ModelCaptions]) -> list[ModelCaptions]:
    """Runs with each caption cut to the words of the shortest run's captions of the image."""
    least: dict[Any, int] = {}
    for run in runs:
        for image, text in run.captions.iter_rows():
            least[image] = min(word_count(text), least.get(image, sys.maxsize))
    cut = (
        [first_words(text, least[image]) for image, text in run.captions.iter_rows()]
        for run in runs
    )
    return [
        replace(run, captions=run.captions.with_columns(caption=pl.Series(texts, dtype=pl.String)))
        for run, texts in zip(runs, cut, strict=True)
    ]


def _said(
    captions: pl.DataFrame, vocabulary: Vocabulary, as_written: bool = False
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Mentions and denials: ``number, task, times, image_id, caption``, a row for each class of a
    caption.
    """
    counts: tuple[list[Any], list[Any]] = ([], [])
    for number, text in enumerate(captions["caption"]):
        both = (vocabulary.named(text), Counter()) if as_written else vocabulary.read(text)
        for rows, some in zip(counts, both, strict=True):
            rows += [(number, *pair) for pair in some.items()]
    schema = pl.Schema({"number": pl.Int64, "task": pl.String, "times": pl.Int64})
    numbered = captions.with_row_index("number").cast({"number": pl.Int64})
    said, denials = (
        pl.DataFrame(rows, schema, orient="row").join(numbered, on="number") for rows in counts
    )
    return said, denials


def _lengths(
    cells: pl.DataFrame,
    images: pl.Series,
    captions: pl.DataFrame,
    said: pl.DataFrame,
    denied: pl.DataFrame,
    shorter: pl.DataFrame,
) -> _Shares:
    """Mean number of words, share of denials, and absent mentions over the tasks whose labels are
    known, of whole captions and of captions of equal length.
    """
    own = captions.join(cells, on="image_id", how="semi")
    n_images = images.is_in(cells["image_id"].implode()).sum()
    missing = int(n_images) - own["image_id"].n_unique()
    said_cells, denials = (frame.join(cells, on=["image_id", "task"]) for frame in (said, denied))
    n_denied = int(denials["times"].sum())
    shares = {
        "words": (sum(map(word_count, own["caption"])), own.height),
        "denied": (n_denied, n_denied + int(said_cells["times"].sum())),
    }
    for ending, part in (("", said), ("_equal", shorter)):
        frame = part.join(cells, on=["image_id", "task"])
        wrong = frame.filter(pl.col("cell").str.ends_with("negative"))
        of_mentions, of_captions = _absent(frame, wrong, own.height, missing)
        shares |= {f"mentions_i{ending}": of_mentions, f"mentions_s{ending}": of_captions}
    return shares


def _absent(
    said: pl.DataFrame, wrong: pl.DataFrame, n_captions: int, missing: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Mentions of absent objects and all, captions with one and all. An image without a caption
    counts as one with as many mentions as any has, all of absent objects.
    """
    of_each = said.group_by("number").agg(pl.col("times").sum())["times"]
    more = missing * max([1, *of_each])
    absent, every = (int(some["times"].sum()) + more for some in (wrong, said))
    return (absent, every), (wrong["number"].n_unique() + missing, n_captions + missing)


def _reference(
    suite: Suite, vocabulary: Vocabulary, data: Dataset | str | Path | None
) -> tuple[Dataset | None, list[str]]:
    """The dataset that CHAIR is of; None, with a note, where it has no reference captions."""
    if not vocabulary.of_chair:
        return None, []
    reference = suite.source_dataset() if data is None else as_dataset(data)
    if reference is None or reference.captions is None:
        return None, ["CHAIR is not computed: it needs `data`, a dataset with reference captions"]
    return reference, []


def _chair(
    images: pl.Series, captions: pl.DataFrame, vocabulary: Vocabulary, data: Dataset
) -> _Shares:
    """``chair_i`` and ``chair_s`` (Rohrbach et al., 2018) of the images by ``image_id, caption``;
    mentions whose label is unknown do not count.
    """
    ids = data.images["image_id"]
    some = data.select(rows=ids.is_in(images.cast(ids.dtype, strict=False).implode()).to_numpy())
    ids, labels = some.images["image_id"], []
    for task in set(vocabulary.classes) & set(some.classes):
        unknown = some.unknown_labels(task)
        label = pl.Series(some.labels(task, unknown=False))
        table = pl.DataFrame({"image_id": ids, "there": label, "task": task})
        labels.append(table if unknown is None else table.filter(~unknown))
    own = captions.cast({"image_id": ids.dtype}, strict=False).join(
        ids.to_frame(), on="image_id", how="semi"
    )
    if not labels or not own.height or some.captions is None:
        problem = "has none of the images of the captions, or none of the classes of the synonyms"
        raise InputError(problem, where="`data`", allowed="the suite's dataset")
    said, _ = _said(own, vocabulary, as_written=True)
    referred = _said(some.captions, vocabulary, as_written=True)[0].select("image_id", "task")
    referred = referred.unique().with_columns(referred=True)
    pairs = said.join(pl.concat(labels), on=["image_id", "task"])
    pairs = pairs.join(referred, on=["image_id", "task"], how="left")
    wrong = pairs.filter(~pl.col("there") & pl.col("referred").is_null())
    missing = len(some) - own["image_id"].n_unique()
    of_mentions, of_captions = _absent(pairs, wrong, own.height, missing)
    return {"chair_i": of_mentions, "chair_s": of_captions}


_Shares = dict[str, tuple[int, int]]
"""Measure -> (sum, what it is divided by)."""


def _shares_table(shares: _Shares) -> pl.DataFrame:
    """``metric, subset, value, n, reason``."""
    rows = [
        (name, "all", part / n if n else None, n, None if n else "none")
        for name, (part, n) in shares.items()
    ]
    schema = {"metric": pl.String, "subset": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, {**schema, "n": pl.Int64, "reason": pl.String}, orient="row")


def mentions(run: ModelCaptions, vocabulary: Vocabulary, tasks: Sequence[str]) -> Predictions:
    """The share of an image's captions that mention each task's object, as probabilities."""
    mentioned_tasks = [task for task in tasks if task in vocabulary.classes]
    return _predictions(run, _said(run.captions, vocabulary)[0], mentioned_tasks)


def _predictions(run: ModelCaptions, said: pl.DataFrame, tasks: Sequence[str]) -> Predictions:
    lengths = pl.Series("words", [*map(word_count, run.captions["caption"])], pl.Float64)
    by_image = run.captions.with_columns(lengths).group_by("image_id", maintain_order=True)
    images = by_image.agg(captions=pl.len(), words=pl.col("words").mean())
    unread = pl.DataFrame({"image_id": run.unread.cast(images["image_id"].dtype)})
    images = images.join(unread, on="image_id", how="full", coalesce=True)
    of_task = said.group_by("image_id", "task").agg(yes=pl.len())
    pairs = pl.DataFrame({"task": tasks}, {"task": pl.String}).join(images, how="cross")
    pairs = pairs.join(of_task, on=["image_id", "task"], how="left", maintain_order="left")
    unknown = pl.col("image_id").is_in(run.unread.implode())
    share = pl.when(~unknown).then(pl.col("yes").fill_null(0) / pl.col("captions"))
    said = pairs.select(
        "image_id", "task", "words",
        value=share, weight=1.0, unknown=unknown, skipped=pl.lit(value=False),
    )  # fmt: skip
    return said_as_predictions(run.run, said, in_words=False)
