"""Textures of stuff, one function each, and the shape of its upper edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nooch.scenes.pen import choice

# name -> standard deviation of the blur down and across, in pixels of an image of 128
FIELDS = {
    "fine": (0.6, 0.6),
    "grain": (1.4, 1.4),
    "blob": (3.5, 3.5),
    "soft": (14.0, 14.0),
    "waves": (0.9, 7.0),
    "blades": (3.0, 0.7),
    "ripples": (1.6, 14.0),
}
_SEED = 171


class Noise:
    """Fields of zero mean and unit variance that repeat, so that a crop may start anywhere."""

    def __init__(self, size: int) -> None:
        self.size = size
        random = np.random.default_rng(_SEED)
        self._fields = {
            name: _field(size, down * size / 128, across * size / 128, random)
            for name, (down, across) in FIELDS.items()
        }
        clouds = sum(
            weight * _field(size, blur * size / 128, 1.6 * blur * size / 128, random)
            for weight, blur in ((1.0, 16), (0.6, 7), (0.35, 3), (0.2, 1.4))
        )
        self._fields["clouds"] = np.asarray(clouds / np.std(clouds), dtype=np.float32)

    def crop(self, name: str, random: np.random.Generator, height: int | None = None) -> Floats:
        """A crop at a random place, float32 (height, size); a view, not to be written to."""
        tall = self.size if height is None else height
        top, left = random.integers(self.size, size=2)
        return self._fields[name][top : top + tall, left : left + self.size]


@cache
def noise(size: int) -> Noise:
    """The fields of an image size; cached, because all images share them."""
    return Noise(size)


def _field(size: int, down: float, across: float, random: np.random.Generator) -> Floats:
    """White noise blurred by a Gaussian on a torus, doubled in both directions."""
    white = np.fft.rfft2(random.standard_normal((size, size)))
    rows, columns = np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None, :]
    kernel = np.exp(-2 * np.pi**2 * ((down * rows) ** 2 + (across * columns) ** 2))
    blurred = np.fft.irfft2(white * kernel, (size, size))
    blurred -= blurred.mean()
    return np.tile((blurred / blurred.std()).astype(np.float32), (2, 2))


Floats = NDArray[np.float32]
Random = np.random.Generator


@dataclass(frozen=True)
class Ground:
    """Region that a texture is painted on: from row ``top`` of a picture of ``size`` pixels a side
    on; the plane of the ground vanishes at ``horizon``.
    """

    size: int
    top: int
    horizon: float
    noise: Noise
    random: Random

    @property
    def height(self) -> int:
        """Rows to paint."""
        return self.size - self.top

    def crop(self, name: str) -> Floats:
        """Noise, float32 (height, size)."""
        return self.noise.crop(name, self.random, self.height)

    def wave(self, name: str, high: float) -> Floats:
        """A line across a field of noise, ``high`` its standard deviation; float32 (size,)."""
        line = self.noise.crop(name, self.random, 1)[0]
        return np.asarray(line * np.float32(high), dtype=np.float32)

    def down(self) -> Floats:
        """0 at the first row, 1 at the bottom; float32 (height, 1)."""
        return np.linspace(0, 1, self.height, dtype=np.float32)[:, None]

    def plane(self) -> tuple[Floats, Floats]:
        """Coordinates on the ground: to the right (height, size), away from the eye (height, 1)."""
        rows = np.arange(self.top, self.size, dtype=np.float32)[:, None]
        away = self.size / np.maximum(rows - np.float32(self.horizon) + 1, 1)
        columns = np.arange(self.size, dtype=np.float32)[None, :] / self.size - np.float32(0.5)
        return columns * away, away

    def uniform(self, low: float, high: float) -> float:
        """One number."""
        return float(self.random.uniform(low, high))


def _rgb(red: float, green: float, blue: float) -> Floats:
    return np.array([red, green, blue], dtype=np.float32)


def _tint(ground: Ground, base: Sequence[float], spread: float = 10) -> Floats:
    """A base color that varies by image, more in brightness than in hue; float32 (3,)."""
    light, hue = ground.random.normal(0, spread), ground.random.normal(0, 0.4 * spread, 3)
    return (np.asarray(base) + light + hue).astype(np.float32)


def _paint(color: Floats, light: Floats) -> Floats:
    """A color times a field of light."""
    return np.asarray(color[None, None, :] * light[:, :, None], dtype=np.float32)


def _between(dark: Floats, bright: Floats, share: Floats) -> Floats:
    """From one color to another."""
    return np.asarray(dark + (bright - dark) * np.clip(share, 0, 1)[:, :, None], dtype=np.float32)


def _sky(g: Ground) -> Floats:
    if g.random.random() < 0.8:
        deep, low = _tint(g, (72, 132, 208), 12), _tint(g, (176, 212, 240), 8)
    else:
        deep, low = _tint(g, (116, 128, 186), 12), _tint(g, (246, 196, 152), 10)
    return _between(deep, low, g.down() ** 0.8 + 0.05 * g.crop("clouds"))


def _clouds(g: Ground) -> Floats:
    gray = g.uniform(150, 205)
    dark = _rgb(gray, gray + 3, gray + 9)
    return _between(dark - 22, _rgb(246, 247, 249), 0.5 + 0.33 * g.crop("clouds") + 0.1 * g.down())


def _mountain(g: Ground) -> Floats:
    gray = g.random.random() < 0.6
    rock = _tint(g, (110, 112, 122), 12) if gray else _tint(g, (126, 108, 90), 10)
    light = 1 + 0.16 * g.crop("blob") + 0.08 * g.crop("grain") - 0.15 * g.down()
    shown = _paint(rock, light)
    height = np.arange(g.height)[:, None] + 0.012 * g.size * g.crop("grain")
    white = height < g.uniform(-0.06, 0.1) * g.size
    shown[white] = shown[white] * 0.25 + _rgb(180, 184, 190)
    return shown


def _tree(g: Ground) -> Floats:
    dark, bright = _tint(g, (28, 60, 26), 6), _tint(g, (96, 138, 58), 14)
    if g.random.random() < 0.15:
        bright = _tint(g, (190, 128, 48), 16)
    return _between(dark, bright, 0.42 + 0.22 * g.crop("blob") + 0.2 * g.crop("grain"))


def _building(g: Ground) -> Floats:
    """A row of houses of several colors with windows, seen from the front."""
    size, shown = g.size, np.empty((g.height, g.size, 3), dtype=np.float32)
    rows = np.arange(g.height)[:, None]
    left = 0
    while left < size:
        right = min(size, left + int(g.uniform(0.2, 0.45) * size))
        wall = _tint(g, choice(g.random, _WALLS), 10)
        wide = max(4, int(g.uniform(0.06, 0.1) * size))
        tall = max(5, int(g.uniform(0.08, 0.12) * size))
        columns = np.arange(right - left)[None, :]
        window = (columns % wide >= wide * 0.35) & (rows % tall >= tall * 0.4)
        lit = g.random.random((g.height // tall + 1, (right - left) // wide + 1)) < 0.15
        lamps = lit[rows // tall, columns // wide][:, :, None]
        glass = np.where(lamps, _rgb(236, 214, 140), _rgb(58, 74, 92))
        shown[:, left:right] = np.where(window[:, :, None], glass, wall)
        shown[:, left : left + 1] *= 0.6
        left = right
    return shown * (1 + 0.05 * g.crop("grain"))[:, :, None]


_WALLS = (
    (168, 92, 72), (198, 180, 150), (150, 152, 158), (184, 150, 110), (122, 116, 120),
    (208, 200, 190),
)  # fmt: skip


def _wall(g: Ground) -> Floats:
    base = _tint(g, choice(g.random, _ROOMS), 8)
    light = 1.02 + 0.05 * g.crop("soft") + 0.012 * g.crop("fine") - 0.08 * g.down()
    if g.random.random() < 0.4:
        stripes = np.arange(g.size) // max(2, int(g.uniform(0.03, 0.07) * g.size)) % 2
        light = light * (1 + 0.06 * stripes[None, :])
    return _paint(base, light.astype(np.float32))


_ROOMS = ((222, 206, 178), (196, 208, 214), (226, 190, 176), (206, 214, 188), (214, 210, 220))


def _floor(g: Ground) -> Floats:
    base = _tint(g, (156, 104, 62), 12)
    right, away = g.plane()
    board = np.floor(right * g.uniform(5, 8))
    light = 0.95 + 0.1 * np.sin(board * 12.9898) + 0.07 * g.crop("waves")
    seam = right * 6.5 - np.floor(right * 6.5) < 0.06 * np.minimum(away, 2)
    return _paint(base, np.where(seam, light * 0.7, light).astype(np.float32))


def _table(g: Ground) -> Floats:
    wooden = g.random.random() < 0.6
    base = _tint(g, (206, 178, 140), 10) if wooden else _tint(g, (226, 224, 218), 6)
    light = 1 + 0.045 * g.crop("ripples") + 0.02 * g.crop("waves") + 0.05 * (g.down() - 0.5)
    return _paint(base, light)


def _road(g: Ground) -> Floats:
    base = _tint(g, (84, 85, 90), 7)
    right, away = g.plane()
    shown = _paint(base, 1 + 0.06 * g.crop("fine") + 0.05 * g.crop("soft"))
    middle, lane = g.uniform(-0.35, 0.35), g.uniform(0.9, 1.3)
    dash = (np.abs(right - middle) < 0.045) & ((away * 2.2 + g.uniform(0, 1)) % 1 < 0.55)
    sides = np.abs(np.abs(right - middle) - lane) < 0.035
    shown[dash | sides] = _rgb(226, 222, 206)
    return shown


def _pavement(g: Ground) -> Floats:
    base = _tint(g, (178, 170, 160), 8)
    right, away = g.plane()
    many, shift = g.uniform(3, 4.5), g.uniform(0, 1)
    x, y = right * many + shift, away * many
    tile = np.floor(x) * 7.13 + np.floor(y) * 3.71
    light = 1 + 0.05 * np.sin(tile * 43.7) + 0.035 * g.crop("fine")
    seam = (x % 1 < 0.07 * np.minimum(away, 2.5)) | (y % 1 < 0.1)
    return _paint(base, np.where(seam, light * 0.78, light).astype(np.float32))


def _grass(g: Ground) -> Floats:
    dark, bright = _tint(g, (52, 92, 34), 8), _tint(g, (134, 168, 66), 10)
    share = 0.45 + 0.2 * g.crop("blades") + 0.14 * g.crop("soft") + 0.2 * (0.5 - g.down())
    shown = _between(dark, bright, share)
    if g.random.random() < 0.35:
        flowers = g.crop("fine") > 3.1
        shown[flowers] = _rgb(244, 232, 130) if g.random.random() < 0.5 else _rgb(240, 236, 240)
    return shown


def _playingfield(g: Ground) -> Floats:
    right, away = g.plane()
    clay = g.random.random() < 0.35
    base = _tint(g, (188, 104, 66), 8) if clay else _tint(g, (48, 150, 74), 8)
    across_mown = g.random.random() < 0.5
    mown = np.floor(away * g.uniform(2.0, 3.0) if across_mown else right * 1.6) % 2
    light = 1 + (0.03 if clay else 0.11) * (mown - 0.5) + 0.03 * g.crop("fine")
    shown = _paint(base, np.broadcast_to(light, (g.height, g.size)).astype(np.float32))
    across, side = g.uniform(1.3, 2.6), g.uniform(-0.6, 0.6)
    lines = (np.abs(away - across) < 0.05 * across) | (np.abs(right - side) < 0.04)
    shown[np.broadcast_to(lines, shown.shape[:2])] = _rgb(240, 242, 238)
    return shown


def _sand(g: Ground) -> Floats:
    base = _tint(g, (224, 198, 150), 8)
    light = 0.97 + 0.06 * g.crop("ripples") + 0.035 * g.crop("fine") + 0.05 * g.crop("soft")
    return _paint(base, light)


def _snow(g: Ground) -> Floats:
    dark, bright = _tint(g, (176, 194, 222), 6), _rgb(244, 247, 252)
    return _between(dark, bright, 0.6 + 0.24 * g.crop("soft") + 0.05 * g.crop("fine"))


def _sea(g: Ground) -> Floats:
    deep, shallow = _tint(g, (24, 84, 128), 10), _tint(g, (66, 150, 176), 12)
    share = 0.28 + 0.4 * g.down() + 0.2 * g.crop("waves") + 0.1 * g.crop("ripples")
    shown = _between(deep, shallow, share)
    foam = g.crop("waves") > g.uniform(2.0, 2.9)
    shown[foam] = shown[foam] * 0.3 + _rgb(158, 164, 168)
    return shown


STUFF: MappingProxyType[str, Callable[[Ground], Floats]] = MappingProxyType(
    {
        "building-other": _building,
        "clouds": _clouds,
        "floor-wood": _floor,
        "grass": _grass,
        "mountain": _mountain,
        "pavement": _pavement,
        "playingfield": _playingfield,
        "road": _road,
        "sand": _sand,
        "sea": _sea,
        "sky-other": _sky,
        "snow": _snow,
        "table": _table,
        "tree": _tree,
        "wall-other": _wall,
    }
)
"""Class -> its texture, float32 (height, size, 3), 0 to 255."""


def _flat(g: Ground) -> Floats:
    return (g.uniform(-0.03, 0.03) * (np.arange(g.size) / g.size - 0.5)).astype(np.float32)


def _rolling(g: Ground) -> Floats:
    return g.wave("soft", 0.025)


def _crowns(g: Ground) -> Floats:
    return g.wave("soft", 0.04) - np.abs(g.wave("blob", 0.035))


def _peaks(g: Ground) -> Floats:
    """Straight slopes between peaks and passes."""
    x = np.sort(g.random.random(7))
    peaks, passes = g.random.uniform(-0.14, -0.04, 7), g.random.uniform(-0.02, 0.05, 7)
    heights = np.where(np.arange(7) % 2, peaks, passes)
    edge = np.interp(np.arange(g.size) / g.size, x, heights)
    return edge.astype(np.float32) + g.wave("grain", 0.006)


def _skyline(g: Ground) -> Floats:
    """Roofs at different heights."""
    houses = np.searchsorted(np.sort(g.random.random(4)), np.arange(g.size) / g.size)
    return g.random.uniform(-0.09, 0.05, 5)[houses].astype(np.float32)


EDGES: MappingProxyType[str, Callable[[Ground], Floats]] = MappingProxyType(
    {
        "building-other": _skyline,
        "grass": _rolling,
        "mountain": _peaks,
        "sand": _rolling,
        "snow": _rolling,
        "tree": _crowns,
    }
)
"""Class -> its upper edge's deviation, float32 (size,), in pictures, negative up; others: flat."""


def edge_of(name: str, ground: Ground) -> Floats:
    """The upper edge of a class, as in ``EDGES``."""
    return EDGES.get(name, _flat)(ground)
