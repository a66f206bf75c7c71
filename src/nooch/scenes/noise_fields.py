"""Noise fields that textures are cut from: made once per image size, from their own seed."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["FIELDS", "Noise", "noise"]

Floats = NDArray[np.float32]

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
