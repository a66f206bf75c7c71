"""Image files -> RGB pixels of one size, by an antialiased bilinear filter; aspects are not kept.

Two ways give the same picture. ``pil`` is only Pillow. ``fast`` decodes JPEG with simplejpeg
(libjpeg-turbo, as Pillow does: the same pixels) and resizes with torch's vectorized filter, which
rounds a few values to the next number: on COCO's photographs the difference from ``pil`` is at most
2 of 255, on average 0.04. A JPEG that is more than four times as high and as wide as asked for is
reduced while it is decoded, to twice the size asked for at least. What is not a JPEG, or one that
simplejpeg refuses, Pillow opens.

Both turn a picture upright by its EXIF orientation and take 16 bits by their high byte, see
``nooch.data.readers.image_files``; a color profile is not applied.
"""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nooch.base.errors import (
    InputError,
    MissingExtraError,
    ParameterError,
    as_input_error,
    check_one_of,
    some_of,
    unreadable,
)
from nooch.base.limits import BROKEN_JSON
from nooch.data.readers.image_files import (
    UNREADABLE,
    UPRIGHT,
    check_range,
    opened_image,
    orientation,
    regular_file,
    rgb_image,
    sampled_values,
    upright_size,
)

if TYPE_CHECKING:
    from torch import Tensor

    from nooch.data import Dataset


CODECS = ("auto", "fast", "pil")

# what the fast way needs; the extra "pixels" has both
_NEEDED = ("simplejpeg", "torch")
_JPEG = b"\xff\xd8"
# a reduced JPEG stays this much larger than asked for: then the filter hides the reduction
_GAP = 2
_MOST = 16384
_TWELVE_BITS = 4095


@dataclass(frozen=True)
class Decoding:
    """Decoding of image files to pixels.

    Attributes:
        codec: decoder of images: ``fast`` (pip install 'nooch[pixels]'), ``pil``, or ``auto``.
        range: values that become black and white, of images of 16 bits (by default 0,65535), and of
            32 bits or floating-point numbers, which need it.

    Raises:
        ParameterError: no such codec, or a range that is not two ascending numbers.
        MissingExtraError: as ``choose_codec``.
    """

    codec: str = "auto"
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "codec", choose_codec(self.codec))
        check_range(self.range)

    @classmethod
    def resolve(cls, codec: str | Decoding, data: Dataset | None = None) -> Decoding:
        """Resolve a parameter ``codec``: a name, or this; without a range, with the dataset's."""
        how = codec if isinstance(codec, Decoding) else cls(codec)
        return replace(how, range=data.value_range) if data and how.range is None else how

    def describe(self) -> dict[str, Any]:
        """All that determines the pixels besides their size, for caches to record."""
        packages = ("pillow", *(_NEEDED if self.codec == "fast" else ()))
        versions = {name: version(name) for name in packages}
        ranged = {} if self.range is None else {"range": list(self.range)}
        return {"orientation": UPRIGHT, **ranged, "codec": self.codec, "versions": versions}


def choose_codec(codec: str = "auto") -> str:
    """``fast`` or ``pil``; auto takes the fast way where its packages are installed."""
    check_one_of("codec", codec, CODECS)
    missing = [package for package in _NEEDED if importlib.util.find_spec(package) is None]
    if codec == "fast" and missing:
        raise MissingExtraError(missing[0], "pixels", "decoding images the fast way")
    return "pil" if codec == "pil" or missing else "fast"


def check_size(size: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width in pixels from a number or a pair.

    Raises ParameterError if they are not 1 to 16,384.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if not (1 <= height <= _MOST and 1 <= width <= _MOST):
        raise ParameterError(f"size {height} x {width}", allowed=f"1 to {_MOST} pixels")
    return height, width


def decode_images(
    paths: Sequence[str | Path], size: tuple[int, int], codec: str | Decoding
) -> tuple[NDArray[np.uint8], list[str]]:
    """Pixels of image files, uint8 (n, height, width, 3), and a ``path: reason`` for each failure.

    ``codec`` is a name, or a ``Decoding``.
    """
    how = Decoding.resolve(codec)
    pixels, broken = np.empty((len(paths), *size, 3), np.uint8), []
    for path, out in zip(paths, pixels, strict=True):
        try:
            with regular_file(path) as file:
                _decode(file.read(), out, how)
        except UNREADABLE as error:
            broken.append(f"{path}: {error}")
    return pixels, broken


def decode_whole(path: str | Path, codec: str | Decoding) -> NDArray[np.uint8]:
    """Pixels of an image file in its own size. Raises InputError if it cannot be read."""
    size = 1, 1
    # what cannot be opened cannot be decoded, which is refused then
    with suppress(*UNREADABLE), opened_image(Path(path)) as image:
        size = upright_size(image)[::-1]
    pixels, broken = decode_images([path], size, codec)
    refuse_broken(broken)
    return pixels.reshape(*size, 3)


def dark_notes(paths: Sequence[str | Path], codec: str | Decoding = "auto") -> list[str]:
    """A note where images of 16 bits seem to have 12: among 32 of the files, evenly spaced, some
    have 16 bits and none has a value above 4095.
    """
    if Decoding.resolve(codec).range is not None:
        return []
    dark = []
    for path, values in sampled_values(paths):
        if values.dtype == np.uint16:
            if values.max() > _TWELVE_BITS:
                return []
            dark.append(path)
    if not dark:
        return []
    problem = f"16-bit images such as {dark[0]} have no value above {_TWELVE_BITS}"
    return [f"{problem} (12 bits), so they are nearly black; give `range` 0,{_TWELVE_BITS}"]


def refuse_broken(broken: Sequence[str], hint: str = "") -> None:
    """Raise an InputError that names the images that could not be read, if there are any."""
    if broken:
        problem = f"{len(broken)} images cannot be read: {some_of(broken)}"
        raise InputError(problem, remedy=f"fix the files, or import the dataset without them{hint}")


def use_one_thread() -> None:
    """Keep torch to one thread in a worker process: the other CPUs have workers too."""
    import torch

    torch.set_num_threads(1)


def _decode(content: bytes, out: NDArray[np.uint8], how: Decoding) -> None:
    if how.codec == "pil":
        size = out.shape[1], out.shape[0]
        picture = rgb_image(io.BytesIO(content), how.range)
        out[:] = np.asarray(picture.resize(size, Image.Resampling.BILINEAR))
        return
    pixels = _decode_jpeg(content, out.shape) if content.startswith(_JPEG) else None
    _resize(np.array(rgb_image(io.BytesIO(content), how.range)) if pixels is None else pixels, out)


def _decode_jpeg(content: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    """Pixels of a JPEG, or None for Pillow to decide: unusual colors, one that is to be turned, a
    broken file, a bomb.
    """
    import simplejpeg

    try:
        # a name of the tag is in XMP, which cameras write instead of EXIF at times
        if b"Exif\0" in content or b"Orientation" in content:
            with opened_image(io.BytesIO(content)) as opened:
                if orientation(opened) != 1:
                    return None
        height, width, color_space, _ = simplejpeg.decode_jpeg_header(content)
        if color_space in {"CMYK", "YCCK"} or height * width > (Image.MAX_IMAGE_PIXELS or np.inf):
            return None
        reduced = min(height / shape[0], width / shape[1]) >= 2 * _GAP
        least = {"min_height": _GAP * shape[0], "min_width": _GAP * shape[1]} if reduced else {}
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(content, "RGB", **least)
    except UNREADABLE:
        return None
    return pixels


def _resize(pixels: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Resize (h, w, 3) into ``out`` by Pillow's filter, with the CPU's vector instructions."""
    import torch

    source, target = (torch.from_numpy(a).permute(2, 0, 1)[None] for a in (pixels, out))
    # interpolate calls this operation too, but cannot write into an array
    operation: Any = torch.ops.aten._upsample_bilinear2d_aa.out  # noqa: SLF001
    operation(source, list(out.shape[:2]), align_corners=False, out=target)


PREPROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True)
class Preprocessing:
    """A backbone's input from pixels: ``((flipped) pixel * factor - offset - mean) / std``.

    Attributes:
        size: height and width in pixels that it was trained with.
        factor: what pixels (0 to 255) are multiplied with.
        offset: subtracted before the mean: 1 with ``rescale_offset`` (EfficientNet), else 0.
        mean: of each channel, taken off.
        std: of each channel, divided by.
        flip: whether the channels are in the order blue, green, red.
    """

    size: tuple[int, int] = (224, 224)
    factor: float = 1 / 255
    offset: float = 0.0
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    flip: bool = False

    def unnormalized(self) -> Preprocessing:
        """The same input scaled to 0 up to 1 only, as in the paper's released code."""
        return replace(self, factor=1 / 255, offset=0.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


IMAGENET = Preprocessing()
"""ImageNet's usual scaling, for backbones made only from a configuration."""


@dataclass(frozen=True)
class Inputs:
    """Preprocessing of pixels for a network on a device (``cpu``, ``cuda`` or ``cuda:1``), with the
    channels innermost in memory or not; the ``size`` of ``preprocessing`` is the one asked for.
    """

    preprocessing: Preprocessing
    device: str
    channels_last: bool = False

    def prepare(self, pixels: NDArray[np.uint8] | Tensor) -> Tensor:
        """Input from pixels: uint8 (m, height, width, 3) -> float32 (m, 3, height, width)."""
        import torch

        tensor = torch.as_tensor(pixels).to(self.device, non_blocking=True)
        if self.preprocessing.flip:
            tensor = tensor.flip(-1)
        factor, mean, std = self._scaling
        # step by step as image processors do it: equal to the last bits
        scaled = tensor.float().mul_(factor).sub_(mean).div_(std).permute(0, 3, 1, 2)
        return scaled if self.channels_last else scaled.contiguous()

    @cached_property
    def _scaling(self) -> tuple[float, Tensor, Tensor]:
        import torch

        own = self.preprocessing
        mean = torch.tensor([value + own.offset for value in own.mean], device=self.device)
        return own.factor, mean, torch.tensor(own.std, device=self.device)


@contextmanager
def black_image(
    what: str, size: tuple[int, int], other: str = "model", **place: Any
) -> Iterator[NDArray[np.uint8]]:
    """One black image, uint8 (1, height, width, 3), on which a network is tried without gradients.

    Raises InputError, at ``where`` and with what is ``allowed`` of ``place``: it gives no ``what``.
    """
    import torch

    problem = f"gives no {what} for images of {size[0]} x {size[1]}"
    remedy = f"{{}} as in training, or another {other}"
    with (
        torch.inference_mode(),
        as_input_error(problem, remedy=remedy, give={"size": ...}, **place),
    ):
        yield np.zeros((1, *size, 3), np.uint8)


class _Config(msgspec.Struct):
    """The parts of ``preprocessor_config.json`` that are used."""

    size: int | dict[str, Any] | None = None
    crop_size: int | dict[str, Any] | None = None
    do_center_crop: bool = False
    do_rescale: bool = True
    rescale_factor: float = 1 / 255
    # EfficientNet's: scale to -1 up to 1
    rescale_offset: bool = False
    do_normalize: bool = True
    image_mean: Sequence[float] | None = None
    image_std: Sequence[float] | None = None
    do_flip_channel_order: bool = False


def read_preprocessing(folder: Path) -> Preprocessing | None:
    """Read ``preprocessor_config.json`` of a folder; None if there is no such file. Raises
    InputError: the file cannot be read, or its numbers cannot be used.
    """
    file = folder / PREPROCESSOR
    if not file.is_file():
        return None
    with unreadable(file, "the file of an image processor", (*BROKEN_JSON, OSError)):
        config = msgspec.json.decode(file.read_bytes(), type=_Config)
    crop = _size(config.crop_size) if config.do_center_crop else None
    size = crop or _size(config.size) or IMAGENET.size
    mean, std = config.image_mean or IMAGENET.mean, config.image_std or IMAGENET.std
    preprocessing = Preprocessing(
        size,
        config.rescale_factor if config.do_rescale else 1.0,
        float(config.do_rescale and config.rescale_offset),
        tuple(mean) if config.do_normalize else (0.0, 0.0, 0.0),
        tuple(std) if config.do_normalize else (1.0, 1.0, 1.0),
        config.do_flip_channel_order,
    )
    check_preprocessing(preprocessing, file)
    return preprocessing


def _size(size: int | dict[str, Any] | None) -> tuple[int, int] | None:
    """Height and width from one of the ways in which image processors write a size."""
    if isinstance(size, int):
        return size, size
    edge = (size or {}).get("shortest_edge")
    height, width = (size or {}).get("height", edge), (size or {}).get("width", edge)
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def check_preprocessing(loaded: Preprocessing, where: object) -> None:
    """Raise an InputError, at ``where``, for numbers that cannot be used."""
    numbers = (loaded.factor, *loaded.mean, *loaded.std)
    usable = len(loaded.mean) == len(loaded.std) == 3 and all(map(math.isfinite, numbers))
    if not usable or min(loaded.std) <= 0 or min(loaded.size) < 1:
        problem = f"size {loaded.size}, mean {loaded.mean}, standard deviation {loaded.std}"
        allowed = "a size in pixels, three means, three standard deviations above 0"
        raise InputError(problem, where=where, allowed=allowed)
