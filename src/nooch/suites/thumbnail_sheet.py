"""Thumbnails of some images in groups, as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageOps

from nooch.base.words import printable
from nooch.data.readers.image_opening import thumbnail

__all__ = ["thumbnail_sheet"]

_SIDE, _PER_ROW, _LINE, _GAP = 160, 6, 16, 8


def thumbnail_sheet(groups: Mapping[str, Sequence[tuple[Path, str]]]) -> Image.Image:
    """Thumbnails on white, six in a row, each group below its title.

    Args:
        groups: title -> image files, each with the line below it; of texts, characters that not
            every font has are shown as question marks.

    Raises:
        InputError: an image that cannot be read.
    """
    tall = _SIDE + _LINE + _GAP
    heights = [_LINE - (-len(images) // _PER_ROW) * tall for images in groups.values()]
    sheet = Image.new("RGB", (_GAP + _PER_ROW * (_SIDE + _GAP), _GAP + sum(heights)), "white")
    pen, top = ImageDraw.Draw(sheet), _GAP
    for (title, images), height in zip(groups.items(), heights, strict=True):
        pen.text((_GAP, top), _drawable(title), "black")
        for number, (path, words) in enumerate(images):
            left = _GAP + number % _PER_ROW * (_SIDE + _GAP)
            place = top + _LINE + number // _PER_ROW * tall
            # small images are enlarged
            picture = ImageOps.contain(thumbnail(path, _SIDE), (_SIDE, _SIDE))
            sheet.paste(picture, (left, place))
            pen.text((left, place + _SIDE), _drawable(words), "black")
        top += height
    return sheet


def _drawable(text: str) -> str:
    return printable(text).encode("ascii", "replace").decode()
