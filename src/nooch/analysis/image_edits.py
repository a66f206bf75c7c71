"""Edits of pixels where a mask is, and patches to compare them with.

Pixels are uint8 (height, width, 3) in the size of a network's input, masks bool (height, width).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

__all__ = ["blurred", "control_patch", "hidden", "mask_of_size"]

Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]

_BLUR = 0.05
"""Standard deviation of the Gaussian, as a share of the longer side."""


def mask_of_size(mask: Mask, size: tuple[int, int]) -> Mask:
    """The mask resized: a pixel is inside where any of it is."""
    whole = Image.fromarray(mask.astype(np.uint8) * 255)
    return np.asarray(whole.resize(size[::-1], Image.Resampling.BOX)) > 0


def hidden(pixels: Pixels, mask: Mask) -> Pixels:
    """The mask filled with the mean color of the pixels outside, of which there must be one."""
    color = pixels[~mask].mean(axis=0).round().astype(np.uint8)
    return np.where(mask[:, :, None], color, pixels)


def blurred(pixels: Pixels, mask: Mask) -> Pixels:
    """The image with a Gaussian blur inside of the mask."""
    blur = ImageFilter.GaussianBlur(_BLUR * max(mask.shape))
    return np.where(mask[:, :, None], np.asarray(Image.fromarray(pixels).filter(blur)), pixels)


def control_patch(mask: Mask, free: Mask, random: np.random.Generator) -> Mask | None:
    """As many free pixels as the mask has, those nearest to a random one; None: there are fewer."""
    places, n = np.argwhere(free), int(mask.sum())
    if len(places) < n:
        return None
    distance = ((places - random.choice(places)) ** 2).sum(axis=1)
    patch = np.zeros_like(mask)
    patch[tuple(places[np.argsort(distance, kind="stable")[:n]].T)] = True
    return patch
