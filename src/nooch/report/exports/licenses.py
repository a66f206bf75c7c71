"""Licenses of the data behind an export: recorded ones and those that the user states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LICENCES = "LICENCES.txt"

License = dict[str, str]
"""Known ``name`` and ``url``, and ``source``: ``recorded`` (annotations) or ``stated`` (export)."""


def one_line(text: object) -> str:
    """Text without line breaks, control characters and runs of spaces."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def all_licenses(recorded: Iterable[Mapping[str, Any]], stated: Sequence[str]) -> list[License]:
    """Recorded licenses, then stated ones, each once."""
    known = [{k: one_line(entry[k]) for k in ("name", "url") if entry.get(k)} for entry in recorded]
    licences = [{**entry, "source": "recorded"} for entry in known if entry]
    licences += [{"name": one_line(text), "source": "stated"} for text in stated]
    return [licence for number, licence in enumerate(licences) if licence not in licences[:number]]


def licenses_text(licences: Sequence[License]) -> str:
    """``LICENCES.txt``."""
    if not licences:
        return (
            "Licences of the data: not recorded.\nNeither the annotations nor whoever exported them"
            " named one. Ask their source before you pass them on.\n"
        )
    parts = []
    for source, heading in _HEADINGS.items():
        of_source = [licence for licence in licences if licence["source"] == source]
        lines = [": ".join(one[key] for key in ("name", "url") if key in one) for one in of_source]
        if lines:
            parts.append("\n".join([heading, *(f"- {line}" for line in lines)]))
    return "\n\n".join(parts) + "\n"


_HEADINGS = {
    "recorded": "Licences recorded with the data (those from COCO-format files are the images'):",
    "stated": "Licences stated by whoever made this export:",
}
