"""``nooch paper tables``: the paper's tables from runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.errors import check_one_of
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_results, show_progress

_PAPER = "paper"


@takes("nooch.paper.sheet:paper_sheet")
@takes(
    "nooch.report.results.run_results:read_results", "reading", leave=["roles"],
    group="Which results",
)  # fmt: skip
def tables_command(
    settings: Any,
    reading: Any,
    sources: list[str] = Argument(
        ...,
        metavar="SOURCE...",
        help=(
            "Folders of nooch train bench (with --suite) or of nooch train score; suites (tables 2,"
            " 6 and 7); paper for the paper's own numbers."
        ),
    ),
    like: list[str] = Option(
        ["table3"],
        help="table2 to 7 and 9 to 18, separated by commas; or all, which is 3 to 5 and 9 to 18.",
    ),
    suite: list[Path] = Option(
        [], help="Suite that the runs were trained for; repeat for several SOURCEs, in any order."
    ),
    criteria: str = Option(
        None, help="KIND=NAME,...: which criterion stands for ce, gist or attribute."
    ),
    compare: str = Option(None, help="paper: put the published number next to each."),
    out: list[Path] = Option(
        [], help="File: .md, .tex, .csv, .parquet or .json; repeat for several."
    ),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Print results of runs as the paper's tables. Shows mean (sd) over seeds, task averages."""
    from nooch.paper.sheet import paper_sheet
    from nooch.paper.tables import table_names
    from nooch.report.tables.method_tables import check_result_files, save_results
    from nooch.suites import load_suite

    names = table_names(like)
    if compare is not None:
        check_one_of("comparison", compare, [_PAPER])
    roles = shared.parse_pairs(criteria, "--criteria", "ce=mine")
    check_result_files(out, overwrite=overwrite, differences="paired" in settings)
    sheet = paper_sheet(
        sources, names, {str(path): load_suite(path) for path in suite},
        compare=compare is not None, reading={**reading, "roles": roles}, progress=show_progress,
        **settings,
    )  # fmt: skip
    written = save_results(sheet, out, overwrite=overwrite)
    yield sheet.json
    print_results(sheet.shown())
    note(*sheet.notes)
    if written:
        hint(", ".join(map(str, written)))
