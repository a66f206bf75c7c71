"""Files, frames and arrays -> predictions: tables, arrays, detections; the one way to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from nooch.base.calls import Progress, checked, no_progress
from nooch.base.errors import Give, InputError, ParameterError, giving, some_of, unreadable
from nooch.base.words import counted_are, plural
from nooch.data import Dataset, class_name, id_column, read_arrays, read_table
from nooch.data.arrays import float_array
from nooch.data.box_columns import FORMATS
from nooch.data.image_names import IMAGE_COLUMNS, UNTYPED
from nooch.data.table_files import as_numbers, as_polars, checked_read, table_files
from nooch.data.table_schema import CLASS_COLUMNS
from nooch.evaluation.answer_files import holds_answers
from nooch.evaluation.answer_rules import RULES
from nooch.evaluation.answer_sample import answers_as_predictions, asked_alike
from nooch.evaluation.answer_words import answer_words
from nooch.evaluation.answers import read_answers
from nooch.evaluation.boxes.files import (
    json_detections,
    json_folder,
    json_folder_detections,
    table_detections,
    text_detections,
    text_folder,
)
from nooch.evaluation.boxes.found import RUN_KEYS, Found, with_undetected
from nooch.evaluation.metrics import SCALES
from nooch.evaluation.prediction_format import UNKNOWN, FileFormat
from nooch.evaluation.predictions import (
    KnownImages,
    Predictions,
    as_known,
    check_values,
    positions,
)
from nooch.suites import Suite

_ALIASES = {
    "image_id": IMAGE_COLUMNS,
    "task": ("task", *CLASS_COLUMNS),
    "value": (*SCALES, "prob", "score", "confidence", "conf"),
}
"""Names that a column can have; the first one, or the names of ``SCALES``, take precedence."""

_ANSWERS = {"pred", "prediction", "predicted"}
_ANSWERS |= {f"{form}_{what}" for form in ("pred", "predicted") for what in ("class", "label")}
"""Names of a column of text with one class for each image, the model's answer."""

_CONFIDENCES = {"conf", "score", "confidence"}
"""Names of a column that can be the confidence of one class, where each image has one row."""

_SCALE_OF = {"logit": "logit", "logits": "logit"}
_SCALE_OF |= dict.fromkeys(("probability", "probabilities", "prob"), "probability")
_BLANK = ' \t"'
_LONG = f"long: image_id, task, logit or probability, and any of {', '.join(RUN_KEYS)}, label"
_WIDE = "wide: image_id and a column for each task"
_ONE_EACH = "one class for each image: image_id and pred"
_KINDS: dict[str, Any] = dict.fromkeys(("task", "run", "method"), pl.String)
_KINDS |= {"value": pl.Float64, "seed": pl.Int64, "image_id": None, "label": None}
"""Columns of a long table, and the types of most."""

_HALF: tuple[str, pl.DataType] = ("value", pl.Float32())
"""Kept: 100 runs of 171 tasks and 24,657 images fill 1.7 GB, and 3.4 GB as float64."""

TABLES = f"{_LONG}; or {_WIDE}; or {_ONE_EACH}"
"""Content of tables, for errors."""


def read_prediction_table(path: Path, how: FileFormat) -> pl.DataFrame:
    """A table; of text also with the format's numbers, and blanks and quotes around cells."""
    frame = read_table(path, names=IMAGE_COLUMNS)
    if table_files(path)[0].suffix.lower() not in UNTYPED:
        return frame
    names = {name: name.strip(_BLANK) for name in frame.columns}
    stripped = cs.string().str.strip_chars(_BLANK)
    frame = checked_read(path, lambda: frame.rename(names).with_columns(stripped))
    texts = {*RUN_KEYS, *_ALIASES["image_id"], *_ALIASES["task"]}
    return frame.with_columns(
        _numbers(frame[name], how)
        for name in frame.select(cs.string()).columns
        if name.strip().lower() not in texts
    )


def _numbers(column: pl.Series, how: FileFormat) -> pl.Series:
    """Text as float64 where all of it is numbers as the format has them."""
    values = as_numbers(column, comma=how.decimal == ",", percent=how.percent)
    return values if values.null_count() == column.null_count() else column


def _recognized(
    frame: pl.DataFrame, tasks: Sequence[str], where: object
) -> tuple[pl.DataFrame, str | None]:
    """A table with ``image_id``, ``task`` and ``value`` where its columns have other names, and
    the name of the column of values; None for a wide table.
    """
    scales = [name for name in SCALES if name in frame.columns]
    if len(scales) == 2:
        problem = "has both a column logit and a column probability"
        raise InputError(problem, where=where, allowed="one of them")
    image = _column("image_id", frame.columns, where)
    # a column label of numbers contains labels
    texts = frame.select(cs.string() | cs.categorical() | cs.enum()).columns
    task = _column("task", ["task"] if "task" in frame.columns else texts, where)
    value: str | None = scales[0] if scales else None
    if value is None and (task or not {"_".join(c.split()) for c in frame.columns} & {*tasks}):
        value = _column("value", frame.columns, where)
    names = {old: new for old, new in zip((image, task, value), _ALIASES, strict=True) if old}
    if value is not None:
        frame = frame.select(c for c in frame.columns if c in (*names, *RUN_KEYS, "label"))
    return frame.rename(names), value


def _column(role: str, columns: Sequence[str], where: object) -> str | None:
    """The one column with a name of the role."""
    if role in columns:
        return role
    matches = [column for column in columns if column.strip().lower() in _ALIASES[role]]
    if len(matches) > 1:
        best = "logit or probability" if role == "value" else role
        problem = f"columns {' and '.join(matches)} could each be {best}"
        raise InputError(problem, where=where, remedy=f"rename one of them to {best}")
    return matches[0] if matches else None


def _text_hint(column: pl.Series) -> str | None:
    """Remedy for a column whose numbers are not written as such."""
    text = str(column.drop_nulls().first()) if column.dtype == pl.String else ""
    if text.rstrip().endswith("%"):
        return "give `percent` if values are percentages"
    return "give `decimal` , for decimal commas" if "," in text else None


def scale_of(
    values: NDArray[np.float64],
    name: str | None,
    how: FileFormat,
    where: object,
    what: str = "column",
) -> tuple[str, str]:
    """``logit`` or ``probability``, and what was recognized, in words.

    ``name``: of their column or array; None if they have none.
    """
    low, high = (values.min(), values.max()) if values.size else (np.nan, np.nan)
    inside = bool(0 <= low <= high <= 1)
    hard = inside and {low, high} <= {0, 1} and bool(np.isin(values, (0, 1)).all())
    source = f"{what} {name}" if name else {"column": "a wide table", "array": "an array"}[what]
    declared = _SCALE_OF.get((name or "").strip().lower())
    percent = not how.percent and how.scale is None and bool(low >= 0 and 2 < high <= 100)
    if (declared == "probability" and not percent) or (declared == "logit" and not inside):
        scale: str | None = declared
    else:
        scale = how.scale or ("probability" if inside and not declared else None)
    logit, probability = {"scale": "logit"}, {"scale": "probability"}
    problem, remedy = None, "{} or {}"
    give: list[Give] = [logit, probability]
    if hard and how.scale is None:
        problem = "contains only 0 and 1: AUC, AUPRC and calibration would have two levels"
        remedy, give = "write scores; or, if there are none, {} or {}", [probability, logit]
    elif scale is None and percent:
        problem = f"contains values from {low:.6g} to {high:.6g}, as percentages do"
        remedy, give = "{}; or, if they are logits, {}", [{"percent": True}, logit]
    elif scale is None and declared:
        problem = "contains only values from 0 to 1, as probabilities do"
    elif scale is None:
        problem = f"contains values from {low:.6g} to {high:.6g}, which are not probabilities"
    if problem is not None or scale is None:
        raise InputError(f"{source} {problem}", where=where, remedy=remedy, give=give)
    levels = "; only 0 and 1, so AUC, AUPRC and calibration have two levels" if hard else ""
    shown = f'{what} "{name}"' if name else source
    shown += "" if name or how.scale else " with values from 0 to 1"
    return scale, f"{plural(scale)} ({shown}{levels})"


def table_predictions(
    frame: pl.DataFrame, name: str, tasks: Sequence[str], how: FileFormat, where: str
) -> list[Predictions]:
    """The runs of a table.

    ``tasks``: known ones; a single one also applies to a table without a column for them.
    """
    columns = frame.columns
    texts = frame.select(cs.string() | cs.categorical() | cs.enum()).columns
    answers = [column for column in texts if column.strip().lower() in _ANSWERS]
    if answers and "task" not in columns:
        return _answered(frame, answers[0], name, tasks, how, where)
    frame, column = _recognized(table := frame, tasks, where)
    best = _column("task", texts, where) if column in _CONFIDENCES else None
    if best not in {None, "task"} and _one_each(frame):
        return _answered(table, str(best), name, tasks, how, where)
    if "image_id" not in frame.columns:
        raise _refused(f"has columns {some_of(columns, 8)}", where, TABLES)
    if not frame.height:
        raise _refused("contains no row", where, "a prediction for every image of the scored split")
    if column is None and "task" in frame.columns:
        raise _refused("has a column task, but neither logit nor probability", where)
    if column is None:
        frame = _unpivoted(frame, where)
    elif "task" not in frame.columns:
        if len(tasks) != 1:
            allowed = f"{_LONG} (task may be left out if there is only one)"
            raise _refused("has no column task", where, allowed)
        frame = frame.with_columns(task=pl.lit(tasks[0]))
    frame = _checked(frame, column or "value", where)
    if how.percent:
        frame = frame.with_columns(pl.col("value").cast(pl.Float64) / 100)
    scale, read = scale_of(frame["value"].to_numpy(), column, how, where)
    return [replace(run, read=_softmax(run, read)) for run in _runs(frame, name, scale, where)]


def _softmax(run: Predictions, read: str) -> str:
    """Text of what was recognized, with a remark where probabilities of tasks add up to 1."""
    several = run.scale == "probability" and len(run.tasks) > 1
    sums = several and np.allclose(run.values.sum(axis=0), 1, rtol=0, atol=1e-3)
    return f"{read}, each image's add up to 1 as of a softmax" if sums else read


def _one_each(frame: pl.DataFrame) -> bool:
    """True if a recognized table has one row for each image of a run, but several tasks."""
    if not {"image_id", "task"} <= {*frame.columns} or frame["task"].n_unique() < 2:
        return False
    keys = [key for key in ("image_id", *RUN_KEYS) if key in frame.columns]
    return not frame.select(keys).is_duplicated().any()


def _answered(
    frame: pl.DataFrame,
    column: str,
    name: str,
    tasks: Sequence[str],
    how: FileFormat,
    where: str,
) -> list[Predictions]:
    """The runs of a table that names one class for each image: yes of that, no of all others.
    ``how.ids`` stand for a column of images that it does not have.
    """
    image, listed = _column("image_id", frame.columns, where), how.listed()
    if image is None and listed is not None and len(listed) == frame.height:
        image = "image_id"
        frame = frame.with_columns(listed.alias("image_id"))
    if image is None:
        given = "" if listed is None else f" and {frame.height} rows for {len(listed)} `ids`"
        problem = f"names no images: columns {some_of(frame.columns, 8)}{given}"
        remedy = "add a column image_id, or {}, the image of each row"
        raise InputError(problem, where=where, allowed=TABLES, remedy=remedy, give={"ids": ...})
    keys = [key for key in RUN_KEYS if key in frame.columns]
    if not frame.height:
        raise _refused("contains no row", where, "an answer for every image of the scored split")
    answer_keys = pl.col(image).alias("image_id"), pl.col(column).cast(pl.String).alias("task")
    rows = _checked(frame.select(*answer_keys, *keys, value=pl.lit(1.0)), column, where)
    runs = []
    for run in _runs(rows, name, "probability", where):
        values = np.nan_to_num(run.values)
        if (twice := values.sum(axis=0) > 1).any():
            problem = f"run {run.run} has several answers, such as for image"
            problem = f"{problem} {run.image_ids[int(twice.argmax())]}"
            raise InputError(problem, where=where, allowed="one class for each image")
        never = [task for task in tasks if task not in run.tasks]
        if tasks and len(never) == len(tasks):
            problem = f"column {column} names no known class: {some_of(run.tasks)}"
            raise InputError(problem, where=where, allowed=some_of(tasks))
        values = np.vstack([values, np.zeros((len(never), len(run.image_ids)))])
        read = f'one class for each image (column "{column}")'
        told = replace(run, tasks=(*run.tasks, *never), values=values, in_words=True, read=read)
        runs.append(told)
    return runs


def _refused(problem: str, where: object, allowed: str = _LONG) -> InputError:
    return InputError(problem, where=where, allowed=allowed)


def _unpivoted(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """A wide table as a long one."""
    index = [c for c in frame.columns if c in _KINDS or c in SCALES]
    # pandas writes its index as a column without a name
    columns = [c for c in frame.columns if c.strip() and c not in index]
    if not columns:
        raise _refused(f"has columns {some_of(frame.columns, 8)}", where, TABLES)
    if wrong := [c for c in columns if not frame[c].dtype.is_numeric()]:
        shown = some_of(f"{c} ({frame[c].dtype})" for c in wrong)
        raise InputError(
            f"columns are not numbers: {shown}",
            where=where,
            allowed=_WIDE,
            remedy=_text_hint(frame[wrong[0]]),
        )
    return frame.unpivot(columns, index=index, variable_name="task", value_name="value")


def _runs(frame: pl.DataFrame, name: str, scale: str, where: str) -> list[Predictions]:
    keys = [key for key in RUN_KEYS if key in frame.columns]
    parts = frame.partition_by(keys, maintain_order=True) if keys else [frame]
    about = [dict.fromkeys(RUN_KEYS) | {key: part[key][0] for key in keys} for part in parts]
    names = [
        _joined(name if run_facts["method"] is None else run_facts["method"], run_facts["seed"])
        if run_facts["run"] is None
        else str(run_facts["run"])
        for run_facts in about
    ]
    if len(set(names)) < len(names):
        names = [_joined(*run_facts.values()) or name for run_facts in about]
    return [
        _one_run(part, run, run_facts["method"], run_facts["seed"], scale, where)
        for part, run, run_facts in zip(parts, names, about, strict=True)
    ]


def _joined(*parts: object) -> str:
    return "/".join(str(part) for part in parts if part is not None)


def _checked(frame: pl.DataFrame, column: str, where: str) -> pl.DataFrame:
    """The columns that count, with fixed types and without nulls."""
    if not frame["value"].dtype.is_numeric():
        strange = frame["value"].drop_nulls()
        if strange.dtype == pl.String:
            numbers = strange.cast(pl.Float64, strict=False)
            strange = strange.filter(~numbers.is_finite().fill_null(value=False))
        shown = f"such as {strange[0]!r}" if len(strange) else "which are not numbers"
        problem, hint = f"column {column} contains {strange.dtype}, {shown}", _text_hint(strange)
        raise InputError(problem, where=where, allowed="numbers", remedy=hint)
    errors = (pl.exceptions.PolarsError,)
    with unreadable(where, _LONG, errors, problem="columns are of the wrong kind"):
        # integers in a column with empty cells are read as floats
        frame = frame.with_columns(id_column(frame["image_id"], where)).select(
            pl.col(c).cast(kind) if kind and (c, frame[c].dtype) != _HALF else pl.col(c)
            for c, kind in _KINDS.items()
            if c in frame.columns
        )
    for name in ("image_id", "task", "value"):
        missing = frame.filter(pl.col(name).is_null())
        if missing.height:
            image, task = missing["image_id"][0], missing["task"][0]
            example = f", such as image {image}, task {task}" if name == "value" else ""
            problem = f"{counted_are(missing.height, name)} missing{example}"
            raise _refused(problem, where, "a value in every row")
    if "label" in frame.columns:
        label = frame["label"].cast(pl.Float64, strict=False)
        if not label.is_in([0.0, 1.0]).fill_null(value=False).all():
            raise _refused("column label contains more than 0 and 1", where, "0 and 1 in every row")
        frame = frame.with_columns(label=label.cast(pl.Int8))
    return frame.with_columns(
        task=frame["task"].replace({t: class_name(t) for t in frame["task"].unique()})
    )


def _one_run(
    frame: pl.DataFrame, run: str, method: str | None, seed: int | None, scale: str, where: str
) -> Predictions:
    """Rows of one run as a matrix: every (image, task) at most once."""
    ids, tasks = frame["image_id"].unique().sort(), frame["task"].unique(maintain_order=True)
    place = positions(frame["task"], tasks) * len(ids) + positions(frame["image_id"], ids)
    absent = np.ones((len(tasks), len(ids)), bool)
    absent.reshape(-1)[place] = False
    if repeated := len(place) - np.count_nonzero(~absent):
        twice = frame.filter(frame.select("image_id", "task").is_duplicated())
        image, task = twice.select("image_id", "task").row(0)
        raise InputError(
            f"{repeated} predictions are repeated, such as image {image}, task {task}, run {run}",
            where=where,
            allowed="each image and task once in a run",
            remedy="name the runs in a column run, method or seed, if these are several",
        )
    given = frame["value"].to_numpy()
    values = np.zeros(absent.shape, dtype=given.dtype)
    values.reshape(-1)[place] = given
    labels = None
    if "label" in frame.columns:
        labels = np.full(values.shape, -1, dtype=np.int8)
        labels.reshape(-1)[place] = frame["label"].to_numpy()
    predictions = Predictions(run, ids, tuple(tasks), values, scale, method, seed, labels)
    check_values(values, predictions)
    values[absent] = np.nan
    return predictions


ARRAY_ENDINGS = (".npz", ".npy")
_ARRAY_SCALES = {"logits": "logit", "probabilities": "probability"}
_ARRAYS = (
    "image_ids (n,), tasks (t,), and logits or probabilities: (n, t), or (r, n, t) with runs (r,);"
    " or one array (n, t), with `ids` and `classes`"
)


def array_predictions(path: Path, name: str, how: FileFormat) -> list[Predictions]:
    """The runs of a file of arrays; ``ids`` and ``classes`` stand for arrays that it does not
    have.
    """
    arrays: dict[str, Any] = dict(read_arrays(path, _ARRAYS))
    listed, by_role = how.listed(), how.named()
    given = arrays if listed is None else {**arrays, "image_ids": listed}
    given = given if by_role is None else {**given, "tasks": [*by_role.values()]}
    keys = [key for key in _ARRAY_SCALES if key in arrays]
    keys = keys or [key for key in arrays if key not in {"image_ids", "tasks", "runs"}]
    if len(keys) != 1 or not {"image_ids", "tasks"} <= given.keys():
        raise InputError(
            f"contains {some_of(arrays, 8) or 'no named array'}", where=path, allowed=_ARRAYS
        )
    ids = id_column(given["image_ids"], f"{path}, image_ids")
    tasks = [class_name(str(task)) for task in np.atleast_1d(given["tasks"])]
    values = float_array(given[keys[0]]) / (100 if how.percent else 1)
    column = keys[0] if keys[0] in _ARRAY_SCALES else None
    scale, read = scale_of(values, column, how, path, what="array")
    by_run, names = [values], [name]
    if values.ndim == 3:
        by_run, names = list(values), [f"{name}/{i}" for i in range(len(values))]
    runs = [str(run) for run in np.atleast_1d(given.get("runs", names))]
    if len(runs) != len(by_run):
        problem = f"has {len(runs)} runs and {keys[0]} of shape {values.shape}"
        raise InputError(problem, where=path, allowed=_ARRAYS)
    return [
        replace(of_run, read=_softmax(of_run, read))
        for of_run in (
            Predictions.from_arrays(part, ids, tasks, scale=scale, run=run)
            for part, run in zip(by_run, runs, strict=True)
        )
    ]


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
    first_class: Annotated[int, (0, 1)] | None = None,
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
        language: of the answers: ``en``, ``de``, ``fr``, ``es``, ``pl``, or a YAML file of words.
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
        FileFormat(scale, decimal, percent, classes, ids, box_format, first_class),
    )
    tasks = tasks or (images.classes if suite is None else suite.tasks)
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
    runs: list[Predictions] = []
    for done, (name, part) in enumerate(sources):
        progress("reading predictions", done, len(sources))
        # files of one name in different folders are distinguished by their folders
        whole = isinstance(part, str | Path) and stems.count(Path(part).stem) > 1
        label = name or (str(part) if whole else None)
        if isinstance(part, str | Path) and holds_answers(part):
            about = suite or images.data
            if about is None:
                raise InputError(
                    "contains answers, which need the suite that they are about", where=part
                )
            said = read_answers(
                part,
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
            typed = not (isinstance(part, str | Path) and Path(part).suffix.lower() in UNTYPED)
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
    return asked_alike(runs, unknown=unknown)


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
    frame, where = pl.DataFrame(), name or "predictions"
    found: Found | None = None
    if isinstance(source, str | Path):
        path = Path(source)
        name, where, ending = name or path.stem, str(path), path.suffix.lower()
        if ending in ARRAY_ENDINGS:
            return array_predictions(path, name, how), False
        folder, of_json = text_folder(path), json_folder(path)
        if ending == ".json":
            found = json_detections(path, how)
        elif folder is not None:
            found = text_detections(folder)
        elif of_json is not None:
            found = json_folder_detections(of_json, how)
        else:
            frame = read_prediction_table(path, how)
    else:
        name, frame = where, _polars(source)
    note = ""
    if found is None:
        frame, note = images.one_column(frame, where)
        found = table_detections(frame, where)
    if found is None:
        of_table = table_predictions(frame, name, tasks, how, where)
        noted = [replace(run, notes=(*run.notes, note)) if note else run for run in of_table]
        return noted, False
    found, other = found.with_one_name(images)
    boxes = found.resolved(tasks, images, how)
    boxes = replace(boxes, notes=(*boxes.notes, *filter(None, (note, other))))
    largest = _checked(boxes.largest(tasks), "score", where)
    if boxes.rows.height:
        scale_of(boxes.rows["score"].to_numpy(), "score", how, where)
    return boxes.attached(_runs(largest, name, "probability", where)), True


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
