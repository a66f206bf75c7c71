"""The site, and how it is written: pages, assets, data, pictures, and last ``report.json``."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray
from PIL import Image

from nooch.base.calls import Progress
from nooch.base.files import write_folder
from nooch.base.version import __version__
from nooch.base.words import cell_text, counted, printable, unbroken
from nooch.data import encode_header
from nooch.data.readers.image_files import ValueRange, range_text
from nooch.report.images.cue_masks import COLORS, Masks, inner
from nooch.report.images.drawn_boxes import DrawnBoxes
from nooch.report.images.poster import POSTER, draw_poster
from nooch.report.images.thumbnails import (
    DrawnPicture,
    SplitImages,
    Wanted,
    draw_pictures,
    picture_name,
)
from nooch.report.site.cards import Card, ExampleGroup
from nooch.report.site.explore_data import (
    BLOCK,
    about_images,
    script,
    shown_criteria,
    split_file,
    task_file,
    unset_supports,
)
from nooch.report.site.results_page import BEST
from nooch.suites import Suite

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

LossesOf = Callable[[str, str], Mapping[str, Mapping[str, tuple[str, NDArray[np.float64]]]]]
"""(task, split) -> criterion -> method -> (key, float64 (n,)); equal keys mean equal losses."""

BoxesOfRuns = Mapping[str, Mapping[int, DrawnBoxes]]
"""Name of a run -> row -> its boxes over the image."""


@dataclass(frozen=True, eq=False)
class Site:
    """Everything that is written.

    Attributes:
        pages: the pages with content: file name without ending -> title, as in ``PAGES``.
        suite: the suite.
        images: split -> its images, in one order.
        losses: losses of images, if there are runs.
        boxes: (task, split, rows) -> boxes of detectors over images of these rows.
        methods: methods with losses, in order.
        overview: what the page Overview shows; ``results``, ``criteria`` and ``examples`` are the
            content of the other pages.
        data: name -> data of a page's charts.
        wanted: images to draw pictures of, the most important first.
        missing: page -> what is not there, in words.
        masks: where cues lie in the images with pictures, or None.
        range: values of black and white of wide images, or None.
    """

    pages: Mapping[str, str]
    suite: Suite
    images: Mapping[str, SplitImages]
    losses: LossesOf
    boxes: Callable[[str, str, Container[int]], BoxesOfRuns]
    methods: Sequence[str]
    overview: Mapping[str, Any]
    results: Any
    criteria: Mapping[str, Any]
    examples: Sequence[ExampleGroup]
    data: Mapping[str, Any]
    wanted: Sequence[Wanted] = ()
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    masks: Masks | None = None
    range: ValueRange | None = None


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
        "cell": cell_text,
        "plain": lambda text: unbroken(printable(str(text))),
        # hard_positive is hard positive
        "words": lambda name: printable(name.replace("_", " ")),
    }
    environment.globals |= {
        "version": __version__,
        "is_best": lambda text: text.startswith(BEST),
        "without_mark": lambda text: text.removeprefix(BEST),
    }
    return environment


def render_pages(
    site: Site,
    pictures: Mapping[str, NDArray[np.uint8]],
    shades: Mapping[str, Mapping[int, Sequence[str]]],
    wide: AbstractSet[tuple[str, int]] = frozenset(),
) -> dict[str, str]:
    """File name -> HTML; ``pictures`` are numbered as ``draw_pictures`` does it, ``shades`` as
    ``draw_shades``; ``wide`` are split and row of wide images.
    """
    environment = page_environment()

    def text_below(split: str, row: int) -> str:
        return range_text(site.range) if site.range and (split, row) in wide else ""

    def large(split: str, row: int) -> tuple[str | None, str]:
        sizes = pictures[split][row]
        name = picture_name(split, row, large=sizes == 2) if sizes else None
        return name, text_below(split, row)

    def shaded(split: str, row: int) -> list[tuple[int, str, str]]:
        """Number, name and picture of each class that is outlined in an image."""
        names = shades.get(split, {}).get(row, [])
        return [(n + 1, name, shade_name(split, row, n)) for n, name in enumerate(names)]

    def picture(card: Card) -> tuple[str | None, str]:
        at = card.split, card.row
        return picture_name(*at) if pictures[card.split][card.row] else None, text_below(*at)

    with_examples = {group.task for group in site.examples}
    tasks = [one for one in enumerate(site.suite.tasks) if one[1] in with_examples]
    task_pages = {
        f"examples-{number + 1}.html" if number else "examples.html": tasks[start:][:MOST_TASKS]
        for number, start in enumerate(range(0, len(tasks), MOST_TASKS))
    }
    rendered: dict[str, str] = {}
    for page in site.pages:
        shared = {"page": page, "pages": site.pages, "site": site, "suite": site.suite}
        shared |= {"missing": site.missing[page]}
        # without any picture there are no empty places for them
        shared |= {
            "some_pictures": bool(site.wanted),
            "picture": picture,
            "large": large,
            "shaded": shaded,
        }
        template = environment.get_template(f"{page}.html")
        if page == "examples":
            rendered |= {
                name: template.render(task_pages=task_pages, part=name, **shared)
                for name in task_pages
            }
        else:
            rendered[f"{page}.html"] = template.render(**shared)
    return rendered


_LONGEST = 320
_FILL, _EDGE = 96, 255


def shade_name(split: str, row: int, number: int) -> str:
    """Path of the picture of a cue below the site."""
    return f"pictures/{split}/{row // 1000}/{row}-cue{number}.png"


def draw_shades(
    drawn: Sequence[DrawnPicture], masks: Masks | None, folder: Path
) -> dict[str, dict[int, list[str]]]:
    """Write the pictures of the cues of drawn images; return split -> row -> names of classes."""
    shades: dict[str, dict[int, list[str]]] = {}
    for picture in drawn:
        if masks is None or not picture.sizes:
            continue
        split, row = picture.wanted.split, picture.wanted.row
        for number, (name, mask) in enumerate(masks(split, row)[: len(COLORS)]):
            _picture(mask, COLORS[number]).save(
                folder / shade_name(split, row, number),
                transparency=bytes([0, _FILL, _EDGE]),
                optimize=True,
                bits=2,
            )
            shades.setdefault(split, {}).setdefault(row, []).append(name)
    return shades


def _picture(mask: NDArray[np.bool_], color: tuple[int, int, int]) -> Image.Image:
    """Outside, inside and edge as a picture of three colors."""
    small = Image.fromarray(mask.astype(np.uint8) * 255)
    small.thumbnail((_LONGEST, _LONGEST), Image.Resampling.BOX)
    inside = np.asarray(small) > 127
    codes = np.where(inside, np.where(inner(inside), 1, 2), 0).astype(np.uint8)
    picture = Image.frombytes("P", small.size, codes.tobytes())
    picture.putpalette([*color, *color, *color])
    return picture


SITE_MARKER = "report.json"
_MOST_PROBLEMS = 5


def write_site(site: Site, out: str | Path, *, overwrite: bool, progress: Progress) -> list[str]:
    """Write the site atomically; return notes on pictures that could not be drawn. Raises
    OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with write_folder(out, overwrite=overwrite, marker=SITE_MARKER) as folder:
        (folder / "data").mkdir()
        drawn = draw_pictures(site.wanted, folder, progress, site.range)
        wide = {(picture.wanted.split, picture.wanted.row) for picture in drawn if picture.wide}
        # for each split which pictures there are, uint8 (n,), as DrawnPicture numbers them
        pictures = {name: np.zeros(len(rows), np.uint8) for name, rows in site.images.items()}
        for picture in drawn:
            pictures[picture.wanted.split][picture.wanted.row] = picture.sizes
        shades = draw_shades(drawn, site.masks, folder)
        poster = _write_poster(site, pictures, folder)
        _write_data(site, folder / "data", pictures, shades, progress)
        write_assets(folder / "assets")
        for name, text in render_pages(site, pictures, shades, wide).items():
            (folder / name).write_text(text, encoding="utf-8")
        suite = site.suite
        header = {
            "format": "nooch-report",
            "version": 1,
            "nooch": __version__,
            "suite": {
                "fingerprint": suite.header.dataset.fingerprint,
                "tasks": list(suite.tasks),
                "criteria": list(suite.criteria),
            },
        }
        (folder / SITE_MARKER).write_bytes(encode_header(header))
    problems = [picture.problem for picture in drawn if not picture.sizes]
    notes = [f"no picture of {text}" for text in problems[:_MOST_PROBLEMS]] + poster
    if wide and site.range:
        what = f"{counted(len(wide), 'picture')} of more than 8 bits a channel"
        notes.insert(0, f"{what}: {range_text(site.range)}; `range` shows others")
    if len(problems) > _MOST_PROBLEMS:
        notes.append(f"{len(problems) - _MOST_PROBLEMS} more pictures could not be drawn")
    return notes


def _write_poster(site: Site, pictures: Mapping[str, NDArray[np.uint8]], folder: Path) -> list[str]:
    """Write ``poster.png`` of a check or report with findings; return why there is none, if names
    cannot be drawn.
    """
    answer = site.overview["answer"]
    if answer is None or not answer.numbered:
        return []
    sizes = pictures[answer.split]
    files = [
        (image, folder / picture_name(answer.split, image.row, large=sizes[image.row] == 2))
        for image in answer.numbered[0].shown
        if sizes[image.row]
    ]
    content, note = draw_poster(answer, files)
    if content is not None:
        (folder / POSTER).write_bytes(content)
    return [note] if note else []


def _write_data(
    site: Site,
    folder: Path,
    pictures: dict[str, NDArray[np.uint8]],
    shades: dict[str, dict[int, list[str]]],
    progress: Progress,
) -> None:
    suite = site.suite
    data = [images.data for images in site.images.values() if images.data is not None]
    general = {
        "tasks": list(suite.tasks),
        "splits": list(suite.splits),
        "methods": list(site.methods),
        "has_data": bool(data),
        "criteria": shown_criteria(suite, data[0] if data else None),
        "sets": [list(key) for key in suite.keys],
        "notes": list(site.missing.get("explore", ())),
        "pictures": list(site.missing.get("pictures", ())),
        "findings": "findings" in site.data,
    }
    (folder / "site.js").write_bytes(script("site", general))
    for name, content in site.data.items():
        (folder / f"{name}.js").write_bytes(script(name, content))
    for split, images in site.images.items():
        (folder / f"split-{split}.js").write_bytes(split_file(suite, images, pictures[split]))
        rows = {*np.flatnonzero(pictures[split]).tolist()}
        for block in range(-(-len(images) // BLOCK)):
            content = about_images(images, block, shades.get(split, {}))
            (folder / f"images-{split}-{block}.js").write_bytes(content)
        unset_of_tasks = zip(suite.tasks, unset_supports(suite, images), strict=True)
        for number, (task, unset) in enumerate(unset_of_tasks):
            boxes = site.boxes(task, split, rows)
            content = task_file(suite, task, images, unset, site.losses(task, split), boxes)
            (folder / f"task-{number}-{split}.js").write_bytes(content)
            progress(f"writing {split}, tasks", number + 1, len(suite.tasks))


def write_assets(folder: Path) -> None:
    """Write scripts and styles of pages to a new folder."""
    folder.mkdir()
    for file in resources.files("nooch.report.site").joinpath("assets").iterdir():
        if file.name.endswith((".js", ".css", ".svg")):
            (folder / file.name).write_bytes(file.read_bytes())
