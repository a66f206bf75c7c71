"""Corrected labels: what people say of images whose labels are wrong or cannot be decided."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.answers.asked_questions import image_id_of, task_of, tasks_by_noun
from nooch.challenge.suite import OverlayRecord
from nooch.data import ImageId
from nooch.data.json_records import file_records
from nooch.english import counted
from nooch.errors import InputError, some_of
from nooch.files import sha256_of

__all__ = ["LabelOverlay", "OverlaySource", "read_label_overlay"]

OverlaySource = str | Path | Sequence[str | Path]
"""One or several files of verdicts."""

_VERDICTS = {"yes": True, "no": False, "ambiguous": None}
_ALLOWED = (
    "a table with image_id, task, verdict (yes, no, ambiguous), or JSON records with image, text"
    " and label (yes, no) as RePOPE has them"
)

Verdicts = Mapping[ImageId, bool | None]
"""Image id -> present (True), absent (False), or ambiguous (None)."""


@dataclass(frozen=True)
class LabelOverlay:
    """Verdicts of people, which take the place of labels; no dataset is changed.

    Attributes:
        verdicts: task -> image id -> verdict.
        record: hashes of the files, how many verdicts count, and those on which reviewers differ.
    """

    verdicts: Mapping[str, Verdicts]
    record: OverlayRecord

    def applied(
        self, task: str, image_ids: pl.Series, labels: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Labels with the verdicts in their place; where there is a verdict; where it is ambiguous.

        Args:
            task: its name.
            image_ids: of the images, shape (n,).
            labels: bool (n,).
        """
        verdicts = self.verdicts.get(task, {})
        labels, judged, ambiguous = labels.copy(), np.zeros_like(labels), np.zeros_like(labels)
        own = image_ids.is_in(pl.Series(list(verdicts), dtype=image_ids.dtype).implode())
        for row in np.flatnonzero(own.to_numpy()):
            verdict = verdicts[image_ids[int(row)]]
            judged[row], ambiguous[row] = True, verdict is None
            labels[row] = labels[row] if verdict is None else verdict
        return labels, judged, ambiguous


def read_label_overlay(
    source: OverlaySource, images: Mapping[str, ImageId], tasks: Sequence[str]
) -> LabelOverlay:
    """Verdicts about images and tasks; those about others are left out.

    Of several verdicts of one ``reviewer`` the latest by ``time`` (ISO 8601) counts; among
    reviewers the majority, and where there is none, the image is ambiguous. RePOPE's files leave
    out ambiguous questions, so nothing is known of these here.

    Args:
        source: one or several files.
        images: text of an image id -> image id.
        tasks: names.

    Raises:
        InputError: a file cannot be read, has another form, or has two verdicts of one reviewer
            that differ, without a time that tells which is the later.
    """
    paths = [Path(path) for path in ([source] if isinstance(source, str | Path) else source)]
    nouns = tasks_by_noun(tasks)
    said: defaultdict[tuple[str, ImageId], dict[str, tuple[str, str]]] = defaultdict(dict)
    for path in paths:
        for number, record in enumerate(file_records(path), 1):
            image, task, verdict = _fields(record, nouns)
            if image is None or verdict not in _VERDICTS:
                raise InputError(f"record {number} is no verdict", where=path, allowed=_ALLOWED)
            image_id = image_id_of(str(image), images)
            if task is None or image_id is None:
                continue
            reviewer, time = (str(record.get(name) or "") for name in ("reviewer", "time"))
            before = said[task, image_id].setdefault(reviewer, (time, verdict))
            if time == before[0] and verdict != before[1]:
                raise InputError(
                    f"record {number} is another verdict on image {image_id}, {task}, than before",
                    where=path,
                    allowed="one verdict of a reviewer on an image and task, or a time in each",
                )
            said[task, image_id][reviewer] = max(before, (time, verdict))
    verdicts: defaultdict[str, dict[ImageId, bool | None]] = defaultdict(dict)
    split = []
    for (task, image_id), of_reviewers in said.items():
        counts = Counter(verdict for _, verdict in of_reviewers.values())
        (verdict, most), *others = counts.most_common()
        if others:
            split.append(f"{image_id} ({task})")
        tied = any(count == most for _, count in others)
        verdicts[task][image_id] = None if tied else _VERDICTS[verdict]
    notes = [f"corrected labels: {counted(len(said), 'verdict')} on images and tasks known here"]
    if split:
        notes.append(f"reviewers differ on {counted(len(split), 'verdict')}: {some_of(split)}")
    return LabelOverlay(verdicts, OverlayRecord([sha256_of(path) for path in paths], notes))


def _fields(record: Mapping[str, Any], nouns: Mapping[str, str]) -> tuple[Any, str | None, str]:
    """Image, one of the tasks, and verdict of a record."""
    if "verdict" in record:
        task = nouns.get(str(record.get("task")).lower())
        return record.get("image_id"), task, str(record["verdict"]).lower()
    text = record.get("text")
    task = task_of(text, nouns) if isinstance(text, str) else None
    return record.get("image"), task, str(record.get("label")).lower()
