"""``nooch results`` and ``nooch statements``: the paper's tables and conclusions from runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from nooch.base.errors import check_one_of
from nooch.cli import options as shared
from nooch.cli.terminal import hint, note, print_json, print_shown, print_text, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nooch.report.results.paper_sheet import ResultOptions


_PAPER = "paper"
_SOURCES = Argument(
    ...,
    metavar="SOURCE...",
    help=(
        "Folders of nooch bench (with --suite) or of nooch collect; paper for the paper's own"
        " numbers; for nooch results also suites (tables 2, 6 and 7)."
    ),
)
_SUITES = Option(
    [],
    "--suite",
    help="Suite that was trained for; one for each SOURCE that needs one, in any order.",
)
_SPLIT = Option("test", help="Split whose scores are taken.")
_CRITERIA = Option(
    None, "--criteria", help="KIND=NAME,...: which criterion stands for ce, gist or attribute."
)
_TASKS = Option(None, help="Tasks, separated by commas; averages are over these. All by default.")


class StatementFormat(StrEnum):
    """How verdicts are printed."""

    text = "text"
    json = "json"
    markdown = "markdown"


def results_command(
    sources: list[str] = _SOURCES,
    like: list[str] = Option(
        ["table3"],
        help="table2 to 7 and 9 to 18, separated by commas; or all, which is 3 to 5 and 9 to 18.",
    ),
    suite: list[Path] = _SUITES,
    rule: str = shared.RuleOption,
    split: str = _SPLIT,
    criteria: str = _CRITERIA,
    tasks: str = _TASKS,
    strict: bool = shared.StrictOption,
    methods: str = Option(None, help="Methods, separated by commas; all by default."),
    compare: str = Option(None, help="paper: put the published number next to each."),
    by_sight: bool = Option(
        False,
        "--by-sight",
        help="Group methods by the information they use; the best of each group is marked.",
    ),
    paired: str = Option(None, help="Paired bootstrap against this method, or all for every pair."),
    bootstrap: int = Option(1000, min=1, help="Resamples of --paired."),
    seed: int = shared.ResamplesSeedOption,
    out: list[Path] = Option(
        [], help="File: .md, .tex, .csv, .parquet or .json; repeat for several."
    ),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Print results of runs as the paper's tables. Mean (sd) over seeds, averages over tasks."""
    from nooch.report.results.paper_sheet import SheetOptions, paper_sheet
    from nooch.report.results.paper_tables import table_names
    from nooch.report.tables.method_tables import check_result_files, save_results

    names = table_names(like)
    if compare is not None:
        check_one_of("comparison", compare, [_PAPER])
    check_result_files(out, overwrite=overwrite, differences=paired is not None)
    chosen = _options(suite, rule, split, criteria, strict, tasks, methods)
    shown = SheetOptions(compare is not None, by_sight, paired, bootstrap, seed)
    with progress() as update:
        sheet = paper_sheet(sources, names, chosen, shown, progress=update)
    written = save_results(sheet, out, overwrite=overwrite)
    if format is shared.Format.json:
        print_json(sheet.json)
        return
    print_shown(sheet.shown())
    note(*sheet.notes)
    if written:
        hint(", ".join(map(str, written)))


def statements_command(
    sources: list[str] = _SOURCES,
    suite: list[Path] = _SUITES,
    only: str = Option(None, help="Statements, separated by commas; all by default."),
    rule: str = shared.RuleOption,
    split: str = _SPLIT,
    criteria: str = _CRITERIA,
    tasks: str = _TASKS,
    strict: bool = shared.StrictOption,
    format: StatementFormat = Option(StatementFormat.text, help="How verdicts are printed."),
) -> None:
    """Judge which of the paper's conclusions hold. With the numbers behind each."""
    from nooch.report import markdown
    from nooch.report.results.paper_sheet import read_sources
    from nooch.report.results.run_results import paper_cells
    from nooch.report.results.statements import (
        STATEMENTS,
        finding_facts,
        finding_tables,
        judge_statements,
    )

    wanted = [
        check_one_of("statement", name, STATEMENTS) for name in shared.split_names(only)
    ] or None
    chosen = _options(suite, rule, split, criteria, strict, tasks)
    with progress() as update:
        results = read_sources(sources, chosen, progress=update)
    findings, of_paper = judge_statements(results, wanted), judge_statements(paper_cells(), wanted)
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


def _options(
    suites: Sequence[Path],
    rule: str,
    split: str,
    criteria: str | None,
    strict: bool,
    tasks: str | None,
    methods: str | None = None,
) -> ResultOptions:
    from nooch.report.results.paper_sheet import ResultOptions
    from nooch.suites import load_suite

    roles = shared.parse_pairs(criteria, "--criteria", "ce=mine")
    trained = {str(path): load_suite(path) for path in suites}
    chosen = shared.split_names(tasks) or None, shared.split_names(methods) or None
    return ResultOptions(trained, rule, split, roles, strict, *chosen)
