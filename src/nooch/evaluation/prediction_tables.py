"""Long and wide tables -> predictions, one for each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from nooch.data import class_name, id_column
from nooch.errors import InputError, some_of
from nooch.evaluation.prediction_columns import KEYS, recognized, scale_of, text_hint
from nooch.evaluation.prediction_format import PredictionFormat
from nooch.evaluation.predictions import SCALES, Predictions, check_values, positions

__all__ = ["TABLES", "table_predictions"]

_LONG = f"long: image_id, task, logit or probability, and any of {', '.join(KEYS)}, label"
_WIDE = "wide: image_id and a column for each task"
_KINDS: dict[str, Any] = dict.fromkeys(("task", "run", "method"), pl.String)
_KINDS |= {"value": pl.Float64, "seed": pl.Int64, "image_id": None, "label": None}
"""Columns of a long table, and the types of most."""

TABLES = f"{_LONG}; or {_WIDE}"
"""What tables hold, for errors."""


def table_predictions(
    frame: pl.DataFrame, name: str, tasks: Sequence[str], how: PredictionFormat, where: str
) -> list[Predictions]:
    """The runs of a table.

    Args:
        frame: long or wide.
        name: of a run without a name.
        tasks: known ones; the only one is that of a table without a column for them.
        how: the format.
        where: for errors.
    """
    columns = frame.columns
    frame, column = recognized(frame, tasks, where)
    if "image_id" not in frame.columns:
        raise _refused(f"has columns {some_of(columns, 8)}", where, TABLES)
    if not frame.height:
        raise _refused("holds no row", where, "a prediction for every image of the scored split")
    if column is None and "task" in frame.columns:
        raise _refused("has a column task, but neither logit nor probability", where)
    if column is None:
        frame = _unpivoted(frame, where)
    elif "task" not in frame.columns:
        if len(tasks) != 1:
            allowed = f"{_LONG} (task may be left out where there is only one)"
            raise _refused("has no column task", where, allowed)
        frame = frame.with_columns(task=pl.lit(tasks[0]))
    frame = _checked(frame, column or "value", where)
    if how.percent:
        frame = frame.with_columns(pl.col("value") / 100)
    scale, read = scale_of(frame["value"].to_numpy(), column, how, where)
    return [replace(run, read=read) for run in _runs(frame, name, scale, where)]


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
            f"columns are no numbers: {shown}",
            where=where,
            allowed=_WIDE,
            remedy=text_hint(frame[wrong[0]]),
        )
    return frame.unpivot(columns, index=index, variable_name="task", value_name="value")


def _runs(frame: pl.DataFrame, name: str, scale: str, where: str) -> list[Predictions]:
    keys = [key for key in KEYS if key in frame.columns]
    if not keys:
        return [_one_run(frame, name, None, None, scale, where)]
    parts = frame.partition_by(keys, as_dict=True, maintain_order=True)
    names = [_run_name(dict(zip(keys, values, strict=True)), name) for values in parts]
    if len(set(names)) < len(names):
        names = [_joined(values) or name for values in parts]
    runs = []
    for run, (values, part) in zip(names, parts.items(), strict=True):
        of: dict[str, Any] = dict(zip(keys, values, strict=True))
        runs.append(_one_run(part, run, of.get("method"), of.get("seed"), scale, where))
    return runs


def _run_name(of: Mapping[str, Any], name: str) -> str:
    if of.get("run") is not None:
        return str(of["run"])
    method = of.get("method")
    return _joined([name if method is None else method, of.get("seed")])


def _joined(parts: Iterable[Any]) -> str:
    return "/".join(str(part) for part in parts if part is not None)


def _checked(frame: pl.DataFrame, column: str, where: str) -> pl.DataFrame:
    """The columns that count, with fixed types and without nulls."""
    if not frame["value"].dtype.is_numeric():
        strange = frame["value"].drop_nulls()
        if strange.dtype == pl.String:
            numbers = strange.cast(pl.Float64, strict=False)
            strange = strange.filter(~numbers.is_finite().fill_null(value=False))
        shown = f"such as {strange[0]!r}" if len(strange) else "which are no numbers"
        problem, hint = f"column {column} holds {strange.dtype}, {shown}", text_hint(strange)
        raise InputError(problem, where=where, allowed="numbers", remedy=hint)
    try:
        # integers in a column with empty cells are read as floats
        frame = frame.with_columns(id_column(frame["image_id"], where)).select(
            pl.col(c).cast(kind) if kind else pl.col(c)
            for c, kind in _KINDS.items()
            if c in frame.columns
        )
    except pl.exceptions.PolarsError as error:
        problem = f"columns are of the wrong kind: {str(error).splitlines()[0]}"
        raise _refused(problem, where) from error
    for name in ("image_id", "task", "value"):
        missing = frame.filter(pl.col(name).is_null())
        if missing.height:
            image, task = missing["image_id"][0], missing["task"][0]
            example = f", such as image {image}, task {task}" if name == "value" else ""
            problem = f"{missing.height} {name}s are missing{example}"
            raise _refused(problem, where, "a value in every row")
    if "label" in frame.columns:
        label = frame["label"].cast(pl.Float64, strict=False)
        if not label.is_in([0.0, 1.0]).fill_null(value=False).all():
            raise _refused("column label holds more than 0 and 1", where, "0 and 1 in every row")
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
    if len(np.unique(place)) != len(place):
        twice = frame.filter(frame.select("image_id", "task").is_duplicated())
        image, task = twice.select("image_id", "task").row(0)
        raise InputError(
            f"{len(place) - len(np.unique(place))} predictions are repeated, such as image {image},"
            f" task {task}, run {run}",
            where=where,
            allowed="each image and task once in a run",
            remedy="name the runs in a column run, method or seed, if these are several",
        )
    values = np.full((len(tasks), len(ids)), np.nan)
    given = frame["value"].to_numpy()
    labels = None
    if "label" in frame.columns:
        labels = np.full(values.shape, -1, dtype=np.int8)
        labels.reshape(-1)[place] = frame["label"].to_numpy()
    values.reshape(-1)[place] = given
    predictions = Predictions(run, ids, tuple(tasks), values, scale, method, seed, labels)
    if not np.isfinite(given).all() or scale == "probability":
        # places without a prediction are NaN on purpose
        present = np.zeros(values.shape, dtype=bool)
        present.reshape(-1)[place] = True
        check_values(np.where(present, values, 0.0), predictions)
    return predictions
