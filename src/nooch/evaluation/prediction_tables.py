"""Tables and arrays -> predictions: which column is what, and what its numbers are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from nooch.base.errors import Give, InputError, lacking, some_of, unreadable
from nooch.base.words import counted, counted_are, plural
from nooch.data import class_name, id_column, read_arrays, read_table
from nooch.data.arrays import float_array
from nooch.data.image_names import IMAGE_COLUMNS, UNTYPED
from nooch.data.table_files import as_numbers, checked_read, table_files
from nooch.data.table_schema import ABSENT, CLASS_COLUMNS, PRESENT, folded
from nooch.evaluation.boxes.detections import RUN_KEYS
from nooch.evaluation.boxes.matching import ROUNDING
from nooch.evaluation.metrics import SCALES
from nooch.evaluation.prediction_format import FileFormat
from nooch.evaluation.predictions import Predictions, as_known, checked_values, positions

_ALIASES = {
    "image_id": IMAGE_COLUMNS,
    "task": ("task", *CLASS_COLUMNS),
    "value": (*SCALES, "prob", "score", "confidence", "conf"),
}
"""Names that a column can have; the first one, or the names of ``SCALES``, take precedence."""

_ANSWERS = {
    "pred", "prediction", "predicted", "pred_class", "pred_label", "predicted_class",
    "predicted_label",
}  # fmt: skip
"""Names of a column of text with one class for each image, the model's answer."""

_CONFIDENCES = {"conf", "score", "confidence"}
"""Names of a column that can be the confidence of one class, where each image has one row."""

_SCALE_OF = {"logit": "logit", "logits": "logit"}
_SCALE_OF |= dict.fromkeys(("probability", "probabilities", "prob"), "probability")
_LEFT_OUT = "left out, as they are not known tasks"
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


def read_prediction_table(path: Path) -> pl.DataFrame:
    """A table; of text without blanks and quotes around cells."""
    frame = read_table(path, names=IMAGE_COLUMNS)
    if table_files(path)[0].suffix.lower() in UNTYPED:
        names = {name: name.strip(_BLANK) for name in frame.columns}
        stripped = cs.string().str.strip_chars(_BLANK)
        frame = checked_read(path, lambda: frame.rename(names).with_columns(stripped))
    return frame


def with_numbers(frame: pl.DataFrame, how: FileFormat) -> pl.DataFrame:
    """A table with text that is numbers in the format, or yes and no, as such."""
    texts = {*RUN_KEYS, *_ALIASES["image_id"], *_ALIASES["task"], *_ANSWERS}
    return frame.with_columns(
        _numbers(frame[name], how)
        for name in frame.select(cs.string()).columns
        if name.strip().lower() not in texts
    )


def _numbers(column: pl.Series, how: FileFormat) -> pl.Series:
    """Text as float64 where all of it is numbers as the format has them, or yes and no."""
    for values in (as_numbers(column, comma=how.decimal == ",", percent=how.percent),
                   _truth(column)):  # fmt: skip
        if values.null_count() == column.null_count():
            return values
    return column


_YES_NO = dict.fromkeys(PRESENT, 1.0) | dict.fromkeys(ABSENT, 0.0)


def _truth(column: pl.Series) -> pl.Series:
    """Yes and no as 1 and 0, Float64; null where a cell is neither."""
    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    return texts.replace_strict(_YES_NO, default=None, return_dtype=pl.Float64)


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
    image = _column("image_id", _but_tasks(frame.columns, tasks), where)
    # a column label of numbers contains labels
    texts = frame.select(cs.string() | cs.categorical() | cs.enum()).columns
    task = _column("task", ["task"] if "task" in frame.columns else texts, where)
    value: str | None = scales[0] if scales else None
    if value is None and task != "task" and _is_wide(frame, tasks):
        # the true class
        frame, task = frame.drop(task or []), None
    elif value is None:
        value = _column("value", frame.columns, where)
    names = {old: new for old, new in zip((image, task, value), _ALIASES, strict=True) if old}
    if value is not None:
        frame = frame.select(c for c in frame.columns if c in (*names, *RUN_KEYS, "label"))
    return frame.rename(names), value


def _without_misspelled(
    strange: Sequence[str], present: Iterable[str], tasks: Sequence[str]
) -> list[str]:
    """Names that may not be meant for a task that is missing, see ``task_notes``."""
    missing = {*tasks} - {*present}
    return [name for name in strange if not get_close_matches(name, missing, 1)]


_AFFIXED = re.compile(
    r"(?i)^(?:pred|prob|probability|p|score|conf|confidence|logit)s?[\s_.:([-]+(.+?)[)\]]?$"
    r"|^(.+?)[\s_.:-]+(?:prob|probability|score|conf|confidence|logit)s?$"
)
"""A column called after a class and what it is, such as ``prob_car``, ``P(car)``, ``car_score``."""


def _as_tasks(names: Iterable[str], tasks: Sequence[str]) -> dict[str, str]:
    """Name -> the task that it means, see ``as_known``; by the class in it where none is one."""
    own = {name: class_name(name) for name in names}
    known = dict(zip(own, as_known([*own.values()], tasks), strict=True))
    if not {*known.values()} & {*tasks}:
        inner = {name: class_name(match[1] or match[2]) for name in own
                 if (match := _AFFIXED.match(name))}  # fmt: skip
        meant = zip(inner, as_known([*inner.values()], tasks), strict=True)
        known |= {name: task for name, task in meant if task in tasks}
    return known


def _is_wide(frame: pl.DataFrame, tasks: Sequence[str]) -> bool:
    """True if columns of numbers are called like tasks."""
    means = _as_tasks(_named(frame), tasks)
    return any(frame[name].dtype.is_numeric() and task in tasks for name, task in means.items())


def _named(frame: pl.DataFrame) -> list[str]:
    """The columns that have a name: pandas writes its index without."""
    return [column for column in frame.columns if column.strip()]


def _but_tasks(columns: Sequence[str], tasks: Sequence[str]) -> Sequence[str]:
    """The columns that are not called like a task, unless only these can name images."""
    rest = [column for column in columns if folded(column) not in {*map(folded, tasks)}]
    return rest if {*map(folded, rest)} & {*_ALIASES["image_id"]} else columns


def _column(role: str, columns: Sequence[str], where: object) -> str | None:
    """The one column with a name of the role."""
    if role in columns:
        return role
    matches = [column for column in columns if folded(column) in _ALIASES[role]]
    if len(matches) > 1:
        best = "logit or probability" if role == "value" else role
        problem = f"columns {' and '.join(matches)} could each be {best}"
        raise InputError(problem, where=where, remedy=f"rename one of them to {best}")
    return matches[0] if matches else None


def _strange(column: pl.Series) -> pl.Series:
    """The values that are not finite numbers."""
    values = column.drop_nulls()
    if values.dtype != pl.String:
        return values
    numbers = as_numbers(values, comma=False, percent=False)
    return values.filter(~numbers.is_finite().fill_null(value=False))


def _text_hint(column: pl.Series) -> dict[str, Any]:
    """Remedy of an error for a column whose numbers are not written as such."""
    text = str(column.first()) if column.dtype == pl.String else ""
    if text.rstrip().endswith("%"):
        return {"remedy": "{} if values are percentages", "give": {"percent": True}}
    return {"remedy": "{} for decimal commas", "give": {"decimal": ","}} if "," in text else {}


def scale_of(
    values: NDArray[np.float64],
    name: str | None,
    how: FileFormat,
    where: object,
    what: str = "column",
    spans: Mapping[str, _Span] | None = None,
) -> tuple[str, str]:
    """``logit`` or ``probability``, and what was recognized, in words.

    ``name``: of their column or array; None if they have none. ``values`` are as they count, after
    ``how.percent``. ``spans``: smallest and largest value by task.
    """
    if not np.isfinite(values).all():
        # refused by ``checked_values``, which knows the image and task
        return "logit", ""
    low, high = (values.min(), values.max()) if values.size else (np.nan, np.nan)
    inside = bool(-ROUNDING <= low <= high <= 1 + ROUNDING)
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
        problem = (
            "contains only 0 and 1: AUC, AUPRC and calibration would be meaningless with two values"
        )
        remedy, give = "write scores; or, if there are none, {} or {}", [probability, logit]
    elif how.percent and 0 <= low <= high <= 0.01:
        problem = f"contains values from {low * 100:.6g} to {high * 100:.6g}, as probabilities do"
        problem += f", and as percentages {high * 100:.6g} becomes {high:.6g}"
        remedy, give = "{}, or divide them by 100", [{"percent": None}]
    elif scale is None and percent:
        problem = f"contains values {_spanned(low, high, spans)}, as percentages do"
        becomes = " and ".join(f"{x:.6g} becomes {x / 100:.6g}" for x in sorted({low, high}))
        remedy = f"{{}} ({becomes}); or, if they are logits, {{}} (all answers are yes)"
        give = [{"percent": True}, logit]
    elif scale is None and declared:
        problem = "contains only values from 0 to 1, as probabilities do"
    elif scale is None:
        problem = f"contains values {_spanned(low, high, spans)}, which are not probabilities"
        yes = " (all answers are yes)" if low >= 0 else ""
        remedy, give = f"if they are logits, {{}}{yes}", [logit]
    if problem is not None or scale is None:
        raise InputError(f"{source} {problem}", where=where, remedy=remedy, give=give)
    levels = "; only 0 and 1, so AUC, AUPRC and calibration are crude" if hard else ""
    shown = f'{what} "{name}"' if name else source
    shown += "" if name or how.scale else " with values from 0 to 1"
    if scale == "logit" and values.size > 1 and low >= 0:
        levels += "; no value is negative, so all answers are yes"
    return scale, f"{plural(scale)} ({shown}{levels})"


_Span = tuple[float, float]


def _spanned(low: float, high: float, spans: Mapping[str, _Span] | None) -> str:
    """The span of values; and the tasks that have those outside of 0 to 1, where others do not."""
    beyond = [task for task, span in (spans or {}).items() if span[0] < 0 or span[1] > 1]
    shown = f"from {low:.6g} to {high:.6g}"
    if spans is None or len(beyond) == len(spans):
        return shown
    return f"{shown} (outside 0 to 1: only {some_of(beyond)})"


def table_predictions(
    frame: pl.DataFrame, name: str, tasks: Sequence[str], how: FileFormat, where: str
) -> list[Predictions]:
    """The runs of a table.

    ``tasks``: known ones; a single one also applies to a table without a column for them.
    """
    columns = frame.columns
    frame = frame.with_columns(cs.boolean().cast(pl.Int8))
    texts = frame.select(cs.string() | cs.categorical() | cs.enum()).columns
    answers = [column for column in columns if folded(column) in _ANSWERS]
    if answers and "task" not in columns and not _is_wide(frame, tasks) and (
        answers[0] in texts or (len(tasks) > 1 and _column("value", columns, where) is None)
    ):  # fmt: skip
        frame = frame.with_columns(_class_names(frame[answers[0]], how, where))
        return _answered(frame, answers[0], name, tasks, how, where)
    frame, column = _recognized(table := frame, tasks, where)
    best = _column("task", texts, where) if folded(column or "") in _CONFIDENCES else None
    if best not in {None, "task"} and _one_each(frame):
        return _answered(table, str(best), name, tasks, how, where)
    if "image_id" not in frame.columns:
        raise _refused(f"has columns {some_of(columns, 8)}", where, TABLES)
    if not frame.height:
        raise _refused("contains no row", where, "a prediction for every image of the scored split")
    if column is None and "task" in frame.columns:
        problem = "has a column task, but neither logit nor probability"
        raise _refused(f"{problem}: {some_of(columns, 8)}", where)
    notes = list[str]()
    if column is None:
        frame, notes = _unpivoted(frame, tasks, where)
    elif "task" not in frame.columns:
        (only, *others) = how.tasks or tasks or [""]
        if others or not only:
            allowed = f"{_LONG} (task may be left out if there is only one)"
            raise lacking("column", ["task"], columns, where, allowed)
        frame = frame.with_columns(task=pl.lit(only))
    frame, read_as = checked_rows(frame, column or "value", tasks, where)
    if column is not None and (answer := _confident_in(table, frame)):
        frame = frame.with_columns(value=_of_answer(frame["value"], _truth(table[answer])))
        read_as.append(f"of the answer in column {answer}: 1 - {column} where that is no")
    frame, scale, read = _judged(frame, column, tasks, how, where, notes)
    return [
        replace(run, read="; ".join([_softmax(run, read), *read_as]), notes=(*run.notes, *notes))
        for run in runs_of(frame, name, scale, where)
    ]


def _judged(
    frame: pl.DataFrame,
    column: str | None,
    tasks: Sequence[str],
    how: FileFormat,
    where: str,
    notes: list[str],
) -> tuple[pl.DataFrame, str, str]:
    """The rows as they count, their scale and what was recognized: known tasks decide."""
    spans = _spans(frame)
    if strange := _without_misspelled(_strangers(spans, tasks), spans, tasks):
        frame = frame.filter(~pl.col("task").is_in(strange))
        notes.append(f"{_LEFT_OUT}: {some_of(strange)}")
    spans = {task: span for task, span in spans.items() if task in tasks} or spans
    if how.percent:
        frame = frame.with_columns(pl.col("value").cast(pl.Float64) / 100)
    judged = frame.filter(pl.col("task").is_in([*spans]))["value"].to_numpy()
    return frame, *scale_of(judged, column, how, where, spans=spans)


def _spans(frame: pl.DataFrame) -> dict[str, _Span]:
    """Smallest and largest value by task."""
    value = pl.col("value")
    table = frame.group_by("task", maintain_order=True).agg(low=value.min(), high=value.max())
    return {task: (low, high) for task, low, high in table.iter_rows()}


def _strangers(spans: Mapping[str, _Span], known: Collection[str]) -> list[str]:
    """Names besides the known ones, if any, with values that none of these has."""
    ends = [span for name, span in spans.items() if name in known]
    low = np.nanmin([0.0, *(span[0] for span in ends)])
    high = np.nanmax([1.0, *(span[1] for span in ends)])
    return [
        name
        for name, span in spans.items()
        if ends and name not in known and not low <= span[0] <= span[1] <= high
    ]


def _softmax(run: Predictions, read: str) -> str:
    """Text of what was recognized, with a remark where probabilities of tasks add up to 1."""
    several = run.scale == "probability" and len(run.tasks) > 1
    sums = several and np.allclose(run.values.sum(axis=0), 1, rtol=0, atol=1e-3)
    return f"{read}, each row adds up to 1, like a softmax" if sums else read


def _confident_in(table: pl.DataFrame, rows: pl.DataFrame) -> str | None:
    """The column of yes and no of which the values of the rows are the confidence; None where they
    are of the class, so that in no task a no has more than a yes.
    """
    values = rows["value"]
    names = [name for name in table.columns if folded(name) in _ANSWERS]
    if not names or values.is_null().any() or not ((values >= 0.5) & (values <= 1)).all():
        return None
    answers = _truth(table[names[0]])
    if answers.is_null().any() or not (answers == 0).any():
        return None
    by_task = rows.select("task", "value", yes=answers == 1).group_by("task").agg(
        least=pl.col("value").filter("yes").min(), most=pl.col("value").filter(~pl.col("yes")).max()
    )  # fmt: skip
    is_of_class = (by_task["most"] <= by_task["least"]).all(ignore_nulls=True)
    return None if is_of_class and by_task["least"].count() else names[0]


def _of_answer(values: pl.Series, answers: pl.Series) -> pl.Series:
    return values.to_frame("value").select(
        pl.when(answers == 1).then("value").otherwise(1 - pl.col("value"))
    ).to_series()  # fmt: skip


def _class_names(answers: pl.Series, how: FileFormat, where: object) -> pl.Series:
    """Names of classes; of numbers, by ``how.classes``."""
    if not answers.dtype.is_numeric():
        return answers
    named = how.named()
    numbers = answers.drop_nulls().unique().sort()
    if named is None or (lost := [n for n in numbers if n not in named]):
        problem = f"column {answers.name} has numbers of classes, such as {some_of(numbers, 3)}"
        problem += "" if named is None else f": the given ones have no {some_of(lost)}"
        remedy = "{}, names from 0 or number -> name"
        raise InputError(problem, where=where, remedy=remedy, give={"classes": ...})
    return answers.replace_strict(named, return_dtype=pl.String)


def _one_each(frame: pl.DataFrame) -> bool:
    """True if a recognized table has one row for each image of a run, but several tasks."""
    if not {"image_id", "task"} <= {*frame.columns} or frame["task"].n_unique() < 2:
        return False
    keys = [key for key in ("image_id", *RUN_KEYS) if key in frame.columns]
    return not frame.select(keys).is_duplicated().any()


def _answered(
    frame: pl.DataFrame, column: str, name: str, tasks: Sequence[str], how: FileFormat, where: str
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
    rows = frame.select(*answer_keys, *keys, value=pl.lit(1.0))
    rows, read_as = checked_rows(rows, column, tasks, where)
    runs = []
    for run in runs_of(rows, name, "probability", where):
        values = np.nan_to_num(run.values)
        if (twice := values.sum(axis=0) > 1).any():
            at = int(twice.argmax())
            said = rows.with_row_index("row", 1).filter(image_id=run.image_ids[at])
            (one, first), (other, second) = (
                said.unique("task", maintain_order=True).select("row", "task").rows()[:2]
            )
            raise InputError(
                f"run {run.run} has several answers, such as for image {run.image_ids[at]}: row"
                f" {one} has {first}, row {other} has {second}",
                where=where,
                allowed="one class for each image",
                remedy="name the runs in a column run, if these are several; or, if these are"
                " objects that were found, the columns Image Name, Prediction and Confidence",
            )
        never = [task for task in tasks if task not in run.tasks]
        if tasks and len(never) == len(tasks):
            problem = f"column {column} has no known class: {some_of(run.tasks)}"
            raise InputError(problem, where=where, allowed=some_of(tasks))
        values = np.vstack([values, np.zeros((len(never), len(run.image_ids)))])
        read = "; ".join([f'one class for each image (column "{column}")', *read_as])
        told = replace(run, tasks=(*run.tasks, *never), values=values, in_words=True, read=read)
        runs.append(told)
    return runs


def _refused(problem: str, where: object, allowed: str = _LONG) -> InputError:
    return InputError(problem, where=where, allowed=allowed)


def _unpivoted(
    frame: pl.DataFrame, tasks: Sequence[str], where: str
) -> tuple[pl.DataFrame, list[str]]:
    """A wide table as a long one, and notes: on columns besides the tasks, and on repeated rows."""
    index = [c for c in frame.columns if c in _KINDS or c in SCALES]
    if "label" in index and len(_as_tasks(_named(frame), tasks).keys() - {*index}) > 1:
        # the number of a class
        index.remove("label")
    columns = [c for c in _named(frame) if c not in index]
    if not columns:
        raise _refused(f"has columns {some_of(frame.columns, 8)}", where, TABLES)
    names = _as_tasks(columns, tasks)
    own = [column for column, name in names.items() if name in tasks]
    for name in own:
        if len(twice := [c for c in own if names[c] == names[name]]) > 1:
            problem = f"columns {' and '.join(twice)} are both task {names[name]}"
            raise InputError(problem, where=where, remedy="remove or rename one of them")
    strange = _strangers({c: _span(frame[c]) for c in columns}, own)
    strange = _without_misspelled(strange, names.values(), tasks)
    columns = [c for c in columns if c not in strange]
    notes = [f"{_LEFT_OUT}: {some_of(strange)}"] if strange else []
    if wrong := [c for c in columns if not frame[c].dtype.is_numeric()]:
        odd = {c: _strange(frame[c]) for c in wrong}
        shown = some_of(f"{c} ({v.dtype}, such as {v.first()!r:.60})" for c, v in odd.items())
        raise InputError(
            f"columns are not numbers: {shown}",
            where=where,
            allowed=_WIDE,
            **_text_hint(odd[wrong[0]]),
        )
    keys = [key for key in ("image_id", *RUN_KEYS) if key in index]
    frame, repeated = _once(frame.select(*index, *columns), keys, own or columns, where)
    long = frame.unpivot(columns, index=index, variable_name="task", value_name="value")
    return long, notes + repeated


def _span(column: pl.Series) -> _Span:
    """Smallest and largest value; NaN where they are not numbers, or some are missing."""
    if not column.dtype.is_numeric() or column.null_count() or not len(column):
        return np.nan, np.nan
    values = column.to_numpy()
    return float(values.min()), float(values.max())


def _once(
    frame: pl.DataFrame, keys: Sequence[str], values: Sequence[str], where: str
) -> tuple[pl.DataFrame, list[str]]:
    """The table with each row once, and a note on rows that are repeated with the same values.
    Raises InputError for two of the same keys and other values.
    """
    if not frame.select(keys).is_duplicated().any():
        return frame, []
    once = frame.unique([*keys, *values], keep="first", maintain_order=True)
    if (twice := once.select(keys).is_duplicated()).any():
        key = once.filter(twice).select(keys).row(0, named=True)
        rows = frame.with_row_index("row", 1).filter(**key).unique(values, maintain_order=True)
        (one, *of_one), (other, *of_other) = rows.select("row", *values).rows()[:2]
        changed = [a != b for a, b in zip(of_one, of_other, strict=True)]
        shown = [some_of(compress(row, changed), 3) for row in (of_one, of_other)]
        named = ", ".join(f"{name.removesuffix('_id')} {value}" for name, value in key.items())
        raise InputError(
            f"{once.filter(twice).select(keys).n_unique():,} predictions are repeated with other"
            f" values, such as {named}:"
            f" row {one} has {shown[0]}, row {other} has {shown[1]}",
            where=where,
            allowed="each image and task once in a run",
            remedy="name the runs in a column run, method or seed, if these are several",
        )
    n = frame.height - once.height
    return once, [f"{counted(n, 'repeated row')} with the same values count once"]


def runs_of(frame: pl.DataFrame, name: str, scale: str, where: str) -> list[Predictions]:
    """The runs of the rows of ``checked_rows``; ``name`` is the file's."""
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


def checked_rows(
    frame: pl.DataFrame, column: str, tasks: Sequence[str], where: str
) -> tuple[pl.DataFrame, list[str]]:
    """The columns that count, with fixed types and without nulls, and names of ``tasks`` that are
    written otherwise, in words.
    """
    if not frame["value"].dtype.is_numeric():
        strange = _strange(frame["value"])
        shown = f"such as {strange[0]!r}" if len(strange) else "which are not numbers"
        problem = f"column {column} contains {strange.dtype}, {shown}"
        raise InputError(problem, where=where, allowed="numbers", **_text_hint(strange))
    errors = (pl.exceptions.PolarsError,)
    with unreadable(where, _LONG, errors, problem="columns have the wrong type"):
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
    names = _as_tasks(frame["task"].unique(maintain_order=True), tasks)
    other = [f"{own} as {name}" for own, name in names.items() if name != class_name(own)]
    read_as = [f"{some_of(other)}"] if other else []
    return frame.with_columns(task=frame["task"].replace(names)), read_as


def _one_run(
    frame: pl.DataFrame, run: str, method: str | None, seed: int | None, scale: str, where: str
) -> Predictions:
    """Rows of one run as a matrix: every (image, task) at most once."""
    ids, tasks = frame["image_id"].unique().sort(), frame["task"].unique(maintain_order=True)
    place = positions(frame["task"], tasks) * len(ids) + positions(frame["image_id"], ids)
    absent = np.ones((len(tasks), len(ids)), bool)
    absent.reshape(-1)[place] = False
    if len(place) > np.count_nonzero(~absent):
        facts = [name for name in ("value", "label") if name in frame.columns]
        frame, notes = _once(frame, ["image_id", "task"], facts, f"{where}, run {run}")
        one = _one_run(frame, run, method, seed, scale, where)
        return replace(one, notes=(*notes, *one.notes))
    given = frame["value"].to_numpy()
    values = np.zeros(absent.shape, dtype=given.dtype)
    values.reshape(-1)[place] = given
    labels = None
    if "label" in frame.columns:
        labels = np.full(values.shape, -1, dtype=np.int8)
        labels.reshape(-1)[place] = frame["label"].to_numpy()
    predictions = Predictions(run, ids, tuple(tasks), values, scale, method, seed, labels)
    predictions = checked_values(predictions)
    values[absent] = np.nan
    return predictions


ARRAY_ENDINGS = (".npz", ".npy")
_ARRAY_SCALES = {"logits": "logit", "probabilities": "probability"}
_ARRAYS = (
    "image_ids (n,), tasks (t,), and logits or probabilities: (n, t), or (r, n, t) with runs (r,);"
    " or one array (n, t) with its ids and classes"
)


def array_predictions(
    path: Path, name: str, known: Sequence[str], how: FileFormat
) -> list[Predictions]:
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
    names = [str(task) for task in np.atleast_1d(given["tasks"])]
    tasks, notes = [*_as_tasks(names, known).values()], list[str]()
    values = float_array(given[keys[0]])
    spans = dict[str, _Span]()
    if values.ndim in (2, 3) and values.shape[-1] == len(tasks) and values.size:
        ends = (
            values.reshape(-1, len(tasks)).min(axis=0),
            values.reshape(-1, len(tasks)).max(axis=0),
        )
        spans = dict(zip(tasks, zip(*ends, strict=True), strict=True))
        if strange := _strangers(spans, known):
            notes.append(f"{_LEFT_OUT}: {some_of(strange)}")
            values = values[..., [task not in strange for task in tasks]]
            tasks = [task for task in tasks if task not in strange]
    values = values / (100 if how.percent else 1)
    column = keys[0] if keys[0] in _ARRAY_SCALES else None
    mine = [row for row, task in enumerate(tasks) if task in known]
    judged = values[..., mine] if spans and mine else values
    scale, read = scale_of(judged, column, how, path, what="array")
    by_run, names = [values], [name]
    if values.ndim == 3:
        by_run, names = list(values), [f"{name}/{i}" for i in range(len(values))]
    runs = [str(run) for run in np.atleast_1d(given.get("runs", names))]
    if len(runs) != len(by_run):
        problem = f"has {len(runs)} runs and {keys[0]} of shape {values.shape}"
        raise InputError(problem, where=path, allowed=_ARRAYS)
    return [
        replace(of_run, read=_softmax(of_run, read), notes=(*of_run.notes, *notes))
        for of_run in (
            Predictions.from_arrays(part, ids, tasks, scale=scale, run=run)
            for part, run in zip(by_run, runs, strict=True)
        )
    ]
