"""Named colors of objects, for captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from nooch.scenes.sprite_pen import Color

__all__ = ["BRIGHT", "CLOTHES", "HAIR", "PAINTS", "SKIN", "choice", "pick"]

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
