"""Scores as files: everything in Parquet, CSV and JSON, tables of a paper in Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from nooch.data.table_files import TABLE_FILES, result_contents, write_files
from nooch.evaluation.scores import Scores
from nooch.report.tables.score_tables import latex, markdown, tables_of

_WHOLE: dict[str, Callable[[Any, Sequence[str]], bytes]] = {
    ".json": lambda scores, _: msgspec.json.encode(as_json(scores)) + b"\n",
    ".md": lambda scores, metrics: markdown(tables_of(scores, metrics)).encode(),
    ".tex": lambda scores, metrics: latex(tables_of(scores, metrics)).encode(),
}
SCORE_FILES = (*TABLE_FILES, *_WHOLE)
"""Endings that scores can be written with."""


def as_json(scores: Scores) -> dict[str, Any]:
    """Everything as JSON-like values. Of answers also ``headlines``, and ``answers``: rates of yes
    by run, criterion and subset, the share of unknown answers and the bounds that they leave.
    """
    of_answers: dict[str, Any] = {}
    if scores.contexts:
        rates = scores.contexts.items()
        of_answers["headlines"] = scores.headlines
        of_answers["answers"] = [
            {"run": run, "criterion": criterion, **row}
            for (run, criterion), of in rates
            for row in of.bounded()
        ]
    return {
        **of_answers,
        "settings": dict(scores.settings),
        "notes": list(scores.notes),
        "scores": scores.table.to_dicts(),
        "differences": scores.differences.to_dicts(),
    }


def save_scores(
    scores: Scores, path: str | Path, *, metrics: Sequence[str] = (), overwrite: bool = False
) -> list[Path]:
    """Write scores to a file whose ending names the format; return the files that were written.

    Differences between runs, where there are any, go to a second file ``NAME-differences`` in
    Parquet and CSV.

    Args:
        scores: of ``nooch.evaluate`` or ``nooch.vlm.score_captions``.
        path: ending in ``.parquet``, ``.csv``, ``.json``, ``.md`` or ``.tex``.
        metrics: which the tables of ``.md`` and ``.tex`` show, see ``tables_of``; the others hold
            all.
        overwrite: replace files that exist.

    Raises:
        ParameterError: another ending.
        OutputError: a file exists (and ``overwrite`` is false) or cannot be written.
    """
    tables = {"": scores.table}
    if scores.differences.height:
        tables["differences"] = scores.differences
    whole = {ending: partial(form, scores, metrics) for ending, form in _WHOLE.items()}
    contents = result_contents(path, "scores file", tables, whole, overwrite=overwrite)
    write_files(contents)
    return list(contents)
