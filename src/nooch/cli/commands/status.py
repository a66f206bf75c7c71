"""``nooch status``: how far long work is, from another terminal or machine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer

from nooch.cli.progress_log import Status, logs_of, read_status
from nooch.cli.terminal_output import Format, FormatOption, console, note, print_json, table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status_command)


def status_command(
    folder: Path = typer.Argument(
        ...,
        metavar="FOLDER",
        help="Folder of runs, or one that import, embed or find writes with --engine.",
    ),
    format: Format = FormatOption,
) -> None:
    """How far a bench is, or an import, embedding or find with an engine."""
    from nooch.benching.bench_run import status
    from nooch.training.run_records import RUNS_MARKER, RunsFolder

    told = None if (folder / RUNS_MARKER).is_file() else read_status(logs_of(folder))
    if told is not None:
        _print_status(told, format)
        return
    facts = status(RunsFolder.open(folder))
    if format is Format.json:
        print_json(facts)
        return
    rows = [[method, n["done"], n["jobs"]] for method, n in facts["methods"].items()]
    console().print(
        table(f"{facts['done']:,} of {facts['jobs']:,} jobs done", ["method", "done", "jobs"], rows)
    )
    listed = [
        [number, p["jobs"], p["done"], p["epochs"], p["stopped"]]
        for number, p in enumerate(facts["passes"], 1)
    ]
    console().print(table("Passes", ["pass", "jobs", "done", "epochs", "stopped"], listed))


def _print_status(told: Status, format: Format) -> None:
    state = told.now()
    if format is Format.json:
        print_json({**msgspec.structs.asdict(told), "state": state})
        return
    seconds = round(told.updated - told.began)
    console().print(
        f"{state} on {told.host}, {seconds:,} s after it began: {told.command}", markup=False
    )
    rows = [[what, done, total] for what, (done, total) in told.steps.items()]
    console().print(table("Steps", ["", "done", "of"], rows))
    if told.error is not None:
        note(told.error)
    if state not in {"running", "done"}:
        console().print("the same command goes on where it was", style="dim")
