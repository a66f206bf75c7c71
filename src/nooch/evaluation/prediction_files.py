"""Files, frames and arrays -> predictions: tables, arrays, detections; the one way to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from msgspec import Meta

from nooch.base.calls import Progress, checked, no_progress
from nooch.base.errors import InputError, ParameterError, giving, some_of
from nooch.data import Dataset
from nooch.data.box_columns import FORMATS
from nooch.data.image_names import UNTYPED
from nooch.data.table_files import as_polars, unpacked, unpacked_stem
from nooch.evaluation.answer_files import holds_answers
from nooch.evaluation.answer_rules import RULES
from nooch.evaluation.answer_sample import answers_as_predictions, fill_unanswered
from nooch.evaluation.answer_words import answer_words
from nooch.evaluation.answers import read_answers
from nooch.evaluation.boxes.detections import Found, with_undetected
from nooch.evaluation.boxes.files import (
    METRICS,
    image_metrics,
    json_detections,
    json_folder,
    json_folder_detections,
    table_detections,
    text_detections,
    text_folder,
)
from nooch.evaluation.listed_questions import parts_of_one
from nooch.evaluation.metrics import SCALES
from nooch.evaluation.prediction_format import UNKNOWN, FileFormat
from nooch.evaluation.prediction_tables import (
    ARRAY_ENDINGS,
    TABLES,
    array_predictions,
    checked_rows,
    read_prediction_table,
    runs_of,
    scale_of,
    table_predictions,
    with_numbers,
)
from nooch.evaluation.predictions import KnownImages, Predictions, as_known
from nooch.suites import Suite

PredictionSource = Any
"""A path, a polars or pandas frame, or Predictions; or a sequence or mapping (by run) of these."""


def read_predictions(
    source: PredictionSource,
    suite: Suite | None,
    data: Dataset | Callable[[], Dataset | None] | None,
    reading: Mapping[str, Any] | None,
    **more: Any,
) -> list[Predictions]:
    """``load_predictions`` for a function that takes its keywords as ``reading``."""
    with giving("reading", [*signature(load_predictions).parameters][3:]):
        return load_predictions(source, suite, data, **reading or {}, **more)


@checked
def load_predictions(
    source: PredictionSource,
    suite: Suite | None = None,
    data: Dataset | Callable[[], Dataset | None] | None = None,
    *,
    tasks: Sequence[str] | None = None,
    scale: Annotated[str, SCALES] | None = None,
    decimal: Annotated[str, (".", ",")] = ".",
    percent: bool = False,
    classes: str | Path | Sequence[str] | None = None,
    ids: object = None,
    first_class: Annotated[int, Meta(ge=0, le=1)] | None = None,
    box_format: Annotated[str, FORMATS] | None = None,
    ignore_unknown: bool = False,
    answers: str | None = None,
    questions: str | Path | None = None,
    rule: Annotated[str, RULES] | None = None,
    language: str = "en",
    unknown: Annotated[str, UNKNOWN] = "wrong",
    progress: Progress = no_progress,
) -> list[Predictions]:
    """All runs of all sources, each with a unique name.

    Args:
        source: see ``PredictionSource``; a file may also contain answers in words, see
            ``read_answers``. A file's runs are named by its column ``run``, else after method and
            seed, else after the file and seed; where names of ``run`` are repeated, after all
            three. A mapping names them: ``KEY``, or ``KEY/RUN`` if there are several.
        suite: what the predictions are for.
        data: the dataset that the suite was found in: images can have their file names, and those
            that are not in the suite are allowed; or what gives it, called only for such images.
        tasks: of a table without a column for them; by default the suite's, or the dataset's.
        scale: ``logit`` or ``probability``, where columns and values do not decide.
        decimal: decimal separator of text tables: ``.`` or ``,``.
        percent: values are percentages.
        classes: class names of an array's columns or of detections' categories: names, or a file
            with one per line, ``NUMBER NAME`` per line, a ``data.yaml`` of YOLO, a COCO file with
            ``categories``, JSON ``{"0": NAME}`` (also as ``id2label``); or ``coco``, its 80 names.
        first_class: number of the first class of detections, 0 or 1, if they are numbered without
            gaps in the order of ``classes``, or of the dataset's category ids; by default what
            ``classes`` or the dataset say, checked by the objects that boxes overlap.
        ids: image ids of an array's rows, or of all images that a detector was run on: ids, or a
            file with one per line.
        box_format: order of the numbers of detections' boxes, where their layout leaves it open or
            the file differs from it: ``xyxy`` (corners), ``xywh`` (left, top, width, height) or
            ``cxcywh`` (center, width, height).
        ignore_unknown: leave out predictions of unknown images and tasks.
        answers: column of the answers in words, where several could have them, such as
            ``prediction`` next to the true ``answer``.
        questions: file of the questions that answers in words refer to, such as the file
            of ``nooch.export``.
        rule: how answers become yes or no: ``tolerant`` by default, or the rule of a tool, such as
            ``pope`` or ``lmms-eval``.
        language: language of the answers: ``en``, ``de``, ``fr``, ``es``, ``pl``, or a YAML file of
            words.
        unknown: how to count answers that are neither yes nor no: ``wrong`` or ``skip``.
        progress: called with what is being done, and how many of how many sources are read.

    Raises:
        InputError: another layout, ids or values missing, the same image twice, values that are not
            finite, probabilities outside [0, 1], an unknown scale, unknown images, two runs of one
            name.
        ParameterError: an unknown option, or no predictions at all.

    Examples:
        >>> nooch.load_predictions("model.csv")
        [Predictions(model: 600 images, 1 task, logits)]
        >>> nooch.load_predictions({"mine": "model.csv"})[0].run
        'mine'
    """
    # an unknown language is refused before anything is read
    answer_words(language)
    images, how = (
        KnownImages(suite, data),
        FileFormat(scale, decimal, percent, classes, ids, box_format, first_class, tasks or ()),
    )
    known = images.classes if suite is None else suite.tasks
    tasks = list(dict.fromkeys([*known, *(tasks or ())]))
    ignore = ignore_unknown or (suite is not None and suite.header.hard_only)
    sources: list[tuple[str | None, Any]]
    if isinstance(source, Mapping):
        sources = [(str(name), part) for name, part in source.items()]
    elif isinstance(source, str) or hasattr(source, "__arrow_c_stream__"):
        sources = [(None, source)]
    elif isinstance(source, Sequence | Iterator | ValuesView):
        sources = [(None, part) for part in source]
    else:
        # an array is also a Sequence; reject it
        sources = [(None, source)]
    if not sources:
        raise ParameterError("no predictions were given", allowed="at least one run")
    stems = [Path(s).stem for _, s in sources if isinstance(s, str | Path)]
    parts = parts_of_one(sources) if suite is not None and suite.question_lists else {}
    sources = sources[:1] if parts else sources
    runs: list[Predictions] = []
    for done, (name, part) in enumerate(sources):
        progress("reading predictions", done, len(sources))
        # files of one name in different folders are distinguished by their folders
        whole = isinstance(part, str | Path) and stems.count(Path(part).stem) > 1
        label = name or (str(part) if whole else None)
        if isinstance(part, str | Path) and holds_answers(part):
            about = suite or images.data
            if about is None:
                raise InputError("contains answers in words, which need their suite", where=part)
            said = read_answers(
                parts or part,
                about,
                answers=answers,
                questions=questions,
                rule=rule,
                language=language,
                run=label,
                ignore_unknown=ignore,
            )
            of_part = [answers_as_predictions(said, unknown)]
        else:
            of_part, is_detected = _read(part, label, tasks, images, how)
            of_part = [_spelled(run, tasks) for run in of_part]
            endings = Path(part).suffixes if isinstance(part, str | Path) else []
            typed = not {ending.lower() for ending in endings} & {*UNTYPED, ".zip"}
            of_part = [images.match(run, ignore_unknown=ignore, typed=typed) for run in of_part]
            if is_detected:
                of_part = [
                    with_undetected(run, images=images, how=how, ignore_unknown=ignore)
                    for run in of_part
                ]
        runs += of_part if name is None else _renamed(of_part, name)
    counts = Counter(run.run for run in runs)
    if twice := sorted(run for run, count in counts.items() if count > 1):
        problem = f"runs occur more than once: {some_of(twice)}"
        raise InputError(
            problem, where="predictions", remedy="give each file a column run, or other names"
        )
    return fill_unanswered(runs, unknown=unknown)


def described(runs: Sequence[Predictions]) -> str:
    """Summary of what was read, in one line: runs, images, and what was recognized in the files."""
    ids = [run.image_ids for run in runs]
    n = pl.concat(column.cast(pl.String) for column in ids).n_unique()
    facts = [f"{len(runs):,} runs"] if len(runs) > 1 else []
    facts += [f"{n:,} images", *dict.fromkeys(run.read for run in runs if run.read)]
    return f"Predictions: {', '.join(facts)}"


def run_notes(runs: Sequence[Predictions]) -> list[str]:
    """Notes for readers of scores of these runs, a line each."""
    return [f"{run.run}: {text}" for run in runs for text in run.notes]


def _renamed(runs: Sequence[Predictions], name: str) -> list[Predictions]:
    if len(runs) == 1:
        return [replace(runs[0], run=name)]
    return [
        run if run.run.startswith(f"{name}/") else replace(run, run=f"{name}/{run.run}")
        for run in runs
    ]


def _read(
    source: Any, name: str | None, tasks: Sequence[str], images: KnownImages, how: FileFormat
) -> tuple[list[Predictions], bool]:
    """The runs of one source, and whether they are detections."""
    if isinstance(source, Predictions):
        return [source if name is None else replace(source, run=name)], False
    where = name or "predictions"
    layout: Found | tuple[pl.DataFrame, str]
    if isinstance(source, str | Path):
        path = Path(source)
        name, where = name or unpacked_stem(path), str(path)
        with unpacked(path) as file:
            if file != path:
                return _read(file, name, tasks, images, how)
        if path.suffix.lower() in ARRAY_ENDINGS:
            return array_predictions(path, name, tasks, how), False
        layout = _layout(path, how)
    else:
        name, layout = where, (_polars(source), "")
    notes = list[str]()
    if not isinstance(layout, Found):
        frame, note = images.one_column(with_numbers(layout[0], how), where)
        notes = [text for text in (layout[1], note) if text]
        boxes_of_table = table_detections(frame, where)
        if boxes_of_table is None:
            columns = {column.strip().lower() for column in frame.columns}
            if any(columns >= {*names} for names in METRICS):
                return [image_metrics(frame, name, where)], False
            of_table = table_predictions(frame, name, tasks, how, where)
            return [replace(run, notes=(*run.notes, *notes)) for run in of_table], False
        layout = boxes_of_table
    found, other = layout.with_one_name(images)
    boxes = found.resolved(tasks, images, how)
    boxes = replace(boxes, notes=(*boxes.notes, *filter(None, (*notes, other))))
    largest, _ = checked_rows(boxes.largest(tasks), "score", (), where)
    if boxes.rows.height:
        scale_of(boxes.rows["score"].to_numpy(), "score", how, where)
    return boxes.attached(runs_of(largest, name, "probability", where)), True


def _layout(path: Path, how: FileFormat) -> Found | tuple[pl.DataFrame, str]:
    """The detections of a file or folder; or its table, and a note."""
    if path.suffix.lower() == ".json":
        return json_detections(path, how)
    if (texts := text_folder(path)) is not None:
        return text_detections(texts)
    if (records := json_folder(path)) is not None:
        return json_folder_detections(records, how)
    return read_prediction_table(path), ""


def _spelled(run: Predictions, tasks: Sequence[str]) -> Predictions:
    """A run with its tasks spelled as known ones that differ only in case, ``_``, ``-``, spaces."""
    names = tuple(as_known(run.tasks, tasks))
    if names == run.tasks or len({*names}) < len(names):
        return run
    others = [f"{old} as {new}" for old, new in zip(run.tasks, names, strict=True) if old != new]
    return replace(run, tasks=names, notes=(*run.notes, f"classes are read {some_of(others)}"))


def _polars(source: Any) -> pl.DataFrame:
    """A frame, also of another library: pandas, or any that speaks Arrow."""
    frame = as_polars(source, None, TABLES)
    if frame is None:
        raise InputError(
            f"a {type(source).__name__} cannot be read as predictions",
            allowed="a path, a frame, or for arrays and tensors"
            " nooch.Predictions.from_arrays(values, image_ids, tasks, scale=...), and for boxes"
            " nooch.Predictions.from_boxes(image_ids, boxes, labels, scores)",
        )
    return frame
