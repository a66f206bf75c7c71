"""Shared by exports that ask questions: those that are drawn, and their table."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nooch.data.table_files import parquet_bytes
from nooch.report.exports.contract import Content
from nooch.suites.questions import Draw, Questions, draw_questions, image_names, with_files

ANSWER = pl.when(pl.col("label") == 1).then(pl.lit("yes")).otherwise(pl.lit("no"))
"""Expected answer to a question, in words."""


def asked(content: Content, options: Draw | None, images: str | Path | None) -> Questions:
    """The questions about the chosen sets, with the file name of each image."""
    drawn = draw_questions(content.suite, content.keys, options or Draw())
    drawn = with_files(drawn, content.suite, content.data, images)
    ids = drawn.frame["image_id"].unique(maintain_order=True).to_list()
    of_coco = content.suite.is_of_coco
    return drawn.with_images(image_names(ids, content.data, images, of_coco=of_coco))


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
