"""Image files -> RGB pixels of one size, by an antialiased bilinear filter; aspects are not kept.

Two ways give the same picture. ``pil`` is Pillow alone. ``fast`` decodes JPEG with simplejpeg
(libjpeg-turbo, as Pillow does: the same pixels) and resizes with torch's vectorized filter, which
rounds a few values to the next number: on COCO's photographs the difference from ``pil`` is at most
2 of 255, on average 0.04. A JPEG that is more than four times as high and as wide as asked for is
reduced while it is decoded, to twice the size asked for at least. What is no JPEG, or one that
simplejpeg refuses, Pillow opens.

Both take the pixels as they are stored, as Pillow does by default: an EXIF orientation is not
applied, nor a color profile.
"""

import importlib.util
import io
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nooch.errors import InputError, MissingExtraError, ParameterError, check_one_of, some_of
from nooch.readers.image_opening import PHOTOGRAPHS, UNREADABLE, opened_image

__all__ = [
    "CODECS", "check_size", "choose_codec", "codec_versions", "decode_images", "refuse_broken",
    "rgb_image", "use_one_thread",
]  # fmt: skip

CODECS = ("auto", "fast", "pil")

# what the fast way needs; the extra "pixels" has both
_NEEDED = ("simplejpeg", "torch")
_JPEG = b"\xff\xd8"
# a reduced JPEG stays this much larger than asked for: then the filter hides the reduction
_GAP = 2
_MOST = 16384


def choose_codec(codec: str = "auto") -> str:
    """``fast`` or ``pil``; auto takes the fast way where its packages are installed.

    Raises:
        ParameterError: no such codec.
        MissingExtraError: ``fast`` was asked for, and one of its packages is not installed.
    """
    check_one_of("codec", codec, CODECS)
    missing = [package for package in _NEEDED if importlib.util.find_spec(package) is None]
    if codec == "fast" and missing:
        raise MissingExtraError(missing[0], "pixels", "decoding images the fast way")
    return "pil" if codec == "pil" or missing else "fast"


def codec_versions(codec: str) -> dict[str, str]:
    """The packages that determine the pixels, and their versions."""
    return {name: version(name) for name in ("pillow", *(_NEEDED if codec == "fast" else ()))}


def check_size(size: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width in pixels from a number or a pair.

    Raises ParameterError where they are not 1 to 16,384.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if not (1 <= height <= _MOST and 1 <= width <= _MOST):
        raise ParameterError(f"size {height} x {width}", allowed=f"1 to {_MOST} pixels")
    return height, width


def decode_images(
    paths: Sequence[str | Path], size: tuple[int, int], codec: str
) -> tuple[NDArray[np.uint8], list[str]]:
    """Pixels of image files, uint8 (n, height, width, 3), and a ``path: reason`` for each failure.

    ``codec`` is ``fast`` or ``pil``, from ``choose_codec``.
    """
    pixels, broken = np.empty((len(paths), *size, 3), np.uint8), []
    for path, out in zip(paths, pixels, strict=True):
        try:
            _decode(Path(path).read_bytes(), out, codec)
        except UNREADABLE as error:
            broken.append(f"{path}: {error}")
    return pixels, broken


def refuse_broken(broken: Sequence[str], hint: str = "") -> None:
    """Raise an InputError that names the images that could not be read, if there are any."""
    if broken:
        raise InputError(
            f"{len(broken)} images cannot be read: {some_of(broken)}",
            allowed=f"whole image files ({', '.join(PHOTOGRAPHS)}) that are not too large",
            remedy=f"fix the files, or import the dataset without them{hint}",
        )


def use_one_thread() -> None:
    """Keep torch to one thread in a worker process: the other CPUs have workers too."""
    import torch

    torch.set_num_threads(1)


def _decode(content: bytes, out: NDArray[np.uint8], codec: str) -> None:
    if codec == "pil":
        size = out.shape[1], out.shape[0]
        out[:] = np.asarray(rgb_image(content).resize(size, Image.Resampling.BILINEAR))
        return
    pixels = _decode_jpeg(content, out.shape) if content.startswith(_JPEG) else None
    _resize(np.array(rgb_image(content)) if pixels is None else pixels, out)


def rgb_image(content: bytes) -> Image.Image:
    """The image in a file's bytes, in RGB. Raises any of ``UNREADABLE``."""
    with opened_image(io.BytesIO(content)) as opened:
        if opened.mode == "P" and "transparency" in opened.info:
            # Pillow asks for this detour and warns without it
            return opened.convert("RGBA").convert("RGB")
        return opened.convert("RGB")


def _decode_jpeg(content: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    """Pixels of a JPEG, or None for Pillow to decide: unusual colors, a broken file, a bomb."""
    import simplejpeg

    try:
        height, width, color_space, _ = simplejpeg.decode_jpeg_header(content)
        if color_space in {"CMYK", "YCCK"} or height * width > (Image.MAX_IMAGE_PIXELS or np.inf):
            return None
        reduced = min(height / shape[0], width / shape[1]) >= 2 * _GAP
        least = {"min_height": _GAP * shape[0], "min_width": _GAP * shape[1]} if reduced else {}
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(content, "RGB", **least)
    except ValueError:
        return None
    return pixels


def _resize(pixels: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Resize (h, w, 3) into ``out`` by Pillow's filter, with the CPU's vector instructions."""
    import torch

    source, target = (torch.from_numpy(a).permute(2, 0, 1)[None] for a in (pixels, out))
    # interpolate calls this operation too, but cannot write into an array
    operation: Any = torch.ops.aten._upsample_bilinear2d_aa.out  # noqa: SLF001
    operation(source, list(out.shape[:2]), align_corners=False, out=target)
