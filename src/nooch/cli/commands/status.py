"""``nooch status``: how far long work is, from another terminal or machine."""

from __future__ import annotations

from pathlib import Path

import msgspec
from typer import Argument

from nooch.cli.option_parsing import Format, FormatOption
from nooch.cli.progress_log import Status, logs_of, read_status
from nooch.cli.terminal_output import hint, note, print_json, print_table, say

__all__ = ["status_command"]


def status_command(
    folder: Path = Argument(
        ...,
        metavar="FOLDER",
        help="Folder of runs, or what import, embed, find or ask writes with --engine.",
    ),
    format: Format = FormatOption,
) -> None:
    """Show how far a bench, import, embed, find or ask is. The latter four have an --engine."""
    from nooch.benching.bench_run import status
    from nooch.training.run_records import RUNS_MARKER, RunsFolder

    recorded = None if (folder / RUNS_MARKER).is_file() else read_status(logs_of(folder))
    if recorded is not None:
        _print_status(recorded, format)
        return
    facts = status(RunsFolder.open(folder))
    if format is Format.json:
        print_json(facts)
        return
    rows = [[method, n["done"], n["jobs"]] for method, n in facts["methods"].items()]
    done = f"{facts['done']:,} of {facts['jobs']:,} jobs done"
    print_table(done, ["method", "done", "jobs"], rows)
    listed = [
        [number, p["jobs"], p["done"], p["epochs"], p["stopped"]]
        for number, p in enumerate(facts["passes"], 1)
    ]
    print_table("Passes", ["pass", "jobs", "done", "epochs", "stopped"], listed)


def _print_status(status: Status, format: Format) -> None:
    state = status.now()
    if format is Format.json:
        print_json({**msgspec.structs.asdict(status), "state": state})
        return
    seconds = round(status.updated - status.began)
    say(f"{state} on {status.host}, {seconds:,} s after it began: {status.command}")
    print_table("Steps", ["", "done", "of"], [[what, *n] for what, n in status.steps.items()])
    if status.error is not None:
        note(status.error)
    if state not in {"running", "done"}:
        hint("the same command resumes")
