"""Corrected labels: what people say of images whose labels are wrong or cannot be decided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nooch.answers.asked_questions import image_id_of, images_of, task_of, tasks_by_noun
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
    path = Path(path)
    records = file_records(path)
    ids, nouns = images_of(suite), tasks_by_noun(suite)
    overlay: dict[tuple[str, ImageId], bool | None] = {}
    for number, record in enumerate(records, 1):
        image, task, verdict = _fields(record, nouns)
        if image is None or verdict not in _VERDICTS:
            raise InputError(f"record {number} is no verdict", where=path, allowed=_ALLOWED)
        image_id = image_id_of(str(image), ids)
        if task is None or image_id is None:
            continue
        if overlay.setdefault((task, image_id), _VERDICTS[verdict]) != _VERDICTS[verdict]:
            problem = f"record {number} is another verdict on image {image_id}, {task}, than before"
            raise InputError(problem, where=path, allowed="one verdict on an image and task")
    return overlay


def _fields(record: Mapping[str, Any], nouns: Mapping[str, str]) -> tuple[Any, str | None, str]:
    """Image, task of the suite, and verdict of a record."""
    if "verdict" in record:
        task = nouns.get(str(record.get("task")).lower())
        return record.get("image_id"), task, str(record["verdict"]).lower()
    text = record.get("text")
    task = task_of(text, nouns) if isinstance(text, str) else None
    return record.get("image"), task, str(record.get("label")).lower()
