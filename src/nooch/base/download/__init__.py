"""Download collections of files: checked, resumable, and safely unpacked, or not at all."""

from nooch.base.download.downloads import (
    COLLECTIONS,
    Collection,
    Downloaded,
    Remote,
    coco_images,
    collection,
    download,
)
from nooch.base.http import Patience
from nooch.base.zips import unpack

__all__ = [
    "COLLECTIONS", "Collection", "Downloaded", "Patience", "Remote", "coco_images", "collection",
    "download", "unpack",
]  # fmt: skip
