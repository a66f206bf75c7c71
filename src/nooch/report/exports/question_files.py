"""Yes/no questions: what their exports share, and POPE's and VLMEvalKit's files."""

from __future__ import annotations

import base64
import csv
from pathlib import Path

import polars as pl

from nooch.base.errors import InputError, check_one_of, unreadable
from nooch.data.table_files import parquet_bytes
from nooch.report.exports.contract import Content, Exported, write_folder
from nooch.suites.questions import QuestionOptions, Questions, draw_questions, image_names

ANSWER = pl.when(pl.col("label") == 1).then(pl.lit("yes")).otherwise(pl.lit("no"))
"""What the answer to a question should be, in words."""
IMAGES_AS = ("paths", "bytes")
_SMALLEST = 49
"""Bytes of an image file at least: VLMEvalKit takes 64 characters of base64 for an index."""


def asked(
    content: Content, options: QuestionOptions | None, images: str | Path | None
) -> Questions:
    """The questions about the chosen sets, with the file name of each image."""
    drawn = draw_questions(content.suite, content.keys, options or QuestionOptions())
    ids = drawn.frame["image_id"].unique(maintain_order=True).to_list()
    return drawn.with_images(image_names(ids, content.data, images))


def image_folder(content: Content, images: str | Path | None) -> Path | None:
    """The folder of image files, absolute: ``images``, else the dataset's where it is there."""
    recorded = None if content.data is None else content.data.image_root
    if images is None and recorded is not None and Path(recorded).is_dir():
        images = recorded
    return None if images is None else Path(images).resolve()


def need_image_folder(folder: Path | None, purpose: str) -> Path:
    """The folder of image files. Raises InputError where it is not known."""
    if folder is None:
        problem = f"{purpose} needs the image files, and the folder of images is not there"
        raise InputError(problem, remedy="give the folder of images as `images`")
    return folder


def image_bytes(folder: Path, name: str) -> bytes:
    """Content of an image file. Raises InputError: it cannot be read, or is too small."""
    with unreadable(folder / name):
        content = (folder / name).read_bytes()
    if len(content) < _SMALLEST:
        raise InputError(f"is no image: it has {len(content)} bytes", where=folder / name)
    return content


def write_questions(content: Content, table: Questions, folder: Path) -> list[str]:
    """Write ``questions.parquet`` into an export's folder; returns notes for the user."""
    (folder / "questions.parquet").write_bytes(parquet_bytes(table.frame))
    labels, images = table.frame["label"], table.frame["image_id"].n_unique()
    yes = int(labels.sum())
    notes = [f"{len(table):,} questions on {images:,} images: {yes:,} yes, {len(table) - yes:,} no"]
    if content.suite.header.hard_only:
        notes.append("the suite holds hard images alone, so no question is about an easy one")
    return notes


def export_pope(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    questions: QuestionOptions | None = None,
    images: str | Path | None = None,
) -> Exported:
    """Write ``questions.json``, an object per line with ``question_id, image, text, label`` as
    POPE's files have them (Li et al., EMNLP 2023), and ``questions.parquet``.
    """
    table = asked(content, questions, images)

    def fill(folder: Path) -> list[str]:
        lines = table.frame.select("question_id", "image", "text", label=ANSWER)
        lines.write_ndjson(folder / "questions.json")
        return write_questions(content, table, folder)

    return write_folder(content, "pope", out, fill, overwrite=overwrite)


def export_vlmevalkit(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    questions: QuestionOptions | None = None,
    images: str | Path | None = None,
    images_as: str = IMAGES_AS[0],
) -> Exported:
    """Write ``nooch_questions.tsv`` for VLMEvalKit's folder ``LMUData``, where it is scored as
    multiple choice, A for yes and B for no, and ``questions.parquet``.

    Its columns are ``index`` (the question id), ``question, A, B, answer, category`` (the subset
    under the first criterion that has a verdict, ``ce:hard_negative``), ``l2-category`` (the task),
    and ``image_path``, or ``image`` in base64, where later questions about an image have the index
    of the first one.
    """
    check_one_of("images_as", images_as, IMAGES_AS)
    folder = need_image_folder(image_folder(content, images), "the export vlmevalkit")
    table = asked(content, questions, folder)

    def fill(partial: Path) -> list[str]:
        _write_tsv(table, folder, images_as == "bytes", partial / "nooch_questions.tsv")
        return write_questions(content, table, partial)

    return write_folder(content, "vlmevalkit", out, fill, overwrite=overwrite)


def _write_tsv(table: Questions, folder: Path, as_bytes: bool, path: Path) -> None:
    """Write line by line, one image in memory at a time."""
    subsets = [pl.lit(f"{name}:") + pl.col(name) for name in table.criteria]
    rows = table.frame.select(
        "question_id", "text", "label", pl.coalesce(subsets).alias("category"), "task", "image"
    )
    first: dict[str, int] = {}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        image_column = "image" if as_bytes else "image_path"
        head = "index question A B answer category l2-category"
        writer.writerow([*head.split(), image_column])
        for number, text, label, category, task, name in rows.iter_rows():
            if not as_bytes:
                image = str(folder / name)
            elif first.setdefault(name, number) != number:
                image = str(first[name])
            else:
                image = base64.b64encode(image_bytes(folder, name)).decode()
            answer = "A" if label else "B"
            writer.writerow([number, text, "Yes", "No", answer, category, task, image])
