"""The site as a folder: pages, what they need, data, pictures, and ``report.json``, which is
written last.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.examples.thumbnails import Drawn, draw_pictures
from nooch.files import atomic_folder
from nooch.shared_types import Progress, no_progress
from nooch.site.criterion_data import shown_criteria
from nooch.site.cue_overlays import draw_shades
from nooch.site.data_scripts import script
from nooch.site.html_pages import render_pages
from nooch.site.image_data import BLOCK, about_images, split_file
from nooch.site.site_content import Site
from nooch.site.task_data import task_file
from nooch.version import __version__

__all__ = ["SITE_MARKER", "write_site"]

SITE_MARKER = "report.json"
_MOST_PROBLEMS = 5


def write_site(
    site: Site,
    out: str | Path,
    *,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> list[str]:
    """Write the site, whole or not at all; return notes on pictures that could not be drawn.

    Raises:
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with atomic_folder(out, overwrite=overwrite, marker=SITE_MARKER) as folder:
        (folder / "data").mkdir()
        drawn = draw_pictures(site.wanted, folder, progress)
        pictures, shades = _there(site, drawn), draw_shades(drawn, site.masks, folder)
        _write_data(site, folder / "data", pictures, shades, progress)
        _write_assets(folder / "assets")
        for name, text in render_pages(site, pictures).items():
            (folder / name).write_text(text, encoding="utf-8")
        header = {
            "format": "nooch-report",
            "version": 1,
            "nooch": __version__,
            "suite": _identity(site),
        }
        (folder / SITE_MARKER).write_bytes(
            msgspec.json.format(msgspec.json.encode(header), indent=1) + b"\n"
        )
    problems = [one.problem for one in drawn if not one.pictures]
    shown = [f"no picture of {text}" for text in problems[:_MOST_PROBLEMS]]
    return shown + (
        [f"{len(problems) - _MOST_PROBLEMS} more pictures could not be drawn"]
        if problems[_MOST_PROBLEMS:]
        else []
    )


def _identity(site: Site) -> dict[str, Any]:
    dataset = site.suite.header.dataset
    return {
        "fingerprint": dataset.fingerprint,
        "tasks": list(site.suite.tasks),
        "criteria": list(site.suite.criteria),
    }


def _there(site: Site, drawn: Sequence[Drawn]) -> dict[str, NDArray[np.uint8]]:
    """For each split which pictures there are, uint8 (n,), as ``Drawn`` numbers them."""
    found = {split: np.zeros(len(images), dtype=np.uint8) for split, images in site.images.items()}
    for one in drawn:
        found[one.wanted.split][one.wanted.row] = one.pictures
    return found


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
        "tasks": list(suite.tasks), "splits": list(suite.splits), "methods": list(site.methods), "has_data": bool(data),
        "criteria": shown_criteria(suite, data[0] if data else None), "sets": [list(key) for key in suite.keys],
        "notes": list(site.missing.get("explore", ())), "pictures": list(site.missing.get("pictures", ())),
    }  # fmt: skip
    (folder / "site.js").write_bytes(script("site", general))
    for name, content in site.data.items():
        (folder / f"{name}.js").write_bytes(script(name, content))
    for split, images in site.images.items():
        (folder / f"split-{split}.js").write_bytes(split_file(images, pictures[split]))
        for block in range(-(-len(images) // BLOCK)):
            (folder / f"images-{split}-{block}.js").write_bytes(
                about_images(images, block, shades.get(split, {}))
            )
        for number, task in enumerate(suite.tasks):
            content = task_file(suite, task, images, site.losses(task, split))
            (folder / f"task-{number}-{split}.js").write_bytes(content)
            progress(f"writing {split}, tasks", number + 1, len(suite.tasks))


def _write_assets(folder: Path) -> None:
    folder.mkdir()
    for file in resources.files("nooch.site").joinpath("assets").iterdir():
        if file.name.endswith((".js", ".css", ".svg")):
            (folder / file.name).write_bytes(file.read_bytes())
