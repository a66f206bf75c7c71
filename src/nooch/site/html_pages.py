"""The five pages as HTML: templates escape everything that comes from data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from nooch.examples.thumbnails import picture_name
from nooch.report.score_tables import printable
from nooch.site.site_content import Site
from nooch.version import __version__

__all__ = ["MOST_TASKS", "PAGES", "examples_page", "render_pages"]

PAGES = {
    "index": "Overview",
    "explore": "Explore",
    "results": "Results",
    "criteria": "Criteria",
    "examples": "Examples",
}
"""File name without ending -> what the page is called."""

_BEST = "\ue000"
MOST_TASKS = 24
"""Tasks on one page of examples: more would make a page that no browser opens at once."""


def render_pages(site: Site, pictures: Mapping[str, NDArray[np.uint8]]) -> dict[str, str]:
    """File name -> HTML.

    Args:
        site: the site.
        pictures: split -> which pictures of each image there are, as ``draw_pictures`` numbers
            them.
    """
    environment = Environment(
        loader=PackageLoader("nooch.site"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    environment.filters |= {
        "count": _count,
        "short": _short,
        "plain": lambda text: printable(str(text)),
        "words": _words,
    }
    environment.globals |= {
        "pages": PAGES,
        "version": __version__,
        "is_best": lambda text: text.startswith(_BEST),
        "without_mark": lambda text: text.removeprefix(_BEST),
        "picture": lambda card: _picture(card.split, card.row, pictures),
    }
    tasks = list(enumerate(site.suite.tasks))
    parts = {
        examples_page(number): tasks[start : start + MOST_TASKS]
        for number, start in enumerate(range(0, len(tasks), MOST_TASKS))
    }
    found: dict[str, str] = {}
    for page in PAGES:
        shared = {
            "page": page,
            "site": site,
            "suite": site.suite,
            "missing": site.missing.get(page, ()),
        }
        template = environment.get_template(f"{page}.html")
        if page == "examples":
            found |= {name: template.render(parts=parts, part=name, **shared) for name in parts}
        else:
            found[f"{page}.html"] = template.render(**shared)
    return found


def examples_page(number: int) -> str:
    """File name of a page of examples, from 0."""
    return f"examples-{number + 1}.html" if number else "examples.html"


def _picture(split: str, row: int, pictures: Mapping[str, NDArray[np.uint8]]) -> str | None:
    return picture_name(split, row) if pictures[split][row] else None


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _short(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}"


def _words(name: str) -> str:
    """A name of several words as words: ``hard_positive`` is hard positive."""
    return printable(name.replace("_", " "))
