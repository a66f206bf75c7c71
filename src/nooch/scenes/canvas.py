"""A picture and, for each of its pixels, what it shows: one owner, so that masks never overlap."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nooch.scenes.pen import Sprite


@dataclass(frozen=True)
class Item:
    """An object or stuff that was drawn: class, color word for captions, whether it is a crowd."""

    name: str
    color: str = ""
    crowd: bool = False


@dataclass
class Canvas:
    """Layers painted over each other, the farthest first: ``paint`` is float32 (size, size, 3), 0
    to 255, ``owner`` int16 (size, size), position in ``items`` of the last layer that covers
    half of a pixel.
    """

    size: int
    paint: NDArray[np.float32] = field(init=False)
    owner: NDArray[np.int16] = field(init=False)
    items: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paint = np.zeros((self.size, self.size, 3), dtype=np.float32)
        self.owner = np.full((self.size, self.size), -1, dtype=np.int16)

    def band(
        self, name: str, texture: NDArray[np.float32], edge: NDArray[np.float32], top: int
    ) -> None:
        """Lay a stretch of stuff from its upper edge, float32 (size,) in pixels for each column, to
        the bottom; several bands of one class are one item. The texture is float32 (size - top,
        size, 3): no edge lies above ``top``.
        """
        rows = np.arange(top, self.size, dtype=np.float32)[:, None]
        cover = np.clip(rows + np.float32(0.5) - edge[None, :], 0, 1)
        known = [number for number, item in enumerate(self.items) if item.name == name]
        number = known[0] if known else self._add(Item(name))
        self._lay(number, texture * cover[:, :, None], cover, (slice(top, None), slice(None)))

    def put(self, item: Item, sprite: Sprite, left: int, top: int) -> None:
        """Lay an object; parts outside of the picture are cut off."""
        number = self._add(item)
        y, x = max(top, 0), max(left, 0)
        bottom, right = min(top + sprite.height, self.size), min(left + sprite.width, self.size)
        if bottom > y and right > x:
            inner = (slice(y - top, bottom - top), slice(x - left, right - left))
            outer = (slice(y, bottom), slice(x, right))
            self._lay(number, sprite.paint[inner], sprite.cover[inner], outer)

    def shade(self, x: float, y: float, wide: float, tall: float) -> None:
        """Draw a soft shadow around (x, y), half axes in pixels. It changes colors, not owners."""
        x0, x1 = max(0, int(x - wide)), min(self.size, int(x + wide) + 1)
        y0, y1 = max(0, int(y - tall)), min(self.size, int(y + tall) + 1)
        if x1 > x0 and y1 > y0:
            across = (np.arange(x0, x1, dtype=np.float32) - np.float32(x)) / np.float32(wide)
            down = (np.arange(y0, y1, dtype=np.float32) - np.float32(y)) / np.float32(tall)
            depth = np.clip(1 - across[None, :] ** 2 - down[:, None] ** 2, 0, 1)
            self.paint[y0:y1, x0:x1] *= (1 - np.float32(0.5) * depth)[:, :, None]

    def _add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1

    def _lay(
        self,
        number: int,
        paint: NDArray[np.float32],
        cover: NDArray[np.float32],
        box: tuple[slice, slice],
    ) -> None:
        self.paint[box] *= (1 - cover)[:, :, None]
        self.paint[box] += paint
        self.owner[box][cover >= 0.5] = number
