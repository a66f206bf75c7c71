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

__all__ = [
    "Format",
    "FormatOption",
    "console",
    "fail",
    "note",
    "notes_on",
    "print_json",
    "progress",
    "speak_for",
    "table",
    "with_flags",
]


class Format(StrEnum):
    """How results are printed."""

    text = "text"
    json = "json"


FormatOption: Any = typer.Option(
    Format.text, "--format", help="text for people, json for programs (on standard output alone)."
)


def console() -> Console:
    """Standard output for people; wide where it is no terminal, so that tables are not cut in
    files.
    """
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=False)


def _errors() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(content: Any) -> None:
    """One JSON document on standard output; NaN becomes null. ``notes`` are shown as ``note`` shows
    them.
    """
    if isinstance(content, dict) and "notes" in content:
        content = {**content, "notes": [with_flags(text) for text in content["notes"]]}
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    sys.stdout.flush()


def _shown(text: str) -> str:
    """Text from files is no markup and moves no cursor: control characters but the end of a line
    are spelled out.
    """
    return escape(
        re.sub(
            r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", lambda c: c[0].encode("unicode_escape").decode(), text
        )
    )


def fail(text: str) -> int:
    """Print an error and return the exit code."""
    _errors().print(f"[bold red]error:[/] {_shown(with_flags(text))}")
    return 2


def note(text: str) -> None:
    """Print something to know, on standard error."""
    _errors().print(f"[yellow]note:[/] {_shown(with_flags(text))}")


_all_commands: Any = None


def speak_for(commands: Any) -> None:
    """Show parameters in messages as options of these commands: a group of typer."""
    global _all_commands  # noqa: PLW0603 - one command line per process
    _all_commands = commands


def with_flags(text: str) -> str:
    """A message with its parameters as options: ```part_size``` is shown as ``--part-size``.

    A name is first looked for in the command that is running, whose arguments are shown as its
    usage line has them, then among the options of all others, such as those of an import that a
    message recommends. Other words in backticks stay as they are; so do fields of a file.
    """
    if "`" not in text or _all_commands is None:
        return text
    flags = _flags(_all_commands)
    return re.sub(r"(?<!field )`([a-z]\w*)`", lambda found: flags.get(found[1], found[0]), text)


def _flags(commands: Any) -> dict[str, str]:
    """Name of a parameter -> how it is typed."""
    running = commands
    for word in sys.argv[1:]:
        running = getattr(running, "commands", {}).get(word, running)
    everywhere = [parameter for command in _commands_of(commands) for parameter in command.params]
    options = [parameter for parameter in everywhere if parameter.param_type_name == "option"]
    # an underscore behind a name keeps it from being a word of Python's own
    return {
        parameter.name.rstrip("_"): _typed(parameter) for parameter in (*options, *running.params)
    }


def _commands_of(command: Any) -> Iterator[Any]:
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from _commands_of(inner)


def _typed(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def notes_on(provenance: Any) -> None:
    """Print the notes of a dataset's provenance."""
    for text in provenance.get("notes", []):
        note(text)


def table(title: str, columns: list[str], rows: list[list[Any]], *, left: int = 1) -> Table:
    """A rich table: the first ``left`` columns are text, the others numbers; null is shown as a
    dash.

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
        made.add_column(
            escape(column), justify="left" if position < left else "right", overflow="fold"
        )
    for row in rows:
        made.add_row(*(escape(_cell(value)) for value in row))
    return made


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return (
        f"{value:.3g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


@contextmanager
def progress() -> Iterator[Progress]:
    """Yield a function (what, done, total) that draws progress bars on standard error, where that
    is a terminal.
    """
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
