"""The folder of an audit: its table, and a page that asks a person about the first labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.auditing.audit_result import Audit, AuditOptions
from nooch.challenge import Suite
from nooch.data import Dataset, ImageId, parquet_bytes
from nooch.examples.thumbnails import Wanted, draw_pictures, picture_name
from nooch.readers.image_files import ImageIndex
from nooch.shared_types import Progress
from nooch.site.data_scripts import script
from nooch.site.html_pages import page_environment
from nooch.site.site_folder import write_assets
from nooch.version import __version__

__all__ = ["AUDIT_MARKER", "write_review"]

AUDIT_MARKER = "audit.json"
_PICTURES = "audit"


def write_review(
    audit: Audit,
    suite: Suite,
    data: Dataset | None,
    folder: Path,
    asked: AuditOptions,
    progress: Progress,
) -> None:
    """Write the files of an audit, last ``audit.json``. Raises InputError: no folder of images."""
    shown = audit.table.head(asked.most)
    ids = shown["image_id"].unique(maintain_order=True).to_list()
    files = _files(data, ids, asked.images)
    wanted = [Wanted(_PICTURES, row, path) for row, path in enumerate(files) if path]
    drawn = {one.wanted.row: one.sizes for one in draw_pictures(wanted, folder, progress)}
    pictures = {
        ids[row]: picture_name(_PICTURES, row, large=sizes == 2)
        for row, sizes in drawn.items()
        if sizes
    }
    pairs = [
        {
            "image": str(row["image_id"]),
            "task": row["task"],
            "label": bool(row["label"]),
            "odds": [row[name] for name in ("score", *audit.sources)],
            "picture": pictures.get(row["image_id"]),
        }
        for row in shown.iter_rows(named=True)
    ]
    fingerprint = suite.header.dataset.fingerprint
    content = {"dataset": fingerprint, "sources": audit.sources, "pairs": pairs}
    (folder / "data").mkdir()
    (folder / "data" / "audit.js").write_bytes(script("audit", content))
    write_assets(folder / "assets")
    about: dict[str, Any] = {"page": "index", "pages": {"index": "Review"}, "suite": suite}
    page = page_environment().get_template("review.html").render(about, notes=audit.notes)
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / "audit.parquet").write_bytes(parquet_bytes(audit.table))
    record = {"format": "nooch-audit", "version": 1, "nooch": __version__}
    record |= {"dataset": fingerprint, "sources": audit.sources, "notes": list(audit.notes)}
    (folder / AUDIT_MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(record)))


def _files(
    data: Dataset | None, ids: Sequence[ImageId], images: str | Path | None
) -> list[Path | None]:
    """The image files, as far as there are any, in the order of ids."""
    root = images or (None if data is None else data.image_root)
    if data is None or root is None or (images is None and not Path(root).is_dir()):
        return [None] * len(ids)
    index = ImageIndex(root)
    names = pl.DataFrame({"image_id": ids}).join(
        data.images, on="image_id", how="left", maintain_order="left"
    )["file_name"]
    return [index.root / name if name in index.paths else None for name in names]
