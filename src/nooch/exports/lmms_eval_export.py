"""Yes/no questions as a task of lmms-eval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from nooch.errors import check_one_of
from nooch.exports.export_contract import Content, Exported, write_folder
from nooch.exports.parquet_parts import written
from nooch.exports.question_content import (
    IMAGES_AS,
    asked,
    image_bytes,
    image_folder,
    need_image_folder,
    write_questions,
)
from nooch.questions import QuestionOptions, Questions

__all__ = ["export_lmms_eval"]

_FUNCTIONS = Path(__file__).with_name("lmms_eval_functions.py")
_METRICS = ("accuracy", "precision", "recall", "f1", "yes_rate")
_TASK = """\
task: nooch_questions
dataset_path: parquet
dataset_kwargs:
  data_files:
    test: docs.parquet
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_target: answer
generation_kwargs:
  max_new_tokens: 16
  temperature: 0
  do_sample: false
process_results: !function utils.process_results
metric_list:
"""
_METRIC = """\
  - metric: {name}
    aggregation: !function utils.{name}
    higher_is_better: true
"""
_REST = """\
lmms_eval_specific_kwargs:
  default:
    pre_prompt: ""
    post_prompt: "\\nAnswer with yes or no."
metadata:
  version: 1
"""
_VALUES = {"question_id": "int64", "question": "string", "answer": "string"}
_FEATURES = {name: {"dtype": kind, "_type": "Value"} for name, kind in _VALUES.items()}
_IMAGE_FEATURE = {
    "huggingface": json.dumps({"info": {"features": {**_FEATURES, "image": {"_type": "Image"}}}})
}
"""What makes ``datasets`` decode the column of images when it is asked for."""

_ROWS = 256
"""Questions whose images are in memory at a time."""


def export_lmms_eval(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    questions: QuestionOptions | None = None,
    images: str | Path | None = None,
    images_as: str = IMAGES_AS[0],
) -> Exported:
    """Write a folder for ``lmms-eval --include_path``: the task ``nooch_questions``, its functions
    ``utils.py``, its data ``docs.parquet`` (``question_id, question, answer, image``), and
    ``questions.parquet``. The question id is in each metric of ``{datetime}_samples_*.jsonl``.

    Args:
        content: what is exported.
        out: the folder to write.
        overwrite: replace a folder, but only one that an export wrote.
        questions: how many, which wording, which seed.
        images: folder of images, whose files are matched by the dataset's names, else by ids; by
            default the dataset's own, else ``images`` in the written folder, which is yours to add.
        images_as: ``paths`` below that folder, or ``bytes`` in ``docs.parquet``.

    Raises:
        InputError: the file of an image is not known or cannot be read.
        ParameterError: another ``images_as``.
        UndefinedError: the chosen sets are empty.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    check_one_of("images_as", images_as, IMAGES_AS)
    folder = image_folder(content, images)
    source = need_image_folder(folder, "`images_as` bytes") if images_as == "bytes" else None
    table = asked(content, questions, folder)

    def fill(partial: Path) -> list[str]:
        metrics = "".join(_METRIC.format(name=name) for name in _METRICS)
        (partial / "nooch_questions.yaml").write_text(f"{_TASK}{metrics}{_REST}", encoding="utf-8")
        functions = _FUNCTIONS.read_text(encoding="utf-8")
        notes = write_questions(content, table, partial)
        if source is None and folder is None:
            notes.append(f"put the image files into {Path(out) / 'images'}, or make it a link")
        elif source is None:
            functions = functions.replace('IMAGES = "images"', f"IMAGES = {str(folder)!r}")
        (partial / "utils.py").write_text(functions, encoding="utf-8")
        metadata = None if source is None else _IMAGE_FEATURE
        for _ in written(_docs(table, source), partial / "docs.parquet", metadata):
            pass
        return notes

    return write_folder(content, "lmms-eval", out, fill, overwrite=overwrite)


def _docs(table: Questions, source: Path | None) -> Iterator[pl.DataFrame]:
    """The task's rows; images are read from ``source``, or named where it is None."""
    docs = table.frame.select(
        "question_id",
        pl.col("text").alias("question"),
        pl.when(pl.col("label") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("answer"),
        "image",
    )
    if source is None:
        yield docs
        return
    for rows in docs.iter_slices(_ROWS):
        # the questions about an image follow one another: it is read once
        names = rows["image"].unique(maintain_order=True)
        files = pl.DataFrame({"image": names}).with_columns(
            file=pl.struct(
                bytes=pl.Series([image_bytes(source, name) for name in names]), path=names
            )
        )
        with_files = rows.join(files, on="image", how="left", maintain_order="left")
        yield with_files.drop("image").rename({"file": "image"})
