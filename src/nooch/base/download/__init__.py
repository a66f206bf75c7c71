"""Download collections of files: checked, resumable, and safely unpacked, or not at all."""

from nooch.base.download.downloads import (
    COLLECTIONS,
    Collection,
    Downloaded,
    Obtained,
    coco_images,
    collection,
    download,
)
from nooch.base.download.http import Patience
from nooch.base.download.one_file import Remote
from nooch.base.download.zips import unpack

__all__ = [
    "COLLECTIONS", "Collection", "Downloaded", "Obtained", "Patience", "Remote",
    "coco_images", "collection", "download", "unpack",
]  # fmt: skip
