"""What every export of questions shares: the draw, the files of images, ``questions.parquet``."""

from __future__ import annotations

from pathlib import Path

from nooch.data.disk_tables import parquet_bytes
from nooch.exports.export_contract import Content
from nooch.questions import QuestionOptions, Questions, draw_questions, image_names

__all__ = ["QUESTIONS_FILE", "asked", "write_questions"]

QUESTIONS_FILE = "questions.parquet"


def asked(
    content: Content, options: QuestionOptions | None, images: str | Path | None
) -> Questions:
    """The questions about the chosen sets, with the file name of each image.

    Raises:
        InputError: the file of an image is not known.
        UndefinedError: the chosen sets are empty.
    """
    drawn = draw_questions(content.suite, content.keys, options or QuestionOptions())
    ids = drawn.frame["image_id"].unique(maintain_order=True).to_list()
    return drawn.with_images(image_names(ids, content.data, images))


def write_questions(content: Content, table: Questions, folder: Path) -> list[str]:
    """Write ``questions.parquet`` into an export's folder; returns notes for the user."""
    (folder / QUESTIONS_FILE).write_bytes(parquet_bytes(table.frame))
    labels, images = table.frame["label"], table.frame["image_id"].n_unique()
    yes = int(labels.sum())
    notes = [f"{len(table):,} questions on {images:,} images: {yes:,} yes, {len(table) - yes:,} no"]
    if content.suite.header.hard_only:
        notes.append("the suite holds hard images alone, so no question is about an easy one")
    return notes
