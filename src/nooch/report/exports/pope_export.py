"""Yes/no questions as POPE's JSON lines."""

from __future__ import annotations

from pathlib import Path

from nooch.report.exports.export_contract import Content, Exported, write_folder
from nooch.report.exports.question_content import ANSWER, asked, write_questions
from nooch.suites.question_draw import QuestionOptions

__all__ = ["export_pope"]


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

    Args:
        content: what is exported.
        out: the folder to write.
        overwrite: replace a folder, but only one that an export wrote.
        questions: how many, which wording, which seed.
        images: folder of images, whose files are matched by the dataset's names, else by ids.

    Raises:
        InputError: the file of an image is not known.
        UndefinedError: the chosen sets are empty.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    table = asked(content, questions, images)

    def fill(folder: Path) -> list[str]:
        lines = table.frame.select("question_id", "image", "text", label=ANSWER)
        lines.write_ndjson(folder / "questions.json")
        return write_questions(content, table, folder)

    return write_folder(content, "pope", out, fill, overwrite=overwrite)
