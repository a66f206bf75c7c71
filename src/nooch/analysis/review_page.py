"""The page of an audit, which asks a person about its first labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from nooch.base.shared_types import Progress
from nooch.data import Dataset
from nooch.evaluation.predictions import positions
from nooch.report.images.split_images import SplitImages
from nooch.report.images.thumbnails import draw_pictures, picture_name
from nooch.report.site.data_scripts import script
from nooch.report.site.example_cards import pictures_wanted
from nooch.report.site.html_pages import page_environment
from nooch.report.site.site import image_index
from nooch.report.site.site_folder import write_assets
from nooch.suites import Suite

__all__ = ["write_review"]


def write_review(
    folder: Path,
    shown: pl.DataFrame,
    suite: Suite,
    data: Dataset | None,
    images: str | Path | None,
    notes: Sequence[str],
    progress: Progress,
) -> None:
    """Write the page with these labels, pictures and scripts. Raises InputError: no such images."""
    of = "audit"
    ids = shown["image_id"].unique(maintain_order=True)
    known = SplitImages(of, ids if data is None else data.images["image_id"], data)
    rows = positions(ids, known.ids).tolist()
    wanted, _ = pictures_wanted({of: known}, image_index(data, images), {of: rows})
    drawn = {one.wanted.row: one.sizes for one in draw_pictures(wanted, folder, progress)}
    pictures = {
        image_id: picture_name(of, row, large=drawn[row] == 2)
        for image_id, row in zip(ids, rows, strict=True)
        if drawn.get(row)
    }
    pairs = [
        {
            "image": str(image_id),
            "task": task,
            "label": bool(label),
            "odds": odds,
            "picture": pictures.get(image_id),
        }
        for image_id, task, label, *odds in shown.iter_rows()
    ]
    about = {"dataset": suite.header.dataset.fingerprint, "sources": shown.columns[4:]}
    (folder / "data").mkdir()
    (folder / "data" / "audit.js").write_bytes(script("audit", {**about, "pairs": pairs}))
    write_assets(folder / "assets")
    template = page_environment().get_template("review.html")
    page = template.render(page="index", pages={"index": "Review"}, suite=suite, notes=notes)
    (folder / "index.html").write_text(page, encoding="utf-8")
