"""A pen draws one object in its own box at a multiple of its size; the result is smooth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Color = tuple[int, int, int]
Point = tuple[float, float]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Sprite:
    """An object as it is laid on a picture.

    Attributes:
        paint: float32 (height, width, 3), 0 to 255, already multiplied with ``cover``.
        cover: float32 (height, width), 0 to 1; the object's mask is where it is at least one half.
    """

    paint: NDArray[np.float32]
    cover: NDArray[np.float32]

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.cover.shape[0])

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.cover.shape[1])


ColoredSprite = tuple[Sprite, str]
"""A sprite and the word for its color."""


class Pen:
    """Draws in a box of so many pixels, whose corners are (0, 0), top left, and (1, 1)."""

    def __init__(self, width: int, height: int) -> None:
        self._scale = 4 if max(width, height) <= _SMALL else 2
        self._size = (max(width, 2) * self._scale, max(height, 2) * self._scale)
        self._image = Image.new("RGBA", self._size)
        self._draw = ImageDraw.Draw(self._image)

    def polygon(self, points: Sequence[Point], fill: Color) -> None:
        """A filled polygon."""
        w, h = self._size
        self._draw.polygon([(x * w, y * h) for x, y in points], fill=(*fill, 255))

    def ellipse(self, x0: float, y0: float, x1: float, y1: float, fill: Color) -> None:
        """A filled ellipse in a box: left, top, right, bottom."""
        self._draw.ellipse(self._box(x0, y0, x1, y1), fill=(*fill, 255))

    def pie(
        self, x0: float, y0: float, x1: float, y1: float, start: float, end: float, fill: Color
    ) -> None:
        """A slice of an ellipse in a box; degrees clockwise from the right."""
        self._draw.pieslice(self._box(x0, y0, x1, y1), start, end, fill=(*fill, 255))

    def arc(
        self, x0: float, y0: float, x1: float, y1: float, start: float, end: float, fill: Color,
        wide: float,
    ) -> None:  # fmt: skip
        """A part of the outline of an ellipse, ``wide`` as a fraction of the box's width."""
        width = max(1, round(wide * self._size[0]))
        self._draw.arc(self._box(x0, y0, x1, y1), start, end, fill=(*fill, 255), width=width)

    def box(
        self, x0: float, y0: float, x1: float, y1: float, fill: Color, round_by: float = 0.0
    ) -> None:
        """A filled rectangle, its corners rounded by a fraction of the box's width."""
        radius = round_by * self._size[0]
        self._draw.rounded_rectangle(self._box(x0, y0, x1, y1), radius, fill=(*fill, 255))

    def line(self, points: Sequence[Point], fill: Color, wide: float) -> None:
        """A line, ``wide`` as a fraction of the box's width."""
        w, h = self._size
        pixels = [(x * w, y * h) for x, y in points]
        self._draw.line(pixels, (*fill, 255), width=max(1, round(wide * w)), joint="curve")

    def _box(self, x0: float, y0: float, x1: float, y1: float) -> Box:
        w, h = self._size
        x, y = sorted((x0 * w, x1 * w)), sorted((y0 * h, y1 * h))
        return x[0], y[0], x[1], y[1]

    def sprite(
        self, random: np.random.Generator, *, turn: float = 0.0, flip: bool = False
    ) -> Sprite:
        """The drawing, turned by degrees, mirrored, and lit from above."""
        image = self._image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else self._image
        if turn:
            image = image.rotate(turn, expand=True)
        small = np.asarray(image.convert("RGBa").reduce(self._scale), dtype=np.float32)
        cover = small[:, :, 3] / np.float32(255)
        height, width = cover.shape
        light = np.linspace(1.12, 0.84, height, dtype=np.float32)[:, None]
        grain = random.standard_normal((height, width), dtype=np.float32)
        light = light + grain * np.float32(0.035)
        paint = np.minimum(small[:, :, :3] * light[:, :, None], 255 * cover[:, :, None])
        return Sprite(paint, cover)


_SMALL = 72


def darker(color: Color, by: float) -> Color:
    """A color times ``by``: below 1 darker, above 1 lighter."""
    return _color([c * by for c in color])


def mixed(color: Color, other: Color, share: float) -> Color:
    """A color with a share of another."""
    return _color([(1 - share) * c + share * o for c, o in zip(color, other, strict=True)])


def _color(values: Sequence[float]) -> Color:
    r, g, b = (min(255, max(0, round(v))) for v in values)
    return r, g, b


T = TypeVar("T")

PAINTS: dict[str, Color] = {
    "red": (204, 44, 40),
    "blue": (42, 88, 186),
    "white": (234, 234, 230),
    "black": (48, 48, 54),
    "yellow": (240, 196, 44),
    "green": (46, 132, 72),
    "orange": (234, 122, 36),
    "purple": (122, 66, 158),
    "pink": (234, 130, 164),
    "gray": (146, 148, 154),
    "brown": (120, 80, 50),
    "silver": (186, 192, 200),
}
BRIGHT = ("red", "blue", "yellow", "orange", "purple", "pink", "green")
CLOTHES = ("red", "blue", "white", "black", "yellow", "green", "orange", "purple", "gray")
SKIN: tuple[Color, ...] = ((240, 204, 174), (222, 176, 140), (180, 128, 92), (122, 82, 58))
HAIR: tuple[Color, ...] = ((40, 30, 26), (88, 56, 34), (196, 156, 90), (150, 150, 152))


def choice(random: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options."""
    return options[int(random.integers(len(options)))]


def pick(random: np.random.Generator, names: Sequence[str]) -> tuple[str, Color]:
    """A name and its color, which varies a little."""
    name = choice(random, names)
    varied = np.clip(np.asarray(PAINTS[name]) + random.normal(0, 12, 3), 0, 255)
    r, g, b = varied.round().astype(int).tolist()
    return name, (r, g, b)
