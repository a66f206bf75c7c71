"""Thumbnails of some images in groups: in notebooks, as one picture, and as a file."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from PIL import Image, ImageDraw

from nooch.display import printable
from nooch.errors import check_one_of
from nooch.files import check_output_file, replace_file

__all__ = ["SIDE", "ThumbnailSheet"]

SIDE = 160
"""Longest side of a picture in pixels."""
_PER_ROW, _LINE, _GAP = 6, 14, 8
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
_Group = tuple[str, Sequence[tuple[Image.Image, str]]]
_STYLE = "display: inline-block; margin: 4px; vertical-align: top"


@dataclass(frozen=True, eq=False, repr=False)
class ThumbnailSheet:
    """Small pictures that notebooks show; ``save`` writes them as one picture.

    Attributes:
        groups: each a title, and pictures of at most 160 pixels with the line below them.
    """

    groups: Sequence[_Group]

    def __repr__(self) -> str:
        lines = [f"{title}: {'; '.join(c for _, c in images)}" for title, images in self.groups]
        return "\n".join(map(printable, ["ThumbnailSheet", *lines]))

    def _repr_html_(self) -> str:
        parts = []
        for title, images in self.groups:
            parts.append(f"<div><b><bdi>{escape(title)}</bdi></b></div>")
            for picture, caption in images:
                source = f"data:image/jpeg;base64,{b64encode(_encoded(picture, 'JPEG')).decode()}"
                below = f"<div><bdi>{escape(caption)}</bdi></div>"
                parts.append(f'<div style="{_STYLE}"><img src="{source}">{below}</div>')
        return f"<div>{''.join(parts)}</div>"

    @property
    def picture(self) -> Image.Image:
        """All of them on white, six in a row."""
        rows: list[_Group] = []
        for title, images in self.groups:
            rows.append((title, []))
            rows += [("", images[k : k + _PER_ROW]) for k in range(0, len(images), _PER_ROW)]
        heights = [_LINE + _GAP if title else SIDE + _LINE + _GAP for title, _ in rows]
        width = _GAP + _PER_ROW * (SIDE + _GAP)
        sheet = Image.new("RGB", (width, _GAP + sum(heights)), "white")
        pen, top = ImageDraw.Draw(sheet), _GAP
        for (title, images), height in zip(rows, heights, strict=True):
            pen.text((_GAP, top), _drawable(title), "black")
            for place, (picture, caption) in enumerate(images):
                left = _GAP + place * (SIDE + _GAP)
                sheet.paste(picture, (left, top))
                pen.text((left, top + SIDE), _drawable(caption), "black")
            top += height
        return sheet

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write ``picture`` as .png or .jpg, and return the path.

        Raises:
            ParameterError: another ending.
            OutputError: the file exists (and ``overwrite`` is false) or cannot be written.
        """
        file = check_output_file(path, overwrite=overwrite)
        ending = check_one_of("ending of a picture", file.suffix.lower(), _FORMATS)
        replace_file(file, _encoded(self.picture, _FORMATS[ending]))
        return file


def _encoded(picture: Image.Image, format: str) -> bytes:
    content = io.BytesIO()
    picture.save(content, format, quality=85)
    return content.getvalue()


def _drawable(text: str) -> str:
    """The text in characters that every font has."""
    return printable(text).encode("ascii", "replace").decode()
