"""Pictures of the images that the site shows: small ones for galleries, larger ones to look at."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from nooch.readers.image_opening import UNREADABLE, opened_image
from nooch.resources import processors
from nooch.shared_types import Progress, no_progress

__all__ = ["LARGE", "SMALL", "Drawn", "Wanted", "draw_pictures", "picture_name"]

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
class Drawn:
    """What came of an image: 0 nothing (and why), 1 a small picture that is the whole image, 2 a
    small and a large one.
    """

    wanted: Wanted
    pictures: int
    problem: str = ""


def picture_name(split: str, row: int, *, large: bool = False) -> str:
    """Where the picture of an image lies below the site; nothing of it comes from the data."""
    return f"pictures/{split}/{row // 1000}/{row}{'-large' if large else ''}.jpg"


def draw_pictures(
    wanted: Sequence[Wanted], folder: Path, progress: Progress = no_progress
) -> list[Drawn]:
    """Write pictures as JPEG; what cannot be read is told, not raised.

    Args:
        wanted: images.
        folder: the site.
        progress: called with what is being done, and how many of how many are done.
    """
    for place in {(folder / picture_name(one.split, one.row)).parent for one in wanted}:
        place.mkdir(parents=True, exist_ok=True)
    found = []
    # Pillow decodes, resizes and encodes without holding the interpreter, so that threads are
    # enough
    with ThreadPoolExecutor(processors()) as pool:
        for done, one in enumerate(pool.map(lambda w: _draw(w, folder), wanted), 1):
            found.append(one)
            if done % 50 == 0 or done == len(wanted):
                progress("drawing pictures", done, len(wanted))
    return found


def _draw(wanted: Wanted, folder: Path) -> Drawn:
    try:
        with opened_image(wanted.path) as image:
            longest = max(image.size)
            # JPEG files are decoded at a fraction of their size where that is enough
            image.draft("RGB", (2 * LARGE, 2 * LARGE))
            picture = image.convert("RGB")
        if longest > SMALL:
            _save(picture, LARGE, folder / picture_name(wanted.split, wanted.row, large=True))
        _save(picture, SMALL, folder / picture_name(wanted.split, wanted.row))
    except UNREADABLE as error:
        return Drawn(wanted, 0, f"{wanted.path.name}: {error}")
    return Drawn(wanted, 2 if longest > SMALL else 1)


def _save(picture: Image.Image, longest: int, path: Path) -> None:
    made = picture.copy()
    made.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    made.save(path, "JPEG", quality=_QUALITY[longest], optimize=True)
