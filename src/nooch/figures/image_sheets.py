"""Image sheets as matplotlib figures: panels of images with titles, numbers and shaded cues."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nooch.errors import InputError, ParameterError
from nooch.examples.cue_masks import COLOURS, outlined
from nooch.readers.image_opening import UNREADABLE, opened_image
from nooch.report.figure_style import styled
from nooch.report.score_tables import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Layout", "Panel", "Tile", "draw_sheet"]

_MARGIN, _GAP, _BETWEEN = 0.16, 0.06, 0.24
_TITLE, _WORDS = 10.0, 7.5
_LINE = 1.3 / 72
"""Height of a line in inches, for each point of its text."""
_FILL = 0.4
_SIDE, _PIXELS = 65_000, 400_000_000
"""Most pixels of a sheet: on a side, as JPEG allows, and in all, about 1.6 GB of memory."""


@dataclass(frozen=True, eq=False)
class Tile:
    """One image: its file, the lines below it, and classes to shade with masks, bool (height,
    width).
    """

    path: Path
    words: Sequence[str] = ()
    masks: Sequence[tuple[str, NDArray[np.bool_]]] = ()


@dataclass(frozen=True, eq=False)
class Panel:
    """Images that belong together; ``note`` is below the title, or says why there is no image."""

    title: str
    tiles: Sequence[Tile] = ()
    note: str = ""


@dataclass(frozen=True)
class Layout:
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
                "an image sheet of nothing", where="image sheet",
                allowed="1 panel and 1 image in a row at least, images of 0.16 to 10.24 inches",
            )  # fmt: skip

    @property
    def width(self) -> float:
        """Width of a panel in inches."""
        return self.per_row * self.cell + (self.per_row - 1) * _GAP


@styled
def draw_sheet(panels: Sequence[Panel], layout: Layout, *, dpi: int = 200) -> Figure:
    """Draw panels row by row; images keep their shape, text wraps at the width of its image.

    Args:
        panels: in order.
        layout: how many are side by side, and how large.
        dpi: pixels for an inch that images are reduced to.

    Raises:
        InputError: a file that is no image.
        ParameterError: a sheet of more than 65,000 pixels on a side, or 400 million in all.
    """
    from matplotlib.figure import Figure

    rows = [panels[k : k + layout.columns] for k in range(0, len(panels), layout.columns)]
    placed = [[_Placed.of(panel, layout) for panel in row] for row in rows]
    # images of panels side by side begin at one height
    heads = [max(one.head for one in row) for row in placed]
    heights = [
        head + max(one.height for one in row) for head, row in zip(heads, placed, strict=True)
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
    figure = Figure(figsize=size)
    top = size[1] - _MARGIN
    for row, head, height in zip(placed, heads, heights, strict=True):
        for k, one in enumerate(row):
            one.draw(_Pen(figure, size, dpi), _MARGIN + k * (layout.width + _BETWEEN), top, head)
        top -= height + _BETWEEN
    return figure


@dataclass(frozen=True)
class _Pen:
    """Draws at places in inches from the lower left corner."""

    figure: Figure
    size: tuple[float, float]
    dpi: int

    def text(self, x: float, top: float, text: str, size: float, **look: Any) -> None:
        # names come from files: they are no formulas
        self.figure.text(
            x / self.size[0],
            top / self.size[1],
            text,
            fontsize=size,
            va="top",
            ha="left",
            parse_math=False,
            **look,
        )

    def image(
        self,
        tile: Tile,
        x: float,
        top: float,
        cell: float,
        colours: dict[str, tuple[int, int, int]],
    ) -> None:
        pixels = _shaded(tile, round(cell * self.dpi), colours)
        high, wide = (cell * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
        left, bottom = x + (cell - wide) / 2, top - (cell + high) / 2
        box = left / self.size[0], bottom / self.size[1], wide / self.size[0], high / self.size[1]
        axes = self.figure.add_axes(box)
        axes.imshow(pixels, aspect="auto", interpolation="none")
        axes.set_axis_off()


@dataclass(frozen=True)
class _Placed:
    """A panel whose texts are broken into lines."""

    panel: Panel
    layout: Layout
    title: Sequence[str]
    note: Sequence[str]
    words: Sequence[Sequence[str]]
    colours: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, panel: Panel, layout: Layout) -> _Placed:
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
            dict(zip(names, COLOURS, strict=False)),
        )

    @property
    def head(self) -> float:
        """Height of what stands above the images."""
        shaded = _lines(self._legend, _WORDS, self.layout.width)
        return _LINE * (len(self.title) * _TITLE + (len(self.note) + len(shaded)) * _WORDS) + 0.05

    @property
    def _legend(self) -> str:
        return f"shaded: {', '.join(map(printable, self.colours))}" if self.colours else ""

    @property
    def rows(self) -> list[range]:
        n = self.layout.per_row
        return [range(k, min(k + n, len(self.words))) for k in range(0, len(self.words), n)]

    def _tall(self, row: range) -> float:
        return self.layout.cell + _LINE * _WORDS * max(len(self.words[k]) for k in row) + _GAP

    @property
    def height(self) -> float:
        """Height of the images and what stands below them."""
        return sum(self._tall(row) for row in self.rows)

    def draw(self, pen: _Pen, left: float, top: float, head: float) -> None:
        y = top
        for line in self.title:
            pen.text(left, y, line, _TITLE, weight="bold")
            y -= _LINE * _TITLE
        for line in self.note:
            pen.text(left, y, line, _WORDS, color="0.35")
            y -= _LINE * _WORDS
        self._draw_legend(pen, left, y)
        y = top - head
        for row in self.rows:
            for place, k in enumerate(row):
                x = left + place * (self.layout.cell + _GAP)
                pen.image(self.panel.tiles[k], x, y, self.layout.cell, self.colours)
                for number, line in enumerate(self.words[k]):
                    pen.text(x, y - self.layout.cell - 0.02 - number * _LINE * _WORDS, line, _WORDS)
            y -= self._tall(row)

    def _draw_legend(self, pen: _Pen, left: float, y: float) -> None:
        """Names of the shaded classes, each in its colour; all in gray where they need several
        lines.
        """
        lines = _lines(self._legend, _WORDS, self.layout.width)
        if len(lines) > 1:
            for number, line in enumerate(lines):
                pen.text(left, y - number * _LINE * _WORDS, line, _WORDS, color="0.35")
            return
        x = left
        for text, colour in [("shaded: ", None), *self.colours.items()] if self.colours else []:
            look = "0.35" if colour is None else tuple(0.72 * c / 255 for c in colour)
            word = text if colour is None else f"{printable(text)}, "
            last = colour is not None and text == next(reversed(self.colours))
            pen.text(x, y, word.removesuffix(", ") if last else word, _WORDS, color=look)
            x += _width(word, _WORDS)


@lru_cache(maxsize=4096)
def _width(text: str, size: float, bold: bool = False) -> float:
    """Width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        # a space at the end takes room too
        found = text_to_path.get_text_width_height_descent(
            f"{text}|", FontProperties(size=size, weight="bold" if bold else "normal"), ismath=False
        )
    return (float(found[0]) - (_width("", size, bold) * 72 if text else 0)) / 72


def _lines(text: str, size: float, most: float, *, bold: bool = False) -> list[str]:
    """A text on lines of at most so many inches, broken after spaces, hyphens and underscores if
    possible.
    """
    found = [""]
    for piece in re.findall(r"[^-_ ]*[-_ ]?", printable(text)):
        for part in piece if _width(piece.rstrip(), size, bold) > most else [piece]:
            if found[-1] and _width((found[-1] + part).rstrip(), size, bold) > most:
                found.append("")
            found[-1] += part
    return [line.rstrip() for line in found if line.strip()]


def _shaded(
    tile: Tile, longest: int, colours: dict[str, tuple[int, int, int]]
) -> NDArray[np.uint8]:
    """The image with its classes shaded and outlined, uint8 (height, width, 3)."""
    try:
        with opened_image(tile.path) as image:
            image.draft("RGB", (longest, longest))
            picture = image.convert("RGB")
    except UNREADABLE as error:
        raise InputError(f"is no image that can be read: {error}", where=tile.path) from error
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    pixels = np.asarray(picture, dtype=np.float64)
    for name, mask in tile.masks:
        if name in colours:
            small = Image.fromarray(mask.astype(np.uint8) * 255).resize(
                picture.size, Image.Resampling.BOX
            )
            inside, deep = outlined(np.asarray(small) > 127)
            weight = np.where(deep, _FILL, np.where(inside, 0.95, 0.0))[..., None]
            pixels = (1 - weight) * pixels + weight * np.array(colours[name], dtype=np.float64)
    return np.rint(pixels).astype(np.uint8)
