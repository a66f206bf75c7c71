"""Shared by exports of questions: the questions drawn, and their image files."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nooch.base.errors import InputError, unreadable
from nooch.data.table_files import parquet_bytes
from nooch.report.exports.contract import Content
from nooch.suites.questions import Draw, Questions, draw_questions, image_names, with_files

ANSWER = pl.when(pl.col("label") == 1).then(pl.lit("yes")).otherwise(pl.lit("no"))
"""Expected answer to a question, in words."""
IMAGES_AS = ("paths", "bytes")
_SMALLEST = 49
"""Bytes of an image file at least: VLMEvalKit takes 64 characters of base64 for an index."""


def asked(content: Content, options: Draw | None, images: str | Path | None) -> Questions:
    """The questions about the chosen sets, with the file name of each image."""
    drawn = draw_questions(content.suite, content.keys, options or Draw())
    drawn = with_files(drawn, content.suite, content.data, images)
    ids = drawn.frame["image_id"].unique(maintain_order=True).to_list()
    of_coco = content.suite.is_of_coco
    return drawn.with_images(image_names(ids, content.data, images, of_coco=of_coco))


def image_folder(content: Content, images: str | Path | None) -> Path | None:
    """The folder of image files, absolute: ``images``, else the dataset's if it is there."""
    recorded = None if content.data is None else content.data.image_root
    if images is None and recorded is not None and Path(recorded).is_dir():
        images = recorded
    return None if images is None else Path(images).resolve()


def need_image_folder(folder: Path | None, purpose: str) -> Path:
    """The folder of image files. Raises InputError if it is not known."""
    if folder is None:
        problem = f"{purpose} needs the image files, and the folder of images is not there"
        raise InputError(problem, give={"images": ...})
    return folder


def image_bytes(folder: Path, name: str) -> bytes:
    """Content of an image file. Raises InputError: it cannot be read, or is too small."""
    with unreadable(folder / name):
        content = (folder / name).read_bytes()
    if len(content) < _SMALLEST:
        raise InputError(f"is not an image: it has {len(content)} bytes", where=folder / name)
    return content


def write_questions(content: Content, table: Questions, folder: Path) -> list[str]:
    """Write ``questions.parquet`` into an export's folder; returns notes for the user."""
    (folder / "questions.parquet").write_bytes(parquet_bytes(table.frame))
    labels, images = table.frame["label"], table.frame["image_id"].n_unique()
    yes = int(labels.sum())
    notes = [f"{len(table):,} questions on {images:,} images: {yes:,} yes, {len(table) - yes:,} no"]
    notes += table.notes
    if content.suite.header.hard_only:
        notes.append("the suite contains only hard images, so no question is about an easy one")
    return notes
