"""Where context cues lie in an image: an overlay for each, shaded with an outline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nooch.report.images.cue_masks import COLORS, Masks, inner
from nooch.report.images.thumbnails import DrawnPicture

__all__ = ["draw_shades", "shade_name"]

_LONGEST = 320
_FILL, _EDGE = 96, 255


def shade_name(split: str, row: int, number: int) -> str:
    """Where the picture of a cue lies below the site."""
    return f"pictures/{split}/{row // 1000}/{row}-cue{number}.png"


def draw_shades(
    drawn: Sequence[DrawnPicture], masks: Masks | None, folder: Path
) -> dict[str, dict[int, list[str]]]:
    """Write the pictures of the cues of drawn images; return split -> row -> names of classes."""
    shades: dict[str, dict[int, list[str]]] = {}
    for picture in drawn:
        if masks is None or not picture.sizes:
            continue
        split, row = picture.wanted.split, picture.wanted.row
        for number, (name, mask) in enumerate(masks(split, row)[: len(COLORS)]):
            _picture(mask, COLORS[number]).save(
                folder / shade_name(split, row, number),
                transparency=bytes([0, _FILL, _EDGE]),
                optimize=True,
                bits=2,
            )
            shades.setdefault(split, {}).setdefault(row, []).append(name)
    return shades


def _picture(mask: NDArray[np.bool_], color: tuple[int, int, int]) -> Image.Image:
    """Outside, inside and edge as a picture of three colors."""
    small = Image.fromarray(mask.astype(np.uint8) * 255)
    small.thumbnail((_LONGEST, _LONGEST), Image.Resampling.BOX)
    inside = np.asarray(small) > 127
    codes = np.where(inside, np.where(inner(inside), 1, 2), 0).astype(np.uint8)
    picture = Image.frombytes("P", small.size, codes.tobytes())
    picture.putpalette([*color, *color, *color])
    return picture
