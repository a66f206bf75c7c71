"""Yes/no questions as files of POPE and VLMEvalKit, and as a task of lmms-eval."""

from __future__ import annotations

import base64
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nooch.base.errors import InputError, check_one_of, unreadable
from nooch.base.words import counted
from nooch.data import csv_bytes, parquet_bytes
from nooch.report.exports.contract import (
    ANSWER,
    Content,
    Exported,
    asked,
    licenses_text,
    write_export,
    write_file,
    write_questions,
)
from nooch.report.exports.lmms_eval_functions import FALSE_YES, METRICS
from nooch.suites.questions import Draw, Questions, main_criterion

IMAGES_AS = ("paths", "bytes")
_SMALLEST = 49
"""Bytes of an image file at least: VLMEvalKit takes 64 characters of base64 for an index."""


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


def export_pope(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    questions: Draw | None = None,
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

    return write_export(content, "pope", out, fill, overwrite=overwrite)


_LISTED = b"# nooch-images\n"


def export_images(
    content: Content, out: str | Path, *, overwrite: bool = False, questions: Draw | None = None
) -> Exported:
    """Write ``OUT`` as text: the file name of each image that the draw of questions needs, one per
    line, of COCO's images their names of 2017; lines with # at the start have the licenses.
    """

    def make() -> tuple[bytes, list[str]]:
        names = asked(content, questions, None).frame["image"].unique().sort()
        terms = [f"# {line}".rstrip() for line in licenses_text(content.licenses).splitlines()]
        return "\n".join([*terms, *names, ""]).encode(), [counted(len(names), "image")]

    kind = "list of images"
    return write_file(content, "images", out, make, head=_LISTED, kind=kind, overwrite=overwrite)


def export_vlmevalkit(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    questions: Draw | None = None,
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

    return write_export(content, "vlmevalkit", out, fill, overwrite=overwrite)


_AT_ONCE = 64
"""Questions, and so images, in memory at a time."""


def _write_tsv(table: Questions, folder: Path, as_bytes: bool, path: Path) -> None:
    subsets = [pl.lit(f"{name}:") + pl.col(name) for name in table.criteria]
    first: dict[str, int] = {}

    def image(name: str, number: int) -> str:
        if not as_bytes:
            return str(folder / name)
        if first.setdefault(name, number) != number:
            return str(first[name])
        return base64.b64encode(image_bytes(folder, name)).decode()

    with path.open("wb") as file:
        for start in range(0, max(table.frame.height, 1), _AT_ONCE):
            rows = table.frame.slice(start, _AT_ONCE)
            names = zip(rows["image"], rows["question_id"], strict=True)
            listed = rows.select(
                index="question_id", question="text", A=pl.lit("Yes"), B=pl.lit("No"),
                answer=pl.when(pl.col("label") == 1).then(pl.lit("A")).otherwise(pl.lit("B")),
                category=pl.coalesce(subsets),
            ).with_columns(
                rows["task"].alias("l2-category"),
                pl.Series("image" if as_bytes else "image_path", [image(*n) for n in names]),
            )  # fmt: skip
            file.write(csv_bytes(listed, header=start == 0, separator="\t"))


_FUNCTIONS = Path(__file__).with_name("lmms_eval_functions.py")
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
{metrics}lmms_eval_specific_kwargs:
  default:
    pre_prompt: ""
    post_prompt: "\\nAnswer with yes or no."
metadata:
  version: 1
"""
_METRIC = """\
  - metric: {name}
    aggregation: !function utils.{name}
    higher_is_better: {better}
"""
_SCHEMA = pa.schema(
    [
        ("question_id", pa.int64()),
        ("question", pa.string()),
        ("answer", pa.string()),
        ("subset", pa.string()),
        ("weight", pa.float64()),
        ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
    ],
    metadata={"huggingface": '{"info": {"features": {"image": {"_type": "Image"}}}}'},
)
"""Types and a mark with which ``datasets`` decodes the images when they are asked for."""

_ROWS = 256
"""Questions whose images are in memory at a time."""


def export_lmms_eval(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    questions: Draw | None = None,
    images: str | Path | None = None,
    images_as: str = IMAGES_AS[0],
) -> Exported:
    """Write a folder for ``lmms-eval --include_path``: the task ``nooch_questions``, its functions
    ``utils.py``, its data ``docs.parquet`` (``question_id, question, answer, subset, weight,
    image``; the subset is the one under ``context``, or else the first criterion), and
    ``questions.parquet``. The question id is in each metric of ``{datetime}_samples_*.jsonl``.
    """
    check_one_of("images_as", images_as, IMAGES_AS)
    folder = image_folder(content, images)
    source = need_image_folder(folder, "`images_as` bytes") if images_as == "bytes" else None
    table = asked(content, questions, folder)

    def fill(partial: Path) -> list[str]:
        metrics = [_METRIC.format(name=name, better="true") for name in METRICS]
        metrics += [_METRIC.format(name=name, better="false") for name in FALSE_YES]
        task = _TASK.format(metrics="".join(metrics))
        (partial / "nooch_questions.yaml").write_text(task, encoding="utf-8")
        functions = _FUNCTIONS.read_text(encoding="utf-8")
        notes = write_questions(content, table, partial)
        if source is None and folder is None:
            notes.append(f"put the image files into {Path(out) / 'images'}, or make it a link")
        elif source is None:
            functions = functions.replace('IMAGES = "images"', f"IMAGES = {str(folder)!r}")
        (partial / "utils.py").write_text(functions, encoding="utf-8")
        _write_docs(table, source, partial / "docs.parquet")
        return notes

    return write_export(content, "lmms-eval", out, fill, overwrite=overwrite)


def _write_docs(table: Questions, source: Path | None, path: Path) -> None:
    """The task's rows; images are read from ``source``, or named if it is None."""
    subset = main_criterion(table.criteria)
    docs = table.frame.select(
        "question_id", question="text", answer=ANSWER, subset=subset, weight="weight", image="image"
    )
    if source is None:
        path.write_bytes(parquet_bytes(docs))
        return
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        for rows in docs.iter_slices(_ROWS):
            # the questions about an image follow one another: it is read once
            names = rows["image"].unique()
            files = {name: {"bytes": image_bytes(source, name), "path": name} for name in names}
            records = [{**row, "image": files[row["image"]]} for row in rows.iter_rows(named=True)]
            writer.write_table(pa.Table.from_pylist(records, schema=_SCHEMA))
