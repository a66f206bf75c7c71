"""Pictures of the images that the site shows: small ones for galleries, larger ones to look at."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image

from nooch.base.calls import Progress, no_progress
from nooch.base.limits import usable_cpus
from nooch.data import Dataset
from nooch.data.readers.image_files import UNREADABLE, ValueRange, is_wide, opened_image, rgb_of
from nooch.evaluation.predictions import positions
from nooch.suites import ChallengeSet, Suite

SMALL, LARGE = 160, 640
"""Longest side in pixels. An image of at most SMALL has no second picture."""
_QUALITY = {SMALL: 80, LARGE: 85}


@dataclass(frozen=True)
class Wanted:
    """An image of the site: its split and row, and where its file lies."""

    split: str
    row: int
    path: Path


@dataclass(frozen=True)
class DrawnPicture:
    """Number of sizes of an image that were written: 0 none (and why), 1 a small picture that is
    the whole image, 2 a small and a large one. ``wide``: values of more than 8 bits are shown.
    """

    wanted: Wanted
    sizes: int
    problem: str = ""
    wide: bool = False


def picture_name(split: str, row: int, *, large: bool = False) -> str:
    """Path of the picture of an image below the site; nothing of it comes from the data."""
    return f"pictures/{split}/{row // 1000}/{row}{'-large' if large else ''}.jpg"


def draw_pictures(
    pictures: Sequence[Wanted],
    folder: Path,
    progress: Progress = no_progress,
    value_range: ValueRange | None = None,
) -> list[DrawnPicture]:
    """Write pictures as JPEG, of wide images with these values as black and white; what cannot be
    read is reported, not raised.
    """
    for place in {
        (folder / picture_name(drawn_picture.split, drawn_picture.row)).parent
        for drawn_picture in pictures
    }:
        place.mkdir(parents=True, exist_ok=True)
    drawn = []
    # threads are enough: Pillow decodes, resizes and encodes without holding the interpreter
    with ThreadPoolExecutor(usable_cpus()) as pool:
        for done, picture in enumerate(
            pool.map(lambda picture: _draw(picture, folder, value_range), pictures), 1
        ):
            drawn.append(picture)
            if done % 50 == 0 or done == len(pictures):
                progress("drawing pictures", done, len(pictures))
    return drawn


def _draw(wanted: Wanted, folder: Path, value_range: ValueRange | None) -> DrawnPicture:
    try:
        with opened_image(wanted.path) as image:
            longest, wide = max(image.size), is_wide(image)
            picture = rgb_of(image, value_range, longest=2 * LARGE)
        if longest > SMALL:
            large = picture if longest <= LARGE else picture.copy()
            _save(large, LARGE, folder / picture_name(wanted.split, wanted.row, large=True))
        _save(picture, SMALL, folder / picture_name(wanted.split, wanted.row))
    except UNREADABLE as error:
        return DrawnPicture(wanted, 0, f"{wanted.path.name}: {error}")
    return DrawnPicture(wanted, 2 if longest > SMALL else 1, wide=wide)


def _save(picture: Image.Image, longest: int, path: Path) -> None:
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    picture.save(path, "JPEG", quality=_QUALITY[longest], optimize=True)


_LONGEST = 2000
_MOST_CAPTIONS = 10


@dataclass(frozen=True, eq=False)
class SplitImages:
    """The images of one split.

    Attributes:
        split: its name.
        ids: Int64 or String, ascending, shape (n,).
        data: the dataset of exactly these images, or None.
    """

    split: str
    ids: pl.Series
    data: Dataset | None = None

    @classmethod
    def from_split(cls, suite: Suite, split: str, data: Dataset | None) -> Self:
        """All images of the split in the dataset; without one, the images of any of the suite's
        sets.
        """
        if data is not None:
            part = data.select(split)
            return cls(split, part.images["image_id"], part)
        return cls(split, suite.image_ids(key for key in suite.keys if key[2] == split))

    def __len__(self) -> int:
        return len(self.ids)

    def spread(self, challenge: ChallengeSet, values: NDArray[Any], rest: Any) -> NDArray[Any]:
        """Values of a set's images over all images of the split, else ``rest``; shape (n,)."""
        wide = np.full(len(self), rest, dtype=values.dtype)
        wide[positions(challenge.image_ids, self.ids)] = values
        return wide

    @cached_property
    def file_names(self) -> list[str | None]:
        """Known names of the image files."""
        if self.data is None:
            return [None] * len(self)
        names: list[str | None] = self.data.images["file_name"].to_list()
        return names

    @cached_property
    def captions(self) -> list[list[str]]:
        """Captions of each image, at most ten, each of at most 2,000 characters."""
        if self.data is None or self.data.captions is None:
            return [[] for _ in self.ids]
        first = pl.col("caption").head(_MOST_CAPTIONS)
        of_images = self.data.captions.group_by("image_id").agg(first)
        ids = pl.DataFrame({"image_id": self.ids})
        listed = ids.join(of_images, on="image_id", how="left", maintain_order="left")["caption"]
        return [[cut_text(text) for text in texts or ()] for texts in listed.to_list()]


def cut_text(text: str) -> str:
    """The first 2,000 characters, and how many there are."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"
