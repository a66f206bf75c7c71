"""The questions that answers belong to: image and task of each, from whichever file there is."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nooch.base.errors import InputError
from nooch.base.words import readable
from nooch.data import Dataset, ImageNames, MatchedNames
from nooch.data.json_records import json_records
from nooch.suites import Suite
from nooch.suites.question_table import Questions, load_questions

__all__ = ["asked_of", "asked_questions", "match_images", "match_tasks"]

_NOUN = r"(?i)\b(?:is|are) there (?:an? |any )?(.+?) in (?:the|this) iman?ge\b"
"""POPE's wording; it writes "imange" after "an"."""


def asked_of(questions: Questions) -> pl.DataFrame:
    """Questions of a table of nooch, as ``asked_questions`` gives them."""
    columns = ["question_id", "image_id", "task", "text", "weight", "label"]
    frame = questions.frame.select(columns)
    return frame.with_columns(
        pl.col("question_id").cast(pl.String), category=pl.lit(None, pl.String)
    )


def asked_questions(
    path: str | Path, about: Suite | Dataset, *, ignore_unknown: bool = False
) -> tuple[pl.DataFrame, str]:
    """Questions of a file: ``questions.parquet`` (or its folder), or POPE's and LLaVA's JSON with
    ``image`` and ``text``, whose images and objects are looked up in the suite or dataset.

    Returns:
        One row for each question: ``question_id`` (String, may repeat in each category),
        ``image_id`` and ``task``, null where they are not known there, ``text``, ``weight``
        (Float64, images of the challenge sets that it stands for), ``category`` (String), ``label``
        (Int8, what the file says the answer is; null where it does not); and how images were
        matched, in words.

    Raises:
        InputError: the file cannot be read, or a record lacks ``image`` or ``text``; see also
            ``match_images``.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "questions.parquet"
    if path.suffix.lower() == ".parquet":
        return asked_of(load_questions(path)), ""
    rows = []
    for number, record in enumerate(json_records(path), 1):
        image, text = record.get("image"), record.get("text")
        if not isinstance(image, str) or not isinstance(text, str):
            raise InputError(
                f"record {number} has no image and text",
                where=path,
                allowed="question_id, image, text in every record, as POPE's files have them",
            )
        others = record.get("question_id", number), record.get("category"), record.get("label")
        rows.append([image, text, *(None if other is None else str(other) for other in others)])
    names = ["image", "text", "question_id", "category", "label"]
    frame = pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")
    label = pl.col("label").str.to_lowercase()
    matched = match_images(frame["image"], about, path, ignore_unknown=ignore_unknown)
    asked = frame.select(
        "question_id",
        matched.ids,
        match_tasks(frame["text"], about),
        "text",
        "category",
        label.replace_strict({"yes": 1, "no": 0}, default=None, return_dtype=pl.Int8),
        weight=pl.lit(1.0),
    )
    return asked, matched.note


def match_images(
    names: pl.Series, about: Suite | Dataset, where: object, *, ignore_unknown: bool = False
) -> MatchedNames:
    """The images that names mean, see ``ImageNames.match``; null for those that are not there."""
    if isinstance(about, Dataset):
        return ImageNames.of(about.images).match(names, where, strict=not ignore_unknown)
    return about.match_names(names, where, strict=not ignore_unknown)


def match_tasks(texts: pl.Series, about: Suite | Dataset) -> pl.Series:
    """Column ``task``: the task (of a dataset, the class) that each text names, or null. A text is
    the name, as words or as it is, in any case, or a question in POPE's wording.
    """
    tasks = about.classes if isinstance(about, Dataset) else about.tasks
    known = {readable(task).lower(): task for task in tasks}
    known |= {task.lower(): task for task in tasks}
    names = pl.select(pl.coalesce(texts.str.extract(_NOUN), texts).str.to_lowercase()).to_series()
    return names.replace_strict(known, default=None, return_dtype=pl.String).alias("task")
