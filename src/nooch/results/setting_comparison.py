"""Benches that differ in one setting, side by side: which conclusions survive another value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from nooch.display import DisplayTable
from nooch.english import printable
from nooch.errors import ParameterError, check_one_of
from nooch.report.paper_tables import ResultTable
from nooch.results.paper_statements import Finding
from nooch.results.run_results import Results
from nooch.results.table_contents import like
from nooch.results.three_valued import OPEN
from nooch.training.jobs import BEFORE
from nooch.training.run_records import RunsFolder

__all__ = ["also_differ", "survives", "tables_over", "values_over", "verdicts_over"]


def values_over(sources: Sequence[str | Path], name: str) -> list[str]:
    """The value of a setting, such as ``lr`` or ``within``, in each of several folders, in words.

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
    recorded = [_recorded(RunsFolder.open(source)) for source in sources]
    check_one_of("setting", name, _in_all(recorded), owner="these runs")
    values = [_in_words(settings[name]) for settings in recorded]
    if len(set(values)) < len(values):
        problem = f"{name} is {', '.join(values)}"
        raise ParameterError(problem, where="over", allowed="folders that all differ in it")
    return values


def _in_all(recorded: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the settings that all folders record."""
    return sorted(set.intersection(*map(set, recorded)))


def also_differ(sources: Sequence[str | Path], name: str) -> list[str]:
    """A note on what else several folders of runs differ in, if in anything but ``name``: a verdict
    may depend on that as well.
    """
    folders = [RunsFolder.open(source) for source in sources]
    recorded = [_recorded(runs) for runs in folders]
    differing = []
    for setting in _in_all(recorded):
        values = [_in_words(settings[setting]) for settings in recorded]
        # block has no effect; hashes say nothing
        if setting not in {name, "block", "features"} and len(set(values)) > 1:
            differing.append(f"{setting} ({', '.join(values)})")
    grids = [list(runs.header.jobs.values()) for runs in folders]
    aspects: dict[str, list[Any]] = {
        name: [runs.header.data.get(name) for runs in folders]
        for name in ("suite", "features", "pixels", "backbone")
    }
    aspects["tasks"] = [{job.task for job in jobs} for jobs in grids]
    settings = [{(job.method, job.setting) for job in jobs} for jobs in grids]
    aspects["methods or their settings"] = settings
    aspects["seeds"] = [{(job.seed, job.order) for job in jobs} for jobs in grids]
    differing += [name for name, values in aspects.items() if any(v != values[0] for v in values)]
    text = f"these folders differ not only in {name}, but also in {', '.join(differing)}"
    return [text] if differing else []


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
    """The paper's tables of each value's results, one below the other, with a column for the
    setting; ``options`` are those of ``like``.
    """
    tables: list[ResultTable] = []
    notes: list[str] = []
    for value, at_value in results.items():
        about = f"{setting} = {value}"
        named = replace(at_value, about=f"{at_value.about}; {about}")
        own, own_notes = like(named, names, **options)
        column = pl.lit(value).alias(setting)
        tables += [replace(table, rows=table.rows.with_columns(column)) for table in own]
        notes += [f"{about}: {text}" for text in own_notes]
    return sorted(tables, key=lambda table: names.index(table.name)), notes


def survives(verdicts: Sequence[str]) -> bool | None:
    """Whether a verdict is the same at every value; None where there is a verdict at none."""
    return None if set(verdicts) == {OPEN} else len(set(verdicts)) == 1


_SURVIVES = {True: "yes", False: "no", None: "–"}


def verdicts_over(findings: Mapping[str, Sequence[Finding]], setting: str) -> DisplayTable:
    """A line for each statement: its verdict at each value, and whether that is the same at all."""
    lines = []
    for of_statement in zip(*findings.values(), strict=True):
        verdicts = [finding.verdict for finding in of_statement]
        sentence = of_statement[0].statement.sentence
        lines.append([printable(sentence), *verdicts, _SURVIVES[survives(verdicts)]])
    outcomes = [line[-1] for line in lines]
    n, open_ = outcomes.count("yes"), outcomes.count("–")
    title = f"Statements over {setting}: {n} of {len(lines) - open_} verdicts survive"
    title += f"; {open_} inconclusive at every value" if open_ else ""
    head = ["statement", *(f"{setting} = {value}" for value in findings), "survives"]
    return DisplayTable(title, head, lines, 1 + len(findings))
