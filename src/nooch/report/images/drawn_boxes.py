"""Objects and boxes of a detector, as drawings over an image."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from PIL import ImageDraw

from nooch.base.words import counted
from nooch.evaluation import Predictions
from nooch.evaluation.predictions import positions


@dataclass(frozen=True)
class DrawnBoxes:
    """Boxes to draw over an image of ``width`` x ``height`` pixels: left, top, width and height in
    pixels; objects that were found, objects that were missed, and boxes of no object.
    """

    width: int
    height: int
    found: Sequence[Sequence[float]] = ()
    missed: Sequence[Sequence[float]] = ()
    false: Sequence[Sequence[float]] = ()

    @property
    def svg(self) -> str:
        """A drawing that scales with the image; missed objects are dashed."""
        styles = {"found": _FOUND, "missed": f'{_WRONG} stroke-dasharray="6 4"', "false": _WRONG}
        shapes = [
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" class="{kind}"'
            f" {style}/>"
            for kind, style in styles.items()
            for x, y, w, h in getattr(self, kind)
        ]
        size = f"0 0 {self.width} {self.height}"
        return f'<svg class="boxes" viewBox="{size}" aria-hidden="true">{"".join(shapes)}</svg>'

    @property
    def counts(self) -> list[tuple[str, str]]:
        """Numbers of boxes of each kind that there is."""
        kinds = {"found": self.found, "missed": self.missed, "false boxes": self.false}
        return [(kind, str(len(boxes))) for kind, boxes in kinds.items() if boxes]

    @property
    def words(self) -> str:
        """The numbers in words."""
        parts = [f"{number} {kind}" for kind, number in self.counts[: -1 if self.false else None]]
        return ", ".join([*parts, *[counted(len(self.false), "false box")][: len(self.false)]])

    def draw(self, draw: ImageDraw.ImageDraw, left: float, top: float, scale: float) -> None:
        """Draw the same over a picture of this scale at a place of a larger one."""
        for kind, color in (("found", FOUND), ("missed", WRONG), ("false", WRONG)):
            for x, y, w, h in getattr(self, kind):
                x0, y0, x1, y1 = (
                    round(start + scale * value)
                    for start, value in zip((left, top) * 2, (x, y, x + w, y + h), strict=True)
                )
                step = 10 if kind == "missed" else max(x1 - x0, y1 - y0, 1)
                length = 0.6 * step if kind == "missed" else step
                for at in np.arange(x0, x1, step):
                    for side in (y0, y1):
                        draw.line((at, side, min(at + length, x1), side), color, 2)
                for at in np.arange(y0, y1, step):
                    for side in (x0, x1):
                        draw.line((side, at, side, min(at + length, y1)), color, 2)


FOUND, WRONG = "#009e73", "#d55e00"
_LINE = 'fill="none" stroke-width="3" vector-effect="non-scaling-stroke"'
_FOUND, _WRONG = (f'{_LINE} stroke="{color}"' for color in (FOUND, WRONG))


def boxes_of_images(
    run: Predictions, task: str, images: pl.DataFrame, shown: Container[int]
) -> dict[int, DrawnBoxes]:
    """Row -> what ``drawn_boxes`` draws, of the rows ``shown`` in which there is anything."""
    if run.objects is None or task not in run.tasks:
        return {}
    label = run.tasks.index(task)
    every = (run.objects.boxes, run.objects.false)
    own = np.unique(np.concatenate([boxes.image[boxes.label == label] for boxes in every]))
    ids = run.image_ids[own].cast(images["image_id"].dtype, strict=False)
    rows = [row for row in positions(ids, images["image_id"]).tolist() if row in shown]
    drawn = {row: drawn_boxes(run, task, images, row) for row in rows}
    return {row: boxes for row, boxes in drawn.items() if boxes is not None}


def drawn_boxes(run: Predictions, task: str, images: pl.DataFrame, row: int) -> DrawnBoxes | None:
    """The objects of a task in an image, and a run's boxes of none; None for a run without matched
    ``objects``, or where the size of the image is not known.

    ``images``: with ``image_id, width, height``; ``row``: of the image.
    """
    width, height, image_id = images.select("width", "height", "image_id").row(row)
    if run.objects is None or run.boxes is None or task not in run.tasks or not width or not height:
        return None
    ids = run.image_ids.cast(images["image_id"].dtype, strict=False)
    at, label, objects = (ids == image_id).arg_max(), run.tasks.index(task), run.objects
    own = (objects.boxes.image == at) & (objects.boxes.label == label)
    false = (objects.false.image == at) & (objects.false.label == label)
    masks = own & objects.found, own & ~objects.found
    found, missed = (objects.boxes.box[mask].tolist() for mask in masks)
    return DrawnBoxes(width, height, found, missed, objects.false.box[false].tolist())
