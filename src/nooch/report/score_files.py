"""Scores as files: Parquet, CSV and JSON with everything, Markdown and LaTeX with what a paper
shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.data import parquet_bytes
from nooch.errors import OutputError, check_one_of
from nooch.evaluation import Scores
from nooch.files import check_output_file, replace_file
from nooch.report.score_tables import latex, markdown, tables_of

__all__ = ["SCORE_FILES", "as_json", "save_scores", "write_file"]


_TABLES: dict[str, Callable[[pl.DataFrame], bytes]] = {
    ".parquet": parquet_bytes,
    ".csv": lambda table: table.write_csv().encode(),
}
_WHOLE: dict[str, Callable[[Scores, Sequence[str]], str]] = {
    ".json": lambda scores, _: msgspec.json.encode(as_json(scores)).decode() + "\n",
    ".md": lambda scores, metrics: markdown(tables_of(scores, metrics)),
    ".tex": lambda scores, metrics: latex(tables_of(scores, metrics)),
}
SCORE_FILES = (*_TABLES, *_WHOLE)
"""Endings that scores can be written with."""


def as_json(scores: Scores) -> dict[str, Any]:
    """Everything as JSON-like values."""
    return {
        "settings": dict(scores.settings),
        "notes": list(scores.notes),
        "scores": scores.table.to_dicts(),
        "differences": scores.differences.to_dicts(),
    }


def save_scores(
    scores: Scores,
    path: str | Path,
    *,
    metrics: Sequence[str] = ("auc", "nll"),
    overwrite: bool = False,
) -> list[Path]:
    """Write scores to a file whose ending names the format; return the files that were written.

    Differences between runs, where there are any, go to a second file ``NAME-differences`` in
    Parquet and CSV.

    Args:
        scores: the scores.
        path: ending in ``.parquet``, ``.csv``, ``.json``, ``.md`` or ``.tex``.
        metrics: which the tables of ``.md`` and ``.tex`` show; the others hold all.
        overwrite: replace files that exist.

    Raises:
        ParameterError: another ending.
        OutputError: a file exists (and ``overwrite`` is false) or cannot be written.
    """
    path = Path(path)
    check_one_of("ending of a scores file", path.suffix, SCORE_FILES)
    if path.suffix in _WHOLE:
        contents = {path: _WHOLE[path.suffix](scores, metrics).encode()}
    else:
        write = _TABLES[path.suffix]
        contents = {path: write(scores.table)}
        if scores.differences.height:
            contents[path.with_name(f"{path.stem}-differences{path.suffix}")] = write(
                scores.differences
            )
    for file in contents:
        check_output_file(file, overwrite=overwrite)
    for file, content in contents.items():
        write_file(file, content)
    return list(contents)


def write_file(file: Path, content: bytes) -> None:
    """Write a file, whole or not at all, and the folders that lead to it.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder: {error.strerror}", where=file.parent) from error
    replace_file(file, content)
