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
from nooch.base.download.zips import unpack
from nooch.base.http import Patience

__all__ = [
    "COLLECTIONS", "Collection", "Downloaded", "Patience", "Remote", "coco_images", "collection",
    "download", "unpack",
]  # fmt: skip
