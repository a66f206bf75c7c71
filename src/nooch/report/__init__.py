"""Scores and sweeps as tables for the terminal, papers and pipelines, and as pictures."""

from nooch.report.tables.score_files import (
    RESULT_ENDINGS,
    SCORE_FILES,
    as_json,
    save_scores,
    write_files,
)
from nooch.report.tables.score_tables import latex, markdown, tables_of

__all__ = [
    "RESULT_ENDINGS", "SCORE_FILES", "as_json", "latex", "markdown", "save_scores",
    "tables_of", "write_files",
]  # fmt: skip
