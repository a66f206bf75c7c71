"""Yes/no questions as POPE's and VLMEvalKit's files."""

from __future__ import annotations

import base64
from pathlib import Path

import polars as pl

from nooch.base.errors import check_one_of
from nooch.base.files import local_path, replace_file, writing
from nooch.base.words import counted
from nooch.data import csv_bytes
from nooch.report.exports.contract import (
    Content,
    Exported,
    check_replaceable,
    licenses_text,
    write_export,
)
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
    path = local_path(out).absolute()
    check_replaceable(path, _LISTED, "list of images", overwrite=overwrite)
    names = asked(content, questions, None).frame["image"].unique().sort()
    terms = [f"# {line}".rstrip() for line in licenses_text(content.licenses).splitlines()]
    with writing(path.parent, "choose another path"):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, _LISTED + "\n".join([*terms, *names, ""]).encode())
    notes = [f"{counted(len(names), 'image')}", *content.notes]
    return Exported("images", str(out), len(content.keys), [path.name], content.licenses, notes)


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
