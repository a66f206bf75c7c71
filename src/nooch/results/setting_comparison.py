"""Benches that differ in one setting, side by side: which conclusions survive another value of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from nooch.errors import ParameterError, check_one_of
from nooch.report.paper_tables import ResultTable
from nooch.report.score_tables import Shown, printable
from nooch.results.paper_statements import Finding
from nooch.results.run_results import Results
from nooch.results.table_contents import like
from nooch.results.three_valued import OPEN
from nooch.training.jobs import BEFORE
from nooch.training.run_records import RunsFolder

__all__ = ["also_differ", "survives", "tables_over", "values_over", "verdicts_over"]


def values_over(sources: Sequence[str | Path], name: str) -> list[str]:
    """The value of a setting in each of several folders of runs, in words.

    Args:
        sources: folders of ``nooch bench``, two or more.
        name: of a setting of the configuration, such as ``lr``, ``stop_on`` or ``within``.

    Raises:
        FormatError: a source is no folder of runs.
        ParameterError: fewer than two, no such setting, or two with the same value.
    """
    if len(sources) < 2:
        raise ParameterError(
            f"one folder of runs to compare over {name}",
            allowed=f"two or more that differ in {name}",
            remedy=f"run nooch bench again with another {name} and `out`",
        )
    found = [_recorded(RunsFolder.open(source)) for source in sources]
    known = sorted(set.intersection(*(set(each) for each in found)))
    check_one_of("setting", name, known, owner="these runs")
    values = [_in_words(each[name]) for each in found]
    if len(set(values)) < len(values):
        raise ParameterError(
            f"{name} is {', '.join(values)}", where="over", allowed="folders that all differ in it"
        )
    return values


def also_differ(sources: Sequence[str | Path], name: str) -> list[str]:
    """A note on what else several folders of runs differ in: a verdict may depend on that as well;
    none where in nothing.

    Args:
        sources: as ``values_over`` takes them.
        name: of the setting that they are compared over.
    """
    folders = [RunsFolder.open(source) for source in sources]
    recorded = [_recorded(runs) for runs in folders]
    # the block is of no effect; hashes say nothing
    names = sorted(
        set.intersection(*(set(each) for each in recorded)) - {name, "block", "features"}
    )
    values = {each: [_in_words(of[each]) for of in recorded] for each in names}
    found = [
        f"{each} ({', '.join(listed)})" for each, listed in values.items() if len(set(listed)) > 1
    ]
    parts = {
        part: [runs.header.data.get(part) for runs in folders]
        for part in ("suite", "features", "pixels", "backbone")
    }
    grids = [list(runs.header.jobs.values()) for runs in folders]
    parts |= {
        "tasks": [{job.task for job in jobs} for jobs in grids],
        "methods or their settings": [
            {(job.method, job.setting) for job in jobs} for jobs in grids
        ],
        "seeds": [{(job.seed, job.order) for job in jobs} for jobs in grids],
    }
    found += [part for part, listed in parts.items() if any(each != listed[0] for each in listed)]
    return (
        [f"these folders differ not only in {name}, but also in {', '.join(found)}"]
        if found
        else []
    )


def _recorded(runs: RunsFolder) -> dict[str, Any]:
    settings = dict(runs.header.settings)
    # of heads, lr, momentum and weight decay are recorded together
    settings |= settings.pop("descent", {})
    data = {name: runs.header.data.get(name) for name in ("environment", "within", "features")}
    return {**BEFORE, **data, **settings}


def _in_words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def tables_over(
    results: Mapping[str, Results], names: Sequence[str], setting: str, **options: Any
) -> tuple[list[ResultTable], list[str]]:
    """The paper's tables of each value, one below the other; their rows have a column for the
    setting.

    Args:
        results: value -> results.
        names: of tables, as ``nooch.results.table_contents.like`` takes them.
        setting: its name.
        options: further ones of ``like``.
    """
    tables: list[ResultTable] = []
    notes: list[str] = []
    for value, found in results.items():
        about = f"{setting} = {value}"
        mine, said = like(
            Results(found.cells, found.notes, f"{found.about}; {about}"), names, **options
        )
        column = pl.lit(value).alias(setting)
        tables += [replace(table, rows=table.rows.with_columns(column)) for table in mine]
        notes += [f"{about}: {text}" for text in said]
    order = {name: place for place, name in enumerate(names)}
    return sorted(tables, key=lambda table: order[table.name]), notes


def survives(verdicts: Sequence[str]) -> bool | None:
    """Whether a verdict is the same at every value; None where there is a verdict at none."""
    return None if set(verdicts) == {OPEN} else len(set(verdicts)) == 1


_SURVIVES = {True: "yes", False: "no", None: "–"}


def verdicts_over(findings: Mapping[str, Sequence[Finding]], setting: str) -> Shown:
    """A line for each statement: its verdict at each value, and whether that is the same at all."""
    lines = []
    for of_statement in zip(*findings.values(), strict=True):
        verdicts = [finding.verdict for finding in of_statement]
        sentence = of_statement[0].statement.sentence
        lines.append([printable(sentence), *verdicts, _SURVIVES[survives(verdicts)]])
    n, known = (sum(line[-1] in kept for line in lines) for kept in (("yes",), ("yes", "no")))
    head = ["statement", *(f"{setting} = {value}" for value in findings), "survives"]
    title = f"Statements over {setting}: {n} of {known} verdicts survive"
    if known < len(lines):
        title += f"; {len(lines) - known} cannot be said at any value"
    return Shown(title, head, lines, 1 + len(findings))
