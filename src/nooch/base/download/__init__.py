"""Download collections of files: checked, resumable, and safely unpacked, or not at all."""

from nooch.base.download.catalogue import COLLECTIONS, Collection, Remote, collection
from nooch.base.download.downloads import Downloaded, Obtained, download
from nooch.base.download.http import Patience
from nooch.base.download.zips import unpack

__all__ = [
    "COLLECTIONS", "Collection", "Downloaded", "Obtained", "Patience", "Remote", "collection",
    "download", "unpack",
]  # fmt: skip
