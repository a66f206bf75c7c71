"""Pictures of the images that the site shows: small ones for galleries, larger ones to look at."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from nooch.base.resources import usable_cpus
from nooch.base.shared_types import Progress, no_progress
from nooch.data.readers.image_opening import UNREADABLE, opened_image, rgb_image

__all__ = ["LARGE", "SMALL", "DrawnPicture", "Wanted", "draw_pictures", "picture_name"]

SMALL, LARGE = 160, 640
"""Longest side in pixels. An image that is no larger than SMALL has no second picture."""
_QUALITY = {SMALL: 80, LARGE: 85}


@dataclass(frozen=True)
class Wanted:
    """An image of the site: its split and row, and where its file lies."""

    split: str
    row: int
    path: Path


@dataclass(frozen=True)
class DrawnPicture:
    """How many sizes of an image were written: 0 none (and why), 1 a small picture that is the
    whole image, 2 a small and a large one.
    """

    wanted: Wanted
    sizes: int
    problem: str = ""


def picture_name(split: str, row: int, *, large: bool = False) -> str:
    """Where the picture of an image lies below the site; nothing of it comes from the data."""
    return f"pictures/{split}/{row // 1000}/{row}{'-large' if large else ''}.jpg"


def draw_pictures(
    wanted: Sequence[Wanted], folder: Path, progress: Progress = no_progress
) -> list[DrawnPicture]:
    """Write pictures as JPEG; what cannot be read is reported, not raised.

    Args:
        wanted: images.
        folder: the site.
        progress: called with the step, and how many of how many are done.
    """
    for place in {(folder / picture_name(one.split, one.row)).parent for one in wanted}:
        place.mkdir(parents=True, exist_ok=True)
    drawn = []
    # threads are enough: Pillow decodes, resizes and encodes without holding the interpreter
    with ThreadPoolExecutor(usable_cpus()) as pool:
        for done, picture in enumerate(pool.map(lambda one: _draw(one, folder), wanted), 1):
            drawn.append(picture)
            if done % 50 == 0 or done == len(wanted):
                progress("drawing pictures", done, len(wanted))
    return drawn


def _draw(wanted: Wanted, folder: Path) -> DrawnPicture:
    try:
        with opened_image(wanted.path) as image:
            longest = max(image.size)
        picture = rgb_image(wanted.path, longest=2 * LARGE)
        if longest > SMALL:
            large = picture if longest <= LARGE else picture.copy()
            _save(large, LARGE, folder / picture_name(wanted.split, wanted.row, large=True))
        _save(picture, SMALL, folder / picture_name(wanted.split, wanted.row))
    except UNREADABLE as error:
        return DrawnPicture(wanted, 0, f"{wanted.path.name}: {error}")
    return DrawnPicture(wanted, 2 if longest > SMALL else 1)


def _save(picture: Image.Image, longest: int, path: Path) -> None:
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    picture.save(path, "JPEG", quality=_QUALITY[longest], optimize=True)
