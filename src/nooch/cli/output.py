"""What is printed where: results to standard output, notes, progress and errors to standard error."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from nooch.shared_types import Progress, no_progress

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Format", "FormatOption", "console", "fail", "note", "notes_on", "print_json", "progress", "table"]


class Format(StrEnum):
    """How results are printed."""

    text = "text"
    json = "json"


FormatOption: Any = typer.Option(
    Format.text, "--format", help="text for people, json for programs (on standard output alone)."
)


def console() -> Console:
    """Standard output for people; wide where it is no terminal, so that tables are not cut in files."""
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=False)


def _errors() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(content: Any) -> None:
    """One JSON document on standard output; NaN becomes null."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    sys.stdout.flush()


def _shown(text: str) -> str:
    """Text from files is no markup and moves no cursor: control characters but the end of a line are spelled out."""
    return escape(re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", lambda c: c[0].encode("unicode_escape").decode(), text))


def fail(text: str) -> int:
    """Print an error and return the exit code."""
    _errors().print(f"[bold red]error:[/] {_shown(text)}")
    return 2


def note(text: str) -> None:
    """Print something to know, on standard error."""
    _errors().print(f"[yellow]note:[/] {_shown(text)}")


def notes_on(provenance: Any) -> None:
    """Print the notes of a dataset's provenance."""
    for text in provenance.get("notes", []):
        note(text)


def table(title: str, columns: list[str], rows: list[list[Any]], *, left: int = 1) -> Table:
    """A rich table: the first ``left`` columns are text, the others numbers; null is shown as a dash.

    Names come from files and users: in the title and heads, too, they are no markup.
    """
    from rich import box
    from rich.table import Table

    made = Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        header_style="bold",
        pad_edge=False,
        box=box.SIMPLE_HEAD,
    )
    for position, column in enumerate(columns):
        made.add_column(escape(column), justify="left" if position < left else "right", overflow="fold")
    for row in rows:
        made.add_row(*(escape(_cell(value)) for value in row))
    return made


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


@contextmanager
def progress() -> Iterator[Progress]:
    """Yield a function (what, done, total) that draws progress bars on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich import progress as bar

    display = bar.Progress(
        bar.SpinnerColumn(),
        bar.TextColumn("{task.description}"),
        bar.BarColumn(),
        bar.MofNCompleteColumn(),
        bar.TimeElapsedColumn(),
        bar.TimeRemainingColumn(),
        console=_errors(),
        transient=True,
    )
    bars: dict[str, Any] = {}

    def update(what: str, done: int, total: int) -> None:
        if what not in bars:
            bars[what] = display.add_task(escape(what), total=total)
        display.update(bars[what], completed=done, total=total)

    with display:
        yield update
