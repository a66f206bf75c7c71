"""The paper's tables from folders of runs, suites and its own numbers, as one sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.calls import Options, Progress, no_progress, options_from
from nooch.base.errors import InputError, ParameterError
from nooch.base.files import SUITE_MARKER
from nooch.report.results.pairs import paired_results
from nooch.report.results.paper_tables import legend, like, paper_set_tables, set_tables
from nooch.report.results.run_results import Results, merge, paper_cells, read_results
from nooch.report.tables.method_tables import ResultSheet
from nooch.report.tables.score_tables import SetsShown, tables_of
from nooch.suites import Suite, is_shipped, load_suite
from nooch.suites.published_counts import SET_TABLES

PAPER = "paper"
"""The source that is the paper's own numbers."""


@dataclass(frozen=True)
class ResultOptions(Options):
    """Which results are read from folders.

    Attributes:
        suites: folder -> suite that was trained for.
        rule, split, roles, strict: as for ``nooch.paper.read_results``.
        tasks: names; averages are over these. All by default.
        methods: names; all by default.
    """

    suites: Mapping[str, Suite] = field(default_factory=dict)
    rule: str = "worst-hard"
    split: str = "test"
    roles: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    tasks: Sequence[str] | None = None
    methods: Sequence[str] | None = None


@dataclass(frozen=True)
class SheetOptions:
    """How the sheet shows results.

    Attributes:
        compare: put the paper's numbers next to each.
        by_sight: group methods by the information that they use.
        paired: paired bootstrap against this method (``all``: every pair), ``bootstrap`` times.
    """

    compare: bool = False
    by_sight: bool = False
    paired: str | None = None
    bootstrap: int = 1000
    seed: int = 0


def read_sources(
    sources: Sequence[str],
    options: ResultOptions | None = None,
    *,
    progress: Progress = no_progress,
    **named: Any,
) -> Results:
    """Results of several folders of ``nooch bench`` or ``nooch collect``, or of ``paper``, under
    different criteria; fields of the options can be given by name.
    """
    chosen = options_from(ResultOptions, options, named)
    choice: dict[str, Any] = {
        name: getattr(chosen, name) for name in ("rule", "split", "roles", "strict")
    }
    suites = list(chosen.suites.values())
    read = [
        paper_cells()
        if source == PAPER
        else read_results(source, suites, **choice, progress=progress)
        for source in sources
    ]
    return merge(read).select(chosen.tasks or None, chosen.methods or None)


def paper_sheet(
    sources: Sequence[str],
    names: Sequence[str],
    results: ResultOptions,
    sheet: SheetOptions,
    *,
    progress: Progress = no_progress,
) -> ResultSheet:
    """The paper's tables of these names, from folders of runs or of scores, suites, or
    ``paper``.
    """
    of_results = [name for name in names if name not in SET_TABLES]
    of_sets = [name for name in names if name in SET_TABLES]
    sets, notes = _tables_of_sets(sources, of_sets, results, compare=sheet.compare)
    if not of_results:
        if sheet.paired or results.methods or sheet.by_sight:
            raise ParameterError(
                f"{', '.join(names)} have no methods",
                remedy="leave out `paired`, `methods` and `by_sight`",
            )
        return ResultSheet([], notes, sets=sets)
    runs = [source for source in sources if not _is_suite(source)]
    if not runs:
        allowed = "a folder of nooch bench or nooch collect, or paper"
        problem = f"there are no runs for {', '.join(of_results)}"
        raise ParameterError(problem, where="SOURCE", allowed=allowed)
    marks = {"compare": sheet.compare, "by_sight": sheet.by_sight}
    read = read_sources(runs, results, progress=progress)
    tables, more = like(read, of_results, **marks)
    notes += more
    differences, shown = None, []
    if sheet.paired is not None:
        cells = pl.concat([table.rows for table in tables])
        metrics = cells["metric"].unique(maintain_order=True).to_list()
        pairs = paired_results(
            runs,
            list(results.suites.values()),
            read,
            cells["criterion"].unique(maintain_order=True).to_list(),
            baseline=sheet.paired,
            roles=results.roles,
            metrics=metrics,
            split=results.split,
            bootstrap=sheet.bootstrap,
            seed=sheet.seed,
            strict=results.strict,
            progress=progress,
        )
        differences = pl.concat([scores.differences for scores in pairs]) if pairs else None
        shown = [table for scores in pairs for table in tables_of(scores, metrics)]
    return ResultSheet(tables, [legend(by_sight=sheet.by_sight), *notes], differences, shown, sets)


def _is_suite(source: str) -> bool:
    """Whether a source is a suite: a folder, or one that comes with the package."""
    return is_shipped(source) or (Path(source) / SUITE_MARKER).is_file()


def _tables_of_sets(
    sources: Sequence[str], names: Sequence[str], options: ResultOptions, *, compare: bool
) -> tuple[list[SetsShown], list[str]]:
    """Tables of suites that are sources, of those trained for, or the paper's; and notes."""
    if not names:
        return [], []
    for source in sources:
        if source != PAPER and not _is_suite(source) and not Path(source).is_dir():
            allowed = "a suite, a folder of runs or of scores, or paper"
            raise InputError("no such folder", where=source, allowed=allowed)
    suites = {source: load_suite(source) for source in sources if _is_suite(source)}
    suites |= options.suites
    if not suites and PAPER not in sources:
        problem = f"there is no suite for {', '.join(names)}"
        raise ParameterError(problem, remedy="give a suite as SOURCE, or `suite`")
    tables: list[SetsShown] = []
    notes: list[str] = []
    for folder, suite in suites.items():
        more, remarks = set_tables(
            suite,
            names,
            Path(folder).name,
            split=options.split,
            roles=options.roles,
            tasks=options.tasks,
            compare=compare,
        )
        tables += more
        notes += remarks
    if PAPER in sources:
        tables += paper_set_tables(names, options.tasks)
    return tables, list(dict.fromkeys(notes))
