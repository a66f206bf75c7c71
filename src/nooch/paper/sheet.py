"""The paper's tables from folders of runs, suites and its own numbers, as one sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from msgspec import Meta

from nooch.base.calls import Progress, Seed, checked, no_progress
from nooch.base.errors import InputError, ParameterError
from nooch.base.files import SUITE_MARKER
from nooch.evaluation.bootstrap import RESAMPLES
from nooch.evaluation.scores import Resamples
from nooch.paper.numbers import SET_TABLES, paper_cells
from nooch.paper.tables import like, paper_set_tables, set_tables
from nooch.report.results.pairs import paired_results
from nooch.report.results.run_results import Results, merge, read_results
from nooch.report.tables.method_tables import ResultSheet, legend
from nooch.report.tables.score_tables import SetsShown, tables_of
from nooch.suites import Suite, is_shipped, load_suite
from nooch.suites.suite_folder import with_suite

PAPER = "paper"
"""The source that is the paper's own numbers."""


def read_sources(
    sources: Sequence[str],
    suites: Sequence[Suite] = (),
    *,
    reading: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Results:
    """Results of several folders of ``nooch train bench`` or ``nooch train score``, or of
    ``paper``, under different criteria.

    ``suites``: those that were trained for; ``reading``: keywords of ``nooch.paper.read_results``.
    """
    read = [
        paper_cells()
        if source == PAPER
        else read_results(source, suites, **reading or {}, progress=progress)
        for source in sources
    ]
    return merge(read)


@checked
def paper_sheet(
    sources: Sequence[str],
    names: Sequence[str],
    suites: Mapping[str, Suite],
    *,
    tasks: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    compare: bool = False,
    by_sight: bool = False,
    paired: str | None = None,
    bootstrap: Annotated[Resamples, Meta(ge=1)] = RESAMPLES,
    seed: Seed = 0,
    reading: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> ResultSheet:
    """The paper's tables of these names.

    Args:
        sources: folders of runs or of scores, suites, or ``paper``.
        names: of tables, such as ``table3``.
        suites: folder -> suite that was trained for.
        tasks: names of tasks, over which averages are taken; by default all.
        methods: names of methods; by default all.
        compare: put the paper's numbers next to each.
        by_sight: group methods by the information that they use; the best of each group is marked.
        paired: paired bootstrap against this method, or ``all`` for every pair.
        bootstrap: resamples of ``paired``.
        seed: seed of the resamples.
        reading: keywords of ``nooch.paper.read_results``.
        progress: called with what is being done, and how much of how much is done.
    """
    reading = reading or {}
    of_results = [name for name in names if name not in SET_TABLES]
    of_sets = [name for name in names if name in SET_TABLES]
    choice = {name: reading[name] for name in ("split", "roles") if name in reading}
    sets, notes = _tables_of_sets(
        sources, of_sets, suites, {"tasks": tasks, "compare": compare, **choice}
    )
    if not of_results:
        if paired or methods or by_sight:
            given = {"paired": paired, "methods": methods, "by_sight": by_sight}
            raise ParameterError(
                f"{', '.join(names)} do not compare methods",
                give={name: None for name, value in given.items() if value},
            )
        return ResultSheet([], notes, sets=sets)
    runs = [source for source in sources if not _is_suite(source)]
    if not runs:
        allowed = "a folder of nooch train bench or nooch train score, or paper"
        problem = f"there are no runs for {', '.join(of_results)}"
        raise ParameterError(problem, where="SOURCE", allowed=allowed)
    trained = list(suites.values())
    read = read_sources(runs, trained, reading=reading, progress=progress).select(tasks, methods)
    tables, more = like(read, of_results, compare=compare, by_sight=by_sight)
    notes += more
    differences, shown = None, []
    if paired is not None:
        cells = pl.concat([table.rows for table in tables])
        metrics = cells["metric"].unique(maintain_order=True).to_list()
        how = {name: reading[name] for name in ("split", "strict") if name in reading}
        pairs = paired_results(
            runs,
            trained,
            read,
            cells["criterion"].unique(maintain_order=True).to_list(),
            baseline=paired,
            roles=reading.get("roles"),
            how={
                "metrics": metrics, "bootstrap": bootstrap, "seed": seed, "progress": progress,
                **how,
            },
        )  # fmt: skip
        differences = pl.concat([scores.differences for scores in pairs]) if pairs else None
        shown = [table for scores in pairs for table in tables_of(scores, metrics)]
    return ResultSheet(tables, [legend(by_sight=by_sight), *notes], differences, shown, sets)


def _is_suite(source: str) -> bool:
    """True if a source is a suite: a folder, or one that comes with the package."""
    return is_shipped(source) or (with_suite(source) / SUITE_MARKER).is_file()


def _tables_of_sets(
    sources: Sequence[str],
    names: Sequence[str],
    trained: Mapping[str, Suite],
    choice: Mapping[str, Any],
) -> tuple[list[SetsShown], list[str]]:
    """Tables of suites that are sources, of those trained for, or the paper's; and notes.

    ``choice``: keywords of ``set_tables``.
    """
    if not names:
        return [], []
    for source in sources:
        if source != PAPER and not _is_suite(source) and not Path(source).is_dir():
            allowed = "a suite, a folder of runs or of scores, or paper"
            raise InputError("no such folder", where=source, allowed=allowed)
    suites = {source: load_suite(source) for source in sources if _is_suite(source)}
    suites |= trained
    if not suites and PAPER not in sources:
        problem = f"there is no suite for {', '.join(names)}"
        raise ParameterError(problem, remedy="name one as a source", give={"suite": ...})
    tables: list[SetsShown] = []
    notes: list[str] = []
    for folder, suite in suites.items():
        more, remarks = set_tables(suite, names, Path(folder).name, **choice)
        tables += more
        notes += remarks
    if PAPER in sources:
        tables += paper_set_tables(names, choice["tasks"])
    return tables, list(dict.fromkeys(notes))
