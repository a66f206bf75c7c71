"""Small tables as HTML for notebooks; text from files is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["MOST_ROWS", "html_table", "parameters_text"]

MOST_ROWS = 24
"""Rows that are shown; a last line says how many there are."""
_MOST_TASKS = 3

_LONGEST = 200


def html_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    left: int = 1,
    notes: Sequence[str] = (),
) -> str:
    """A table as one HTML element, without scripts, style sheets or ids.

    Args:
        title: what it shows.
        columns: names of the columns.
        rows: one value for each column; numbers are shortened, None is a dash. At most
            ``MOST_ROWS`` are shown.
        left: the first columns that are text, aligned to the left.
        notes: lines below the table.

    Returns:
        HTML in which every text is escaped, isolated in its direction and at most 200 characters.
    """
    head = "".join(_cell("th", name, i < left) for i, name in enumerate(columns))
    body = "".join(
        f"<tr>{''.join(_cell('td', value, i < left) for i, value in enumerate(row))}</tr>"
        for row in rows[:MOST_ROWS]
    )
    hidden = len(rows) - MOST_ROWS
    below = [*([f"and {hidden:,} more rows"] if hidden > 0 else []), *notes]
    lines = "".join(f"<div>{_text(line)}</div>" for line in below)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><b>{_text(title)}</b>{table}{lines}</div>"


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Parameters of a criterion on one line, without empty ones."""
    stated = {name: value for name, value in parameters.items() if value not in (None, {}, [], "")}
    return ", ".join(f"{name} {_parameter(value)}" for name, value in stated.items())


def _parameter(value: object) -> str:
    """A parameter's value; of long thresholds or cues by task only their number."""
    if isinstance(value, Mapping) and len(value) > _MOST_TASKS:
        return f"by task, of {len(value)}"
    return str(value)


def _cell(tag: str, value: object, is_left: bool) -> str:
    side = "left" if is_left else "right"
    return f'<{tag} style="text-align: {side}; padding: 0 0.6em">{_text(value)}</{tag}>'


def _text(value: object) -> str:
    # an element of its own direction: marks that turn text end with it
    return f"<bdi>{escape(_short(value))}</bdi>"


def _short(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
