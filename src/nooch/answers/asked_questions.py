"""The questions that answers belong to: image and task of each, from whichever file there is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nooch.challenge import Suite
from nooch.data import ImageId
from nooch.data.json_records import json_records
from nooch.english import readable
from nooch.errors import InputError
from nooch.questions import Questions, load_questions

__all__ = [
    "AskedQuestion",
    "asked_of",
    "asked_questions",
    "image_id_of",
    "images_of",
    "task_of",
    "tasks_by_noun",
]

_NOUN = re.compile(
    r"\b(?:is|are) there (?:an? |any )?(.+?) in (?:the|this) iman?ge\b", re.IGNORECASE
)
"""POPE's wording; it writes "imange" after "an"."""
_NUMBER = re.compile(r"(\d+)$")


@dataclass(frozen=True)
class AskedQuestion:
    """A question that a model was asked.

    Attributes:
        question_id: its number or name in its file; may repeat in each category.
        image: image id of the suite, or None where the suite does not have the image.
        task: of the suite, or None where the suite does not have the object.
        text: as it was asked.
        weight: images of the challenge sets that it stands for.
        category: part of the file.
        label: what the file says the answer is, or None.
    """

    question_id: Any
    image: ImageId | None
    task: str | None
    text: str
    weight: float = 1.0
    category: str | None = None
    label: bool | None = None


def asked_of(questions: Questions) -> list[AskedQuestion]:
    """Questions of a table of nooch."""
    columns = ["question_id", "image_id", "task", "text", "weight", "label"]
    rows = questions.frame.select(columns).iter_rows()
    return [
        AskedQuestion(number, image, task, text, weight, label=bool(label))
        for number, image, task, text, weight, label in rows
    ]


def asked_questions(path: str | Path, suite: Suite) -> list[AskedQuestion]:
    """Questions of a file: ``questions.parquet`` (or its folder), or POPE's and LLaVA's JSON with
    ``image`` and ``text``, whose images and objects are looked up in the suite.

    Raises:
        InputError: the file cannot be read, or a record lacks ``image`` or ``text``.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "questions.parquet"
    if path.suffix.lower() == ".parquet":
        return asked_of(load_questions(path))
    nouns, ids, asked = tasks_by_noun(suite.tasks), images_of(suite), []
    for number, record in enumerate(json_records(path), 1):
        image, text = record.get("image"), record.get("text")
        if not isinstance(image, str) or not isinstance(text, str):
            raise InputError(
                f"record {number} has no image and text",
                where=path,
                allowed="question_id, image, text in every record, as POPE's files have them",
            )
        label = record.get("label")
        asked.append(
            AskedQuestion(
                record.get("question_id", number),
                image_id_of(image, ids),
                task_of(text, nouns),
                text,
                category=record.get("category"),
                label={"yes": True, "no": False}.get(str(label).lower()),
            )
        )
    return asked


def images_of(suite: Suite) -> dict[str, ImageId]:
    """Image ids of all sets of a suite, by their text."""
    sets: Iterable[Sequence[ImageId]] = (suite.set(*key).image_ids.to_list() for key in suite.keys)
    return {str(image_id): image_id for ids in sets for image_id in ids}


def tasks_by_noun(tasks: Sequence[str]) -> dict[str, str]:
    """Tasks by their names as words, in lower case, and as they are."""
    names = {task.lower(): task for task in tasks}
    return {**{readable(task).lower(): task for task in tasks}, **names}


def task_of(text: str, nouns: Mapping[str, str]) -> str | None:
    """The task that a question in POPE's wording names, or None; ``nouns``: words -> task."""
    match = _NOUN.search(text)
    return nouns.get(match.group(1).lower()) if match else None


def image_id_of(name: str, ids: Mapping[str, ImageId]) -> ImageId | None:
    """The image whose id a file name or path is, or ends with in digits; None if there is none."""
    stem = name.replace("\\\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
    digits = _NUMBER.search(stem)
    number = digits.group(1).lstrip("0") or "0" if digits else ""
    return ids.get(name, ids.get(stem, ids.get(number)))
