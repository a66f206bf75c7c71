"""Yes/no questions as a task of lmms-eval."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nooch.base.errors import check_one_of
from nooch.report.exports.contract import Content, Exported, write_export
from nooch.report.exports.lmms_eval_functions import FALSE_YES, METRICS
from nooch.report.exports.question_content import (
    ANSWER,
    IMAGES_AS,
    asked,
    image_bytes,
    image_folder,
    need_image_folder,
    write_questions,
)
from nooch.suites.questions import Draw, Questions

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
    subset = "context" if "context" in table.criteria else table.criteria[0]
    docs = table.frame.select(
        "question_id", question="text", answer=ANSWER, subset=subset, weight="weight", image="image"
    )
    if source is None:
        docs.write_parquet(path)
        return
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        for rows in docs.iter_slices(_ROWS):
            # the questions about an image follow one another: it is read once
            names = rows["image"].unique()
            files = {name: {"bytes": image_bytes(source, name), "path": name} for name in names}
            records = [{**row, "image": files[row["image"]]} for row in rows.iter_rows(named=True)]
            writer.write_table(pa.Table.from_pylist(records, schema=_SCHEMA))
