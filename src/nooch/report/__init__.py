"""Scores and sweeps as tables for the terminal, papers and pipelines, and as pictures."""

from nooch.report.tables.score_tables import (
    SCORE_FILES,
    as_json,
    latex,
    markdown,
    save_scores,
    tables_of,
)

__all__ = [
    "SCORE_FILES", "as_json", "latex", "markdown", "save_scores",
    "tables_of",
]  # fmt: skip
