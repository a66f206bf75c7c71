"""Where a dataset's images are: all found before any is opened, none outside the folder of images."""

from __future__ import annotations

from pathlib import Path

from nooch.data import Dataset
from nooch.errors import InputError, some_of
from nooch.readers.image_files import ImageIndex

__all__ = ["image_paths"]


def image_paths(data: Dataset, images: str | Path | None = None) -> list[Path]:
    """The image files in the order of the dataset's rows. Links that lead out of the folder count as missing.

    Args:
        data: the dataset.
        images: folder of images, where it is not the one that the dataset records.

    Raises:
        InputError: no image, no folder of images, or images that are not below it; several are named at once.
    """
    root = images or data.image_root
    if not len(data):
        raise InputError("the dataset has no images")
    if root is None:
        raise InputError(
            "the dataset records no folder of images", remedy="import it with --images DIR, or give --images"
        )
    index = ImageIndex(root)
    names = data.images["file_name"].to_list()
    missing = [
        f"{image_id} ({name or 'no file name'})"
        for image_id, name in zip(data.images["image_id"], names, strict=True)
        if name not in index.paths
    ]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(names)} images are not there: {some_of(missing)}",
            where=index.root,
            allowed="image files below this folder, under the dataset's file names; no links that lead out of it",
            remedy="give the folder that the dataset's file names are relative to with --images",
        )
    return [index.root / name for name in names]
