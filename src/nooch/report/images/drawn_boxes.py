"""Objects and boxes of a detector, as drawings over an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from nooch.evaluation import Predictions


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
        return ", ".join(f"{number} {kind}" for kind, number in self.counts)


_LINE = 'fill="none" stroke-width="3" vector-effect="non-scaling-stroke"'
_FOUND, _WRONG = f'{_LINE} stroke="#009e73"', f'{_LINE} stroke="#d55e00"'


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
