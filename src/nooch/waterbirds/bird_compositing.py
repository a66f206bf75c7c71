"""Birds cut out along their masks and put on other backgrounds: the images of Waterbirds."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image, ImageOps

from nooch.errors import InputError, some_of
from nooch.readers.image_opening import UNREADABLE, opened_image
from nooch.shared_types import Map, StepProgress, no_progress

__all__ = ["Montage", "compose", "compose_all"]

_BATCH = 32
"""Images per job."""


@dataclass(frozen=True)
class Montage:
    """One image to make.

    Attributes:
        bird: photograph of the bird.
        mask: of the bird's size; 0 is background, 255 the bird, values between are blended.
        background: photograph of a place, of any size.
        out: file to write, JPEG or PNG by its ending; its folder exists.
    """

    bird: Path
    mask: Path
    background: Path
    out: Path


def compose(bird: Image.Image, mask: Image.Image, background: Image.Image) -> Image.Image:
    """The bird on the background, RGB, of the bird's size.

    The background is scaled, keeping its aspect, until it just covers the image (Lanczos), and cut
    equally on both sides. A pixel is mask / 255 of the bird and the rest background: the bird's own
    at 255, the background's at 0.

    Raises:
        InputError: a mask of another size, or one that is not on a scale from 0 to 255.
    """
    if mask.size != bird.size:
        sizes = f"{mask.width} x {mask.height} pixels, the image {bird.width} x {bird.height}"
        raise InputError(f"the mask has {sizes}", allowed="a mask of the image's size")
    weights = mask.convert("L")
    if (largest := weights.getextrema()[1]) in {0, 1}:
        problem = f"the largest value of the mask is {largest}"
        raise InputError(problem, allowed="0 (background) to 255 (bird)")
    fitted = ImageOps.fit(background.convert("RGB"), bird.size, Image.Resampling.LANCZOS)
    return Image.composite(bird.convert("RGB"), fitted, weights)


def compose_all(
    montages: Sequence[Montage],
    *,
    quality: int = 95,
    map: Map = builtins.map,
    progress: StepProgress = no_progress,
) -> None:
    """Make and write all images, JPEG files of a quality from 1 to 95.

    Raises:
        InputError: files that cannot be read or do not fit together; several are named at once,
            after all others are written.
    """
    batches = [montages[i : i + _BATCH] for i in range(0, len(montages), _BATCH)]
    compose_batch = partial(_compose_batch, quality=quality)
    broken: list[str] = []
    done = 0
    progress(0, len(montages))
    for batch, failed in zip(batches, map(compose_batch, batches), strict=True):
        broken += failed
        done += len(batch)
        progress(done, len(montages))
    if broken:
        raise InputError(
            f"{len(broken)} of {len(montages)} images cannot be made: {some_of(broken)}",
            allowed="images that Pillow opens, and masks of their size with values from 0 to 255",
            remedy="fix these files, or unpack the archives again",
        )


def _compose_batch(montages: Sequence[Montage], *, quality: int) -> list[str]:
    """Images that could not be made, as ``path: reason``."""
    broken = []
    for montage in montages:
        try:
            with (
                opened_image(montage.bird) as bird,
                opened_image(montage.mask) as mask,
                opened_image(montage.background) as background,
            ):
                image = compose(bird, mask, background)
        except InputError as error:
            broken.append(f"{montage.mask}: {error.problem}")
        except UNREADABLE as error:
            broken.append(f"{montage.bird}, {montage.mask} or {montage.background}: {error}")
        else:
            # colors at full resolution: a bird's edge is sharp
            image.save(montage.out, quality=quality, subsampling=0)
    return broken
