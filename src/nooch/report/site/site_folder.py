"""The site as a folder: pages, assets, data, pictures, and last ``report.json``."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nooch.base.files import atomic_folder
from nooch.base.shared_types import Progress
from nooch.base.version import __version__
from nooch.data import encode_header
from nooch.report.images.thumbnails import draw_pictures
from nooch.report.site.content import Site
from nooch.report.site.criterion_data import shown_criteria, unset_supports
from nooch.report.site.cue_overlays import draw_shades
from nooch.report.site.data_scripts import script
from nooch.report.site.html_pages import render_pages
from nooch.report.site.task_data import BLOCK, about_images, split_file, task_file

__all__ = ["SITE_MARKER", "write_assets", "write_site"]

SITE_MARKER = "report.json"
_MOST_PROBLEMS = 5


def write_site(site: Site, out: str | Path, *, overwrite: bool, progress: Progress) -> list[str]:
    """Write the site atomically; return notes on pictures that could not be drawn. Raises
    OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with atomic_folder(out, overwrite=overwrite, marker=SITE_MARKER) as folder:
        (folder / "data").mkdir()
        drawn = draw_pictures(site.wanted, folder, progress)
        # for each split which pictures there are, uint8 (n,), as DrawnPicture numbers them
        pictures = {name: np.zeros(len(rows), np.uint8) for name, rows in site.images.items()}
        for picture in drawn:
            pictures[picture.wanted.split][picture.wanted.row] = picture.sizes
        shades = draw_shades(drawn, site.masks, folder)
        _write_data(site, folder / "data", pictures, shades, progress)
        write_assets(folder / "assets")
        for name, text in render_pages(site, pictures).items():
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
    notes = [f"no picture of {text}" for text in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        notes.append(f"{len(problems) - _MOST_PROBLEMS} more pictures could not be drawn")
    return notes


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
    }
    (folder / "site.js").write_bytes(script("site", general))
    for name, content in site.data.items():
        (folder / f"{name}.js").write_bytes(script(name, content))
    for split, images in site.images.items():
        (folder / f"split-{split}.js").write_bytes(split_file(suite, images, pictures[split]))
        for block in range(-(-len(images) // BLOCK)):
            content = about_images(images, block, shades.get(split, {}))
            (folder / f"images-{split}-{block}.js").write_bytes(content)
        unset_of_tasks = zip(suite.tasks, unset_supports(suite, images), strict=True)
        for number, (task, unset) in enumerate(unset_of_tasks):
            content = task_file(suite, task, images, unset, site.losses(task, split))
            (folder / f"task-{number}-{split}.js").write_bytes(content)
            progress(f"writing {split}, tasks", number + 1, len(suite.tasks))


def write_assets(folder: Path) -> None:
    """Write scripts and styles of pages to a new folder."""
    folder.mkdir()
    for file in resources.files("nooch.report.site").joinpath("assets").iterdir():
        if file.name.endswith((".js", ".css", ".svg")):
            (folder / file.name).write_bytes(file.read_bytes())
