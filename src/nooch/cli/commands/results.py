"""``nooch paper tables`` and ``statements``: the paper's tables and conclusions from runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.errors import check_one_of
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.terminal import hint, note, print_json, print_shown, print_text, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nooch.suites import Suite


_PAPER = "paper"
_SOURCES = Argument(
    ...,
    metavar="SOURCE...",
    help=(
        "Folders of nooch train bench (with --suite) or of nooch train score; paper for the paper's"
        " own numbers; for nooch paper tables also suites (tables 2, 6 and 7)."
    ),
)
_SUITES = Option(
    [],
    "--suite",
    help="Suite that was trained for; one for each SOURCE that needs one, in any order.",
)
_CRITERIA = Option(
    None, "--criteria", help="KIND=NAME,...: which criterion stands for ce, gist or attribute."
)
_TASKS = Option(None, help="Tasks, separated by commas; averages are over these. All by default.")
_with_results = takes(
    "nooch.report.results.run_results:read_results", "reading", leave=["roles"],
    group="Which results",
)  # fmt: skip


class StatementFormat(StrEnum):
    """Output format of verdicts."""

    text = "text"
    json = "json"
    markdown = "markdown"


@takes("nooch.report.results.paper_sheet:paper_sheet")
@_with_results
def tables_command(
    sources: list[str] = _SOURCES,
    like: list[str] = Option(
        ["table3"],
        help="table2 to 7 and 9 to 18, separated by commas; or all, which is 3 to 5 and 9 to 18.",
    ),
    suite: list[Path] = _SUITES,
    criteria: str = _CRITERIA,
    compare: str = Option(None, help="paper: put the published number next to each."),
    out: list[Path] = Option(
        [], help="File: .md, .tex, .csv, .parquet or .json; repeat for several."
    ),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    *,
    settings: Any,
    reading: Any,
) -> None:
    """Print results of runs as the paper's tables. Mean (sd) over seeds, averages over tasks."""
    from nooch.report.results.paper_sheet import paper_sheet
    from nooch.report.results.paper_tables import table_names
    from nooch.report.tables.method_tables import check_result_files, save_results

    names = table_names(like)
    if compare is not None:
        check_one_of("comparison", compare, [_PAPER])
    check_result_files(out, overwrite=overwrite, differences="paired" in settings)
    with progress() as update:
        sheet = paper_sheet(
            sources, names, _trained(suite), compare=compare is not None,
            reading={**reading, "roles": _roles(criteria)}, progress=update, **settings,
        )  # fmt: skip
    written = save_results(sheet, out, overwrite=overwrite)
    if format is shared.Format.json:
        print_json(sheet.json)
        return
    print_shown(sheet.shown())
    note(*sheet.notes)
    if written:
        hint(", ".join(map(str, written)))


@_with_results
def statements_command(
    sources: list[str] = _SOURCES,
    suite: list[Path] = _SUITES,
    only: str = Option(None, help="Statements, separated by commas; all by default."),
    criteria: str = _CRITERIA,
    tasks: str = _TASKS,
    format: StatementFormat = Option(StatementFormat.text, help="Output format of verdicts."),
    *,
    reading: Any,
) -> None:
    """Test the paper's conclusions on your runs, with the numbers behind each."""
    from nooch.report import markdown
    from nooch.report.results.paper_sheet import read_sources
    from nooch.report.results.run_results import paper_cells
    from nooch.report.results.statements import (
        STATEMENTS,
        finding_facts,
        finding_tables,
        judge_statements,
    )

    statements = [
        check_one_of("statement", name, STATEMENTS) for name in shared.split_names(only)
    ] or None
    reading = {**reading, "roles": _roles(criteria)}
    with progress() as update:
        read = read_sources(sources, [*_trained(suite).values()], reading=reading, progress=update)
    results = read.select(shared.split_names(tasks) or None)
    findings, of_paper = (
        judge_statements(results, statements),
        judge_statements(paper_cells(), statements),
    )
    note(*results.notes, *results.averages)
    if format is StatementFormat.json:
        print_json(finding_facts(findings, of_paper))
        return
    tables = finding_tables(findings, of_paper, results.about)
    if format is StatementFormat.markdown:
        rules = [f"- {f.statement.sentence} {f.statement.rule}" for f in findings]
        print_text(markdown(tables) + "\n" + "\n".join(rules) + "\n")
        return
    print_shown(tables)


def _trained(suites: Sequence[Path]) -> dict[str, Suite]:
    """Folder -> suite."""
    from nooch.suites import load_suite

    return {str(path): load_suite(path) for path in suites}


def _roles(text: str | None) -> dict[str, str]:
    return shared.parse_pairs(text, "--criteria", "ce=mine")
