"""Where context cues lie in an image: a picture for each that is laid over it, shaded with an
outline.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nooch.examples.cue_masks import COLOURS, Masks, outlined
from nooch.examples.thumbnails import Drawn

__all__ = ["draw_shades", "shade_name"]

_LONGEST = 320
_FILL, _EDGE = 96, 255


def shade_name(split: str, row: int, number: int) -> str:
    """Where the picture of a cue lies below the site."""
    return f"pictures/{split}/{row // 1000}/{row}-cue{number}.png"


def draw_shades(
    drawn: Sequence[Drawn], masks: Masks | None, folder: Path
) -> dict[str, dict[int, list[str]]]:
    """Write the pictures of cues of those images that have one; return split -> row -> names of the
    classes, in order.
    """
    found: dict[str, dict[int, list[str]]] = {}
    for one in drawn if masks is not None else ():
        if not one.pictures or masks is None:
            continue
        split, row = one.wanted.split, one.wanted.row
        names = []
        for number, (name, mask) in enumerate(masks(split, row)[: len(COLOURS)]):
            _picture(mask, COLOURS[number]).save(
                folder / shade_name(split, row, number),
                transparency=bytes([0, _FILL, _EDGE]),
                optimize=True,
                bits=2,
            )
            names.append(name)
        if names:
            found.setdefault(split, {})[row] = names
    return found


def _picture(mask: NDArray[np.bool_], colour: tuple[int, int, int]) -> Image.Image:
    """Nothing, inside and edge as a picture of three colours."""
    small = Image.fromarray(mask.astype(np.uint8) * 255)
    small.thumbnail((_LONGEST, _LONGEST), Image.Resampling.BOX)
    inside, deep = outlined(np.asarray(small) > 127)
    made = Image.fromarray(
        np.where(inside, np.where(deep, 1, 2), 0).astype(np.uint8), mode=None
    ).convert("L")
    made = Image.frombytes("P", made.size, made.tobytes())
    made.putpalette([*colour, *colour, *colour])
    return made
