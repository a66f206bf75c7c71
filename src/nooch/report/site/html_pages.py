"""The five pages as HTML: templates escape everything that comes from data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from nooch.base.version import __version__
from nooch.base.words import printable
from nooch.report.images.thumbnails import picture_name
from nooch.report.site.content import Card, Site
from nooch.report.site.results_page import BEST

__all__ = ["MOST_TASKS", "PAGES", "page_environment", "render_pages"]

PAGES = {
    "index": "Overview",
    "explore": "Explore",
    "results": "Results",
    "criteria": "Criteria",
    "examples": "Examples",
}
"""File name without ending -> what the page is called."""

MOST_TASKS = 24
"""Tasks on one page of examples: more would make a page that no browser opens at once."""


@cache
def page_environment() -> Environment:
    """The templates, compiled once per process; what comes from data is escaped."""
    environment = Environment(
        loader=PackageLoader("nooch.report.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": lambda value: "–" if value is None else f"{value:,}",
        "short": lambda value: "–" if value is None else f"{value:.3g}",
        "plain": lambda text: printable(str(text)),
        # hard_positive is hard positive
        "words": lambda name: printable(name.replace("_", " ")),
    }
    environment.globals |= {
        "version": __version__,
        "pages": PAGES,
        "is_best": lambda text: text.startswith(BEST),
        "without_mark": lambda text: text.removeprefix(BEST),
    }
    return environment


def render_pages(site: Site, pictures: Mapping[str, NDArray[np.uint8]]) -> dict[str, str]:
    """File name -> HTML; ``pictures`` are numbered as ``draw_pictures`` does it."""
    environment = page_environment()

    def picture(card: Card) -> str | None:
        return picture_name(card.split, card.row) if pictures[card.split][card.row] else None

    tasks = list(enumerate(site.suite.tasks))
    task_pages = {
        f"examples-{number + 1}.html" if number else "examples.html": tasks[start:][:MOST_TASKS]
        for number, start in enumerate(range(0, len(tasks), MOST_TASKS))
    }
    rendered: dict[str, str] = {}
    for page in PAGES:
        shared = {"page": page, "site": site, "suite": site.suite, "missing": site.missing[page]}
        shared["picture"] = picture
        template = environment.get_template(f"{page}.html")
        if page == "examples":
            rendered |= {
                name: template.render(task_pages=task_pages, part=name, **shared)
                for name in task_pages
            }
        else:
            rendered[f"{page}.html"] = template.render(**shared)
    return rendered
