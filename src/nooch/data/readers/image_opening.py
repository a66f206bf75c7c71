"""The one way to open an image file: in allowed formats only, never too large to decode.

And the one way to its pixels: upright, in RGB, on a scale that is the same for all images.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from nooch.base.errors import InputError

__all__ = [
    "LABEL_MAPS", "PHOTOGRAPHS", "UNREADABLE", "UPRIGHT", "is_plain", "opened_image", "orientation",
    "regular_file", "rgb_image", "stored_values", "thumbnail", "upright_size",
]  # fmt: skip

PHOTOGRAPHS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
"""Formats of images, as Pillow calls them; those of ``IMAGE_ENDINGS``."""

LABEL_MAPS = ("PNG", "BMP", "TIFF")
"""Formats of label maps."""

UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""Errors of a file that is not such an image, or is damaged."""

UPRIGHT = "upright"
"""What caches record: the EXIF orientation is applied."""

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_90,
}  # fmt: skip
"""EXIF's orientation -> what makes the picture upright; 1 is upright."""


def regular_file(path: str | Path) -> BinaryIO:
    """A file opened for reading. Raises OSError for a pipe, socket or device, which could wait for
    ever.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - Path has no opener
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError("is not a regular file")
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


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
    if isinstance(source, Path):
        with regular_file(source) as file, opened_image(file, formats) as image:
            yield image
        return
    with warnings.catch_warnings():
        # a bomb is an error here, below; damaged metadata do not matter
        warnings.simplefilter("ignore")
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


def rgb_image(
    source: Path | BinaryIO,
    value_range: tuple[float, float] | None = None,
    longest: int | None = None,
) -> Image.Image:
    """The picture in RGB, upright by its EXIF orientation.

    16 bits become 8 by their high byte, in each image alike: 65535 is 255, and a picture of 8 bits
    times 257 is itself again. A transparent pixel has the color that is stored for it.

    Args:
        source: file.
        value_range: values that become 0 and 255, of single-channel images of 16 and more bits;
            those of 32 bits and of floating-point numbers have no scale of their own.
        longest: pixels of the longer side that are enough: a JPEG may come at half, a quarter or
            an eighth of its size, but not smaller.

    Raises:
        ValueError: 32 bits or floating-point numbers without a range, or not a number; else any of
            ``UNREADABLE``.
    """
    with opened_image(source) as opened:
        turn = _TURNS.get(orientation(opened))
        if longest is not None:
            opened.draft("RGB", (longest, longest))
        # Pillow turns a TIFF while it loads it
        turn = None if opened.format == "TIFF" else turn
        picture = _rgb(opened, value_range)
    return picture if turn is None else picture.transpose(turn)


def _rgb(opened: Image.Image, value_range: tuple[float, float] | None) -> Image.Image:
    values = stored_values(opened)
    if values is None:
        if opened.mode == "P" and "transparency" in opened.info:
            # Pillow asks for this detour and warns without it
            return opened.convert("RGBA").convert("RGB")
        return opened.convert("RGB")
    if value_range is not None:
        low, high = value_range
        if np.isnan(values).any():
            raise ValueError("has pixels that are not a number")
        shares = (np.clip(values.astype(np.float64), low, high) - low) / (high - low)
        return Image.fromarray(np.rint(255 * shares).astype(np.uint8)).convert("RGB")
    if values.dtype != np.uint16:
        kind = "floating-point numbers" if opened.mode == "F" else "integers of 32 bits"
        raise ValueError(
            f"holds {kind} (mode {opened.mode}), which have no scale of their own: give `range`"
            " LOW,HIGH, the values of black and white, or convert it to 8 bits"
        )
    return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")


def stored_values(opened: Image.Image) -> NDArray[Any] | None:
    """Values (height, width) of a single channel of more than 8 bits, uint16 where the scale goes
    to 65535; None for other images.
    """
    if opened.mode not in {"I", "F"} and not opened.mode.startswith("I;16"):
        return None
    values = np.asarray(opened)
    # Pillow scales a PGM by the maximum that it states
    whole = opened.mode.startswith("I;16") or (opened.format == "PPM" and opened.mode == "I")
    return values.astype(np.uint16) if whole else values


def orientation(opened: Image.Image) -> int:
    """EXIF's orientation, 1 to 8; 1, upright, where there is none that can be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = opened.getexif().get(_ORIENTATION, 1)
        except Exception:  # noqa: BLE001 - damaged metadata, on which Pillow fails in many ways
            return 1
    return value if value in _TURNS else 1


def upright_size(opened: Image.Image) -> tuple[int, int]:
    """Width and height of the picture that ``rgb_image`` gives, of an image that is not loaded."""
    width, height = opened.size
    return (height, width) if orientation(opened) >= 5 else (width, height)


def is_plain(opened: Image.Image) -> bool:
    """Whether any program shows the picture that ``rgb_image`` gives: upright, 8 bits a channel."""
    wide = opened.mode in {"I", "F"} or opened.mode.startswith("I;16")
    return not wide and orientation(opened) == 1


def thumbnail(
    path: Path, longest: int, value_range: tuple[float, float] | None = None
) -> Image.Image:
    """The image in RGB, upright, with sides of at most ``longest`` pixels.

    Raises:
        InputError: it cannot be read.
    """
    try:
        picture = rgb_image(path, value_range, longest)
    except UNREADABLE as error:
        raise InputError(f"is no image that can be read: {error}", where=path) from error
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return picture
