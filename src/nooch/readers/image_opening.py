"""The one way to open an image file: in allowed formats only, never too large to decode."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

from nooch.errors import InputError

__all__ = ["LABEL_MAPS", "PHOTOGRAPHS", "UNREADABLE", "opened_image", "thumbnail"]

PHOTOGRAPHS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
"""Formats of images, as Pillow calls them; those of ``IMAGE_ENDINGS``."""

LABEL_MAPS = ("PNG", "BMP", "TIFF")
"""Formats of label maps."""

UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""Errors of a file that is not such an image, or is damaged."""


@contextmanager
def opened_image(
    source: Path | BinaryIO, formats: tuple[str, ...] = PHOTOGRAPHS
) -> Iterator[Image.Image]:
    """Open an image, whatever its name ends in, as one of some formats.

    Without ``formats`` Pillow would try all that it knows, some by starting another program (EPS:
    Ghostscript).

    Raises:
        UnidentifiedImageError: it has none of the formats.
        DecompressionBombError: it has more pixels than ``PIL.Image.MAX_IMAGE_PIXELS`` (where Pillow
            only warns).
        OSError: it cannot be read. What is damaged may raise any of ``UNREADABLE``, later too.
    """
    with warnings.catch_warnings():
        # an error here, below
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            opened = Image.open(source, formats=formats)
        except UnidentifiedImageError as error:
            raise UnidentifiedImageError(
                f"cannot identify image file as {', '.join(formats)}"
            ) from error
    with opened:
        most = Image.MAX_IMAGE_PIXELS
        if most is not None and opened.width * opened.height > most:
            raise Image.DecompressionBombError(
                f"has {opened.width} x {opened.height} pixels, more than the {most:,} that are"
                " decoded"
            )
        yield opened


def thumbnail(path: Path, longest: int) -> Image.Image:
    """The image in RGB with sides of at most ``longest`` pixels.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with opened_image(path) as image:
            # JPEG files are decoded at a fraction of their size where that is enough
            image.draft("RGB", (longest, longest))
            picture = image.convert("RGB")
    except UNREADABLE as error:
        raise InputError(f"is no image that can be read: {error}", where=path) from error
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return picture
