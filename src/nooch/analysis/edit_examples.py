"""Edited images as a picture: before, with the edit and with the control, and the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from PIL import Image

from nooch.analysis.task_edits import TaskEdits
from nooch.models.image_decoding import decode_images
from nooch.report.figures.style import encoded
from nooch.report.images.sheets import SheetLayout, SheetPanel, Tile, draw_sheet
from nooch.suites import CELLS, Suite

__all__ = ["draw_examples"]

_MOST = 6
"""Examples of a subset."""


def draw_examples(
    file: Path, suite: Suite, rows: pl.DataFrame, planned: Sequence[TaskEdits]
) -> None:
    """Draw the edits of each subset (of the task's first criterion) that change the probability
    most; rows are as in ``edited.parquet``.
    """
    plans = {one.task: one for one in planned}
    cells = pl.concat(suite.set(*key).cell_frame for key in suite.keys)
    cells = cells.unique(["image_id", "task"], keep="first", maintain_order=True)
    change = (pl.col("edit") - pl.col("before")).abs()
    rows = rows.join(cells, on=["image_id", "task"]).sort(change, descending=True)
    panels: list[SheetPanel] = []
    with TemporaryDirectory() as folder:
        for row in pl.concat(rows.filter(cell=cell).head(_MOST) for cell in CELLS).to_dicts():
            one, tiles = plans[row["task"]], []
            at = one.images["image_id"].to_list().index(row["image_id"])
            unedited, _ = decode_images([one.images["path"][at]], one.size, one.decoding)
            pixels = [*unedited, *one.read(range(2 * at, 2 * at + 2))[0]]
            for name, version in zip(("before", "edit", "control"), pixels, strict=True):
                if row[name] is not None:
                    path = Path(folder) / f"{len(panels)}-{name}.png"
                    Image.fromarray(version).save(path)
                    answer = "yes" if row[f"yes_{name}"] else "no"
                    tiles.append(Tile(path, [f"{name}: {answer} ({row[name]:.2f})"]))
            title = f"{row['task']}, image {row['image_id']}"
            panels.append(SheetPanel(title, tiles, row["cell"].replace("_", " ")))
        if panels:
            file.write_bytes(encoded(draw_sheet(panels, SheetLayout(3, 3, 1.2)), "png"))
