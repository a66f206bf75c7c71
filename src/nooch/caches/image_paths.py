"""Paths of a dataset's images: all found before any is opened, none outside their folder."""

from __future__ import annotations

from pathlib import Path

from nooch.data import Dataset
from nooch.errors import InputError
from nooch.readers.image_files import ImageIndex

__all__ = ["image_paths"]


def image_paths(data: Dataset, images: str | Path | None = None) -> list[Path]:
    """The image files of a dataset's rows; links that lead out of the folder count as missing.

    Args:
        data: the dataset.
        images: folder of images, where it is not the one that the dataset records.

    Raises:
        InputError: no image, no folder, or images not below it; several are named at once.
    """
    if not len(data):
        raise InputError("the dataset has no images")
    names = data.images["file_name"].to_list()
    return ImageIndex.of(data, images, "`images`").all_of(
        data.images["image_id"].to_list(), names, "`images`"
    )
