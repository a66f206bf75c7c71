"""Corrected labels: people's verdicts on images whose labels are wrong or undecidable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, some_of
from nooch.base.files import sha256_of
from nooch.base.words import counted
from nooch.data import Dataset, name_column
from nooch.data.table_files import file_records
from nooch.suites.questions import match_images, match_tasks
from nooch.suites.suite import OverlayRecord, Suite

OverlaySource = str | Path | Sequence[str | Path]
"""One or several files of verdicts."""

_VERDICTS = {"yes": True, "no": False, "ambiguous": None}
_ALLOWED = (
    "a table with image_id, task, verdict (yes, no, ambiguous), or JSON records with image, text"
    " and label (yes, no) as RePOPE has them"
)
_PAIR = ("image_id", "task")


@dataclass(frozen=True, eq=False)
class LabelOverlay:
    """Verdicts of people, which take the place of labels; no dataset is changed.

    Attributes:
        frame: ``image_id, task, verdict`` (Boolean: present; null: ambiguous), each pair once.
        record: hashes of the files, how many verdicts there are, where reviewers differ.
    """

    frame: pl.DataFrame
    record: OverlayRecord

    def applied(
        self, task: str, image_ids: pl.Series, labels: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Labels, bool (n,), with verdicts in their place; where one is yes or no; ambiguous."""
        judged = self.frame.filter(task=task).with_columns(judged=True)
        judged = judged.with_columns(pl.col("image_id").cast(image_ids.dtype))
        rows = image_ids.alias("image_id").to_frame()
        rows = rows.join(judged, on="image_id", how="left", maintain_order="left")
        said = rows["judged"].fill_null(value=False).to_numpy()
        clear = rows["verdict"].is_not_null().to_numpy()
        verdicts = rows["verdict"].fill_null(value=False).to_numpy()
        return np.where(clear, verdicts, labels), clear, said & ~clear


def read_label_overlay(source: OverlaySource, about: Suite | Dataset) -> LabelOverlay:
    """Verdicts about images and tasks of a suite or dataset; those about others are left out.

    Of several verdicts of one ``reviewer`` the latest by ``time`` (ISO 8601) counts; among
    reviewers the majority, and if there is none, the image is ambiguous. RePOPE's files leave
    out ambiguous questions, so nothing is known of these here.
    """
    paths = [Path(path) for path in ([source] if isinstance(source, str | Path) else source)]
    files = [_verdicts_of(path, about) for path in paths]
    every = pl.concat([frame for frame, _ in files])
    said = every.drop_nulls(_PAIR)
    latest = said.filter(pl.col("time") == pl.col("time").max().over(*_PAIR, "reviewer"))
    latest = latest.unique([*_PAIR, "reviewer", "verdict"], keep="first", maintain_order=True)
    for row in latest.filter(~pl.struct(*_PAIR, "reviewer").is_first_distinct()).to_dicts():
        raise InputError(
            f"record {row['number']} contradicts an earlier verdict on image"
            f" {row['image_id']}, {row['task']}",
            where=row["path"],
            allowed="one verdict per reviewer, image and task, or a time in each record",
        )
    votes = latest.group_by(*_PAIR, "verdict", maintain_order=True).len()
    split = votes.filter(pl.struct(_PAIR).is_duplicated()).unique(_PAIR, maintain_order=True)
    best = votes.filter(pl.col("len") == pl.col("len").max().over(*_PAIR))
    verdict = pl.col("verdict").replace_strict(_VERDICTS, return_dtype=pl.Boolean)
    decided = pl.when(pl.len().over(*_PAIR) == 1).then(verdict)
    frame = best.select(*_PAIR, decided.alias("verdict")).unique(maintain_order=True)
    notes = [f"corrected labels: {counted(frame.height, 'verdict')} on images and tasks known here"]
    if left := every.height - said.height:
        notes[0] += f"; {counted(left, 'record')} on other images or tasks left out"
    notes += [f"corrected labels: {matched}" for _, matched in files if matched]
    if split.height:
        differ = some_of(f"{image} ({task})" for image, task in split.select(_PAIR).iter_rows())
        notes.append(f"reviewers differ on {counted(split.height, 'verdict')}: {differ}")
    return LabelOverlay(frame, OverlayRecord([sha256_of(path) for path in paths], notes))


def _verdicts_of(path: Path, about: Suite | Dataset) -> tuple[pl.DataFrame, str]:
    """The verdicts of a file, with image and task, null where these are not known; and how images
    were matched.
    """
    rows, images, ours = [], [], False
    for number, record in enumerate(file_records(path), 1):
        # as the page of nooch audit writes them, whose images are ids
        ours = {"image_id", "task", "verdict", "reviewer", "time"} <= record.keys()
        image, *fields = _fields(record)
        if image is None or fields[1] not in _VERDICTS:
            raise InputError(f"record {number} is not a verdict", where=path, allowed=_ALLOWED)
        rows.append([*fields, str(path), str(number)])
        images.append(image)
    names = ("text", "verdict", "reviewer", "time", "path", "number")
    said = pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")
    matched = match_images(name_column(images, path, typed=ours), about, path)
    return said.with_columns(matched.ids, match_tasks(said["text"], about)), matched.note


def _fields(record: Mapping[str, Any]) -> list[Any]:
    """Image, name of the task or question, verdict, reviewer and time of a record."""
    names = ("image_id", "task", "verdict") if "verdict" in record else ("image", "text", "label")
    image, text, verdict = (record.get(name) for name in names)
    about = [str(record.get(name) or "") for name in ("reviewer", "time")]
    return [image, str(text), str(verdict).lower(), *about]
