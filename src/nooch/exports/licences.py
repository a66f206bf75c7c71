"""Licences of the data behind an export: what is recorded, what the user states, and never more
than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["LICENCES", "Licence", "all_licences", "licences_text", "one_line"]

LICENCES = "LICENCES.txt"

Licence = dict[str, str]
"""``name`` and ``url`` as far as they are known, and ``source``: ``recorded`` in the annotations,
or ``stated`` at export.
"""


def one_line(text: object) -> str:
    """Text without line breaks, control characters and runs of spaces: it cannot pass for another
    line.
    """
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def all_licences(recorded: Iterable[Mapping[str, Any]], stated: Sequence[str]) -> list[Licence]:
    """Recorded licences, then stated ones, each once."""
    found = [{k: one_line(entry[k]) for k in ("name", "url") if entry.get(k)} for entry in recorded]
    licences = [{**entry, "source": "recorded"} for entry in found if entry]
    licences += [{"name": one_line(text), "source": "stated"} for text in stated]
    return [licence for number, licence in enumerate(licences) if licence not in licences[:number]]


def licences_text(licences: Sequence[Licence]) -> str:
    """``LICENCES.txt``."""
    if not licences:
        return (
            "Licences of the data: not recorded.\nNeither the annotations nor whoever exported them"
            " named one. Ask their source before you pass them on.\n"
        )
    parts = []
    for source, heading in _HEADINGS.items():
        lines = [_line(licence) for licence in licences if licence["source"] == source]
        if lines:
            parts.append("\n".join([heading, *lines]))
    return "\n\n".join(parts) + "\n"


_HEADINGS = {
    "recorded": "Licences recorded with the data (those from COCO-format files are the images'):",
    "stated": "Licences stated by whoever made this export:",
}


def _line(licence: Licence) -> str:
    return "- " + ": ".join(licence[key] for key in ("name", "url") if key in licence)
