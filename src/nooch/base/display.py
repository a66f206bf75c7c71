"""Display of an object by print and notebooks: a small table, as aligned text and as HTML."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from nooch.base.errors import MissingExtraError
from nooch.base.words import cell_text, counted, printable

MOST_ROWS = 24
"""Number of rows shown; a last line gives the total."""
_MOST_TASKS = 3

_LONGEST, _WIDEST = 200, 32
"""Characters of a cell in HTML and as text."""
_LEFT, _RIGHT = (f"text-align: {side}; padding: 0 0.6em" for side in ("left", "right"))


@dataclass(frozen=True)
class DisplayTable:
    """A table to look at.

    Attributes:
        title: what it shows.
        columns: names of the columns.
        rows: one value for each column; numbers are shortened, None is a dash. At most
            ``MOST_ROWS`` are shown.
        left: the first columns that are text, aligned to the left; an id there has no commas.
        notes: lines below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    left: int = 1
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        texts = [
            [str(v) if i < self.left and isinstance(v, int) else v for i, v in enumerate(row)]
            for row in self.rows
        ]
        object.__setattr__(self, "rows", texts)

    @property
    def _below(self) -> list[str]:
        hidden = len(self.rows) - MOST_ROWS
        return [*([f"and {counted(hidden, 'more row')}"] if hidden > 0 else []), *self.notes]

    def text(self) -> str:
        """Aligned lines; columns that do not fit into the terminal are left out, and counted."""
        heads = [re.split("[ _]", printable(name)) for name in self.columns]
        cells = [[printable(cell_text(v, _WIDEST)) for v in row] for row in self.rows[:MOST_ROWS]]
        columns = [[*head, *(row[i] for row in cells)] for i, head in enumerate(heads)]
        widths = [max(map(len, column)) for column in columns]
        room = shutil.get_terminal_size().columns
        fit = max(1, sum(sum(widths[: i + 1]) + 2 * i <= room for i in range(len(widths))))
        high = max(map(len, heads), default=0)
        above = [[""] * (high - len(head)) + head for head in heads]
        lines = [*zip(*above, strict=True), *cells] if cells else []
        shown = ["  ".join(map(self._aligned, line[:fit], widths, range(fit))) for line in lines]
        hidden = len(widths) - fit
        below = [f"and {counted(hidden, 'more column')}"] if hidden else []
        below = [printable(line) for line in [*below, *self._below]]
        return "\n".join(line.rstrip() for line in [printable(self.title), *shown, *below])

    def _aligned(self, text: str, width: int, column: int) -> str:
        return text.ljust(width) if column < self.left else text.rjust(width)

    def html(self) -> str:
        """One element without scripts, style sheets or ids. Every text is escaped, isolated in its
        direction and at most 200 characters.
        """
        head = "".join(_cell("th", name, i < self.left) for i, name in enumerate(self.columns))
        body = "".join(
            f"<tr>{''.join(_cell('td', value, i < self.left) for i, value in enumerate(row))}</tr>"
            for row in self.rows[:MOST_ROWS]
        )
        lines = "".join(f"<div>{_text(line)}</div>" for line in self._below)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        scrolled = f'<div style="overflow-x: auto">{table}</div>'
        return f"<div><b>{_text(self.title)}</b>{scrolled}{lines}</div>"


class Displayed:
    """An object that is printed, and shown in notebooks, as its ``display`` table."""

    @property
    def display(self) -> DisplayTable:
        """The table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.display.text()

    def _repr_html_(self) -> str:
        return self.display.html()


class TabularResult(Displayed):
    """A result whose ``table`` has everything that it knows; its length is the number of rows."""

    def __len__(self: Any) -> int:
        return int(self.table.height)

    def to_pandas(self: Any) -> Any:
        """The ``table`` as a pandas frame; names out of a fixed list are categories."""
        try:
            return self.table.to_pandas()
        except ModuleNotFoundError as error:
            raise MissingExtraError("pandas", "pandas", "to_pandas") from error


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Parameters of a criterion on one line, without empty ones."""
    stated = {name: value for name, value in parameters.items() if value not in (None, {}, [], "")}
    return ", ".join(f"{name} {_parameter(value)}" for name, value in stated.items())


def _parameter(value: object) -> str:
    """A parameter's value; of long thresholds or cues by task only their number."""
    if isinstance(value, Mapping):
        nested = any(isinstance(item, Mapping) for item in value.values())
        if nested or len(value) > _MOST_TASKS:
            return f"by task, of {len(value)}"
    return str(value)


def _cell(tag: str, value: object, is_left: bool) -> str:
    style = _LEFT if is_left else _RIGHT
    # short texts on one line: wide tables scroll
    if tag == "td" and len(cell_text(value, _LONGEST)) <= _WIDEST:
        style += "; white-space: nowrap"
    return f'<{tag} style="{style}">{_text(value)}</{tag}>'


def _text(value: object) -> str:
    # an element of its own direction: marks that turn text end with it
    return f"<bdi>{escape(cell_text(value, _LONGEST))}</bdi>"
