"""Output: results on standard output; notes, progress and errors on standard error, there as JSON
where the command was typed with ``--format json``: one object per line.

Names come from files of others: on the way out of here they are not markup, move no cursor, and
turn no direction of text. Nothing else in the project prints.
"""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.markup import escape

from nooch.base.display import DisplayTable
from nooch.base.errors import Command, Give, NoochError, OutputError, joined_ways
from nooch.base.words import UNPRINTABLE, cell_text, printable

if TYPE_CHECKING:
    from rich.console import JustifyMethod


_WIDE = 1000
"""Columns of a table in a file."""


def console() -> Console:
    """Standard output for people; wide if it is not a terminal: nothing is cut in files."""
    end_progress()
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, emoji=False)


def _errors() -> Console:
    end_progress()
    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def say(text: str, style: str | None = None) -> None:
    """Print lines of results."""
    console().print(printable(text, "\n"), style=style, markup=False)


def print_text(text: str) -> None:
    """Print a document, such as Markdown or CSV: unchanged, but for control characters on a
    terminal.
    """
    shown = printable(text, "\n\t") if sys.stdout.isatty() else text
    end_progress()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError as error:
        raise OutputError(
            f"standard output is {encoding}, which lacks {shown[error.start]!r}",
            remedy="set PYTHONIOENCODING=utf-8, or write to a file with `out`",
        ) from error
    print(shown, end="")  # noqa: T201 - the requested document goes to standard output


def hint(text: str) -> None:
    """Print what was written, or the next command, less prominently than results."""
    say(text, "dim")


def print_json(content: Any) -> None:
    """Print one JSON document; NaN becomes null, and ``notes`` are worded as ``note`` does.

    JSON itself escapes some control characters; the others are also escaped, and read the same.
    """
    if isinstance(content, dict) and "notes" in content:
        content = {**content, "notes": [with_flags(text) for text in content["notes"]]}
    _write_json(sys.stdout, content, indent=1)


def _write_json(stream: Any, content: Any, indent: int = -1) -> None:
    text = UNPRINTABLE.sub(lambda c: f"\\u{ord(c[0]):04x}", msgspec.json.encode(content).decode())
    end_progress()
    stream.flush()
    stream.buffer.write(msgspec.json.format(text, indent=indent).encode() + b"\n")
    stream.flush()


def is_json() -> bool:
    """True if the command was typed with ``--format json``."""
    return "--format=json" in sys.argv or ("--format", "json") in pairwise(sys.argv)


def _shown(text: str) -> str:
    """Lines as markup that shows them as they are, control characters spelled out."""
    return escape(printable(text, "\n"))


def fail(error: NoochError, code: int = 2) -> int:
    """Print an error and return the exit code."""
    if is_json():
        _write_json(sys.stderr, {"error": {"code": code, **_fields(error)}})
    else:
        _errors().print(f"[bold red]error:[/] {_shown(with_flags(error.worded(as_typed)))}")
    return code


def _fields(error: NoochError) -> dict[str, Any]:
    """The parts of an error by name; ``flag`` has what to type for each way out."""
    words = {
        "what": error.problem, "where": error.where, "allowed": error.allowed,
        "remedy": error.cure(as_typed),
    }  # fmt: skip
    ways = []
    for give in filter(as_typed, error.give):
        given, left_out = options_typed(give)
        command = f"nooch {give.path}" if isinstance(give, Command) else None
        ways.append({"command": command, "give": given, "leave_out": left_out})
    texts = {key: None if text is None else with_flags(str(text)) for key, text in words.items()}
    return {**texts, "flag": ways}


def note(*texts: str) -> None:
    """Print notes on standard error; a text may start with ``warning:`` instead."""
    for text in texts:
        kind = "warning" if text.startswith("warning: ") else "note"
        worded = with_flags(text.removeprefix("warning: "))
        if is_json():
            _write_json(sys.stderr, {kind: worded})
        else:
            _errors().print(f"[yellow]{kind}:[/] {_shown(worded)}")


class _Notes(logging.Handler):
    """Print messages that the package logs as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


_all_commands: Any = None


def speak_for(commands: Any) -> None:
    """Show parameters in messages as options of these commands, a group of typer, and what is
    logged as notes.
    """
    global _all_commands  # noqa: PLW0603 - one command line per process
    _all_commands = commands
    logger = logging.getLogger("nooch")
    logger.handlers = [_Notes()]
    logger.setLevel(logging.INFO)


def with_flags(text: str) -> str:
    """A message with its parameters as options: ```part_size``` is shown as ``--part-size``.

    A name is first looked for in the command that is running, whose arguments are shown as its
    usage line has them, then in those that the text names, such as ``nooch import auto``. Other
    words in backticks stay as they are, so that a message recommends no option that the command
    lacks; so do fields of a file.
    """
    if "`" not in text:
        return text
    named = [words.split() for words in _COMMAND.findall(text)]
    options = {name: option for words in [*named, sys.argv[1:]]
               for name, option in _parameters(words).items()}  # fmt: skip

    def typed(name: re.Match[str]) -> str:
        option = options.get(name[1]) or options.get(_TYPED.get(name[1], ""))
        return _typed(option, name[0])

    return _PARAMETER.sub(typed, text)


def as_typed(give: Give) -> str:
    """A way out of an error as it is typed: "give --box-format xywh", "leave out --match"; empty
    where the running command lacks one of these.
    """
    if isinstance(give, Command):
        return " ".join(["nooch", give.path, *options_typed(give)[0]])
    lacking = _values(give).keys() - _parameters(sys.argv[1:]).keys()
    return "" if lacking and _all_commands else joined_ways(*options_typed(give), "give")


def options_typed(give: Give) -> tuple[list[str], list[str]]:
    """Arguments that a way out of an error adds to the command, and options that it leaves out."""
    options = _parameters(give.path.split() if isinstance(give, Command) else sys.argv[1:])
    values = _values(give)
    if isinstance(give, Command):
        # what that command needs and this one does not know is left to the user
        needed = [_name(option) for option in options.values() if option.required]
        values = dict.fromkeys(needed) | values
        values = {name: ... if value is None else value for name, value in values.items()}
    given: list[str] = []
    left_out: list[str] = []
    for name, value in values.items():
        flag = _typed(options.get(name), f"--{name.replace('_', '-')}", is_on=value is not False)
        if value is None:
            left_out.append(flag)
        elif isinstance(value, bool) or (value is ... and not flag.startswith("-")):
            given.append(flag)
        else:
            # numbers are given one by one, names with commas
            several = isinstance(value, Sequence) and {*map(type, value)} == {int}
            each: Any = value if several else [value]
            texts = [name.upper()] if value is ... else [*map(_text, each)]
            typed = [text if value is ... else shlex.quote(text) for text in texts]
            given.append(" ".join(f"{flag} {t}" if flag.startswith("-") else t for t in typed))
    return given, left_out


def _values(give: Give) -> dict[str, object]:
    """Option -> value; what is part of a mapping in Python is an option here."""
    parts = [value if isinstance(value, Mapping) and name in _PARTS else {name: value}
             for name, value in give.items()]  # fmt: skip
    return {_TYPED.get(name, name): value for part in parts for name, value in part.items()}


_PARTS = ("reading", "hints", "settings")
"""Parameters whose values have several options."""
_TYPED = {"data": "dataset", "suites": "suite", "criteria": "criterion"}
"""Parameter -> its name on the command line, where all commands have another than Python."""


def _text(value: object) -> str:
    """A value as an option takes it."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(inner)}" for key, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_text(inner) for inner in value)
    return str(value)


_PARAMETER = re.compile(r"(?<!field )`([a-z]\w*)`")
_COMMAND = re.compile(r"\bnooch ([a-z-]+(?: [a-z-]+)?)")


def _parameters(words: Iterable[str]) -> dict[str, Any]:
    """Parameters of the command that these words start with (of a group such as ``import``, the
    parameters of all its commands), and those that every command takes, by name and by flag.
    """
    if _all_commands is None:
        return {}
    running = _all_commands
    for word in words:
        # only a group has commands
        look_up = getattr(running, "get_command", None)
        running = (look_up and look_up(None, word)) or running
    some = getattr(running, "commands", {}) if running is not _all_commands else {}
    parameters = [*_all_commands.params, *(p for c in some.values() for p in c.params),
                  *running.params]  # fmt: skip
    flags = {flag.strip("-").replace("-", "_"): parameter
             for parameter in parameters for flag in parameter.opts}  # fmt: skip
    return flags | {_name(parameter): parameter for parameter in parameters}


def _name(parameter: Any) -> str:
    # an underscore behind a name keeps it from being a word of Python's own
    return str(parameter.name.rstrip("_"))


def _typed(parameter: Any, otherwise: str, *, is_on: bool = True) -> str:
    if parameter is None:
        return otherwise
    if parameter.param_type_name == "option":
        return str(max((not is_on and parameter.secondary_opts) or parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Iterable[Any]], *, left: int = 1
) -> None:
    """Print a table: the first ``left`` columns are text, the others numbers; null is a dash.

    Where the screen is too narrow for all numbers, there are several tables, each with the texts.
    """
    print_tables([DisplayTable(title, columns, [list(row) for row in rows], left)])


def print_tables(tables: Iterable[DisplayTable]) -> None:
    """Print tables the same way, with their notes, each once, below."""
    notes: dict[str, None] = {}
    for table in tables:
        _draw(console(), table)
        notes |= dict.fromkeys(table.notes)
    for text in notes:
        hint(with_flags(text))


def print_results(tables: Iterable[DisplayTable]) -> None:
    """Print tables of scores or results; in a file, nothing is cut or folded."""
    screen = console()
    if not screen.is_terminal:
        screen.width = _WIDE
    for shown in tables:
        _draw(screen, shown)


def _draw(screen: Console, table: DisplayTable) -> None:
    from rich import box
    from rich.table import Table

    columns, left = list(map(printable, table.columns)), table.left
    rows = [[printable(cell_text(cell)) for cell in row] for row in table.rows]
    screen.print(printable(table.title), style="bold", markup=False)
    for widths in _blocks(columns, rows, left, screen.width):
        drawn = Table(
            header_style="bold", pad_edge=False, box=box.SIMPLE_HEAD, show_header=any(columns)
        )
        for column, width in widths.items():
            side: JustifyMethod = "left" if column < left else "right"
            drawn.add_column(escape(columns[column]), justify=side, overflow="fold", width=width)
        for row in rows:
            drawn.add_row(*(escape(row[column]) for column in widths))
        screen.print(drawn)


_GAP = 3
"""Blanks between two columns, and at both ends of a table."""


def _blocks(
    columns: Sequence[str], rows: Sequence[Sequence[str]], left: int, width: int
) -> list[dict[int, int | None]]:
    """Tables as columns -> widths, None for as wide as it must be: no number is ever broken."""
    from rich.cells import cell_len

    full, least = [], []
    for column, name in enumerate(columns):
        widest = max((cell_len(row[column]) for row in rows), default=0)
        full.append(max(widest, cell_len(name)) + _GAP)
        least.append(max([widest, *map(cell_len, name.split())]) + _GAP)
    texts: dict[int, int | None] = dict.fromkeys(range(min(left, len(full))))
    if sum(full) <= width or len(texts) == len(full):
        return [dict.fromkeys(range(len(full)))]
    room = width - min(sum(full[: len(texts)]), width // 2)
    blocks, taken = [dict(texts)], 0
    for column in range(len(texts), len(full)):
        if taken and taken + least[column] > room:
            blocks.append(dict(texts))
            taken = 0
        taken += least[column]
        blocks[-1][column] = min(least[column], room) - _GAP
    return blocks


_bars: dict[str, Any] = {}
"""Step -> its bar, and the display of all under an empty name."""


def show_progress(what: str, done: int, total: int) -> None:
    """Draw a progress bar on a terminal's stderr, until something else is printed."""
    if not sys.stderr.isatty():
        return
    if not _bars:
        from rich import progress as bar

        columns = (bar.BarColumn(), bar.MofNCompleteColumn())
        times = (bar.TimeElapsedColumn(), bar.TimeRemainingColumn())
        text = bar.TextColumn("{task.description}")
        _bars[""] = bar.Progress(
            bar.SpinnerColumn(), text, *columns, *times, console=_errors(), transient=True
        )
        _bars[""].start()
    if what not in _bars:
        _bars[what] = _bars[""].add_task(_shown(what), total=total)
    _bars[""].update(_bars[what], completed=done, total=total)


def end_progress() -> None:
    """Remove the progress bars from the terminal."""
    if _bars:
        _bars[""].stop()
        _bars.clear()
