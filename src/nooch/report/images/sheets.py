"""Image sheets as matplotlib figures: panels of images with titles, numbers and shaded cues."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nooch.base.errors import ParameterError
from nooch.base.words import printable
from nooch.data.readers.image_files import thumbnail
from nooch.report.figures.style import styled
from nooch.report.images.cue_masks import COLORS, inner

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Colors = dict[str, tuple[int, int, int]]

_MARGIN, _GAP, _BETWEEN = 0.16, 0.06, 0.24
_TITLE, _WORDS = 10.0, 7.5
_LINE = 1.3 / 72
"""Height of a line in inches, for each point of its text."""
_FILL = 0.4
_SIDE, _PIXELS = 65_000, 400_000_000
"""Most pixels of a sheet: on a side, as JPEG allows, and in all, about 1.6 GB of memory."""


@dataclass(frozen=True, eq=False)
class Tile:
    """One image: its file, the lines below it, and classes with masks, bool (height, width)."""

    path: Path
    words: Sequence[str] = ()
    masks: Sequence[tuple[str, NDArray[np.bool_]]] = ()


@dataclass(frozen=True, eq=False)
class SheetPanel:
    """Images that belong together; ``note`` is below the title, or says why there is no image."""

    title: str
    tiles: Sequence[Tile] = ()
    note: str = ""


@dataclass(frozen=True)
class SheetLayout:
    """How a sheet is laid out.

    Attributes:
        columns: panels side by side.
        per_row: images side by side in a panel.
        cell: longest side of an image in inches.
    """

    columns: int
    per_row: int
    cell: float = 1.5

    def __post_init__(self) -> None:
        if self.columns < 1 or self.per_row < 1 or not 0.16 <= self.cell <= 10.24:
            raise ParameterError(
                "an image sheet of nothing",
                where="image sheet",
                allowed="1 panel and 1 image in a row at least, images of 0.16 to 10.24 inches",
            )

    @property
    def width(self) -> float:
        """Width of a panel in inches."""
        return self.per_row * self.cell + (self.per_row - 1) * _GAP


@styled
def draw_sheet(panels: Sequence[SheetPanel], layout: SheetLayout, *, dpi: int = 200) -> Figure:
    """Draw panels row by row; images keep their shape, text wraps at the width of its image."""
    from matplotlib.figure import Figure

    placed = [_Placed.of(panel, layout) for panel in panels]
    rows = [placed[k : k + layout.columns] for k in range(0, len(placed), layout.columns)]
    # images of panels side by side start at one height
    heads = [max(panel.head for panel in row) for row in rows]
    heights = [
        head + max(panel.height for panel in row) for head, row in zip(heads, rows, strict=True)
    ]
    n = max(len(row) for row in rows)
    size = (
        2 * _MARGIN + n * layout.width + (n - 1) * _BETWEEN,
        2 * _MARGIN + sum(heights) + (len(rows) - 1) * _BETWEEN,
    )
    wide, high = (round(side * dpi) for side in size)
    if max(wide, high) > _SIDE or wide * high > _PIXELS:
        raise ParameterError(
            f"the image sheet would have {wide:,} x {high:,} pixels",
            allowed=f"at most {_SIDE:,} on a side and {_PIXELS:,} in all",
            remedy="show fewer images or tasks, or lower dpi",
        )
    pen, top = _Pen(Figure(figsize=size), size, dpi), size[1] - _MARGIN
    for row, head, height in zip(rows, heads, heights, strict=True):
        for k, panel in enumerate(row):
            panel.draw(pen, _MARGIN + k * (layout.width + _BETWEEN), top, head)
        top -= height + _BETWEEN
    return pen.figure


@dataclass(frozen=True)
class _Pen:
    """Draws at places in inches from the lower left corner."""

    figure: Figure
    size: tuple[float, float]
    dpi: int

    def text(self, x: float, top: float, text: str, size: float, **look: Any) -> None:
        x, y = x / self.size[0], top / self.size[1]
        # names come from files: they are no formulas
        look |= {"va": "top", "ha": "left", "parse_math": False}
        self.figure.text(x, y, text, fontsize=size, **look)

    def lines(self, x: float, top: float, lines: Sequence[str], size: float, **look: Any) -> float:
        """Draw lines below each other; return where the last one ends."""
        for number, line in enumerate(lines):
            self.text(x, top - number * _LINE * size, line, size, **look)
        return top - len(lines) * _LINE * size

    def image(self, tile: Tile, x: float, top: float, cell: float, colors: Colors) -> None:
        pixels = _shaded(tile, round(cell * self.dpi), colors)
        high, wide = (cell * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
        left, bottom = x + (cell - wide) / 2, top - (cell + high) / 2
        box = left / self.size[0], bottom / self.size[1], wide / self.size[0], high / self.size[1]
        axes = self.figure.add_axes(box)
        axes.imshow(pixels, aspect="auto", interpolation="none")
        axes.set_axis_off()


@dataclass(frozen=True)
class _Placed:
    """A panel whose texts are broken into lines."""

    panel: SheetPanel
    layout: SheetLayout
    title: Sequence[str]
    note: Sequence[str]
    words: Sequence[Sequence[str]]
    colors: Colors

    @classmethod
    def of(cls, panel: SheetPanel, layout: SheetLayout) -> _Placed:
        names = dict.fromkeys(name for tile in panel.tiles for name, _ in tile.masks)
        return cls(
            panel,
            layout,
            _lines(panel.title, _TITLE, layout.width, bold=True),
            _lines(panel.note, _WORDS, layout.width),
            [
                [part for line in tile.words for part in _lines(line, _WORDS, layout.cell)]
                for tile in panel.tiles
            ],
            dict(zip(names, COLORS, strict=False)),
        )

    @property
    def head(self) -> float:
        """Height of the texts above the images."""
        shaded = _lines(self._legend, _WORDS, self.layout.width)
        return _LINE * (len(self.title) * _TITLE + (len(self.note) + len(shaded)) * _WORDS) + 0.05

    @property
    def _legend(self) -> str:
        return f"shaded: {', '.join(map(printable, self.colors))}" if self.colors else ""

    @property
    def rows(self) -> list[range]:
        n = self.layout.per_row
        return [range(k, min(k + n, len(self.words))) for k in range(0, len(self.words), n)]

    def _tall(self, row: range) -> float:
        return self.layout.cell + _LINE * _WORDS * max(len(self.words[k]) for k in row) + _GAP

    @property
    def height(self) -> float:
        """Height of the images and the texts below them."""
        return sum(self._tall(row) for row in self.rows)

    def draw(self, pen: _Pen, left: float, top: float, head: float) -> None:
        y = pen.lines(left, top, self.title, _TITLE, weight="bold")
        y = pen.lines(left, y, self.note, _WORDS, color="0.35")
        self._draw_legend(pen, left, y)
        y = top - head
        for row in self.rows:
            for place, k in enumerate(row):
                x = left + place * (self.layout.cell + _GAP)
                pen.image(self.panel.tiles[k], x, y, self.layout.cell, self.colors)
                pen.lines(x, y - self.layout.cell - 0.02, self.words[k], _WORDS)
            y -= self._tall(row)

    def _draw_legend(self, pen: _Pen, left: float, y: float) -> None:
        """Names of the shaded classes, each in its color; all in gray where they do not fit."""
        lines = _lines(self._legend, _WORDS, self.layout.width)
        if len(lines) != 1:
            pen.lines(left, y, lines, _WORDS, color="0.35")
            return
        words: list[tuple[str, Any]] = [("shaded: ", "0.35")]
        for number, (name, color) in enumerate(self.colors.items(), 1):
            end = ", " if number < len(self.colors) else ""
            words.append((printable(name) + end, tuple(0.72 * c / 255 for c in color)))
        for word, look in words:
            pen.text(left, y, word, _WORDS, color=look)
            left += _width(word, _WORDS)


@lru_cache(maxsize=4096)
def _width(text: str, size: float, bold: bool = False) -> float:
    """Width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        # a space at the end takes room too
        font = FontProperties(size=size, weight="bold" if bold else "normal")
        width, *_ = text_to_path.get_text_width_height_descent(f"{text}|", font, ismath=False)
    return (float(width) - (_width("", size, bold) * 72 if text else 0)) / 72


def _lines(text: str, size: float, most: float, *, bold: bool = False) -> list[str]:
    """A text on lines of at most so many inches, broken after spaces, hyphens and underscores."""
    lines = [""]
    for piece in re.findall(r"[^-_ ]*[-_ ]?", printable(text)):
        for part in piece if _width(piece.rstrip(), size, bold) > most else [piece]:
            if lines[-1] and _width((lines[-1] + part).rstrip(), size, bold) > most:
                lines.append("")
            lines[-1] += part
    return [line.rstrip() for line in lines if line.strip()]


def _shaded(tile: Tile, longest: int, colors: Colors) -> NDArray[np.uint8]:
    """The image with its classes shaded and outlined, uint8 (height, width, 3)."""
    picture = thumbnail(tile.path, longest)
    pixels = np.asarray(picture, dtype=np.float64)
    for name, mask in tile.masks:
        if name in colors:
            whole = Image.fromarray(mask.astype(np.uint8) * 255)
            inside = np.asarray(whole.resize(picture.size, Image.Resampling.BOX)) > 127
            weight = np.where(inner(inside), _FILL, np.where(inside, 0.95, 0.0))[..., None]
            pixels = (1 - weight) * pixels + weight * np.array(colors[name], dtype=np.float64)
    return np.rint(pixels).astype(np.uint8)
