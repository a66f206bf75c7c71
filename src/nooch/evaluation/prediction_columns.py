"""Columns of tables of predictions, recognized by their names, and the scale of values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from nooch.data import read_table
from nooch.data.disk_tables import checked_read, table_files
from nooch.errors import InputError
from nooch.evaluation.prediction_format import PredictionFormat
from nooch.evaluation.predictions import PLURAL, SCALES

__all__ = ["KEYS", "read_prediction_table", "recognized", "scale_of", "text_hint"]

_ALIASES = {
    "image_id": ("image_id", "image", "filename", "file_name", "path", "id"),
    "task": ("task", "class", "label", "category"),
    "value": (*SCALES, "prob", "score", "confidence"),
}
"""What a column can be called; the first name, or those of ``SCALES``, take precedence."""

KEYS = ("run", "method", "seed")
"""Columns that distinguish runs."""

_SCALE_OF = {"logit": "logit", "logits": "logit"}
_SCALE_OF |= dict.fromkeys(("probability", "probabilities", "prob"), "probability")
_BLANK = ' \t"'


def read_prediction_table(path: Path, how: PredictionFormat) -> pl.DataFrame:
    """A table; of text also with semicolons, spaces after separators, and the format's numbers.

    Raises:
        InputError: as ``read_table``.
    """
    first = table_files(path)[0]
    if first.suffix.lower() not in {".csv", ".tsv"}:
        return read_table(path)
    with first.open("rb") as file:
        head = checked_read(first, lambda: file.read(1 << 16))
    line = head.partition(b"\n")[0]
    options: dict[str, Any] = {}
    if first.suffix.lower() == ".csv" and line.count(b";") > line.count(b","):
        options["separator"] = ";"
    frame = read_table(path, **options)
    if any(separator + b" " in head for separator in (b",", b";", b"\t")):
        names = {name: name.strip(_BLANK) for name in frame.columns}
        stripped = cs.string().str.strip_chars(_BLANK)
        frame = checked_read(path, lambda: frame.rename(names).with_columns(stripped))
    texts = {*KEYS, *_ALIASES["image_id"], *_ALIASES["task"]}
    return frame.with_columns(
        _numbers(frame[name], how)
        for name in frame.select(cs.string()).columns
        if name.strip().lower() not in texts
    )


def _numbers(column: pl.Series, how: PredictionFormat) -> pl.Series:
    """Text as float64 where all of it is numbers as the format has them."""
    text = column.str.strip_chars()
    if how.percent:
        text = text.str.strip_chars_end("% ")
    if how.decimal == ",":
        text = text.str.replace(",", ".", literal=True)
    values = text.cast(pl.Float64, strict=False)
    return values if values.null_count() == column.null_count() else column


def recognized(
    frame: pl.DataFrame, tasks: Sequence[str], where: object
) -> tuple[pl.DataFrame, str | None]:
    """A table with ``image_id``, ``task`` and ``value`` where its columns have other names, and
    the name of the column of values; None for a wide table.

    Raises:
        InputError: several columns could be one of these.
    """
    scales = [name for name in SCALES if name in frame.columns]
    if len(scales) == 2:
        problem = "has both a column logit and a column probability"
        raise InputError(problem, where=where, allowed="one of them")
    image = _column("image_id", frame.columns, where)
    # a column label of numbers holds labels
    texts = frame.select(cs.string() | cs.categorical() | cs.enum()).columns
    task = _column("task", ["task"] if "task" in frame.columns else texts, where)
    value: str | None = scales[0] if scales else None
    if value is None and (task or not {"_".join(c.split()) for c in frame.columns} & {*tasks}):
        value = _column("value", frame.columns, where)
    names = {old: new for old, new in zip((image, task, value), _ALIASES, strict=True) if old}
    if value is not None:
        frame = frame.select(c for c in frame.columns if c in (*names, *KEYS, "label"))
    return frame.rename(names), value


def _column(role: str, columns: Sequence[str], where: object) -> str | None:
    """The one column with a name of the role."""
    if role in columns:
        return role
    found = [column for column in columns if column.strip().lower() in _ALIASES[role]]
    if len(found) > 1:
        best = "logit or probability" if role == "value" else role
        raise InputError(
            f"columns {' and '.join(found)} could each be {best}",
            where=where,
            remedy=f"rename one of them to {best}",
        )
    return found[0] if found else None


def text_hint(column: pl.Series) -> str | None:
    """What to do about a column whose numbers are not written as such."""
    text = str(column.drop_nulls().first()) if column.dtype == pl.String else ""
    if text.rstrip().endswith("%"):
        return "give `percent` if values are percentages"
    return "give `decimal` , for decimal commas" if "," in text else None


def scale_of(
    values: NDArray[np.float64],
    name: str | None,
    how: PredictionFormat,
    where: object,
    what: str = "column",
) -> tuple[str, str]:
    """``logit`` or ``probability``, and what was recognized, in words.

    Args:
        values: all values, numbers; percentages already divided by 100.
        name: of their column or array; None where they have none.
        how: the format, whose ``scale`` decides where the name does not.
        where: for errors.
        what: has the name, for messages.

    Raises:
        InputError: neither the name nor ``scale`` decides, or the values contradict the name.
    """
    low, high = (values.min(), values.max()) if values.size else (np.nan, np.nan)
    inside = bool(0 <= low <= high <= 1)
    hard = inside and {low, high} <= {0, 1} and bool(np.isin(values, (0, 1)).all())
    source = f"{what} {name}" if name else {"column": "a wide table", "array": "an array"}[what]
    declared = _SCALE_OF.get((name or "").strip().lower())
    if declared == "probability" or (declared == "logit" and not inside):
        scale: str | None = declared
    else:
        scale = how.scale or ("probability" if name and inside and not declared else None)
    problem, remedy = None, "give `scale` logit or `scale` probability"
    if hard and how.scale is None:
        problem = "holds only 0 and 1: AUC, AUPRC and calibration would have two levels"
        remedy = "give scores; or, if there are none, `scale` probability (or `scale` logit)"
    elif scale is None and declared:
        problem = "holds only values from 0 to 1, as probabilities do"
    elif scale is None and name:
        problem = f"holds values from {low:.6g} to {high:.6g}, which are no probabilities"
        remedy += ", or `percent` if values are percentages"
    elif scale is None:
        problem = "does not say whether its values are logits or probabilities"
    if problem is not None or scale is None:
        raise InputError(f"{source} {problem}", where=where, remedy=remedy)
    levels = "; only 0 and 1, so AUC, AUPRC and calibration have two levels" if hard else ""
    shown = f'{what} "{name}"' if name else source
    return scale, f"{PLURAL[scale]} ({shown}{levels})"
