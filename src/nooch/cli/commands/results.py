"""``nooch results`` and ``nooch statements``: the paper's tables from your runs, and its
conclusions asked of them.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nooch.cli.commands.evaluate import ScoreFormat
from nooch.cli.option_parsing import (
    OverwriteOption,
    ResamplesSeedOption,
    StrictOption,
    parse_pairs,
    split_names,
)
from nooch.cli.terminal_output import console, note, print_json, progress, table
from nooch.errors import ParameterError, check_one_of
from nooch.shared_types import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from nooch.challenge import Suite
    from nooch.evaluation import Scores
    from nooch.report.paper_tables import ResultSheet
    from nooch.report.score_tables import Shown
    from nooch.results.run_results import Results

__all__ = ["register"]

PAPER = "paper"
_WIDE = 1000
_SOURCES = typer.Argument(
    ...,
    metavar="SOURCE...",
    help=(
        "Folders of nooch bench (with --suite) or of nooch collect; paper for the paper's own"
        " numbers; for nooch results also suites (tables 2, 6 and 7)."
    ),
)
_SUITES = typer.Option(
    [],
    "--suite",
    help="Suite that was trained for; one for each SOURCE that needs one, in any order.",
)
_RULE = typer.Option("worst-hard", help="Which hyperparameters: as for nooch collect.")
_SPLIT = typer.Option("test", help="Split whose scores are taken.")
_CRITERIA = typer.Option(
    None, "--criteria", help="KIND=NAME,...: which criterion stands for ce, gist or attribute."
)
_OVER = typer.Option(
    None,
    help=(
        "A setting in which the SOURCEs, folders of nooch bench, differ, such as lr: side by side."
    ),
)
_TASKS = typer.Option(
    None, help="Tasks, separated by commas; averages are over these. All by default."
)


class StatementFormat(StrEnum):
    """How verdicts are printed."""

    text = "text"
    json = "json"
    markdown = "markdown"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("results")(results_command)
    app.command("statements")(statements_command)


def results_command(
    sources: list[str] = _SOURCES,
    like: list[str] = typer.Option(
        ...,
        "--like",
        help="table2 to 7 and 9 to 18, separated by commas; or all, which is 3 to 5 and 9 to 18.",
    ),
    suite: list[Path] = _SUITES,
    rule: str = _RULE,
    split: str = _SPLIT,
    criteria: str = _CRITERIA,
    tasks: str = _TASKS,
    strict: bool = StrictOption,
    methods: str = typer.Option(None, help="Methods, separated by commas; all by default."),
    over: str = _OVER,
    compare: str = typer.Option(None, help="paper: put the published number beside each."),
    by_sight: bool = typer.Option(
        False,
        "--by-sight",
        help="Group methods by what they may see; the best of each group is marked.",
    ),
    paired: str = typer.Option(
        None, help="Paired bootstrap against this method, or all for every pair."
    ),
    bootstrap: int = typer.Option(1000, min=1, help="Resamples of --paired."),
    seed: int = ResamplesSeedOption,
    out: list[Path] = typer.Option(
        [], "--out", help="File: .md, .tex, .csv, .parquet or .json; repeat for several."
    ),
    overwrite: bool = OverwriteOption,
    format: ScoreFormat = typer.Option(
        ScoreFormat.text, "--format", help="How tables are printed."
    ),
) -> None:
    """The paper's tables from runs: task x method, mean (sd) over seeds, the best marked, averages
    over tasks.
    """
    import polars as pl

    from nooch.cli.commands.set_tables import is_suite, tables_of_sets
    from nooch.published.published_counts import SET_TABLES
    from nooch.report.paper_tables import ResultSheet, check_result_files
    from nooch.report.score_tables import tables_of
    from nooch.results.paired_runs import paired_results
    from nooch.results.setting_comparison import also_differ, tables_over
    from nooch.results.table_contents import legend, table_names
    from nooch.results.table_contents import like as tables_like

    names = table_names(like)
    of_sets = [name for name in names if name in SET_TABLES]
    of_results = [name for name in names if name not in SET_TABLES]
    if compare is not None:
        check_one_of("comparison", compare, [PAPER])
    check_result_files(out, overwrite=overwrite, differences=paired is not None)
    if over is not None and paired is not None:
        raise ParameterError("--paired with --over", remedy="give one of the two")
    suites, roles = _suites(suite), parse_pairs(criteria, "--criteria", "ce=mine")
    asked_tasks = split_names(tasks) or None
    of_suites = {str(path): one for path, one in zip(suite, suites, strict=True)}
    sets, notes = (
        tables_of_sets(
            sources,
            of_suites,
            of_sets,
            split=split,
            roles=roles,
            tasks=asked_tasks,
            compare=compare is not None,
        )
        if of_sets
        else ([], [])
    )
    if not of_results:
        if paired is not None or methods is not None or by_sight or over is not None:
            raise ParameterError(
                f"{', '.join(names)} have no methods",
                remedy="leave out --paired, --methods, --by-sight and --over",
            )
        _finish(ResultSheet([], notes, sets=sets), out, format, overwrite=overwrite)
        return
    sources = [source for source in sources if not is_suite(source)]
    if not sources:
        raise ParameterError(
            f"there are no runs for {', '.join(of_results)}", where="SOURCE",
            allowed="a folder of nooch bench or nooch collect, or paper",
        )  # fmt: skip
    marks = {"compare": compare is not None, "by_sight": by_sight}
    with progress() as update:
        read = partial(
            _read, suites=suites, rule=rule, split=split, roles=roles, strict=strict, update=update
        )
        chosen = asked_tasks, split_names(methods) or None
        if over is not None:
            each = {value: one.select(*chosen) for value, one in _each(sources, over, read).items()}
            tables, more_notes = tables_over(each, of_results, over, **marks)
            more_notes = [*also_differ(sources, over), *more_notes]
        else:
            found = read(sources).select(*chosen)
            tables, more_notes = tables_like(found, of_results, **marks)
        notes += more_notes
        rows = pl.concat([one.rows for one in tables])
        metrics, asked = (
            rows[column].unique(maintain_order=True).to_list() for column in ("metric", "criterion")
        )
        options = {
            "metrics": metrics,
            "split": split,
            "bootstrap": bootstrap,
            "seed": seed,
            "strict": strict,
        }
        pairs = (
            paired_results(
                sources,
                suites,
                found,
                asked,
                baseline=paired,
                roles=roles,
                progress=update,
                **options,
            )
            if paired is not None
            else []
        )
    more = [shown for scores in pairs for shown in tables_of(scores, metrics)]
    sheet = ResultSheet(
        tables, [legend(by_sight=by_sight), *notes], _differences(pairs), more, sets
    )
    _finish(sheet, out, format, overwrite=overwrite)


def _finish(
    sheet: ResultSheet, out: Sequence[Path], format: ScoreFormat, *, overwrite: bool
) -> None:
    from nooch.report.paper_tables import save_results

    written = save_results(sheet, out, overwrite=overwrite)
    _print(sheet, format)
    if written and format is ScoreFormat.text:
        console().print(", ".join(map(str, written)), style="dim", markup=False)


def statements_command(
    sources: list[str] = _SOURCES,
    suite: list[Path] = _SUITES,
    only: str = typer.Option(None, help="Statements, separated by commas; all by default."),
    rule: str = _RULE,
    split: str = _SPLIT,
    criteria: str = _CRITERIA,
    tasks: str = _TASKS,
    strict: bool = StrictOption,
    over: str = _OVER,
    format: StatementFormat = typer.Option(
        StatementFormat.text, "--format", help="How verdicts are printed."
    ),
) -> None:
    """The paper's conclusions as statements: which hold in these results, and the numbers behind
    each verdict.
    """
    from nooch.results.paper_statements import STATEMENTS, finding_tables, judge_statements
    from nooch.results.run_results import paper_cells
    from nooch.results.setting_comparison import also_differ

    wanted = [check_one_of("statement", name, STATEMENTS) for name in split_names(only)] or None
    suites, roles = _suites(suite), parse_pairs(criteria, "--criteria", "ce=mine")
    with progress() as update:
        read = partial(
            _read, suites=suites, rule=rule, split=split, roles=roles, strict=strict, update=update
        )
        if over is not None:
            each = {
                v: one.select(split_names(tasks) or None)
                for v, one in _each(sources, over, read).items()
            }
            for text in also_differ(sources, over):
                note(text)
            _print_over(each, over, wanted, format)
            return
        found = read(sources).select(split_names(tasks) or None)
    findings, of_paper = judge_statements(found, wanted), judge_statements(paper_cells(), wanted)
    for text in [*found.notes, *found.averages]:
        note(text)
    if format is StatementFormat.json:
        paper = {f.statement.name: f.verdict for f in of_paper}
        print_json(
            [
                {
                    "name": f.statement.name, "sentence": f.statement.sentence, "rule": f.statement.rule, "verdict": f.verdict,
                    "scope": f.scope, "paper": paper[f.statement.name], "checks": f.checks,
                }
                for f in findings
            ]
        )  # fmt: skip
        return
    tables = finding_tables(findings, of_paper, found.about)
    if format is StatementFormat.markdown:
        from nooch.report import markdown

        rules = [f"- {f.statement.sentence} {f.statement.rule}" for f in findings]
        print(markdown(tables) + "\n" + "\n".join(rules))  # noqa: T201 - what was asked for goes to standard output
        return
    _print_tables(tables)


def _each(
    sources: Sequence[str], over: str, read: Callable[[Sequence[str]], Results]
) -> dict[str, Results]:
    """Value of the setting -> results of the folder that has it."""
    from nooch.results.setting_comparison import values_over

    values = values_over(sources, over)
    return {value: read([source]) for value, source in zip(values, sources, strict=True)}


def _print_over(
    each: Mapping[str, Results], over: str, wanted: Sequence[str] | None, format: StatementFormat
) -> None:
    """Verdicts at each value of a setting."""
    from nooch.report import markdown
    from nooch.results.paper_statements import judge_statements
    from nooch.results.setting_comparison import survives, verdicts_over

    findings = {value: judge_statements(found, wanted) for value, found in each.items()}
    for value, found in each.items():
        for text in [*found.notes, *found.averages]:
            note(f"{over} = {value}: {text}")
    if format is StatementFormat.json:
        rows = []
        for of_statement in zip(*findings.values(), strict=True):
            verdicts = {value: f.verdict for value, f in zip(findings, of_statement, strict=True)}
            name = of_statement[0].statement.name
            rows.append(
                {"name": name, "verdicts": verdicts, "survives": survives(list(verdicts.values()))}
            )
        print_json({"over": over, "statements": rows})
        return
    shown = verdicts_over(findings, over)
    if format is StatementFormat.markdown:
        print(markdown([shown]))  # noqa: T201 - what was asked for goes to standard output
        return
    _print_tables([shown])


def _suites(paths: Sequence[Path]) -> list[Suite]:
    from nooch.challenge import load_suite

    return [load_suite(path) for path in paths]


def _read(
    sources: Sequence[str],
    suites: Sequence[Suite],
    update: Progress,
    **choice: Any,
) -> Results:
    from nooch.results.run_results import merge, paper_cells, read_results

    return merge(
        [
            (
                paper_cells()
                if source == PAPER
                else read_results(source, suites, progress=update, **choice)
            )
            for source in sources
        ]
    )


def _differences(pairs: Sequence[Scores]) -> pl.DataFrame | None:
    import polars as pl

    return pl.concat([scores.differences for scores in pairs]) if pairs else None


def _print(sheet: ResultSheet, format: ScoreFormat) -> None:
    from nooch.report.paper_tables import result_latex, result_markdown

    if format is ScoreFormat.json:
        print_json(sheet.json)
        return
    texts: dict[ScoreFormat, Callable[[], str]] = {
        ScoreFormat.markdown: lambda: result_markdown(sheet),
        ScoreFormat.latex: lambda: result_latex(sheet),
        ScoreFormat.csv: sheet.cells.write_csv,
    }
    if format in texts:
        print(texts[format](), end="")  # noqa: T201 - what was asked for goes to standard output
    else:
        _print_tables(sheet.shown())
    for text in sheet.notes:
        note(text)


def _print_tables(tables: Sequence[Shown]) -> None:
    screen = console()
    if not screen.is_terminal:
        # nothing is cut or folded in a file
        screen.width = _WIDE
    for shown in tables:
        screen.print(
            table(
                shown.title, list(shown.columns), [list(row) for row in shown.rows], left=shown.left
            )
        )
