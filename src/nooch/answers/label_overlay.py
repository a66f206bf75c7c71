"""Corrected labels: what people say of images whose labels are wrong or cannot be decided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from nooch.answers.asked_questions import images_and_tasks
from nooch.challenge import Suite
from nooch.data import ImageId
from nooch.data.json_records import file_records
from nooch.errors import InputError

__all__ = ["LabelOverlay", "read_label_overlay"]

LabelOverlay = Mapping[tuple[str, ImageId], bool | None]
"""(task, image id) -> present (True), absent (False), or ambiguous (None)."""

_VERDICTS = {"yes": True, "no": False, "ambiguous": None}
_ALLOWED = (
    "a table with image_id, task, verdict (yes, no, ambiguous), or JSON records with image, text"
    " and label (yes, no) as RePOPE has them"
)


def read_label_overlay(path: str | Path, suite: Suite) -> LabelOverlay:
    """Verdicts about images and tasks of a suite; those about others are left out.

    RePOPE's files leave out ambiguous questions, so nothing is known of these here.

    Raises:
        InputError: the file cannot be read, has another form, or two verdicts that differ.
    """
    rows = [_fields(record) for record in file_records(path)]
    frame = pl.DataFrame(rows, dict.fromkeys(("image", "text", "verdict"), pl.String), orient="row")
    images, tasks = images_and_tasks(frame["image"], frame["text"], suite)
    overlay: dict[tuple[str, ImageId], bool | None] = {}
    known = zip(rows, images, tasks, strict=True)
    for number, ((image, _, verdict), image_id, task) in enumerate(known, 1):
        if image is None or verdict not in _VERDICTS:
            raise InputError(f"record {number} is no verdict", where=path, allowed=_ALLOWED)
        if task is None or image_id is None:
            continue
        if overlay.setdefault((task, image_id), _VERDICTS[verdict]) != _VERDICTS[verdict]:
            problem = f"record {number} is another verdict on image {image_id}, {task}, than before"
            raise InputError(problem, where=path, allowed="one verdict on an image and task")
    return overlay


def _fields(record: Mapping[str, Any]) -> tuple[str | None, str, str]:
    """Image, name of the task or question, and verdict of a record."""
    names = ("image", "text", "label")
    if "verdict" in record:
        names = ("image_id", "task", "verdict")
    image, text, verdict = (record.get(name) for name in names)
    return None if image is None else str(image), str(text), str(verdict).lower()
