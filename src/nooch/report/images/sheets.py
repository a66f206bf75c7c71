"""Image sheets as matplotlib figures: panels of images with titles, numbers and shaded cues."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from PIL import Image

from nooch.base.calls import Count, Options
from nooch.base.errors import ParameterError
from nooch.base.words import printable
from nooch.data.readers.image_files import thumbnail
from nooch.report.figures.style import styled
from nooch.report.images.cue_masks import COLORS, inner

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


Colors = dict[str, tuple[int, int, int]]

_GAP, _BETWEEN = 0.06, 0.24
_TITLE, _WORDS = 9.0, 7.5
_LINE, _WIDE = 1.3 / 72, 0.62 / 72
"""Height of a line and width of a character in inches, for each point of their text."""
_FILL = 0.4
_SIDE, _PIXELS = 65_000, 400_000_000
"""Most pixels of a sheet: on a side, as JPEG allows, and in all, about 1.6 GB of memory."""


@dataclass(frozen=True, eq=False)
class Tile:
    """One image: its file, the lines below it, classes with masks, bool (height, width), and values
    of black and white of a wide one.
    """

    path: Path
    words: Sequence[str] = ()
    masks: Sequence[tuple[str, NDArray[np.bool_]]] = ()
    range: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class SheetPanel:
    """Images that belong together; ``note`` is below the title, or explains why there is no
    image.
    """

    title: str
    tiles: Sequence[Tile] = ()
    note: str = ""


@dataclass(frozen=True)
class SheetLayout(Options):
    """Layout of a sheet.

    Attributes:
        columns: panels side by side.
        per_row: images side by side in a panel.
        cell: longest side of an image in inches.
    """

    columns: Count
    per_row: Count
    cell: Annotated[float, Meta(ge=0.16, le=10.24)] = 1.5

    @property
    def width(self) -> float:
        """Width of a panel in inches."""
        return self.per_row * (self.cell + _GAP) + _BETWEEN


@styled
def draw_sheet(panels: Sequence[SheetPanel], layout: SheetLayout, *, dpi: int = 200) -> Figure:
    """Draw panels row by row; images keep their shape, text wraps at the width of its image."""
    from matplotlib.figure import Figure

    rows = [panels[k : k + layout.columns] for k in range(0, len(panels), layout.columns)]
    # images of panels side by side start at one height
    heads = [max(_head(panel, layout) for panel in row) for row in rows]
    heights = [
        head + max(_height(panel, layout) for panel in row)
        for head, row in zip(heads, rows, strict=True)
    ]
    size = len(rows[0]) * layout.width, sum(heights)
    wide, high = (round(side * dpi) for side in size)
    if max(wide, high) > _SIDE or wide * high > _PIXELS:
        raise ParameterError(
            f"the image sheet would have {wide:,} x {high:,} pixels",
            allowed=f"at most {_SIDE:,} on a side and {_PIXELS:,} in all",
            remedy="show fewer images or tasks, or lower dpi",
        )
    figure = Figure(size)
    places = figure.subfigures(len(rows), len(rows[0]), squeeze=False, height_ratios=heights)
    for row, head, height, of_row in zip(rows, heads, heights, places, strict=True):
        for panel, place in zip(row, of_row, strict=False):
            _draw(panel, place, layout, (head, height), dpi)
    return figure


def _title(panel: SheetPanel, layout: SheetLayout) -> list[str]:
    texts = [panel.title, panel.note]
    return [line for text in texts for line in _lines(text, _TITLE, layout.width - _BETWEEN)]


def _head(panel: SheetPanel, layout: SheetLayout) -> float:
    """Height of the texts above the images in inches."""
    return len(_title(panel, layout)) * _LINE * _TITLE + 2 * _GAP


def _words(tile: Tile, layout: SheetLayout) -> list[str]:
    return [part for line in tile.words for part in _lines(line, _WORDS, layout.cell)]


def _colors(panel: SheetPanel) -> Colors:
    names = dict.fromkeys(name for tile in panel.tiles for name, _ in tile.masks)
    return dict(zip(names, COLORS, strict=False))


def _images(panel: SheetPanel, layout: SheetLayout) -> tuple[int, float]:
    """Rows of images, and their height with the texts below them in inches."""
    rows = -(-len(panel.tiles) // layout.per_row)
    lines = max((len(_words(tile, layout)) for tile in panel.tiles), default=0)
    return rows, rows * (layout.cell + _LINE * _WORDS * lines + 2 * _GAP)


def _height(panel: SheetPanel, layout: SheetLayout) -> float:
    """Height of the images and of the names of colors below them in inches."""
    names = len(_colors(panel))
    return _images(panel, layout)[1] + _LINE * _TITLE * names + _BETWEEN


def _draw(
    panel: SheetPanel, place: SubFigure, layout: SheetLayout, heights: tuple[float, float], dpi: int
) -> None:
    """Draw a panel; ``heights`` in inches are those above its images and of the whole."""
    from matplotlib.patches import Patch

    head, height = heights
    left, top = _GAP / layout.width, 1 - head / height
    title, y = "\n".join(_title(panel, layout)), 1 - _GAP / height
    place.suptitle(title, x=left, y=y, ha="left", fontsize=_TITLE, parse_math=False)
    if not panel.tiles:
        return
    colors, (rows, tall) = _colors(panel), _images(panel, layout)
    right, wide = 1 - (_BETWEEN - _GAP) / layout.width, _GAP / layout.cell
    grid = {"left": left, "right": right, "top": top, "bottom": top - tall / height}
    grid |= {"wspace": wide, "hspace": 0}
    every = place.subplots(rows, layout.per_row, squeeze=False, gridspec_kw=grid).ravel()
    for axes in every:
        axes.set_axis_off()
        # the text below an image lies within its axes
        axes.set_anchor("N")
    for axes, tile in zip(every, panel.tiles, strict=False):
        axes.imshow(_shaded(tile, round(layout.cell * dpi), colors), interpolation="none")
        words = axes.set_title("\n".join(_words(tile, layout)), loc="left", y=0, pad=-3, va="top")
        # names come from files: they are not formulas
        words.set(fontsize=_WORDS, parse_math=False)
    if colors:
        handles = [Patch(color=(r / 255, g / 255, b / 255)) for r, g, b in colors.values()]
        names = [f"shaded: {printable(name)}" for name in colors]
        legend = place.legend(handles, names, loc="lower left", fontsize=_WORDS)
        for name in legend.get_texts():
            name.set_parse_math(False)


def _lines(text: str, size: float, most: float) -> list[str]:
    """A text on lines of about so many inches."""
    return textwrap.wrap(printable(text), max(1, int(most / (_WIDE * size))))


def _shaded(tile: Tile, longest: int, colors: Colors) -> NDArray[np.uint8]:
    """The image with its classes shaded and outlined, uint8 (height, width, 3)."""
    picture = thumbnail(tile.path, longest, tile.range)
    pixels = np.asarray(picture, dtype=np.float64)
    for name, mask in tile.masks:
        if name in colors:
            whole = Image.fromarray(mask.astype(np.uint8) * 255)
            inside = np.asarray(whole.resize(picture.size, Image.Resampling.BOX)) > 127
            weight = np.where(inner(inside), _FILL, np.where(inside, 0.95, 0.0))[..., None]
            pixels = (1 - weight) * pixels + weight * np.array(colors[name], dtype=np.float64)
    return np.rint(pixels).astype(np.uint8)
