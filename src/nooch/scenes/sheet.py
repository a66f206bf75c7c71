"""A contact sheet: hard positives and hard negatives of some tasks, side by side in one picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

from nooch.challenge import Suite
from nooch.data import Dataset
from nooch.errors import InputError, ParameterError, UndefinedError, check_one_of
from nooch.files import check_output_file, replace_file
from nooch.readers.image_files import ImageIndex
from nooch.readers.opening import UNREADABLE, opened_image

__all__ = ["contact_sheet"]

_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
_MARGIN, _GAP, _HEAD, _MIDDLE = 16, 5, 30, 26
_PAPER, _INK, _QUIET = (255, 255, 255), (32, 32, 36), (112, 112, 120)


def contact_sheet(
    suite: Suite,
    data: Dataset,
    tasks: Sequence[str],
    out: str | Path,
    *,
    images: str | Path | None = None,
    criterion: str = "ce",
    split: str = "test",
    per_row: int = 8,
    rows: int = 1,
    cell: int = 112,
    overwrite: bool = False,
) -> Path:
    """Draw one picture: for each task hard positives on the left and hard negatives on the right, titled.

    Where there are more than fit, they are taken at equal distances in the order of ids.

    Args:
        suite: the challenge sets.
        data: the dataset that they were found in, for file names.
        tasks: which to show, from the top down.
        out: file to write, ending in .jpg or .png.
        images: folder of images, where it is not the one that the dataset records.
        criterion: whose sets.
        split: of which split.
        per_row: images in a row, half of them hard positives; 2 and more.
        rows: rows for each task.
        cell: side of an image on the sheet in pixels.
        overwrite: replace a file that exists.

    Raises:
        ParameterError: no such set, no task, another ending, numbers out of range.
        InputError: image files that are missing or cannot be read.
        UndefinedError: no task has a hard image.
        OutputError: the file exists or cannot be written.
    """
    path = check_output_file(out, overwrite=overwrite)
    check_one_of("ending of a contact sheet", path.suffix.lower(), _FORMATS)
    if not tasks or per_row < 2 or rows < 1 or not 16 <= cell <= 1024:
        raise ParameterError(
            "a contact sheet of nothing", where="contact sheet",
            allowed="at least one task, 2 images in a row, 1 row, cells of 16 to 1024 pixels",
        )  # fmt: skip
    half = per_row // 2
    index = ImageIndex.of(data, images, "images")
    panels = [_Panel.of(suite, data, index, (criterion, task, split), half * rows) for task in tasks]
    if not any(panel.positives or panel.negatives for panel in panels):
        raise UndefinedError(f"none of these tasks has a hard image under {criterion} on {split}: {', '.join(tasks)}")
    sheet = _drawn(panels, half, rows, cell)
    _save(sheet, path)
    return path


class _Panel:
    """A task's images, opened, and its titles."""

    def __init__(self, task: str, cues: list[str], positives: list[Image.Image], negatives: list[Image.Image]) -> None:
        self.positives, self.negatives = positives, negatives
        words = task.replace("_", " ")
        self.titles = (f"{words}: hard positives", f"{words}: hard negatives")
        around = " or ".join(cue.replace("_", " ").removesuffix("-other") for cue in cues[:2])
        self.notes = (f"{words} without {around}", f"{around} without {words}") if around else ("", "")

    @classmethod
    def of(cls, suite: Suite, data: Dataset, index: ImageIndex, key: tuple[str, str, str], many: int) -> _Panel:
        """Open the images of a challenge set that are shown."""
        found = suite.set(*key)
        cues = suite.header.criteria[key[0]].cues.get(key[1], [])
        sides = []
        for subset in ("hard_positive", "hard_negative"):
            ids = _spread(found.ids(subset), many)
            names = [data.images["file_name"][data.row(i)] for i in ids]
            paths = index.all_of(ids, names, "images") if ids else []
            sides.append([_opened(path) for path in paths])
        return cls(key[1], [cue for cue, _ in cues], *sides)


def _spread(ids: list[int], many: int) -> list[int]:
    if len(ids) <= many:
        return ids
    return [ids[i * len(ids) // many] for i in range(many)]


def _opened(path: Path) -> Image.Image:
    try:
        with opened_image(path) as image:
            return image.convert("RGB")
    except UNREADABLE as error:
        raise InputError(f"is no image that can be read: {error}", where=path) from error


def _drawn(panels: list[_Panel], half: int, rows: int, cell: int) -> Image.Image:
    side = half * cell + (half - 1) * _GAP
    wide = 2 * _MARGIN + 2 * side + _MIDDLE
    tall = _HEAD + rows * (cell + _GAP)
    sheet = Image.new("RGB", (wide, 2 * _MARGIN + len(panels) * tall + (len(panels) - 1) * _GAP), _PAPER)
    pen = ImageDraw.Draw(sheet)
    bold, plain = ImageFont.load_default(16), ImageFont.load_default(13)
    for number, panel in enumerate(panels):
        top = _MARGIN + number * (tall + _GAP)
        for place, shown in enumerate((panel.positives, panel.negatives)):
            left = _MARGIN + place * (side + _MIDDLE)
            title = panel.titles[place]
            pen.text((left, top + 4), title, _INK, bold)
            pen.text((left + pen.textlength(title, bold) + 10, top + 7), panel.notes[place], _QUIET, plain)
            for i, image in enumerate(shown):
                corner = (left + i % half * (cell + _GAP), top + _HEAD + i // half * (cell + _GAP))
                sheet.paste(ImageOps.fit(image, (cell, cell), Image.Resampling.LANCZOS), corner)
    return sheet


def _save(sheet: Image.Image, path: Path) -> None:
    buffer = io.BytesIO()
    options = {"quality": 88, "optimize": True} if path.suffix.lower() != ".png" else {"optimize": True}
    sheet.save(buffer, _FORMATS[path.suffix.lower()], **options)
    replace_file(path, buffer.getvalue())
