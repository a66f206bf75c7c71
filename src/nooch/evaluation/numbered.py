"""The findings of a check by number: a table in its folder, with the images of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import FormatError, InputError, ParameterError, unreadable
from nooch.data import ImageId, position_of
from nooch.data.table_files import BROKEN_TABLE, parquet_rows
from nooch.data.table_schema import Column, Schema, check_columns
from nooch.suites import Suite

CHECK_MARKER = "findings.json"
"""The file that marks the folder of a check."""
NUMBERED = "numbered_findings.parquet"

_TEXT, _COUNT = Column((pl.String,), "String"), Column((pl.Int64,), "Int64, at least 0")
_IDS = Column((pl.List(pl.Int64), pl.List(pl.String)), "lists of image ids")
COLUMNS: Schema = {
    "number": Column((pl.Int64,), "Int64, ascending from 1"),
    **dict.fromkeys(("kind", "sentence", "task", "side", "run", "split"), _TEXT),
    "phi": Column((pl.String,), "String, null where a finding has none", nulls=True),
    **dict.fromkeys(("n", "n_wrong"), _COUNT),
    **dict.fromkeys(("wrong", "right"), _IDS),
}
"""Columns of ``numbered_findings.parquet``, a row for each finding of a check. ``side``:
``positive`` (images with the task's class) or ``negative``; ``phi``: the images as an expression,
see ``nooch.Attribute``; ``n`` images, of which ``n_wrong`` have an error; ``wrong`` and ``right``
are the ids of images with and without one."""

_AGAIN = "check the predictions again"


def check_of(suite: Suite) -> Path | None:
    """The folder of the check that wrote a suite, if it lies in one."""
    folder = None if suite.folder is None else suite.folder.absolute().parent
    return folder if folder is not None and (folder / CHECK_MARKER).is_file() else None


def numbered_findings(suite: Suite) -> pl.DataFrame:
    """The findings of the check that wrote the suite, see ``COLUMNS``. Raises InputError: no check
    did; FormatError: the table is missing or damaged.
    """
    folder = check_of(suite)
    if folder is None:
        raise InputError(
            "the suite is not of a check, so that there are no findings by number",
            allowed="the folder of a check, or the suite in it",
        )
    path = folder / NUMBERED
    with unreadable(path, errors=BROKEN_TABLE, kind=FormatError, remedy=_AGAIN):
        frame = parquet_rows([path], path)
    check_columns(frame, COLUMNS, path, _AGAIN)
    return frame


def numbered_finding(suite: Suite, number: int) -> dict[str, Any]:
    """The row of one finding. Raises as ``numbered_findings``; ParameterError: no such number."""
    frame = numbered_findings(suite)
    if number not in frame["number"]:
        if not frame.height:
            raise ParameterError("the check has no finding", give={"finding": None})
        allowed = f"1 to {frame.height}" if frame.height > 1 else "1"
        problem = f"the check has no finding {number}"
        raise ParameterError(problem, where="`finding`", allowed=allowed)
    return frame.row(frame["number"].index_of(number) or 0, named=True)


def findings_of_image(suite: Suite, image_id: ImageId) -> list[dict[str, Any]]:
    """``number, kind, sentence, task, run`` and ``wrong`` (Boolean: the model errs on the image) of
    each finding that the image is in. Raises as ``numbered_findings``.
    """
    frame, names = numbered_findings(suite), ("number", "kind", "sentence", "task", "run")
    rows = zip(frame.select(names).rows(named=True), frame["wrong"], frame["right"], strict=True)
    return [
        row | {"wrong": is_wrong}
        for row, *images in rows
        for is_wrong, ids in zip((True, False), images, strict=True)
        if position_of(image_id, ids) is not None
    ]
