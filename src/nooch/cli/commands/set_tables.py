"""Tables 2, 6 and 7 of ``nooch results``: of suites that are sources, of those of ``--suite``, or
the paper's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nooch.challenge import Suite, is_shipped, load_suite
from nooch.errors import InputError, ParameterError
from nooch.files import SUITE_MARKER
from nooch.report.set_count_tables import SetsShown
from nooch.results.suite_tables import paper_set_tables, set_tables

__all__ = ["is_suite", "tables_of_sets"]

_PAPER = "paper"


def is_suite(source: str) -> bool:
    """Whether a source is a suite: a folder, or one that comes with the package."""
    return is_shipped(source) or (Path(source) / SUITE_MARKER).is_file()


def tables_of_sets(
    sources: Sequence[str], given: Mapping[str, Suite], names: Sequence[str], **options: Any
) -> tuple[list[SetsShown], list[str]]:
    """The tables, and notes.

    Args:
        sources: as the command line names them; folders of runs have no sets of their own.
        given: suites of ``--suite`` by name.
        names: of tables.
        options: of ``nooch.results.suite_tables.set_tables``.
    """
    for source in sources:
        if source != _PAPER and not is_suite(source) and not Path(source).is_dir():
            raise InputError(
                "no such folder",
                where=source,
                allowed="a suite, a folder of runs or of scores, or paper",
            )
    suites = {source: load_suite(source) for source in sources if is_suite(source)} | dict(given)
    if not suites and _PAPER not in sources:
        raise ParameterError(
            f"there is no suite for {', '.join(names)}",
            where="SOURCE",
            remedy="give a suite as SOURCE, or --suite SUITE",
        )
    tables: list[SetsShown] = []
    notes: list[str] = []
    for source, suite in suites.items():
        found, said = set_tables(suite, names, Path(source).name, **options)
        tables += found
        notes += said
    if _PAPER in sources:
        tables += paper_set_tables(names, options["tasks"])
    return tables, list(dict.fromkeys(notes))
