"""Files of captions, as models and benchmarks write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.data import name_column
from nooch.data.json_records import file_records
from nooch.evaluation.answer_text import answer_span
from nooch.suites import Suite

__all__ = ["ModelCaptions", "read_captions"]

_IMAGE, _TEXT = ("image_id", "image", "file_name", "id"), ("caption", "text", "response", "answer")
_ALLOWED = f"records with one of {', '.join(_IMAGE)} and one of {', '.join(_TEXT)}"


@dataclass(frozen=True)
class ModelCaptions:
    """One model's captions.

    Attributes:
        run: name of the file, with its folder where several have that name.
        captions: ``image_id`` (of the suite), ``caption``.
        n_outside: captions of images that the suite does not have.
        n_cut: texts without a caption, such as reasoning that was cut off.
        matched: how images were matched, in words; empty where all are ids.
    """

    run: str
    captions: pl.DataFrame
    n_outside: int = 0
    n_cut: int = 0
    matched: str = ""


def read_captions(paths: Sequence[str | Path], suite: Suite) -> list[ModelCaptions]:
    """The captions of each file.

    JSON (an array, one record per line, or one after the other) or a table, with the image's id or
    file name and the text: COCO's results (``image_id, caption``), POPE's (``image_id, text``),
    AMBER's (``id, response``). Reasoning before a caption is left out. A file without images, but
    with ``question_id``, takes them from the other files, where they are given for these ids.

    Args:
        paths: the files.
        suite: which images there are.

    Raises:
        InputError: a file that cannot be read, has another form, or whose images are not known.
    """
    files = [(Path(path), file_records(path)) for path in paths]
    if len({path.absolute() for path, _ in files}) < len(files):
        raise InputError("a file of captions is given twice", allowed="each file once")
    images: dict[Any, Any] = {}
    for path, records in files:
        for record in records:
            key, image = record.get("question_id"), record.get("image_id")
            if key is not None and image is not None and images.setdefault(key, image) != image:
                raise InputError(
                    f"question {key} is about image {images[key]} here and {image} there",
                    where=path,
                    allowed="files of the same questions",
                )
    runs = [_read(path, records, images, suite) for path, records in files]
    stems = [run.run for run in runs]
    return [
        replace(run, run=str(path)) if stems.count(run.run) > 1 else run
        for run, (path, _) in zip(runs, files, strict=True)
    ]


def _read(
    path: Path, records: Sequence[Mapping[str, Any]], images: Mapping[Any, Any], suite: Suite
) -> ModelCaptions:
    if not records:
        raise InputError("holds no caption", where=path, allowed=_ALLOWED)
    text_field, image_field = (
        next((name for name in names if name in records[0]), None) for names in (_TEXT, _IMAGE)
    )
    by_question = image_field is None and "question_id" in records[0]
    if text_field is None or (image_field is None and not by_question):
        fields = some_of(sorted(records[0]), 8)
        raise InputError(f"record 1 has {fields}", where=path, allowed=_ALLOWED)
    texts = [record.get(text_field) for record in records]
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            problem = f"record {number} has no text as {text_field}"
            raise InputError(problem, where=path, allowed=_ALLOWED)
    names = [record.get(image_field or "question_id") for record in records]
    if by_question:
        if unknown := [question for question in names if images.get(question) is None]:
            raise InputError(
                f"the images of {len(unknown):,} questions are not known: {some_of(unknown)}",
                where=path,
                allowed="records with image_id, or question_id where another file has both",
                remedy="give a file of the same questions that has image_id, too",
            )
        names = [images[question] for question in names]
    matched = suite.match_names(name_column(names, path), path)
    said = pl.Series("caption", [_said(str(text)) for text in texts], pl.String)
    captions = pl.DataFrame([matched.ids, said]).drop_nulls()
    if not captions.height:
        raise InputError("no caption is of an image of the suite", where=path)
    cut = int((said.is_null() & matched.ids.is_not_null()).sum())
    return ModelCaptions(path.stem, captions, matched.ids.null_count(), cut, matched.note)


def _said(text: str) -> str | None:
    """The caption after a model's reasoning; None where there is reasoning alone."""
    span = answer_span(text)
    said = text[slice(*span)] if span else ""
    return said if said.strip() or not text.strip() else None
